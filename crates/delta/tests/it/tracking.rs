//! `schemaTrackingLocation`: a stream keeps its columns until it comes to the version that changes
//! them.

use crate::hand::{Hand, Reading, first_column, metadata, text_column, texts};
use crate::table::{PLACE, drive};
use fluvial_core::{Options, Result, Source};
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

#[test]
fn a_stream_from_an_old_version_begins_with_its_columns() {
    drive(async {
        let hand = table();
        change(&hand);
        let options = [("startingVersion", "1")];
        let query = Reading::new(open(&hand, "cp/a", &options).await.unwrap()).await;
        assert_eq!(columns(&query), ["v", "k"]);
        // Another query of another start does not share the place.
        let other = open(&hand, "cp/b", &[]).await.unwrap();
        assert_eq!(other.schema().fields().len(), 3);
        let both = open(&hand, "cp/c", &[]).await.unwrap();
        open(&hand, "cp/c", &options).await.unwrap().initial().await.unwrap();
        let error = both.initial().await.unwrap_err();
        let condition = Some("DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT");
        assert_eq!(error.condition(), condition, "{error}");
    });
}
