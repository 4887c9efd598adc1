//! Spark's functions by Spark's names.
