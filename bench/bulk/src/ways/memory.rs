//! Ways through memory: shared, passed, or read in the other process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::Way;
use crate::job::Job;
use crate::sys::{self, Counter, Map};

/// Counters in a page of their own, which both processes share.
pub struct Counters {
    map: Map,
}

impl Counters {
    /// All of them 0.
    pub fn new() -> io::Result<Self> {
        Ok(Self { map: Map::shared(4096)? })
    }

    fn at(&self, index: usize) -> &Counter {
        // A line of the cache each: the processes write to different ones.
        let at = self.map.at(index * 64, size_of::<Counter>());
        // SAFETY: mapped, aligned, zeroed at first, and used as a counter only.
        unsafe { &*at.cast::<Counter>() }
    }

    /// Parts that the sender has made ready.
    pub fn filled(&self) -> &Counter {
        self.at(0)
    }

    /// Parts that the receiver needs no more.
    pub fn emptied(&self) -> &Counter {
        self.at(1)
    }

    /// A process's number.
    fn pid(&self) -> &Counter {
        self.at(2)
    }

    /// An address, in two halves.
    fn address(&self) -> [&Counter; 2] {
        [self.at(3), self.at(4)]
    }
}

/// The survey's: both files mapped, and as much shared memory as they have bytes. The survey's
/// receiver does not wait for its bytes; this one does, chunk by chunk.
pub struct Mapped {
    shared: Map,
    counters: Counters,
}

impl Mapped {
    /// With shared memory of the size of the source.
    pub fn open(job: &Job) -> io::Result<Box<dyn Way>> {
        let shared = Map::shared(job.bytes as usize)?;
        Ok(Box::new(Self { shared, counters: Counters::new()? }))
    }
}

impl Way for Mapped {
    fn send(self: Box<Self>, job: &Job, source: &File) -> io::Result<()> {
        let map = Map::read(source, job.bytes as usize)?;
        for (index, (at, len)) in job.parts(job.chunk).enumerate() {
            let at = at as usize;
            self.shared.bytes_mut(at, len).copy_from_slice(map.bytes(at, len));
            self.counters.filled().set(index as u32 + 1);
        }
        Ok(())
    }

    fn receive(self: Box<Self>, job: &Job, target: &File) -> io::Result<u64> {
        target.set_len(job.bytes)?;
        let map = Map::write(target, job.bytes as usize)?;
        for (index, (at, len)) in job.parts(job.chunk).enumerate() {
            let at = at as usize;
            self.counters.filled().wait(index as u32 + 1);
            map.bytes_mut(at, len).copy_from_slice(self.shared.bytes(at, len));
        }
        Ok(0)
    }
}

/// A few chunks of shared memory, used again and again: they stay in the processor's cache. Read
/// into directly, written from directly.
pub struct Ring {
    shared: Map,
    counters: Counters,
}

impl Ring {
    /// With `job.depth` chunks.
    pub fn open(job: &Job) -> io::Result<Box<dyn Way>> {
        let shared = Map::shared(job.depth * job.chunk)?;
        Ok(Box::new(Self { shared, counters: Counters::new()? }))
    }
}

impl Way for Ring {
    fn send(self: Box<Self>, job: &Job, mut source: &File) -> io::Result<()> {
        for (index, (_, len)) in job.parts(job.chunk).enumerate() {
            self.counters.emptied().wait((index + 1).saturating_sub(job.depth) as u32);
            source.read_exact(self.shared.bytes_mut(index % job.depth * job.chunk, len))?;
            self.counters.filled().set(index as u32 + 1);
        }
        Ok(())
    }

    fn receive(self: Box<Self>, job: &Job, mut target: &File) -> io::Result<u64> {
        for (index, (_, len)) in job.parts(job.chunk).enumerate() {
            self.counters.filled().wait(index as u32 + 1);
            target.write_all(self.shared.bytes(index % job.depth * job.chunk, len))?;
            self.counters.emptied().set(index as u32 + 1);
        }
        Ok(0)
    }
}

/// The receiver copies out of the sender's mapping of the source.
pub struct ReadThere {
    counters: Counters,
}

impl ReadThere {
    /// With counters only.
    pub fn open(_: &Job) -> io::Result<Box<dyn Way>> {
        Ok(Box::new(Self { counters: Counters::new()? }))
    }
}

impl Way for ReadThere {
    fn send(self: Box<Self>, job: &Job, source: &File) -> io::Result<()> {
        sys::allow_reading();
        let map = Map::read(source, job.bytes as usize)?;
        let address = map.at(0, 0) as usize;
        let [low, high] = self.counters.address();
        low.set(address as u32);
        high.set((address >> 32) as u32);
        self.counters.pid().set(std::process::id());
        let mut parts = 0;
        for (at, len) in job.parts(job.piece) {
            map.populate(at as usize, len)?;
            parts += 1;
            self.counters.filled().set(parts);
        }
        self.counters.emptied().wait(parts);
        Ok(())
    }

    fn receive(self: Box<Self>, job: &Job, mut target: &File) -> io::Result<u64> {
        let mut buffer = vec![0; job.chunk];
        for (index, (at, len)) in job.parts(job.piece).enumerate() {
            self.counters.filled().wait(index as u32 + 1);
            let pid = self.counters.pid().get() as i32;
            let [low, high] = self.counters.address().map(Counter::get);
            let base = low as usize | (high as usize) << 32;
            let mut done = 0;
            while done < len {
                let most = job.chunk.min(len - done);
                let from = base + at as usize + done;
                let read = sys::read_other(pid, from, &mut buffer[..most])?;
                target.write_all(&buffer[..read])?;
                done += read;
            }
            self.counters.emptied().set(index as u32 + 1);
        }
        Ok(0)
    }
}

/// Files in memory, a piece each, sealed so that the receiver need not copy them to trust them.
pub struct Memfds {
    read: UnixStream,
    write: UnixStream,
}

impl Memfds {
    /// With a socket.
    pub fn open(_: &Job) -> io::Result<Box<dyn Way>> {
        let (read, write) = UnixStream::pair()?;
        Ok(Box::new(Self { read, write }))
    }
}

impl Way for Memfds {
    fn send(self: Box<Self>, job: &Job, mut source: &File) -> io::Result<()> {
        drop(self.read);
        for (_, len) in job.parts(job.piece) {
            let file = sys::memfd(len)?;
            let map = Map::write(&file, len)?;
            source.read_exact(map.bytes_mut(0, len))?;
            // A file with a writable mapping cannot be sealed.
            drop(map);
            sys::seal(&file)?;
            sys::send_file(&self.write, file.as_fd())?;
        }
        Ok(())
    }

    fn receive(self: Box<Self>, job: &Job, mut target: &File) -> io::Result<u64> {
        drop(self.write);
        for (_, len) in job.parts(job.piece) {
            let file = sys::receive_file(&self.read)?;
            target.write_all(Map::read(&file, len)?.bytes(0, len))?;
        }
        Ok(0)
    }
}
