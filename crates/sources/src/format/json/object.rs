//! JSON objects into the columns of a structure.

use super::scan::{Cursor, Syntax};
use super::unescape::unescape;
use super::value::{Outcome, Reader};
use crate::column::Column;
use arrow::datatypes::{DataType, Fields};
use fluvial_core::NameCase;
use std::collections::BTreeMap;

/// No more keys than this are remembered: an object may be used as a map with endless keys.
const MAX_KEYS: usize = 1024;

/// How names of columns are compared, and what becomes of values that no column takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Names {
    /// Names that differ in case only are the same; of two in one object the first one counts.
    pub(crate) insensitive: bool,
    /// A name that no column has makes the record one of those that are looked at again.
    pub(crate) strict: bool,
}

impl Names {
    pub(super) fn same(self, field: &str, key: &str) -> bool {
        match self.insensitive {
            true => NameCase::Insensitive.same(field, key),
            false => field == key,
        }
    }
}

/// Reads objects into one column per field, matched by name.
///
/// The lines of a file mostly have the same keys in the same order. So each key seen remembers
/// the one that followed it: the next key is compared with one guess before it is searched for.
#[derive(Debug)]
pub(super) struct Shape {
    how: Names,
    names: BTreeMap<Vec<u8>, usize>,
    readers: Vec<Reader>,
    /// The object that last had the field.
    filled: Vec<u64>,
    objects: u64,
    keys: Vec<Key>,
    /// Index into `keys` by what is written.
    known: BTreeMap<Vec<u8>, usize>,
}

/// A key as it is written.
#[derive(Debug)]
struct Key {
    /// All that comes before the value: blanks, the key in its quotes, the colon, blanks.
    raw: Vec<u8>,
    /// The field, if it is one.
    field: Option<usize>,
    /// The key that came after it last time; 0 if none did.
    next: usize,
}

impl Shape {
    /// A reader of objects with these fields.
    pub(super) fn new(fields: &Fields, how: Names) -> Self {
        let name = |name: &String| if how.insensitive { name.to_lowercase() } else { name.clone() };
        let names = fields.iter().enumerate().map(|(i, f)| (name(f.name()).into_bytes(), i));
        // The first key follows a key that no object can have.
        let start = Key { raw: Vec::new(), field: None, next: 0 };
        Self {
            how,
            names: names.collect(),
            readers: fields.iter().map(|field| Reader::new(field.data_type(), how)).collect(),
            filled: vec![0; fields.len()],
            objects: 0,
            keys: vec![start],
            known: BTreeMap::new(),
        }
    }

    /// Reads the object at the cursor and appends one value to each column. `false` if some
    /// value was bad.
    pub(super) fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        columns: &mut [Column],
        scratch: &mut Vec<u8>,
    ) -> Result<bool, Syntax> {
        self.objects += 1;
        let (mut good, mut missing, mut previous) = (true, columns.len(), 0);
        cursor.need(b'{')?;
        loop {
            let key = &self.keys[self.keys[previous].next];
            let field = if !key.raw.is_empty() && begins_with(cursor.rest(), &key.raw) {
                cursor.at += key.raw.len();
                previous = self.keys[previous].next;
                key.field
            } else if previous == 0 && cursor.is_empty_object() {
                break;
            } else {
                self.search(cursor, &mut previous, scratch)?
            };
            match field {
                None => {
                    good &= !self.how.strict;
                    cursor.skip()?;
                }
                Some(field) if self.filled[field] == self.objects => {
                    good &= self.read_again(field, cursor, &mut columns[field], scratch)?;
                }
                Some(field) => {
                    let column = &mut columns[field];
                    let outcome = self.readers[field].read(cursor, column, scratch)?;
                    good &= outcome == Outcome::Good;
                    if outcome != Outcome::Bad {
                        self.filled[field] = self.objects;
                        missing -= 1;
                    }
                }
            }
            if !cursor.eat(b',') {
                cursor.blanks();
                if !cursor.eat(b',') {
                    cursor.need(b'}')?;
                    break;
                }
            }
        }
        if missing > 0 {
            for (column, filled) in columns.iter_mut().zip(&self.filled) {
                if *filled != self.objects {
                    column.push_null();
                }
            }
        }
        Ok(good)
    }

    /// The field of a key that is given twice: the last value counts, unless it is bad.
    #[cold]
    fn read_again(
        &mut self,
        field: usize,
        cursor: &mut Cursor<'_>,
        column: &mut Column,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, Syntax> {
        if self.how.insensitive {
            return cursor.skip().map(|()| !self.how.strict);
        }
        let (start, len) = (cursor.at, column.len());
        let outcome = self.readers[field].read(cursor, column, scratch)?;
        column.truncate(len);
        if outcome != Outcome::Bad {
            // Take back the value before, and read the new one once more in its place.
            column.truncate(len - 1);
            cursor.at = start;
            self.readers[field].read(cursor, column, scratch)?;
        }
        Ok(outcome == Outcome::Good)
    }

    /// Steps over the key at the cursor; `None` if there is no such field.
    fn search(
        &mut self,
        cursor: &mut Cursor<'_>,
        previous: &mut usize,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<usize>, Syntax> {
        let start = cursor.at;
        cursor.blanks();
        let text = cursor.quoted()?;
        cursor.blanks();
        cursor.need(b':')?;
        cursor.blanks();
        let raw = &cursor.text[start..cursor.at];
        if let Some(index) = self.known.get(raw).copied() {
            self.keys[*previous].next = index;
            *previous = index;
            return Ok(self.keys[index].field);
        }
        let field = if text.escaped || self.how.insensitive {
            scratch.clear();
            unescape(text, scratch);
            if self.how.insensitive {
                let name = String::from_utf8_lossy(scratch).to_lowercase();
                self.names.get(name.as_bytes())
            } else {
                self.names.get(scratch.as_slice())
            }
        } else {
            self.names.get(text.raw)
        };
        let field = field.copied();
        if self.keys.len() < MAX_KEYS {
            let index = self.keys.len();
            self.known.insert(raw.to_vec(), index);
            self.keys.push(Key { raw: raw.to_vec(), field, next: 0 });
            self.keys[*previous].next = index;
            *previous = index;
        } else {
            // Not the first key of an object any more.
            *previous = (*previous).max(1);
        }
        Ok(field)
    }
}

/// Whether `text` begins with `head`, without a call: keys are short.
#[inline]
fn begins_with(text: &[u8], head: &[u8]) -> bool {
    let Some(text) = text.get(..head.len()) else { return false };
    let (Some(a), Some(b)) = (text.first_chunk::<8>(), head.first_chunk::<8>()) else {
        return text == head;
    };
    if u64::from_le_bytes(*a) != u64::from_le_bytes(*b) {
        return false;
    }
    match (text.last_chunk::<8>(), head.last_chunk::<8>()) {
        (Some(a), Some(b)) if text.len() <= 16 => u64::from_le_bytes(*a) == u64::from_le_bytes(*b),
        _ => text[8..] == head[8..],
    }
}

impl Reader {
    /// A reader of values of a type.
    pub(super) fn new(data_type: &DataType, how: Names) -> Self {
        match data_type {
            DataType::List(item) => Self::List(Box::new(Self::new(item.data_type(), how))),
            DataType::Struct(fields) => Self::Struct(Box::new(Shape::new(fields, how))),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    Self::Map(Box::new(Self::new(fields[1].data_type(), how)))
                }
                // No column has such a type.
                _ => Self::Scalar,
            },
            _ => Self::Scalar,
        }
    }
}
