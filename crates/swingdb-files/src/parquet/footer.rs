//! A look at a Parquet file's footer before the decoder's: that calls itself for each level of the
//! schema, and asks for as much memory as lists say they have elements. Where the stack ends, or
//! there is no memory, so would the process.
//!
//! The footer is one struct in Thrift's compact protocol (`doc/specs/thrift-compact-protocol.md` in
//! Thrift's repository; `FileMetaData` in Parquet's `parquet.thrift`).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use parquet::errors::ParquetError;

/// How deep a schema may be nested. Tables have types of up to 64 levels, and a list takes three.
const MAX_LEVELS: usize = 400;
/// How deep anything else in a footer may be nested; all that is known is flatter.
const MAX_STRUCTS: usize = 64;

const MAGIC: &[u8] = b"PAR1";
const TAIL: u64 = 8;

/// The field of the footer that has the schema.
const SCHEMA: i64 = 2;
/// The field of one of the schema's elements that says how many of the next ones are below it.
const CHILDREN: i64 = 5;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Where the last bytes of a file lie, which say where its footer does.
pub(super) fn tail(bytes: u64) -> Range<u64> {
    bytes.saturating_sub(TAIL)..bytes
}

/// Where the footer lies, by the tail; `None`: that says nothing.
pub(super) fn place(file: &File, bytes: u64) -> Result<Option<Range<u64>>, ParquetError> {
    let mut tail = [0; TAIL as usize];
    let Some(end) = bytes.checked_sub(TAIL) else { return Ok(None) };
    file.read_exact_at(&mut tail, end)?;
    let (length, magic) = tail.split_at(4);
    let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let start = end.checked_sub(length).filter(|_| magic == MAGIC);
    Ok(start.map(|start| start..end))
}

/// Refuses what the decoder would not survive; what else is wrong it finds itself.
pub(super) fn check(file: &File, place: Option<Range<u64>>) -> Result<(), ParquetError> {
    let Some(place) = place else { return Ok(()) };
    let mut footer = vec![0; (place.end - place.start) as usize];
    file.read_exact_at(&mut footer, place.start)?;
    check_footer(&footer).map_err(|why| ParquetError::General(why.to_string()))
}

fn check_footer(footer: &[u8]) -> Result<(), &'static str> {
    let mut reader = Compact { rest: footer };
    let mut field = 0;
    while let Some(kind) = reader.field(&mut field)? {
        match (field, kind) {
            (SCHEMA, LIST) => reader.schema()?,
            _ => reader.skip(kind, MAX_STRUCTS)?,
        }
    }
    Ok(())
}

/// What is still to be read.
struct Compact<'a> {
    rest: &'a [u8],
}

const DAMAGED: &str = "the footer is damaged";

impl Compact<'_> {
    fn byte(&mut self) -> Result<u8, &'static str> {
        let (first, rest) = self.rest.split_first().ok_or(DAMAGED)?;
        self.rest = rest;
        Ok(*first)
    }

    fn skip_bytes(&mut self, count: u64) -> Result<(), &'static str> {
        let count = usize::try_from(count).map_err(|_| DAMAGED)?;
        self.rest = self.rest.get(count..).ok_or(DAMAGED)?;
        Ok(())
    }

    fn unsigned(&mut self) -> Result<u64, &'static str> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DAMAGED)
    }

    fn signed(&mut self) -> Result<i64, &'static str> {
        let zigzag = self.unsigned()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// The kind of a struct's next field, whose number comes after `last`; `None` at its end.
    fn field(&mut self, last: &mut i64) -> Result<Option<u8>, &'static str> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        *last = match head >> 4 {
            0 => self.signed()?,
            step => last.checked_add(step.into()).ok_or(DAMAGED)?,
        };
        Ok(Some(head & 0x0F))
    }

    /// How many elements a list has, and of which kind: no more than there are bytes.
    fn list(&mut self) -> Result<(u64, u8), &'static str> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.unsigned()?,
            few => few.into(),
        };
        self.fitting(count).map(|count| (count, head & 0x0F))
    }

    fn fitting(&self, count: u64) -> Result<u64, &'static str> {
        if count > self.rest.len() as u64 { Err(DAMAGED) } else { Ok(count) }
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Result<(), &'static str> {
        let depth = depth.checked_sub(1).ok_or(DAMAGED)?;
        match kind {
            TRUE | FALSE => {}
            BYTE => self.skip_bytes(1)?,
            I16 | I32 | I64 => drop(self.unsigned()?),
            DOUBLE => self.skip_bytes(8)?,
            UUID => self.skip_bytes(16)?,
            BINARY => {
                let length = self.unsigned()?;
                self.skip_bytes(length)?;
            }
            LIST | SET => {
                let (count, of) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(of, depth))?;
            }
            MAP => {
                let count = self.unsigned().and_then(|count| self.fitting(count))?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                for _ in 0..count {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 0x0F, depth)?;
                }
            }
            STRUCT => {
                let mut field = 0;
                while let Some(kind) = self.field(&mut field)? {
                    self.skip(kind, depth)?;
                }
            }
            _ => return Err(DAMAGED),
        }
        Ok(())
    }

    /// A truth value takes a byte here, and none as a struct's field.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Result<(), &'static str> {
        match kind {
            TRUE | FALSE => self.skip_bytes(1),
            _ => self.skip(kind, depth),
        }
    }

    /// The elements of a schema, depth first: each says how many of the next ones are its children.
    fn schema(&mut self) -> Result<(), &'static str> {
        let (count, kind) = self.list()?;
        if kind != STRUCT {
            return Err(DAMAGED);
        }
        // Of each group that is open: how many children are still to come.
        let mut open: Vec<u64> = Vec::new();
        for _ in 0..count {
            let children = self.children()?;
            if children > count {
                return Err(DAMAGED);
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            open.push(children);
            while open.last() == Some(&0) {
                open.pop();
            }
            if open.len() > MAX_LEVELS {
                return Err("the schema is nested more than 400 levels deep");
            }
        }
        Ok(())
    }

    fn children(&mut self) -> Result<u64, &'static str> {
        let (mut field, mut children) = (0, 0);
        while let Some(kind) = self.field(&mut field)? {
            match (field, kind) {
                (CHILDREN, I32) => {
                    children = u64::try_from(self.signed()?).map_err(|_| DAMAGED)?;
                }
                _ => self.skip(kind, MAX_STRUCTS)?,
            }
        }
        Ok(children)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(mut n: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while n > 0x7F {
            bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        bytes.push(n as u8);
        bytes
    }

    /// A footer with a schema whose elements have so many children.
    fn footer(children: &[usize]) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xFC];
        bytes.extend(number(children.len()));
        for count in children {
            // Field 4, a name; field 5, twice the number.
            bytes.extend([0x48, 1, b'x', 0x15]);
            bytes.extend(number(2 * count));
            bytes.push(0);
        }
        // No rows, no row groups, who wrote it, two pairs.
        bytes.extend([0x16, 0, 0x19, 0x0C, 0x28, 2, b'm', b'e', 0]);
        bytes
    }

    #[test]
    fn schemas_may_be_deep_but_not_endless() {
        for levels in [0, 1, 10, MAX_LEVELS] {
            let mut children = vec![1; levels];
            children.push(0);
            assert_eq!(check_footer(&footer(&children)), Ok(()), "{levels}");
        }
        for levels in [MAX_LEVELS + 1, 1_000_000] {
            let found = check_footer(&footer(&vec![1; levels]));
            assert!(found.unwrap_err().contains("nested"), "{levels}");
        }
        // Many columns side by side, and groups that end at once.
        let mut wide = [vec![2000], [1, 0].repeat(1000)].concat();
        wide.resize(3001, 0);
        assert_eq!(check_footer(&footer(&wide)), Ok(()));
    }

    #[test]
    fn whatever_is_in_a_footer_is_read_or_refused() {
        let good = footer(&[2, 0, 1, 0]);
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..200_000 {
            let mut bad = good.clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bad.len());
                bad[at] = rng.u8(..);
            }
            bad.truncate(rng.usize(..=bad.len()));
            let _ = check_footer(&bad);
        }
        assert!((0..good.len()).all(|len| check_footer(&good[..len]).is_err()));
        // A list of four thousand million elements, and one of more children than elements.
        let mut endless = vec![0x19, 0xFC];
        endless.extend(number(u32::MAX as usize));
        assert_eq!(check_footer(&endless), Err(DAMAGED));
        assert_eq!(check_footer(&footer(&[7, 0, 0])), Err(DAMAGED));
    }
}
