//! Functions of groups.

use super::{latest, name};
use anyhow::{Result, bail};
use fluvial::arrow::datatypes::SchemaRef;
use fluvial::transform::{
    GroupState, GroupTimeout, HandlerError, InputRows, Key, Transform, Variable,
};
use fluvial::{OutputMode, parse_ddl};
use std::time::Duration;

type Row = (Option<String>, i64);
type Rows = Result<Option<Row>, HandlerError>;
type Function = fn(&Key<'_>, InputRows<'_>, &mut GroupState<i64>) -> Rows;

const ALL: &[(&str, Function)] = &[
    ("pws_event_timeout", event_timeout),
    ("pws_proc_timeout", processing_timeout),
    ("fm_clear_three", clear_three),
    ("fm_event_max", event_max),
    ("fm_timeout_in_past", timeout_in_past),
    ("fm_timeout_reset", timeout_reset),
];

pub(super) fn is_known(name: &str) -> bool {
    ALL.iter().any(|(known, _)| *known == name)
}

/// The function of this name, over a state with these columns.
pub(super) fn function(
    name: &str,
    schema: SchemaRef,
    state: &str,
    mode: OutputMode,
    timeout: GroupTimeout,
) -> Result<Transform> {
    let Some((_, function)) = ALL.iter().find(|(known, _)| *known == name) else {
        bail!("function {name} is not written yet");
    };
    let state = Variable::named("state").fields(parse_ddl(state)?.fields().clone());
    Ok(Transform::flat_map_groups(state, schema, mode, timeout, *function)?)
}

fn counted(state: &GroupState<i64>, rows: InputRows<'_>) -> i64 {
    state.get().copied().unwrap_or(0) + rows.len() as i64
}

/// The count, negative, when it times out ten seconds after the latest event.
fn event_timeout(key: &Key<'_>, rows: InputRows<'_>, state: &mut GroupState<i64>) -> Rows {
    let count = counted(state, rows);
    if state.has_timed_out() {
        state.remove();
        return Ok(Some((name(key)?, -count)));
    }
    state.update(count);
    state.set_timeout_timestamp(latest(rows)?.max(0) + 10_000)?;
    Ok(Some((name(key)?, count)))
}

/// The count, negative, when it times out after a millisecond.
fn processing_timeout(key: &Key<'_>, rows: InputRows<'_>, state: &mut GroupState<i64>) -> Rows {
    let count = counted(state, rows);
    if state.has_timed_out() {
        state.remove();
        return Ok(Some((name(key)?, -count)));
    }
    state.update(count);
    state.set_timeout_duration(Duration::from_millis(1))?;
    Ok(Some((name(key)?, count)))
}

/// The count; at three the state is removed and nothing is emitted.
fn clear_three(key: &Key<'_>, rows: InputRows<'_>, state: &mut GroupState<i64>) -> Rows {
    let count = counted(state, rows);
    if count == 3 {
        state.remove();
        return Ok(None);
    }
    state.update(count);
    Ok(Some((name(key)?, count)))
}

/// The latest second, and -1 five seconds after it.
fn event_max(key: &Key<'_>, rows: InputRows<'_>, state: &mut GroupState<i64>) -> Rows {
    if state.has_timed_out() {
        state.remove();
        return Ok(Some((name(key)?, -1)));
    }
    let before = state.get().copied().unwrap_or(i64::MIN);
    let max = before.max(latest(rows)?.div_euclid(1000));
    state.update(max);
    state.set_timeout_timestamp((max + 5) * 1000)?;
    Ok(Some((name(key)?, max)))
}

/// Sets a timeout before the watermark.
fn timeout_in_past(key: &Key<'_>, rows: InputRows<'_>, state: &mut GroupState<i64>) -> Rows {
    let count = rows.len() as i64;
    state.update(count);
    if state.watermark_ms() > 0 {
        state.set_timeout_timestamp(state.watermark_ms() - 1)?;
    }
    Ok(Some((name(key)?, count)))
}

/// Sets a timeout only if a row has v = 1.
fn timeout_reset(key: &Key<'_>, rows: InputRows<'_>, state: &mut GroupState<i64>) -> Rows {
    if state.has_timed_out() {
        state.remove();
        return Ok(Some((name(key)?, -1)));
    }
    let count = counted(state, rows);
    state.update(count);
    let asked = rows.iter().map(|row| row.get::<Option<i64>>("v"));
    if asked.collect::<fluvial::Result<Vec<_>>>()?.contains(&Some(1)) {
        state.set_timeout_timestamp((latest(rows)?.max(0).div_euclid(1000) + 5) * 1000)?;
    }
    Ok(Some((name(key)?, count)))
}
