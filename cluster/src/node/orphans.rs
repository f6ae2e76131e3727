//! Changes whose coordinators have gone: each node settles them by itself.
//!
//! A coordinator attends to its change by a stream ([`Ask::Attend`](crate::wire::Ask)). When that
//! ends, however the coordinator has ended, the node drops the change if it decides about it, or if
//! it has not prepared it: then the change cannot be decided any more. A node that has prepared the
//! change asks the decider what has become of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::changes::{Begin, Standing, Which};
use crate::client::Client;
use crate::error::Result;
use crate::node::Node;

/// How long a node that has started with an open change waits, before it looks after that: the
/// coordinator may be there, and settle it.
const AFTER_START: Duration = Duration::from_secs(5);
/// The same of the node that decides: until then a coordinator has given up.
const DECIDER_AFTER_START: Duration = Duration::from_secs(30);
/// How long a coordinator may take from the beginning of a change until it attends to it.
const UNTIL_ATTENDED: Duration = Duration::from_secs(10);
/// The first pause between two questions; each is twice the one before.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often the decider is asked: for more than an hour. Then somebody has to recover.
const MOST_QUESTIONS: u32 = 1000;

/// Settles a change when it is dropped, which is when its coordinator has gone, or is done with it.
pub struct Attended {
    /// The node.
    pub node: Arc<Node>,
    /// How other nodes are reached.
    pub client: Client,
    /// The threads that do it.
    pub work: Handle,
    /// The database.
    pub database: String,
    /// The number of the change.
    pub number: u64,
    /// Who has begun it.
    pub coordinator: String,
}

/// Settles a change in a while, unless its coordinator attends to it until then.
pub fn await_attention(attended: Attended) {
    let work = attended.work.clone();
    work.spawn(async move {
        tokio::time::sleep(UNTIL_ATTENDED).await;
        if attended.node.attending.lock().contains(&attended.coordinator) {
            // Its stream does it.
            attended.leave();
        }
    });
}

impl Attended {
    /// Settles nothing.
    fn leave(mut self) {
        self.coordinator.clear();
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        if self.coordinator.is_empty() {
            return;
        }
        self.node.attending.lock().remove(&self.coordinator);
        let (node, client) = (Arc::clone(&self.node), self.client.clone());
        let (database, coordinator) = (self.database.clone(), self.coordinator.clone());
        let number = self.number;
        self.work.spawn(async move {
            let own = Arc::clone(&node);
            let left = blocking(move || own.changes.abandon(&database, number, &coordinator));
            if let Ok(Some(begin)) = left.await {
                ask(&node, &client, &begin, Duration::ZERO).await;
            }
        });
    }
}

/// Looks after the changes that were prepared when the node ended.
pub fn take_care(node: &Arc<Node>, client: &Client, work: &Handle) {
    // Nobody attends to a change without a coordinator.
    let open = node.changes.open_again().into_iter().filter(|open| !open.coordinator.is_empty());
    for begin in open {
        let (node, client) = (Arc::clone(node), client.clone());
        work.spawn(async move {
            if !begin.decides {
                return ask(&node, &client, &begin, AFTER_START).await;
            }
            tokio::time::sleep(DECIDER_AFTER_START).await;
            // Whatever goes wrong is left to whoever recovers.
            let _ = blocking(move || {
                node.changes.abandon(&begin.database, begin.number, &begin.coordinator)
            })
            .await;
        });
    }
}

/// Asks the decider until it says what has become of a change. Every node takes part in a change,
/// and begins none while it has one open. So a number that the decider has is this change's, or
/// that of a later one, for which this one had to be settled.
async fn ask(node: &Arc<Node>, client: &Client, begin: &Begin, first: Duration) {
    let mut pause = first;
    for _ in 0..MOST_QUESTIONS {
        tokio::time::sleep(pause).await;
        pause = (2 * pause).clamp(PAUSE, LONGEST_PAUSE);
        if !node.changes.is_open(begin) {
            return;
        }
        let said = client.act(&begin.decider, "standing", &begin.decider_database).await;
        let Ok(Standing { last, open, .. }) = said else { continue };
        let is_decided = last >= begin.number;
        if !is_decided && open.is_some_and(|open| open.number == begin.number) {
            continue;
        }
        let own = Arc::clone(node);
        let Begin { database, number, coordinator, .. } = begin.clone();
        let which = Which { database, number, by: coordinator };
        let settled = blocking(move || match is_decided {
            true => own.changes.commit(&which),
            false => own.changes.abort(&which),
        });
        if settled.await.is_ok() {
            return;
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| crate::error::Error::Unsupported(error.to_string()))?
}
