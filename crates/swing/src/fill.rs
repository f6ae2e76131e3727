//! Gives new versions of extents their memory: populated, filled, and mapped over what was there.
//!
//! Memory is allocated before anybody may store into it (INV-AREA-9), so that a full file system is
//! an error of the call and not a SIGBUS at some later store. What is copied is copied aside and
//! takes its place in one step, so that readers of the range find the same bytes all the time.
//!
//! Everything here runs outside the area's lock, on extents that the caller has claimed.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::area::core::Core;
use crate::memory::mapping::mapping_fault;
use crate::model::error::{Fault, Result};
use crate::model::extent_word::BUSY;
use crate::model::units::{AreaOffset, ByteLen};
use crate::steps::{Step, Way};
use crate::sys::addresses::{SPAN_ALIGN, Span};
use crate::sys::file;
use crate::sys::kept_file::KeptFile;

/// How much is populated by one system call, so that a huge request can be interrupted.
const POPULATE_STEP: u64 = 256 << 20;
/// How much is copied through one scratch mapping.
pub(crate) const COPY_STEP: u64 = 32 << 20;

/// What a new version is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    Copy,
    /// `true`: the plane holds old bytes.
    Zeros(bool),
}

impl Core {
    /// Does a step; `replaced` is how many of its bytes show something else afterwards, also when
    /// it fails.
    pub(crate) fn perform(&self, step: &Step, file: &KeptFile, replaced: &mut u64) -> Result<()> {
        assert!(step.len > 0 && *replaced == 0, "a step is begun once");
        debug_assert!(
            step.extents().all(|e| self.states.get(e) == BUSY),
            "INV-AREA-3: what is filled outside the lock is claimed"
        );
        match step.way {
            Way::Fresh { plane, zero } => self.map_fresh(step, file, plane, zero, replaced),
            Way::InPlace => {
                let span = self.mapping.span();
                let path = self.memory_path();
                span.protect(step.start as usize, step.len as usize, true)
                    .map_err(|e| mapping_fault(e, &path))?;
                self.counters.in_place_bytes.fetch_add(step.len, Ordering::Relaxed);
                Ok(())
            }
            Way::Copy { plane } if !self.geometry.is_huge(step.first) => {
                self.copy_small(step, file, plane)
            }
            Way::Copy { plane } => self.copy_large(step, file, plane, replaced),
        }
    }

    fn map_fresh(
        &self,
        step: &Step,
        file: &KeptFile,
        plane: u32,
        zero: bool,
        replaced: &mut u64,
    ) -> Result<()> {
        let run = self.plane_run(step.start, step.len, plane);
        let path = self.memory_path();
        if self.tracked.get().is_some() {
            return self.fill_fresh(step, file, plane, zero, replaced);
        }
        self.mapping.map_run(&run, file, true).map_err(|e| mapping_fault(e, &path))?;
        *replaced = step.len;
        self.populate(self.mapping.span(), step.start, step.len, file, run.file_offset)?;
        if zero {
            // SAFETY: the range has just been mapped writable and populated, and the extents are
            // claimed by this call.
            unsafe {
                let at = self.mapping.base().as_ptr().add(step.start as usize);
                std::ptr::write_bytes(at, 0, step.len as usize);
            }
        }
        self.counters.populated_bytes.fetch_add(step.len, Ordering::Relaxed);
        Ok(())
    }

    /// As `map_fresh` in a tracked area, where another thread may touch an extent at any time: it
    /// must find the finished version or none.
    fn fill_fresh(
        &self,
        step: &Step,
        file: &KeptFile,
        plane: u32,
        zero: bool,
        replaced: &mut u64,
    ) -> Result<()> {
        if self.geometry.is_huge(step.first) {
            while *replaced < step.len {
                let len = COPY_STEP.min(step.len - *replaced);
                let at = step.start + *replaced;
                let offset = self.geometry.plane_offset(plane, AreaOffset(at));
                self.replace_piece(at, len, file, offset, Fill::Zeros(zero))?;
                *replaced += len;
            }
        } else {
            let run = self.plane_run(step.start, step.len, plane);
            let path = self.memory_path();
            if zero {
                file::punch(file.here_for(&path)?, run.file_offset, run.len, &path)?;
            }
            file::allocate(file.here_for(&path)?.as_fd(), run.file_offset, run.len)
                .map_err(|_| file::out_of_memory(self.folder.path(), ByteLen(step.len)))?;
            self.mapping.map_run(&run, file, true).map_err(|e| mapping_fault(e, &path))?;
            *replaced = step.len;
        }
        self.counters.populated_bytes.fetch_add(step.len, Ordering::Relaxed);
        Ok(())
    }

    /// Allocates the pages behind a writable mapping; a full file system is an error, not a SIGBUS
    /// at the first store.
    fn populate(
        &self,
        span: &Span,
        at: u64,
        len: u64,
        file: &KeptFile,
        file_offset: u64,
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let step = POPULATE_STEP.min(len - done);
            let populated = match span.populate((at + done) as usize, step as usize) {
                // Before Linux 5.14: allocate in the file instead.
                Err(Errno::INVAL) => file
                    .here()
                    .and_then(|file| file::allocate(file.as_fd(), file_offset + done, step)),
                other => other,
            };
            match populated {
                Ok(()) => done += step,
                Err(Errno::FAULT | Errno::NOSPC | Errno::NOMEM | Errno::HWPOISON) => {
                    return Err(file::out_of_memory(self.folder.path(), ByteLen(len)));
                }
                Err(e) => return Err(Fault::io("populate", &self.memory_path(), e)),
            }
        }
        Ok(())
    }

    /// Small extents: the file is written from the old mapping, then mapped over it.
    fn copy_small(&self, step: &Step, file: &KeptFile, plane: u32) -> Result<()> {
        let run = self.plane_run(step.start, step.len, plane);
        let path = self.memory_path();
        // SAFETY: the range is mapped readable, frozen (so nobody writes it) and claimed by this
        // call.
        let old = unsafe {
            let at = self.mapping.base().as_ptr().add(step.start as usize);
            std::slice::from_raw_parts(at, step.len as usize)
        };
        file::write_at(file.here_for(&path)?, old, run.file_offset, &path)?;
        self.mapping.map_run(&run, file, true).map_err(|e| mapping_fault(e, &path))?;
        self.counters.copied_bytes.fetch_add(step.len, Ordering::Relaxed);
        Ok(())
    }

    /// Large extents: copied through a scratch mapping (writing the file would give small pages),
    /// whose page tables then move over the old mapping in one step.
    fn copy_large(
        &self,
        step: &Step,
        file: &KeptFile,
        plane: u32,
        replaced: &mut u64,
    ) -> Result<()> {
        let offset = self.geometry.plane_offset(plane, AreaOffset(step.start));
        self.copy_to_plane(step.start, step.len, offset, file, replaced)
    }

    /// Copies large extents to a place of the file and maps that, writable.
    pub(crate) fn copy_to_plane(
        &self,
        start: u64,
        len: u64,
        file_offset: u64,
        file: &KeptFile,
        replaced: &mut u64,
    ) -> Result<()> {
        while *replaced < len {
            let piece = COPY_STEP.min(len - *replaced);
            let (at, offset) = (start + *replaced, file_offset + *replaced);
            self.replace_piece(at, piece, file, offset, Fill::Copy)?;
            *replaced += piece;
            self.counters.copied_bytes.fetch_add(piece, Ordering::Relaxed);
        }
        assert_eq!(*replaced, len, "all of it, and nothing beyond");
        Ok(())
    }

    fn replace_piece(
        &self,
        start: u64,
        len: u64,
        file: &KeptFile,
        file_offset: u64,
        fill: Fill,
    ) -> Result<()> {
        let path = self.memory_path();
        let fault = |e: Errno| mapping_fault(e, &path);
        assert!((len as usize).is_multiple_of(SPAN_ALIGN), "smaller extents go another way");
        let scratch = Span::reserve_scratch(len as usize).map_err(fault)?;
        assert_eq!(scratch.len() as u64, len, "moved over exactly what is replaced");
        let mapped = file.here().and_then(|f| scratch.map(0, len as usize, f, file_offset, true));
        mapped.map_err(fault)?;
        scratch.advise_huge(0, len as usize);
        self.populate(&scratch, 0, len, file, file_offset)?;
        // SAFETY: the source is mapped readable, frozen and claimed by this call; the scratch range
        // is this call's own, writable and populated; both are `len` bytes and do not overlap.
        unsafe {
            let from = self.mapping.base().as_ptr().add(start as usize);
            let to = scratch.base().as_ptr();
            match fill {
                Fill::Copy => std::ptr::copy_nonoverlapping(from, to, len as usize),
                Fill::Zeros(true) => std::ptr::write_bytes(to, 0, len as usize),
                Fill::Zeros(false) => {}
            }
        }
        self.mapping.span().move_in(start as usize, len as usize, &scratch).map_err(fault)?;
        scratch.forget_moved(len as usize);
        Ok(())
    }
}
