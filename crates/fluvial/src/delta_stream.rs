//! Delta tables as streams: by their place, or by their name in the catalog.

use crate::formats;
use crate::session::Session;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_core::options::Options;
use fluvial_core::{Error, Result, Source};
use fluvial_datafusion::plan::{OpenSource, SourceFolder, StreamDefinition};
use fluvial_delta::{DeltaSource, DeltaSourceOptions, DeltaTracking};
use std::sync::Arc;

/// Describes the stream of a table whose place is the option `path`. What the source keeps of the
/// table never changes, so that one value serves every start of a query.
pub(crate) async fn stream(
    session: &Session,
    schema: Option<SchemaRef>,
    mut options: Options,
) -> Result<Arc<dyn StreamDefinition>> {
    if schema.is_some() {
        return Err(Error::invalid("a Delta table has its own schema: give none"));
    }
    let path = options.take("path").ok_or_else(|| {
        Error::invalid("a path is needed: load(path), or option \"path\"; or table(name)")
            .with_condition("PATH_NOT_SPECIFIED")
    })?;
    let tracking = match options.take("schemaTrackingLocation") {
        Some(place) => Some(place),
        // Its other name.
        None => options.take("schemaLocation"),
    };
    let mut options = DeltaSourceOptions::parse(options, &session.settings().timezone)?;
    let mut tracked = None;
    if let Some(place) = tracking {
        let place = session.storage().open(&place)?;
        tracked = Some(place.url.to_string());
        options.tracking = Some(DeltaTracking::new(place.store, place.path));
    }
    let location = formats::delta_location(session, &path)?;
    let source: Arc<dyn Source> = Arc::new(DeltaSource::open(location, options).await?);
    match tracked {
        None => Ok(Arc::new(OpenSource(source))),
        Some(place) => Ok(Arc::new(Tracked { source, place })),
    }
}

/// A table whose columns a stream keeps.
struct Tracked {
    source: Arc<dyn Source>,
    /// Where, as a URL.
    place: String,
}

#[async_trait]
impl StreamDefinition for Tracked {
    fn schema(&self) -> SchemaRef {
        self.source.schema()
    }

    fn description(&self) -> String {
        self.source.description()
    }

    fn check_checkpoint(&self, checkpoint: &str) -> Result<()> {
        let place = &self.place;
        let below = place.strip_prefix(checkpoint.trim_end_matches('/'));
        if below.is_some_and(|below| below.is_empty() || below.starts_with('/')) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "schemaTrackingLocation {place} is not below the checkpoint {checkpoint}: name a \
             folder there, so that what the stream keeps goes with the checkpoint"
        ))
        .with_condition("DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT"))
    }

    async fn open(&self, _: SourceFolder) -> Result<Arc<dyn Source>> {
        Ok(Arc::clone(&self.source))
    }
}

/// The path in a name such as ``delta.`/warehouse/clicks` ``.
pub(crate) fn path_of(parts: &[String]) -> Option<&str> {
    match parts {
        [format, path] if format.eq_ignore_ascii_case("delta") && !path.is_empty() => {
            Some(path.as_str())
        }
        _ => None,
    }
}

/// Describes the stream of a table that the catalog, or its own name, gives a place.
///
/// # Errors
///
/// `NotFound` if there is none, `Invalid` if it is not of a format that streams.
pub(crate) async fn table(
    session: &Session,
    parts: &[String],
    mut options: Options,
) -> Result<Arc<dyn StreamDefinition>> {
    let name = parts.join(".");
    let path = match path_of(parts) {
        Some(path) => path.to_owned(),
        None => match session.catalog().place(&name).await? {
            Some((format, location)) if format == "delta" => location,
            Some((format, location)) => {
                return Err(Error::invalid(format!(
                    "{name} is a table of {format} files, and only Delta tables are streams by \
                     name: read its files, read_files('{location}', format => '{format}')"
                ))
                .with_condition("STREAMING_TABLE_READ_NOT_SUPPORTED_YET"));
            }
            None => {
                return Err(Error::not_found(format!("the catalog has no table {name}"))
                    .with_condition("TABLE_OR_VIEW_NOT_FOUND"));
            }
        },
    };
    options.set("path", path);
    stream(session, None, options).await.map_err(|e| e.at(format!("table {name}")))
}
