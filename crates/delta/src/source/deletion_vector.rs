//! Rows of a file that are not there any more: positions in a compressed bitmap, in a file of
//! its own or in the log.
//!
//! ```text
//!  in a file, at an offset:  size (4, big-endian) | magic (4) | bitmap | CRC-32 (4, big-endian)
//!  in the log, as Z85 text:                         magic (4) | bitmap
//! ```

use arrow::array::{BooleanArray, BooleanBufferBuilder};
use bytes::Bytes;
use deltalake::kernel::{DeletionVectorDescriptor, StorageType};
use deltalake::logstore::ObjectStoreRef;
use fluvial_core::{Error, Result};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use roaring::RoaringTreemap;
use std::ops::Range;
use uuid::Uuid;

const MAGIC: u32 = 1_681_511_377;

/// What stands around the data in a file.
const FRAME_BYTES: u64 = 8;

/// The deleted rows of one file.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// Sorted.
    rows: Vec<u64>,
    /// Where in `rows` the rest of the file begins.
    next: usize,
}

impl Deleted {
    /// Reads what `descriptor` names, for a table whose root is the store's.
    ///
    /// # Errors
    ///
    /// `NotFound` if its file is gone, `Corrupt` if it is not what the log says, `Invalid` for
    /// one outside of the table.
    pub(crate) async fn read(
        descriptor: &DeletionVectorDescriptor,
        store: &ObjectStoreRef,
    ) -> Result<Self> {
        let text = &descriptor.path_or_inline_dv;
        let size =
            u64::try_from(descriptor.size_in_bytes).map_err(|_| corrupt("its size is negative"))?;
        let data = match descriptor.storage_type {
            StorageType::Inline => {
                let bytes = z85(text).ok_or_else(|| corrupt("it is no Z85 text"))?;
                let whole = bytes.len() as u64 >= size;
                whole.then(|| Bytes::from(bytes)).ok_or_else(|| corrupt("it is cut"))?
            }
            StorageType::UuidRelativePath => {
                let path = path(text).ok_or_else(|| corrupt("its file has no name"))?;
                let start = descriptor.offset.map_or(Ok(1), u64::try_from);
                let start = start.map_err(|_| corrupt("its offset is negative"))?;
                let range = start..start + size + FRAME_BYTES;
                let bytes = store.get_range(&path, range).await.map_err(|error| match error {
                    object_store::Error::NotFound { .. } => Error::not_found(format!(
                        "deletion vector {path} is gone, and a version names it: restore it"
                    ))
                    .with_condition("DELTA_FILE_NOT_FOUND_DETAILED"),
                    other => Error::from(other).at(format!("deletion vector {path}")),
                })?;
                unframe(&bytes, size).map_err(|e| e.at(&path))?
            }
            StorageType::AbsolutePath => {
                return Err(Error::invalid(format!(
                    "deletion vector {text} lies outside of the table, which is not supported yet"
                ))
                .with_condition("DELTA_FEATURE_NOT_SUPPORTED"));
            }
        };
        let rows = rows(&data)?;
        if i64::try_from(rows.len()) != Ok(descriptor.cardinality) {
            return Err(corrupt(&format!(
                "it has {} rows, the log says {}",
                rows.len(),
                descriptor.cardinality
            )));
        }
        Ok(Self { rows, next: 0 })
    }

    /// Which rows of a stretch of the file are there. Stretches come in order.
    pub(crate) fn keep(&mut self, stretch: Range<u64>) -> BooleanArray {
        let length = usize::try_from(stretch.end - stretch.start).unwrap_or(usize::MAX);
        let mut keep = BooleanBufferBuilder::new(length);
        keep.append_n(length, true);
        while let Some(row) = self.rows.get(self.next).filter(|row| **row < stretch.end) {
            if let Ok(at) = usize::try_from(row.saturating_sub(stretch.start)) {
                keep.set_bit(at, false);
            }
            self.next += 1;
        }
        BooleanArray::new(keep.finish(), None)
    }
}

fn corrupt(why: &str) -> Error {
    Error::corrupt(format!("a deletion vector is damaged: {why}"))
}

fn unframe(bytes: &Bytes, size: u64) -> Result<Bytes> {
    let number = |at: usize| -> Result<u32> {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        four.map(u32::from_be_bytes).ok_or_else(|| corrupt("it is cut"))
    };
    if u64::from(number(0)?) != size {
        return Err(corrupt("its size is not what the log says"));
    }
    let end = bytes.len() - 4;
    let data = bytes.slice(4..end);
    if number(end)? != crc32fast::hash(&data) {
        return Err(corrupt("its checksum does not fit"));
    }
    Ok(data)
}

fn rows(data: &[u8]) -> Result<Vec<u64>> {
    let Some((magic, bitmap)) = data.split_first_chunk::<4>() else {
        return Err(corrupt("it is cut"));
    };
    if u32::from_le_bytes(*magic) != MAGIC {
        return Err(corrupt("it has no known form"));
    }
    let bitmap = RoaringTreemap::deserialize_from(bitmap)
        .map_err(|e| corrupt("its bitmap cannot be read").with_source(e))?;
    Ok(bitmap.into_iter().collect())
}

/// The file of a vector that is named by a UUID, perhaps in a folder.
fn path(text: &str) -> Option<Path> {
    let (folder, id) = text.split_at_checked(text.len().checked_sub(20)?)?;
    let id = Uuid::from_slice(&z85(id)?).ok()?;
    let name = format!("deletion_vector_{id}.bin");
    Some(if folder.is_empty() { Path::from(name) } else { Path::from(folder).join(name.as_str()) })
}

/// Decodes Z85: five characters are four bytes.
fn z85(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 85] =
        b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    let digit = |c: &u8| DIGITS.iter().position(|d| d == c).and_then(|d| u64::try_from(d).ok());
    let (groups, rest) = text.as_bytes().as_chunks::<5>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(groups.len() * 4);
    for group in groups {
        let number = group.iter().try_fold(0, |sum, c| Some(sum * 85 + digit(c)?))?;
        bytes.extend(u32::try_from(number).ok()?.to_be_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use object_store::memory::InMemory;
    use std::sync::Arc;

    fn data(rows: &[u64]) -> Vec<u8> {
        let mut data = MAGIC.to_le_bytes().to_vec();
        rows.iter().collect::<RoaringTreemap>().serialize_into(&mut data).unwrap();
        data
    }

    #[test]
    fn z85_is_as_the_protocol_has_it() {
        assert_eq!(z85("HelloWorld").unwrap(), [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b]);
        assert_eq!(z85("abcd"), None);
        assert_eq!(z85("#####"), None);
        // The example of the protocol's text.
        let path = path("ab^-aqEH.-t@S}K{vb[*k^").unwrap();
        let name = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin";
        assert_eq!(path.as_ref(), name);
    }

    #[test]
    fn a_vector_in_a_file_is_read_and_checked() {
        let store: ObjectStoreRef = Arc::new(InMemory::new());
        let data = data(&[1, 7, 1 << 33]);
        let mut file = vec![1];
        file.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        file.extend(&data);
        file.extend(crc32fast::hash(&data).to_be_bytes());
        let name = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin";
        let put = |file: Vec<u8>| block_on(store.put(&Path::from(name), file.into())).unwrap();
        let descriptor = DeletionVectorDescriptor {
            storage_type: StorageType::UuidRelativePath,
            path_or_inline_dv: "ab^-aqEH.-t@S}K{vb[*k^".into(),
            offset: Some(1),
            size_in_bytes: i32::try_from(data.len()).unwrap(),
            cardinality: 3,
        };
        let gone = block_on(Deleted::read(&descriptor, &store)).unwrap_err();
        assert_eq!(gone.condition(), Some("DELTA_FILE_NOT_FOUND_DETAILED"));
        put(file.clone());
        assert_eq!(block_on(Deleted::read(&descriptor, &store)).unwrap().rows, [1, 7, 1 << 33]);
        for i in 1..file.len() {
            let mut damaged = file.clone();
            damaged[i] ^= 1;
            put(damaged);
            let error = block_on(Deleted::read(&descriptor, &store)).unwrap_err();
            assert_eq!(error.kind(), fluvial_core::ErrorKind::Corrupt, "byte {i}");
        }
    }

    #[test]
    fn positions_are_those_of_the_file_whatever_the_batches() {
        let all: Vec<bool> = (0..10).map(|row| row != 2 && row != 7).collect();
        for cut in 1..10 {
            let mut deleted = Deleted { rows: vec![2, 7], next: 0 };
            let mut kept: Vec<bool> = Vec::new();
            let mut start = 0;
            while start < 10 {
                let end = (start + cut).min(10);
                kept.extend(deleted.keep(start..end).values().iter());
                start = end;
            }
            assert_eq!(kept, all, "in pieces of {cut}");
        }
    }
}
