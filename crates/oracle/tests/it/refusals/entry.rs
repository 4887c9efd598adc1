//! One entry: its name, what we answer, and the query that asks.

use super::world::World;
use fluvial::{OutputMode, Result};
use futures::future::{BoxFuture, FutureExt};

/// What we answer.
pub(super) enum Expected {
    /// Refused, under the condition that Spark has for it.
    Sparks,
    /// Refused, under a condition of ours: Spark has no specific one.
    Ours(&'static str),
    /// Accepted, as in Spark.
    Accepted,
    /// Deliberately otherwise than Spark: our condition, or none if we accept; and why.
    Differs(Option<&'static str>, &'static str),
}

type Act = Box<dyn FnOnce(World) -> BoxFuture<'static, Result<()>> + Send>;

/// An entry to try.
pub(super) struct Entry {
    /// Its recorded name.
    pub(super) name: &'static str,
    /// What we answer.
    pub(super) expected: Expected,
    /// What the message has to name: the offending thing, and what to do.
    pub(super) names: &'static [&'static str],
    /// The query.
    pub(super) act: Act,
}

/// An entry without its query.
pub(super) struct Draft {
    name: &'static str,
    expected: Expected,
    names: &'static [&'static str],
}

fn draft(name: &'static str, expected: Expected, names: &'static [&'static str]) -> Draft {
    assert!(
        !names.is_empty() || matches!(expected, Expected::Accepted | Expected::Differs(None, _)),
        "{name}: what does the message name?"
    );
    Draft { name, expected, names }
}

pub(super) fn sparks(name: &'static str, names: &'static [&'static str]) -> Draft {
    draft(name, Expected::Sparks, names)
}

pub(super) fn ours(
    name: &'static str,
    condition: &'static str,
    names: &'static [&'static str],
) -> Draft {
    draft(name, Expected::Ours(condition), names)
}

pub(super) fn accepted(name: &'static str) -> Draft {
    draft(name, Expected::Accepted, &[])
}

/// Refused by us, under this condition, for a reason that is our own.
pub(super) fn refused_because(
    name: &'static str,
    condition: &'static str,
    names: &'static [&'static str],
    why: &'static str,
) -> Draft {
    draft(name, Expected::Differs(Some(condition), why), names)
}

/// Accepted by us, for a reason that is our own.
pub(super) fn accepted_because(name: &'static str, why: &'static str) -> Draft {
    draft(name, Expected::Differs(None, why), &[])
}

impl Draft {
    /// Anything.
    pub(super) fn by<F, Fut>(self, act: F) -> Entry
    where
        F: FnOnce(World) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let Self { name, expected, names } = self;
        Entry { name, expected, names, act: Box::new(move |world| act(world).boxed()) }
    }

    /// A SELECT over the streams and tables of the world, run to its end.
    pub(super) fn sql(self, mode: OutputMode, query: &'static str) -> Entry {
        self.by(move |world| async move { world.run_sql(query, mode).await })
    }

    /// One query, and then another on its checkpoint, with more input.
    pub(super) fn restart(
        self,
        first: (OutputMode, &'static str),
        second: (OutputMode, &'static str),
    ) -> Entry {
        self.by(move |world| async move {
            world.first(world.run_sql(first.1, first.0).await)?;
            world.more_input();
            world.run_sql(second.1, second.0).await
        })
    }
}
