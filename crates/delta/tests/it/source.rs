//! What a Delta source reads, refuses and remembers.

use crate::hand::{
    COLUMNS, Hand, Reading, first_column, metadata, metadata_of, numbers, open, read, text_column,
    texts,
};
use crate::table::drive;
use fluvial_core::{ErrorKind, Source};
use fluvial_sim::{Disk, Op};
use serde_json::json;

fn table() -> Hand {
    Hand::new(&Disk::new(), json!({}))
}

#[test]
fn the_rows_that_are_there_come_first_and_then_what_is_added() {
    drive(async {
        let hand = table();
        hand.append("k=p/a", &[1]);
        hand.append("k=p/b", &[2]);
        let mut query =
            Reading::new(hand.open(&[("maxFilesPerTrigger", "1")]).await.unwrap()).await;
        assert_eq!(query.place(), (2, -1, true));
        hand.append("k=p/c", &[3]);
        assert_eq!(query.batch().await.unwrap(), Some(vec![1]));
        assert_eq!(query.place(), (2, 0, true));
        // In the middle of the snapshot another process goes on, although the table moved.
        let options = [("maxFilesPerTrigger", "1"), ("startingVersion", "latest")];
        query = Reading::from(hand.open(&options).await.unwrap(), &query.at);
        assert_eq!(query.batch().await.unwrap(), Some(vec![2]));
        assert_eq!(query.place(), (3, -1, false));
        assert_eq!(query.batch().await.unwrap(), Some(vec![3]));
        assert_eq!(query.batch().await.unwrap(), None);
    });
}

#[test]
fn a_query_begins_where_its_options_say() {
    drive(async {
        let hand = table();
        for (file, value) in [("k=p/a", 1), ("k=p/b", 2), ("k=p/c", 3)] {
            hand.append(file, &[value]);
        }
        let all = async |options: &[(&str, &str)]| {
            let mut query = Reading::new(hand.open(options).await.unwrap()).await;
            query.batch().await.unwrap().unwrap_or_default()
        };
        assert_eq!(all(&[("startingVersion", "0")]).await, [1, 2, 3]);
        assert_eq!(all(&[("startingVersion", "2")]).await, [2, 3]);
        assert!(all(&[("startingVersion", "latest")]).await.is_empty());
        // Version n was committed n seconds after 2027-01-15T08:00:00Z.
        assert_eq!(all(&[("startingTimestamp", "2027-01-15T08:00:02Z")]).await, [2, 3]);
        assert_eq!(all(&[("startingTimestamp", "2027-01-15T08:00:02.001Z")]).await, [3]);
        assert_eq!(all(&[("startingTimestamp", "2020-01-01")]).await, [1, 2, 3]);
        for (name, text, condition) in [
            ("startingVersion", "4", "DELTA_VERSION_NOT_FOUND"),
            ("startingTimestamp", "2030-01-01", "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
        ] {
            let error = hand.open(&[(name, text)]).await.unwrap().initial().await.unwrap_err();
            assert_eq!(error.condition(), Some(condition), "{error}");
        }
    });
}

#[test]
fn a_plan_is_read_again_without_the_log() {
    drive(async {
        let hand = table();
        hand.append("k=p/a", &[1, 2]);
        let query = Reading::new(hand.open(&[]).await.unwrap()).await;
        let range = query.plan().await.unwrap().unwrap();
        hand.commit(&[hand.remove("k=p/a")]);
        let later = hand.open(&[]).await.unwrap();
        hand.disk.remove(&hand.log(1));
        let rows = read(&later, &range).await.unwrap();
        assert_eq!((first_column(&rows), text_column(&rows, 1)), (vec![1, 2], vec!["p".into(); 2]));
        hand.disk.remove(&hand.path("k=p/a"));
        let error = read(&later, &range).await.unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_FILE_NOT_FOUND_DETAILED"));
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains("k=p/a of version 1"), "{error}");
    });
}

#[test]
fn a_batch_costs_one_read_of_the_log_for_each_new_version() {
    drive(async {
        let hand = table();
        let process = hand.disk.process();
        let source = open(process.store(), &[]).await.unwrap();
        let mut query = Reading::new(source).await;
        let calls = async |query: &mut Reading| {
            let before = process.calls().len();
            let range = query.plan().await.unwrap();
            if let Some(range) = range {
                query.at = range.end;
            }
            process.calls()[before..].iter().map(|call| call.op).collect::<Vec<_>>()
        };
        hand.append("k=p/a", &[1]);
        hand.append("k=p/b", &[2]);
        // Two versions, the one that is not there yet, the checkpoint that may cover it.
        assert_eq!(calls(&mut query).await, [Op::Get; 4]);
        assert_eq!(calls(&mut query).await, [Op::Get; 2]);
    });
}

#[test]
fn what_takes_rows_away_stops_the_query_or_follows_the_options() {
    drive(async {
        let hand = table();
        hand.append("k=p/a", &[1, 2]);
        hand.commit(&[hand.remove("k=p/a")]);
        let rewritten = hand.add("k=p/b", &[3]);
        hand.commit(&[hand.remove("k=p/a"), rewritten]);
        hand.append("k=p/c", &[4]);
        let reading = async |options: &[(&str, &str)]| {
            let options = [&[("startingVersion", "1")], options].concat();
            let mut query = Reading::new(hand.open(&options).await.unwrap()).await;
            let rows = query.batch().await.unwrap().unwrap_or_default();
            let error = query.batch().await.err();
            (rows, error.and_then(|e| e.condition().map(str::to_owned)).unwrap_or_default())
        };
        let changes = "DELTA_SOURCE_TABLE_IGNORE_CHANGES".to_owned();
        let deletes = "DELTA_SOURCE_IGNORE_DELETE".to_owned();
        // What came before is given first.
        assert_eq!(reading(&[]).await, (vec![1, 2], deletes));
        assert_eq!(reading(&[("ignoreDeletes", "true")]).await, (vec![1, 2], changes));
        let none = String::new();
        assert_eq!(reading(&[("ignoreChanges", "true")]).await, (vec![1, 2, 3, 4], none.clone()));
        assert_eq!(reading(&[("skipChangeCommits", "true")]).await, (vec![1, 2, 4], none));
    });
}

#[test]
fn a_change_feed_tells_what_happened_and_when() {
    drive(async {
        let hand = Hand::new(&Disk::new(), json!({"delta.enableChangeDataFeed": "true"}));
        hand.append("k=p/a", &[1]);
        let options = [("readChangeFeed", "true")];
        let mut query = Reading::new(hand.open(&options).await.unwrap()).await;
        hand.commit(&[hand.remove("k=p/a")]);
        let rows = query.rows().await.unwrap().unwrap();
        assert_eq!(first_column(&rows), [1, 1]);
        assert_eq!(text_column(&rows, 2), ["insert", "delete"]);
        let shown = arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string();
        assert!(shown.contains("| 2               | 2027-01-15T08:00:02Z |"), "{shown}");
        // A deletion vector alone does not say which rows went now.
        let mut add = hand.add("k=p/b", &[1, 2]);
        hand.delete(&mut add, 7, &[0]);
        hand.commit(&[hand.remove("k=p/b"), add]);
        let error = query.batch().await.unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_FEATURE_NOT_SUPPORTED"), "{error}");
        let plain = table();
        plain.append("k=p/a", &[1]);
        let error = plain.open(&options).await.unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_MISSING_CHANGE_DATA"));
    });
}

/// Trap F15.
#[test]
fn new_columns_stop_the_query_which_goes_on_with_them() {
    drive(async {
        let hand = table();
        hand.append("k=p/a", &[1]);
        let mut query = Reading::new(hand.open(&[]).await.unwrap()).await;
        let wider = [COLUMNS, &[("n", "string")]].concat();
        hand.append("k=p/b", &[2]);
        let size = hand.file("k=p/c", &[("n", texts(&["x"])), ("v", numbers(&[3]))]);
        let add = json!({"add": {
            "path": "k=p/c", "partitionValues": {"k": null}, "size": size, "dataChange": true,
            "modificationTime": 0,
        }});
        hand.commit(&[metadata(&wider, json!({})), add]);
        assert_eq!(query.batch().await.unwrap(), Some(vec![1, 2]), "all that fits comes first");
        for _ in 0..2 {
            let error = query.batch().await.unwrap_err();
            assert_eq!(error.condition(), Some("DELTA_SCHEMA_CHANGED_WITH_VERSION"));
            assert!(error.message().contains("version 3"), "{error}");
        }
        query = Reading::from(hand.open(&[]).await.unwrap(), &query.at);
        let rows = query.rows().await.unwrap().unwrap();
        assert_eq!(
            (text_column(&rows, 1), text_column(&rows, 2)),
            (vec!["-".into()], vec!["x".into()])
        );
        // From the beginning, older rows have nulls.
        let source = hand.open(&[("startingVersion", "0")]).await.unwrap();
        let rows = Reading::new(source).await.rows().await.unwrap().unwrap();
        assert_eq!(text_column(&rows, 2), ["-", "-", "x"]);
    });
}

#[test]
fn a_column_that_went_away_or_changed_its_type_is_no_way_back() {
    drive(async {
        for columns in [&[("w", "long"), ("k", "string")], &[("v", "string"), ("k", "string")]] {
            let hand = table();
            hand.append("k=p/a", &[1]);
            let version = hand.commit(&[metadata(columns, json!({}))]);
            let mut query =
                Reading::new(hand.open(&[("startingVersion", "0")]).await.unwrap()).await;
            let error = query.batch().await.unwrap_err();
            let condition = "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE";
            assert_eq!(error.condition(), Some(condition), "{error}");
            let after = version.to_string();
            let source = hand.open(&[("startingVersion", after.as_str())]).await.unwrap();
            assert!(Reading::new(source).await.batch().await.is_ok());
        }
    });
}

#[test]
fn mapped_columns_are_read_by_their_names_in_files() {
    drive(async {
        let hand = table();
        let field = |name: &str, of: &str, id: u64, physical: &str| {
            json!({"name": name, "type": of, "nullable": true, "metadata": {
                "delta.columnMapping.id": id, "delta.columnMapping.physicalName": physical,
            }})
        };
        let fields = [field("v", "long", 1, "c1"), field("k", "string", 2, "c2")];
        let properties = json!({"delta.columnMapping.mode": "name"});
        hand.commit(&[metadata_of(&fields, properties)]);
        let size = hand.file("c2=q/a", &[("c1", numbers(&[5]))]);
        let add = json!({"add": {
            "path": "c2=q/a", "partitionValues": {"c2": "q"}, "size": size, "dataChange": true,
            "modificationTime": 0,
        }});
        hand.commit(&[add]);
        let rows = Reading::new(hand.open(&[]).await.unwrap()).await.rows().await.unwrap().unwrap();
        assert_eq!((first_column(&rows), text_column(&rows, 1)), (vec![5], vec!["q".into()]));
        hand.commit(&[metadata_of(&fields, json!({"delta.columnMapping.mode": "id"}))]);
        let error = hand.open(&[]).await.unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_FEATURE_NOT_SUPPORTED"), "{error}");
    });
}

/// Trap D10.
#[test]
fn deleted_rows_stay_deleted_however_often_and_in_whatever_columns_a_file_is_read() {
    drive(async {
        let hand = table();
        let values: Vec<i64> = (0..20_000).collect();
        let mut add = hand.add("k=p/a", &values);
        hand.delete(&mut add, 1, &[2, 7, 8191, 8192, 19_999]);
        hand.commit(&[add]);
        let query = Reading::new(hand.open(&[]).await.unwrap()).await;
        let range = query.plan().await.unwrap().unwrap();
        let gone = [2, 7, 8191, 8192, 19_999];
        let kept: Vec<i64> = values.into_iter().filter(|v| !gone.contains(v)).collect();
        for _ in 0..2 {
            assert_eq!(first_column(&read(&query.source, &range).await.unwrap()), kept);
        }
        use futures::TryStreamExt;
        let rows = query.source.read(&range, &range.splits[0], Some(&[])).unwrap();
        let rows: Vec<_> = rows.try_collect().await.unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), kept.len());
    });
}

#[test]
fn a_version_that_was_cleaned_up_is_named_and_skipped_only_if_asked_for() {
    drive(async {
        let hand = table();
        let start = Reading::new(hand.open(&[("startingVersion", "0")]).await.unwrap()).await.at;
        for (file, value) in [("k=p/a", 1), ("k=p/b", 2), ("k=p/c", 3)] {
            hand.append(file, &[value]);
        }
        let strict = hand.open(&[]).await.unwrap();
        let lenient = hand.open(&[("failOnDataLoss", "false")]).await.unwrap();
        for version in [0, 1] {
            hand.disk.remove(&hand.log(version));
        }
        let error = Reading::from(strict, &start).batch().await.unwrap_err();
        let condition = "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE";
        assert_eq!(error.condition(), Some(condition));
        assert!(error.message().contains("_delta_log/00000000000000000000.json"), "{error}");
        assert_eq!(Reading::from(lenient, &start).batch().await.unwrap(), Some(vec![2, 3]));
    });
}

#[test]
fn a_table_that_was_made_anew_is_another_one() {
    drive(async {
        let hand = table();
        hand.append("k=p/a", &[1]);
        let query = Reading::new(hand.open(&[]).await.unwrap()).await;
        let mut other = metadata(COLUMNS, json!({}));
        other["metaData"]["id"] = "another".into();
        hand.commit(&[other]);
        let query = Reading::from(hand.open(&[]).await.unwrap(), &query.at);
        let error = query.plan().await.unwrap_err();
        let condition = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE";
        assert_eq!(error.condition(), Some(condition), "{error}");
    });
}

#[test]
fn files_that_match_are_left_out_and_positions_stay() {
    drive(async {
        let hand = table();
        let two = [hand.add("k=p/a.tmp", &[1]), hand.add("k=p/b", &[2])];
        hand.commit(&two);
        let options = [("excludeRegex", r"\.tmp$"), ("startingVersion", "1")];
        let mut query = Reading::new(hand.open(&options).await.unwrap()).await;
        assert_eq!(query.batch().await.unwrap(), Some(vec![2]));
        assert_eq!(query.place(), (2, -1, false));
    });
}
