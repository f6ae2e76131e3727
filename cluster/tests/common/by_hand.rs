//! A coordinator that does what a test says, step by step, and dies where the test wants:
//! [`ByHand`].

use serde::Serialize;
use serde::de::DeserializeOwned;
use swingdb_cluster::Error;
use swingdb_cluster::changes::{Begin, Next, Standing, Step, Stepped, Which};
use swingdb_cluster::client::{Client, Limits};

use super::{DATABASE, Node};

/// See the [module documentation](self).
pub struct ByHand {
    runtime: tokio::runtime::Runtime,
    client: Client,
    number: u64,
    /// What it calls itself; empty: nobody attends to its change.
    by: String,
}

impl ByHand {
    /// What makes the change of a number.
    pub fn new(number: u64) -> Self {
        Self::called("", number)
    }

    /// The same by a name. Nobody attends to the change: nodes drop it after 10 s.
    pub fn called(by: &str, number: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let client = Client::new(None, Limits::default()).unwrap();
        Self { runtime, client, number, by: by.to_string() }
    }

    /// A change of a statement at each node, up to prepared; the first node decides.
    pub fn prepared(number: u64, nodes: &[Node], sql: impl Fn(usize) -> String) -> Self {
        let by_hand = Self::new(number);
        for (nth, node) in nodes.iter().enumerate() {
            by_hand.begin(node, &nodes[0]);
            by_hand.step(node, &sql(nth));
            by_hand.order(node, "prepare").unwrap();
        }
        by_hand
    }

    /// A change of a statement at each node, which nobody has coordinated.
    pub fn committed(number: u64, nodes: &[Node], sql: impl Fn(usize) -> String) {
        let by_hand = Self::prepared(number, nodes, sql);
        nodes.iter().for_each(|node| by_hand.order(node, "commit").unwrap());
    }

    pub fn begin(&self, node: &Node, decider: &Node) {
        let database = DATABASE.to_string();
        let begin = Begin {
            database: database.clone(),
            number: self.number,
            decider: decider.address.clone(),
            decider_database: database,
            decides: node.address == decider.address,
            joins: false,
            coordinator: self.by.clone(),
        };
        let () = self.ask(node, "begin", &begin).unwrap();
    }

    pub fn step(&self, node: &Node, sql: &str) {
        self.step_of(node, sql, None);
    }

    pub fn step_in(&self, node: &Node, sql: &str, time_zone: &str) {
        self.step_of(node, sql, Some(time_zone.to_string()));
    }

    fn step_of(&self, node: &Node, sql: &str, time_zone: Option<String>) {
        self.tried(node, sql, time_zone).unwrap();
    }

    /// A step that may fail.
    pub fn tried(
        &self,
        node: &Node,
        sql: &str,
        time_zone: Option<String>,
    ) -> Result<Stepped, Error> {
        let step = Step::Statement { sql: sql.to_string(), parameters: Vec::new() };
        let (database, number, by) = (DATABASE.to_string(), self.number, self.by.clone());
        let next = Next { database, number, step, by, budget: None, time_zone };
        self.ask(node, "step", &next)
    }

    pub fn order(&self, node: &Node, kind: &str) -> Result<(), Error> {
        let (database, number, by) = (DATABASE.to_string(), self.number, self.by.clone());
        self.ask(node, kind, &Which { database, number, by })
    }

    pub fn standing(&self, node: &Node) -> Standing {
        self.ask(node, "standing", &DATABASE.to_string()).unwrap()
    }

    fn ask<Q, A>(&self, node: &Node, kind: &str, question: &Q) -> Result<A, Error>
    where
        Q: Serialize + Sync,
        A: DeserializeOwned,
    {
        self.runtime.block_on(self.client.act(&node.address, kind, question))
    }
}
