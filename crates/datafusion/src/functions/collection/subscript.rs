//! `a[i]`, `m[key]`, `element_at`, `try_element_at` and `get`.

use crate::functions::cast::{CastMode, cast_array};
use crate::functions::error::{spark, unexpected_type, wrong_arguments};
use crate::functions::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, MapArray, UInt32Array, UInt32Builder};
use arrow::compute;
use arrow::compute::kernels::cmp;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use fluvial_core::ddl::ddl_name;
use std::sync::Arc;

/// The ways of taking an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subscript {
    /// `a[i]` from 0; beyond the array is an error. `m[key]`: null if there is no such key.
    Brackets,
    /// From 1, from the end if negative; beyond the array is an error.
    ElementAt,
    /// Like `ElementAt`, with null beyond the array.
    TryElementAt,
    /// From 0, with null beyond the array.
    Get,
}

/// `container[key]`.
pub(crate) fn subscript(container: Expr, key: Expr) -> Expr {
    udf(Subscript::Brackets).call(vec![container, key])
}

pub(super) fn udf(kind: Subscript) -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::from(SubscriptFunction { kind, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SubscriptFunction {
    kind: Subscript,
    signature: Signature,
}

impl ScalarUDFImpl for SubscriptFunction {
    fn name(&self) -> &str {
        match self.kind {
            Subscript::Brackets => "subscript",
            Subscript::ElementAt => "element_at",
            Subscript::TryElementAt => "try_element_at",
            Subscript::Get => "get",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [container, key] = args else { return internal_err!("a subscript has two operands") };
        let (container, key) = (container.schema_name(), key.schema_name());
        Ok(match self.kind {
            Subscript::Brackets => format!("{container}[{key}]"),
            _ => format!("{}({container}, {key})", self.name()),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [list @ DataType::List(_), key] if key.is_integer() || key.is_null() => {
                Ok(vec![list.clone(), DataType::Int64])
            }
            [DataType::List(_), other] => {
                Err(unexpected_type(self.name(), "a whole number", other))
            }
            [map @ DataType::Map(..), _] => Ok(vec![map.clone(), key_type(map)?]),
            [other, _] => Err(unexpected_type(self.name(), "an array or a map", other)),
            _ => Err(wrong_arguments(self.name(), "2", types.len())),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(DataType::List(item)) => Ok(item.data_type().clone()),
            Some(DataType::Map(entries, _)) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => Ok(fields[1].data_type().clone()),
                other => internal_err!("a map of {other}"),
            },
            other => internal_err!("no element of {other:?}"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [container, key] = args.args.as_slice() else {
            return internal_err!("a subscript has two operands");
        };
        let container = container.to_array(args.number_rows)?;
        let keys = key.to_array(args.number_rows)?;
        let array = match container.data_type() {
            DataType::List(_) => self.of_list(&container, &keys)?,
            DataType::Map(..) => {
                let map = container.as_map();
                compute::take(map.values(), &of_map(map, &keys)?, None)?
            }
            other => return internal_err!("no element of {other}"),
        };
        Ok(ColumnarValue::Array(array))
    }
}

fn key_type(map: &DataType) -> Result<DataType> {
    match map {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => Ok(fields[0].data_type().clone()),
            other => internal_err!("a map of {}", ddl_name(other)),
        },
        other => internal_err!("{other} is not a map"),
    }
}

impl SubscriptFunction {
    fn of_list(&self, container: &ArrayRef, keys: &ArrayRef) -> Result<ArrayRef> {
        let list = container.as_list::<i32>();
        let keys = cast_array(keys, &DataType::Int64, CastMode::Ansi, Zone::UTC)?;
        let keys = keys.as_primitive::<Int64Type>();
        let offsets = list.offsets();
        let mut indices = UInt32Builder::with_capacity(list.len());
        for row in 0..list.len() {
            if list.is_null(row) || keys.is_null(row) {
                indices.append_null();
                continue;
            }
            let (start, end) = (offsets[row], offsets[row + 1]);
            match self.position(keys.value(row), i64::from(end - start))? {
                Some(at) => indices.append_value((i64::from(start) + at) as u32),
                None => indices.append_null(),
            }
        }
        Ok(compute::take(list.values(), &indices.finish(), None)?)
    }

    /// Position from 0 of a key in an array of `length` elements.
    fn position(&self, key: i64, length: i64) -> Result<Option<i64>> {
        let at = match self.kind {
            Subscript::Brackets | Subscript::Get => key,
            _ if key == 0 => {
                return Err(spark(
                    "INVALID_INDEX_OF_ZERO",
                    "the index 0 is invalid: positions of element_at start at 1, or at -1 from \
                     the end",
                ));
            }
            _ if key > 0 => key - 1,
            _ => length.saturating_add(key),
        };
        if (0..length).contains(&at) {
            return Ok(Some(at));
        }
        let (condition, instead) = match self.kind {
            Subscript::Brackets => ("INVALID_ARRAY_INDEX", "get"),
            Subscript::ElementAt => ("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "try_element_at"),
            Subscript::TryElementAt | Subscript::Get => return Ok(None),
        };
        Err(spark(
            condition,
            format!(
                "the index {key} is out of bounds: the array has {length} elements; {instead} \
                 gives null instead"
            ),
        ))
    }
}

/// Compares every key of every map with the key that its row looks for, and gives the places of
/// those that are equal.
pub(super) fn of_map(map: &MapArray, wanted: &ArrayRef) -> Result<UInt32Array> {
    let offsets = map.offsets();
    let (first, last) = (offsets[0] as usize, offsets[map.len()] as usize);
    let keys = map.keys().slice(first, last - first);
    let rows: UInt32Array = (0..map.len())
        .flat_map(|row| {
            let entries = (offsets[row + 1] - offsets[row]) as usize;
            std::iter::repeat_n(row as u32, entries)
        })
        .collect();
    let wanted = compute::take(wanted, &rows, None)?;
    let equal = cmp::eq(&keys, &wanted)?;
    let mut indices = UInt32Builder::with_capacity(map.len());
    for row in 0..map.len() {
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        let hit = |entry: &usize| equal.is_valid(entry - first) && equal.value(entry - first);
        match (start..end).find(hit).filter(|_| map.is_valid(row)) {
            Some(entry) => indices.append_value(entry as u32),
            None => indices.append_null(),
        }
    }
    Ok(indices.finish())
}
