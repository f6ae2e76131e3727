//! Tokens: small numbers that are unique among the living processes of a namespace.
//!
//! Token `t` is held by whoever holds a lock on byte `t` of the namespace's file `.tokens`
//! ([`swing::ByteLock`]). The kernel grants each byte to one process, and takes it back however
//! that process ends. Nothing is ever written to the file, so nothing in it can be stale or
//! damaged. No token depends on a descriptor, which the program could close, and no forked child
//! has one.
//!
//! What a token means, the area of that name, is in [`crate::areas`].

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use swing::ByteLock;

use crate::error::{Code, Failure, Result};

/// The greatest token: the low 12 bits of a page's address hold it.
pub(crate) const MAX_TOKEN: i32 = 4095;

/// The tokens of one process.
#[derive(Debug)]
pub(crate) struct Tokens {
    path: PathBuf,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    /// By token; the first one stands for none.
    tokens: Vec<Option<ByteLock>>,
    /// Where the next search begins: a token given back is not given again at once.
    next: i32,
}

fn byte_of(token: i32) -> u32 {
    assert!((1..=MAX_TOKEN).contains(&token), "tokens are checked before");
    token.unsigned_abs()
}

impl Tokens {
    /// Those of the namespace in this directory.
    pub(crate) fn open(namespace: &Path) -> Result<Self> {
        let path = namespace.join(".tokens");
        // The program may go to another directory.
        let fail = |e| Failure::new(Code::Io, format!("{}: {e}", path.display()));
        let path = std::path::absolute(&path).map_err(fail)?;
        // What cannot be opened is found now, and not with the first area.
        ByteLock::is_taken(&path, 0).map_err(fail)?;
        // A start of its own for each process: two that start together rarely try the same.
        let next = 1 + (std::process::id() as i32).wrapping_mul(61).rem_euclid(MAX_TOKEN);
        let tokens = (0..=MAX_TOKEN).map(|_| None).collect();
        Ok(Self { path, held: Mutex::new(Held { tokens, next }) })
    }

    fn try_lock(&self, token: i32) -> Result<Option<ByteLock>> {
        let taken = ByteLock::try_take(&self.path, byte_of(token));
        taken.map_err(|e| {
            let deleted = e.kind() == std::io::ErrorKind::NotFound;
            let why = if deleted { "its directory was deleted: " } else { "" };
            Failure::new(
                Code::Io,
                format!("{}: cannot lock a token: {why}{e}", self.path.display()),
            )
        })
    }

    /// A token that no living process has; `clear` takes away what an owner before left, `false`
    /// passes this one over.
    pub(crate) fn claim(&self, clear: impl Fn(i32) -> bool) -> Result<i32> {
        let mut held = self.held.lock();
        for _ in 0..MAX_TOKEN {
            let token = held.next;
            held.next = token % MAX_TOKEN + 1;
            if held.tokens[token as usize].is_some() {
                continue;
            }
            let Some(lock) = self.try_lock(token)? else { continue };
            if clear(token) {
                debug_assert!((1..=MAX_TOKEN).contains(&token) && held.next != token);
                held.tokens[token as usize] = Some(lock);
                return Ok(token);
            }
        }
        Err(Failure::new(Code::NoTokens, "all 4095 tokens of the namespace are in use"))
    }

    /// Gives a token back; nothing of its area may be left.
    pub(crate) fn give_back(&self, token: i32) {
        let lock = self.held.lock().tokens[token as usize].take();
        assert!(lock.is_some(), "a token is given back once");
    }

    /// Whether a living process has the token.
    pub(crate) fn is_held(&self, token: i32) -> bool {
        if self.held.lock().tokens[token as usize].is_some() {
            return true;
        }
        assert!(token > 0, "byte 0 stands for no token");
        // What cannot be found out is taken for alive.
        ByteLock::is_taken(&self.path, byte_of(token)).unwrap_or(true)
    }

    /// If no living process has the token: `clear`s it while nobody can claim it, and tells whether
    /// that was done.
    pub(crate) fn clear_if_dead(&self, token: i32, clear: impl Fn(i32) -> bool) -> bool {
        let held = self.held.lock();
        if held.tokens[token as usize].is_some() {
            return false;
        }
        let Ok(Some(_lock)) = self.try_lock(token) else { return false };
        clear(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_unique_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        // Each token has an open file of its own, so these are as two processes to the kernel.
        let (a, b) = (Tokens::open(dir.path()).unwrap(), Tokens::open(dir.path()).unwrap());
        let mut all = std::collections::BTreeSet::new();
        for i in 0..MAX_TOKEN {
            let from = if i % 2 == 0 { &a } else { &b };
            let token = from.claim(|_| true).unwrap();
            assert!((1..=MAX_TOKEN).contains(&token) && all.insert(token), "{token}");
        }
        assert_eq!(a.claim(|_| true).unwrap_err().code, Code::NoTokens);
        let of_b = (1..=MAX_TOKEN).find(|t| b.held.lock().tokens[*t as usize].is_some()).unwrap();
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
        // What a death does: the kernel takes the mapping away.
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
