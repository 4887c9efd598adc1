//! State as tables, for who has no query: what is stored is read by what a checkpoint says of it.
//!
//! A [`StateTable`] is one view of the state of one operator: it says which ranges of keys belong
//! to it, and turns their entries into rows. Columns are named as in Spark's state data source:
//!
//! | view | columns |
//! |---|---|
//! | entries of an aggregation, a deduplication, a session window, a limit | `key`, `value` |
//! | a side of a join | `key`, `value`, which ends with `matched` |
//! | a value of a processor | `key`, `value` |
//! | a list | `key`, `list_element`, a row for each element |
//! | a map | `key`, `user_map_key`, `user_map_value`, a row for each entry |
//! | timers | `key`, `expiration_timestamp_ms` |
//! | bytes | `key`, `value`, as they are stored |
//!
//! `key` and `value` are structs; who has no key or no value has no such column. Variables with a
//! TTL also have `expiration_timestamp_ms`. Every view ends with `partition_id` and `key_group`.

use crate::aggregation::GroupTable;
use crate::dedup::KeyTable;
use crate::join::{Side, SideTable};
use crate::pages::Ledger;
use crate::session::SessionTable;
use crate::transform::{TimerTable, VariableTable};
use arrow::array::{
    Array, ArrayRef, BinaryArray, Int32Array, RecordBatch, StructArray, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use fluvial_core::{
    Entries, Error, KeyGroup, KeyGroupCount, KeyRange, Result, StateField, StateSchema, TimeColumn,
    TimeKind,
};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// The column that says which partition has an entry.
pub const PARTITION: &str = "partition_id";
/// The column that says which key group it is in.
pub const KEY_GROUP: &str = "key_group";
/// The column that says when something expires, or a timer fires.
pub(crate) const EXPIRATION: &str = "expiration_timestamp_ms";

/// What of an operator's state to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StateView {
    /// Its entries.
    Entries,
    /// The rows of one side of a join that wait.
    Side(Side),
    /// A variable of a processor.
    Variable(String),
    /// The timers of a processor.
    Timers,
    /// Keys and values as they are stored: of any operator.
    Bytes,
}

impl fmt::Display for StateView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries => f.write_str("entries"),
            Self::Side(side) => write!(f, "{side} side"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Timers => f.write_str("timers"),
            Self::Bytes => f.write_str("bytes"),
        }
    }
}

/// The views of an operator, but bytes, which every one has; none if this version cannot read its
/// state.
pub fn views(schema: &StateSchema) -> Vec<StateView> {
    let Some(layout) = &schema.layout else { return Vec::new() };
    match schema.kind.as_str() {
        "stateStoreSave"
        | "globalLimit"
        | "dedupe"
        | "dedupeWithinWatermark"
        | "sessionWindowStateStoreSaveExec" => vec![StateView::Entries],
        "symmetricHashJoin" => vec![StateView::Side(Side::Left), StateView::Side(Side::Right)],
        "transformWithStateExec" | "flatMapGroupsWithState" => {
            let names = layout.variables.iter().map(|variable| variable.name.clone());
            names.map(StateView::Variable).chain([StateView::Timers]).collect()
        }
        _ => Vec::new(),
    }
}

/// How entries become rows.
pub(crate) trait Decode: Send + Sync + fmt::Debug {
    /// The columns.
    fn fields(&self) -> Vec<FieldRef>;

    /// Where the entries of a key group lie.
    fn ranges(&self, group: KeyGroup) -> Vec<KeyRange>;

    /// The rows of some entries. They come range by range and in order, group by group; what they
    /// say of those that come later is noted.
    fn decode(&self, entries: &Entries, seen: &mut Seen) -> Result<Decoded>;
}

/// What entries have said of others that come later: new for every read of a view.
#[derive(Debug, Default)]
pub struct Seen {
    pub(crate) ledger: Ledger,
    /// Times of the rows that come next.
    pub(crate) times: VecDeque<i64>,
}

/// Rows that were decoded.
pub(crate) struct Decoded {
    /// Their columns.
    pub(crate) columns: Vec<ArrayRef>,
    /// The entry that each came from; `None`: each came from its own, in order.
    pub(crate) from: Option<UInt32Array>,
}

/// One view of the state of an operator.
#[derive(Debug)]
pub struct StateTable {
    decode: Box<dyn Decode>,
    schema: SchemaRef,
    key_groups: KeyGroupCount,
    partitions: u32,
}

impl StateTable {
    /// A view of state that was written with this schema, by so many key groups and partitions.
    ///
    /// # Errors
    ///
    /// `Invalid` if the operator has no such view, or this version cannot read what it has.
    pub fn new(
        schema: &StateSchema,
        view: &StateView,
        key_groups: KeyGroupCount,
        partitions: u32,
    ) -> Result<Self> {
        let decode = decoder(schema, view, key_groups)?;
        let ends = [PARTITION, KEY_GROUP].map(|name| Field::new(name, DataType::Int32, false));
        let fields = decode.fields().into_iter().chain(ends.map(Arc::new));
        let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
        Ok(Self { decode, schema, key_groups, partitions })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Where the entries of a key group lie.
    pub fn ranges(&self, group: KeyGroup) -> Vec<KeyRange> {
        self.decode.ranges(group)
    }

    /// The rows of entries that lie in [`Self::ranges`], which must be read in their order, with
    /// what was `seen` before.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the operator did not write them.
    pub fn rows(&self, entries: &Entries, seen: &mut Seen) -> Result<RecordBatch> {
        let Decoded { mut columns, from } = self.decode.decode(entries, seen)?;
        let groups: Vec<KeyGroup> = (0..entries.keys.len())
            .map(|i| entries.keys.value(i).first_chunk().copied().map(u16::from_be_bytes))
            .map(|group| group.filter(|group| *group < self.key_groups.get()).map(KeyGroup))
            .collect::<Option<_>>()
            .ok_or_else(|| Error::corrupt("a state key does not begin with a key group"))?;
        let partition =
            |group: &KeyGroup| self.key_groups.partition_of(*group, self.partitions).0 as i32;
        let partitions: ArrayRef = Arc::new(groups.iter().map(partition).collect::<Int32Array>());
        let groups = groups.iter().map(|group| i32::from(group.0));
        let groups: ArrayRef = Arc::new(groups.collect::<Int32Array>());
        for column in [partitions, groups] {
            columns.push(match &from {
                Some(from) => take(&column, from, None)?,
                None => column,
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

fn decoder(
    schema: &StateSchema,
    view: &StateView,
    key_groups: KeyGroupCount,
) -> Result<Box<dyn Decode>> {
    if *view == StateView::Bytes {
        return Ok(Box::new(Bytes));
    }
    let known = views(schema);
    let Some(layout) = schema.layout.as_ref().filter(|_| known.contains(view)) else {
        return Err(no_view(schema, view, &known));
    };
    Ok(match (schema.kind.as_str(), view) {
        ("symmetricHashJoin", StateView::Side(side)) => {
            Box::new(SideTable::new(schema, *side, key_groups)?)
        }
        (_, StateView::Variable(name)) => Box::new(VariableTable::new(schema, name, key_groups)?),
        (_, StateView::Timers) => Box::new(TimerTable::new(schema, key_groups)?),
        ("dedupe" | "dedupeWithinWatermark", _) => {
            Box::new(KeyTable::new(schema, layout, key_groups)?)
        }
        ("sessionWindowStateStoreSaveExec", _) => {
            Box::new(SessionTable::new(schema, layout, key_groups)?)
        }
        _ => Box::new(GroupTable::new(schema, layout, key_groups)?),
    })
}

fn no_view(schema: &StateSchema, view: &StateView, known: &[StateView]) -> Error {
    let kind = &schema.kind;
    if known.is_empty() {
        return Error::invalid(format!(
            "how the state of this {kind} lies in bytes is not recorded: read it as bytes, or let \
             this version of Fluvial run a batch first"
        ))
        .with_condition("STDS_FAILED_TO_READ_STATE_SCHEMA");
    }
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    Error::invalid(format!(
        "the state of a {kind} has no {view}: it has {}, each a table of its own",
        known.join(", ")
    ))
    .with_condition("STDS_INVALID_OPTION_VALUE")
}

/// Recorded columns, without the names that planning gives to relations.
pub(crate) fn fields(recorded: &[StateField]) -> Result<Fields> {
    let plain = |field: &StateField| {
        let name = without_relations(&field.name);
        StateField { name, data_type: field.data_type.clone() }.arrow_field()
    };
    recorded.iter().map(plain).collect()
}

/// What planning calls a relation that stands aside: a number and a dot follow.
const RELATION: &str = "__fluvial_relation_";

/// A text for people, without the names that planning gives to relations: `sum(v)` of
/// `sum(__fluvial_relation_0.v)`.
pub fn without_relations(name: &str) -> String {
    let mut parts = name.split(RELATION);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        plain.push_str(rest.strip_prefix('.').unwrap_or(rest));
    }
    plain
}

/// As [`fields`], of keys: one that is a window in an expression is called as Spark calls it.
pub(crate) fn key_fields(recorded: &[StateField], time: Option<TimeColumn>) -> Result<Fields> {
    let mut fields: Vec<FieldRef> = fields(recorded)?.iter().cloned().collect();
    if let Some(TimeColumn { column, kind }) = time
        && let Some(field) = fields.get_mut(column)
        && field.name().contains('(')
    {
        let name = match kind {
            TimeKind::Window => "window",
            TimeKind::Session => "session_window",
            TimeKind::Instant => field.name(),
        };
        *field = Arc::new(field.as_ref().clone().with_name(name));
    }
    Ok(fields.into())
}

/// The types of columns.
pub(crate) fn types(fields: &Fields) -> Vec<DataType> {
    fields.iter().map(|field| field.data_type().clone()).collect()
}

/// The column of that name that holds some columns; `None` if there are none.
pub(crate) fn group_field(name: &str, fields: &Fields) -> Option<FieldRef> {
    let data_type = DataType::Struct(fields.clone());
    (!fields.is_empty()).then(|| Arc::new(Field::new(name, data_type, false)))
}

/// The column of when something expires.
pub(crate) fn expiration_field() -> FieldRef {
    Arc::new(Field::new(EXPIRATION, DataType::Int64, true))
}

/// Some columns as one; `None` if there are none.
pub(crate) fn group_column(fields: &Fields, columns: Vec<ArrayRef>) -> Result<Option<ArrayRef>> {
    if fields.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(StructArray::try_new(fields.clone(), columns, None)?)))
}

/// Entries as they are stored.
#[derive(Debug)]
struct Bytes;

impl Decode for Bytes {
    fn fields(&self) -> Vec<FieldRef> {
        ["key", "value"].map(|name| Arc::new(Field::new(name, DataType::Binary, false))).into()
    }

    fn ranges(&self, group: KeyGroup) -> Vec<KeyRange> {
        vec![KeyRange::prefix(&group.prefix())]
    }

    fn decode(&self, entries: &Entries, _: &mut Seen) -> Result<Decoded> {
        let column = |column: &BinaryArray| -> ArrayRef { Arc::new(column.clone()) };
        let columns = vec![column(&entries.keys), column(&entries.values)];
        Ok(Decoded { columns, from: None })
    }
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_people_wrote() {
        for (name, plain) in [
            ("page", "page"),
            ("sum(__fluvial_relation_0.v)[state]", "sum(v)[state]"),
            ("f(__fluvial_relation_1.a,__fluvial_relation_12.b)", "f(a,b)"),
        ] {
            assert_eq!(without_relations(name), plain);
        }
        let window = StateField::of("window(at,Utf8(\"1 minute\"))", &DataType::Int64);
        let named = |kind, field: &StateField| {
            let time = Some(TimeColumn { column: 0, kind });
            key_fields(std::slice::from_ref(field), time).unwrap()[0].name().clone()
        };
        assert_eq!(named(TimeKind::Window, &window), "window");
        assert_eq!(named(TimeKind::Session, &window), "session_window");
        assert_eq!(named(TimeKind::Window, &StateField::of("w", &DataType::Int64)), "w");
    }
}
