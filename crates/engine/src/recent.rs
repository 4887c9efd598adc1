//! The newest reports of a query: a ring that is bounded by number and by size.

use std::collections::VecDeque;
use std::io;

/// How many reports, and how many warnings, a query keeps.
pub(crate) const RECENT_MAX: usize = 100;

/// How many bytes of reports a query keeps: offsets of a source with many partitions are long.
const RECENT_BYTES_MAX: usize = 4 << 20;

/// The newest items, as many as there is room for, and the newest one in any case.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    items: VecDeque<(usize, T)>,
    bytes: usize,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Recent<T> {
    /// Adds an item of a size, and lets old ones go.
    pub(crate) fn push(&mut self, bytes: usize, item: T) {
        self.items.push_back((bytes, item));
        self.bytes += bytes;
        while self.items.len() > RECENT_MAX
            || (self.bytes > RECENT_BYTES_MAX && self.items.len() > 1)
        {
            let oldest = self.items.pop_front().map_or(0, |(bytes, _)| bytes);
            self.bytes -= oldest;
        }
    }

    /// The newest one.
    pub(crate) fn last(&self) -> Option<&T> {
        self.items.back().map(|(_, item)| item)
    }

    /// All, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|(_, item)| item)
    }
}

/// How long a value is as JSON.
pub(crate) fn json_bytes(value: &impl serde::Serialize) -> usize {
    let mut count = Count(0);
    // Nothing is written anywhere; a value that cannot be written counts as far as it got.
    match serde_json::to_writer(&mut count, value) {
        Ok(()) | Err(_) => count.0,
    }
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_items_go_by_number_and_by_size() {
        let mut recent = Recent::default();
        for i in 0..RECENT_MAX + 5 {
            recent.push(1, i);
        }
        assert_eq!(recent.iter().count(), RECENT_MAX);
        assert_eq!(recent.iter().next(), Some(&5));
        recent.push(RECENT_BYTES_MAX - 2, 1000);
        assert_eq!(recent.iter().copied().collect::<Vec<_>>(), [103, 104, 1000]);
        recent.push(RECENT_BYTES_MAX * 2, 1001);
        assert_eq!(recent.iter().copied().collect::<Vec<_>>(), [1001], "the newest stays");
        assert_eq!(recent.last(), Some(&1001));
    }

    #[test]
    fn the_size_is_that_of_the_json() {
        assert_eq!(json_bytes(&serde_json::json!({"a": [1, 2]})), r#"{"a":[1,2]}"#.len());
    }
}
