//! The descriptor by which the pages of a window are filled, and a thread that holds it.
//!
//! A program may close descriptors that it did not open (`closefrom`, daemons). With the last
//! reference to a `userfaultfd` the kernel stops watching its range: the next load from an empty
//! page would then find zeros, without a signal. So a thread holds a second reference, in a table
//! of descriptors of its own (`close_range` with `CLOSE_RANGE_UNSHARE`), which nobody else closes.
//! Where the process's own number is lost, the thread makes the calls.
//!
//! The number is compared before each use, by device and inode. Since Linux 5.12 each `userfaultfd`
//! has an inode of its own; before, another file of that kind answers that it knows no such call.
//!
//! **Fork.** A child has neither the thread nor the range of addresses.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::HeapError;

const DEVICE: &str = "/dev/userfaultfd";
/// A request to [`DEVICE`].
const USERFAULTFD_IOC_NEW: libc::c_ulong = 0xaa00;
/// A flag: faults of system calls are not handled.
const USER_MODE_ONLY: i32 = 1;
/// The holder's stack: it makes system calls only.
const STACK_BYTES: usize = 64 << 10;

/// See the module's documentation.
pub(crate) struct Faults {
    number: RawFd,
    identity: Option<(u64, u64)>,
    holder: Holder,
}

/// The thread.
struct Holder {
    post: Arc<Post>,
    thread: Option<JoinHandle<()>>,
    /// In a forked child there is none.
    mark: swing_tier::ProcessMark,
}

#[derive(Default)]
struct Post {
    desk: Mutex<Desk>,
    changed: Condvar,
}

#[derive(Default)]
struct Desk {
    /// A call, and the address of its argument.
    request: Option<(libc::c_ulong, usize)>,
    answer: Option<Result<(), i32>>,
    ends: bool,
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn identity_of(number: RawFd) -> Option<(u64, u64)> {
    // SAFETY: only asked about, also when it is closed.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    rustix::fs::fstat(borrowed).ok().map(|st| (st.st_dev, st.st_ino))
}

impl Faults {
    /// Faults of this process's own code only, which needs no privilege: by the system call, or by
    /// the device where a filter of system calls forbids that.
    pub(crate) fn open() -> Result<Self, HeapError> {
        let file = open()?;
        let (number, identity) = (file.as_raw_fd(), identity_of(file.as_raw_fd()));
        let holder = Holder::start(number)
            .map_err(|e| HeapError::NoPointers { why: format!("no thread can hold it: {e}") })?;
        Ok(Faults { number: file.into_raw_fd(), identity, holder })
    }

    fn is_here(&self) -> bool {
        self.identity.is_some() && identity_of(self.number) == self.identity
    }

    /// # Safety
    /// The argument is the structure that the call expects, and is valid for it.
    pub(crate) unsafe fn call(
        &self,
        request: libc::c_ulong,
        argument: *mut u64,
    ) -> Result<(), i32> {
        if self.is_here() {
            // SAFETY: the caller's promise.
            match unsafe { libc::ioctl(self.number, request as _, argument) } {
                0 => return Ok(()),
                _ => match last_error() {
                    libc::EBADF | libc::ENOTTY => {}
                    errno => return Err(errno),
                },
            }
        }
        self.holder.call(request, argument)
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: an open descriptor of this heap's, which nobody else has.
            drop(unsafe { OwnedFd::from_raw_fd(self.number) });
        }
    }
}

impl Post {
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the desk is as wanted.
    fn wait_until(&self, wanted: impl Fn(&Desk) -> bool) -> MutexGuard<'_, Desk> {
        let is_other = |desk: &mut Desk| !wanted(desk);
        self.changed.wait_while(self.lock(), is_other).unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does: holds the number, and makes the calls that come.
    fn serve(&self, number: RawFd) {
        loop {
            let mut desk = self.wait_until(|desk| desk.ends || desk.request.is_some());
            let Some((request, argument)) = desk.request.take() else { return };
            // SAFETY: who asks waits for the answer, so the argument is valid.
            let done = unsafe { libc::ioctl(number, request as _, argument) } == 0;
            desk.answer = Some(if done { Ok(()) } else { Err(last_error()) });
            self.changed.notify_all();
        }
    }
}

/// Keeps this number alone in a table of the thread's own.
fn keep_alone(number: RawFd) -> Result<(), i32> {
    let close = |first: u32, last: u32, flags: u32| {
        // SAFETY: concerns descriptors of this thread only, once its table is its own.
        match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    };
    let number = number as u32;
    close(number + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    if number > 0 { close(0, number - 1, 0) } else { Ok(()) }
}

impl Holder {
    fn start(number: RawFd) -> std::io::Result<Self> {
        let post = Arc::new(Post::default());
        let (served, (ready, is_ready)) = (post.clone(), std::sync::mpsc::sync_channel(1));
        // Signals of the program are for threads of the program.
        let thread = without_signals(|| {
            std::thread::Builder::new()
                .name("swing-heap-fd".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    let kept = keep_alone(number);
                    let _ = ready.send(kept);
                    if kept.is_ok() {
                        served.serve(number);
                    }
                })
        })?;
        let mark = swing_tier::ProcessMark::current();
        let holder = Holder { post, thread: Some(thread), mark };
        match is_ready.recv() {
            Ok(Ok(())) => Ok(holder),
            Ok(Err(errno)) => Err(std::io::Error::from_raw_os_error(errno)),
            Err(_) => Err(std::io::Error::other("it has ended")),
        }
    }

    /// One caller at a time: the window's lock is held.
    fn call(&self, request: libc::c_ulong, argument: *mut u64) -> Result<(), i32> {
        if self.mark.is_stale() {
            return Err(libc::EBADF);
        }
        let mut desk = self.post.wait_until(|desk| desk.request.is_none() && desk.answer.is_none());
        desk.request = Some((request, argument as usize));
        drop(desk);
        self.post.changed.notify_all();
        let mut desk = self.post.wait_until(|desk| desk.answer.is_some());
        desk.answer.take().unwrap_or(Err(libc::EIO))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take().filter(|_| !self.mark.is_stale()) else { return };
        self.post.lock().ends = true;
        self.post.changed.notify_all();
        let _ = thread.join();
    }
}

/// Runs `f` with signals blocked that do not tell of an instruction, which a thread that it makes
/// inherits.
pub(crate) fn without_signals<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: valid sets; the mask of this thread only.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        for number in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP] {
            libc::sigdelset(&raw mut all, number);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let done = f();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        done
    }
}

fn open() -> Result<OwnedFd, HeapError> {
    let flags = libc::O_CLOEXEC | USER_MODE_ONLY;
    // SAFETY: the call takes flags and gives a descriptor.
    let mut raw = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    let refused = std::io::Error::last_os_error();
    let mut device_refused = None;
    if raw < 0 {
        raw = std::fs::File::open(DEVICE)
            .and_then(|device| {
                // SAFETY: the request takes flags and gives a descriptor.
                match unsafe { libc::ioctl(device.as_raw_fd(), USERFAULTFD_IOC_NEW as _, flags) } {
                    raw if raw >= 0 => Ok(raw.into()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            })
            .unwrap_or_else(|error| {
                device_refused = Some(error);
                -1
            });
    }
    if let Some(error) = device_refused {
        let why = format!("the system call: {refused}; {DEVICE}: {error}");
        return Err(HeapError::NoPointers { why });
    }
    // SAFETY: a descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(raw as i32) })
}
