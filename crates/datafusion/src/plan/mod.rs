//! Streaming queries as logical plans: nodes, checks, and the preparation of a template that
//! every batch instantiates.

mod aggregate;
mod aggregate_node;
mod batch_time;
mod check;
mod dedup;
mod dedup_node;
mod draw_node;
pub mod event_time;
mod filter_pushdown;
mod grouping_sets;
mod join;
mod join_node;
mod limit_node;
mod name_node;
mod never;
pub(crate) mod physical;
mod physical_join;
mod physical_transform;
mod prepare;
mod sessions;
mod stream_definition;
mod stream_table;
mod transform_node;
mod watermark_node;
mod watermarks;
mod window_columns;
mod windows;

pub use aggregate_node::{EventTimeGroup, StreamAggregateNode};
pub use dedup_node::{Remembered, StreamDedupNode};
pub use limit_node::StreamLimitNode;
pub use name_node::OperatorNameNode;
pub use prepare::StreamingPlan;
pub use stream_definition::{OpenSource, SourceFolder, StreamDefinition};
pub use stream_table::{StreamTable, is_streaming, stream_of};
pub use transform_node::StreamTransformNode;
pub(crate) use transform_node::runs_by_processing_time;
pub use watermark_node::{WatermarkNode, parse_idle_after};

pub(crate) use batch_time::bind_batch;
pub(crate) use check::is_set_operation;
pub(crate) use physical::StreamPlanner;
pub(crate) use watermarks::operator_watermarks;
