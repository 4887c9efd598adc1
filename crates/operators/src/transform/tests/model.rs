//! Random programs against a model that knows nothing of states, blocks and indexes.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const TTL_MS: i64 = 7;

/// What a row asks for.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Show,
    SetValue(i64),
    ClearValue,
    Append(i64),
    Put(i64),
    ClearList,
    SetEntry(i64, i64),
    RemoveEntry(i64),
    ClearMap,
    Register(i64),
    Delete(i64),
}

impl Ask {
    /// As one number.
    fn code(self) -> i64 {
        let (what, a, b) = match self {
            Self::Show => (0, 0, 0),
            Self::SetValue(a) => (1, a, 0),
            Self::ClearValue => (2, 0, 0),
            Self::Append(a) => (3, a, 0),
            Self::Put(a) => (4, a, 0),
            Self::ClearList => (5, 0, 0),
            Self::SetEntry(a, b) => (6, a, b),
            Self::RemoveEntry(a) => (7, a, 0),
            Self::ClearMap => (8, 0, 0),
            Self::Register(a) => (9, a, 0),
            Self::Delete(a) => (10, a, 0),
        };
        what + 100 * a + 10_000 * b
    }

    fn of(code: i64) -> Self {
        let (a, b) = (code / 100 % 100, code / 10_000);
        match code % 100 {
            0 => Self::Show,
            1 => Self::SetValue(a),
            2 => Self::ClearValue,
            3 => Self::Append(a),
            4 => Self::Put(a),
            5 => Self::ClearList,
            6 => Self::SetEntry(a, b),
            7 => Self::RemoveEntry(a),
            8 => Self::ClearMap,
            9 => Self::Register(a),
            _ => Self::Delete(a),
        }
    }
}

/// Does what rows ask for. Timers show everything, and have to do with others.
#[derive(Default)]
struct Obeys {
    ttl: bool,
    value: ValueState<i64>,
    list: ListState<i64>,
    map: MapState<i64, i64>,
}

impl Obeys {
    fn show(&self, key: &str, why: &str, call: &mut Call<'_>) -> HandlerResult {
        let value = self.value.get(call)?;
        let list = self.list.get(call)?;
        let map = self.map.entries(call)?;
        let timers = call.timers()?;
        assert_eq!(self.list.exists(call)?, !list.is_empty());
        assert_eq!(self.map.get(call, &1)?, map.iter().find(|e| e.0 == 1).map(|e| e.1));
        call.emit((key, format!("{why} {value:?} {list:?} {map:?} {timers:?}")))?;
        Ok(())
    }
}

impl StatefulProcessor for Obeys {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        let named = |name: &str| match self.ttl {
            true => Variable::named(name).ttl(Duration::from_millis(TTL_MS as u64)),
            false => Variable::named(name),
        };
        self.value = variables.value(named("value"))?;
        self.list = variables.list(named("list"))?;
        self.map = variables.map(named("map"))?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            match Ask::of(row.get("v")?) {
                Ask::Show => self.show(key.at(0)?, "row", call)?,
                Ask::SetValue(a) => self.value.update(call, a)?,
                Ask::ClearValue => self.value.clear(call)?,
                Ask::Append(a) => self.list.append(call, a)?,
                Ask::Put(a) => self.list.put(call, [a, a + 1])?,
                Ask::ClearList => self.list.clear(call)?,
                Ask::SetEntry(a, b) => self.map.update(call, a, b)?,
                Ask::RemoveEntry(a) => self.map.remove(call, &a)?,
                Ask::ClearMap => self.map.clear(call)?,
                Ask::Register(a) => call.register_timer(a)?,
                Ask::Delete(a) => call.delete_timer(a)?,
            }
        }
        Ok(())
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        ExpiredTimer { expiry_ms: at }: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        self.show(key.at(0)?, &format!("timer {at}"), call)?;
        match at % 4 {
            0 => call.register_timer(at + 3)?,
            1 => call.delete_timer(at + 1)?,
            2 => self.value.update(call, -at)?,
            _ => self.list.append(call, -at)?,
        }
        Ok(())
    }
}

/// A value and when it expires.
type Kept = (i64, Option<i64>);

/// One key of the model.
#[derive(Debug, Default)]
struct Modelled {
    value: Option<Kept>,
    list: Vec<Kept>,
    map: BTreeMap<i64, Kept>,
}

#[derive(Debug, Default)]
struct Model {
    ttl: bool,
    now: i64,
    keys: BTreeMap<String, Modelled>,
    timers: BTreeSet<(i64, String)>,
}

impl Model {
    fn show(&self, key: &str, why: &str) -> String {
        let empty = Modelled::default();
        let state = self.keys.get(key).unwrap_or(&empty);
        let live = |kept: &Kept| kept.1.is_none_or(|expiry| expiry > self.now).then_some(kept.0);
        let value = state.value.as_ref().and_then(live);
        let list: Vec<i64> = state.list.iter().filter_map(live).collect();
        let map: Vec<(i64, i64)> =
            state.map.iter().filter_map(|(k, v)| Some((*k, live(v)?))).collect();
        let timers: Vec<i64> =
            self.timers.iter().filter(|(_, k)| k == key).map(|(time, _)| *time).collect();
        format!("{key} {why} {value:?} {list:?} {map:?} {timers:?}")
    }

    fn run(&mut self, rows: &[(String, Ask)]) -> Vec<String> {
        let mut shown = Vec::new();
        let mut order: Vec<&String> = Vec::new();
        for (key, _) in rows {
            if !order.contains(&key) {
                order.push(key);
            }
        }
        for key in order {
            for (_, ask) in rows.iter().filter(|(k, _)| k == key) {
                self.obey(key, *ask, &mut shown);
            }
        }
        self.fire(&mut shown);
        let (now, live) = (self.now, |kept: &Kept, now: i64| kept.1.is_none_or(|e| e > now));
        for state in self.keys.values_mut() {
            state.value = state.value.filter(|kept| live(kept, now));
            state.list.retain(|kept| live(kept, now));
            state.map.retain(|_, kept| live(kept, now));
        }
        shown
    }

    fn obey(&mut self, key: &str, ask: Ask, shown: &mut Vec<String>) {
        if matches!(ask, Ask::Show) {
            return shown.push(self.show(key, "row"));
        }
        let expiry = self.ttl.then_some(self.now + TTL_MS);
        let state = self.keys.entry(key.to_owned()).or_default();
        match ask {
            Ask::Show => {}
            Ask::SetValue(a) => state.value = Some((a, expiry)),
            Ask::ClearValue => state.value = None,
            Ask::Append(a) => state.list.push((a, expiry)),
            Ask::Put(a) => state.list = vec![(a, expiry), (a + 1, expiry)],
            Ask::ClearList => state.list.clear(),
            Ask::SetEntry(a, b) => drop(state.map.insert(a, (b, expiry))),
            Ask::RemoveEntry(a) => drop(state.map.remove(&a)),
            Ask::ClearMap => state.map.clear(),
            Ask::Register(a) => drop(self.timers.insert((a, key.to_owned()))),
            Ask::Delete(a) => drop(self.timers.remove(&(a, key.to_owned()))),
        }
    }

    fn fire(&mut self, shown: &mut Vec<String>) {
        let due: Vec<(i64, String)> =
            self.timers.iter().filter(|(time, _)| *time <= self.now).cloned().collect();
        let mut new = BTreeSet::new();
        for (at, key) in due {
            if !self.timers.remove(&(at, key.clone())) {
                continue;
            }
            shown.push(self.show_with(&key, &format!("timer {at}"), &new));
            let expiry = self.ttl.then_some(self.now + TTL_MS);
            let state = self.keys.entry(key.clone()).or_default();
            match at % 4 {
                0 if self.timers.contains(&(at + 3, key.clone())) => {}
                0 => drop(new.insert((at + 3, key))),
                1 => {
                    self.timers.remove(&(at + 1, key.clone()));
                    new.remove(&(at + 1, key));
                }
                2 => state.value = Some((-at, expiry)),
                _ => state.list.push((-at, expiry)),
            }
        }
        self.timers.extend(new);
    }

    /// As [`Self::show`], with timers that wait for the next batch.
    fn show_with(&mut self, key: &str, why: &str, new: &BTreeSet<(i64, String)>) -> String {
        let kept = self.timers.clone();
        self.timers.extend(new.iter().cloned());
        let shown = self.show(key, why);
        self.timers = kept;
        shown
    }

    fn rows(&self) -> u64 {
        let of = |s: &Modelled| {
            s.map.len() + usize::from(s.value.is_some()) + usize::from(!s.list.is_empty())
        };
        self.keys.values().map(of).sum::<usize>() as u64
    }

    /// Entries of any sort: elements of lists, both forms of timers, entries by time, counters.
    fn is_empty(&self) -> bool {
        self.rows() == 0 && self.timers.is_empty()
    }
}

fn ask() -> impl Strategy<Value = Ask> {
    let small = 0..5_i64;
    prop_oneof![
        3 => Just(Ask::Show),
        2 => small.clone().prop_map(Ask::SetValue),
        1 => Just(Ask::ClearValue),
        2 => small.clone().prop_map(Ask::Append),
        1 => small.clone().prop_map(Ask::Put),
        1 => Just(Ask::ClearList),
        2 => (small.clone(), small.clone()).prop_map(|(a, b)| Ask::SetEntry(a, b)),
        1 => small.prop_map(Ask::RemoveEntry),
        1 => Just(Ask::ClearMap),
        3 => (1..40_i64).prop_map(Ask::Register),
        1 => (1..40_i64).prop_map(Ask::Delete),
    ]
}

type Batches = Vec<(Vec<(u8, Ask)>, u8)>;

fn batches() -> impl Strategy<Value = Batches> {
    let rows = prop::collection::vec((0..6_u8, ask()), 0..25);
    prop::collection::vec((rows, 0..9_u8), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_happens_is_what_the_model_says(batches in batches(), ttl: bool) {
        let mut tester = tester(Obeys { ttl, ..Obeys::default() }, TimeMode::ProcessingTime);
        let mut model = Model { ttl, ..Model::default() };
        for (rows, step) in batches {
            model.now += i64::from(step);
            tester.advance_time(Duration::from_millis(step.into()));
            let rows: Vec<(String, Ask)> =
                rows.into_iter().map(|(key, ask)| (format!("k{key}"), ask)).collect();
            let coded: Vec<(&str, i64)> =
                rows.iter().map(|(key, ask)| (key.as_str(), ask.code())).collect();
            prop_assert_eq!(tester.run(&coded).unwrap(), model.run(&rows));
            prop_assert_eq!(tester.counts().rows_total, model.rows());
            if model.is_empty() {
                prop_assert_eq!(tester.entries_of_any_sort(), 0);
            }
        }
    }
}
