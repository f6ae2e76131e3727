//! Which numbers this library's descriptors have, and what the program around it may do to them.
//! One test: numbers are the whole process's.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use swing::{AreaName, AreaOptions, ByteLen, Namespace, Publish, descriptors};

fn open_numbers() -> BTreeSet<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut numbers: BTreeSet<RawFd> = names.map(|name| name.parse().unwrap()).collect();
    // SAFETY: only asked about; the one of the listing itself is closed by now.
    numbers.retain(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0);
    numbers
}

/// An area with a published state, hooked live: descriptors of every kind.
fn use_all(namespace: &Namespace, name: &str, during: impl FnOnce()) {
    let name = AreaName::new(name).unwrap();
    let area = namespace.create(&name, &AreaOptions::with_reserve(ByteLen::mib(64))).unwrap();
    area.track().unwrap();
    // SAFETY: the area is tracked; nobody else stores.
    unsafe { area.base().as_ptr().write_volatile(1) };
    area.publish(Publish::Shared, b"").unwrap();
    area.allow_live_hooks(true).unwrap();
    let snapshot = namespace.hook_live(&name).unwrap();
    let derived = snapshot.derive(None).unwrap();
    during();
    drop((derived, snapshot, area));
    namespace.remove(&name).unwrap();
}

/// Closes a number as a library does that defines `close` for the program.
fn close(fd: RawFd) -> bool {
    // SAFETY: a number of the program's, which closes it, or one that is not open.
    descriptors::is_programs(fd) && unsafe { libc::close(fd) } == 0
}

/// Makes a pipe, sends something through, and closes each end twice.
fn send(round: u32) {
    let (mut from, mut to) = std::io::pipe().unwrap();
    let text = format!("round {round}");
    to.write_all(text.as_bytes()).unwrap();
    let (from_fd, to_fd) = (from.as_raw_fd(), to.as_raw_fd());
    std::mem::forget(to);
    assert!(close(to_fd), "its own");
    close(to_fd);
    let mut back = String::new();
    from.read_to_string(&mut back).unwrap();
    assert_eq!(back, text);
    std::mem::forget(from);
    assert!(close(from_fd), "its own");
    close(from_fd);
}

#[test]
fn the_librarys_numbers_are_not_the_programs() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = Namespace::open(dir.path()).unwrap();

    // A program without a standard input.
    let before = open_numbers();
    // SAFETY: standard input, which comes back below.
    let kept = unsafe {
        let kept = libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 100);
        libc::close(0);
        kept
    };
    use_all(&namespace, "first", || assert!(!open_numbers().contains(&0), "no standard one"));
    // SAFETY: as above.
    unsafe {
        libc::dup2(kept, 0);
        libc::close(kept);
    }

    descriptors::keep_apart();
    use_all(&namespace, "second", || {
        let new: Vec<_> = open_numbers().difference(&before).copied().collect();
        let least = *new.iter().find(|fd| !descriptors::is_programs(**fd)).unwrap();
        assert!(least > 100, "{new:?}");
        let own = new.iter().copied().filter(|fd| !descriptors::is_programs(*fd));
        let next = |from: &RawFd| descriptors::next_own(*from);
        // Here nobody tells of what is closed.
        let noted = std::iter::successors(next(&0), |fd| next(&(fd + 1)));
        let noted = noted.filter(|fd| new.contains(fd));
        assert_eq!(noted.collect::<Vec<_>>(), own.collect::<Vec<_>>());
        assert_eq!(descriptors::next_own(RawFd::MAX), None);
        assert_eq!(descriptors::unless_own(least, || ()), None);
        assert!(!close(least) && !close(-1) && !close(99) && !descriptors::is_programs(1 << 20));
        assert_eq!(descriptors::unless_own(99, || 7), Some(7));
        assert!(descriptors::is_programs(1));
    });

    // While the library opens and closes all the time.
    let (stop, used) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                use_all(&namespace, "third", || ());
                used.fetch_add(1, Ordering::Relaxed);
            }
        });
        let begun = Instant::now();
        for round in 0.. {
            send(round);
            let enough = round >= 2000 && used.load(Ordering::Relaxed) >= 20;
            if enough || begun.elapsed() > Duration::from_secs(60) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(used.load(Ordering::Relaxed) >= 20, "the library was at work");

    // A program that closes what is not its own, which nobody keeps from it here, waits for nobody.
    let name = AreaName::new("last").unwrap();
    let area = namespace.create(&name, &AreaOptions::with_reserve(ByteLen::mib(64))).unwrap();
    area.allow_live_hooks(true).unwrap();
    // SAFETY: numbers; the alarm ends a process that waits for ever.
    unsafe {
        libc::alarm(60);
        assert_eq!(libc::close_range(3, u32::MAX, 0), 0);
        drop(area);
        libc::alarm(0);
    }
    assert!(namespace.remove(&name).is_ok(), "its folder is opened again");
}
