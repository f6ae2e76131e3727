//! Changes of few rows of larger tables, which are kept beside their columns, against a map: with
//! keys, CHECK constraints, MERGE, CLONE inside the database and from a snapshot, shares, snapshots
//! that write themselves, savepoints, and the database closed and opened again.
//!
//! Compared are whole tables, and what statistics answer or skip. The seed is printed;
//! `SWINGDB_SEED=n` replays a run, `SWINGDB_STEPS=n` makes it longer.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use swingdb::{Connection, Database, QueryResult};
use tempfile::TempDir;

use crate::support::rows;

const STEPS: usize = 120;
const ROWS: i64 = 3000;

/// What a row has besides its key: two numbers and a text.
type Rest = (Option<i64>, i64, Option<String>);
type Rows = BTreeMap<i64, Rest>;

/// A connection, and what its tables ought to have.
struct Side {
    con: Connection,
    tables: BTreeMap<String, Rows>,
}

impl Side {
    /// Whole tables, and the queries that statistics answer.
    fn check(&self, place: &str) {
        for (name, expected) in &self.tables {
            let found = rows(&self.con, &format!("SELECT id, a, b, s FROM {name} ORDER BY id"));
            let line = |(id, (a, b, s)): (&i64, &Rest)| {
                let a = a.map_or("NULL".to_string(), |a| a.to_string());
                format!("{id}|{a}|{b}|{}", s.as_deref().unwrap_or("NULL"))
            };
            let wanted: Vec<String> = expected.iter().map(line).collect();
            assert!(found == wanted, "{place}: contents of {name} differ");
            let bounds = rows(&self.con, &format!("SELECT count(*), min(b), max(b) FROM {name}"));
            let values = || expected.values().map(|(_, b, _)| *b);
            let text = |n: Option<i64>| n.map_or("NULL".to_string(), |n| n.to_string());
            let (least, most) = (text(values().min()), text(values().max()));
            assert_eq!(bounds, [format!("{}|{least}|{most}", expected.len())], "{place}: {name}");
            // Extreme values lie in few segments: the others are skipped.
            let far = rows(&self.con, &format!("SELECT count(*) FROM {name} WHERE b > {ROWS}"));
            let wanted = values().filter(|b| *b > ROWS).count();
            assert_eq!(far, [wanted.to_string()], "{place}: {name}, large values");
            let few = rows(&self.con, &format!("SELECT count(*) FROM {name} WHERE s LIKE 'new%'"));
            let is_new = |s: &Option<String>| s.as_ref().is_some_and(|s| s.starts_with("new"));
            let wanted = expected.values().filter(|(_, _, s)| is_new(s)).count();
            assert_eq!(few, [wanted.to_string()], "{place}: {name}, texts");
        }
    }
}

struct History {
    rng: Rng,
    seed: u64,
    home: TempDir,
    side: Side,
    snapshots: Vec<Side>,
    names: usize,
}

/// Rows with a short and a long text now and then.
fn filled(count: i64) -> Rows {
    let text = |id: i64| match id % 5 {
        0 => None,
        1 => Some(format!("a text of more than twelve bytes {id}")),
        _ => Some(format!("t{id}")),
    };
    (0..count).map(|id| (id, ((id % 7 > 0).then_some(id / 3), id, text(id)))).collect()
}

fn run(con: &Connection, sql: &str) -> Result<Option<u64>, String> {
    let result = con.query(sql).map(|result: QueryResult| result.rows_changed());
    result.map_err(|error| error.to_string())
}

impl History {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let home = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let con = Database::open_in(home.path(), "few").expect("a database").connect();
        let create = "CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b BIGINT CHECK (b >= -1), \
                      s VARCHAR)";
        run(&con, create).expect("a table");
        let insert = format!(
            "INSERT INTO t SELECT i, CASE WHEN i % 7 > 0 THEN i / 3 END, i, CASE i % 5 \
             WHEN 0 THEN NULL WHEN 1 THEN 'a text of more than twelve bytes ' || i \
             ELSE 't' || i END FROM generate_series(0, {}) AS g(i)",
            ROWS - 1
        );
        assert_eq!(run(&con, &insert), Ok(Some(ROWS as u64)));
        let tables = BTreeMap::from([("t".to_string(), filled(ROWS))]);
        let side = Side { con, tables };
        side.check("at first");
        Self { rng: Rng::with_seed(seed), seed, home, side, snapshots: Vec::new(), names: 0 }
    }

    /// A statement on the database, or on a snapshot of it that is held.
    fn statement(&mut self, number: usize) {
        let at = self.rng.usize(..self.snapshots.len() + 3);
        let rng = &mut self.rng;
        let side = match self.snapshots.get_mut(at) {
            Some(snapshot) => snapshot,
            None => &mut self.side,
        };
        let name = side.tables.keys().nth(rng.usize(..side.tables.len())).cloned();
        let name = name.expect("a table");
        let table = &side.tables[&name];
        let (sql, count, after) = match rng.u8(..8) {
            0..=3 => update(rng, &name, table),
            4 => delete(rng, &name, table),
            5 => move_key(rng, &name, table),
            6 => merge(rng, &name, table),
            _ => insert(rng, &name, table),
        };
        let place = format!("seed {}, step {number}: {sql}", self.seed);
        let undo = rng.u8(..6) == 0;
        if undo {
            run(&side.con, "BEGIN").expect("a transaction");
        }
        match (run(&side.con, &sql), after) {
            (Ok(found), Some(after)) => {
                assert_eq!(found, Some(count), "rows changed; {place}");
                if !undo {
                    side.tables.insert(name, after);
                }
            }
            (Err(_), None) => {}
            (found, after) => panic!("{found:?}, wanted {:?}; {place}", after.map(|_| count)),
        }
        if undo {
            run(&side.con, "ROLLBACK").expect("it is taken back");
        }
        side.check(&place);
    }

    fn clone_here(&mut self) {
        self.names += 1;
        let source = self.side.tables.keys().next().cloned().expect("a table");
        let target = format!("c{}", self.names);
        run(&self.side.con, &format!("CREATE TABLE {target} CLONE {source}")).expect("a clone");
        let copy = self.side.tables[&source].clone();
        self.side.tables.insert(target, copy);
        if self.side.tables.len() > 3 {
            self.side.tables.remove(&source);
            run(&self.side.con, &format!("DROP TABLE {source}")).expect("dropped");
        }
    }

    fn share(&mut self) {
        let database = self.side.con.database().clone();
        database.share().expect("shared");
        let con = Database::snapshot_in(self.home.path(), "few").expect("a snapshot").connect();
        let snapshot = Side { con, tables: self.side.tables.clone() };
        snapshot.check(&format!("seed {}, a new snapshot", self.seed));
        self.snapshots.push(snapshot);
        if self.snapshots.len() > 3 {
            let old = self.snapshots.remove(self.rng.usize(..3));
            old.check(&format!("seed {}, an old snapshot", self.seed));
        }
    }

    /// A table of a snapshot, with what the snapshot changed itself, comes back under a new name.
    fn clone_from_snapshot(&mut self) {
        let Some(snapshot) = self.snapshots.first() else { return };
        self.names += 1;
        let (source, rows) = snapshot.tables.first_key_value().expect("a table");
        let target = format!("f{}", self.names);
        self.side.con.attach(snapshot.con.database(), "other").expect("attached");
        let sql = format!("CREATE TABLE {target} CLONE other.{source}");
        run(&self.side.con, &sql).expect("a clone");
        self.side.con.detach("other").expect("detached");
        self.side.tables.insert(target, rows.clone());
        let gone = self.side.tables.keys().next().cloned().expect("a table");
        self.side.tables.remove(&gone);
        run(&self.side.con, &format!("DROP TABLE {gone}")).expect("dropped");
    }

    /// Closed and opened again: what was committed is there.
    fn reopen(mut self) -> Self {
        let place = format!("seed {}, opened again", self.seed);
        let Side { con, tables } = self.side;
        drop(con);
        let con = Database::open_in(self.home.path(), "few").expect("a database").connect();
        self.side = Side { con, tables };
        self.side.check(&place);
        self
    }
}

/// Some rows of a table, few of them neighbours.
fn some(rng: &mut Rng, table: &Rows) -> BTreeSet<i64> {
    let keys: Vec<i64> = table.keys().copied().collect();
    let most = if rng.bool() { 4 } else { 45 };
    let count = rng.usize(1..most);
    let first = rng.usize(..keys.len());
    let near = rng.bool();
    let one = |_| {
        let at = if near { first + rng.usize(..2 * count) } else { rng.usize(..keys.len()) };
        keys[at.min(keys.len() - 1)]
    };
    (0..count).map(one).collect()
}

fn list(keys: &BTreeSet<i64>) -> String {
    keys.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

fn text(rng: &mut Rng) -> Option<String> {
    match rng.u8(..4) {
        0 => None,
        1 => Some(format!("new text that is not inside a view {}", rng.u8(..))),
        _ => Some(format!("new{}", rng.u8(..))),
    }
}

fn literal(text: &Option<String>) -> String {
    text.as_ref().map_or("NULL".to_string(), |text| format!("'{text}'"))
}

/// The statement, rows it changes, and the table after it (`None`: it fails).
type Outcome = (String, u64, Option<Rows>);

fn update(rng: &mut Rng, name: &str, table: &Rows) -> Outcome {
    let (keys, text) = (some(rng, table), text(rng));
    // Sometimes far outside of what was there, sometimes against the CHECK.
    let usual = [rng.i64(0..ROWS), rng.i64(ROWS..ROWS * 100), -1, -2];
    let b = usual[rng.usize(..4)];
    let columns = rng.u8(1..8);
    let (a, with_b, with_s) = (columns & 1 > 0, columns & 2 > 0, columns & 4 > 0);
    let mut sets = Vec::new();
    sets.extend(a.then(|| "a = a + 1".to_string()));
    sets.extend(with_b.then(|| format!("b = {b}")));
    sets.extend(with_s.then(|| format!("s = {}", literal(&text))));
    let mut after = table.clone();
    for key in &keys {
        let row = after.get_mut(key).expect("a row");
        row.0 = row.0.map(|n| n + i64::from(a));
        if with_b {
            row.1 = b;
        }
        if with_s {
            row.2 = text.clone();
        }
    }
    let sql = format!("UPDATE {name} SET {} WHERE id IN ({})", sets.join(", "), list(&keys));
    (sql, keys.len() as u64, (!with_b || b >= -1).then_some(after))
}

fn delete(rng: &mut Rng, name: &str, table: &Rows) -> Outcome {
    let keys = some(rng, table);
    let mut after = table.clone();
    after.retain(|key, _| !keys.contains(key));
    if after.is_empty() {
        return (format!("DELETE FROM {name} WHERE FALSE"), 0, Some(table.clone()));
    }
    let sql = format!("DELETE FROM {name} WHERE id IN ({})", list(&keys));
    (sql, keys.len() as u64, Some(after))
}

/// A row gets another key, which may be taken.
fn move_key(rng: &mut Rng, name: &str, table: &Rows) -> Outcome {
    let old = *some(rng, table).first().expect("a row");
    let new = rng.i64(0..2 * ROWS);
    let mut after = table.clone();
    let row = after.remove(&old).expect("a row");
    let free = after.insert(new, row).is_none();
    let sql = format!("UPDATE {name} SET id = {new} WHERE id = {old}");
    (sql, 1, free.then_some(after))
}

fn merge(rng: &mut Rng, name: &str, table: &Rows) -> Outcome {
    let mut keys = some(rng, table);
    keys.extend((0..3).map(|_| rng.i64(0..2 * ROWS)));
    let (limit, value) = (rng.i64(0..ROWS), rng.i64(0..2 * ROWS));
    let values: Vec<String> = keys.iter().map(|key| format!("({key}, {value})")).collect();
    let sql = format!(
        "MERGE INTO {name} USING (VALUES {}) AS v(k, n) ON {name}.id = v.k \
         WHEN MATCHED AND v.k < {limit} THEN UPDATE SET b = v.n, s = 'new' \
         WHEN MATCHED THEN DELETE \
         WHEN NOT MATCHED THEN INSERT (id, b) VALUES (v.k, v.n)",
        values.join(", ")
    );
    let mut after = table.clone();
    for key in &keys {
        match after.get_mut(key) {
            Some(row) if *key < limit => (row.1, row.2) = (value, Some("new".to_string())),
            Some(_) => drop(after.remove(key)),
            None => drop(after.insert(*key, (None, value, None))),
        }
    }
    (sql, keys.len() as u64, Some(after))
}

fn insert(rng: &mut Rng, name: &str, table: &Rows) -> Outcome {
    let (key, b, text) = (rng.i64(0..2 * ROWS), rng.i64(0..ROWS), text(rng));
    let sql = format!("INSERT INTO {name} (id, b, s) VALUES ({key}, {b}, {})", literal(&text));
    let mut after = table.clone();
    let free = after.insert(key, (None, b, text)).is_none();
    (sql, 1, free.then_some(after))
}

#[test]
fn few_rows_of_large_tables() {
    let from_env = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let seed = from_env("SWINGDB_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut history = History::new(seed);
    for number in 0..from_env("SWINGDB_STEPS").map_or(STEPS, |steps| steps as usize) {
        match history.rng.u8(..20) {
            0 => history.clone_here(),
            1 | 2 => history.share(),
            3 => history.clone_from_snapshot(),
            4 => history = history.reopen(),
            _ => history.statement(number),
        }
    }
    let place = format!("seed {seed}, at the end");
    history.side.check(&place);
    history.snapshots.iter().for_each(|snapshot| snapshot.check(&place));
}
