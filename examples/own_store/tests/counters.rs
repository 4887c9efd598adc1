//! What counters promise, whoever else counts.

use fluvial_core::{Result, RunId, StateVersion};
use futures::executor::block_on;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use own_store::Counters;
use std::sync::Arc;

fn open(objects: &Arc<InMemory>, run: &str) -> Result<Counters> {
    Counters::new(Arc::clone(objects) as Arc<dyn ObjectStore>, RunId::new(run)?)
}

#[test]
fn rivals_lose_nothing() -> Result<()> {
    let objects = Arc::new(InMemory::new());
    std::thread::scope(|scope| {
        let rivals: Vec<_> = ["a", "b", "c"]
            .map(|run| {
                let objects = &objects;
                scope.spawn(move || -> Result<()> {
                    let counters = open(objects, run)?;
                    for _ in 0..20 {
                        block_on(counters.add(&["shared", run]))?;
                    }
                    Ok(())
                })
            })
            .into();
        rivals.into_iter().try_for_each(|rival| rival.join().expect("no panic"))
    })?;
    let all = block_on(open(&objects, "reader")?.all(None))?;
    let expected = [("a", 20), ("b", 20), ("c", 20), ("shared", 60)];
    assert_eq!(all, expected.map(|(name, count)| (name.to_owned(), count)));
    Ok(())
}

#[test]
fn old_versions_stay_as_long_as_they_are_kept() -> Result<()> {
    let objects = Arc::new(InMemory::new());
    let counters = open(&objects, "writer")?;
    for _ in 0..30 {
        block_on(counters.add(&["page"]))?;
    }
    block_on(counters.keep(3))?;
    let later = open(&objects, "later")?;
    for version in [28, 29, 30] {
        let all = block_on(later.all(Some(StateVersion(version))))?;
        assert_eq!(all, [("page".to_owned(), version)]);
    }
    assert!(block_on(later.all(Some(StateVersion(27)))).is_err());
    Ok(())
}
