//! Joins of two streams: what they need, and what a restart may change.

use super::entry::{Entry, accepted, ours, refused_because, sparks};
use fluvial::OutputMode::Append;

const WATERMARK: &str = "STREAM_STREAM_JOIN_WITHOUT_WATERMARK";
const EQUALITY: &str = "STREAM_STREAM_JOIN_WITHOUT_EQUALITY";
const TIMES: &str = "STREAMING_MULTIPLE_EVENT_TIMES";
const INNER: &str = "SELECT k, v, rv FROM events JOIN others ON k = rk";

pub(super) fn entries() -> Vec<Entry> {
    let mut all = without_watermarks();
    all.extend(open_ranges());
    all.extend(time_keys());
    all.extend(shapes());
    all.extend(restarts());
    all
}

/// No watermark where one is needed, or no range.
fn without_watermarks() -> Vec<Entry> {
    vec![
        ours("left_outer_no_watermark", WATERMARK, &["right side has no watermark"]).sql(
            Append,
            "SELECT * FROM events LEFT JOIN others ON k = rk AND rts <= ts + INTERVAL 10 MINUTES",
        ),
        ours("left_outer_wm_left_only", WATERMARK, &["right side has no watermark"]).sql(
            Append,
            "SELECT * FROM timed LEFT JOIN others ON k = rk AND rts <= ts + INTERVAL 10 MINUTES",
        ),
        ours("right_outer_no_watermark", WATERMARK, &["left side has no watermark"]).sql(
            Append,
            "SELECT * FROM events RIGHT JOIN others ON k = rk AND ts <= rts + INTERVAL 10 MINUTES",
        ),
        accepted("right_outer_wm_left_only").sql(
            Append,
            "SELECT * FROM timed RIGHT JOIN others ON k = rk AND ts <= rts + INTERVAL 10 MINUTES",
        ),
        ours("right_outer_wm_right_only", WATERMARK, &["left side has no watermark"]).sql(
            Append,
            "SELECT * FROM events RIGHT JOIN others_timed ON k = rk \
             AND ts <= rts + INTERVAL 10 MINUTES",
        ),
        ours("full_outer_no_watermark", WATERMARK, &["no watermark", "full outer"]).sql(
            Append,
            "SELECT * FROM events FULL JOIN others ON k = rk AND rts <= ts + INTERVAL 10 MINUTES",
        ),
        ours("full_outer_wm_no_range", WATERMARK, &["how late", "rts"])
            .sql(Append, "SELECT * FROM timed FULL JOIN others_timed ON k = rk"),
        ours("left_semi_no_watermark", WATERMARK, &["no watermark", "left semi"]).sql(
            Append,
            "SELECT * FROM events LEFT SEMI JOIN others ON k = rk \
             AND rts <= ts + INTERVAL 10 MINUTES",
        ),
        ours("left_semi_wm_left_only", WATERMARK, &["right side has no watermark"]).sql(
            Append,
            "SELECT * FROM timed LEFT SEMI JOIN others ON k = rk \
             AND rts <= ts + INTERVAL 10 MINUTES",
        ),
        ours("left_semi_wm_no_range", WATERMARK, &["how late", "rts"])
            .sql(Append, "SELECT * FROM timed LEFT SEMI JOIN others_timed ON k = rk"),
    ]
}

/// Ranges with one bound: it is of use to one side.
fn open_ranges() -> Vec<Entry> {
    vec![
        accepted("suite_left_outer_open_range_forward").sql(
            Append,
            "SELECT * FROM timed LEFT JOIN others_timed ON k = rk \
             AND ts > rts + INTERVAL 10 SECONDS",
        ),
        ours("suite_left_outer_open_range_backward", WATERMARK, &["how late", "rts"]).sql(
            Append,
            "SELECT * FROM timed LEFT JOIN others_timed ON k = rk \
             AND ts < rts + INTERVAL 10 SECONDS",
        ),
        ours("suite_left_semi_open_range_backward", WATERMARK, &["how late", "rts"]).sql(
            Append,
            "SELECT * FROM timed LEFT SEMI JOIN others_timed ON k = rk \
             AND ts < rts + INTERVAL 10 SECONDS",
        ),
        accepted("suite_right_outer_open_range_backward").sql(
            Append,
            "SELECT * FROM timed RIGHT JOIN others_timed ON k = rk \
             AND ts < rts + INTERVAL 10 SECONDS",
        ),
        accepted("suite_full_outer_open_range_forward").sql(
            Append,
            "SELECT * FROM timed FULL JOIN others_timed ON k = rk \
             AND ts > rts + INTERVAL 10 SECONDS",
        ),
    ]
}

/// Equal event times: a watermark on either side is one on both.
fn time_keys() -> Vec<Entry> {
    vec![
        accepted("suite_left_outer_time_key_left_watermark")
            .sql(Append, "SELECT * FROM timed LEFT JOIN others ON k = rk AND ts = rts"),
        accepted("suite_left_outer_time_key_right_watermark")
            .sql(Append, "SELECT * FROM events LEFT JOIN others_timed ON k = rk AND ts = rts"),
        accepted("suite_left_semi_time_key_left_watermark")
            .sql(Append, "SELECT * FROM timed LEFT SEMI JOIN others ON k = rk AND ts = rts"),
        accepted("suite_left_semi_time_key_right_watermark")
            .sql(Append, "SELECT * FROM events LEFT SEMI JOIN others_timed ON k = rk AND ts = rts"),
        accepted("suite_full_outer_time_key_right_watermark")
            .sql(Append, "SELECT * FROM events FULL JOIN others_timed ON k = rk AND ts = rts"),
    ]
}

fn shapes() -> Vec<Entry> {
    vec![
        ours("cross_join_stream_stream", EQUALITY, &["equality", "a.k = b.k"])
            .sql(Append, "SELECT * FROM timed CROSS JOIN others_timed"),
        ours("suite_join_constant_condition", EQUALITY, &["equality"])
            .sql(Append, "SELECT * FROM timed JOIN others_timed ON true"),
        ours("suite_join_or_condition", EQUALITY, &["equality"])
            .sql(Append, "SELECT * FROM timed JOIN others_timed ON k = rk OR v = rv"),
        ours("time_interval_join_then_join", TIMES, &["ts", "rts", "select one"]).sql(
            Append,
            "SELECT * FROM (SELECT * FROM timed JOIN others_timed ON k = rk \
             AND rts BETWEEN ts AND ts + INTERVAL 10 MINUTES) a \
             JOIN (SELECT k AS k3, ts AS ts3 FROM timed) b ON a.k = b.k3 AND a.ts = b.ts3",
        ),
        ours("suite_three_way_outer_joins", TIMES, &["ts", "rts", "select one"]).sql(
            Append,
            "SELECT * FROM (SELECT * FROM timed LEFT JOIN others_timed ON k = rk \
             AND rts BETWEEN ts AND ts + INTERVAL 10 MINUTES) a \
             LEFT JOIN (SELECT k AS k3, ts AS ts3 FROM timed) b ON a.k = b.k3 \
             AND b.ts3 BETWEEN a.ts AND a.ts + INTERVAL 10 MINUTES",
        ),
    ]
}

fn restarts() -> Vec<Entry> {
    vec![
        refused_because(
            "suite_restart_join_inner_to_left_outer",
            "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            &["inner", "left outer", "new checkpoint"],
            "Spark stumbles over the flag of a match; what is wrong is the kind of the join",
        )
        .restart(
            (
                Append,
                "SELECT k, v, rv FROM timed JOIN others_timed ON k = rk \
                 AND rts BETWEEN ts AND ts + INTERVAL 10 MINUTES",
            ),
            (
                Append,
                "SELECT k, v, rv FROM timed LEFT JOIN others_timed ON k = rk \
                 AND rts BETWEEN ts AND ts + INTERVAL 10 MINUTES",
            ),
        ),
        sparks("suite_restart_join_key_type", &["k", "new checkpoint"]).restart(
            (Append, INNER),
            (Append, "SELECT k, v, rv FROM events JOIN others ON v = rv"),
        ),
        accepted("suite_restart_join_format_changed").restart((Append, INNER), (Append, INNER)),
    ]
}
