//! Structured streaming for Rust: exactly-once micro-batch queries over Arrow and DataFusion.
//!
//! A stream is an unbounded table; a query over it runs incrementally, in micro-batches. Each
//! batch's offsets are written before it and a commit after it, so any restart gives
//! exactly-once results.
//!
//! ```
//! use fluvial::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let session = Session::new()?;
//! let events = session
//!     .read_stream()
//!     .format("rate-micro-batch")
//!     .option("rowsPerBatch", 10)
//!     .load_options()
//!     .await?;
//! let query = events
//!     .with_watermark("timestamp", "10 seconds")?
//!     .group_by(vec![window(col("timestamp"), "2 seconds").alias("w")])
//!     .count()?
//!     .write_stream()?
//!     .format("memory")
//!     .query_name("counts")
//!     .output_mode(OutputMode::Complete)
//!     .trigger(Trigger::Once)
//!     .start()
//!     .await?;
//! query.await_termination().await?;
//! assert_eq!(session.sql("SELECT * FROM counts").await?.collect().await?[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod batch_reader;
mod batch_table;
mod batch_writer;
#[cfg(doctest)]
mod book;
mod catalog;
mod clock;
mod dataframe;
#[cfg(feature = "delta")]
mod delta_stream;
#[cfg(feature = "delta")]
mod delta_table;
#[cfg(feature = "delta")]
mod expressions;
mod files;
mod foreach_batch;
mod formats;
mod hidden;
#[cfg(feature = "sql")]
mod hidden_sql;
#[cfg(feature = "sql")]
mod input_file_name;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(not(feature = "kafka"))]
#[path = "kafka_left_out.rs"]
mod kafka;
mod late_rows;
#[cfg(all(feature = "delta", feature = "sql"))]
mod maintain_sql;
mod memory_table;
#[cfg(feature = "delta")]
mod merge;
#[cfg(feature = "delta")]
mod merge_set;
#[cfg(all(feature = "delta", feature = "sql"))]
mod merge_sql;
#[cfg(feature = "sql")]
mod relation_sql;
#[cfg(feature = "sql")]
mod script;
mod session;
mod settings;
mod start;
mod state_backend;
mod state_reader;
mod state_table;
mod storage;
mod stored_state;
mod stream_reader;
mod stream_writer;
mod transform_groups;

pub use batch_reader::DataFrameReader;
pub use batch_writer::{DataFrameWriter, SaveMode};
pub use clock::SystemClock;
pub use dataframe::{
    GroupedData, SessionGap, StreamingDataFrame, session_window, sliding_window, timestamp_type,
    window, window_time, window_with_start,
};
#[cfg(feature = "delta")]
pub use delta_table::DeltaTable;
pub use late_rows::LateRows;
#[cfg(feature = "delta")]
pub use merge::{MergeBuilder, WhenMatched, WhenNotMatched, WhenNotMatchedBySource};
#[cfg(feature = "sql")]
pub use script::{Executed, ScriptOptions};
pub use session::{Session, SessionBuilder};
pub use settings::{BackendFor, SchemaInference, SessionSettings, StateBackendKind};
pub use state_backend::StatePlace;
pub use state_reader::StateReader;
pub use storage::{Place, Storage};
pub use stream_reader::{DataStreamReader, SchemaText};
pub use stream_writer::DataStreamWriter;

pub use fluvial_core::ddl::parse_ddl;
pub use fluvial_core::{
    BatchId, Clock, Error, ErrorKind, NameCase, OutputMode, PartitionId, Result,
};
#[cfg(feature = "sql")]
pub use fluvial_datafusion::sql;
pub use fluvial_datafusion::{from_datafusion, inspect, transform};
#[cfg(feature = "delta")]
pub use fluvial_delta::{MergeReport, OptimizeReport, VacuumMode};
pub use fluvial_engine::{
    Queries, QueryIdle, QueryStarted, QueryTerminated, StreamingQuery, StreamingQueryListener,
    StreamingQueryProgress, Trigger,
};
pub use fluvial_sinks::ForeachWriter;
pub use fluvial_sources::{FileNews, FileNotifications, MemorySource, NewsInProcess};
pub use {arrow, datafusion};

/// What almost every program needs. An aggregate of DataFusion, such as `sum`, becomes the one of
/// the same name in SQL when a query is planned: it overflows, and gives types, as in Spark.
pub mod prelude {
    pub use crate::{
        OutputMode, SaveMode, Session, StreamingDataFrame, StreamingQuery, Trigger, session_window,
        window, window_time,
    };
    pub use datafusion::functions_aggregate::expr_fn::{avg, count, max, min, sum};
    pub use datafusion::prelude::{DataFrame, Expr, col, lit};
}
