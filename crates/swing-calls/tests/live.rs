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

/// Threads that share a descriptor share its place in the file: each read takes the next record.
#[test]
fn records_of_a_shared_descriptor_come_whole() {
    use std::os::fd::AsRawFd;
    const RECORDS: usize = 60;
    let file = tempfile::NamedTempFile::new().unwrap();
    for len in [300_000, 1_500_000_usize] {
        let bytes: Vec<u8> = (0..len * RECORDS).map(|i| (i / len) as u8).collect();
        std::fs::write(file.path(), &bytes).unwrap();
        let arena = Arena::new();
        for in_two in [false, true] {
            let file = std::fs::File::open(file.path()).unwrap();
            let next = |at: *mut u8| {
                let part =
                    |from, len| iovec { iov_base: at.wrapping_add(from).cast(), iov_len: len };
                let parts = [part(0, 1000), part(1000, len - 1000)];
                // SAFETY: the buffer has so many bytes.
                unsafe {
                    match in_two {
                        true => readv(file.as_raw_fd(), parts.as_ptr(), 2),
                        false => read(file.as_raw_fd(), at.cast(), len),
                    }
                }
            };
            let all = || {
                let at = arena.buffer(len, 0xA5, Place::Half);
                let mut records = Vec::new();
                while next(at) == len as isize {
                    // SAFETY: the buffer has so many bytes.
                    let record = unsafe { std::slice::from_raw_parts(at, len) };
                    assert!(record.iter().all(|byte| *byte == record[0]), "parts of two records");
                    records.push(record[0]);
                }
                records
            };
            let mut records: Vec<u8> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(all)).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            records.sort_unstable();
            assert!(records.into_iter().eq(0..RECORDS as u8), "each comes once");
        }
    }
}

/// What a program gives up while it waits, as an event loop does in a handler, stays given up.
#[test]
fn a_poll_stores_nothing_but_events() {
    let (arena, sockets) = (Arena::new(), pair(SOCK_STREAM));
    for count in [2, 500_usize] {
        let at = arena.buffer(count * size_of::<pollfd>(), 0, Place::Absent).cast::<pollfd>();
        for i in 0..count {
            let fd = if i == 0 { sockets[1] } else { sockets[0] };
            let one = pollfd { fd, events: POLLIN, revents: 0 };
            // SAFETY: the buffer has so many.
            unsafe { at.wrapping_add(i).write_unaligned(one) };
        }
        let address = at as usize;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(100));
                let second = (address as *mut pollfd).wrapping_add(1);
                let given_up = pollfd { fd: -1, events: POLLOUT, revents: 0 };
                // SAFETY: the second one, and a byte for the other end.
                unsafe {
                    second.write_unaligned(given_up);
                    assert_eq!(send(sockets[0], b"x".as_ptr().cast(), 1, 0), 1);
                }
            });
            // SAFETY: so many.
            assert_eq!(unsafe { poll(at, count as nfds_t, 5000) }, 1);
        });
        // SAFETY: as above.
        let (first, second) = unsafe { (at.read_unaligned(), at.wrapping_add(1).read_unaligned()) };
        assert_eq!((first.fd, first.revents), (sockets[1], POLLIN));
        assert_eq!((second.fd, second.events, second.revents), (-1, POLLOUT, 0));
        let mut byte = 0_u8;
        // SAFETY: room for one.
        assert_eq!(unsafe { recv(sockets[1], (&raw mut byte).cast(), 1, 0) }, 1);
    }
    // SAFETY: open descriptors.
    sockets.iter().for_each(|socket| assert_eq!(unsafe { close(*socket) }, 0));
}
