//! What is known of a device, and the file that keeps it.
//!
//! A profile is saved as `device-profile` in the directory that was probed. Whoever opens a store
//! looks for it there, then in the directories above on the same file system: so one probe of a
//! mount point serves all stores below it.
//!
//! The file is text, one `name value` a line, after a first line with the format's version. It may
//! be edited by hand. It is hostile until checked: its owner has to be this user or root, every
//! number has to lie within its bounds, and it has to be of the file system it is found on. A
//! profile that fails a check is passed over (INV-PROBE-2): its absence could only cost speed, and
//! must not keep a store from opening.
//!
//! Saving writes a new file, syncs it and renames it, so a reader finds the old one or the new one.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

use crate::error::{Cause, IoError};
use crate::units::{MAX_BLOCK_BYTES, MAX_QUEUE_DEPTH, UNIT_BYTES};

/// What reading costs on a device. Pieces are read by one request if the bytes between them cost
/// less than another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCost {
    /// What one more request costs while many are in flight, in nanoseconds.
    pub request_ns: u64,
    /// What 1024 more bytes of a request cost, in nanoseconds.
    pub kib_ns: u64,
}

impl Default for ReadCost {
    /// A virtual disk: 15 us a request at depth 20, 2 GB/s. Gaps up to 30 KiB are read over.
    fn default() -> Self {
        ReadCost { request_ns: 15_000, kib_ns: 500 }
    }
}

impl ReadCost {
    /// The longest gap that is read over, in bytes.
    pub fn longest_gap(&self) -> u64 {
        (self.request_ns.saturating_mul(1024) / self.kib_ns.max(1)).min(1 << 20)
    }
}

/// The file's name in its directory.
pub const PROFILE_NAME: &str = "device-profile";
/// The first line of a file of this version.
const FIRST_LINE: &str = "swing device profile 1";
/// The longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 10;
/// How many directories above the store's are looked into.
const MAX_PARENTS: usize = 64;

/// The largest chunk that is told of, in bytes.
pub const MAX_CHUNK_BYTES: u64 = 16 << 20;
/// The most domains that are told of.
pub const MAX_DOMAINS: u32 = 4096;
/// The bounds of a cost in nanoseconds: ten seconds.
const MAX_COST_NS: u64 = 10_000_000_000;

/// What a probe found out about a device; what the readers of the device go by.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceProfile {
    /// The file system that was probed.
    pub device: DeviceId,
    /// The chunk: so many bytes in a row lie in one domain. `None`: no period was found.
    pub chunk_bytes: Option<u64>,
    /// The domains, which work beside each other. `None`: no period was found.
    pub domains: Option<Domains>,
    /// The request length that a scan reads best with, in bytes.
    pub request_bytes: u32,
    /// How many of these requests a scan keeps in flight.
    pub depth: u32,
    /// How many reads of 4096 bytes at random places are to be kept in flight.
    pub random_depth: u32,
    /// What requests cost while many are in flight: decides which gaps are read over.
    pub cost: ReadCost,
    /// What one request costs alone.
    pub latency: Latency,
    /// What a scan with this length and depth reads, in bytes a second.
    pub bytes_per_second: u64,
    /// How many reads of 4096 bytes at this depth end in a second.
    pub reads_per_second: u64,
}

/// The parallel units of a device, as the stride of concurrent reads shows them: two reads that are
/// a multiple of `count` units of `unit_bytes` apart share a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domains {
    /// How many there are.
    pub count: u32,
    /// The unit of the stride, in bytes: the chunk, if one was found.
    pub unit_bytes: u64,
    /// A smaller period inside: domains so far apart share a part of their path.
    pub inner: Option<u32>,
}

/// The time of one read alone: `fixed_ns` and, for each KiB, `kib_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// What each request costs, in nanoseconds.
    pub fixed_ns: u64,
    /// What 1024 bytes of it cost, in nanoseconds.
    pub kib_ns: u64,
}

/// Identifies the file system that a directory lies on.
///
/// The identifier that `statfs` gives survives a reboot on most file systems; the device number is
/// compared where there is no such identifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceId {
    /// `st_dev` of the directory.
    pub device: u64,
    /// The file system's type, `f_type` of `statfs`.
    pub file_system: u64,
    /// The file system's identifier, `f_fsid` of `statfs`; zero if there is none.
    pub identifier: u64,
}

impl DeviceId {
    /// That of a directory.
    ///
    /// # Errors
    /// [`IoError`] if the directory cannot be examined.
    pub fn of(directory: &Path) -> Result<Self, IoError> {
        let failed = |e: std::io::Error| IoError::from_os("examine", directory, e);
        let device = std::fs::metadata(directory).map_err(failed)?.dev();
        let facts = rustix::fs::statfs(directory).map_err(|e| failed(e.into()))?;
        // The two halves of the identifier have no portable names.
        const { assert!(size_of::<libc::fsid_t>() == size_of::<u64>()) };
        // SAFETY: the structure is two 32-bit integers, and any bits are a `u64`.
        let identifier: u64 = unsafe { std::mem::transmute_copy(&facts.f_fsid) };
        Ok(DeviceId { device, file_system: facts.f_type as u64, identifier })
    }

    /// Whether both name the same file system.
    pub fn is_same(&self, other: &Self) -> bool {
        let known = self.identifier != 0 && other.identifier != 0;
        self.file_system == other.file_system
            && if known { self.identifier == other.identifier } else { self.device == other.device }
    }

    /// The file system's name, or its number if it is not a common one.
    pub fn file_system_name(&self) -> String {
        let name = match self.file_system {
            0xef53 => "ext4",
            0x5846_5342 => "xfs",
            0x9123_683e => "btrfs",
            0x0102_1994 => "tmpfs",
            0x794c_7630 => "overlay",
            0xf2f5_2010 => "f2fs",
            0x2fc1_2fc1 => "zfs",
            0x6969 => "nfs",
            0x6573_5546 => "fuse",
            other => return format!("{other:#x}"),
        };
        name.to_owned()
    }
}

impl Default for DeviceProfile {
    /// What readers go by where nobody has probed: no chunk, no domains, 256 KiB at depth 16.
    fn default() -> Self {
        DeviceProfile {
            device: DeviceId::default(),
            chunk_bytes: None,
            domains: None,
            request_bytes: 256 << 10,
            depth: 16,
            random_depth: 32,
            cost: ReadCost::default(),
            latency: Latency { fixed_ns: 70_000, kib_ns: 900 },
            bytes_per_second: 1 << 30,
            reads_per_second: 50_000,
        }
    }
}

/// A saved profile cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The file says something that no probe writes.
    #[error("{}: {detail}; probe the device again", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        detail: String,
    },
    /// The file is of another version of the format.
    #[error("{} is no device profile of a known version; probe the device again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
    },
    /// The file was written for another file system, and copied here.
    #[error("{} was made on another file system; probe the device again", path.display())]
    OtherDevice {
        /// The file.
        path: PathBuf,
    },
    /// The file belongs to a user who has no say here.
    #[error("{} belongs to user {owner}, not to this user or root", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The user who owns it.
        owner: u32,
    },
}

impl DeviceProfile {
    /// Saves the profile in a directory, in place of an earlier one; returns the file.
    ///
    /// ```
    /// use swing_tier::probe::{DeviceId, DeviceProfile};
    /// # let temporary = tempfile::tempdir()?;
    /// # let directory = temporary.path();
    /// let device = DeviceId::of(directory)?;
    /// let profile = DeviceProfile { device, depth: 8, ..Default::default() };
    /// profile.save(directory)?;
    /// std::fs::create_dir(directory.join("store"))?;
    /// assert_eq!(DeviceProfile::find(&directory.join("store")), Some(profile));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`IoError`] if the file cannot be written.
    pub fn save(&self, directory: &Path) -> Result<PathBuf, IoError> {
        let path = directory.join(PROFILE_NAME);
        let fresh = directory.join(format!("{PROFILE_NAME}.{}.new", std::process::id()));
        let written = self.write(&fresh).and_then(|()| {
            std::fs::rename(&fresh, &path).map_err(|e| IoError::from_os("rename", &fresh, e))
        });
        if let Err(error) = written {
            let _ = std::fs::remove_file(&fresh);
            return Err(error);
        }
        // A profile that a power cut takes away is made anew: this is for tidiness only.
        let _ = File::open(directory).and_then(|handle| handle.sync_all());
        Ok(path)
    }

    fn write(&self, path: &Path) -> Result<(), IoError> {
        let failed = |e: std::io::Error| IoError::from_os("write", path, e);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)
            .map_err(failed)?;
        file.write_all(self.to_text().as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)
    }

    /// Reads the profile that is saved in exactly this directory; `None` if there is none.
    ///
    /// # Errors
    /// [`ProfileError`] if there is one that cannot be used here.
    pub fn load(directory: &Path) -> Result<Option<Self>, ProfileError> {
        let path = directory.join(PROFILE_NAME);
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(IoError::from_os("open", &path, error).into()),
        };
        let failed = |e: std::io::Error| IoError::from_os("read", &path, e);
        let facts = file.metadata().map_err(failed)?;
        let owner = facts.uid();
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(ProfileError::Foreign { path, owner });
        }
        if !facts.is_file() {
            return Err(IoError::new("read", &path, Cause::Os(libc::EINVAL)).into());
        }
        let mut text = String::new();
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
        let profile = Self::from_text(&text).map_err(|wrong| match wrong {
            Wrong::Version => ProfileError::Version { path: path.clone() },
            Wrong::Line(detail) => ProfileError::Invalid { path: path.clone(), detail },
        })?;
        if !profile.device.is_same(&DeviceId::of(directory)?) {
            return Err(ProfileError::OtherDevice { path });
        }
        Ok(Some(profile))
    }

    /// The profile that holds for a directory: its own, else that of the next directory above it
    /// on the same file system. One that cannot be used is passed over.
    pub fn find(directory: &Path) -> Option<Self> {
        let directory = directory.canonicalize().ok()?;
        let device = std::fs::metadata(&directory).ok()?.dev();
        directory
            .ancestors()
            .take(MAX_PARENTS)
            .take_while(|above| std::fs::metadata(above).is_ok_and(|facts| facts.dev() == device))
            .find_map(|above| Self::load(above).ok().flatten())
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for (name, value) in self.lines() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }

    /// Each value under its name in the file, in order.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        fn or_none(value: Option<impl fmt::Display>) -> String {
            value.map_or_else(|| "none".to_owned(), |value| value.to_string())
        }
        let DeviceId { device, file_system, identifier } = &self.device;
        let domains = self.domains;
        vec![
            ("device", device.to_string()),
            ("file-system", file_system.to_string()),
            ("file-system-id", identifier.to_string()),
            ("chunk-bytes", or_none(self.chunk_bytes)),
            ("domains", or_none(domains.map(|d| d.count))),
            ("domain-unit-bytes", or_none(domains.map(|d| d.unit_bytes))),
            ("domains-inner", or_none(domains.and_then(|d| d.inner))),
            ("request-bytes", self.request_bytes.to_string()),
            ("depth", self.depth.to_string()),
            ("random-depth", self.random_depth.to_string()),
            ("request-ns", self.cost.request_ns.to_string()),
            ("kib-ns", self.cost.kib_ns.to_string()),
            ("alone-request-ns", self.latency.fixed_ns.to_string()),
            ("alone-kib-ns", self.latency.kib_ns.to_string()),
            ("bytes-per-second", self.bytes_per_second.to_string()),
            ("reads-per-second", self.reads_per_second.to_string()),
        ]
    }

    /// Reads the text of a file, checking every number. Names that are not known are passed over:
    /// they are of a later probe.
    pub(crate) fn from_text(text: &str) -> Result<Self, Wrong> {
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(Wrong::Version);
        }
        let mut fields = Vec::new();
        for line in lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let field = line.split_once(' ');
            fields.push(field.ok_or_else(|| Wrong::Line(format!("the line `{line}`")))?);
        }
        let fields = Fields(fields);
        let depths = 1..=u64::from(MAX_QUEUE_DEPTH);
        let costs = 0..=MAX_COST_NS;
        let domains = match fields.number("domains", 2..=u64::from(MAX_DOMAINS))? {
            None => None,
            Some(count) => Some(Domains {
                count: count as u32,
                unit_bytes: fields.needed("domain-unit-bytes", 512..=MAX_CHUNK_BYTES)?,
                inner: fields.number("domains-inner", 2..=count - 1)?.map(|n| n as u32),
            }),
        };
        let request_bytes = fields.needed("request-bytes", UNIT_BYTES..=MAX_BLOCK_BYTES)?;
        if !request_bytes.is_multiple_of(UNIT_BYTES) {
            return Err(Wrong::Line(format!("request-bytes {request_bytes}: no multiple of 4096")));
        }
        Ok(DeviceProfile {
            device: DeviceId {
                device: fields.needed("device", 0..=u64::MAX)?,
                file_system: fields.needed("file-system", 0..=u64::MAX)?,
                identifier: fields.needed("file-system-id", 0..=u64::MAX)?,
            },
            chunk_bytes: fields.number("chunk-bytes", 512..=MAX_CHUNK_BYTES)?,
            domains,
            request_bytes: request_bytes as u32,
            depth: fields.needed("depth", depths.clone())? as u32,
            random_depth: fields.needed("random-depth", depths)? as u32,
            cost: ReadCost {
                request_ns: fields.needed("request-ns", costs.clone())?,
                kib_ns: fields.needed("kib-ns", costs.clone())?,
            },
            latency: Latency {
                fixed_ns: fields.needed("alone-request-ns", costs.clone())?,
                kib_ns: fields.needed("alone-kib-ns", costs)?,
            },
            bytes_per_second: fields.needed("bytes-per-second", 0..=u64::MAX)?,
            reads_per_second: fields.needed("reads-per-second", 0..=u64::MAX)?,
        })
    }
}

/// Why a text is no profile.
#[derive(Debug, PartialEq)]
pub(crate) enum Wrong {
    Version,
    Line(String),
}

/// The names and values of a file.
struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl Fields<'_> {
    fn number(
        &self,
        name: &str,
        within: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, Wrong> {
        let Some((_, value)) = self.0.iter().find(|(n, _)| *n == name) else {
            return Err(Wrong::Line(format!("{name} is missing")));
        };
        if *value == "none" {
            return Ok(None);
        }
        match u64::from_str(value).ok().filter(|number| within.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (least, most) = within.into_inner();
                Err(Wrong::Line(format!("{name} is `{value}`, and has to be {least} to {most}")))
            }
        }
    }

    fn needed(&self, name: &str, within: std::ops::RangeInclusive<u64>) -> Result<u64, Wrong> {
        let number = self.number(name, within)?;
        number.ok_or_else(|| Wrong::Line(format!("{name} is `none`, and has to be a number")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> DeviceProfile {
        DeviceProfile {
            device: DeviceId { device: 65_024, file_system: 0xef53, identifier: 77 },
            chunk_bytes: Some(4096),
            domains: Some(Domains { count: 20, unit_bytes: 4096, inner: Some(10) }),
            ..Default::default()
        }
    }

    #[test]
    fn a_text_comes_back_as_it_was() {
        for profile in [profile(), DeviceProfile::default()] {
            assert_eq!(DeviceProfile::from_text(&profile.to_text()), Ok(profile));
        }
        let inner = Some(Domains { count: 20, unit_bytes: 512, inner: None });
        let profile = DeviceProfile { chunk_bytes: None, domains: inner, ..profile() };
        assert_eq!(DeviceProfile::from_text(&profile.to_text()), Ok(profile));
    }

    #[test]
    fn version_one_stays_readable() {
        let text = "swing device profile 1\ndevice 65024\nfile-system 61267\nfile-system-id 77\n\
            # edited by hand\n\nchunk-bytes 4096\ndomains 20\ndomain-unit-bytes 4096\n\
            domains-inner 10\nrequest-bytes 262144\ndepth 16\nrandom-depth 32\n\
            request-ns 15000\nkib-ns 500\nalone-request-ns 70000\nalone-kib-ns 900\n\
            bytes-per-second 1073741824\nreads-per-second 50000\nlater-name whatever it is\n";
        assert_eq!(DeviceProfile::from_text(text), Ok(profile()));
    }

    /// INV-PROBE-2.
    #[test]
    fn each_line_is_checked() {
        let good = profile().to_text();
        for line in good.lines() {
            let without: String =
                good.lines().filter(|l| *l != line).fold(String::new(), |a, l| a + l + "\n");
            assert!(DeviceProfile::from_text(&without).is_err(), "without `{line}`");
        }
        for (from, to) in [
            ("profile 1", "profile 2"),
            ("\ndepth 16", "\ndepth 0"),
            ("\ndepth 16", "\ndepth 100000"),
            ("\ndepth 16", "\ndepth"),
            ("\ndepth 16", "\ndepth -1"),
            ("\ndepth 16", "\ndepth none"),
            ("request-bytes 262144", "request-bytes 5000"),
            ("request-bytes 262144", "request-bytes 104857600"),
            ("domains 20", "domains 4000000000"),
            ("domains-inner 10", "domains-inner 20"),
            ("chunk-bytes 4096", "chunk-bytes 0"),
            ("\nrequest-ns 15000", "\nrequest-ns 99999999999999"),
        ] {
            let wrong = good.replacen(from, to, 1);
            assert_ne!(wrong, good);
            assert!(DeviceProfile::from_text(&wrong).is_err(), "{to}");
        }
    }

    /// INV-PROBE-2.
    #[test]
    fn one_of_another_file_system_is_passed_over() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path();
        assert!(DeviceProfile::load(directory).unwrap().is_none());
        profile().save(directory).unwrap();
        let loaded = DeviceProfile::load(directory);
        assert!(matches!(loaded, Err(ProfileError::OtherDevice { .. })), "{loaded:?}");
        let below = directory.join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        assert_eq!(DeviceProfile::find(&below), DeviceProfile::find(directory.parent().unwrap()));
        let ours = DeviceProfile { device: DeviceId::of(directory).unwrap(), ..profile() };
        ours.save(directory).unwrap();
        assert_eq!(DeviceProfile::find(&below), Some(ours.clone()));
        let nearer = DeviceProfile { depth: 3, ..ours };
        nearer.save(&below).unwrap();
        assert_eq!(DeviceProfile::find(&below), Some(nearer));
        let names: Vec<_> =
            std::fs::read_dir(&below).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, [PROFILE_NAME]);
    }

    /// INV-PROBE-2.
    #[test]
    fn damaged_texts_give_an_error_or_numbers_within_bounds() {
        let good = profile().to_text().into_bytes();
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                match random.u8(..3) {
                    0 => bytes[at] = random.u8(b' '..b'~'),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, random.u8(b'0'..=b'9')),
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            let Ok(read) = DeviceProfile::from_text(&text) else { continue };
            assert!((1..=MAX_QUEUE_DEPTH).contains(&read.depth), "{text}");
            assert!((4096..=512 << 10).contains(&read.request_bytes), "{text}");
            assert!(read.domains.is_none_or(|d| (2..=MAX_DOMAINS).contains(&d.count)), "{text}");
        }
    }

    #[test]
    fn nonsense_in_the_file_is_an_error_and_no_profile() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join(PROFILE_NAME);
        for bytes in [&b""[..], b"\xff\xfe", b"swing device profile 1\n", &[b'x'; 100_000]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(DeviceProfile::load(temporary.path()).is_err());
        }
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(DeviceProfile::load(temporary.path()).is_err());
    }

    #[test]
    fn the_device_number_counts_where_there_is_no_identifier() {
        let with = DeviceId { device: 1, file_system: 2, identifier: 3 };
        assert!(with.is_same(&DeviceId { device: 9, ..with.clone() }));
        assert!(!with.is_same(&DeviceId { identifier: 4, ..with.clone() }));
        assert!(!with.is_same(&DeviceId { file_system: 4, ..with.clone() }));
        let without = DeviceId { identifier: 0, ..with };
        assert!(without.is_same(&without.clone()));
        assert!(!without.is_same(&DeviceId { device: 9, ..without.clone() }));
    }
}
