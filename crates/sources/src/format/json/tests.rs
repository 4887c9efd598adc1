mod model;

use super::*;
use crate::format::lines::Lines;
use crate::format::{Batches, Decode};
use arrow::compute::concat_batches;
use arrow::util::pretty::pretty_format_batches;
use fluvial_core::ddl::parse_ddl;

/// Reads a file into `a | b | c` lines of the columns `projection` of `schema`.
fn read_with(
    schema: &str,
    projection: Option<&[usize]>,
    options: &[(&str, &str)],
    file: &str,
) -> Result<Vec<String>> {
    let schema = parse_ddl(schema)?;
    let mut options = Options::new(options.iter().copied());
    let json = JsonOptions::take(&mut options)?;
    json.check(schema.fields())?;
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let projection = projection.unwrap_or(&all);
    let decoder = JsonLines::new(&json, schema.fields(), projection, "f.json".into())?;
    let mut lines = Lines::new(decoder, "f.json".into());
    let mut out = Batches::new();
    lines.feed(file.as_bytes(), &mut out)?;
    lines.end(&mut out)?;
    let Some(first) = out.front() else { return Ok(Vec::new()) };
    let whole = concat_batches(&first.schema(), &out)?;
    if projection.is_empty() {
        return Ok(vec![String::new(); whole.num_rows()]);
    }
    let table = pretty_format_batches(&[whole])?.to_string();
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        cells.join("|")
    };
    let lines: Vec<&str> = table.lines().collect();
    Ok(lines[3..lines.len() - 1].iter().map(|line| row(line)).collect())
}

fn read(schema: &str, file: &str) -> Vec<String> {
    read_with(schema, None, &[], file).unwrap()
}

/// Each line alone, in a column of each type; the corrupt record as `BAD`.
fn check(schema: &str, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        let schema = format!("{schema}, _corrupt_record STRING");
        let rows = read(&schema, line);
        let rows: Vec<String> = rows.iter().map(|row| row.replace(line, "BAD")).collect();
        let expected: Vec<&str> = expected.split('~').filter(|row| !row.is_empty()).collect();
        assert_eq!(rows, expected, "{line}");
    }
}

#[test]
fn a_mark_of_utf_8_may_stand_before_any_line() {
    let file = "\u{feff}{\"a\":1}\n\u{feff}{\"a\":2}\n\u{feff}{\"a\":x}\n";
    let rows = read("a BIGINT, _corrupt_record STRING", file);
    assert_eq!(rows, ["1|", "2|", "|\u{feff}{\"a\":x}"]);
    let lenient = [("allowComments", "true")];
    let rows =
        read_with("a BIGINT", None, &lenient, "{\"a\":1}\n\u{feff}{\"a\":2} // c\n").unwrap();
    assert_eq!(rows, ["1", "2"]);
}

#[test]
fn lines_that_are_no_json_are_kept_whole() {
    let nulls = "|||BAD";
    check(
        "a BIGINT, s STRING, st STRUCT<x: BIGINT, y: STRING>",
        &[
            (r#"{"a":1,"s":"x"}"#, "1|x||"),
            (r#"{"a":xyz,"s":"b"}"#, nulls),
            (r#"{"a":1,"s":"b","zz":tru}"#, nulls),
            (r#"{"a":1 "s":"b"}"#, nulls),
            (r#"{"a":1,,"s":"b"}"#, nulls),
            (r#"{"a":1,"s":"b",}"#, nulls),
            (r#"{a:1,"s":"b"}"#, nulls),
            (r#"{"a":01}"#, nulls),
            (r#"{"a":1."#, nulls),
            (r#"{"a":1"#, nulls),
            ("{", nulls),
            (r#"{"s":"open"#, nulls),
            (r#"{"a":1,"s":"\x"}"#, nulls),
            (r#"{"a":1,"s":"b"/*c*/}"#, nulls),
            ("not json", nulls),
            ("null", nulls),
            ("5", nulls),
            ("\"text\"", nulls),
            ("{}", "|||"),
            ("   ", ""),
            (r#"  {"a":2}  "#, "2|||"),
            (r#"{"a":3} {"a":4}"#, "3|||"),
            (r#"{"a":1,"s":"b"}}}"#, "1|b||"),
            (r#"{"A":1}"#, "|||"),
        ],
    );
}

#[test]
fn an_array_of_objects_is_one_row_each() {
    check(
        "a BIGINT, s STRING",
        &[
            ("[]", ""),
            (r#"[{"a":1},{"a":2}]"#, "1||~2||"),
            (r#"[{"a":1},{"a":"x","s":"k"}]"#, "1||BAD~|k|BAD"),
            (r#"[{"a":1},null]"#, "||BAD"),
            (r#"[{"a":1},5]"#, "||BAD"),
            (r#"[{"a":1},{"a":2}"#, "||BAD"),
            ("[1]", "||BAD"),
        ],
    );
}

/// Trap F9.
#[test]
fn a_bad_value_costs_its_field_only() {
    check(
        "a BIGINT, s STRING, st STRUCT<x: BIGINT, y: STRING>, l ARRAY<BIGINT>, m MAP<STRING, BIGINT>",
        &[
            (r#"{"a":"7","s":"k"}"#, "|k||||BAD"),
            (r#"{"a":9223372036854775807}"#, "9223372036854775807|||||"),
            (r#"{"a":-9223372036854775808}"#, "-9223372036854775808|||||"),
            (r#"{"a":9223372036854775808}"#, "|||||BAD"),
            (r#"{"a":99999999999999999999}"#, "|||||BAD"),
            (r#"{"a":1.0}"#, "|||||BAD"),
            (r#"{"a":1e3}"#, "|||||BAD"),
            (r#"{"a":null}"#, "|||||"),
            (r#"{"a":1,"st":{"x":"bad","y":"ok"}}"#, "1||{x: , y: ok}|||BAD"),
            (r#"{"st":{}}"#, "||{x: , y: }|||"),
            (r#"{"st":[1],"s":"k"}"#, "|k||||BAD"),
            (r#"{"l":[1,null],"s":"k"}"#, "|k||[1, ]||"),
            (r#"{"l":[1,"x",3],"s":"k"}"#, "|k||||BAD"),
            (r#"{"l":[]}"#, "|||[]||"),
            (r#"{"l":{"x":1},"s":"k"}"#, "|k||||BAD"),
            (r#"{"m":{"k":1}}"#, "||||{k: 1}|"),
            (r#"{"m":{"k":"v","j":2},"s":"k"}"#, "|k||||BAD"),
            (r#"{"a":1,"a":2}"#, "2|||||"),
            (r#"{"a":1,"a":"bad"}"#, "1|||||BAD"),
            (r#"{"a":"bad","a":1}"#, "1|||||BAD"),
            (r#"{"s":"a","a":5,"s":"b"}"#, "5|b||||"),
        ],
    );
}

#[test]
fn text_takes_any_value_as_it_is_written() {
    check(
        "s STRING",
        &[
            (r#"{"s":1.50}"#, "1.50|"),
            (r#"{"s":true}"#, "true|"),
            (r#"{"s":{"a": 1}}"#, r#"{"a": 1}|"#),
            (r#"{"s":[1, 2]}"#, "[1, 2]|"),
            (r#"{"s":NaN}"#, "NaN|"),
            (r#"{'s': 'single "q"'}"#, r#"single "q"|"#),
            (r#"{"s":"\u00e9\ud83d\ude00\/"}"#, "é😀/|"),
            (r#"{"s":"\ud83d"}"#, "?|"),
            (r#"{"\u0073":"escaped key"}"#, "escaped key|"),
        ],
    );
}

/// Trap F10.
#[test]
fn every_type_has_its_forms() {
    check(
        "b BOOLEAN, i INT, f DOUBLE, de DECIMAL(6,2)",
        &[
            (r#"{"b":true}"#, "true||||"),
            (r#"{"b":"true"}"#, "||||BAD"),
            (r#"{"b":1}"#, "||||BAD"),
            (r#"{"i":2147483647}"#, "|2147483647|||"),
            (r#"{"i":2147483648}"#, "||||BAD"),
            (r#"{"f":3}"#, "||3.0||"),
            (r#"{"f":"1.5"}"#, "||||BAD"),
            (r#"{"f":"NaN"}"#, "||NaN||"),
            (r#"{"f":"Infinity"}"#, "||inf||"),
            (r#"{"f":-Infinity}"#, "||-inf||"),
            (r#"{"f":"inf"}"#, "||||BAD"),
            (r#"{"f":1e400}"#, "||inf||"),
            (r#"{"de":1.225}"#, "|||1.23|"),
            (r#"{"de":"1,234.5"}"#, "|||1234.50|"),
            (r#"{"de":1e2}"#, "|||100.00|"),
            (r#"{"de":12345678.9}"#, "||||BAD"),
            (r#"{"de":"x"}"#, "||||BAD"),
        ],
    );
    check(
        "ts TIMESTAMP, n TIMESTAMP_NTZ, d DATE, bi BINARY, by TINYINT",
        &[
            (r#"{"ts":"2026-01-01T02:00:00+02:00"}"#, "2026-01-01T00:00:00Z|||||"),
            (r#"{"ts":1767225600}"#, "2026-01-01T00:00:00Z|||||"),
            (r#"{"ts":1767225600.5}"#, "|||||BAD"),
            (r#"{"ts":"garbage"}"#, "|||||BAD"),
            (r#"{"n":"2026-01-01T00:00:00"}"#, "|2026-01-01T00:00:00||||"),
            (r#"{"n":"2026-01-01T00:00:00Z"}"#, "|||||BAD"),
            (r#"{"n":5}"#, "|||||BAD"),
            (r#"{"d":"2026-1-1"}"#, "||2026-01-01|||"),
            (r#"{"d":20454}"#, "|||||BAD"),
            (r#"{"bi":"aGk="}"#, "|||6869||"),
            (r#"{"bi":"aGk"}"#, "|||||BAD"),
            (r#"{"by":-128}"#, "||||-128|"),
            (r#"{"by":128}"#, "|||||BAD"),
        ],
    );
}

const MIXED: &str = "{'a':'v1','b':'[x]'}\n{'a':'v2','b':['x']}\n{'a':\n\n{'a':'v3'}\n";

#[test]
fn modes_keep_drop_or_fail() {
    let schema = "a STRING, b ARRAY<STRING>, _corrupt_record STRING";
    let mode = |mode| read_with(schema, None, &[("mode", mode)], MIXED);
    let raw = ["v1||{'a':'v1','b':'[x]'}", "v2|[x]|", "||{'a':", "v3||"];
    assert_eq!(mode("permissive").unwrap(), raw);
    assert_eq!(mode("DROPMALFORMED").unwrap(), ["v2|[x]|", "v3||"]);
    let error = mode("FAILFAST").unwrap_err();
    assert!(error.message().starts_with("f.json, line 1: malformed record"), "{error}");
    assert_eq!(error.condition(), Some("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"));
}

/// Trap F9.
#[test]
fn which_rows_there_are_does_not_depend_on_the_columns_asked_for() {
    let schema = "a STRING, b ARRAY<STRING>, _corrupt_record STRING";
    for mode in ["PERMISSIVE", "DROPMALFORMED"] {
        let options = [("mode", mode)];
        let whole = read_with(schema, None, &options, MIXED).unwrap();
        for projection in [[].as_slice(), &[0], &[1], &[2], &[2, 0], &[1, 0]] {
            let part = read_with(schema, Some(projection), &options, MIXED).unwrap();
            let cells = |row: &String| {
                let cells: Vec<&str> = row.split('|').collect();
                let picked: Vec<&str> = projection.iter().map(|i| cells[*i]).collect();
                picked.join("|")
            };
            assert_eq!(part, whole.iter().map(cells).collect::<Vec<_>>(), "{mode} {projection:?}");
        }
    }
    assert!(read_with(schema, Some(&[]), &[("mode", "FAILFAST")], MIXED).is_err());
}

#[test]
fn keys_in_any_order_and_number_are_found() {
    let mut file = String::new();
    for i in 0..3000 {
        match i % 3 {
            0 => file += &format!("{{\"b\":{i},\"k{i}\":1,\"a\":{i}}}\n"),
            1 => file += &format!("{{\"a\":{i}, \"b\" : {i}}}\n"),
            _ => file += &format!("{{\"x\":{{\"a\":7}},\"b\":{i}}}\n"),
        }
    }
    let rows = read("a BIGINT, b BIGINT", &file);
    for (i, row) in rows.iter().enumerate() {
        let a = if i % 3 == 2 { String::new() } else { i.to_string() };
        assert_eq!(*row, format!("{a}|{i}"));
    }
}

#[test]
fn blanks_may_be_anywhere_between_words() {
    let file = "{ }\n {\"a\":1}\n{\"a\" : 1 , \"b\" :2 }\n{\"a\":1,\t\"b\":2}\n{\"a\":1 ,\"b\":2}";
    assert_eq!(read("a INT, b INT", file), ["|", "1|", "1|2", "1|2", "1|2"]);
}

#[test]
fn endless_keys_are_read_like_few() {
    let mut file: String = (0..1500).map(|i| format!("{{\"k{i}\":{i},\"a\":{i}}}\n")).collect();
    file += "{\"new1\":1,\"a\":1500}\n{\"new2\":1,}\n{}\n";
    let rows = read("a BIGINT, _corrupt_record STRING", &file);
    let expected: Vec<String> = (0..=1500).map(|i| format!("{i}|")).collect();
    assert_eq!(rows[..=1500], expected);
    assert_eq!(rows[1501..], ["|{\"new2\":1,}", "|"]);
}

#[test]
fn the_column_of_malformed_records_is_a_text() {
    let error = read_with("a INT, bad INT", None, &[("columnNameOfCorruptRecord", "bad")], "{}");
    assert_eq!(error.unwrap_err().condition(), Some("INVALID_CORRUPT_RECORD_TYPE"));
    let renamed = [("columnNameOfCorruptRecord", "bad")];
    assert_eq!(read_with("a INT, bad STRING", None, &renamed, "x").unwrap(), ["|x"]);
}

#[test]
fn words_are_numbers_unless_that_is_forbidden() {
    let text = "{\"a\":NaN}\n{\"a\":-Infinity}\n{\"a\":+INF}\n{\"a\":\"NaN\"}\n{\"a\":-1.5e0}\n\
                {\"a\":null,\"x\":[true,false]}";
    let rows = read_with("a DOUBLE", None, &[], text).unwrap();
    assert_eq!(rows, ["NaN", "-inf", "inf", "NaN", "-1.5", ""]);
    let strict = [("allowNonNumericNumbers", "false")];
    let rows = read_with("a DOUBLE", None, &strict, text).unwrap();
    assert_eq!(rows, ["", "", "", "NaN", "-1.5", ""], "texts are still read");
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let error = read_with("a INT", None, &[("locale", "de")], "").unwrap_err();
    assert!(error.message().contains("locale"), "{error}");
}
