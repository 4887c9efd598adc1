//! The parts by their laws, the pipeline under every crash, and a broken sink that does not pass.

use fluvial::OutputMode;
use fluvial::prelude::*;
use fluvial::transform::TimeMode;
use fluvial_conformance::sink::{Destination, Owners};
use fluvial_core::{Result, Sink};
use fluvial_testing::{Cut, Input, Output, Query, check};
use futures::future::BoxFuture;
use object_store::ObjectStore;
use own_pipeline_test::{Ledger, Naming, Streaks, read_rows};
use std::sync::Arc;

struct Place;

impl Destination for Place {
    fn sink(&self, store: Arc<dyn ObjectStore>) -> Box<dyn Sink> {
        Box::new(Ledger::new(store, Naming::ByBatch))
    }

    fn visible(&self, store: Arc<dyn ObjectStore>) -> BoxFuture<'_, Result<Vec<i64>>> {
        Box::pin(async move {
            let rows = read_rows(store).await?;
            Ok(rows.iter().filter_map(|row| row.parse().ok()).collect())
        })
    }

    fn owners(&self) -> Owners {
        Owners::One
    }
}

// Each law of a sink is a test, under crashes, faults and races.
fluvial_conformance::sink!(durable: ledger, || Place);

fn pipeline(naming: Naming) -> Query {
    let query = Query::new("streaks", |start| async move {
        let games = start.session().read_stream().format("json");
        let games = games.schema("player string, game bigint, won boolean");
        let games = games.option("maxFilesPerTrigger", start.limit());
        let games = games.load("sim://world/in").await?.group_by(vec![col("player")]);
        let (rows, mode) = ("player STRING, game BIGINT", OutputMode::Append);
        let streaks = games.transform_with_state(Streaks::default(), rows, TimeMode::None, mode)?;
        streaks.write_stream()
    });
    let open = move |start: &fluvial_testing::Start| -> Arc<dyn Sink> {
        Arc::new(Ledger::new(start.store(), naming))
    };
    // What a batch emits depends on the order of its rows.
    query.output(Output::own(open, read_rows)).cut(Cut::Fixed)
}

fn games() -> Input {
    let game = |player: &str, game: u32, won: bool| {
        format!("{{\"player\":\"{player}\",\"game\":{game},\"won\":{won}}}\n")
    };
    Input::new()
        .file("in/0.json", game("ann", 1, true) + &game("bob", 2, true))
        .file("in/1.json", game("ann", 3, true) + &game("bob", 4, false))
        .file("in/2.json", game("ann", 5, true))
        .then()
        .file("in/3.json", game("bob", 6, true) + &game("bob", 7, true))
        .file("in/4.json", game("bob", 8, true) + &game("ann", 9, true))
}

#[test]
fn the_pipeline_is_exactly_once() {
    let report = check(&pipeline(Naming::ByBatch), &games(), 0..20);
    println!("{}", report.unwrap_or_else(|failure| panic!("{failure}")));
}

#[test]
fn a_broken_sink_is_caught() {
    let failure = check(&pipeline(Naming::ByBatchAndRun), &games(), 0..20).unwrap_err();
    println!("{failure}");
    assert!(failure.to_string().contains("there twice"), "{failure}");
}
