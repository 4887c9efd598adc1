//! The memory that state may take.

use crate::{backend, id};
use arrow::array::BinaryArray;
use fluvial_core::{KeyGroupRange, Snapshot, StateBackend, StateVersion};
use fluvial_sim::{Disk, block_on};
use fluvial_state_memory::{Budget, MemoryBackend, Settings};
use std::sync::Arc;

#[test]
fn passing_the_budget_is_an_error_that_says_what_to_do() {
    let budget = Arc::new(Budget::new(2 << 20, "state.memory"));
    let disk = Disk::new();
    let within = || {
        backend(disk.process().store(), Settings::default())
            .within(Arc::clone(&budget), "query clicks")
    };
    let (first, second) = (within(), within());
    let all = KeyGroupRange { start: 0, end: 1 };
    let rows = |from: u32, count: u32| {
        let keys = BinaryArray::from_iter_values((from..from + count).map(|i| {
            let mut key = vec![0, 0];
            key.extend_from_slice(&i.to_be_bytes());
            key
        }));
        let values = BinaryArray::from_iter_values((0..count).map(|_| [7; 64]));
        (keys, values)
    };
    block_on(async {
        let open = async |backend: &MemoryBackend, version, snapshots: &[Snapshot]| {
            backend.open(&id("default"), all, StateVersion(version), snapshots).await
        };
        let mut store = open(&first, 0, &[]).await.unwrap();
        let (keys, values) = rows(0, 4000);
        store.put_many(&keys, &values).unwrap();
        assert!(budget.used() > 4000 * 70, "{}", budget.used());
        let snapshots = first.commit(vec![store.seal().unwrap()]).await.unwrap();
        let held = budget.used();
        assert_eq!(held, first.memory_bytes());
        // Another query's state counts too; what a batch gives up is free again.
        let mut other = open(&second, 0, &[]).await.unwrap();
        let (keys, values) = rows(0, 40_000);
        let error = other.put_many(&keys, &values).unwrap_err();
        assert_eq!(error.condition(), Some("STATE_MEMORY_EXCEEDED"));
        for part in ["query clicks", "count/default", "state.memory allows 2097152"] {
            assert!(error.message().contains(part), "{part} is not in: {error}");
        }
        drop(other);
        assert_eq!(budget.used(), held);
        // The one that was in time goes on.
        let store = open(&first, 1, &snapshots).await.unwrap();
        assert_eq!(store.size().rows, 4000);
        assert_eq!(budget.used(), first.memory_bytes());
        drop(store);
    });
    drop((first, second));
    assert_eq!(budget.used(), 0);
}
