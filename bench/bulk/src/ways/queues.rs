//! Ways by io_uring: the sender reads into a ring of shared memory, the receiver writes from it,
//! with many requests of each in flight.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};

use super::Way;
use super::memory::Counters;
use crate::job::Job;
use crate::sys::{self, Counter, Map};

/// Length of a block of direct I/O.
const BLOCK: usize = 4096;

/// Chunks of shared memory.
pub struct Queues {
    shared: Map,
    counters: Counters,
}

impl Queues {
    /// With `job.depth` chunks.
    pub fn open(job: &Job) -> io::Result<Box<dyn Way>> {
        let shared = Map::shared(job.depth * job.chunk.next_multiple_of(BLOCK))?;
        Ok(Box::new(Self { shared, counters: Counters::new()? }))
    }
}

/// One process's requests: part `index` of the file uses chunk `index % depth`.
struct Queue<'a> {
    ring: IoUring,
    job: &'a Job,
    shared: &'a Map,
    file: types::Fd,
    parts: Vec<(u64, usize)>,
    /// Bytes of each part that are done.
    done: Vec<usize>,
    writes: bool,
    in_flight: usize,
}

impl<'a> Queue<'a> {
    fn new(job: &'a Job, shared: &'a Map, file: &File, writes: bool) -> io::Result<Self> {
        let parts: Vec<_> = job.parts(job.chunk.next_multiple_of(BLOCK)).collect();
        let (file, done) = (types::Fd(file.as_raw_fd()), vec![0; parts.len()]);
        let ring = IoUring::new(job.depth as u32)?;
        Ok(Self { ring, job, shared, file, parts, done, writes, in_flight: 0 })
    }

    /// Submits what is left of a part. Direct I/O takes whole blocks: the last part is read beyond
    /// the end of the file, and written beyond the end of the source.
    fn submit(&mut self, index: usize) -> io::Result<()> {
        let (offset, len) = self.parts[index];
        let done = self.done[index];
        let room = self.job.chunk.next_multiple_of(BLOCK);
        let left = len.next_multiple_of(BLOCK) - done;
        let at = self.shared.at(index % self.job.depth * room + done, left);
        let offset = offset + done as u64;
        let entry: squeue::Entry = match self.writes {
            true => opcode::Write::new(self.file, at, left as u32).offset(offset).build(),
            false => opcode::Read::new(self.file, at, left as u32).offset(offset).build(),
        };
        let entry = entry.user_data(index as u64);
        // SAFETY: the chunk is this process's until the request has ended, and stays mapped.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| sys::ended())?;
        self.in_flight += 1;
        self.ring.submit()?;
        Ok(())
    }

    /// Waits until one part has ended.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            self.ring.submit_and_wait(1)?;
            let Some(ended) = self.ring.completion().next() else { continue };
            self.in_flight -= 1;
            let index = ended.user_data() as usize;
            if ended.result() < 0 {
                return Err(io::Error::from_raw_os_error(-ended.result()));
            }
            if ended.result() == 0 {
                return Err(sys::ended());
            }
            self.done[index] += ended.result() as usize;
            match self.is_done(index) {
                true => return Ok(()),
                false => self.submit(index)?,
            }
        }
    }

    fn is_done(&self, index: usize) -> bool {
        self.done[index] >= self.parts[index].1
    }

    /// Does all parts. `theirs` counts the parts that the other process is done with, `ours` those
    /// of this one, and part number `n` may begin once `n` is less than `theirs + ahead`.
    fn run(&mut self, ahead: usize, theirs: &Counter, ours: &Counter) -> io::Result<()> {
        let (mut begun, mut done) = (0, 0);
        while done < self.parts.len() {
            let free = theirs.get() as usize;
            while begun < self.parts.len() && begun < free + ahead {
                self.submit(begun)?;
                begun += 1;
            }
            match self.in_flight {
                0 => theirs.wait(free as u32 + 1),
                _ => self.wait()?,
            }
            let before = done;
            while done < begun && self.is_done(done) {
                done += 1;
            }
            if done > before {
                ours.set(done as u32);
            }
        }
        Ok(())
    }
}

impl Way for Queues {
    fn send(self: Box<Self>, job: &Job, source: &File) -> io::Result<()> {
        let mut queue = Queue::new(job, &self.shared, source, false)?;
        queue.run(job.depth, self.counters.emptied(), self.counters.filled())
    }

    fn receive(self: Box<Self>, job: &Job, target: &File) -> io::Result<u64> {
        let mut queue = Queue::new(job, &self.shared, target, true)?;
        queue.run(0, self.counters.filled(), self.counters.emptied())?;
        target.set_len(job.bytes)?;
        Ok(0)
    }
}
