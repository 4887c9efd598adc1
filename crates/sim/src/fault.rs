//! What can go wrong at a step.

use crate::rng::Rng;

/// On which side of the effect a crash happens. `After` is the lost acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum When {
    /// The effect did not happen.
    Before,
    /// The effect happened; nobody was told.
    After,
}

/// The I/O step at which a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CrashAt {
    /// Counting from 0.
    pub step: u64,
    /// Before or after the effect.
    pub when: When,
}

impl CrashAt {
    /// Every crash point of a run that takes `steps` steps.
    pub fn each(steps: u64) -> impl Iterator<Item = Self> {
        (0..steps).flat_map(|step| [When::Before, When::After].map(|when| Self { step, when }))
    }
}

/// An error in place of an answer. The process lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The store was not reached: no effect, a transient error.
    Unavailable,
    /// The effect happened, then the connection broke: a transient error.
    LostAck,
    /// "Already exists" although nothing was written: S3's answer to two requests at once.
    /// Calls other than a conditional put get [`Fault::Unavailable`].
    Conflict,
    /// The answer comes a minute late by the process's clock, if it has one, and after everybody
    /// else had many turns. The effect happens at the end of the wait.
    Slow,
    /// The disk is full: from here on no write of this process takes effect, each is refused.
    /// Reads and deletes go on.
    Full,
    /// A read gives one byte with one bit flipped. Other calls are not affected.
    Flip,
    /// A read gives only the first half of the bytes. Other calls are not affected.
    Cut,
    /// A listing lacks what was written last, as of a store that lists with a delay. Other calls
    /// are not affected.
    Stale,
}

impl Fault {
    /// Each fault that a retry of the same call gets over: no store is free of them.
    pub const ALL: [Self; 3] = [Self::Unavailable, Self::LostAck, Self::Conflict];

    /// Each fault there is. A program may answer the last three with an error; what it must not do
    /// is to go on with wrong bytes.
    pub const EVERY: [Self; 8] = [
        Self::Unavailable,
        Self::LostAck,
        Self::Conflict,
        Self::Slow,
        Self::Full,
        Self::Flip,
        Self::Cut,
        Self::Stale,
    ];
}

/// Faults at random steps.
#[derive(Debug, Clone)]
pub struct Flaky {
    /// Decides when and which.
    pub rng: Rng,
    /// How many of a hundred steps fail.
    pub percent: u64,
}

impl Flaky {
    /// Lets `percent` of a hundred steps fail.
    pub fn new(seed: u64, percent: u64) -> Self {
        Self { rng: Rng::new(seed), percent }
    }

    pub(crate) fn draw(&mut self) -> Option<Fault> {
        self.rng.chance(self.percent).then(|| Fault::ALL[self.rng.index(Fault::ALL.len())])
    }
}
