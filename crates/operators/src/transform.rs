//! Processors of the user: `transform_with_state`.
//!
//! A [`StatefulProcessor`] keeps variables and timers for each key. [`Transform`] is a processor
//! that has declared its variables; [`TransformWithState`] is the operator around it.
//! [`TransformTester`] drives a processor by hand, without an engine:
//!
//! ```
//! use arrow::datatypes::{DataType, Field, Schema};
//! use fluvial_core::OutputMode;
//! use fluvial_operators::transform::{
//!     Call, HandlerResult, InputRows, Key, StatefulProcessor, TimeMode, Transform,
//!     TransformTester, ValueState, Variables,
//! };
//! use std::sync::Arc;
//!
//! /// Counts the rows of each key over all batches.
//! #[derive(Default)]
//! struct RunningCount {
//!     count: ValueState<i64>,
//! }
//!
//! impl StatefulProcessor for RunningCount {
//!     fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
//!         self.count = variables.value("count")?;
//!         Ok(())
//!     }
//!
//!     fn handle_input_rows(
//!         &self,
//!         key: &Key<'_>,
//!         rows: InputRows<'_>,
//!         call: &mut Call<'_>,
//!     ) -> HandlerResult {
//!         let count = self.count.get(call)?.unwrap_or(0) + rows.len() as i64;
//!         self.count.update(call, count)?;
//!         call.emit((key.get::<&str>("user")?, count))?;
//!         Ok(())
//!     }
//! }
//!
//! let text = |name: &str| Field::new(name, DataType::Utf8, true);
//! let output = Schema::new(vec![text("user"), Field::new("count", DataType::Int64, true)]);
//! let counting = Transform::new(
//!     RunningCount::default(),
//!     Arc::new(output),
//!     TimeMode::None,
//!     OutputMode::Update,
//! )?;
//! let input = Arc::new(Schema::new(vec![text("user"), text("page")]));
//! let mut tester = TransformTester::new(counting, input, &["user"])?;
//! tester.run(&[("ann", "/"), ("bob", "/"), ("ann", "/a")])?;
//! assert_eq!(tester.run(&[("ann", "/b")])?, ["ann 3"]);
//! # Ok::<(), fluvial_core::Error>(())
//! ```

mod call;
mod cell;
mod column;
mod declare;
mod definition;
mod group_function;
mod group_state;
mod grouped;
mod handles;
mod inspect;
mod layout;
mod lists;
mod maps;
mod output;
mod processor;
mod row_codec;
mod rows;
mod run;
mod state_row;
mod stored;
mod tester;
#[cfg(test)]
mod tests;
mod timers;
mod values;

pub use call::Call;
pub use cell::{Cell, ReadCell, WriteCell};
pub use column::ColumnWriter;
pub use declare::{Variable, Variables};
pub use definition::{Transform, TransformWithState};
pub use group_state::{GroupState, GroupTimeout};
pub(crate) use inspect::{TimerTable, VariableTable};

pub use handles::{ListState, MapState, ValueState};
pub use processor::{ExpiredTimer, HandlerError, HandlerResult, StatefulProcessor, TimeMode};
pub use rows::{InputRow, InputRows, Key};
pub use state_row::{OutputRow, Record, StateRow};
pub use tester::TransformTester;
