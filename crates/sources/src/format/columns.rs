//! Files of columns that carry their own schema: columns are found by name.

mod adapt;
mod rescue;

use super::unknown::unknown_columns;
use crate::file::PlannedFile;
use adapt::{Adapting, Misfit, adapt};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
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
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    pub(crate) container: Container,
    pub(crate) case: NameCase,
    /// A column that the schema has not is an error.
    pub(crate) stop: bool,
    /// The column that takes what no other does.
    pub(crate) rescued: Option<String>,
}

/// The name that the number of a row in its file has, as a column after all others.
pub(crate) const ROW_INDEX: &str = "row_index";

impl Columns {
    /// Reads what starts in `range`: the columns `projection` of `fields`.
    pub(crate) fn open(
        &self,
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
    pub(crate) async fn schema(&self, file: PlannedFile) -> Result<SchemaRef> {
        match self.container {
            Container::Parquet => super::parquet::schema(file).await,
            #[cfg(feature = "avro")]
            Container::Avro => super::avro::schema(file).await,
            #[cfg(feature = "orc")]
            Container::Orc => super::orc::schema(file).await,
        }
    }

    /// The condition of a column whose type is another one: Spark's, where it has one.
    fn mismatch(&self) -> &'static str {
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
    /// All columns of the schema that are in files.
    all: Fields,
    /// Whether the number of each row in its file comes after the columns.
    pub(crate) numbered: bool,
}

impl Wanted {
    /// The columns `projection` of `fields`; a number beyond them asks for [`ROW_INDEX`].
    fn new(how: &Columns, fields: &[FieldRef], projection: &[usize]) -> Self {
        let wanted: Fields = projection.iter().filter_map(|i| fields.get(*i)).cloned().collect();
        let numbered = projection.iter().any(|i| *i >= fields.len());
        let all = fields.iter().cloned().collect();
        Self { how: how.clone(), schema: Arc::new(Schema::new(wanted)), all, numbered }
    }

    fn is_rescued(&self, field: &Field) -> bool {
        self.how.rescued.as_deref() == Some(field.name())
    }

    /// Finds the columns in a file with the columns `found`; `place` names it in messages.
    ///
    /// # Errors
    ///
    /// `Invalid`: a name that several columns have, or a column that the schema has not.
    pub(crate) fn find(self, found: &Fields, place: &str) -> Result<Located> {
        if self.how.stop {
            self.refuse_unknown(found, place)?;
        }
        let mut columns = find(found, self.schema.fields(), &self.how).map_err(|e| e.at(place))?;
        let rescued = self.schema.fields().iter().position(|field| self.is_rescued(field));
        let parts = match rescued {
            Some(column) => {
                columns[column] = None;
                self.parts(found).map_err(|e| e.at(place))?
            }
            None => Vec::new(),
        };
        let read = columns.iter().flatten().copied();
        let mut roots: Vec<usize> = read.chain(parts.iter().map(|(column, _)| *column)).collect();
        roots.sort_unstable();
        roots.dedup();
        let at = |column: usize| roots.iter().position(|root| *root == column);
        let sources = columns.iter().map(|column| column.and_then(at)).collect();
        let part = |(column, wanted)| at(column).map(|at| (found[column].clone(), at, wanted));
        let parts = parts.into_iter().filter_map(part).collect();
        let misfit = if self.how.rescued.is_some() { Misfit::Null } else { Misfit::Refused };
        let how = Adapting { misfit, case: self.how.case };
        let (mismatch, place) = (self.how.mismatch(), place.to_owned());
        Ok(Located { roots, sources, schema: self.schema, mismatch, place, how, rescued, parts })
    }

    /// The columns of a file of which something has to be rescued, and the types that are wanted.
    fn parts(&self, found: &Fields) -> Result<Vec<(usize, Option<DataType>)>> {
        let known: Fields = self.all.iter().filter(|f| !self.is_rescued(f)).cloned().collect();
        let columns = find(found, &known, &self.how)?;
        let part = |column: usize| {
            let at = columns.iter().position(|at| *at == Some(column));
            let wanted = at.map(|at| known[at].data_type().clone());
            let takes = |w: &DataType| rescue::takes(found[column].data_type(), w, self.how.case);
            let whole = wanted.as_ref().is_some_and(takes);
            (!whole).then_some((column, wanted))
        };
        Ok((0..found.len()).filter_map(part).collect())
    }

    fn refuse_unknown(&self, found: &Fields, place: &str) -> Result<()> {
        let mut names = Vec::new();
        // A schema never grows by a name in another case: such a column is rescued, if it can be.
        let case = match self.how.rescued {
            Some(_) => NameCase::Insensitive,
            None => self.how.case,
        };
        for field in found {
            let name = field.name();
            match adapt::position(&self.all, name, case) {
                Some(at) => {
                    let known = self.all[at].data_type();
                    rescue::unknown(field.data_type(), known, name, case, &mut names);
                }
                None => names.push(name.clone()),
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        Err(unknown_columns(place, 1, &names.into_iter().collect::<BTreeSet<_>>()))
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
    how: Adapting,
    /// Which of the wanted columns takes what no other does.
    rescued: Option<usize>,
    /// What it takes something of: a column of the file, which of `roots` it is, and its type in
    /// the schema.
    parts: Vec<(FieldRef, usize, Option<DataType>)>,
}

impl Located {
    /// The wanted columns of a batch that begins with the columns `roots`.
    ///
    /// # Errors
    ///
    /// `Invalid` if a column has another type, with values that the wanted one has not.
    pub(crate) fn rearrange(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self.sources.iter().zip(self.schema.fields()).enumerate();
        let columns = columns.map(|(i, (source, field))| -> Result<ArrayRef> {
            match source {
                Some(column) => {
                    adapt(batch.column(*column), field.data_type(), self.how).map_err(|e| {
                        e.at(format!("column `{}`", field.name())).with_condition(self.mismatch)
                    })
                }
                None if self.rescued == Some(i) => self.rescue(batch),
                None => Ok(new_null_array(field.data_type(), rows)),
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>().map_err(|e| e.at(&self.place))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    fn rescue(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for (field, at, wanted) in &self.parts {
            if let Some(rest) = rescue::rest(batch.column(*at), wanted.as_ref(), self.how.case)? {
                let data_type = rest.data_type().clone();
                parts.push((Arc::new(Field::new(field.name(), data_type, true)), rest));
            }
        }
        rescue::column(&parts, batch.num_rows(), &self.place)
    }
}

/// The rows with their numbers in the file, from `first` on, as a column after all others.
pub(crate) fn numbered(batch: &RecordBatch, first: u64) -> Result<RecordBatch> {
    let field = Arc::new(Field::new(ROW_INDEX, DataType::Int64, true));
    let fields = batch.schema_ref().fields().iter().cloned().chain([field]);
    let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
    let first = i64::try_from(first).unwrap_or(i64::MAX);
    let numbers = Int64Array::from_iter_values((first..).take(batch.num_rows()));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(numbers));
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// Where each wanted column is in the file: by name, and if no name is the same and case does not
/// matter, by a name that differs in case only.
fn find(found: &Fields, wanted: &Fields, how: &Columns) -> Result<Vec<Option<usize>>> {
    let column = |field: &FieldRef| -> Result<Option<usize>> {
        let exact = found.iter().position(|f| f.name() == field.name());
        if exact.is_some() || how.case == NameCase::Sensitive {
            return Ok(exact);
        }
        let lower = field.name().to_lowercase();
        let mut alike = (0..found.len()).filter(|i| found[*i].name().to_lowercase() == lower);
        match (alike.next(), alike.next()) {
            // The first one has the column, the others are rescued.
            (Some(first), Some(_)) if how.rescued.is_some() => Ok(Some(first)),
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
