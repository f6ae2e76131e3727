//! Writing column chunks: the rows of several arrays go straight from their buffers to their place
//! in the area.
//!
//! A [`Plan`] is made first: how long each buffer of the chunk will be and a closure that fills it.
//! Then the blocks are allocated (buffers of [`SMALL_BUFFER_BYTES`] and more get one each, the
//! others share one) and filled. So fixed-width values, bitmaps, strings, views, lists and structs
//! are copied once; only the rare types (dictionaries, unions, run-end encoding, list views) are
//! concatenated by Arrow first.
//!
//! Views are compacted: a chunk's long strings lie in row order in one data buffer for each
//! [`VIEW_GROUP_ROWS`] rows, so that a batch of rows needs (and is charged for) only its own
//! buffers.

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanBufferBuilder, GenericByteViewArray,
    OffsetSizeTrait, new_empty_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, OffsetBuffer};
use arrow::compute::concat;
use arrow::datatypes::{
    BinaryViewType, ByteArrayType, ByteViewType, DataType, GenericBinaryType, GenericStringType,
    StringViewType,
};
use swingdb_common::error::{Error, Result};

use crate::memory::raw::{BUFFER_ALIGN, Fresh, Loc};
use crate::memory::space::{Blocks, Ground};
use crate::segments::chunk::Chunk;
use crate::segments::read::{INLINE_VIEW_BYTES, Node, VIEW_GROUP_ROWS};
use crate::segments::stats::ChunkStats;

/// From here on a buffer gets a block of its own (it then lies in the area's data zone).
const SMALL_BUFFER_BYTES: usize = 32 << 10;

type Fill<'a> = Box<dyn FnOnce(&mut [u8]) + 'a>;

/// A buffer to be written.
struct Planned<'a> {
    len: usize,
    /// The buffer is several in the array: lengths of its parts.
    parts: Option<Vec<usize>>,
    fill: Fill<'a>,
}

impl<'a> Planned<'a> {
    fn new(len: usize, fill: impl FnOnce(&mut [u8]) + 'a) -> Self {
        Self { len, parts: None, fill: Box::new(fill) }
    }
}

/// An array to be written.
#[derive(Default)]
struct Plan<'a> {
    len: usize,
    offset: usize,
    null_count: usize,
    nulls: Option<Planned<'a>>,
    buffers: Vec<Planned<'a>>,
    children: Vec<Plan<'a>>,
}

/// Writes the rows of `pieces` (at least one, all of `data_type`), one after the other, as one
/// chunk.
pub(crate) fn write(ground: &Ground, data_type: &DataType, pieces: &[ArrayRef]) -> Result<Chunk> {
    write_known(ground, data_type, pieces, None)
}

/// The same; `stats` are its statistics when they are known already.
pub(crate) fn write_known(
    ground: &Ground,
    data_type: &DataType,
    pieces: &[ArrayRef],
    stats: Option<ChunkStats>,
) -> Result<Chunk> {
    assert!(!pieces.is_empty(), "a chunk is made of arrays");
    debug_assert!(pieces.iter().all(|p| p.data_type() == data_type));
    let stats = stats.unwrap_or_else(|| ChunkStats::of(data_type, pieces));
    let plan = plan(pieces)?;
    let mut blocks = Placed { ground, own: Vec::new(), shared: None };
    let result = plan.reserve(&mut blocks).and_then(|()| plan.place(&mut blocks));
    let node = match result {
        Ok(node) => node,
        Err(error) => {
            blocks.give_up();
            return Err(error);
        }
    };
    let blocks = Blocks::fresh(&ground.space, blocks.locs());
    Ok(Chunk::new(blocks, data_type.clone(), node, stats))
}

/// The blocks of a chunk in the making.
struct Placed<'g> {
    ground: &'g Ground,
    own: Vec<Loc>,
    /// The block of all small buffers, and how much of it is used.
    shared: Option<(Fresh, usize)>,
}

impl Placed<'_> {
    fn locs(self) -> Vec<Loc> {
        let shared = self.shared.map(|(fresh, _)| fresh.loc());
        self.own.into_iter().chain(shared).collect()
    }

    /// Nobody has seen the blocks: they are free again at once. What the heap refuses is leaked.
    fn give_up(self) {
        let ground = self.ground;
        for loc in self.locs() {
            let _ = ground.free(loc);
        }
    }

    fn write(&mut self, planned: Planned<'_>) -> Result<Vec<Loc>> {
        let whole = if planned.len == 0 {
            Loc { offset: 0, len: 0 }
        } else if planned.len >= SMALL_BUFFER_BYTES {
            let mut fresh = self.ground.allocate(planned.len as u64)?;
            self.own.push(fresh.loc());
            (planned.fill)(fresh.bytes_mut()?);
            fresh.loc()
        } else {
            let Some((fresh, used)) = self.shared.as_mut() else {
                return Err(Error::internal("a small buffer that was not reserved"));
            };
            let (start, len) = (*used, planned.len);
            *used += aligned(len);
            let loc = Loc { offset: fresh.loc().offset + start as u64, len: len as u64 };
            (planned.fill)(&mut fresh.bytes_mut()?[start..start + len]);
            loc
        };
        let Some(parts) = planned.parts else { return Ok(vec![whole]) };
        let mut at = whole.offset;
        let cut = parts.into_iter().map(|len| {
            let loc = Loc { offset: at, len: len as u64 };
            at += len as u64;
            loc
        });
        Ok(cut.collect())
    }
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(BUFFER_ALIGN as usize)
}

impl Plan<'_> {
    fn small_bytes(&self) -> usize {
        let own = self.nulls.iter().chain(&self.buffers);
        own.filter(|b| b.len < SMALL_BUFFER_BYTES).map(|b| aligned(b.len)).sum::<usize>()
            + self.children.iter().map(Plan::small_bytes).sum::<usize>()
    }

    /// Allocates the block that the small buffers share.
    fn reserve(&self, blocks: &mut Placed<'_>) -> Result<()> {
        let small = self.small_bytes();
        if small > 0 {
            blocks.shared = Some((blocks.ground.allocate(small as u64)?, 0));
        }
        Ok(())
    }

    fn place(self, blocks: &mut Placed<'_>) -> Result<Node> {
        let nulls = match self.nulls {
            Some(nulls) => blocks.write(nulls)?.first().copied(),
            None => None,
        };
        let mut buffers = Vec::with_capacity(self.buffers.len());
        for buffer in self.buffers {
            buffers.extend(blocks.write(buffer)?);
        }
        let children = self.children.into_iter().map(|c| c.place(blocks));
        let children = children.collect::<Result<Vec<_>>>()?;
        let (len, offset, null_count) = (self.len, self.offset, self.null_count);
        Ok(Node { len, offset, null_count, nulls, buffers, children })
    }
}

/// How to write the rows of `pieces`. The plan keeps clones of the arrays (not of their contents).
fn plan<'a>(pieces: &[ArrayRef]) -> Result<Plan<'a>> {
    let first = pieces.first().ok_or_else(|| Error::internal("a chunk without arrays"))?;
    let mut plan = match first.data_type() {
        DataType::Null => Plan::default(),
        DataType::Boolean => booleans(pieces),
        DataType::FixedSizeBinary(width) => fixed_width(pieces, *width as usize),
        DataType::Utf8 => byte_arrays::<GenericStringType<i32>>(pieces)?,
        DataType::LargeUtf8 => byte_arrays::<GenericStringType<i64>>(pieces)?,
        DataType::Binary => byte_arrays::<GenericBinaryType<i32>>(pieces)?,
        DataType::LargeBinary => byte_arrays::<GenericBinaryType<i64>>(pieces)?,
        DataType::Utf8View => views::<StringViewType>(pieces)?,
        DataType::BinaryView => views::<BinaryViewType>(pieces)?,
        DataType::List(_) => lists(pieces, |a| {
            let list = a.as_list::<i32>();
            (list.offsets().clone(), list.values().clone())
        })?,
        DataType::LargeList(_) => lists(pieces, |a| {
            let list = a.as_list::<i64>();
            (list.offsets().clone(), list.values().clone())
        })?,
        DataType::Map(..) => lists(pieces, |a| {
            let map = a.as_map();
            (map.offsets().clone(), std::sync::Arc::new(map.entries().clone()) as ArrayRef)
        })?,
        DataType::FixedSizeList(..) => {
            let children = pieces.iter().map(|p| p.as_fixed_size_list().values().clone());
            let children: Vec<ArrayRef> = children.collect();
            Plan { children: vec![self::plan(&children)?], ..Plan::default() }
        }
        DataType::Struct(fields) => {
            let child = |i: usize| {
                let columns = pieces.iter().map(|p| p.as_struct().column(i).clone());
                self::plan(&columns.collect::<Vec<_>>())
            };
            let children = (0..fields.len()).map(child).collect::<Result<Vec<_>>>()?;
            Plan { children, ..Plan::default() }
        }
        other => match other.primitive_width() {
            Some(width) => fixed_width(pieces, width),
            None => return concatenated(pieces),
        },
    };
    plan.len = pieces.iter().map(|p| p.len()).sum();
    if !matches!(first.data_type(), DataType::Null) {
        validity(&mut plan, pieces);
    }
    Ok(plan)
}

/// Plans the validity bitmap, when there is a NULL.
fn validity(plan: &mut Plan<'_>, pieces: &[ArrayRef]) {
    plan.null_count = pieces.iter().map(|p| p.null_count()).sum();
    if plan.null_count == 0 {
        return;
    }
    let nulls: Vec<_> = pieces.iter().map(|p| (p.len(), p.nulls().cloned())).collect();
    let len = plan.len;
    plan.nulls = Some(Planned::new(len.div_ceil(8), move |out| {
        let mut bits = BooleanBufferBuilder::new(len);
        for (rows, nulls) in &nulls {
            match nulls {
                Some(nulls) => bits.append_buffer(nulls.inner()),
                None => bits.append_n(*rows, true),
            }
        }
        out.copy_from_slice(&bits.as_slice()[..out.len()]);
    }));
}

fn booleans<'a>(pieces: &[ArrayRef]) -> Plan<'a> {
    let values: Vec<BooleanBuffer> =
        pieces.iter().map(|p| p.as_boolean().values().clone()).collect();
    let rows: usize = values.iter().map(BooleanBuffer::len).sum();
    let buffer = Planned::new(rows.div_ceil(8), move |out| {
        let mut bits = BooleanBufferBuilder::new(rows);
        values.iter().for_each(|v| bits.append_buffer(v));
        out.copy_from_slice(&bits.as_slice()[..out.len()]);
    });
    Plan { buffers: vec![buffer], ..Plan::default() }
}

fn fixed_width<'a>(pieces: &[ArrayRef], width: usize) -> Plan<'a> {
    let sources: Vec<ArrayData> = pieces.iter().map(|p| p.to_data()).collect();
    let rows: usize = sources.iter().map(ArrayData::len).sum();
    let buffer = Planned::new(rows * width, move |out| {
        let mut at = 0;
        for source in &sources {
            let (from, len) = (source.offset() * width, source.len() * width);
            out[at..at + len].copy_from_slice(&source.buffers()[0].as_slice()[from..from + len]);
            at += len;
        }
    });
    Plan { buffers: vec![buffer], ..Plan::default() }
}

/// Offsets that continue from piece to piece, starting at 0.
fn offsets<'a, O: OffsetSizeTrait>(sources: Vec<OffsetBuffer<O>>) -> Result<Planned<'a>> {
    let rows: usize = sources.iter().map(|o| o.len() - 1).sum();
    let total: usize = sources.iter().map(span).map(|(from, to)| to - from).sum();
    if O::from_usize(total).is_none() {
        return Err(Error::unsupported(format!(
            "{total} bytes or list items in one segment of a column with 32-bit offsets; \
             use LargeUtf8, LargeBinary, LargeList or a view type"
        )));
    }
    Ok(Planned::new((rows + 1) * size_of::<O>(), move |out| {
        let mut words = out.chunks_exact_mut(size_of::<O>());
        let mut put = |value: usize| {
            if let Some(word) = words.next() {
                word.copy_from_slice(&(value as u64).to_le_bytes()[..size_of::<O>()]);
            }
        };
        put(0);
        let mut base = 0;
        for source in &sources {
            let (from, to) = span(source);
            source[1..].iter().for_each(|o| put(o.as_usize() - from + base));
            base += to - from;
        }
    }))
}

/// First and last offset.
fn span<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (usize, usize) {
    (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize())
}

fn byte_arrays<'a, T: ByteArrayType>(pieces: &[ArrayRef]) -> Result<Plan<'a>> {
    let arrays: Vec<_> = pieces.iter().map(|p| p.as_bytes::<T>().clone()).collect();
    let offsets = offsets(arrays.iter().map(|a| a.offsets().clone()).collect())?;
    let total = arrays.iter().map(|a| span(a.offsets())).map(|(from, to)| to - from).sum();
    let values = Planned::new(total, move |out| {
        let mut at = 0;
        for array in &arrays {
            let (from, to) = span(array.offsets());
            out[at..at + to - from].copy_from_slice(&array.values().as_slice()[from..to]);
            at += to - from;
        }
    });
    Ok(Plan { buffers: vec![offsets, values], ..Plan::default() })
}

/// Length of the value of a view.
fn view_len(view: u128) -> u32 {
    view as u32
}

fn views<'a, T: ByteViewType>(pieces: &[ArrayRef]) -> Result<Plan<'a>> {
    let rows: usize = pieces.iter().map(|p| p.len()).sum();
    ViewSource::<T>::new(pieces, rows)?.plan()
}

/// The views of a chunk and where their long values go.
struct ViewSource<T: ByteViewType + ?Sized> {
    arrays: Vec<GenericByteViewArray<T>>,
    rows: usize,
    /// Bytes of long values for each group of rows.
    groups: Vec<usize>,
}

impl<T: ByteViewType> ViewSource<T> {
    fn new(pieces: &[ArrayRef], rows: usize) -> Result<Self> {
        let arrays: Vec<_> = pieces.iter().map(|p| p.as_byte_view::<T>().clone()).collect();
        let mut groups = vec![0usize; rows.div_ceil(VIEW_GROUP_ROWS)];
        let mut row = 0;
        for array in &arrays {
            for i in 0..array.len() {
                let len = view_len(array.views()[i]);
                if len > INLINE_VIEW_BYTES && array.is_valid(i) {
                    groups[row / VIEW_GROUP_ROWS] += len as usize;
                }
                row += 1;
            }
        }
        if let Some(bytes) = groups.iter().find(|bytes| i32::try_from(**bytes).is_err()) {
            return Err(Error::unsupported(format!(
                "{bytes} bytes of strings in {VIEW_GROUP_ROWS} rows; use LargeUtf8 or LargeBinary"
            )));
        }
        Ok(Self { arrays, rows, groups })
    }

    fn plan<'a>(self) -> Result<Plan<'a>>
    where
        T: 'a,
    {
        let total: usize = self.groups.iter().sum();
        let parts = self.groups.clone();
        let arrays = self.arrays.clone();
        let data = Planned {
            len: total,
            parts: (total > 0).then_some(parts),
            fill: Box::new(move |out| copy_long_values(&arrays, out)),
        };
        let len = self.rows * 16;
        let views = Planned::new(len, move |out| copy_views(&self.arrays, out));
        let buffers = if total > 0 { vec![views, data] } else { vec![views] };
        Ok(Plan { buffers, ..Plan::default() })
    }
}

/// Writes views that point at their group's buffer.
fn copy_views<T: ByteViewType>(arrays: &[GenericByteViewArray<T>], out: &mut [u8]) {
    let (words, _) = out.as_chunks_mut::<16>();
    let (mut row, mut group, mut at) = (0, 0, 0u32);
    for array in arrays {
        let nulls = array.nulls().filter(|n| n.null_count() > 0);
        if array.data_buffers().is_empty() && nulls.is_none() {
            for view in array.views().iter() {
                words[row] = view.to_le_bytes();
                row += 1;
            }
            continue;
        }
        for (i, &view) in array.views().iter().enumerate() {
            if row / VIEW_GROUP_ROWS != group {
                (group, at) = (row / VIEW_GROUP_ROWS, 0);
            }
            let len = view_len(view);
            words[row] = if nulls.is_some_and(|n| n.is_null(i)) {
                [0; 16]
            } else if len <= INLINE_VIEW_BYTES {
                view.to_le_bytes()
            } else {
                // Length and the first four bytes stay; buffer and offset are new.
                let moved = (view as u64 as u128) | (group as u128) << 64 | u128::from(at) << 96;
                at += len;
                moved.to_le_bytes()
            };
            row += 1;
        }
    }
}

/// Writes the long values in row order; those that lie one behind the other already, at once.
fn copy_long_values<T: ByteViewType>(arrays: &[GenericByteViewArray<T>], out: &mut [u8]) {
    let mut at = 0;
    for array in arrays.iter().filter(|a| !a.data_buffers().is_empty()) {
        let nulls = array.nulls().filter(|n| n.null_count() > 0);
        let mut copy = |buffer: usize, from: usize, to: usize| {
            let source = &array.data_buffers()[buffer].as_slice()[from..to];
            out[at..at + source.len()].copy_from_slice(source);
            at += source.len();
        };
        let (mut buffer, mut from, mut to) = (0, 0, 0);
        for (i, &view) in array.views().iter().enumerate() {
            let len = view_len(view) as usize;
            if len <= INLINE_VIEW_BYTES as usize || nulls.is_some_and(|n| n.is_null(i)) {
                continue;
            }
            let next = ((view >> 64) as u32 as usize, (view >> 96) as usize);
            if next != (buffer, to) {
                copy(buffer, from, to);
                (buffer, from, to) = (next.0, next.1, next.1);
            }
            to += len;
        }
        copy(buffer, from, to);
    }
}

fn lists<'a, O: OffsetSizeTrait>(
    pieces: &[ArrayRef],
    parts: impl Fn(&ArrayRef) -> (OffsetBuffer<O>, ArrayRef),
) -> Result<Plan<'a>> {
    let (all, values): (Vec<_>, Vec<_>) = pieces.iter().map(parts).unzip();
    let used = all.iter().zip(&values).map(|(offsets, values)| {
        let (from, to) = span(offsets);
        values.slice(from, to - from)
    });
    let child = plan(&used.collect::<Vec<_>>())?;
    Ok(Plan { buffers: vec![offsets(all)?], children: vec![child], ..Plan::default() })
}

/// For types without a way of their own: concatenated (and so compacted) by Arrow, then copied
/// buffer by buffer.
fn concatenated<'a>(pieces: &[ArrayRef]) -> Result<Plan<'a>> {
    // Of a single array `concat` would return a slice; the empty second one makes it copy.
    let empty = new_empty_array(pieces[0].data_type());
    let all: Vec<&dyn Array> = pieces.iter().map(|p| p.as_ref()).chain([empty.as_ref()]).collect();
    Ok(as_it_is(&concat(&all)?.to_data()))
}

fn as_it_is<'a>(data: &ArrayData) -> Plan<'a> {
    let copy = |buffer: &Buffer| {
        let buffer = buffer.clone();
        Planned::new(buffer.len(), move |out| out.copy_from_slice(buffer.as_slice()))
    };
    // The bitmap is rewritten to begin where the values begin.
    let nulls = data.nulls().filter(|n| n.null_count() > 0).map(|nulls| {
        let (nulls, offset) = (nulls.clone(), data.offset());
        Planned::new((offset + nulls.len()).div_ceil(8), move |out| {
            let mut bits = BooleanBufferBuilder::new(offset + nulls.len());
            bits.append_n(offset, true);
            bits.append_buffer(nulls.inner());
            out.copy_from_slice(&bits.as_slice()[..out.len()]);
        })
    });
    Plan {
        len: data.len(),
        offset: data.offset(),
        null_count: data.nulls().map_or(0, |n| n.null_count()),
        nulls,
        buffers: data.buffers().iter().map(copy).collect(),
        children: data.child_data().iter().map(as_it_is).collect(),
    }
}
