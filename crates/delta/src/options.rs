//! Options of a Delta sink as users write them.

use fluvial_core::Result;
use fluvial_core::options::Options;
use std::collections::BTreeMap;

/// How a table is created and evolved. The defaults create a table without partitions and refuse
/// columns that the table does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeltaOptions {
    /// Columns that a new table is partitioned by. An existing table must have the same.
    pub partition_by: Vec<String>,
    /// Whether columns that the table does not have are added to it when the sink opens.
    pub merge_schema: bool,
    /// Properties of a new table: `delta.appendOnly`, `delta.checkpointInterval`, ... An
    /// existing table keeps its own.
    pub properties: BTreeMap<String, String>,
    /// The description of a new table.
    pub comment: Option<String>,
    /// The name under which the table remembers what was written; that of the query and sink if
    /// not given. Who writes by it gives batches that grow.
    pub app: Option<String>,
}

impl DeltaOptions {
    /// Takes `mergeSchema` out of `options`, and names that begin with `delta.`, which are
    /// properties of a new table. `path` must have been taken already.
    ///
    /// # Errors
    ///
    /// `Invalid` for a value or a name that is wrong, or not supported yet.
    pub fn parse(mut options: Options, partition_by: Vec<String>) -> Result<Self> {
        options.refuse(&[
            "overwriteSchema",
            "replaceWhere",
            "partitionOverwriteMode",
            "dataChange",
            "userMetadata",
            "optimizeWrite",
            "txnAppId",
            "txnVersion",
        ])?;
        let merge_schema = options.take_bool("mergeSchema")?.unwrap_or(false);
        let properties = options.take_prefixed("delta.").into_iter().collect();
        options.finish(&["mergeSchema", "path"])?;
        Ok(Self { partition_by, merge_schema, properties, comment: None, app: None })
    }
}
