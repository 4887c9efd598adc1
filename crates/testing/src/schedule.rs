//! What happens to a query: which processes work on it, and what strikes them.

use fluvial_core::{Error, Result};
use fluvial_sim::{CrashAt, Fault, Rng, When};
use std::fmt;
use std::str::FromStr;

/// One run of the query, from its start to its end or death.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunPlan {
    /// State partitions of batches that it plans.
    pub partitions: u32,
    /// How many files a batch takes.
    pub limit: u64,
    /// Into how many parts DataFusion likes to cut a plan.
    pub target_partitions: usize,
    /// How many batches can be recovered from.
    pub retained: usize,
    /// Whether it runs one batch only.
    pub once: bool,
    /// Seed of the order in which its calls take effect.
    pub turns: u64,
    /// How far the wall clock jumps before it starts, in milliseconds.
    pub jump_ms: i64,
    /// Where it dies.
    pub crash: Option<CrashAt>,
    /// What its calls get for an answer, by step.
    pub faults: Vec<(u64, Fault)>,
    /// Whether it is a run of the changed query, which has to be refused: see
    /// [`Query::refuses`](crate::Query::refuses). Nothing runs where a query has no such, or has
    /// not begun.
    pub changed: bool,
}

impl RunPlan {
    /// A run that nothing happens to.
    pub fn clean() -> Self {
        Self {
            partitions: 2,
            limit: 2,
            target_partitions: 2,
            retained: 100,
            once: false,
            turns: 0,
            jump_ms: 0,
            crash: None,
            faults: Vec::new(),
            changed: false,
        }
    }
}

/// What became of the files that had arrived before a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OldFiles {
    /// They are there.
    #[default]
    There,
    /// What was read and committed is gone for good, as after a clean-up.
    Cleaned,
    /// All are gone, those that a plan names too, and come back after this life.
    Away,
}

/// Runs that begin at once, after a wave of input has arrived.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Life {
    /// Waves up to this one have arrived, counting from 0.
    pub wave: usize,
    /// What became of older input.
    pub old: OldFiles,
    /// The runs; more than one are rivals on one checkpoint.
    pub runs: Vec<RunPlan>,
}

impl Life {
    /// These runs, with all input.
    pub fn of(wave: usize, runs: Vec<RunPlan>) -> Self {
        Self { wave, old: OldFiles::There, runs }
    }

    /// One run without a fault.
    pub fn clean(wave: usize) -> Self {
        Self::of(wave, vec![RunPlan::clean()])
    }
}

/// The lives of a query, one after the other. After the last one runs without a fault work off
/// what is left.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Schedule {
    /// The lives.
    pub lives: Vec<Life>,
}

impl Schedule {
    /// A run for each wave, without a fault.
    pub fn clean(waves: usize) -> Self {
        Self { lives: (0..waves).map(Life::clean).collect() }
    }

    /// One fault-free run for each wave, with `run` for wave `wave`.
    pub fn with(wave: usize, run: RunPlan) -> Self {
        let mut lives: Vec<Life> = (0..wave).map(Life::clean).collect();
        lives.push(Life::of(wave, vec![run]));
        Self { lives }
    }

    /// The schedule of a seed. `steps` is how many steps a run of each wave takes; `free` says that
    /// batches may be cut in any way.
    pub fn of_seed(seed: u64, steps: &[u64], free: bool) -> Self {
        let mut rng = Rng::new(seed);
        let mut lives = Vec::new();
        for (wave, steps) in steps.iter().enumerate() {
            for _ in 0..rng.below(3) {
                let rivals = if rng.chance(25) { 1 + rng.below(2) } else { 0 };
                let runs = (0..=rivals).map(|_| random_run(&mut rng, *steps, free)).collect();
                let mut life = Life::of(wave, runs);
                life.old = match rng.below(20) {
                    0 => OldFiles::Away,
                    1 | 2 => OldFiles::Cleaned,
                    _ => OldFiles::There,
                };
                life.runs[0].changed = rivals == 0 && rng.chance(8);
                lives.push(life);
            }
            if !free || rng.chance(40) {
                let run = RunPlan {
                    crash: None,
                    faults: Vec::new(),
                    ..random_run(&mut rng, *steps, free)
                };
                lives.push(Life::of(wave, vec![RunPlan { once: false, ..run }]));
            }
        }
        Self { lives }
    }
}

/// Faults that any call may meet, and how often each is drawn.
const FAULTS: &[Fault] = &[
    Fault::Unavailable,
    Fault::LostAck,
    Fault::Conflict,
    Fault::Unavailable,
    Fault::LostAck,
    Fault::Slow,
    Fault::Slow,
    Fault::Full,
    Fault::Flip,
    Fault::Cut,
    Fault::Stale,
];

fn random_run(rng: &mut Rng, steps: u64, free: bool) -> RunPlan {
    let clean = RunPlan::clean();
    let steps = steps.max(1);
    let crash = rng.chance(70).then(|| {
        let when = if rng.chance(50) { When::Before } else { When::After };
        CrashAt { step: rng.below(steps + steps / 4 + 1), when }
    });
    let count = if rng.chance(50) { 0 } else { 1 + rng.below(3) };
    let faults = (0..count).map(|_| (rng.below(steps), FAULTS[rng.index(FAULTS.len())])).collect();
    RunPlan {
        partitions: 1 + rng.below(4) as u32,
        limit: if free { 1 + rng.below(4) } else { clean.limit },
        target_partitions: 1 + rng.index(4),
        retained: if rng.chance(50) { 2 } else { 100 },
        once: free && rng.chance(20),
        turns: rng.below(1_000_000),
        jump_ms: if rng.chance(30) { (rng.below(8) as i64 - 2) * 3_600_000 } else { 0 },
        crash,
        faults,
        changed: false,
    }
}

const LETTERS: [(char, Fault); 8] = [
    ('u', Fault::Unavailable),
    ('l', Fault::LostAck),
    ('c', Fault::Conflict),
    ('s', Fault::Slow),
    ('d', Fault::Full),
    ('f', Fault::Flip),
    ('h', Fault::Cut),
    ('o', Fault::Stale),
];

impl fmt::Display for RunPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p{}.l{}.d{}.k{}",
            self.partitions, self.limit, self.target_partitions, self.retained
        )?;
        write!(f, ".t{}.j{}", self.turns, self.jump_ms)?;
        if self.once {
            f.write_str(".1")?;
        }
        if self.changed {
            f.write_str(".x")?;
        }
        if let Some(crash) = self.crash {
            let when = if crash.when == When::Before { 'b' } else { 'a' };
            write!(f, ".c{}{when}", crash.step)?;
        }
        for (step, fault) in &self.faults {
            let letter = LETTERS.iter().find(|(_, known)| known == fault).map_or('u', |(l, _)| *l);
            write!(f, ".f{step}{letter}")?;
        }
        Ok(())
    }
}

impl FromStr for RunPlan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("{text:?} is not a run of a schedule"));
        let mut run = Self::clean();
        for word in text.split('.') {
            let rest = word.get(1..).unwrap_or_default();
            let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
            // A step and a letter.
            let marked = |text: &str| {
                let letter = text.chars().last().ok_or_else(wrong)?;
                let step = number(&text[..text.len() - letter.len_utf8()])?;
                Ok::<_, Error>((step, letter))
            };
            match word.chars().next() {
                Some('p') => run.partitions = u32::try_from(number(rest)?).map_err(|_| wrong())?,
                Some('l') => run.limit = number(rest)?,
                Some('d') => run.target_partitions = number(rest)? as usize,
                Some('k') => run.retained = number(rest)? as usize,
                Some('t') => run.turns = number(rest)?,
                Some('j') => run.jump_ms = rest.parse().map_err(|_| wrong())?,
                Some('1') => run.once = true,
                Some('x') if rest.is_empty() => run.changed = true,
                Some('c') => {
                    let (step, letter) = marked(rest)?;
                    let when = if letter == 'b' { When::Before } else { When::After };
                    run.crash = Some(CrashAt { step, when });
                }
                Some('f') => {
                    let (step, letter) = marked(rest)?;
                    let fault = LETTERS.iter().find(|(l, _)| *l == letter).ok_or_else(wrong)?.1;
                    run.faults.push((step, fault));
                }
                _ => return Err(wrong()),
            }
        }
        Ok(run)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, life) in self.lives.iter().enumerate() {
            let separator = if i == 0 { "" } else { "/" };
            let runs: Vec<String> = life.runs.iter().map(ToString::to_string).collect();
            let old = match life.old {
                OldFiles::There => "",
                OldFiles::Cleaned => "r",
                OldFiles::Away => "g",
            };
            write!(f, "{separator}{}{old}:{}", life.wave, runs.join("+"))?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let life = |text: &str| {
            let wrong = || Error::invalid(format!("{text:?} is not a part of a schedule"));
            let (wave, runs) = text.split_once(':').ok_or_else(wrong)?;
            let (wave, old) = match wave.chars().last() {
                Some('r') => (&wave[..wave.len() - 1], OldFiles::Cleaned),
                Some('g') => (&wave[..wave.len() - 1], OldFiles::Away),
                _ => (wave, OldFiles::There),
            };
            let wave = wave.parse().map_err(|_| wrong())?;
            let runs = runs.split('+').map(str::parse).collect::<Result<_>>()?;
            Ok(Life { wave, old, runs })
        };
        Ok(Self { lives: text.split('/').map(life).collect::<Result<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_back_as_it_is_written() {
        for seed in 0..200 {
            let schedule = Schedule::of_seed(seed, &[40, 30], seed % 2 == 0);
            assert_eq!(schedule.to_string().parse::<Schedule>().unwrap(), schedule);
        }
        assert!("0:p2.y".parse::<Schedule>().is_err());
        assert!("p2".parse::<Schedule>().is_err());
    }

    #[test]
    fn the_same_seed_gives_the_same_schedule_and_seeds_differ() {
        let of = |seed| Schedule::of_seed(seed, &[40, 30], true);
        assert_eq!(of(7), of(7));
        let all: std::collections::HashSet<_> = (0..100).map(of).collect();
        assert!(all.len() > 80);
    }
}
