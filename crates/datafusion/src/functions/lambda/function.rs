//! Higher-order functions by description: names, arguments, what their lambdas get, and a body
//! over columns.

use crate::functions::error::{check_count, spark, unexpected_type};
use crate::functions::zone::Zone;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDF, HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda,
    Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What an argument must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Array,
    Map,
    Any,
    Lambda,
}

impl Takes {
    /// The type that a value of type `from` is brought to; `None` if it is refused.
    fn of(self, from: &DataType) -> Option<DataType> {
        match (self, from) {
            (Self::Any, _) | (Self::Array, DataType::List(_)) | (Self::Map, DataType::Map(..)) => {
                Some(from.clone())
            }
            (
                Self::Array,
                DataType::LargeList(item)
                | DataType::ListView(item)
                | DataType::LargeListView(item)
                | DataType::FixedSizeList(item, _),
            ) => Some(DataType::List(Arc::clone(item))),
            (Self::Array, DataType::Null) => Some(DataType::new_list(DataType::Null, true)),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Array => "an array",
            Self::Map => "a map",
            Self::Any => "a value",
            Self::Lambda => "a lambda",
        }
    }
}

/// A higher-order function.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    /// The name and its synonyms.
    pub(super) names: &'static [&'static str],
    /// Arguments in order, the first `required` of which must be there.
    pub(super) takes: &'static [Takes],
    pub(super) required: usize,
    /// What each lambda gets, by the values: all that it may name.
    pub(super) parameters: fn(&[DataType]) -> Result<Vec<Vec<Field>>>,
    /// The type of the result, by the values and what the lambdas give.
    pub(super) gives: fn(&Types<'_>) -> Result<DataType>,
    pub(super) run: fn(&Call<'_>) -> Result<ArrayRef>,
}

/// The types of a call.
pub(super) struct Types<'a> {
    pub(super) name: &'static str,
    pub(super) values: Vec<&'a DataType>,
    pub(super) lambdas: Vec<&'a FieldRef>,
}

impl Types<'_> {
    /// Refuses a lambda that is no condition.
    pub(super) fn conditions(&self) -> Result<()> {
        match self.lambdas.iter().map(|field| field.data_type()).find(|t| !is_condition(t)) {
            None => Ok(()),
            Some(other) => Err(unexpected_type(self.name, "a lambda that is a condition", other)),
        }
    }
}

fn is_condition(t: &DataType) -> bool {
    matches!(t, DataType::Boolean | DataType::Null)
}

/// A call on some rows.
pub(super) struct Call<'a> {
    /// The values, each with an entry per row.
    pub(super) values: Vec<ArrayRef>,
    pub(super) lambdas: Vec<&'a LambdaArgument>,
    pub(super) rows: usize,
    pub(super) zone: Zone,
    pub(super) result: &'a DataType,
}

impl Spec {
    /// As a DataFusion function.
    pub(super) fn udf(self) -> Arc<HigherOrderUDF> {
        let aliases = self.names[1..].iter().map(|name| (*name).to_owned()).collect();
        let signature = HigherOrderSignature::user_defined(Volatility::Immutable);
        Arc::new(HigherOrderUDF::new_from_impl(Function { spec: self, aliases, signature }))
    }
}

#[derive(Debug)]
struct Function {
    spec: Spec,
    aliases: Vec<String>,
    signature: HigherOrderSignature,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.spec.names == other.spec.names
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.spec.names.hash(state);
    }
}

impl Function {
    /// Refuses a call that has something else where a lambda or a value belongs.
    fn check<V, L>(&self, args: &[ValueOrLambda<V, L>]) -> Result<()> {
        let Spec { names, takes, required, .. } = &self.spec;
        check_count(names[0], *required, Some(takes.len()), args.len())?;
        for (i, (takes, arg)) in takes.iter().zip(args).enumerate() {
            let is_lambda = matches!(arg, ValueOrLambda::Lambda(_));
            if is_lambda != (*takes == Takes::Lambda) {
                let message = format!(
                    "argument {} of `{}` must be {}{}",
                    i + 1,
                    names[0],
                    takes.name(),
                    if is_lambda { ", not a lambda" } else { ", such as x -> x" }
                );
                return Err(spark("DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE", message));
            }
        }
        Ok(())
    }
}

impl HigherOrderUDFImpl for Function {
    fn name(&self) -> &str {
        self.spec.names[0]
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let values = self.spec.takes.iter().filter(|takes| **takes != Takes::Lambda);
        let coerce = |(takes, from): (&Takes, &DataType)| {
            takes.of(from).ok_or_else(|| unexpected_type(self.name(), takes.name(), from))
        };
        values.chain(std::iter::repeat(&Takes::Any)).zip(types).map(coerce).collect()
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        self.check(fields)?;
        let mut types = Vec::new();
        let mut lambdas = 0;
        for field in fields {
            match field {
                ValueOrLambda::Value(field) => types.push(field.data_type().clone()),
                ValueOrLambda::Lambda(_) => lambdas += 1,
            }
        }
        let parameters = (self.spec.parameters)(&types)?.into_iter().take(lambdas);
        let shared = |fields: Vec<Field>| fields.into_iter().map(Arc::new).collect();
        Ok(LambdaParametersProgress::Complete(parameters.map(shared).collect()))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.check(args.arg_fields)?;
        let mut types = Types { name: self.spec.names[0], values: Vec::new(), lambdas: Vec::new() };
        for field in args.arg_fields {
            match field {
                ValueOrLambda::Value(field) => types.values.push(field.data_type()),
                ValueOrLambda::Lambda(field) => types.lambdas.push(field),
            }
        }
        Ok(Arc::new(Field::new(self.name(), (self.spec.gives)(&types)?, true)))
    }

    fn clear_null_values(&self) -> bool {
        false
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (mut values, mut lambdas) = (Vec::new(), Vec::new());
        for arg in &args.args {
            match arg {
                ValueOrLambda::Value(value) => values.push(value.to_array(args.number_rows)?),
                ValueOrLambda::Lambda(lambda) => lambdas.push(lambda),
            }
        }
        if lambdas.is_empty() {
            return internal_err!("{} without a lambda", self.name());
        }
        let call = Call {
            values,
            lambdas,
            rows: args.number_rows,
            zone: Zone::of_session(&args.config_options)?,
            result: args.return_field.data_type(),
        };
        Ok(ColumnarValue::Array((self.spec.run)(&call)?))
    }
}
