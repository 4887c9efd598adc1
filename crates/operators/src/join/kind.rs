//! Kinds of joins, and the two sides of one.

use std::fmt;

/// What comes out of a join of two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// Pairs that match.
    Inner,
    /// Pairs, and left rows that never matched.
    Left,
    /// Pairs, and right rows that never matched.
    Right,
    /// Pairs, and rows of both sides that never matched.
    Full,
    /// Left rows that matched, once each.
    LeftSemi,
}

impl JoinKind {
    /// Whether rows of `side` that never matched come out, with nulls for the other side.
    pub fn preserves(self, side: Side) -> bool {
        match side {
            Side::Left => matches!(self, Self::Left | Self::Full),
            Side::Right => matches!(self, Self::Right | Self::Full),
        }
    }

    /// Whether a row of `side` must remember that it matched.
    pub(super) fn flags(self, side: Side) -> bool {
        self.preserves(side) || (self == Self::LeftSemi && side == Side::Left)
    }
}

impl fmt::Display for JoinKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inner => "inner",
            Self::Left => "left outer",
            Self::Right => "right outer",
            Self::Full => "full outer",
            Self::LeftSemi => "left semi",
        })
    }
}

/// One of the two inputs of a join: its port is its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Port 0.
    Left,
    /// Port 1.
    Right,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Left, Self::Right];

    pub(super) fn of_port(port: usize) -> Option<Self> {
        Self::BOTH.get(port).copied()
    }

    pub(super) fn index(self) -> usize {
        match self {
            Self::Left => 0,
            Self::Right => 1,
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "left",
            Self::Right => "right",
        })
    }
}
