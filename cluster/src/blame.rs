//! Errors of parts of plans that are out of memory name their node: [`blaming`], [`blamed`].
//!
//! Such an error has only the sizes that the node's pool knows of, and comes to the coordinator
//! through other nodes. So whoever gets it from the node it happened at adds the node.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http::HeaderMap;

use crate::error::Error;

/// Between the name of a node and what its pool says.
const MARK: &str = " is out of memory: ";
/// How the database says that memory is short.
const SHORT: &str = "out of memory: ";

/// The channel to a node whose errors of memory name it.
pub fn blaming(node: String, channel: Box<dyn WorkerChannel>) -> Box<dyn WorkerChannel> {
    Box::new(Blaming { node, channel })
}

/// The error of the node that a text names as out of memory.
pub fn blamed(text: &str) -> Option<Error> {
    let (before, message) = text.split_once(MARK)?;
    let node = before.rsplit(' ').next().unwrap_or(before).to_string();
    Some(Error::NodeFailed { node, message: format!("{SHORT}{message}") })
}

struct Blaming {
    node: String,
    channel: Box<dyn WorkerChannel>,
}

/// An error of a node, which is named if its memory was short.
fn named(node: &str, error: DataFusionError) -> DataFusionError {
    let message = match error.find_root() {
        DataFusionError::ResourcesExhausted(message) => Some(message.clone()),
        DataFusionError::External(other) => {
            other.to_string().strip_prefix(SHORT).map(str::to_string)
        }
        _ => None,
    };
    match message {
        Some(message) => DataFusionError::Execution(format!("node {node}{MARK}{message}")),
        None => error,
    }
}

#[async_trait]
impl WorkerChannel for Blaming {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        request: SetPlanRequest,
        stream: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let node = self.node.clone();
        let answer =
            self.channel.coordinator_channel(headers, request, stream, metrics, context).await;
        let answer = answer.map_err(|error| named(&node, error))?;
        Ok(answer.map_err(move |error| named(&node, error)).boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let parts = self.channel.execute_task(headers, request, metrics, context).await;
        let parts = parts.map_err(|error| named(&self.node, error))?;
        let of_node = |rows: BoxStream<'static, Result<RecordBatch>>| {
            let node = self.node.clone();
            rows.map_err(move |error| named(&node, error)).boxed()
        };
        Ok(parts.into_iter().map(of_node).collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        self.channel.get_worker_info(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_out_of_memory_is_named_once() {
        let short = || DataFusionError::ResourcesExhausted("1 KB for a sort".to_string());
        for error in [
            short(),
            short().context("in a stage"),
            DataFusionError::Shared(Arc::new(short())),
            DataFusionError::External("out of memory: 1 KB for a sort".into()),
        ] {
            let named = named("b:1", named("a:1", error));
            let Some(Error::NodeFailed { node, message }) = blamed(&named.to_string()) else {
                panic!("{named}")
            };
            assert_eq!(
                (node.as_str(), message.as_str()),
                ("a:1", "out of memory: 1 KB for a sort")
            );
        }
        let other = named("a:1", DataFusionError::Execution("division by zero".to_string()));
        assert!(blamed(&other.to_string()).is_none());
    }
}
