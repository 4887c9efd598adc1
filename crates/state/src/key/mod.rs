//! State keys: key columns as bytes whose order is the order of the columns.

mod check;
mod codec;
mod layout;
#[cfg(test)]
mod tests;

pub use codec::{DecodedKeys, EncodedKeys, KEY_FORMAT, KeyCodec};
pub use layout::KeyLayout;
