//! Variance, standard deviation, skewness and kurtosis: central moments, updated one value at a
//! time and merged, in the order of rows.

use super::definition::{Arguments, Definition, OneGroup, udaf};
use super::fixed::{Finish, Fixed, FixedGroups, state_types};
use crate::functions::cast::is_string;
use crate::functions::error::{unexpected_type, wrong_arguments};
use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Accumulator, AggregateUDF, GroupsAccumulator};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    use Moment::{Kurtosis, Skewness, StddevPop, StddevSamp, VarPop, VarSamp};
    [VarPop, VarSamp, StddevPop, StddevSamp, Skewness, Kurtosis].into_iter().map(udaf).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Moment {
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
    Skewness,
    Kurtosis,
}

impl Moment {
    /// Whether the third and fourth moment are needed.
    fn is_high(self) -> bool {
        matches!(self, Self::Skewness | Self::Kurtosis)
    }
}

impl Definition for Moment {
    fn names(&self) -> &'static [&'static str] {
        match self {
            Self::VarPop => &["var_pop"],
            Self::VarSamp => &["var_samp", "variance"],
            Self::StddevPop => &["stddev_pop"],
            Self::StddevSamp => &["stddev_samp", "stddev", "std"],
            Self::Skewness => &["skewness"],
            Self::Kurtosis => &["kurtosis"],
        }
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        doubles(self.names()[0], 1, types)
    }

    fn result(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state(&self, _: &[DataType]) -> Result<Vec<DataType>> {
        Ok(if self.is_high() { state_types::<High>() } else { state_types::<Low>() })
    }

    fn accumulator(&self, _: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(if self.is_high() {
            Box::new(OneGroup(FixedGroups::<High, _>::new(*self)))
        } else {
            Box::new(OneGroup(FixedGroups::<Low, _>::new(*self)))
        })
    }

    fn groups(&self, _: &Arguments<'_>) -> Result<Option<Box<dyn GroupsAccumulator>>> {
        Ok(Some(if self.is_high() {
            Box::new(FixedGroups::<High, _>::new(*self))
        } else {
            Box::new(FixedGroups::<Low, _>::new(*self))
        }))
    }
}

/// So many arguments, as doubles.
pub(super) fn doubles(name: &str, count: usize, types: &[DataType]) -> Result<Vec<DataType>> {
    if types.len() != count {
        return Err(wrong_arguments(name, &count.to_string(), types.len()));
    }
    let fits = |t: &&DataType| !(t.is_numeric() || is_string(t) || t.is_null());
    match types.iter().find(fits) {
        Some(other) => Err(unexpected_type(name, "numbers", other)),
        None => Ok(vec![DataType::Float64; count]),
    }
}

/// Count, mean and second central moment.
#[derive(Debug, Clone, Copy, Default)]
struct Low {
    n: f64,
    mean: f64,
    m2: f64,
}

impl Fixed for Low {
    const ARGUMENTS: usize = 1;
    const WIDTH: usize = 3;

    fn update(&mut self, x: &[f64]) {
        self.n += 1.0;
        let delta = x[0] - self.mean;
        let step = delta / self.n;
        self.mean += step;
        self.m2 += delta * (delta - step);
    }

    fn merge(&mut self, other: Self) {
        let n = self.n + other.n;
        let delta = other.mean - self.mean;
        let step = if n == 0.0 { 0.0 } else { delta / n };
        self.mean += step * other.n;
        self.m2 += other.m2 + delta * step * self.n * other.n;
        self.n = n;
    }

    fn get(&self, i: usize) -> f64 {
        [self.n, self.mean, self.m2][i]
    }

    fn set(&mut self, i: usize, value: f64) {
        *[&mut self.n, &mut self.mean, &mut self.m2][i] = value;
    }
}

/// Count, mean and the central moments up to the fourth.
#[derive(Debug, Clone, Copy, Default)]
struct High {
    n: f64,
    mean: f64,
    m2: f64,
    m3: f64,
    m4: f64,
}

impl Fixed for High {
    const ARGUMENTS: usize = 1;
    const WIDTH: usize = 5;

    fn update(&mut self, x: &[f64]) {
        self.n += 1.0;
        let delta = x[0] - self.mean;
        let step = delta / self.n;
        self.mean += step;
        self.m2 += delta * (delta - step);
        let (delta2, step2) = (delta * delta, step * step);
        self.m3 += -3.0 * step * self.m2 + delta * (delta2 - step2);
        self.m4 +=
            -4.0 * step * self.m3 - 6.0 * step2 * self.m2 + delta * (delta * delta2 - step * step2);
    }

    fn merge(&mut self, other: Self) {
        let (n1, n2) = (self.n, other.n);
        let n = n1 + n2;
        let delta = other.mean - self.mean;
        let step = if n == 0.0 { 0.0 } else { delta / n };
        let m2 = self.m2 + other.m2 + delta * step * n1 * n2;
        let m3 = self.m3
            + other.m3
            + step * step * delta * n1 * n2 * (n1 - n2)
            + 3.0 * step * (n1 * other.m2 - n2 * self.m2);
        let m4 = self.m4
            + other.m4
            + step * step * step * delta * n1 * n2 * (n1 * n1 - n1 * n2 + n2 * n2)
            + 6.0 * step * step * (n1 * n1 * other.m2 + n2 * n2 * self.m2)
            + 4.0 * step * (n1 * other.m3 - n2 * self.m3);
        *self = Self { n, mean: self.mean + step * n2, m2, m3, m4 };
    }

    fn get(&self, i: usize) -> f64 {
        [self.n, self.mean, self.m2, self.m3, self.m4][i]
    }

    fn set(&mut self, i: usize, value: f64) {
        let fields = [&mut self.n, &mut self.mean, &mut self.m2, &mut self.m3, &mut self.m4];
        *fields[i] = value;
    }
}

impl Finish<Low> for Moment {
    fn finish(&self, states: &[Low]) -> Result<ArrayRef> {
        let value = |s: &Low| match self {
            Self::VarPop => (s.n > 0.0).then(|| s.m2 / s.n),
            Self::StddevPop => (s.n > 0.0).then(|| (s.m2 / s.n).sqrt()),
            Self::VarSamp => (s.n > 1.0).then(|| s.m2 / (s.n - 1.0)),
            _ => (s.n > 1.0).then(|| (s.m2 / (s.n - 1.0)).sqrt()),
        };
        Ok(Arc::new(states.iter().map(value).collect::<Float64Array>()))
    }
}

impl Finish<High> for Moment {
    fn finish(&self, states: &[High]) -> Result<ArrayRef> {
        let value = |s: &High| {
            // Equal values have neither skewness nor kurtosis.
            if s.n == 0.0 || s.m2 == 0.0 {
                return None;
            }
            Some(match self {
                Self::Skewness => s.n.sqrt() * s.m3 / (s.m2 * s.m2 * s.m2).sqrt(),
                _ => s.n * s.m4 / (s.m2 * s.m2) - 3.0,
            })
        };
        Ok(Arc::new(states.iter().map(value).collect::<Float64Array>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
    }

    proptest! {
        #[test]
        fn merging_is_updating(
            left in proptest::collection::vec(-100.0..100.0_f64, 0..20),
            right in proptest::collection::vec(-100.0..100.0_f64, 0..20),
        ) {
            let of = |values: &[f64]| {
                let mut state = High::default();
                values.iter().for_each(|v| state.update(&[*v]));
                state
            };
            let mut merged = of(&left);
            merged.merge(of(&right));
            let whole = of(&[left, right].concat());
            for i in 0..High::WIDTH {
                prop_assert!(close(merged.get(i), whole.get(i)), "{i}: {merged:?} {whole:?}");
            }
        }
    }
}
