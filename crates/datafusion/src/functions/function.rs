//! Scalar functions by description: names, argument types, result type, and a body over columns.

use super::cast::is_string;
use super::error::{check_count, unexpected_type};
use super::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use fluvial_core::ddl::timestamp;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What an argument must be; others are cast to it where Spark does so by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Int,
    Long,
    Double,
    Boolean,
    Date,
    /// An instant.
    Timestamp,
    /// A date, a timestamp or a local timestamp, as it is.
    Time,
    /// Text or bytes, as they are.
    TextOrBinary,
    /// A number, as it is; text as a double.
    Number,
    /// Anything, as it is.
    Any,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int | Self::Long => "a whole number",
            Self::Double | Self::Number => "a number",
            Self::Boolean => "a condition",
            Self::Date => "a date",
            Self::Timestamp | Self::Time => "a timestamp",
            Self::TextOrBinary => "text or bytes",
            Self::Any => "a value",
        }
    }

    /// The type that an argument of type `from` is brought to; `None` if it is refused.
    fn of(self, from: &DataType) -> Option<DataType> {
        let nested = from.is_nested();
        let time = matches!(from, DataType::Date32 | DataType::Timestamp(..));
        let text = is_string(from);
        let free = text || from.is_null();
        match self {
            Self::Any => Some(from.clone()),
            Self::Text => (!nested).then_some(DataType::Utf8),
            Self::Int => (free || from.is_integer()).then_some(DataType::Int32),
            Self::Long => (free || from.is_integer()).then_some(DataType::Int64),
            Self::Double => (free || from.is_numeric()).then_some(DataType::Float64),
            Self::Boolean => (free || *from == DataType::Boolean).then_some(DataType::Boolean),
            Self::Date => (free || time).then_some(DataType::Date32),
            Self::Timestamp => (free || time).then(timestamp),
            Self::Time if free => Some(timestamp()),
            Self::Time => time.then(|| from.clone()),
            Self::TextOrBinary if super::cast::is_binary(from) => Some(DataType::Binary),
            Self::TextOrBinary => (!nested).then_some(DataType::Utf8),
            Self::Number if free => Some(DataType::Float64),
            Self::Number => from.is_numeric().then(|| from.clone()),
        }
    }
}

/// When the result may be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nullable {
    /// If an argument is.
    Inputs,
    Always,
    Never,
}

/// The type of the result.
#[derive(Debug, Clone)]
pub(crate) enum Gives {
    Text,
    Boolean,
    Int,
    Long,
    Double,
    Date,
    Timestamp,
    Binary,
    Of(fn(&[DataType]) -> Result<DataType>),
    /// By the types and by the arguments that are constants.
    OfConstants(fn(&[DataType], &[Option<&ScalarValue>]) -> Result<DataType>),
}

/// A function.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    /// The name and its synonyms.
    pub(crate) names: &'static [&'static str],
    /// Arguments, the first `required` of which must be there.
    pub(crate) takes: &'static [Kind],
    pub(crate) required: usize,
    /// What any number of further arguments must be.
    pub(crate) rest: Option<Kind>,
    pub(crate) gives: Gives,
    pub(crate) nullable: Nullable,
    pub(crate) run: fn(&Call<'_>) -> Result<ArrayRef>,
}

impl Spec {
    /// A function that needs all its arguments and is null if one is.
    pub(crate) const fn new(
        names: &'static [&'static str],
        takes: &'static [Kind],
        gives: Gives,
        run: fn(&Call<'_>) -> Result<ArrayRef>,
    ) -> Self {
        Self {
            names,
            takes,
            required: takes.len(),
            rest: None,
            gives,
            nullable: Nullable::Inputs,
            run,
        }
    }

    /// The same with the arguments from `required` on optional.
    pub(crate) const fn optional_from(mut self, required: usize) -> Self {
        self.required = required;
        self
    }

    /// The same with any number of further arguments.
    pub(crate) const fn and_more(mut self, rest: Kind) -> Self {
        self.rest = Some(rest);
        self
    }

    /// The same, with a result that may be null.
    pub(crate) const fn may_be_null(mut self) -> Self {
        self.nullable = Nullable::Always;
        self
    }

    /// The same, with a result that is never null.
    pub(crate) const fn never_null(mut self) -> Self {
        self.nullable = Nullable::Never;
        self
    }

    /// As a DataFusion function.
    pub(crate) fn udf(self) -> Arc<ScalarUDF> {
        let aliases = self.names[1..].iter().copied();
        let function =
            Function { spec: self, signature: Signature::user_defined(Volatility::Immutable) };
        Arc::new(ScalarUDF::from(function.clone()).with_aliases(aliases))
    }
}

/// A call on some rows.
pub(crate) struct Call<'a> {
    pub(crate) name: &'static str,
    /// The arguments, each with a value per row.
    pub(crate) args: Vec<ArrayRef>,
    /// Which arguments have the same value in every row.
    constant: Vec<bool>,
    pub(crate) rows: usize,
    pub(crate) zone: Zone,
    pub(crate) result: &'a DataType,
}

impl Call<'_> {
    /// How many arguments there are.
    pub(crate) fn count(&self) -> usize {
        self.args.len()
    }

    /// A text argument.
    pub(crate) fn text(&self, i: usize) -> &StringArray {
        self.args[i].as_string::<i32>()
    }

    /// The text of an argument that is the same in every row, if it is and is not null.
    pub(crate) fn constant_text(&self, i: usize) -> Option<&str> {
        let text = self.args.get(i).filter(|a| self.constant[i] && !a.is_empty())?;
        let text = text.as_string::<i32>();
        text.is_valid(0).then(|| text.value(0))
    }
}

#[derive(Debug, Clone)]
struct Function {
    spec: Spec,
    signature: Signature,
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

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.spec.names[0]
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let Spec { takes, required, rest, .. } = &self.spec;
        let most = rest.is_none().then_some(takes.len());
        check_count(self.name(), *required, most, types.len())?;
        let coerce = |(kind, from): (&Kind, &DataType)| {
            kind.of(from).ok_or_else(|| unexpected_type(self.name(), kind.name(), from))
        };
        takes.iter().chain(rest.iter().cycle()).zip(types).map(coerce).collect()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match &self.spec.gives {
            Gives::Text => DataType::Utf8,
            Gives::Boolean => DataType::Boolean,
            Gives::Int => DataType::Int32,
            Gives::Long => DataType::Int64,
            Gives::Double => DataType::Float64,
            Gives::Date => DataType::Date32,
            Gives::Timestamp => timestamp(),
            Gives::Binary => DataType::Binary,
            Gives::Of(of) => of(types)?,
            Gives::OfConstants(of) => of(types, &vec![None; types.len()])?,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        let nullable = match self.spec.nullable {
            Nullable::Inputs => args.arg_fields.iter().any(|f| f.is_nullable()),
            Nullable::Always => true,
            Nullable::Never => false,
        };
        let result = match &self.spec.gives {
            Gives::OfConstants(of) => of(&types, args.scalar_arguments)?,
            _ => self.return_type(&types)?,
        };
        Ok(Arc::new(Field::new(self.name(), result, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant: Vec<bool> =
            args.args.iter().map(|a| matches!(a, ColumnarValue::Scalar(_))).collect();
        // With nothing but constants one row says it all.
        let one = !constant.is_empty() && constant.iter().all(|c| *c);
        let rows = if one { 1 } else { args.number_rows };
        let call = Call {
            name: self.spec.names[0],
            args: args.args.iter().map(|a| a.to_array(rows)).collect::<Result<_>>()?,
            constant,
            rows,
            zone: Zone::of_session(&args.config_options)?,
            result: args.return_field.data_type(),
        };
        let result = (self.spec.run)(&call)?;
        if one {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
