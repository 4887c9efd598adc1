//! Windows as two columns of times while rows are grouped.
//!
//! DataFusion groups columns of plain types by their values, and structs by an encoding of each
//! row. So a window is taken apart in front of the partial aggregation and put together behind it.

use super::event_time::is_window;
use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

type Named = (Arc<dyn PhysicalExpr>, String);

/// Grouping expressions over `schema`, each window as its start and its end.
pub(super) fn apart(
    groups: Vec<Named>,
    schema: &SchemaRef,
    options: &Arc<ConfigOptions>,
) -> Result<Vec<Named>> {
    let mut flat = Vec::with_capacity(groups.len() + 1);
    for (expr, name) in groups {
        if !is_window(&expr.data_type(schema)?) {
            flat.push((expr, name));
            continue;
        }
        for edge in [Edge::Start, Edge::End] {
            let edge_of = Arc::new(ScalarUDF::from(EdgeOf::new(edge)));
            let args = vec![Arc::clone(&expr)];
            let call = ScalarFunctionExpr::try_new(edge_of, args, schema, Arc::clone(options))?;
            flat.push((Arc::new(call), format!("{name}.{}", edge.name())));
        }
    }
    Ok(flat)
}

/// The columns of `input` with its first ones put together again: a window wherever `groups`,
/// over `schema`, has one.
pub(super) fn together(
    input: Arc<dyn ExecutionPlan>,
    groups: &[Named],
    schema: &SchemaRef,
    options: &Arc<ConfigOptions>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let flat = input.schema();
    let mut next = 0;
    let mut column = || -> Arc<dyn PhysicalExpr> {
        next += 1;
        Arc::new(Column::new(flat.field(next - 1).name(), next - 1))
    };
    let mut columns: Vec<Named> = Vec::with_capacity(flat.fields().len());
    let mut windows = 0;
    for (expr, name) in groups {
        let data_type = expr.data_type(schema)?;
        if !is_window(&data_type) {
            columns.push((column(), name.clone()));
            continue;
        }
        windows += 1;
        let window = Arc::new(ScalarUDF::from(WindowBetween::new(data_type)));
        let edges = vec![column(), column()];
        let call = ScalarFunctionExpr::try_new(window, edges, &flat, Arc::clone(options))?;
        columns.push((Arc::new(call), name.clone()));
    }
    if windows == 0 {
        return Ok(input);
    }
    for field in &flat.fields()[groups.len() + windows..] {
        columns.push((column(), field.name().clone()));
    }
    Ok(Arc::new(ProjectionExec::try_new(columns, input)?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Edge {
    Start,
    End,
}

impl Edge {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
        }
    }
}

/// The start or the end of a window, null for null.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EdgeOf {
    edge: Edge,
    signature: Signature,
}

impl EdgeOf {
    fn new(edge: Edge) -> Self {
        Self { edge, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for EdgeOf {
    fn name(&self) -> &str {
        match self.edge {
            Edge::Start => "window_start",
            Edge::End => "window_end",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some(DataType::Struct(fields)) = types.first() else {
            return internal_err!("{} takes a window, not {types:?}", self.name());
        };
        match fields.find(self.edge.name()) {
            Some((_, field)) => Ok(field.data_type().clone()),
            None => internal_err!("{} takes a window, not {types:?}", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [window] = args.args.as_slice() else {
            return internal_err!("{} takes one argument", self.name());
        };
        let window = window.to_array(args.number_rows)?;
        let window = window.as_struct();
        let Some(edge) = window.column_by_name(self.edge.name()) else {
            return internal_err!("a window has no {}", self.edge.name());
        };
        let nulls = NullBuffer::union(window.nulls(), edge.nulls());
        let data = edge.to_data().into_builder().nulls(nulls).build()?;
        Ok(ColumnarValue::Array(arrow::array::make_array(data)))
    }
}

/// The window between two times, null if they are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WindowBetween {
    window: DataType,
    signature: Signature,
}

impl WindowBetween {
    fn new(window: DataType) -> Self {
        Self { window, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for WindowBetween {
    fn name(&self) -> &str {
        "window_between"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.window.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (DataType::Struct(fields), [start, end]) = (&self.window, args.args.as_slice()) else {
            return internal_err!("a window has a start and an end");
        };
        let (start, end) = (start.to_array(args.number_rows)?, end.to_array(args.number_rows)?);
        let nulls = start.nulls().cloned();
        let without = |edge: ArrayRef| -> Result<ArrayRef> {
            let data = edge.to_data().into_builder().nulls(None).build()?;
            Ok(arrow::array::make_array(data))
        };
        let edges = vec![without(start)?, without(end)?];
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(fields.clone(), edges, nulls)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, RecordBatch, TimestampMicrosecondArray};
    use arrow::datatypes::{Field, Schema};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::execution::TaskContext;
    use fluvial_operators::WindowSpec;
    use futures::TryStreamExt;

    #[test]
    fn windows_come_back_as_they_were() {
        let times = TimestampMicrosecondArray::from(vec![Some(-1), None, Some(7), Some(i64::MAX)])
            .with_timezone("UTC");
        let spec = WindowSpec::parse("5 microseconds", None, None).unwrap();
        let windows: ArrayRef = Arc::new(spec.tumbling(&times));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int64, false),
            Field::new("w", windows.data_type().clone(), true),
        ]));
        let rows = RecordBatch::try_new(Arc::clone(&schema), vec![numbers, windows]).unwrap();
        let options = Arc::new(ConfigOptions::default());
        let input =
            MemorySourceConfig::try_new_exec(&[vec![rows.clone()]], Arc::clone(&schema), None)
                .unwrap();
        let column = |name: &str, i| -> Named { (Arc::new(Column::new(name, i)), name.into()) };
        let groups = vec![column("n", 0), column("w", 1)];
        let flat = apart(groups.clone(), &schema, &options).unwrap();
        assert_eq!(
            flat.iter().map(|(_, n)| n.as_str()).collect::<Vec<_>>(),
            ["n", "w.start", "w.end"]
        );
        let flat: Arc<dyn ExecutionPlan> = Arc::new(ProjectionExec::try_new(flat, input).unwrap());
        assert_eq!(flat.schema().fields().len(), 3);
        let back = together(flat, &groups, &schema, &options).unwrap();
        let found = futures::executor::block_on(
            back.execute(0, Arc::new(TaskContext::default())).unwrap().try_collect::<Vec<_>>(),
        );
        assert_eq!(found.unwrap()[0].columns(), rows.columns());
    }
}
