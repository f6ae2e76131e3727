//! A worker: one thread, one queue, some of the single-domain scans.
//!
//! Each lane takes the next free buffer of its ring, reads the next request of its chain into it,
//! and continues as long as it has more buffers than the one that is left to the consumer. Arrived
//! data is checked and given to a [`Sink`]: the consumers' queue of a scan, or a partial aggregate.
//!
//! The queue owns each buffer from its request to its completion. So a worker that stops, for an
//! error or because the consumer has enough, only drops its queue, which waits for the device.

use std::collections::VecDeque;
use std::time::Instant;

use crate::arena::{BufferClass, IoBuffer};
use crate::error::{Cause, Fault, IoError, ReadError};
use crate::log::read::{check, too_short};
use crate::scan::plan::{Cursor, Plan};
use crate::scan::stats::Counters;
use crate::storage::{Completion, Direction, IoResult, Queue, QueueOptions, Request, Storage};

/// Requests are handed to the device at the latest when so many bytes have been worked on since.
const START_BYTES: u64 = 64 << 10;
/// A request's tag has the lane above the run.
const LANE_SHIFT: u32 = 40;

/// What a sink wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    More,
    Stop,
}

/// Where the bytes of a lane go.
pub(crate) trait Sink {
    /// Takes a run whose bytes have been checked; they begin the buffer. Returns the buffer if the
    /// lane may read into it again, and whether to go on. A run without bytes has no buffer.
    fn take(
        &mut self,
        lane: usize,
        run: usize,
        buffer: Option<IoBuffer>,
    ) -> (Option<IoBuffer>, Wish);

    /// A lane has read all that it has to.
    fn lane_ended(&mut self, lane: usize) -> Wish;

    /// The buffers that have come back meanwhile; each with its lane.
    fn returned(&mut self, into: &mut dyn FnMut(usize, IoBuffer)) -> Wish;

    /// Waits until a buffer comes back.
    fn park(&mut self) -> Wish;
}

/// A single-domain scan.
#[derive(Debug)]
struct Lane {
    number: usize,
    cursor: Cursor,
    /// The ring: its buffers that wait to be read into, the one that waits longest first.
    free: VecDeque<IoBuffer>,
    in_flight: u32,
    /// Its chain has come to the end.
    at_end: bool,
    ended: bool,
}

/// A thread's part of a scan.
pub(crate) struct Worker<'a> {
    plan: &'a Plan,
    counters: &'a Counters,
    queue: Box<dyn Queue>,
    lanes: Vec<Lane>,
    /// Bytes worked on since requests went to the device.
    worked: u64,
    waiting: bool,
}

impl<'a> Worker<'a> {
    /// Worker `number` of a scan, on the thread that calls.
    pub(crate) fn new(
        plan: &'a Plan,
        counters: &'a Counters,
        storage: &dyn Storage,
        number: usize,
    ) -> IoResult<Self> {
        let shape = &plan.shape;
        let numbers: Vec<_> = shape.lanes_of(number).collect();
        let count = numbers.len() as u32;
        let buffers = vec![BufferClass { len: shape.buffer_bytes, count: count * shape.buffers }];
        let options = QueueOptions { depth: count * shape.lane_depth, buffers };
        let mut queue = storage.queue(&options)?;
        if number == 0 {
            counters.set_engine(queue.describe());
        }
        let mut lanes = Vec::with_capacity(numbers.len());
        for number in numbers {
            let cursor = plan.cursor(number);
            let free = (0..shape.buffers)
                .filter_map(|_| queue.take_buffer(shape.buffer_bytes as usize))
                .collect();
            lanes.push(Lane { number, cursor, free, in_flight: 0, at_end: false, ended: false });
        }
        Ok(Worker { plan, counters, queue, lanes, worked: 0, waiting: false })
    }

    /// Reads until all lanes are at their end, or the sink wants no more.
    pub(crate) fn run(mut self, sink: &mut dyn Sink) -> Result<(), ReadError> {
        loop {
            let lanes = &mut self.lanes;
            let workers = self.plan.shape.workers;
            // Lanes are dealt out to the workers in turn.
            let mut back = |lane: usize, buffer| lanes[lane / workers].free.push_back(buffer);
            if sink.returned(&mut back) == Wish::Stop {
                return Ok(());
            }
            for lane in 0..self.lanes.len() {
                let filled = self.fill(lane, sink);
                if filled == Wish::Stop || self.note_end(lane, sink) == Wish::Stop {
                    return Ok(());
                }
            }
            if self.waiting && self.worked >= START_BYTES {
                self.start();
            }
            let since = Instant::now();
            let done = self.queue.wait();
            self.counters.add_device_wait(since);
            let wish = match done {
                Some(done) => self.complete(done, sink)?,
                None if self.lanes.iter().all(|lane| lane.ended) => return Ok(()),
                None => {
                    let since = Instant::now();
                    let wish = sink.park();
                    self.counters.add_parked(since);
                    wish
                }
            };
            if wish == Wish::Stop {
                return Ok(());
            }
        }
    }

    fn start(&mut self) {
        self.queue.start();
        (self.waiting, self.worked) = (false, 0);
    }

    /// Lets a lane read ahead as far as its ring allows.
    fn fill(&mut self, lane: usize, sink: &mut dyn Sink) -> Wish {
        while !self.lanes[lane].at_end {
            let Lane { number, cursor, free, in_flight, at_end, .. } = &mut self.lanes[lane];
            if *in_flight >= self.plan.shape.lane_depth {
                break;
            }
            // Also a lane whose buffers all are out finds its end.
            *at_end = self.plan.is_at_end(*cursor);
            if *at_end {
                break;
            }
            let Some(buffer) = free.pop_front() else { break };
            let Some(number_of_run) = self.plan.next_run(cursor) else {
                // Another lane was faster.
                *at_end = true;
                free.push_back(buffer);
                break;
            };
            let run = &self.plan.runs[number_of_run];
            if run.len == 0 {
                free.push_back(buffer);
                let (_, wish) = sink.take(*number, number_of_run, None);
                if wish == Wish::Stop {
                    return wish;
                }
                continue;
            }
            *in_flight += 1;
            self.counters.add_request(u64::from(run.len), u64::from(run.gaps));
            self.queue.submit(Request {
                file: self.plan.files[run.file as usize].file.clone(),
                direction: Direction::Read,
                offset: run.offset,
                len: run.len,
                buffer,
                tag: (lane as u64) << LANE_SHIFT | number_of_run as u64,
            });
            self.waiting = true;
        }
        Wish::More
    }

    /// Tells the sink when the last bytes of a lane have been given to it.
    fn note_end(&mut self, lane: usize, sink: &mut dyn Sink) -> Wish {
        let lane = &mut self.lanes[lane];
        if lane.at_end && lane.in_flight == 0 && !lane.ended {
            lane.ended = true;
            return sink.lane_ended(lane.number);
        }
        Wish::More
    }

    /// Checks what has arrived and gives it to the sink.
    fn complete(&mut self, done: Completion, sink: &mut dyn Sink) -> Result<Wish, ReadError> {
        let lane = (done.tag >> LANE_SHIFT) as usize;
        let number = (done.tag & ((1 << LANE_SHIFT) - 1)) as usize;
        self.lanes[lane].in_flight -= 1;
        done.result.map_err(too_short)?;
        // The lane's next request goes out before these bytes are worked on.
        if self.fill(lane, sink) == Wish::Stop {
            return Ok(Wish::Stop);
        }
        if self.waiting && self.worked >= START_BYTES {
            self.start();
        }
        let run = self.plan.runs[number];
        let mut bytes = 0;
        // An item without bytes stands for an empty record, and has no place.
        let items = self.plan.items[run.items()].iter().filter(|item| item.piece.len > 0);
        for item in items {
            let piece = item.piece;
            let from = (piece.offset - run.offset) as usize;
            let found = &done.buffer[from..from + piece.len as usize];
            check(&piece, found, &self.plan.files[item.file as usize])?;
            bytes += u64::from(piece.len);
        }
        self.counters.add_bytes(bytes);
        self.worked += u64::from(run.len);
        let (buffer, wish) = sink.take(self.lanes[lane].number, number, Some(done.buffer));
        self.lanes[lane].free.extend(buffer);
        Ok(wish)
    }
}

/// The error of a scan whose thread cannot be made, or has died.
pub(crate) fn thread_failure(storage: &dyn Storage, cause: Cause) -> ReadError {
    Fault::Io(IoError::new("run a thread that reads", storage.path(), cause)).into()
}
