use super::*;
use crate::format::lines::Lines;
use crate::format::{Batches, Decode};
use arrow::compute::concat_batches;
use arrow::util::display::array_value_to_string;
use fluvial_core::Options;
use fluvial_core::ddl::parse_ddl;

/// Reads a file in chunks into rows of `a|b|c`; a null is `-`.
fn read_chunks(
    schema: &str,
    options: &[(&str, &str)],
    file: &str,
    chunk: usize,
) -> Result<Vec<String>> {
    let schema = parse_ddl(schema)?;
    let csv = CsvOptions::take(
        &mut Options::new(options.iter().copied()),
        fluvial_core::NameCase::Insensitive,
    )?;
    csv.check(schema.fields())?;
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let decoder = CsvLines::new(&csv, schema.fields(), &all, "f.csv".into())?;
    let mut reader: Box<dyn Decode> = if csv.multi_line {
        Box::new(Records::new(decoder, csv.quotes(), "f.csv".into()))
    } else {
        Box::new(Lines::new(decoder, "f.csv".into()))
    };
    let mut out = Batches::new();
    file.as_bytes().chunks(chunk).try_for_each(|chunk| reader.feed(chunk, &mut out))?;
    reader.end(&mut out)?;
    let Some(first) = out.front() else { return Ok(Vec::new()) };
    let whole = concat_batches(&first.schema(), &out)?;
    let cell = |row: usize, column: &ArrayRef| {
        let null = column.is_null(row);
        if null { "-".into() } else { array_value_to_string(column, row).unwrap() }
    };
    let row =
        |row: usize| whole.columns().iter().map(|c| cell(row, c)).collect::<Vec<_>>().join("|");
    Ok((0..whole.num_rows()).map(row).collect())
}

fn read(schema: &str, options: &[(&str, &str)], file: &str) -> Vec<String> {
    read_chunks(schema, options, file, 1000).unwrap()
}

const ABC: &str = "a STRING, b STRING, c INT, _corrupt_record STRING";

#[test]
fn cells_are_read_as_spark_reads_them() {
    for (line, expected) in [
        ("x,y,1", "x|y|1|-"),
        ("\"x, z\",y,1", "x, z|y|1|-"),
        ("\"x\\\"z\",y,1", "x\"z|y|1|-"),
        ("\"x\\\\\",y,1", "x\\|y|1|-"),
        ("\"x\\nz\",y,1", "x\\nz|y|1|-"),
        ("x\"y,z,1", "x\"y|z|1|-"),
        ("\"x\" ,y,1", "x|y|1|-"),
        ("\"x\"junk,y,1", "\"x\"junk|y|1|-"),
        ("\"x,\"z\",y,1", "\"x,\"z\"|y|1|-"),
        ("\"x\\\"y\"z,y,1", "\"x\"y\"z|y|1|-"),
        ("x,,1", "x|-|1|-"),
        (",\"\",1", "-|-|1|-"),
        ("x,y,", "x|y|-|-"),
        ("\"x\",y,\"1\"", "x|y|1|-"),
        ("x,y,+1", "x|y|1|-"),
        ("é,\"ü\",5", "é|ü|5|-"),
        ("\\\"x,y,1", "\\\"x|y|1|-"),
        ("null,y,1", "null|y|1|-"),
        (" x , y ,1", " x | y |1|-"),
        ("x,y", "x|y|-|BAD"),
        ("x,y,1,9", "x|y|1|BAD"),
        ("x,y,abc", "x|y|-|BAD"),
        ("x,y,1.0", "x|y|-|BAD"),
        ("x,y,99999999999", "x|y|-|BAD"),
        ("x,y, 1 ", "x|y|-|BAD"),
        ("\"open,y,1", "open,y,1|-|-|BAD"),
    ] {
        let expected = expected.replace("BAD", line);
        assert_eq!(read(ABC, &[], line), [expected], "{line}");
    }
}

#[test]
fn a_doubled_quote_is_one() {
    // On purpose: Spark keeps such a cell as it is written unless `escape` is a quote.
    assert_eq!(read(ABC, &[], "\"x\"\"z\",y,1"), ["x\"z|y|1|-"]);
}

/// Trap F10.
#[test]
fn every_type_has_its_forms() {
    let schema = "a BOOLEAN, b DOUBLE, c TIMESTAMP, d DATE, e DECIMAL(6,2), f BINARY, g TINYINT";
    for (line, expected) in [
        (
            "true,1.5,2026-01-01T00:00:00Z,2026-01-01,1.239,abc,5",
            "true|1.5|2026-01-01T00:00:00Z|2026-01-01|1.24|616263|5",
        ),
        (
            "TRUE,1e3,2026-01-01 1:2:3,2026-1-1,\"1,234.5\",,-128",
            "true|1000.0|2026-01-01T01:02:03Z|2026-01-01|1234.50|-|-128",
        ),
        ("1,NaN,bad,bad,x,,128", "-|NaN|-|-|-|-|-"),
        ("yes,-Inf,1767225600,,,,", "-|-inf|-|-|-|-|-"),
        ("t,nan,,,,,", "-|-|-|-|-|-|-"),
        ("true, 8 ,,,,,", "true|8.0|-|-|-|-|-"),
        ("true,1d,,,,,", "true|1.0|-|-|-|-|-"),
        ("true,-Infinity,,,,,", "true|-inf|-|-|-|-|-"),
        ("true,+Inf,,,,,", "true|-|-|-|-|-|-"),
    ] {
        assert_eq!(read(schema, &[], line), [expected], "{line}");
    }
}

#[test]
fn modes_keep_drop_or_fail() {
    let file = "x,y,1\nx,y\n\n   \nx,y,1,9\nx,y,abc\n";
    let schema = "a STRING, b STRING, c INT";
    assert_eq!(read(schema, &[], file), ["x|y|1", "x|y|-", "x|y|1", "x|y|-"]);
    assert_eq!(read(schema, &[("mode", "DROPMALFORMED")], file), ["x|y|1"]);
    let error = read_chunks(schema, &[("mode", "FAILFAST")], file, 5).unwrap_err();
    assert!(error.message().starts_with("f.csv, line 2: malformed record"), "{error}");
}

#[test]
fn options_change_the_signs() {
    let two = "a STRING, b STRING";
    for (options, file, expected) in [
        ([("sep", ";"), ("quote", "'")].as_slice(), "'p;q';r", "p;q|r"),
        (&[("sep", "\\t")], "a\tb", "a|b"),
        (&[("sep", "||")], "a||b", "a|b"),
        (&[("nullValue", "NULL")], "NULL,x", "-|x"),
        (&[("emptyValue", "E")], "\"\",", "E|-"),
        (&[("comment", "#")], "#c,x\ny,z", "y|z"),
        (
            &[("ignoreLeadingWhiteSpace", "true"), ("ignoreTrailingWhiteSpace", "true")],
            " x ,\" y \"",
            "x| y ",
        ),
    ] {
        assert_eq!(read(two, options, file), [expected], "{file}");
    }
    for bad in [
        ("sep", "\""),
        ("quote", ","),
        ("quote", "ab"),
        ("sep", ""),
        ("quote", "é"),
        ("maxColumns", "0"),
    ] {
        assert!(read_chunks(two, &[bad], "", 1).is_err(), "{bad:?}");
    }
}

/// Trap F11.
#[test]
fn a_header_with_the_names_of_the_schema_decides_the_order() {
    let schema = "NAME STRING, AGE INT";
    let header = [("header", "true")];
    assert_eq!(read(schema, &header, "NAME,AGE\nBob,31\n"), ["Bob|31"]);
    assert_eq!(read(schema, &header, "AGE,name\n54,Sam\n"), ["Sam|54"]);
    assert_eq!(read(schema, &header, "x,y\nBob,31\n"), ["Bob|31"], "other names: by position");
    let position = [("header", "true"), ("enforceSchema", "true")];
    assert_eq!(read(schema, &position, "AGE,NAME\np,7\n"), ["p|7"]);
    let names = [("header", "true"), ("enforceSchema", "false")];
    assert_eq!(read(schema, &names, "AGE,extra,NAME\n54,?,Sam\n"), ["Sam|54"]);
    for bad in ["NAME,NAME\na,b\n", "NAME,years\na,1\n"] {
        let error = read_chunks(schema, &names, bad, 3).unwrap_err();
        assert_eq!(error.condition(), Some("CSV_HEADER_MISMATCH"), "{bad}");
    }
}

/// Trap F12.
#[test]
fn line_ends_in_quotes_are_kept_however_the_file_is_cut() {
    let file = "a,\"x\r\ny\"\nb,\"q\"\"q\"\nc,\"\r\"\nd,\"e\\\"\n\"\r\n\"f\"x\"\ng\",h";
    let expected = ["a|x\r\ny", "b|q\"q", "c|\r", "d|e\"\n", "\"f\"x\"|-", "g\"|h"];
    for chunk in 1..=64 {
        let rows = read_chunks("k STRING, v STRING", &[("multiLine", "true")], file, chunk);
        assert_eq!(rows.unwrap(), expected, "{chunk}");
    }
}

#[test]
fn nested_types_are_refused() {
    let error = read_chunks("a ARRAY<INT>", &[], "", 1).unwrap_err();
    assert_eq!(error.condition(), Some("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"));
}
