//! How much memory can still be taken before the kernel kills a process for it.
//!
//! A full tmpfs returns an error. A full machine, or a full memory control group (a container),
//! does not: at the next page the kernel kills a process. Areas ask here before they take memory,
//! so that this is a typed error, too, and a margin is left for everything else.
//!
//! Asking costs a few reads of `/proc` and `/sys`. So an answer is good for a 16th of the memory
//! that was free, at most 64 MiB, for all threads of this process together. No file is kept open:
//! the program could close it, and open its own at that number.
//!
//! **Signals.** [`take`] allocates nothing and takes no lock, because the fault handler calls it.
//! [`open_limits`] finds the files to read before. A control group that gets its first limit later
//! is not seen.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};

use crate::model::units::ByteLen;
use crate::sys::descriptors;

/// An answer is good for at most this much.
const MAX_ALLOWANCE: u64 = 64 << 20;
/// Limits above this are none.
const NO_LIMIT: u64 = 1 << 60;
/// How much of a file is looked at. Little: it lies on the stack of a fault handler, of which a
/// thread may have no more than 8 KiB, and the kernel and the handler need half of these.
const READ_BYTES: usize = 2560;
/// The deepest control group that is looked at.
const MAX_DEPTH: usize = 32;

/// What may be taken without asking again.
static ALLOWANCE: AtomicU64 = AtomicU64::new(0);
static GAUGES: OnceLock<Vec<Gauge>> = OnceLock::new();

/// There is not enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shortage {
    /// What could be taken.
    pub free: ByteLen,
    /// The file that says so.
    pub limit: &'static Path,
}

/// One limit on memory.
#[derive(Debug)]
enum Gauge {
    /// The machine's: `/proc/meminfo`.
    Machine { meminfo: CString, path: PathBuf },
    /// That of a control group.
    Group { limit: CString, usage: CString, stat: CString, inactive: &'static str, path: PathBuf },
}

impl Gauge {
    /// The limit, and what of it is free beyond the margin.
    fn read(&self) -> Option<(u64, u64)> {
        let mut buffer = [0u8; READ_BYTES];
        match self {
            Gauge::Machine { meminfo, .. } => {
                let text = read(meminfo, &mut buffer)?;
                let kib = |key| number(text, key).map(|n| n << 10);
                let total = kib("MemTotal:")?;
                let free = kib("MemAvailable:")? + kib("SwapFree:").unwrap_or(0);
                let margin = (total / 64).clamp(32 << 20, 256 << 20);
                Some((total, free.saturating_sub(margin)))
            }
            Gauge::Group { limit, usage, stat, inactive, .. } => {
                let limit = number(read(limit, &mut buffer)?, "").filter(|n| *n < NO_LIMIT)?;
                let usage = number(read(usage, &mut buffer)?, "")?;
                // Pages of files that nobody has used for a while are given back when need be.
                let reclaimable = number(read(stat, &mut buffer)?, inactive).unwrap_or(0);
                let margin = (limit / 16).min(64 << 20);
                let used = usage.saturating_sub(reclaimable).saturating_add(margin);
                Some((limit, limit.saturating_sub(used)))
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Gauge::Machine { path, .. } | Gauge::Group { path, .. } => path,
        }
    }
}

/// Reads the begin of a file; without an allocation, and without the C library, whose reading is a
/// point where a thread can be cancelled: it may be inside the fault handler.
fn read<'a>(path: &CStr, buffer: &'a mut [u8; READ_BYTES]) -> Option<&'a [u8]> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = descriptors::open(|| rustix::fs::open(path, flags, Mode::empty())).ok()?;
    let len = loop {
        match rustix::io::pread(&file, &mut buffer[..], 0) {
            Err(rustix::io::Errno::INTR) => {}
            read => break read.ok(),
        }
    };
    descriptors::close(file);
    let len = len?;
    Some(&buffer[..len])
}

/// The number behind `key` at the begin of a line.
fn number(text: &[u8], key: &str) -> Option<u64> {
    let line = text.split(|b| *b == b'\n').find(|l| l.starts_with(key.as_bytes()))?;
    let digits = line[key.len()..].trim_ascii_start();
    let end = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// Finds what [`take`] reads.
pub(crate) fn open_limits() {
    gauges();
}

fn gauges() -> &'static [Gauge] {
    if let Some(gauges) = GAUGES.get() {
        return gauges;
    }
    // Where some could not be opened for now, all are opened when they are asked for again.
    open_gauges().map_or(&[], |gauges| GAUGES.get_or_init(|| gauges))
}

/// The path of a file that can be read.
fn readable(path: &Path) -> io::Result<CString> {
    descriptors::open_file(path)?;
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// There are too many open files, or there is no memory for one.
struct Full;

/// What was opened, if it is there.
fn there<T>(opened: io::Result<T>) -> Result<Option<T>, Full> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(e) if descriptors::is_want(&e) => Err(Full),
        Err(_) => Ok(None),
    }
}

fn open_gauges() -> Result<Vec<Gauge>, Full> {
    let path = PathBuf::from("/proc/meminfo");
    let machine = there(readable(&path))?;
    let mut gauges: Vec<Gauge> =
        machine.into_iter().map(|meminfo| Gauge::Machine { meminfo, path: path.clone() }).collect();
    let text = |path: &str| Ok(there(std::fs::read_to_string(path))?.unwrap_or_default());
    for folder in group_folders(&text("/proc/self/cgroup")?, &text("/proc/self/mountinfo")?) {
        gauges.extend(group(&folder)?);
    }
    Ok(gauges)
}

/// The gauge of a control group, if it has a limit.
fn group(folder: &Path) -> Result<Option<Gauge>, Full> {
    let names = [
        ("memory.max", "memory.current", "inactive_file "),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
    ];
    let found = names.into_iter().find(|n| folder.join(n.0).exists());
    let Some((limit, usage, inactive)) = found else { return Ok(None) };
    let path = folder.join(limit);
    let open = |name: &str| there(readable(&folder.join(name)));
    let (Some(limit), Some(usage), Some(stat)) = (open(limit)?, open(usage)?, open("memory.stat")?)
    else {
        return Ok(None);
    };
    let gauge = Gauge::Group { limit, usage, stat, inactive, path };
    Ok(gauge.read().map(|_| gauge))
}

/// The folders of the memory control groups this process is in, innermost first. In version 1
/// memory has a hierarchy of its own.
fn group_folders(cgroup: &str, mountinfo: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let unified = controllers.is_empty();
        if !unified && !controllers.split(',').any(|c| c == "memory") {
            continue;
        }
        let Some((root, point)) = mountinfo.lines().find_map(|l| group_mount(l, unified)) else {
            continue;
        };
        // A container may see the path from outside, or a mount that begins at its own group.
        let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let inner = point.join(below);
        let up = inner.ancestors().take_while(|p| p.starts_with(point)).take(MAX_DEPTH);
        out.extend(up.map(Path::to_path_buf));
    }
    out
}

/// Root and mount point of the mount of control groups that one line of `mountinfo` describes.
fn group_mount(line: &str, unified: bool) -> Option<(&Path, &Path)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let mut fields = file_system.split(' ');
    let kind = fields.next()?;
    let options = fields.nth(1).unwrap_or("");
    let fits = match kind {
        "cgroup2" => unified,
        "cgroup" => !unified && options.split(',').any(|o| o == "memory"),
        _ => false,
    };
    fits.then_some((Path::new(root), Path::new(point)))
}

/// What this process may use in all: the machine's memory, or less in a limited control group.
/// Looked at once: every new area asks, and nobody needs it exactly.
pub(crate) fn total() -> Option<ByteLen> {
    static TOTAL: OnceLock<ByteLen> = OnceLock::new();
    let read = || gauges().iter().filter_map(|g| Some(g.read()?.0)).min().map(ByteLen);
    let total = TOTAL.get().copied().or_else(read)?;
    Some(*TOTAL.get_or_init(|| total))
}

/// Before memory is taken: whether there is enough of it.
pub(crate) fn take(len: u64) -> Result<(), Shortage> {
    let granted = |now: u64| now.checked_sub(len);
    if ALLOWANCE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, granted).is_ok() {
        return Ok(());
    }
    let Some(gauges) = GAUGES.get() else { return Ok(()) };
    let readings = gauges.iter().filter_map(|g| Some((g.read()?.1, g.path())));
    let Some((free, limit)) = readings.min_by_key(|(free, _)| *free) else { return Ok(()) };
    if free < len {
        return Err(Shortage { free: ByteLen(free), limit });
    }
    let rest = free - len;
    ALLOWANCE.store((rest / 16).min(MAX_ALLOWANCE), Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_lines() {
        let text = b"MemTotal:       24 kB\nMemAvailable:   12345 kB\ntotal_inactive_file 77\n";
        assert_eq!(number(text, "MemAvailable:"), Some(12345));
        assert_eq!(number(text, "total_inactive_file "), Some(77));
        assert_eq!(number(text, "inactive_file "), None);
        assert_eq!(number(b"1048576\n", ""), Some(1 << 20));
        assert_eq!(number(b"max\n", ""), None);
        assert_eq!(number(b"", ""), None);
    }

    #[test]
    fn folders_of_both_versions_and_of_containers() {
        let v1 = "33 25 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                  34 25 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
        let own = "5:cpu:/x\n4:memory:/a/b\n0::/\n";
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        let expected = paths(&[
            "/sys/fs/cgroup/memory/a/b",
            "/sys/fs/cgroup/memory/a",
            "/sys/fs/cgroup/memory",
        ]);
        assert_eq!(group_folders(own, v1), expected);
        let v2 = "30 24 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let expected = paths(&["/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]);
        assert_eq!(group_folders("0::/user.slice\n", v2), expected);
        // Docker without a namespace of control groups: the mount begins at the container's own.
        let docker = "40 30 0:30 /docker/12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let expected = paths(&["/sys/fs/cgroup/memory"]);
        assert_eq!(group_folders("4:memory:/docker/12\n", docker), expected);
        assert_eq!(group_folders("nonsense\n\n::\n", "more nonsense - \n - \n"), paths(&[]));
    }

    #[test]
    fn this_machine_has_memory_and_not_without_end() {
        open_limits();
        let total = total().unwrap();
        assert!(total > ByteLen::mib(16));
        take(4096).unwrap();
        let shortage = take(total.0 + 1).unwrap_err();
        assert!(shortage.free < total && shortage.limit.is_absolute());
    }
}
