//! What stateful operators and state backends build on: the key codec, the value codec, and parts of snapshots.
//!
//! A [`KeyCodec`] turns key columns into state keys, and a [`ValueCodec`] turns columns into
//! state values; both work on whole columns and both ways. One key codec is used for hashing,
//! partitioning, storing and ordering, so that a key is always found where it was put.
//!
//! Operators make with them the bytes that a [`fluvial_core::StateStore`] holds. For who makes such a
//! store there are [`Parts`], the snapshots that a range of key groups is opened from, and [`Column`].
//! This crate knows no store itself.
//!
//! ```
//! use arrow::array::{ArrayRef, Int64Array, StringArray};
//! use arrow::datatypes::DataType;
//! use fluvial_core::KeyGroupCount;
//! use fluvial_state::{KeyCodec, KeyLayout, ValueCodec};
//! use std::sync::Arc;
//!
//! let pages: ArrayRef = Arc::new(StringArray::from(vec![Some("/"), None, Some("/a")]));
//! let codec = KeyCodec::new(KeyLayout::Key, vec![DataType::Utf8], KeyGroupCount::DEFAULT)?;
//! let encoded = codec.encode(std::slice::from_ref(&pages), None, 3)?;
//! assert_eq!(&codec.decode(&encoded.keys)?.columns[0], &pages);
//!
//! let counts: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9]));
//! let codec = ValueCodec::new(vec![DataType::Int64])?;
//! let values = codec.encode(std::slice::from_ref(&counts), 3)?;
//! assert_eq!(&codec.decode(&values)?[0], &counts);
//! # Ok::<(), fluvial_core::Error>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod column;
mod key;
mod parts;
mod plain;
#[cfg(test)]
mod testing;
mod value;

pub use column::Column;
pub use key::{DecodedKeys, EncodedKeys, KEY_FORMAT, KeyCodec, KeyLayout};
pub use parts::Parts;
pub use value::{VALUE_FORMAT, ValueCodec, varint};
