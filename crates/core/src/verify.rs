//! Verification of state: every byte that snapshots need is read again and checked.

use crate::error::{Error, ErrorKind, Result};
use crate::state::{KeyRange, Prefetch, Snapshot, StateBackend};
use arrow::array::Array;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// Is told what [`StateBackend::verify`] reads and finds, while it does.
pub trait Verification: Send + Sync {
    /// So many more bytes were read and are whole.
    fn checked(&self, bytes: u64);

    /// Something is damaged, or gone.
    fn damaged(&self, damage: Damage);
}

/// Something that snapshots need and that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The object, by its path in the store; or the state that cannot be read, where a backend
    /// does not say which object it is.
    pub object: String,
    /// Where in the object, if that is known: what was checked as one.
    pub bytes: Option<Range<u64>>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.object)?;
        if let Some(Range { start, end }) = &self.bytes {
            write!(f, ", bytes {start} to {end}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl Damage {
    /// What an error says is damaged or gone.
    ///
    /// # Errors
    ///
    /// The error itself, if it says something else: a store that does not answer is no damage.
    pub fn of(object: impl Into<String>, bytes: Option<Range<u64>>, error: Error) -> Result<Self> {
        match error.kind() {
            ErrorKind::Corrupt | ErrorKind::NotFound => {
                Ok(Self { object: object.into(), bytes, what: error.message().to_owned() })
            }
            _ => Err(error),
        }
    }
}

/// Entries that are read at once.
const PIECE: usize = 8192;

/// What [`StateBackend::verify`] does where a backend has nothing better: it opens each snapshot
/// and reads all of it.
///
/// # Errors
///
/// Those of the backend that are not about damage.
pub async fn verify_by_reading<B: StateBackend + ?Sized>(
    backend: &B,
    snapshots: &[Snapshot],
    report: &dyn Verification,
) -> Result<()> {
    let mut seen = BTreeSet::new();
    for snapshot in snapshots {
        if !seen.insert((&snapshot.id, snapshot.version, snapshot.groups, &snapshot.token)) {
            continue;
        }
        let Snapshot { id, groups, version, .. } = snapshot;
        if let Err(error) = read(backend, snapshot, report).await {
            let what = format!("version {version} of state {id}, key groups {groups}");
            report.damaged(Damage::of(what, None, error)?);
        }
    }
    Ok(())
}

async fn read<B: StateBackend + ?Sized>(
    backend: &B,
    snapshot: &Snapshot,
    report: &dyn Verification,
) -> Result<()> {
    let Snapshot { id, groups, version, rows, .. } = snapshot;
    let parts = std::slice::from_ref(snapshot);
    let mut store = backend.open(id, *groups, *version, parts).await?;
    let mut found = 0;
    for group in groups.groups() {
        let mut range = KeyRange::prefix(&group.prefix());
        store.prefetch(&Prefetch::Ranges(vec![range.clone()])).await?;
        loop {
            let entries = store.scan(&range, PIECE)?;
            let count = entries.keys.len();
            found += count as u64;
            report.checked(
                (entries.keys.value_data().len() + entries.values.value_data().len()) as u64,
            );
            if count < PIECE {
                break;
            }
            range = range.after(entries.keys.value(count - 1));
        }
    }
    if found != *rows {
        return Err(Error::corrupt(format!("it has {found} entries, not {rows}")));
    }
    Ok(())
}
