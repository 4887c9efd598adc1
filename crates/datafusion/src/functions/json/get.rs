//! Single values out of JSON text, by path.

use super::value::Value;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, Int32Array, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use fluvial_core::ddl::array_of;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    const ONE: &[Kind] = &[Kind::Text];
    vec![
        Spec::new(&["get_json_object"], &[Kind::Text, Kind::Text], Gives::Text, get).may_be_null(),
        Spec::new(&["json_array_length"], ONE, Gives::Int, |c| {
            let length = |text: &str| match Value::parse(text) {
                Some(Value::Array(items)) => i32::try_from(items.len()).ok(),
                _ => None,
            };
            let lengths = c.text(0).iter().map(|text| text.and_then(length));
            Ok(Arc::new(lengths.collect::<Int32Array>()))
        })
        .may_be_null(),
        Spec::new(
            &["json_object_keys"],
            ONE,
            Gives::Of(|_| Ok(array_of(DataType::Utf8))),
            object_keys,
        )
        .may_be_null(),
    ]
}

fn object_keys(call: &Call<'_>) -> Result<ArrayRef> {
    let mut lists =
        ListBuilder::new(StringBuilder::new()).with_field(Field::new("item", DataType::Utf8, true));
    for text in call.text(0) {
        match text.and_then(Value::parse) {
            Some(Value::Object(fields)) => {
                fields.iter().for_each(|(name, _)| lists.values().append_value(name));
                lists.append(true);
            }
            _ => lists.append(false),
        }
    }
    Ok(Arc::new(lists.finish()))
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(usize),
    /// Every element or field.
    All,
}

/// `$.a['b'][0][*]`; `None` if it is no path.
fn path(text: &str) -> Option<Vec<Step>> {
    let mut rest = text.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let name = &after[..end];
            match name {
                "" => return None,
                "*" => steps.push(Step::All),
                name => steps.push(Step::Field(name.to_owned())),
            }
            rest = &after[end..];
            continue;
        }
        let after = rest.strip_prefix('[')?;
        let (inside, tail) = match after.strip_prefix('\'') {
            Some(quoted) => {
                let (name, tail) = quoted.split_once("']")?;
                steps.push(Step::Field(name.to_owned()));
                (None, tail)
            }
            None => {
                let (inside, tail) = after.split_once(']')?;
                (Some(inside), tail)
            }
        };
        match inside {
            Some("*") => steps.push(Step::All),
            Some(index) => steps.push(Step::Index(index.trim().parse().ok()?)),
            None => {}
        }
        rest = tail;
    }
    Some(steps)
}

/// All values at a path.
fn find<'a>(value: &'a Value, steps: &[Step], found: &mut Vec<&'a Value>) {
    let Some((step, rest)) = steps.split_first() else {
        found.push(value);
        return;
    };
    match (step, value) {
        (Step::Field(name), Value::Object(_)) => {
            if let Some(field) = value.field(name) {
                find(field, rest, found);
            }
        }
        // A field of an array is that of each of its elements.
        (Step::Field(_), Value::Array(items)) => {
            items.iter().for_each(|item| find(item, steps, found));
        }
        (Step::Index(index), Value::Array(items)) => {
            if let Some(item) = items.get(*index) {
                find(item, rest, found);
            }
        }
        (Step::All, Value::Array(items)) => items.iter().for_each(|i| find(i, rest, found)),
        (Step::All, Value::Object(fields)) => {
            fields.iter().for_each(|(_, value)| find(value, rest, found));
        }
        _ => {}
    }
}

fn get(call: &Call<'_>) -> Result<ArrayRef> {
    let constant = call.constant_text(1).map(path);
    let one = |(row, text): (usize, Option<&str>)| -> Option<String> {
        let text = text?;
        let paths = call.text(1);
        let steps = match &constant {
            Some(steps) => steps.clone()?,
            None if paths.is_null(row) => return None,
            None => path(paths.value(row))?,
        };
        let value = Value::parse(text)?;
        let mut found = Vec::new();
        find(&value, &steps, &mut found);
        match found.as_slice() {
            [] | [Value::Null] => None,
            [one] => Some(one.as_text()),
            several => Some(Value::Array(several.iter().map(|v| (*v).clone()).collect()).as_text()),
        }
    };
    Ok(Arc::new(call.text(0).iter().enumerate().map(one).collect::<StringArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let json = r#"{"a":{"b":[1,{"c":"x"}]},"d e":2,"l":[{"c":1},{"c":2}]}"#;
        let value = Value::parse(json).unwrap();
        for (text, expected) in [
            ("$.a.b[0]", vec!["1"]),
            ("$.a.b[1].c", vec!["x"]),
            ("$['d e']", vec!["2"]),
            ("$.l[*].c", vec!["1", "2"]),
            ("$.l.c", vec!["1", "2"]),
            ("$.nothing", vec![]),
        ] {
            let mut found = Vec::new();
            find(&value, &path(text).unwrap(), &mut found);
            let found: Vec<String> = found.iter().map(|v| v.as_text()).collect();
            assert_eq!(found, expected, "{text}");
        }
        for bad in ["", "a", "$.", "$[", "$[x]", "$['a"] {
            assert_eq!(path(bad), None, "{bad}");
        }
    }
}
