//! `percentile_approx`: a summary of values in bounded memory (Greenwald and Khanna), whose
//! answers are values that came, of a rank off by at most one in `accuracy`.

use super::collect::{elements, list_scalar};
use super::definition::{Arguments, Definition, udaf};
use super::percentile::{Percentages, percentage_type};
use crate::functions::cast::{CastMode, cast_array, is_string};
use crate::functions::error::{spark, unexpected_type, wrong_arguments};
use crate::functions::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use fluvial_core::ddl::array_of;
use std::sync::Arc;

pub(super) fn function() -> Arc<AggregateUDF> {
    udaf(Approximate)
}

const DEFAULT_ACCURACY: i64 = 10_000;
/// Values gathered before they are sorted into the summary.
const BUFFER: usize = 4_096;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Approximate;

impl Definition for Approximate {
    fn names(&self) -> &'static [&'static str] {
        &["percentile_approx", "approx_percentile"]
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, percentages, rest @ ..] = types else {
            return Err(wrong_arguments("percentile_approx", "2 or 3", types.len()));
        };
        if rest.len() > 1 {
            return Err(wrong_arguments("percentile_approx", "2 or 3", types.len()));
        }
        let value = match value {
            t if is_string(t) || t.is_null() => DataType::Float64,
            t if t.is_numeric() || matches!(t, DataType::Date32 | DataType::Timestamp(..)) => {
                t.clone()
            }
            other => return Err(unexpected_type("percentile_approx", "numbers or times", other)),
        };
        let mut coerced = vec![value, percentage_type(percentages)];
        coerced.extend(rest.iter().map(|_| DataType::Int64));
        Ok(coerced)
    }

    fn result(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value, DataType::List(_), ..] => Ok(array_of(value.clone())),
            [value, ..] => Ok(value.clone()),
            [] => internal_err!("no argument"),
        }
    }

    fn state(&self, _: &[DataType]) -> Result<Vec<DataType>> {
        let (doubles, counts) = (array_of(DataType::Float64), array_of(DataType::Int64));
        Ok(vec![doubles, counts.clone(), counts, DataType::Int64])
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        let percentages = Percentages::of("percentile_approx", arguments, 1)?;
        let accuracy = match arguments.count() {
            3 => {
                let value = arguments.constant("percentile_approx", 2, &DataType::Int64)?;
                value.as_primitive::<Int64Type>().iter().flatten().next().unwrap_or(0)
            }
            _ => DEFAULT_ACCURACY,
        };
        if !(1..=i64::from(i32::MAX)).contains(&accuracy) {
            return Err(spark(
                "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
                format!("the accuracy of `percentile_approx` is positive, not {accuracy}"),
            ));
        }
        let value = arguments.types[0].clone();
        let summary = Summary::new(1.0 / accuracy as f64);
        Ok(Box::new(Quantiles { percentages, value, summary }))
    }
}

/// A value that came, with what is known of its rank.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    value: f64,
    /// How many values lie between the sample before and this one, this one included.
    gap: i64,
    /// By how much the rank may be higher than the gaps say.
    slack: i64,
}

/// A summary of all values so far.
#[derive(Debug, Clone)]
struct Summary {
    error: f64,
    samples: Vec<Sample>,
    count: i64,
    buffer: Vec<f64>,
}

impl Summary {
    fn new(error: f64) -> Self {
        Self { error, samples: Vec::new(), count: 0, buffer: Vec::new() }
    }

    fn add(&mut self, value: f64) {
        self.buffer.push(value);
        if self.buffer.len() >= BUFFER {
            self.settle();
        }
    }

    /// Sorts the buffer into the samples and drops samples that are not needed.
    fn settle(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let mut values = std::mem::take(&mut self.buffer);
        values.sort_by(f64::total_cmp);
        let mut merged = Vec::with_capacity(self.samples.len() + values.len());
        let mut old = self.samples.iter().copied().peekable();
        let last = values.len() - 1;
        for (i, value) in values.into_iter().enumerate() {
            while let Some(sample) = old.next_if(|s| s.value.total_cmp(&value).is_le()) {
                merged.push(sample);
            }
            self.count += 1;
            let at_an_end = merged.is_empty() || (old.peek().is_none() && i == last);
            let slack =
                if at_an_end { 0 } else { (2.0 * self.error * self.count as f64).floor() as i64 };
            merged.push(Sample { value, gap: 1, slack });
        }
        merged.extend(old);
        self.samples = merged;
        self.compress();
    }

    fn compress(&mut self) {
        let threshold = 2.0 * self.error * self.count as f64;
        let Some(mut head) = self.samples.pop() else { return };
        let mut kept = Vec::with_capacity(self.samples.len() + 1);
        let first = self.samples.first().copied();
        for sample in self.samples.drain(1.min(self.samples.len())..).rev() {
            if ((sample.gap + head.gap + head.slack) as f64) < threshold {
                head.gap += sample.gap;
            } else {
                kept.push(head);
                head = sample;
            }
        }
        kept.push(head);
        kept.extend(first);
        kept.reverse();
        self.samples = kept;
    }

    fn merge(&mut self, mut other: Self) {
        self.settle();
        other.settle();
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            (self.samples, self.count) = (other.samples, other.count);
            return;
        }
        // A sample between two of the other side may be further up by what that side allows.
        let own_slack = (2.0 * self.error * self.count as f64).floor() as i64;
        let other_slack = (2.0 * self.error * other.count as f64).floor() as i64;
        let mut merged = Vec::with_capacity(self.samples.len() + other.samples.len());
        let (mut own, mut others) =
            (self.samples.iter().copied().peekable(), other.samples.iter().copied().peekable());
        loop {
            let (from_own, mut sample) = match (own.peek(), others.peek()) {
                (Some(a), Some(b)) if a.value.total_cmp(&b.value).is_le() => (true, *a),
                (_, Some(b)) => (false, *b),
                (Some(a), None) => (true, *a),
                (None, None) => break,
            };
            let (inside, slack) = if from_own {
                own.next();
                (others.peek().is_some() && others.len() < other.samples.len(), other_slack)
            } else {
                others.next();
                (own.peek().is_some() && own.len() < self.samples.len(), own_slack)
            };
            sample.slack += if inside { slack } else { 0 };
            merged.push(sample);
        }
        self.samples = merged;
        self.count += other.count;
        self.compress();
    }

    /// A value of about the rank that the percentage asks for.
    fn at(&self, p: f64) -> Option<f64> {
        let (first, last) = (self.samples.first()?, self.samples.last()?);
        if p <= self.error {
            return Some(first.value);
        }
        if p >= 1.0 - self.error {
            return Some(last.value);
        }
        let rank = (p * self.count as f64).ceil() as i64;
        let allowed = self.samples.iter().map(|s| s.gap + s.slack).max()? / 2;
        let mut least = 0;
        for sample in &self.samples[..self.samples.len() - 1] {
            least += sample.gap;
            if least + sample.slack - allowed <= rank && rank <= least + allowed {
                return Some(sample.value);
            }
        }
        Some(last.value)
    }
}

#[derive(Debug)]
struct Quantiles {
    percentages: Percentages,
    /// The type of the values, in which answers are given.
    value: DataType,
    summary: Summary,
}

impl Quantiles {
    /// Answers in the type of the values: each came as one, so that it fits.
    fn typed(&self, answers: Vec<Option<f64>>) -> Result<ArrayRef> {
        let doubles: ArrayRef = Arc::new(Float64Array::from(answers));
        match &self.value {
            DataType::Date32 => {
                let days = compute::cast(&doubles, &DataType::Int32)?;
                Ok(compute::cast(&days, &self.value)?)
            }
            DataType::Timestamp(..) => {
                let micros = compute::cast(&doubles, &DataType::Int64)?;
                Ok(compute::cast(&micros, &self.value)?)
            }
            value => cast_array(&doubles, value, CastMode::Ansi, Zone::UTC),
        }
    }
}

impl Accumulator for Quantiles {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return internal_err!("no argument") };
        let doubles = super::histogram::doubles_of(values)?;
        for value in doubles.as_primitive::<Float64Type>().iter().flatten() {
            self.summary.add(value);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, gaps, slacks, counts] = states else { return internal_err!("four states") };
        for row in 0..counts.len() {
            let one = |column: &ArrayRef| elements(&column.slice(row, 1));
            let (values, gaps, slacks) = (one(values)?, one(gaps)?, one(slacks)?);
            if values.len() != gaps.len() || values.len() != slacks.len() {
                return internal_err!("a summary has as many gaps as values");
            }
            let values = values.as_primitive::<Float64Type>();
            let (gaps, slacks) =
                (gaps.as_primitive::<Int64Type>(), slacks.as_primitive::<Int64Type>());
            let samples = (0..values.len()).map(|i| Sample {
                value: values.value(i),
                gap: gaps.value(i),
                slack: slacks.value(i),
            });
            let mut other = Summary::new(self.summary.error);
            other.samples = samples.collect();
            other.count = counts.as_primitive::<Int64Type>().value(row);
            self.summary.merge(other);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.summary.settle();
        match &self.percentages {
            Percentages::One(p) => {
                super::definition::scalar_at(&self.typed(vec![self.summary.at(*p)])?, 0)
            }
            Percentages::Many(_) if self.summary.count == 0 => {
                ScalarValue::try_from(&array_of(self.value.clone()))
            }
            Percentages::Many(all) => {
                let answers = all.iter().map(|p| self.summary.at(*p)).collect();
                list_scalar(self.typed(answers)?)
            }
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.summary.settle();
        let samples = &self.summary.samples;
        let values: ArrayRef =
            Arc::new(samples.iter().map(|s| Some(s.value)).collect::<Float64Array>());
        let gaps: ArrayRef = Arc::new(samples.iter().map(|s| Some(s.gap)).collect::<Int64Array>());
        let slacks: ArrayRef =
            Arc::new(samples.iter().map(|s| Some(s.slack)).collect::<Int64Array>());
        Ok(vec![
            list_scalar(values)?,
            list_scalar(gaps)?,
            list_scalar(slacks)?,
            ScalarValue::Int64(Some(self.summary.count)),
        ])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
            + self.summary.samples.capacity() * size_of::<Sample>()
            + self.summary.buffer.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By how many places an answer is off.
    fn rank_error(sorted: &[f64], answer: f64, p: f64) -> f64 {
        let wanted = (p * sorted.len() as f64).ceil().max(1.0);
        let low = sorted.partition_point(|v| *v < answer) as f64 + 1.0;
        let high = sorted.partition_point(|v| *v <= answer) as f64;
        if wanted < low { low - wanted } else { (wanted - high).max(0.0) }
    }

    proptest! {
        #[test]
        fn ranks_are_within_the_bound(
            parts in proptest::collection::vec(
                proptest::collection::vec(-1e6..1e6_f64, 0..300), 1..6),
            p in 0.0..=1.0_f64,
        ) {
            let error = 0.02;
            let mut whole = Summary::new(error);
            for part in &parts {
                let mut summary = Summary::new(error);
                part.iter().for_each(|v| summary.add(*v));
                whole.merge(summary);
            }
            let mut sorted = parts.concat();
            sorted.sort_by(f64::total_cmp);
            let Some(answer) = whole.at(p) else {
                prop_assert!(sorted.is_empty());
                return Ok(());
            };
            let bound = 2.0 * error * sorted.len() as f64 + 2.0;
            prop_assert!(rank_error(&sorted, answer, p) <= bound);
        }
    }
}
