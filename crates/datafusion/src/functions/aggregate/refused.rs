//! Aggregate functions of Spark that are not here.

/// Names of Spark's aggregate functions that have no counterpart, in alphabetical order. A query
/// that calls one is refused by name.
pub fn unsupported_aggregates() -> &'static [&'static str] {
    &[
        "approx_top_k",
        "approx_top_k_accumulate",
        "approx_top_k_combine",
        "bitmap_construct_agg",
        "bitmap_or_agg",
        "count_min_sketch",
        "hll_sketch_agg",
        "hll_union_agg",
        "kll_sketch_agg_bigint",
        "kll_sketch_agg_double",
        "kll_sketch_agg_float",
        "schema_of_variant_agg",
        "theta_intersection_agg",
        "theta_sketch_agg",
        "theta_union_agg",
    ]
}
