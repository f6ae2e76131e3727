//! SWING: the sender reads the source into an area and publishes it piece by piece; the receiver
//! hooks each newer state and writes what is new in it, from its memory or from the area's file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use swing::{
    AreaName, AreaOffset, AreaOptions, ByteLen, Namespace, Publish, Snapshot, WriteIntent,
};

use super::Way;
use super::area_file::Part;
use super::memory::Counters;
use crate::job::Job;
use crate::sys;

const PATIENCE: Duration = Duration::from_secs(60);

/// An error of the area as one of the run.
pub fn failed(error: impl std::error::Error) -> io::Error {
    io::Error::other(error.to_string())
}

/// What the area is called.
pub fn name() -> io::Result<AreaName> {
    AreaName::new("bulk").map_err(io::Error::other)
}

/// Reads the source into a new area, piece by piece; `each` gets the part of the source that
/// the area has just got.
pub fn fill(
    job: &Job,
    mut source: &File,
    mut each: impl FnMut(&Namespace, u64, usize) -> io::Result<()>,
) -> io::Result<()> {
    let namespace = Namespace::open(&job.scratch).map_err(failed)?;
    let small = ByteLen::mib(2).0;
    let mut options =
        AreaOptions::with_reserve(ByteLen(small + job.bytes.next_multiple_of(ByteLen::mib(2).0)));
    options.small_zone = ByteLen(small);
    let area = namespace.create(&name()?, &options).map_err(failed)?;
    let begin = area.geometry().small_zone().0;
    for (at, len) in job.parts(job.piece) {
        let range = AreaOffset(begin + at)..AreaOffset(begin + at + len as u64);
        area.make_writable(range, WriteIntent::Overwrite).map_err(failed)?;
        // SAFETY: these bytes have just been made writable, and this process has one thread.
        let bytes = unsafe {
            let first = area.base().as_ptr().add((begin + at) as usize);
            std::slice::from_raw_parts_mut(first, len)
        };
        source.read_exact(bytes)?;
        let until = at + len as u64;
        area.publish(Publish::Shared, &until.to_le_bytes()).map_err(failed)?;
        each(&namespace, at, len)?;
    }
    Ok(())
}

/// A counter that tells the receiver that the area is there.
pub struct Areas {
    counters: Counters,
    /// Whether the receiver sends from the area's file; else it writes from its memory.
    from_file: bool,
}

impl Areas {
    /// With nothing but the counter: the scratch folder is the namespace.
    pub fn open(_: &Job) -> io::Result<Box<dyn Way>> {
        Ok(Box::new(Self { counters: Counters::new()?, from_file: false }))
    }

    /// The same, from the area's file.
    pub fn sendfile(_: &Job) -> io::Result<Box<dyn Way>> {
        Ok(Box::new(Self { counters: Counters::new()?, from_file: true }))
    }

    /// Brings bytes of a snapshot to the target.
    fn deliver(
        &self,
        snapshot: &Snapshot,
        at: u64,
        len: usize,
        mut target: &File,
    ) -> io::Result<()> {
        if !self.from_file {
            // SAFETY: the state shows these bytes of the source, and they never change.
            let bytes = unsafe {
                let first = snapshot.base().as_ptr().add(at as usize);
                std::slice::from_raw_parts(first, len)
            };
            return target.write_all(bytes);
        }
        for part in Part::all(snapshot, at, len)? {
            part.each(|file, offset, most| sys::sendfile_at(file, offset, target, most))?;
        }
        Ok(())
    }
}

impl Way for Areas {
    fn send(self: Box<Self>, job: &Job, source: &File) -> io::Result<()> {
        fill(job, source, |_, _, _| {
            self.counters.filled().set(1);
            Ok(())
        })
    }

    fn receive(self: Box<Self>, job: &Job, target: &File) -> io::Result<u64> {
        let namespace = Namespace::open(&job.scratch).map_err(failed)?;
        let name = name()?;
        self.counters.filled().wait(1);
        let (mut done, mut seen, mut handover) = (0, None, Duration::ZERO);
        while done < job.bytes {
            if !namespace.wait_newer(&name, seen, PATIENCE).map_err(failed)? {
                return Err(sys::ended());
            }
            let asked = Instant::now();
            let snapshot = namespace.hook(&name).map_err(failed)?;
            handover += asked.elapsed();
            seen = Some(snapshot.state());
            let until: [u8; 8] = snapshot.payload().try_into().map_err(|_| sys::ended())?;
            let until = u64::from_le_bytes(until);
            let begin = snapshot.geometry().small_zone().0 + done;
            self.deliver(&snapshot, begin, (until - done) as usize, target)?;
            done = until;
        }
        Ok(handover.as_nanos() as u64)
    }
}
