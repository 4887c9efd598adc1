//! The mark that says "this column is event time": field metadata, carried by DataFusion through
//! projections, aliases and unions, and by the window functions from time to window and back.

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{DFSchema, Result};
use std::sync::Arc;

/// Metadata key of the mark.
pub const EVENT_TIME_KEY: &str = "fluvial.watermark";

/// Whether a field carries the mark.
pub fn is_event_time(field: &Field) -> bool {
    field.metadata().contains_key(EVENT_TIME_KEY)
}

/// The field with the mark.
pub fn marked(field: &Field) -> FieldRef {
    let mut metadata = field.metadata().clone();
    metadata.insert(EVENT_TIME_KEY.into(), "true".into());
    Arc::new(field.clone().with_metadata(metadata))
}

/// The schema with the mark on the field at `index` and on no other: a new watermark replaces an
/// older one below it.
pub(crate) fn mark_column(schema: &DFSchema, index: usize) -> Result<DFSchema> {
    let fields = schema
        .iter()
        .enumerate()
        .map(|(i, (qualifier, field))| {
            let field = if i == index { marked(field) } else { unmarked(field) };
            (qualifier.cloned(), field)
        })
        .collect();
    DFSchema::new_with_metadata(fields, schema.metadata().clone())
}

fn unmarked(field: &FieldRef) -> FieldRef {
    if !is_event_time(field) {
        return Arc::clone(field);
    }
    let mut metadata = field.metadata().clone();
    metadata.remove(EVENT_TIME_KEY);
    Arc::new(field.as_ref().clone().with_metadata(metadata))
}

/// Whether a column of this type can be event time: an instant, that is a timestamp with a zone,
/// in microseconds, or a window of such.
pub fn can_be_event_time(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => is_window(data_type) && is_instant(fields[1].data_type()),
        _ => is_instant(data_type),
    }
}

fn is_instant(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Microsecond, Some(_)))
}

/// Whether the type is a window: a struct of `start` and `end`.
pub(crate) fn is_window(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => {
            fields.len() == 2 && fields[0].name() == "start" && fields[1].name() == "end"
        }
        _ => false,
    }
}
