//! The columns of one version, and whether those of two are the same.

use crate::types::{Gap, gap, physical_name};
use arrow::datatypes::{Fields, Schema};
use deltalake::kernel::engine::arrow_conversion::TryIntoArrow;
use deltalake::kernel::{Metadata, StructType};
use fluvial_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// The columns of a version, as the log has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Columns {
    /// All of them, with what the table says of each.
    schema: StructType,
    /// Which of them are in no file.
    pub(super) partition_columns: Vec<String>,
}

impl Columns {
    /// # Errors
    ///
    /// `Corrupt` if they cannot be read.
    pub(super) fn of(metadata: &Metadata) -> Result<Self> {
        let schema = metadata.parse_schema().map_err(|e| unreadable(&e.to_string()))?;
        Ok(Self { schema, partition_columns: metadata.partition_columns().to_vec() })
    }

    /// As Arrow has them; metadata says how they are called in files.
    pub(super) fn fields(&self) -> Result<Fields> {
        let schema: Schema =
            (&self.schema).try_into_arrow().map_err(|e| unreadable(&e.to_string()))?;
        Ok(schema.fields().clone())
    }
}

fn unreadable(error: &str) -> Error {
    Error::corrupt(format!("the schema cannot be read: {error}"))
}

/// What of `from` has no place in `to`.
pub(super) fn difference(from: &Fields, to: &Fields) -> Option<String> {
    from.iter().find_map(|field| {
        let name = field.name();
        let Some(i) = to.iter().position(|f| f.name() == name) else {
            return Some(format!("column {name:?} is not in both"));
        };
        if physical_name(field) != physical_name(&to[i]) {
            return Some(format!("column {name:?} was dropped and made anew"));
        }
        (gap(field.data_type(), to[i].data_type()) != Gap::None)
            .then(|| format!("column {name:?} is {} and {}", field.data_type(), to[i].data_type()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PHYSICAL_NAME;
    use arrow::datatypes::{DataType, Field};

    fn fields(list: &[(&str, DataType)]) -> Fields {
        list.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect()
    }

    #[test]
    fn more_and_wider_columns_hold_older_rows() {
        let old = fields(&[("a", DataType::Int32)]);
        let new = fields(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
        assert_eq!(difference(&old, &new), None);
        assert!(difference(&new, &old).is_some());
        let other = fields(&[("a", DataType::Utf8)]);
        assert!(difference(&old, &other).is_some_and(|what| what.contains("\"a\"")));
    }

    #[test]
    fn a_column_made_anew_is_another_one() {
        let physical = |name: &str| {
            let metadata = [(PHYSICAL_NAME.to_owned(), name.to_owned())].into();
            Fields::from(vec![Field::new("a", DataType::Int64, true).with_metadata(metadata)])
        };
        assert_eq!(difference(&physical("x"), &physical("x")), None);
        assert!(difference(&physical("x"), &physical("y")).is_some());
    }
}
