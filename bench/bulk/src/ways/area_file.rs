//! A snapshot's bytes from the file that its area lies in: `splice` and `sendfile` take the pages
//! of a file as they are. Pages of a published state never change while its lease is held.
//!
//! Which bytes of which file the snapshot shows, the kernel's list of mappings says.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use swing::Snapshot;

use super::Way;
use super::areas::{failed, fill, name};
use super::streams::splice_out;
use crate::job::Job;
use crate::sys;

/// Bytes of a file that a snapshot shows.
pub struct Part {
    file: File,
    offset: u64,
    len: usize,
}

/// A line of the kernel's list of mappings.
struct Mapping<'a> {
    first: u64,
    end: u64,
    offset: u64,
    inode: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (first, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let inode = words.nth(1)?.parse().ok()?;
        let number = |word| u64::from_str_radix(word, 16).ok();
        Some(Self {
            first: number(first)?,
            end: number(end)?,
            offset: number(offset)?,
            inode,
            path: words.next().unwrap_or("").trim_start(),
        })
    }

    /// The file, by its path, or by a descriptor that this process has of it.
    fn open(&self) -> io::Result<File> {
        let fits = |path: &Path| {
            std::fs::metadata(path).is_ok_and(|of| of.is_file() && of.ino() == self.inode)
        };
        let path = Path::new(self.path);
        if fits(path) {
            return File::open(path);
        }
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let path = entry?.path();
            if fits(&path) {
                return File::open(path);
            }
        }
        let place = path.display();
        Err(io::Error::new(io::ErrorKind::NotFound, format!("no way to open {place}")))
    }
}

impl Part {
    /// All parts of `len` bytes at `at`, in order.
    pub fn all(snapshot: &Snapshot, at: u64, len: usize) -> io::Result<Vec<Self>> {
        let begin = snapshot.base().as_ptr() as u64 + at;
        let (end, mut next, mut found) = (begin + len as u64, begin, Vec::new());
        let list = std::fs::read_to_string("/proc/self/maps")?;
        for mapping in list.lines().filter_map(Mapping::parse) {
            if mapping.end <= next || mapping.first >= end {
                continue;
            }
            if mapping.first > next {
                break;
            }
            let until = mapping.end.min(end);
            let offset = mapping.offset + (next - mapping.first);
            found.push(Self { file: mapping.open()?, offset, len: (until - next) as usize });
            next = until;
        }
        if next < end {
            Err(io::Error::other("the snapshot is not mapped whole"))
        } else {
            Ok(found)
        }
    }

    /// Moves all bytes by calls that move some each: file, offset, how many at most.
    pub fn each(
        &self,
        mut one: impl FnMut(&File, u64, usize) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < self.len {
            let moved = one(&self.file, self.offset + done as u64, self.len - done)?;
            if moved == 0 {
                return Err(sys::ended());
            }
            done += moved;
        }
        Ok(())
    }
}

/// The sender takes a snapshot of each state it has published, and lends its pages to a pipe.
pub struct Lent {
    read: OwnedFd,
    write: OwnedFd,
}

impl Lent {
    /// With a pipe.
    pub fn open(job: &Job) -> io::Result<Box<dyn Way>> {
        let (read, write) = sys::pipe(job.pipe)?;
        Ok(Box::new(Self { read, write }))
    }
}

impl Way for Lent {
    fn send(self: Box<Self>, job: &Job, source: &File) -> io::Result<()> {
        drop(self.read);
        let name = name()?;
        fill(job, source, |namespace, at, len| {
            let snapshot = namespace.hook(&name).map_err(failed)?;
            let begin = snapshot.geometry().small_zone().0 + at;
            for part in Part::all(&snapshot, begin, len)? {
                part.each(|file, offset, most| {
                    sys::splice_at(file, offset, &self.write, most.min(job.chunk))
                })?;
            }
            // Pages that the pipe still has are never written again: each part of the area is
            // written once.
            Ok(())
        })
    }

    fn receive(self: Box<Self>, job: &Job, target: &File) -> io::Result<u64> {
        drop(self.write);
        splice_out(job, &self.read, target)
    }
}
