//! Law 3: limits.

use super::history::{History, limits, steps};
use super::{Make, check};
use fluvial_core::ReadLimit;
use proptest::prelude::*;
use std::num::NonZeroU64;

/// As little as possible: one unit.
const LEAST: ReadLimit = {
    let one = NonZeroU64::new(1);
    ReadLimit { rows: one, files: one, bytes: one }
};

/// Law 3: a plan keeps its limit, except that one indivisible unit is always admitted.
///
/// # Panics
///
/// If the implementation breaks the law.
pub fn admits_within_limits(make: Make<'_>) {
    check((steps(), limits()), |(steps, limit)| {
        let begin = || {
            let mut history = History::new(make, 3);
            steps.iter().for_each(|step| history.step(step));
            history
        };
        let rows = |limit| begin().batch(limit, None).map_or(0, |rows| rows.num_rows() as u64);
        let unit = begin().unit_rows();
        prop_assert!(rows(LEAST) <= unit, "a unit has {unit} rows, not {}", rows(LEAST));
        let found = rows(limit);
        if let Some(most) = limit.rows {
            prop_assert!(found <= most.get().max(unit), "{found} rows, limit {most}");
        }
        if let Some(most) = limit.files {
            prop_assert!(found <= most.get() * unit, "{found} rows in {most} units of {unit}");
        }
        let byte = ReadLimit { bytes: NonZeroU64::new(1), ..ReadLimit::NONE };
        prop_assert!(rows(byte) <= unit, "{} rows for one byte", rows(byte));
        Ok(())
    });
}
