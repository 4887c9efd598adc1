//! The program between topics of Kafka: `cargo xtask kafka test` says where the broker is.

use crate::program::Folder;
use std::fs;

/// Files to a topic, the topic to another one, and that one to files.
#[test]
fn rows_go_from_topic_to_topic_and_come_once() {
    let Ok(servers) = std::env::var("FLUVIAL_KAFKA") else {
        println!("SKIPPED: there is no broker; cargo xtask kafka test starts one");
        return;
    };
    // One after the other: a topic is there once something was written to it.
    let scripts = [
        format!(
            "CREATE STREAMING TABLE first USING kafka
               TBLPROPERTIES ('topic' = 'cli-first', 'kafka.bootstrap.servers' = '{servers}')
             AS SELECT CAST(n AS STRING) AS key, CAST(n AS STRING) AS value
                FROM STREAM read_files('in', format => 'json', schema => 'n int');"
        ),
        format!(
            "CREATE STREAMING TABLE second USING kafka
               TBLPROPERTIES ('topic' = 'cli-second', 'kafka.bootstrap.servers' = '{servers}')
             AS SELECT concat('<', CAST(value AS STRING), '>') AS value
                FROM STREAM read_kafka(`kafka.bootstrap.servers` => '{servers}',
                                       subscribe => 'cli-first', startingOffsets => 'earliest');"
        ),
        format!(
            "CREATE STREAMING TABLE third USING json LOCATION 'out'
             AS SELECT CAST(value AS STRING) AS value, topic
                FROM STREAM read_kafka(`kafka.bootstrap.servers` => '{servers}',
                                       subscribe => 'cli-second', startingOffsets => 'earliest');"
        ),
    ];
    let folder = Folder::with(&scripts[0]);
    fs::create_dir(folder.path().join("in")).unwrap();
    let mut expected = Vec::new();
    for round in 0..2 {
        let lines: Vec<String> = (0..5).map(|n| format!("{{\"n\":{}}}", round * 5 + n)).collect();
        fs::write(folder.path().join(format!("in/{round}.json")), lines.join("\n")).unwrap();
        expected.extend((0..5).map(|n| format!("<{}>", round * 5 + n)));
        for script in &scripts {
            fs::write(folder.path().join("pipeline.sql"), script).unwrap();
            let output = folder.run(&["--trigger", "available-now"]);
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{errors}");
        }
        let mut found = values(&folder);
        found.sort_by_key(|value| value[1..value.len() - 1].parse::<u64>().unwrap());
        assert_eq!(found, expected, "after round {round}");
    }
}

/// The column `value` of all rows that were written.
fn values(folder: &Folder) -> Vec<String> {
    let files = fs::read_dir(folder.path().join("out")).unwrap().map(|file| file.unwrap().path());
    let texts = files.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).unwrap());
    let rows = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    rows.map(|row| {
        let row: serde_json::Value = serde_json::from_str(&row).unwrap();
        assert_eq!(row["topic"], "cli-second");
        row["value"].as_str().unwrap().to_owned()
    })
    .collect()
}
