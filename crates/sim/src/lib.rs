//! A world in a box: a simulated object store with faults and crash points, a virtual clock and a seeded scheduler.
//!
//! A [`Disk`] is what survives. A [`Process`] is one mortal handle on it that implements
//! `object_store::ObjectStore`: every call is one step, and a step is where things go wrong.
//!
//! A crash is a future that never completes and is then dropped. It is *not* an error: real
//! crashes run no error handlers, and a simulated one must not either. `Drop` does run, which is
//! why every contract says that dropping has no durable effect.
//!
//! Nothing here draws randomness or reads a clock: one seed in, one history out.
//!
//! ```
//! use fluvial_sim::{CrashAt, Disk, When, run};
//! use object_store::{ObjectStoreExt, path::Path};
//!
//! let disk = Disk::new();
//! let process = disk.mortal(CrashAt { step: 0, when: When::After });
//! let told = run(&process, process.put(&Path::from("a"), "x".into()));
//! assert!(told.is_none(), "nobody was told ...");
//! assert_eq!(disk.paths(), ["a"], "... but it happened");
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod clock;
mod damage;
mod disk;
mod exec;
mod fault;
mod manners;
mod objects;
mod process;
mod rng;
mod upload;

pub use clock::VirtualClock;
pub use disk::Disk;
pub use exec::{Task, block_on, interleave, run, yield_now};
pub use fault::{CrashAt, Fault, Flaky, When};
pub use process::{Call, Op, Process};
pub use rng::Rng;
