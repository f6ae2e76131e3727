//! The exported functions of the allocator; `include/swing.h` documents them. As in
//! [`crate::calls`], each returns 0 or a negative number.

use std::ffi::{c_int, c_void};

use swing_malloc::{BlockClass, BlockTable, HeapOptions};

use crate::calls::{null, run, run_into};
use crate::error::{Code, Failure, Result};

/// Most sizes that a table is read for; what is longer is refused by the allocator.
const MAX_CLASSES: usize = 1024;

/// A block of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct swing_block {
    /// Its first address.
    pub address: *mut c_void,
    /// The bytes granted.
    pub size: usize,
}

/// One size of the table of large blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct swing_class {
    /// Bytes of a block.
    pub size: usize,
    /// Number of blocks.
    pub count: usize,
}

/// How an allocator divides its area; zeros mean what it does by itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct swing_heap_options {
    /// Bytes left to the program.
    pub reserved: usize,
    /// Requests of more bytes prefer the table.
    pub limit: usize,
    /// The table of large blocks.
    pub table: *const swing_class,
    /// Sizes in the table.
    pub classes: usize,
}

/// Bytes of an allocator.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct swing_heap_stats {
    /// Addresses that blocks can have.
    pub capacity: u64,
    /// In blocks of the program, as granted.
    pub used: u64,
    /// In free blocks that threads keep for themselves.
    pub cached: u64,
    /// In free small blocks that no thread keeps.
    pub spare: u64,
    /// Addresses of the allocator's own tables.
    pub metadata: u64,
    /// The largest free block.
    pub largest: u64,
}

const _: () = assert!(size_of::<swing_block>() == 16 && size_of::<swing_class>() == 16);
const _: () = assert!(size_of::<swing_heap_options>() == 32);
const _: () = assert!(size_of::<swing_heap_stats>() == 48);

fn block_of((address, size): (usize, u64)) -> swing_block {
    assert!(address != 0 && size > 0, "a block is somewhere");
    swing_block { address: address as *mut c_void, size: size as usize }
}

/// The options as the allocator wants them.
///
/// # Safety
/// The table has as many entries as the options say.
unsafe fn heap_options(options: &swing_heap_options) -> Result<HeapOptions> {
    let given = |bytes: usize| (bytes > 0).then_some(bytes as u64);
    if options.classes > MAX_CLASSES || (options.table.is_null() && options.classes > 0) {
        return Err(Failure::new(Code::Argument, "a table of so many sizes is not possible"));
    }
    let class = |i: usize| {
        // SAFETY: the caller's promise.
        let swing_class { size, count } = unsafe { options.table.add(i).read() };
        let too_many = |_| Failure::new(Code::Argument, format!("{count} blocks of one size"));
        Ok(BlockClass { size: size as u64, count: u32::try_from(count).map_err(too_many)? })
    };
    let blocks = match options.classes {
        0 if options.table.is_null() => BlockTable::Standard,
        0 => BlockTable::None,
        classes => BlockTable::Custom((0..classes).map(class).collect::<Result<_>>()?),
    };
    debug_assert!(blocks != BlockTable::Custom(Vec::new()), "an empty table is none");
    let (reserved_len, buddy_limit) = (given(options.reserved), given(options.limit));
    Ok(HeapOptions { reserved_len, buddy_limit, blocks })
}

/// See `swing.h`.
///
/// # Safety
/// `options` points to a `swing_heap_options`, whose table has as many entries as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_make_heap(
    token: c_int,
    options: *const swing_heap_options,
) -> c_int {
    run(|registry| {
        if options.is_null() {
            return Err(null());
        }
        // SAFETY: the caller's promise.
        registry.make_heap(token, unsafe { heap_options(&options.read()) }?)
    })
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `swing_block`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_alloc(token: c_int, size: usize, out: *mut swing_block) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { run_into(out, |registry| Ok(block_of(registry.alloc(token, size)?))) }
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `swing_block`; nobody uses the old block any more when this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_realloc(
    address: *mut c_void,
    size: usize,
    out: *mut swing_block,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { run_into(out, |registry| Ok(block_of(registry.realloc(address as usize, size)?))) }
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_free(address: *mut c_void) -> c_int {
    if address.is_null() {
        return 0;
    }
    run(|registry| registry.free(address as usize))
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_usable_size(address: *const c_void, out: *mut usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { run_into(out, |registry| Ok(registry.usable(address as usize)? as usize)) }
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `swing_block`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_reserved(token: c_int, out: *mut swing_block) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { run_into(out, |registry| Ok(block_of(registry.reserved(token)?))) }
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `swing_block`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_alloc_aligned(
    token: c_int,
    size: usize,
    alignment: usize,
    out: *mut swing_block,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        run_into(out, |registry| Ok(block_of(registry.alloc_aligned(token, size, alignment)?)))
    }
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `swing_heap_stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_get_heap_stats(token: c_int, out: *mut swing_heap_stats) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { run_into(out, |registry| registry.heap_stats(token)) }
}

/// See `swing.h`.
///
/// # Safety
/// `blocks` is null or points to a `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_check_heap(token: c_int, blocks: *mut usize) -> c_int {
    run(|registry| {
        let found = registry.check_heap(token)?;
        if !blocks.is_null() {
            // SAFETY: the caller's promise.
            unsafe { blocks.write(found as usize) };
        }
        Ok(())
    })
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `swing_block`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_next_range(
    token: c_int,
    from: *const c_void,
    out: *mut swing_block,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { run_into(out, |registry| Ok(block_of(registry.next_range(token, from as usize)?))) }
}
