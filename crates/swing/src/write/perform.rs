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
use crate::memory::copier::Contents;
use crate::memory::mapping::mapping_fault;
use crate::model::error::{Fault, Result};
use crate::model::extent_word::BUSY;
use crate::model::units::{AreaOffset, ByteLen};
use crate::sys::addresses::Span;
use crate::sys::file;
use crate::sys::kept_file::KeptFile;
use crate::write::plan::{Step, Way};

/// How much is populated by one system call, so that a huge request can be interrupted.
const POPULATE_STEP: u64 = 256 << 20;

impl Core {
    /// Does a step; `replaced` is how many of its bytes show something else afterwards, also when
    /// it fails.
    pub(crate) fn perform(&self, step: &Step, file: &KeptFile, replaced: &mut u64) -> Result<()> {
        assert!(step.len > 0 && *replaced == 0, "a step is begun once");
        debug_assert!(
            step.extents().all(|e| self.words.get(e) == BUSY),
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
            Way::Copy { plane } => {
                let offset = self.geometry.plane_offset(plane, AreaOffset(step.start));
                // SAFETY: the range is mapped readable, frozen (so nobody stores there), and
                // claimed by this call.
                unsafe { self.copy_shown(step.start, step.len, (file, offset), true, replaced) }
            }
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
            // Another thread may touch an extent at any time: it must find the finished version or
            // none.
            let contents = if zero { Contents::Zeros } else { Contents::Unspecified };
            let to = (file, run.file_offset);
            // SAFETY: nothing is copied.
            unsafe { self.make_and_place(step.start, step.len, to, contents, true, replaced) }?;
            self.counters.populated_bytes.fetch_add(step.len, Ordering::Relaxed);
            return Ok(());
        }
        if !step.mapped {
            self.mapping.map_run(&run, file, true).map_err(|e| mapping_fault(e, &path))?;
        }
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
}
