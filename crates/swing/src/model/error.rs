//! One small error type an operation, with the fields a caller needs to act on it.
//!
//! Inside the crate a single [`Fault`] travels; at the public boundary it becomes the operation's
//! own type, so that callers match only on what that operation can really return.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::model::name::AreaName;
use crate::model::units::{AreaId, AreaOffset, ByteLen};

/// A system call on a file failed for a reason this crate has no better word for.
#[derive(Debug, Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct IoFailure {
    /// What was tried, as an infinitive: "open", "write", ...
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The operating system's reason.
    pub source: io::Error,
}

/// Why a live hook has no state of its own moment.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFresh {
    /// No process answers: the owner has ended, or has never allowed live hooks.
    #[error("nobody answers: its owner has ended, or has never allowed live hooks")]
    NobodyAnswers,
    /// The owner has not answered in time: it is stopped, or waits for something.
    #[error("its owner has not answered in time: it is stopped, or busy")]
    Late,
    /// Buffers of direct or asynchronous I/O were pinned in the area all the while.
    #[error("buffers in it were pinned for direct I/O all the while")]
    Pinned,
    /// The owner could not publish its state, mostly because memory is used up.
    #[error("its owner could not publish it; mostly its memory is used up")]
    Failed,
}

/// Everything that can go wrong inside; converted to the error of the operation.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(IoFailure),
    NotFound,
    AlreadyExists,
    NotShared,
    NotHookable,
    NotFresh(NotFresh),
    Contended,
    Owned {
        pid: u32,
        command: String,
    },
    Corrupt {
        path: PathBuf,
        detail: String,
    },
    OutOfMemory {
        needed: ByteLen,
        file_system: PathBuf,
        free: ByteLen,
    },
    MemoryGone {
        path: PathBuf,
    },
    AddressSpace {
        len: ByteLen,
    },
    AddressTaken {
        address: usize,
        len: ByteLen,
    },
    TooManyMappings,
    PlanesExhausted {
        at: AreaOffset,
    },
    OutOfRange {
        start: AreaOffset,
        end: AreaOffset,
    },
    Forked,
    Closed,
    Limit {
        what: &'static str,
        limit: u64,
    },
    /// Something else than threads may be storing into the area.
    Pinned,
    /// An assertion has failed before, and what it was about may be half changed.
    Broken,
    /// The program has closed a descriptor that this library keeps, or put another file there.
    DescriptorLost {
        path: PathBuf,
    },
}

pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

impl Fault {
    pub(crate) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_owned(), source.into());
        // This library closes nothing that it goes on using.
        match source.raw_os_error() {
            Some(libc::EBADF) => Fault::DescriptorLost { path },
            _ => Fault::Io(IoFailure { action, path, source }),
        }
    }

    pub(crate) fn corrupt(path: &Path, detail: impl Into<String>) -> Self {
        Fault::Corrupt { path: path.to_owned(), detail: detail.into() }
    }

    /// A file or folder that was there, and is there no more.
    pub(crate) fn deleted(action: &'static str, path: &Path) -> IoFailure {
        let source = io::Error::new(io::ErrorKind::NotFound, "it has been deleted");
        IoFailure { action, path: path.to_owned(), source }
    }

    /// For the operations that have no word of their own for this fault.
    fn into_io(self, path: &Path) -> IoFailure {
        match self {
            Fault::Io(failure) => failure,
            // Of an operation on an area that this process has: its folder went under it.
            Fault::NotFound => Self::deleted("use", path),
            other => {
                let source = io::Error::other(format!("{other:?}"));
                IoFailure { action: "use", path: path.to_owned(), source }
            }
        }
    }
}

// Builds the enum of an operation from the groups of variants it can return, together with the
// conversion from `Fault`; each group is written down once. No macro can stand for variants in an
// enum, hence the accumulation: definitions and match arms pile up until no group is left.
macro_rules! operation_error {
    ($(#[$doc:meta])* $name:ident { $($variant:tt),* $(,)? }) => {
        operation_error!(@build [$(#[$doc])*] $name [] [] $($variant),*);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        NotFound $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// No area of this name exists in the namespace.
            #[error("no area named {name:?} exists here")]
            NotFound {
                /// The name that was looked for.
                name: String,
            },
        ] [$($arm)* (Fault::NotFound, ctx) => $name::NotFound { name: ctx.name() },]
            $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        AlreadyExists $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// An area of this name exists already.
            #[error("an area named {name:?} exists already; open it, or remove it first")]
            AlreadyExists {
                /// The name that is taken.
                name: String,
            },
        ] [$($arm)* (Fault::AlreadyExists, ctx) => $name::AlreadyExists { name: ctx.name() },]
            $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        NotShared $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// The area exists, but its owner has not shared any state yet.
            #[error("{name:?} exists but its owner has not shared it yet")]
            NotShared {
                /// The area's name.
                name: String,
            },
            /// The owner refuses hooks for now, or its copy-on-write memory is over the threshold
            /// it set.
            #[error("the owner of {name:?} refuses snapshots at the moment")]
            NotHookable {
                /// The area's name.
                name: String,
            },
            /// A live hook has no state of its own moment. The newest shared one may be older.
            #[error("{name:?} has no state of this moment: {why}. Hook the one it has shared last \
                     instead, which may be older")]
            NotFresh {
                /// The area's name.
                name: String,
                /// Why.
                why: NotFresh,
            },
            /// Publishes came so fast, or a lock was held so long, that no lease could be had
            /// within the bound.
            #[error("{name:?} was busy at every one of a bounded number of tries; try again")]
            Contended {
                /// The area's name.
                name: String,
            },
        ] [$($arm)*
            (Fault::NotShared, ctx) => $name::NotShared { name: ctx.name() },
            (Fault::NotHookable, ctx) => $name::NotHookable { name: ctx.name() },
            (Fault::NotFresh(why), ctx) => $name::NotFresh { name: ctx.name(), why },
            (Fault::Contended, ctx) => $name::Contended { name: ctx.name() },
        ] $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        Owned $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// A live process is the writer of this area.
            #[error("{name:?} is being written by {}; take a snapshot instead",
                    writer_text(*pid, command))]
            Owned {
                /// The area's name.
                name: String,
                /// The owner's process id; 0 when it could not be read.
                pid: u32,
                /// The owner's command line.
                command: String,
            },
        ] [$($arm)* (Fault::Owned { pid, command }, ctx) =>
            $name::Owned { name: ctx.name(), pid, command },] $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        Corrupt $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// A file does not hold what it must; nothing of it was used.
            #[error("{} is damaged: {detail}", path.display())]
            Corrupt {
                /// The damaged file.
                path: PathBuf,
                /// What was expected and what was found.
                detail: String,
            },
        ] [$($arm)* (Fault::Corrupt { path, detail }, _) => $name::Corrupt { path, detail },]
            $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        MemoryGone $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// The area's memory (or that of an area it depends on) was a memfd, because the file
            /// system of the namespace is small or somebody asked for it, and every process that
            /// held it is gone. What it held cannot be had any more.
            #[error("the memory of {name:?} went with the last process that held it: it was no \
                     file but a memfd (see swingdb doctor). Remove it, or make it anew; keep a \
                     process open that writes or reads it, or enlarge the file system of {}, or \
                     set SWINGDB_BACKING=file", path.display())]
            MemoryGone {
                /// The area's name.
                name: String,
                /// The link that named a holder.
                path: PathBuf,
            },
        ] [$($arm)* (Fault::MemoryGone { path }, ctx) =>
            $name::MemoryGone { name: ctx.name(), path },]
            $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        OutOfMemory $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// The memory file system, the machine's memory or that of the control group (the
            /// container) is used up. The area is as it was before the call.
            #[error("{}", full_text(file_system, *needed, *free))]
            OutOfMemory {
                /// What the call needed.
                needed: ByteLen,
                /// A directory on the full file system; or the file that says how much memory there
                /// is, in `/proc` or `/sys/fs/cgroup`.
                file_system: PathBuf,
                /// What was free at that moment.
                free: ByteLen,
            },
        ] [$($arm)* (Fault::OutOfMemory { needed, file_system, free }, _) =>
            $name::OutOfMemory { needed, file_system, free },] $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        AddressSpace $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// The process has no room for the area's address range.
            #[error("no free address range of {len}; reserve less, or raise ulimit -v")]
            AddressSpace {
                /// The length asked for.
                len: ByteLen,
            },
            /// The process has as many mappings as vm.max_map_count allows.
            #[error("this process is out of memory mappings; raise vm.max_map_count")]
            TooManyMappings,
        ] [$($arm)*
            (Fault::AddressSpace { len }, _) => $name::AddressSpace { len },
            (Fault::TooManyMappings, _) => $name::TooManyMappings,
        ] $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        Address $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// The addresses of the origin are in use here (or its owner has it where no area can
            /// be), and the caller asked for no others.
            #[error("the addresses {address:#x}..+{len} of the origin are taken in this process")]
            AddressTaken {
                /// The first address asked for.
                address: usize,
                /// The length asked for.
                len: ByteLen,
            },
        ] [$($arm)* (Fault::AddressTaken { address, len }, _) =>
            $name::AddressTaken { address, len },] $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        Range $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// The range is reversed, not aligned as the call demands, not mapped, or outside the
            /// area.
            #[error("the range {start}..{end} does not fit the area or the call")]
            OutOfRange {
                /// Begin of the range.
                start: AreaOffset,
                /// End of the range.
                end: AreaOffset,
            },
        ] [$($arm)* (Fault::OutOfRange { start, end }, _) => $name::OutOfRange { start, end },]
            $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        Pinned $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// Buffers in the area were pinned for direct or asynchronous I/O all the while.
            #[error("buffers in the area are pinned for direct I/O, so its memory cannot be \
                     frozen; end the I/O, or the pins, first")]
            Pinned,
        ] [$($arm)* (Fault::Pinned, _) => $name::Pinned,] $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        Planes $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// So many leased versions of one extent exist that no plane is left for another.
            #[error("too many versions of the extent at {at} are still in use by snapshots")]
            PlanesExhausted {
                /// Where the extent begins.
                at: AreaOffset,
            },
        ] [$($arm)* (Fault::PlanesExhausted { at }, _) => $name::PlanesExhausted { at },]
            $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]
        Writer $(, $($rest:tt)*)?) => {
        operation_error!(@build [$($doc)*] $name [$($def)*
            /// This is a forked child: the area belongs to its parent. Take a snapshot and derive
            /// from it.
            #[error("this process was forked; the area belongs to its parent process")]
            Forked,
            /// The area has been closed.
            #[error("the area is closed")]
            Closed,
            /// A check inside the library failed before, in whatever thread, and may have left a
            /// change half done: nothing of the area is changed or published any more.
            #[error("a check inside the library has failed, so this area is not used any more; \
                     close it and open it again: what was published last is unharmed")]
            Broken,
            /// A named maximum of this crate would be passed.
            #[error("at most {limit} {what} are possible")]
            Limit {
                /// What there would be too many of.
                what: &'static str,
                /// How many are possible.
                limit: u64,
            },
        ] [$($arm)*
            (Fault::Forked, _) => $name::Forked,
            (Fault::Closed, _) => $name::Closed,
            (Fault::Broken, _) => $name::Broken,
            (Fault::Limit { what, limit }, _) => $name::Limit { what, limit },
        ] $($($rest)*)?);
    };
    (@build [$($doc:tt)*] $name:ident [$($def:tt)*] [$($arm:tt)*]) => {
        $($doc)*
        #[derive(Debug, Error)]
        #[non_exhaustive]
        pub enum $name {
            $($def)*
            /// The program has closed a descriptor that this library keeps, or put another file at
            /// its number, and the file could not be opened again. Nothing was done.
            #[error("this program has closed a file that it did not open, or replaced it: {}. \
                     Leave descriptors of libraries open, or open the area again", path.display())]
            DescriptorLost {
                /// The file that was kept open.
                path: PathBuf,
            },
            /// A system call failed; the fields say which and why.
            #[error(transparent)]
            Io(#[from] IoFailure),
        }

        impl $name {
            #[allow(dead_code, unreachable_patterns)]
            pub(crate) fn from_fault(fault: Fault, context: &Context<'_>) -> Self {
                match (fault, context) {
                    $($arm)*
                    (Fault::DescriptorLost { path }, _) => $name::DescriptorLost { path },
                    (other, ctx) => $name::Io(other.into_io(ctx.path)),
                }
            }
        }
    };
}

/// What the message of an error needs besides the fault itself.
pub(crate) struct Context<'a> {
    pub name: Option<&'a AreaName>,
    pub id: Option<AreaId>,
    pub path: &'a Path,
}

impl<'a> Context<'a> {
    pub(crate) fn named(name: &'a AreaName, path: &'a Path) -> Self {
        Self { name: Some(name), id: None, path }
    }

    pub(crate) fn path(path: &'a Path) -> Self {
        Self { name: None, id: None, path }
    }

    fn name(&self) -> String {
        match (self.name, self.id) {
            (Some(name), _) => name.as_str().to_owned(),
            (None, Some(id)) => format!("unnamed {id}"),
            (None, None) => self.path.display().to_string(),
        }
    }
}

/// Who writes an area.
fn writer_text(pid: u32, command: &str) -> String {
    match pid {
        0 => "a process that cannot be seen from here, as of another pid namespace".to_owned(),
        _ => format!("process {pid} ({command})"),
    }
}

/// What is full, and what to do about it.
fn full_text(place: &Path, needed: ByteLen, free: ByteLen) -> String {
    let place_text = place.display();
    let sizes = format!("{needed} needed, {free} free; drop areas, or");
    if place.starts_with("/proc") {
        format!("this machine's memory ({place_text}) is full: {sizes} end other programs")
    } else if place.starts_with("/sys") {
        format!("this container's memory ({place_text}) is full: {sizes} raise its limit")
    } else {
        format!(
            "{place_text} is full: {sizes} enlarge it (mount -o remount,size=...), or set \
             SWINGDB_BACKING=memfd"
        )
    }
}

operation_error!(
    /// Why an area could not be created.
    CreateError { AlreadyExists, Owned, OutOfMemory, AddressSpace, Range, Writer }
);
operation_error!(
    /// Why an existing area could not be opened for writing.
    OpenError { NotFound, Owned, Corrupt, MemoryGone, OutOfMemory, AddressSpace, Writer }
);
operation_error!(
    /// Why a shared state could not be hooked.
    HookError { NotFound, NotShared, Corrupt, MemoryGone, AddressSpace, Address }
);
operation_error!(
    /// Why a snapshot could not become a writable area.
    DeriveError { AlreadyExists, Owned, Corrupt, OutOfMemory, AddressSpace, Address, Writer }
);
operation_error!(
    /// Why a range could not be made writable. Nothing of the area's contents has changed.
    WriteError { OutOfMemory, AddressSpace, Range, Planes, Writer }
);
operation_error!(
    /// Why the present state could not be published. What was published before stays current.
    PublishError { OutOfMemory, AddressSpace, Pinned, Writer }
);
operation_error!(
    /// Why a range of another area could not be mapped into this one.
    MapForeignError { OutOfMemory, AddressSpace, Range, Writer }
);
operation_error!(
    /// Why an area could not be tracked.
    TrackError { OutOfMemory, AddressSpace, Writer }
);
operation_error!(
    /// Why an area could not be removed.
    RemoveError { NotFound, Owned, OutOfMemory }
);
operation_error!(
    /// Why a namespace directory cannot be used.
    NamespaceError { OutOfMemory }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_thing_and_the_way_out() {
        let name = AreaName::new("taxi").unwrap();
        let path = Path::new("/dev/shm/x");
        let ctx = Context::named(&name, path);
        let owned = Fault::Owned { pid: 7, command: "python etl.py".into() };
        let text = OpenError::from_fault(owned, &ctx).to_string();
        assert!(text.contains("taxi") && text.contains("7") && text.contains("etl.py"));
        assert!(text.contains("snapshot"), "{text}");
        let full = Fault::OutOfMemory {
            needed: ByteLen::mib(12),
            file_system: path.into(),
            free: ByteLen(0),
        };
        let text = WriteError::from_fault(full, &ctx).to_string();
        assert!(text.contains("12 MiB") && text.contains("/dev/shm/x") && text.contains("size="));
    }

    #[test]
    fn a_fault_without_a_word_of_its_own_keeps_its_cause() {
        let path = Path::new("/p");
        let e = HookError::from_fault(
            Fault::PlanesExhausted { at: AreaOffset(4096) },
            &Context::path(path),
        );
        assert!(matches!(&e, HookError::Io(f) if f.path == path));
        assert!(e.to_string().contains("4096"), "{e}");
    }
}
