//! Random histories against the naive model of [`crate::model`]: every statement's outcome (rows
//! changed or error) and the whole table after it are compared.
//!
//! The seed is printed; `SWINGDB_SEED=n` replays a run, `SWINGDB_STEPS=n` makes it longer.

use fastrand::Rng;

use crate::model::{Column, Cond, Model, Sets, V, Value};
use crate::support::Db;

const STEPS: usize = 250;
const RUNS: u64 = 4;

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_histories() {
    let steps = from_env("SWINGDB_STEPS").map_or(STEPS, |n| n as usize);
    match from_env("SWINGDB_SEED") {
        Some(seed) => History::new(seed).run(steps),
        None => {
            let first = fastrand::u64(..u64::MAX / 2);
            (0..RUNS).for_each(|n| History::new(first + n).run(steps));
        }
    }
}

/// A statement and what the model says of it: rows changed and state after, or `None` for an error.
struct Step {
    sql: String,
    expected: Option<(Option<u64>, Model)>,
}

struct History {
    seed: u64,
    rng: Rng,
    db: Db,
    model: Model,
    /// The state before BEGIN, and at each savepoint.
    begun: Option<Model>,
    savepoints: Vec<Model>,
    named: usize,
}

impl History {
    fn new(seed: u64) -> Self {
        let column =
            |name: &str, is_text| Column { name: name.to_string(), is_text, default: V::Null };
        let db = Db::with(
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR); CREATE TABLE o (k INT, v INT)",
        );
        let columns = vec![column("id", false), column("a", false), column("s", true)];
        let model = Model { columns, rows: Vec::new(), other: Vec::new() };
        let rng = Rng::with_seed(seed);
        Self { seed, rng, db, model, begun: None, savepoints: Vec::new(), named: 0 }
    }

    fn run(mut self, steps: usize) {
        println!("seed {}", self.seed);
        for number in 0..steps {
            if self.rng.u8(..8) == 0 {
                self.transaction();
            } else {
                let step = self.step();
                self.check(number, step);
            }
        }
    }

    fn check(&mut self, number: usize, step: Step) {
        let place = format!("seed {}, step {number}: {}", self.seed, step.sql);
        match (self.db.con.query(&step.sql), step.expected) {
            (Ok(result), Some((count, model))) => {
                if let Some(count) = count {
                    assert_eq!(result.rows_changed(), Some(count), "rows changed; {place}");
                }
                self.model = model;
            }
            (Err(_), None) => {}
            (Ok(_), None) => panic!("succeeded instead of failing; {place}"),
            (Err(error), Some(_)) => panic!("{error}; {place}"),
        }
        let mut found = self.db.rows("SELECT * FROM t");
        found.sort();
        assert_eq!(found, self.model.text(), "{place}");
    }

    fn transaction(&mut self) {
        let in_transaction = self.begun.is_some();
        match self.rng.u8(..6) {
            _ if !in_transaction => {
                self.db.run("BEGIN");
                self.begun = Some(self.model.clone());
                self.savepoints.clear();
            }
            0 | 1 => {
                self.db.run("COMMIT");
                self.begun = None;
            }
            2 => {
                self.db.run("ROLLBACK");
                self.model = self.begun.take().expect("a transaction");
            }
            3 if !self.savepoints.is_empty() => {
                let index = self.rng.usize(..self.savepoints.len());
                self.db.run(&format!("ROLLBACK TO s{index}"));
                self.model = self.savepoints[index].clone();
                self.savepoints.truncate(index + 1);
            }
            _ => {
                self.db.run(&format!("SAVEPOINT s{}", self.savepoints.len()));
                self.savepoints.push(self.model.clone());
            }
        }
        let mut found = self.db.rows("SELECT * FROM t");
        found.sort();
        assert_eq!(found, self.model.text(), "seed {} after a transaction statement", self.seed);
    }

    fn step(&mut self) -> Step {
        match self.rng.u8(..24) {
            0..=4 => self.insert(),
            5 => self.insert_select(),
            6 | 7 => self.upsert(),
            8..=10 => self.update(),
            11 => self.update_from(),
            12 | 13 => self.delete(),
            14 => self.delete_using(),
            15..=18 => self.merge(),
            19 => self.refill_other(),
            20 => self.add_column(),
            21 => self.drop_or_rename_column(),
            22 => self.clone_table(),
            _ => self.truncate(),
        }
    }

    fn key(&mut self) -> i64 {
        self.rng.i64(0..40)
    }

    fn value(&mut self, column: usize) -> V {
        if column == 0 {
            return V::Int(self.key());
        }
        match self.rng.u8(..6) {
            0 => V::Null,
            _ if self.model.columns[column].is_text => V::Text(format!("w{}", self.rng.u8(..9))),
            _ => V::Int(self.rng.i64(-5..40)),
        }
    }

    fn int_column(&mut self) -> usize {
        let ints: Vec<usize> =
            (0..self.model.columns.len()).filter(|c| !self.model.columns[*c].is_text).collect();
        ints[self.rng.usize(..ints.len())]
    }

    fn cond(&mut self, depth: usize) -> Cond {
        let n = self.rng.i64(-2..40);
        let column = self.int_column();
        match self.rng.u8(..if depth == 0 { 12 } else { 16 }) {
            0 => Cond::Always,
            1 => Cond::Never,
            2 => Cond::Unknown,
            3..=5 => Cond::Less(column, n),
            6 | 7 => Cond::Equal(column, n),
            8 => Cond::IsNull(column),
            // Subqueries below OR and NOT are joins of another kind; they are generated above them.
            9 | 10 if depth > 0 => Cond::InOther(column, self.rng.bool()),
            11 if depth > 0 => Cond::Exists(column, n / 2),
            9..=11 => Cond::Less(column, n),
            12 | 13 => Cond::And(Box::new(self.cond(depth - 1)), Box::new(self.cond(depth - 1))),
            14 => Cond::Or(Box::new(self.cond(depth - 1)), Box::new(self.cond(depth - 1))),
            _ => Cond::Not(Box::new(self.cond(depth - 1))),
        }
    }

    fn sets(&mut self) -> Sets {
        let mut columns: Vec<usize> = (0..self.model.columns.len()).collect();
        self.rng.shuffle(&mut columns);
        columns.truncate(self.rng.usize(1..=columns.len().min(3)));
        let mut sets = Vec::new();
        for column in columns {
            if column == 0 && self.rng.u8(..4) != 0 {
                continue;
            }
            let is_text = self.model.columns[column].is_text;
            let same: Vec<usize> = (0..self.model.columns.len())
                .filter(|c| self.model.columns[*c].is_text == is_text)
                .collect();
            let from = same[self.rng.usize(..same.len())];
            let value = match self.rng.u8(..5) {
                0 if column != 0 => Value::Default(column),
                1 | 2 if !is_text => Value::Plus(from, self.rng.i64(-3..4)),
                3 => Value::Column(from),
                _ => Value::Constant(self.value(column)),
            };
            sets.push((column, value));
        }
        if sets.is_empty() {
            sets.push((0, Value::Plus(0, 1)));
        }
        sets
    }

    fn sets_sql(&self, sets: &Sets) -> String {
        let columns = &self.model.columns;
        let one = |(column, value): &(usize, Value)| {
            format!("{} = {}", columns[*column].name, value.sql(columns))
        };
        sets.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn new_rows(&mut self) -> (String, Vec<Vec<V>>) {
        let count = self.rng.usize(1..5);
        let width = self.model.columns.len();
        let rows: Vec<Vec<V>> =
            (0..count).map(|_| (0..width).map(|c| self.value(c)).collect()).collect();
        let row =
            |row: &Vec<V>| format!("({})", row.iter().map(V::sql).collect::<Vec<_>>().join(", "));
        (rows.iter().map(row).collect::<Vec<_>>().join(", "), rows)
    }

    fn insert(&mut self) -> Step {
        let (values, rows) = self.new_rows();
        let mut model = self.model.clone();
        let count = rows.len() as u64;
        model.rows.extend(rows);
        Step {
            sql: format!("INSERT INTO t VALUES {values}"),
            expected: model.checked().map(|model| (Some(count), model)),
        }
    }

    fn insert_select(&mut self) -> Step {
        let cond = self.cond(1);
        let shift = self.rng.i64(30..60);
        let names: Vec<String> = self.model.columns[1..].iter().map(|c| c.name.clone()).collect();
        let columns = std::iter::once(format!("id + {shift}")).chain(names).collect::<Vec<_>>();
        let sql = format!(
            "INSERT INTO t SELECT {} FROM t WHERE {}",
            columns.join(", "),
            cond.sql(&self.model.columns)
        );
        let mut model = self.model.clone();
        for row in &self.model.rows {
            if cond.holds(row, &self.model) == Some(true) {
                let mut new = row.clone();
                new[0] = V::Int(row[0].int().expect("a key") + shift);
                model.rows.push(new);
            }
        }
        let count = (model.rows.len() - self.model.rows.len()) as u64;
        Step { sql, expected: model.checked().map(|model| (Some(count), model)) }
    }

    fn upsert(&mut self) -> Step {
        let (values, rows) = self.new_rows();
        let mut model = self.model.clone();
        let mut count = 0;
        if self.rng.bool() {
            for row in rows {
                if model.find(&row[0]).is_none() {
                    model.rows.push(row);
                    count += 1;
                }
            }
            let sql = format!("INSERT INTO t VALUES {values} ON CONFLICT DO NOTHING");
            return Step { sql, expected: Some((Some(count), model)) };
        }
        let column = self.rng.usize(1..model.columns.len());
        let name = &model.columns[column].name;
        let sql = format!(
            "INSERT INTO t VALUES {values} ON CONFLICT (id) DO UPDATE SET {name} = excluded.{name}"
        );
        let mut keys = std::collections::HashSet::new();
        if !rows.iter().all(|row| keys.insert(row[0].clone())) {
            return Step { sql, expected: None };
        }
        for row in rows {
            count += 1;
            match model.find(&row[0]) {
                Some(index) => model.rows[index][column] = row[column].clone(),
                None => model.rows.push(row),
            }
        }
        Step { sql, expected: Some((Some(count), model)) }
    }

    fn update(&mut self) -> Step {
        let (cond, sets) = (self.cond(2), self.sets());
        let sets_sql = self.sets_sql(&sets);
        let sql = format!("UPDATE t SET {sets_sql} WHERE {}", cond.sql(&self.model.columns));
        let mut model = self.model.clone();
        let count = model.update(&cond, &sets);
        Step { sql, expected: model.checked().map(|model| (Some(count), model)) }
    }

    /// One row of `o` for each key: the largest value.
    fn grouped(&self) -> Vec<(i64, Option<i64>)> {
        let mut grouped: std::collections::BTreeMap<i64, Option<i64>> = Default::default();
        for (k, v) in &self.model.other {
            if let Some(k) = k {
                let entry = grouped.entry(*k).or_default();
                *entry = (*entry).max(*v);
            }
        }
        grouped.into_iter().collect()
    }

    fn update_from(&mut self) -> Step {
        let column = self.int_column();
        let join = self.int_column();
        let columns = &self.model.columns;
        let sql = format!(
            "UPDATE t SET {} = g.v FROM (SELECT k, max(v) AS v FROM o GROUP BY k) g \
             WHERE g.k = t.{}",
            columns[column].name, columns[join].name
        );
        let grouped = self.grouped();
        let mut model = self.model.clone();
        let mut count = 0;
        for row in &mut model.rows {
            if let Some((_, v)) = grouped.iter().find(|(k, _)| row[join] == V::Int(*k)) {
                row[column] = v.map_or(V::Null, V::Int);
                count += 1;
            }
        }
        Step { sql, expected: model.checked().map(|model| (Some(count), model)) }
    }

    fn delete(&mut self) -> Step {
        let cond = self.cond(2);
        let mut model = self.model.clone();
        let count = model.delete(&cond);
        let sql = format!("DELETE FROM t WHERE {}", cond.sql(&self.model.columns));
        Step { sql, expected: Some((Some(count), model)) }
    }

    fn delete_using(&mut self) -> Step {
        let (column, n) = (self.int_column(), self.rng.i64(0..30));
        let name = &self.model.columns[column].name;
        let sql = format!("DELETE FROM t USING o WHERE o.k = t.{name} AND o.v > {n}");
        let mut model = self.model.clone();
        let count = model.delete(&Cond::Exists(column, n));
        Step { sql, expected: Some((Some(count), model)) }
    }

    fn merge(&mut self) -> Step {
        let (limit, sets) = (self.rng.i64(-3..30), self.sets());
        let (delete, insert, orphans) = (self.rng.bool(), self.rng.bool(), self.rng.bool());
        let orphan = self.cond(0);
        let mut sql = "MERGE INTO t USING o ON t.id = o.k".to_string();
        if delete {
            sql += &format!(" WHEN MATCHED AND o.v < {limit} THEN DELETE");
        }
        sql += &format!(" WHEN MATCHED THEN UPDATE SET {}", self.sets_sql(&sets));
        if insert {
            sql += " WHEN NOT MATCHED AND o.k IS NOT NULL THEN INSERT (id) VALUES (o.k)";
        }
        if orphans {
            let cond = orphan.sql(&self.model.columns);
            sql += &format!(" WHEN NOT MATCHED BY SOURCE AND {cond} THEN DELETE");
        }
        let old = &self.model;
        let mut model = Model { rows: Vec::new(), ..old.clone() };
        let mut count = 0;
        for row in &old.rows {
            let partners: Vec<_> =
                old.other.iter().filter(|(k, _)| row[0] == k.map_or(V::Null, V::Int)).collect();
            match partners.as_slice() {
                [] if orphans && orphan.holds(row, old) == Some(true) => count += 1,
                [] => model.rows.push(row.clone()),
                [(_, v)] => {
                    count += 1;
                    if !(delete && v.is_some_and(|v| v < limit)) {
                        model.rows.push(old.set(row, &sets));
                    }
                }
                _ => return Step { sql, expected: None },
            }
        }
        for (k, _) in old.other.iter().filter(|_| insert) {
            if let Some(k) = k
                && old.find(&V::Int(*k)).is_none()
            {
                let mut row: Vec<V> = old.columns.iter().map(|c| c.default.clone()).collect();
                row[0] = V::Int(*k);
                model.rows.push(row);
                count += 1;
            }
        }
        Step { sql, expected: model.checked().map(|model| (Some(count), model)) }
    }

    fn refill_other(&mut self) -> Step {
        let mut model = self.model.clone();
        let count = self.rng.usize(..8);
        model.other = (0..count)
            .map(|_| {
                let key = (self.rng.u8(..9) > 0).then(|| self.rng.i64(0..40));
                let value = (self.rng.u8(..5) > 0).then(|| self.rng.i64(0..30));
                (key, value)
            })
            .collect();
        self.db.run("DELETE FROM o");
        for (k, v) in &model.other {
            let [k, v] = [k, v].map(|n| n.map_or(V::Null, V::Int).sql());
            self.db.run(&format!("INSERT INTO o VALUES ({k}, {v})"));
        }
        let expected = Some((None, model));
        Step { sql: "SELECT 1".to_string(), expected }
    }

    fn add_column(&mut self) -> Step {
        let mut model = self.model.clone();
        self.named += 1;
        let (name, is_text) = (format!("c{}", self.named), self.rng.bool());
        if model.columns.len() > 5 {
            return self.drop_or_rename_column();
        }
        let default = match self.rng.u8(..3) {
            0 => V::Null,
            _ if is_text => V::Text("dflt".to_string()),
            _ => V::Int(self.rng.i64(0..40)),
        };
        model.rows.iter_mut().for_each(|row| row.push(default.clone()));
        let kind = if is_text { "VARCHAR" } else { "INT" };
        let sql = format!("ALTER TABLE t ADD COLUMN {name} {kind} DEFAULT {}", default.sql());
        model.columns.push(Column { name, is_text, default });
        Step { sql, expected: Some((None, model)) }
    }

    fn drop_or_rename_column(&mut self) -> Step {
        let mut model = self.model.clone();
        let column = self.rng.usize(1..model.columns.len());
        let name = model.columns[column].name.clone();
        if self.rng.bool() && model.columns.len() > 2 {
            model.columns.remove(column);
            model.rows.iter_mut().for_each(|row| drop(row.remove(column)));
            let sql = format!("ALTER TABLE t DROP COLUMN {name}");
            return Step { sql, expected: Some((None, model)) };
        }
        self.named += 1;
        model.columns[column].name = format!("c{}", self.named);
        let sql = format!("ALTER TABLE t RENAME COLUMN {name} TO c{}", self.named);
        Step { sql, expected: Some((None, model)) }
    }

    fn clone_table(&mut self) -> Step {
        let sql = "CREATE OR REPLACE TABLE u CLONE t; DROP TABLE t; ALTER TABLE u RENAME TO t";
        Step { sql: sql.to_string(), expected: Some((None, self.model.clone())) }
    }

    fn truncate(&mut self) -> Step {
        if self.rng.u8(..3) > 0 {
            return self.insert();
        }
        let model = Model { rows: Vec::new(), ..self.model.clone() };
        let count = self.model.rows.len() as u64;
        Step { sql: "TRUNCATE t".to_string(), expected: Some((Some(count), model)) }
    }
}
