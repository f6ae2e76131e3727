//! As oracle.rs, of calls that few programs make: lists of messages, queues, offsets, waits with
//! masks, what compilers put in place of a call, system calls by number.

mod common;

use common::{Arena, Place, errno, same, same_as};
use libc::*;
use std::ffi::CString;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{null, null_mut};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 251) as u8 + 1).collect()
}

fn file(bytes: &[u8]) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn sockets(kind: c_int) -> [OwnedFd; 2] {
    let mut pair = [0; 2];
    // SAFETY: room for two, which nobody else closes.
    unsafe {
        assert_eq!(socketpair(AF_UNIX, kind, 0, pair.as_mut_ptr()), 0);
        pair.map(|end| OwnedFd::from_raw_fd(end))
    }
}

/// The result, and nothing of the buffer.
fn only(result: i64, _: &[u8]) -> (i64, Vec<u8>) {
    (result, Vec::new())
}

static NOW: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// Three messages whose heads, vectors and data all lie in the buffer: `lengths` of their data.
unsafe fn three(at: *mut u8, lengths: [usize; 3]) -> *mut mmsghdr {
    let (heads, vectors) = (size_of::<mmsghdr>(), size_of::<iovec>());
    let mut data = 3 * (heads + vectors);
    for (i, length) in lengths.into_iter().enumerate() {
        // SAFETY: the caller's buffer is long enough.
        unsafe {
            let vector = at.add(3 * heads + i * vectors).cast::<iovec>();
            vector.write_unaligned(iovec { iov_base: at.add(data).cast(), iov_len: length });
            let mut message: mmsghdr = std::mem::zeroed();
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (vector, 1);
            at.cast::<mmsghdr>().add(i).write_unaligned(message);
        }
        data += length;
    }
    at.cast()
}

#[test]
fn lists_of_messages() {
    let arena = Arena::new();
    let (bytes, room) = (pattern(9000), 12_000);
    let heads = 3 * (size_of::<mmsghdr>() + size_of::<iovec>());
    // What points elsewhere is another address each time.
    let data = |result: i64, all: &[u8]| (result, all[heads..].to_vec());
    // SAFETY: buffers and lists as long as they say, at multiples of eight.
    unsafe {
        same_as(
            &arena,
            "recvmmsg",
            room,
            |at| {
                let at = at.add(at.align_offset(8));
                let pair = sockets(SOCK_DGRAM);
                for length in [3000, 500, 4000] {
                    assert_eq!(
                        send(pair[0].as_raw_fd(), bytes.as_ptr().cast(), length, 0),
                        length as isize
                    );
                }
                let list = three(at, [2000, 1000, 5000]);
                let got = recvmmsg(pair[1].as_raw_fd(), list, 3, MSG_DONTWAIT, null_mut());
                let lengths = [0, 1, 2].map(|i| (*list.add(i)).msg_len);
                assert_eq!((got, lengths), (3, [2000, 500, 4000]));
                assert_ne!((*list).msg_hdr.msg_flags & MSG_TRUNC, 0);
                got.into()
            },
            |result, _| (result, Vec::new()),
        );
        same_as(
            &arena,
            "recvmmsg of nothing",
            room,
            |at| {
                let at = at.add(at.align_offset(8));
                let pair = sockets(SOCK_DGRAM);
                recvmmsg(pair[1].as_raw_fd(), three(at, [9, 9, 9]), 3, MSG_DONTWAIT, null_mut())
                    .into()
            },
            only,
        );
        same_as(
            &arena,
            "sendmmsg",
            room,
            |at| {
                let at = at.add(at.align_offset(8));
                let pair = sockets(SOCK_DGRAM);
                let list = three(at, [100, 2000, 3]);
                at.add(heads).copy_from_nonoverlapping(bytes.as_ptr(), 2103);
                let sent = sendmmsg(pair[0].as_raw_fd(), list, 3, 0);
                let mut got = [0; 3000];
                let mut from = 0;
                for length in [100, 2000, 3] {
                    let done = recv(pair[1].as_raw_fd(), got.as_mut_ptr().cast(), 3000, 0);
                    assert_eq!(done, length as isize);
                    assert_eq!(got[..length], bytes[from..from + length]);
                    from += length;
                }
                sent.into()
            },
            |result, all| (data(result, all).0, Vec::new()),
        );
    }
}

#[test]
fn queues_of_messages() {
    let arena = Arena::new();
    let bytes = pattern(600);
    // SAFETY: buffers as long as they say; what is sent begins with its kind.
    unsafe {
        let queue = msgget(IPC_PRIVATE, 0o600 | IPC_CREAT);
        if queue < 0 {
            println!("no queues here: not tested");
            return;
        }
        let mut sent = vec![0_u8; 608];
        sent[..8].copy_from_slice(&3_i64.to_ne_bytes());
        sent[8..].copy_from_slice(&bytes);
        for (room, flags) in [(700, 0), (100, MSG_NOERROR), (100, 0), (600, MSG_NOERROR)] {
            same(&arena, "msgrcv", room + 8, |at| {
                assert_eq!(msgsnd(queue, sent.as_ptr().cast(), 600, 0), 0);
                let got = msgrcv(queue, at.cast(), room, 0, flags | IPC_NOWAIT) as i64;
                let code = errno();
                let mut rest = [0_u8; 700];
                msgrcv(queue, rest.as_mut_ptr().cast(), 690, 0, IPC_NOWAIT);
                *__errno_location() = code;
                got
            });
        }
        same_as(
            &arena,
            "msgctl",
            size_of::<msqid_ds>(),
            |at| msgctl(queue, IPC_STAT, at.cast()).into(),
            only,
        );
        // From memory that is not there yet: a message of kind 0 is refused.
        let absent = arena.buffer(100, 0, Place::Absent);
        assert_eq!((msgsnd(queue, absent.cast(), 50, IPC_NOWAIT), errno()), (-1, EINVAL));
        assert_eq!(msgctl(queue, IPC_RMID, null_mut()), 0);
    }
    posix_queue(&arena, &bytes[..64]);
}

fn posix_queue(arena: &Arena, bytes: &[u8]) {
    let name = CString::new(format!("/swing-calls-{}", std::process::id())).unwrap();
    // SAFETY: buffers as long as they say.
    unsafe {
        let mut kind: mq_attr = std::mem::zeroed();
        (kind.mq_maxmsg, kind.mq_msgsize) = (4, 64);
        let queue = mq_open(name.as_ptr(), O_RDWR | O_CREAT | O_EXCL, 0o600, &raw mut kind);
        if queue < 0 {
            println!("no POSIX queues here: not tested");
            return;
        }
        assert_eq!(mq_unlink(name.as_ptr()), 0);
        same(arena, "mq_receive", 72, |at| {
            assert_eq!(mq_send(queue, bytes.as_ptr().cast(), 50, 7), 0);
            mq_receive(queue, at.cast(), 64, at.add(64).cast()) as i64
        });
        same(arena, "mq_timedreceive", 72, |at| {
            mq_timedreceive(queue, at.cast(), 64, at.add(64).cast(), &raw const NOW) as i64
        });
        assert_eq!(mq_send(queue, arena.buffer(64, 0, Place::Absent).cast(), 64, 1), 0);
        assert_eq!(mq_close(queue), 0);
    }
}

#[test]
fn offsets_move_on() {
    let arena = Arena::new();
    let bytes = pattern(70_000);
    let from = file(&bytes);
    // SAFETY: offsets are numbers in the buffer.
    unsafe {
        for start in [0, 1000, 69_990, 80_000, -1] {
            let begin = |at: *mut u8| at.cast::<i64>().write_unaligned(start);
            same(&arena, "sendfile", 8, |at| {
                begin(at);
                sendfile(file(b"").as_raw_fd(), from.as_raw_fd(), at.cast(), 50) as i64
            });
            same(&arena, "copy_file_range", 8, |at| {
                begin(at);
                let mut to = file(b"");
                let done = copy_file_range(
                    from.as_raw_fd(),
                    at.cast(),
                    to.as_raw_fd(),
                    null_mut(),
                    2000,
                    0,
                ) as i64;
                let code = errno();
                let mut copied = Vec::new();
                to.seek(SeekFrom::Start(0)).unwrap();
                to.read_to_end(&mut copied).unwrap();
                assert_eq!(copied.len() as i64, done.max(0));
                *__errno_location() = code;
                done
            });
            same(&arena, "splice", 8, |at| {
                begin(at);
                let (_reader, writer) = std::io::pipe().unwrap();
                splice(
                    from.as_raw_fd(),
                    at.cast(),
                    writer.as_raw_fd(),
                    null_mut(),
                    300,
                    SPLICE_F_NONBLOCK,
                ) as i64
            });
        }
    }
}

#[test]
fn waits_with_masks_and_children() {
    let arena = Arena::new();
    let ready = || {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        reader
    };
    let child = |code: c_int| {
        // SAFETY: the child does nothing but end.
        unsafe {
            let child = fork();
            if child == 0 {
                _exit(code);
            }
            assert!(child > 0);
            child
        }
    };
    // SAFETY: structures as long as their types.
    unsafe {
        let mut mask: sigset_t = std::mem::zeroed();
        sigemptyset(&raw mut mask);
        same(&arena, "ppoll", 8, |at| {
            let pipe = ready();
            let one = pollfd { fd: pipe.as_raw_fd(), events: POLLIN, revents: 77 };
            at.cast::<pollfd>().write_unaligned(one);
            let result = ppoll(at.cast(), 1, &raw const NOW, &raw const mask);
            at.cast::<c_int>().write_unaligned(0);
            result.into()
        });
        same_as(
            &arena,
            "pselect",
            128,
            |at| {
                let pipe = ready();
                at.write_bytes(0, 128);
                FD_SET(pipe.as_raw_fd(), at.cast());
                let most = pipe.as_raw_fd() + 1;
                let result = pselect(
                    most,
                    at.cast(),
                    null_mut(),
                    null_mut(),
                    &raw const NOW,
                    &raw const mask,
                );
                assert!(FD_ISSET(pipe.as_raw_fd(), at.cast()));
                result.into()
            },
            only,
        );
        same(&arena, "epoll_pwait", 12 * 8, |at| {
            let (epoll, pipe) = (OwnedFd::from_raw_fd(epoll_create1(0)), ready());
            let mut event = epoll_event { events: EPOLLIN as u32, u64: 1 << 40 };
            let add = (epoll.as_raw_fd(), EPOLL_CTL_ADD, pipe.as_raw_fd());
            assert_eq!(epoll_ctl(add.0, add.1, add.2, &raw mut event), 0);
            epoll_pwait(epoll.as_raw_fd(), at.cast(), 8, 0, &raw const mask).into()
        });
        let ended = |result: i64, all: &[u8]| (result, all[..4].to_vec());
        let usage = 8 + size_of::<rusage>();
        same_as(
            &arena,
            "wait4",
            usage,
            |at| {
                let pid = child(9);
                i64::from(wait4(pid, at.cast(), 0, at.add(8).cast()) == pid)
            },
            ended,
        );
        same_as(
            &arena,
            "waitid",
            size_of::<siginfo_t>(),
            |at| {
                let pid = child(5);
                let result = waitid(P_PID, pid as id_t, at.cast(), WEXITED);
                assert_eq!(at.cast::<siginfo_t>().read_unaligned().si_status(), 5);
                result.into()
            },
            ended,
        );
        same(&arena, "no child", 16, |at| wait4(1, at.cast(), 0, null_mut()).into());
    }
}

#[test]
fn waits_for_signals() {
    let arena = Arena::new();
    // SAFETY: structures as long as their types.
    unsafe {
        let mut awaited: sigset_t = std::mem::zeroed();
        sigemptyset(&raw mut awaited);
        sigaddset(&raw mut awaited, SIGRTMIN() + 3);
        same(&arena, "sigtimedwait of none", size_of::<siginfo_t>(), |at| {
            sigtimedwait(&raw const awaited, at.cast(), &raw const NOW).into()
        });
        assert_eq!(pthread_sigmask(SIG_BLOCK, &raw const awaited, null_mut()), 0);
        same_as(
            &arena,
            "sigtimedwait",
            size_of::<siginfo_t>(),
            |at| {
                assert_eq!(pthread_kill(pthread_self(), SIGRTMIN() + 3), 0);
                sigtimedwait(&raw const awaited, at.cast(), &raw const NOW).into()
            },
            |result, all| (result, all[..12].to_vec()),
        );
    }
}

#[test]
fn timers() {
    let arena = Arena::new();
    let hour = itimerspec {
        it_interval: timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: timespec { tv_sec: 3600, tv_nsec: 0 },
    };
    // SAFETY: structures as long as their types.
    unsafe {
        let timer = OwnedFd::from_raw_fd(timerfd_create(CLOCK_MONOTONIC, 0));
        let about = |result: i64, all: &[u8]| (result, vec![u8::from(all[16..24] > [0; 8][..])]);
        same(&arena, "timerfd_settime", 32, |at| {
            let (none, fd) = (std::mem::zeroed::<itimerspec>(), timer.as_raw_fd());
            assert_eq!(timerfd_settime(fd, 0, &raw const none, null_mut()), 0);
            timerfd_settime(fd, 0, &raw const hour, at.cast()).into()
        });
        same_as(
            &arena,
            "timerfd_gettime",
            32,
            |at| timerfd_gettime(timer.as_raw_fd(), at.cast()).into(),
            about,
        );
        same(&arena, "setitimer", 32, |at| {
            let none = std::mem::zeroed::<itimerval>();
            setitimer(ITIMER_PROF, &raw const none, at.cast()).into()
        });
        same(&arena, "nanosleep of no time", 16, |at| {
            let bad = timespec { tv_sec: 0, tv_nsec: -1 };
            nanosleep(&raw const bad, at.cast()).into()
        });
        same(&arena, "clock_nanosleep", 16, |at| {
            clock_nanosleep(CLOCK_MONOTONIC, 0, &raw const NOW, at.cast()).into()
        });
    }
}

unsafe extern "C" {
    fn __read_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t;
    fn __recv_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t;
    fn __poll_chk(polls: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int;
    fn __fread_chk(
        to: *mut c_void,
        room: size_t,
        size: size_t,
        count: size_t,
        stream: *mut FILE,
    ) -> size_t;
    fn __getcwd_chk(to: *mut c_char, len: size_t, room: size_t) -> *mut c_char;
}

#[test]
fn what_compilers_put_in_place_of_calls() {
    let arena = Arena::new();
    let bytes = pattern(5000);
    let from = file(&bytes);
    // SAFETY: buffers as long as they say.
    unsafe {
        same(&arena, "__read_chk", 3000, |at| {
            lseek(from.as_raw_fd(), 40, SEEK_SET);
            __read_chk(from.as_raw_fd(), at.cast(), 2900, 3000) as i64
        });
        same(&arena, "__recv_chk", 3000, |at| {
            let pair = sockets(SOCK_STREAM);
            assert_eq!(send(pair[0].as_raw_fd(), bytes.as_ptr().cast(), 2000, 0), 2000);
            __recv_chk(pair[1].as_raw_fd(), at.cast(), 3000, 3000, 0) as i64
        });
        same(&arena, "__poll_chk", 16, |at| {
            let none = pollfd { fd: -1, events: POLLIN, revents: 5 };
            at.cast::<[pollfd; 2]>().write_unaligned([none; 2]);
            __poll_chk(at.cast(), 2, 0, 16).into()
        });
        same(&arena, "__fread_chk", 3000, |at| {
            let stream = fdopen(dup(from.as_raw_fd()), c"r".as_ptr());
            assert_eq!(fseek(stream, 9, SEEK_SET), 0);
            let items = __fread_chk(at.cast(), 3000, 3, 900, stream) as i64;
            fclose(stream);
            items
        });
        same_as(
            &arena,
            "__getcwd_chk",
            4096,
            |at| i64::from(__getcwd_chk(at.cast(), 4096, 4096) == at.cast()),
            |result, all| (result, all[..all.iter().position(|byte| *byte == 0).unwrap()].to_vec()),
        );
    }
}

#[test]
fn a_call_that_would_overflow_its_buffer_ends_the_process() {
    // SAFETY: the child makes one call, and ends by it.
    unsafe {
        let child = fork();
        if child == 0 {
            let none = rlimit { rlim_cur: 0, rlim_max: 0 };
            setrlimit(RLIMIT_CORE, &raw const none);
            dup2(open(c"/dev/null".as_ptr(), O_WRONLY), 2);
            let mut short = [0_u8; 10];
            __read_chk(0, short.as_mut_ptr().cast(), 11, 10);
            _exit(0);
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &raw mut status, 0), child);
        assert!(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "{status:#x}");
    }
}

#[test]
fn system_calls_by_number() {
    let arena = Arena::new();
    let bytes = pattern(9000);
    let from = file(&bytes);
    // SAFETY: buffers as long as they say.
    unsafe {
        // It ends where frozen memory begins, as any may that is not by name.
        same(&arena, "read by number", 8000, |at| {
            lseek(from.as_raw_fd(), 3, SEEK_SET);
            let mut done = 0;
            while done < 8000 {
                let got = syscall(SYS_read, from.as_raw_fd() as usize, at.add(done), 8000 - done);
                assert!(got > 0, "{}", errno());
                done += got as usize;
            }
            done as i64
        });
        same(&arena, "a closed descriptor by number", 100, |at| {
            syscall(SYS_read, 12_345_usize, at, 100_usize)
        });
        same(&arena, "nowhere by number", 1, |_| {
            syscall(SYS_read, from.as_raw_fd() as usize, null::<u8>(), 100_usize)
        });
        same_as(
            &arena,
            "getdents64 by number",
            9000,
            |at| {
                let folder = std::fs::File::open("/").unwrap();
                i64::from(syscall(SYS_getdents64, folder.as_raw_fd() as usize, at, 9000_usize) > 0)
            },
            only,
        );
    }
}
