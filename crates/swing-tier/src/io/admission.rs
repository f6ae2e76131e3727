//! What becomes of a request before the device sees it; the same for both back ends.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::arena::{Arena, IoBuffer};
use crate::error::Cause;
use crate::io::progress::{check, failure};
use crate::process::ProcessMark;
use crate::storage::{Completion, Request};

/// A queue's buffers, the count of its requests, and those of them that were refused.
///
/// A refused request still counts as in flight until its completion is handed out, as any other.
#[derive(Debug)]
pub(crate) struct Admission {
    arena: Arc<Arena>,
    depth: u32,
    in_flight: u32,
    mark: ProcessMark,
    /// Requests that ended without the device.
    refused: Vec<Completion>,
    /// A queue stays with the thread that made it.
    _stays: PhantomData<*mut ()>,
}

impl Admission {
    pub(crate) fn new(arena: Arc<Arena>, depth: u32) -> Self {
        let (refused, mark) = (Vec::new(), ProcessMark::current());
        Admission { arena, depth, in_flight: 0, mark, refused, _stays: PhantomData }
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(crate) fn longest_buffer(&self) -> usize {
        self.arena.longest()
    }

    /// Whether the queue is that of the process that this one was forked from.
    pub(crate) fn is_stale(&self) -> bool {
        self.mark.is_stale()
    }

    /// A buffer for `len` bytes. A forked child has none of its parent's memory.
    pub(crate) fn take_buffer(&self, len: usize) -> Option<IoBuffer> {
        if self.is_stale() { None } else { self.arena.take(len) }
    }

    /// Counts a request. Returns it if the device may have it.
    pub(crate) fn admit(&mut self, request: Request) -> Option<Request> {
        assert!(self.in_flight < self.depth, "more requests than the queue's depth");
        self.in_flight += 1;
        let refusal = if self.is_stale() {
            Some(failure(&request, Cause::Forked))
        } else {
            check(&request).err()
        };
        let Some(error) = refusal else { return Some(request) };
        let Request { tag, buffer, .. } = request;
        self.refuse(Completion { tag, buffer, result: Err(error) });
        None
    }

    /// Keeps the completion of a request that the device did not get.
    pub(crate) fn refuse(&mut self, completion: Completion) {
        self.refused.push(completion);
    }

    /// The completion of a request that was refused.
    pub(crate) fn next_refused(&mut self) -> Option<Completion> {
        let completion = self.refused.pop()?;
        self.in_flight -= 1;
        Some(completion)
    }

    /// Counts a completion that is handed out.
    pub(crate) fn hand_out(&mut self, completion: Completion) -> Completion {
        self.in_flight -= 1;
        completion
    }
}
