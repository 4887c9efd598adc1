//! How Spark writes expressions: literals, types and operators.
