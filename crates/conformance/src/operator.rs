//! Laws of operators.
