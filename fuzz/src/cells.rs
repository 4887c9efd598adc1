//! Bytes as the cells of a column.

/// More cells than this find nothing new.
const CELLS_MAX: usize = 16;

/// Cuts `data` into cells, each with its length in the byte before it. The last one may be
/// shorter than it says, so that every input is some column.
pub fn cells(mut data: &[u8]) -> Vec<&[u8]> {
    let mut cells = Vec::new();
    while let Some((length, rest)) = data.split_first() {
        if cells.len() == CELLS_MAX {
            break;
        }
        let (cell, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        cells.push(cell);
        data = rest;
    }
    cells
}
