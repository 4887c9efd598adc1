//! Queries of every kind with their inputs: what Fluvial's own simulations run.

use crate::backend::Backend;
use crate::bounded_rate::BoundedRate;
use crate::input::Input;
use crate::kinds::Tally;
use crate::output::Output;
use crate::query::{Query, Start};
use fluvial::arrow::array::{Int64Array, RecordBatch, StringArray};
use fluvial::arrow::datatypes::{DataType, Field, Schema};
use fluvial::prelude::*;
use fluvial::transform::{
    Call, HandlerResult, InputRows, Key, StatefulProcessor, TimeMode, ValueState, Variables,
};
use fluvial::{DataStreamWriter, DeltaTable, Result};
use std::fmt::Write;
use std::sync::Arc;

/// The events of the gallery as a stream.
const EVENTS: &str = "STREAM read_files('sim://world/in/events', format => 'json', \
     maxFilesPerTrigger => {limit}, schema => 'id int, page string, at timestamp, v int') \
     WATERMARK at DELAY OF INTERVAL 10 SECONDS";

/// The events as a table.
const TABLE: &str = "read_files('sim://world/in/events', format => 'json', \
     schema => 'id int, page string, at timestamp, v int')";

/// Sales for the events' pages, as a stream.
const SALES: &str = "STREAM read_files('sim://world/in/sales', format => 'json', \
     maxFilesPerTrigger => {limit}, schema => 'item string, sold timestamp, price int') \
     WATERMARK sold DELAY OF INTERVAL 10 SECONDS";

/// Every query of the gallery.
pub fn all() -> Vec<(Query, Input)> {
    let of = |query: Query| (query, events());
    let mut all = vec![
        of(stateless()),
        of(stateless().named("stateless-delta").output(Output::Delta)),
        of(stateless().named("stateless-each-batch").output(Output::EachBatch)),
        of(auto_loader()),
        of(tumbling()),
        of(tumbling().named("tumbling-delta").output(Output::Delta)),
        of(tumbling().named("tumbling-each-batch").output(Output::EachBatch)),
        of(sliding()),
        of(updates()),
        of(totals()),
        of(totals().named("totals-delta").output(Output::Delta)),
        of(sessions()),
        of(distinct()),
        of(distinct_within()),
        of(chain()),
        of(union()),
        of(processor()),
        of(timers()),
        (inner_join(), both()),
        (left_join(), both()),
        (join("right-join", "RIGHT"), both()),
        (join("full-join", "FULL"), both()),
        (semi_join(), both()),
        (rows(), pushed()),
        (rate(), pushed()),
        of(merged()),
    ];
    // With the other backend what has state, without its other outputs.
    let stateless = ["stateless", "stateless-delta", "stateless-each-batch", "rate", "merged"];
    let again = all.iter().filter(|(query, _)| {
        let name = query.name();
        !stateless.contains(&name) && (name == "tumbling-delta" || !name.ends_with("-delta"))
    });
    let again: Vec<_> = again
        .map(|(query, input)| {
            let name = format!("{}-lsm", query.name());
            (query.clone().named(name).backend(Backend::Lsm), input.clone())
        })
        .collect();
    all.extend(again);
    all
}

/// The query of this name.
pub fn find(name: &str) -> Option<(Query, Input)> {
    all().into_iter().find(|(query, _)| query.name() == name)
}

fn time(seconds: u32) -> String {
    format!("2026-06-10T10:{:02}:{:02}Z", seconds / 60, seconds % 60)
}

/// A file of the given rows: id, page, seconds, value.
pub(crate) fn event_file(rows: &[(u32, &str, u32, u32)]) -> String {
    let mut text = String::new();
    for (id, page, seconds, v) in rows {
        let at = time(*seconds);
        // Writing into text cannot fail.
        let _ = writeln!(text, r#"{{"id":{id},"page":"{page}","at":"{at}","v":{v}}}"#);
    }
    text
}

/// Two waves of files whose times rise; the last event closes what was open.
pub fn events() -> Input {
    let file = event_file;
    Input::new()
        .file("in/events/0.json", file(&[(1, "/a", 1, 3), (2, "/b", 2, 4), (1, "/a", 4, 3)]))
        .file("in/events/1.json", file(&[(3, "/a", 6, 5), (4, "/c", 12, 1)]))
        .file("in/events/2.json", file(&[(5, "/b", 14, 2), (2, "/b", 9, 4)]))
        .then()
        .file("in/events/3.json", file(&[(6, "/a", 21, 7), (7, "/b", 23, 8), (4, "/c", 12, 1)]))
        .file("in/events/4.json", file(&[(8, "/a", 31, 9), (6, "/a", 21, 7)]))
        .file("in/events/5.json", file(&[(99, "/end", 1800, 0)]))
}

/// A sale as a line of a file.
pub(crate) fn sale(item: &str, seconds: u32, price: u32) -> String {
    let sold = time(seconds);
    format!("{{\"item\":\"{item}\",\"sold\":\"{sold}\",\"price\":{price}}}\n")
}

/// Events, and sales of some of them.
pub fn both() -> Input {
    let mut input = events();
    let files = [
        ("in/sales/0.json", sale("/a", 3, 10) + &sale("/b", 8, 20)),
        ("in/sales/1.json", sale("/c", 13, 30)),
    ];
    for (path, text) in files {
        input.waves[0].files.push((path.into(), text.into()));
    }
    let files = [
        ("in/sales/2.json", sale("/a", 25, 40) + &sale("/a", 33, 50)),
        ("in/sales/3.json", sale("/end", 1800, 0)),
    ];
    for (path, text) in files {
        input.waves[1].files.push((path.into(), text.into()));
    }
    input
}

/// Filters and expressions.
pub fn stateless() -> Query {
    let select = "SELECT id, upper(page) AS page, at, v * 2 AS twice FROM";
    Query::sql("stateless", format!("{select} {EVENTS} WHERE v > 2"))
        .equals_batch(format!("{select} {TABLE} WHERE v > 2"))
}

/// The same by an Auto Loader, which finds the schema and keeps it in versions.
pub fn auto_loader() -> Query {
    let found = "STREAM read_files('sim://world/in/events', format => 'json', \
         maxFilesPerTrigger => {limit}, schemaLocation => 'sim://world/schema', \
         inferColumnTypes => true, schemaHints => 'id INT, v INT, at TIMESTAMP', \
         useIncrementalListing => 'auto', backfillInterval => '1 hour')";
    let select = "SELECT id, upper(page) AS page, at, v * 2 AS twice FROM";
    Query::sql("auto_loader", format!("{select} {found} WHERE v > 2"))
        .equals_batch(format!("{select} {TABLE} WHERE v > 2"))
}

fn windowed(window: &str) -> String {
    format!("SELECT {window} AS w, page, count(*) AS n, sum(v) AS total FROM")
}

/// Windows in append mode.
pub fn tumbling() -> Query {
    let select = windowed("window(at, '10 seconds')");
    let closed = "w.end <= TIMESTAMP '2026-06-10T10:25:00Z'";
    Query::sql("tumbling", format!("{select} {EVENTS} GROUP BY 1, 2"))
        .equals_batch(format!("SELECT * FROM ({select} {TABLE} GROUP BY 1, 2) WHERE {closed}"))
}

/// Overlapping windows.
pub fn sliding() -> Query {
    let select = windowed("window(at, '10 seconds', '5 seconds')");
    Query::sql("sliding", format!("{select} {EVENTS} GROUP BY 1, 2"))
}

/// Windows in update mode: every batch says what it changed.
pub fn updates() -> Query {
    let text = format!(
        "SELECT window(at, '10 seconds') AS w, page, max(v) AS most FROM {EVENTS} GROUP BY 1, 2"
    );
    Query::sql("updates", text).mode(OutputMode::Update).output(Output::EachBatch)
}

/// Groups without a window, whole each time, as a table in memory.
pub fn totals() -> Query {
    let select = "SELECT page, count(*) AS n, min(v) AS least, avg(v) AS mean FROM";
    Query::sql("totals", format!("{select} {EVENTS} GROUP BY page"))
        .mode(OutputMode::Complete)
        .output(Output::Table)
}

/// Sessions of each page.
pub fn sessions() -> Query {
    let select = "SELECT session_window(at, '5 seconds') AS s, page, count(*) AS n FROM";
    Query::sql("sessions", format!("{select} {EVENTS} GROUP BY 1, 2"))
}

/// A stream of the events, with its watermark.
async fn stream(start: &Start) -> Result<DataFrame> {
    let reader = start.session().read_stream().format("json");
    let reader = reader.schema("id int, page string, at timestamp, v int");
    let reader = reader.option("maxFilesPerTrigger", start.limit());
    reader.load("sim://world/in/events").await?.with_watermark("at", "10 seconds")
}

/// Duplicates by key and time.
pub fn distinct() -> Query {
    Query::new("distinct", |start| async move {
        stream(&start).await?.drop_duplicates(&["id", "at"])?.write_stream()
    })
    .equals_batch(format!("SELECT DISTINCT id, page, at, v FROM {TABLE}"))
}

/// Duplicates within the delay of the watermark.
pub fn distinct_within() -> Query {
    Query::new("distinct-within", |start| async move {
        stream(&start).await?.drop_duplicates_within_watermark(&["id"])?.write_stream()
    })
    .cut(crate::Cut::Fixed)
}

/// Windows over windows.
pub fn chain() -> Query {
    let text = format!(
        "SELECT window(w, '20 seconds') AS wide, sum(n) AS n FROM \
         (SELECT window(at, '10 seconds') AS w, page, count(*) AS n FROM {EVENTS} GROUP BY 1, 2) \
         GROUP BY 1"
    );
    Query::sql("chain", text)
}

/// Two streams one after the other, with watermarks of their own.
pub fn union() -> Query {
    let select = |kind: &str| format!("SELECT at, page, '{kind}' AS kind FROM {EVENTS}");
    let text = format!(
        "SELECT window(at, '10 seconds') AS w, kind, count(*) AS n FROM \
         ({} UNION ALL {}) GROUP BY 1, 2",
        select("one"),
        select("two")
    );
    Query::sql("union", text)
}

fn join(name: &str, kind: &str) -> Query {
    let text = format!(
        "SELECT e.id, e.page, e.at, s.sold, s.price FROM {EVENTS} AS e {kind} JOIN {SALES} AS s \
         ON e.page = s.item AND s.sold BETWEEN e.at AND e.at + INTERVAL 10 SECONDS"
    );
    Query::sql(name, text)
}

/// Events and the sales that follow them.
pub fn inner_join() -> Query {
    join("inner-join", "INNER")
}

/// Events, with the sales that follow them if there are any.
pub fn left_join() -> Query {
    join("left-join", "LEFT")
}

/// Events that a sale follows, once each.
pub fn semi_join() -> Query {
    let text = format!(
        "SELECT e.id, e.page, e.at FROM {EVENTS} AS e LEFT SEMI JOIN {SALES} AS s \
         ON e.page = s.item AND s.sold BETWEEN e.at AND e.at + INTERVAL 10 SECONDS"
    );
    // Whether a row that matched is stored depends on whether both came in one batch.
    Query::sql("semi-join", text).cut(crate::Cut::Fixed)
}

/// A processor with timers of event time.
pub fn timers() -> Query {
    Query::new("timers", |start| async move {
        let text = format!("SELECT id, page, at, unix_millis(at) AS ms FROM {EVENTS}");
        let text = text.replace("{limit}", &start.limit().to_string());
        let grouped = start.session().sql(&text).await?.group_by(vec![col("page")]);
        let told = grouped.transform_with_state(
            Tally::default(),
            "page STRING, number BIGINT, id BIGINT",
            TimeMode::EventTime,
            OutputMode::Append,
        )?;
        told.write_stream()
    })
    .cut(crate::Cut::Fixed)
}

/// Counts the values of each page.
#[derive(Default)]
struct Counts {
    seen: ValueState<i64>,
}

impl StatefulProcessor for Counts {
    fn init(&mut self, variables: &mut Variables) -> Result<()> {
        self.seen = variables.value("seen")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let page = key.get::<&str>("page")?;
        let mut seen = self.seen.get(call)?.unwrap_or_default();
        for row in rows.iter() {
            let id: i32 = row.get("id")?;
            seen += 1;
            call.emit((page, seen, id))?;
        }
        self.seen.update(call, seen)?;
        Ok(())
    }
}

/// A processor of one's own: numbers the events of each page.
pub fn processor() -> Query {
    Query::new("processor", |start| async move {
        let grouped = stream(&start).await?.group_by(vec![col("page")]);
        let numbered = grouped.transform_with_state(
            Counts::default(),
            "page STRING, number BIGINT, id INT",
            TimeMode::None,
            OutputMode::Append,
        )?;
        numbered.write_stream()
    })
    .cut(crate::Cut::Fixed)
}

/// Totals of each page that batches are added to, by MERGE: what happened twice would be seen.
pub fn merged() -> Query {
    Query::new("merged", |start| async move {
        let table = "sim://world/output";
        DeltaTable::create_if_not_exists(start.session(), table, "page STRING, n BIGINT", &[])
            .await?;
        let writer = stream(&start).await?.write_stream()?;
        Ok(writer.foreach_batch(|batch, _| async move {
            batch.create_or_replace_temp_view("batch")?;
            // The first counts, the second takes everything but the count itself back.
            for each in ["count(*) * 1000 + sum(v)", "-sum(v)"] {
                let merge = format!(
                    "MERGE INTO delta.`sim://world/output` AS t
                     USING (SELECT page, {each} AS n FROM batch GROUP BY page) AS s
                     ON t.page = s.page
                     WHEN MATCHED THEN UPDATE SET n = t.n + s.n WHEN NOT MATCHED THEN INSERT *"
                );
                batch.session()?.sql(&merge).await?;
            }
            Ok(())
        }))
    })
    .output(Output::Merged)
    .equals_batch(format!(
        "SELECT page, CAST(count(*) * 1000 AS BIGINT) AS n FROM {TABLE} GROUP BY page"
    ))
}

/// Rows that a program pushes, counted by key.
pub fn rows() -> Query {
    Query::new("rows", |start| async move { counted(&start) })
        .mode(OutputMode::Complete)
        .output(Output::EachBatch)
}

fn counted(start: &Start) -> Result<DataStreamWriter> {
    let rows = start.session().read_stream().name("rows").source(start.rows("rows")?)?;
    let totals = rows.group_by(vec![col("page")]).agg(vec![sum(col("v")).alias("total")])?;
    totals.write_stream()
}

/// Rows of a rate source, ten a batch, for as long as rows were pushed beside it: without an end it
/// has as many as there are runs.
pub fn rate() -> Query {
    Query::new("rate", |start| async move {
        let source = Arc::new(BoundedRate::new(start.rows("rows")?)?);
        start.session().read_stream().name("rate").source(source)?.write_stream()
    })
}

/// What [`rows`] reads.
pub fn pushed() -> Input {
    let batch = |pages: Vec<&str>, values: Vec<i64>| {
        let fields =
            vec![Field::new("page", DataType::Utf8, true), Field::new("v", DataType::Int64, true)];
        let columns: Vec<fluvial::arrow::array::ArrayRef> =
            vec![Arc::new(StringArray::from(pages)), Arc::new(Int64Array::from(values))];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
    };
    let mut input = Input::new();
    for (wave, (pages, values)) in
        [(vec!["/a", "/b"], vec![1, 2]), (vec!["/a", "/c"], vec![3, 4]), (vec!["/b"], vec![5])]
            .into_iter()
            .enumerate()
    {
        if wave > 0 {
            input = input.then();
        }
        // The columns are as long as each other.
        if let Ok(rows) = batch(pages, values) {
            input = input.rows("rows", rows);
        }
    }
    input
}
