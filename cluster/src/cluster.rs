//! The nodes of a cluster as a coordinator sees them: [`Cluster`].

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{join_all, try_join_all};
use futures::stream::FuturesUnordered;
use swingdb_common::runtime::cancel::go_on;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::catalog::Member;
use crate::changes::Which;

use crate::client::{Client, Kept, Limits};
use crate::error::{Error, Result};
use crate::session::Session;
use crate::wire::Shows;

/// How often a session looks again whose nodes showed different changes.
const MAX_LOOKS: usize = 20;
/// The pause in between.
const PAUSE: Duration = Duration::from_millis(20);
/// How often who waits for nodes looks whether its statement is to end.
const LOOK: Duration = Duration::from_millis(20);
/// How much longer than a copy of its shard a node may take to answer, before it is left out.
const GRACE: Duration = Duration::from_secs(1);

/// Where a shard is: a node and a database of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node: `host:port`.
    pub node: String,
    /// The database.
    pub database: String,
}

/// How a cluster is reached.
#[derive(Clone, Debug)]
pub struct Options {
    /// The secret that nodes ask for.
    pub token: Option<String>,
    /// The file with the certificates that nodes' certificates are signed by; with it, all
    /// connections are encrypted.
    pub tls_ca: Option<std::path::PathBuf>,
    /// How long nodes may take.
    pub limits: Limits,
    /// Few keys of one side of a join are asked for first where a table of the other side has so
    /// many rows; 0: wherever that can be done.
    pub ask_keys_from: u64,
}

impl Default for Options {
    fn default() -> Self {
        let (token, tls_ca, limits) = (None, None, Limits::default());
        Self { token, tls_ca, limits, ask_keys_from: 500_000 }
    }
}

/// See the [module documentation](self). Clones share connections.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// First the first copy of each shard, then the second of each, and so on.
    pub(crate) places: Vec<Place>,
    /// How many copies each shard has.
    copies: usize,
    pub(crate) client: Client,
    pub(crate) token: Option<String>,
    threads: Arc<Threads>,
    pub(crate) ask_keys_from: u64,
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
    /// and has to be the same each time. A shard with copies names all its nodes, with commas:
    /// `"10.0.0.1:7411/a, 10.0.0.2:7411/a"`.
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
        let (places, copies) = places_of(nodes)?;
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
        let ask_keys_from = options.ask_keys_from;
        let inner = Inner { places, copies, client, token, threads, ask_keys_from };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Other nodes by the same connections.
    pub(crate) fn of(&self, places: Vec<Place>, copies: usize) -> Self {
        let Inner { client, token, threads, ask_keys_from, .. } = self.inner.as_ref();
        let (client, token, threads) = (client.clone(), token.clone(), Arc::clone(threads));
        let ask_keys_from = *ask_keys_from;
        let inner = Inner { places, copies, client, token, threads, ask_keys_from };
        Self { inner: Arc::new(inner) }
    }

    /// What a node of the list is in the cluster.
    pub(crate) fn member(&self, nth: usize) -> Member {
        let shards = self.shards();
        Member {
            shards: shards as u64,
            copies: self.copies() as u64,
            shard: (nth % shards) as u64,
            copy: (nth / shards) as u64,
        }
    }

    /// Refuses a list of nodes that is not that of the cluster.
    pub(crate) fn check_member(&self, nth: usize, known: Option<Member>) -> Result<()> {
        let ours = self.member(nth);
        match known {
            Some(known) if known != ours => Err(Error::Member {
                node: self.places()[nth].node.clone(),
                theirs: known.to_string(),
                ours: ours.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// The nodes: first the first copy of each shard, then the second of each, and so on.
    pub fn places(&self) -> &[Place] {
        &self.inner.places
    }

    /// How many copies each shard has.
    pub fn copies(&self) -> usize {
        self.inner.copies
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.inner.places.len() / self.inner.copies
    }

    /// The numbers of the nodes that have a copy of a shard.
    pub(crate) fn copies_of(&self, shard: usize) -> impl Iterator<Item = usize> + use<> {
        (shard..self.inner.places.len()).step_by(self.shards())
    }

    /// A session on the newest state of all nodes.
    pub fn session(&self) -> Result<Session> {
        let cluster = self.clone();
        let copies = self.wait(async move { cluster.hold().await })?;
        Session::new(self.clone(), copies)
    }

    /// Waits for work on the cluster's own threads, as long as the statement goes on that this
    /// thread carries out.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let task = self.spawn(async move {
            // Nobody may wait any more.
            let _ = sender.send(work.await);
        })?;
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = go_on() {
                        // Nodes end what they do for it.
                        task.abort();
                        return Err(error.into());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "work that ended without an answer".to_string();
                    return Err(Error::Unsupported(message));
                }
            }
        }
    }

    /// Starts work on the cluster's own threads.
    pub(crate) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<JoinHandle<()>> {
        match &self.inner.threads.0 {
            Some(runtime) => Ok(runtime.spawn(work)),
            None => Err(Error::Unsupported("a cluster that was closed".to_string())),
        }
    }

    /// Snapshots of all shards at the same change: for each shard, those of the copies that answer.
    ///
    /// One round trip, unless a change is just being committed: then some nodes show it and others
    /// do not. A copy that is behind others of its shard is told to commit what they have
    /// committed. Shards that are ahead of others are asked for the state before.
    pub(crate) async fn hold(&self) -> Result<Vec<Vec<Arc<Kept>>>> {
        let mut last = None;
        for _ in 0..MAX_LOOKS {
            let mut copies = self.newest().await?;
            if self.advance(&mut copies).await {
                continue;
            }
            let is_one = self.step_back(&mut copies).await?;
            for kept in copies.iter().flatten() {
                self.check_member(kept.place, kept.contents.place)?;
            }
            if is_one {
                let shared =
                    |copies: Vec<Kept>| copies.into_iter().map(Arc::new).collect::<Vec<_>>();
                return Ok(copies.into_iter().map(shared).collect());
            }
            last = behind(&copies);
            tokio::time::sleep(PAUSE).await;
        }
        let fast = "a session while changes follow each other so fast".to_string();
        Err(last.unwrap_or(Error::Unsupported(fast)))
    }

    async fn hold_at(&self, place: usize, shows: Shows) -> Result<Kept> {
        let Place { node, database } = &self.places()[place];
        self.inner.client.hold(place, node, database, shows).await
    }

    /// Snapshots of all copies of all shards, which show a change that is open.
    pub(crate) async fn hold_open(&self, number: u64) -> Result<Vec<Vec<Arc<Kept>>>> {
        let all = (0..self.places().len()).map(|place| self.hold_at(place, Shows::Open(number)));
        let mut copies = vec![Vec::new(); self.shards()];
        for (place, kept) in try_join_all(all).await?.into_iter().enumerate() {
            copies[place % self.shards()].push(Arc::new(kept));
        }
        Ok(copies)
    }

    /// The newest snapshot of each copy that answers; of each shard, at least one.
    async fn newest(&self) -> Result<Vec<Vec<Kept>>> {
        let mut copies = (0..self.shards()).map(|_| Vec::new()).collect::<Vec<Vec<Kept>>>();
        let mut silent = Vec::new();
        let ask = |place| async move { (place, self.hold_at(place, Shows::Newest).await) };
        let mut asked = (0..self.places().len()).map(ask).collect::<FuturesUnordered<_>>();
        let mut until = None;
        loop {
            let next = match until {
                None => asked.next().await,
                // Each shard has an answer: those that hang are not waited for.
                Some(until) => tokio::time::timeout_at(until, asked.next()).await.ok().flatten(),
            };
            match next {
                None => break,
                Some((place, Ok(kept))) => copies[place % self.shards()].push(kept),
                Some((place, Err(error))) => {
                    let is_away = matches!(error, Error::NodeLost { .. } | Error::NodeSlow { .. });
                    let mut others = self.copies_of(place % self.shards());
                    let is_last = others.all(|one| one == place || silent.contains(&one));
                    if !is_away || is_last {
                        return Err(error);
                    }
                    silent.push(place);
                }
            }
            if until.is_none() && copies.iter().all(|some| !some.is_empty()) {
                until = Some(tokio::time::Instant::now() + GRACE);
            }
        }
        // The first copy that the list names is the one that is read.
        copies.iter_mut().for_each(|some| some.sort_by_key(|kept| kept.place));
        Ok(copies)
    }

    /// Brings copies that are behind others of their shard to the change that those show, which is
    /// decided therefore. Whether there were any; one that does not come along is left out.
    async fn advance(&self, copies: &mut [Vec<Kept>]) -> bool {
        let mut has_moved = false;
        for some in copies {
            let newest = some.iter().map(|kept| kept.held.change).max().unwrap_or(0);
            let behind = some.iter().filter(|kept| kept.held.change < newest);
            let told = join_all(behind.map(|kept| {
                let Place { node, database } = &self.places()[kept.place];
                let (database, by) = (database.clone(), String::new());
                let which = Which { database, number: newest, by };
                async move { self.inner.client.act::<_, ()>(node, "commit", &which).await }
            }));
            has_moved |= told.await.iter().any(Result::is_ok);
            some.retain(|kept| kept.held.change == newest);
        }
        has_moved
    }

    /// Has all shards show the same change: those that are ahead, the state before. `false`: they
    /// do not have that any more, since meanwhile all nodes have committed.
    async fn step_back(&self, copies: &mut [Vec<Kept>]) -> Result<bool> {
        let oldest = copies.iter().flatten().map(|kept| kept.held.change).min().unwrap_or(0);
        let newer = copies.iter_mut().flatten().filter(|kept| kept.held.change > oldest);
        let before = newer.map(|kept| async move {
            let before = self.hold_at(kept.place, Shows::After(oldest)).await;
            before.map(|before| *kept = before)
        });
        for before in join_all(before).await {
            match before {
                Ok(()) => {}
                Err(Error::NodeFailed { .. }) => return Ok(false),
                Err(other) => return Err(other),
            }
        }
        Ok(true)
    }
}

/// The error of nodes that stay at different changes.
fn behind(copies: &[Vec<Kept>]) -> Option<Error> {
    let change = |kept: &&Kept| kept.held.change;
    let least = copies.iter().flatten().min_by_key(change)?;
    let most = copies.iter().flatten().max_by_key(change)?;
    let message = format!(
        "it shows change {} of the cluster, and node {} shows change {}: it has missed what \
         happened in between, or changes follow each other fast",
        least.held.change, most.node, most.held.change
    );
    let node = least.node.clone();
    (least.held.change < most.held.change).then_some(Error::NodeFailed { node, message })
}

/// The places of a list of shards, and how many copies each has.
pub(crate) fn places_of<S: AsRef<str>>(shards: &[S]) -> Result<(Vec<Place>, usize)> {
    let all = shards.iter().map(|shard| copies(shard.as_ref())).collect::<Result<Vec<_>>>()?;
    let count = all.first().map_or(0, Vec::len);
    if let Some(other) = all.iter().position(|copies| copies.len() != count) {
        return Err(Error::Unsupported(format!(
            "shards with {count} and with {} copies (shard {}): all need as many",
            all[other].len(),
            other + 1
        )));
    }
    let nth = |copy: usize| all.iter().filter_map(move |copies| copies.get(copy).cloned());
    let places = (0..count).flat_map(nth).collect::<Vec<_>>();
    if places.is_empty() {
        return Err(Error::Unsupported("a cluster without nodes".to_string()));
    }
    for (nth, place) in places.iter().enumerate() {
        if places[..nth].contains(place) {
            let address = format!("{}/{} (twice)", place.node, place.database);
            return Err(Error::Address { address });
        }
    }
    Ok((places, count))
}

/// The nodes of a shard: one, or several with commas.
fn copies(shard: &str) -> Result<Vec<Place>> {
    let all = shard.split(',').map(|one| place(one.trim())).collect::<Result<Vec<_>>>()?;
    for (nth, place) in all.iter().enumerate() {
        if all[..nth].iter().any(|other| other.node == place.node) {
            let node = &place.node;
            return Err(Error::Unsupported(format!("two copies of a shard at node {node}")));
        }
    }
    Ok(all)
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

    #[test]
    fn shards_have_as_many_copies_each_on_nodes_of_their_own() {
        let (places, copies) = places_of(&["a:1/x, b:1/x", "b:1/y,a:1/y"]).unwrap();
        let texts = places.iter().map(|place| format!("{}/{}", place.node, place.database));
        assert_eq!(texts.collect::<Vec<_>>(), ["a:1/x", "b:1/y", "b:1/x", "a:1/y"]);
        assert_eq!(copies, 2);
        for wrong in [&["a:1/x, b:1/x", "c:1/y"][..], &["a:1/x, a:1/y"], &["a:1/x,"], &[]] {
            assert!(places_of(wrong).is_err(), "{wrong:?}");
        }
    }
}
