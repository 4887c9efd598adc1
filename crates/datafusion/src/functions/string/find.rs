//! Where text is in other text.

use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array};
use arrow::datatypes::Int32Type;
use datafusion::common::Result;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Int, Text};
    const TWO: &[Kind] = &[Text, Text];
    vec![
        Spec::new(&["startswith", "starts_with"], TWO, Gives::Boolean, |c| {
            test(c, |s, part| s.starts_with(part))
        }),
        Spec::new(&["endswith", "ends_with"], TWO, Gives::Boolean, |c| {
            test(c, |s, part| s.ends_with(part))
        }),
        Spec::new(&["contains"], TWO, Gives::Boolean, |c| test(c, |s, part| s.contains(part))),
        Spec::new(&["instr"], TWO, Gives::Int, |c| position(c, 0, 1, None)),
        Spec::new(&["locate", "position"], &[Text, Text, Int], Gives::Int, |c| {
            position(c, 1, 0, (c.count() == 3).then_some(2))
        })
        .optional_from(2),
        Spec::new(&["find_in_set"], TWO, Gives::Int, find_in_set),
        Spec::new(&["levenshtein"], TWO, Gives::Int, levenshtein),
    ]
}

fn test(call: &Call<'_>, f: impl Fn(&str, &str) -> bool) -> Result<ArrayRef> {
    let pairs = call.text(0).iter().zip(call.text(1));
    let results = pairs.map(|(a, b)| a.zip(b).map(|(a, b)| f(a, b)));
    Ok(Arc::new(results.collect::<BooleanArray>()))
}

/// Characters before the first place of `part` in `text` at or after `from`, counted from 1.
fn place(text: &str, part: &str, from: i32) -> i32 {
    let Ok(skipped) = usize::try_from(from - 1) else { return 0 };
    let start = match text.char_indices().nth(skipped) {
        Some((start, _)) => start,
        None if skipped == text.chars().count() => text.len(),
        None => return 0,
    };
    match text[start..].find(part) {
        Some(at) => text[..start + at].chars().count() as i32 + 1,
        None => 0,
    }
}

fn position(call: &Call<'_>, text: usize, part: usize, from: Option<usize>) -> Result<ArrayRef> {
    let (text, part) = (call.text(text), call.text(part));
    let from = from.map(|i| call.args[i].as_primitive::<Int32Type>());
    let one = |row: usize| -> Option<i32> {
        if text.is_null(row) || part.is_null(row) {
            return None;
        }
        let from = match from {
            Some(from) if from.is_null(row) => return Some(0),
            Some(from) => from.value(row),
            None => 1,
        };
        Some(place(text.value(row), part.value(row), from))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Int32Array>()))
}

fn find_in_set(call: &Call<'_>) -> Result<ArrayRef> {
    let one = |(wanted, set): (Option<&str>, Option<&str>)| {
        let (wanted, set) = wanted.zip(set)?;
        let at = set.split(',').position(|part| part == wanted);
        Some(at.filter(|_| !wanted.contains(',')).map_or(0, |at| at as i32 + 1))
    };
    Ok(Arc::new(call.text(0).iter().zip(call.text(1)).map(one).collect::<Int32Array>()))
}

fn levenshtein(call: &Call<'_>) -> Result<ArrayRef> {
    let distance = datafusion::common::utils::datafusion_strsim::levenshtein;
    let pairs = call.text(0).iter().zip(call.text(1));
    let results = pairs.map(|(a, b)| a.zip(b).map(|(a, b)| distance(a, b) as i32));
    Ok(Arc::new(results.collect::<Int32Array>()))
}
