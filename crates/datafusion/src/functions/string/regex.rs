//! Regular expressions. The syntax is that of Rust's `regex`, which is Java's without
//! look-around and back references: both would make matching take exponential time.

use crate::functions::error::spark;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListBuilder, StringArray, StringBuilder,
};
use arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::common::Result;
use fluvial_core::ddl::array_of;
use regex::Regex;
use std::borrow::Cow;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Int, Text};
    const TWO: &[Kind] = &[Text, Text];
    const GROUP: &[Kind] = &[Text, Text, Int];
    let texts = || Gives::Of(|_| Ok(array_of(DataType::Utf8)));
    vec![
        Spec::new(&["rlike", "regexp_like", "regexp"], TWO, Gives::Boolean, |c| {
            let patterns = Patterns::of(c, 1)?;
            let one = |row| patterns.with(row, |text, regex| regex.is_match(text));
            Ok(Arc::new((0..c.rows).map(one).collect::<Result<BooleanArray>>()?))
        }),
        Spec::new(&["regexp_count"], TWO, Gives::Int, |c| {
            let patterns = Patterns::of(c, 1)?;
            let one = |row| patterns.with(row, |text, regex| regex.find_iter(text).count() as i32);
            Ok(Arc::new((0..c.rows).map(one).collect::<Result<Int32Array>>()?))
        }),
        Spec::new(&["regexp_instr"], GROUP, Gives::Int, |c| {
            let patterns = Patterns::of(c, 1)?;
            let place = |text: &str, regex: &Regex| {
                regex.find(text).map_or(0, |m| text[..m.start()].chars().count() as i32 + 1)
            };
            let one = |row| patterns.with(row, place);
            Ok(Arc::new((0..c.rows).map(one).collect::<Result<Int32Array>>()?))
        })
        .optional_from(2),
        Spec::new(&["regexp_substr"], TWO, Gives::Text, |c| {
            let patterns = Patterns::of(c, 1)?;
            let found = |text: &str, regex: &Regex| regex.find(text).map(|m| m.as_str().to_owned());
            let one = |row| Ok(patterns.with(row, found)?.flatten());
            Ok(Arc::new((0..c.rows).map(one).collect::<Result<StringArray>>()?))
        })
        .may_be_null(),
        Spec::new(&["regexp_replace"], &[Text, Text, Text, Int], Gives::Text, replace)
            .optional_from(3),
        Spec::new(&["regexp_extract"], GROUP, Gives::Text, extract).optional_from(2),
        Spec::new(&["regexp_extract_all"], GROUP, texts(), extract_all).optional_from(2),
        Spec::new(&["split"], GROUP, texts(), split).optional_from(2),
    ]
}

fn compile(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|e| {
        spark(
            "INVALID_PARAMETER_VALUE.PATTERN",
            format!("'{pattern}' is not a regular expression here: {e}"),
        )
    })
}

/// Patterns of a call: compiled once if they are the same in every row.
struct Patterns<'a> {
    text: &'a StringArray,
    one: Option<Regex>,
    by_row: &'a StringArray,
}

impl<'a> Patterns<'a> {
    fn of(call: &'a Call<'a>, i: usize) -> Result<Self> {
        let one = call.constant_text(i).map(compile).transpose()?;
        Ok(Self { text: call.text(0), one, by_row: call.text(i) })
    }

    /// Text and pattern of a row; `None` if one is null.
    fn with<T>(&self, row: usize, f: impl FnOnce(&str, &Regex) -> T) -> Result<Option<T>> {
        if self.text.is_null(row) || self.by_row.is_null(row) {
            return Ok(None);
        }
        let regex = match &self.one {
            Some(regex) => Cow::Borrowed(regex),
            None => Cow::Owned(compile(self.by_row.value(row))?),
        };
        Ok(Some(f(self.text.value(row), &regex)))
    }
}

/// `$1x` is group 1 and `x` in Java, but a group `1x` in Rust.
fn java_replacement(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '$' if chars.peek().is_some_and(char::is_ascii_digit) => {
                out.push_str("${");
                while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    out.push(digit);
                }
                out.push('}');
            }
            '$' if chars.peek() == Some(&'{') => out.push('$'),
            '$' => out.push_str("$$"),
            '\\' => match chars.next() {
                Some('$') => out.push_str("$$"),
                Some(c) => out.push(c),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}

fn replace(call: &Call<'_>) -> Result<ArrayRef> {
    let patterns = Patterns::of(call, 1)?;
    let by = call.text(2);
    let from = (call.count() == 4).then(|| call.args[3].as_primitive::<Int32Type>());
    let one = |row: usize| -> Result<Option<String>> {
        if by.is_null(row) || from.is_some_and(|f| f.is_null(row)) {
            return Ok(None);
        }
        let by = java_replacement(by.value(row));
        let skipped = from.map_or(0, |f| (f.value(row) - 1).max(0) as usize);
        patterns.with(row, |text, regex| {
            let start = text.char_indices().nth(skipped).map_or(text.len(), |(at, _)| at);
            let changed = regex.replace_all(&text[start..], by.as_str());
            format!("{}{changed}", &text[..start])
        })
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Result<StringArray>>()?))
}

/// The group that is asked for: the first if none is.
fn group(call: &Call<'_>, row: usize) -> Option<i32> {
    match call.args.get(2) {
        Some(groups) => {
            let groups = groups.as_primitive::<Int32Type>();
            groups.is_valid(row).then(|| groups.value(row))
        }
        None => Some(1),
    }
}

fn no_group(regex: &Regex, group: i32) -> datafusion::common::DataFusionError {
    spark(
        "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX",
        format!(
            "the pattern '{regex}' has {} groups, there is none of number {group}",
            regex.captures_len() - 1
        ),
    )
}

fn index(regex: &Regex, group: i32) -> Result<usize> {
    usize::try_from(group)
        .ok()
        .filter(|group| *group < regex.captures_len())
        .ok_or_else(|| no_group(regex, group))
}

fn extract(call: &Call<'_>) -> Result<ArrayRef> {
    let patterns = Patterns::of(call, 1)?;
    let one = |row: usize| -> Result<Option<String>> {
        let Some(group) = group(call, row) else { return Ok(None) };
        let found = patterns.with(row, |text, regex| -> Result<String> {
            let group = index(regex, group)?;
            let found = regex.captures(text).and_then(|c| c.get(group));
            Ok(found.map_or(String::new(), |m| m.as_str().to_owned()))
        })?;
        found.transpose()
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Result<StringArray>>()?))
}

fn text_lists() -> ListBuilder<StringBuilder> {
    ListBuilder::new(StringBuilder::new()).with_field(Field::new("item", DataType::Utf8, true))
}

fn extract_all(call: &Call<'_>) -> Result<ArrayRef> {
    let patterns = Patterns::of(call, 1)?;
    let mut lists = text_lists();
    for row in 0..call.rows {
        let Some(group) = group(call, row) else {
            lists.append_null();
            continue;
        };
        let found = patterns.with(row, |text, regex| -> Result<()> {
            let group = index(regex, group)?;
            for captures in regex.captures_iter(text) {
                lists.values().append_value(captures.get(group).map_or("", |m| m.as_str()));
            }
            Ok(())
        })?;
        lists.append(found.transpose()?.is_some());
    }
    Ok(Arc::new(lists.finish()))
}

/// With a positive limit at most so many parts; else all.
fn split(call: &Call<'_>) -> Result<ArrayRef> {
    let patterns = Patterns::of(call, 1)?;
    let limits = call.args.get(2).map(|limits| limits.as_primitive::<Int32Type>());
    let mut lists = text_lists();
    for row in 0..call.rows {
        if limits.is_some_and(|limits| limits.is_null(row)) {
            lists.append_null();
            continue;
        }
        let limit = limits.map_or(0, |limits| limits.value(row));
        let found = patterns.with(row, |text, regex| {
            let most = usize::try_from(limit).ok().filter(|limit| *limit > 0);
            let mut start = 0;
            let mut parts = 1;
            for found in regex.find_iter(text) {
                // An empty match at either end splits nothing.
                let empty = found.start() == found.end();
                let at_end = found.start() == 0 || found.start() == text.len();
                if (empty && at_end) || most.is_some_and(|most| parts >= most) {
                    continue;
                }
                lists.values().append_value(&text[start..found.start()]);
                start = found.end();
                parts += 1;
            }
            lists.values().append_value(&text[start..]);
        })?;
        lists.append(found.is_some());
    }
    Ok(Arc::new(lists.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_read_as_in_java() {
        for (java, rust) in
            [("$2$1", "${2}${1}"), ("$1x", "${1}x"), ("\\$1", "$$1"), ("a$", "a$$"), ("x", "x")]
        {
            assert_eq!(java_replacement(java), rust);
        }
    }
}
