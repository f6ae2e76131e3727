//! A program that has closed all descriptors, and opened files and rings of its own at their
//! numbers.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a daemon does: closes all, and has files and rings of its own then.
pub struct Taken {
    folder: tempfile::TempDir,
    files: Vec<File>,
    rings: Vec<i32>,
}

fn ring_of_the_program() -> i32 {
    let mut params = [0_u32; 30];
    // SAFETY: a structure of 120 zeros, which the call fills.
    unsafe { libc::syscall(libc::SYS_io_uring_setup, 8, params.as_mut_ptr()) as i32 }
}

impl Taken {
    pub fn new(parent: &Path, rings: bool) -> Self {
        let folder = tempfile::tempdir_in(parent).unwrap();
        // SAFETY: as a program does that becomes a daemon.
        assert_eq!(unsafe { libc::close_range(3, u32::MAX, 0) }, 0);
        let (mut all, mut files) = (Vec::new(), Vec::new());
        for number in 0..48 {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, "mine").unwrap();
            files.push(File::options().read(true).write(true).open(path).unwrap());
            if rings {
                all.push(ring_of_the_program());
            }
        }
        Taken { folder, files, rings: all.into_iter().filter(|&ring| ring >= 0).collect() }
    }

    /// Whether all is as the program has left it.
    pub fn are_untouched(&self) -> bool {
        let whole = self.files.iter().enumerate().all(|(number, file)| {
            let named = File::open(self.folder.path().join(number.to_string())).unwrap();
            let mut bytes = [0; 8];
            let same = same_file(file, &named);
            same && file.read_at(&mut bytes, 0).is_ok_and(|len| &bytes[..len] == b"mine")
        });
        // The ring is there, and has got no request.
        let rings = self.rings.iter().all(|ring| {
            let link = std::fs::read_link(format!("/proc/self/fd/{ring}"));
            let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{ring}"));
            link.is_ok_and(|link| link.as_os_str() == "anon_inode:[io_uring]")
                && facts.is_ok_and(|facts| !facts.contains("SqTail:") || tail_is_zero(&facts))
        });
        whole && rings
    }

    /// The numbers are closed by somebody else.
    pub fn leave(self) {
        std::mem::forget(self.files);
    }
}

fn tail_is_zero(facts: &str) -> bool {
    facts.lines().filter_map(|line| line.strip_prefix("SqTail:")).all(|tail| tail.trim() == "0")
}

fn same_file(one: &File, other: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let [one, other] = [one, other].map(|file| file.metadata().unwrap());
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether a file system maps other files than were opened: then locks end with descriptors, and
/// files are not opened again. Said, for a test that is skipped.
pub fn is_overlay(path: &Path) -> bool {
    let overlay = rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type as u64 == 0x794c_7630);
    if overlay {
        println!("skipped: {} is on an overlay file system", path.display());
    }
    overlay
}
