//! The library as a program uses it.

#![allow(clippy::unwrap_used)]

mod ansi;
mod auto_loader;
mod beside_batch;
mod book;
mod clock;
mod delta_stream;
mod draws;
mod evolution;
mod golden;
mod jobs;
mod late_rows;
mod listeners;
mod medallion;
mod merge_columns;
mod merge_kills;
mod merging;
mod names;
mod outputs;
mod own_parts;
mod processes;
mod processors;
mod queries;
mod replay;
mod restarts;
mod s3;
mod slowly_changing;
mod state_tables;
mod statements;
mod table_rules;
mod tables;
mod time_travel;
mod traps;

// The examples, as people copy them; the tests have a main of their own.
#[expect(dead_code)]
#[path = "../../examples/clickstream.rs"]
mod clickstream_example;
#[expect(dead_code)]
#[path = "../../examples/event_totals.rs"]
mod event_totals_example;
#[expect(dead_code)]
#[path = "../../examples/fraud_rules.rs"]
mod fraud_rules_example;
#[expect(dead_code)]
#[path = "../../examples/medallion.rs"]
mod medallion_example;
#[expect(dead_code)]
#[path = "../../examples/own_sink.rs"]
mod own_sink_example;
#[expect(dead_code)]
#[path = "../../examples/own_source.rs"]
mod own_source_example;
#[expect(dead_code)]
#[path = "../../examples/own_state_backend.rs"]
mod own_state_backend_example;
#[expect(dead_code)]
#[path = "../../examples/rate_approx.rs"]
mod rate_approx_example;
#[expect(dead_code)]
#[path = "../../examples/slowly_changing.rs"]
mod slowly_changing_example;
