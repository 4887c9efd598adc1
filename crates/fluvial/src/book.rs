//! The Rust code of the book and of the README, as documentation tests. The SQL in them is run by
//! `tests/it/book.rs`.

macro_rules! pages {
    ($($name:ident $file:literal)*) => {
        $(
            #[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $file))]
            mod $name {}
        )*
    };
}

pages! {
    readme "README.md"
    auto_loader "docs/src/auto-loader.md"
    checkpoints "docs/src/checkpoints.md"
    delta "docs/src/delta.md"
    errors "docs/src/errors.md"
    event_time "docs/src/event-time.md"
    extending "docs/src/extending.md"
    files "docs/src/files.md"
    functions "docs/src/functions.md"
    getting_started "docs/src/getting-started.md"
    introduction "docs/src/introduction.md"
    output_modes "docs/src/output-modes.md"
    performance "docs/src/performance.md"
    processors "docs/src/processors.md"
    program "docs/src/program.md"
    pyspark "docs/src/pyspark.md"
    settings "docs/src/settings.md"
    sinks "docs/src/sinks.md"
    sources "docs/src/sources.md"
    sql "docs/src/sql.md"
    state "docs/src/state.md"
    streams "docs/src/streams.md"
    triggers "docs/src/triggers.md"
    watching "docs/src/watching.md"
}
