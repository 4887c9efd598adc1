//! Rows as a table of text, as Spark's `show` draws it.

use crate::cell::push_cell;
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use chrono_tz::Tz;
use fluvial_core::Result;

/// Cells are at least this wide.
const WIDTH_MIN: usize = 3;

/// How a table is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStyle {
    /// At most so many rows.
    pub rows_max: usize,
    /// Cells longer than so many characters are cut (headings are not), and then columns lean
    /// right; without a limit they lean left.
    pub width_max: Option<usize>,
    /// The zone in which points in time are shown.
    pub zone: Tz,
}

/// Draws a table.
///
/// # Errors
///
/// `Invalid` for a value that cannot be shown as text.
pub fn draw(schema: &Schema, batches: &[RecordBatch], style: TableStyle) -> Result<String> {
    let TableStyle { rows_max, width_max, .. } = style;
    let mut lines = vec![schema.fields().iter().map(|f| shown(f.name(), None)).collect()];
    lines.extend(cells(batches, style)?);
    let widths = widths(&lines);
    let rule: String = widths.iter().map(|w| format!("+{}", "-".repeat(*w))).collect();
    let mut out = format!("{rule}+\n");
    for (i, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            let gap = " ".repeat(width.saturating_sub(width_of(cell)));
            out.push('|');
            let (left, right) = if width_max.is_some() { (&gap, cell) } else { (cell, &gap) };
            out.push_str(left);
            out.push_str(right);
        }
        out.push_str("|\n");
        if i == 0 {
            out.push_str(&format!("{rule}+\n"));
        }
    }
    out.push_str(&format!("{rule}+\n"));
    if batches.iter().map(RecordBatch::num_rows).sum::<usize>() > rows_max {
        let rows = if rows_max == 1 { "row" } else { "rows" };
        out.push_str(&format!("only showing top {rows_max} {rows}\n"));
    }
    Ok(out)
}

fn cells(batches: &[RecordBatch], style: TableStyle) -> Result<Vec<Vec<String>>> {
    let mut lines = Vec::new();
    for batch in batches {
        let wanted = batch.num_rows().min(style.rows_max - lines.len());
        for row in 0..wanted {
            let mut line = Vec::with_capacity(batch.num_columns());
            for column in batch.columns() {
                let mut cell = String::new();
                push_cell(&mut cell, column, row, style.zone)?;
                line.push(shown(&cell, style.width_max));
            }
            lines.push(line);
        }
    }
    Ok(lines)
}

/// Makes control characters visible and cuts what is too long.
fn shown(text: &str, width_max: Option<usize>) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{c}' => out.push_str("\\f"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{7}' => out.push_str("\\a"),
            _ => out.push(c),
        }
    }
    match width_max {
        Some(max) if out.chars().count() > max => {
            let dots = if max < 4 { "" } else { "..." };
            out.chars().take(max - dots.len()).chain(dots.chars()).collect()
        }
        _ => out,
    }
}

fn widths(lines: &[Vec<String>]) -> Vec<usize> {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |i: usize| lines.iter().map(|line| width_of(&line[i])).max().unwrap_or(0);
    (0..columns).map(|i| width(i).max(WIDTH_MIN)).collect()
}

/// Columns on a terminal: East Asian wide characters take two.
fn width_of(text: &str) -> usize {
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

fn is_wide(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}' | '\u{fe10}'..='\u{fe19}' | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field};
    use std::sync::Arc;

    fn style(rows_max: usize, width_max: Option<usize>) -> TableStyle {
        TableStyle { rows_max, width_max, zone: Tz::UTC }
    }

    fn rows() -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("word", DataType::Utf8, true),
            Field::new("n", DataType::Int64, true),
        ]);
        let words = StringArray::from(vec![
            Some("日本"),
            None,
            Some("twenty-one characters"),
            Some("a\tb"),
        ]);
        let counts = Int64Array::from(vec![1, 20, 300, 4000]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(words), Arc::new(counts)]).unwrap()
    }

    #[test]
    fn cut_cells_lean_right() {
        let expected = "\
+--------------------+---+
|                word|  n|
+--------------------+---+
|                日本|  1|
|                NULL| 20|
|twenty-one charac...|300|
+--------------------+---+
only showing top 3 rows
";
        assert_eq!(draw(rows().schema_ref(), &[rows()], style(3, Some(20))).unwrap(), expected);
    }

    #[test]
    fn whole_cells_lean_left() {
        let expected = "\
+---------------------+----+
|word                 |n   |
+---------------------+----+
|日本                 |1   |
|NULL                 |20  |
|twenty-one characters|300 |
|a\\tb                 |4000|
+---------------------+----+
";
        assert_eq!(draw(rows().schema_ref(), &[rows()], style(20, None)).unwrap(), expected);
    }

    #[test]
    fn no_rows_and_no_columns_are_tables_too() {
        let empty = "+----+---+\n|word|  n|\n+----+---+\n+----+---+\n";
        assert_eq!(draw(rows().schema_ref(), &[], style(20, Some(20))).unwrap(), empty);
        assert_eq!(draw(&Schema::empty(), &[], style(20, Some(20))).unwrap(), "+\n|\n+\n+\n");
    }
}
