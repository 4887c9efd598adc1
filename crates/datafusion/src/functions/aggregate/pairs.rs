//! Covariance, correlation and linear regression of pairs, both of which must be there.

use super::definition::{Arguments, Definition, OneGroup, udaf};
use super::fixed::{Finish, Fixed, FixedGroups, state_types};
use super::moments::doubles;
use crate::functions::error::divide_by_zero;
use arrow::array::{ArrayRef, Float64Array, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Accumulator, AggregateUDF, GroupsAccumulator};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    use Pair::{AvgX, AvgY, Corr, Count, CovarPop, CovarSamp, Intercept, R2, Slope, Sxx, Sxy, Syy};
    [CovarPop, CovarSamp, Corr, Slope, Intercept, R2, Count, AvgX, AvgY, Sxx, Syy, Sxy]
        .into_iter()
        .map(udaf)
        .collect()
}

/// In regressions the first argument depends on the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pair {
    CovarPop,
    CovarSamp,
    Corr,
    Slope,
    Intercept,
    R2,
    Count,
    AvgX,
    AvgY,
    Sxx,
    Syy,
    Sxy,
}

impl Definition for Pair {
    fn names(&self) -> &'static [&'static str] {
        match self {
            Self::CovarPop => &["covar_pop"],
            Self::CovarSamp => &["covar_samp"],
            Self::Corr => &["corr"],
            Self::Slope => &["regr_slope"],
            Self::Intercept => &["regr_intercept"],
            Self::R2 => &["regr_r2"],
            Self::Count => &["regr_count"],
            Self::AvgX => &["regr_avgx"],
            Self::AvgY => &["regr_avgy"],
            Self::Sxx => &["regr_sxx"],
            Self::Syy => &["regr_syy"],
            Self::Sxy => &["regr_sxy"],
        }
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        doubles(self.names()[0], 2, types)
    }

    fn result(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if *self == Self::Count { DataType::Int64 } else { DataType::Float64 })
    }

    fn nullable(&self) -> bool {
        *self != Self::Count
    }

    fn state(&self, _: &[DataType]) -> Result<Vec<DataType>> {
        Ok(state_types::<Pairs>())
    }

    fn accumulator(&self, _: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup(FixedGroups::<Pairs, _>::new(*self))))
    }

    fn groups(&self, _: &Arguments<'_>) -> Result<Option<Box<dyn GroupsAccumulator>>> {
        Ok(Some(Box::new(FixedGroups::<Pairs, _>::new(*self))))
    }
}

/// Count, means of both arguments, and the three second central moments.
#[derive(Debug, Clone, Copy, Default)]
struct Pairs {
    n: f64,
    /// Of the first argument.
    mean_y: f64,
    /// Of the second argument.
    mean_x: f64,
    xy: f64,
    yy: f64,
    xx: f64,
}

impl Fixed for Pairs {
    const ARGUMENTS: usize = 2;
    const WIDTH: usize = 6;

    fn update(&mut self, values: &[f64]) {
        let (y, x) = (values[0], values[1]);
        self.n += 1.0;
        let (dy, dx) = (y - self.mean_y, x - self.mean_x);
        self.mean_y += dy / self.n;
        self.mean_x += dx / self.n;
        self.xy += dy * (x - self.mean_x);
        self.yy += dy * (y - self.mean_y);
        self.xx += dx * (x - self.mean_x);
    }

    fn merge(&mut self, other: Self) {
        let n = self.n + other.n;
        if n == 0.0 {
            return;
        }
        let (dy, dx) = (other.mean_y - self.mean_y, other.mean_x - self.mean_x);
        let weight = self.n * other.n;
        self.xy += other.xy + dy * (dx / n) * weight;
        self.yy += other.yy + dy * (dy / n) * weight;
        self.xx += other.xx + dx * (dx / n) * weight;
        self.mean_y += dy / n * other.n;
        self.mean_x += dx / n * other.n;
        self.n = n;
    }

    fn get(&self, i: usize) -> f64 {
        [self.n, self.mean_y, self.mean_x, self.xy, self.yy, self.xx][i]
    }

    fn set(&mut self, i: usize, value: f64) {
        let fields = [
            &mut self.n,
            &mut self.mean_y,
            &mut self.mean_x,
            &mut self.xy,
            &mut self.yy,
            &mut self.xx,
        ];
        *fields[i] = value;
    }
}

impl Finish<Pairs> for Pair {
    fn finish(&self, states: &[Pairs]) -> Result<ArrayRef> {
        if *self == Self::Count {
            let counts = states.iter().map(|s| Some(s.n as i64));
            return Ok(Arc::new(counts.collect::<Int64Array>()));
        }
        let values = states.iter().map(|state| self.of(state)).collect::<Result<Float64Array>>()?;
        Ok(Arc::new(values))
    }
}

impl Pair {
    fn of(self, s: &Pairs) -> Result<Option<f64>> {
        let some = s.n > 0.0;
        // A line needs two different values to lie on.
        let line = s.n > 1.0 && s.xx != 0.0;
        Ok(match self {
            Self::CovarPop => some.then(|| s.xy / s.n),
            Self::CovarSamp => (s.n > 1.0).then(|| s.xy / (s.n - 1.0)),
            Self::Corr if s.n > 1.0 => {
                let root = (s.xx * s.yy).sqrt();
                if root == 0.0 {
                    return Err(divide_by_zero());
                }
                Some(s.xy / root)
            }
            Self::Corr => None,
            Self::Slope => line.then(|| s.xy / s.xx),
            Self::Intercept => line.then(|| s.mean_y - s.xy / s.xx * s.mean_x),
            Self::R2 if !line => None,
            Self::R2 if s.yy == 0.0 => Some(1.0),
            Self::R2 => Some(s.xy * s.xy / (s.xx * s.yy)),
            Self::Count => Some(s.n),
            Self::AvgX => some.then_some(s.mean_x),
            Self::AvgY => some.then_some(s.mean_y),
            Self::Sxx => some.then_some(s.xx),
            Self::Syy => some.then_some(s.yy),
            Self::Sxy => some.then_some(s.xy),
        })
    }
}
