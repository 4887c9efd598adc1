//! Describing and opening a file source.

mod columns;

use super::auto::{AutoOptions, Evolution};
use super::backlog::Backlog;
use super::bad_records::{BAD_RECORD, BadRecords};
use super::clean::Cleaned;
use super::ledger::Ledger;
use super::memory::Memory;
use super::notify::FileNotifications;
use super::options::{Clean, FileOptions};
use super::place::FilePlace;
use super::read::FileReader;
use super::schema_log::SchemaLog;
use super::{FileSource, Inner, listing, names, partition};
use crate::format::{FileDecoder, FileFormat};
use crate::text::pattern::Times;
use crate::text::zone::Zone;
use arrow::datatypes::{DataType, Field, Fields, Schema};
pub(super) use columns::nullable;
use columns::{Known, chosen};
use fluvial_core::{Clock, Error, NameCase, Options, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::fmt;
use std::sync::{Arc, Mutex};

/// Describes a file source.
///
/// A schema is needed, or [`FileSourceBuilder::infer_schema`]; so is [`FileSourceBuilder::log`].
pub struct FileSourceBuilder {
    place: FilePlace,
    format: FileFormat,
    schema: Option<Schema>,
    infer: bool,
    options: Options,
    log: Option<(Arc<dyn ObjectStore>, Path)>,
    metadata: bool,
    numbered: bool,
    case: NameCase,
    auto: bool,
    versions: Option<(Arc<dyn ObjectStore>, Path)>,
    clock: Option<Arc<dyn Clock>>,
    notifications: Option<Arc<dyn FileNotifications>>,
}

impl fmt::Debug for FileSourceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FileSourceBuilder");
        shown.field("place", &self.place).field("format", &self.format);
        shown.field("options", &self.options).finish_non_exhaustive()
    }
}

impl FileSourceBuilder {
    pub(super) fn new(place: FilePlace, format: FileFormat) -> Self {
        let (schema, options, log) = (None, Options::default(), None);
        let (infer, metadata, numbered) = (false, false, false);
        let case = NameCase::default();
        let (auto, versions, clock, notifications) = (false, None, None, None);
        Self {
            place,
            format,
            schema,
            infer,
            options,
            log,
            metadata,
            numbered,
            case,
            auto,
            versions,
            clock,
            notifications,
        }
    }

    /// The columns of the files, and of the `k=v` folders they are in. All become nullable.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Without a schema, takes one from the files that are there when the source is opened.
    #[must_use]
    pub fn infer_schema(mut self) -> Self {
        self.infer = true;
        self
    }

    /// Options of the source and of the format.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Where the source writes which files a batch takes: a folder of the query's checkpoint,
    /// of its own.
    #[must_use]
    pub fn log(mut self, store: Arc<dyn ObjectStore>, folder: Path) -> Self {
        self.log = Some((store, folder));
        self
    }

    /// Whether names of columns that differ in case only are the same.
    #[must_use]
    pub fn name_case(mut self, case: NameCase) -> Self {
        self.case = case;
        self
    }

    /// Adds the column `_metadata`: the path, name, size and time of each row's file.
    #[must_use]
    pub fn with_metadata_column(mut self) -> Self {
        self.metadata = true;
        self
    }

    /// Adds `row_index` to the column `_metadata` of Parquet: the number of the row in its file.
    #[must_use]
    pub fn with_row_index(mut self) -> Self {
        self.numbered = true;
        self
    }

    /// Makes it an Auto Loader: it has the options of `cloudFiles`, without that prefix.
    #[must_use]
    pub fn auto_loader(mut self) -> Self {
        self.auto = true;
        self
    }

    /// Where an Auto Loader keeps the versions of an inferred schema (`schemaLocation`): a folder
    /// of its own.
    #[must_use]
    pub fn schema_versions(mut self, store: Arc<dyn ObjectStore>, folder: Path) -> Self {
        self.versions = Some((store, folder));
        self
    }

    /// The clock of `backfillInterval` and `cleanSource.retentionDuration`.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Who tells of new files, for `useNotifications`.
    #[must_use]
    pub fn notifications(mut self, notifications: Arc<dyn FileNotifications>) -> Self {
        self.notifications = Some(notifications);
        self
    }

    /// Opens the source: checks the options, and looks at the files for columns that come from
    /// folders.
    ///
    /// # Errors
    ///
    /// `Invalid` if an option or the schema is wrong, or those of the store.
    pub async fn open(mut self) -> Result<FileSource> {
        if self.format != FileFormat::Csv {
            self.options.refuse(&["mergeSchema"])?;
        }
        let options = if self.auto {
            // The place is given apart.
            self.options.take("schemaLocation");
            let mut options = FileOptions::take_auto(&mut self.options, &self.place)?;
            if self.clock.is_none() && !options.retention_given {
                // Whoever has no time keeps nothing for a time.
                options.retention_ms = 0;
            }
            options
        } else {
            FileOptions::take(&mut self.options, &self.place)?
        };
        if options.auto.as_ref().is_some_and(|auto| auto.infer_types)
            && self.format == FileFormat::Csv
        {
            self.options.set("inferSchema", "true");
        }
        let mut decoder = FileDecoder::take(self.format, &mut self.options, self.case)?;
        let bad_records = match options.bad_records.as_deref() {
            Some(folder) => {
                decoder.set_bad_records(BAD_RECORD)?;
                Some(BadRecords::new(&self.place, folder)?)
            }
            None => None,
        };
        let zone = match &decoder {
            FileDecoder::Json(..) | FileDecoder::Csv(..) => decoder.times().zone,
            FileDecoder::Columns(_) | FileDecoder::Text(..) => Zone::take(&mut self.options)?,
        };
        let known = [options.names(), decoder.option_names(), vec!["timeZone"]].concat();
        std::mem::take(&mut self.options).finish(&known)?;
        let notifications = self.checked_notifications(&options)?;
        let given = self.schema.is_some() && self.versions.is_none();
        let unknown = match &options.auto {
            Some(auto) => self.set_unknown(auto, given, &mut decoder)?,
            None => None,
        };
        let Some((store, folder)) = self.log.take() else {
            return Err(Error::invalid("a file source needs a folder for its log"));
        };
        let versions = self.versions.take().map(|(store, folder)| SchemaLog::new(store, &folder));
        let newest = match &versions {
            Some(log) => log.newest().await?,
            None => None,
        };
        // Behind a pattern, and in folders that are read for the files in them, `k=v` is a name.
        let folders = self.place.patterns.is_empty() && !options.recursive;
        let partitions = match &newest {
            Some(version) => Some(version.partitions.clone()),
            None if !folders || options.has_no_partitions() => Some(Vec::new()),
            None => None,
        };
        // Folders with a million files are looked through only for what nobody knows.
        let infers = self.schema.is_none() && newest.is_none();
        let files = if infers { listing::list(&self.place, &options).await? } else { Vec::new() };
        let mut paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        if !infers && partitions.is_none() {
            paths = paths_of(&self.place, &options).await?;
        }
        if folders && (infers || partitions.is_none()) && paths.is_empty() {
            refuse_single_file(&self.place).await?;
        }
        let partitions = partitions.unwrap_or_else(|| {
            let paths = paths.iter().map(String::as_str);
            partition::infer(self.place.root().as_ref(), paths)
        });
        let known = Known { versions, newest, partitions: &partitions, given };
        let (mut data, evolve) = self.data_schema(&options, &decoder, &files, known).await?;
        let partitions = chosen(partitions, options.auto.as_ref());
        if let Some(column) = unknown.as_ref().filter(|name| data.field_with_name(name).is_err()) {
            let rescued = Arc::new(Field::new(column.clone(), DataType::Utf8, true));
            let fields = data.fields().iter().cloned().chain([rescued]);
            data = Schema::new(fields.collect::<Fields>());
        }
        let schema = self.whole_schema(&data, &partitions, &decoder)?;
        let rescued = unknown.and_then(|name| schema.index_of(&name).ok());
        let numbered = self.numbered && decoder.has_row_numbers();
        let reader = FileReader {
            place: self.place,
            decoder,
            schema: Arc::new(schema),
            partitions: partitions.iter().map(|field| field.name().clone()).collect(),
            ignore_missing: options.ignore_missing,
            ignore_corrupt: options.ignore_corrupt,
            skip_changed: options.auto.as_ref().is_some_and(|auto| auto.overwrites),
            bad_records,
            numbered,
            folder_times: Times::plain(zone),
        };
        let inner = Inner {
            reader,
            ledger: Ledger::new(store, folder, options.identity()),
            memory: Mutex::new(Memory::new(options.identity())),
            cleaned: Mutex::new(Cleaned::nothing()),
            tail: Mutex::default(),
            evolve,
            rescued,
        };
        let family = if self.auto { "cloudFiles" } else { "file" };
        let kind = format!("{family}/{}", self.format);
        Ok(FileSource {
            format: self.format,
            kind,
            options,
            clock: self.clock,
            notifications,
            backlog: Mutex::new(Backlog::default()),
            inner: Arc::new(inner),
        })
    }

    /// Who tells of new files, if that is asked for.
    fn checked_notifications(
        &self,
        options: &FileOptions,
    ) -> Result<Option<Arc<dyn FileNotifications>>> {
        let Some(auto) = &options.auto else { return Ok(None) };
        let waits =
            auto.backfill_ms.is_some() || (options.clean != Clean::Off && options.retention_ms > 0);
        if waits && self.clock.is_none() {
            return Err(Error::invalid(
                "backfillInterval and cleanSource.retentionDuration need a clock: give one to the \
                 builder of the source",
            ));
        }
        if !auto.notified {
            return Ok(None);
        }
        let Some(notifications) = &self.notifications else {
            return Err(Error::invalid(format!(
                "useNotifications needs somebody who tells of new files in {}: give the session \
                 a FileNotifications for it, or leave the option out and have folders listed",
                self.place
            ))
            .with_condition("NOTIFICATIONS_NOT_AVAILABLE"));
        };
        Ok(Some(Arc::clone(notifications)))
    }

    /// Tells the decoder what becomes of unknown columns; the answer is the column that takes
    /// them.
    fn set_unknown(
        &self,
        auto: &AutoOptions,
        given: bool,
        decoder: &mut FileDecoder,
    ) -> Result<Option<String>> {
        let mut unknown = auto.unknown(given)?;
        let asked = auto.rescued.is_some() || auto.evolution == Some(Evolution::Rescue);
        if self.format == FileFormat::Text && !asked {
            unknown.column = None;
        }
        if let Some(schema) = &self.schema {
            unknown.check(schema.fields())?;
        }
        decoder.set_unknown(&unknown, auto.insensitive)?;
        Ok(unknown.column)
    }
}

/// The paths of all files, without looking at the files if that can be.
async fn paths_of(place: &FilePlace, options: &FileOptions) -> Result<Vec<String>> {
    if let Some(names) = place.names.as_ref().filter(|_| place.patterns.is_empty()) {
        return names::paths(place, options, names.as_ref(), |_| {}).await;
    }
    let files = listing::list(place, options).await?;
    Ok(files.into_iter().map(|file| file.path).collect())
}

/// A path without anything below it may be a file's.
async fn refuse_single_file(place: &FilePlace) -> Result<()> {
    match place.store.head(place.root()).await {
        Ok(_) => Err(Error::invalid(format!(
            "{place} is a file: a source reads a folder, or a pattern such as {place}*"
        ))
        .with_condition("NOT_A_FOLDER")),
        // Nothing there yet, or a store that does not say.
        Err(_) => Ok(()),
    }
}
