//! The databases of this machine: listing, lineage, dropping, cleaning up, and advice.
//!
//! Every function has a twin ending in `_in` that works on another namespace directory than the
//! default one (`$SWINGDB_HOME`, else `/dev/shm/swingdb-<uid>`).

use std::path::Path;

use swing::{AreaInfo, AreaName, GcReport, Namespace, RemoveReport};

use crate::error::Result;

/// One database in the forest of who came from whom; see [`lineage`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LineageNode {
    /// The database.
    pub info: AreaInfo,
    /// Names of the databases it was taken or cloned from; empty for one made from nothing. A parent
    /// that has been dropped meanwhile is named here all the same.
    pub parents: Vec<String>,
    /// Names of the databases taken or cloned from it that still exist.
    pub children: Vec<String>,
}

/// Something on this system that costs speed or capacity; see [`doctor`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What is the case.
    pub what: String,
    /// What it costs.
    pub cost: String,
    /// The command that mends it; empty when it is as it should be.
    pub mend: String,
}

/// All databases and named snapshots, by name.
pub fn list() -> Result<Vec<AreaInfo>> {
    list_with(&Namespace::open_default()?)
}

/// As [`list`], in the namespace directory `home`.
pub fn list_in(home: &Path) -> Result<Vec<AreaInfo>> {
    list_with(&Namespace::open(home)?)
}

fn list_with(space: &Namespace) -> Result<Vec<AreaInfo>> {
    Ok(space.list()?)
}

/// All databases and named snapshots with their parents and children.
pub fn lineage() -> Result<Vec<LineageNode>> {
    lineage_with(&Namespace::open_default()?)
}

/// As [`lineage`], in the namespace directory `home`.
pub fn lineage_in(home: &Path) -> Result<Vec<LineageNode>> {
    lineage_with(&Namespace::open(home)?)
}

fn lineage_with(space: &Namespace) -> Result<Vec<LineageNode>> {
    todo!("{space:?}")
}

/// Drops a named database: its name at once, its memory as soon as no process uses it.
///
/// An error while a process, this one included, has it open for writing.
pub fn drop(name: &str) -> Result<RemoveReport> {
    drop_with(&Namespace::open_default()?, name)
}

/// As [`drop`], in the namespace directory `home`.
pub fn drop_in(home: &Path, name: &str) -> Result<RemoveReport> {
    drop_with(&Namespace::open(home)?, name)
}

fn drop_with(space: &Namespace, name: &str) -> Result<RemoveReport> {
    Ok(space.remove(&AreaName::new(name)?)?)
}

/// Drops a named snapshot; an alias of [`drop`] under the name its users know.
pub fn discard_snapshot(name: &str) -> Result<RemoveReport> {
    drop(name)
}

/// As [`discard_snapshot`], in the namespace directory `home`.
pub fn discard_snapshot_in(home: &Path, name: &str) -> Result<RemoveReport> {
    drop_in(home, name)
}

/// Frees what dead processes left behind.
pub fn gc() -> Result<GcReport> {
    Ok(Namespace::open_default()?.gc()?)
}

/// As [`gc`], in the namespace directory `home`.
pub fn gc_in(home: &Path) -> Result<GcReport> {
    Ok(Namespace::open(home)?.gc()?)
}

/// What on this system costs speed or capacity, and the command that mends it.
pub fn doctor() -> Vec<Finding> {
    todo!()
}
