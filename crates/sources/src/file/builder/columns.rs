//! Which columns a file source has.

use super::super::auto::{AutoOptions, Evolution};
use super::super::entry::FileEntry;
use super::super::evolve::{self, Evolve};
use super::super::infer;
use super::super::metadata::{METADATA, metadata_field, numbered_metadata_field};
use super::super::options::FileOptions;
use super::super::schema_log::{SchemaLog, SchemaVersion};
use super::FileSourceBuilder;
use crate::format::{FileDecoder, FileFormat};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use fluvial_core::{Error, Result, ddl};
use std::sync::Arc;

impl FileSourceBuilder {
    /// The columns of the files: those that are given, those of the newest version, or what the
    /// files have; and how they grow.
    pub(super) async fn data_schema(
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
                    (None, Some(newest)) => hinted(&log, newest, hints.as_deref()).await?,
                    (None, None) => {
                        let found = evolve::found(&self.place, decoder, files).await?;
                        let types = auto.infer_types;
                        let schema = evolve::corrected(found, decoder, types, hints.as_deref())?;
                        let partitions = known.partitions.to_vec();
                        put(&log, SchemaVersion { number: 0, schema, partitions }).await?
                    }
                };
                let mode = auto.mode(known.given);
                let (types, widens) = (auto.infer_types, mode == Evolution::AddAndWiden);
                let evolve = Evolve { log, read: schema.clone(), hints, types, widens };
                Ok((schema, mode.grows().then_some(evolve)))
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
    pub(super) fn whole_schema(
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
            fields.push(Arc::new(if self.numbered {
                numbered_metadata_field(self.format)
            } else {
                metadata_field()
            }));
        }
        let schema = Schema::new(fields);
        ddl::check_names(&schema, self.case)?;
        Ok(schema)
    }
}

/// The newest version with the types of hints, which may be new: then it is a version of its own.
async fn hinted(log: &SchemaLog, newest: SchemaVersion, hints: Option<&str>) -> Result<Schema> {
    let schema = evolve::hinted(&newest.schema, hints)?;
    if schema == newest.schema {
        return Ok(schema);
    }
    put(log, SchemaVersion { number: newest.number + 1, schema, ..newest }).await
}

async fn put(log: &SchemaLog, version: SchemaVersion) -> Result<Schema> {
    match log.put(&version).await? {
        true => Ok(version.schema),
        false => Err(Error::unavailable(format!(
            "another run wrote version {} of the schema: try again",
            version.number
        ))),
    }
}

/// What is known of a schema before files are looked at.
pub(super) struct Known<'a> {
    pub(super) versions: Option<SchemaLog>,
    pub(super) newest: Option<SchemaVersion>,
    pub(super) partitions: &'a [Field],
    /// Whether the user gave the columns.
    pub(super) given: bool,
}

/// The columns from folders that the user wants.
pub(super) fn chosen(mut partitions: Vec<Field>, auto: Option<&AutoOptions>) -> Vec<Field> {
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
pub(in crate::file) fn nullable(field: &FieldRef) -> FieldRef {
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
