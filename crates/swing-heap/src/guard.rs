//! Guards: the ways to an object's bytes. While one lives, the object stays in memory.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::Release;

use crate::entry::{Entry, Handle, PIN, READER, WRITER};
use crate::writers::Writing;

/// Access to an object's bytes for reading. Others may read meanwhile, and nobody writes.
#[derive(Debug)]
pub struct ReadGuard<'heap> {
    pub(crate) entry: &'heap Entry,
    pub(crate) address: usize,
    pub(crate) len: usize,
}

/// Access to an object's bytes for reading and writing, alone.
#[derive(Debug)]
pub struct WriteGuard<'heap> {
    pub(crate) entry: &'heap Entry,
    pub(crate) address: usize,
    pub(crate) len: usize,
    /// Of a heap in an area: no state is shared before the guard has gone.
    pub(crate) _writers: Option<Writing<'heap>>,
}

/// Keeps an object in memory, at one address, and lets others read and write it.
#[derive(Debug)]
pub struct PinGuard<'heap> {
    pub(crate) entry: &'heap Entry,
    pub(crate) address: usize,
    pub(crate) len: usize,
}

impl Deref for ReadGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the entry counts this reader, so the cell stays and nobody writes (INV-OBJ-1).
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.len) }
    }
}

impl Deref for WriteGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the entry has this writer, so the cell stays and nobody else uses it.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.len) }
    }
}

impl DerefMut for WriteGuard<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for reading, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.len) }
    }
}

impl PinGuard<'_> {
    /// Where the bytes are while the pin lives. Who uses them sees to it that nobody writes at
    /// the same time.
    pub fn as_ptr(&self) -> *mut u8 {
        self.address as *mut u8
    }

    /// The object's length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: an object has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        self.entry.state.fetch_sub(READER, Release);
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.entry.state.fetch_sub(WRITER, Release);
    }
}

impl Drop for PinGuard<'_> {
    fn drop(&mut self) {
        self.entry.state.fetch_sub(PIN, Release);
    }
}

/// Types of which every byte pattern is a value, and that have no padding.
///
/// # Safety
/// The type has no padding, no pointers or references, every bit pattern is valid, and its
/// alignment is at most 16.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($name:ty)*) => {
        // SAFETY: numbers have no padding, and each bit pattern is one.
        $(unsafe impl Plain for $name {})*
    };
}
plain!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);
// SAFETY: an array is its elements, one behind the other.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The handle of an object that holds a value of plain data.
#[derive(Debug)]
pub struct Remote<T> {
    handle: Handle,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Remote<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Remote<T> {}

impl<T: Plain> Remote<T> {
    /// The typed handle of an object; its length is checked at each access.
    pub fn of(handle: Handle) -> Self {
        const { assert!(align_of::<T>() <= 16, "cells are aligned to 16 bytes") };
        Remote { handle, kind: PhantomData }
    }

    /// The handle without its type.
    pub fn handle(self) -> Handle {
        self.handle
    }
}
