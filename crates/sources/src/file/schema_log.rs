//! The versions of an inferred schema: `_schemas/0`, `_schemas/1` and so on, in a folder of the
//! user's (`schemaLocation`). Each is written once and never changed.

use super::place::parse_path;
use arrow::datatypes::{Field, Schema};
use fluvial_core::ddl::{ddl_name, parse_type};
use fluvial_core::{Error, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The versions of one source's schema.
#[derive(Debug, Clone)]
pub(crate) struct SchemaLog {
    store: Arc<dyn ObjectStore>,
    folder: Path,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Version {
    format: u32,
    /// Names, and types as DDL.
    columns: Vec<(String, String)>,
    /// The same for the columns that come from folders.
    partitions: Vec<(String, String)>,
}

/// A version of a schema.
#[derive(Debug)]
pub(crate) struct SchemaVersion {
    pub(crate) number: u64,
    /// The columns of the files.
    pub(crate) schema: Schema,
    /// Those that come from folders: with them nobody has to look for folders.
    pub(crate) partitions: Vec<Field>,
}

const FORMAT: u32 = 1;

impl SchemaLog {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, folder: &Path) -> Self {
        Self { store, folder: folder.clone().join("_schemas") }
    }

    /// The newest version.
    pub(crate) async fn newest(&self) -> Result<Option<SchemaVersion>> {
        let failed = |error| Error::from(error).at(format!("reading {}", self.folder));
        let all: Vec<_> =
            self.store.list(Some(&self.folder)).try_collect().await.map_err(failed)?;
        let number = |meta: &object_store::ObjectMeta| meta.location.filename()?.parse().ok();
        let Some(newest) = all.iter().filter_map(number).max() else { return Ok(None) };
        let path = self.path(newest)?;
        let bytes = self.store.get(&path).await.map_err(failed)?.bytes().await.map_err(failed)?;
        let (schema, partitions) = parse_version(&bytes).map_err(|e| e.at(&path))?;
        Ok(Some(SchemaVersion { number: newest, schema, partitions }))
    }

    /// Writes a version; `false` if another run wrote this one before.
    pub(crate) async fn put(&self, version: &SchemaVersion) -> Result<bool> {
        let written = |f: &Field| (f.name().clone(), ddl_name(f.data_type()));
        let columns = version.schema.fields().iter().map(|f| written(f)).collect();
        let partitions = version.partitions.iter().map(written).collect();
        let bytes = serde_json::to_vec_pretty(&Version { format: FORMAT, columns, partitions })
            .map_err(|e| Error::invalid("a schema has no JSON form").with_source(e))?;
        let path = self.path(version.number)?;
        let create = PutOptions::from(PutMode::Create);
        match self.store.put_opts(&path, bytes.into(), create).await {
            Ok(_) => Ok(true),
            Err(StoreError::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(Error::from(error).at(format!("writing {path}"))),
        }
    }

    fn path(&self, number: u64) -> Result<Path> {
        parse_path(&format!("{}/{number}", self.folder))
    }
}

/// The columns of the files, and those from folders.
fn parse_version(bytes: &[u8]) -> Result<(Schema, Vec<Field>)> {
    let version: Version = serde_json::from_slice(bytes)
        .map_err(|e| Error::corrupt("not a version of a schema").with_source(e))?;
    if version.format > FORMAT {
        return Err(Error::invalid(format!(
            "a version of a schema in format {}: this program reads {FORMAT}",
            version.format
        )));
    }
    let field =
        |(name, data_type): (String, String)| Ok(Field::new(name, parse_type(&data_type)?, true));
    let columns = version.columns.into_iter().map(field).collect::<Result<Vec<_>>>()?;
    let partitions = version.partitions.into_iter().map(field).collect::<Result<Vec<_>>>()?;
    Ok((Schema::new(columns), partitions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;
    use fluvial_core::ddl::parse_ddl;
    use fluvial_sim::{Disk, block_on};

    #[test]
    fn versions_are_written_once_and_the_newest_counts() {
        let disk = Disk::new();
        let log = SchemaLog::new(disk.process().store(), &Path::from("s"));
        assert!(block_on(log.newest()).unwrap().is_none());
        let schema = |ddl: &str| parse_ddl(ddl).unwrap();
        let put = |number, ddl: &str| {
            let partitions = vec![Field::new("p", DataType::Date32, true)];
            block_on(log.put(&SchemaVersion { number, schema: schema(ddl), partitions })).unwrap()
        };
        let nested = "`b c` STRUCT<x: ARRAY<DECIMAL(20,0)>>";
        assert!(put(0, "a INT"));
        assert!(!put(0, "b INT"), "another one was first");
        (1..=10).for_each(|n| assert!(put(n, &format!("a INT, {nested}"))));
        let newest = block_on(log.newest()).unwrap().unwrap();
        assert_eq!((newest.number, newest.schema.fields().len()), (10, 2));
        let found = newest.schema.field(1);
        assert_eq!(ddl_name(found.data_type()), ddl_name(schema(nested).field(0).data_type()));
        assert_eq!(newest.partitions, [Field::new("p", DataType::Date32, true)]);
        disk.write("s/_schemas/11", "{");
        assert!(block_on(log.newest()).is_err());
    }
}
