//! Where the files are: a folder of a store, or a pattern for folders and files.

use super::glob::{Glob, is_pattern};
use super::names::ListNames;
use fluvial_core::{Error, Result};
use object_store::ObjectStore;
use object_store::path::Path;
use std::fmt;
use std::sync::Arc;

/// A folder, or a pattern that stands for files and folders, in a store.
#[derive(Clone)]
pub struct FilePlace {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The URL of the store's root, ending in `/`.
    base: String,
    /// As given, below the store's root.
    text: String,
    /// The folder above the first pattern.
    pub(crate) root: Path,
    /// The patterns below it, one a level; empty for a plain folder.
    pub(crate) patterns: Vec<Glob>,
    /// Names without files, if the store can give them.
    pub(crate) names: Option<Arc<dyn ListNames>>,
}

impl FilePlace {
    /// The folder or pattern `path` (`landing`, `landing/*/*`) of a store. `base` is the URL of
    /// the store's root: `file:///` or `s3://bucket/`.
    ///
    /// # Errors
    ///
    /// `Invalid` if a pattern is malformed or a segment is `.` or `..`.
    pub fn new(store: Arc<dyn ObjectStore>, base: &str, path: &str) -> Result<Self> {
        let text = path.trim_matches('/').to_owned();
        let segments: Vec<&str> = text.split('/').filter(|s| !s.is_empty()).collect();
        let plain = segments.iter().take_while(|s| !is_pattern(s)).count();
        let root = parse_path(&segments[..plain].join("/"))?;
        let patterns = segments[plain..].iter().map(|s| Glob::parse(s)).collect::<Result<_>>()?;
        let base = match base.trim_end_matches('/') {
            // `file:///`: no host, so the third slash is the root.
            scheme if scheme.ends_with(':') => format!("{scheme}///"),
            host => format!("{host}/"),
        };
        Ok(Self { store, base, text, root, patterns, names: None })
    }

    /// Lists names first, and asks the store only for files whose names are new: for stores in
    /// which the size and the time of a file cost a request, such as a local folder.
    #[must_use]
    pub fn with_names(mut self, names: Arc<dyn ListNames>) -> Self {
        self.names = Some(names);
        self
    }

    /// The folder above the first pattern: what must exist.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The URL of a path of this store, for people.
    pub(crate) fn show(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The URL of a path of this store, escaped.
    pub(crate) fn url(&self, path: &str) -> String {
        let mut url = self.base.clone();
        for byte in path.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => url.push(char::from(byte)),
                b'-' | b'.' | b'_' | b'~' | b'/' | b'=' | b'+' | b'@' | b',' | b'!' | b'$'
                | b'&' | b'\'' | b'(' | b')' | b'*' | b';' | b':' => url.push(char::from(byte)),
                _ => {
                    const HEX: &[u8; 16] = b"0123456789ABCDEF";
                    url.push('%');
                    url.push(char::from(HEX[usize::from(byte >> 4)]));
                    url.push(char::from(HEX[usize::from(byte & 15)]));
                }
            }
        }
        url
    }

    /// The path below the store's root that an absolute path or URL means.
    pub(crate) fn resolve(&self, location: &str) -> Result<Path> {
        let path = match location.strip_prefix(&self.base) {
            Some(path) => path,
            None if location.contains("://") => {
                return Err(Error::invalid(format!(
                    "{location} is in another store than {}",
                    self.base
                )));
            }
            None => location.strip_prefix("file:").unwrap_or(location),
        };
        parse_path(path.trim_matches('/'))
    }
}

/// A path of a store from its text, unescaped.
pub(crate) fn parse_path(text: &str) -> Result<Path> {
    Path::parse(text).map_err(|e| {
        // The library's words have the name as it is, over several lines.
        Error::invalid(format!(
            "{text:?} cannot be the path of an object: rename it (no control characters, no `.` \
             or `..` between slashes), or leave it out with pathGlobFilter"
        ))
        .with_condition("PATH_NOT_READABLE")
        .with_source(std::io::Error::other(format!("{:?}", e.to_string())))
    })
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.base, self.text)
    }
}

impl fmt::Debug for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilePlace({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    fn place(base: &str, path: &str) -> FilePlace {
        FilePlace::new(Arc::new(InMemory::new()), base, path).unwrap()
    }

    #[test]
    fn a_pattern_begins_at_its_first_sign() {
        let place = place("file:///", "/data/in/*/x?");
        assert_eq!(place.root.as_ref(), "data/in");
        assert_eq!(place.patterns.len(), 2);
        assert_eq!(place.to_string(), "file:///data/in/*/x?");
    }

    #[test]
    fn urls_are_escaped() {
        let place = place("s3://b", "in");
        assert_eq!(place.url("in/x %20+é.json"), "s3://b/in/x%20%2520+%C3%A9.json");
        assert_eq!(place.show("in/a b"), "s3://b/in/a b");
    }

    #[test]
    fn a_name_that_no_object_has_is_said_in_one_line() {
        let error = parse_path("in/a\nb").unwrap_err();
        assert_eq!(error.condition(), Some("PATH_NOT_READABLE"));
        assert!(error.message().starts_with(r#""in/a\nb" cannot be"#), "{error}");
        assert!(!error.message().contains('\n') && error.message().contains("pathGlobFilter"));
    }

    #[test]
    fn locations_are_paths_or_urls_of_the_same_store() {
        let place = place("file:///", "in");
        for text in ["/old", "file:///old", "file:/old", "old/"] {
            assert_eq!(place.resolve(text).unwrap().as_ref(), "old", "{text}");
        }
        assert!(place.resolve("s3://b/old").is_err());
    }
}
