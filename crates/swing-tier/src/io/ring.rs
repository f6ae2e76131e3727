//! io_uring: one ring a worker, direct I/O, registered buffers.
//!
//! The ring ([`Ring`]) is made with `SINGLE_ISSUER` and `DEFER_TASKRUN`: one thread submits and
//! reaps, and the kernel does its part of a completion inside that thread's own calls. No `SQPOLL`
//! (it costs a processor), no `IOPOLL` (virtual disks refuse it).
//!
//! **Who owns a buffer.** A request in flight lies in `slots`, which only a completion empties
//! (INV-TIER-1). Dropping the queue waits for all completions. A queue that was forgotten
//! (`mem::forget`) leaks its slots and the ring.
//!
//! **A ring that is refused later.** A program may give itself a filter of system calls after the
//! ring was made. From then on this thread moves all bytes itself. Requests that the kernel has not
//! seen are simply moved. Of those that it has, nobody can say when they end, so their buffers stay
//! the kernel's for ever, with the whole arena; the request goes on with a copy, and a late write
//! of the kernel's writes the same bytes to the same place.
//!
//! **Descriptors.** The ring has none. The number of a request's file is looked up and compared in
//! the same call that hands the request to the kernel; what the kernel leaves in the queue is taken
//! out again.
//!
//! **Registration** pins the arena once, and spares each request the look-up of its pages. Where
//! the limit on locked memory forbids it (`ENOMEM`), requests name plain addresses instead.

use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use crate::arena::{Arena, IoBuffer};
use crate::io::admission::Admission;
use crate::io::progress::{Moving, Next, located};
use crate::io::uring::{Bytes, Entry, Ring};
use crate::storage::{Completion, Direction, FileRef, IoResult, Queue, Request};

/// How often in a row the kernel may have no memory for a request; then the ring counts as refused.
const MAX_BUSY: u32 = 1000;
/// How long between two of these.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// A request in flight.
struct Slot {
    moving: Moving,
    /// The kernel has it: its buffer may change at any time.
    with_kernel: bool,
}

/// One worker's queue on a ring of its own.
pub(crate) struct RingQueue {
    ring: ManuallyDrop<Ring>,
    /// Has the arena, so its memory stays as long as the ring.
    admission: Admission,
    /// Whether the arena is registered with the ring, as its buffer 0.
    registered: bool,
    slots: ManuallyDrop<Vec<Option<Slot>>>,
    free: Vec<usize>,
    /// Slots that the kernel has not seen, in order.
    waiting: VecDeque<usize>,
    /// Slots that are just being handed over; kept for its memory.
    handed: Vec<usize>,
    with_kernel: usize,
    /// The kernel takes no more entries: requests are moved by this thread.
    refused: bool,
}

impl RingQueue {
    /// A ring of this depth over the arena.
    pub(crate) fn new(arena: Arc<Arena>, depth: u32) -> std::io::Result<Self> {
        // SAFETY: the arena's memory stays mapped as long as the ring: `self` holds the arena by
        // its admission, and the ring is dropped first, or never.
        let (ring, registered) = unsafe { Ring::new(depth, Some(arena.as_iovec())) }?;
        Ok(RingQueue {
            ring: ManuallyDrop::new(ring),
            admission: Admission::new(arena, depth),
            registered,
            slots: ManuallyDrop::new((0..depth).map(|_| None).collect()),
            free: (0..depth as usize).rev().collect(),
            waiting: VecDeque::with_capacity(depth as usize),
            handed: Vec::with_capacity(depth as usize),
            with_kernel: 0,
            refused: false,
        })
    }

    /// What the kernel is asked for: the rest of a slot's request. `last` is the file before, whose
    /// number was looked at in the same call.
    fn entry(
        slot: &mut Slot,
        number: usize,
        registered: bool,
        last: &mut Option<(FileRef, RawFd)>,
    ) -> IoResult<Entry> {
        let (offset, len) = slot.moving.rest();
        let done = slot.moving.done as usize;
        let request = &mut slot.moving.request;
        let file = match last {
            Some((file, number)) if Arc::ptr_eq(file, &request.file) => *number,
            _ => {
                let number = located(request, &request.file)?.as_raw_fd();
                *last = Some((request.file.clone(), number));
                number
            }
        };
        // SAFETY: `done` is less than the request's length, which is at most the buffer's.
        let address = unsafe { request.buffer.address().add(done) };
        let bytes = Bytes { address, len, registered };
        Ok(match request.direction {
            Direction::Read => Entry::read(file, offset, bytes, number as u64),
            Direction::Write => Entry::write(file, offset, bytes, number as u64),
        })
    }

    /// Hands what waits to the kernel, and waits for so many answers of those that it has.
    fn enter(&mut self, wait: u32) -> std::io::Result<()> {
        let mut last = None;
        self.handed.clear();
        while let Some(number) = self.waiting.pop_front() {
            let Some(slot) = &mut self.slots[number] else { continue };
            match Self::entry(slot, number, self.registered, &mut last) {
                // SAFETY: the entry's buffer is held by its slot until the completion (INV-TIER-1).
                Ok(entry) if unsafe { self.ring.push(&entry) } => self.handed.push(number),
                Ok(_) => {
                    self.waiting.push_front(number);
                    break;
                }
                Err(error) => {
                    let ended = self.end(number, Err(error));
                    ended.into_iter().for_each(|ended| self.admission.refuse(ended));
                }
            }
        }
        let wait = wait.min((self.with_kernel + self.handed.len()) as u32);
        if wait == 0 && self.handed.is_empty() {
            return Ok(());
        }
        let (result, left) = self.ring.enter(wait);
        let seen = self.handed.len().saturating_sub(left as usize);
        for number in self.handed.drain(seen..).rev() {
            self.waiting.push_front(number);
        }
        for &number in &self.handed {
            self.slots[number].iter_mut().for_each(|slot| slot.with_kernel = true);
        }
        self.with_kernel += seen;
        result
    }

    /// Ends the request of a slot.
    fn end(&mut self, number: usize, result: IoResult<()>) -> Option<Completion> {
        let slot = self.slots[number].take()?;
        self.free.push(number);
        let Request { tag, buffer, .. } = slot.moving.request;
        Some(Completion { tag, buffer, result })
    }

    /// The next completion that is there already.
    fn reap(&mut self) -> Option<Completion> {
        loop {
            let (number, answer) = self.ring.next()?;
            let number = number as usize;
            let slot = self.slots.get_mut(number)?.as_mut()?;
            slot.with_kernel = false;
            self.with_kernel -= 1;
            match slot.moving.answer(answer) {
                Next::Ended(result) => return self.end(number, result),
                Next::Again => self.waiting.push_back(number),
            }
        }
    }

    /// Waits for the next completion.
    fn next(&mut self) -> Option<Completion> {
        let mut busy = 0;
        while self.in_flight() > 0 {
            if let Some(refused) = self.admission.next_refused() {
                return Some(refused);
            }
            if self.refused {
                return self.move_one().map(|done| self.admission.hand_out(done));
            }
            if let Some(completion) = self.reap() {
                return Some(self.admission.hand_out(completion));
            }
            let Err(error) = self.enter(1) else { continue };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::EBUSY) if busy < MAX_BUSY => {
                    busy += 1;
                    std::thread::sleep(BUSY_PAUSE);
                }
                _ => self.give_ring_up(),
            }
        }
        None
    }
}

impl RingQueue {
    /// The kernel takes no more requests of this ring, and nobody can say when those end that it
    /// has.
    fn give_ring_up(&mut self) {
        self.refused = true;
        self.waiting.clear();
        for slot in self.slots.iter_mut().flatten().filter(|slot| slot.with_kernel) {
            let buffer = &mut slot.moving.request.buffer;
            let mut copy = buffer.replacement();
            if slot.moving.request.direction == Direction::Write {
                copy.copy_from_slice(buffer);
            }
            // The memory is the kernel's from now on, and the arena stays.
            std::mem::forget(std::mem::replace(buffer, copy));
            (slot.moving.done, slot.with_kernel) = (0, false);
        }
    }

    /// Moves the bytes of a request in flight, without the ring.
    fn move_one(&mut self) -> Option<Completion> {
        let number = self.slots.iter().position(Option::is_some)?;
        let result = self.slots[number].as_mut()?.moving.run();
        self.end(number, result)
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
        self.slots[slot] = Some(Slot { moving: Moving::new(request), with_kernel: false });
        self.waiting.push_back(slot);
    }

    fn start(&mut self) {
        if !self.admission.is_stale() && !self.refused {
            // What fails shows when somebody waits.
            let _ = self.enter(0);
        }
    }

    fn wait(&mut self) -> Option<Completion> {
        if self.admission.is_stale() {
            return self.admission.next_refused();
        }
        self.next()
    }

    fn describe(&self) -> String {
        if self.refused {
            return "pread and pwrite, since io_uring was forbidden".to_owned();
        }
        let how = if self.registered { "registered buffers" } else { "unregistered buffers" };
        format!("io_uring, {how}")
    }
}

impl Drop for RingQueue {
    fn drop(&mut self) {
        // A forked child has neither the ring's memory nor the arena's.
        if self.admission.is_stale() {
            return;
        }
        while self.next().is_some() {}
        // SAFETY: neither is used afterwards. No request is in flight, or the kernel has refused:
        // then what it still works on is memory that stays.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.slots);
        }
    }
}

impl fmt::Debug for RingQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RingQueue({} of {} in flight)", self.in_flight(), self.depth())
    }
}
