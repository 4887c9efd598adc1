use super::*;
use fluvial_core::{
    ErrorKind, OperatorId, OutputMode, SourceId, StateLayout, StateSchema, StoreName, TimeKind,
};

fn field(name: &str, data_type: &str) -> StateField {
    StateField { name: name.into(), data_type: data_type.into() }
}

fn source(kind: &str, place: &str) -> SourceShape {
    SourceShape { kind: kind.into(), description: format!("{kind}[{place}]") }
}

/// `count(*), sum(v)` by `a, b` and ten-minute windows, over two folders.
fn query() -> QueryShape {
    let schema = StateSchema {
        kind: "stateStoreSave".into(),
        format: 1,
        keys: vec![field("a", "Int64"), field("b", "Int64")],
        values: vec![field("count(*)", "Int64"), field("sum(v)", "Int64")],
        meaning: [("window size".into(), "10 minutes".into())].into(),
        layout: None,
    };
    let shape = OperatorShape { schema, stores: vec![StoreName::new("default").unwrap()] };
    QueryShape {
        sources: [("left", "/l"), ("right", "/r")]
            .map(|(id, place)| (SourceId::new(id).unwrap(), source("files", place)))
            .into(),
        operators: [(OperatorId::new("count").unwrap(), shape)].into(),
        mode: OutputMode::Append,
    }
}

fn changed(change: impl FnOnce(&mut QueryShape)) -> QueryShape {
    let mut query = query();
    change(&mut query);
    query
}

fn with_schema(change: impl FnOnce(&mut StateSchema)) -> QueryShape {
    changed(|query| change(&mut query.operators.values_mut().next().unwrap().schema))
}

#[track_caller]
fn refused(new: &QueryShape, condition: &str, words: &[&str]) {
    let error = compare(&query(), new).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.condition(), Some(condition), "{error}");
    for word in words {
        assert!(error.message().contains(word), "{word:?} is not in: {error}");
    }
}

#[test]
fn the_same_query_goes_on() {
    compare(&query(), &query()).unwrap();
}

#[test]
fn a_key_may_be_renamed() {
    compare(&query(), &with_schema(|s| s.keys[0].name = "user".into())).unwrap();
    let both = with_schema(|s| s.keys = vec![field("x", "Int64"), field("y", "Int64")]);
    compare(&query(), &both).unwrap();
}

/// Trap E13.
#[test]
fn swapped_keys_are_no_renaming() {
    let swapped = with_schema(|s| s.keys.swap(0, 1));
    refused(&swapped, "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", &["operator count", "reordered"]);
    let shifted = with_schema(|s| s.keys = vec![field("b", "Int64"), field("c", "Int64")]);
    refused(&shifted, "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", &["reordered"]);
}

#[test]
fn keys_of_other_types_or_numbers_are_named() {
    const CONDITION: &str = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE";
    refused(
        &with_schema(|s| s.keys[1].data_type = "Utf8".into()),
        CONDITION,
        &["key column b was of type Int64 and is b Utf8"],
    );
    refused(&with_schema(|s| s.keys.push(field("c", "Utf8"))), CONDITION, &["c Utf8", "added"]);
    refused(&with_schema(|s| drop(s.keys.pop())), CONDITION, &["[a Int64]", "removed"]);
}

#[test]
fn aggregates_are_what_their_names_say() {
    const CONDITION: &str = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE";
    refused(&with_schema(|s| s.values[1].name = "max(v)".into()), CONDITION, &["max(v)", "sum(v)"]);
    refused(&with_schema(|s| s.values.swap(0, 1)), CONDITION, &["reordered"]);
    refused(&with_schema(|s| s.values.push(field("x", "Int64"))), CONDITION, &["added"]);
    refused(&with_schema(|s| s.format = 2), CONDITION, &["format 1", "2"]);
}

#[test]
fn a_window_keeps_its_size() {
    const CONDITION: &str = "STATE_STORE_INVALID_CONFIG_AFTER_RESTART";
    let other = with_schema(|s| {
        s.meaning.insert("window size".into(), "5 minutes".into());
    });
    refused(&other, CONDITION, &["window size was \"10 minutes\" and is \"5 minutes\""]);
    refused(&with_schema(|s| s.meaning.clear()), CONDITION, &["is not set"]);
}

#[test]
fn operators_keep_kind_and_number() {
    const CONDITION: &str = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA";
    refused(
        &with_schema(|s| s.kind = "dedupe".into()),
        CONDITION,
        &["it was a stateStoreSave and is a dedupe"],
    );
    refused(&changed(|q| q.operators.clear()), CONDITION, &["[count]", "[none]", "gone: count"]);
    let added = changed(|query| {
        let shape = query.operators.values().next().unwrap().clone();
        query.operators.insert(OperatorId::new("dedup").unwrap(), shape);
    });
    refused(&added, CONDITION, &["added: dedup"]);
    let stateless = changed(|q| q.operators.clear());
    compare(&stateless, &query()).unwrap_err();
}

#[test]
fn the_output_mode_stays() {
    let update = changed(|q| q.mode = OutputMode::Update);
    refused(&update, "STATE_STORE_INVALID_CONFIG_AFTER_RESTART", &["was append and is update"]);
    let stateless = |mode| changed(|q| (q.operators, q.mode) = (BTreeMap::new(), mode));
    let error = compare(&stateless(OutputMode::Append), &stateless(OutputMode::Complete));
    assert_eq!(error.unwrap_err().condition(), Some("OUTPUT_MODE_CHANGED"));
}

#[test]
fn sources_keep_number_kind_and_place() {
    const CONDITION: &str = "SOURCES_CHANGED";
    let id = |name: &str| SourceId::new(name).unwrap();
    refused(&changed(|q| drop(q.sources.remove(&id("left")))), CONDITION, &["gone: left"]);
    let third = changed(|q| drop(q.sources.insert(id("third"), source("files", "/t"))));
    refused(&third, CONDITION, &["[left, right]", "[left, right, third]", "added: third"]);
    let kafka = changed(|q| drop(q.sources.insert(id("left"), source("kafka", "t"))));
    refused(&kafka, CONDITION, &["source left", "\"files\"", "\"kafka\""]);
    let moved = changed(|q| drop(q.sources.insert(id("left"), source("files", "/other"))));
    refused(&moved, CONDITION, &["files[/l]", "files[/other]"]);
}

/// Trap I9.
#[test]
fn swapped_places_get_a_hint() {
    let swapped = changed(|query| {
        let id = |name: &str| SourceId::new(name).unwrap();
        query.sources.insert(id("left"), source("files", "/r"));
        query.sources.insert(id("right"), source("files", "/l"));
    });
    refused(&swapped, "SOURCES_CHANGED", &["that was source right", "that was source left"]);
}

#[test]
fn all_differences_are_told_at_once() {
    let much = changed(|query| {
        query.mode = OutputMode::Complete;
        query.sources.clear();
        query.operators.clear();
    });
    refused(&much, "SOURCES_CHANGED", &["sources", "output mode", "operators"]);
}

/// A processor with these variables.
fn processor(variables: &[(&str, &str)]) -> QueryShape {
    with_schema(|s| {
        s.kind = "transformWithStateExec".into();
        s.values = variables.iter().map(|(name, data_type)| field(name, data_type)).collect();
    })
}

#[test]
fn variables_of_a_processor_come_and_go_but_stay_what_they_are() {
    let old = processor(&[("a", "ValueState<n: Int64>"), ("b", "ListState<n: Int64>")]);
    let same = |new: &[(&str, &str)]| compare(&old, &processor(new));
    same(&[("b", "ListState<n: Int64>"), ("a", "ValueState<n: Int64>")]).unwrap();
    same(&[("a", "ValueState<n: Int64>"), ("c", "MapState<k: Utf8 -> n: Int64>")]).unwrap();
    let conditions = |new: &[(&str, &str)], word: &str| {
        let error = same(new).unwrap_err();
        assert!(error.message().contains(word), "{error}");
        error.condition().unwrap_or_default().to_owned()
    };
    let kind = conditions(&[("a", "ListState<n: Int64>")], "a was a ValueState and is a ListState");
    assert_eq!(kind, "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE");
    let columns = conditions(&[("a", "ValueState<n: Int64, x: Utf8>")], "variable a");
    assert_eq!(columns, "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE");
    let ttl = conditions(&[("a", "ValueState<n: Int64> with TTL")], "with TTL");
    assert_eq!(ttl, "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE");
}

#[test]
fn another_event_time_among_the_keys_is_refused() {
    let timed = |column: Option<usize>| {
        let event_time = column.map(|column| TimeColumn { column, kind: TimeKind::Instant });
        with_schema(|s| s.layout = Some(StateLayout { event_time, ..StateLayout::default() }))
    };
    compare(&timed(Some(0)), &timed(Some(0))).unwrap();
    // What an earlier version wrote says nothing about it.
    compare(&query(), &timed(Some(0))).unwrap();
    for other in [Some(1), None] {
        let error = compare(&timed(Some(0)), &timed(other)).unwrap_err();
        assert_eq!(error.condition(), Some("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"));
        assert!(error.message().contains("event time among its keys was a and is"), "{error}");
    }
}
