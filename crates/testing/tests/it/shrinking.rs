//! A failure is made smaller, and its line replays it.

use crate::saboteurs::store::{Trick, tricked};
use fluvial_testing::{Simulation, check, gallery};

#[test]
fn a_failure_is_small_and_replays() {
    let (query, input) = (tricked(gallery::stateless(), Trick::LateCommit), gallery::events());
    let failure = check(&query, &input, 0..20).unwrap_err();
    let line = failure.to_string();
    assert!(line.starts_with("stateless ") && !line.contains('\n'), "{line}");
    assert!(failure.schedule.lives.len() <= 2, "{line}");
    let again = Simulation::new(&query, &failure.input).unwrap();
    let replayed = again.replay(&failure.schedule.to_string()).unwrap_err();
    assert_eq!(replayed.to_string(), failure.violation.to_string());
}
