//! What a database in memory knows of its store on a disk.
//!
//! The link stands in the catalog's root record, so whoever opens the database for writing finds
//! the store. It names its area: a snapshot that is shared on under another name shows the same
//! record, and has no store.

use std::path::PathBuf;
use std::time::Duration;

use swingdb_common::error::Result;

use crate::catalog::history::History;
use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;

/// When changes of a database reach its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// With each commit: what was committed is on the disk.
    #[default]
    Commit,
    /// In the background, when this time has passed since the last time.
    Interval(Duration),
    /// With `CHECKPOINT` alone.
    Manual,
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Commit => f.write_str("commit"),
            Self::Interval(every) => write!(f, "every {} s", every.as_secs_f64()),
            Self::Manual => f.write_str("manual"),
        }
    }
}

/// Where a database has its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// The area that the link belongs to.
    pub area: u64,
    pub history: History,
    /// The directory, absolute.
    pub path: PathBuf,
    pub durability: Durability,
}

impl Link {
    pub fn write(&self, w: &mut Writer) {
        use std::os::unix::ffi::OsStrExt;
        w.u64(self.area);
        self.history.write(w);
        w.blob(self.path.as_os_str().as_bytes());
        match self.durability {
            Durability::Commit => w.u64(0),
            Durability::Manual => w.u64(1),
            Durability::Interval(every) => {
                w.u64(2);
                w.u64(every.as_millis().try_into().unwrap_or(u64::MAX));
            }
        }
    }

    pub fn read(r: &mut Reader<'_>) -> Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        let area = r.u64()?;
        let history = History::read(r)?;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(r.blob()?));
        let durability = match r.u64()? {
            0 => Durability::Commit,
            1 => Durability::Manual,
            2 => Durability::Interval(Duration::from_millis(r.u64()?)),
            other => return Err(corrupt(format!("a durability of number {other}"))),
        };
        Ok(Self { area, history, path, durability })
    }
}
