//! Rules against fraud: state, lists and timers for each card, in a processor of one's own.
//!
//! ```text
//! cargo run -p fluvial --example fraud_rules
//! ```
//!
//! - *velocity*: more than three payments of a card within a minute;
//! - *probe*: a payment of a hundred or more within a minute after one of less than one: a stolen
//!   card is tried with little money first.
//!
//! Time is event time: timers fire when the watermark has passed them, so a replay of old payments
//! raises the same alarms.

use fluvial::prelude::*;
use fluvial::transform::{
    Call, EventTime, ExpiredTimer, HandlerResult, InputRows, Key, ListState, StatefulProcessor,
    TimeMode, ValueState, Variables,
};
use std::error::Error;
use std::fs;

const MINUTE_MS: i64 = 60_000;
const PAYMENTS_MAX: usize = 3;

/// Where the files land, relative to the session's folder.
pub(crate) const LANDING: &str = "landing/payments";

/// Payments in two files: when, which card, how much.
pub(crate) const PAYMENTS: [&str; 2] = [
    r#"{"ts": "2026-06-10T10:00:00Z", "card": "1111", "amount": 12.5}
{"ts": "2026-06-10T10:00:05Z", "card": "2222", "amount": 0.5}
{"ts": "2026-06-10T10:00:20Z", "card": "1111", "amount": 80}
{"ts": "2026-06-10T10:00:40Z", "card": "2222", "amount": 450}
{"ts": "2026-06-10T10:00:50Z", "card": "1111", "amount": 7}
{"ts": "2026-06-10T10:00:58Z", "card": "1111", "amount": 30}
{"ts": "2026-06-10T10:01:00Z", "card": "3333", "amount": 0.8}
"#,
    r#"{"ts": "2026-06-10T10:05:00Z", "card": "3333", "amount": 900}
{"ts": "2026-06-10T10:05:10Z", "card": "1111", "amount": 5}
"#,
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::create_dir_all(folder.path().join(LANDING))?;
    let session = Session::builder().base_dir(folder.path()).build()?;
    let query = fraud_rules(&session).await?;
    for (number, payments) in PAYMENTS.into_iter().enumerate() {
        fs::write(folder.path().join(LANDING).join(format!("{number}.json")), payments)?;
        query.process_all_available().await?;
    }
    session.sql("SELECT * FROM alarms ORDER BY at, card").await?.show().await?;
    query.stop().await?;
    Ok(())
}

/// Starts the query. Its alarms are the table `alarms`.
pub(crate) async fn fraud_rules(session: &Session) -> fluvial::Result<StreamingQuery> {
    session
        .read_stream()
        .format("json")
        .schema("ts TIMESTAMP, card STRING, amount DOUBLE")
        .load(LANDING)
        .await?
        .with_watermark("ts", "30 seconds")?
        .group_by(vec![col("card")])
        .transform_with_state(
            FraudRules::default(),
            "card STRING, rule STRING, at TIMESTAMP",
            TimeMode::EventTime,
            OutputMode::Append,
        )?
        .write_stream()?
        .format("memory")
        .query_name("alarms")
        .start()
        .await
}

/// What is remembered of each card.
#[derive(Default)]
pub(crate) struct FraudRules {
    /// Times of the payments of the last minute, in milliseconds.
    recent: ListState<i64>,
    /// Until when a small payment makes a large one suspicious.
    probed_until: ValueState<i64>,
}

impl StatefulProcessor for FraudRules {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.recent = variables.list("recent")?;
        self.probed_until = variables.value("probed_until")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let card = key.get::<&str>("card")?;
        // Rows come in the order of their arrival, which need not be that of their times.
        let payments = rows.iter().map(|row| Ok((row.get("ts")?, row.get("amount")?)));
        let mut payments = payments.collect::<fluvial::Result<Vec<(EventTime, f64)>>>()?;
        payments.sort_by_key(|(at, _)| *at);
        for (at, amount) in payments {
            let at_ms = at.as_millis();
            if self.is_fast(at_ms, call)? {
                call.emit((card, "velocity", at))?;
            }
            let probed = self.probed_until.get(call)?;
            if amount >= 100.0 && probed.is_some_and(|until| at_ms <= until) {
                call.emit((card, "probe", at))?;
            }
            if amount < 1.0 {
                self.probed_until.update(call, at_ms + MINUTE_MS)?;
            }
            // When this fires, the payment is of no interest any more.
            call.register_timer(at_ms + MINUTE_MS)?;
        }
        Ok(())
    }

    fn handle_expired_timer(
        &self,
        _: &Key<'_>,
        expired: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let recent = self.recent.get(call)?;
        let kept: Vec<i64> =
            recent.into_iter().filter(|at| at + MINUTE_MS > expired.expiry_ms).collect();
        match kept.is_empty() {
            true => self.recent.clear(call)?,
            false => self.recent.put(call, kept)?,
        }
        if self.probed_until.get(call)?.is_some_and(|until| until <= expired.expiry_ms) {
            self.probed_until.clear(call)?;
        }
        Ok(())
    }
}

impl FraudRules {
    /// Remembers a payment; says whether it is one too many within a minute.
    fn is_fast(&self, at_ms: i64, call: &mut Call<'_>) -> fluvial::Result<bool> {
        self.recent.append(call, at_ms)?;
        let recent = self.recent.get(call)?;
        let within = recent.into_iter().filter(|other| (at_ms - MINUTE_MS..=at_ms).contains(other));
        Ok(within.count() > PAYMENTS_MAX)
    }
}
