//! A device with domains, simulated: requests of one domain wait for each other, those of different
//! domains do not. Time is counted, not waited for, so results are exact; for one queue at a time.

use std::path::Path;
use std::sync::{Arc, Mutex};

use swing_tier::IoBuffer;
use swing_tier::scan::Layout;
use swing_tier::storage::{
    Access, Completion, FileRef, IoResult, Locked, Queue, QueueOptions, Request, Storage,
};

use super::recorder::Recorder;

/// What has happened on the device.
#[derive(Debug, Default)]
pub struct Clock {
    /// The time, in units of what reading one unit of a domain takes.
    pub now: u64,
    /// When each domain is free again.
    free_at: Vec<u64>,
    /// Requests that had to wait for another one of their domain.
    pub collisions: u64,
}

/// The device.
#[derive(Clone, Debug)]
pub struct Simulated {
    storage: Recorder,
    layout: Layout,
    clock: Arc<Mutex<Clock>>,
}

impl Simulated {
    pub fn new(layout: Layout) -> Self {
        let clock = Clock { free_at: vec![0; layout.domains as usize], ..Clock::default() };
        Simulated { storage: Recorder::new(1), layout, clock: Arc::new(Mutex::new(clock)) }
    }

    /// Runs something; how long it took, and the collisions.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> (T, u64, u64) {
        let at = |clock: &Clock| (clock.now, clock.collisions);
        let before = at(&self.clock.lock().unwrap());
        let result = work();
        let after = at(&self.clock.lock().unwrap());
        (result, after.0 - before.0, after.1 - before.1)
    }
}

impl Storage for Simulated {
    fn path(&self) -> &Path {
        self.storage.path()
    }

    fn foreign_owner(&self) -> IoResult<Option<u32>> {
        Ok(None)
    }

    fn create(&self, name: &str) -> IoResult<FileRef> {
        self.storage.create(name)
    }

    fn open(&self, name: &str, access: Access) -> IoResult<Option<FileRef>> {
        self.storage.open(name, access)
    }

    fn list(&self) -> IoResult<Vec<String>> {
        self.storage.list()
    }

    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        self.storage.rename(from, to)
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        self.storage.remove(name)
    }

    fn sync_directory(&self) -> IoResult<()> {
        self.storage.sync_directory()
    }

    fn lock(&self, name: &str, exclusive: bool) -> IoResult<Locked> {
        Storage::lock(&self.storage, name, exclusive)
    }

    fn queue(&self, options: &QueueOptions) -> IoResult<Box<dyn Queue>> {
        let inner = self.storage.queue(options)?;
        let (layout, clock) = (self.layout, self.clock.clone());
        Ok(Box::new(SimulatedQueue { inner, layout, clock, waiting: Vec::new() }))
    }
}

#[derive(Debug)]
struct SimulatedQueue {
    inner: Box<dyn Queue>,
    layout: Layout,
    clock: Arc<Mutex<Clock>>,
    /// When it ends, and what.
    waiting: Vec<(u64, Completion)>,
}

impl Queue for SimulatedQueue {
    fn depth(&self) -> u32 {
        self.inner.depth()
    }

    fn in_flight(&self) -> u32 {
        self.waiting.len() as u32
    }

    fn longest_buffer(&self) -> usize {
        self.inner.longest_buffer()
    }

    fn take_buffer(&mut self, len: usize) -> Option<IoBuffer> {
        self.inner.take_buffer(len)
    }

    fn submit(&mut self, request: Request) {
        assert!(self.in_flight() < self.depth());
        let unit = self.layout.unit_bytes;
        let units = request.offset / unit..(request.offset + u64::from(request.len)).div_ceil(unit);
        let clock = &mut *self.clock.lock().unwrap();
        let mut end = clock.now;
        for unit in units {
            let domain = &mut clock.free_at[(unit % u64::from(self.layout.domains)) as usize];
            clock.collisions += u64::from(*domain > clock.now);
            *domain = (*domain).max(clock.now) + 1;
            end = end.max(*domain);
        }
        self.inner.submit(request);
        self.waiting.push((end, self.inner.wait().unwrap()));
    }

    fn start(&mut self) {}

    fn wait(&mut self) -> Option<Completion> {
        let soonest = self.waiting.iter().enumerate().min_by_key(|(_, (end, _))| *end)?.0;
        let (end, completion) = self.waiting.remove(soonest);
        let clock = &mut *self.clock.lock().unwrap();
        clock.now = clock.now.max(end);
        Some(completion)
    }

    fn describe(&self) -> String {
        "simulated".to_owned()
    }
}
