//! The items of an array with their positions, as `posexplode` gives them.

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// An array of structs of a position `pos`, from 0, and an item `col`, for each item of an array.
pub(crate) fn with_positions(list: Expr) -> Expr {
    ScalarUDF::from(WithPositions { signature: Signature::any(1, Volatility::Immutable) })
        .call(vec![list])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WithPositions {
    signature: Signature,
}

fn fields(item: &DataType) -> Fields {
    Fields::from(vec![
        Field::new("pos", DataType::Int32, false),
        Field::new("col", item.clone(), true),
    ])
}

impl ScalarUDFImpl for WithPositions {
    fn name(&self) -> &str {
        "with_positions"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::List(item)] => {
                Ok(fluvial_core::ddl::array_of(DataType::Struct(fields(item.data_type()))))
            }
            other => internal_err!("one array, not {other:?}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [arg] = args.args.as_slice() else { return internal_err!("one array") };
        let array = arg.to_array(args.number_rows)?;
        let list = array.as_list::<i32>();
        let mut positions = vec![0; list.values().len()];
        for range in list.offsets().windows(2) {
            let (Ok(start), Ok(end)) = (usize::try_from(range[0]), usize::try_from(range[1]))
            else {
                return internal_err!("an array that begins nowhere");
            };
            for (position, slot) in (0..).zip(&mut positions[start..end]) {
                *slot = position;
            }
        }
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int32Array::from(positions)), Arc::clone(list.values())];
        let items = StructArray::try_new(fields(&list.value_type()), columns, None)?;
        let DataType::List(item) = args.return_field.data_type() else {
            return internal_err!("not an array");
        };
        let result = ListArray::try_new(
            Arc::clone(item),
            list.offsets().clone(),
            Arc::new(items),
            list.nulls().cloned(),
        )?;
        Ok(ColumnarValue::Array(Arc::new(result)))
    }
}
