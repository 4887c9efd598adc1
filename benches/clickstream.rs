//! The clickstream job from files to Parquet: rows per second, whole query, checkpoint included.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fluvial_benches::{CLICK_SCHEMA, Clicks, Format, run_script};
use tempfile::TempDir;

fn query(input: &TempDir, format: Format, output: &TempDir) -> String {
    format!(
        "CREATE STREAMING TABLE views USING parquet LOCATION '{out}/views'
         TBLPROPERTIES ('trigger' = 'available-now', 'checkpointLocation' = '{out}/checkpoint') AS
         SELECT window(event_time, '5 minutes') AS w, page, count(*) AS views,
                sum(duration_s) AS total_duration_s
         FROM STREAM read_files('{input}', format => '{format}', maxFilesPerTrigger => 2,
                schema => '{CLICK_SCHEMA}')
         WATERMARK event_time DELAY OF INTERVAL 10 MINUTES
         GROUP BY 1, 2",
        out = output.path().display(),
        input = input.path().display(),
        format = format.name(),
    )
}

fn clickstream(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut group = c.benchmark_group("clickstream");
    group.sample_size(10);
    for (name, pages) in [("1k pages", 1_000), ("1M pages", 1_000_000)] {
        let clicks = Clicks { rows: 500_000, pages, files: 10 };
        for format in [Format::Json, Format::Parquet] {
            let input = TempDir::new().expect("a folder");
            clicks.write(input.path(), format).expect("the input");
            group.throughput(Throughput::Elements(clicks.rows as u64));
            group.bench_function(BenchmarkId::new(format.name(), name), |b| {
                b.iter_batched(
                    || TempDir::new().expect("a folder"),
                    |output| {
                        let sql = query(&input, format, &output);
                        runtime.block_on(run_script(&sql)).expect("the query runs");
                        output
                    },
                    criterion::BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, clickstream);
criterion_main!(benches);
