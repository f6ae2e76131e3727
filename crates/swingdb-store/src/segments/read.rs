//! Arrays over area memory, without copying.
//!
//! Any range of rows of a chunk becomes an array whose buffers are just that range of the area's
//! bytes, so that what an operator is charged for a batch is what the batch shows. Offsets that do
//! not begin at 0 are the exception: they are rebased into fresh memory (4 or 8 bytes a row),
//! because their values would otherwise have to begin where the column begins.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, OffsetSizeTrait};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use swingdb_common::error::Result;

use crate::codec::{MAX_DEPTH, Reader, Writer};
use crate::errors::area::corrupt;
use crate::memory::raw::{self, Loc};
use crate::memory::record::{read_loc, write_loc};
use crate::memory::space::Blocks;

/// Rows whose long strings share a data buffer.
pub(crate) const VIEW_GROUP_ROWS: usize = 8192;
/// Strings up to this length are stored inside their view.
pub(crate) const INLINE_VIEW_BYTES: u32 = 12;

/// Where an array's parts are in the area.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub len: usize,
    /// Of types that are stored as Arrow had them: rows to skip in every buffer.
    pub offset: usize,
    pub null_count: usize,
    pub nulls: Option<Loc>,
    pub buffers: Vec<Loc>,
    pub children: Vec<Node>,
}

impl Node {
    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        let own = self.nulls.iter().chain(&self.buffers).map(|loc| loc.len).sum::<u64>();
        own + self.children.iter().map(Node::bytes).sum::<u64>()
    }

    /// Moves all buffers by what `shift` says.
    pub fn relocate(&mut self, shift: &impl Fn(Loc) -> Result<Loc>) -> Result<()> {
        for loc in self.nulls.iter_mut().chain(&mut self.buffers).filter(|loc| loc.len > 0) {
            *loc = shift(*loc)?;
        }
        self.children.iter_mut().try_for_each(|child| child.relocate(shift))
    }

    pub fn write(&self, w: &mut Writer) {
        w.len(self.len);
        w.len(self.offset);
        w.len(self.null_count);
        w.option(self.nulls, write_loc);
        w.len(self.buffers.len());
        self.buffers.iter().for_each(|loc| write_loc(w, *loc));
        w.len(self.children.len());
        self.children.iter().for_each(|child| child.write(w));
    }

    pub fn read(r: &mut Reader<'_>, depth: usize) -> Result<Self> {
        if depth >= MAX_DEPTH {
            return Err(corrupt(format!("a column nested more than {MAX_DEPTH} deep")));
        }
        let len = r.bounded(MAX_LEN, "a length")?;
        let offset = r.bounded(MAX_LEN, "an offset")?;
        let null_count = r.bounded(len as u64, "a count of NULLs")?;
        let nulls = r.option(read_loc)?;
        let buffers = r.list(read_loc)?;
        let children = r.list(|r| Node::read(r, depth + 1))?;
        Ok(Self { len, offset, null_count, nulls, buffers, children })
    }
}

/// Longest array (child arrays can be longer than a segment).
const MAX_LEN: u64 = 1 << 40;

/// One array in the area.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub blocks: &'a Arc<Blocks>,
    pub data_type: &'a DataType,
    pub node: &'a Node,
}

impl<'a> Source<'a> {
    /// The rows `range` as an array.
    pub fn rows(self, range: Range<usize>) -> Result<ArrayRef> {
        if range.start > range.end || range.end > self.node.len {
            let len = self.node.len;
            return Err(corrupt(format!("rows {range:?} of a column of {len} rows")));
        }
        if self.node.offset > 0 {
            return self.whole_sliced(range);
        }
        let array = match self.data_type {
            DataType::Boolean => return self.booleans(range),
            DataType::FixedSizeBinary(width) => self.fixed(&range, *width as usize)?,
            DataType::Utf8 | DataType::Binary => self.bytes::<i32>(&range)?,
            DataType::LargeUtf8 | DataType::LargeBinary => self.bytes::<i64>(&range)?,
            DataType::Utf8View | DataType::BinaryView => self.views(&range)?,
            DataType::List(item) | DataType::Map(item, _) => {
                self.lists::<i32>(&range, item.data_type())?
            }
            DataType::LargeList(item) => self.lists::<i64>(&range, item.data_type())?,
            DataType::FixedSizeList(item, width) => {
                let width = *width as usize;
                let inner = mul(range.start, width)?..mul(range.end, width)?;
                self.build(&range, Vec::new(), vec![self.child(0, item.data_type(), inner)?])?
            }
            DataType::Struct(fields) => {
                let child = |(i, f): (usize, &Arc<arrow::datatypes::Field>)| {
                    self.child(i, f.data_type(), range.clone())
                };
                let children = fields.iter().enumerate().map(child).collect::<Result<Vec<_>>>()?;
                self.build(&range, Vec::new(), children)?
            }
            DataType::Dictionary(key, value) => match key.primitive_width() {
                Some(width) => {
                    let values = self.child(0, value, 0..self.child_node(0)?.len)?;
                    let keys = self.part(0, range.start, range.len(), width)?;
                    self.build(&range, vec![keys], vec![values])?
                }
                None => return Err(corrupt("a dictionary with odd keys")),
            },
            other => match other.primitive_width() {
                Some(width) => self.fixed(&range, width)?,
                None => return self.whole_sliced(range),
            },
        };
        Ok(array)
    }

    /// Writes its blocks, and where its buffers are.
    pub fn write(self, w: &mut Writer) {
        w.len(self.blocks.listed().len());
        self.blocks.listed().iter().for_each(|loc| write_loc(w, *loc));
        self.node.write(w);
    }

    /// The array as it lies there, then a slice of it.
    fn whole_sliced(self, range: Range<usize>) -> Result<ArrayRef> {
        Ok(raw_array(self, 0)?.slice(range.start, range.len()))
    }

    fn child_node(self, index: usize) -> Result<&'a Node> {
        self.node.children.get(index).ok_or_else(|| corrupt("a child array is missing"))
    }

    fn child(self, index: usize, data_type: &DataType, rows: Range<usize>) -> Result<ArrayRef> {
        let node = self.child_node(index)?;
        Source { blocks: self.blocks, data_type, node }.rows(rows)
    }

    fn buffer_loc(self, index: usize) -> Result<Loc> {
        self.node.buffers.get(index).copied().ok_or_else(|| corrupt("a buffer is missing"))
    }

    /// `len` items of `width` bytes of a buffer, from item `start` on.
    fn part(self, index: usize, start: usize, len: usize, width: usize) -> Result<Buffer> {
        sub_buffer(self.blocks, self.buffer_loc(index)?, mul(start, width)?, mul(len, width)?)
    }

    fn bits(self, loc: Loc, range: &Range<usize>) -> Result<BooleanBuffer> {
        let (first, last) = (range.start / 8, range.end.div_ceil(8));
        let buffer = sub_buffer(self.blocks, loc, first, last - first)?;
        Ok(BooleanBuffer::new(buffer, range.start % 8, range.len()))
    }

    /// The validity of the rows; `None` when none is NULL.
    fn nulls(self, range: &Range<usize>) -> Result<Option<NullBuffer>> {
        if self.node.null_count == 0 {
            return Ok(None);
        }
        let loc = self.node.nulls.ok_or_else(|| corrupt("NULLs without a bitmap"))?;
        let nulls = NullBuffer::new(self.bits(loc, range)?);
        Ok(Some(nulls).filter(|n| n.null_count() > 0))
    }

    fn build(
        self,
        range: &Range<usize>,
        buffers: Vec<Buffer>,
        children: Vec<ArrayRef>,
    ) -> Result<ArrayRef> {
        let children = children.iter().map(|c| c.to_data()).collect();
        let nulls = self.nulls(range)?;
        raw::array(self.data_type, range.len(), 0, nulls, buffers, children)
    }

    fn booleans(self, range: Range<usize>) -> Result<ArrayRef> {
        let values = self.bits(self.buffer_loc(0)?, &range)?;
        Ok(Arc::new(BooleanArray::new(values, self.nulls(&range)?)))
    }

    fn fixed(self, range: &Range<usize>, width: usize) -> Result<ArrayRef> {
        self.build(range, vec![self.part(0, range.start, range.len(), width)?], Vec::new())
    }

    /// The offsets of the rows, beginning at 0, and the range of values they cover.
    fn offsets<O: OffsetSizeTrait>(self, range: &Range<usize>) -> Result<(Buffer, Range<usize>)> {
        let stored = self.part(0, range.start, range.len() + 1, size_of::<O>())?;
        if stored.as_ptr().align_offset(align_of::<O>()) != 0 {
            return Err(corrupt("offsets that are not aligned"));
        }
        let offsets = ScalarBuffer::<O>::new(stored.clone(), 0, range.len() + 1);
        let (first, last) = (offsets[0], offsets[range.len()]);
        let (Some(from), Some(to)) = (first.to_usize(), last.to_usize()) else {
            return Err(corrupt("negative offsets"));
        };
        if from > to {
            return Err(corrupt("offsets that descend"));
        }
        if from == 0 {
            return Ok((stored, from..to));
        }
        let rebased: Vec<O> = offsets.iter().map(|o| *o - first).collect();
        Ok((Buffer::from_vec(rebased), from..to))
    }

    fn bytes<O: OffsetSizeTrait>(self, range: &Range<usize>) -> Result<ArrayRef> {
        let (offsets, values) = self.offsets::<O>(range)?;
        let values = self.part(1, values.start, values.len(), 1)?;
        self.build(range, vec![offsets, values], Vec::new())
    }

    fn lists<O: OffsetSizeTrait>(self, range: &Range<usize>, item: &DataType) -> Result<ArrayRef> {
        let (offsets, values) = self.offsets::<O>(range)?;
        let child = self.child(0, item, values)?;
        self.build(range, vec![offsets], vec![child])
    }

    fn views(self, range: &Range<usize>) -> Result<ArrayRef> {
        let mut buffers = vec![self.part(0, range.start, range.len(), 16)?];
        let data = self.node.buffers.get(1..).unwrap_or_default();
        let grouped = data.len() == self.node.len.div_ceil(VIEW_GROUP_ROWS);
        let first = range.start / VIEW_GROUP_ROWS;
        let last = range.end.div_ceil(VIEW_GROUP_ROWS);
        // Views name their buffer by its index: buffers of other rows are left out, but keep their
        // place.
        for (index, loc) in data.iter().enumerate().take(if grouped { last } else { data.len() }) {
            let used = !grouped || index >= first;
            let len = if used { loc.len } else { 0 };
            buffers.push(raw::buffer(self.blocks, Loc { offset: loc.offset, len })?);
        }
        self.build(range, buffers, Vec::new())
    }
}

/// An array of a type that is stored as Arrow had it.
fn raw_array(source: Source<'_>, depth: usize) -> Result<ArrayRef> {
    let Source { blocks, data_type, node } = source;
    let buffers = node.buffers.iter().map(|loc| raw::buffer(blocks, *loc));
    let buffers = buffers.collect::<Result<Vec<_>>>()?;
    let nulls = match node.nulls.filter(|_| node.null_count > 0) {
        Some(loc) => {
            let end = node.offset + node.len;
            let bits = sub_buffer(blocks, loc, 0, end.div_ceil(8))?;
            Some(NullBuffer::new(BooleanBuffer::new(bits, node.offset, node.len)))
        }
        None => None,
    };
    let types = child_types(data_type);
    if types.len() != node.children.len() || depth >= MAX_DEPTH {
        return Err(corrupt(format!("{} child arrays of a {data_type}", node.children.len())));
    }
    let end = node.offset.saturating_add(node.len);
    if matches!(data_type, DataType::Struct(_)) && node.children.iter().any(|c| c.len < end) {
        return Err(corrupt("a child array of a struct is too short"));
    }
    let child = |(data_type, node)| raw_array(Source { blocks, data_type, node }, depth + 1);
    let children = types.into_iter().zip(&node.children).map(child);
    let children = children.collect::<Result<Vec<_>>>()?;
    let children = children.iter().map(|c| c.to_data()).collect();
    raw::array(data_type, node.len, node.offset, nulls, buffers, children)
}

fn child_types(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(f)
        | DataType::LargeList(f)
        | DataType::ListView(f)
        | DataType::LargeListView(f)
        | DataType::FixedSizeList(f, _)
        | DataType::Map(f, _) => vec![f.data_type()],
        DataType::Struct(fields) => fields.iter().map(|f| f.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, f)| f.data_type()).collect(),
        DataType::Dictionary(_, value) => vec![value],
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        _ => Vec::new(),
    }
}

fn mul(a: usize, b: usize) -> Result<usize> {
    a.checked_mul(b).ok_or_else(|| corrupt("a range of more than 64 bits"))
}

fn sub_buffer(blocks: &Arc<Blocks>, loc: Loc, start: usize, len: usize) -> Result<Buffer> {
    let end = start.checked_add(len).filter(|end| *end as u64 <= loc.len);
    if end.is_none() {
        return Err(corrupt(format!(
            "{len} bytes from {start} on in a buffer of {} bytes",
            loc.len
        )));
    }
    raw::buffer(blocks, Loc { offset: loc.offset + start as u64, len: len as u64 })
}
