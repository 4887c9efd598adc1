//! Whether a set of stores or snapshots is whole: every store, every key group, once.

use fluvial_core::{
    Error, KeyGroupCount, KeyGroupRange, OperatorId, OperatorShape, PartitionId, Result,
    SealedStore, Snapshot, StateVersion, StoreId,
};
use std::collections::BTreeMap;

/// Every store of a query.
pub(crate) fn stores(operators: &BTreeMap<OperatorId, OperatorShape>) -> Vec<StoreId> {
    let of = |(operator, shape): (&OperatorId, &OperatorShape)| -> Vec<StoreId> {
        let id = |store: &_| StoreId { operator: operator.clone(), store: Clone::clone(store) };
        shape.stores.iter().map(id).collect()
    };
    operators.iter().flat_map(of).collect()
}

/// Checks that `sealed` has every store of every partition exactly once, all at `base`.
///
/// # Errors
///
/// `Invalid`, naming the first that is missing or too many: the runner broke its contract, and
/// committing would lose state.
pub(crate) fn check_sealed(
    operators: &BTreeMap<OperatorId, OperatorShape>,
    key_groups: KeyGroupCount,
    partitions: u32,
    base: StateVersion,
    sealed: &[SealedStore],
) -> Result<()> {
    let mut found: Vec<(&StoreId, KeyGroupRange)> =
        sealed.iter().map(|s| (&s.id, s.groups)).filter(|(_, groups)| !groups.is_empty()).collect();
    found.sort();
    let stores = stores(operators);
    let mut expected: Vec<(&StoreId, KeyGroupRange)> = stores
        .iter()
        .flat_map(|id| {
            (0..partitions).map(move |p| (id, key_groups.range_of(PartitionId(p), partitions)))
        })
        .filter(|(_, groups)| !groups.is_empty())
        .collect();
    expected.sort();
    if let Some(wrong) = sealed.iter().find(|s| s.base != base) {
        return Err(refused(format!(
            "store {} was written over version {}, not {base}",
            wrong.id, wrong.base
        )));
    }
    if found == expected {
        return Ok(());
    }
    let list = |from: &[(&StoreId, KeyGroupRange)], without: &[(&StoreId, KeyGroupRange)]| {
        let texts: Vec<_> = from
            .iter()
            .filter(|part| !without.contains(part))
            .map(|(id, groups)| format!("{id} {groups}"))
            .collect();
        if texts.is_empty() { "none".into() } else { texts.join(", ") }
    };
    Err(refused(format!(
        "the batch did not write each store once: missing {}, unexpected {}",
        list(&expected, &found),
        list(&found, &expected)
    )))
}

/// Checks that `snapshots` cover every key group of every store once, all at `version`.
///
/// # Errors
///
/// `Corrupt`, naming the store and what is missing.
pub(crate) fn check_snapshots(
    operators: &BTreeMap<OperatorId, OperatorShape>,
    key_groups: KeyGroupCount,
    version: StateVersion,
    snapshots: &[Snapshot],
) -> Result<()> {
    for id in stores(operators) {
        let mut parts: Vec<_> = snapshots.iter().filter(|s| s.id == id).collect();
        parts.sort_by_key(|s| s.groups);
        let mut next = 0;
        for part in parts.into_iter().filter(|s| !s.groups.is_empty()) {
            if part.version != version {
                return Err(torn(format!("{id} {} has version {}", part.groups, part.version)));
            }
            if part.groups.start != next {
                return Err(torn(format!("{id} jumps from key group {next} to {}", part.groups)));
            }
            next = part.groups.end;
        }
        if next != key_groups.get() {
            return Err(torn(format!("{id} ends at key group {next} of {}", key_groups.get())));
        }
    }
    Ok(())
}

fn refused(what: String) -> Error {
    Error::invalid(format!("{what}; nothing was committed")).with_condition("STATE_INCOMPLETE")
}

fn torn(what: String) -> Error {
    Error::corrupt(format!("the snapshots of a version are not whole: {what}"))
        .with_condition("STATE_SNAPSHOTS_INCOMPLETE")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{operators, sealed, snapshot};
    use fluvial_core::ErrorKind;

    const K: KeyGroupCount = KeyGroupCount::DEFAULT;
    const V: StateVersion = StateVersion(4);

    #[test]
    fn a_missing_or_repeated_partition_is_refused() {
        let all = || vec![sealed("count", 0, 64, 4), sealed("count", 64, 128, 4)];
        let check = |stores: &[SealedStore]| check_sealed(&operators(&["count"]), K, 2, V, stores);
        check(&all()).unwrap();
        let mut lacking = all();
        lacking.pop();
        let error = check(&lacking).unwrap_err();
        assert!(error.to_string().contains("missing count/default 64..128"), "{error}");
        let mut twice = all();
        twice.push(sealed("count", 0, 64, 4));
        assert!(check(&twice).is_err());
        assert!(check(&[sealed("count", 0, 64, 4), sealed("count", 64, 128, 3)]).is_err());
        assert!(check(&[]).is_err());
        check_sealed(&operators(&[]), K, 2, V, &[]).unwrap();
    }

    #[test]
    fn snapshots_may_be_cut_in_any_way_but_must_cover_all() {
        let check = |cuts: &[(u16, u16, u64)]| {
            let parts: Vec<_> =
                cuts.iter().map(|(start, end, v)| snapshot("count", *start, *end, *v)).collect();
            check_snapshots(&operators(&["count"]), K, V, &parts)
        };
        check(&[(0, 128, 4)]).unwrap();
        check(&[(64, 128, 4), (0, 1, 4), (1, 64, 4)]).unwrap();
        for bad in [
            vec![],
            vec![(0, 64, 4)],
            vec![(0, 64, 4), (65, 128, 4)],
            vec![(0, 64, 4), (63, 128, 4)],
            vec![(0, 128, 3)],
        ] {
            assert_eq!(check(&bad).unwrap_err().kind(), ErrorKind::Corrupt, "{bad:?}");
        }
    }
}
