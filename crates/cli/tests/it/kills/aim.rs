//! When to kill.

use super::place::Snapshot;
use crate::program::Started;
use fluvial_sim::Rng;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// What a kill waits for, and how long after it the kill comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim {
    /// So many batches the process may commit first.
    commits: u64,
    event: Event,
    delay: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// The process is there.
    Start,
    /// A plan lies there without its commit.
    Plan,
    /// State of that batch, too.
    State,
    /// And the table has its rows.
    Table,
    /// Another batch is committed.
    Commit,
}

/// How a process ended.
pub(super) enum Ended {
    Killed,
    /// With an exit code and what it said.
    ByItself(i32, String),
}

impl Aim {
    pub(super) fn random(rng: &mut Rng) -> Self {
        let (event, delay_max) = match rng.below(10) {
            0 => (Event::Start, 400_000),
            1..5 => (Event::Plan, 60_000),
            5..7 => (Event::State, 20_000),
            7..9 => (Event::Table, 5_000),
            _ => (Event::Commit, 10_000),
        };
        Self { commits: rng.below(4), event, delay: Duration::from_micros(rng.below(delay_max)) }
    }

    /// Waits for the moment and kills, unless the process ends first.
    pub(super) fn strike(self, mut started: Started, folder: &Path) -> Ended {
        let before = Snapshot::of(folder);
        while !self.happened(&before, folder) {
            if started.child.try_wait().unwrap().is_some() {
                let (code, _, errors) = started.end();
                return Ended::ByItself(code, errors);
            }
            thread::sleep(Duration::from_micros(500));
        }
        thread::sleep(self.delay);
        // SIGKILL. A process that has ended cannot be killed, and that is seen below.
        started.child.kill().unwrap();
        match started.end() {
            (-1, _, _) => Ended::Killed,
            (code, _, errors) => Ended::ByItself(code, errors),
        }
    }

    fn happened(self, before: &Snapshot, folder: &Path) -> bool {
        if let Event::Start = self.event {
            return true;
        }
        let now = Snapshot::of(folder);
        let commits = now.commits() - before.commits();
        commits >= self.commits
            && match self.event {
                Event::Start => true,
                Event::Plan => now.plans() > now.commits(),
                Event::State => now.sealing_since(before).is_some(),
                Event::Table => now.is_published(),
                Event::Commit => commits > self.commits,
            }
    }
}
