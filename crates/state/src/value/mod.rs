//! State values: columns as compact bytes, every bit kept.

mod codec;
mod reader;
mod shape;
#[cfg(test)]
mod tests;
pub mod varint;
mod writer;

pub use codec::{VALUE_FORMAT, ValueCodec};
