//! Which crate may depend on which: the layering, as a table.

/// A crate, what of ours it may depend on, and what its tests may use besides.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) normal: &'static [&'static str],
    pub(crate) dev: &'static [&'static str],
}

const fn rule(
    name: &'static str,
    normal: &'static [&'static str],
    dev: &'static [&'static str],
) -> Rule {
    Rule { name, normal, dev }
}

/// Lower layers first: a crate may only name crates above it in this list.
pub(crate) const GRAPH: &[Rule] = &[
    rule("core", &[], &[]),
    rule("sim", &["core"], &[]),
    rule("conformance", &["core", "sim"], &[]),
    rule("local-store", &["core"], &["sim"]),
    rule("checkpoint", &["core"], &["conformance", "local-store", "sim"]),
    rule("state", &["core"], &[]),
    rule("state-memory", &["core", "state"], &["conformance", "sim"]),
    rule("state-lsm", &["core", "state"], &["conformance", "sim", "state-memory"]),
    rule("operators", &["core", "state"], &["conformance", "sim", "state-memory"]),
    rule("sources", &["core"], &["conformance", "sim"]),
    rule("sinks", &["core"], &["conformance", "sim"]),
    rule("delta", &["core"], &["conformance", "sim"]),
    rule("kafka", &["core"], &["conformance", "sim"]),
    rule(
        "engine",
        &["core"],
        &["checkpoint", "conformance", "sim", "sinks", "sources", "state", "state-memory"],
    ),
    rule("datafusion", &["core", "engine", "operators", "state"], &["sim"]),
    rule(
        "fluvial",
        &[
            "checkpoint",
            "core",
            "datafusion",
            "delta",
            "engine",
            "kafka",
            "local-store",
            "sinks",
            "sources",
            "state-lsm",
            "state-memory",
        ],
        &["sim"],
    ),
    rule("cli", &["checkpoint", "core", "datafusion", "engine", "fluvial", "sinks"], &["sim"]),
    rule("oracle", &["fluvial"], &[]),
    rule(
        "testing",
        &[
            "checkpoint",
            "core",
            "engine",
            "fluvial",
            "operators",
            "sim",
            "sinks",
            "sources",
            "state",
            "state-lsm",
            "state-memory",
        ],
        &["conformance"],
    ),
];

/// Crates that take part in a result: they may not look at the world.
pub(crate) const PURE: &[&str] = &[
    "core",
    "checkpoint",
    "state",
    "state-lsm",
    "state-memory",
    "operators",
    "sources",
    "sinks",
    "engine",
];
