//! What no column took of a record: `_rescued_data`.
//!
//! This is the slow way, for the few records that need it: it goes through a record once more,
//! reads each value into a column of its own, and keeps what did not fit as it is written.

use super::object::Names;
use super::scan::{Cursor, Quoted, Syntax};
use super::unescape::unescape;
use super::value::{Outcome, Reader};
use crate::column::Column;
use crate::text::pattern::Times;
use arrow::datatypes::{DataType, Fields};
use fluvial_core::NameCase;
use std::collections::BTreeSet;

/// What was found beside the columns.
#[derive(Debug, Default)]
pub(super) struct Rescued {
    /// The members of a JSON object, without its brackets.
    pub(super) members: String,
    /// Columns that the schema has not in any case: `a`, or `a.b` for a field of a structure.
    pub(super) unknown: Vec<String>,
    /// Columns whose name the schema has in another case.
    pub(super) cased: Vec<String>,
    /// How many values were none of their column's type.
    pub(super) misfits: usize,
}

impl Rescued {
    /// Collects from the object `text`.
    pub(super) fn of(
        text: &[u8],
        fields: &Fields,
        names: Names,
        times: &Times,
    ) -> Result<Self, Syntax> {
        let mut rescued = Self::default();
        let mut cursor = Cursor::new(text);
        let how = How { names, times };
        rescued.members = rescued.object(&mut cursor, fields, "", how)?;
        Ok(rescued)
    }

    fn object(
        &mut self,
        cursor: &mut Cursor<'_>,
        fields: &Fields,
        path: &str,
        how: How<'_>,
    ) -> Result<String, Syntax> {
        let (mut members, mut filled) = (String::new(), BTreeSet::new());
        cursor.need(b'{')?;
        cursor.blanks();
        let mut more = !cursor.eat(b'}');
        while more {
            let key = key(cursor)?;
            let start = cursor.at;
            cursor.skip()?;
            let value = &cursor.text[start..cursor.at];
            let field = fields.iter().position(|field| how.names.same(field.name(), &key));
            let kept = match field {
                None => {
                    let cased = fields.iter().any(|f| NameCase::Insensitive.same(f.name(), &key));
                    let names = if cased { &mut self.cased } else { &mut self.unknown };
                    names.push(format!("{path}{key}"));
                    Some(String::from_utf8_lossy(value).into_owned())
                }
                // In another case than before: the first one has the column.
                Some(field) if !filled.insert(field) && how.names.insensitive => {
                    Some(String::from_utf8_lossy(value).into_owned())
                }
                Some(field) => self.known(value, &fields[field], &format!("{path}{key}."), how)?,
            };
            if let Some(kept) = kept {
                push_member(&mut members, &key, &kept);
            }
            more = cursor.more(b'}')?;
        }
        Ok(members)
    }

    /// What the column of a field does not take of its value.
    fn known(
        &mut self,
        value: &[u8],
        field: &arrow::datatypes::Field,
        path: &str,
        how: How<'_>,
    ) -> Result<Option<String>, Syntax> {
        let data_type = field.data_type();
        if let (DataType::Struct(fields), Some(b'{')) = (data_type, value.first()) {
            let inner = self.object(&mut Cursor::new(value), fields, path, how)?;
            return Ok((!inner.is_empty()).then(|| format!("{{{inner}}}")));
        }
        let Ok(mut column) = Column::new(data_type, how.times) else { return Ok(None) };
        let mut reader = Reader::new(data_type, how.names);
        let outcome = reader.read(&mut Cursor::new(value), &mut column, &mut Vec::new())?;
        let fits = outcome == Outcome::Good;
        self.misfits += usize::from(!fits);
        Ok((!fits).then(|| String::from_utf8_lossy(value).into_owned()))
    }
}

#[derive(Clone, Copy)]
struct How<'a> {
    names: Names,
    times: &'a Times,
}

/// The name of a member, with all before its value.
fn key(cursor: &mut Cursor<'_>) -> Result<String, Syntax> {
    let text: Quoted<'_> = cursor.quoted()?;
    cursor.blanks();
    cursor.need(b':')?;
    cursor.blanks();
    let mut name = Vec::new();
    unescape(text, &mut name);
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Adds `"key":value`.
pub(crate) fn push_member(members: &mut String, key: &str, value: &str) {
    if !members.is_empty() {
        members.push(',');
    }
    members.push_str(&serde_json::Value::from(key).to_string());
    members.push(':');
    members.push_str(value);
}

/// The text of the column: one JSON object, with the path of the file.
pub(crate) fn rescued_text(mut members: String, place: &str) -> String {
    push_member(&mut members, "_file_path", &serde_json::Value::from(place).to_string());
    format!("{{{members}}}")
}
