//! Processors that count and sum.

use super::{
    Call, HandlerResult, InputRow, InputRows, StatefulProcessor, Variables, name, variable,
};
use fluvial::transform::{Key as GroupKey, ValueState};
use std::time::Duration;

/// How many grouping columns are emitted.
pub(super) enum Key {
    One,
    Two,
}

/// Rows of each key over all time, with a TTL or not.
pub(super) struct Count {
    count: ValueState<i64>,
    key: Key,
    ttl: Option<Duration>,
}

impl Count {
    pub(super) fn new(key: Key) -> Self {
        Self { count: ValueState::default(), key, ttl: None }
    }

    pub(super) fn with_ttl(ttl_ms: u64) -> Self {
        Self { ttl: Some(Duration::from_millis(ttl_ms)), ..Self::new(Key::One) }
    }
}

impl StatefulProcessor for Count {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        let count = variable("cnt", "n BIGINT")?;
        self.count = variables.value(match self.ttl {
            Some(ttl) => count.ttl(ttl),
            None => count,
        })?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &GroupKey<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let count = self.count.get(call)?.unwrap_or(0) + rows.len() as i64;
        self.count.update(call, count)?;
        match self.key {
            Key::One => call.emit((name(key)?, count))?,
            Key::Two => call.emit((name(key)?, key.at::<Option<String>>(1)?, count))?,
        }
        Ok(())
    }
}

/// What is cleared at three, and what is emitted then.
enum At {
    /// At exactly three rows, and then nothing is emitted.
    Rows,
    /// At a sum of three or more, and only then something is.
    Sum,
}

/// A value that is cleared at three.
pub(super) struct Cleared {
    value: ValueState<i64>,
    at: At,
}

impl Cleared {
    pub(super) fn at_three_rows() -> Self {
        Self { value: ValueState::default(), at: At::Rows }
    }

    pub(super) fn at_sum_of_three() -> Self {
        Self { value: ValueState::default(), at: At::Sum }
    }
}

impl StatefulProcessor for Cleared {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        let named = match self.at {
            At::Rows => "cnt",
            At::Sum => "sum",
        };
        self.value = variables.value(variable(named, "n BIGINT")?)?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &GroupKey<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let before = self.value.get(call)?.unwrap_or(0);
        match self.at {
            At::Rows => {
                let count = before + rows.len() as i64;
                if count == 3 {
                    return Ok(self.value.clear(call)?);
                }
                self.value.update(call, count)?;
                call.emit((name(key)?, count))?;
            }
            At::Sum => {
                let sum = before + sum(rows)?;
                if sum < 3 {
                    return Ok(self.value.update(call, sum)?);
                }
                self.value.clear(call)?;
                call.emit((name(key)?, sum))?;
            }
        }
        Ok(())
    }
}

fn sum(rows: InputRows<'_>) -> fluvial::Result<i64> {
    rows.iter().try_fold(0, |sum, row| Ok(sum + row.get::<i64>("v")?))
}

/// The variable `cnt` has one more field.
#[derive(Default)]
pub(super) struct TwoFields {
    state: ValueState<(i64, String)>,
}

impl StatefulProcessor for TwoFields {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.state = variables.value(variable("cnt", "n BIGINT, extra STRING")?)?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &GroupKey<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let before = self.state.get(call)?.map_or(0, |(count, _)| count);
        let count = before + rows.len() as i64;
        self.state.update(call, (count, "x".to_owned()))?;
        call.emit((name(key)?, count))?;
        Ok(())
    }
}

/// Seeded by initial rows; rows say whether to add, to remove or to show.
#[derive(Default)]
pub(super) struct SumWithInitial {
    sum: ValueState<i64>,
}

impl SumWithInitial {
    fn add(&self, value: i64, call: &mut Call<'_>) -> HandlerResult {
        let sum = self.sum.get(call)?.unwrap_or(0);
        Ok(self.sum.update(call, sum + value)?)
    }
}

impl StatefulProcessor for SumWithInitial {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.sum = variables.value(variable("sum", "n BIGINT")?)?;
        Ok(())
    }

    fn handle_initial_state(
        &self,
        _: &GroupKey<'_>,
        row: InputRow<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        self.add(row.get("v")?, call)
    }

    fn handle_input_rows(
        &self,
        key: &GroupKey<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            match row.get::<&str>("action")? {
                "add" => self.add(row.get("v")?, call)?,
                "remove" => self.sum.clear(call)?,
                _ => {
                    let sum = self.sum.get(call)?.unwrap_or(-1);
                    call.emit((name(key)?, sum))?;
                }
            }
        }
        Ok(())
    }
}

/// A running sum, seeded by initial rows.
#[derive(Default)]
pub(super) struct WithInitial {
    sum: ValueState<i64>,
}

impl StatefulProcessor for WithInitial {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.sum = variables.value(variable("sum", "n BIGINT")?)?;
        Ok(())
    }

    fn handle_initial_state(
        &self,
        _: &GroupKey<'_>,
        row: InputRow<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        Ok(self.sum.update(call, row.get("v")?)?)
    }

    fn handle_input_rows(
        &self,
        key: &GroupKey<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let sum = self.sum.get(call)?.unwrap_or(0) + sum(rows)?;
        self.sum.update(call, sum)?;
        call.emit((name(key)?, sum))?;
        Ok(())
    }
}
