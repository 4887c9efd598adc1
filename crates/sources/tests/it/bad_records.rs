//! Malformed records, put aside.

use crate::query::{Query, Spec, put};
use fluvial_sim::Disk;
use fluvial_sources::FileFormat;

fn aside(disk: &Disk) -> Vec<String> {
    let paths = disk.paths_under("bad/");
    let text = |path: &String| String::from_utf8(disk.read(path).unwrap().to_vec()).unwrap();
    let mut lines: Vec<String> = paths
        .iter()
        .flat_map(|path| text(path).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.sort();
    lines
}

#[test]
fn malformed_records_are_written_down_once_however_often_they_are_read() {
    let disk = Disk::new();
    put(&disk, "1", &["{\"v\":1}", "{\"v\":", "{\"v\":\"x\"}", "{\"v\":2}"], 1);
    put(&disk, "2", &["\"", "{\"v\":3}"], 2);
    let spec = Spec::json("v INT").option("badRecordsPath", "sim:///bad");
    let mut query = Query::start(&disk, &spec).unwrap();
    let rows = ["v=1", "v=2", "v=3"];
    assert_eq!(query.batch().unwrap().unwrap(), rows);
    let line = |file: &str, record: &str| {
        let record = record.replace('"', "\\\"");
        format!(
            "{{\"path\":\"sim:///in/{file}\",\"reason\":\"malformed record\",\"record\":\"{record}\"}}"
        )
    };
    let expected = [line("1", "{\"v\":"), line("1", "{\"v\":\"x\"}"), line("2", "\"")];
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(aside(&disk), expected);
    query.restart(&spec).unwrap();
    assert_eq!(query.read(&query.ranges[0]).unwrap(), rows);
    assert_eq!(aside(&disk), expected, "the same objects");
}

#[test]
fn records_of_csv_are_put_aside_too_and_values_that_are_rescued_are_not() {
    let disk = Disk::new();
    disk.write("in/1", "1,a\n2\nx,b\n3,c\n");
    let csv = Spec::json("n INT, s STRING").format(FileFormat::Csv);
    let spec = csv.clone().option("badRecordsPath", "/bad");
    assert_eq!(
        Query::start(&disk, &spec).unwrap().batch().unwrap().unwrap(),
        ["n=1 s=a", "n=3 s=c"]
    );
    assert_eq!(aside(&disk).len(), 2);
    let disk = Disk::new();
    put(&disk, "1", &["{\"v\":\"x\"}", "{\"v\":"], 1);
    let spec = Spec { auto: true, ..Spec::json("v INT") }
        .option("badRecordsPath", "/bad")
        .option("rescuedDataColumn", "r");
    let rows = Query::start(&disk, &spec).unwrap().batch().unwrap().unwrap();
    assert_eq!(rows, [r#"r={"v":"x","_file_path":"sim:///in/1"}"#]);
    assert_eq!(aside(&disk).len(), 1);
}

#[test]
fn what_cannot_be_is_refused() {
    let disk = Disk::new();
    let refused = |spec: Spec| {
        let error = Query::start(&disk, &spec.option("badRecordsPath", "/bad")).err().unwrap();
        error.condition().unwrap_or_default().to_owned()
    };
    assert_eq!(
        refused(Spec::json("v INT").option("mode", "FAILFAST")),
        "OPTIONS_EXCLUDE_EACH_OTHER"
    );
    assert_eq!(
        refused(Spec::json("v INT").format(FileFormat::Parquet)),
        "OPTIONS_EXCLUDE_EACH_OTHER"
    );
    let inside = Spec::json("v INT").path("bad").option("badRecordsPath", "/bad/x");
    let error = Query::start(&disk, &inside).err().unwrap();
    assert_eq!(error.condition(), Some("ARCHIVE_INSIDE_SOURCE"));
}
