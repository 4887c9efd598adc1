//! Streaming SQL: statements that DataFusion does not know.
