//! The kit's laws on deduplications of every kind.

use super::super::within::PAGES;
use super::super::{Config, Dedup};
use crate::pages::{Ledger, Stored, read, read_times};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use fluvial_conformance::operator::{Contents, Event, Subject};
use fluvial_core::{EventDuration, KeyGroup, KeyGroupCount, Operator, OutputMode};
use std::sync::Arc;

struct Case {
    dedup: Dedup,
    delay: EventDuration,
    mode: OutputMode,
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("value", DataType::Int64, true),
        Field::new("key", DataType::Int64, true),
    ]))
}

fn by(keys: &[usize], event_time: Option<usize>, mode: OutputMode) -> Case {
    let dedup = Dedup::new(schema(), keys.to_vec(), event_time).unwrap();
    Case { dedup, delay: EventDuration(0), mode }
}

fn within(delay_ms: i64) -> Case {
    let delay = EventDuration(delay_ms * 1000);
    let dedup = Dedup::within_watermark(schema(), vec![1, 2], 0, delay).unwrap();
    Case { dedup, delay, mode: OutputMode::Append }
}

impl Subject for Case {
    fn operator(&self) -> &dyn Operator {
        &self.dedup
    }

    fn mode(&self) -> OutputMode {
        self.mode
    }

    /// Values are few: by key and value there are duplicates. The values of one key and time are
    /// all the same, so that the law of chunks does not see which of two rows survives.
    fn rows(&self, _: usize, events: &[Event]) -> RecordBatch {
        let rounded = |time: i64| (time + 4_999_999).div_euclid(5_000_000) * 5_000_000;
        let times = events.iter().map(|event| rounded(event.time));
        let values = events.iter().map(|event| event.value);
        let keys = events.iter().map(|event| event.key);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampMicrosecondArray::from_iter_values(times)),
            Arc::new(Int64Array::from_iter_values(values)),
            Arc::new(Int64Array::from_iter_values(keys)),
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    fn groups(&self, _: usize, rows: &RecordBatch, key_groups: KeyGroupCount) -> Vec<KeyGroup> {
        let config: &Config = &self.dedup.config;
        let columns = config.key_columns(rows);
        let key = config.key_codec(key_groups).unwrap();
        // The partition is that of a codec of any layout: the hash has no time in it.
        key.partitions(&columns, rows.num_rows(), u32::from(key_groups.get()))
            .unwrap()
            .into_iter()
            .map(|partition| KeyGroup(partition.0 as u16))
            .collect()
    }

    fn rows_in(&self, contents: &Contents) -> u64 {
        self.meaning(contents).len() as u64
    }

    /// Keys in pages with their expiries, however pages are cut.
    fn meaning(&self, contents: &Contents) -> Contents {
        if self.dedup.kind() == "dedupe" {
            return contents.clone();
        }
        let (mut keys, mut times) = (Contents::new(), Vec::new().into_iter());
        for (key, value) in contents {
            let [high, low, ..] = key[..] else { panic!("{key:?}") };
            let ledger = || Ledger::read(&contents[&vec![high, low, PAGES.ledger]]).unwrap();
            match PAGES.parse(key).unwrap() {
                Stored::Ledger => {}
                Stored::Times(block) => {
                    let first = ledger().block(block).unwrap().first;
                    times = read_times(value, first).unwrap().into_iter();
                }
                Stored::Page(block) => {
                    let left = ledger().block(block).unwrap().left_until();
                    for (row, expiry) in read(value).unwrap().zip(&mut times) {
                        if left.is_none_or(|left| expiry > left) {
                            let key = [&[high, low], row.unwrap().1].concat();
                            keys.insert(key, expiry.to_be_bytes().to_vec());
                        }
                    }
                }
            }
        }
        keys
    }

    fn reach(&self) -> EventDuration {
        EventDuration(self.delay.0.max(5_000_000))
    }
}

fluvial_conformance::operator!(timed: time_among_keys, || by(&[0, 2], Some(0), OutputMode::Append));
fluvial_conformance::operator!(timed: all_columns, || by(&[0, 1, 2], Some(0), OutputMode::Append));
fluvial_conformance::operator!(timed: within_no_delay, || within(0));
fluvial_conformance::operator!(timed: within_seconds, || within(30_000));
fluvial_conformance::operator!(timed: within_long, || within(7_200_000));
fluvial_conformance::operator!(timeless: no_event_time, || by(&[2], None, OutputMode::Append));
fluvial_conformance::operator!(timeless: no_keys, || by(&[], None, OutputMode::Append));
fluvial_conformance::operator!(timeless: update, || by(&[1, 2], Some(0), OutputMode::Update));
fluvial_conformance::operator!(timeless: complete, || by(&[1, 2], Some(0), OutputMode::Complete));

#[test]
fn rows_that_are_late_leave_nothing_though_their_time_is_no_key() {
    fluvial_conformance::operator::ignores_late_rows(&|| {
        Box::new(by(&[1, 2], Some(0), OutputMode::Append))
    });
}
