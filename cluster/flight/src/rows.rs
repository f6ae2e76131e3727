//! Results as streams of Flight: [`stream`]. Batches are computed while the client reads; few wait.
//!
//! Clients in some languages know no string views: texts go as plain texts, as in the ADBC driver.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use futures::{Stream, StreamExt};
use swingdb::plain_rows::{plain_batch, plain_schema};
use swingdb::{InterruptHandle, QueryResult};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::Status;

use crate::status::{of_arrow, of_database};

/// Batches of a result that wait for the network, beside those that the engine computes ahead.
const QUEUE_BATCHES: usize = 2;

/// What DoGet answers.
pub type Answer = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// The rows of a result as they are computed. `kept` lives as long as they are read; a client that
/// takes nothing for `patience` is not waited for.
pub fn stream<K: Send + 'static>(
    result: QueryResult,
    patience: Option<Duration>,
    kept: K,
) -> Answer {
    let schema = Arc::new(plain_schema(&result.schema()));
    let (sender, batches) = channel(QUEUE_BATCHES);
    let ends = result.interrupt_handle();
    let of_rows = Arc::clone(&schema);
    tokio::task::spawn_blocking(move || {
        let (network, _kept) = (Handle::current(), kept);
        for batch in result {
            let batch = batch.map_err(|error| of_database(&error));
            let batch = batch.and_then(|batch| plain_batch(&batch, &of_rows).map_err(of_arrow));
            if !network.block_on(send(&sender, Some(batch), patience)) {
                return;
            }
        }
        // Only what has been computed to its end ends without an error.
        network.block_on(send(&sender, None, patience));
    });
    encoded(schema, Batches { batches, ends, is_whole: false })
}

/// Hands something over; whether the client takes it in time.
async fn send<T>(sender: &Sender<T>, what: T, patience: Option<Duration>) -> bool {
    match patience {
        None => sender.send(what).await.is_ok(),
        Some(patience) => {
            let sent = tokio::time::timeout(patience, sender.send(what)).await;
            matches!(sent, Ok(Ok(())))
        }
    }
}

/// Rows that are all there.
pub fn ready(batch: RecordBatch) -> Answer {
    encoded(batch.schema(), futures::stream::iter([Ok(batch)]))
}

fn encoded(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch, Status>> + Send + 'static,
) -> Answer {
    let batches = batches.map(|batch| batch.map_err(|status| FlightError::Tonic(Box::new(status))));
    let data = FlightDataEncoderBuilder::new()
        .with_dictionary_handling(DictionaryHandling::Resend)
        .with_schema(schema)
        .build(batches);
    Box::pin(data.map(|data| data.map_err(Status::from)))
}

/// The batches of a result, whose computation ends with them; `None` behind the last.
struct Batches {
    batches: Receiver<Option<Result<RecordBatch, Status>>>,
    ends: Option<InterruptHandle>,
    is_whole: bool,
}

impl Stream for Batches {
    type Item = Result<RecordBatch, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_whole {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.batches.poll_recv(cx));
        self.is_whole = !matches!(next, Some(Some(Ok(_))));
        Poll::Ready(next.unwrap_or_else(|| {
            let message =
                "the result ended early: it was not read in time, or its computation broke";
            Some(Err(Status::aborted(message)))
        }))
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        if let Some(ends) = &self.ends {
            ends.interrupt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_waits_for_a_client_without_end() {
        let (sender, mut taken) = channel(1);
        let patience = Some(Duration::from_millis(20));
        assert!(send(&sender, Some(1), patience).await);
        assert!(!send(&sender, None, patience).await);
        assert_eq!(taken.recv().await, Some(Some(1)));
        assert!(send(&sender, None, None).await);
        drop(taken);
        assert!(!send(&sender, Some(2), None).await && !send(&sender, None, patience).await);
    }
}
