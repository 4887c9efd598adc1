//! Which sessions are one.

/// A session to be merged: a stored one, or one that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    /// The number of its key.
    pub(super) key: usize,
    pub(super) start: i64,
    /// Its row: stored ones come before others that start at the same time.
    pub(super) row: usize,
    pub(super) end: i64,
}

/// A session that pieces became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) key: usize,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Merges pieces, in order, that overlap or touch: what begins exactly where another ends belongs
/// to it, as in Spark. Gives the sessions and, for each piece, the number of its session.
pub(super) fn merge(pieces: &[Piece]) -> (Vec<Merged>, Vec<usize>) {
    let mut sessions: Vec<Merged> = Vec::new();
    let mut numbers = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match sessions.last_mut() {
            Some(last) if last.key == piece.key && piece.start <= last.end => {
                last.end = last.end.max(piece.end);
            }
            _ => sessions.push(Merged { key: piece.key, start: piece.start, end: piece.end }),
        }
        numbers.push(sessions.len() - 1);
    }
    (sessions, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_or_touches_is_one() {
        let piece = |key, start, end| Piece { key, start, row: 0, end };
        let pieces = [
            piece(0, 0, 5),
            piece(0, 5, 7),
            piece(0, 6, 20),
            piece(0, 7, 8),
            piece(0, 21, 22),
            piece(1, 22, 23),
        ];
        let (sessions, numbers) = merge(&pieces);
        let expected = [(0, 0, 20), (0, 21, 22), (1, 22, 23)];
        let expected = expected.map(|(key, start, end)| Merged { key, start, end });
        assert_eq!(sessions, expected);
        assert_eq!(numbers, [0, 0, 0, 0, 1, 2]);
    }
}
