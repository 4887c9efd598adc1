//! One query for each kind of operator, of parts: no SQL, no plan of DataFusion, so that ten
//! thousand schedules of each kind on each state backend take minutes.
//!
//! Engine, operator, state, logs, file source and file sink are the real ones; the gallery runs the
//! same operators below DataFusion.

mod grouped;
mod joined;
mod keyed;
mod pieces;

pub(crate) use keyed::Tally;

use crate::backend::Backend;
use crate::gallery;
use crate::input::Input;
use crate::query::Query;
use fluvial_core::Result;

/// A kind of operator.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Whether it has state, and so a backend.
    pub stateful: bool,
    make: fn(&'static str) -> Result<Query>,
    input: fn() -> Input,
}

impl Kind {
    /// Its query on a backend, named after both, with its input. A restart with the other backend
    /// has to be refused; for what has no state, a restart as another kind.
    ///
    /// # Errors
    ///
    /// None: the parts fit together.
    pub fn query(&self, backend: Backend) -> Result<(Query, Input)> {
        let made = (self.make)(self.name)?;
        let query = match self.stateful {
            true => {
                let other = (self.make)(self.name)?.backend(backend.other());
                made.named(format!("{}-on-{backend}", self.name)).backend(backend).refuses(other)
            }
            false => made
                .named(format!("{}-of-parts", self.name))
                .refuses(keyed::duplicates("other")?.backend(backend)),
        };
        Ok((query, (self.input)()))
    }

    /// The backends that make a difference to it.
    pub fn backends(&self) -> &'static [Backend] {
        if self.stateful { &Backend::ALL } else { &[Backend::Memory] }
    }
}

/// Every kind.
pub const ALL: [Kind; 16] = [
    kind("stateless", keyed::stateless, events, false),
    kind("aggregation", grouped::tumbling, events, true),
    kind("sliding", grouped::sliding, events, true),
    kind("update", grouped::update, events, true),
    kind("complete", grouped::complete, events, true),
    kind("late-rows", grouped::late, late_events, true),
    kind("union", grouped::union, both, true),
    kind("sessions", grouped::sessions, events, true),
    kind("duplicates", keyed::duplicates, events, true),
    kind("duplicates-within", keyed::duplicates_within, events, true),
    kind("limit", keyed::limit, events, true),
    kind("timers", keyed::timers, events, true),
    kind("join-inner", joined::inner, both, true),
    kind("join-left", joined::left, both, true),
    kind("join-full", joined::full, both, true),
    kind("join-semi", joined::semi, both, true),
];

const fn kind(
    name: &'static str,
    make: fn(&'static str) -> Result<Query>,
    input: fn() -> Input,
    stateful: bool,
) -> Kind {
    Kind { name, stateful, make, input }
}

/// The kind of this name, and its backend: `sessions-on-lsm`, `stateless-of-parts`.
///
/// # Errors
///
/// As [`Kind::query`].
pub fn find(name: &str) -> Result<Option<(Query, Input)>> {
    for kind in &ALL {
        for backend in kind.backends() {
            let (query, input) = kind.query(*backend)?;
            if query.name() == name {
                return Ok(Some((query, input)));
            }
        }
    }
    Ok(None)
}

fn events() -> Input {
    quiet(gallery::events(), false)
}

/// With rows that come long after their windows were closed.
fn late_events() -> Input {
    let late = [(50, "/late", 5, 1), (51, "/late", 1795, 2), (52, "/late", 31, 3)];
    let input = gallery::events().then().file("in/events/6.json", gallery::event_file(&late));
    quiet(input, false)
}

fn both() -> Input {
    quiet(gallery::both(), true)
}

/// Some events, and sales, hours later, for cleaning to come to its end.
fn quiet(mut input: Input, sales: bool) -> Input {
    for half in 0..2_u32 {
        input = input.then_quietly();
        for number in 0..3_u32 {
            let (at, name) = (2000 + 600 * half + 60 * number, format!("q{half}{number}.json"));
            let file = gallery::event_file(&[(200 + number, "/q", at, number)]);
            input = input.file(format!("in/events/{name}"), file);
            if sales {
                let sale = gallery::sale("/q", at + 5, number);
                input = input.file(format!("in/sales/{name}"), sale);
            }
        }
    }
    input
}
