//! What arrives for a query, over time.

use bytes::Bytes;
use fluvial::arrow::array::RecordBatch;

/// Input in waves. Each is there when the runs of its wave begin; a later one arrives while the
/// query is down.
#[derive(Debug, Clone, Default)]
pub struct Input {
    pub(crate) waves: Vec<Wave>,
    /// How many of the last waves are worked off in peace.
    pub(crate) quiet: usize,
}

/// What arrives at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wave {
    pub(crate) files: Vec<(String, Bytes)>,
    pub(crate) rows: Vec<(String, RecordBatch)>,
}

impl Input {
    /// One wave, empty so far.
    pub fn new() -> Self {
        Self { waves: vec![Wave::default()], quiet: 0 }
    }

    fn last(&mut self) -> &mut Wave {
        if self.waves.is_empty() {
            self.waves.push(Wave::default());
        }
        let last = self.waves.len() - 1;
        &mut self.waves[last]
    }

    /// A file of the present wave. The query sees `in/0.json` as `sim://world/in/0.json`.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        self.last().files.push((path.into(), bytes.into()));
        self
    }

    /// Rows of the present wave, for [`Start::rows`](crate::Start::rows) with the same name.
    #[must_use]
    pub fn rows(mut self, name: impl Into<String>, rows: RecordBatch) -> Self {
        self.last().rows.push((name.into(), rows));
        self
    }

    /// Goes on to a wave that nothing disturbs: the last ones, hours apart, file by file. Then what
    /// is left over is accounted for object by object. Three files in each of two such waves let
    /// cleaning come to its end.
    #[must_use]
    pub fn then_quietly(mut self) -> Self {
        self.quiet += 1;
        self.then()
    }

    /// Whether nothing disturbs the wave.
    pub(crate) fn is_quiet(&self, wave: usize) -> bool {
        self.quiet > 0 && wave + self.quiet >= self.waves.len()
    }

    /// Goes on to the next wave.
    #[must_use]
    pub fn then(mut self) -> Self {
        self.waves.push(Wave::default());
        self
    }

    /// Smaller inputs, the smallest steps last: without a file, without some rows, without half of
    /// the lines of a file.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for (wave, arrives) in self.waves.iter().enumerate() {
            for file in 0..arrives.files.len() {
                let mut input = self.clone();
                input.waves[wave].files.remove(file);
                all.push(input);
            }
            // A source needs rows to have a schema.
            for rows in 1..arrives.rows.len() {
                let mut input = self.clone();
                input.waves[wave].rows.remove(rows);
                all.push(input);
            }
        }
        for (wave, arrives) in self.waves.iter().enumerate() {
            for (file, (_, bytes)) in arrives.files.iter().enumerate() {
                let Ok(text) = std::str::from_utf8(bytes) else { continue };
                let lines: Vec<&str> = text.split_inclusive('\n').collect();
                if lines.len() < 2 {
                    continue;
                }
                let (first, second) = lines.split_at(lines.len() / 2);
                for half in [first, second] {
                    let mut input = self.clone();
                    input.waves[wave].files[file].1 = Bytes::from(half.concat());
                    all.push(input);
                }
            }
        }
        all
    }

    /// How much there is: files, pieces of rows and lines.
    pub(crate) fn size(&self) -> usize {
        let of = |wave: &Wave| {
            let lines = wave.files.iter().map(|(_, b)| b.iter().filter(|b| **b == b'\n').count());
            wave.files.len() + wave.rows.len() + lines.sum::<usize>()
        };
        self.waves.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_smaller_input_is_smaller() {
        let input = Input::new().file("a", "1\n2\n3\n").then().file("b", "4\n").file("c", "5\n");
        let smaller = input.smaller();
        assert_eq!(smaller.len(), 3 + 2);
        assert!(smaller.iter().all(|input_| input_.size() < input.size()));
    }
}
