//! Each query of the gallery holds under a crash at some steps, and under some seeds. The rest is
//! `cargo xtask sim`.

use fluvial_testing::{Coverage, Simulation, gallery, random_query};

const POINTS: usize = 6;

#[test]
fn queries_of_every_kind_survive() {
    for (query, input) in gallery::all() {
        let simulation = Simulation::new(&query, &input).unwrap();
        assert!(!simulation.expected().is_empty(), "{} shows nothing", query.name());
        let points = simulation.crash_points();
        let every = (points.len() / POINTS).max(1);
        let schedules =
            points.into_iter().step_by(every).chain((0..3).map(|s| simulation.schedule(s)));
        for schedule in schedules {
            let ran = simulation.run(&schedule, &mut Coverage::default());
            ran.unwrap_or_else(|e| panic!("{} \"{schedule}\": {e}", query.name()));
        }
    }
}

#[test]
fn random_queries_are_valid_and_survive() {
    for seed in 0..12 {
        let (query, input) = random_query(seed);
        let simulation = Simulation::new(&query, &input);
        let simulation = simulation.unwrap_or_else(|e| panic!("{}: {e}", query.name()));
        let schedule = simulation.schedule(seed);
        let ran = simulation.run(&schedule, &mut Coverage::default());
        ran.unwrap_or_else(|e| panic!("{} \"{schedule}\": {e}", query.name()));
    }
}
