//! Functions of doubles.

use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::Float64Type;
use datafusion::common::Result;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    const ONE: &[Kind] = &[Kind::Double];
    const TWO: &[Kind] = &[Kind::Double, Kind::Double];
    macro_rules! unary {
        ($($($name:literal),+ => $f:expr;)*) => {
            vec![$(Spec::new(&[$($name),+], ONE, Gives::Double, |c| map(c, $f))),*]
        };
    }
    let mut functions = unary! {
        "sqrt" => f64::sqrt;
        "cbrt" => f64::cbrt;
        "exp" => f64::exp;
        "expm1" => f64::exp_m1;
        "sin" => f64::sin;
        "cos" => f64::cos;
        "tan" => f64::tan;
        "asin" => f64::asin;
        "acos" => f64::acos;
        "atan" => f64::atan;
        "sinh" => f64::sinh;
        "cosh" => f64::cosh;
        "tanh" => f64::tanh;
        "asinh" => f64::asinh;
        "acosh" => f64::acosh;
        "atanh" => f64::atanh;
        "cot" => |x: f64| 1.0 / x.tan();
        "sec" => |x: f64| 1.0 / x.cos();
        "csc" => |x: f64| 1.0 / x.sin();
        "degrees" => f64::to_degrees;
        "radians" => f64::to_radians;
        "rint" => f64::round_ties_even;
        "sign", "signum" => |x: f64| if x == 0.0 || x.is_nan() { x } else { x.signum() };
    };
    // Where a logarithm is not defined it is null, also in ANSI mode.
    let log = |names, f| Spec::new(names, ONE, Gives::Double, f).may_be_null();
    functions.extend([
        log(&["ln"], |c| logarithm(c, 0.0, f64::ln)),
        log(&["log10"], |c| logarithm(c, 0.0, f64::log10)),
        log(&["log2"], |c| logarithm(c, 0.0, f64::log2)),
        log(&["log1p"], |c| logarithm(c, -1.0, f64::ln_1p)),
        Spec::new(&["log"], TWO, Gives::Double, log_of_base).optional_from(1).may_be_null(),
        Spec::new(&["pow", "power"], TWO, Gives::Double, |c| pairs(c, f64::powf)),
        Spec::new(&["atan2"], TWO, Gives::Double, |c| pairs(c, f64::atan2)),
        Spec::new(&["hypot"], TWO, Gives::Double, |c| pairs(c, f64::hypot)),
        Spec::new(&["nanvl"], TWO, Gives::Double, |c| {
            let (a, b) = (doubles(c, 0), doubles(c, 1));
            let values = a.iter().zip(b).map(|(a, b)| match a {
                Some(a) if a.is_nan() => b,
                a => a,
            });
            Ok(Arc::new(values.collect::<Float64Array>()))
        }),
        Spec::new(&["e"], &[], Gives::Double, |c| constant(c, std::f64::consts::E)).never_null(),
        Spec::new(&["pi"], &[], Gives::Double, |c| constant(c, std::f64::consts::PI)).never_null(),
    ]);
    functions
}

fn doubles<'a>(call: &'a Call<'_>, i: usize) -> &'a Float64Array {
    call.args[i].as_primitive::<Float64Type>()
}

fn map(call: &Call<'_>, f: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    Ok(Arc::new(doubles(call, 0).unary::<_, Float64Type>(f)))
}

fn pairs(call: &Call<'_>, f: impl Fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let values: Float64Array = arrow::compute::binary(doubles(call, 0), doubles(call, 1), f)?;
    Ok(Arc::new(values))
}

fn logarithm(call: &Call<'_>, above: f64, f: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    let log = |x: f64| (x > above || x.is_nan()).then(|| f(x));
    Ok(Arc::new(doubles(call, 0).unary_opt::<_, Float64Type>(log)))
}

fn log_of_base(call: &Call<'_>) -> Result<ArrayRef> {
    if call.count() == 1 {
        return logarithm(call, 0.0, f64::ln);
    }
    let values = doubles(call, 0).iter().zip(doubles(call, 1)).map(|(base, x)| {
        let (base, x) = base.zip(x)?;
        (base > 0.0 && x > 0.0).then(|| x.ln() / base.ln())
    });
    Ok(Arc::new(values.collect::<Float64Array>()))
}

fn constant(call: &Call<'_>, value: f64) -> Result<ArrayRef> {
    Ok(Arc::new(Float64Array::from_value(value, call.rows)))
}
