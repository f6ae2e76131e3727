//! What becomes of the heaps that killed programs left.
//!
//! A program that ends by `exit` or `quick_exit` takes its heap's folder away itself, as late as a
//! library can ([`swing::Area::leave_namespace`]). One that is killed, or ends by `_exit`, does
//! nothing. If nobody gave the heap a name, the next program that starts with this library takes it
//! away ([`sweep`]).

use std::fs;
use swing::{AreaInfo, AreaName, AreaOffset, HookError, Namespace};
use swing_calls::strict_assert;
use swing_malloc::HEAP_MAGIC;

/// Begin of the names of heaps that nobody gave a name; the process's number follows.
const ANONYMOUS: &str = "heap-";
/// Folders of ended processes that one start looks at: a start stays short.
const SWEPT_PER_START: usize = 64;

/// Behind that, where a database has such a name.
const OTHER: &str = "-2";

/// The name of the heap of a process that was given none.
pub(crate) fn anonymous(pid: u32) -> String {
    format!("{ANONYMOUS}{pid}")
}

/// The same where something else has that name.
pub(crate) fn other_anonymous(pid: u32) -> String {
    anonymous(pid) + OTHER
}

fn is_alive(pid: i32) -> bool {
    strict_assert!(pid > 0, "a process, not a group");
    // SAFETY: asks only.
    let asked = unsafe { libc::kill(pid, 0) };
    asked == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// The process whose heap this folder was, if it is one and that process is gone.
fn is_left(folder: &str) -> bool {
    let folder = folder.strip_suffix(OTHER).unwrap_or(folder);
    let pid = folder.strip_prefix(ANONYMOUS).and_then(|pid| pid.parse().ok());
    pid.is_some_and(|pid: i32| pid > 0 && anonymous(pid as u32) == folder && !is_alive(pid))
}

/// The area that has a name.
fn find(namespace: &Namespace, name: &str) -> Option<AreaInfo> {
    let areas = namespace.list().unwrap_or_default();
    areas.into_iter().find(|area| area.name.as_ref().is_some_and(|of_it| of_it.as_str() == name))
}

/// Whether nobody has the area of this name at work, as the program would that this one was started
/// by, with the same environment; and it is no heap.
pub(crate) fn is_something_else(namespace: &Namespace, name: &str) -> bool {
    find(namespace, name).is_some_and(|area| area.owner.is_none())
}

/// Whether an area leaves nothing with its states, as a heap does and a database does not; or there
/// is none. That much can be known without a lease, and also where the memory is gone.
pub(crate) fn may_be_heap(namespace: &Namespace, name: &AreaName) -> bool {
    namespace.published_payload(name).is_ok_and(|found| found.is_none_or(|left| left.is_empty()))
}

/// Whether an area is a heap, or nothing: a database, or what else a program has there for later,
/// is not to be taken away because it has a heap's name.
pub(crate) fn is_heap(namespace: &Namespace, name: &AreaName) -> bool {
    if !may_be_heap(namespace, name) {
        return false;
    }
    match namespace.hook(name) {
        Ok(snapshot) => {
            let magic = AreaOffset(0)..AreaOffset(HEAP_MAGIC.len() as u64);
            // SAFETY: the range is mapped, and the bytes of a snapshot never change.
            let begins = || unsafe { snapshot.base().cast::<[u8; HEAP_MAGIC.len()]>().read() };
            snapshot.payload().is_empty() && snapshot.is_mapped(&magic) && begins() == HEAP_MAGIC
        }
        // Its memory is gone.
        Err(HookError::MemoryGone { .. }) => true,
        // What was never shared may be there all the same.
        Err(HookError::NotShared { .. }) => {
            find(namespace, name.as_str()).is_none_or(|area| area.committed_epoch.is_none())
        }
        Err(_) => false,
    }
}

/// Takes away what killed programs left, if it is a heap: a database may have such a name, too. An
/// area that a process of another container owns, whose
/// numbers are not ours, is refused by its lock.
pub(crate) fn sweep(namespace: &Namespace) -> usize {
    let Ok(entries) = fs::read_dir(namespace.path()) else { return 0 };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let left = names.filter(|name| is_left(name)).take(SWEPT_PER_START);
    let remove = |name: AreaName| is_heap(namespace, &name) && namespace.remove(&name).is_ok();
    let removed = left.filter(|name| AreaName::new(name).is_ok_and(remove));
    let removed = removed.count();
    debug_assert!(removed <= SWEPT_PER_START, "a start stays short");
    removed
}
