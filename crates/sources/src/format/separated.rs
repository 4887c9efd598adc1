//! Records that end with a text of the user's (`lineSep`), and files that are one record.

use super::lines::{DecodeLine, Lines};
use super::{Batches, Decode};
use fluvial_core::{Options, Result};
use memchr::memmem::Finder;

/// Takes `lineSep` out.
pub(crate) fn take_separator(options: &mut Options) -> Result<Option<String>> {
    let Some(text) = options.take("lineSep") else { return Ok(None) };
    if text.is_empty() {
        return Err(Options::invalid_value("lineSep", &text, "one or more characters"));
    }
    // The usual ends of lines are found by the usual reader.
    Ok((text != "\n").then_some(text))
}

/// Cuts a file at each separator; without one, not at all.
pub(crate) struct Separated<D> {
    lines: Lines<D>,
    separator: Option<Finder<'static>>,
    /// What is not a whole record yet.
    open: Vec<u8>,
    /// No separator begins in so many bytes of `open`.
    searched: usize,
}

impl<D: DecodeLine> Separated<D> {
    /// Records that end with `separator`; `place` names the file in messages.
    pub(crate) fn new(decoder: D, separator: &str, place: String) -> Self {
        let separator = Some(Finder::new(separator).into_owned());
        Self { separator, ..Self::whole(decoder, place) }
    }

    /// The file as one record, unless it has no bytes.
    pub(crate) fn whole(decoder: D, place: String) -> Self {
        let lines = Lines::new(decoder, place);
        Self { lines, separator: None, open: Vec::new(), searched: 0 }
    }
}

impl<D: DecodeLine> Decode for Separated<D> {
    fn feed(&mut self, chunk: &[u8], out: &mut Batches) -> Result<()> {
        self.lines.check_length(self.open.len() + chunk.len())?;
        self.open.extend_from_slice(chunk);
        let Some(separator) = &self.separator else { return Ok(()) };
        let length = separator.needle().len();
        let (mut start, mut record) = (0, Vec::new());
        while let Some(at) = separator.find(&self.open[self.searched.max(start)..]) {
            let end = self.searched.max(start) + at;
            record.extend_from_slice(&self.open[start..end]);
            self.lines.whole_record(&mut record, out)?;
            start = end + length;
            self.searched = start;
        }
        self.open.drain(..start);
        self.searched = (self.open.len() + 1).saturating_sub(length);
        Ok(())
    }

    fn end(&mut self, out: &mut Batches) -> Result<()> {
        if !self.open.is_empty() {
            let mut record = std::mem::take(&mut self.open);
            self.lines.whole_record(&mut record, out)?;
        }
        self.lines.end(out)
    }

    fn interrupt(&mut self, out: &mut Batches) -> Result<()> {
        self.open.clear();
        self.lines.interrupt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use std::sync::{Arc, Mutex};

    #[derive(Default, Clone)]
    struct Collect(Arc<Mutex<Vec<String>>>);

    impl DecodeLine for Collect {
        fn line(&mut self, line: &str, _number: u64) -> Result<()> {
            self.0.lock().unwrap().push(line.to_owned());
            Ok(())
        }
        fn rows(&self) -> usize {
            0
        }
        fn flush(&mut self) -> Result<RecordBatch> {
            let none: ArrayRef = Arc::new(StringArray::new_null(0));
            Ok(RecordBatch::try_from_iter([("line", none)])?)
        }
    }

    fn cut(separator: Option<&str>, file: &str, chunk: usize) -> Vec<String> {
        let (found, place) = (Collect::default(), "f".to_owned());
        let decoder = found.clone();
        let mut records = match separator {
            Some(separator) => Separated::new(decoder, separator, place),
            None => Separated::whole(decoder, place),
        };
        let mut out = Batches::new();
        file.as_bytes().chunks(chunk).for_each(|c| records.feed(c, &mut out).unwrap());
        records.end(&mut out).unwrap();
        found.0.lock().unwrap().clone()
    }

    #[test]
    fn records_end_where_spark_ends_them_however_the_file_is_cut() {
        for chunk in 1..12 {
            assert_eq!(cut(Some("|"), "a|b\n|c|", chunk), ["a", "b\n", "c"]);
            assert_eq!(cut(Some("||"), "a||b||||c", chunk), ["a", "b", "", "c"]);
            assert_eq!(cut(Some(";"), "\u{feff}1,x;2\r", chunk), ["1,x", "2\r"]);
            assert_eq!(cut(Some("aab"), "xaaabyaab", chunk), ["xa", "y"]);
            assert_eq!(cut(None, "\u{feff}a\r\nb\n", chunk), ["a\r\nb\n"]);
            assert!(cut(None, "", chunk).is_empty());
        }
    }
}
