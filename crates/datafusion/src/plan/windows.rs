//! `window(...)` in a streaming plan: rows get their windows below the node that asks for them.
//!
//! Sessions are given by [`sessions`]. Tumbling windows stay a function call behind a filter on null times. A row of a sliding
//! window lies in several: a list of windows is computed and unnested.

use super::event_time::{EVENT_TIME_KEY, is_window};
use super::{is_streaming, sessions};
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, TimestampMicrosecondType};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, internal_err, plan_err};
use datafusion::logical_expr::expr::{FieldMetadata, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use fluvial_core::Error;
use fluvial_operators::{WindowSpec, window_type};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the marker function that users call.
pub(crate) const WINDOW: &str = "window";
/// Name of the marker for sessions, which have an operator of their own.
pub(crate) const SESSION_WINDOW: &str = "session_window";

/// What became of the expressions of a node that calls `window`.
pub(crate) struct Assigned {
    /// The input, with windows assigned where rows lie in several.
    pub(crate) input: LogicalPlan,
    /// The expressions, over that input, under their old names.
    pub(crate) exprs: Vec<Expr>,
    /// What the windows mean, for the checkpoint.
    pub(crate) meaning: BTreeMap<String, String>,
    /// The column of the sessions, if the windows are sessions.
    pub(crate) session: Option<Column>,
}

/// Assigns the windows that `exprs` ask for.
///
/// # Errors
///
/// `_LEGACY_ERROR_TEMP_1039`'s successor `MULTIPLE_TIME_WINDOWS` for two different windows; what
/// [`WindowSpec`] refuses.
pub(crate) fn assign(input: LogicalPlan, exprs: Vec<Expr>) -> Result<Assigned> {
    let Some(call) = only_window(&exprs)? else {
        return Ok(Assigned { input, exprs, meaning: BTreeMap::new(), session: None });
    };
    if is_call(&call, SESSION_WINDOW) {
        let (input, column, session) = sessions::assign(&call, input)?;
        let exprs =
            exprs.into_iter().map(|e| replace(e, &call, &session)).collect::<Result<_>>()?;
        return Ok(Assigned { input, exprs, meaning: BTreeMap::new(), session: Some(column) });
    }
    let (time, spec) = window_of(&call, &input)?;
    let meaning = spec.meaning();
    let input = LogicalPlanBuilder::from(input).filter(time.clone().is_not_null())?.build()?;
    if spec.is_tumbling() {
        let exprs = exprs.into_iter().map(|e| over_time(e, &call, &time)).collect::<Result<_>>()?;
        return Ok(Assigned { input, exprs, meaning, session: None });
    }
    let name = unused_name(&input, "__window");
    let windows = ScalarUDF::from(SlidingWindows { spec, signature: one_argument() });
    let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let marked = time.to_field(input.schema())?.1.metadata().contains_key(EVENT_TIME_KEY);
    columns.push(windows.call(vec![time]).alias(&name));
    let input = LogicalPlanBuilder::from(input)
        .project(columns)?
        .unnest_column(Column::new_unqualified(&name))?
        .build()?;
    let column = Expr::Column(Column::new_unqualified(&name));
    let metadata: BTreeMap<String, String> =
        marked.then(|| (EVENT_TIME_KEY.to_owned(), "true".to_owned())).into_iter().collect();
    let column = column.alias_with_metadata(&name, Some(FieldMetadata::new(metadata)));
    let exprs = exprs.into_iter().map(|e| replace(e, &call, &column)).collect::<Result<_>>()?;
    Ok(Assigned { input, exprs, meaning, session: None })
}

/// The plan with a filter on null times below every aggregation by `window`: what lies below may
/// then know that such rows do not count.
pub(crate) fn filter_times(plan: LogicalPlan) -> Result<LogicalPlan> {
    let filtered = plan.transform_up(|node| {
        let LogicalPlan::Aggregate(mut aggregate) = node else { return Ok(Transformed::no(node)) };
        let call = only_window(&aggregate.group_expr)?.filter(|call| is_call(call, WINDOW));
        let Some(call) = call.filter(|_| is_streaming(&aggregate.input)) else {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        };
        let (time, _) = window_of(&call, &aggregate.input)?;
        let input = Arc::unwrap_or_clone(aggregate.input);
        let input = LogicalPlanBuilder::from(input).filter(time.is_not_null())?.build()?;
        aggregate.input = Arc::new(input);
        Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
    })?;
    Ok(filtered.data)
}

/// Whether any of the expressions calls `window` or `session_window`.
pub(crate) fn asks_for_window(exprs: &[Expr]) -> bool {
    exprs.iter().any(|e| e.exists(|e| Ok(is_any_call(e))).unwrap_or(false))
}

fn is_any_call(expr: &Expr) -> bool {
    is_call(expr, WINDOW) || is_call(expr, SESSION_WINDOW)
}

fn is_call(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == name)
}

/// The one window call of a node.
fn only_window(exprs: &[Expr]) -> Result<Option<Expr>> {
    let mut found: Option<Expr> = None;
    let mut several = false;
    for expr in exprs {
        expr.apply(|e| {
            if is_any_call(e) {
                several |= found.as_ref().is_some_and(|other| other != e);
                found = Some(e.clone());
                return Ok(TreeNodeRecursion::Jump);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    if several {
        return Err(crate::error::plan(
            Error::invalid(
                "several different time windows in one query would give a cartesian product of \
                 rows, which is not supported",
            )
            .with_condition("MULTIPLE_TIME_WINDOWS"),
        ));
    }
    Ok(found)
}

/// The time column and the window of a call. A window of windows takes their time.
fn window_of(call: &Expr, input: &LogicalPlan) -> Result<(Expr, WindowSpec)> {
    let Expr::ScalarFunction(ScalarFunction { args, .. }) = call else {
        return internal_err!("a window is a function call");
    };
    let Some((time, texts)) = args.split_first() else {
        return plan_err!("window needs a time column and a duration");
    };
    let mut durations = Vec::new();
    for text in texts {
        match text.clone().unalias() {
            Expr::Literal(value, _) => match value.try_as_str().flatten() {
                Some(text) => durations.push(text.to_owned()),
                None => return plan_err!("window durations are text such as '5 minutes'"),
            },
            other => return plan_err!("window durations must be literals, not {other}"),
        }
    }
    let spec = match durations.as_slice() {
        [size] => WindowSpec::parse(size, None, None),
        [size, slide] => WindowSpec::parse(size, Some(slide), None),
        [size, slide, start] => WindowSpec::parse(size, Some(slide), Some(start)),
        _ => return plan_err!("window takes a time, a size, and optionally a slide and a start"),
    };
    let spec = spec.map_err(crate::error::plan)?;
    let mut time = time.clone();
    if is_window(&time.get_type(input.schema())?) {
        time = crate::functions::window_time_udf().call(vec![time]);
    }
    Ok((time, spec))
}

/// The expression with the call's time argument replaced.
fn over_time(expr: Expr, call: &Expr, time: &Expr) -> Result<Expr> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = call else {
        return internal_err!("a window is a function call");
    };
    let mut args = args.clone();
    if let Some(first) = args.first_mut() {
        *first = time.clone();
    }
    let replacement = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(func), args));
    replace(expr, call, &replacement)
}

fn replace(expr: Expr, call: &Expr, replacement: &Expr) -> Result<Expr> {
    if matches!(replacement, r if r == call) {
        return Ok(expr);
    }
    let name = expr.schema_name().to_string();
    let changed = expr.transform_down(|e| {
        Ok(if &e == call {
            Transformed::new(replacement.clone(), true, TreeNodeRecursion::Jump)
        } else {
            Transformed::no(e)
        })
    })?;
    if !changed.transformed || changed.data.schema_name().to_string() == name {
        return Ok(changed.data);
    }
    Ok(changed.data.alias(name))
}

/// A name like this one that no column of the input has.
pub(super) fn unused_name(input: &LogicalPlan, name: &str) -> String {
    let taken = |name: &String| input.schema().fields().iter().any(|f| f.name() == name);
    let mut name = name.to_owned();
    while taken(&name) {
        name.push('_');
    }
    name
}

fn one_argument() -> Signature {
    Signature::any(1, Volatility::Immutable)
}

/// The windows that each time lies in, as a list.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SlidingWindows {
    spec: WindowSpec,
    signature: Signature,
}

impl ScalarUDFImpl for SlidingWindows {
    fn name(&self) -> &str {
        "sliding_windows"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some(DataType::Timestamp(_, zone)) = types.first() else {
            return plan_err!("window needs a timestamp, not {types:?}");
        };
        let item = Field::new_list_field(window_type(zone.clone()), false);
        Ok(DataType::List(Arc::new(item)))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(times) = args.args.first() else {
            return internal_err!("windows need a time");
        };
        let times: ArrayRef = times.to_array(args.number_rows)?;
        let Some(times) = times.as_primitive_opt::<TimestampMicrosecondType>() else {
            return plan_err!("window needs a timestamp, not {}", times.data_type());
        };
        let windows = self.spec.sliding(times).map_err(crate::error::plan)?;
        Ok(ColumnarValue::Array(Arc::new(windows)))
    }
}
