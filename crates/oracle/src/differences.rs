//! Where Fluvial differs from Spark on purpose: one table, a reason each.

/// What may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// The restart is refused where Spark goes on: nothing after it is compared.
    Refused,
    /// Spark refuses the query and we run it: there is nothing to compare.
    Accepted,
    /// `numRowsTotal` and the like: Spark keeps fewer rows.
    StateRows,
    /// `numInputRows`: ours counts rows read, Spark's those that are left after filters and
    /// limits pushed into the reader.
    InputRows,
    /// Spark ran the aggregation twice in a batch, and counts its state rows twice.
    Doubled,
    /// Rows and all that follows from them.
    Rows,
}

/// A deliberate difference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Difference {
    /// The case.
    pub(crate) case: &'static str,
    /// What differs in it.
    pub(crate) field: Field,
    /// Why, for whoever reads the output.
    pub(crate) why: &'static str,
}

const fn difference(case: &'static str, field: Field, why: &'static str) -> Difference {
    Difference { case, field, why }
}

const READ: &str = "rows are counted as read, before filters and limits";
const SAMPLED: &str =
    "Spark runs the aggregation twice to sample the ranges of its sort, and counts both";
const NULLS: &str = "null is no key: Spark joins null to null in full outer joins only";
const CONSTANT: &str = "Spark takes the condition lv > 1 for a bound of times and never gives up a \
    left row; here it comes out with nulls";
const INFERRED: &str = "Spark infers a filter on the left from one on the right key and keeps fewer \
    rows that match nothing";
const SCANS: &str = "a stream that is joined with itself is read twice, and its rows count twice";
const EPOCH: &str = "before the first event nothing is late, so windows before 1970 are kept";

/// All of them.
const DELIBERATE: &[Difference] = &[
    difference("append_select_filter", Field::InputRows, READ),
    difference("filter_before_watermark_changes_max", Field::InputRows, READ),
    difference("global_agg_no_rows_after_filter", Field::InputRows, READ),
    difference("static_inner", Field::InputRows, READ),
    difference("static_inner_then_window_agg", Field::InputRows, READ),
    difference("static_left_semi", Field::InputRows, READ),
    difference("suite_limit_before_and_after_agg_small_before", Field::Doubled, SAMPLED),
    difference("suite_limit_before_agg_complete", Field::InputRows, READ),
    difference("suite_limit_three_deep", Field::InputRows, READ),
    difference("suite_set_not_in_static_subquery_with_null", Field::InputRows, READ),
    difference("neg_epoch_tumbling_update", Field::Rows, EPOCH),
    difference("neg_epoch_tumbling_append", Field::Rows, EPOCH),
    difference("neg_epoch_sliding_offset_complete", Field::Rows, EPOCH),
    difference("join_full_outer", Field::Rows, NULLS),
    difference("join_full_outer__cont", Field::Rows, NULLS),
    difference("join_pre_filter_left_outer", Field::Rows, CONSTANT),
    difference("join_pre_filter_left_outer__cont", Field::Rows, CONSTANT),
    difference("suite_join_self_inner_shared", Field::InputRows, SCANS),
    difference("suite_join_self_inner_shared__cont", Field::InputRows, SCANS),
    difference("suite_join_self_left_semi", Field::StateRows, INFERRED),
    difference("suite_join_self_left_semi__cont", Field::StateRows, INFERRED),
    difference(
        "suite_join_update_mode_accepted_or_not",
        Field::Accepted,
        "as Spark since 4.2: the pairs of an inner join are final, so append and update are one",
    ),
    difference("sort_complete", Field::Doubled, SAMPLED),
    difference(
        "suite_session_window_as_plain_filter",
        Field::Rows,
        "Spark tries a filter on a session on each row before rows are merged, and loses them",
    ),
    difference(
        "suite_recover_output_mode_changed",
        Field::Refused,
        "another output mode on old state would give wrong results",
    ),
    difference(
        "suite_file_plain_file_beside_partition_directories",
        Field::Rows,
        "Spark ignores a plain file beside key=value folders: no row is lost here",
    ),
];

/// The deliberate difference of a case.
pub(crate) fn deliberate(case: &str) -> Option<&'static Difference> {
    DELIBERATE.iter().find(|d| d.case == case)
}
