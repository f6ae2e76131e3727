//! The names of everything in a namespace.
//!
//! All layers above find files by these names; none makes up one of its own. Names that begin with
//! [`TEMPORARY`] mean nothing after a crash.

use crate::model::error::Result;
use crate::model::name::AreaName;
use crate::model::units::{AreaId, Epoch};
use crate::sys::file::Folder;

/// Name of the memory file in an area's folder.
pub(crate) const MEMORY: &str = "memory";
/// Name of the folder with the pins and memory files of the areas depended on.
pub(crate) const PARENTS: &str = "parents";
/// The link that hookers open.
pub(crate) const SHARED: &str = "shared";
/// Where the link waits while hooks are refused.
pub(crate) const UNSHARED: &str = "unshared";
/// Where it waits while more is kept for those who have hooked than the owner's threshold allows:
/// a threshold ends with its owner.
pub(crate) const OVERSHARED: &str = "overshared";
/// All names the link may have.
pub(crate) const LINKS: [&str; 3] = [SHARED, UNSHARED, OVERSHARED];
/// The link to a manifest made ahead: once that is complete it is what hookers take, until it is
/// what they find by [`SHARED`].
pub(crate) const SHARING: &str = "t.shared";
/// What becomes one of the first two by a rename, and means nothing before.
pub(crate) const LINKING: &str = "t.link";
/// The link that an adopter opens.
pub(crate) const COMMITTED: &str = "committed";
/// The file whose exclusive lock makes a process the writer.
pub(crate) const OWNER_LOCK: &str = "owner.lock";
/// Prefixes of folders that are not named areas.
pub(crate) const UNNAMED: &str = ".unnamed-";
pub(crate) const MAKING: &str = ".new-";
pub(crate) const REMOVED: &str = ".removed-";
/// A file in the folder of an area that ends with its process; its text is a label for people.
pub(crate) const EPHEMERAL: &str = "ephemeral";
/// The longest label, in bytes.
pub(crate) const MAX_LABEL_BYTES: usize = 255;
/// Locked shared by processes that keep the memory of a closed area.
pub(crate) const HOLDERS: &str = "holders";
/// Behind the name of a link for a memfd.
pub(crate) const HELD: &str = ".held";
/// Begin of the names that mean nothing after a crash.
pub(crate) const TEMPORARY: &str = "t.";
/// The name of the socket for live hooks until somebody listens on it.
pub(crate) const NEW_LIVE: &str = "t.live";
/// The socket's name in the area's folder.
pub(crate) const LIVE: &str = "live";

/// Whether an area has ever been published: a state that was shared was committed before.
pub(crate) fn was_published(folder: &Folder) -> bool {
    [COMMITTED].into_iter().chain(LINKS).any(|link| folder.exists(link))
}

/// The name of a manifest in its area's folder.
pub(crate) fn manifest_name(epoch: Epoch) -> String {
    assert!(Epoch::POSSIBLE.contains(&epoch), "epochs begin at 1, and do not come to their end");
    format!("m.{}", epoch.0)
}

/// The epoch in a manifest's name.
pub(crate) fn manifest_epoch(name: &str) -> Option<Epoch> {
    let epoch = Epoch(name.strip_prefix("m.")?.parse().ok()?);
    (Epoch::POSSIBLE.contains(&epoch) && manifest_name(epoch) == name).then_some(epoch)
}

/// The name of a pin (a hard link to the manifest depended on) in the folder of parents.
pub(crate) fn pin_name(area: AreaId, epoch: Epoch) -> String {
    format!("{area}.{}.pin", epoch.0)
}

/// The name of the hard link to the memory file of an area depended on.
pub(crate) fn parent_memory_name(area: AreaId) -> String {
    format!("{area}.memory")
}

/// Where the link for a memfd is, when a file would be at `name`.
pub(crate) fn held_name(name: &str) -> String {
    format!("{name}{HELD}")
}

/// The one of the two names for the other.
pub(crate) fn twin_name(name: &str) -> String {
    name.strip_suffix(HELD).map_or_else(|| held_name(name), str::to_owned)
}

/// Drops the names that a crash has left in the middle of something. The caller holds the owner
/// lock.
pub(crate) fn drop_temporary_names(folder: &Folder) -> Result<()> {
    for name in folder.names()?.iter().filter(|name| name.starts_with(TEMPORARY)) {
        folder.unlink(name)?;
    }
    Ok(())
}

/// The name of an area's folder.
pub(crate) fn folder_name(name: Option<&AreaName>, id: AreaId) -> String {
    match name {
        Some(name) => name.folder(),
        None => format!("{UNNAMED}{id}"),
    }
}
