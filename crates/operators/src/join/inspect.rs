//! The rows of a join that wait, as a table.

use super::chunk;
use super::keys::{parse_chunk, parse_stored, rows_of};
use super::kind::Side;
use crate::inspect::{Decode, Decoded, Seen, fields, group_column, group_field, types};
use crate::pages::{self, Ledger, Stored};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, UInt32Array};
use arrow::compute::{filter, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimestampMicrosecondType};
use fluvial_core::{
    Entries, Error, KeyGroup, KeyGroupCount, KeyRange, PageLayout, Result, StateField, StateSchema,
};
use fluvial_state::{KeyCodec, KeyLayout, ValueCodec};
use std::sync::Arc;

/// The rows of one side.
#[derive(Debug)]
pub(crate) struct SideTable {
    side: Side,
    keys: KeyCodec,
    values: ValueCodec,
    /// How rows lie in pages, if they do.
    pages: Option<PageLayout>,
    key_fields: Fields,
    value_fields: Fields,
}

impl SideTable {
    pub(crate) fn new(schema: &StateSchema, side: Side, key_groups: KeyGroupCount) -> Result<Self> {
        let keys: Vec<StateField> = schema.keys.iter().map(|key| key_of(key, side)).collect();
        let mark = format!("{side}.");
        let own = schema.values.iter().filter_map(|field| {
            let name = field.name.strip_prefix(&mark)?.to_owned();
            Some(StateField { name, data_type: field.data_type.clone() })
        });
        let (key_fields, row) = (fields(&keys)?, fields(&own.collect::<Vec<_>>())?);
        let matched: FieldRef = Arc::new(Field::new("matched", DataType::Boolean, false));
        let value_fields = row.iter().cloned().chain([matched]).collect();
        let mut stored = types(&row);
        let layouts = schema.layout.iter().flat_map(|layout| &layout.pages);
        let pages = layouts.into_iter().find(|pages| pages.side == side.index()).cloned();
        if let Some(pages) = &pages {
            let all = key_fields.iter().zip(&pages.keys);
            let extra = all.filter(|(_, at)| **at >= row.len());
            stored.extend(extra.map(|(key, _)| key.data_type().clone()));
            let known = |at: &usize| *at < stored.len();
            if pages.keys.len() != key_fields.len() || !pages.keys.iter().all(known) {
                return Err(Error::invalid(format!("the {side} rows of a join have no such keys")));
            }
        }
        Ok(Self {
            side,
            pages,
            keys: KeyCodec::new(KeyLayout::Key, types(&key_fields), key_groups)?,
            values: ValueCodec::new(stored)?,
            key_fields,
            value_fields,
        })
    }
}

/// A key of both sides is recorded as `left = right`; to one side it is its own column.
fn key_of(key: &StateField, side: Side) -> StateField {
    let name = match (key.name.split_once(" = "), side) {
        (Some((left, _)), Side::Left) => left,
        (Some((_, right)), Side::Right) => right,
        (None, _) => &key.name,
    };
    StateField { name: name.to_owned(), data_type: key.data_type.clone() }
}

impl Decode for SideTable {
    fn fields(&self) -> Vec<FieldRef> {
        let key = group_field("key", &self.key_fields);
        key.into_iter().chain(group_field("value", &self.value_fields)).collect()
    }

    fn ranges(&self, group: KeyGroup) -> Vec<KeyRange> {
        rows_of(group, self.side).into()
    }

    fn decode(&self, entries: &Entries, seen: &mut Seen) -> Result<Decoded> {
        match &self.pages {
            Some(pages) => self.decode_pages(pages, entries, seen),
            None => self.decode_chunks(entries),
        }
    }
}

impl SideTable {
    fn decode_chunks(&self, entries: &Entries) -> Result<Decoded> {
        let (mut from, mut matched, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut names = Vec::with_capacity(entries.keys.len());
        for entry in 0..entries.keys.len() {
            let name = parse_chunk(entries.keys.value(entry));
            names.push(name.ok_or_else(|| Error::corrupt("the key of a join's rows is cut"))?);
            for row in chunk::read(entries.values.value(entry))?.1 {
                let row = row?;
                from.push(entry as u32);
                matched.push(row.matched);
                rows.push(row.columns);
            }
        }
        let from = UInt32Array::from(from);
        let keys = self.keys.decode(&BinaryArray::from_iter_values(names))?.columns;
        let keys = keys.iter().map(|key| take(key, &from, None)).collect::<Result<_, _>>()?;
        self.decoded(keys, self.values.decode_each(rows)?, matched, from)
    }

    /// The ledger of a group comes before its pages. Rows that have left may lie in them yet.
    fn decode_pages(
        &self,
        pages: &PageLayout,
        entries: &Entries,
        seen: &mut Seen,
    ) -> Result<Decoded> {
        let (mut from, mut rows, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for entry in 0..entries.keys.len() {
            let value = entries.values.value(entry);
            let block = match parse_stored(entries.keys.value(entry)) {
                Some(Stored::Page(block)) => block,
                Some(Stored::Ledger) => {
                    seen.ledger = Ledger::read(value)?;
                    continue;
                }
                _ => continue,
            };
            let block = seen.ledger.block(block)?;
            for row in pages::read(value)? {
                from.push(entry as u32);
                rows.push(row?.1);
                left.push(block.left_until());
            }
        }
        let mut columns = self.values.decode_each(rows)?;
        let times = columns.get(pages.time);
        let times = times.and_then(|c| c.as_primitive_opt::<TimestampMicrosecondType>());
        let waits = left.iter().enumerate().map(|(row, left)| {
            let time = times.filter(|times| times.is_valid(row)).map(|times| times.value(row));
            Some(time.zip(*left).is_none_or(|(time, until)| time > until))
        });
        let waits: BooleanArray = waits.collect();
        for column in &mut columns {
            *column = filter(column, &waits)?;
        }
        let from = filter(&UInt32Array::from(from), &waits)?.as_primitive().clone();
        let keys = pages.keys.iter().map(|at| ArrayRef::clone(&columns[*at])).collect();
        columns.truncate(self.value_fields.len() - 1);
        let matched = vec![false; from.len()];
        self.decoded(keys, columns, matched, from)
    }

    fn decoded(
        &self,
        keys: Vec<ArrayRef>,
        mut values: Vec<ArrayRef>,
        matched: Vec<bool>,
        from: UInt32Array,
    ) -> Result<Decoded> {
        values.push(Arc::new(BooleanArray::from(matched)));
        let key = group_column(&self.key_fields, keys)?;
        let value = group_column(&self.value_fields, values)?;
        Ok(Decoded { columns: key.into_iter().chain(value).collect(), from: Some(from) })
    }
}
