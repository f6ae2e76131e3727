//! Tokens: small numbers that are unique among the living processes of a namespace.
//!
//! Token `t` is held by whoever holds a lock on byte `t` of the namespace's file `.tokens`. The
//! locks are those of an open file description (`F_OFD_SETLK`): the kernel grants each byte to one
//! process, and takes it back however that process ends. Nothing is ever written to the file, so
//! nothing in it can be stale or damaged.
//!
//! All tokens of a process hang on one description, within which the kernel sees no conflict;
//! [`Tokens::held`] keeps them apart there. A forked child closes its copy of the descriptor (see
//! [`Tokens::close_in_child`]): otherwise the tokens of a dead parent would live as long as the
//! child. What a token means, the area of that name, is in [`crate::areas`].

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use parking_lot::Mutex;

use crate::error::{Code, Failure, Result};

/// The greatest token: the low 12 bits of a page's address hold it.
pub(crate) const MAX_TOKEN: i32 = 4095;

/// The tokens of one process.
#[derive(Debug)]
pub(crate) struct Tokens {
    fd: OwnedFd,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    tokens: [bool; MAX_TOKEN as usize + 1],
    /// Where the next search begins: a token given back is not given again at once.
    next: i32,
}

fn lock_of(token: i32, kind: libc::c_int) -> libc::flock {
    assert!((1..=MAX_TOKEN).contains(&token), "tokens are checked before");
    // SAFETY: all-zero bytes are a valid request.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = libc::off_t::from(token);
    lock.l_len = 1;
    lock
}

impl Tokens {
    /// Those of the namespace in this directory.
    pub(crate) fn open(namespace: &Path) -> Result<Self> {
        let path = namespace.join(".tokens");
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(&path);
        let file = file.map_err(|e| Failure::new(Code::Io, format!("{}: {e}", path.display())))?;
        debug_assert!(file.as_raw_fd() >= 0);
        // A start of its own for each process: two that start together rarely try the same.
        let next = 1 + (std::process::id() as i32).wrapping_mul(61).rem_euclid(MAX_TOKEN);
        let held = Held { tokens: [false; MAX_TOKEN as usize + 1], next };
        Ok(Self { fd: file.into(), held: Mutex::new(held) })
    }

    /// Closes a forked child's copy of the descriptor, which gives up no lock. Async-signal-safe;
    /// the value must never be used, nor dropped, again.
    pub(crate) fn close_in_child(&self) {
        // SAFETY: the child's own copy; the caller sees to it that nothing uses it any more.
        unsafe { libc::close(self.fd.as_raw_fd()) };
    }

    fn try_lock(&self, token: i32) -> Result<bool> {
        let lock = lock_of(token, libc::F_WRLCK);
        // SAFETY: a descriptor that stays open, and a valid request.
        if unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
            return Ok(true);
        }
        let e = std::io::Error::last_os_error();
        match e.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            _ => Err(Failure::new(Code::Io, format!("cannot lock a token: {e}"))),
        }
    }

    fn unlock(&self, token: i32) {
        let lock = lock_of(token, libc::F_UNLCK);
        // SAFETY: a descriptor that stays open, and a valid request.
        let done = unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        debug_assert_eq!(done, 0, "giving up a lock does not fail");
    }

    /// A token that no living process has; `clear` takes away what an owner before left, `false`
    /// passes this one over.
    pub(crate) fn claim(&self, clear: impl Fn(i32) -> bool) -> Result<i32> {
        let mut held = self.held.lock();
        for _ in 0..MAX_TOKEN {
            let token = held.next;
            held.next = token % MAX_TOKEN + 1;
            if held.tokens[token as usize] || !self.try_lock(token)? {
                continue;
            }
            if clear(token) {
                debug_assert!((1..=MAX_TOKEN).contains(&token) && held.next != token);
                held.tokens[token as usize] = true;
                return Ok(token);
            }
            self.unlock(token);
        }
        Err(Failure::new(Code::NoTokens, "all 4095 tokens of the namespace are in use"))
    }

    /// Gives a token back; nothing of its area may be left.
    pub(crate) fn give_back(&self, token: i32) {
        let mut held = self.held.lock();
        assert!(std::mem::take(&mut held.tokens[token as usize]), "a token is given back once");
        self.unlock(token);
    }

    /// Whether a living process has the token.
    pub(crate) fn is_held(&self, token: i32) -> bool {
        if self.held.lock().tokens[token as usize] {
            return true;
        }
        let mut lock = lock_of(token, libc::F_WRLCK);
        assert!(token > 0, "byte 0 stands for no token");
        // SAFETY: a descriptor that stays open, and a valid request, which the call changes.
        let done = unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
        done == 0 && i32::from(lock.l_type) != libc::F_UNLCK
    }

    /// If no living process has the token: `clear`s it while nobody can claim it, and tells whether
    /// that was done.
    pub(crate) fn clear_if_dead(&self, token: i32, clear: impl Fn(i32) -> bool) -> bool {
        let held = self.held.lock();
        if held.tokens[token as usize] || !self.try_lock(token).unwrap_or(false) {
            return false;
        }
        let cleared = clear(token);
        assert!(!held.tokens[token as usize], "nobody claims a token that is being cleared");
        self.unlock(token);
        cleared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_unique_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        // Two descriptions are as two processes to the kernel.
        let (a, b) = (Tokens::open(dir.path()).unwrap(), Tokens::open(dir.path()).unwrap());
        let mut all = std::collections::BTreeSet::new();
        for i in 0..MAX_TOKEN {
            let from = if i % 2 == 0 { &a } else { &b };
            let token = from.claim(|_| true).unwrap();
            assert!((1..=MAX_TOKEN).contains(&token) && all.insert(token), "{token}");
        }
        assert_eq!(a.claim(|_| true).unwrap_err().code, Code::NoTokens);
        let of_b = (1..=MAX_TOKEN).find(|t| b.held.lock().tokens[*t as usize]).unwrap();
        assert!(a.is_held(of_b) && b.is_held(of_b));
        b.give_back(of_b);
        assert!(!a.is_held(of_b));
        assert_eq!(a.claim(|_| true).unwrap(), of_b);
        assert!(b.is_held(of_b));
    }

    #[test]
    fn tokens_of_a_dead_process_are_free() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (Tokens::open(dir.path()).unwrap(), Tokens::open(dir.path()).unwrap());
        let token = b.claim(|_| true).unwrap();
        let seen = std::cell::Cell::new(0);
        assert!(!a.clear_if_dead(token, |t| seen.replace(t) == 0));
        assert_eq!(seen.get(), 0, "it is held");
        // What a death does: the kernel closes the descriptor.
        drop(b);
        assert!(a.clear_if_dead(token, |t| seen.replace(t) == 0));
        assert_eq!(seen.get(), token);
        assert!(!a.is_held(token));
    }

    #[test]
    fn a_token_that_cannot_be_cleared_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let a = Tokens::open(dir.path()).unwrap();
        let first = a.held.lock().next;
        let token = a.claim(|t| t != first).unwrap();
        assert_ne!(token, first);
        assert!(!a.is_held(first) && a.is_held(token));
    }
}
