//! Sequences: numbers that are given out one after the other.
//!
//! What a sequence has given out is part of the database's state, like the rows of a table: a
//! transaction that is rolled back gives its numbers back, and each snapshot goes on counting from
//! the state it was taken of.

use swingdb_common::error::{Error, Result};

use crate::catalog::names::check_name;
use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;

/// A sequence of whole numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Name.
    pub name: String,
    /// The first number.
    pub start: i64,
    /// From one number to the next; not 0.
    pub increment: i64,
    /// The least number.
    pub min: i64,
    /// The greatest number.
    pub max: i64,
    /// Whether it goes on at the other end behind its last number.
    pub cycle: bool,
    /// The number given out last.
    pub last: Option<i64>,
}

impl Sequence {
    /// Gives out one number.
    pub fn take(&mut self) -> Result<i64> {
        let next = match self.last {
            None => self.start,
            Some(last) => match last.checked_add(self.increment) {
                Some(next) if (self.min..=self.max).contains(&next) => next,
                _ if self.cycle && self.increment > 0 => self.min,
                _ if self.cycle => self.max,
                _ => return Err(self.exhausted()),
            },
        };
        self.last = Some(next);
        Ok(next)
    }

    /// Goes on behind `value`, or with it where it has not been `given` out.
    pub fn set(&mut self, value: i64, given: bool) -> Result<()> {
        if !(self.min..=self.max).contains(&value) {
            return Err(Error::plan(format!(
                "sequence {:?}: {value} is not between {} and {}",
                self.name, self.min, self.max
            )));
        }
        match given {
            true => self.last = Some(value),
            false => (self.start, self.last) = (value, None),
        }
        Ok(())
    }

    fn exhausted(&self) -> Error {
        let (what, limit) = match self.increment > 0 {
            true => ("greatest", self.max),
            false => ("least", self.min),
        };
        Error::plan(format!(
            "sequence {:?} has given out its {what} number, {limit}; make one with other limits, \
             or with CYCLE",
            self.name
        ))
    }

    /// That it can be made.
    pub(crate) fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        let wrong = if self.increment == 0 {
            "INCREMENT must not be 0".to_string()
        } else if self.min >= self.max {
            format!("MINVALUE {} must be less than MAXVALUE {}", self.min, self.max)
        } else if !(self.min..=self.max).contains(&self.start) {
            format!("START {} is not between {} and {}", self.start, self.min, self.max)
        } else if self.last.is_some_and(|last| !(self.min..=self.max).contains(&last)) {
            "the number given out last is none of its own".to_string()
        } else {
            return Ok(());
        };
        Err(Error::plan(format!("sequence {:?}: {wrong}", self.name)))
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.text(&self.name);
        [self.start, self.increment, self.min, self.max].iter().for_each(|n| w.u64(*n as u64));
        w.bool(self.cycle);
        w.option(self.last.as_ref(), |w, last| w.u64(*last as u64));
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self> {
        let sequence = Self {
            name: r.text()?.to_owned(),
            start: r.u64()? as i64,
            increment: r.u64()? as i64,
            min: r.u64()? as i64,
            max: r.u64()? as i64,
            cycle: r.bool()?,
            last: r.option(|r| r.u64())?.map(|last| last as i64),
        };
        sequence.check().map_err(|error| corrupt(error.to_string()))?;
        Ok(sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(increment: i64, (min, max): (i64, i64), start: i64, cycle: bool) -> Sequence {
        Sequence { name: "s".into(), start, increment, min, max, cycle, last: None }
    }

    fn taken(mut sequence: Sequence, count: usize) -> Vec<Option<i64>> {
        (0..count).map(|_| sequence.take().ok()).collect()
    }

    #[test]
    fn numbers_follow_one_another_until_there_are_no_more() {
        let up = sequence(3, (1, 8), 1, false);
        assert_eq!(taken(up.clone(), 4), [Some(1), Some(4), Some(7), None]);
        assert_eq!(taken(Sequence { cycle: true, ..up }, 5)[3..], [Some(1), Some(4)]);
        let down = sequence(-2, (-5, 3), 0, false);
        assert_eq!(taken(down.clone(), 4), [Some(0), Some(-2), Some(-4), None]);
        assert_eq!(taken(Sequence { cycle: true, ..down }, 5)[3..], [Some(3), Some(1)]);
        let ends = sequence(1, (i64::MIN, i64::MAX), i64::MAX, true);
        assert_eq!(taken(ends, 3), [Some(i64::MAX), Some(i64::MIN), Some(i64::MIN + 1)]);
        let steps = sequence(i64::MIN, (i64::MIN, -1), -1, false);
        assert_eq!(taken(steps, 2), [Some(-1), None]);
    }

    #[test]
    fn what_is_no_sequence_is_refused() {
        for wrong in [
            sequence(0, (1, 9), 1, false),
            sequence(1, (9, 9), 9, false),
            sequence(1, (1, 9), 10, false),
            Sequence { last: Some(0), ..sequence(1, (1, 9), 1, false) },
            Sequence { name: String::new(), ..sequence(1, (1, 9), 1, false) },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
