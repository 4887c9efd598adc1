//! What several fuzz targets need: bytes as cells of a column, and bytes as a file that is read.

mod cells;
mod file;

pub use cells::cells;
pub use file::{File, is_other_encoding};
