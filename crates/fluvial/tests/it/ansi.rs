//! Arithmetic as in Spark with ANSI on: in tables and streams, in SQL and in Rust.

use fluvial::arrow::util::pretty::pretty_format_batches;
use fluvial::datafusion::prelude::DataFrame;
use fluvial::prelude::*;
use fluvial::{Error, from_datafusion};

async fn failure(frame: DataFrame) -> Option<String> {
    let error: Option<Error> = frame.collect().await.err().map(from_datafusion);
    error.and_then(|e| e.condition().map(str::to_owned))
}

#[tokio::test]
async fn what_has_no_result_fails_by_its_condition() {
    let session = Session::new().unwrap();
    for (sql, condition) in [
        ("a / 0", "DIVIDE_BY_ZERO"),
        ("a % 0", "REMAINDER_BY_ZERO"),
        ("a div 0", "DIVIDE_BY_ZERO"),
        ("cast(2147483647 + a as int) + 1", "ARITHMETIC_OVERFLOW"),
        ("cast(9223372036854775807 as bigint) + a", "ARITHMETIC_OVERFLOW"),
        ("cast(concat('x', a) as int)", "CAST_INVALID_INPUT"),
        ("cast(a + 300 as tinyint)", "CAST_OVERFLOW"),
    ] {
        let query = format!("SELECT {sql} FROM (SELECT 1 AS a) t");
        let failed = match session.sql(&query).await {
            Ok(frame) => failure(frame).await,
            Err(error) => error.condition().map(str::to_owned),
        };
        // 2147483647 + 1 overflows already.
        assert_eq!(failed.as_deref(), Some(condition), "{sql}");
    }
}

#[tokio::test]
async fn results_have_the_types_of_spark() {
    let session = Session::new().unwrap();
    let query = "SELECT typeof(3 / 2) AS a, 3 / 2 AS b, typeof(sum(i)) AS c, typeof(avg(i)) AS d, \
                 typeof(sum(x)) AS e, typeof(avg(x)) AS f, -7 % 3 AS g \
                 FROM (SELECT 1 AS i, cast(1 AS decimal(10, 2)) AS x) t";
    let rows = session.sql(query).await.unwrap().collect().await.unwrap();
    let table = pretty_format_batches(&rows).unwrap().to_string();
    let row: Vec<&str> = table.lines().nth(3).unwrap().split('|').map(str::trim).collect();
    let expected = ["double", "1.5", "bigint", "double", "decimal(20,2)", "decimal(14,6)", "-1"];
    assert_eq!(row[1..row.len() - 1], expected);
}

#[tokio::test]
async fn sums_that_overflow_fail_in_sql_and_in_rust_alike() {
    let session = Session::new().unwrap();
    let values = "(SELECT 9223372036854775807 AS v UNION ALL SELECT 1 AS v) t";
    let in_sql = session.sql(&format!("SELECT sum(v) AS s FROM {values}")).await.unwrap();
    assert_eq!(failure(in_sql).await.as_deref(), Some("ARITHMETIC_OVERFLOW"));
    let table = session.sql(&format!("SELECT v FROM {values}")).await.unwrap();
    let in_rust = table.aggregate(vec![], vec![sum(col("v")).alias("s")]).unwrap();
    assert_eq!(failure(in_rust).await.as_deref(), Some("ARITHMETIC_OVERFLOW"));
    let decimals = session.sql("SELECT cast(1 AS decimal(10, 2)) AS x").await.unwrap();
    let mean = decimals.aggregate(vec![], vec![avg(col("x")).alias("m")]).unwrap();
    let rows = mean.collect().await.unwrap();
    assert_eq!(rows[0].column(0).data_type().to_string(), "Decimal128(14, 6)");
}

#[tokio::test]
async fn a_sum_that_overflows_from_batch_to_batch_fails_the_query() {
    let input = tempfile::tempdir().unwrap();
    let max = i64::MAX;
    std::fs::write(input.path().join("a.json"), format!("{{\"v\":{max}}}\n")).unwrap();
    std::fs::write(input.path().join("b.json"), "{\"v\":1}\n").unwrap();
    let session = Session::new().unwrap();
    let stream = session
        .read_stream()
        .schema("v BIGINT")
        .option("maxFilesPerTrigger", 1)
        .json(input.path().display().to_string())
        .await
        .unwrap();
    let query = stream
        .group_by(vec![])
        .agg(vec![sum(col("v")).alias("s")])
        .unwrap()
        .write_stream()
        .unwrap()
        .format("noop")
        .output_mode(OutputMode::Update)
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    let failed = query.await_termination().await.unwrap_err();
    assert_eq!(failed.condition(), Some("ARITHMETIC_OVERFLOW"), "{failed}");
    assert_eq!(query.recent_progress().len(), 1, "the first batch is fine");
}
