//! How much memory this process may use: the machine's, or what its control groups leave of it.
//!
//! A control group limits itself and all below it, so the least of the limits from the process's
//! own group up to the root counts. Containers show the files of their own group at the root of the
//! hierarchy, whatever the path in `/proc/self/cgroup` says: so the root is asked as well.

use std::path::{Path, PathBuf};

/// What a limit that is none is written as, or close to, in the first version.
const NO_LIMIT: u64 = 1 << 60;
/// Control groups inside one another that are asked.
const MAX_GROUPS: usize = 256;

/// Bytes of memory; `None` when the system does not say.
pub(crate) fn memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let limits = files(&groups, &mounts);
    let limits = limits.iter().filter_map(|file| limit(&std::fs::read_to_string(file).ok()?));
    machine.into_iter().chain(limits).min()
}

/// The whole memory, from `/proc/meminfo`.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The limit in a file of a control group.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| (1..NO_LIMIT).contains(bytes))
}

/// The files that say the limits of this process's control groups.
fn files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let second = controllers.is_empty();
        if !second && !controllers.split(',').any(|name| name == "memory") {
            continue;
        }
        let file = if second { "memory.max" } else { "memory.limit_in_bytes" };
        for (root, place) in mounts.lines().filter_map(|line| mount(line, second)) {
            let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
            let group = place.join(below.strip_prefix("/").unwrap_or(below));
            let inside = group.ancestors().take_while(|group| group.starts_with(place));
            found.extend(inside.take(MAX_GROUPS).map(|group| group.join(file)));
        }
    }
    found
}

/// What of a hierarchy of control groups is mounted where: `root` and `place` of a line
/// `36 25 0:31 /root /place options - cgroup2 cgroup2 rw,memory`.
fn mount(line: &str, second: bool) -> Option<(&Path, &Path)> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, place) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, options) = (right.next()?, right.nth(1)?);
    let is_it = match second {
        true => kind == "cgroup2",
        false => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
    };
    is_it.then(|| (Path::new(root), Path::new(place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says() {
        assert_eq!(total("MemTotal:       24 kB\nMemFree: 3 kB"), Some(24 << 10));
        assert!(memory().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn limits_of_both_versions() {
        assert_eq!(limit("1500000000\n"), Some(1_500_000_000));
        assert_eq!(limit("max\n"), None);
        assert_eq!(limit("9223372036854771712\n"), None);
    }

    #[test]
    fn groups_and_those_around_them() {
        let first = files(
            "9:name=systemd:/\n4:cpu,memory:/a/b\n",
            "30 20 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             31 20 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
        );
        let expected = ["a/b/", "a/", ""].map(|group| {
            PathBuf::from(format!("/sys/fs/cgroup/memory/{group}memory.limit_in_bytes"))
        });
        assert_eq!(first, expected);
        // A container that sees its own group as the root.
        let second = files(
            "0::/user.slice/x.scope\n",
            "30 20 0:26 /user.slice /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
        );
        let expected = ["x.scope/", ""]
            .map(|group| PathBuf::from(format!("/sys/fs/cgroup/{group}memory.max")));
        assert_eq!(second, expected);
    }
}
