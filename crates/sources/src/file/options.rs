//! What a user may say about a file source.

use super::auto::{AUTO_OPTIONS, AutoOptions};
use super::entry::Identity;
use super::glob::Glob;
use super::order::Order;
use super::place::FilePlace;
use fluvial_core::{Error, Options, ReadLimit, Result};
use object_store::path::Path;
use std::time::Duration;

/// The options of all formats.
#[derive(Debug, Clone)]
pub(crate) struct FileOptions {
    pub(crate) limit: ReadLimit,
    pub(crate) order: Order,
    /// Files older than this, counted from the newest file seen, are left out; milliseconds.
    pub(crate) max_age_ms: i64,
    pub(crate) name_filter: Option<Glob>,
    pub(crate) recursive: bool,
    pub(crate) clean: Clean,
    /// Files are cleaned up so long after their batch was planned, at the earliest; milliseconds.
    pub(crate) retention_ms: i64,
    /// Whether the user said so.
    pub(crate) retention_given: bool,
    /// A file that is gone has no rows.
    pub(crate) ignore_missing: bool,
    /// A damaged file has no rows from where the damage begins.
    pub(crate) ignore_corrupt: bool,
    /// Where malformed records are put aside.
    pub(crate) bad_records: Option<String>,
    /// Files of one name are the same, in whatever folder they are.
    pub(crate) name_only: bool,
    /// What Auto Loader has beyond this.
    pub(crate) auto: Option<AutoOptions>,
}

/// What becomes of files that are done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Clean {
    Off,
    Delete,
    /// Moved below this folder, keeping their paths.
    Archive(Path),
}

/// Their names.
pub(crate) const FILE_OPTIONS: &[&str] = &[
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "latestFirst",
    "maxFileAge",
    "pathGlobFilter",
    "recursiveFileLookup",
    "cleanSource",
    "sourceArchiveDir",
    "ignoreMissingFiles",
    "ignoreCorruptFiles",
    "badRecordsPath",
    "fileNameOnly",
];

/// Spark's that we do not have yet.
const REFUSED: &[&str] = &["maxCachedFiles", "discardCachedInputRatio", "basePath"];

const WEEK: Duration = Duration::from_secs(7 * 86_400);

impl FileOptions {
    /// Takes the options of all formats out.
    ///
    /// # Errors
    ///
    /// `Invalid`, naming the option.
    pub(crate) fn take(options: &mut Options, place: &FilePlace) -> Result<Self> {
        for name in ["modifiedBefore", "modifiedAfter"] {
            if options.peek(name).is_some() {
                return Err(Error::invalid(format!(
                    "option '{name}' is not allowed in file stream sources"
                ))
                .with_condition("OPTION_NOT_ALLOWED"));
            }
        }
        let limit = take_limit(options)?;
        let newest_first = options.take_bool("latestFirst")?.unwrap_or(false);
        let order = if newest_first { Order::NewestFirst } else { Order::OldestFirst };
        let max_age = options.take_duration("maxFileAge", Duration::from_millis(1))?;
        // With the newest first and a limit, the age would cut off the backlog: as in Spark.
        let ageless = newest_first && limit != ReadLimit::NONE;
        let max_age = max_age.unwrap_or(WEEK).as_millis();
        let max_age_ms =
            if ageless { i64::MAX } else { i64::try_from(max_age).unwrap_or(i64::MAX) };
        let clean = take_clean(options, place)?;
        let common = Self::take_common(options)?;
        Ok(Self { limit, order, max_age_ms, clean, ..common })
    }

    /// The same for Auto Loader: no age, a limit, and options of its own.
    ///
    /// # Errors
    ///
    /// `Invalid`, naming the option.
    pub(crate) fn take_auto(options: &mut Options, place: &FilePlace) -> Result<Self> {
        options.refuse(&["fileNameOnly", "latestFirst", "maxFileAge"])?;
        let limit = AutoOptions::take_limit(options)?;
        let clean = AutoOptions::take_clean(options, place)?;
        let retention_given = options.peek("cleanSource.retentionDuration").is_some();
        let retention_ms = AutoOptions::take_retention(options, &clean)?;
        let auto = Some(AutoOptions::take(options)?);
        Ok(Self {
            limit,
            clean,
            retention_ms,
            retention_given,
            auto,
            ..Self::take_common(options)?
        })
    }

    fn take_common(options: &mut Options) -> Result<Self> {
        options.refuse(REFUSED)?;
        let name_filter = options.take("pathGlobFilter").map(|text| Glob::parse(&text));
        Ok(Self {
            limit: ReadLimit::NONE,
            order: Order::OldestFirst,
            max_age_ms: i64::MAX,
            name_filter: name_filter.transpose()?,
            recursive: options.take_bool("recursiveFileLookup")?.unwrap_or(false),
            clean: Clean::Off,
            retention_ms: 0,
            retention_given: false,
            ignore_missing: options.take_bool("ignoreMissingFiles")?.unwrap_or(false),
            ignore_corrupt: options.take_bool("ignoreCorruptFiles")?.unwrap_or(false),
            bad_records: options.take("badRecordsPath"),
            name_only: options.take_bool("fileNameOnly")?.unwrap_or(false),
            auto: None,
        })
    }

    /// The names of the options that were looked for.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        match &self.auto {
            None => FILE_OPTIONS.to_vec(),
            Some(_) => {
                let own = |name: &&str| {
                    !matches!(
                        *name,
                        "fileNameOnly" | "latestFirst" | "maxFileAge" | "sourceArchiveDir"
                    )
                };
                FILE_OPTIONS
                    .iter()
                    .copied()
                    .filter(own)
                    .chain(AUTO_OPTIONS.iter().copied())
                    .collect()
            }
        }
    }

    /// Whether a file of this time counts.
    pub(crate) fn admits(&self, modified: i64) -> bool {
        self.auto.as_ref().is_none_or(|auto| auto.admits(modified))
    }

    /// Whether no column comes from folders, whatever they are called.
    pub(crate) fn has_no_partitions(&self) -> bool {
        let wanted = self.auto.as_ref().and_then(|auto| auto.partitions.as_ref());
        wanted.is_some_and(Vec::is_empty)
    }

    /// What makes two files the same.
    pub(crate) fn identity(&self) -> Identity {
        match &self.auto {
            Some(auto) if auto.overwrites => Identity::Version,
            _ if self.name_only => Identity::Name,
            _ => Identity::Path,
        }
    }
}

fn take_limit(options: &mut Options) -> Result<ReadLimit> {
    let files = options.take_positive("maxFilesPerTrigger")?;
    let bytes = options.take_bytes("maxBytesPerTrigger")?;
    if files.is_some() && bytes.is_some() {
        return Err(Error::invalid(
            "the options 'maxFilesPerTrigger' and 'maxBytesPerTrigger' exclude each other: \
             remove one",
        )
        .with_condition("OPTIONS_EXCLUDE_EACH_OTHER"));
    }
    Ok(ReadLimit { rows: None, files, bytes })
}

fn take_clean(options: &mut Options, place: &FilePlace) -> Result<Clean> {
    enum Mode {
        Off,
        Delete,
        Archive,
    }
    let archive = options.take("sourceArchiveDir");
    let mode = options.take_with("cleanSource", "ARCHIVE, DELETE or OFF", |text| {
        match text.to_lowercase().as_str() {
            "off" => Some(Mode::Off),
            "delete" => Some(Mode::Delete),
            "archive" => Some(Mode::Archive),
            _ => None,
        }
    })?;
    match (mode, archive) {
        (Some(Mode::Delete), _) => Ok(Clean::Delete),
        (Some(Mode::Archive), Some(folder)) => archive_in(place.resolve(&folder)?, place),
        (Some(Mode::Archive), None) => Err(Error::invalid(
            "cleanSource 'archive' needs the option 'sourceArchiveDir': a folder outside of the \
             source",
        )
        .with_condition("MISSING_OPTION")),
        _ => Ok(Clean::Off),
    }
}

pub(super) fn archive_in(folder: Path, place: &FilePlace) -> Result<Clean> {
    // Files moved to where the source looks would be read again; files moved to a folder above
    // it could be.
    let inside = folder.prefix_matches(place.root());
    let around = place.root().prefix_matches(&folder) && !place.patterns.is_empty();
    if inside || around {
        return Err(Error::invalid(format!(
            "sourceArchiveDir {} must be outside of the source {place}, or what is archived \
             would be read again",
            place.show(folder.as_ref())
        ))
        .with_condition("ARCHIVE_INSIDE_SOURCE"));
    }
    Ok(Clean::Archive(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use std::sync::Arc;

    fn take(path: &str, pairs: &[(&str, &str)]) -> Result<FileOptions> {
        let place = FilePlace::new(Arc::new(InMemory::new()), "file:///", path)?;
        FileOptions::take(&mut Options::new(pairs.iter().copied()), &place)
    }

    #[test]
    fn mistakes_are_refused_by_name() {
        for (pairs, part) in [
            ([("maxFilesPerTrigger", "10.1")].as_slice(), "must be a positive integer"),
            (&[("maxBytesPerTrigger", "abc")], "maxBytesPerTrigger"),
            (&[("latestFirst", "maybe")], "'true' or 'false'"),
            (&[("cleanSource", "shred")], "ARCHIVE, DELETE or OFF"),
            (&[("cleanSource", "archive")], "sourceArchiveDir"),
            (&[("modifiedAfter", "2026-01-01")], "not allowed in file stream sources"),
            (&[("maxFilesPerTrigger", "1"), ("maxBytesPerTrigger", "1")], "exclude each other"),
            (&[("basePath", "/in")], "not supported yet"),
            (&[("cleanSource", "archive"), ("sourceArchiveDir", "/in/old")], "outside"),
            (&[("cleanSource", "archive"), ("sourceArchiveDir", "/in")], "outside"),
        ] {
            let error = take("in", pairs).unwrap_err();
            assert!(error.message().contains(part), "{error}");
            assert!(error.condition().is_some(), "{error}");
        }
    }

    #[test]
    fn the_age_is_a_week_unless_the_newest_come_first() {
        let age = |pairs| take("in", pairs).unwrap().max_age_ms;
        assert_eq!(age(&[]), 604_800_000);
        assert_eq!(age(&[("maxFileAge", "1m")]), 60_000);
        assert_eq!(age(&[("latestFirst", "true")]), 604_800_000);
        assert_eq!(age(&[("latestFirst", "true"), ("maxFilesPerTrigger", "1")]), i64::MAX);
    }

    /// Trap F3.
    #[test]
    fn archives_are_outside() {
        let archive =
            |path, folder| take(path, &[("cleanSource", "archive"), ("sourceArchiveDir", folder)]);
        assert_eq!(archive("in", "/old").unwrap().clean, Clean::Archive(Path::from("old")));
        assert!(archive("in", "file:///input").is_ok());
        assert!(archive("data/*", "/data").is_err());
        assert!(archive("data/*", "/").is_err());
    }
}
