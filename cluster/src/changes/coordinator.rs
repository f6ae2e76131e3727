//! The coordinator's side of changes; see the [module documentation](super) for the protocol.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::{join_all, try_join_all};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use swingdb_common::runtime::cancel::to_the_end;
use tokio::task::JoinHandle;

use crate::changes::{Begin, Next, Standing, Step, Stepped, Which};
use crate::cluster::{Cluster, Place};
use crate::error::{Error, Result};
use crate::session::Session;
use crate::wire::Budget;

/// How long a step may take: it reads or writes rows.
const STEP: Duration = Duration::from_secs(3600);
/// How often the decider is asked again when its answer was lost.
const DECIDER_TRIES: usize = 3;

/// What the steps of a change have of the session that makes it.
#[derive(Clone, Default)]
struct Carried {
    /// What they may hold in memory at each node.
    budget: Option<Budget>,
    time_zone: Option<String>,
}

/// A change that is open on all nodes.
pub(crate) struct Transaction {
    pub(crate) cluster: Cluster,
    number: u64,
    /// Who makes it: nodes tell it by that from others of its number.
    by: String,
    /// What its steps have of the session.
    carried: Mutex<Carried>,
    /// What attends to it at each node: nodes drop the change when nobody does.
    attending: Vec<JoinHandle<()>>,
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.attending.iter().for_each(JoinHandle::abort);
    }
}

impl Transaction {
    /// The number of the change.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Opens a change that no other can overtake; `session` reads the state before it then.
    pub(crate) fn begin(session: &Session) -> Result<Self> {
        let open = Self::open(session.cluster())?;
        if session.change() + 1 != open.number
            && let Err(error) = session.move_on()
        {
            open.abort();
            return Err(error);
        }
        Ok(open)
    }

    fn open(cluster: &Cluster) -> Result<Self> {
        let standings = cluster.standings()?;
        settle(cluster, &standings, false).map_err(of_another)?;
        let standings = cluster.standings()?;
        for (nth, standing) in standings.iter().enumerate() {
            cluster.check_member(nth, standing.place)?;
        }
        let open = Self::begun(cluster, &standings, &[])?;
        if standings.iter().any(|standing| standing.place.is_none()) {
            let said = open.step_each(|nth| Step::Member(cluster.member(nth)));
            if let Err(error) = said {
                open.abort();
                return Err(error);
            }
        }
        Ok(open)
    }

    /// Begins a change at all nodes; `joining` are those that have not seen the changes before.
    pub(crate) fn begun(
        cluster: &Cluster,
        standings: &[Standing],
        joining: &[usize],
    ) -> Result<Self> {
        let number = standings.iter().map(|standing| standing.last).max().unwrap_or(0) + 1;
        let decider = cluster.places()[0].clone();
        let coordinator = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let (cluster, by) = (cluster.clone(), coordinator.clone());
        let (carried, attending) = (Mutex::default(), Vec::new());
        let mut open = Self { cluster, number, by, carried, attending };
        // Before it is begun: a coordinator may be killed at any time.
        open.attend(&coordinator)?;
        let begun = open.cluster.ask_all("begin", |nth, place| Begin {
            database: place.database.clone(),
            number,
            decider: decider.node.clone(),
            decider_database: decider.database.clone(),
            decides: nth == 0,
            joins: joining.contains(&nth),
            coordinator: coordinator.clone(),
        });
        match begun {
            Ok(all) => {
                let _: Vec<()> = all;
                Ok(open)
            }
            Err(error) => {
                open.abort();
                Err(error)
            }
        }
    }

    /// Attends to it, as this coordinator, until it is dropped.
    fn attend(&mut self, coordinator: &str) -> Result<()> {
        for Place { node, database } in self.cluster.places().to_vec() {
            let (client, number) = (self.cluster.inner.client.clone(), self.number);
            let coordinator = coordinator.to_string();
            let attending = self.cluster.spawn(async move {
                client.attend(&node, &database, number, &coordinator).await;
            });
            self.attending.push(attending?);
        }
        Ok(())
    }

    /// Lets the steps that follow have the session's limit of memory, and its time zone.
    pub(crate) fn carry(&self, session: &Session) -> Result<()> {
        let (budget, time_zone) = (session.budget()?, session.time_zone()?);
        *self.carried.lock() = Carried { budget, time_zone };
        Ok(())
    }

    fn next(&self, place: &Place, step: Step) -> Next {
        let Carried { budget, time_zone } = self.carried.lock().clone();
        let (database, number, by) = (place.database.clone(), self.number, self.by.clone());
        Next { database, number, step, by, budget, time_zone }
    }

    fn which(&self, place: &Place) -> Which {
        let by = self.by.clone();
        Which { database: place.database.clone(), number: self.number, by }
    }

    /// Drops the change.
    pub(crate) fn abort(&self) {
        // A node that is not reached drops the change by itself, or when somebody recovers.
        let _ =
            to_the_end(|| self.cluster.ask_each::<_, ()>("abort", |_, place| self.which(place)));
    }

    /// Makes the change visible on all nodes.
    pub(crate) fn commit(&self) -> Result<()> {
        if let Err(error) = self.cluster.ask_all::<_, ()>("prepare", |_, p| self.which(p)) {
            self.abort();
            return Err(error);
        }
        // Who breaks it off here would not know what has become of the change.
        to_the_end(|| {
            self.decide()?;
            deliver(&self.cluster, self.number, &self.by)
        })
    }

    /// The first node commits: that is the decision.
    fn decide(&self) -> Result<()> {
        let place = &self.cluster.places()[0];
        let mut last = None;
        for _ in 0..DECIDER_TRIES {
            let done: Result<()> = self.cluster.ask(place, "commit", self.which(place));
            match done {
                Ok(()) => return Ok(()),
                // It answers. Once it has dropped the change, it has not committed it.
                Err(
                    error @ (Error::NodeFailed { .. }
                    | Error::Statement { .. }
                    | Error::NodeVersion { .. }),
                ) => {
                    if self.cluster.ask::<_, ()>(place, "abort", self.which(place)).is_ok() {
                        self.abort();
                        return Err(error);
                    }
                    last = Some(error);
                }
                Err(error) => last = Some(error),
            }
        }
        let message = last.map_or_else(String::new, |error| error.to_string());
        let (change, node) = (self.number.to_string(), place.node.clone());
        Err(Error::InDoubt { change, node, message })
    }

    /// A step with rows for each node, which are as many as the cluster has nodes; `None` for those
    /// that have none to do.
    pub(crate) fn put(
        &self,
        step: &Step,
        schema: &SchemaRef,
        batches: Vec<Option<Vec<RecordBatch>>>,
    ) -> Result<Vec<Stepped>> {
        let cluster = self.cluster.clone();
        let schema = Arc::clone(schema);
        let next = cluster.places().iter().map(|place| self.next(place, step.clone()));
        let next = next.collect::<Vec<_>>();
        self.cluster.wait(async move {
            let client = &cluster.inner.client;
            let sent = cluster.places().iter().zip(next).zip(batches);
            let sent = sent.map(|((place, next), batches)| {
                let schema = Arc::clone(&schema);
                async move {
                    match batches {
                        None => Ok(Stepped::default()),
                        Some(batches) => client.put(&place.node, &next, schema, batches).await,
                    }
                }
            });
            try_join_all(sent).await
        })
    }

    /// A step of each node.
    pub(crate) fn step_each(&self, step: impl Fn(usize) -> Step) -> Result<Vec<Stepped>> {
        self.cluster.ask_all("step", |nth, place| self.next(place, step(nth)))
    }

    /// A step of some nodes, at the same time; what each of them has done.
    pub(crate) fn step_at(&self, nodes: &[usize], step: &Step) -> Result<Vec<Stepped>> {
        let next = |_, place: &Place| self.next(place, step.clone());
        self.cluster.ask_some("step", nodes, next)?.into_iter().collect()
    }

    /// A step of some nodes, which are in order; what all nodes have done: the others, nothing.
    pub(crate) fn step_among(&self, nodes: &[usize], step: &Step) -> Result<Vec<Stepped>> {
        let mut all = vec![Stepped::default(); self.cluster.places().len()];
        for (nth, done) in nodes.iter().zip(self.step_at(nodes, step)?) {
            all[*nth] = done;
        }
        Ok(all)
    }

    /// A step of all nodes.
    pub(crate) fn step(&self, step: &Step) -> Result<Vec<Stepped>> {
        self.step_each(|_| step.clone())
    }
}

/// Tells all nodes a decision; each that does not answer is told later. One copy of each shard is
/// enough for sessions to see the change.
fn deliver(cluster: &Cluster, number: u64, by: &str) -> Result<()> {
    let which =
        |place: &Place| Which { database: place.database.clone(), number, by: by.to_string() };
    let told = cluster.ask_each::<_, ()>("commit", |_, place| which(place))?;
    let is_told = |shard| cluster.copies_of(shard).any(|nth| told[nth].is_ok());
    let is_visible = (0..cluster.shards()).all(is_told);
    let failed = cluster.places().iter().zip(&told).find_map(|(place, answer)| {
        answer.as_ref().err().map(|error| (place.node.clone(), error.to_string()))
    });
    match failed {
        Some(_) if is_visible => return Ok(()),
        Some((node, message)) => {
            return Err(Error::Undelivered { change: number.to_string(), node, message });
        }
        None => {}
    }
    // Nodes keep an old state for longer if they do not hear this.
    let _ = cluster.ask_each::<_, ()>("finish", |_, place| which(place));
    Ok(())
}

/// The error of a change that is not carried out because another one before it cannot be delivered.
pub(crate) fn of_another(error: Error) -> Error {
    match error {
        Error::Undelivered { change, node, message } => {
            let message = format!("{message}; change {change} has to be delivered to it first");
            Error::NodeLost { node, message }
        }
        other => other,
    }
}

/// Delivers what is decided; drops what is not, where `drop` says so.
pub(crate) fn settle(cluster: &Cluster, standings: &[Standing], drop: bool) -> Result<()> {
    let open = standings.iter().filter_map(|standing| standing.open.clone());
    let Some(open) = open.max_by_key(|open| open.number) else { return Ok(()) };
    let number = open.number;
    // Nobody commits before the decider.
    if standings.iter().any(|standing| standing.last >= number) {
        return deliver(cluster, number, "");
    }
    let decider = cluster
        .places()
        .iter()
        .position(|place| place.node == open.decider && place.database == open.decider_database);
    let Some(decider) = decider else {
        return Err(Error::Unsupported(format!(
            "this order of nodes: change {number} is decided by {}/{}, which is none of them",
            open.decider, open.decider_database
        )));
    };
    if !drop {
        return Err(Error::Unsupported(format!(
            "two changes at a time: change {number} is open; if its coordinator is gone, \
             Cluster::recover drops it"
        )));
    }
    let by = String::new();
    let which = |place: &Place| Which { database: place.database.clone(), number, by: by.clone() };
    // First the decider: from then on the change cannot be decided.
    let place = &cluster.places()[decider];
    let () = cluster.ask(place, "abort", which(place))?;
    let _: Vec<()> = cluster.ask_all("abort", |_, place| which(place))?;
    Ok(())
}

impl Cluster {
    /// Settles the change that a dead coordinator, or a lost connection, has left: it is carried
    /// out on all nodes if it was decided, and dropped otherwise. All nodes have to be there.
    ///
    /// A change of a coordinator that lives is dropped too, unless it is decided already; that
    /// coordinator gets an error.
    pub fn recover(&self) -> Result<()> {
        settle(self, &self.standings()?, true)
    }

    pub(crate) fn standings(&self) -> Result<Vec<Standing>> {
        self.standing_each()?.into_iter().collect()
    }

    /// What each node knows of changes, or why it does not say it.
    pub(crate) fn standing_each(&self) -> Result<Vec<Result<Standing>>> {
        self.ask_each("standing", |_, place| place.database.clone())
    }

    fn ask<Q, A>(&self, place: &Place, kind: &'static str, question: Q) -> Result<A>
    where
        Q: Serialize + Send + Sync + 'static,
        A: DeserializeOwned + Send + 'static,
    {
        let (cluster, place) = (self.clone(), place.clone());
        self.wait(async move {
            cluster
                .inner
                .client
                .act_within(&place.node, kind, &question, limit(&cluster, kind))
                .await
        })
    }

    /// Asks all nodes at the same time.
    fn ask_each<Q, A>(
        &self,
        kind: &'static str,
        question: impl Fn(usize, &Place) -> Q,
    ) -> Result<Vec<Result<A>>>
    where
        Q: Serialize + Send + Sync + 'static,
        A: DeserializeOwned + Send + 'static,
    {
        let all = (0..self.places().len()).collect::<Vec<_>>();
        self.ask_some(kind, &all, question)
    }

    /// Asks some nodes at the same time.
    fn ask_some<Q, A>(
        &self,
        kind: &'static str,
        nodes: &[usize],
        question: impl Fn(usize, &Place) -> Q,
    ) -> Result<Vec<Result<A>>>
    where
        Q: Serialize + Send + Sync + 'static,
        A: DeserializeOwned + Send + 'static,
    {
        let asked = |nth: &usize| (*nth, question(*nth, &self.places()[*nth]));
        let questions = nodes.iter().map(asked).collect::<Vec<_>>();
        let cluster = self.clone();
        self.wait(async move {
            let asked = questions.iter().map(|(nth, question)| {
                let (node, limit) = (&cluster.places()[*nth].node, limit(&cluster, kind));
                cluster.inner.client.act_within(node, kind, question, limit)
            });
            Ok(join_all(asked).await)
        })
    }

    /// Asks all nodes at the same time; the first error if one of them fails.
    fn ask_all<Q, A>(
        &self,
        kind: &'static str,
        question: impl Fn(usize, &Place) -> Q,
    ) -> Result<Vec<A>>
    where
        Q: Serialize + Send + Sync + 'static,
        A: DeserializeOwned + Send + 'static,
    {
        self.ask_each(kind, question)?.into_iter().collect()
    }
}

fn limit(cluster: &Cluster, kind: &str) -> Duration {
    match kind {
        "step" => STEP,
        _ => cluster.inner.client.limits().answer,
    }
}
