//! Entries that are not tried, and why.

/// Why an entry is set aside.
#[derive(Debug, Clone, Copy)]
pub(super) enum Why {
    /// Collations: every comparison of text is by its bytes.
    Collations,
    /// State functions of the user come with the other stateful operators.
    StateFunctions,
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
    (
        Why::StateFunctions,
        &[
            "fmgws_mode_mismatch",
            "suite_fmgws_after_agg_append",
            "suite_fmgws_append_then_agg_complete",
            "suite_fmgws_bad_timeout_name",
            "suite_fmgws_complete_function",
            "suite_fmgws_then_dedup",
            "suite_fmgws_two_append",
            "suite_fmgws_update_in_complete_query",
            "suite_fmgws_update_then_agg_update",
            "suite_tws_bad_state_schema",
            "suite_tws_batch",
            "suite_tws_event_col_missing",
            "suite_tws_initial_state_event_time_no_watermark",
            "suite_tws_initial_state_other_key_type",
            "suite_tws_initial_state_streaming",
            "suite_tws_map_grouping_key",
            "suite_tws_negative_ttl",
            "suite_tws_null_field_update",
            "suite_tws_output_wrong_type",
            "suite_tws_same_variable_twice",
            "suite_tws_state_created_in_handle",
            "suite_tws_state_wrong_arity",
            "suite_tws_then_agg_complete",
            "suite_tws_then_agg_no_event_col",
            "suite_tws_then_agg_update",
            "tws_complete",
            "tws_event_time_no_watermark",
            "tws_hdfs_provider",
            "tws_mode_mismatch",
            "tws_timer_in_none",
        ],
    ),
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
            "suite_await_negative",
            "suite_foreach_batch_not_callable",
            "suite_trigger_available_now_false",
            "suite_trigger_none",
            "suite_trigger_two",
        ],
    ),
];
