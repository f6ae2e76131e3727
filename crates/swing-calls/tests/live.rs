//! Threads that read into an area while it is hooked all the time: nothing is lost, nothing fails.

mod common;

use common::{Arena, Place, errno};
use libc::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

const ROUNDS: u32 = 1500;
/// So many hooks come in between at least.
const HOOKS: u32 = 20;

/// Runs `work` in four threads while somebody hooks, again and again until there were enough.
fn hooked_meanwhile(work: impl Fn(&Arena, u32) + Sync) {
    let arena = Arena::new();
    let (done, hooks) = (AtomicBool::new(false), AtomicU32::new(0));
    let again = |id| {
        while hooks.load(SeqCst) < HOOKS {
            work(&arena, id);
        }
    };
    let again = &again;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                arena.hooked_for_a_moment();
                hooks.fetch_add(1, SeqCst);
                std::thread::yield_now();
            }
        });
        let threads: Vec<_> = (0..4).map(|id| scope.spawn(move || again(id))).collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, SeqCst);
        assert!(ended.iter().all(Result::is_ok), "a thread failed");
    });
}

fn pair(kind: c_int) -> [c_int; 2] {
    let mut pair = [0; 2];
    // SAFETY: room for two.
    assert_eq!(unsafe { socketpair(AF_UNIX, kind, 0, pair.as_mut_ptr()) }, 0);
    pair
}

#[test]
fn every_datagram_arrives_whole() {
    hooked_meanwhile(|arena, id| {
        let (sockets, at) = (pair(SOCK_DGRAM), arena.buffer(6000, 0xA5, Place::Border));
        for round in 0..ROUNDS {
            let sent = vec![(round * 5 + id) as u8; 100 + (round as usize * 37) % 5000];
            // SAFETY: the buffers have as many bytes.
            unsafe {
                assert_eq!(
                    send(sockets[0], sent.as_ptr().cast(), sent.len(), 0),
                    sent.len() as isize
                );
                let got = recv(sockets[1], at.cast(), 6000, 0);
                assert!(got == sent.len() as isize, "{got}, {}", errno());
                assert_eq!(std::slice::from_raw_parts(at, sent.len()), sent);
            }
        }
        // SAFETY: open descriptors.
        sockets.iter().for_each(|socket| assert_eq!(unsafe { close(*socket) }, 0));
    });
}

#[test]
fn every_byte_of_a_stream_arrives_in_its_order() {
    hooked_meanwhile(|arena, _| {
        let (sockets, at) = (pair(SOCK_STREAM), arena.buffer(3000, 0, Place::Absent));
        let total = 2_000_000_usize;
        let byte = |i: usize| (i * 13 % 251) as u8;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let all: Vec<u8> = (0..total).map(byte).collect();
                let mut sent = 0;
                while sent < total {
                    let rest = &all[sent..];
                    // SAFETY: the buffer has as many bytes.
                    let done = unsafe { send(sockets[0], rest.as_ptr().cast(), rest.len(), 0) };
                    assert!(done > 0, "{}", errno());
                    sent += done as usize;
                }
            });
            let mut got = 0;
            while got < total {
                // SAFETY: the buffer has 3000 bytes.
                let bytes = unsafe {
                    let done = read(sockets[1], at.cast(), 1 + got * 7 % 3000);
                    assert!(done > 0, "{}", errno());
                    std::slice::from_raw_parts(at, done as usize)
                };
                assert!(bytes.iter().zip(got..).all(|(found, i)| *found == byte(i)), "at {got}");
                got += bytes.len();
            }
        });
        // SAFETY: open descriptors.
        sockets.iter().for_each(|socket| assert_eq!(unsafe { close(*socket) }, 0));
    });
}

#[test]
fn files_are_read_whole() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = (0..900_000_u32).map(|i| (i * 31 % 253) as u8).collect();
    std::fs::write(file.path(), &bytes).unwrap();
    hooked_meanwhile(|arena, id| {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open(file.path()).unwrap();
        let at = arena.buffer(900_000, 0xA5, Place::Half);
        for round in 0..40_usize {
            let from = round * 11 + id as usize;
            // SAFETY: the buffer has so many bytes.
            let got = unsafe {
                let done = pread(file.as_raw_fd(), at.cast(), 900_000, from as off_t);
                assert_eq!(done, 900_000 - from as isize, "never short");
                std::slice::from_raw_parts(at, done as usize)
            };
            assert!(got == &bytes[from..], "round {round}");
        }
    });
}
