//! `approx_count_distinct`: a HyperLogLog of stable hashes, small as long as there are few
//! values.

use super::definition::{Arguments, Definition, udaf};
use crate::functions::error::{spark, wrong_arguments};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

pub(super) fn function() -> Arc<AggregateUDF> {
    udaf(ApproxCountDistinct)
}

/// Registers are addressed by so many bits unless more are asked for: 1.2 % of error on average,
/// well below the 5 % that Spark promises.
const DEFAULT_BITS: u8 = 13;
const MAX_BITS: u8 = 18;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ApproxCountDistinct;

impl Definition for ApproxCountDistinct {
    fn names(&self) -> &'static [&'static str] {
        &["approx_count_distinct"]
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [value] => Ok(vec![value.clone()]),
            [value, _] => Ok(vec![value.clone(), DataType::Float64]),
            _ => Err(wrong_arguments("approx_count_distinct", "1 or 2", types.len())),
        }
    }

    fn result(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn nullable(&self) -> bool {
        false
    }

    fn state(&self, _: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![DataType::Binary])
    }

    fn accumulator(&self, arguments: &Arguments<'_>) -> Result<Box<dyn Accumulator>> {
        let mut bits = DEFAULT_BITS;
        if arguments.count() == 2 {
            let deviation = arguments.constant("approx_count_distinct", 1, &DataType::Float64)?;
            let deviation = deviation.as_primitive::<Float64Type>().value(0);
            if !(deviation > 0.0 && deviation <= 0.39) {
                return Err(spark(
                    "INVALID_PARAMETER_VALUE",
                    format!(
                        "the deviation of `approx_count_distinct` lies between 0 and 0.39, not \
                         {deviation}"
                    ),
                ));
            }
            // The relative error of 2^b registers is 1.04 / sqrt(2^b).
            let needed = (2.0 * (1.04 / deviation).log2()).ceil();
            bits = (needed.clamp(0.0, f64::from(MAX_BITS)) as u8).max(DEFAULT_BITS);
        }
        let Some(value) = arguments.types.first() else { return internal_err!("no argument") };
        let converter = RowConverter::new(vec![SortField::new(value.clone())])?;
        Ok(Box::new(Counter { converter, sketch: Sketch::new(bits) }))
    }
}

/// Counts of leading zeros by register: a sorted list of those that are set, or all of them.
#[derive(Debug, Clone, PartialEq)]
struct Sketch {
    bits: u8,
    registers: Registers,
}

#[derive(Debug, Clone, PartialEq)]
enum Registers {
    /// Register in the upper bits, count in the lowest byte.
    Few(Vec<u32>),
    All(Vec<u8>),
}

impl Sketch {
    fn new(bits: u8) -> Self {
        Self { bits, registers: Registers::Few(Vec::new()) }
    }

    fn count(&self) -> usize {
        1 << self.bits
    }

    fn add_hash(&mut self, hash: u64) {
        let register = (hash >> (64 - self.bits)) as u32;
        // A one behind the last bit ends the zeros.
        let rest = (hash << self.bits) | (1 << (self.bits - 1));
        self.set(register, rest.leading_zeros() as u8 + 1);
    }

    fn set(&mut self, register: u32, zeros: u8) {
        let limit = self.count() / 16;
        match &mut self.registers {
            Registers::All(all) => {
                if let Some(held) = all.get_mut(register as usize) {
                    *held = (*held).max(zeros);
                }
            }
            Registers::Few(few) => {
                match few.binary_search_by_key(&register, |entry| entry >> 8) {
                    Ok(at) => few[at] = few[at].max(register << 8 | u32::from(zeros)),
                    Err(at) => few.insert(at, register << 8 | u32::from(zeros)),
                }
                if few.len() > limit {
                    self.widen();
                }
            }
        }
    }

    fn widen(&mut self) {
        if let Registers::Few(few) = &self.registers {
            let mut all = vec![0; self.count()];
            for entry in few {
                all[(entry >> 8) as usize] = (entry & 0xff) as u8;
            }
            self.registers = Registers::All(all);
        }
    }

    fn merge(&mut self, other: &Self) {
        match &other.registers {
            Registers::Few(few) => {
                few.iter().for_each(|entry| self.set(entry >> 8, (entry & 0xff) as u8));
            }
            Registers::All(all) => {
                self.widen();
                for (register, zeros) in (0..).zip(all) {
                    self.set(register, *zeros);
                }
            }
        }
    }

    fn estimate(&self) -> i64 {
        let m = self.count() as f64;
        let (sum, empty) = match &self.registers {
            Registers::Few(few) => {
                let empty = m - few.len() as f64;
                let sum: f64 = few.iter().map(|e| 0.5_f64.powi((e & 0xff) as i32)).sum();
                (sum + empty, empty)
            }
            Registers::All(all) => {
                let sum = all.iter().map(|zeros| 0.5_f64.powi(i32::from(*zeros))).sum();
                (sum, all.iter().filter(|zeros| **zeros == 0).count() as f64)
            }
        };
        let alpha = 0.7213 / (1.0 + 1.079 / m);
        let raw = alpha * m * m / sum;
        // Few values are better counted by the registers that are empty.
        let value = if raw <= 2.5 * m && empty > 0.0 { m * (m / empty).ln() } else { raw };
        value.round() as i64
    }

    /// Bits, form, then the entries in four bytes each, or all registers.
    fn to_bytes(&self) -> Vec<u8> {
        match &self.registers {
            Registers::Few(few) => {
                let mut bytes = Vec::with_capacity(2 + few.len() * 4);
                bytes.extend([self.bits, 0]);
                few.iter().for_each(|entry| bytes.extend(entry.to_be_bytes()));
                bytes
            }
            Registers::All(all) => {
                let mut bytes = Vec::with_capacity(2 + all.len());
                bytes.extend([self.bits, 1]);
                bytes.extend(all);
                bytes
            }
        }
    }

    /// `None` if no sketch was written so.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [bits, form, rest @ ..] = bytes else { return None };
        if !(DEFAULT_BITS..=MAX_BITS).contains(bits) {
            return None;
        }
        let mut sketch = Self::new(*bits);
        match form {
            0 if rest.len() % 4 == 0 => {
                for entry in rest.as_chunks::<4>().0 {
                    let entry = u32::from_be_bytes(*entry);
                    if (entry >> 8) as usize >= sketch.count() {
                        return None;
                    }
                    sketch.set(entry >> 8, (entry & 0xff) as u8);
                }
            }
            1 if rest.len() == sketch.count() => {
                sketch.registers = Registers::All(rest.to_vec());
            }
            _ => return None,
        }
        Some(sketch)
    }
}

#[derive(Debug)]
struct Counter {
    converter: RowConverter,
    sketch: Sketch,
}

impl Accumulator for Counter {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return internal_err!("no argument") };
        let values = super::frequency::normalized(values);
        let rows = self.converter.convert_columns(std::slice::from_ref(&values))?;
        for (i, row) in rows.iter().enumerate() {
            if values.is_valid(i) {
                self.sketch.add_hash(xxh3_64(row.as_ref()));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(states) = states.first() else { return internal_err!("one state") };
        for bytes in states.as_binary::<i32>().iter().flatten() {
            match Sketch::from_bytes(bytes) {
                Some(other) if other.bits == self.sketch.bits => self.sketch.merge(&other),
                _ => {
                    return Err(crate::error::plan(fluvial_core::Error::corrupt(
                        "the state of approx_count_distinct is not one of this function and \
                         precision",
                    )));
                }
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(self.sketch.estimate())))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.sketch.to_bytes()))])
    }

    fn size(&self) -> usize {
        let registers = match &self.sketch.registers {
            Registers::Few(few) => few.capacity() * 4,
            Registers::All(all) => all.capacity(),
        };
        size_of::<Self>() + registers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch_of(values: impl Iterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::new(DEFAULT_BITS);
        values.for_each(|v| sketch.add_hash(xxh3_64(&v.to_be_bytes())));
        sketch
    }

    #[test]
    fn estimates_are_near() {
        for n in [0_u64, 1, 10, 500, 5_000, 50_000, 500_000] {
            let estimate = sketch_of(0..n).estimate() as f64;
            let off = (estimate - n as f64).abs() / (n as f64).max(1.0);
            assert!(off < 0.04, "{n}: {estimate}");
        }
    }

    #[test]
    fn merging_is_adding_and_bytes_are_read_back() {
        for (a, b) in [(100, 200), (100, 90_000), (90_000, 100), (90_000, 120_000)] {
            let mut merged = sketch_of(0..a);
            merged.merge(&sketch_of(a / 2..b));
            assert_eq!(merged.estimate(), sketch_of(0..b.max(a)).estimate());
            assert_eq!(Sketch::from_bytes(&merged.to_bytes()), Some(merged));
        }
        for bytes in [&[][..], &[13][..], &[13, 0, 1][..], &[13, 1, 0][..], &[40, 0][..]] {
            assert_eq!(Sketch::from_bytes(bytes), None);
        }
    }
}
