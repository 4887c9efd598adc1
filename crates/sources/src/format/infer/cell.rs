//! Types of CSV cells, by Spark's rules for `inferSchema`.

use crate::text::date;
use crate::text::pattern::Times;
use crate::text::timestamp::Reading;
use arrow::datatypes::DataType;
use fluvial_core::ddl;

/// What the cells of a column have in common; from top to bottom, what is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Cell {
    #[default]
    Null,
    Int,
    Long,
    /// A whole number beyond 64 bits, of so many digits.
    Decimal(u8),
    Double,
    Date,
    Timestamp,
    Boolean,
    Text,
}

impl Cell {
    /// Of the text of a cell that is not null.
    pub(super) fn of(text: &str, times: &Times) -> Self {
        let digits = text.trim_start_matches(['-', '+']);
        let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if text.parse::<i32>().is_ok() {
            Self::Int
        } else if text.parse::<i64>().is_ok() {
            Self::Long
        } else if whole && digits.trim_start_matches('0').len() <= 38 {
            Self::Decimal(digits.trim_start_matches('0').len() as u8)
        } else if is_double(text) {
            Self::Double
        } else if is_date(text, times) {
            Self::Date
        } else if is_time(text, times) {
            Self::Timestamp
        } else if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            Self::Boolean
        } else {
            Self::Text
        }
    }

    /// What holds both.
    pub(super) fn or(self, other: Self) -> Self {
        use Cell::{Date, Decimal, Double, Int, Long, Null, Text, Timestamp};
        match (self, other) {
            (a, b) if a == b => a,
            (Null, other) | (other, Null) => other,
            (Int, Long) | (Long, Int) => Long,
            (Decimal(a), Decimal(b)) => Decimal(a.max(b)),
            (Decimal(a), Int | Long) | (Int | Long, Decimal(a)) => Decimal(a.max(20)),
            (Int | Long | Decimal(_), Double) | (Double, Int | Long | Decimal(_)) => Double,
            (Date, Timestamp) | (Timestamp, Date) => Timestamp,
            _ => Text,
        }
    }

    pub(super) fn data_type(self) -> DataType {
        match self {
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
            Self::Decimal(digits) => DataType::Decimal128(digits, 0),
            Self::Double => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Timestamp => ddl::timestamp(),
            Self::Boolean => DataType::Boolean,
            Self::Null | Self::Text => DataType::Utf8,
        }
    }
}

fn is_double(text: &str) -> bool {
    matches!(text, "NaN" | "Inf" | "-Inf")
        || (text.contains(|c: char| c.is_ascii_digit())
            && !text.contains(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'))
            && text.parse::<f64>().is_ok())
}

fn is_date(text: &str, times: &Times) -> bool {
    match &times.date {
        Some(form) => form.date(text.as_bytes()).is_some(),
        None => text.len() == 10 && date::parse(text.as_bytes()).is_some(),
    }
}

fn is_time(text: &str, times: &Times) -> bool {
    let reading = Reading::Instant(times.zone);
    reading.read(text.as_bytes(), times.timestamp.as_deref()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::pattern::UTC_TIMES;

    fn inferred(cells: &[&str]) -> String {
        let all = cells.iter().map(|text| Cell::of(text, &UTC_TIMES));
        ddl::ddl_name(&all.fold(Cell::Null, Cell::or).data_type()).to_string()
    }

    #[test]
    fn types_are_those_that_spark_finds() {
        for (cells, name) in [
            (&["1", "2"][..], "INT"),
            (&["1", "2147483648"], "BIGINT"),
            (&["2.5", "3"], "DOUBLE"),
            (&["true", "False"], "BOOLEAN"),
            (&["2026-01-02", "2026-01-03"], "DATE"),
            (&["2026-01-02", "2026-01-02 01:02:03"], "TIMESTAMP"),
            (&["x", "1"], "STRING"),
            (&["true", "1"], "STRING"),
            (&["1.5", "a"], "STRING"),
            (&[], "STRING"),
            (&["123456789012345678901234", "1"], "DECIMAL(24,0)"),
        ] {
            assert_eq!(inferred(cells), name, "{cells:?}");
        }
    }
}
