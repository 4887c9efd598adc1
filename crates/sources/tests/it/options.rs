//! Options of readers; what is expected is what Spark 4.1 answered.

use crate::query::{Query, Spec, put};
use fluvial_core::{Result, Source};
use fluvial_sim::Disk;
use fluvial_sources::FileFormat;

fn read_named(name: &str, file: impl Into<Vec<u8>>, spec: &Spec) -> Result<Vec<String>> {
    let disk = Disk::new();
    disk.write(&format!("in/{name}"), file.into());
    let rows = Query::start(&disk, spec)?.batch()?;
    Ok(rows.unwrap_or_default())
}

fn read(file: impl Into<Vec<u8>>, spec: &Spec) -> Vec<String> {
    read_named("f", file, spec).unwrap()
}

fn text() -> Spec {
    Spec::json("value STRING").format(FileFormat::Text)
}

fn csv(schema: &str) -> Spec {
    Spec::json(schema).format(FileFormat::Csv)
}

fn json() -> Spec {
    Spec::json("a INT, b STRING, _corrupt_record STRING")
}

#[test]
fn a_file_of_json_may_be_one_record() {
    let spec = json().option("multiLine", "true");
    assert_eq!(read("{\"a\":1,\n \"b\":\"x\"}\n{\"a\":2}", &spec), ["a=1 b=x"], "the first value");
    assert_eq!(read("[{\"a\":1},\n{\"a\":2,\"b\":\"y\"}]", &spec), ["a=1", "a=2 b=y"]);
    assert_eq!(read("{\"a\":1,\n \"b\":", &spec), ["_corrupt_record={\"a\":1,\n \"b\":"]);
    let bad = "[{\"a\":1},{\"a\":\"x\"},{\"a\":3}]";
    let marked = format!("_corrupt_record={bad}");
    let expected = [format!("a=1 {marked}"), marked.clone(), format!("a=3 {marked}")];
    assert_eq!(read(bad, &spec), expected);
    assert!(read(" \n", &spec).is_empty());
}

#[test]
fn records_end_where_the_user_says() {
    let spec = json().option("lineSep", ";");
    assert_eq!(read("{\"a\":1};{\"a\":2};\n{\"a\":3}", &spec), ["a=1", "a=2", "a=3"]);
    let spec = csv("a INT, b STRING").option("lineSep", ";");
    assert_eq!(read("1,x;2,\"y\";3,z", &spec), ["a=1 b=x", "a=2 b=y", "a=3 b=z"]);
    assert_eq!(read("a|b|c|", &text().option("lineSep", "|")), ["value=a", "value=b", "value=c"]);
    assert_eq!(read("a\r\nb\n", &text().option("wholetext", "true")), ["value=a\r\nb\n"]);
}

#[test]
fn json_may_be_less_than_strict() {
    let spec = json().option("allowComments", "true");
    assert_eq!(read("{\"a\":/*z*/2} // t\n{\"b\":\"//x\"}", &spec), ["a=2", "b=//x"]);
    assert_eq!(read("{\"a\":/*z*/2}", &json()), ["_corrupt_record={\"a\":/*z*/2}"]);
    let spec = json().option("allowUnquotedFieldNames", "true");
    assert_eq!(
        read("{a:1,b$_9:2,b:\"x\"}\n{1a:1}", &spec),
        ["a=1 b=x", "_corrupt_record={1a:1}"],
        "what is kept is what was written"
    );
    let spec = json().option("allowSingleQuotes", "false");
    assert_eq!(read("{'a':1}", &spec), ["_corrupt_record={'a':1}"]);
    let spec = json().option("allowNumericLeadingZeros", "true");
    assert_eq!(read("{\"a\":007}\n{\"a\":-01}\n{\"a\":00}", &spec), ["a=7", "a=-1", "a=0"]);
    let spec = json().option("allowBackslashEscapingAnyCharacter", "true");
    assert_eq!(read("{\"b\":\"\\x\\q\\$\"}", &spec), ["b=xq$"]);
    let spec = json().option("allowUnquotedControlChars", "true");
    assert_eq!(read("{\"b\":\"x\ty\"}", &spec), ["b=x\ty"]);
}

#[test]
fn dates_and_times_have_the_form_that_is_given() {
    let spec = csv("d DATE, t TIMESTAMP, n TIMESTAMP_NTZ")
        .option("dateFormat", "dd/MM/yyyy")
        .option("timestampFormat", "dd/MM/yyyy HH:mm[XXX]")
        .option("timestampNTZFormat", "yyyyMMddHHmm")
        .option("timeZone", "Europe/Berlin");
    assert_eq!(
        read("02/01/2026,02/01/2026 03:04,202601020304\n,02/01/2026 03:04Z,\n2026-01-02,x,", &spec),
        ["d=2026-01-02 t=2026-01-02T02:04:00Z n=2026-01-02T03:04:00", "t=2026-01-02T03:04:00Z", ""]
    );
    let spec = Spec::json("t TIMESTAMP").option("timestampFormat", "yyyy");
    assert_eq!(read("{\"t\":5}", &spec), ["t=1970-01-01T00:00:05Z"], "a number is seconds");
}

#[test]
fn numbers_that_are_none_may_have_other_names() {
    let spec = csv("a DOUBLE, b DOUBLE, c DOUBLE")
        .option("nanValue", "nan")
        .option("positiveInf", "INF")
        .option("negativeInf", "-INF");
    // `Inf` was a name only because the option said so; `NaN` is how a number is written anyway.
    assert_eq!(read("nan,INF,-INF\nx,NaN,Inf", &spec), ["a=NaN b=inf c=-inf", "b=NaN"]);
}

#[test]
fn a_record_too_wide_is_an_error() {
    let spec = csv("a INT, b INT").option("maxColumns", "2");
    assert_eq!(read("1,2", &spec), ["a=1 b=2"]);
    let error = read_named("f", "1,2\n1,2,3", &spec).unwrap_err();
    assert_eq!(error.condition(), Some("TOO_MANY_COLUMNS"));
    assert!(error.message().contains("line 2"), "{error}");
}

#[test]
fn texts_in_other_encodings_are_read_if_they_are_named() {
    let utf16: Vec<u8> = "\u{feff}1,é\n2,x\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for options in [&[("encoding", "UTF-16")][..], &[("encoding", "utf-16"), ("multiLine", "true")]]
    {
        let spec = options.iter().fold(csv("a INT, b STRING"), |spec, (k, v)| spec.option(k, v));
        assert_eq!(read(utf16.clone(), &spec), ["a=1 b=é", "a=2 b=x"]);
    }
    let spec = csv("a INT, b STRING").option("charset", "ISO-8859-1");
    assert_eq!(read(b"1,\xe9\n".as_slice(), &spec), ["a=1 b=é"]);
    let error = read_named("f", utf16, &csv("a INT, b STRING")).unwrap_err();
    assert_eq!(error.condition(), Some("UNSUPPORTED_ENCODING"));
    assert!(error.message().contains("encoding to UTF-16"), "{error}");
}

#[test]
fn a_damaged_file_ends_where_the_damage_begins_if_asked_for() {
    use std::io::Write;
    let lines = |n: usize| "{\"a\":1}\n".repeat(n);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(lines(1000).as_bytes()).unwrap();
    let whole = gzip.finish().unwrap();
    let cut = whole[..whole.len() / 2].to_vec();
    let error = read_named("f.json.gz", cut.clone(), &json()).unwrap_err();
    assert_eq!(error.condition(), Some("FAILED_READ_FILE.COMPRESSION"));
    let spec = json().option("ignoreCorruptFiles", "true");
    let rows = read_named("f.json.gz", cut, &spec).unwrap();
    assert!(rows.len() > 100 && rows.len() < 1000, "{}", rows.len());
    assert!(rows.iter().all(|row| row == "a=1"));
    let parquet = spec.format(FileFormat::Parquet);
    assert!(read_named("f.parquet", "nope", &parquet).unwrap().is_empty());
}

#[test]
fn types_of_csv_are_inferred_if_asked_for() {
    let mut spec = csv("").option("header", "true").option("inferSchema", "true");
    spec.schema = None;
    let disk = Disk::new();
    disk.write("in/1", "a,b,c,d\n1,true,x,2026-01-02\n");
    disk.write("in/2", "a,b,c,d\n2147483648,,1,2026-01-03\n");
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(
        query.batch().unwrap().unwrap(),
        ["a=1 b=true c=x d=2026-01-02", "a=2147483648 c=1 d=2026-01-03"]
    );
}

/// Files of one name in several folders are one file, whether they come at once or later.
#[test]
fn a_name_may_be_all_that_a_file_is() {
    let disk = Disk::new();
    let spec = Spec::json("a INT").option("fileNameOnly", "true").path("in/*");
    put(&disk, "x/f", &["{\"a\":1}"], 1);
    put(&disk, "y/f", &["{\"a\":2}"], 2);
    put(&disk, "y/g", &["{\"a\":3}"], 3);
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(query.batch().unwrap().unwrap(), ["a=1", "a=3"]);
    put(&disk, "z/f", &["{\"a\":4}"], 4);
    put(&disk, "z/h", &["{\"a\":5}"], 5);
    assert_eq!(query.batch().unwrap().unwrap(), ["a=5"]);
    query.restart(&spec).unwrap();
    assert!(query.batch().unwrap().is_none());
    // With paths again, all but the newest would be read once more: the engine refuses that.
    let by_name = query.source.identity();
    query.restart(&Spec::json("a INT").path("in/*")).unwrap();
    assert_ne!(query.source.identity(), by_name);
}
