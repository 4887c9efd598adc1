//! State keys: key columns as bytes whose order is the order of the columns.

mod buffer;
mod check;
mod codec;
mod direct;
mod layout;
#[cfg(test)]
mod tests;
mod text;

pub use codec::{DecodedKeys, EncodedKeys, KEY_FORMAT, KeyCodec};
pub use layout::KeyLayout;
