//! Describing and opening a file source.

use super::auto::{AutoOptions, Evolution};
use super::entry::FileEntry;
use super::evolve::{self, Evolve};
use super::ledger::Ledger;
use super::memory::Memory;
use super::metadata::{METADATA, metadata_field};
use super::options::FileOptions;
use super::place::FilePlace;
use super::read::FileReader;
use super::schema_log::{SchemaLog, SchemaVersion};
use super::{Cleaned, FileSource, Inner, infer, listing, partition};
use crate::format::{FileDecoder, FileFormat};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use fluvial_core::{Error, NameCase, Options, Result, ddl};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::sync::{Arc, Mutex};

/// Describes a file source.
///
/// A schema is needed, or [`FileSourceBuilder::infer_schema`]; so is [`FileSourceBuilder::log`].
#[derive(Debug)]
pub struct FileSourceBuilder {
    place: FilePlace,
    format: FileFormat,
    schema: Option<Schema>,
    infer: bool,
    options: Options,
    log: Option<(Arc<dyn ObjectStore>, Path)>,
    metadata: bool,
    case: NameCase,
    auto: bool,
    versions: Option<(Arc<dyn ObjectStore>, Path)>,
}

impl FileSourceBuilder {
    pub(super) fn new(place: FilePlace, format: FileFormat) -> Self {
        let (schema, options, log) = (None, Options::default(), None);
        let (infer, metadata, case) = (false, false, NameCase::default());
        let (auto, versions) = (false, None);
        Self { place, format, schema, infer, options, log, metadata, case, auto, versions }
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

    /// Opens the source: checks the options, and looks at the files for columns that come from
    /// folders.
    ///
    /// # Errors
    ///
    /// `Invalid` if an option or the schema is wrong, or those of the store.
    pub async fn open(mut self) -> Result<FileSource> {
        let options = if self.auto {
            // The place is given apart.
            self.options.take("schemaLocation");
            FileOptions::take_auto(&mut self.options, &self.place)?
        } else {
            FileOptions::take(&mut self.options, &self.place)?
        };
        if options.auto.as_ref().is_some_and(|auto| auto.infer_types)
            && self.format == FileFormat::Csv
        {
            self.options.set("inferSchema", "true");
        }
        let mut decoder = FileDecoder::take(self.format, &mut self.options, self.case)?;
        let known = [options.names(), decoder.option_names()].concat();
        std::mem::take(&mut self.options).finish(&known)?;
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
        let unseen = partitions.is_none() || (self.schema.is_none() && newest.is_none());
        let files = if unseen { listing::list(&self.place, &options).await? } else { Vec::new() };
        if folders && unseen && files.is_empty() {
            refuse_single_file(&self.place).await?;
        }
        let partitions = partitions.unwrap_or_else(|| {
            let paths = files.iter().map(|file| file.path.as_str());
            partition::infer(self.place.root().as_ref(), paths)
        });
        let known = Known { versions, newest, partitions: &partitions, given };
        let (mut data, evolve) = self.data_schema(&options, &decoder, &files, known).await?;
        let partitions = chosen(partitions, options.auto.as_ref());
        if let Some(column) = unknown.filter(|name| data.field_with_name(name).is_err()) {
            let rescued = Arc::new(Field::new(column, DataType::Utf8, true));
            let fields = data.fields().iter().cloned().chain([rescued]);
            data = Schema::new(fields.collect::<Fields>());
        }
        let schema = self.whole_schema(&data, &partitions, &decoder)?;
        let reader = FileReader {
            place: self.place,
            decoder,
            schema: Arc::new(schema),
            partitions: partitions.iter().map(|field| field.name().clone()).collect(),
            ignore_missing: options.ignore_missing,
            ignore_corrupt: options.ignore_corrupt,
            skip_changed: options.auto.as_ref().is_some_and(|auto| auto.overwrites),
        };
        let inner = Inner {
            reader,
            ledger: Ledger::new(store, folder, options.identity()),
            memory: Mutex::new(Memory::new(options.identity())),
            cleaned: Mutex::new(Cleaned { files: -1, decade: 0 }),
            tail: Mutex::default(),
            evolve,
        };
        let family = if self.auto { "cloudFiles" } else { "file" };
        let kind = format!("{family}/{}", self.format);
        Ok(FileSource { format: self.format, kind, options, inner: Arc::new(inner) })
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
        let textual = matches!(self.format, FileFormat::Json | FileFormat::Csv);
        let asked = auto.rescued.is_some() || auto.evolution == Some(Evolution::Rescue);
        if !textual && !asked {
            unknown.column = None;
        }
        if let Some(schema) = &self.schema {
            unknown.check(schema.fields())?;
        }
        decoder.set_unknown(&unknown, auto.insensitive)?;
        Ok(unknown.column)
    }

    /// The columns of the files: those that are given, those of the newest version, or what the
    /// files have; and how they grow.
    async fn data_schema(
        &mut self,
        options: &FileOptions,
        decoder: &FileDecoder,
        files: &[FileEntry],
        known: Known<'_>,
    ) -> Result<(Schema, Option<Evolve>)> {
        match (known.versions, &options.auto) {
            (Some(log), Some(auto)) => {
                let hints = auto.hints.clone();
                let schema = match (self.schema.take(), known.newest) {
                    // What the query was made with: a newer version is for the next start.
                    (Some(schema), _) => schema,
                    (None, Some(newest)) => newest.schema,
                    (None, None) => {
                        let found = evolve::found(&self.place, decoder, files).await?;
                        let types = auto.infer_types;
                        let schema = evolve::corrected(found, decoder, types, hints.as_deref())?;
                        let partitions = known.partitions.to_vec();
                        let first = SchemaVersion { number: 0, schema, partitions };
                        if !log.put(&first).await? {
                            return Err(Error::unavailable(
                                "another run wrote the first version of the schema: try again",
                            ));
                        }
                        first.schema
                    }
                };
                let grows = auto.mode(known.given) == Evolution::AddNewColumns;
                Ok((schema, grows.then_some(Evolve { log, hints, types: auto.infer_types })))
            }
            (_, auto) => {
                let schema = match self.schema.take() {
                    Some(schema) => schema,
                    None if self.format == FileFormat::Text => text_schema(),
                    None if self.infer => {
                        let found = infer::schema(&self.place, decoder, files).await?;
                        let hints = auto.as_ref().and_then(|auto| auto.hints.as_deref());
                        evolve::hinted(&found, hints)?
                    }
                    None => return Err(no_schema(self.format)),
                };
                Ok((schema, None))
            }
        }
    }

    /// The schema, with the columns of folders that it lacks, and `_metadata`.
    fn whole_schema(
        &self,
        data: &Schema,
        partitions: &[Field],
        decoder: &FileDecoder,
    ) -> Result<Schema> {
        let is_partition =
            |field: &FieldRef| partitions.iter().any(|partition| partition.name() == field.name());
        let mut fields: Vec<FieldRef> = data.fields().iter().map(nullable).collect();
        let in_files: Fields = fields.iter().filter(|f| !is_partition(f)).cloned().collect();
        decoder.check(&in_files)?;
        for partition in partitions {
            if data.field_with_name(partition.name()).is_err() {
                fields.push(Arc::new(partition.clone()));
            }
        }
        if self.metadata {
            if fields.iter().any(|field| field.name() == METADATA) {
                return Err(Error::invalid(format!(
                    "the schema has a column `{METADATA}` of its own: rename it"
                ))
                .with_condition("COLUMN_ALREADY_EXISTS"));
            }
            fields.push(Arc::new(metadata_field()));
        }
        let schema = Schema::new(fields);
        ddl::check_names(&schema, self.case)?;
        Ok(schema)
    }
}

/// What is known of a schema before files are looked at.
struct Known<'a> {
    versions: Option<SchemaLog>,
    newest: Option<SchemaVersion>,
    partitions: &'a [Field],
    /// Whether the user gave the columns.
    given: bool,
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

/// The columns from folders that the user wants.
fn chosen(mut partitions: Vec<Field>, auto: Option<&AutoOptions>) -> Vec<Field> {
    if let Some(wanted) = auto.and_then(|auto| auto.partitions.as_ref()) {
        partitions.retain(|field| wanted.contains(field.name()));
    }
    partitions
}

fn text_schema() -> Schema {
    Schema::new(vec![Field::new("value", DataType::Utf8, true)])
}

fn no_schema(format: FileFormat) -> Error {
    Error::invalid(format!(
        "a {format} source needs a schema: give one, or ask for schema inference"
    ))
    .with_condition("SCHEMA_REQUIRED")
}

/// The field and everything in it, with nulls allowed; strings, bytes, lists and maps in the one
/// form that we have.
pub(super) fn nullable(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain(field.data_type()), true))
}

fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::List(item) | DataType::LargeList(item) => ddl::array_of(plain(item.data_type())),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(nullable).collect()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                ddl::map_of(plain(pair[0].data_type()), plain(pair[1].data_type()))
            }
            other => other.clone(),
        },
        other => other.clone(),
    }
}
