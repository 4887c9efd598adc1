//! What a batch costs whatever is in it: 50 files of 100 rows, a file a batch.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fluvial_benches::{CLICK_SCHEMA, Clicks, Format, run_script};
use tempfile::TempDir;

const BATCHES: usize = 50;

fn small_batches(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let input = TempDir::new().expect("a folder");
    let clicks = Clicks { rows: BATCHES * 100, pages: 100, files: BATCHES };
    clicks.write(input.path(), Format::Json).expect("the input");
    let mut group = c.benchmark_group("small batches");
    group.sample_size(10).throughput(Throughput::Elements(BATCHES as u64));
    group.bench_function("update to noop", |b| {
        b.iter_batched(
            || TempDir::new().expect("a folder"),
            |output| {
                let sql = format!(
                    "CREATE STREAMING TABLE views USING noop
                     TBLPROPERTIES ('outputMode' = 'update', 'trigger' = 'available-now',
                       'checkpointLocation' = '{}/checkpoint') AS
                     SELECT window(event_time, '5 minutes') AS w, page, count(*) AS views
                     FROM STREAM read_files('{}', format => 'json', maxFilesPerTrigger => 1,
                            schema => '{CLICK_SCHEMA}')
                     WATERMARK event_time DELAY OF INTERVAL 10 MINUTES
                     GROUP BY 1, 2",
                    output.path().display(),
                    input.path().display(),
                );
                runtime.block_on(run_script(&sql)).expect("the query runs");
                output
            },
            criterion::BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, small_batches);
criterion_main!(benches);
