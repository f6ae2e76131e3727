//! What becomes of a request after the device has moved some of its bytes; the same for both back
//! ends.

use std::os::fd::BorrowedFd;

use crate::error::{Cause, IoError};
use crate::io::file::DiskFile;
use crate::storage::{Direction, FileRef, IoResult, Request};
use crate::units::UNIT_BYTES;

/// How often a request may be interrupted or come back short before it counts as failed.
const MAX_ROUNDS: u32 = 1000;

/// A request and how far it is.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) request: Request,
    /// Bytes moved so far.
    pub(crate) done: u32,
    rounds: u32,
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Ask the device for the rest.
    Again,
    /// The request has ended.
    Ended(IoResult<()>),
}

impl Moving {
    pub(crate) fn new(request: Request) -> Self {
        Moving { request, done: 0, rounds: 0 }
    }

    /// What still has to be moved: offset in the file, bytes.
    pub(crate) fn rest(&self) -> (u64, u32) {
        (self.request.offset + u64::from(self.done), self.request.len - self.done)
    }

    /// Takes the answer of the device: bytes moved, or the negative error number.
    pub(crate) fn answer(&mut self, result: i32) -> Next {
        self.rounds += 1;
        match result {
            moved if moved > 0 => {
                self.done += (moved as u32).min(self.request.len - self.done);
                let aligned = u64::from(self.done).is_multiple_of(UNIT_BYTES.min(512));
                if self.done == self.request.len {
                    Next::Ended(Ok(()))
                } else if aligned && self.rounds < MAX_ROUNDS {
                    Next::Again
                } else {
                    self.failed(Cause::Short { moved: u64::from(self.done) })
                }
            }
            0 => self.failed(Cause::Short { moved: u64::from(self.done) }),
            error if -error == libc::EINTR || -error == libc::EAGAIN => {
                if self.rounds < MAX_ROUNDS { Next::Again } else { self.failed(Cause::Os(-error)) }
            }
            error => self.failed(Cause::Os(-error)),
        }
    }

    /// The end of the request with this cause.
    pub(crate) fn failed(&self, cause: Cause) -> Next {
        Next::Ended(Err(failure(&self.request, cause)))
    }
}

impl Moving {
    /// Moves all bytes that are left, by as many calls of `pread` or `pwrite` as it takes.
    pub(crate) fn run(&mut self) -> IoResult<()> {
        loop {
            let (offset, len) = self.rest();
            let from = self.done as usize;
            let range = from..from + len as usize;
            let request = &mut self.request;
            let holder = request.file.clone();
            let file = located(request, &holder)?;
            let result = match request.direction {
                Direction::Read => rustix::io::pread(file, &mut request.buffer[range], offset),
                Direction::Write => rustix::io::pwrite(file, &request.buffer[range], offset),
            };
            let answer = match result {
                Ok(moved) => i32::try_from(moved).unwrap_or(i32::MAX),
                Err(error) => -error.raw_os_error(),
            };
            if let Next::Ended(result) = self.answer(answer) {
                return result;
            }
        }
    }
}

fn action(request: &Request) -> &'static str {
    match request.direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

/// The error of a request, with its file and place.
pub(crate) fn failure(request: &Request, cause: Cause) -> IoError {
    IoError::new(action(request), request.file.path(), cause)
        .at(request.offset, u64::from(request.len))
}

/// The descriptor of the file of a request, for one call.
pub(crate) fn located<'a>(request: &Request, file: &'a FileRef) -> IoResult<BorrowedFd<'a>> {
    // Queues admit files of the real file system only.
    let Some(file) = file.as_any().downcast_ref::<DiskFile>() else {
        return Err(failure(request, Cause::Os(libc::EINVAL)));
    };
    file.here(action(request)).map_err(|e| e.at(request.offset, u64::from(request.len)))
}

/// `EINVAL` for a file of another storage, or a request that is not whole units or longer than its
/// buffer; `EFBIG` for a write beyond the limit of this process.
pub(crate) fn check(request: &Request) -> IoResult<()> {
    let whole = |align: u64| {
        request.offset.is_multiple_of(align)
            && u64::from(request.len).is_multiple_of(align)
            && request.len > 0
            && request.len as usize <= request.buffer.len()
    };
    match request.file.as_any().downcast_ref::<DiskFile>() {
        Some(file) if whole(file.align()) => {
            if request.direction == Direction::Write {
                let (offset, len) = (request.offset, u64::from(request.len));
                file.check_reach(offset.saturating_add(len), "write")
                    .map_err(|e| e.at(offset, len))?;
            }
            Ok(())
        }
        _ => Err(failure(request, Cause::Os(libc::EINVAL))),
    }
}
