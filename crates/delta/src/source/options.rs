//! Options of a Delta source as users write them.

use super::tracking::DeltaTracking;
use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::string_to_datetime;
use fluvial_core::options::Options;
use fluvial_core::{Error, ReadLimit, Result};
use regex::Regex;
use std::num::NonZeroU64;

/// So many files a batch unless the options say otherwise: as in Delta.
const FILES_MAX: NonZeroU64 = NonZeroU64::new(1000).expect("not zero");

const NAMES: &[&str] = &[
    "startingVersion",
    "startingTimestamp",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "ignoreDeletes",
    "ignoreChanges",
    "skipChangeCommits",
    "excludeRegex",
    "failOnDataLoss",
    "readChangeFeed",
    "schemaTrackingLocation",
    "path",
];

/// Where a new query begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeltaStart {
    /// With all rows that the table has, then with what is added.
    #[default]
    Snapshot,
    /// With what this version added.
    Version(u64),
    /// With what comes after the newest version.
    Latest,
    /// With the first version that was committed then or later: milliseconds since the epoch.
    Timestamp(i64),
}

/// What becomes of a version that takes rows away or rewrites files. Streams only add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeltaChanges {
    /// The query stops.
    #[default]
    Refuse,
    /// A version that only takes files away has no rows; other changes stop the query.
    IgnoreDeletes,
    /// Rewritten files are read whole: rows that did not change come again.
    Reread,
    /// A version that takes anything away is left out, with what it adds.
    Skip,
}

/// What a version means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeltaReading {
    /// The rows that it adds.
    #[default]
    Rows,
    /// The rows that it adds and takes away, with `_change_type`, `_commit_version` and
    /// `_commit_timestamp`.
    ChangeFeed,
}

/// What happens when versions were removed from the log before they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeltaLoss {
    /// The query stops.
    #[default]
    Fail,
    /// It goes on with the oldest version that is there.
    GoOn,
}

/// How a table is read as a stream.
#[derive(Debug, Clone, Default)]
pub struct DeltaSourceOptions {
    /// Where a new query begins. A query with a checkpoint goes on where it was.
    pub start: DeltaStart,
    /// How much a batch reads at most.
    pub limit: ReadLimit,
    /// What becomes of versions that do more than add. The change feed has them all.
    pub changes: DeltaChanges,
    /// What a version means.
    pub reading: DeltaReading,
    /// Data files whose path, below the table, matches are left out.
    pub exclude: Option<Regex>,
    /// What happens when versions are missing.
    pub loss: DeltaLoss,
    /// Where the columns are kept that the stream reads with.
    pub tracking: Option<DeltaTracking>,
}

impl DeltaSourceOptions {
    /// Takes the options of Delta's own source. A time without a zone is one of `zone`, such as
    /// `UTC` or `Europe/Berlin`. `path` and `schemaTrackingLocation` must have been taken already.
    ///
    /// # Errors
    ///
    /// `Invalid` for a value or a name that is wrong, or not supported yet.
    pub fn parse(mut options: Options, zone: &str) -> Result<Self> {
        options.refuse(&[
            "withEventTimeOrder",
            "ignoreFileDeletion",
            "endingVersion",
            "endingTimestamp",
            "allowSourceColumnRename",
            "allowSourceColumnDrop",
        ])?;
        let mut feed = options.take_bool("readChangeFeed")?;
        if let Some(old) = options.take_bool("readChangeData")? {
            feed.get_or_insert(old);
        }
        let parsed = Self {
            start: start(&mut options, zone)?,
            limit: limit(&mut options)?,
            changes: changes(&mut options)?,
            reading: match feed {
                Some(true) => DeltaReading::ChangeFeed,
                _ => DeltaReading::Rows,
            },
            exclude: options
                .take_with("excludeRegex", "a regular expression", |text| Regex::new(text).ok())?,
            loss: match options.take_bool("failOnDataLoss")? {
                Some(false) => DeltaLoss::GoOn,
                _ => DeltaLoss::Fail,
            },
            tracking: None,
        };
        options.finish(NAMES)?;
        Ok(parsed)
    }
}

fn start(options: &mut Options, zone: &str) -> Result<DeltaStart> {
    let expected = "the number of a version, or 'latest'";
    let version = options.take_with("startingVersion", expected, |text| {
        if text.eq_ignore_ascii_case("latest") {
            return Some(DeltaStart::Latest);
        }
        text.parse().ok().map(DeltaStart::Version)
    })?;
    let zone: Tz = zone.parse().map_err(|e| {
        Error::invalid(format!("the session's time zone {zone:?} is none")).with_source(e)
    })?;
    let expected = "a time such as '2026-11-30' or '2026-11-30T12:00:00Z'";
    let time = options.take_with("startingTimestamp", expected, |text| {
        let time = string_to_datetime(&zone, text).ok()?;
        Some(DeltaStart::Timestamp(time.timestamp_millis()))
    })?;
    match (version, time) {
        (Some(_), Some(_)) => {
            Err(Error::invalid("startingVersion and startingTimestamp were both set: choose one")
                .with_condition("DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET"))
        }
        (version, time) => Ok(version.or(time).unwrap_or_default()),
    }
}

fn limit(options: &mut Options) -> Result<ReadLimit> {
    let files = options.take_positive("maxFilesPerTrigger")?;
    let bytes = options.take_bytes("maxBytesPerTrigger")?;
    let files = files.or(if bytes.is_none() { Some(FILES_MAX) } else { None });
    Ok(ReadLimit { files, bytes, ..ReadLimit::NONE })
}

/// Of several the one that lets most pass counts, as in Delta.
fn changes(options: &mut Options) -> Result<DeltaChanges> {
    let deletes = options.take_bool("ignoreDeletes")? == Some(true);
    let reread = options.take_bool("ignoreChanges")? == Some(true);
    let skip = options.take_bool("skipChangeCommits")? == Some(true);
    Ok(match (skip, reread, deletes) {
        (true, _, _) => DeltaChanges::Skip,
        (_, true, _) => DeltaChanges::Reread,
        (_, _, true) => DeltaChanges::IgnoreDeletes,
        _ => DeltaChanges::Refuse,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<DeltaSourceOptions> {
        DeltaSourceOptions::parse(Options::new(pairs.to_vec()), "Europe/Berlin")
    }

    #[test]
    fn a_start_is_a_version_or_a_time() {
        let start = |name, text| parse(&[(name, text)]).map(|options| options.start);
        assert_eq!(start("startingVersion", "7").unwrap(), DeltaStart::Version(7));
        assert_eq!(start("STARTINGVERSION", "Latest").unwrap(), DeltaStart::Latest);
        let midnight = DeltaStart::Timestamp(1_795_993_200_000);
        assert_eq!(start("startingTimestamp", "2026-11-30").unwrap(), midnight);
        let zoned = start("startingTimestamp", "2026-11-29T23:00:00.000Z").unwrap();
        assert_eq!(zoned, midnight);
        for (name, bad) in [("startingVersion", "-1"), ("startingTimestamp", "soon")] {
            let error = start(name, bad).unwrap_err();
            assert_eq!(error.condition(), Some("INVALID_OPTION_VALUE"), "{error}");
        }
        let both = parse(&[("startingVersion", "1"), ("startingTimestamp", "2026-11-30")]);
        let condition = both.unwrap_err().condition().map(str::to_owned);
        assert_eq!(condition.as_deref(), Some("DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET"));
    }

    #[test]
    fn a_thousand_files_unless_something_else_is_said() {
        let limit = |pairs: &[(&str, &str)]| parse(pairs).unwrap().limit;
        assert_eq!(limit(&[]).files, NonZeroU64::new(1000));
        let bytes = limit(&[("maxBytesPerTrigger", "10g")]);
        assert_eq!((bytes.files, bytes.bytes), (None, NonZeroU64::new(10 << 30)));
        assert_eq!(limit(&[("maxFilesPerTrigger", "2")]).files, NonZeroU64::new(2));
    }

    #[test]
    fn of_several_rules_the_one_that_lets_most_pass_counts() {
        let rule = |names: &[&str]| {
            let pairs: Vec<_> = names.iter().map(|name| (*name, "true")).collect();
            parse(&pairs).unwrap().changes
        };
        assert_eq!(rule(&[]), DeltaChanges::Refuse);
        assert_eq!(rule(&["ignoreDeletes"]), DeltaChanges::IgnoreDeletes);
        assert_eq!(rule(&["ignoreDeletes", "ignoreChanges"]), DeltaChanges::Reread);
        assert_eq!(rule(&["ignoreChanges", "skipChangeCommits"]), DeltaChanges::Skip);
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let error = parse(&[("startingVersoin", "1")]).unwrap_err();
        assert!(error.message().contains("did you mean 'startingVersion'?"), "{error}");
        let error = parse(&[("withEventTimeOrder", "true")]).unwrap_err();
        assert_eq!(error.condition(), Some("OPTION_NOT_SUPPORTED"));
        assert!(parse(&[("excludeRegex", "(")]).is_err());
    }
}
