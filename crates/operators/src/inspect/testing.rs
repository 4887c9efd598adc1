//! What the tests of all operators need to look at their state.

use super::{Seen, StateTable, StateView};
use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial_conformance::operator::{Contents, TestStore};
use fluvial_core::{KeyGroupCount, KeyRange, Operator, Prefetch, StateStore};

const PARTITIONS: u32 = 3;

/// The rows of a view of what an operator stored, sorted; every second entry in a scan of its own.
pub(crate) fn shown(operator: &dyn Operator, view: &StateView, contents: &Contents) -> Vec<String> {
    let mut store = TestStore::open(contents, KeyGroupCount::DEFAULT.all());
    store.bring(&Prefetch::Ranges(vec![KeyRange::all()]));
    shown_of(operator, view, &store)
}

/// As [`shown`], of an open store.
pub(crate) fn shown_of(
    operator: &dyn Operator,
    view: &StateView,
    store: &dyn StateStore,
) -> Vec<String> {
    let count = KeyGroupCount::DEFAULT;
    let table = StateTable::new(&operator.state_schema(), view, count, PARTITIONS).unwrap();
    let (mut rows, mut seen) = (Vec::new(), Seen::default());
    for group in count.all().groups() {
        for mut range in table.ranges(group) {
            loop {
                let entries = store.scan(&range, 2).unwrap();
                let found = arrow::array::Array::len(&entries.keys);
                let batch = table.rows(&entries, &mut seen).unwrap();
                assert_eq!(&batch.schema(), table.schema());
                let own = i32::from(group.0);
                rows.extend((0..batch.num_rows()).map(|row| text(&batch, row, own)));
                if found < 2 {
                    break;
                }
                range = range.after(entries.keys.value(1));
            }
        }
    }
    rows.sort();
    rows
}

/// `key=.. value=..`; the place of the row is checked and left out.
fn text(batch: &RecordBatch, row: usize, group: i32) -> String {
    let options = FormatOptions::default().with_null("null");
    let schema = batch.schema();
    let mut cells = Vec::new();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let value = ArrayFormatter::try_new(column.as_ref(), &options).unwrap();
        let value = value.value(row).to_string();
        match field.name().as_str() {
            super::KEY_GROUP => assert_eq!(value, group.to_string()),
            super::PARTITION => {
                let own = fluvial_core::KeyGroup(group as u16);
                let own = KeyGroupCount::DEFAULT.partition_of(own, PARTITIONS);
                assert_eq!(value, own.to_string());
            }
            name => cells.push(format!("{name}={value}")),
        }
    }
    cells.join(" ")
}
