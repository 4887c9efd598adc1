//! Spark's DDL to Arrow: a recursive descent with a bounded depth.

use super::{array_of, map_of, timestamp};
use crate::error::{Error, Result};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, Schema, TimeUnit};

/// Deeper nesting is refused: the text may come from anywhere, the stack is finite.
const MAX_DEPTH: usize = 64;

/// Parses a list of columns: `event STRING, amount DECIMAL(10, 2), s STRUCT<x: BIGINT>`.
///
/// Names may be quoted with backticks; `:` between name and type, `NOT NULL` (ignored) and
/// `COMMENT '...'` (ignored) are allowed.
///
/// # Errors
///
/// `Invalid` (`PARSE_SYNTAX_ERROR`, `UNSUPPORTED_DATATYPE`) with the position in the text.
pub fn parse_ddl(text: &str) -> Result<Schema> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let fields = parser.fields(None)?;
    if fields.is_empty() {
        return Err(parser.error("a column such as 'id BIGINT'"));
    }
    Ok(Schema::new(fields))
}

/// Parses one type: `ARRAY<BIGINT>`.
///
/// # Errors
///
/// As for [`parse_ddl`].
pub fn parse_type(text: &str) -> Result<DataType> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let data_type = parser.data_type()?;
    parser.blanks();
    match parser.rest() {
        "" => Ok(data_type),
        _ => Err(parser.error("the end of the type")),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Byte offset, always on a character boundary.
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn error(&self, expected: &str) -> Error {
        let found: String = self.rest().chars().take(20).collect();
        let found = if found.is_empty() { "the end".into() } else { format!("{found:?}") };
        let position = self.text[..self.at].chars().count();
        Error::invalid(format!(
            "the schema has {found} at position {position} where {expected} was expected"
        ))
        .with_condition("PARSE_SYNTAX_ERROR")
    }

    /// Takes `symbol` if it is next.
    fn eat(&mut self, symbol: char) -> bool {
        self.blanks();
        let next = self.rest().starts_with(symbol);
        if next {
            self.at += symbol.len_utf8();
        }
        next
    }

    fn need(&mut self, symbol: char) -> Result<()> {
        if self.eat(symbol) { Ok(()) } else { Err(self.error(&format!("'{symbol}'"))) }
    }

    /// The next bare word, which may be empty.
    fn word(&mut self) -> &'a str {
        self.blanks();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Takes the keyword if it is next.
    fn keyword(&mut self, keyword: &str) -> bool {
        let start = self.at;
        let found = self.word().eq_ignore_ascii_case(keyword);
        if !found {
            self.at = start;
        }
        found
    }

    /// A text between `quote`s, in which a doubled quote is one; the first quote is next.
    fn quoted(&mut self, quote: char) -> Result<String> {
        self.need(quote)?;
        let mut name = String::new();
        loop {
            let Some(end) = self.rest().find(quote) else {
                self.at = self.text.len();
                return Err(self.error(&format!("a closing {quote}")));
            };
            name.push_str(&self.rest()[..end]);
            self.at += end + 1;
            if !self.rest().starts_with(quote) {
                return Ok(name);
            }
            name.push(quote);
            self.at += 1;
        }
    }

    fn name(&mut self) -> Result<String> {
        self.blanks();
        if self.rest().starts_with('`') {
            let start = self.at;
            let name = self.quoted('`')?;
            if name.is_empty() {
                self.at = start;
                return Err(self.error("a name that is not empty"));
            }
            return Ok(name);
        }
        match self.word() {
            "" => Err(self.error("a column name")),
            word => Ok(word.to_owned()),
        }
    }

    /// Fields up to the end of the text, or up to and including `close`.
    fn fields(&mut self, close: Option<char>) -> Result<Vec<Field>> {
        let mut fields = Vec::new();
        loop {
            match close {
                Some(close) if fields.is_empty() && self.eat(close) => return Ok(fields),
                None if fields.is_empty() => {
                    self.blanks();
                    if self.rest().is_empty() {
                        return Ok(fields);
                    }
                }
                _ => {}
            }
            fields.push(self.field()?);
            if self.eat(',') {
                continue;
            }
            self.blanks();
            return match close {
                Some(close) => self.need(close).map(|()| fields),
                None if self.rest().is_empty() => Ok(fields),
                None => Err(self.error("',' or the end")),
            };
        }
    }

    fn field(&mut self) -> Result<Field> {
        let name = self.name()?;
        self.eat(':');
        let data_type = self.data_type()?;
        if self.keyword("NOT") && !self.keyword("NULL") {
            return Err(self.error("NULL"));
        }
        if self.keyword("COMMENT") {
            self.blanks();
            let quote = if self.rest().starts_with('"') { '"' } else { '\'' };
            self.quoted(quote)?;
        }
        Ok(Field::new(name, data_type, true))
    }

    fn data_type(&mut self) -> Result<DataType> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(&format!("no more than {MAX_DEPTH} nested types")));
        }
        self.depth += 1;
        self.blanks();
        let start = self.at;
        let word = self.word().to_ascii_uppercase();
        let data_type = match word.as_str() {
            "BOOLEAN" => DataType::Boolean,
            "TINYINT" | "BYTE" => DataType::Int8,
            "SMALLINT" | "SHORT" => DataType::Int16,
            "INT" | "INTEGER" => DataType::Int32,
            "BIGINT" | "LONG" => DataType::Int64,
            "FLOAT" | "REAL" => DataType::Float32,
            "DOUBLE" => DataType::Float64,
            "DATE" => DataType::Date32,
            "TIMESTAMP" => self.timestamp(),
            "TIMESTAMP_LTZ" => timestamp(),
            "TIMESTAMP_NTZ" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "STRING" => DataType::Utf8,
            "VARCHAR" | "CHAR" | "CHARACTER" => self.sized_string()?,
            "BINARY" => DataType::Binary,
            "VOID" => DataType::Null,
            "DECIMAL" | "DEC" | "NUMERIC" => self.decimal()?,
            "ARRAY" => self.array()?,
            "MAP" => self.map()?,
            "STRUCT" => self.structure()?,
            _ => return Err(self.unknown_type(start, &word)),
        };
        self.depth -= 1;
        Ok(data_type)
    }

    fn unknown_type(&mut self, start: usize, word: &str) -> Error {
        self.at = start;
        if word.is_empty() {
            return self.error("a type");
        }
        let position = self.text[..start].chars().count();
        Error::invalid(format!("unsupported data type {word:?} at position {position}"))
            .with_condition("UNSUPPORTED_DATATYPE")
    }

    /// After `TIMESTAMP`: `WITHOUT TIME ZONE` or `WITH LOCAL TIME ZONE` may follow.
    fn timestamp(&mut self) -> DataType {
        let start = self.at;
        if self.keyword("WITHOUT") && self.keyword("TIME") && self.keyword("ZONE") {
            return DataType::Timestamp(TimeUnit::Microsecond, None);
        }
        self.at = start;
        timestamp()
    }

    /// A length is accepted and not enforced, as for strings in Spark's files.
    fn sized_string(&mut self) -> Result<DataType> {
        self.need('(')?;
        self.number()?;
        self.need(')')?;
        Ok(DataType::Utf8)
    }

    fn number(&mut self) -> Result<u32> {
        self.blanks();
        let start = self.at;
        let word = self.word();
        word.parse().map_err(|_| {
            self.at = start;
            self.error("a number")
        })
    }

    fn decimal(&mut self) -> Result<DataType> {
        let (mut precision, mut scale) = (10, 0);
        self.blanks();
        let start = self.at;
        if self.eat('(') {
            precision = self.number()?;
            if self.eat(',') {
                scale = self.number()?;
            }
            self.need(')')?;
        }
        let fits = (1..=u32::from(DECIMAL128_MAX_PRECISION)).contains(&precision);
        if !fits || scale > precision {
            self.at = start;
            return Err(self.error("a precision of 1 to 38 and a scale of 0 to the precision"));
        }
        Ok(DataType::Decimal128(precision as u8, scale as i8))
    }

    fn array(&mut self) -> Result<DataType> {
        self.need('<')?;
        let element = self.data_type()?;
        self.need('>')?;
        Ok(array_of(element))
    }

    fn map(&mut self) -> Result<DataType> {
        self.need('<')?;
        let key = self.data_type()?;
        self.need(',')?;
        let value = self.data_type()?;
        self.need('>')?;
        Ok(map_of(key, value))
    }

    fn structure(&mut self) -> Result<DataType> {
        self.need('<')?;
        Ok(DataType::Struct(self.fields(Some('>'))?.into()))
    }
}
