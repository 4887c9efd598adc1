//! Topics as a source.

mod first;
mod lag;
mod options;
mod position;
mod reading;
mod share;
mod starting;
mod subscription;
mod survey;

pub use options::{SourceOptions, SourceOptionsKind};
pub use position::Position;
pub(crate) use reading::OUT_OF_RANGE;
pub(crate) use starting::answered;
pub(crate) use subscription::is_topic;

use crate::broker::{Broker, Offsets, Seek, TopicPartition};
use crate::range_rows::{self, RangeRows};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use first::First;
use fluvial_core::{
    Clock, Error, Frontier, Offset, PlanRequest, ReadLimit, Result, RowStream, Source, SourceRange,
    Split,
};
use futures::StreamExt;
use lag::Lag;
use object_store::ObjectStore;
use object_store::path::Path;
use options::OnLoss;
use share::{Part, Planned};
use starting::{NoMatch, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use subscription::Found;

/// Reads topics of Kafka.
///
/// # Contract
///
/// Rows of one partition come in the order of their offsets. Partitions have no order among each
/// other, so law 4 (additivity) holds partition by partition. With `minOffsetsPerTrigger` there
/// may be no plan although there is something to read (law 2): that is what the option asks for.
///
/// An offset is the next record's: a batch ends where the next one begins. Numbers may be missing
/// in between, where a transaction ended or was aborted, or where a topic was compacted: that is no
/// loss. What is lost is what lies before the beginning of a log, in partitions that are gone, and
/// in topics that were made again under their name.
///
/// Partitions that appear after the first batch are read from their earliest offset.
pub struct KafkaSource {
    broker: Arc<dyn Broker>,
    options: SourceOptions,
    schema: SchemaRef,
    clock: Arc<dyn Clock>,
    first: Option<First>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lag: Lag,
    /// When the newest batch was adopted, by the clock's monotonic time.
    adopted: Option<Duration>,
    /// The end of what this process planned last: its topics were looked at just then.
    planned: Option<Offset>,
    /// Topics that were made again since the batch that is run again was planned.
    remade: BTreeSet<String>,
}

impl KafkaSource {
    /// A source that reads from `broker`. The clock decides `maxTriggerDelay`, nothing else.
    pub fn new(broker: Arc<dyn Broker>, options: SourceOptions, clock: Arc<dyn Clock>) -> Self {
        let schema = range_rows::schema(options.headers);
        Self { broker, options, schema, clock, first: None, state: Mutex::default() }
    }

    /// Keeps where the query begins in a folder of its checkpoint, so that a query which is
    /// stopped before its first batch goes on from there.
    #[must_use]
    pub fn with_folder(mut self, store: Arc<dyn ObjectStore>, folder: Path) -> Self {
        self.first = Some(First { store, folder });
        self
    }

    /// The schema of the rows that a source with these options has.
    pub fn schema_of(options: &SourceOptions) -> SchemaRef {
        range_rows::schema(options.headers)
    }

    /// The kind and the subscription, as in Spark.
    pub fn description_of(options: &SourceOptions) -> String {
        format!("KafkaV2[{}]", options.subscription)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find(&self) -> Result<Found> {
        self.options.subscription.find(self.broker.as_ref()).await
    }

    async fn look(&self, places: &BTreeSet<TopicPartition>, seek: Seek) -> Result<Offsets> {
        let wanted: Vec<_> = places.iter().map(|place| (place.clone(), seek)).collect();
        self.broker.offsets(&wanted, self.options.isolation).await
    }

    /// The position at the offsets `at`.
    fn position(found: &Found, at: BTreeMap<TopicPartition, i64>) -> Position {
        let mut ids = found.ids.clone();
        ids.retain(|topic, _| at.keys().any(|place| place.topic.as_ref() == topic));
        Position { offsets: at, ids }
    }

    async fn begin(&self) -> Result<Offset> {
        let found = self.find().await?;
        if let Some(missing) = self.options.subscription.missing(&found) {
            return Err(Error::not_found(format!(
                "{missing} does not exist: create it, or look for a mistake in its name"
            ))
            .with_condition("KAFKA_TOPIC_NOT_FOUND"));
        }
        let how = (Side::Starting, self.options.no_match);
        let (broker, isolation) = (self.broker.as_ref(), self.options.isolation);
        let at = self.options.start.resolve(broker, &found.partitions, isolation, how).await?;
        Self::position(&found, at).to_offset()
    }

    /// Whether to wait for more: `minOffsetsPerTrigger` are not there, and `maxTriggerDelay` is
    /// not over.
    fn waits(&self, offsets: u64) -> bool {
        let Some(min) = self.options.offsets_min else { return false };
        let waited = self.state().adopted.map(|at| self.clock.monotonic().saturating_sub(at));
        offsets < min.get() && waited.is_some_and(|waited| waited < self.options.delay_max)
    }
}

impl fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description())
    }
}

#[async_trait]
impl Source for KafkaSource {
    fn description(&self) -> String {
        Self::description_of(&self.options)
    }

    fn kind(&self) -> &str {
        "kafka"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn read_limit(&self) -> ReadLimit {
        ReadLimit { rows: self.options.offsets_max, ..ReadLimit::NONE }
    }

    async fn initial(&self) -> Result<Offset> {
        let Some(first) = &self.first else { return self.begin().await };
        match first.load().await? {
            Some(offset) => Ok(offset),
            None => first.keep(self.begin().await?).await,
        }
    }

    async fn frontier(&self) -> Result<Frontier> {
        let found = self.find().await?;
        let (broker, isolation) = (self.broker.as_ref(), self.options.isolation);
        let latest = starting::Bound::All(Seek::Latest);
        let end = self.options.end.as_ref().unwrap_or(&latest);
        let how = (Side::Ending, NoMatch::Latest);
        let at = end.resolve(broker, &found.partitions, isolation, how).await?;
        Ok(Frontier(Self::position(&found, at).to_offset()?.into()))
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let start = Position::of(request.start)?;
        let until = match (request.until, &self.options.end) {
            (Some(until), _) => Some(until.clone()),
            (None, Some(_)) => Some(self.frontier().await?),
            (None, None) => None,
        };
        let until = until.map(|until| Position::of(&until.0.into())).transpose()?;
        let mut found = self.find().await?;
        if let Some(until) = &until {
            // What appeared later is for a later run, which reads it from its beginning.
            let known =
                |p: &TopicPartition| until.offsets.contains_key(p) || start.offsets.contains_key(p);
            found.partitions.retain(known);
        }
        let mut survey = survey::survey(&start, &found, &self.options.subscription)?;
        let latest = self.look(&found.partitions, Seek::Latest).await?;
        let earliest = self.look(&found.partitions, Seek::Earliest).await?;
        let from = survey.place(&earliest, &latest)?;
        if let (OnLoss::Fail, Some(loss)) = (self.options.on_loss, survey.losses.first()) {
            return Err(loss.error());
        }
        let mut parts = Vec::new();
        for (place, next) in &from {
            let mut end = answered(&latest, place)?;
            if let Some(until) = until.as_ref().and_then(|until| until.offsets.get(place)) {
                end = end.min(*until);
            }
            if *next < end {
                parts.push(Part { place: place.clone(), from: *next, until: end });
            }
        }
        let offsets = parts.iter().map(Part::len).sum();
        if survey.losses.is_empty()
            && (parts.is_empty() || (until.is_none() && self.waits(offsets)))
        {
            return Ok(None);
        }
        share::limit(&mut parts, share::offsets_max(request.limit));
        let mut at = from;
        at.extend(parts.iter().map(|part| (part.place.clone(), part.until)));
        let mut position = Self::position(&found, at);
        for (topic, id) in start.ids.iter().filter(|(topic, _)| !found.ids.contains_key(*topic)) {
            if position.offsets.keys().any(|place| place.topic.as_ref() == topic) {
                position.ids.insert(topic.clone(), id.clone());
            }
        }
        let end = position.to_offset()?;
        let mut state = self.state();
        state.lag.see(&position, &latest);
        survey.losses.iter().for_each(|loss| state.lag.skip(loss.offsets));
        state.planned = Some(end.clone());
        drop(state);
        let SourceOptions { partitions_min, records_max, isolation, .. } = self.options;
        let splits = share::splits(&parts, partitions_min, records_max, isolation)?;
        Ok(Some(SourceRange { start: request.start.clone(), end, splits, log: None }))
    }

    /// After a restart the topics are held against those that the batch was planned for: it is
    /// run again only on the same ones.
    async fn adopt(&self, range: &SourceRange) -> Result<()> {
        let now = self.clock.monotonic();
        let here = {
            let mut state = self.state();
            state.adopted = Some(now);
            let here = state.planned.as_ref() == Some(&range.end);
            if here {
                state.remade.clear();
            }
            here
        };
        if here {
            return Ok(());
        }
        let end = Position::of(&range.end)?;
        let found = self.find().await?;
        if self.options.on_loss == OnLoss::Fail {
            let survey = survey::survey(&end, &found, &self.options.subscription)?;
            return survey.losses.first().map_or(Ok(()), |loss| Err(loss.error()));
        }
        self.state().remade = survey::remade(&end, &found);
        Ok(())
    }

    fn read(
        &self,
        _range: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream> {
        let Planned { topic, partition, from, until, isolation } = Planned::of(split)?;
        if self.state().remade.contains(&topic) {
            return Ok(futures::stream::empty().boxed());
        }
        let place = TopicPartition::new(topic, partition);
        let rows = RangeRows::projected(place, from, until, &self.schema, projection);
        let broker = Arc::clone(&self.broker);
        Ok(reading::read(broker, rows, isolation, self.options.on_loss))
    }

    /// How far behind the latest offsets, as in Spark and by partition, and how many offsets were
    /// gone before they were read.
    fn metrics(&self) -> BTreeMap<String, String> {
        self.state().lag.metrics()
    }

    async fn release(&self, _range: &SourceRange) -> Result<()> {
        Ok(())
    }
}
