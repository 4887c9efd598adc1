//! Schemas that are found in files, corrected by hints, and grow.

use super::builder::nullable;
use super::entry::FileEntry;
use super::infer;
use super::place::FilePlace;
use super::schema_log::{SchemaLog, SchemaVersion};
use crate::format::FileDecoder;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use fluvial_core::ddl::{array_of, map_of, parse_type};
use fluvial_core::{Error, NameCase, Result};
use std::sync::Arc;

/// How the schema of a source grows.
#[derive(Debug, Clone)]
pub(crate) struct Evolve {
    pub(crate) log: SchemaLog,
    /// The columns of files as the query reads them.
    pub(crate) read: Schema,
    pub(crate) hints: Option<String>,
    /// Whether columns of JSON have types; else all are texts.
    pub(crate) types: bool,
    /// Whether types become wider.
    pub(crate) widens: bool,
}

/// At most so many files are looked at for a schema, and so many bytes.
const SAMPLE_FILES: usize = 1000;
const SAMPLE_BYTES: u64 = 50 << 30;

/// The files that are looked at: the newest of all.
pub(crate) fn sample(files: &[FileEntry]) -> Vec<FileEntry> {
    let mut files: Vec<FileEntry> = files.iter().filter(|file| file.size > 0).cloned().collect();
    files.sort_unstable_by(|a, b| (b.mtime, &b.path).cmp(&(a.mtime, &a.path)));
    let mut bytes = 0u64;
    let mut fits = |file: &FileEntry| {
        let first = bytes == 0;
        bytes = bytes.saturating_add(file.size);
        first || bytes <= SAMPLE_BYTES
    };
    let count = files.iter().take(SAMPLE_FILES).take_while(|file| fits(file)).count();
    files.truncate(count);
    files.reverse();
    files
}

impl Evolve {
    /// Adds the columns of `files` to the newest version; the answer says what to do after
    /// `cause`, a column that the query has not.
    pub(crate) async fn grow(
        &self,
        place: &FilePlace,
        decoder: &FileDecoder,
        files: &[FileEntry],
        cause: Error,
    ) -> Error {
        match self.try_grow(place, decoder, files).await {
            Ok(true) => grown_error(cause.message()),
            Ok(false) => Error::invalid(format!(
                "{}, and no column could be found for it: set schemaEvolutionMode to rescue",
                cause.message()
            ))
            .with_condition("UNKNOWN_FIELD_EXCEPTION.NO_NEW_FIELDS"),
            Err(error) => error,
        }
    }

    /// Makes types wider if values that were rescued need it: then the answer says what to do.
    pub(crate) async fn widen(
        &self,
        place: &FilePlace,
        decoder: &FileDecoder,
        files: &[FileEntry],
    ) -> Result<()> {
        match self.try_grow(place, decoder, files).await? {
            true => Err(grown_error(&format!("{place}: values are wider than their column"))),
            false => Ok(()),
        }
    }

    /// Whether the schema has more columns or wider types now than the one of the query. Others
    /// that read the same batch may have seen to that.
    async fn try_grow(
        &self,
        place: &FilePlace,
        decoder: &FileDecoder,
        files: &[FileEntry],
    ) -> Result<bool> {
        let found = found(place, decoder, files).await?;
        let found = corrected(found, decoder, self.types, self.hints.as_deref())?;
        let Some(SchemaVersion { number, schema, partitions }) = self.log.newest().await? else {
            return Err(Error::not_found(
                "the versions of the schema are gone from schemaLocation",
            ));
        };
        let next = grown(&schema, &found, self.widens);
        // What the query reads may have more: columns of folders, and the one for the rest.
        let read = grown(&self.read, &self.read, self.widens);
        let helps = grown(&read, &next, self.widens) != read;
        if next != schema {
            // Another run may have written the very version: then it is as good as ours.
            let next = SchemaVersion { number: number + 1, schema: next, partitions };
            self.log.put(&next).await?;
        }
        Ok(helps)
    }
}

fn grown_error(cause: &str) -> Error {
    Error::invalid(format!("{cause}: the schema has a new version; start the query again"))
        .with_condition("UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_FILE")
}

/// The columns of a sample of `files`. Schemas that files have themselves are put together.
pub(crate) async fn found(
    place: &FilePlace,
    decoder: &FileDecoder,
    files: &[FileEntry],
) -> Result<Schema> {
    let files = sample(files);
    if !matches!(decoder, FileDecoder::Columns(_)) {
        let schema = infer::schema(place, decoder, &files).await?;
        return Ok(Schema::new(distinct_fields(schema.fields())));
    }
    let mut all = Schema::empty();
    for file in &files {
        let schema = infer::schema(place, decoder, std::slice::from_ref(file)).await?;
        let plain: Fields = schema.fields().iter().map(nullable).collect();
        all = grown(&all, &Schema::new(plain), true);
    }
    if files.is_empty() {
        return infer::schema(place, decoder, &files).await;
    }
    Ok(all)
}

/// What was found, with all columns of JSON as texts unless types are asked for, and with the
/// types of hints.
pub(crate) fn corrected(
    found: Schema,
    decoder: &FileDecoder,
    types: bool,
    hints: Option<&str>,
) -> Result<Schema> {
    let text = |field: &FieldRef| Arc::new(Field::new(field.name(), DataType::Utf8, true));
    let plain = match decoder {
        FileDecoder::Json(..) if !types => {
            Schema::new(found.fields().iter().map(text).collect::<Fields>())
        }
        _ => found,
    };
    // What files have of this name is rescued like all else that no column takes.
    let rest = decoder.rescued_column();
    let in_files = |field: &&FieldRef| !rest.is_some_and(|rest| is_same(rest, field.name()));
    let fields: Fields = plain.fields().iter().filter(in_files).cloned().collect();
    hinted(&Schema::new(fields), hints)
}

fn is_same(a: &str, b: &str) -> bool {
    NameCase::Insensitive.same(a, b)
}

/// Of names that differ in case the first one, also inside of structures: the others are rescued.
fn distinct_fields(fields: &Fields) -> Fields {
    let mut all: Vec<FieldRef> = Vec::with_capacity(fields.len());
    for field in fields {
        if !all.iter().any(|known| is_same(known.name(), field.name())) {
            let data_type = distinct_type(field.data_type());
            all.push(Arc::new(Field::new(field.name(), data_type, field.is_nullable())));
        }
    }
    all.into()
}

fn distinct_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Struct(fields) => DataType::Struct(distinct_fields(fields)),
        DataType::List(item) => array_of(distinct_type(item.data_type())),
        other => other.clone(),
    }
}

/// The schema, with the columns that it has not at its end, also inside of structures; if it
/// `widens`, with wider types where `found` has them.
pub(crate) fn grown(schema: &Schema, found: &Schema, widens: bool) -> Schema {
    Schema::new(grown_fields(schema.fields(), found.fields(), widens))
}

fn grown_fields(fields: &Fields, found: &Fields, widens: bool) -> Fields {
    let mut all: Vec<FieldRef> = fields.to_vec();
    for new in found {
        match all.iter_mut().find(|field| is_same(field.name(), new.name())) {
            Some(field) => {
                let grown = grown_type(field.data_type(), new.data_type(), widens);
                *field = Arc::new(Field::new(field.name(), grown, true));
            }
            None => all.push(Arc::new(Field::new(new.name(), new.data_type().clone(), true))),
        }
    }
    all.into()
}

fn grown_type(data_type: &DataType, found: &DataType, widens: bool) -> DataType {
    match (data_type, found) {
        (DataType::Struct(fields), DataType::Struct(found)) => {
            DataType::Struct(grown_fields(fields, found, widens))
        }
        (DataType::List(item), DataType::List(found)) => {
            array_of(grown_type(item.data_type(), found.data_type(), widens))
        }
        (DataType::Map(entries, _), DataType::Map(found, _)) => {
            match (entries.data_type(), found.data_type()) {
                (DataType::Struct(old), DataType::Struct(new))
                    if old.len() == 2 && new.len() == 2 =>
                {
                    let value = grown_type(old[1].data_type(), new[1].data_type(), widens);
                    map_of(old[0].data_type().clone(), value)
                }
                _ => data_type.clone(),
            }
        }
        _ if widens => widened(data_type, found).unwrap_or_else(|| data_type.clone()),
        _ => data_type.clone(),
    }
}

/// The type that takes the values of both, if `found` is one that a column may be widened to.
fn widened(from: &DataType, found: &DataType) -> Option<DataType> {
    use DataType::{Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp};
    let digits = |t: &DataType| match t {
        Int8 => Some((3u8, 0i8)),
        Int16 => Some((5, 0)),
        Int32 => Some((10, 0)),
        Int64 => Some((20, 0)),
        Decimal128(precision, scale) => Some((*precision, *scale)),
        _ => None,
    };
    match (from, found) {
        (Int8, Int16 | Int32 | Int64 | Float64)
        | (Int16, Int32 | Int64 | Float64)
        | (Int32, Int64 | Float64)
        | (Float32, Float64)
        | (Date32, Timestamp(_, None)) => Some(found.clone()),
        (_, Decimal128(..)) => {
            let ((a, a_scale), (b, b_scale)) = (digits(from)?, digits(found)?);
            let whole = (i16::from(a) - i16::from(a_scale)).max(i16::from(b) - i16::from(b_scale));
            let scale = a_scale.max(b_scale);
            let precision = u8::try_from(whole + i16::from(scale)).ok()?;
            (precision <= 38).then_some(Decimal128(precision, scale))
        }
        _ => None,
    }
}

/// The schema with the types of `hints`: `a INT, b.c DATE, d.element.e STRING`.
///
/// # Errors
///
/// `Invalid` (`INVALID_SCHEMA_HINT`) if the text is none.
pub(crate) fn hinted(schema: &Schema, hints: Option<&str>) -> Result<Schema> {
    let mut fields = schema.fields().clone();
    for hint in split(hints.unwrap_or_default()) {
        let (name, text) = path_and_type(hint).ok_or_else(|| bad_hint(hint))?;
        let data_type = parse_type(text).map_err(|e| bad_hint(hint).with_source(e))?;
        fields = set(&fields, &name, &data_type).ok_or_else(|| bad_hint(hint))?;
    }
    Ok(Schema::new(fields))
}

fn bad_hint(hint: &str) -> Error {
    Error::invalid(format!(
        "schemaHints: {hint:?} is not a column (or a path such as a.b or a.element) of the schema \
         and a type"
    ))
    .with_condition("INVALID_SCHEMA_HINT")
}

/// The parts between commas that are in no bracket and no backtick.
fn split(hints: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut start, mut parts) = (0i32, false, 0, Vec::new());
    for (at, sign) in hints.char_indices() {
        match sign {
            '`' => quoted = !quoted,
            '<' | '(' if !quoted => depth += 1,
            '>' | ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(hints[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(hints[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn path_and_type(hint: &str) -> Option<(Vec<String>, &str)> {
    let (mut rest, mut path) = (hint, Vec::new());
    loop {
        let (name, after) = match rest.strip_prefix('`') {
            Some(quoted) => quoted.split_once('`')?,
            None => rest.split_at(rest.find(|c: char| c == '.' || c.is_whitespace() || c == ':')?),
        };
        path.push(name.to_owned());
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None => return Some((path, after.trim_start_matches([' ', '\t', '\n', ':']))),
        }
    }
}

/// The fields with the type of one of them, at the end of a path, set; `None` if there is no such
/// path below the first name.
fn set(fields: &Fields, path: &[String], data_type: &DataType) -> Option<Fields> {
    let (name, below) = path.split_first()?;
    let mut all: Vec<FieldRef> = fields.to_vec();
    let at = all.iter().position(|field| is_same(field.name(), name));
    match at {
        Some(at) => {
            let inner = set_type(all[at].data_type(), below, data_type)?;
            all[at] = Arc::new(Field::new(all[at].name(), inner, true));
        }
        None if below.is_empty() => {
            all.push(Arc::new(Field::new(name, data_type.clone(), true)));
        }
        None => return None,
    }
    Some(all.into())
}

fn set_type(old: &DataType, path: &[String], new: &DataType) -> Option<DataType> {
    let Some((name, below)) = path.split_first() else { return Some(new.clone()) };
    match old {
        DataType::Struct(fields) => set(fields, path, new).map(DataType::Struct),
        DataType::List(item) if name == "element" => {
            set_type(item.data_type(), below, new).map(array_of)
        }
        DataType::Map(entries, _) if name == "value" => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                let value = set_type(pair[1].data_type(), below, new)?;
                Some(map_of(pair[0].data_type().clone(), value))
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::ddl::{ddl_name, parse_ddl};

    fn shown(schema: &Schema) -> String {
        let field = |f: &FieldRef| format!("{} {}", f.name(), ddl_name(f.data_type()));
        schema.fields().iter().map(field).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn hints_set_types_and_add_columns() {
        let schema =
            parse_ddl("a STRING, s STRUCT<x: STRING, y: ARRAY<STRUCT<z: STRING>>>").unwrap();
        let with = |hints| hinted(&schema, Some(hints)).map(|schema| shown(&schema));
        assert_eq!(
            with("A INT, s.x DECIMAL(10, 2), s.y.element.z DATE, new MAP<STRING, INT>").unwrap(),
            "a INT, s STRUCT<x: DECIMAL(10,2), y: ARRAY<STRUCT<z: DATE>>>, new MAP<STRING, INT>"
        );
        assert_eq!(with("`b c` INT, s.new INT").unwrap().matches("INT").count(), 2);
        for bad in ["a", "a NOTYPE", "x.y INT", "a.b INT", "`a INT"] {
            assert_eq!(with(bad).unwrap_err().condition(), Some("INVALID_SCHEMA_HINT"), "{bad}");
        }
    }

    #[test]
    fn new_columns_come_last_and_types_stay() {
        let old = parse_ddl(
            "b INT, a STRUCT<x: INT>, l ARRAY<STRUCT<i: INT>>, m MAP<STRING, STRUCT<p: INT>>",
        )
        .unwrap();
        let new =
            parse_ddl("a STRUCT<y: INT, x: STRING>, c DATE, B STRING, l ARRAY<STRUCT<j: INT>>, m MAP<STRING, STRUCT<q: INT>>")
                .unwrap();
        assert_eq!(
            shown(&grown(&old, &new, false)),
            "b INT, a STRUCT<x: INT, y: INT>, l ARRAY<STRUCT<i: INT, j: INT>>, \
             m MAP<STRING, STRUCT<p: INT, q: INT>>, c DATE"
        );
        assert_eq!(grown(&old, &old, false), old);
    }

    #[test]
    fn types_become_wider_where_no_value_changes() {
        let old = parse_ddl(
            "a TINYINT, b INT, c BIGINT, d FLOAT, e DECIMAL(10,2), f DATE, g INT, h STRING, \
             i ARRAY<STRUCT<x: INT>>, j BIGINT, k BIGINT",
        )
        .unwrap();
        let new = parse_ddl(
            "a SMALLINT, b DOUBLE, c DECIMAL(10,2), d DOUBLE, e DECIMAL(8,4), f TIMESTAMP_NTZ, \
             g STRING, h INT, i ARRAY<STRUCT<x: BIGINT>>, j DOUBLE, k INT",
        )
        .unwrap();
        assert_eq!(
            shown(&grown(&old, &new, true)),
            "a SMALLINT, b DOUBLE, c DECIMAL(22,2), d DOUBLE, e DECIMAL(12,4), f TIMESTAMP_NTZ, \
             g INT, h STRING, i ARRAY<STRUCT<x: BIGINT>>, j BIGINT, k BIGINT"
        );
        assert_eq!(grown(&old, &new, false), old);
    }

    #[test]
    fn a_sample_is_bounded() {
        let file = |n: i64, size| FileEntry { path: n.to_string(), size, mtime: n, etag: None };
        let files: Vec<_> = (0..1500).map(|n| file(n, 1)).collect();
        let found = sample(&files);
        assert_eq!((found.len(), found[0].mtime, found[999].mtime), (1000, 500, 1499));
        let large: Vec<_> = (0..9).map(|n| file(n, 20 << 30)).collect();
        assert_eq!(sample(&large).len(), 2);
        assert_eq!(sample(&[file(1, 0), file(2, 90 << 30)]).len(), 1);
    }
}
