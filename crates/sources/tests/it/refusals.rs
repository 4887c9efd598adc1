//! Sources that cannot be opened, and why.

use crate::query::{Query, Spec};
use fluvial_sim::Disk;
use fluvial_sources::FileFormat;

fn refused(spec: &Spec) -> (String, String) {
    match Query::start(&Disk::new(), spec) {
        Ok(_) => panic!("{spec:?} was accepted"),
        Err(error) => {
            (error.condition().unwrap_or_default().to_owned(), error.message().to_owned())
        }
    }
}

#[test]
fn unknown_options_have_a_nearest_name() {
    let (condition, message) = refused(&Spec::json("a INT").option("maxFilePerTriger", "1"));
    assert_eq!(condition, "UNKNOWN_OPTION");
    assert!(message.contains("did you mean 'maxFilesPerTrigger'?"), "{message}");
    let (condition, _) = refused(&Spec::json("a INT").option("header", "true"));
    assert_eq!(condition, "UNKNOWN_OPTION", "an option of another format");
}

#[test]
fn options_of_spark_that_are_not_supported_yet_are_named() {
    for name in ["samplingRatio", "basePath", "mergeSchema"] {
        let (condition, message) = refused(&Spec::json("a INT").option(name, "true"));
        assert_eq!(condition, "OPTION_NOT_SUPPORTED");
        assert!(message.contains(name), "{message}");
    }
}

#[test]
fn texts_of_options_are_checked() {
    for (name, value) in [
        ("encoding", "EBCDIC"),
        ("timestampFormat", "YYYY-ww"),
        ("dateFormat", "EEEE"),
        ("locale", "de-DE"),
        ("lineSep", ""),
        ("multiLine", "maybe"),
        ("ignoreCorruptFiles", "1"),
    ] {
        let (condition, message) = refused(&Spec::json("a INT").option(name, value));
        assert_eq!(condition, "INVALID_OPTION_VALUE", "{name}");
        assert!(message.contains(name), "{message}");
    }
}

#[test]
fn schemas_must_fit_the_format() {
    let text = Spec::json("value STRING, x STRING").format(FileFormat::Text);
    assert_eq!(refused(&text).0, "TEXT_SINGLE_COLUMN");
    let csv = Spec::json("x STRUCT<a: INT>").format(FileFormat::Csv);
    assert_eq!(refused(&csv).0, "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE");
    assert_eq!(refused(&Spec::json("k INT, K STRING")).0, "COLUMN_ALREADY_EXISTS");
    assert_eq!(refused(&Spec::json("m MAP<INT, INT>")).0, "UNSUPPORTED_DATATYPE");
    assert_eq!(refused(&Spec::json("_corrupt_record INT")).0, "INVALID_CORRUPT_RECORD_TYPE");
    let mut spec = Spec::json("_metadata INT");
    spec.metadata = true;
    assert_eq!(refused(&spec).0, "COLUMN_ALREADY_EXISTS");
    spec.schema = None;
    assert_eq!(refused(&spec).0, "UNABLE_TO_INFER_SCHEMA");
}

#[test]
fn formats_have_a_nearest_name() {
    let error = "jsn".parse::<FileFormat>().unwrap_err();
    assert!(error.message().contains("did you mean \"json\"?"), "{error}");
    assert_eq!("JSON".parse::<FileFormat>().unwrap(), FileFormat::Json);
}

#[test]
fn a_pattern_that_matches_nothing_is_no_error() {
    let spec = Spec::json("a INT").path("nowhere/*/*");
    let mut query = Query::start(&Disk::new(), &spec).unwrap();
    assert_eq!(query.batch().unwrap(), None);
}

#[test]
fn the_path_of_one_file_is_refused() {
    let disk = Disk::new();
    disk.write("in/a.json", "{}");
    let error = Query::start(&disk, &Spec::json("a INT").path("in/a.json")).err().unwrap();
    assert_eq!(error.condition(), Some("NOT_A_FOLDER"));
    let mut one = Query::start(&disk, &Spec::json("a INT").path("in/a.js?n")).unwrap();
    assert_eq!(one.batch().unwrap().unwrap(), [""]);
}
