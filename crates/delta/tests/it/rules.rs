//! Constraints and computed columns of a table hold for what is written.

use crate::table::{PLACE, drive, load, location, memory, numbers, opened, publish, spec};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use deltalake::kernel::{DataType as DeltaType, MetadataValue, StructField};
use deltalake::logstore::{StorageConfig, logstore_with};
use deltalake::operations::create::CreateBuilder;
use fluvial_core::{Error, OutputMode, Result, Sink};
use fluvial_delta::{DeltaOptions, DeltaSink};
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use std::sync::Arc;
use url::Url;

/// Rows of BIGINT columns.
fn rows(columns: &[(&str, &[Option<i64>])]) -> RecordBatch {
    let fields: Vec<_> =
        columns.iter().map(|(name, _)| Field::new(*name, DataType::Int64, true)).collect();
    let columns = columns
        .iter()
        .map(|(_, values)| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) });
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.collect()).unwrap()
}

/// A table of `value` and another column with this metadata.
async fn table_with(
    store: &Arc<dyn ObjectStore>,
    name: &str,
    nullable: bool,
    key: &str,
    of: Value,
) {
    let url = Url::parse(PLACE).unwrap();
    let log_store = logstore_with(store.clone(), &url, StorageConfig::default()).unwrap();
    let of = match of {
        Value::Number(number) => MetadataValue::Number(number.as_i64().unwrap()),
        other => MetadataValue::String(other.as_str().unwrap().to_owned()),
    };
    // `with_column` would write texts in quotes.
    let ruled = StructField::new(name, DeltaType::LONG, nullable).with_metadata([(key, of)]);
    CreateBuilder::new()
        .with_log_store(log_store)
        .with_column("value", DeltaType::LONG, true, None)
        .with_columns([ruled])
        .await
        .unwrap();
}

/// Writes rows as one batch of a query of its own.
async fn write(store: &Arc<dyn ObjectStore>, query: &str, rows: &RecordBatch) -> Result<()> {
    let sink = DeltaSink::new(location(store), DeltaOptions::default());
    sink.open(&spec(query, OutputMode::Append, rows.schema())).await?;
    publish(&sink, 0, rows).await.map(drop)
}

fn refused(written: Result<()>) -> Error {
    let error = written.unwrap_err();
    assert_eq!(error.condition(), Some("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"), "{error}");
    error
}

/// The columns of all rows, in order.
async fn read(store: &Arc<dyn ObjectStore>) -> Vec<Vec<i64>> {
    let mut found = Vec::new();
    for batch in crate::table::read(store).await {
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| column.as_primitive::<Int64Type>().value(row);
            found.push(batch.columns().iter().map(cell).collect());
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn a_check_constraint_holds_for_every_row_and_null_is_not_enough() {
    let store = memory();
    drive(async {
        let (open, _) = opened(&store, "q", OutputMode::Append, &numbers(&[])).await;
        publish(&open, 0, &numbers(&[1])).await.unwrap();
        let table = load(&store).await;
        table.add_constraint().with_constraint("positive", "value > 0").await.unwrap();
        // A sink that was open wrote its rows before it could know.
        let error = publish(&open, 1, &numbers(&[2])).await.unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_SCHEMA_CHANGED"), "{error}");
        let error = refused(write(&store, "a", &rows(&[("value", &[Some(1), Some(-2)])])).await);
        let text = "CHECK constraint positive (value > 0) violated by row with values: value : -2";
        assert!(error.message().contains(text), "{error}");
        assert!(error.message().contains("1 of 2 rows"), "{error}");
        refused(write(&store, "b", &rows(&[("value", &[None])])).await);
        write(&store, "c", &rows(&[("value", &[Some(3)])])).await.unwrap();
        assert_eq!(read(&store).await, [[1], [3]]);
    });
}

#[test]
fn an_invariant_of_a_column_holds() {
    let store = memory();
    drive(async {
        let text = json!({"expression": {"expression": "small < 10"}}).to_string();
        table_with(&store, "small", true, "delta.invariants", json!(text)).await;
        let row = |small| rows(&[("value", &[Some(1)]), ("small", &[Some(small)])]);
        write(&store, "a", &row(9)).await.unwrap();
        let error = refused(write(&store, "b", &row(10)).await);
        assert!(error.message().contains("small : 10"), "{error}");
        assert_eq!(read(&store).await, [[1, 9]]);
    });
}

#[test]
fn a_column_is_computed_or_compared() {
    let store = memory();
    drive(async {
        let key = "delta.generationExpression";
        table_with(&store, "twice", false, key, json!("value * 2")).await;
        write(&store, "a", &rows(&[("value", &[Some(1), Some(2)])])).await.unwrap();
        let given = |twice| rows(&[("value", &[Some(3)]), ("twice", &[Some(twice)])]);
        write(&store, "b", &given(6)).await.unwrap();
        let error = refused(write(&store, "c", &given(7)).await);
        assert!(error.message().contains("Generated Column (twice <=> value * 2)"), "{error}");
        assert!(error.message().contains("value : 3, twice : 7"), "{error}");
        // It is NOT NULL, and what it is computed from may be null.
        let error = write(&store, "d", &rows(&[("value", &[None])])).await.unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_NOT_NULL_CONSTRAINT_VIOLATED"), "{error}");
        assert_eq!(read(&store).await, [[1, 2], [2, 4], [3, 6]]);
    });
}

#[test]
fn a_rule_that_cannot_be_read_or_kept_is_refused_by_name() {
    drive(async {
        for (key, of, words) in [
            ("delta.generationExpression", json!("no_such_function(value)"), "no_such_function"),
            ("delta.identity.start", json!(1), "an identity"),
        ] {
            let store = memory();
            table_with(&store, "other", true, key, of).await;
            let error = write(&store, "q", &rows(&[("value", &[Some(1)])])).await.unwrap_err();
            assert_eq!(error.condition(), Some("DELTA_FEATURE_NOT_SUPPORTED"), "{error}");
            assert!(error.message().contains(words), "{error}");
        }
    });
}

/// A version of another writer that changes the table's metadata.
async fn alter(store: &Arc<dyn ObjectStore>, change: impl FnOnce(&mut Vec<Value>, &mut Value)) {
    let table = load(store).await;
    let state = table.snapshot().unwrap();
    let mut metadata = serde_json::to_value(state.metadata()).unwrap();
    let mut schema: Value =
        serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap();
    change(schema["fields"].as_array_mut().unwrap(), &mut metadata);
    metadata["schemaString"] = json!(schema.to_string());
    let name = format!("warehouse/table/_delta_log/{:020}.json", state.version() + 1);
    let line = json!({"metaData": metadata}).to_string();
    store.put(&name.into(), line.into()).await.unwrap();
}

#[test]
fn columns_that_another_writer_moves_are_still_found_by_their_rules() {
    let store = memory();
    drive(async {
        let key = "delta.generationExpression";
        table_with(&store, "twice", true, key, json!("value * 2")).await;
        let row = |value| rows(&[("value", &[Some(value)])]);
        let (sink, _) = opened(&store, "q", OutputMode::Append, &row(0)).await;
        publish(&sink, 0, &row(1)).await.unwrap();
        alter(&store, |fields, _| fields.reverse()).await;
        // It was written before the sink could know, and the next one after.
        publish(&sink, 1, &row(2)).await.unwrap();
        publish(&sink, 2, &row(3)).await.unwrap();
        let mut found = Vec::new();
        for batch in crate::table::read(&store).await {
            let of = |name| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
            found.push((of("value").value(0), of("twice").value(0)));
        }
        found.sort_unstable();
        assert_eq!(found, [(1, 2), (2, 4), (3, 6)]);
    });
}

/// What another writer does to the fields and the rest of a table's metadata.
type Change = fn(&mut Vec<Value>, &mut Value);

#[test]
fn rows_that_no_longer_fit_when_they_are_published_are_refused() {
    drive(async {
        let changes: [Change; 2] = [
            |fields, _| fields[0]["nullable"] = json!(false),
            |_, table| table["partitionColumns"] = json!(["value"]),
        ];
        for change in changes {
            let store = memory();
            let nulls = rows(&[("value", &[None])]);
            let (sink, _) = opened(&store, "q", OutputMode::Append, &nulls).await;
            publish(&sink, 0, &nulls).await.unwrap();
            alter(&store, change).await;
            let error = publish(&sink, 1, &nulls).await.unwrap_err();
            assert_eq!(error.condition(), Some("DELTA_SCHEMA_CHANGED"), "{error}");
        }
    });
}
