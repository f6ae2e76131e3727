//! io_uring: one ring a worker, direct I/O, registered buffers.
//!
//! The ring is made with `SINGLE_ISSUER` and `DEFER_TASKRUN`: one thread submits and reaps, and the
//! kernel does its part of a completion inside that thread's own calls. No `SQPOLL` (it costs a
//! processor), no `IOPOLL` (virtual disks refuse it).
//!
//! **Who owns a buffer.** A request in flight lies in `slots`, which only a completion empties
//! (INV-TIER-1). Dropping the queue waits for all completions; if waiting itself fails, the slots
//! are leaked, so the memory stays the kernel's. A queue that was forgotten (`mem::forget`) leaks
//! both.
//!
//! **A ring that is forbidden later.** A program may give itself a filter of system calls after the
//! ring was made. Then the kernel has not seen what still lies in the submission queue, and this
//! thread moves those bytes itself, as it does for all later requests. The same goes for a ring
//! whose descriptor the program has closed with others; what has its number since is not closed.
//!
//! **Registration** pins the arena once, and spares each request the look-up of its pages. Where
//! the limit on locked memory forbids it (`ENOMEM`), requests name plain addresses instead.

use std::fmt;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};

use crate::arena::{Arena, IoBuffer};
use crate::io::admission::Admission;
use crate::io::progress::{Moving, Next, checked};
use crate::storage::{Completion, Direction, IoResult, Queue, Request};

/// Makes a ring as this crate uses it.
pub(crate) fn new_ring(depth: u32) -> std::io::Result<IoUring> {
    IoUring::builder().dontfork().setup_single_issuer().setup_defer_taskrun().build(depth)
}

/// One worker's queue on a ring of its own.
pub(crate) struct RingQueue {
    ring: ManuallyDrop<IoUring>,
    /// Has the arena, so its memory stays as long as the ring.
    admission: Admission,
    /// Whether the arena is registered with the ring, as its buffer 0.
    registered: bool,
    slots: ManuallyDrop<Vec<Option<Moving>>>,
    free: Vec<usize>,
    /// The kernel takes no more entries: requests are moved by this thread.
    forbidden: bool,
}

impl RingQueue {
    /// A ring of this depth over the arena.
    pub(crate) fn new(arena: Arc<Arena>, depth: u32) -> std::io::Result<Self> {
        let ring = new_ring(depth)?;
        // SAFETY: the arena's memory stays mapped as long as the ring: `self` holds the arena by
        // its admission, and the ring is dropped first, or never.
        let registered = unsafe { ring.submitter().register_buffers(&[arena.as_iovec()]) }.is_ok();
        Ok(RingQueue {
            ring: ManuallyDrop::new(ring),
            admission: Admission::new(arena, depth),
            registered,
            slots: ManuallyDrop::new((0..depth).map(|_| None).collect()),
            free: (0..depth as usize).rev().collect(),
            forbidden: false,
        })
    }

    /// Writes the entry of the slot's rest into the submission queue.
    fn push(&mut self, slot: usize) -> IoResult<()> {
        let Some(moving) = self.slots[slot].as_mut() else { return Ok(()) };
        let fd = types::Fd(checked(&moving.request)?.as_file().as_raw_fd());
        let (offset, len) = moving.rest();
        let done = moving.done as usize;
        // SAFETY: `done` is less than the request's length, which is at most the buffer's.
        let address = unsafe { moving.request.buffer.address().add(done) };
        let entry = match (moving.request.direction, self.registered) {
            (Direction::Read, true) => {
                opcode::ReadFixed::new(fd, address, len, 0).offset(offset).build()
            }
            (Direction::Read, false) => opcode::Read::new(fd, address, len).offset(offset).build(),
            (Direction::Write, true) => {
                opcode::WriteFixed::new(fd, address, len, 0).offset(offset).build()
            }
            (Direction::Write, false) => {
                opcode::Write::new(fd, address, len).offset(offset).build()
            }
        };
        self.enqueue(&entry.user_data(slot as u64));
        Ok(())
    }

    fn enqueue(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entry's file and buffer are held by a slot until its completion
        // (INV-TIER-1).
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // Full only if entries of interrupted requests came on top; the kernel takes them.
            let _ = self.ring.submit();
        }
    }

    /// Ends the request of a slot.
    fn end(&mut self, slot: usize, result: IoResult<()>) -> Option<Completion> {
        let moving = self.slots[slot].take()?;
        self.free.push(slot);
        let Request { tag, buffer, .. } = moving.request;
        Some(Completion { tag, buffer, result })
    }

    /// The next completion that is there already.
    fn reap(&mut self) -> Option<Completion> {
        loop {
            let entry = self.ring.completion().next()?;
            let slot = entry.user_data() as usize;
            let next = self.slots.get_mut(slot)?.as_mut()?.answer(entry.result());
            let result = match next {
                Next::Ended(result) => result,
                Next::Again => match self.push(slot) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
            };
            return self.end(slot, result);
        }
    }

    /// Waits for the next completion; the error is that of the call that waits.
    fn next(&mut self) -> Result<Option<Completion>, std::io::Error> {
        if let Some(refused) = self.admission.next_refused() {
            return Ok(Some(refused));
        }
        while self.in_flight() > 0 {
            if self.forbidden {
                return Ok(self.move_one().map(|done| self.admission.hand_out(done)));
            }
            if let Some(completion) = self.reap() {
                return Ok(Some(self.admission.hand_out(completion)));
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => std::thread::yield_now(),
                    Some(
                        libc::EPERM | libc::EACCES | libc::ENOSYS // Forbidden.
                        | libc::EBADF | libc::EOPNOTSUPP | libc::ENXIO, // Closed by the program.
                    ) if self.is_all_ours() => self.forbidden = true,
                    _ => return Err(error),
                },
            }
        }
        Ok(None)
    }
}

impl RingQueue {
    /// Whether the kernel has seen none of the requests in flight: their entries lie in the
    /// submission queue still, all of them.
    fn is_all_ours(&mut self) -> bool {
        let waiting = self.ring.submission().len();
        waiting == self.slots.iter().flatten().count()
    }

    /// Whether the ring's number still belongs to a ring. The program may have closed it.
    fn is_open(&self) -> bool {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", self.ring.as_raw_fd()));
        link.is_ok_and(|link| link.as_os_str() == "anon_inode:[io_uring]")
    }

    /// Moves the bytes of a request in flight, without the ring.
    fn move_one(&mut self) -> Option<Completion> {
        let slot = self.slots.iter().position(Option::is_some)?;
        let result = self.slots[slot].as_mut()?.run();
        self.end(slot, result)
    }
}

impl Queue for RingQueue {
    fn depth(&self) -> u32 {
        self.admission.depth()
    }

    fn in_flight(&self) -> u32 {
        self.admission.in_flight()
    }

    fn longest_buffer(&self) -> usize {
        self.admission.longest_buffer()
    }

    fn take_buffer(&mut self, len: usize) -> Option<IoBuffer> {
        self.admission.take_buffer(len)
    }

    fn submit(&mut self, request: Request) {
        let Some(request) = self.admission.admit(request) else { return };
        // As many slots as the depth, so one is free.
        let Some(slot) = self.free.pop() else { return };
        self.slots[slot] = Some(Moving::new(request));
        if self.forbidden {
            return;
        }
        if let Err(error) = self.push(slot)
            && let Some(ended) = self.end(slot, Err(error))
        {
            self.admission.refuse(ended);
        }
    }

    fn start(&mut self) {
        if !self.admission.is_stale() && !self.forbidden {
            let _ = self.ring.submit();
        }
    }

    fn wait(&mut self) -> Option<Completion> {
        if self.admission.is_stale() {
            return self.admission.next_refused();
        }
        match self.next() {
            Ok(completion) => completion,
            // The ring is a valid descriptor of this thread, so the call fails only if the kernel
            // has lost it. Whether the requests ended nobody can say: going on could corrupt.
            Err(error) => panic!("io_uring stopped working: {error}"),
        }
    }

    fn describe(&self) -> String {
        if self.forbidden {
            return "pread and pwrite, since io_uring was forbidden or closed".to_owned();
        }
        let how = if self.registered { "registered buffers" } else { "unregistered buffers" };
        format!("io_uring, {how}")
    }
}

impl Drop for RingQueue {
    fn drop(&mut self) {
        if self.admission.is_stale() {
            // The ring's memory is not mapped here (`dontfork`), so it must not be unmapped.
            if self.is_open() {
                // SAFETY: the child's copy of the descriptor; nothing uses it afterwards.
                unsafe { libc::close(self.ring.as_raw_fd()) };
            }
            return;
        }
        loop {
            match self.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // The kernel may still use the buffers: leak the slots that own them, and the ring.
                Err(_) => return,
            }
        }
        let is_open = self.is_open();
        // SAFETY: neither is used afterwards; no request is in flight. A ring whose number belongs
        // to something else is leaked, since dropping it would close that.
        unsafe {
            if is_open {
                ManuallyDrop::drop(&mut self.ring);
            }
            ManuallyDrop::drop(&mut self.slots);
        }
    }
}

impl fmt::Debug for RingQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RingQueue({} of {} in flight)", self.in_flight(), self.depth())
    }
}
