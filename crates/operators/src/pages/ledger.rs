//! Ledgers: what pages a key group has, and when their rows leave.
//!
//! Rows that come in one batch and are of one stretch of time make a *block*: some pages, and the
//! times of their rows in the same order. A ledger has what must be known of each block to find
//! rows by key and time and to count those that leave, without looking into its pages.

use super::page::{open, opened};
use fluvial_core::{Error, Result};
use fluvial_state::varint;

/// The shortest stretch of time of a block, as a power of two of microseconds: a second.
const BITS_MIN: u8 = 20;
/// Where nothing says how long rows wait: a minute.
const BITS_DEFAULT: u8 = 26;
/// The longest: two sides of the epoch.
pub(crate) const BITS_MAX: u8 = 62;
/// With every so many blocks, stretches are twice as long: a ledger is read and written whole.
pub(crate) const BLOCKS: usize = 64;

/// Blocks of one stretch of time and similar size are put together when there are so many, with
/// the one that comes.
const FAN: usize = 4;
/// Larger ones stay as they are.
const MERGED_MAX: u32 = 1 << 18;

/// How much of a time is not the stretch that it is in, where `span` is how far apart rows can be
/// that match: few stretches are in reach of a row, and most of what has expired is dropped.
pub(crate) fn stretch(span: Option<i64>, blocks: usize) -> u8 {
    let bits = match span.filter(|span| *span > 0) {
        Some(span) => (span as u64 / 2).checked_ilog2().map_or(BITS_MIN, |bits| bits as u8),
        None => BITS_DEFAULT,
    };
    let wider = u8::try_from(blocks / BLOCKS).unwrap_or(BITS_MAX);
    bits.max(BITS_MIN).saturating_add(wider).min(BITS_MAX)
}

/// Rows of one stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) number: u64,
    /// Its rows have times that differ in so many low bits at most; `None`: its rows have no time.
    pub(crate) bits: Option<u8>,
    pub(crate) rows: u32,
    /// The least time.
    pub(crate) first: i64,
    /// The greatest.
    pub(crate) last: i64,
    /// How many rows have left: those with a time of `until` or before.
    pub(crate) gone: u32,
    pub(crate) until: i64,
    /// The first tag of each page.
    pub(crate) tags: Vec<u32>,
}

impl Block {
    /// Up to which time its rows have left.
    pub(crate) fn left_until(&self) -> Option<i64> {
        (self.gone > 0).then_some(self.until)
    }

    /// Whether all rows have left once those until `until` have.
    pub(crate) fn is_over(&self, until: Option<i64>) -> bool {
        self.bits.is_some() && until.is_some_and(|until| self.last <= until)
    }

    /// Whether some rows leave, and others stay.
    pub(crate) fn is_cut(&self, until: Option<i64>) -> bool {
        let cuts = |until: i64| {
            let more = self.left_until().is_none_or(|before| before < until);
            more && self.first <= until && until < self.last
        };
        self.bits.is_some() && until.is_some_and(cuts)
    }

    /// Whether it may have rows with a time of `window`; of none, if there is none.
    pub(crate) fn may_have(&self, window: Option<(i64, i64)>) -> bool {
        let Some((from, to)) = window else { return true };
        let first = self.left_until().map_or(self.first, |until| until.saturating_add(1));
        self.bits.is_some() && first <= to && from <= self.last
    }

    /// The pages that may have rows with this tag.
    pub(crate) fn pages(&self, tag: u32) -> std::ops::Range<usize> {
        // Rows of a tag may begin in the page before the first that begins with it.
        let start = self.tags.partition_point(|first| *first < tag).saturating_sub(1);
        start..self.tags.partition_point(|first| *first <= tag).max(start)
    }

    fn is_of(&self, bits: Option<u8>, time: i64) -> bool {
        let stretch = |bits: u8| self.first >> bits == time >> bits;
        self.bits == bits && bits.is_none_or(stretch)
    }
}

/// The blocks of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ledger {
    /// The number of the next block.
    pub(crate) next: u64,
    pub(crate) blocks: Vec<Block>,
}

fn tier(rows: u32) -> u32 {
    rows.max(1).ilog2() / FAN.ilog2()
}

impl Ledger {
    /// The blocks that rows of one stretch should be put together with, `rows` rows around `time`:
    /// as in a log-structured tree, so that a row is written a few times and is found in a few
    /// places. Those that are over are none.
    pub(crate) fn to_merge(
        &self,
        bits: Option<u8>,
        time: i64,
        rows: u32,
        until: Option<i64>,
    ) -> Vec<usize> {
        let of_it = |at: &usize| {
            let block = &self.blocks[*at];
            block.is_of(bits, time) && !block.is_over(until)
        };
        let mut others: Vec<usize> = (0..self.blocks.len()).filter(of_it).collect();
        let (mut all, mut merged) = (rows, Vec::new());
        loop {
            let own = tier(all);
            let is_small = |at: &usize| tier(self.blocks[*at].rows) <= own;
            let small: Vec<usize> = others.iter().copied().filter(is_small).collect();
            let sum = small.iter().fold(all, |sum, at| sum.saturating_add(self.blocks[*at].rows));
            if small.len() + 1 < FAN || sum > MERGED_MAX {
                merged.sort_unstable();
                return merged;
            }
            others.retain(|at| !is_small(at));
            merged.extend(small);
            all = sum;
        }
    }

    /// A block by its number.
    pub(crate) fn block(&self, number: u64) -> Result<&Block> {
        let block = self.blocks.iter().find(|known| known.number == number);
        block.ok_or_else(|| Error::corrupt("a page of stored rows is of no block of its ledger"))
    }

    /// How many rows there are that have not left.
    pub(crate) fn rows(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.rows - block.gone)).sum()
    }

    /// Writes it.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        open(out);
        varint::put(out, self.next);
        varint::put(out, self.blocks.len() as u64);
        for block in &self.blocks {
            varint::put(out, block.number);
            out.push(block.bits.unwrap_or(u8::MAX));
            varint::put(out, u64::from(block.rows));
            varint::put(out, u64::from(block.gone));
            out.extend_from_slice(&block.first.to_le_bytes());
            varint::put(out, block.last.wrapping_sub(block.first) as u64);
            if block.gone > 0 {
                out.extend_from_slice(&block.until.to_le_bytes());
            }
            varint::put(out, block.tags.len() as u64);
            block.tags.iter().for_each(|tag| out.extend_from_slice(&tag.to_le_bytes()));
        }
    }

    /// Reads one.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let rest = opened(bytes, "a ledger")?;
        Self::parse(rest).ok_or_else(|| Error::corrupt("a ledger of stored rows is damaged"))
    }

    fn parse(mut rest: &[u8]) -> Option<Self> {
        let next = varint::take(&mut rest)?;
        let count = usize::try_from(varint::take(&mut rest)?).ok()?;
        let mut blocks = Vec::new();
        for _ in 0..count {
            blocks.push(parse_block(&mut rest).filter(|block| block.number < next)?);
        }
        rest.is_empty().then_some(Self { next, blocks })
    }
}

fn parse_block(rest: &mut &[u8]) -> Option<Block> {
    let number = varint::take(rest)?;
    let (bits, after) = rest.split_first()?;
    *rest = after;
    let bits = match *bits {
        u8::MAX => None,
        bits if bits <= BITS_MAX => Some(bits),
        _ => return None,
    };
    let rows = u32::try_from(varint::take(rest)?).ok()?;
    let gone = u32::try_from(varint::take(rest)?).ok().filter(|gone| *gone <= rows)?;
    let first = take_time(rest)?;
    let last = first.wrapping_add(varint::take(rest)? as i64);
    let until = if gone > 0 { take_time(rest)? } else { i64::MIN };
    let pages = usize::try_from(varint::take(rest)?).ok()?;
    let (tags, after) = rest.split_at_checked(pages.checked_mul(4)?)?;
    *rest = after;
    let tags = tags.as_chunks::<4>().0.iter().map(|tag| u32::from_le_bytes(*tag)).collect();
    Some(Block { number, bits, rows, first, last, gone, until, tags })
}

fn take_time(rest: &mut &[u8]) -> Option<i64> {
    let (time, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(i64::from_le_bytes(*time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64, rows: u32, first: i64) -> Block {
        let (bits, last) = (Some(BITS_MIN), first + 10);
        Block { number, bits, rows, first, last, gone: 0, until: i64::MIN, tags: vec![0, 7, 7, 9] }
    }

    #[test]
    fn it_comes_back_and_cuts_are_noticed() {
        let cut = Block { gone: 2, until: -3, ..block(1, 3, -5) };
        let timeless = Block { bits: None, first: 0, last: 0, ..block(300, 1, 0) };
        let wide = Block { first: i64::MIN, last: i64::MAX, ..block(2, 2, 0) };
        let ledger = Ledger { next: 301, blocks: vec![cut, wide, timeless] };
        let mut bytes = Vec::new();
        ledger.write(&mut bytes);
        assert_eq!(Ledger::read(&bytes).unwrap(), ledger);
        for length in 0..bytes.len() {
            assert!(Ledger::read(&bytes[..length]).is_err(), "{length} bytes");
        }
        bytes.push(0);
        assert!(Ledger::read(&bytes).is_err());
    }

    #[test]
    fn pages_are_found_by_tag() {
        let block = block(0, 5, 0);
        let found = [0, 1, 7, 8, 9, 10].map(|tag| block.pages(tag));
        assert_eq!(found, [0..1, 0..1, 0..3, 2..3, 2..4, 3..4]);
        let later = Block { tags: vec![5], ..block };
        assert_eq!(later.pages(4), 0..0);
    }

    #[test]
    fn blocks_leave_whole_or_in_part() {
        let mut block = block(0, 5, 100);
        assert_eq!((block.is_over(Some(109)), block.is_cut(Some(109))), (false, true));
        assert_eq!((block.is_over(Some(110)), block.is_cut(Some(110))), (true, false));
        assert!(!block.is_cut(Some(99)) && !block.is_cut(None) && !block.is_over(None));
        (block.gone, block.until) = (1, 105);
        assert!(!block.is_cut(Some(105)) && block.is_cut(Some(106)));
        assert!(block.may_have(None) && block.may_have(Some((0, 106))));
        assert!(!block.may_have(Some((111, 200))) && !block.may_have(Some((0, 105))));
    }

    #[test]
    fn many_small_blocks_become_few() {
        let mut ledger = Ledger::default();
        let mut written = 0;
        for number in 0..1000 {
            let merged = ledger.to_merge(Some(BITS_MIN), 5, 1, None);
            let rows = 1 + merged.iter().map(|at| ledger.blocks[*at].rows).sum::<u32>();
            for at in merged.iter().rev() {
                ledger.blocks.remove(*at);
            }
            ledger.blocks.push(block(number, rows, 5));
            written += rows;
        }
        assert!(ledger.blocks.len() <= 15, "{} blocks", ledger.blocks.len());
        assert!(written <= 6000, "{written} rows written");
        assert!(ledger.to_merge(Some(BITS_MIN), 1 << 30, 1, None).is_empty(), "another stretch");
        assert!(ledger.to_merge(None, 5, 1, None).is_empty(), "without times");
        assert!(ledger.to_merge(Some(BITS_MIN), 5, 1, Some(15)).is_empty(), "all over");
    }

    #[test]
    fn stretches_are_half_of_what_matches() {
        assert_eq!(stretch(Some(600_000_000), 0), 28);
        assert_eq!(stretch(Some(600_000_000), 2 * BLOCKS), 30);
        assert_eq!((stretch(Some(1), 0), stretch(None, 0)), (BITS_MIN, BITS_DEFAULT));
        assert_eq!(stretch(Some(i64::MAX), 1 << 20), BITS_MAX);
    }
}
