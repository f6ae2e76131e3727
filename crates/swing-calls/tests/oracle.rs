//! Calls whose results lie in an area that others have hooked do what they do with ordinary memory:
//! the same result, the same `errno`, the same bytes, also for bad arguments.

mod common;

use common::{Arena, Place, errno, kernel, same, same_as};
use libc::*;
use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null_mut;

fn ends() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    (reader.into(), writer.into())
}

/// A pipe that holds these bytes and whose writer is gone.
fn holding(bytes: &[u8]) -> OwnedFd {
    let (reader, writer) = ends();
    std::fs::File::from(writer).write_all(bytes).unwrap();
    reader
}

fn closed_all(ends: [c_int; 2]) {
    // SAFETY: open descriptors that nobody else closes.
    ends.into_iter().for_each(|end| assert_eq!(unsafe { close(end) }, 0));
}

fn path(of: &std::path::Path) -> CString {
    CString::new(of.to_str().unwrap()).unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 251) as u8 + 1).collect()
}

#[test]
fn the_kernel_alone_would_refuse() {
    let arena = Arena::new();
    let bytes = pattern(100);
    let pipe = holding(&bytes);
    let at = arena.buffer(100, 7, Place::Frozen);
    let refused = kernel(SYS_read, pipe.as_raw_fd() as usize, at.addr(), 100);
    assert_eq!(refused, i64::from(-EFAULT));
    // SAFETY: the buffer has 100 bytes.
    unsafe {
        assert_eq!(read(pipe.as_raw_fd(), at.cast(), 100), 100);
        assert_eq!(std::slice::from_raw_parts(at, 100), bytes);
    }
}

#[test]
fn data_of_files_and_pipes() {
    let arena = Arena::new();
    let folder = tempfile::tempdir().unwrap();
    let (name, link) = (folder.path().join("file"), folder.path().join("link"));
    let bytes = pattern(3 << 20);
    std::fs::write(&name, &bytes).unwrap();
    std::os::unix::fs::symlink("where it leads", &link).unwrap();
    let file = std::fs::File::open(&name).unwrap();
    let fd = file.as_raw_fd();
    let link = path(&link);
    // SAFETY: each call gets a buffer of the length it is told, unless it must be refused.
    unsafe {
        for len in [0, 1, 99, 4096, 70_000, 200_000] {
            same(&arena, "read of a pipe", len, |at| {
                read(holding(&bytes[..50]).as_raw_fd(), at.cast(), len) as i64
            });
            same(&arena, "read of a file", len, |at| {
                lseek(fd, 77, SEEK_SET);
                let done = read(fd, at.cast(), len) as i64;
                assert_eq!(lseek(fd, 0, SEEK_CUR), 77 + done);
                done
            });
            same(&arena, "pread", len, |at| pread(fd, at.cast(), len, 5) as i64);
            same(&arena, "pread64 at the end", len, |at| {
                pread64(fd, at.cast(), len, (3 << 20) - 40) as i64
            });
            same(&arena, "readlink", len, |at| readlink(link.as_ptr(), at.cast(), len) as i64);
            same(&arena, "getcwd", len, |at| i64::from(!getcwd(at.cast(), len).is_null()) - 1);
        }
        same(&arena, "a long read", 2 << 20, |at| pread(fd, at.cast(), 2 << 20, 9) as i64);
        same(&arena, "readlinkat", 20, |at| {
            readlinkat(AT_FDCWD, link.as_ptr(), at.cast(), 20) as i64
        });
        let random = |len: usize| {
            move |result: i64, bytes: &[u8]| {
                // Never stored, or all of it: 64 random bytes are not all alike.
                (result, vec![u8::from(bytes[..len.min(64)].windows(2).any(|w| w[0] != w[1]))])
            }
        };
        same_as(&arena, "getrandom", 300, |at| getrandom(at.cast(), 300, 0) as i64, random(300));
        same_as(&arena, "getentropy", 64, |at| getentropy(at.cast(), 64).into(), random(64));
        same(&arena, "getentropy of too much", 300, |at| getentropy(at.cast(), 300).into());
    }
}

#[test]
fn bad_arguments_fail_as_elsewhere() {
    let arena = Arena::new();
    let folder = tempfile::tempdir().unwrap();
    let (here, missing) = (path(folder.path()), path(&folder.path().join("missing")));
    let closed = {
        let (reader, _) = ends();
        reader.as_raw_fd() + 1000
    };
    // SAFETY: the buffers are as long as is said; what is not must be refused.
    unsafe {
        same(&arena, "a closed descriptor", 9, |at| read(closed, at.cast(), 9) as i64);
        same(&arena, "a folder", 9, |at| {
            let folder = open(here.as_ptr(), O_RDONLY);
            let result = read(folder, at.cast(), 9) as i64;
            let code = errno();
            close(folder);
            *__errno_location() = code;
            result
        });
        same(&arena, "a negative place", 9, |at| {
            pread(holding(b"x").as_raw_fd(), at.cast(), 9, -1) as i64
        });
        same(&arena, "no link", 9, |at| readlink(here.as_ptr(), at.cast(), 9) as i64);
        same(&arena, "no file", 144, |at| stat(missing.as_ptr(), at.cast()).into());
        same(&arena, "no socket", 9, |at| recv(holding(b"x").as_raw_fd(), at.cast(), 9, 0) as i64);
        same(&arena, "no child", 4, |at| waitpid(1, at.cast(), 0).into());
        same(&arena, "no clock", 16, |at| clock_gettime(12345, at.cast()).into());
        same(&arena, "too many vectors", 16, |at| {
            readv(holding(b"x").as_raw_fd(), at.cast(), 5000) as i64
        });
        // Nowhere, and nothing is taken from the pipe.
        let pipe = holding(b"kept");
        let mut rest = [0_u8; 10];
        for bad in [null_mut(), 8 as *mut c_void, (1_usize << 62) as *mut c_void] {
            assert_eq!((read(pipe.as_raw_fd(), bad, 4), errno()), (-1, EFAULT));
        }
        assert_eq!(read(pipe.as_raw_fd(), rest.as_mut_ptr().cast(), 10), 4);
    }
}

#[test]
fn lists_of_buffers() {
    let arena = Arena::new();
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("file");
    let bytes = pattern(100_000);
    std::fs::write(&name, &bytes).unwrap();
    let file = std::fs::File::open(&name).unwrap();
    let fd = file.as_raw_fd();
    let mut between = [0_u8; 100];
    // The buffer in pieces, the third of them elsewhere.
    let mut pieces = |at: *mut u8, len: usize| {
        let piece = |from: usize, to: usize| iovec {
            iov_base: at.wrapping_add(from).cast(),
            iov_len: to - from,
        };
        let other = iovec { iov_base: between.as_mut_ptr().cast(), iov_len: 100 };
        [piece(0, 10), piece(10, len / 2), other, piece(len / 2, len / 2), piece(len / 2, len)]
    };
    // SAFETY: the lists lead to buffers of the lengths they say.
    unsafe {
        for len in [40, 5000, 90_000] {
            same(&arena, "readv of a pipe", len, |at| {
                let pipe = holding(&bytes[..3000]);
                readv(pipe.as_raw_fd(), pieces(at, len).as_ptr(), 5) as i64
            });
            same(&arena, "readv", len, |at| {
                lseek(fd, 0, SEEK_SET);
                readv(fd, pieces(at, len).as_ptr(), 5) as i64
            });
            same(&arena, "preadv", len, |at| preadv(fd, pieces(at, len).as_ptr(), 5, 30) as i64);
            same(&arena, "process_vm_readv", len, |at| {
                let from = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: len };
                process_vm_readv(getpid(), pieces(at, len).as_ptr(), 5, &raw const from, 1, 0)
                    as i64
            });
            same(&arena, "recvmsg", len, |at| {
                let mut sockets = [0; 2];
                assert_eq!(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets.as_mut_ptr()), 0);
                assert_eq!(send(sockets[0], bytes.as_ptr().cast(), 4000, 0), 4000);
                let mut list = pieces(at, len);
                let mut message: msghdr = std::mem::zeroed();
                (message.msg_iov, message.msg_iovlen) = (list.as_mut_ptr(), 5);
                let result = recvmsg(sockets[1], &raw mut message, 0) as i64;
                assert_eq!(message.msg_flags & MSG_TRUNC != 0, len + 100 < 4000);
                closed_all(sockets);
                result
            });
        }
    }
}

#[test]
fn what_the_kernel_knows() {
    let arena = Arena::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    let (name, fd) = (path(file.path()), file.as_raw_fd());
    let (long, short) = (size_of::<stat>(), size_of::<statfs>());
    // SAFETY: each structure has the length of its type.
    unsafe {
        same(&arena, "stat", long, |at| stat(name.as_ptr(), at.cast()).into());
        same(&arena, "lstat", long, |at| lstat(name.as_ptr(), at.cast()).into());
        same(&arena, "fstat", long, |at| fstat(fd, at.cast()).into());
        same(&arena, "fstatat", long, |at| fstatat(AT_FDCWD, name.as_ptr(), at.cast(), 0).into());
        same(&arena, "statx", size_of::<statx>(), |at| {
            libc::statx(AT_FDCWD, name.as_ptr(), 0, STATX_BASIC_STATS, at.cast()).into()
        });
        let blocks = |result: i64, bytes: &[u8]| (result, bytes[..16].to_vec());
        same_as(&arena, "statfs", short, |at| statfs(name.as_ptr(), at.cast()).into(), blocks);
        same_as(&arena, "fstatfs", short, |at| fstatfs(fd, at.cast()).into(), blocks);
        same(&arena, "getrlimit", 16, |at| getrlimit(RLIMIT_NOFILE, at.cast()).into());
        same(&arena, "prlimit", 16, |at| {
            prlimit(0, RLIMIT_STACK, std::ptr::null(), at.cast()).into()
        });
        same(&arena, "getresuid", 12, |at| {
            getresuid(at.cast(), at.add(4).cast(), at.add(8).cast()).into()
        });
        same(&arena, "uname", size_of::<utsname>(), |at| uname(at.cast()).into());
        same(&arena, "getgroups", 400, |at| getgroups(100, at.cast()).into());
        same(&arena, "sched_getaffinity", 128, |at| sched_getaffinity(0, 128, at.cast()).into());
        same(&arena, "pthread_getaffinity_np", 128, |at| {
            pthread_getaffinity_np(pthread_self(), 128, at.cast()).into()
        });
        let event = eventfd(1 << 20, EFD_SEMAPHORE | EFD_NONBLOCK);
        same(&arena, "eventfd_read", 8, |at| eventfd_read(event, at.cast()).into());
        same(&arena, "sched_getparam", 4, |at| sched_getparam(0, at.cast()).into());
        same(&arena, "pthread_getname_np", 16, |at| {
            pthread_getname_np(pthread_self(), at.cast(), 16).into()
        });
        same(&arena, "prctl", 16, |at| prctl(PR_GET_NAME, at).into());
        same(&arena, "clock_getres", 16, |at| clock_getres(CLOCK_MONOTONIC, at.cast()).into());
        same(&arena, "getitimer", 32, |at| getitimer(ITIMER_PROF, at.cast()).into());
        same(&arena, "sigpending", 128, |at| sigpending(at.cast()).into());
        let first = |result: i64, bytes: &[u8]| (result, vec![u8::from(bytes[..8] > [0; 8][..])]);
        same_as(
            &arena,
            "times",
            32,
            |at| (times(at.cast()) > 0).into(),
            |result, _| (result, Vec::new()),
        );
        same_as(
            &arena,
            "clock_gettime",
            16,
            |at| {
                let result = clock_gettime(CLOCK_REALTIME, at.cast());
                assert!(at.cast::<i64>().read_unaligned() > 1_600_000_000);
                result.into()
            },
            first,
        );
        same_as(
            &arena,
            "gettimeofday",
            16,
            |at| {
                let result = gettimeofday(at.cast(), null_mut());
                assert!(at.cast::<i64>().read_unaligned() > 1_600_000_000);
                result.into()
            },
            first,
        );
        same_as(
            &arena,
            "getrusage",
            size_of::<rusage>(),
            |at| getrusage(RUSAGE_SELF, at.cast()).into(),
            |result, _| (result, Vec::new()),
        );
        same_as(
            &arena,
            "pipe",
            8,
            |at| {
                let result = pipe(at.cast());
                let ends: [c_int; 2] = at.cast::<[c_int; 2]>().read_unaligned();
                closed_all(ends);
                result.into()
            },
            |result, _| (result, Vec::new()),
        );
        same(&arena, "ioctl", 4, |at| ioctl(holding(b"four").as_raw_fd(), FIONREAD, at).into());
        same(&arena, "fcntl", size_of::<flock>(), |at| {
            let mut lock: flock = std::mem::zeroed();
            (lock.l_type, lock.l_len) = (F_WRLCK as c_short, 5);
            at.cast::<flock>().write_unaligned(lock);
            fcntl(fd, F_GETLK, at).into()
        });
    }
}

#[test]
fn sockets_and_waiting() {
    let arena = Arena::new();
    let folder = tempfile::tempdir().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
    let bytes = pattern(5000);
    // SAFETY: the buffers and structures are as long as is said.
    unsafe {
        same(&arena, "recv", 3000, |at| {
            let mut pair = [0; 2];
            assert_eq!(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair.as_mut_ptr()), 0);
            assert_eq!(send(pair[0], bytes.as_ptr().cast(), 5000, 0), 5000);
            let result = recv(pair[1], at.cast(), 3000, MSG_TRUNC) as i64;
            closed_all(pair);
            result
        });
        same(&arena, "getsockname", 128, |at| {
            at.cast::<socklen_t>().write_unaligned(100);
            getsockname(listener.as_raw_fd(), at.add(8).cast(), at.cast()).into()
        });
        same(&arena, "getsockopt", 8, |at| {
            at.cast::<socklen_t>().write_unaligned(4);
            let option = (SOL_SOCKET, SO_TYPE);
            getsockopt(listener.as_raw_fd(), option.0, option.1, at.add(4).cast(), at.cast()).into()
        });
        same_as(
            &arena,
            "accept",
            128,
            |at| {
                let _client =
                    std::os::unix::net::UnixStream::connect(folder.path().join("s")).unwrap();
                at.cast::<socklen_t>().write_unaligned(100);
                let accepted = accept(listener.as_raw_fd(), at.add(8).cast(), at.cast());
                assert_eq!(close(accepted), 0);
                0
            },
            |result, bytes| (result, bytes.to_vec()),
        );
        same(&arena, "poll", 16, |at| {
            let pipes = [holding(b"x"), ends().0];
            let polls = pipes.each_ref().map(|pipe| pollfd {
                fd: pipe.as_raw_fd(),
                events: POLLIN,
                revents: 0,
            });
            at.cast::<[pollfd; 2]>().write_unaligned(polls);
            let result = poll(at.cast(), 2, 0);
            // The numbers of descriptors are others each time.
            (0..2).for_each(|i| at.add(8 * i).cast::<c_int>().write_unaligned(0));
            result.into()
        });
        same_as(
            &arena,
            "select",
            128,
            |at| {
                let pipe = holding(b"x");
                let set = at.cast::<fd_set>();
                at.write_bytes(0, 128);
                FD_SET(pipe.as_raw_fd(), set);
                let mut none = timeval { tv_sec: 0, tv_usec: 0 };
                let most = pipe.as_raw_fd() + 1;
                let result = select(most, set, null_mut(), null_mut(), &raw mut none);
                assert!(FD_ISSET(pipe.as_raw_fd(), set));
                result.into()
            },
            |result, _| (result, Vec::new()),
        );
        same(&arena, "epoll_wait", 12 * 4, |at| {
            let epoll = epoll_create1(0);
            let pipe = holding(b"x");
            let mut event = epoll_event { events: EPOLLIN as u32, u64: 77 };
            assert_eq!(epoll_ctl(epoll, EPOLL_CTL_ADD, pipe.as_raw_fd(), &raw mut event), 0);
            let result = epoll_wait(epoll, at.cast(), 4, 1000);
            close(epoll);
            result.into()
        });
        same_as(
            &arena,
            "waitpid",
            4,
            |at| {
                let child = fork();
                if child == 0 {
                    _exit(7);
                }
                i64::from(waitpid(child, at.cast(), 0) == child)
            },
            |result, bytes| (result, bytes.to_vec()),
        );
    }
}

#[test]
fn what_was_never_stored_to_is_sent_as_zeros() {
    let arena = Arena::new();
    let len = 150_000;
    let at = arena.buffer(len, 0, Place::Absent);
    let file = tempfile::tempfile().unwrap();
    let fd = file.as_raw_fd();
    let vector = iovec { iov_base: at.wrapping_add(70_000).cast(), iov_len: 9000 };
    // SAFETY: the buffer has so many bytes.
    unsafe {
        assert_eq!(write(fd, at.cast(), len), len as isize);
        assert_eq!(pwrite(fd, at.wrapping_add(len / 2).cast(), 100, 0), 100);
        assert_eq!(writev(fd, &raw const vector, 1), 9000);
        let mut sockets = [0; 2];
        assert_eq!(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets.as_mut_ptr()), 0);
        let other = arena.buffer(3000, 0, Place::Absent);
        assert_eq!(send(sockets[0], other.cast(), 3000, 0), 3000);
        let mut got = [9_u8; 4000];
        assert_eq!(recv(sockets[1], got.as_mut_ptr().cast(), 4000, 0), 3000);
        assert!(got[..3000].iter().all(|byte| *byte == 0));
        closed_all(sockets);
    }
    let written = file.metadata().unwrap().len();
    assert_eq!(written, len as u64 + 9000);
}

#[test]
fn streams() {
    let arena = Arena::new();
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("file");
    let bytes = pattern(300_000);
    std::fs::write(&name, &bytes).unwrap();
    let name = path(&name);
    // SAFETY: an open stream, and buffers as long as is said.
    unsafe {
        for (size, count) in [(1, 10), (7, 100), (4096, 40), (1, 250_000), (0, 5), (5, 0)] {
            same(&arena, "fread", size * count, |at| {
                let stream = fopen(name.as_ptr(), c"r".as_ptr());
                assert_eq!(fseek(stream, 33, SEEK_SET), 0);
                let items = fread(at.cast(), size, count, stream) as i64;
                assert_eq!(ftell(stream), 33 + items * size as i64);
                fclose(stream);
                items
            });
        }
    }
}
