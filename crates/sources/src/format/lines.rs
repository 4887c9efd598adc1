//! Chunks of bytes into lines of text.
//!
//! Lines end with LF, CR LF or CR. A byte order mark at the start is skipped. Bytes that are not
//! UTF-8 become U+FFFD, as in Spark. How the bytes are cut into chunks has no effect.

use super::{Batches, Decode};
use crate::BATCH_ROWS;
use crate::column::MAX_BYTES;
use arrow::array::RecordBatch;
use fluvial_core::{Error, Result};
use memchr::{memchr, memchr_iter, memrchr};
use std::borrow::Cow;

/// Makes rows of lines.
pub(crate) trait DecodeLine: Send {
    /// Takes the line with this number, counted from 1, without its end.
    fn line(&mut self, line: &str, number: u64) -> Result<()>;

    /// How many rows are waiting.
    fn rows(&self) -> usize;

    /// The rows that are waiting.
    fn flush(&mut self) -> Result<RecordBatch>;
}

/// Longer lines are refused: they must fit into memory, and into one column.
const MAX_LINE: usize = 1 << 29;

/// Rows are flushed when so many bytes were read for them.
const BATCH_BYTES: usize = 1 << 26;

const _: () = assert!(MAX_LINE + BATCH_BYTES < MAX_BYTES / 2);

/// Cuts a file into lines.
pub(crate) struct Lines<D> {
    decoder: D,
    place: String,
    /// The line that is not complete yet.
    open: Vec<u8>,
    /// Whether the first bytes were looked at.
    started: bool,
    number: u64,
    /// Bytes read for the rows that are waiting.
    bytes: usize,
}

impl<D: DecodeLine> Lines<D> {
    /// `place` names the file in messages.
    pub(crate) fn new(decoder: D, place: String) -> Self {
        Self { decoder, place, open: Vec::new(), started: false, number: 0, bytes: 0 }
    }

    /// Refuses a line of so many bytes, if it is too long.
    pub(crate) fn check_length(&self, bytes: usize) -> Result<()> {
        if bytes <= MAX_LINE {
            return Ok(());
        }
        let number = self.number + 1;
        Err(Error::invalid(format!("{}, line {number}: longer than {MAX_LINE} bytes", self.place))
            .with_condition("LINE_TOO_LONG"))
    }

    fn push_open(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_length(self.open.len() + bytes.len())?;
        self.open.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes a record that may have line ends in it and ended with one, and empties it.
    pub(crate) fn record(&mut self, record: &mut Vec<u8>, out: &mut Batches) -> Result<()> {
        record.pop_if(|last| *last == b'\r');
        self.whole_record(record, out)
    }

    /// Takes a record as it is, and empties it.
    pub(crate) fn whole_record(&mut self, record: &mut Vec<u8>, out: &mut Batches) -> Result<()> {
        if !self.started {
            std::mem::swap(&mut self.open, record);
            self.start(true)?;
            std::mem::swap(&mut self.open, record);
        }
        self.check_length(record.len())?;
        let text = String::from_utf8_lossy(record);
        self.row(&text, out)?;
        record.clear();
        Ok(())
    }

    /// Takes the open line, which has ended.
    fn close(&mut self, out: &mut Batches) -> Result<()> {
        let line = std::mem::take(&mut self.open);
        self.region(&line, out)?;
        self.open = line;
        self.open.clear();
        Ok(())
    }

    /// Takes whole lines; the last one may have its end or not.
    fn region(&mut self, region: &[u8], out: &mut Batches) -> Result<()> {
        let text = match std::str::from_utf8(region) {
            Ok(text) => Cow::Borrowed(text),
            // Replacing is done line by line, so that it cannot depend on the chunks.
            Err(_) => Cow::Owned(lossy(region)),
        };
        let returns = memchr(b'\r', text.as_bytes()).is_some();
        let mut start = 0;
        for end in memchr_iter(b'\n', text.as_bytes()) {
            self.line(&text[start..end], returns, out)?;
            start = end + 1;
        }
        if start < text.len() {
            self.line(&text[start..], returns, out)?;
        }
        Ok(())
    }

    #[inline]
    fn line(&mut self, line: &str, returns: bool, out: &mut Batches) -> Result<()> {
        if !returns {
            return self.row(line, out);
        }
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.split('\r').try_for_each(|line| self.row(line, out))
    }

    #[inline]
    fn row(&mut self, line: &str, out: &mut Batches) -> Result<()> {
        self.number += 1;
        self.bytes += line.len();
        self.decoder.line(line, self.number)?;
        if self.decoder.rows() >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            self.flush(out)?;
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Batches) -> Result<()> {
        self.bytes = 0;
        if self.decoder.rows() > 0 {
            out.push_back(self.decoder.flush()?);
        }
        Ok(())
    }

    /// Looks at the first bytes of the file, once there are enough.
    fn start(&mut self, last: bool) -> Result<()> {
        if self.started || (self.open.len() < 3 && !last) {
            return Ok(());
        }
        self.started = true;
        match self.open.as_slice() {
            [0xef, 0xbb, 0xbf, ..] => drop(self.open.drain(..3)),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                return Err(Error::invalid(format!(
                    "{} is UTF-16: set the option encoding to UTF-16",
                    self.place
                ))
                .with_condition("UNSUPPORTED_ENCODING"));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Each line with replacements for what is not UTF-8.
fn lossy(region: &[u8]) -> String {
    let lines: Vec<_> = region.split(|b| *b == b'\n').map(String::from_utf8_lossy).collect();
    lines.join("\n")
}

impl<D: DecodeLine> Decode for Lines<D> {
    fn feed(&mut self, mut chunk: &[u8], out: &mut Batches) -> Result<()> {
        if !self.started {
            let (head, tail) = chunk.split_at(chunk.len().min(3));
            self.push_open(head)?;
            self.start(false)?;
            chunk = tail;
            if self.started && memchr(b'\n', &self.open).is_some() {
                // Up to three bytes, with line ends in them.
                let head = std::mem::take(&mut self.open);
                self.feed(&head, out)?;
            }
        }
        let Some(last) = memrchr(b'\n', chunk) else { return self.push_open(chunk) };
        let (mut whole, rest) = chunk.split_at(last + 1);
        if !self.open.is_empty() {
            let first = memchr(b'\n', whole).map_or(whole.len(), |at| at + 1);
            self.push_open(&whole[..first])?;
            whole = &whole[first..];
            self.close(out)?;
        }
        self.region(whole, out)?;
        self.push_open(rest)
    }

    fn end(&mut self, out: &mut Batches) -> Result<()> {
        self.start(true)?;
        if !self.open.is_empty() {
            self.close(out)?;
        }
        self.flush(out)
    }

    fn interrupt(&mut self, out: &mut Batches) -> Result<()> {
        self.open.clear();
        self.flush(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, StringArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    #[derive(Default)]
    struct Collect(Vec<String>);

    impl DecodeLine for Collect {
        fn line(&mut self, line: &str, number: u64) -> Result<()> {
            self.0.push(format!("{number}:{line}"));
            Ok(())
        }
        fn rows(&self) -> usize {
            self.0.len()
        }
        fn flush(&mut self) -> Result<RecordBatch> {
            let column: ArrayRef = Arc::new(StringArray::from(std::mem::take(&mut self.0)));
            Ok(RecordBatch::try_from_iter([("line", column)])?)
        }
    }

    fn lines(file: &[u8], chunk: usize) -> Result<Vec<String>> {
        let mut lines = Lines::new(Collect::default(), "f".into());
        let mut out = Batches::new();
        file.chunks(chunk).try_for_each(|chunk| lines.feed(chunk, &mut out))?;
        lines.end(&mut out)?;
        let mut all = Vec::new();
        for batch in &out {
            let column = batch.column(0).as_any().downcast_ref::<StringArray>().unwrap();
            all.extend(column.iter().flatten().map(str::to_owned));
        }
        Ok(all)
    }

    /// Trap F7.
    #[test]
    fn every_line_end_counts_and_the_last_may_be_missing() {
        for file in ["a\nb\nc\n", "a\r\nb\r\nc\r\n", "\u{feff}a\r\nb\nc", "a\rb\rc\r", "a\rb\nc"] {
            for chunk in 1..=16 {
                let found = lines(file.as_bytes(), chunk).unwrap();
                assert_eq!(found, ["1:a", "2:b", "3:c"], "{file:?} {chunk}");
            }
        }
        assert_eq!(lines(b"a\n\n\nb", 1).unwrap(), ["1:a", "2:", "3:", "4:b"]);
        assert_eq!(lines(b"\n", 1).unwrap(), ["1:"]);
        assert!(lines(b"", 1).unwrap().is_empty());
        assert!(lines("\u{feff}".as_bytes(), 1).unwrap().is_empty());
    }

    /// Trap F7.
    #[test]
    fn utf_16_is_refused() {
        for file in [b"\xff\xfea\0".as_slice(), b"\xfe\xff", b"\xff\xfe"] {
            let error = lines(file, 1).unwrap_err();
            assert_eq!(error.condition(), Some("UNSUPPORTED_ENCODING"));
        }
    }

    #[test]
    fn what_is_not_utf_8_is_replaced() {
        assert_eq!(lines(b"\xc3\n\xa9b\nc", 64).unwrap(), ["1:\u{fffd}", "2:\u{fffd}b", "3:c"]);
    }

    proptest! {
        #[test]
        fn chunks_have_no_effect(
            file in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(0xc3), Just(0xa9), Just(b'a')], 0..40),
            chunk in 1usize..20,
        ) {
            prop_assert_eq!(lines(&file, chunk).unwrap(), lines(&file, 1000).unwrap());
        }
    }
}
