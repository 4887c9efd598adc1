//! What Auto Loader (`cloudFiles`) has beyond a plain source of files: which files count, and
//! what becomes of a schema that changes.

use super::options::{Clean, archive_in};
use super::place::FilePlace;
use crate::format::unknown::{RESCUED_DATA, Unknown};
use crate::text::timestamp::Reading;
use crate::text::zone::Zone;
use fluvial_core::{Error, Options, ReadLimit, Result};
use std::num::NonZeroU64;
use std::time::Duration;

/// The options of Auto Loader.
#[derive(Debug, Clone)]
pub(crate) struct AutoOptions {
    /// Whether files that are there at the first start are read.
    pub(crate) existing: bool,
    /// A file is read again when it is overwritten.
    pub(crate) overwrites: bool,
    /// Milliseconds since the epoch: only files modified later.
    pub(crate) after: Option<i64>,
    /// Only files modified earlier.
    pub(crate) before: Option<i64>,
    pub(crate) incremental: Incremental,
    /// Whether files are told of, instead of looked for.
    pub(crate) notified: bool,
    /// All files are looked at so often; milliseconds.
    pub(crate) backfill_ms: Option<i64>,
    pub(crate) evolution: Option<Evolution>,
    pub(crate) hints: Option<String>,
    pub(crate) infer_types: bool,
    /// The columns that come from folders; all, unless it is given.
    pub(crate) partitions: Option<Vec<String>>,
    pub(crate) rescued: Option<String>,
    pub(crate) insensitive: bool,
}

/// Whether listings begin after the greatest path that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Incremental {
    #[default]
    Never,
    /// Once files were seen to arrive in the order of their names.
    Auto,
    Always,
}

/// What becomes of columns that the schema has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evolution {
    /// They become columns: the query stops once, for the restart.
    AddNewColumns,
    /// The same, and types become wider where values need it.
    AddAndWiden,
    /// They are rescued.
    Rescue,
    /// The query stops.
    FailOnNewColumns,
    /// They are left out, or rescued if a column is named for that.
    None,
}

impl Evolution {
    /// Whether the schema grows.
    pub(crate) fn grows(self) -> bool {
        matches!(self, Self::AddNewColumns | Self::AddAndWiden)
    }
}

/// The names of the options.
pub(crate) const AUTO_OPTIONS: &[&str] = &[
    "format",
    "includeExistingFiles",
    "allowOverwrites",
    "modifiedAfter",
    "modifiedBefore",
    "useIncrementalListing",
    "schemaLocation",
    "schemaEvolutionMode",
    "schemaHints",
    "inferColumnTypes",
    "partitionColumns",
    "rescuedDataColumn",
    "readerCaseSensitive",
    "useNotifications",
    "backfillInterval",
    "cleanSource.moveDestination",
    "cleanSource.retentionDuration",
];

/// Those of Databricks that are not there yet.
pub(crate) const AUTO_REFUSED: &[&str] = &[
    "useManagedFileEvents",
    "fetchParallelism",
    "pathRewrites",
    "resourceTag",
    "useStrictGlobber",
    "validateOptions",
    "queueUrl",
    "region",
    "resourceGroup",
    "subscriptionId",
    "tenantId",
    "clientId",
    "clientSecret",
    "connectionString",
    "projectId",
    "databricks.serviceCredential",
];

/// How long files are kept unless it is said, and how long at least before they are deleted.
const RETENTION: Duration = Duration::from_secs(30 * 86_400);
const RETENTION_MIN: Duration = Duration::from_secs(7 * 86_400);

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// So many files a batch, unless another limit is given.
const FILES: NonZeroU64 = NonZeroU64::MIN.saturating_add(999);

impl AutoOptions {
    pub(super) fn take(options: &mut Options) -> Result<Self> {
        options.refuse(AUTO_REFUSED)?;
        let time = |options: &mut Options, name| {
            let expected = "a time such as 2026-01-31T12:00:00Z";
            let read = |text: &str| Reading::Instant(Zone::UTC).parse(text.as_bytes());
            Ok::<_, Error>(options.take_with(name, expected, read)?.map(|t| t.div_euclid(1000)))
        };
        let expected =
            "addNewColumns, addNewColumnsWithTypeWidening, rescue, failOnNewColumns or none";
        let evolution = options.take_with("schemaEvolutionMode", expected, |text| {
            Some(match text.to_lowercase().as_str() {
                "addnewcolumns" => Evolution::AddNewColumns,
                "addnewcolumnswithtypewidening" => Evolution::AddAndWiden,
                "rescue" => Evolution::Rescue,
                "failonnewcolumns" => Evolution::FailOnNewColumns,
                "none" => Evolution::None,
                _ => return None,
            })
        })?;
        let incremental =
            options.take_with("useIncrementalListing", "auto, true or false", |text| {
                Some(match text.to_lowercase().as_str() {
                    "auto" => Incremental::Auto,
                    "true" => Incremental::Always,
                    "false" => Incremental::Never,
                    _ => return None,
                })
            })?;
        let partitions = options.take("partitionColumns").map(|text| {
            let names = text.split(',').map(|name| name.trim().to_owned());
            names.filter(|name| !name.is_empty()).collect()
        });
        Ok(Self {
            existing: options.take_bool("includeExistingFiles")?.unwrap_or(true),
            overwrites: options.take_bool("allowOverwrites")?.unwrap_or(false),
            after: time(options, "modifiedAfter")?,
            before: time(options, "modifiedBefore")?,
            incremental: incremental.unwrap_or_default(),
            notified: options.take_bool("useNotifications")?.unwrap_or(false),
            backfill_ms: options
                .take_duration("backfillInterval", Duration::from_millis(1))?
                .map(millis),
            evolution,
            hints: options.take("schemaHints"),
            infer_types: options.take_bool("inferColumnTypes")?.unwrap_or(false),
            partitions,
            rescued: options.take("rescuedDataColumn"),
            insensitive: !options.take_bool("readerCaseSensitive")?.unwrap_or(true),
        })
    }

    /// Both limits hold together.
    pub(super) fn take_limit(options: &mut Options) -> Result<ReadLimit> {
        let files = options.take_positive("maxFilesPerTrigger")?;
        let bytes = options.take_bytes("maxBytesPerTrigger")?;
        Ok(ReadLimit { rows: None, files: Some(files.unwrap_or(FILES)), bytes })
    }

    /// What becomes of files that are done with: `DELETE`, or `MOVE` to another folder.
    pub(super) fn take_clean(options: &mut Options, place: &FilePlace) -> Result<Clean> {
        let folder = options.take("cleanSource.moveDestination");
        let mode = options.take_with("cleanSource", "OFF, DELETE or MOVE", |text| {
            let text = text.to_lowercase();
            matches!(text.as_str(), "off" | "delete" | "move").then_some(text)
        })?;
        match (mode.as_deref(), folder) {
            (Some("delete"), _) => Ok(Clean::Delete),
            (Some("move"), Some(folder)) => archive_in(place.resolve(&folder)?, place),
            (Some("move"), None) => Err(Error::invalid(
                "cleanSource 'move' needs the option 'cleanSource.moveDestination': a folder \
                 outside of the source",
            )
            .with_condition("MISSING_OPTION")),
            _ => Ok(Clean::Off),
        }
    }

    /// How long files are kept that are done with.
    pub(super) fn take_retention(options: &mut Options, clean: &Clean) -> Result<i64> {
        let name = "cleanSource.retentionDuration";
        let kept = options.take_duration(name, Duration::from_millis(1))?;
        if *clean == Clean::Delete && kept.is_some_and(|kept| kept < RETENTION_MIN) {
            return Err(Error::invalid(format!(
                "{name} must be 7 days or more for cleanSource DELETE: what is deleted cannot be \
                 brought back; cleanSource MOVE takes less"
            ))
            .with_condition("INVALID_OPTION_VALUE"));
        }
        Ok(millis(kept.unwrap_or(RETENTION)))
    }

    /// Whether a file of this time counts.
    pub(crate) fn admits(&self, modified: i64) -> bool {
        self.after.is_none_or(|after| modified > after)
            && self.before.is_none_or(|before| modified < before)
    }

    /// What becomes of unknown columns; `given` says that the user gave a whole schema.
    ///
    /// # Errors
    ///
    /// `Invalid` if a whole schema shall evolve.
    pub(crate) fn unknown(&self, given: bool) -> Result<Unknown> {
        if given && self.evolution.is_some_and(Evolution::grows) {
            return Err(Error::invalid(
                "schemaEvolutionMode addNewColumns is for a schema that is inferred: give \
                 schemaHints instead of a schema, or set another mode",
            )
            .with_condition("SCHEMA_EVOLUTION_NOT_ALLOWED"));
        }
        let mode = self.mode(given);
        let inferred = !given && mode != Evolution::None;
        let rescues = self.rescued.is_some() || inferred || mode == Evolution::Rescue;
        let named = || self.rescued.clone().unwrap_or_else(|| RESCUED_DATA.to_owned());
        Ok(Unknown {
            column: rescues.then(named),
            stop: mode.grows() || mode == Evolution::FailOnNewColumns,
        })
    }

    pub(crate) fn mode(&self, given: bool) -> Evolution {
        let default = if given { Evolution::None } else { Evolution::AddNewColumns };
        self.evolution.unwrap_or(default)
    }
}
