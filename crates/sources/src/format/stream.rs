//! A stream of bytes into a stream of batches.

use super::{Batches, Decode};
use arrow::array::RecordBatch;
use bytes::Bytes;
use fluvial_core::{Error, Result, RowStream};
use futures::StreamExt;
use futures::stream::BoxStream;

struct State {
    chunks: BoxStream<'static, Result<Bytes>>,
    decoder: Box<dyn Decode>,
    ready: Batches,
    ended: bool,
    /// What ended the bytes: it comes after the rows that were read before.
    failure: Option<Error>,
}

/// The batches that `decoder` makes of `chunks`.
pub(crate) fn decode(
    chunks: BoxStream<'static, Result<Bytes>>,
    decoder: Box<dyn Decode>,
) -> RowStream {
    let state = State { chunks, decoder, ready: Batches::new(), ended: false, failure: None };
    futures::stream::try_unfold(state, |mut state| async move {
        let batch = state.next().await?;
        Ok(batch.map(|batch| (batch, state)))
    })
    .boxed()
}

impl State {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.ready.is_empty() && !self.ended {
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.decoder.feed(&chunk, &mut self.ready)?,
                Some(Err(error)) => {
                    self.ended = true;
                    self.failure = Some(error);
                    self.decoder.interrupt(&mut self.ready)?;
                }
                None => {
                    self.ended = true;
                    self.decoder.end(&mut self.ready)?;
                }
            }
        }
        match (self.ready.pop_front(), self.failure.take()) {
            (None, Some(error)) => Err(error),
            (batch, failure) => {
                self.failure = failure;
                Ok(batch)
            }
        }
    }
}
