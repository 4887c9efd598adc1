//! Laws of states.
