//! `schemaTrackingLocation`: a stream keeps its columns until it comes to the version that changes
//! them.

use crate::hand::{Hand, Reading, first_column, metadata, numbers, text_column, texts};
use crate::table::{PLACE, drive, load};
use arrow::array::ArrayRef;
use deltalake::checkpoints::create_checkpoint;
use fluvial_core::{Options, QueryId, Result, Source, SourceId};
use fluvial_delta::{DeltaSource, DeltaSourceOptions, DeltaTracking, TableLocation};
use fluvial_sim::Disk;
use object_store::path::Path;
use serde_json::json;

async fn open(hand: &Hand, folder: &str, options: &[(&str, &str)]) -> Result<DeltaSource> {
    let store = hand.disk.process().store();
    let location = TableLocation::parse(PLACE).unwrap().with_store(store.clone());
    let mut options = DeltaSourceOptions::parse(Options::new(options.to_vec()), "UTC")?;
    options.tracking = Some(DeltaTracking::new(store, Path::from(folder)));
    DeltaSource::open(location, options).await
}

fn columns(query: &Reading) -> Vec<String> {
    query.source.schema().fields().iter().map(|field| field.name().clone()).collect()
}

/// `v` becomes a text in version 3.
fn table() -> Hand {
    let hand = Hand::new(&Disk::new(), json!({}));
    hand.append("k=p/a", &[1]);
    hand
}

fn change(hand: &Hand) {
    hand.append("k=p/b", &[2]);
    hand.commit(&[metadata(&[("v", "string"), ("k", "string"), ("w", "long")], json!({}))]);
    let size = hand.file("k=p/c", &[("v", texts(&["three"]))]);
    hand.commit(&[json!({"add": {
        "path": "k=p/c", "partitionValues": {"k": "p"}, "size": size, "dataChange": true,
        "modificationTime": 0,
    }})]);
}

#[test]
fn columns_stay_until_the_version_that_changes_them_and_change_with_it() {
    drive(async {
        let hand = table();
        let mut query = Reading::new(open(&hand, "cp/schema", &[]).await.unwrap()).await;
        assert_eq!(query.batch().await.unwrap(), Some(vec![1]));
        change(&hand);
        // The table has other columns by now, and the stream has not come to them yet.
        query = Reading::from(open(&hand, "cp/schema", &[]).await.unwrap(), &query.at);
        assert_eq!(columns(&query), ["v", "k"]);
        assert_eq!(first_column(&query.rows().await.unwrap().unwrap()), [2]);
        for _ in 0..2 {
            let error = query.rows().await.unwrap_err();
            let condition = Some("DELTA_STREAMING_METADATA_EVOLUTION");
            assert_eq!(error.condition(), condition, "{error}");
        }
        query = Reading::from(open(&hand, "cp/schema", &[]).await.unwrap(), &query.at);
        assert_eq!(columns(&query), ["v", "k", "w"]);
        let mut found = Vec::new();
        while let Some(rows) = query.rows().await.unwrap() {
            found.extend(text_column(&rows, 0));
        }
        assert_eq!(found, ["three"]);
        // Without it the stream has the newest columns at once.
        let plain = hand.open(&[]).await.unwrap();
        assert_eq!(plain.schema().fields().len(), 3);
    });
}

const EVOLVED: &str = "DELTA_STREAMING_METADATA_EVOLUTION";
const CONFLICT: &str = "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT";

/// A version that adds the column `w`.
fn add_column(hand: &Hand) {
    hand.commit(&[metadata(&[("v", "long"), ("k", "string"), ("w", "long")], json!({}))]);
}

#[test]
fn a_stream_from_an_old_version_or_time_begins_with_its_columns() {
    drive(async {
        let hand = table();
        change(&hand);
        for start in [("startingVersion", "1"), ("startingTimestamp", "2027-01-15T08:00:01Z")] {
            let mut query = Reading::new(open(&hand, start.0, &[start]).await.unwrap()).await;
            assert_eq!(columns(&query), ["v", "k"], "{start:?}");
            assert_eq!(query.batch().await.unwrap(), Some(vec![1, 2]));
            assert_eq!(query.rows().await.unwrap_err().condition(), Some(EVOLVED));
            let source = open(&hand, start.0, &[start]).await.unwrap();
            assert_eq!(source.schema().fields().len(), 3);
        }
        let other = open(&hand, "cp/b", &[]).await.unwrap();
        assert_eq!(other.schema().fields().len(), 3);
    });
}

#[test]
fn each_stream_of_each_query_needs_a_place_of_its_own() {
    drive(async {
        let hand = table();
        let served = async |query: &str, source: &str| {
            let opened = open(&hand, "cp", &[]).await.unwrap();
            let query = QueryId::new(query).unwrap();
            opened.serves(&query, &SourceId::new(source).unwrap()).unwrap();
            opened
        };
        let first = served("q", "a").await;
        let (begin, other) = (first.initial().await.unwrap(), served("q", "b").await);
        assert_eq!(other.initial().await.unwrap_err().condition(), Some(CONFLICT));
        assert_eq!(served("r", "a").await.initial().await.unwrap_err().condition(), Some(CONFLICT));
        let on_checkpoint = Reading::from(served("r", "a").await, &begin);
        assert_eq!(on_checkpoint.plan().await.unwrap_err().condition(), Some(CONFLICT));
        // The same one goes on, and its value serves no other.
        let again = served("q", "a").await;
        assert_eq!(again.initial().await.unwrap(), begin);
        let error = again.serves(&QueryId::new("r").unwrap(), &SourceId::new("a").unwrap());
        assert_eq!(error.unwrap_err().condition(), Some(CONFLICT));
    });
}

#[test]
fn columns_of_versions_ahead_of_the_stream_are_not_its_own() {
    drive(async {
        let hand = table();
        let start = [("startingVersion", "1")];
        let begin = Reading::new(open(&hand, "cp", &start).await.unwrap()).await.at;
        change(&hand);
        let mut ahead = Reading::from(open(&hand, "cp", &[]).await.unwrap(), &begin);
        while let Ok(Some(_)) = ahead.rows().await {}
        let behind = Reading::from(open(&hand, "cp", &[]).await.unwrap(), &begin);
        assert_eq!(behind.plan().await.unwrap_err().condition(), Some(CONFLICT));
    });
}

#[test]
fn tracking_of_an_older_checkpoint_begins_with_the_columns_of_its_place() {
    drive(async {
        let hand = table();
        add_column(&hand);
        let start = [("startingVersion", "0")];
        let mut query = Reading::new(hand.open(&start).await.unwrap()).await;
        assert_eq!(query.batch().await.unwrap(), Some(vec![1]));
        assert_eq!(query.place(), (3, -1, false));
        let values: [(&str, ArrayRef); 2] = [("v", numbers(&[2])), ("w", numbers(&[20]))];
        let size = hand.file("k=p/b", &values);
        hand.commit(&[json!({"add": {
            "path": "k=p/b", "partitionValues": {"k": "p"}, "size": size, "dataChange": true,
            "modificationTime": 0,
        }})]);
        // The options still say where it once began.
        let stale = Reading::from(open(&hand, "cp", &start).await.unwrap(), &query.at);
        assert_eq!(stale.plan().await.unwrap_err().condition(), Some(EVOLVED));
        let mut query = Reading::from(open(&hand, "cp", &start).await.unwrap(), &query.at);
        assert_eq!(columns(&query), ["v", "k", "w"]);
        let rows = query.rows().await.unwrap().unwrap();
        assert_eq!(first_column(&[rows[0].project(&[2]).unwrap()]), [20]);
    });
}

#[test]
fn a_start_that_moves_before_the_first_batch_has_the_columns_of_its_new_place() {
    drive(async {
        let hand = table();
        let latest = [("startingVersion", "latest")];
        let query = Reading::new(open(&hand, "cp", &latest).await.unwrap()).await;
        assert!(query.plan().await.unwrap().is_none());
        // Nothing was planned, so that the next start begins anew, behind the change.
        add_column(&hand);
        let stale = open(&hand, "cp", &latest).await.unwrap();
        for _ in 0..2 {
            assert_eq!(stale.initial().await.unwrap_err().condition(), Some(EVOLVED));
        }
        let query = Reading::new(open(&hand, "cp", &latest).await.unwrap()).await;
        assert_eq!((columns(&query).len(), query.place()), (3, (3, -1, false)));
        // So has one without tracking that was described before the change.
        let described = hand.open(&latest).await.unwrap();
        hand.commit(&[metadata(&[("v", "long"), ("k", "string")], json!({}))]);
        let changed = described.initial().await.unwrap_err();
        assert_eq!(changed.condition(), Some("DELTA_SCHEMA_CHANGED_WITH_VERSION"));
    });
}

#[test]
fn columns_outlive_the_log_in_which_they_stood() {
    drive(async {
        let hand = table();
        let mut query = Reading::new(open(&hand, "cp", &[]).await.unwrap()).await;
        assert_eq!(query.batch().await.unwrap(), Some(vec![1]));
        for (path, value) in [("k=p/b", 2), ("k=p/c", 3), ("k=p/d", 4)] {
            hand.append(path, &[value]);
        }
        let table = load(&hand.disk.process().store()).await;
        create_checkpoint(&table, None).await.unwrap();
        hand.append("k=p/e", &[5]);
        for version in [0, 1] {
            assert!(hand.disk.remove(&hand.log(version)));
        }
        let mut query = Reading::from(open(&hand, "cp", &[]).await.unwrap(), &query.at);
        assert_eq!(query.batch().await.unwrap(), Some(vec![2, 3, 4, 5]));
        // A version without a snapshot has the columns that nobody changed since.
        let start = [("startingVersion", "3")];
        let mut query = Reading::new(open(&hand, "new", &start).await.unwrap()).await;
        assert_eq!(query.batch().await.unwrap(), Some(vec![3, 4, 5]));
    });
}
