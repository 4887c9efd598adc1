//! What an aggregate function must say, and the adapter that makes a DataFusion function of it.

use super::groups::StateBuilder;
use super::sliding::Sliding;
use crate::functions::cast::{CastMode, cast_array};
use crate::functions::error::spark;
use crate::functions::zone::Zone;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, GroupsAccumulator, Signature,
    Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

/// An aggregate function.
pub(super) trait Definition:
    Debug + Clone + PartialEq + Eq + Hash + Send + Sync + 'static
{
    /// The name and other names in Spark.
    fn names(&self) -> &'static [&'static str];

    /// The types that arguments are brought to.
    ///
    /// # Errors
    ///
    /// If the function does not take them.
    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>>;

    /// The type of the result for coerced arguments.
    fn result(&self, types: &[DataType]) -> Result<DataType>;

    /// Whether the result may be null.
    fn nullable(&self) -> bool {
        true
    }

    /// Whether `IGNORE NULLS` is understood.
    fn ignores_nulls(&self) -> bool {
        false
    }

    /// The types of the state's columns.
    fn state(&self, types: &[DataType]) -> Result<Vec<DataType>>;

    /// The state of one group.
    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>>;

    /// The states of many groups in columns, if the function has such.
    fn groups(&self, _: &Arguments<'_>) -> Result<Option<Box<dyn GroupsAccumulator>>> {
        Ok(None)
    }
}

/// What a call looks like when it runs.
pub(super) struct Arguments<'a> {
    /// The types of the arguments.
    pub(super) types: Vec<DataType>,
    pub(super) result: &'a DataType,
    pub(super) ignore_nulls: bool,
    exprs: &'a [Arc<dyn PhysicalExpr>],
}

impl<'a> Arguments<'a> {
    fn new(args: &'a AccumulatorArgs<'_>) -> Self {
        Self {
            types: args.expr_fields.iter().map(|f| f.data_type().clone()).collect(),
            result: args.return_field.data_type(),
            ignore_nulls: args.ignore_nulls,
            exprs: args.exprs,
        }
    }

    /// How many arguments there are.
    pub(super) fn count(&self) -> usize {
        self.types.len()
    }

    /// An argument that must be a constant, as one row of the type.
    pub(super) fn constant(&self, function: &str, i: usize, to: &DataType) -> Result<ArrayRef> {
        let Some(expr) = self.exprs.get(i) else { return internal_err!("no argument {i}") };
        let schema = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(schema, vec![], &options)?;
        let value = match expr.evaluate(&row) {
            Ok(ColumnarValue::Scalar(value)) => value.to_array()?,
            Ok(ColumnarValue::Array(array)) if array.len() == 1 => array,
            _ => {
                return Err(spark(
                    "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT",
                    format!("argument {} of `{function}` must be a constant", i + 1),
                ));
            }
        };
        cast_array(&value, to, CastMode::Ansi, Zone::UTC)
    }
}

/// A DataFusion function of a definition.
pub(super) fn udaf<D: Definition>(definition: D) -> Arc<AggregateUDF> {
    let [name, others @ ..] = definition.names() else { unreachable!("a function has a name") };
    // An alias of DataFusion's would pass over what is said of frames that move.
    let aliases = others.iter().map(|name| (*name).to_owned()).collect();
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(AggregateUDF::from(Function { name, aliases, definition, signature }))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Function<D> {
    name: &'static str,
    aliases: Vec<String>,
    definition: D,
    signature: Signature,
}

impl<D: Definition> AggregateUDFImpl for Function<D> {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.definition.coerce(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.definition.result(types)
    }

    fn is_nullable(&self) -> bool {
        self.definition.nullable()
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.definition.ignores_nulls()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        if self.definition.nullable() {
            return ScalarValue::try_from(data_type);
        }
        match data_type {
            DataType::List(item) => {
                Ok(ScalarValue::List(ScalarValue::new_list(&[], item.data_type(), true)))
            }
            other => ScalarValue::new_zero(other),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        refuse_distinct(self.name, &args)?;
        self.definition.accumulator(&Arguments::new(&args))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        refuse_distinct(self.name, &args)?;
        let Arguments { types, result, ignore_nulls, exprs } = Arguments::new(&args);
        let (definition, result, exprs) = (self.definition.clone(), result.clone(), exprs.to_vec());
        Ok(Box::new(Sliding::new(Box::new(move || {
            let types = types.clone();
            definition.accumulator(&Arguments {
                types,
                result: &result,
                ignore_nulls,
                exprs: &exprs,
            })
        }))))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let types: Vec<DataType> =
            args.input_fields.iter().map(|f| f.data_type().clone()).collect();
        let state = self.definition.state(&types)?;
        let field = |(i, data_type): (usize, DataType)| {
            let name = format_state_name(args.name, &format!("state{i}"));
            Arc::new(Field::new(name, data_type, true))
        };
        Ok(state.into_iter().enumerate().map(field).collect())
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct && matches!(self.definition.groups(&Arguments::new(&args)), Ok(Some(_)))
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match self.definition.groups(&Arguments::new(&args))? {
            Some(groups) => Ok(groups),
            None => internal_err!("{} has no accumulator of groups", self.name),
        }
    }
}

fn refuse_distinct(name: &str, args: &AccumulatorArgs<'_>) -> Result<()> {
    if args.is_distinct {
        return Err(spark(
            "DISTINCT_AGGREGATE_NOT_SUPPORTED",
            format!("`{name}(DISTINCT ...)` is not supported: remove duplicates first"),
        ));
    }
    Ok(())
}

/// One value of a column, as a scalar of exactly the column's type.
pub(super) fn scalar_at(array: &ArrayRef, row: usize) -> Result<ScalarValue> {
    ScalarValue::try_from_array(array, row)
}

/// The accumulator of one group as the first of many.
#[derive(Debug)]
pub(super) struct OneGroup<G>(pub(super) G);

impl<G: GroupsAccumulator + StateBuilder + Debug + Sync> Accumulator for OneGroup<G> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |v| v.len());
        self.0.update_batch(values, &vec![0; rows], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |v| v.len());
        self.0.merge_batch(states, &vec![0; rows], 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.grow(1);
        let result = self.0.peek()?;
        scalar_at(&result, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.grow(1);
        let states = self.0.peek_state()?;
        states.iter().map(|state| scalar_at(state, 0)).collect()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.0.size()
    }
}
