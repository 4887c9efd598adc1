//! State functions of the user: processors and functions of groups.

use super::entry::{Entry, accepted, accepted_because, ours, refused_because, sparks};
use super::world::World;
use fluvial::OutputMode::{Append, Complete, Update};
use fluvial::datafusion::scalar::ScalarValue;
use fluvial::prelude::*;
use fluvial::transform::{
    Call, GroupState, GroupTimeout, HandlerResult, InputRow, InputRows, Key, Record,
    StatefulProcessor, TimeMode, Transform, ValueState, Variable, Variables,
};
use fluvial::{GroupedData, Result};
use std::time::Duration;

/// What a processor does for each key.
type Act = fn(&Does, &Key<'_>, &mut Call<'_>) -> HandlerResult;

/// A processor with one variable, which does one thing.
struct Does {
    variable: fn() -> Result<Variable>,
    value: ValueState<Record>,
    undeclared: ValueState<i64>,
    act: Act,
}

impl Does {
    fn new(act: Act) -> Self {
        let variable = || columns(Variable::named("n"), "n BIGINT");
        Self { variable, value: ValueState::default(), undeclared: ValueState::default(), act }
    }
}

fn columns(variable: Variable, ddl: &str) -> Result<Variable> {
    Ok(variable.fields(fluvial::parse_ddl(ddl)?.fields().clone()))
}

fn emit(_: &Does, key: &Key<'_>, call: &mut Call<'_>) -> HandlerResult {
    call.emit((key.at::<Option<String>>(0)?, 1_i64))?;
    Ok(())
}

impl StatefulProcessor for Does {
    fn init(&mut self, variables: &mut Variables) -> Result<()> {
        self.value = variables.value((self.variable)()?)?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        _: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        (self.act)(self, key, call)
    }

    fn handle_initial_state(
        &self,
        _: &Key<'_>,
        _: InputRow<'_>,
        _: &mut Call<'_>,
    ) -> HandlerResult {
        Ok(())
    }
}

const OUT: &str = "k STRING, n BIGINT";

async fn by_k(world: &World) -> Result<GroupedData> {
    Ok(world.events().await?.group_by(vec![col("k")]))
}

/// A processor over events by k, with these modes, in a query of that mode.
async fn run(
    world: World,
    does: Does,
    time_mode: TimeMode,
    mode: OutputMode,
    query: OutputMode,
) -> Result<()> {
    let frame = by_k(&world).await?.transform_with_state(does, OUT, time_mode, mode)?;
    world.run(frame, query).await
}

/// A processor that does something wrong, in update mode.
async fn does(world: World, act: Act) -> Result<()> {
    run(world, Does::new(act), TimeMode::None, Update, Update).await
}

/// An aggregation above a processor.
async fn then_agg(world: World, mode: OutputMode) -> Result<()> {
    let (does, none) = (Does::new(emit), TimeMode::None);
    let frame = by_k(&world).await?.transform_with_state(does, OUT, none, mode)?;
    world.run(frame.group_by(vec![col("k")]).count()?, mode).await
}

/// A function that counts, over events or what else is given.
fn counting(grouped: GroupedData, mode: OutputMode) -> Result<DataFrame> {
    grouped.flat_map_groups_with_state(
        OUT,
        mode,
        GroupTimeout::None,
        |key, rows, state: &mut GroupState<i64>| {
            let count = state.get().copied().unwrap_or(0) + rows.len() as i64;
            state.update(count);
            Ok(Some((key.at::<Option<String>>(0)?, count)))
        },
    )
}

async fn counted(world: &World, mode: OutputMode) -> Result<DataFrame> {
    counting(by_k(world).await?, mode)
}

pub(super) fn entries() -> Vec<Entry> {
    let mut all = functions();
    all.extend(modes());
    all.extend(variables());
    all.extend(rows());
    all.extend(initial_states());
    all
}

const FUNCTION: &str = "GROUP_FUNCTION_NOT_SUPPORTED_IN_STREAMING";

fn functions() -> Vec<Entry> {
    vec![
        ours("fmgws_mode_mismatch", FUNCTION, &["append", "update"])
            .by(|world| async move { world.run(counted(&world, Append).await?, Update).await }),
        ours("suite_fmgws_after_agg_append", FUNCTION, &["aggregation", "transform_with_state"])
            .by(|world| async move {
                let counts = world.timed().await?;
                let windows = window(col("ts"), "10 minutes").alias("w");
                let counts = counts.group_by(vec![windows, col("k")]).count()?;
                world.run(counting(counts.group_by(vec![col("k")]), Append)?, Append).await
            }),
        accepted("suite_fmgws_append_then_agg_complete").by(|world| async move {
            let counts = counted(&world, Append).await?.group_by(vec![col("k")]).count()?;
            world.run(counts, Complete).await
        }),
        ours(
            "suite_fmgws_complete_function",
            "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
            &["append or update"],
        )
        .by(|world| async move { world.run(counted(&world, Complete).await?, Update).await }),
        ours("suite_fmgws_two_append", FUNCTION, &["several", "transform_with_state"]).by(
            |world| async move {
                let once = counted(&world, Append).await?;
                world.run(counting(once.group_by(vec![col("k")]), Append)?, Append).await
            },
        ),
        sparks("suite_fmgws_update_in_complete_query", &["complete", "aggregation"])
            .by(|world| async move { world.run(counted(&world, Update).await?, Complete).await }),
        ours("suite_fmgws_update_then_agg_update", FUNCTION, &["aggregation"]).by(
            |world| async move {
                let counts = counted(&world, Update).await?.group_by(vec![col("k")]).count()?;
                world.run(counts, Update).await
            },
        ),
    ]
}

fn modes() -> Vec<Entry> {
    vec![
        sparks("tws_complete", &["append or update"]).by(|world| async move {
            run(world, Does::new(emit), TimeMode::None, Complete, Complete).await
        }),
        accepted("tws_mode_mismatch").by(|world| async move {
            run(world, Does::new(emit), TimeMode::None, Append, Update).await
        }),
        accepted("tws_event_time_no_watermark").by(|world| async move {
            run(world, Does::new(emit), TimeMode::EventTime, Update, Update).await
        }),
        accepted_because("tws_hdfs_provider", "every state backend holds several variables")
            .by(|world| async move { does(world, emit).await }),
        accepted("suite_tws_then_agg_update")
            .by(|world| async move { then_agg(world, Update).await }),
        accepted("suite_tws_then_agg_complete").by(|world| async move {
            let (does, none) = (Does::new(emit), TimeMode::None);
            let frame = by_k(&world).await?.transform_with_state(does, OUT, none, Update)?;
            world.run(frame.group_by(vec![col("k")]).count()?, Complete).await
        }),
        sparks("suite_tws_then_agg_no_event_col", &["append", "with_watermark"]).by(
            |world| async move {
                let timed = world.timed().await?.group_by(vec![col("k")]);
                let transform = timed.transform_with_state(
                    Does::new(|_, key, call| {
                        let time = fluvial::transform::EventTime(1);
                        Ok(call.emit((key.at::<Option<String>>(0)?, time))?)
                    }),
                    "k STRING, ts TIMESTAMP",
                    TimeMode::EventTime,
                    Append,
                )?;
                let windows = window(col("ts"), "10 minutes").alias("w");
                world.run(transform.group_by(vec![windows]).count()?, Append).await
            },
        ),
        sparks("suite_tws_event_col_missing", &["nope", "k, n"]).by(|world| async move {
            let transform = Transform::new(
                Does::new(emit),
                fluvial::parse_ddl(OUT)?.into(),
                TimeMode::EventTime,
                Append,
            )?
            .with_event_time("nope")?;
            world.run(by_k(&world).await?.transform(transform)?, Append).await
        }),
        refused_because(
            "suite_tws_batch",
            "TRANSFORM_WITH_STATE_NOT_STREAMING",
            &["stream"],
            "a table has no batches that state could go between",
        )
        .by(|world| async move {
            let people = world.frame("SELECT pk AS k FROM people").await?.group_by(vec![col("k")]);
            let none = TimeMode::None;
            people.transform_with_state(Does::new(emit), OUT, none, Update).map(drop)
        }),
    ]
}

fn variables() -> Vec<Entry> {
    vec![
        ours("suite_tws_bad_state_schema", "UNSUPPORTED_DATATYPE", &["NOSUCH"]).by(
            |world| async move {
                let variable = || columns(Variable::named("n"), "n NOSUCH");
                let wrong = Does { variable, ..Does::new(emit) };
                run(world, wrong, TimeMode::None, Update, Update).await
            },
        ),
        sparks("suite_tws_negative_ttl", &["TTL", "n"]).by(|world| async move {
            let variable = || columns(Variable::named("n").ttl(Duration::ZERO), "n BIGINT");
            let wrong = Does { variable, ..Does::new(emit) };
            run(world, wrong, TimeMode::ProcessingTime, Update, Update).await
        }),
        ours(
            "suite_tws_same_variable_twice",
            "STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED",
            &["name n"],
        )
        .by(|world| async move {
            let twice = by_k(&world).await?;
            twice.transform_with_state(Twice, OUT, TimeMode::None, Update).map(drop)
        }),
        sparks("suite_tws_state_created_in_handle", &["init", "k="]).by(|world| async move {
            does(world, |this, _, call| Ok(this.undeclared.update(call, 1)?)).await
        }),
        accepted("suite_tws_null_field_update").by(|world| async move {
            let null = |this: &Does, _: &Key<'_>, call: &mut Call<'_>| -> HandlerResult {
                Ok(this.value.update(call, Record(vec![ScalarValue::Int64(None)]))?)
            };
            does(world, null).await
        }),
        refused_because(
            "suite_tws_state_wrong_arity",
            "DATATYPE_MISMATCH",
            &["2 values", "[n]"],
            "Spark drops what does not fit: a mistake that nobody would see",
        )
        .by(|world| async move {
            let two = |this: &Does, _: &Key<'_>, call: &mut Call<'_>| -> HandlerResult {
                let value = ScalarValue::Int64(Some(1));
                Ok(this.value.update(call, Record(vec![value.clone(), value]))?)
            };
            does(world, two).await
        }),
        ours(
            "tws_timer_in_none",
            "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE",
            &["timer", "EventTime"],
        )
        .by(|world| async move { does(world, |_, _, call| Ok(call.register_timer(5)?)).await }),
    ]
}

fn rows() -> Vec<Entry> {
    vec![
        ours("suite_tws_output_wrong_type", "DATATYPE_MISMATCH", &["column n", "Int64"]).by(
            |world| async move {
                let wrong = |_: &Does, _: &Key<'_>, call: &mut Call<'_>| -> HandlerResult {
                    Ok(call.emit(("k", "not a number"))?)
                };
                does(world, wrong).await
            },
        ),
        accepted_because(
            "suite_tws_map_grouping_key",
            "Spark cannot hand a map to Python; maps are keys here, whatever their order",
        )
        .by(|world| async move {
            let maps = world.frame("SELECT map(k, v) AS m FROM events").await?;
            let transform = maps.group_by(vec![col("m")]).transform_with_state(
                Does::new(|_, _, call| Ok(call.emit(("k", 1_i64))?)),
                OUT,
                TimeMode::None,
                Update,
            )?;
            world.run(transform, Update).await
        }),
    ]
}

/// Groups people by a key, as what a state begins with.
async fn begins_with(world: World, initial: GroupedData, time_mode: TimeMode) -> Result<()> {
    let (does, grouped) = (Does::new(emit), by_k(&world).await?);
    let frame = grouped.transform_with_initial_state(does, OUT, time_mode, Update, initial)?;
    world.run(frame, Update).await
}

fn initial_states() -> Vec<Entry> {
    vec![
        accepted("suite_tws_initial_state_event_time_no_watermark").by(|world| async move {
            let people = world.frame("SELECT * FROM people").await?.group_by(vec![col("pk")]);
            begins_with(world, people, TimeMode::EventTime).await
        }),
        refused_because(
            "suite_tws_initial_state_other_key_type",
            "DATATYPE_MISMATCH",
            &["Int32", "Utf8"],
            "Spark's rows would never meet those of the stream",
        )
        .by(|world| async move {
            let people = world.frame("SELECT * FROM people").await?.group_by(vec![col("age")]);
            begins_with(world, people, TimeMode::None).await
        }),
        refused_because(
            "suite_tws_initial_state_streaming",
            "STREAMING_INITIAL_STATE_NOT_SUPPORTED",
            &["table"],
            "Spark takes the stream's first batch and drops all others without a word",
        )
        .by(|world| async move {
            let others = world.frame("SELECT * FROM others").await?.group_by(vec![col("rk")]);
            begins_with(world, others, TimeMode::None).await
        }),
    ]
}

/// Declares one name twice.
struct Twice;

impl StatefulProcessor for Twice {
    fn init(&mut self, variables: &mut Variables) -> Result<()> {
        variables.value::<i64>("n")?;
        variables.list::<i64>("n").map(drop)
    }

    fn handle_input_rows(&self, _: &Key<'_>, _: InputRows<'_>, _: &mut Call<'_>) -> HandlerResult {
        Ok(())
    }
}
