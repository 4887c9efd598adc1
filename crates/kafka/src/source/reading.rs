//! Reading a split, also where a part of it is gone.

use super::options::OnLoss;
use super::starting::answered;
use crate::broker::{Broker, Isolation, Seek};
use crate::range_rows::RangeRows;
use fluvial_core::{Error, Result, RowStream};
use futures::stream::{self, StreamExt};
use std::sync::Arc;

/// What a broker says of an offset that it does not have.
pub(crate) const OUT_OF_RANGE: &str = "KAFKA_OFFSET_OUT_OF_RANGE";

/// The rows of a range. What retention took meanwhile is an error, or is skipped: rows that are
/// there come once in any case.
pub(crate) fn read(
    broker: Arc<dyn Broker>,
    rows: RangeRows,
    isolation: Isolation,
    on_loss: OnLoss,
) -> RowStream {
    let rest = rows.rest(rows.next_offset());
    let reading =
        Reading { fetched: broker.fetch(rows, isolation), rest, broker, isolation, on_loss };
    stream::try_unfold(reading, |mut reading| async move {
        loop {
            match reading.fetched.next().await {
                None => return Ok(None),
                Some(Ok(batch)) => return Ok(Some((batch, reading))),
                Some(Err(error)) if error.condition() == Some(OUT_OF_RANGE) => {
                    reading.skip(error).await?;
                }
                Some(Err(error)) => return Err(error),
            }
        }
    })
    .boxed()
}

struct Reading {
    broker: Arc<dyn Broker>,
    fetched: RowStream,
    /// The range again, to go on with.
    rest: RangeRows,
    isolation: Isolation,
    on_loss: OnLoss,
}

impl Reading {
    /// Goes on behind what is gone. What was delivered before lies in front of it.
    async fn skip(&mut self, error: Error) -> Result<()> {
        let place = self.rest.place().clone();
        let wanted = [(place.clone(), Seek::Earliest)];
        let first = answered(&self.broker.offsets(&wanted, self.isolation).await?, &place)?;
        let (next, until) = (self.rest.next_offset(), self.rest.until());
        if self.on_loss == OnLoss::Fail {
            return Err(Error::not_found(format!(
                "{place}: a batch has the offsets {next} to {until}, but the log begins at \
                 {first}: start again with a new checkpoint, or set failOnDataLoss to false to go \
                 on without what is gone"
            ))
            .with_condition("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE")
            .with_source(error));
        }
        // Where nothing was passed the log has become shorter: nothing of the range is to come.
        let from = if first > next { first } else { until };
        self.rest = self.rest.rest(from);
        self.fetched = match self.rest.is_done() {
            true => stream::empty().boxed(),
            false => self.broker.fetch(self.rest.rest(from), self.isolation),
        };
        Ok(())
    }
}
