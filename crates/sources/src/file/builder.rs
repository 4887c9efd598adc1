//! Describing and opening a file source.

use super::ledger::Ledger;
use super::metadata::{METADATA, metadata_field};
use super::options::{FILE_OPTIONS, FileOptions};
use super::place::FilePlace;
use super::read::FileReader;
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
}

impl FileSourceBuilder {
    pub(super) fn new(place: FilePlace, format: FileFormat) -> Self {
        let (schema, options, log) = (None, Options::default(), None);
        let (infer, metadata, case) = (false, false, NameCase::default());
        Self { place, format, schema, infer, options, log, metadata, case }
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

    /// Opens the source: checks the options, and looks at the files for columns that come from
    /// folders.
    ///
    /// # Errors
    ///
    /// `Invalid` if an option or the schema is wrong, or those of the store.
    pub async fn open(mut self) -> Result<FileSource> {
        let options = FileOptions::take(&mut self.options, &self.place)?;
        let decoder = FileDecoder::take(self.format, &mut self.options, self.case)?;
        let known = [FILE_OPTIONS, decoder.option_names(), &["encoding"]].concat();
        std::mem::take(&mut self.options).finish(&known)?;
        let Some((store, folder)) = self.log.take() else {
            return Err(Error::invalid("a file source needs a folder for its log"));
        };
        // Behind a pattern, and in folders that are read for the files in them, `k=v` is a name.
        let folders = self.place.patterns.is_empty() && !options.recursive;
        let files = if folders || self.schema.is_none() {
            listing::list(&self.place, &options).await?
        } else {
            Vec::new()
        };
        if folders && files.is_empty() {
            refuse_single_file(&self.place).await?;
        }
        let partitions = if folders {
            let paths = files.iter().map(|file| file.path.as_str());
            partition::infer(self.place.root().as_ref(), paths)
        } else {
            Vec::new()
        };
        let data = match self.schema.take() {
            Some(schema) => schema,
            None if self.format == FileFormat::Text => text_schema(),
            None if self.infer => infer::schema(&self.place, &decoder, &files).await?,
            None => return Err(no_schema(self.format)),
        };
        let schema = self.whole_schema(&data, &partitions, &decoder)?;
        let reader = FileReader {
            place: self.place,
            decoder,
            schema: Arc::new(schema),
            partitions: partitions.iter().map(|field| field.name().clone()).collect(),
            ignore_missing: options.ignore_missing,
        };
        let inner = Inner {
            reader,
            ledger: Ledger::new(store, folder),
            memory: Mutex::default(),
            cleaned: Mutex::new(Cleaned { files: -1, decade: 0 }),
        };
        let kind = format!("file/{}", self.format);
        Ok(FileSource { format: self.format, kind, options, inner: Arc::new(inner) })
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
fn nullable(field: &FieldRef) -> FieldRef {
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
