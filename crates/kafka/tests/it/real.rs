//! A real broker: `cargo xtask kafka test` starts one and says where. Elsewhere these tests say
//! that they were skipped.

mod broker;
mod crashes;
mod logs;
mod output;
mod restart;
