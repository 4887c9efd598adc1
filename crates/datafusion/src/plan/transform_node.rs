//! `StreamTransformNode`: a processor of the user, with its state.

use super::event_time::{is_event_time, marked};
use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore};
use fluvial_core::OperatorId;
use fluvial_operators::transform::{TimeMode, Transform, TransformWithState};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Calls a processor for each group of its input.
#[derive(Debug, Clone)]
pub struct StreamTransformNode {
    /// The rows: first the grouping columns, then what the processor sees.
    pub input: LogicalPlan,
    /// How many grouping columns there are.
    pub keys: usize,
    /// The processor.
    pub transform: Arc<Transform>,
    /// Rows that the state begins with, grouping columns first too. A table.
    pub initial: Option<LogicalPlan>,
    /// The operator's name in the checkpoint.
    pub operator: OperatorId,
    schema: DFSchemaRef,
}

impl StreamTransformNode {
    /// A processor over `input`, grouped by expressions. The query names it when it starts.
    ///
    /// # Errors
    ///
    /// `Invalid` if an expression does not fit, or cannot be a key.
    pub fn try_new(
        input: LogicalPlan,
        keys: Vec<Expr>,
        transform: Arc<Transform>,
        initial: Option<(LogicalPlan, Vec<Expr>)>,
    ) -> Result<Self> {
        let operator = OperatorId::new("transform").map_err(crate::error::plan)?;
        let count = keys.len();
        let input = keys_first(input, keys)?;
        let initial = initial.map(|(plan, keys)| keys_first(plan, keys)).transpose()?;
        let schema = Arc::new(output_schema(&transform)?);
        let node = Self { input, keys: count, transform, initial, operator, schema };
        node.check_initial()?;
        node.operator()?;
        Ok(node)
    }

    /// The same node under another name.
    #[must_use]
    pub fn named(&self, operator: OperatorId) -> Self {
        Self { operator, ..self.clone() }
    }

    /// The operator.
    ///
    /// # Errors
    ///
    /// `Invalid` if a grouping column cannot be a key.
    pub fn operator(&self) -> Result<TransformWithState> {
        let (keys, rows) = self.columns(&self.input);
        let event_time = rows.fields().iter().position(|field| is_event_time(field));
        let transform = Arc::clone(&self.transform);
        let operator = TransformWithState::new(transform, keys, rows, event_time);
        let operator = operator.map_err(crate::error::plan)?;
        Ok(match &self.initial {
            Some(initial) => operator.with_initial_state(self.columns(initial).1),
            None => operator,
        })
    }

    /// The grouping columns by their own names, and the columns of the rows.
    fn columns(&self, plan: &LogicalPlan) -> (Fields, SchemaRef) {
        let schema = plan.schema();
        let fields: Vec<FieldRef> = schema.as_arrow().fields().iter().cloned().collect();
        let (keys, rows) = fields.split_at(self.keys);
        let keys = keys.iter().map(|field| {
            let name = field.name().strip_prefix(KEY_PREFIX).unwrap_or(field.name());
            Arc::new(field.as_ref().clone().with_name(name))
        });
        (keys.collect(), Arc::new(Schema::new(rows.to_vec())))
    }

    fn check_initial(&self) -> Result<()> {
        let Some(initial) = &self.initial else { return Ok(()) };
        let (ours, theirs) = (self.columns(&self.input).0, self.columns(initial).0);
        let types = |fields: &Fields| -> Vec<String> {
            fields.iter().map(|field| field.data_type().to_string()).collect()
        };
        if types(&ours) == types(&theirs) {
            return Ok(());
        }
        Err(crate::error::plan(
            fluvial_core::Error::invalid(format!(
                "the initial state is grouped by [{}] and the stream by [{}]: the types must be \
                 the same",
                types(&theirs).join(", "),
                types(&ours).join(", ")
            ))
            .with_condition("DATATYPE_MISMATCH"),
        ))
    }
}

/// Whether a processor of the plan has timers by processing time.
pub(crate) fn runs_by_processing_time(plan: &LogicalPlan) -> bool {
    let node = match plan {
        LogicalPlan::Extension(extension) => {
            extension.node.as_any().downcast_ref::<StreamTransformNode>()
        }
        _ => None,
    };
    node.is_some_and(|node| node.transform.time_mode() == TimeMode::ProcessingTime)
        || plan.inputs().into_iter().any(runs_by_processing_time)
}

/// Marks the copies of grouping columns, so that their names stay apart from those of the rows.
const KEY_PREFIX: &str = "__fluvial_key_";

/// The plan with its grouping columns in front.
fn keys_first(plan: LogicalPlan, keys: Vec<Expr>) -> Result<LogicalPlan> {
    let name = |key: &Expr| match key {
        Expr::Column(column) => column.name.clone(),
        other => other.schema_name().to_string(),
    };
    let keys = keys.into_iter().map(|key| {
        let name = format!("{KEY_PREFIX}{}", name(&key));
        key.unalias().alias(name)
    });
    let rows = plan.schema().columns().into_iter().map(Expr::Column);
    let exprs: Vec<Expr> = keys.chain(rows).collect();
    LogicalPlanBuilder::from(plan).project(exprs)?.build()
}

fn output_schema(transform: &Transform) -> Result<DFSchema> {
    let fields = transform.output_schema().fields().iter().enumerate();
    let fields: Fields = fields
        .map(|(at, field)| match transform.event_time() == Some(at) {
            true => marked(field),
            false => Arc::clone(field),
        })
        .collect();
    DFSchema::try_from(Schema::new(fields))
}

impl PartialEq for StreamTransformNode {
    fn eq(&self, other: &Self) -> bool {
        let same = Arc::ptr_eq(&self.transform, &other.transform) && self.keys == other.keys;
        same && (&self.operator, &self.input, &self.initial)
            == (&other.operator, &other.input, &other.initial)
    }
}

impl Eq for StreamTransformNode {}

impl Hash for StreamTransformNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.operator.hash(state);
    }
}

impl PartialOrd for StreamTransformNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for StreamTransformNode {
    fn name(&self) -> &str {
        "StreamTransform"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        std::iter::once(&self.input).chain(&self.initial).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (keys, _) = self.columns(&self.input);
        let keys: Vec<&str> = keys.iter().map(|field| field.name().as_str()).collect();
        let (mode, time) = (self.transform.output_mode(), self.transform.time_mode());
        let (operator, keys) = (&self.operator, keys.join(", "));
        write!(f, "StreamTransform: operator={operator}, keys=[{keys}], mode={mode}, time={time}")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut inputs = inputs.into_iter();
        let Some(input) = inputs.next() else {
            return internal_err!("a processor needs its input");
        };
        Ok(Self { input, initial: inputs.next(), ..self.clone() })
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // What a processor looks at is its own business: it sees every column.
        let all = |plan: &&LogicalPlan| (0..plan.schema().fields().len()).collect();
        Some(self.inputs().iter().map(all).collect())
    }
}
