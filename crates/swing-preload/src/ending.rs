//! What becomes of a heap when its program ends, and of those that killed programs left.
//!
//! A program that ends by `exit` takes its heap's folder away itself, as late as a library can. It
//! may still use the heap afterwards, in destructors of other libraries: so nothing of the memory
//! is given back, only its names go, and the memory goes with the last process that has it mapped.
//! Where somebody has the heap hooked, the folder is put aside under the name that an area has
//! which was removed ([`Namespace::gc`]), and goes with the last of them.
//!
//! A program that is killed, or ends by `_exit`, can do nothing. If nobody gave the heap a name,
//! the next program that starts with this library takes it away ([`sweep`]).
//!
//! **Concurrency.** Only the owner's process renames its folder, while it has the owner's lock; a
//! hooker looks for the published state after it has leased it, and starts over if there is none.
//! **Crash.** What is put aside is what a collector of removed areas expects at any step.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use swing::{Area, AreaName, Namespace};
use swing_calls::strict_assert;

/// Begin of the names of heaps that nobody gave a name; the process's number follows.
const ANONYMOUS: &str = "heap-";
/// Links to the states that others may hook.
const CURRENT: [&str; 3] = ["shared", "unshared", "committed"];
/// Folders of ended processes that one start looks at: a start stays short.
const SWEPT_PER_START: usize = 64;

/// The name of the heap of a process that was given none.
pub(crate) fn anonymous(pid: u32) -> String {
    format!("{ANONYMOUS}{pid}")
}

fn is_alive(pid: i32) -> bool {
    strict_assert!(pid > 0, "a process, not a group");
    // SAFETY: asks only.
    let asked = unsafe { libc::kill(pid, 0) };
    asked == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// The process whose heap this folder was, if it is one and that process is gone.
fn is_left(folder: &str) -> bool {
    let pid = folder.strip_prefix(ANONYMOUS).and_then(|pid| pid.parse().ok());
    pid.is_some_and(|pid: i32| pid > 0 && anonymous(pid as u32) == folder && !is_alive(pid))
}

/// Takes away what killed programs left. An area that a process of another container owns, whose
/// numbers are not ours, is refused by its lock.
pub(crate) fn sweep(namespace: &Namespace) -> usize {
    let Ok(entries) = fs::read_dir(namespace.path()) else { return 0 };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let left = names.filter(|name| is_left(name)).take(SWEPT_PER_START);
    let removed =
        left.filter(|name| AreaName::new(name).is_ok_and(|name| namespace.remove(&name).is_ok()));
    let removed = removed.count();
    debug_assert!(removed <= SWEPT_PER_START, "a start stays short");
    removed
}

/// The folder of this process's area: that which says so.
fn folder_of(area: &Area, home: &Path) -> Option<PathBuf> {
    let says = format!("id {}", area.id());
    let is_ours = |folder: &PathBuf| {
        let info = fs::read_to_string(folder.join("info")).unwrap_or_default();
        info.lines().next() == Some(says.as_str())
    };
    // Most names are those of their folders, too. A dot begins the names of what has none.
    let plain = area.name().map(|name| home.join(name.as_str()));
    plain.filter(is_ours).or_else(|| {
        let entries = fs::read_dir(home).ok()?.flatten();
        let named = entries.filter(|e| !e.file_name().as_encoded_bytes().starts_with(b"."));
        named.map(|entry| entry.path()).find(is_ours)
    })
}

/// Locks a published state against those who want to hook it; `None`: somebody has.
fn locked(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    // SAFETY: an open descriptor.
    let refused = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    debug_assert!(refused == 0 || refused == -1, "a lock is had or not");
    (refused == 0).then_some(file)
}

/// Takes the names of this process's heap away, at its end. The memory stays mapped here.
pub(crate) fn leave(area: &Area, home: &Path) {
    strict_assert!(home.is_absolute(), "the program may be anywhere by now");
    let grave = home.join(format!(".removed-{}", area.id()));
    let Some(folder) = folder_of(area, home) else { return };
    if fs::rename(folder, &grave).is_err() {
        return;
    }
    let _ = area.allow_live_hooks(false);
    for link in CURRENT {
        let _ = fs::remove_file(grave.join(link));
    }
    let Ok(entries) = fs::read_dir(&grave) else { return };
    let paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    let is_state = |path: &&PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("m."))
    };
    let states: Vec<_> = paths.iter().filter(is_state).map(|path| locked(path)).collect();
    let alone = |path: &&PathBuf| fs::metadata(path).is_ok_and(|m| m.nlink() == 1);
    // A further name is the pin of an area that was derived from this heap.
    let held =
        states.iter().any(Option::is_none) || !paths.iter().filter(is_state).all(|p| alone(&p));
    if held {
        return;
    }
    for path in &paths {
        let _ = fs::remove_file(path);
    }
    let _ = fs::remove_dir(&grave);
    // The locks go only now: nobody has hooked in between.
    drop(states);
}
