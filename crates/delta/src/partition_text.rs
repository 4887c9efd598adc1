//! Texts that are no partition.

use arrow::array::{ArrayRef, AsArray, BooleanArray, Scalar, StringArray};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{nullif, or};
use arrow::datatypes::DataType;
use fluvial_core::Result;

/// What the folder of null is called.
pub(crate) const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The values of a column as a table can be partitioned by them: an empty text, and the name that
/// null has, are null, as in Spark.
pub(crate) fn as_partition(column: ArrayRef) -> Result<ArrayRef> {
    if *column.data_type() != DataType::Utf8 {
        return Ok(column);
    }
    let is = |text: &str| -> Result<BooleanArray> {
        Ok(eq(&column.as_string::<i32>(), &Scalar::new(StringArray::from(vec![text])))?)
    };
    Ok(nullif(&column, &or(&is("")?, &is(NULL)?)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_empty_text_and_the_name_of_null_are_null() {
        let texts = vec![Some("a"), Some(""), None, Some(NULL)];
        let column = as_partition(Arc::new(StringArray::from(texts))).unwrap();
        let expected = StringArray::from(vec![Some("a"), None, None, None]);
        assert_eq!(column.as_string::<i32>(), &expected);
    }
}
