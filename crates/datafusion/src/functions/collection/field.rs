//! Fields of structs, by name whatever its case, also of all structs of an array at once.

use crate::functions::error::spark;
use arrow::array::{Array, AsArray, ListArray, StructArray};
use arrow::compute;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use fluvial_core::NameCase;
use std::sync::Arc;

/// The field of that name: the exact one, or the only one that differs in case.
///
/// # Errors
///
/// `FIELD_NOT_FOUND`, `AMBIGUOUS_REFERENCE_TO_FIELDS`.
pub(crate) fn find_field<'a>(
    fields: &'a Fields,
    name: &str,
    case: NameCase,
) -> Result<&'a FieldRef> {
    if let Some(field) = fields.iter().find(|f| f.name() == name) {
        return Ok(field);
    }
    let mut same = fields.iter().filter(|f| case.same(f.name(), name));
    match (same.next(), same.next()) {
        (Some(field), None) => Ok(field),
        (Some(_), Some(_)) => Err(spark(
            "AMBIGUOUS_REFERENCE_TO_FIELDS",
            format!("several fields are named `{name}` in another case: write it exactly"),
        )),
        (None, _) => {
            let names: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
            Err(spark(
                "FIELD_NOT_FOUND",
                format!("no field `{name}` among `{}`", names.join("`, `")),
            ))
        }
    }
}

/// `array.name`: the field of every struct of an array, as an array.
pub(crate) fn fields_of_items(expr: Expr, name: &str) -> Expr {
    let function = ScalarUDF::from(FieldsOfItems {
        field: name.to_owned(),
        signature: Signature::any(1, Volatility::Immutable),
    });
    function.call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FieldsOfItems {
    field: String,
    signature: Signature,
}

impl FieldsOfItems {
    fn item(&self, list: &DataType) -> Result<FieldRef> {
        let DataType::List(item) = list else { return internal_err!("{list} is not an array") };
        let DataType::Struct(fields) = item.data_type() else {
            return Err(spark(
                "INVALID_EXTRACT_BASE_FIELD_TYPE",
                format!("cannot take `{}` out of an array of {}", self.field, item.data_type()),
            ));
        };
        find_field(fields, &self.field, NameCase::Insensitive).cloned()
    }
}

impl ScalarUDFImpl for FieldsOfItems {
    fn name(&self) -> &str {
        "fields_of_items"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let Some(arg) = args.first() else { return internal_err!("no array") };
        Ok(format!("{}.{}", arg.schema_name(), self.field))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [list] = types else { return internal_err!("one array") };
        Ok(fluvial_core::ddl::array_of(self.item(list)?.data_type().clone()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [list] = args.arg_fields else { return internal_err!("one array") };
        let result = self.return_type(&[list.data_type().clone()])?;
        Ok(Arc::new(Field::new(self.name(), result, list.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [arg] = args.args.as_slice() else { return internal_err!("one array") };
        let array = arg.to_array(args.number_rows)?;
        let list = array.as_list::<i32>();
        let field = self.item(list.data_type())?;
        let structs: &StructArray = list.values().as_struct();
        let Some(column) = structs.column_by_name(field.name()) else {
            return internal_err!("no field {}", field.name());
        };
        // A null struct has null fields.
        let column = match structs.nulls() {
            Some(nulls) => {
                let absent = arrow::array::BooleanArray::new(!nulls.inner(), None);
                compute::nullif(column, &absent)?
            }
            None => Arc::clone(column),
        };
        let DataType::List(item) = args.return_field.data_type() else {
            return internal_err!("not an array");
        };
        let result = ListArray::try_new(
            Arc::clone(item),
            list.offsets().clone(),
            column,
            list.nulls().cloned(),
        )?;
        Ok(ColumnarValue::Array(Arc::new(result)))
    }
}
