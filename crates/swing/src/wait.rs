//! Waiting for a newer shared state, without polling: inotify on the area's folder.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use crate::error::{Context, Fault, HookError, Result};
use crate::name::AreaName;
use crate::namespace::Namespace;
use crate::sys::descriptors;
use crate::units::StateId;

/// The longest sleep between two looks: a notification that is lost (inotify limits) costs at most
/// this.
const MAX_SLEEP: Duration = Duration::from_secs(1);

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
            let fault = |e: Errno| Fault::io("watch", &path, e);
            let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
            let watcher = descriptors::open(|| inotify::init(flags)).ok();
            let events = WatchFlags::MOVED_TO | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
            if let Some(watcher) = &watcher {
                match inotify::add_watch(watcher, &path, events) {
                    // Without a watch (limits) the loop still looks every second.
                    Ok(_) | Err(Errno::NOSPC | Errno::NOMEM) => {}
                    Err(Errno::NOENT) => return Err(Fault::NotFound),
                    Err(e) => return Err(fault(e)),
                }
            }
            // Looked again after the watch stands: nothing can happen unseen in between.
            while !is_newer()? {
                let now = Instant::now();
                let left = deadline.map_or(MAX_SLEEP, |d| d.saturating_duration_since(now));
                if left.is_zero() {
                    return Ok(false);
                }
                if self.sleep(watcher.as_ref(), left.min(MAX_SLEEP)) {
                    break;
                }
            }
            if is_newer()? {
                return Ok(true);
            }
        }
    }

    /// Sleeps until an event or the end of `time`. `true` when the watch has to be set anew: the
    /// folder itself was moved.
    fn sleep(&self, watcher: Option<&std::os::fd::OwnedFd>, time: Duration) -> bool {
        let Some(watcher) = watcher else {
            std::thread::sleep(time.min(Duration::from_millis(50)));
            return true;
        };
        let mut poll = libc::pollfd { fd: watcher.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let ms = time.as_millis().clamp(1, 10_000) as i32;
        // SAFETY: one valid pollfd; the call writes only its `revents`.
        unsafe { libc::poll(&mut poll, 1, ms) };
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut reader = inotify::Reader::new(watcher, &mut buffer);
        let mut moved = false;
        while let Ok(event) = reader.next() {
            let gone = inotify::ReadFlags::MOVE_SELF
                | inotify::ReadFlags::DELETE_SELF
                | inotify::ReadFlags::IGNORED;
            moved |= event.events().intersects(gone);
        }
        moved
    }
}
