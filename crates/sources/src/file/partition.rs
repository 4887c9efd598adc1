//! Columns from folders: `k=v` on the way to a file.

use crate::column::Column;
use crate::text::pattern::Times;
use crate::text::timestamp::Reading;
use crate::text::zone::Zone;
use crate::text::{self, date};
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use fluvial_core::{Error, Result, ddl};
use std::collections::BTreeMap;

/// What a folder is named whose value is null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The `k=v` folders between `root` and a file, outermost first.
pub(crate) fn values(root: &str, path: &str) -> Vec<(String, Option<String>)> {
    let below = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
    let folders = below.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders
        .split('/')
        .filter_map(|folder| folder.split_once('='))
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| (unescape(key), (value != NULL).then(|| unescape(value))))
        .collect()
}

/// Undoes Hive's escaping: `%2F` is a slash. What is no escape stays.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escape = tail.first_chunk::<2>().filter(|_| *first == b'%').and_then(|hex| {
            let digit = |b: u8| char::from(b).to_digit(16);
            Some((digit(hex[0])? * 16 + digit(hex[1])?) as u8)
        });
        bytes.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// One value of a folder as an array of length 1.
///
/// # Errors
///
/// `Invalid` (`INVALID_PARTITION_VALUE`) if the text is no value of the column's type.
pub(crate) fn value_of(
    field: &Field,
    value: Option<&str>,
    file: &str,
    times: &Times,
) -> Result<ArrayRef> {
    let bad = || {
        Error::invalid(format!(
            "the folder {}={} of {file} is no value of type {}: give the column another type in \
             the schema or in schemaHints, or move the file and set ignoreMissingFiles",
            field.name(),
            value.unwrap_or(NULL),
            fluvial_core::ddl::ddl_name(field.data_type())
        ))
        .with_condition("INVALID_PARTITION_VALUE")
    };
    let mut column = Column::new(field.data_type(), times).map_err(|_| bad())?;
    match value {
        None => column.push_null(),
        Some(text) if text::push(&mut column, text) => {}
        Some(_) => return Err(bad()),
    }
    column.finish()
}

/// Types for the folders of `files`, from all their values: the narrowest of INT, BIGINT,
/// DOUBLE, DATE, TIMESTAMP and STRING that prints every value as it is written; a whole number beside
/// fractions is one of them.
pub(crate) fn infer<'a>(root: &str, files: impl Iterator<Item = &'a str>) -> Vec<Field> {
    let mut order: Vec<String> = Vec::new();
    let mut types: BTreeMap<String, Option<DataType>> = BTreeMap::new();
    for file in files {
        for (key, value) in values(root, file) {
            let seen = types.entry(key.clone()).or_insert_with(|| {
                order.push(key);
                None
            });
            if let Some(value) = value {
                let found = type_of(&value);
                *seen = Some(match seen.take() {
                    None => found,
                    Some(before) => wider(before, found),
                });
            }
        }
    }
    let field = |key: String| {
        let found = types.get(&key).cloned().flatten();
        Field::new(key, found.unwrap_or(DataType::Utf8), true)
    };
    order.into_iter().map(field).collect()
}

fn type_of(value: &str) -> DataType {
    if value.parse::<i32>().is_ok_and(|n| n.to_string() == value) {
        DataType::Int32
    } else if value.parse::<i64>().is_ok_and(|n| n.to_string() == value) {
        DataType::Int64
    } else if value.parse().is_ok_and(|number| is_written_so(number, value)) {
        DataType::Float64
    } else if value.len() == 10 && date::parse(value.as_bytes()).is_some() {
        DataType::Date32
    } else if is_time(value) {
        ddl::timestamp()
    } else {
        DataType::Utf8
    }
}

/// Whether a text is a time as it is printed: `2026-01-01 10:00:00.5`.
fn is_time(text: &str) -> bool {
    let Some((seconds, fraction)) = text.split_at_checked(19) else { return false };
    let printed = fraction.is_empty()
        || (fraction.starts_with('.') && fraction.len() <= 7 && !fraction.ends_with(['.', '0']));
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b' ',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    };
    printed
        && seconds.bytes().enumerate().all(shape)
        && Reading::Instant(Zone::UTC).parse(text.as_bytes()).is_some()
}

/// Whether `number` is written as `text`: with a point always, and an exponent where it is large.
fn is_written_so(number: f64, text: &str) -> bool {
    if text.contains('E') {
        let shown = format!("{number:E}");
        return match shown.split_once('E') {
            Some((digits, exponent)) if !digits.contains('.') => {
                text == format!("{digits}.0E{exponent}")
            }
            _ => text == shown,
        };
    }
    text.contains('.') && text == format!("{number:?}")
}

fn wider(a: DataType, b: DataType) -> DataType {
    match (&a, &b) {
        _ if a == b => a,
        (DataType::Int32, DataType::Int64) | (DataType::Int64, DataType::Int32) => DataType::Int64,
        // A BIGINT has more digits than a DOUBLE: with those it is a text, as in Spark.
        (DataType::Int32, DataType::Float64) | (DataType::Float64, DataType::Int32) => {
            DataType::Float64
        }
        (DataType::Date32, DataType::Timestamp(..)) => b,
        (DataType::Timestamp(..), DataType::Date32) => a,
        _ => DataType::Utf8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::pattern::UTC_TIMES;

    #[test]
    fn folders_below_the_root_are_columns() {
        let found = values("in/r=0", "in/r=0/k=a b/plain/d=c%2Fd/__x=__HIVE_DEFAULT_PARTITION__/f");
        let text = |t: &str| Some(t.to_owned());
        let pair = |k: &str, v| (k.to_owned(), v);
        assert_eq!(found, [pair("k", text("a b")), pair("d", text("c/d")), pair("__x", None)]);
        assert!(values("in", "in/k=v.json").is_empty(), "a file is no folder");
        assert_eq!(unescape("100%"), "100%");
        assert_eq!(unescape("%zz%41"), "%zzA");
    }

    #[test]
    fn a_type_must_print_every_value_as_it_is_written() {
        let inferred = |values: &[&str]| {
            let paths: Vec<String> = values.iter().map(|v| format!("in/k={v}/f")).collect();
            infer("in", paths.iter().map(String::as_str))[0].data_type().clone()
        };
        assert_eq!(inferred(&["1", "22"]), DataType::Int32);
        assert_eq!(inferred(&["1", "3000000000"]), DataType::Int64);
        assert_eq!(inferred(&["01", "1"]), DataType::Utf8);
        assert_eq!(inferred(&["-0"]), DataType::Utf8);
        assert_eq!(inferred(&["2018-02-15"]), DataType::Date32);
        assert_eq!(inferred(&["2018-02-15AAA"]), DataType::Utf8);
        assert_eq!(inferred(&["1.5", "x"]), DataType::Utf8);
        assert_eq!(inferred(&["1.0", "-0.5", "1.0E10", "1.5E-7"]), DataType::Float64);
        assert_eq!(inferred(&["1.50"]), DataType::Utf8);
        assert_eq!(inferred(&["1.0E9", "2"]), DataType::Float64);
        assert_eq!(inferred(&["1.5", "3000000000"]), DataType::Utf8);
        assert_eq!(inferred(&["NaN"]), DataType::Utf8);
        assert_eq!(inferred(&["2026-01-01 10%3A00%3A00", "2026-01-02"]), ddl::timestamp());
        assert_eq!(inferred(&["2026-01-01 10%3A00%3A00.5"]), ddl::timestamp());
        assert_eq!(inferred(&["2026-01-01 10%3A00%3A00.50"]), DataType::Utf8);
        assert_eq!(inferred(&["2026-01-01 10%3A61%3A00"]), DataType::Utf8);
        assert_eq!(inferred(&[NULL]), DataType::Utf8);
        assert_eq!(inferred(&["7", NULL]), DataType::Int32);
    }

    #[test]
    fn the_columns_type_reads_the_text() {
        let of = |data_type: DataType, text| {
            let array = value_of(&Field::new("k", data_type, true), text, "f", &UTC_TIMES)?;
            let shown = arrow::util::display::array_value_to_string(&array, 0);
            Ok::<_, Error>(shown.unwrap())
        };
        assert_eq!(of(DataType::Utf8, Some("01")).unwrap(), "01");
        assert_eq!(of(DataType::Int32, Some("01")).unwrap(), "1");
        assert_eq!(of(DataType::Date32, Some("2026-1-2")).unwrap(), "2026-01-02");
        assert_eq!(of(DataType::Boolean, Some("true")).unwrap(), "true");
        assert_eq!(of(DataType::Int32, None).unwrap(), "");
        let error = of(DataType::Int32, Some("x")).unwrap_err();
        assert_eq!(error.condition(), Some("INVALID_PARTITION_VALUE"));
    }
}
