//! A database of two tables as a few vectors: what the statements of `random.rs` ought to do.
//!
//! `t` has an integer key in its first column and changing other columns; `o (k INT, v INT)` is
//! what subqueries, joins and MERGE look into. Everything is done in the most naive way there is.

use std::collections::HashSet;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum V {
    Null,
    Int(i64),
    Text(String),
}

impl V {
    pub fn sql(&self) -> String {
        match self {
            V::Null => "NULL".to_string(),
            V::Int(n) => n.to_string(),
            V::Text(s) => format!("'{s}'"),
        }
    }

    pub fn text(&self) -> String {
        match self {
            V::Null => "NULL".to_string(),
            V::Int(n) => n.to_string(),
            V::Text(s) => s.clone(),
        }
    }

    pub fn int(&self) -> Option<i64> {
        match self {
            V::Int(n) => Some(*n),
            _ => None,
        }
    }
}

/// A column of `t`.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub is_text: bool,
    pub default: V,
}

/// Both tables.
#[derive(Clone, Debug)]
pub struct Model {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<V>>,
    pub other: Vec<(Option<i64>, Option<i64>)>,
}

/// What a row of `t` is asked, with SQL's three truth values.
#[derive(Clone, Debug)]
pub enum Cond {
    Always,
    Never,
    Unknown,
    Less(usize, i64),
    Equal(usize, i64),
    IsNull(usize),
    /// `c IN (SELECT k FROM o)`, or NOT IN.
    InOther(usize, bool),
    /// `EXISTS (SELECT 1 FROM o WHERE o.k = t.c AND o.v > n)`
    Exists(usize, i64),
    And(Box<Cond>, Box<Cond>),
    Or(Box<Cond>, Box<Cond>),
    Not(Box<Cond>),
}

impl Cond {
    pub fn sql(&self, columns: &[Column]) -> String {
        let name = |index: &usize| format!("t.{}", columns[*index].name);
        match self {
            Cond::Always => "TRUE".to_string(),
            Cond::Never => "FALSE".to_string(),
            Cond::Unknown => "NULL".to_string(),
            Cond::Less(c, n) => format!("{} < {n}", name(c)),
            Cond::Equal(c, n) => format!("{} = {n}", name(c)),
            Cond::IsNull(c) => format!("{} IS NULL", name(c)),
            Cond::InOther(c, false) => format!("{} IN (SELECT k FROM o)", name(c)),
            Cond::InOther(c, true) => format!("{} NOT IN (SELECT k FROM o)", name(c)),
            Cond::Exists(c, n) => {
                format!("EXISTS (SELECT 1 FROM o WHERE o.k = {} AND o.v > {n})", name(c))
            }
            Cond::And(a, b) => format!("({} AND {})", a.sql(columns), b.sql(columns)),
            Cond::Or(a, b) => format!("({} OR {})", a.sql(columns), b.sql(columns)),
            Cond::Not(a) => format!("NOT ({})", a.sql(columns)),
        }
    }

    pub fn holds(&self, row: &[V], model: &Model) -> Option<bool> {
        match self {
            Cond::Always => Some(true),
            Cond::Never => Some(false),
            Cond::Unknown => None,
            Cond::Less(c, n) => row[*c].int().map(|v| v < *n),
            Cond::Equal(c, n) => row[*c].int().map(|v| v == *n),
            Cond::IsNull(c) => Some(row[*c] == V::Null),
            Cond::InOther(c, negated) => {
                let found = if model.other.is_empty() {
                    Some(false)
                } else {
                    match row[*c].int() {
                        None => None,
                        Some(v) if model.other.iter().any(|(k, _)| *k == Some(v)) => Some(true),
                        Some(_) if model.other.iter().any(|(k, _)| k.is_none()) => None,
                        Some(_) => Some(false),
                    }
                };
                found.map(|found| found != *negated)
            }
            Cond::Exists(c, n) => Some(
                model
                    .other
                    .iter()
                    .any(|(k, v)| k.is_some() && *k == row[*c].int() && v.is_some_and(|v| v > *n)),
            ),
            Cond::And(a, b) => match (a.holds(row, model), b.holds(row, model)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Cond::Or(a, b) => match (a.holds(row, model), b.holds(row, model)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Cond::Not(a) => a.holds(row, model).map(|held| !held),
        }
    }
}

/// What a column is set to, from the row as it was.
#[derive(Clone, Debug)]
pub enum Value {
    Constant(V),
    Column(usize),
    Plus(usize, i64),
    Default(usize),
}

impl Value {
    pub fn sql(&self, columns: &[Column]) -> String {
        match self {
            Value::Constant(v) => v.sql(),
            Value::Column(c) => format!("t.{}", columns[*c].name),
            Value::Plus(c, n) => format!("t.{} + {n}", columns[*c].name),
            Value::Default(_) => "DEFAULT".to_string(),
        }
    }

    pub fn of(&self, row: &[V], model: &Model) -> V {
        match self {
            Value::Constant(v) => v.clone(),
            Value::Column(c) => row[*c].clone(),
            Value::Plus(c, n) => row[*c].int().map_or(V::Null, |v| V::Int(v + n)),
            Value::Default(c) => model.columns[*c].default.clone(),
        }
    }
}

/// `SET a = ..., b = ...`
pub type Sets = Vec<(usize, Value)>;

impl Model {
    /// A statement's effect stands when the keys are distinct and known; otherwise nothing
    /// happened.
    pub fn checked(self) -> Option<Self> {
        let mut seen = HashSet::new();
        let good = self.rows.iter().all(|row| row[0] != V::Null && seen.insert(row[0].clone()));
        good.then_some(self)
    }

    /// The rows as text, sorted.
    pub fn text(&self) -> Vec<String> {
        let line = |row: &Vec<V>| row.iter().map(V::text).collect::<Vec<_>>().join("|");
        let mut lines: Vec<String> = self.rows.iter().map(line).collect();
        lines.sort();
        lines
    }

    pub fn set(&self, row: &[V], sets: &Sets) -> Vec<V> {
        let mut new = row.to_vec();
        for (column, value) in sets {
            new[*column] = value.of(row, self);
        }
        new
    }

    /// UPDATE; the number of rows.
    pub fn update(&mut self, cond: &Cond, sets: &Sets) -> u64 {
        let old = self.clone();
        let mut count = 0;
        for row in &mut self.rows {
            if cond.holds(row, &old) == Some(true) {
                *row = old.set(row, sets);
                count += 1;
            }
        }
        count
    }

    /// DELETE; the number of rows.
    pub fn delete(&mut self, cond: &Cond) -> u64 {
        let old = self.clone();
        self.rows.retain(|row| cond.holds(row, &old) != Some(true));
        (old.rows.len() - self.rows.len()) as u64
    }

    /// The row with a key.
    pub fn find(&self, key: &V) -> Option<usize> {
        self.rows.iter().position(|row| row[0] == *key)
    }
}
