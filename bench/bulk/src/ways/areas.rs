//! SWING: the sender reads the source into an area and publishes it piece by piece; the receiver
//! hooks each newer state and writes what is new in it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use swing::{AreaName, AreaOffset, AreaOptions, ByteLen, Namespace, Publish, WriteIntent};

use super::Way;
use super::memory::Counters;
use crate::job::Job;
use crate::sys;

const PATIENCE: Duration = Duration::from_secs(60);

/// A counter that tells the receiver that the area is there.
pub struct Areas {
    counters: Counters,
}

impl Areas {
    /// With nothing but the counter: the scratch folder is the namespace.
    pub fn open(_: &Job) -> io::Result<Box<dyn Way>> {
        Ok(Box::new(Self { counters: Counters::new()? }))
    }

    /// What the area is called.
    fn name() -> io::Result<AreaName> {
        AreaName::new("bulk").map_err(io::Error::other)
    }
}

impl Way for Areas {
    fn send(self: Box<Self>, job: &Job, mut source: &File) -> io::Result<()> {
        let other = |error: &dyn std::error::Error| io::Error::other(error.to_string());
        let namespace = Namespace::open(&job.scratch).map_err(|e| other(&e))?;
        let small = ByteLen::mib(2).0;
        let mut options = AreaOptions::with_reserve(ByteLen(
            small + job.bytes.next_multiple_of(ByteLen::mib(2).0),
        ));
        options.small_zone = ByteLen(small);
        let area = namespace.create(&Self::name()?, &options).map_err(|e| other(&e))?;
        let begin = area.geometry().small_zone().0;
        for (at, len) in job.parts(job.piece) {
            let range = AreaOffset(begin + at)..AreaOffset(begin + at + len as u64);
            area.make_writable(range, WriteIntent::Overwrite).map_err(|e| other(&e))?;
            // SAFETY: these bytes have just been made writable, and this process has one thread.
            let bytes = unsafe {
                let first = area.base().as_ptr().add((begin + at) as usize);
                std::slice::from_raw_parts_mut(first, len)
            };
            source.read_exact(bytes)?;
            let until = at + len as u64;
            area.publish(Publish::Shared, &until.to_le_bytes()).map_err(|e| other(&e))?;
            self.counters.filled().set(1);
        }
        Ok(())
    }

    fn receive(self: Box<Self>, job: &Job, mut target: &File) -> io::Result<u64> {
        let other = |error: &dyn std::error::Error| io::Error::other(error.to_string());
        let namespace = Namespace::open(&job.scratch).map_err(|e| other(&e))?;
        let name = Self::name()?;
        self.counters.filled().wait(1);
        let (mut done, mut seen, mut handover) = (0, None, Duration::ZERO);
        while done < job.bytes {
            if !namespace.wait_newer(&name, seen, PATIENCE).map_err(|e| other(&e))? {
                return Err(sys::ended());
            }
            let asked = Instant::now();
            let snapshot = namespace.hook(&name).map_err(|e| other(&e))?;
            handover += asked.elapsed();
            seen = Some(snapshot.state());
            let until: [u8; 8] = snapshot.payload().try_into().map_err(|_| sys::ended())?;
            let until = u64::from_le_bytes(until);
            let range = snapshot.geometry().small_zone().0 + done;
            // SAFETY: the state shows the source up to `until`, and its bytes never change.
            let bytes = unsafe {
                let first = snapshot.base().as_ptr().add(range as usize);
                std::slice::from_raw_parts(first, (until - done) as usize)
            };
            target.write_all(bytes)?;
            done = until;
        }
        Ok(handover.as_nanos() as u64)
    }
}
