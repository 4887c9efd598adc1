//! Laws of logs.
