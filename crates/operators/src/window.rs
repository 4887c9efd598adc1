//! Time windows: which ones a row lies in, and what time a window stands for.
//!
//! Nothing here is stateful. A window is `[start, end)`; its edges depend only on the epoch and
//! the specification, never on when a query began.

mod assign;
mod spec;

pub(crate) use assign::window_ends;
pub use assign::{window_time, window_type};
pub use spec::WindowSpec;

#[cfg(test)]
mod tests;
