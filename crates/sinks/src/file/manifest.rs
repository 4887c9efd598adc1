//! The manifest of a batch: the object whose creation publishes it.

use bytes::Bytes;
use fluvial_core::{BatchId, Error, ErrorKind, Note, Result, frame};
use serde::{Deserialize, Serialize};

/// Kind and version of the frame.
const KIND: (&str, u32) = ("files", 1);

/// One data file of a batch. Paths are relative to the output folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataFile {
    /// Where it was written, invisible.
    pub(crate) staged: String,
    /// Where readers find it.
    pub(crate) path: String,
    /// Bytes.
    pub(crate) size: u64,
    /// CRC-32 of the bytes.
    pub(crate) crc32: u32,
    /// Rows.
    pub(crate) rows: u64,
}

/// What a batch consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    /// The batch.
    pub(crate) batch: BatchId,
    /// The run that published it.
    pub(crate) run: String,
    /// Its files, in partition order.
    pub(crate) files: Vec<DataFile>,
    /// The note, as text if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The note, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note_bytes: Option<Vec<u8>>,
}

impl Manifest {
    pub(crate) fn new(batch: BatchId, run: String, files: Vec<DataFile>, note: &Note) -> Self {
        let (note, note_bytes) = match std::str::from_utf8(&note.0) {
            Ok(text) => (Some(text.to_owned()), None),
            Err(_) => (None, Some(note.0.to_vec())),
        };
        Self { batch, run, files, note, note_bytes }
    }

    pub(crate) fn note(&self) -> Note {
        match (&self.note, &self.note_bytes) {
            (Some(text), _) => Note(text.clone().into()),
            (None, Some(bytes)) => Note(bytes.clone().into()),
            (None, None) => Note(Bytes::new()),
        }
    }

    pub(crate) fn to_bytes(&self) -> Result<Bytes> {
        let body = serde_json::to_vec(self).map_err(|e| {
            Error::invalid(format!("the manifest of batch {} has no JSON: {e}", self.batch))
        })?;
        Ok(frame::seal(KIND.0, KIND.1, &body))
    }

    /// Reads a manifest; `batch` is what its name says.
    ///
    /// # Errors
    ///
    /// `Corrupt` if it is damaged or of another batch; `Invalid` if its format is newer.
    pub(crate) fn parse(batch: BatchId, bytes: &[u8]) -> Result<Self> {
        let place = || format!("the manifest of batch {batch}");
        let body = frame::open(KIND.0, KIND.1, bytes).map_err(|e| damaged(e).at(place()))?;
        let manifest: Self = serde_json::from_slice(body)
            .map_err(|e| damaged(Error::corrupt(format!("{}: {e}", place())).with_source(e)))?;
        if manifest.batch != batch {
            let what = format!("{} is of batch {}", place(), manifest.batch);
            return Err(damaged(Error::corrupt(what)));
        }
        Ok(manifest)
    }
}

/// Names the damage of a record in the output folder; a newer format keeps its name.
pub(crate) fn damaged(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corrupt => error.with_condition("SINK_LOG_CORRUPT"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_with_any_note_and_any_damage_is_seen() {
        for note in [&b"text"[..], b"\xff\x00", b""] {
            let note = Note(note.to_vec().into());
            let file =
                DataFile { staged: "s".into(), path: "p".into(), size: 1, crc32: 2, rows: 3 };
            let manifest = Manifest::new(BatchId(7), "run".into(), vec![file], &note);
            let bytes = manifest.to_bytes().unwrap();
            let back = Manifest::parse(BatchId(7), &bytes).unwrap();
            assert_eq!((back.note(), &back), (note, &manifest));
            assert_eq!(Manifest::parse(BatchId(8), &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
            for i in 0..bytes.len() {
                let mut damaged = bytes.to_vec();
                damaged[i] ^= 1;
                let error = Manifest::parse(BatchId(7), &damaged).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {i}");
            }
        }
    }
}
