//! The databases of this machine: listing, lineage, dropping, cleaning up, and advice.
//!
//! Every function has a twin ending in `_in` that works on another namespace directory than the
//! default one (`$SWINGDB_HOME`, else `/dev/shm/swingdb-<uid>`).

mod doctor;

use std::path::{Path, PathBuf};

use swing::{AreaInfo, AreaName, GcReport, Namespace, RemoveReport};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::temporary::Folder;
use swingdb_store::{Durability, Store};

pub use doctor::{Finding, doctor, doctor_in};

/// One database in the forest of who came from whom; see [`lineage`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LineageNode {
    /// The database's name.
    pub name: String,
    /// Its sizes, owner, readers and times.
    pub info: AreaInfo,
    /// Names of the databases it was taken or cloned from; empty for one made from nothing. A
    /// parent that has been dropped meanwhile is named here all the same.
    pub parents: Vec<String>,
    /// Names of the databases taken or cloned from it that still exist.
    pub children: Vec<String>,
}

/// All databases and named snapshots, by name. What a process left that died before there was
/// anything in it is none of them.
///
/// ```
/// # let home = tempfile::tempdir_in("/dev/shm").unwrap();
/// # let home = home.path();
/// let taxi = swingdb::Database::open_in(home, "taxi")?;
/// taxi.share()?;
/// let names = swingdb::list_in(home)?;
/// assert_eq!(names[0].name.as_ref().map(|n| n.as_str()), Some("taxi"));
/// # Ok::<(), swingdb::Error>(())
/// ```
pub fn list() -> Result<Vec<AreaInfo>> {
    list_with(&Namespace::open_default()?)
}

/// As [`list`], in the namespace directory `home`.
pub fn list_in(home: &Path) -> Result<Vec<AreaInfo>> {
    list_with(&Namespace::open(home)?)
}

fn list_with(space: &Namespace) -> Result<Vec<AreaInfo>> {
    let mut areas = space.list()?;
    areas.retain(|area| area.name.is_some() && !is_remainder(area));
    Ok(areas)
}

/// Whether nobody can open an area in any state: a process died before it published the first one.
/// [`gc`] takes such an area away, as does the next one of its name.
fn is_remainder(area: &AreaInfo) -> bool {
    let published = area.shared_epoch.or(area.committed_epoch).is_some();
    area.owner.is_none() && !published && area.readers.is_empty()
}

/// What is left of dropped databases because somebody still uses it.
pub fn list_removed() -> Result<Vec<AreaInfo>> {
    Ok(Namespace::open_default()?.list_removed()?)
}

/// As [`list_removed`], in the namespace directory `home`.
pub fn list_removed_in(home: &Path) -> Result<Vec<AreaInfo>> {
    Ok(Namespace::open(home)?.list_removed()?)
}

/// The store on a disk that a database had when it was shared last, and when its changes get there;
/// `None`: there is none, or nothing was shared yet.
pub fn store_of(name: &str) -> Option<(PathBuf, Durability)> {
    Store::hook(&Namespace::open_default().ok()?, name).ok()?.linked_store()
}

/// As [`store_of`], in the namespace directory `home`.
pub fn store_of_in(home: &Path, name: &str) -> Option<(PathBuf, Durability)> {
    Store::hook(&Namespace::open(home).ok()?, name).ok()?.linked_store()
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
    let areas = list_with(space)?;
    let name_of = |area: &AreaInfo| area.name.as_ref().map(|n| n.as_str().to_string());
    let nodes = areas.iter().map(|area| {
        let parents = area.parents.iter().map(|parent| match &parent.name {
            Some(name) => name.as_str().to_string(),
            None => format!("unnamed {}", parent.id),
        });
        let children = areas.iter().filter(|other| other.parents.iter().any(|p| p.id == area.id));
        LineageNode {
            name: name_of(area).unwrap_or_default(),
            info: area.clone(),
            parents: parents.collect(),
            children: children.filter_map(name_of).collect(),
        }
    });
    Ok(nodes.collect())
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
    space.remove(&AreaName::new(name)?).map_err(|error| match Error::from(error) {
        Error::NotFound { .. } => {
            let known = list_with(space).unwrap_or_default();
            let known = || known.iter().filter_map(|a| a.name.as_ref()).map(|n| n.as_str());
            if known().any(|known| known == name) {
                let message = "its folder lacks the file that says who owns it";
                return Error::Corrupt { name: name.to_string(), message: message.to_string() };
            }
            Error::not_found(ObjectKind::Database, name, known())
        }
        other => other,
    })
}

/// Drops a named snapshot; [`drop`] under the name its users know.
pub fn discard_snapshot(name: &str) -> Result<RemoveReport> {
    drop(name)
}

/// As [`discard_snapshot`], in the namespace directory `home`.
pub fn discard_snapshot_in(home: &Path, name: &str) -> Result<RemoveReport> {
    drop_in(home, name)
}

/// Frees what dead processes left behind, also in the folder for temporary files.
pub fn gc() -> Result<GcReport> {
    gc_with(&Namespace::open_default()?)
}

/// As [`gc`], in the namespace directory `home`.
pub fn gc_in(home: &Path) -> Result<GcReport> {
    gc_with(&Namespace::open(home)?)
}

fn gc_with(space: &Namespace) -> Result<GcReport> {
    Folder::of_environment().sweep();
    Ok(space.gc()?)
}
