//! Arrays, structs and maps: element by element.

use super::{CastContext, cast_array};
use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use std::sync::Arc;

pub(super) fn cast(array: &ArrayRef, context: &CastContext<'_>) -> Result<ArrayRef> {
    let inner =
        |values: &ArrayRef, to: &DataType| cast_array(values, to, context.mode, context.zone);
    match (array.data_type(), context.to) {
        (DataType::List(_), DataType::List(field)) => {
            let list = array.as_list::<i32>();
            let values = inner(list.values(), field.data_type())?;
            Ok(Arc::new(ListArray::try_new(
                Arc::clone(field),
                list.offsets().clone(),
                values,
                list.nulls().cloned(),
            )?))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let input = array.as_struct();
            let columns = input
                .columns()
                .iter()
                .zip(fields)
                .map(|(column, field)| inner(column, field.data_type()))
                .collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                input.nulls().cloned(),
                input.len(),
            )?))
        }
        (DataType::Map(..), DataType::Map(entries, ordered)) => {
            let map = array.as_map();
            let structs: ArrayRef = Arc::new(map.entries().clone());
            let structs = inner(&structs, entries.data_type())?;
            Ok(Arc::new(MapArray::try_new(
                Arc::clone(entries),
                map.offsets().clone(),
                structs.as_struct().clone(),
                map.nulls().cloned(),
                *ordered,
            )?))
        }
        (from, to) => internal_err!("no nested cast from {from} to {to}"),
    }
}
