//! Files as streams.

use crate::session::Session;
use crate::settings::SchemaInference;
use crate::storage::Storage;
use arrow::datatypes::{Fields, Schema, SchemaRef};
use async_trait::async_trait;
use fluvial_core::options::Options;
use fluvial_core::{Clock, Error, NameCase, Result, Source};
use fluvial_datafusion::plan::{SourceFolder, StreamDefinition};
use fluvial_sources::{
    FileFormat, FileNotifications, FilePlace, FileSource, FileSourceBuilder, METADATA,
    check_local_folder, numbered_metadata_field,
};
use std::sync::Arc;

/// The formats of files that can be read.
pub(crate) const FORMATS: &[&str] =
    &["json", "csv", "text", "parquet", "avro", "orc", "cloudfiles"];

/// Describes a stream of files. The files that are there are looked at now: for the columns that
/// come from folders, and for the schema if it is not given.
pub(crate) async fn stream(
    session: &Session,
    format: &str,
    path: &str,
    schema: Option<SchemaRef>,
    mut options: Options,
    infer: SchemaInference,
) -> Result<Arc<dyn StreamDefinition>> {
    let (auto, format) = auto_loader(format, &mut options)?;
    let format: FileFormat = format.parse()?;
    let path_url = session.storage().url(path)?;
    let (store, base, path) = session.storage().look(path)?;
    let place = FilePlace::new(store, &base, &path)?;
    let place = match Storage::names(&base) {
        Some(names) => place.with_names(names),
        None => place,
    };
    if base == "file:///" {
        let root = std::path::Path::new("/").join(place.root().as_ref());
        check_local_folder(&root)?;
    }
    if base == "file:///" {
        find_folders(session, &mut options)?;
    }
    let settings = session.settings();
    // For what is written in files of text, and for the names of folders.
    let zone = options.take("timeZone").unwrap_or(settings.timezone);
    options.set("timeZone", zone);
    let case = settings.case;
    let given = schema.is_some();
    let versions = match options.peek("schemaLocation") {
        Some(location) if auto && !given => {
            let (store, _, folder) = session.storage().look(location)?;
            let folder = object_store::path::Path::parse(folder.trim_matches('/'))
                .map_err(|e| Error::invalid("schemaLocation is no path").with_source(e))?;
            Some((store, folder))
        }
        _ => None,
    };
    if auto && !given && versions.is_none() && format != FileFormat::Text {
        return Err(Error::invalid(
            "cloudFiles needs a schema, or a folder for the one that it finds: set \
             cloudFiles.schemaLocation",
        )
        .with_condition("SCHEMA_REQUIRED"));
    }
    let infer = if versions.is_some() { SchemaInference::Allowed } else { infer };
    if !given && format != FileFormat::Text && infer == SchemaInference::Refused {
        return Err(Error::invalid(
            "a stream over files needs a schema: schema(\"a STRING, b INT\"), or set \
             schema.inference to true to find it in the files that are there",
        )
        .with_condition("SCHEMA_REQUIRED"));
    }
    let mut definition = FileDefinition {
        place,
        format,
        options,
        case,
        data: schema,
        schema: None,
        metadata: false,
        auto,
        versions,
        clock: session.clock(),
        notifications: session.file_notifications(&path_url),
    };
    let trial = Storage::temporary("schema")?;
    let trial = SourceFolder { store: trial.store, folder: trial.path };
    let whole = definition.builder(trial, infer).open().await?.schema();
    if !given {
        definition.data = Some(Arc::clone(&whole));
    }
    definition.schema = Some(whole);
    Ok(Arc::new(definition))
}

/// Makes folders that options name absolute: they begin where all relative paths do.
fn find_folders(session: &Session, options: &mut Options) -> Result<()> {
    for name in ["badRecordsPath", "sourceArchiveDir", "cleanSource.moveDestination"] {
        if let Some(folder) = options.take(name) {
            let local = !folder.contains("://");
            let found = if local { session.storage().look(&folder)?.2 } else { folder };
            options.set(name, found);
        }
    }
    Ok(())
}

/// Files of one format in one place.
#[derive(Clone)]
struct FileDefinition {
    place: FilePlace,
    format: FileFormat,
    options: Options,
    case: NameCase,
    /// The columns of the files.
    data: Option<SchemaRef>,
    /// All columns.
    schema: Option<SchemaRef>,
    /// Whether `_metadata` is among them.
    metadata: bool,
    /// Whether it is an Auto Loader.
    auto: bool,
    /// Where it keeps the versions of its schema.
    versions: Option<(Arc<dyn object_store::ObjectStore>, object_store::path::Path)>,
    clock: Arc<dyn Clock>,
    /// Who tells of new files, if somebody does.
    notifications: Option<Arc<dyn FileNotifications>>,
}

/// Whether a stream is an Auto Loader, and its format: `cloudFiles` takes its options with that
/// prefix or without it; `read_files` is one if it says where the schema is kept.
fn auto_loader(format: &str, options: &mut Options) -> Result<(bool, String)> {
    if !format.eq_ignore_ascii_case("cloudFiles") {
        return Ok((options.peek("schemaLocation").is_some(), format.to_owned()));
    }
    const PREFIX: &str = "cloudFiles.";
    for (name, text) in options.take_prefixed(PREFIX) {
        options.set(&name[PREFIX.len()..], text);
    }
    let format = options.take("format").ok_or_else(|| {
        Error::invalid("cloudFiles needs the format of the files: set cloudFiles.format to json")
            .with_condition("MISSING_OPTION")
    })?;
    Ok((true, format))
}

impl FileDefinition {
    fn builder(&self, log: SourceFolder, infer: SchemaInference) -> FileSourceBuilder {
        let builder = FileSource::builder(self.place.clone(), self.format)
            .options(self.options.clone())
            .name_case(self.case)
            .log(log.store, log.folder);
        let builder =
            if self.metadata { builder.with_metadata_column().with_row_index() } else { builder };
        let builder = if self.auto { builder.auto_loader() } else { builder };
        let builder = builder.clock(Arc::clone(&self.clock));
        let builder = match &self.notifications {
            Some(notifications) => builder.notifications(Arc::clone(notifications)),
            None => builder,
        };
        let builder = match &self.versions {
            Some((store, folder)) => builder.schema_versions(store.clone(), folder.clone()),
            None => builder,
        };
        match (&self.data, infer) {
            (Some(schema), _) => builder.schema(schema.as_ref().clone()),
            (None, SchemaInference::Allowed) => builder.infer_schema(),
            (None, SchemaInference::Refused) => builder,
        }
    }
}

#[async_trait]
impl StreamDefinition for FileDefinition {
    fn schema(&self) -> SchemaRef {
        self.schema.clone().unwrap_or_else(|| Arc::new(arrow::datatypes::Schema::empty()))
    }

    fn description(&self) -> String {
        format!("FileStreamSource[{}]", self.format)
    }

    fn with_file_metadata(&self) -> Option<Arc<dyn StreamDefinition>> {
        let schema = self.schema.as_ref()?;
        if self.metadata || schema.field_with_name(METADATA).is_ok() {
            return None;
        }
        let fields =
            schema.fields().iter().cloned().chain([Arc::new(numbered_metadata_field(self.format))]);
        let schema = Some(Arc::new(Schema::new(fields.collect::<Fields>())));
        Some(Arc::new(Self { schema, metadata: true, ..self.clone() }))
    }

    async fn open(&self, log: SourceFolder) -> Result<Arc<dyn Source>> {
        let source = self.builder(log, SchemaInference::Refused).open().await?;
        Ok(Arc::new(source))
    }
}
