//! Physical nodes of a streaming batch.
//!
//! A node carries descriptors (operator id, columns), never live handles: it finds the batch it
//! runs in through [`BatchRun`], a session extension, and opens what it needs in `execute`.

mod batch_input;
mod batch_run;
mod draw;
mod exchange;
mod key_route;
mod lane;
mod late_filter;
mod properties;
mod stateful;
mod watermark;

pub(crate) use batch_input::BatchInputExec;
pub(crate) use batch_run::{BatchRun, Given, OperatorTotals, OperatorWatermarks};
pub(crate) use draw::DrawExec;
pub(crate) use exchange::{ExchangeExec, Gather, Route};
pub(crate) use key_route::{KeyRoute, ToNothingsOwner};
pub(crate) use late_filter::{Judged, LateFilterExec};
pub(crate) use stateful::StatefulExec;
pub(crate) use watermark::WatermarkExec;
