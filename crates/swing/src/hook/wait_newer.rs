//! Waiting for a newer shared state, without polling: inotify on the area's folder.
//!
//! What inotify says is never read: that something has happened is enough, and then there is a new
//! watch. The program may have closed the descriptor, and what can be read there be the program's;
//! so it is also closed only if the kernel says that it watches this folder.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use crate::model::error::{Context, Fault, HookError, Result};
use crate::model::name::AreaName;
use crate::model::units::StateId;
use crate::namespace::handle::Namespace;
use crate::sys::descriptors;

/// The longest sleep between two looks: a notification that is lost (inotify limits) costs at most
/// this.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// The sleep between two looks where nothing can be watched.
const SHORT_SLEEP: Duration = Duration::from_millis(50);

impl Namespace {
    /// Waits until the area has shared a state that is news to whoever has `than`
    /// ([`StateId::is_news_to`]): `true`; `false` when `timeout` has passed. An error when there is
    /// no area of the name, or no longer one.
    pub fn wait_newer(
        &self,
        name: &AreaName,
        than: Option<StateId>,
        timeout: Duration,
    ) -> Result<bool, HookError> {
        let ctx = Context::named(name, self.path());
        self.wait_inner(name, than, timeout).map_err(|fault| HookError::from_fault(fault, &ctx))
    }

    fn wait_inner(
        &self,
        name: &AreaName,
        than: Option<StateId>,
        timeout: Duration,
    ) -> Result<bool> {
        let news = |state: StateId| state.is_news_to(than);
        let is_newer = || self.shared_state_inner(name).map(|state| state.is_some_and(news));
        if is_newer()? {
            return Ok(true);
        }
        let deadline = Instant::now().checked_add(timeout);
        let path = self.path().join(name.folder());
        loop {
            let watcher = Watcher::begin(&path)?;
            // Looked again after the watch stands: nothing can happen unseen in between.
            if is_newer()? {
                return Ok(true);
            }
            let now = Instant::now();
            let left = deadline.map_or(MAX_SLEEP, |d| d.saturating_duration_since(now));
            if left.is_zero() {
                return Ok(false);
            }
            let left = left.min(MAX_SLEEP);
            match watcher {
                Some(watcher) => watcher.sleep(left),
                None => std::thread::sleep(left.min(SHORT_SLEEP)),
            }
        }
    }
}

/// A watch on a folder, good for one event.
#[derive(Debug)]
struct Watcher {
    file: ManuallyDrop<OwnedFd>,
    /// As the kernel describes it: the inode of the folder.
    described: String,
}

impl Watcher {
    /// `None`: there are too many of them.
    fn begin(path: &Path) -> Result<Option<Self>> {
        let fault = |e: Errno| Fault::io("watch", path, e);
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let Ok(file) = descriptors::open(|| inotify::init(flags)) else { return Ok(None) };
        let mut watcher = Self { file: ManuallyDrop::new(file), described: String::new() };
        let events = WatchFlags::MOVED_TO | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        match inotify::add_watch(&*watcher.file, path, events) {
            Ok(_) => {}
            Err(Errno::NOSPC | Errno::NOMEM) => return Ok(None),
            // The program has closed it just now, and may have another file there.
            Err(Errno::BADF | Errno::INVAL) => return Ok(None),
            Err(Errno::NOENT) => return Err(Fault::NotFound),
            Err(e) => return Err(fault(e)),
        }
        watcher.described = watcher.description();
        Ok(Some(watcher))
    }

    /// What is watched; empty when it is nothing.
    fn description(&self) -> String {
        let path = format!("/proc/self/fdinfo/{}", self.file.as_raw_fd());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().find(|line| line.starts_with("inotify ")).unwrap_or_default().to_owned()
    }

    /// Sleeps until an event or the end of `time`.
    fn sleep(self, time: Duration) {
        let begin = Instant::now();
        let mut poll = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let ms = time.as_millis().clamp(1, 10_000) as i32;
        // SAFETY: one valid pollfd; the call writes only its `revents`.
        unsafe { libc::poll(&mut poll, 1, ms) };
        // Nothing was watched: as if there were no watch.
        if self.description() != self.described && begin.elapsed() < SHORT_SLEEP {
            std::thread::sleep(time.min(SHORT_SLEEP));
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // INV-AREA-18: another file at its number is the program's. The watch may have gone with
        // the folder.
        let is_one = std::fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
            .is_ok_and(|link| link.as_os_str() == "anon_inode:inotify");
        let description = self.description();
        if is_one && (description == self.described || description.is_empty()) {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}
