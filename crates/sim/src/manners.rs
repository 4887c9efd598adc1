//! How a process behaves, apart from what strikes it.

use crate::clock::VirtualClock;
use crate::fault::Fault;
use crate::rng::Rng;
use object_store::path::Path;

/// What a process does besides its calls.
#[derive(Debug)]
pub(crate) struct Manners {
    pub(crate) clock: Option<VirtualClock>,
    /// How long each call waits for its turn.
    pub(crate) turns: Option<Rng>,
    /// Whether the calls of a dead process answer with an error.
    pub(crate) refuse_when_dead: bool,
    pub(crate) steps_max: u64,
    /// Below which folder reads are damaged, and below which listings are stale.
    pub(crate) damaged_below: Path,
    pub(crate) stale_below: Path,
}

impl Manners {
    /// The fault, if it strikes there.
    pub(crate) fn strike(&self, fault: Fault, path: &Path) -> Option<Fault> {
        let below = match fault {
            Fault::Flip | Fault::Cut => &self.damaged_below,
            Fault::Stale => &self.stale_below,
            _ => return Some(fault),
        };
        path.prefix_matches(below).then_some(fault)
    }
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            clock: None,
            turns: None,
            refuse_when_dead: false,
            steps_max: u64::MAX,
            damaged_below: Path::default(),
            stale_below: Path::default(),
        }
    }
}
