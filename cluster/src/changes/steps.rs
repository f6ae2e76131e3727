//! What a statement does in a change: its steps at the nodes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use swingdb::cutter::{Kind, first_words, words};
use swingdb::{ScalarValue, Value, field_type};
use swingdb_common::own_texts::with_own_texts;
use swingdb_common::runtime::cancel::go_on;

use crate::bounds::settled;
use crate::changes::altered::Altered;
use crate::changes::constants::computed;
use crate::changes::coordinator::Transaction;
use crate::changes::drawn::{Drawn, draws};
use crate::changes::lend::lend;
use crate::changes::merge::{Merge, SOURCE};
use crate::changes::moved::Moved;
use crate::changes::narrow::places_of_rows;
use crate::changes::statement::{Change, VOLATILE};
use crate::changes::{Step, Stepped};
use crate::cluster::Cluster;
use crate::cut::{Cut, deal};
use crate::error::{Error, Result, refused};
use crate::names::{is_same, name_of, quoted};
use crate::parameters::part;
use crate::session::{Known, Rows, Session};
use crate::wire::{Bytes, value_bytes};

/// The table of the session in which a list of values gets the types of columns.
const VALUES: &str = "__swingdb_cluster_values";
/// The columns of a table that is made.
const MADE: &str = "__swingdb_cluster_made";
/// Rows that are sent together, and bytes: both sides hold them in memory.
const ROWS_AT_ONCE: usize = 1 << 18;
const BYTES_AT_ONCE: usize = 128 << 20;
/// How many rows are lent to a node for one statement.
const MAX_LENT_ROWS: usize = 4_000_000;

/// What a statement has changed.
#[derive(Default)]
pub(crate) struct Changed {
    /// How many rows.
    pub(crate) rows: u64,
    /// The rows of RETURNING.
    pub(crate) returned: Option<(SchemaRef, Vec<RecordBatch>)>,
}

impl Changed {
    fn of(rows: u64) -> Self {
        Self { rows, returned: None }
    }

    /// Adds what the nodes of a cluster have done; a replicated table's rows change on each of
    /// them. An error if copies of a shard have not done the same.
    fn add(&mut self, cluster: &Cluster, mut all: Vec<Stepped>, cut: &Cut) -> Result<()> {
        let shards = cluster.shards();
        if let Some(nth) = (0..all.len()).find(|nth| all[*nth].rows != all[nth % shards].rows) {
            return Err(differ(cluster, nth % shards, nth));
        }
        all.truncate(shards);
        let counts = all.iter().map(|one| one.rows);
        self.rows += match cut {
            Cut::Replicated => counts.max().unwrap_or(0),
            _ => counts.sum(),
        };
        let returned = all.into_iter().filter_map(|one| one.returned);
        let wanted = if *cut == Cut::Replicated { 1 } else { usize::MAX };
        for bytes in returned.take(wanted) {
            let reader = StreamReader::try_new(bytes.0.as_slice(), None)?;
            let schema = reader.schema();
            let (_, batches) = self.returned.get_or_insert_with(|| (schema, Vec::new()));
            for batch in reader {
                batches.push(batch?);
            }
        }
        Ok(())
    }
}

/// Where rows go, and what happens to them there.
#[derive(Clone, Copy)]
pub(crate) struct Dealing<'a> {
    /// The table; its rows are those that the targets have already.
    pub(crate) known: &'a Known,
    /// The bounds of its cut.
    pub(crate) bounds: &'a [ScalarValue],
    /// What nodes do with the rows.
    pub(crate) step: &'a Step,
    /// The columns of the rows.
    pub(crate) schema: &'a SchemaRef,
    /// What the cut deals rows out to: nodes by their numbers, which get the same rows.
    pub(crate) targets: &'a [Vec<usize>],
}

/// The error of nodes that would not have the same rows any more.
fn differ(cluster: &Cluster, one: usize, other: usize) -> Error {
    let [one, other] = [one, other].map(|nth| cluster.places()[nth].node.as_str());
    Error::Unsupported(format!(
        "a statement after which nodes {one} and {other}, which have the same rows, would not: \
         it has to say which of several rows it means"
    ))
}

/// Carries a change out by itself.
pub(crate) fn run(
    session: &Session,
    change: &Change,
    parameters: &[Value],
) -> Result<(Transaction, Changed)> {
    let open = Transaction::begin(session)?;
    match open.carry_out(session, change, parameters) {
        Ok(changed) => {
            open.commit()?;
            Ok((open, changed))
        }
        Err(error) => {
            open.abort();
            Err(error)
        }
    }
}

fn known(session: &Session, table: &str) -> Result<(String, Known)> {
    let state = session.state();
    state.check_table(table)?;
    let message = || "the cluster has no such table".to_string();
    let missing = || Error::Table { table: table.to_string(), message: message() };
    let found = state.table(table).map(|(name, known)| (name.clone(), known.clone()));
    found.ok_or_else(missing)
}

/// Refuses what would put rows on nodes where nobody looks for them.
fn check(session: &Session, change: &Change) -> Result<()> {
    match change {
        Change::Rows { sql, .. } => check_macros(session, sql),
        Change::Insert { table, or, conflict, keys, .. } => {
            if or.is_empty() && conflict.is_empty() {
                return Ok(());
            }
            let (_, known) = known(session, table)?;
            check_macros(session, conflict)?;
            match is_cut_assigned(&known, keys) {
                true => refused(format!(
                    "ON CONFLICT DO UPDATE of the column by which {table} is cut: rows would have \
                     to move"
                )),
                false => Ok(()),
            }
        }
        Change::Create { table, replace: false, unless_there: false, .. } => {
            match known(session, table) {
                Ok(_) => Err(Error::Table {
                    table: table.clone(),
                    message: "there is such a table already".to_string(),
                }),
                Err(_) => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Whether the column by which a table is cut gets other values.
fn is_cut_assigned(known: &Known, assigned: &[String]) -> bool {
    known.cut.column().is_some_and(|column| assigned.iter().any(|name| is_same(name, column)))
}

/// A node finds a conflict among its own rows only: so all rows with equal keys have to be there.
/// `has_others` says whether there are unique columns besides the primary key.
fn check_conflict(
    table: &str,
    known: &Known,
    conflict: &str,
    has_others: impl FnOnce() -> Result<bool>,
) -> Result<()> {
    let all = words(conflict).collect::<Vec<_>>();
    let is_target = all.get(2).is_some_and(|word| word.text == "(");
    let target = all.iter().skip(3).take_while(|word| word.text != ")");
    let target = target.filter_map(|word| name_of(word)).collect::<Vec<_>>();
    let is_here = match (&known.cut, is_target) {
        (Cut::Replicated, _) => true,
        (cut, true) => {
            known.is_key_whole
                && cut
                    .column()
                    .is_some_and(|column| target.iter().any(|name| is_same(name, column)))
        }
        (_, false) => known.is_key_whole && !has_others()?,
    };
    match is_here {
        true => Ok(()),
        false => refused(format!(
            "ON CONFLICT, OR REPLACE or OR IGNORE where equal keys of {table} can be on several \
             nodes: its key must have the column by which it is cut"
        )),
    }
}

/// Refuses macros that hide what nodes would compute differently.
fn check_macros(session: &Session, sql: &str) -> Result<()> {
    let state = session.state();
    let Some(first) = state.holds.first() else { return Ok(()) };
    for definition in &first.contents.definitions {
        let kinds = first_words(definition, 4);
        let Some(at) = kinds.iter().position(|kind| kind == "macro" || kind == "function") else {
            continue;
        };
        let all = words(definition).skip(at + 1).collect::<Vec<_>>();
        // The last part of `schema.name`.
        let dots = all.iter().skip(1).step_by(2).take_while(|word| word.text == ".").count();
        let Some(name) = all.get(2 * dots).and_then(name_of) else { continue };
        let hides = all.iter().skip(2 * dots + 1).any(|word| {
            let word = word.text.to_lowercase();
            matches!(word.as_str(), "select" | "from") || VOLATILE.contains(&word.as_str())
        });
        let is_it = |word| name_of(&word).is_some_and(|other| is_same(&other, &name));
        if hides && words(sql).any(is_it) {
            return refused(format!("the macro {name} in a statement that nodes run"));
        }
    }
    Ok(())
}

/// A step without parameters.
pub(crate) fn statement(sql: &str) -> Step {
    Step::Statement { sql: sql.to_string(), parameters: Vec::new() }
}

/// A step that runs a part of a statement, whose parameters have these values.
fn statement_with(text: &str, parameters: &[Value]) -> Result<Step> {
    let (sql, parameters) = sent(text, parameters)?;
    Ok(Step::Statement { sql, parameters })
}

/// A part of a statement with its values as they are sent.
fn sent(text: &str, parameters: &[Value]) -> Result<(String, Vec<Bytes>)> {
    let (sql, values) = part(text, parameters)?;
    let values = values.iter().map(|value| value_bytes(&value.to_scalar()));
    Ok((sql, values.collect::<Result<Vec<_>, _>>().map_err(Error::Unsupported)?))
}

/// A step that adds rows to a table.
pub(crate) fn rows_of(table: &str, columns: Vec<String>) -> Step {
    let (table, or, behind) = (table.to_string(), String::new(), String::new());
    Step::Rows { table, columns, or, behind, parameters: Vec::new() }
}

/// The names of columns.
pub(crate) fn names_of(schema: &SchemaRef) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// Runs a part of a statement whose parameters have these values.
fn asked(session: &Session, text: &str, parameters: &[Value]) -> Result<Rows> {
    let (sql, values) = part(text, parameters)?;
    session.query_with(&sql, &values)
}

impl Transaction {
    /// Carries a statement out at all nodes.
    pub(crate) fn carry_out(
        &self,
        session: &Session,
        change: &Change,
        parameters: &[Value],
    ) -> Result<Changed> {
        check(session, change)?;
        self.carry(session)?;
        match change {
            Change::Define { sql } => {
                self.step(&statement(sql))?;
                Ok(Changed::default())
            }
            Change::Drop { table, sql } => {
                let name = known(session, table).map_or_else(|_| table.clone(), |(name, _)| name);
                self.step(&Step::Cut { table: name, cut: None })?;
                self.step(&statement(sql))?;
                Ok(Changed::default())
            }
            Change::Alter { table, sql } => self.alter(session, table, sql),
            Change::Index { table, sql, unique } => self.index(session, table, sql, unique),
            Change::Copy { table, columns, from } => self.copy(session, table, columns, from),
            Change::Rows { table, sql, assigned, behind, draws, .. } => {
                let (name, known) = known(session, table)?;
                let (sql, values) = computed(session, sql, parameters, &known.schema)?;
                let is_cut_assigned = is_cut_assigned(&known, assigned);
                if *draws && self.draws_at_nodes(session, &sql, &values)? {
                    // Rows that move are found by their conditions, at nodes once more.
                    let keys = if is_cut_assigned { &[][..] } else { &known.key };
                    return self.drawn(session, (&name, &known), (&sql, keys), &values);
                }
                if is_cut_assigned {
                    return self.moved(session, (&name, &known), &sql, &values);
                }
                self.rows(session, (table, &known), (&sql, *behind), &values)
            }
            Change::Insert { table, columns, by_name, query, or, conflict, returning, .. } => {
                let (name, known) = known(session, table)?;
                let named = by_name.then(|| names_in(session, query, parameters)).transpose()?;
                let columns = named.as_ref().unwrap_or(columns);
                if !or.is_empty() || !conflict.is_empty() {
                    check_conflict(&name, &known, conflict, || self.has_unique_columns(&name))?;
                }
                let wanted = wanted(&name, &known, columns)?;
                let is_list = first_words(query, 1).first().is_some_and(|word| word == "values");
                let rows = match is_list {
                    true => listed(session, &wanted, query, parameters)?,
                    false => asked(session, &inserted(&wanted, query), parameters)?,
                };
                let schema = rows.schema().unwrap_or_else(|| Arc::new(Schema::empty()));
                let (columns, or) = (names_of(&schema), or.clone());
                let (conflict, values) = computed(session, conflict, parameters, &known.schema)?;
                let (behind, parameters) = sent(&format!("{conflict} {returning}"), &values)?;
                let step = Step::Rows { table: name, columns, or, behind, parameters };
                self.deal_out_to_all(session, &known, &step, schema, rows)
            }
            Change::Merge(merge) => {
                let (_, known) = known(session, &merge.table)?;
                self.merge(session, merge, &known, parameters)
            }
            Change::Create { table, unless_there: true, .. } if known(session, table).is_ok() => {
                Ok(Changed::default())
            }
            Change::Create { table, sql, query, cut, replace, .. } => {
                let query = query.as_ref().map(|query| format!("SELECT * FROM ({query})"));
                let rows = query.map(|query| asked(session, &query, parameters)).transpose()?;
                self.create(session, (table, sql.as_deref()), rows, cut, *replace)
            }
        }
    }

    /// COPY FROM: the coordinator reads the file as one database does, into a table like this one.
    fn copy(
        &self,
        session: &Session,
        table: &str,
        columns: &[String],
        from: &str,
    ) -> Result<Changed> {
        let (table, known) = known(session, table)?;
        let wanted = wanted(&table, &known, columns)?;
        let make = |table: &str| format!("COPY {table} {from}");
        // Columns that the file lacks have their defaults.
        let defaults = self.defaults(&table, &known, &wanted)?;
        let rows = stored(session, &wanted, &defaults, make, &[])?;
        let schema = rows.schema().unwrap_or_else(|| Arc::new(Schema::empty()));
        let step = rows_of(&table, names_of(&schema));
        self.deal_out_to_all(session, &known, &step, schema, rows)
    }

    /// ALTER TABLE: the same at each node, and the cut follows the names.
    fn alter(&self, session: &Session, table: &str, sql: &str) -> Result<Changed> {
        let Ok((name, known)) = known(session, table) else {
            // The nodes say that there is none, or need not.
            self.step(&statement(sql))?;
            return Ok(Changed::default());
        };
        let altered = Altered::of(sql, &name, &known.cut)?;
        self.step(&statement(sql))?;
        if altered.table != name {
            self.step(&Step::Cut { table: name.clone(), cut: None })?;
        }
        if altered.table != name || altered.cut != known.cut {
            let said = serde_json::to_string(&altered.cut);
            let said = said.map_err(|error| Error::Unsupported(error.to_string()))?;
            self.step(&Step::Cut { table: altered.table.clone(), cut: Some(said) })?;
        }
        if altered.has_new_key {
            self.check_keys(&altered.table, &altered.cut)?;
        }
        Ok(Changed::default())
    }

    /// CREATE INDEX: each node has one of its own rows. A unique one needs the column of the cut.
    fn index(
        &self,
        session: &Session,
        table: &str,
        sql: &str,
        unique: &[String],
    ) -> Result<Changed> {
        let (name, known) = known(session, table)?;
        let column = known.cut.column();
        let is_whole = unique.is_empty()
            || known.cut == Cut::Replicated
            || self.cluster.shards() == 1
            || column.is_some_and(|column| unique.iter().any(|one| is_same(one, column)));
        if !is_whole {
            return refused(format!(
                "UNIQUE ({}) of table {name}: each node checks its own rows only. Cut the table \
                 by a column of the index, as hash:COLUMN, or replicate it",
                unique.join(", ")
            ));
        }
        self.step(&statement(sql))?;
        Ok(Changed::default())
    }

    /// Whether a table has unique columns besides its primary key.
    fn has_unique_columns(&self, table: &str) -> Result<bool> {
        let name = table.replace('\'', "''");
        let sql = format!(
            "SELECT 1 FROM information_schema.table_constraints \
             WHERE table_name = '{name}' AND constraint_type = 'UNIQUE' \
             UNION ALL SELECT 1 FROM duckdb_indexes() WHERE table_name = '{name}' AND is_unique"
        );
        Ok(!self.told(&sql)?.is_empty())
    }

    /// The first column of a query about definitions, as the first node tells it: they are the same
    /// at all.
    pub(crate) fn told(&self, sql: &str) -> Result<Vec<String>> {
        let first = self.step_at(&[0], &statement(sql))?.into_iter().next();
        let Some(bytes) = first.and_then(|one| one.returned) else { return Ok(Vec::new()) };
        let reader = StreamReader::try_new(bytes.0.as_slice(), None)?;
        crate::catalog::texts(&reader.collect::<Result<Vec<_>, _>>()?, 0)
    }

    /// The columns of a table that has been made.
    fn columns(&self, table: &str) -> Result<Vec<String>> {
        let name = table.replace('\'', "''");
        self.told(&format!(
            "SELECT column_name FROM information_schema.columns \
             WHERE table_schema = 'main' AND table_name = '{name}'"
        ))
    }

    /// The clauses of the defaults of some columns; empty ones where there are none.
    fn defaults(&self, table: &str, known: &Known, of: &[FieldRef]) -> Result<Vec<String>> {
        let name = table.replace('\'', "''");
        let all = self.told(&format!(
            "SELECT coalesce('DEFAULT ' || column_default, '') FROM information_schema.columns \
             WHERE table_schema = 'main' AND table_name = '{name}' ORDER BY ordinal_position"
        ))?;
        let fields = known.schema.fields();
        let of_field = |field: &FieldRef| {
            let place = fields.iter().position(|one| one.name() == field.name());
            place.and_then(|place| all.get(place).cloned()).unwrap_or_default()
        };
        Ok(of.iter().map(of_field).collect())
    }

    /// Whether nodes would draw values that are others each time: not where only what is lent does.
    fn draws_at_nodes(&self, session: &Session, sql: &str, parameters: &[Value]) -> Result<bool> {
        let is_alone =
            |query: &str| asked(session, &format!("EXPLAIN {query}"), parameters).is_ok();
        Ok(draws(&lend(sql, &is_alone)?.sql))
    }

    /// UPDATE, DELETE with values that are drawn once.
    fn drawn(
        &self,
        session: &Session,
        (table, known): (&str, &Known),
        (sql, keys): (&str, &[String]),
        parameters: &[Value],
    ) -> Result<Changed> {
        match Drawn::of(sql, keys)? {
            Drawn::Joined(sql) => self.rows(session, (table, known), (&sql, 0), parameters),
            Drawn::Replaced => self.moved(session, (table, known), sql, parameters),
        }
    }

    /// UPDATE, DELETE: each node that can have such rows changes its own, and reads what is lent.
    /// The others have nothing to do in this statement, and commit with all.
    fn rows(
        &self,
        session: &Session,
        (table, known): (&str, &Known),
        (sql, behind): (&str, usize),
        parameters: &[Value],
    ) -> Result<Changed> {
        let is_alone =
            |query: &str| asked(session, &format!("EXPLAIN {query}"), parameters).is_ok();
        let lending = lend(sql, &is_alone)?;
        let nodes = places_of_rows(session, known, sql, parameters)?;
        for (name, query) in &lending.queries {
            self.lend(&nodes, name, asked(session, query, parameters)?)?;
        }
        let step = statement_with(&lending.sql, parameters)?;
        let mut changed = Changed::default();
        changed.add(&self.cluster, self.step_among(&nodes, &step)?, &known.cut)?;
        // Rows that are changed by others may have the choice among several.
        let has_others = words(&sql[behind..])
            .any(|word| ["from", "using", "select"].contains(&word.text.to_lowercase().as_str()));
        if has_others {
            self.check_copies(table, known, &nodes)?;
        }
        if !lending.queries.is_empty() {
            let names = lending.queries.into_iter().map(|(name, _)| name).collect();
            self.step_at(&nodes, &Step::TakeBack { names })?;
        }
        Ok(changed)
    }

    /// UPDATE of the column of the cut, or with drawn values: old rows go, and new ones are dealt
    /// out.
    fn moved(
        &self,
        session: &Session,
        (table, known): (&str, &Known),
        sql: &str,
        parameters: &[Value],
    ) -> Result<Changed> {
        let Moved { query, delete, returning } = Moved::of(sql, known)?;
        let wanted = wanted(table, known, &[])?;
        let rows = asked(session, &inserted(&wanted, &query), parameters)?;
        let behind = delete.find(" WHERE ").unwrap_or(delete.len());
        let deleted = self.rows(session, (table, known), (&delete, behind), parameters)?;
        let schema = rows.schema().unwrap_or_else(|| Arc::clone(&known.schema));
        let (table, columns, or) = (table.to_string(), names_of(&schema), String::new());
        let (behind, parameters) = sent(&returning, parameters)?;
        let step = Step::Rows { table, columns, or, behind, parameters };
        let added = self.deal_out_to_all(session, known, &step, schema, rows)?;
        match deleted.rows == added.rows {
            true => Ok(added),
            false => refused(format!(
                "an UPDATE that finds {} rows at the nodes, and {} at the coordinator",
                deleted.rows, added.rows
            )),
        }
    }

    /// MERGE: each node merges the rows of the source that can match its own.
    fn merge(
        &self,
        session: &Session,
        merge: &Merge,
        known: &Known,
        parameters: &[Value],
    ) -> Result<Changed> {
        check_macros(session, &merge.on)?;
        let bounds = session.bounds(known)?;
        let source = asked(session, &merge.source_query(known)?, parameters)?;
        let shards = self.cluster.shards();
        let (schema, rows) = merge.dealt_out(source, known, &bounds, shards)?;
        let all = (0..self.cluster.places().len()).collect::<Vec<_>>();
        // Also nodes without rows of the source: they may have rows that no source matches.
        let rows = rows.into_iter().map(Some).cycle().take(all.len()).collect();
        self.put(&Step::Lend { name: SOURCE.to_string() }, &schema, rows)?;
        let merging = merge.statement();
        let (merging, values) = computed(session, &merging, parameters, &known.schema)?;
        let done = self.step(&statement_with(&merging, &values)?)?;
        self.step(&Step::TakeBack { names: vec![SOURCE.to_string()] })?;
        let mut changed = Changed::default();
        changed.add(&self.cluster, done, &known.cut)?;
        self.check_copies(&merge.table, known, &all)?;
        Ok(changed)
    }

    /// Refuses a change of some nodes after which those that have the same rows of a table would
    /// not: a join may have found several rows for one, and each node may have taken another of
    /// them. With a node, all copies of its shard are among them.
    fn check_copies(&self, table: &str, known: &Known, nodes: &[usize]) -> Result<()> {
        let alike = if known.cut == Cut::Replicated { 1 } else { self.cluster.shards() };
        if alike == self.cluster.places().len() {
            return Ok(());
        }
        let columns = known.schema.fields().iter().map(|field| quoted(field.name()));
        let columns = columns.collect::<Vec<_>>().join(", ");
        // In any order, and with as many of each.
        let sums = format!(
            "SELECT count(*) || ' ' || sum(h % 4294967296)::VARCHAR || ' ' || \
             sum(h // 4294967296)::VARCHAR FROM (SELECT hash({columns}) AS h FROM {})",
            quoted(table)
        );
        let done = self.step_among(nodes, &statement(&sums))?;
        match nodes.iter().find(|nth| done[**nth].returned != done[**nth % alike].returned) {
            Some(nth) => Err(differ(&self.cluster, nth % alike, *nth)),
            None => Ok(()),
        }
    }

    /// Sends the rows of a query to some nodes.
    fn lend(&self, nodes: &[usize], name: &str, rows: Rows) -> Result<()> {
        let schema = rows.schema().unwrap_or_else(|| Arc::new(Schema::empty()));
        let (mut batches, mut count) = (Vec::new(), 0);
        for batch in rows {
            let batch = batch?;
            count += batch.num_rows();
            if count > MAX_LENT_ROWS {
                return refused(format!(
                    "a subquery or a table with more than {MAX_LENT_ROWS} rows in UPDATE or \
                     DELETE: write a subquery that gives only what is needed"
                ));
            }
            batches.push(batch);
        }
        let mut all = vec![None; self.cluster.places().len()];
        nodes.iter().for_each(|nth| all[*nth] = Some(batches.clone()));
        self.put(&Step::Lend { name: name.to_string() }, &schema, all)?;
        Ok(())
    }

    fn create(
        &self,
        session: &Session,
        (table, sql): (&str, Option<&str>),
        rows: Option<Rows>,
        cut: &Cut,
        replace: bool,
    ) -> Result<Changed> {
        let schema = rows.as_ref().and_then(|rows| rows.schema());
        match (sql, &schema) {
            (Some(sql), _) => _ = self.step(&statement(sql))?,
            (None, Some(schema)) => {
                // By an empty table, which says more than the names of types.
                let none = vec![RecordBatch::new_empty(Arc::clone(schema))];
                let all = vec![Some(none); self.cluster.places().len()];
                self.put(&Step::Lend { name: MADE.to_string() }, schema, all)?;
                let or = if replace { "OR REPLACE " } else { "" };
                let table = quoted(table);
                self.step(&statement(&format!("CREATE {or}TABLE {table} AS FROM {MADE}")))?;
                self.step(&Step::TakeBack { names: vec![MADE.to_string()] })?;
            }
            (None, None) => return refused("a table of nothing".to_string()),
        }
        let columns =
            schema.as_ref().map_or_else(|| self.columns(table), |one| Ok(names_of(one)))?;
        let cut = self.checked_cut(session, table, cut, &columns)?;
        let said = serde_json::to_string(&cut).map_err(|e| Error::Unsupported(e.to_string()))?;
        self.step(&Step::Cut { table: table.to_string(), cut: Some(said) })?;
        self.check_keys(table, &cut)?;
        let (Some(rows), Some(schema)) = (rows, schema) else { return Ok(Changed::of(0)) };
        let step = rows_of(table, columns);
        let known = Known::empty(Arc::clone(&schema), cut);
        self.deal_out_to_all(session, &known, &step, schema, rows)
    }

    /// Refuses keys of a new table that nobody would check: a node knows its own rows only.
    fn check_keys(&self, table: &str, cut: &Cut) -> Result<()> {
        if *cut == Cut::Replicated || self.cluster.shards() == 1 {
            return Ok(());
        }
        let name = table.replace('\'', "''");
        let column = cut.column().map(|column| column.replace('\'', "''"));
        let is_elsewhere = column.map_or_else(String::new, |column| {
            format!("AND NOT list_contains(constraint_column_names, '{column}')")
        });
        let keys = self.told(&format!(
            "SELECT constraint_type || ' (' || array_to_string(constraint_column_names, ', ') || \
             ')' FROM duckdb_constraints() WHERE schema_name = 'main' AND table_name = '{name}' \
             AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') {is_elsewhere}"
        ))?;
        match keys.first() {
            Some(key) => refused(format!(
                "{key} of table {table}: each node checks its own rows only. Cut the table by a \
                 column of the key, as hash:COLUMN, or replicate it"
            )),
            None => Ok(()),
        }
    }

    /// The cut with its column as the table has it; an error if nodes cannot carry it out.
    fn checked_cut(
        &self,
        session: &Session,
        table: &str,
        cut: &Cut,
        columns: &[String],
    ) -> Result<Cut> {
        let wrong = |message| Err(Error::Table { table: table.to_string(), message });
        let shards = self.cluster.shards();
        if let Cut::Range { bounds, .. } = cut
            && bounds.len() + 1 != shards
        {
            return wrong(format!("{shards} nodes need {} bounds", shards - 1));
        }
        let Some(column) = cut.column() else { return Ok(cut.clone()) };
        let exact = columns.iter().find(|name| *name == column);
        let cut = match exact.or_else(|| columns.iter().find(|name| is_same(name, column))) {
            Some(name) => cut.by(name),
            None => return wrong(format!("it has no column {column}, by which it is to be cut")),
        };
        match cut {
            Cut::Range { column, bounds } => {
                let field = self.field(table, &column)?;
                let bounds = settled(session, table, &field, &bounds)?;
                Ok(Cut::Range { column, bounds })
            }
            other => Ok(other),
        }
    }

    /// A column of a table, as the first node has it in this change.
    fn field(&self, table: &str, column: &str) -> Result<FieldRef> {
        let sql = format!("SELECT {} FROM {} LIMIT 0", quoted(column), quoted(table));
        let first = self.step_at(&[0], &statement(&sql))?.into_iter().next();
        let Some(bytes) = first.and_then(|one| one.returned) else {
            return refused("a table without columns");
        };
        let schema = StreamReader::try_new(bytes.0.as_slice(), None)?.schema();
        Ok(Arc::clone(&schema.fields()[0]))
    }

    /// Sends rows to the nodes that they belong to.
    fn deal_out_to_all(
        &self,
        session: &Session,
        known: &Known,
        step: &Step,
        schema: SchemaRef,
        rows: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<Changed> {
        let targets = (0..self.cluster.shards()).map(|nth| self.cluster.copies_of(nth).collect());
        let targets = &targets.collect::<Vec<_>>()[..];
        let (bounds, schema) = (&session.bounds(known)?[..], &schema);
        self.deal_out(&Dealing { known, bounds, step, schema, targets }, rows)
    }

    /// Sends rows to those of some nodes that they belong to.
    pub(crate) fn deal_out(
        &self,
        dealing: &Dealing<'_>,
        rows: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<Changed> {
        let Dealing { known, bounds, step, schema, targets } = *dealing;
        let (nodes, mut changed) = (self.cluster.places().len(), Changed::default());
        let mut held = known.rows.clone();
        held.resize(targets.len(), 0);
        let mut waiting = vec![Vec::new(); nodes];
        let send = |waiting: &mut Vec<Vec<RecordBatch>>, changed: &mut Changed| -> Result<()> {
            let all = std::mem::replace(waiting, vec![Vec::new(); nodes]).into_iter();
            let all = all.map(|batches| (!batches.is_empty()).then_some(batches)).collect();
            changed.add(&self.cluster, self.put(step, schema, all)?, &known.cut)
        };
        // One statement updates no row twice.
        let is_one = matches!(step, Step::Rows { or, behind, .. } if updates(or, behind));
        let (mut count, mut bytes) = (0, 0);
        for batch in rows {
            // Rows of a table hold the memory of all their segment, as long as they wait.
            let batch = with_own_texts(&batch?)?;
            go_on()?;
            // Rows that may be anywhere go to the node with the fewest.
            let fewest = held.iter().enumerate().min_by_key(|(_, rows)| **rows);
            let Some((first, _)) = fewest else { return Ok(changed) };
            let parts = deal(&batch, &known.cut, bounds, targets.len(), first)?;
            for ((alike, held), part) in targets.iter().zip(&mut held).zip(parts) {
                *held += part.num_rows();
                if part.num_rows() > 0 {
                    alike.iter().for_each(|nth| waiting[*nth].push(part.clone()));
                }
            }
            count += batch.num_rows();
            bytes += get_record_batch_memory_size(&batch);
            if !is_one && (count >= ROWS_AT_ONCE || bytes >= BYTES_AT_ONCE) {
                send(&mut waiting, &mut changed)?;
                (count, bytes) = (0, 0);
            }
        }
        send(&mut waiting, &mut changed)?;
        let returns =
            |behind: &str| words(behind).any(|w| w.text.eq_ignore_ascii_case("returning"));
        let returns = matches!(step, Step::Rows { behind, .. } if returns(behind));
        if returns && changed.returned.is_none() {
            // The columns that come back, if no rows do.
            waiting[0].push(RecordBatch::new_empty(Arc::clone(schema)));
            send(&mut waiting, &mut changed)?;
        }
        Ok(changed)
    }
}

/// Whether an INSERT updates rows that are there.
fn updates(or: &str, behind: &str) -> bool {
    [or, behind]
        .into_iter()
        .flat_map(words)
        .any(|word| ["replace", "update"].iter().any(|one| word.text.eq_ignore_ascii_case(one)))
}

/// The columns that an INSERT gives values for.
fn wanted(table: &str, known: &Known, columns: &[String]) -> Result<Vec<FieldRef>> {
    let all = known.schema.fields();
    let mut wanted = Vec::new();
    for column in columns {
        let exact = all.iter().find(|field| field.name() == column);
        let field = exact.or_else(|| all.iter().find(|field| is_same(field.name(), column)));
        let message = format!("it has no column {column}");
        let missing = || Error::Table { table: table.to_string(), message };
        wanted.push(Arc::clone(field.ok_or_else(missing)?));
    }
    if columns.is_empty() {
        wanted = all.iter().cloned().collect();
    }
    match known.cut.column() {
        Some(column) if !wanted.iter().any(|field| field.name() == column) => {
            refused(format!("INSERT without a value for {column}, by which {table} is cut"))
        }
        _ => Ok(wanted),
    }
}

/// What the columns of a query are called.
fn names_in(session: &Session, query: &str, parameters: &[Value]) -> Result<Vec<String>> {
    let rows = asked(session, &format!("SELECT * FROM ({query}) LIMIT 0"), parameters)?;
    Ok(rows.schema().map(|schema| names_of(&schema)).unwrap_or_default())
}

/// The query whose rows are inserted: they have the columns' types already when they decide about
/// the node.
fn inserted(wanted: &[FieldRef], query: &str) -> String {
    let names = (0..wanted.len()).map(|nth| format!("c{nth}")).collect::<Vec<_>>();
    let casts = wanted.iter().zip(&names).map(|(field, name)| {
        format!("CAST({name} AS {}) AS {}", field_type(field), quoted(field.name()))
    });
    let casts = casts.collect::<Vec<_>>().join(", ");
    format!("SELECT {casts} FROM ({query}) AS q({})", names.join(", "))
}

/// The rows of a list of values. Each value becomes the column's type by itself, as in an INSERT on
/// one machine: so they are inserted into a table of the session's own.
fn listed(
    session: &Session,
    wanted: &[FieldRef],
    query: &str,
    parameters: &[Value],
) -> Result<Rows> {
    if words(query).any(|word| word.kind == Kind::Word && word.text.eq_ignore_ascii_case("default"))
    {
        return refused("DEFAULT among the values of an INSERT".to_string());
    }
    let (query, values) = part(query, parameters)?;
    let make = |table: &str| format!("INSERT INTO {table} {query}");
    stored(session, wanted, &vec![String::new(); wanted.len()], make, &values)
}

/// The rows that a statement stores into a table of the session's own, which has these columns and
/// clauses of their defaults.
fn stored(
    session: &Session,
    wanted: &[FieldRef],
    defaults: &[String],
    statement: impl FnOnce(&str) -> String,
    parameters: &[Value],
) -> Result<Rows> {
    let columns = wanted.iter().zip(defaults).map(|(field, default)| {
        format!("{} {} {default}", quoted(field.name()), field_type(field))
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let (own, table) = (session.connection(), format!("temp.{VALUES}"));
    own.query(&format!("CREATE OR REPLACE TEMP TABLE {VALUES} ({columns})"))?;
    let rows = own
        .execute(&statement(&table), parameters)
        .and_then(|_| own.query(&format!("SELECT * FROM {table}")))
        .and_then(|rows| Ok((rows.schema(), rows.collect()?)));
    own.query(&format!("DROP TABLE {table}"))?;
    let (schema, batches) = rows?;
    let rows = batches.iter().map(|batch: &RecordBatch| batch.num_rows() as u64).sum();
    Ok(session.changed(Changed { rows, returned: Some((schema, batches)) }))
}
