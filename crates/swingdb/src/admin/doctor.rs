//! What on this system costs speed or capacity: [`doctor`].
//!
//! Every check reads files of `/proc` and `/sys`; what cannot be read is left out. Nothing is
//! changed.

use std::fs;
use std::path::{Path, PathBuf};

use swing::{FreeSpace, Namespace};

/// Something on this system that costs speed or capacity; see [`doctor`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What is the case.
    pub what: String,
    /// What it costs.
    pub cost: String,
    /// The command that mends it.
    pub mend: String,
}

/// What on this system costs speed or capacity, and the command that mends it; empty when all is
/// well.
pub fn doctor() -> Vec<Finding> {
    doctor_in(&Namespace::default_path())
}

/// As [`doctor`], for the namespace directory `home`.
pub fn doctor_in(home: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if let Some(mount) = mount_of(&mounts, home) {
        findings.extend(check_mount(&mount));
        findings.extend(check_room(&mount, swing::free_space(&mount.point)));
    }
    findings.extend(check_huge_pages());
    findings.extend(check_shared_huge_pages());
    findings.extend(check_map_count());
    findings.extend(check_overcommit());
    findings.extend(check_limits());
    findings.extend(check_free_memory());
    findings.extend(check_swap());
    findings
}

/// A mounted file system.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    kind: String,
    options: Vec<String>,
}

/// The file system that a path is, or would be, on.
fn mount_of(mounts: &str, path: &Path) -> Option<Mount> {
    let existing = path.ancestors().find(|p| p.exists())?;
    let path = existing.canonicalize().ok()?;
    let all = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (_, point, kind, options) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        Some(Mount {
            point: PathBuf::from(point),
            kind: kind.to_string(),
            options: options.split(',').map(str::to_string).collect(),
        })
    });
    // The later of two mounts on one point hides the earlier.
    all.filter(|m| path.starts_with(&m.point)).max_by_key(|m| m.point.as_os_str().len())
}

fn check_mount(mount: &Mount) -> Vec<Finding> {
    let mut findings = Vec::new();
    let point = mount.point.display();
    if mount.kind != "tmpfs" {
        findings.push(Finding {
            what: format!("{point} is a {} file system, not memory", mount.kind),
            cost: "databases are written to a disk, and reading may fault".to_string(),
            mend: "unset SWINGDB_HOME, or point it to a directory of a tmpfs".to_string(),
        });
        return findings;
    }
    let option =
        |name: &str| mount.options.iter().find_map(|o| o.strip_prefix(name)?.strip_prefix('='));
    if !matches!(option("huge"), Some("advise" | "within_size" | "always")) {
        findings.push(Finding {
            what: format!("{point} is mounted without huge pages"),
            cost:
                "the first scan after taking a snapshot takes about 3 times as long, sharing and \
                   unmapping cost per 4 KiB page"
                    .to_string(),
            mend: format!("sudo mount -o remount,huge=advise {point}"),
        });
    }
    if let (Some(size), Some(memory)) = (option("size").and_then(parse_size), total_memory())
        && size < memory / 4
    {
        findings.push(Finding {
            what: format!("{point} holds at most {} MiB", size >> 20),
            cost: format!(
                "{} % of this machine's memory; a database that does not fit lives only as long as \
                 a process has it, or a snapshot of it, open",
                (size * 100).checked_div(memory).unwrap_or(0)
            ),
            mend: format!(
                "sudo mount -o remount,size=80% {point}   (a container: run it with --shm-size)"
            ),
        });
    }
    findings
}

/// Whether the file system of the databases is nearly full.
fn check_room(mount: &Mount, room: Option<FreeSpace>) -> Option<Finding> {
    let (free, size) = room.map(|room| (room.free.0, room.size.0))?;
    (free < size / 10).then(|| Finding {
        what: format!(
            "only {} of {} MiB of {} are free",
            free >> 20,
            size >> 20,
            mount.point.display()
        ),
        cost: "databases that grow from now on live only as long as a process has them, or a \
               snapshot of them, open"
            .to_string(),
        mend: "swingdb gc, and drop databases that are not needed (swingdb ls)".to_string(),
    })
}

/// `65536k`, `512m`, `1g` or bytes.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "" => Some(number),
        "k" => Some(number << 10),
        "m" => Some(number << 20),
        "g" => Some(number << 30),
        _ => None,
    }
}

/// Bytes of a line of `/proc/meminfo`.
fn meminfo(label: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(label))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

fn total_memory() -> Option<u64> {
    meminfo("MemTotal:")
}

fn check_huge_pages() -> Option<Finding> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = fs::read_to_string(path).ok()?;
    text.contains("[never]").then(|| Finding {
        what: "transparent huge pages are off".to_string(),
        cost: "scans and sorts miss the TLB more often, by 10 to 30 %".to_string(),
        mend: format!("echo madvise | sudo tee {path}"),
    })
}

/// Memory that is no file of a mounted file system: where `/dev/shm` is too small.
fn check_shared_huge_pages() -> Option<Finding> {
    let path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let text = fs::read_to_string(path).ok()?;
    (text.contains("[never]") || text.contains("[deny]")).then(|| Finding {
        what: "huge pages are off for shared memory outside of mounted file systems".to_string(),
        cost: "databases kept there because /dev/shm is small are scanned more slowly".to_string(),
        mend: format!("echo advise | sudo tee {path}"),
    })
}

fn check_overcommit() -> Option<Finding> {
    let text = fs::read_to_string("/proc/sys/vm/overcommit_memory").ok()?;
    (text.trim() == "2").then(|| Finding {
        what: "the system counts reserved addresses as memory (vm.overcommit_memory=2)".to_string(),
        cost: "a database reserves four times the machine's memory: few or none can be opened"
            .to_string(),
        mend: "sudo sysctl vm.overcommit_memory=0".to_string(),
    })
}

/// Limits of this process: address space, and memory that may be locked.
fn check_limits() -> Vec<Finding> {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let mut findings = Vec::new();
    if let Some(bytes) = soft_limit(&text, "Max address space") {
        findings.push(Finding {
            what: format!("a process may have only {} GiB of addresses", bytes >> 30),
            cost: "every database and snapshot reserves four times the machine's memory"
                .to_string(),
            mend: "ulimit -v unlimited".to_string(),
        });
    }
    const LOCKABLE: u64 = 1 << 20;
    if let Some(bytes) = soft_limit(&text, "Max locked memory").filter(|b| *b < LOCKABLE) {
        findings.push(Finding {
            what: format!("a process may lock only {} KiB of memory", bytes >> 10),
            cost: "buffers of direct disk input and output cannot be registered".to_string(),
            mend: "ulimit -l unlimited   (raise memlock in /etc/security/limits.conf)".to_string(),
        });
    }
    findings
}

/// The soft limit in a line of `/proc/self/limits`; `None` when it is unlimited or not there.
fn soft_limit(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(label))?.split_whitespace().next()?.parse().ok()
}

fn check_free_memory() -> Option<Finding> {
    let (available, total) = (meminfo("MemAvailable:")?, total_memory()?);
    (available < total / 10).then(|| Finding {
        what: format!("only {} of {} MiB of memory are free", available >> 20, total >> 20),
        cost: "statements that write may end with an out-of-memory error".to_string(),
        mend: "swingdb gc, and drop databases that are not needed (swingdb ls)".to_string(),
    })
}

fn check_map_count() -> Option<Finding> {
    const ENOUGH: u64 = 65_530;
    let count: u64 = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()?;
    (count < ENOUGH).then(|| Finding {
        what: format!("a process may have only {count} memory mappings"),
        cost: "databases that were changed in many places cannot be shared or taken".to_string(),
        mend: "sudo sysctl vm.max_map_count=262144".to_string(),
    })
}

fn check_swap() -> Option<Finding> {
    let (total, free) = (meminfo("SwapTotal:")?, meminfo("SwapFree:")?);
    let used = total.saturating_sub(free);
    (used > 1 << 30).then(|| Finding {
        what: format!("{} MiB are swapped out", used >> 20),
        cost: "a database in shared memory is read back from disk page by page".to_string(),
        mend: "swingdb gc, and drop databases that are not needed (swingdb ls)".to_string(),
    })
}

#[cfg(test)]
mod tests {
    use swing::ByteLen;

    use super::*;

    const MOUNTS: &str = "proc /proc proc rw 0 0\n\
        tmpfs /dev/shm tmpfs rw,nosuid,size=65536k,inode64 0 0\n\
        /dev/root / ext4 rw 0 0\n";

    #[test]
    fn the_innermost_mount_counts() {
        let mount = mount_of(MOUNTS, Path::new("/dev/shm/swingdb-1000")).unwrap();
        assert_eq!(mount.kind, "tmpfs");
        assert_eq!(mount_of(MOUNTS, Path::new("/usr")).unwrap().kind, "ext4");
    }

    #[test]
    fn a_small_tmpfs_without_huge_pages_gets_two_findings() {
        let mount = mount_of(MOUNTS, Path::new("/dev/shm")).unwrap();
        let findings = check_mount(&mount);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].mend.contains("huge=advise /dev/shm"));
        assert!(findings[1].mend.contains("--shm-size"));
    }

    #[test]
    fn a_nearly_full_file_system_is_found_out() {
        let mount = mount_of(MOUNTS, Path::new("/dev/shm")).unwrap();
        assert_eq!(check_room(&mount, None), None);
        let room = |free| Some(FreeSpace { free: ByteLen::mib(free), size: ByteLen::mib(64) });
        assert_eq!(check_room(&mount, room(10)), None);
        let finding = check_room(&mount, room(6)).unwrap();
        assert_eq!(finding.what, "only 6 of 64 MiB of /dev/shm are free");
        let now = swing::free_space(&mount.point).unwrap();
        assert!(now.free <= now.size && now.size.0 > 0);
        assert_eq!(swing::free_space(Path::new("/no/such/place")), None);
    }

    #[test]
    fn a_disk_is_found_out() {
        let mount = mount_of(MOUNTS, Path::new("/usr")).unwrap();
        assert!(check_mount(&mount)[0].what.contains("ext4"));
    }

    #[test]
    fn limits_are_read_by_their_label() {
        let text = "Limit            Soft Limit  Hard Limit  Units\n\
            Max locked memory         65536      8388608     bytes\n\
            Max address space         unlimited  unlimited   bytes\n";
        assert_eq!(soft_limit(text, "Max locked memory"), Some(65536));
        assert_eq!(soft_limit(text, "Max address space"), None);
        assert_eq!(soft_limit(text, "Max open files"), None);
    }

    #[test]
    fn every_finding_has_a_command() {
        for finding in doctor() {
            assert!(!finding.what.is_empty() && !finding.cost.is_empty(), "{finding:?}");
            assert!(!finding.mend.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("65536k"), Some(64 << 20));
        assert_eq!(parse_size("2g"), Some(2 << 30));
        assert_eq!(parse_size("50%"), None);
    }
}
