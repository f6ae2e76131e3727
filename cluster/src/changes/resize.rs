//! Adding and removing nodes: one change that moves the rows of all tables to where another list of
//! nodes has them ([`Cluster::resize`]).
//!
//! The change is open on the nodes of both lists. It reads the state before it, which other
//! sessions go on reading. With its decision all nodes know their place in the new list: sessions
//! of the old list are told so.
//!
//! A copy that is lost need not be there: the others of its shard have its rows. If it is in the
//! new list too, it comes back as a node that is new.

use std::sync::Arc;

use swingdb::cutter::{first_words, words};
use swingdb::field_type;

use crate::catalog::Member;
use crate::changes::Step;
use crate::changes::coordinator::{Transaction, of_another, settle};
use crate::changes::steps::{Dealing, names_of, rows_of, statement};
use crate::cluster::{Cluster, Place, places_of};
use crate::cut::Cut;
use crate::error::{Error, Result, refused};
use crate::names::quoted;
use crate::session::{Known, Session};
use crate::wire::Shows;

/// The nodes of both lists, by their numbers in a list of all.
struct Nodes {
    all: Vec<Place>,
    /// For each shard of the new list, the numbers of its copies.
    new: Vec<Vec<usize>>,
    joining: Vec<usize>,
    leaving: Vec<usize>,
    /// Whether a shard has several copies before or afterwards.
    has_copies: bool,
}

impl Nodes {
    /// `old` are those of the old list that are there.
    fn of(old: &[Place], new: &Cluster, had_copies: bool) -> Self {
        let mut all = old.to_vec();
        all.extend(new.places().iter().filter(|place| !old.contains(place)).cloned());
        let number = |nth: usize| all.iter().position(|one| *one == new.places()[nth]);
        let shards = 0..new.shards();
        let shards = shards.map(|shard| new.copies_of(shard).filter_map(number).collect());
        let shards = shards.collect::<Vec<Vec<_>>>();
        let leaving = (0..old.len()).filter(|nth| !shards.iter().flatten().any(|one| one == nth));
        let (leaving, joining) = (leaving.collect(), (old.len()..all.len()).collect());
        let has_copies = had_copies || new.copies() > 1;
        Self { all, new: shards, joining, leaving, has_copies }
    }

    /// All nodes of the new list.
    fn staying(&self) -> Vec<usize> {
        self.new.iter().flatten().copied().collect()
    }
}

impl Cluster {
    /// Moves the rows of all tables to other nodes: some more, some fewer, with other numbers of
    /// copies. The first node has to stay the first, unless it is lost. Nodes that come must have
    /// no tables. Copies that are lost need not be there. All rows go through this process, and
    /// other changes are refused until it is done; queries go on.
    pub fn resize<S: AsRef<str>>(&self, nodes: &[S]) -> Result<Self> {
        let (places, copies) = places_of(nodes)?;
        let first = places[0].clone();
        let new = self.of(places, copies);
        let mut there = self.there()?;
        if there[0] == self.places()[0] && first != there[0] {
            return refused("resizing to another first node: it decides about changes");
        }
        // A node of both lists decides: whoever has one of them can settle it.
        there.sort_by_key(|place| (*place != first, !new.places().contains(place)));
        if !new.places().contains(&there[0]) {
            return refused("resizing to none of the nodes that are there");
        }
        let nodes = Nodes::of(&there, &new, self.copies() > 1);
        let all = self.of(nodes.all.clone(), 1);
        self.check_joining(&all, &nodes)?;
        let standings = all.standings()?;
        let open = Transaction::begun(&all, &standings, &nodes.joining)?;
        let moved = self.session().and_then(|session| open.move_all(&session, &nodes, &new));
        match moved {
            Ok(()) => open.commit().map(|()| new),
            Err(error) => {
                open.abort();
                Err(error)
            }
        }
    }

    /// The nodes that are there, with all changes; of each shard, at least one copy.
    fn there(&self) -> Result<Vec<Place>> {
        let mut there = Vec::new();
        let mut lost = None;
        for (nth, standing) in self.standing_each()?.into_iter().enumerate() {
            match standing {
                Ok(_) => there.push(nth),
                Err(error @ (Error::NodeLost { .. } | Error::NodeSlow { .. })) => {
                    lost = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        let place = |nth: &usize| self.places()[*nth].clone();
        let reached = self.of(there.iter().map(place).collect(), 1);
        settle(&reached, &reached.standings()?, false).map_err(of_another)?;
        let standings = reached.standings()?;
        let last = standings.iter().map(|standing| standing.last).max().unwrap_or(0);
        let mut current = Vec::new();
        for (nth, standing) in there.into_iter().zip(standings) {
            // One that has started with nothing knows of no change: it is lost too.
            if standing.last == last || self.copies() == 1 {
                self.check_member(nth, standing.place)?;
                current.push(nth);
            }
        }
        for shard in 0..self.shards() {
            if !self.copies_of(shard).any(|nth| current.contains(&nth)) {
                let node = self.places()[shard].node.clone();
                let message = "no copy of this shard has all changes".to_string();
                return Err(lost.unwrap_or(Error::NodeFailed { node, message }));
            }
        }
        Ok(current.iter().map(place).collect())
    }

    /// Settles what an earlier try has left, and refuses nodes that have tables.
    fn check_joining(&self, all: &Self, nodes: &Nodes) -> Result<()> {
        // A change that is open on nodes that come only: its coordinator has died.
        settle(all, &all.standings()?, true)?;
        for nth in &nodes.joining {
            let Place { node, database } = nodes.all[*nth].clone();
            let (client, asked) = (self.inner.client.clone(), node.clone());
            let held = self.wait(async move {
                let kept = client.hold(0, &asked, &database, Shows::Newest).await;
                kept.map(|kept| Arc::clone(&kept.contents))
            })?;
            let is_member = held.place.is_some_and(|member| member.shards > 0);
            if is_member || !held.tables.is_empty() {
                let message = "it has tables, or is a node of a cluster".to_string();
                return Err(Error::NodeFailed { node, message });
            }
        }
        Ok(())
    }
}

impl Transaction {
    fn move_all(&self, session: &Session, nodes: &Nodes, new: &Cluster) -> Result<()> {
        let state = session.state();
        if let Some((table, message)) = state.torn.iter().next() {
            return Err(Error::Table { table: table.clone(), message: message.clone() });
        }
        let definitions = state.holds.first().map(|kept| kept.contents.definitions.clone());
        let definitions = definitions.unwrap_or_default();
        for undo in definitions.iter().rev().filter_map(|definition| undo(definition)) {
            self.step_at(&nodes.leaving, &statement(&undo))?;
        }
        for (table, known) in &state.tables {
            self.move_table(session, table, known, nodes)?;
        }
        for definition in &definitions {
            self.step_at(&nodes.joining, &statement(definition))?;
        }
        let script = state.holds.first().map_or(&[][..], |kept| &kept.contents.script[..]);
        let is_comment =
            |text: &&String| first_words(text, 1).first().is_some_and(|w| w == "comment");
        for comment in script.iter().filter(is_comment) {
            self.step_at(&nodes.joining, &statement(comment))?;
        }
        let members = nodes.all.iter().map(|place| {
            let place = new.places().iter().position(|one| one == place);
            Step::Member(place.map_or_else(Member::default, |nth| new.member(nth)))
        });
        let members = members.collect::<Vec<_>>();
        self.step_each(|nth| members[nth].clone())?;
        Ok(())
    }

    fn move_table(
        &self,
        session: &Session,
        table: &str,
        known: &Known,
        nodes: &Nodes,
    ) -> Result<()> {
        let made = self.definition(table)?;
        self.step_at(&nodes.joining, &statement(&made))?;
        for index in self.indexes(table)? {
            self.step_at(&nodes.joining, &statement(&index))?;
        }
        let cut = new_cut(session, table, known, nodes.new.len())?;
        let said = serde_json::to_string(&cut).map_err(|e| Error::Unsupported(e.to_string()))?;
        let name = table.to_string();
        self.step_at(&nodes.staying(), &Step::Cut { table: name.clone(), cut: Some(said) })?;
        let moved = Known::empty(known.schema.clone(), cut);
        match moved.cut {
            // Rows that may be anywhere move only where their node goes.
            Cut::AsItLies if nodes.leaving.is_empty() && !nodes.has_copies => {}
            Cut::Replicated => {
                let joining = nodes.joining.iter().map(|nth| vec![*nth]).collect::<Vec<_>>();
                self.refill(session, table, &moved, &joining)?;
            }
            _ => {
                self.step(&statement(&format!("DELETE FROM {}", quoted(table))))?;
                self.refill(session, table, &moved, &nodes.new)?;
            }
        }
        self.step_at(&nodes.leaving, &Step::Cut { table: name, cut: None })?;
        self.step_at(&nodes.leaving, &statement(&format!("DROP TABLE {}", quoted(table))))?;
        Ok(())
    }

    /// The statement that makes a table.
    fn definition(&self, table: &str) -> Result<String> {
        let name = table.replace('\'', "''");
        let sql = format!(
            "SELECT sql FROM duckdb_tables() WHERE schema_name = 'main' AND table_name = '{name}'"
        );
        self.told(&sql)?.into_iter().next().ok_or_else(|| Error::Table {
            table: table.to_string(),
            message: "the first node does not say how it was made".to_string(),
        })
    }

    /// The statements that make the indexes of a table.
    fn indexes(&self, table: &str) -> Result<Vec<String>> {
        let name = table.replace('\'', "''");
        self.told(&format!(
            "SELECT sql FROM duckdb_indexes() WHERE schema_name = 'main' AND table_name = '{name}'"
        ))
    }

    /// Sends the rows of a table to nodes; `targets` are those that its cut deals them out to.
    fn refill(
        &self,
        session: &Session,
        table: &str,
        known: &Known,
        targets: &[Vec<usize>],
    ) -> Result<()> {
        let bounds = &session.bounds(known)?[..];
        let rows = session.query(&format!("SELECT * FROM {}", quoted(table)))?;
        let schema = &rows.schema().unwrap_or_else(|| known.schema.clone());
        let step = &rows_of(table, names_of(&known.schema));
        self.deal_out(&Dealing { known, bounds, step, schema, targets }, rows)?;
        Ok(())
    }
}

/// The statement that drops what another one has made: a view, a macro or a type.
fn undo(definition: &str) -> Option<String> {
    let all = words(definition).collect::<Vec<_>>();
    let is_kind = |word: &&str| ["view", "macro", "function", "type"].contains(word);
    let lower = all.iter().map(|word| word.text.to_lowercase()).collect::<Vec<_>>();
    let at = lower.iter().take(4).position(|word| is_kind(&word.as_str()))?;
    let is_rows = lower[at] != "view" && lower.windows(2).any(|two| two == ["as", "table"]);
    let of_rows = if is_rows { "TABLE " } else { "" };
    // The name, perhaps with that of its schema.
    let name = all.get(at + 1..)?.iter().take_while(|word| {
        word.text == "." || !matches!(word.text, "(") && !word.text.eq_ignore_ascii_case("as")
    });
    let name = name.map(|word| word.text).collect::<String>();
    Some(format!("DROP {} {of_rows}IF EXISTS {name}", lower[at]))
}

/// The cut of a table over so many nodes: a range cut gets bounds between as many rows.
fn new_cut(session: &Session, table: &str, known: &Known, nodes: usize) -> Result<Cut> {
    let Cut::Range { column, .. } = &known.cut else { return Ok(known.cut.clone()) };
    let wanted = field_type(known.schema.field_with_name(column)?);
    let (name, from, mut bounds) = (quoted(column), quoted(table), Vec::new());
    let one = |sql: String| -> Result<Option<String>> {
        Ok(crate::catalog::texts(&session.query(&sql)?.collect()?, 0)?.into_iter().next())
    };
    let total = one(format!("SELECT count({name}) FROM {from}"))?;
    let total = total.and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
    for nth in 1..nodes {
        let skip = total * nth / nodes;
        let bound = one(format!(
            "SELECT CAST({name} AS VARCHAR) FROM {from} WHERE {name} IS NOT NULL ORDER BY {name} \
             LIMIT 1 OFFSET {skip}"
        ))?;
        let bound = bound.ok_or_else(|| Error::Table {
            table: table.to_string(),
            message: format!("its {column} has no values to cut it by"),
        })?;
        bounds.push(format!("CAST('{}' AS {wanted})", bound.replace('\'', "''")));
    }
    bounds.dedup();
    match bounds.len() + 1 == nodes {
        true => Ok(Cut::Range { column: column.clone(), bounds }),
        false => Err(Error::Table {
            table: table.to_string(),
            message: format!("its {column} has too few values to cut it over {nodes} nodes"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_undone() {
        for (made, dropped) in [
            ("CREATE VIEW v AS SELECT 1", "DROP view IF EXISTS v"),
            (
                "CREATE OR REPLACE VIEW main.\"V w\" (a) AS SELECT 1",
                "DROP view IF EXISTS main.\"V w\"",
            ),
            ("CREATE MACRO f(a) AS a + 1", "DROP macro IF EXISTS f"),
            ("CREATE MACRO g(a) AS TABLE SELECT a", "DROP macro TABLE IF EXISTS g"),
            ("CREATE TYPE mood AS ENUM ('a')", "DROP type IF EXISTS mood"),
        ] {
            assert_eq!(undo(made).as_deref(), Some(dropped));
        }
        assert_eq!(undo("CREATE TABLE t (a INTEGER)"), None);
    }
}
