//! What survives.

use crate::fault::{CrashAt, Fault, Flaky};
use crate::objects::Objects;
use crate::process::Process;
use bytes::Bytes;
use object_store::path::Path;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The durable objects of a simulated store. Clones are handles on the same disk.
///
/// The methods here look at it and tamper with it from outside, without a step; processes work
/// on it through [`Process`].
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<Objects>>);

impl Disk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Objects) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A process that never fails.
    pub fn process(&self) -> Process {
        Process::new(self.clone(), None, BTreeMap::new(), None)
    }

    /// A process that crashes at the given step, if it gets that far.
    pub fn mortal(&self, crash: impl Into<Option<CrashAt>>) -> Process {
        Process::new(self.clone(), crash.into(), BTreeMap::new(), None)
    }

    /// A process whose call number `step` (from 0) gets `fault` for an answer.
    pub fn faulty(&self, step: u64, fault: Fault) -> Process {
        self.faulty_at([(step, fault)])
    }

    /// A process with a fault at each of these steps.
    pub fn faulty_at(&self, faults: impl IntoIterator<Item = (u64, Fault)>) -> Process {
        Process::new(self.clone(), None, faults.into_iter().collect(), None)
    }

    /// A process with random faults, that may also crash.
    pub fn flaky(&self, flaky: Flaky, crash: impl Into<Option<CrashAt>>) -> Process {
        Process::new(self.clone(), crash.into(), BTreeMap::new(), Some(flaky))
    }

    /// All paths, sorted.
    pub fn paths(&self) -> Vec<String> {
        self.with(|objects| objects.files.keys().map(ToString::to_string).collect())
    }

    /// All paths that start with `prefix`, sorted.
    pub fn paths_under(&self, prefix: &str) -> Vec<String> {
        self.paths().into_iter().filter(|path| path.starts_with(prefix)).collect()
    }

    /// The bytes of an object.
    pub fn read(&self, path: &str) -> Option<Bytes> {
        self.with(|objects| objects.files.get(&Path::from(path)).map(|o| o.bytes.clone()))
    }

    /// Puts an object there, replacing what was there.
    pub fn write(&self, path: &str, bytes: impl Into<Bytes>) {
        self.with(|objects| objects.insert(&Path::from(path), bytes.into(), Default::default()));
    }

    /// Takes an object away; whether there was one.
    pub fn remove(&self, path: &str) -> bool {
        self.with(|objects| objects.files.remove(&Path::from(path)).is_some())
    }

    /// Changes the bytes of an object in place, as a bad disk would: nobody notices, the entity
    /// tag stays.
    ///
    /// # Panics
    ///
    /// If there is no such object: the test is wrong.
    pub fn damage(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        self.with(|objects| {
            let Some(object) = objects.files.get_mut(&Path::from(path)) else {
                panic!("no object {path:?} to damage");
            };
            let mut bytes = object.bytes.to_vec();
            change(&mut bytes);
            object.bytes = bytes.into();
        });
    }

    /// Sets when an object was last modified, in milliseconds since the epoch.
    ///
    /// # Panics
    ///
    /// If there is no such object: the test is wrong.
    pub fn set_modified(&self, path: &str, modified_ms: i64) {
        self.with(|objects| match objects.files.get_mut(&Path::from(path)) {
            Some(object) => object.modified_ms = modified_ms,
            None => panic!("no object {path:?} to date"),
        });
    }

    /// An independent copy: another world that begins here.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.with(|objects| objects.clone()))))
    }

    /// Every path with its bytes: two worlds are equal if this is.
    pub fn contents(&self) -> Vec<(String, Bytes)> {
        self.with(|objects| {
            objects.files.iter().map(|(p, o)| (p.to_string(), o.bytes.clone())).collect()
        })
    }
}
