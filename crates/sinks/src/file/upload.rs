//! Writes one object piece by piece, in parts when it grows.

use fluvial_core::Result;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt};
use std::sync::Arc;

/// Bytes of a part: object stores want at least 5 MiB, except of the last.
const PART_BYTES: usize = 8 << 20;

/// An object that becomes readable when it is finished, whole. Dropped, it leaves at most parts
/// that the store collects.
pub(crate) struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    buffer: Vec<u8>,
    parts: Option<Box<dyn MultipartUpload>>,
    checksum: crc32fast::Hasher,
    size: u64,
}

impl Upload {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, path: Path) -> Self {
        let checksum = crc32fast::Hasher::new();
        Self { store, path, buffer: Vec::new(), parts: None, checksum, size: 0 }
    }

    /// Bytes so far.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Appends.
    pub(crate) async fn write(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.checksum.update(&bytes);
        self.size += bytes.len() as u64;
        if self.buffer.is_empty() {
            self.buffer = bytes;
        } else {
            self.buffer.extend_from_slice(&bytes);
        }
        if self.buffer.len() >= PART_BYTES {
            self.send_part().await?;
        }
        Ok(())
    }

    async fn send_part(&mut self) -> Result<()> {
        let part = std::mem::take(&mut self.buffer);
        let parts = match &mut self.parts {
            Some(parts) => parts,
            None => self.parts.insert(self.store.put_multipart(&self.path).await?),
        };
        // One part at a time: memory stays at one part per open file.
        parts.put_part(part.into()).await?;
        Ok(())
    }

    /// Makes the object durable; its size and CRC-32.
    pub(crate) async fn finish(mut self) -> Result<(u64, u32)> {
        if self.parts.is_some() && !self.buffer.is_empty() {
            self.send_part().await?;
        }
        match &mut self.parts {
            Some(parts) => parts.complete().await.map(drop)?,
            None => self.store.put(&self.path, self.buffer.into()).await.map(drop)?,
        }
        Ok((self.size, self.checksum.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use object_store::memory::InMemory;

    #[test]
    fn large_objects_go_in_parts_and_come_back_whole() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        for pieces in [0, 1, 3, 9] {
            let path = Path::from(format!("o{pieces}"));
            let expected: Vec<u8> = (0..pieces).flat_map(|i| vec![i as u8; 3 << 20]).collect();
            let (size, crc32) = block_on(async {
                let mut upload = Upload::new(store.clone(), path.clone());
                for piece in expected.chunks(3 << 20) {
                    upload.write(piece.to_vec()).await.unwrap();
                }
                upload.finish().await.unwrap()
            });
            let found = block_on(async { store.get(&path).await.unwrap().bytes().await.unwrap() });
            assert!(found == expected, "{pieces} pieces");
            assert_eq!((size, crc32), (found.len() as u64, crc32fast::hash(&found)));
        }
    }
}
