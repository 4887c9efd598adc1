//! Changing case, cutting and putting together.

use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Int, Text};
    const ONE: &[Kind] = &[Text];
    vec![
        Spec::new(&["upper", "ucase"], ONE, Gives::Text, |c| {
            map(c, |s, out| {
                *out = s.to_uppercase();
            })
        }),
        Spec::new(&["lower", "lcase"], ONE, Gives::Text, |c| {
            map(c, |s, out| {
                *out = s.to_lowercase();
            })
        }),
        Spec::new(&["initcap"], ONE, Gives::Text, |c| map(c, initcap)),
        Spec::new(
            &["length", "len", "char_length", "character_length"],
            &[Kind::TextOrBinary],
            Gives::Int,
            |c| lengths(c, |s| s.chars().count(), 1),
        ),
        Spec::new(&["octet_length"], &[Kind::TextOrBinary], Gives::Int, |c| {
            lengths(c, str::len, 1)
        }),
        Spec::new(&["bit_length"], &[Kind::TextOrBinary], Gives::Int, |c| lengths(c, str::len, 8)),
        concat_spec(),
        Spec::new(&["left"], &[Text, Int], Gives::Text, |c| {
            with_count(c, |s, n, out| out.extend(s.chars().take(n.max(0) as usize)))
        }),
        Spec::new(&["right"], &[Text, Int], Gives::Text, |c| {
            with_count(c, |s, n, out| {
                let skipped = s.chars().count().saturating_sub(n.max(0) as usize);
                out.extend(s.chars().skip(skipped));
            })
        }),
        Spec::new(&["repeat"], &[Text, Int], Gives::Text, |c| {
            with_count(c, |s, n, out| *out = s.repeat(n.max(0) as usize))
        }),
        Spec::new(&["lpad"], &[Text, Int, Text], Gives::Text, |c| pad(c, true)).optional_from(2),
        Spec::new(&["rpad"], &[Text, Int, Text], Gives::Text, |c| pad(c, false)).optional_from(2),
        Spec::new(&["replace"], &[Text, Text, Text], Gives::Text, replace).optional_from(2),
        Spec::new(&["translate"], &[Text, Text, Text], Gives::Text, translate),
        Spec::new(&["split_part"], &[Text, Text, Int], Gives::Text, split_part),
    ]
}

/// `concat` of texts.
pub(super) fn concat_spec() -> Spec {
    Spec::new(&["concat"], &[], Gives::Text, concat).and_more(Kind::Text)
}

/// Text by text.
pub(super) fn map(call: &Call<'_>, f: impl Fn(&str, &mut String)) -> Result<ArrayRef> {
    let input = call.text(0);
    let mut result = StringBuilder::with_capacity(input.len(), input.value_data().len());
    let mut out = String::new();
    for text in input {
        match text {
            Some(text) => {
                out.clear();
                f(text, &mut out);
                result.append_value(&out);
            }
            None => result.append_null(),
        }
    }
    Ok(Arc::new(result.finish()))
}

/// Words start with capitals; words are between blanks.
fn initcap(text: &str, out: &mut String) {
    let mut at_start = true;
    for c in text.chars() {
        if at_start {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        at_start = c == ' ';
    }
}

fn lengths(call: &Call<'_>, f: impl Fn(&str) -> usize, times: i32) -> Result<ArrayRef> {
    let column = &call.args[0];
    let lengths: Int32Array = match column.data_type() {
        DataType::Binary => {
            let bytes = column.as_binary::<i32>().iter();
            bytes.map(|b| b.map(|b| b.len() as i32 * times)).collect()
        }
        _ => {
            let text = column.as_string::<i32>().iter();
            text.map(|s| s.map(|s| f(s) as i32 * times)).collect()
        }
    };
    Ok(Arc::new(lengths))
}

/// Null if one of them is.
fn concat(call: &Call<'_>) -> Result<ArrayRef> {
    let columns: Vec<&StringArray> = (0..call.count()).map(|i| call.text(i)).collect();
    let mut result = StringBuilder::new();
    let mut out = String::new();
    for row in 0..call.rows {
        if columns.iter().any(|column| column.is_null(row)) {
            result.append_null();
            continue;
        }
        out.clear();
        columns.iter().for_each(|column| out.push_str(column.value(row)));
        result.append_value(&out);
    }
    Ok(Arc::new(result.finish()))
}

fn with_count(call: &Call<'_>, f: impl Fn(&str, i32, &mut String)) -> Result<ArrayRef> {
    let (text, counts) = (call.text(0), call.args[1].as_primitive::<Int32Type>());
    let mut result = StringBuilder::new();
    let mut out = String::new();
    for row in 0..call.rows {
        if text.is_null(row) || counts.is_null(row) {
            result.append_null();
            continue;
        }
        out.clear();
        f(text.value(row), counts.value(row), &mut out);
        result.append_value(&out);
    }
    Ok(Arc::new(result.finish()))
}

fn pad(call: &Call<'_>, in_front: bool) -> Result<ArrayRef> {
    let (text, counts) = (call.text(0), call.args[1].as_primitive::<Int32Type>());
    let fill = (call.count() == 3).then(|| call.text(2));
    let one = |row: usize| -> Option<String> {
        if text.is_null(row) || counts.is_null(row) || fill.is_some_and(|f| f.is_null(row)) {
            return None;
        }
        let (s, wanted) = (text.value(row), counts.value(row).max(0) as usize);
        let fill = fill.map_or(" ", |f| f.value(row));
        let length = s.chars().count();
        if length >= wanted {
            return Some(s.chars().take(wanted).collect());
        }
        let padding = fill.chars().cycle().take(wanted - length);
        let padding: String = if fill.is_empty() { String::new() } else { padding.collect() };
        Some(if in_front { padding + s } else { s.to_owned() + &padding })
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<StringArray>()))
}

fn replace(call: &Call<'_>) -> Result<ArrayRef> {
    let (text, from) = (call.text(0), call.text(1));
    let to = (call.count() == 3).then(|| call.text(2));
    let one = |row: usize| -> Option<String> {
        if text.is_null(row) || from.is_null(row) || to.is_some_and(|t| t.is_null(row)) {
            return None;
        }
        let from = from.value(row);
        if from.is_empty() {
            return Some(text.value(row).to_owned());
        }
        Some(text.value(row).replace(from, to.map_or("", |t| t.value(row))))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<StringArray>()))
}

/// Characters of `from` by those at the same place in `to`, or by nothing.
fn translate(call: &Call<'_>) -> Result<ArrayRef> {
    let (text, from, to) = (call.text(0), call.text(1), call.text(2));
    let one = |row: usize| -> Option<String> {
        if text.is_null(row) || from.is_null(row) || to.is_null(row) {
            return None;
        }
        let from: Vec<char> = from.value(row).chars().collect();
        let to: Vec<char> = to.value(row).chars().collect();
        let changed = |c: char| match from.iter().position(|f| *f == c) {
            Some(at) => to.get(at).copied(),
            None => Some(c),
        };
        Some(text.value(row).chars().filter_map(changed).collect())
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<StringArray>()))
}

/// The part of a number from 1, or from the end if negative; empty if there is none.
fn split_part(call: &Call<'_>) -> Result<ArrayRef> {
    let (text, by) = (call.text(0), call.text(1));
    let numbers = call.args[2].as_primitive::<Int32Type>();
    let one = |row: usize| -> Result<Option<String>> {
        if text.is_null(row) || by.is_null(row) || numbers.is_null(row) {
            return Ok(None);
        }
        let by = by.value(row);
        let parts: Vec<&str> = match by {
            "" => vec![text.value(row)],
            by => text.value(row).split(by).collect(),
        };
        let at = match numbers.value(row) {
            0 => {
                return Err(crate::functions::error::spark(
                    "INVALID_INDEX_OF_ZERO",
                    "the parts of `split_part` are counted from 1, or from -1 at the end",
                ));
            }
            n if n > 0 => usize::try_from(n).ok().map(|n| n - 1),
            n => parts.len().checked_sub(n.unsigned_abs() as usize),
        };
        Ok(Some(at.and_then(|at| parts.get(at)).copied().unwrap_or_default().to_owned()))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Result<StringArray>>()?))
}

/// Characters from the last to the first.
pub(crate) fn reverse(call: &Call<'_>) -> Result<ArrayRef> {
    let text = arrow::compute::cast(&call.args[0], &DataType::Utf8)?;
    let reversed = text.as_string::<i32>().iter();
    let reversed = reversed.map(|s| s.map(|s| s.chars().rev().collect::<String>()));
    Ok(Arc::new(reversed.collect::<StringArray>()))
}
