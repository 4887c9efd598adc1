//! `rand`, `randn`, `uuid` and `shuffle`.
//!
//! In a stream every row brings the bits that it draws from, a function of the batch, the place in
//! the query, the partition and the row ([`Drawn`]): a batch that runs again draws the same. A
//! table has no replay; there a function without a seed draws from the operating system's.

use crate::functions::error::{spark, unexpected_type, wrong_arguments};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, StringArray, UInt32Array,
};
use arrow::compute;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    Draw::ALL
        .into_iter()
        .map(|draw| {
            let signature = Signature::user_defined(Volatility::Volatile);
            let function = ScalarUDF::from(Random { draw, signature });
            Arc::new(match draw {
                Draw::Uniform => function.with_aliases(["random"]),
                _ => function,
            })
        })
        .collect()
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Draw {
    /// From 0 up to but not including 1.
    Uniform,
    /// With mean 0 and deviation 1.
    Normal,
    /// A UUID of version 4.
    Uuid,
    /// The order of an array.
    Shuffle,
}

impl Draw {
    const ALL: [Self; 4] = [Self::Uniform, Self::Normal, Self::Uuid, Self::Shuffle];

    /// What a function draws.
    pub(crate) fn by(function: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|draw| draw.function() == function)
    }

    fn function(self) -> &'static str {
        match self {
            Self::Uniform => "rand",
            Self::Normal => "randn",
            Self::Uuid => "uuid",
            Self::Shuffle => "shuffle",
        }
    }

    fn function_of_bits(self) -> &'static str {
        match self {
            Self::Uniform => "rand_of",
            Self::Normal => "randn_of",
            Self::Uuid => "uuid_of",
            Self::Shuffle => "shuffle_of",
        }
    }

    /// The arguments before the seed.
    fn arguments(self) -> usize {
        usize::from(self == Self::Shuffle)
    }

    fn gives(self, arguments: &[DataType]) -> Result<DataType> {
        match (self, arguments.first()) {
            (Self::Uniform | Self::Normal, _) => Ok(DataType::Float64),
            (Self::Uuid, _) => Ok(DataType::Utf8),
            (Self::Shuffle, Some(array)) => Ok(array.clone()),
            (Self::Shuffle, None) => internal_err!("shuffle needs an array"),
        }
    }

    fn field(self, arguments: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = arguments.iter().map(|f| f.data_type().clone()).collect();
        let nullable = self == Self::Shuffle && arguments.first().is_some_and(|f| f.is_nullable());
        Ok(Arc::new(Field::new(self.function(), self.gives(&types)?, nullable)))
    }

    /// Draws for each of these bits.
    fn run(self, arguments: &[ArrayRef], bits: &Int64Array) -> Result<ArrayRef> {
        let bits = bits.values().iter().map(|bits| *bits as u64);
        Ok(match (self, arguments) {
            (Self::Uniform, _) => Arc::new(bits.map(|mut s| uniform(&mut s)).collect::<Floats>().0),
            (Self::Normal, _) => Arc::new(bits.map(|mut s| normal(&mut s)).collect::<Floats>().0),
            (Self::Uuid, _) => Arc::new(StringArray::from_iter_values(bits.map(uuid))),
            (Self::Shuffle, [array]) => shuffle(array, bits)?,
            (Self::Shuffle, _) => return internal_err!("shuffle takes an array"),
        })
    }
}

/// Collects numbers without nulls.
struct Floats(Float64Array);

impl FromIterator<f64> for Floats {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(Float64Array::from_iter_values(values))
    }
}

/// The next number of SplitMix64.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 53 random bits as a fraction.
fn uniform(state: &mut u64) -> f64 {
    (next(state) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Box and Muller; 1 - u is never 0.
fn normal(state: &mut u64) -> f64 {
    let (u, v) = (uniform(state), uniform(state));
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

fn uuid(mut state: u64) -> String {
    let high = next(&mut state) & 0xffff_ffff_ffff_0fff | 0x4000;
    let low = next(&mut state) & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// Fisher and Yates, row by row.
fn shuffle(array: &ArrayRef, bits: impl Iterator<Item = u64>) -> Result<ArrayRef> {
    let Some(list) = array.as_list_opt::<i32>() else {
        return internal_err!("shuffle takes an array");
    };
    let mut order: Vec<u32> = (0..list.values().len() as u32).collect();
    for (row, mut state) in bits.enumerate() {
        let (start, end) =
            (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
        let items = &mut order[start..end];
        for last in (1..items.len()).rev() {
            let other = (next(&mut state) % (last as u64 + 1)) as usize;
            items.swap(last, other);
        }
    }
    let DataType::List(item) = list.data_type() else {
        return internal_err!("shuffle takes an array");
    };
    let values = compute::take(list.values(), &UInt32Array::from(order), None)?;
    let offsets = list.offsets().clone();
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, list.nulls().cloned())?))
}

/// The function as a query names it: with a seed, or without one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Random {
    draw: Draw,
    signature: Signature,
}

impl ScalarUDFImpl for Random {
    fn name(&self) -> &str {
        self.draw.function()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let own = self.draw.arguments();
        let mut coerced = types.to_vec();
        if let (1, Some(array)) = (own, types.first())
            && !matches!(array, DataType::List(_))
        {
            return Err(unexpected_type(self.name(), "an array", array));
        }
        match types.get(own..) {
            Some([]) => Ok(coerced),
            Some([seed]) if seed.is_integer() || seed.is_null() => {
                coerced[own] = DataType::Int64;
                Ok(coerced)
            }
            Some([other]) => Err(unexpected_type(self.name(), "a whole number as seed", other)),
            _ => {
                let expected = if own == 0 { "0 or 1" } else { "1 or 2" };
                Err(wrong_arguments(self.name(), expected, types.len()))
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.draw.gives(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.draw.field(args.arg_fields)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (own, rows) = (self.draw.arguments(), args.number_rows);
        let mut state = match args.args.get(own) {
            None => RandomState::new().hash_one(0),
            Some(ColumnarValue::Scalar(seed)) => seed_of(seed)? as u64,
            Some(ColumnarValue::Array(_)) => return Err(seed_is_no_constant(self.name())),
        };
        let arrays = ColumnarValue::values_to_arrays(&args.args[..own])?;
        let arrays = match (arrays.first(), rows) {
            // A constant.
            (Some(array), rows) if array.len() == 1 && rows > 1 => {
                vec![ScalarValue::try_from_array(array, 0)?.to_array_of_size(rows)?]
            }
            _ => arrays,
        };
        let bits = Int64Array::from_iter_values((0..rows).map(|_| next(&mut state) as i64));
        Ok(ColumnarValue::Array(self.draw.run(&arrays, &bits)?))
    }
}

fn seed_of(seed: &ScalarValue) -> Result<i64> {
    let seed = compute::cast(&seed.to_array()?, &DataType::Int64)?;
    Ok(seed.as_primitive::<Int64Type>().iter().flatten().next().unwrap_or(0))
}

fn seed_is_no_constant(function: &str) -> datafusion::common::DataFusionError {
    spark(
        "SEED_EXPRESSION_IS_UNFOLDABLE",
        format!("the seed of `{function}` must be a constant, such as `{function}(1)`"),
    )
}

/// A call of one of the functions in a streaming query, taken apart.
pub(crate) struct DrawCall {
    /// What is drawn.
    pub(crate) draw: Draw,
    /// The seed that the query gives.
    pub(crate) seed: Option<i64>,
    arguments: Vec<Expr>,
}

impl DrawCall {
    /// Takes a call apart; `None` if the function draws nothing.
    ///
    /// # Errors
    ///
    /// `SEED_EXPRESSION_IS_UNFOLDABLE`.
    pub(crate) fn of(function: &str, arguments: &[Expr]) -> Result<Option<Self>> {
        let Some(draw) = Draw::by(function) else { return Ok(None) };
        let own = draw.arguments();
        let seed = match arguments.get(own) {
            None => None,
            Some(Expr::Literal(seed, _)) => Some(seed_of(seed)?),
            Some(_) => return Err(seed_is_no_constant(function)),
        };
        let arguments = arguments.iter().take(own).cloned().collect();
        Ok(Some(Self { draw, seed, arguments }))
    }

    /// The same from bits that each row brings.
    pub(crate) fn of_bits(self, bits: Expr) -> Expr {
        let signature = Signature::any(self.draw.arguments() + 1, Volatility::Immutable);
        let function = ScalarUDF::from(Drawn { draw: self.draw, signature });
        function.call(self.arguments.into_iter().chain([bits]).collect())
    }
}

/// The function of the bits that each row brings: the last argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Drawn {
    draw: Draw,
    signature: Signature,
}

impl ScalarUDFImpl for Drawn {
    fn name(&self) -> &str {
        self.draw.function_of_bits()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.draw.gives(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.draw.field(args.arg_fields)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let bits = arrays.pop();
        let Some(bits) = bits.as_ref().and_then(|bits| bits.as_primitive_opt::<Int64Type>()) else {
            return internal_err!("{} needs bits", self.name());
        };
        Ok(ColumnarValue::Array(self.draw.run(&arrays, bits)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_of_version_4_and_follow_their_bits() {
        let one = uuid(7);
        assert_eq!(one, uuid(7));
        assert_ne!(one, uuid(8));
        assert_eq!((one.len(), &one[14..15]), (36, "4"), "{one}");
        assert!(matches!(&one[19..20], "8" | "9" | "a" | "b"), "{one}");
    }

    #[test]
    fn a_shuffle_keeps_the_items_of_each_row() {
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some((0..50).map(Some).collect::<Vec<_>>()),
            None,
            Some(vec![Some(7)]),
        ]));
        let shuffled = shuffle(&lists, [1, 2, 3].into_iter()).unwrap();
        let first = shuffled.as_list::<i32>().value(0);
        let mut items = first.as_primitive::<Int64Type>().values().to_vec();
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
        assert!(shuffled.is_null(1));
        assert_eq!(shuffled.as_list::<i32>().value(2).as_primitive::<Int64Type>().values(), &[7]);
    }
}
