//! Laws of sinks.
