//! A query over one file source, in a simulated store.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::util::display::array_value_to_string;
use fluvial_core::ddl::parse_ddl;
use fluvial_core::{
    BatchId, Frontier, Offset, Options, PlanRequest, Result, RunId, Source, SourceRange,
};
use fluvial_sim::{Disk, Process, VirtualClock, block_on};
use fluvial_sources::{FileFormat, FilePlace, FileSource, FolderNames, ListNames, NewsInProcess};
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;

/// The names in a folder of the simulated disk.
#[derive(Debug)]
pub(crate) struct Names(pub(crate) Arc<dyn ObjectStore>);

#[async_trait::async_trait]
impl ListNames for Names {
    async fn list_names(&self, folder: &Path) -> Result<FolderNames> {
        let level = self.0.list_with_delimiter(Some(folder)).await?;
        let name = |path: &Path| path.filename().unwrap_or_default().to_owned();
        Ok(FolderNames {
            files: level.objects.iter().map(|meta| name(&meta.location)).collect(),
            folders: level.common_prefixes.iter().map(name).collect(),
        })
    }
}

/// How the source is made.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) path: String,
    pub(crate) format: FileFormat,
    pub(crate) schema: Option<String>,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) metadata: bool,
    pub(crate) auto: bool,
    pub(crate) clock: Option<Arc<VirtualClock>>,
    pub(crate) news: Option<Arc<NewsInProcess>>,
    /// Whether the store gives names without files.
    pub(crate) names: bool,
}

impl Spec {
    pub(crate) fn json(schema: &str) -> Self {
        Self {
            path: "in".into(),
            format: FileFormat::Json,
            schema: Some(schema.into()),
            options: Vec::new(),
            metadata: false,
            auto: false,
            clock: None,
            news: None,
            names: false,
        }
    }

    /// An Auto Loader of JSON whose schema is inferred.
    pub(crate) fn auto() -> Self {
        Self { schema: None, auto: true, ..Self::json("") }
    }

    pub(crate) fn format(mut self, format: FileFormat) -> Self {
        self.format = format;
        self
    }

    pub(crate) fn path(mut self, path: &str) -> Self {
        self.path = path.into();
        self
    }

    pub(crate) fn option(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.into(), value.into()));
        self
    }

    pub(crate) async fn open(&self, process: &Process) -> Result<FileSource> {
        let mut place = FilePlace::new(process.store(), "sim:///", &self.path)?;
        if self.names {
            place = place.with_names(Arc::new(Names(process.store())));
        }
        let mut builder = FileSource::builder(place, self.format)
            .options(Options::new(self.options.clone()))
            .log(process.store(), Path::from("checkpoint/sources/s"));
        builder = match &self.schema {
            Some(schema) => builder.schema(parse_ddl(schema)?),
            None => builder.infer_schema(),
        };
        if self.auto {
            builder = builder.auto_loader();
        }
        if self.auto && self.schema.is_none() {
            builder = builder.schema_versions(process.store(), Path::from("schema"));
        }
        if self.metadata {
            builder = builder.with_metadata_column().with_row_index();
        }
        // A cloudFiles that deletes keeps files for a while: that takes a clock.
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(VirtualClock::at(0)));
        builder = builder.clock(clock);
        if let Some(news) = &self.news {
            builder = builder.notifications(news.clone());
        }
        builder.open().await
    }
}

/// A query: what it read, and where it stands.
pub(crate) struct Query {
    pub(crate) disk: Disk,
    pub(crate) process: Process,
    pub(crate) source: FileSource,
    pub(crate) at: Offset,
    pub(crate) ranges: Vec<SourceRange>,
    runs: u32,
}

impl Query {
    pub(crate) fn start(disk: &Disk, spec: &Spec) -> Result<Self> {
        let process = disk.process();
        let source = block_on(spec.open(&process))?;
        let at = block_on(source.initial())?;
        let ranges = Vec::new();
        Ok(Self { disk: disk.clone(), process, source, at, ranges, runs: 0 })
    }

    /// Ends the process and starts another one.
    pub(crate) fn restart(&mut self, spec: &Spec) -> Result<()> {
        self.process = self.disk.process();
        self.runs += 1;
        self.source = block_on(spec.open(&self.process))?;
        match self.ranges.last() {
            Some(newest) => block_on(self.source.adopt(newest)),
            None => Ok(()),
        }
    }

    pub(crate) fn plan(&self, until: Option<&Frontier>) -> Result<Option<SourceRange>> {
        let run = RunId::new(format!("run-{}", self.runs))?;
        let (batch, start) = (BatchId(self.ranges.len() as u64), &self.at);
        let limit = self.source.read_limit();
        block_on(self.source.plan(PlanRequest { batch, run: &run, start, limit, until, splits: 2 }))
    }

    pub(crate) fn adopt(&mut self, range: SourceRange) -> Result<()> {
        block_on(self.source.adopt(&range))?;
        self.at = range.end.clone();
        self.ranges.push(range);
        Ok(())
    }

    pub(crate) fn read(&self, range: &SourceRange) -> Result<Vec<String>> {
        rows(&self.source, range)
    }

    /// The rows of some columns.
    pub(crate) fn read_columns(
        &self,
        range: &SourceRange,
        columns: &[usize],
    ) -> Result<Vec<String>> {
        rows_of(&self.source, range, Some(columns))
    }

    /// One batch: its rows.
    pub(crate) fn batch(&mut self) -> Result<Option<Vec<String>>> {
        let Some(range) = self.plan(None)? else { return Ok(None) };
        self.adopt(range.clone())?;
        self.read(&range).map(Some)
    }

    /// An available-now run: the rows of each batch.
    pub(crate) fn available_now(&mut self) -> Result<Vec<Vec<String>>> {
        let frontier = block_on(self.source.frontier())?;
        let mut batches = Vec::new();
        while let Some(range) = self.plan(Some(&frontier))? {
            self.adopt(range.clone())?;
            batches.push(self.read(&range)?);
        }
        Ok(batches)
    }

    pub(crate) fn release(&self, batch: usize) -> Result<()> {
        block_on(self.source.release(&self.ranges[batch]))
    }
}

/// The rows of a range as `name=value ...`, nulls left out.
pub(crate) fn rows(source: &FileSource, range: &SourceRange) -> Result<Vec<String>> {
    rows_of(source, range, None)
}

fn rows_of(
    source: &FileSource,
    range: &SourceRange,
    columns: Option<&[usize]>,
) -> Result<Vec<String>> {
    let mut batches: Vec<RecordBatch> = Vec::new();
    for split in &range.splits {
        let stream = source.read(range, split, columns)?;
        batches.extend(block_on(stream.try_collect::<Vec<_>>())?);
    }
    let schema = match columns {
        Some(columns) => Arc::new(source.schema().project(columns)?),
        None => source.schema(),
    };
    let whole = concat_batches(&schema, &batches)?;
    let row = |row: usize| {
        let fields = whole.schema_ref().fields().iter().zip(whole.columns());
        let shown = fields.filter(|(_, column)| !column.is_null(row)).map(|(field, column)| {
            format!("{}={}", field.name(), array_value_to_string(column, row).unwrap())
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    Ok((0..whole.num_rows()).map(row).collect())
}

/// Puts a file of lines there, with a modification time in seconds.
pub(crate) fn put(disk: &Disk, path: &str, lines: &[&str], modified: i64) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    disk.write(&format!("in/{path}"), text);
    disk.set_modified(&format!("in/{path}"), modified * 1000);
}
