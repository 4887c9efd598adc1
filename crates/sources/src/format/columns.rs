//! Files of columns that carry their own schema: columns are found by name.

mod adapt;

use super::unknown::unknown_columns;
use crate::file::PlannedFile;
use adapt::adapt;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use fluvial_core::{Error, NameCase, Result, RowStream};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// A format of files of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    Parquet,
    #[cfg(feature = "avro")]
    Avro,
    #[cfg(feature = "orc")]
    Orc,
}

/// How columns are found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    pub(crate) container: Container,
    pub(crate) case: NameCase,
    /// A column that the schema has not is an error.
    pub(crate) stop: bool,
}

impl Columns {
    /// Reads what starts in `range`: the columns `projection` of `fields`.
    pub(crate) fn open(
        self,
        file: PlannedFile,
        range: Range<u64>,
        fields: &[FieldRef],
        projection: &[usize],
    ) -> RowStream {
        let wanted = Wanted::new(self, fields, projection);
        match self.container {
            Container::Parquet => super::parquet::open(file, range, wanted),
            #[cfg(feature = "avro")]
            Container::Avro => super::avro::open(file, range, wanted),
            #[cfg(feature = "orc")]
            Container::Orc => super::orc::open(file, range, wanted),
        }
    }

    /// The schema of a file, as it is written.
    pub(crate) async fn schema(self, file: PlannedFile) -> Result<SchemaRef> {
        match self.container {
            Container::Parquet => super::parquet::schema(file).await,
            #[cfg(feature = "avro")]
            Container::Avro => super::avro::schema(file).await,
            #[cfg(feature = "orc")]
            Container::Orc => super::orc::schema(file).await,
        }
    }

    /// The condition of a column whose type is another one: Spark's, where it has one.
    fn mismatch(self) -> &'static str {
        match self.container {
            Container::Parquet => "PARQUET_COLUMN_DATA_TYPE_MISMATCH",
            #[cfg(feature = "avro")]
            Container::Avro => "AVRO_INCOMPATIBLE_READ_TYPE",
            #[cfg(feature = "orc")]
            Container::Orc => "ORC_COLUMN_DATA_TYPE_MISMATCH",
        }
    }
}

/// The columns to make of a file.
pub(crate) struct Wanted {
    how: Columns,
    schema: SchemaRef,
    /// All names of the schema, in lower case.
    known: Vec<String>,
}

impl Wanted {
    fn new(how: Columns, fields: &[FieldRef], projection: &[usize]) -> Self {
        let wanted: Fields = projection.iter().map(|i| fields[*i].clone()).collect();
        let known = fields.iter().map(|field| field.name().to_lowercase()).collect();
        Self { how, schema: Arc::new(Schema::new(wanted)), known }
    }

    /// Finds the columns in a file with the columns `found`; `place` names it in messages.
    ///
    /// # Errors
    ///
    /// `Invalid`: a name that several columns have, or a column that the schema has not.
    pub(crate) fn find(self, found: &Fields, place: &str) -> Result<Located> {
        if self.how.stop {
            let unknown = |name: &&String| !self.known.contains(&name.to_lowercase());
            let names = found.iter().map(|field| field.name());
            let names: BTreeSet<String> = names.filter(unknown).cloned().collect();
            if !names.is_empty() {
                return Err(unknown_columns(place, 1, &names));
            }
        }
        let columns = find(found, self.schema.fields(), self.how.case).map_err(|e| e.at(place))?;
        let mut roots: Vec<usize> = columns.iter().flatten().copied().collect();
        roots.sort_unstable();
        roots.dedup();
        let sources = columns
            .iter()
            .map(|column| column.and_then(|c| roots.iter().position(|root| *root == c)))
            .collect();
        let (schema, mismatch) = (self.schema, self.how.mismatch());
        Ok(Located { roots, sources, schema, mismatch, place: place.to_owned() })
    }
}

/// Where the columns are in one file.
pub(crate) struct Located {
    /// The columns of the file to read, in its order.
    pub(crate) roots: Vec<usize>,
    /// For each wanted column, which of `roots` it is.
    sources: Vec<Option<usize>>,
    schema: SchemaRef,
    mismatch: &'static str,
    place: String,
}

impl Located {
    /// The wanted columns of a batch that begins with the columns `roots`.
    ///
    /// # Errors
    ///
    /// `Invalid` if a column has another type, with values that the wanted one has not.
    pub(crate) fn rearrange(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self.sources.iter().zip(self.schema.fields());
        let columns = columns.map(|(source, field)| -> Result<ArrayRef> {
            match source {
                Some(column) => adapt(batch.column(*column), field.data_type()).map_err(|e| {
                    e.at(format!("column `{}`", field.name())).with_condition(self.mismatch)
                }),
                None => Ok(new_null_array(field.data_type(), rows)),
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>().map_err(|e| e.at(&self.place))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

/// Where each wanted column is in the file: by name, and if no name is the same and case does not
/// matter, by a name that differs in case only.
fn find(found: &Fields, wanted: &Fields, case: NameCase) -> Result<Vec<Option<usize>>> {
    let column = |field: &FieldRef| -> Result<Option<usize>> {
        let exact = found.iter().position(|f| f.name() == field.name());
        if exact.is_some() || case == NameCase::Sensitive {
            return Ok(exact);
        }
        let lower = field.name().to_lowercase();
        let mut alike = (0..found.len()).filter(|i| found[*i].name().to_lowercase() == lower);
        match (alike.next(), alike.next()) {
            (Some(_), Some(_)) => Err(Error::invalid(format!(
                "several columns differ from `{}` in case only: name one of them",
                field.name()
            ))
            .with_condition("AMBIGUOUS_COLUMN")),
            (first, _) => Ok(first),
        }
    };
    wanted.iter().map(column).collect()
}
