//! `rand` and `randn`. Both need a seed to run: a query without one gets it from its plan, so that
//! a batch that runs again draws the same numbers.

use crate::functions::error::{spark, unexpected_type, wrong_arguments};
use arrow::array::{AsArray, Float64Array};
use arrow::compute;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    [("rand", Draw::Uniform, "random"), ("randn", Draw::Normal, "randn")]
        .into_iter()
        .map(|(name, draw, alias)| {
            let signature = Signature::user_defined(Volatility::Volatile);
            let function = ScalarUDF::from(Random { name, draw, signature });
            Arc::new(if alias == name { function } else { function.with_aliases([alias]) })
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Draw {
    /// From 0 up to but not including 1.
    Uniform,
    /// With mean 0 and deviation 1.
    Normal,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Random {
    name: &'static str,
    draw: Draw,
    signature: Signature,
}

/// The next number of SplitMix64.
fn next(state: &mut u64) -> u64 {
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

impl Draw {
    fn next(self, state: &mut u64) -> f64 {
        match self {
            Self::Uniform => uniform(state),
            // Box and Muller; 1 - u is never 0.
            Self::Normal => {
                let (u, v) = (uniform(state), uniform(state));
                (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
            }
        }
    }
}

impl ScalarUDFImpl for Random {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [] => Ok(Vec::new()),
            [seed] if seed.is_integer() || seed.is_null() => Ok(vec![DataType::Int64]),
            [other] => Err(unexpected_type(self.name, "a whole number as seed", other)),
            _ => Err(wrong_arguments(self.name, "0 or 1", types.len())),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name, DataType::Float64, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seed = match args.args.as_slice() {
            [ColumnarValue::Scalar(seed)] => {
                let seed = compute::cast(&seed.to_array()?, &DataType::Int64)?;
                seed.as_primitive::<Int64Type>().iter().flatten().next().unwrap_or(0)
            }
            [_] => return internal_err!("the seed of {} is a constant", self.name),
            _ => {
                return Err(spark(
                    "RANDOM_WITHOUT_SEED",
                    format!("`{}()` draws other numbers each time: give it a seed", self.name),
                ));
            }
        };
        let mut state = seed as u64;
        let values = (0..args.number_rows).map(|_| Some(self.draw.next(&mut state)));
        Ok(ColumnarValue::Array(Arc::new(values.collect::<Float64Array>())))
    }
}
