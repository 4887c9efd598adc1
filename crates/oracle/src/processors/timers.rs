//! Processors with timers and event times.

use super::{
    Call, EventTime, HandlerResult, InputRow, InputRows, Key, StatefulProcessor, Variables, latest,
    millis, name, variable,
};
use fluvial::transform::{ExpiredTimer, ValueState};

/// `(k, kind, ms, watermark)`.
fn show(key: &Key<'_>, kind: &str, ms: i64, call: &mut Call<'_>) -> HandlerResult {
    let watermark = call.watermark_ms();
    call.emit((name(key)?, kind, ms, watermark))?;
    Ok(())
}

macro_rules! without_variables {
    () => {
        fn init(&mut self, _: &mut Variables) -> fluvial::Result<()> {
            Ok(())
        }
    };
}

/// Emits the first millisecond after the epoch.
pub(super) struct EmitEpoch;

impl StatefulProcessor for EmitEpoch {
    without_variables!();

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        call.emit((name(key)?, EventTime(1000), rows.len() as i64))?;
        Ok(())
    }
}

/// The earliest event time and the number of rows of a batch.
pub(super) struct MinTsCount;

impl StatefulProcessor for MinTsCount {
    without_variables!();

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let times = rows.iter().map(|row| row.get::<EventTime>("ts"));
        if let Some(earliest) = times.collect::<fluvial::Result<Vec<_>>>()?.into_iter().min() {
            call.emit((name(key)?, earliest, rows.len() as i64))?;
        }
        Ok(())
    }
}

/// A timer five seconds after the latest event, moved only forward.
#[derive(Default)]
pub(super) struct MaxEventTimer {
    max: ValueState<i64>,
    timer: ValueState<i64>,
}

impl MaxEventTimer {
    fn update(&self, max: i64, call: &mut Call<'_>) -> HandlerResult {
        self.max.update(call, max)?;
        let (new, old) = ((max + 5) * 1000, self.timer.get(call)?.unwrap_or(0));
        if old < new {
            if old != 0 {
                call.delete_timer(old)?;
            }
            call.register_timer(new)?;
            self.timer.update(call, new)?;
        }
        Ok(())
    }
}

impl StatefulProcessor for MaxEventTimer {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.max = variables.value(variable("max", "s BIGINT")?)?;
        self.timer = variables.value(variable("timer", "ms BIGINT")?)?;
        Ok(())
    }

    fn handle_initial_state(
        &self,
        _: &Key<'_>,
        row: InputRow<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        self.update(millis(row)?.div_euclid(1000), call)
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let before = self.max.get(call)?.unwrap_or(i64::MIN);
        let max = before.max(latest(rows)?.div_euclid(1000));
        self.update(max, call)?;
        call.emit((name(key)?, max))?;
        Ok(())
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        _: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        self.max.clear(call)?;
        call.emit((name(key)?, -1_i64))?;
        Ok(())
    }
}

/// A timer ten seconds after the latest event, set anew by every batch.
#[derive(Default)]
pub(super) struct EventTimer {
    max: ValueState<i64>,
}

impl StatefulProcessor for EventTimer {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.max = variables.value(variable("mx", "ms BIGINT")?)?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let mut max = latest(rows)?;
        if let Some(old) = self.max.get(call)? {
            call.delete_timer(old + 10_000)?;
            max = max.max(old);
        }
        self.max.update(call, max)?;
        call.register_timer(max + 10_000)?;
        show(key, "input", max, call)
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        expired: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        self.max.clear(call)?;
        show(key, "timeout", expired.expiry_ms, call)
    }
}

/// Timers a hundred seconds before the rows.
pub(super) struct PastTimer;

impl StatefulProcessor for PastTimer {
    without_variables!();

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            call.register_timer(millis(row)? - 100_000)?;
        }
        show(key, "input", 0, call)
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        expired: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        show(key, "timeout", expired.expiry_ms, call)
    }
}

/// Each expiry registers the next one, three in all.
#[derive(Default)]
pub(super) struct ReTimer {
    count: ValueState<i64>,
}

impl StatefulProcessor for ReTimer {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.count = variables.value(variable("c", "n BIGINT")?)?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        self.count.update(call, 0)?;
        for row in rows {
            call.register_timer(millis(row)? + 10_000)?;
        }
        show(key, "input", 0, call)
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        ExpiredTimer { expiry_ms, .. }: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let count = self.count.get(call)?.unwrap_or(0) + 1;
        self.count.update(call, count)?;
        if count < 3 {
            call.register_timer(expiry_ms + 10_000)?;
        }
        show(key, &format!("timeout{count}"), expiry_ms, call)
    }
}

/// A timer for each row, after as many seconds as the row says; all of them are shown.
pub(super) struct MultiTimer;

impl StatefulProcessor for MultiTimer {
    without_variables!();

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            call.register_timer(millis(row)? + row.get::<i64>("v")? * 1000)?;
        }
        let timers = call.timers()?;
        let timers: Vec<String> = timers.iter().map(ToString::to_string).collect();
        show(key, &format!("timers:{}", timers.join(",")), 0, call)
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        expired: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        show(key, "timeout", expired.expiry_ms, call)
    }
}

/// A timer one millisecond after every batch.
#[derive(Default)]
pub(super) struct ProcTimer {
    count: ValueState<i64>,
}

impl StatefulProcessor for ProcTimer {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.count = variables.value(variable("c", "n BIGINT")?)?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let count = self.count.get(call)?.unwrap_or(0) + rows.len() as i64;
        self.count.update(call, count)?;
        let now = call.processing_time().0;
        call.register_timer(now + 1)?;
        call.emit((name(key)?, "input", count))?;
        Ok(())
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        _: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let count = self.count.get(call)?;
        self.count.clear(call)?;
        call.emit((name(key)?, "timeout", count))?;
        Ok(())
    }
}
