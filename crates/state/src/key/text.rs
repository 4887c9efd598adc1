//! Values of variable length in keys: four small blocks, then large ones, each followed by its
//! length or by a sign that there is another.

use super::check::Damage;

/// What a value begins with if it is null ...
pub(crate) const NULL: u8 = 0;
/// ... if it has no bytes ...
pub(crate) const EMPTY: u8 = 1;
/// ... and if it has blocks.
pub(crate) const FULL: u8 = 2;

const MINI_BLOCK: usize = 8;
const MINI_BLOCKS: usize = 4;
const BLOCK: usize = 32;
const CONTINUES: u8 = 0xFF;

/// Bytes that a value takes.
pub(crate) fn length(value: Option<&str>) -> usize {
    let length = value.map_or(0, str::len);
    match length.checked_sub(MINI_BLOCKS * MINI_BLOCK) {
        None | Some(0) => 1 + length.div_ceil(MINI_BLOCK) * (MINI_BLOCK + 1),
        Some(more) => 1 + MINI_BLOCKS * (MINI_BLOCK + 1) + more.div_ceil(BLOCK) * (BLOCK + 1),
    }
}

/// Writes a value.
pub(crate) fn put(value: Option<&str>, out: &mut Vec<u8>) {
    let Some(value) = value else { return out.push(NULL) };
    if value.is_empty() {
        return out.push(EMPTY);
    }
    out.push(FULL);
    let mut rest = value.as_bytes();
    for number in 0.. {
        let size = if number < MINI_BLOCKS { MINI_BLOCK } else { BLOCK };
        if let Some((block, more)) = rest.split_at_checked(size).filter(|(_, m)| !m.is_empty()) {
            out.extend_from_slice(block);
            out.push(CONTINUES);
            rest = more;
            continue;
        }
        out.extend_from_slice(rest);
        out.resize(out.len() + size - rest.len(), 0);
        return out.push(rest.len() as u8);
    }
}

/// Takes the value that `row` begins with: hands its bytes to `visit` in pieces and returns what
/// follows it.
pub(crate) fn take(row: &[u8], mut visit: impl FnMut(&[u8])) -> Result<&[u8], Damage> {
    let (first, mut rest) = row.split_first().ok_or("it is cut")?;
    match *first {
        NULL | EMPTY => return Ok(rest),
        FULL => {}
        _ => return Err("a sign before a text or binary value is damaged"),
    }
    for number in 0.. {
        let size = if number < MINI_BLOCKS { MINI_BLOCK } else { BLOCK };
        let (block, after) = rest.split_at_checked(size + 1).ok_or("it is cut")?;
        rest = after;
        match block[size] {
            CONTINUES => visit(&block[..size]),
            length @ 1.. if usize::from(length) <= size => {
                visit(&block[..usize::from(length)]);
                return Ok(rest);
            }
            _ => return Err("the length of a block is damaged"),
        }
    }
    Err("it never ends")
}
