//! The bytes of catalog records: numbers, text, Arrow types, and the frame with magic and checksum.
//!
//! Numbers are LEB128; text and byte strings are preceded by their length. A record is a frame of
//! [`FRAME_BYTES`] (magic, version, kind, payload length, xxh3-64 of kind and payload, all
//! little-endian) and the payload. Whatever is read is hostile: each count is checked against the
//! bytes that are left before anything is reserved for it, nesting is bounded by [`MAX_DEPTH`], and
//! an error is [`Error::Corrupt`].

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit, UnionFields, UnionMode};
use swingdb_common::error::{Error, Result};
use xxhash_rust::xxh3::Xxh3;

use crate::errors::area::corrupt;

/// First bytes of every record.
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"SwDB");
/// Version of the format.
pub(crate) const VERSION: u16 = 8;
/// Bytes before the payload of a record.
pub(crate) const FRAME_BYTES: usize = 24;
/// Deepest nesting of a type or a column.
pub(crate) const MAX_DEPTH: usize = 64;
/// Largest record.
const MAX_RECORD_BYTES: usize = 1 << 30;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Kind {
    /// The root of a state.
    Root = 1,
    /// One table: definition and list of pages.
    Table = 2,
    /// Some segments of a table.
    Page = 3,
    /// Some of the tables of a schema.
    TableList = 4,
}

/// Appends values to a record.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// A record with room for its frame.
    pub fn record() -> Self {
        Self { bytes: vec![0; FRAME_BYTES] }
    }

    /// Fills in the frame.
    pub fn finish(mut self, kind: Kind) -> Vec<u8> {
        let len = self.bytes.len() - FRAME_BYTES;
        let sum = checksum(kind as u16, &self.bytes[FRAME_BYTES..]);
        self.bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        self.bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        self.bytes[6..8].copy_from_slice(&(kind as u16).to_le_bytes());
        self.bytes[8..16].copy_from_slice(&(len as u64).to_le_bytes());
        self.bytes[16..24].copy_from_slice(&sum.to_le_bytes());
        self.bytes
    }

    /// What was written, without a frame: for records that others frame.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes as they are.
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes of the payload so far.
    pub fn payload_len(&self) -> usize {
        self.bytes.len() - FRAME_BYTES
    }

    /// Overwrites what stands at a place of the payload.
    pub fn set_fixed(&mut self, at: usize, bytes: &[u8]) {
        let at = FRAME_BYTES + at;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn u64(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub fn len(&mut self, value: usize) {
        self.u64(value as u64);
    }

    pub fn bool(&mut self, value: bool) {
        self.bytes.push(value.into());
    }

    pub fn i128(&mut self, value: i128) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn blob(&mut self, value: &[u8]) {
        self.len(value.len());
        self.bytes.extend_from_slice(value);
    }

    pub fn text(&mut self, value: &str) {
        self.blob(value.as_bytes());
    }

    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// A field: name, type, nullability, metadata in the order of the keys.
    pub fn field(&mut self, field: &Field) {
        self.text(field.name());
        self.bool(field.is_nullable());
        let mut metadata: Vec<_> = field.metadata().iter().collect();
        metadata.sort();
        self.len(metadata.len());
        for (key, value) in metadata {
            self.text(key);
            self.text(value);
        }
        self.data_type(field.data_type());
    }

    fn tag(&mut self, tag: u8) {
        self.bytes.push(tag);
    }

    /// A type: its tag (see [`Reader::data_type`]) and parameters.
    pub fn data_type(&mut self, data_type: &DataType) {
        use DataType as T;
        if let Some(tag) = SIMPLE.iter().position(|t| t == data_type) {
            return self.tag(tag as u8);
        }
        match data_type {
            T::Timestamp(unit, zone) => {
                self.tag(64);
                self.tag(*unit as u8);
                self.option(zone.as_deref(), |w, zone| w.text(zone));
            }
            T::FixedSizeBinary(width) => {
                self.tag(65);
                self.u64(*width as u64);
            }
            T::Decimal32(p, s) => self.decimal(66, *p, *s),
            T::Decimal64(p, s) => self.decimal(67, *p, *s),
            T::Decimal128(p, s) => self.decimal(68, *p, *s),
            T::Decimal256(p, s) => self.decimal(69, *p, *s),
            T::List(item) => self.list(70, item),
            T::LargeList(item) => self.list(71, item),
            T::ListView(item) => self.list(72, item),
            T::LargeListView(item) => self.list(73, item),
            T::FixedSizeList(item, width) => {
                self.list(74, item);
                self.u64(*width as u64);
            }
            T::Struct(fields) => {
                self.tag(75);
                self.len(fields.len());
                fields.iter().for_each(|f| self.field(f));
            }
            T::Map(entries, sorted) => {
                self.list(76, entries);
                self.bool(*sorted);
            }
            T::Union(fields, mode) => {
                self.tag(77);
                self.bool(*mode == UnionMode::Dense);
                self.len(fields.len());
                for (id, field) in fields.iter() {
                    self.tag(id as u8);
                    self.field(field);
                }
            }
            T::Dictionary(key, value) => {
                self.tag(78);
                self.data_type(key);
                self.data_type(value);
            }
            T::RunEndEncoded(ends, values) => {
                self.tag(79);
                self.field(ends);
                self.field(values);
            }
            // `check_type` lets only types pass that have a code; a test keeps the two in step.
            other => unreachable!("{other} has no code"),
        }
    }

    fn decimal(&mut self, tag: u8, precision: u8, scale: i8) {
        self.tag(tag);
        self.tag(precision);
        self.tag(scale as u8);
    }

    fn list(&mut self, tag: u8, item: &Field) {
        self.tag(tag);
        self.field(item);
    }
}

/// Types without parameters; the index is the tag.
const SIMPLE: [DataType; 32] = [
    DataType::Null,
    DataType::Boolean,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float16,
    DataType::Float32,
    DataType::Float64,
    DataType::Date32,
    DataType::Date64,
    DataType::Time32(TimeUnit::Second),
    DataType::Time32(TimeUnit::Millisecond),
    DataType::Time64(TimeUnit::Microsecond),
    DataType::Time64(TimeUnit::Nanosecond),
    DataType::Duration(TimeUnit::Second),
    DataType::Duration(TimeUnit::Millisecond),
    DataType::Duration(TimeUnit::Microsecond),
    DataType::Duration(TimeUnit::Nanosecond),
    DataType::Interval(IntervalUnit::YearMonth),
    DataType::Interval(IntervalUnit::DayTime),
    DataType::Interval(IntervalUnit::MonthDayNano),
    DataType::Binary,
    DataType::LargeBinary,
    DataType::BinaryView,
    DataType::Utf8,
    DataType::LargeUtf8,
    DataType::Utf8View,
];

/// The checksum of a record.
fn checksum(kind: u16, payload: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&kind.to_le_bytes());
    hash.update(payload);
    hash.digest()
}

/// Reads values of a record.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks the frame of a record of `kind`.
    pub fn record(bytes: &'a [u8], kind: Kind) -> Result<Self> {
        let Some((frame, left)) = bytes.split_at_checked(FRAME_BYTES) else {
            return Err(corrupt("a catalog record is shorter than its frame"));
        };
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&frame[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let head = u64::from(MAGIC) | u64::from(VERSION) << 32 | (kind as u64) << 48;
        if word(0) != head {
            let found = word(0);
            return Err(corrupt(format!("no {kind:?} record of version {VERSION}: {found:#018x}")));
        }
        let len = word(8);
        if len != left.len() as u64 || left.len() > MAX_RECORD_BYTES {
            return Err(corrupt(format!("{kind:?} record: {len} bytes in {}", left.len())));
        }
        if checksum(kind as u16, left) != word(16) {
            return Err(corrupt(format!("{kind:?} record: checksum does not match")));
        }
        Ok(Self { left })
    }

    /// Reads a part of a record whose checksum was verified.
    pub fn part(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    /// What has not been read.
    pub fn rest(self) -> &'a [u8] {
        self.left
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// That nothing is left.
    pub fn finish(self) -> Result<()> {
        if self.left.is_empty() { Ok(()) } else { Err(corrupt("bytes after a catalog record")) }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((taken, left)) = self.left.split_at_checked(len) else {
            return Err(corrupt("a catalog record ends early"));
        };
        self.left = left;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn u64(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(corrupt("a number of more than 64 bits"))
    }

    /// A number that is at most `max`.
    pub fn bounded(&mut self, max: u64, what: &str) -> Result<usize> {
        let value = self.u64()?;
        if value > max {
            return Err(corrupt(format!("{what} is {value}, at most {max} is possible")));
        }
        Ok(value as usize)
    }

    /// A count of things that take at least one byte each.
    pub fn count(&mut self) -> Result<usize> {
        self.bounded(self.left.len() as u64, "a count")
    }

    pub fn bool(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(corrupt(format!("a flag is {other}"))),
        }
    }

    pub fn i128(&mut self) -> Result<i128> {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(self.take(16)?);
        Ok(i128::from_le_bytes(bytes))
    }

    pub fn blob(&mut self) -> Result<&'a [u8]> {
        let len = self.count()?;
        self.take(len)
    }

    pub fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.blob()?).map_err(|_| corrupt("a text is not UTF-8"))
    }

    pub fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    /// As many things as a count says.
    pub fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| read(self)).collect()
    }

    /// A field.
    pub fn field(&mut self, depth: usize) -> Result<Field> {
        let name = self.text()?.to_owned();
        let nullable = self.bool()?;
        let metadata = self.list(|r| Ok((r.text()?.to_owned(), r.text()?.to_owned())))?;
        let data_type = self.data_type(depth)?;
        let field = Field::new(name, data_type, nullable);
        Ok(field.with_metadata(metadata.into_iter().collect()))
    }

    /// A type.
    pub fn data_type(&mut self, depth: usize) -> Result<DataType> {
        use DataType as T;
        if depth >= MAX_DEPTH {
            return Err(corrupt(format!("a type nested more than {MAX_DEPTH} deep")));
        }
        let tag = self.byte()?;
        if let Some(simple) = SIMPLE.get(usize::from(tag)) {
            return Ok(simple.clone());
        }
        let depth = depth + 1;
        let item = |r: &mut Self| r.field(depth).map(Arc::new);
        Ok(match tag {
            64 => T::Timestamp(self.unit()?, self.option(|r| Ok(Arc::from(r.text()?)))?),
            65 => T::FixedSizeBinary(self.bounded(i32::MAX as u64, "a width")? as i32),
            66 => self.decimal(9, T::Decimal32)?,
            67 => self.decimal(18, T::Decimal64)?,
            68 => self.decimal(38, T::Decimal128)?,
            69 => self.decimal(76, T::Decimal256)?,
            70 => T::List(item(self)?),
            71 => T::LargeList(item(self)?),
            72 => T::ListView(item(self)?),
            73 => T::LargeListView(item(self)?),
            74 => T::FixedSizeList(item(self)?, self.bounded(i32::MAX as u64, "a width")? as i32),
            75 => T::Struct(Fields::from(self.list(|r| r.field(depth))?)),
            76 => {
                let entries = item(self)?;
                if !matches!(entries.data_type(), T::Struct(fields) if fields.len() == 2) {
                    return Err(corrupt("a map whose entries are not pairs"));
                }
                T::Map(entries, self.bool()?)
            }
            77 => self.union(depth)?,
            78 => {
                let key = self.data_type(depth)?;
                if !key.is_dictionary_key_type() {
                    return Err(corrupt(format!("a dictionary with keys of type {key}")));
                }
                T::Dictionary(Box::new(key), Box::new(self.data_type(depth)?))
            }
            79 => {
                let ends = item(self)?;
                if !ends.data_type().is_run_ends_type() {
                    return Err(corrupt("run ends of a wrong type"));
                }
                T::RunEndEncoded(ends, item(self)?)
            }
            other => return Err(corrupt(format!("unknown type {other}"))),
        })
    }

    fn unit(&mut self) -> Result<TimeUnit> {
        Ok(match self.byte()? {
            0 => TimeUnit::Second,
            1 => TimeUnit::Millisecond,
            2 => TimeUnit::Microsecond,
            3 => TimeUnit::Nanosecond,
            other => return Err(corrupt(format!("unknown time unit {other}"))),
        })
    }

    fn decimal(&mut self, max: u8, make: fn(u8, i8) -> DataType) -> Result<DataType> {
        let (precision, scale) = (self.byte()?, self.byte()? as i8);
        if precision == 0 || precision > max || i16::from(scale) > i16::from(precision) {
            return Err(corrupt(format!(
                "a decimal({precision}, {scale}) of at most {max} digits"
            )));
        }
        Ok(make(precision, scale))
    }

    fn union(&mut self, depth: usize) -> Result<DataType> {
        let mode = if self.bool()? { UnionMode::Dense } else { UnionMode::Sparse };
        let members = self.list(|r| Ok((r.byte()? as i8, r.field(depth)?)))?;
        let (ids, fields): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let fields = UnionFields::try_new(ids, fields)
            .map_err(|e: arrow::error::ArrowError| corrupt(format!("a union: {e}")))?;
        Ok(DataType::Union(fields, mode))
    }
}

/// That a type can be stored: it exists in Arrow, and is not nested too deep to be read back.
pub(crate) fn check_type(data_type: &DataType, depth: usize) -> Result<()> {
    if depth >= MAX_DEPTH {
        return Err(Error::unsupported(format!("types nested more than {MAX_DEPTH} deep")));
    }
    let depth = depth + 1;
    match data_type {
        DataType::Time32(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        | DataType::Time64(TimeUnit::Second | TimeUnit::Millisecond) => {
            Err(Error::unsupported(format!("the type {data_type}")))
        }
        DataType::List(f)
        | DataType::LargeList(f)
        | DataType::ListView(f)
        | DataType::LargeListView(f)
        | DataType::FixedSizeList(f, _)
        | DataType::Map(f, _) => check_type(f.data_type(), depth),
        DataType::Struct(fields) => {
            fields.iter().try_for_each(|f| check_type(f.data_type(), depth))
        }
        DataType::Union(fields, _) => {
            fields.iter().try_for_each(|(_, f)| check_type(f.data_type(), depth))
        }
        DataType::Dictionary(_, value) => check_type(value, depth),
        DataType::RunEndEncoded(_, values) => check_type(values.data_type(), depth),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(data_type: DataType) -> Arc<Field> {
        Arc::new(Field::new("item", data_type, true))
    }

    fn some_types() -> Vec<DataType> {
        let mut all = SIMPLE.to_vec();
        let pair =
            vec![Field::new("k", DataType::Utf8, false), Field::new("v", DataType::Int8, true)];
        let metadata = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into();
        let noted = Field::new("n", DataType::Date32, true).with_metadata(metadata);
        let union = UnionFields::try_new([1, 5], [noted.clone(), pair[0].clone()]).unwrap();
        all.extend([
            DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
            DataType::Timestamp(TimeUnit::Second, None),
            DataType::FixedSizeBinary(7),
            DataType::Decimal32(9, -2),
            DataType::Decimal64(18, 18),
            DataType::Decimal128(38, 0),
            DataType::Decimal256(76, 76),
            DataType::List(item(DataType::Int8)),
            DataType::LargeList(item(DataType::List(item(DataType::Utf8)))),
            DataType::ListView(item(DataType::Int8)),
            DataType::LargeListView(item(DataType::Int8)),
            DataType::FixedSizeList(item(DataType::Int8), 3),
            DataType::Struct(vec![noted].into()),
            DataType::Map(Arc::new(Field::new("e", DataType::Struct(pair.into()), false)), true),
            DataType::Union(union.clone(), UnionMode::Dense),
            DataType::Union(union, UnionMode::Sparse),
            DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8)),
            DataType::RunEndEncoded(item(DataType::Int32), item(DataType::Boolean)),
        ]);
        all
    }

    #[test]
    fn types_survive_and_every_prefix_is_refused() {
        for data_type in some_types() {
            check_type(&data_type, 0).unwrap();
            let mut w = Writer::record();
            w.data_type(&data_type);
            let record = w.finish(Kind::Table);
            let mut r = Reader::record(&record, Kind::Table).unwrap();
            assert_eq!(r.data_type(0).unwrap(), data_type);
            r.finish().unwrap();
            for len in FRAME_BYTES..record.len() {
                let mut r = Reader { left: &record[FRAME_BYTES..len] };
                assert!(r.data_type(0).is_err(), "{data_type} cut at {len}");
            }
        }
    }

    #[test]
    fn numbers_survive() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut w = Writer::record();
            w.u64(value);
            w.i128(-i128::from(value));
            let record = w.finish(Kind::Page);
            let mut r = Reader::record(&record, Kind::Page).unwrap();
            assert_eq!((r.u64().unwrap(), r.i128().unwrap()), (value, -i128::from(value)));
        }
        let mut r = Reader { left: &[0xff; 12] };
        assert!(r.u64().is_err());
    }

    #[test]
    fn each_bit_of_a_record_counts() {
        let mut w = Writer::record();
        w.text("some text");
        let record = w.finish(Kind::Root);
        assert!(Reader::record(&record, Kind::Root).is_ok());
        assert!(Reader::record(&record, Kind::Page).is_err());
        for bit in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Reader::record(&damaged, Kind::Root).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn types_nested_too_deep_are_refused() {
        let mut data_type = DataType::Int8;
        for _ in 0..MAX_DEPTH {
            data_type = DataType::List(item(data_type));
        }
        assert!(check_type(&data_type, 0).is_err());
        let mut w = Writer::record();
        w.data_type(&data_type);
        let record = w.finish(Kind::Table);
        assert!(Reader::record(&record, Kind::Table).unwrap().data_type(0).is_err());
        assert!(check_type(&DataType::Time32(TimeUnit::Nanosecond), 0).is_err());
    }
}
