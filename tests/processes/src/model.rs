//! What the database must hold, computed the simple way.
//!
//! [`change`] gives the change of a step; it depends on the seed and the step only, so that a child
//! killed anywhere is followed by one that goes on with the next step. [`State::apply`] does to two
//! ordered maps what the child asks the database to do.

use std::collections::BTreeMap;

use fastrand::Rng;

/// Steps use keys from `step * KEYS_PER_STEP` on, so that no two steps insert the same key.
pub const KEYS_PER_STEP: i64 = 10_000;
/// Rows older than this many steps are deleted from time to time, so that the tables stay small.
const KEPT_STEPS: i64 = 40;

/// A row's other columns: `v BIGINT, s VARCHAR`, both nullable.
pub type Row = (Option<i64>, Option<String>);

/// One change, atomic in the database.
#[expect(missing_docs, reason = "the fields are numbers that the variant's text names")]
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// New rows by `INSERT ... SELECT`.
    Insert { first: i64, rows: i64 },
    /// New rows as Arrow batches.
    Append { first: i64, rows: i64 },
    /// New rows from a CSV file.
    Import { first: i64, rows: i64 },
    /// `v = v + add` where `id % modulus = remainder`.
    Update { add: i64, modulus: i64, remainder: i64 },
    /// Where `id % modulus = remainder`.
    Delete { modulus: i64, remainder: i64 },
    /// All rows below a key.
    Forget { below: i64 },
    /// Several in one transaction.
    Transaction(Vec<Change>),
    /// The same, taken back.
    RolledBack(Vec<Change>),
    /// Rows of which the last has a key that exists: the statement fails and changes nothing.
    Duplicate { first: i64, rows: i64 },
    /// `u` becomes a copy of some rows of `t`.
    Derive { modulus: i64 },
    /// `ALTER TABLE`: a column comes and goes. The contents stay.
    Alter,
}

/// The row with key `id` as every kind of insertion makes it.
pub fn row(id: i64) -> Row {
    let text = (id % 7 != 0).then(|| format!("row {id} {}", "x".repeat((id % 23) as usize)));
    ((id % 5 != 0).then_some(id * 3), text)
}

/// The change of step `step`.
pub fn change(seed: u64, step: i64) -> Change {
    let mut random = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(step as u64));
    let first = step * KEYS_PER_STEP;
    if step % KEPT_STEPS == KEPT_STEPS - 1 {
        return Change::Forget { below: (step - KEPT_STEPS) * KEYS_PER_STEP };
    }
    match random.u8(0..20) {
        0..=2 => Change::Transaction(several(&mut random, first)),
        3 => Change::RolledBack(several(&mut random, first)),
        4 => Change::Duplicate { first, rows: random.i64(1..500) },
        5 => Change::Derive { modulus: random.i64(2..9) },
        6 => Change::Alter,
        _ => simple(&mut random, first, KEYS_PER_STEP / 10),
    }
}

/// One of the plain changes; `first` is the first key that is free.
fn simple(random: &mut Rng, first: i64, most_rows: i64) -> Change {
    let rows = random.i64(1..most_rows);
    let modulus = random.i64(2..50);
    let remainder = random.i64(0..modulus);
    match random.u8(0..6) {
        0 => Change::Insert { first, rows },
        1 => Change::Append { first, rows },
        2 => Change::Import { first, rows },
        3 | 4 => Change::Update { add: random.i64(-9..9), modulus, remainder },
        _ => Change::Delete { modulus, remainder },
    }
}

fn several(random: &mut Rng, first: i64) -> Vec<Change> {
    let count = random.i64(1..5);
    (0..count).map(|i| simple(random, first + i * 1_000, 300)).collect()
}

/// The contents of the tables `t` and `u`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// `t (id BIGINT PRIMARY KEY, v BIGINT, s VARCHAR)`.
    pub t: BTreeMap<i64, Row>,
    /// `u`, of the same columns; `None` until it is first made.
    pub u: Option<BTreeMap<i64, Row>>,
}

impl State {
    /// Does to the model what the child does to the database.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Insert { first, rows }
            | Change::Append { first, rows }
            | Change::Import { first, rows } => {
                self.t.extend((*first..first + rows).map(|id| (id, row(id))));
            }
            Change::Update { add, modulus, remainder } => {
                for (id, (v, _)) in &mut self.t {
                    if id % modulus == *remainder {
                        *v = v.map(|v| v + add);
                    }
                }
            }
            Change::Delete { modulus, remainder } => {
                self.t.retain(|id, _| id % modulus != *remainder);
            }
            Change::Forget { below } => self.t.retain(|id, _| id >= below),
            Change::Transaction(changes) => changes.iter().for_each(|change| self.apply(change)),
            Change::RolledBack(_) | Change::Duplicate { .. } | Change::Alter => {}
            Change::Derive { modulus } => {
                let some = self.t.iter().filter(|(id, _)| *id % modulus == 0);
                self.u = Some(some.map(|(id, row)| (*id, row.clone())).collect());
            }
        }
    }

    /// The state after steps `1..=step`.
    pub fn after(seed: u64, step: i64) -> Self {
        let mut state = Self::default();
        (1..=step).for_each(|step| state.apply(&change(seed, step)));
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_the_same_every_time() {
        assert!((1..500).all(|step| change(7, step) == change(7, step)));
        assert!((1..500).any(|step| change(7, step) != change(8, step)));
    }

    #[test]
    fn the_tables_stay_small_and_every_change_occurs() {
        let mut state = State::default();
        let mut kinds = std::collections::HashSet::new();
        for step in 1..1_000 {
            let change = change(3, step);
            kinds.insert(std::mem::discriminant(&change));
            state.apply(&change);
            assert!(state.t.len() < 100_000);
        }
        assert_eq!(kinds.len(), 11);
    }
}
