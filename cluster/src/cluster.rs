//! The nodes of a cluster as a coordinator sees them: [`Cluster`].

use std::future::Future;
use std::sync::Arc;

use futures::future::{join_all, try_join_all};
use tokio::runtime::Runtime;

use crate::client::{Client, Kept, Limits};
use crate::error::{Error, Result};
use crate::session::Session;

/// How often a session looks again whose nodes showed different changes.
const MAX_LOOKS: usize = 20;
/// The pause in between.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Where a shard is: a node and a database of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node: `host:port`.
    pub node: String,
    /// The database.
    pub database: String,
}

/// How a cluster is reached.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The secret that nodes ask for.
    pub token: Option<String>,
    /// The file with the certificates that nodes' certificates are signed by; with it, all
    /// connections are encrypted.
    pub tls_ca: Option<std::path::PathBuf>,
    /// How long nodes may take.
    pub limits: Limits,
}

/// See the [module documentation](self). Clones share connections.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) places: Vec<Place>,
    pub(crate) client: Client,
    pub(crate) token: Option<String>,
    threads: Arc<Threads>,
}

/// The threads of connections.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        // A runtime may not wait for its threads inside of another.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Cluster {
    /// A cluster of these nodes, each as `host:port/database`. Their order is that of the shards,
    /// and has to be the same each time.
    ///
    /// ```no_run
    /// let nodes = ["10.0.0.1:7411/sales", "10.0.0.2:7411/sales"];
    /// let cluster = swingdb_cluster::Cluster::connect(&nodes, Default::default())?;
    /// let session = cluster.session()?;
    /// for batch in session.query("SELECT region, sum(amount) FROM orders GROUP BY region")? {
    ///     println!("{:?}", batch?);
    /// }
    /// # Ok::<(), swingdb_cluster::Error>(())
    /// ```
    pub fn connect<S: AsRef<str>>(nodes: &[S], options: Options) -> Result<Self> {
        let places = places_of(nodes)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("swingdb-cluster")
            .enable_all()
            .build()
            .map_err(|error| Error::Database(error.into()))?;
        let client = Client::new(options.token.as_deref(), options.limits)?;
        let client = match &options.tls_ca {
            Some(file) => client.encrypted(file)?,
            None => client,
        };
        let client = client.on(runtime.handle().clone());
        let (token, threads) = (options.token, Arc::new(Threads(Some(runtime))));
        Ok(Self { inner: Arc::new(Inner { places, client, token, threads }) })
    }

    /// Other nodes by the same connections.
    pub(crate) fn of(&self, places: Vec<Place>) -> Self {
        let Inner { client, token, threads, .. } = self.inner.as_ref();
        let (client, token, threads) = (client.clone(), token.clone(), Arc::clone(threads));
        Self { inner: Arc::new(Inner { places, client, token, threads }) }
    }

    /// Refuses a list of nodes that is not that of the cluster.
    pub(crate) fn check_member(&self, nth: usize, known: Option<(u64, u64)>) -> Result<()> {
        let (nodes, place) = (self.places().len() as u64, nth as u64);
        let text = |nodes: u64, place: u64| match nodes {
            0 => "no node of a cluster any more".to_string(),
            _ => format!("number {} of {nodes} nodes", place + 1),
        };
        match known {
            Some(known) if known != (nodes, place) => Err(Error::Member {
                node: self.places()[nth].node.clone(),
                theirs: text(known.0, known.1),
                ours: text(nodes, place),
            }),
            _ => Ok(()),
        }
    }

    /// The nodes.
    pub fn places(&self) -> &[Place] {
        &self.inner.places
    }

    /// A session on the newest state of all nodes.
    pub fn session(&self) -> Result<Session> {
        let cluster = self.clone();
        let holds = self.wait(async move { cluster.hold().await })?;
        Session::new(self.clone(), holds)
    }

    /// Waits for work on the cluster's own threads.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let Some(runtime) = &self.inner.threads.0 else {
            return Err(Error::Unsupported("a cluster that was closed".to_string()));
        };
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        runtime.spawn(async move {
            // Whoever waits is there.
            let _ = sender.send(work.await);
        });
        let ended = || Error::Unsupported("work that ended without an answer".to_string());
        receiver.recv().map_err(|_| ended())?
    }

    /// Snapshots of all nodes at the same change.
    ///
    /// One round trip, unless a change is just being committed: then some nodes show it and others
    /// do not, and those that do are asked for the state before.
    pub(crate) async fn hold(&self) -> Result<Vec<Kept>> {
        let Inner { places, client, .. } = self.inner.as_ref();
        let ask = |place: &Place, change| {
            let (client, place) = (client.clone(), place.clone());
            async move { client.hold(&place.node, &place.database, change).await }
        };
        for _ in 0..MAX_LOOKS {
            let mut holds = try_join_all(places.iter().map(|place| ask(place, None))).await?;
            let oldest = holds.iter().map(|kept| kept.held.change).min().unwrap_or(0);
            let newer = holds.iter().enumerate().filter(|(_, kept)| kept.held.change > oldest);
            let newer = newer.map(|(nth, _)| nth).collect::<Vec<_>>();
            let before = newer.iter().map(|nth| ask(&places[*nth], Some(oldest)));
            let mut is_one = true;
            for (nth, before) in newer.iter().zip(join_all(before).await) {
                match before {
                    Ok(before) => holds[*nth] = before,
                    // Meanwhile all nodes have committed, and it does not keep that state.
                    Err(Error::NodeFailed { .. }) => is_one = false,
                    Err(other) => return Err(other),
                }
            }
            if is_one {
                for (nth, kept) in holds.iter().enumerate() {
                    self.check_member(nth, kept.held.place)?;
                }
                return Ok(holds);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(Error::Unsupported("a session while changes follow each other so fast".to_string()))
    }
}

/// The places of a list of addresses.
pub(crate) fn places_of<S: AsRef<str>>(nodes: &[S]) -> Result<Vec<Place>> {
    let places = nodes.iter().map(|node| place(node.as_ref())).collect::<Result<Vec<_>>>()?;
    if places.is_empty() {
        return Err(Error::Unsupported("a cluster without nodes".to_string()));
    }
    for (nth, place) in places.iter().enumerate() {
        if places[..nth].contains(place) {
            let address = format!("{}/{} (twice)", place.node, place.database);
            return Err(Error::Address { address });
        }
    }
    Ok(places)
}

fn place(address: &str) -> Result<Place> {
    let wrong = || Error::Address { address: address.to_string() };
    let (node, database) = address.split_once('/').ok_or_else(wrong)?;
    let (host, port) = node.rsplit_once(':').ok_or_else(wrong)?;
    if host.is_empty() || port.parse::<u16>().is_err() || database.is_empty() {
        return Err(wrong());
    }
    Ok(Place { node: node.to_string(), database: database.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_a_port_and_a_database() {
        let read = place("10.0.0.1:7411/sales").unwrap();
        assert_eq!((read.node.as_str(), read.database.as_str()), ("10.0.0.1:7411", "sales"));
        assert!(place("[::1]:7411/sales").is_ok());
        for wrong in ["", "sales", "host/sales", "host:x/sales", "host:1", "host:1/", ":1/sales"] {
            assert!(matches!(place(wrong), Err(Error::Address { .. })), "{wrong}");
        }
        let twice = ["a:1/x", "a:1/x"];
        assert!(Cluster::connect(&twice, Options::default()).is_err());
    }
}
