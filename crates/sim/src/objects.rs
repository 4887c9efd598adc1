//! The objects of a disk and the semantics of each call on them. Synchronous; no faults.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use object_store::path::Path;
use object_store::{
    Attributes, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, ObjectMeta,
    PutMode, PutResult, Result, UpdateVersion,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One object.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) bytes: Bytes,
    attributes: Attributes,
    e_tag: u64,
    pub(crate) modified_ms: i64,
}

/// All objects, by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    pub(crate) files: BTreeMap<Path, Object>,
    /// Rises with every write: entity tags, and the time of modification in milliseconds.
    tick: u64,
}

pub(crate) fn generic(message: impl Into<String>) -> Error {
    Error::Generic { store: "sim", source: message.into().into() }
}

/// What a disk says that has no room left.
pub(crate) fn full(what: &str) -> Error {
    let why = format!("{what}: no space left on the disk");
    let source = std::io::Error::new(std::io::ErrorKind::StorageFull, why);
    Error::Generic { store: "sim", source: source.into() }
}

pub(crate) fn already_exists(path: &Path) -> Error {
    Error::AlreadyExists { path: path.to_string(), source: "the object exists".into() }
}

impl Objects {
    fn object(&self, path: &Path) -> Result<&Object> {
        self.files.get(path).ok_or_else(|| Error::NotFound {
            path: path.to_string(),
            source: "no such object".into(),
        })
    }

    fn meta(path: &Path, object: &Object) -> ObjectMeta {
        ObjectMeta {
            location: path.clone(),
            last_modified: DateTime::<Utc>::from_timestamp_millis(object.modified_ms)
                .unwrap_or_default(),
            size: object.bytes.len() as u64,
            e_tag: Some(object.e_tag.to_string()),
            version: None,
        }
    }

    /// The objects without the one below `prefix` that was written last.
    pub(crate) fn before_the_last_write(&self, prefix: &Path) -> Self {
        let mut earlier = self.clone();
        let below = self.files.iter().filter(|(path, _)| path.prefix_matches(prefix));
        let newest = below.max_by_key(|(_, object)| object.e_tag);
        if let Some((path, _)) = newest {
            earlier.files.remove(path);
        }
        earlier
    }

    pub(crate) fn insert(&mut self, path: &Path, bytes: Bytes, attributes: Attributes) -> u64 {
        self.tick += 1;
        let modified_ms = i64::try_from(self.tick).unwrap_or(i64::MAX);
        let object = Object { bytes, attributes, e_tag: self.tick, modified_ms };
        self.files.insert(path.clone(), object);
        self.tick
    }

    pub(crate) fn put(
        &mut self,
        path: &Path,
        bytes: Bytes,
        attributes: Attributes,
        mode: &PutMode,
    ) -> Result<PutResult> {
        match mode {
            PutMode::Overwrite => {}
            PutMode::Create if self.files.contains_key(path) => return Err(already_exists(path)),
            PutMode::Create => {}
            PutMode::Update(version) => self.check_version(path, version)?,
        }
        let e_tag = self.insert(path, bytes, attributes);
        Ok(PutResult { e_tag: Some(e_tag.to_string()), version: None })
    }

    fn check_version(&self, path: &Path, expected: &UpdateVersion) -> Result<()> {
        let Some(expected) = &expected.e_tag else {
            return Err(generic("an update needs an entity tag"));
        };
        let found = self.files.get(path).map(|object| object.e_tag.to_string());
        if found.as_ref() == Some(expected) {
            return Ok(());
        }
        Err(Error::Precondition {
            path: path.to_string(),
            source: format!("entity tag {found:?} is not {expected:?}").into(),
        })
    }

    pub(crate) fn get(&self, path: &Path, options: &GetOptions) -> Result<GetResult> {
        let object = self.object(path)?;
        let meta = Self::meta(path, object);
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(meta.size).map_err(|e| generic(e.to_string()))?,
            None => 0..meta.size,
        };
        let bytes = if options.head { Bytes::new() } else { slice(&object.bytes, &range) };
        Ok(GetResult {
            payload: GetResultPayload::Stream(Box::pin(futures::stream::iter([Ok(bytes)]))),
            attributes: object.attributes.clone(),
            meta,
            range,
        })
    }

    pub(crate) fn ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let object = self.object(path)?;
        let size = object.bytes.len() as u64;
        let one = |range: &Range<u64>| {
            let range = GetRange::Bounded(range.clone())
                .as_range(size)
                .map_err(|e| generic(e.to_string()))?;
            Ok(slice(&object.bytes, &range))
        };
        ranges.iter().map(one).collect()
    }

    /// As object stores do: deleting what is not there is fine.
    pub(crate) fn delete(&mut self, path: &Path) {
        self.files.remove(path);
    }

    /// The objects below `prefix`, sorted, after `offset` if there is one.
    pub(crate) fn list(&self, prefix: Option<&Path>, offset: Option<&Path>) -> Vec<ObjectMeta> {
        let root = Path::default();
        let prefix = prefix.unwrap_or(&root);
        let below = |path: &Path| {
            path.prefix_match(prefix).is_some_and(|mut rest| rest.next().is_some())
                && offset.is_none_or(|offset| path > offset)
        };
        self.files
            .iter()
            .filter(|(path, _)| below(path))
            .map(|(path, object)| Self::meta(path, object))
            .collect()
    }

    pub(crate) fn list_with_delimiter(&self, prefix: Option<&Path>) -> ListResult {
        let root = Path::default();
        let prefix = prefix.unwrap_or(&root);
        let (mut objects, mut folders) = (Vec::new(), BTreeSet::new());
        for meta in self.list(Some(prefix), None) {
            let Some(mut rest) = meta.location.prefix_match(prefix) else { continue };
            let Some(first) = rest.next() else { continue };
            if rest.next().is_some() {
                folders.insert(prefix.clone().join(first));
            } else {
                drop(rest);
                objects.push(meta);
            }
        }
        ListResult { objects, common_prefixes: folders.into_iter().collect() }
    }

    pub(crate) fn copy(&mut self, from: &Path, to: &Path, mode: &PutMode) -> Result<()> {
        let object = self.object(from)?;
        let (bytes, attributes) = (object.bytes.clone(), object.attributes.clone());
        self.put(to, bytes, attributes, mode).map(drop)
    }
}

fn slice(bytes: &Bytes, range: &Range<u64>) -> Bytes {
    // `as_range` has checked the bounds against the length, which is a `usize`.
    bytes.slice(range.start as usize..range.end as usize)
}
