//! Entries that are not tried, and why.

/// Why an entry is set aside.
#[derive(Debug, Clone, Copy)]
pub(super) enum Why {
    /// Collations: every comparison of text is by its bytes.
    Collations,
    /// Spark fails at it, by a mistake of its own.
    SparksOwn,
    /// Text as a sink comes with the other file formats.
    TextSink,
    /// Spark's interface to Python, RDDs, caches and partitions: there is no such call.
    NoSuchCall,
    /// The types of the interface do not let anybody write it.
    Types,
}

/// All of them.
pub(super) const ASIDE: &[(Why, &[&str])] = &[
    (Why::Collations, &["suite_collation_dedup"]),
    (Why::SparksOwn, &["suite_fmgws_then_dedup"]),
    (Why::TextSink, &["suite_sink_text_long"]),
    (
        Why::NoSuchCall,
        &[
            "rdd",
            "suite_apply_in_pandas",
            "suite_cogroup",
            "suite_map_in_pandas",
            "suite_sort_within_partitions",
        ],
    ),
    (
        Why::Types,
        &[
            "suite_fmgws_bad_timeout_name",
            "suite_await_negative",
            "suite_foreach_batch_not_callable",
            "suite_trigger_available_now_false",
            "suite_trigger_none",
            "suite_trigger_two",
        ],
    ),
];
