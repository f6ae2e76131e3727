//! What an area's folder says about its origin: the file `info`, a few lines of text.
//!
//! It serves people and listings only; nothing about memory depends on it. Unknown lines are
//! ignored.

use std::fmt::Write as _;

use crate::model::error::Result;
use crate::model::name::AreaName;
use crate::model::units::{AreaId, Epoch};
use crate::sys::file::{self, Folder};

/// Name of the file.
pub(crate) const INFO: &str = "info";
/// The longest `info` file that is read.
const MAX_INFO_BYTES: u64 = 1 << 20;

/// One area (at one epoch) that another was derived from, or took memory from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lineage {
    pub id: AreaId,
    pub epoch: Epoch,
    pub name: Option<AreaName>,
}

/// The contents of `info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub id: AreaId,
    pub created_ns: u64,
    pub parents: Vec<Lineage>,
}

impl Info {
    pub(crate) fn to_text(&self) -> String {
        let mut out = format!("id {}\ncreated {}\n", self.id, self.created_ns);
        for p in &self.parents {
            let name = p.name.as_ref().map(AreaName::folder).unwrap_or_default();
            let _ = writeln!(out, "parent {} {} {name}", p.id, p.epoch.0);
        }
        out
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut id = None;
        let mut created_ns = 0;
        let mut parents = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("id ") {
                id = parse_id(rest);
            } else if let Some(rest) = line.strip_prefix("created ") {
                created_ns = rest.parse().ok()?;
            } else if let Some(rest) = line.strip_prefix("parent ") {
                let mut words = rest.splitn(3, ' ');
                let id = parse_id(words.next()?)?;
                let epoch = Epoch(words.next()?.parse().ok()?);
                let name = words.next().and_then(AreaName::from_folder);
                parents.push(Lineage { id, epoch, name });
            }
        }
        Some(Self { id: id?, created_ns, parents })
    }

    /// Reads the file; `None` when it is missing or makes no sense.
    pub(crate) fn read(folder: &Folder) -> Option<Self> {
        let file = folder.open_read(INFO).ok()?;
        let bytes = file::read_all(&file, MAX_INFO_BYTES, &folder.join(INFO)).ok()??;
        Self::parse(std::str::from_utf8(&bytes).ok()?)
    }

    /// Writes the file in one step.
    pub(crate) fn write(&self, folder: &Folder) -> Result<()> {
        folder.unlink("t.info")?;
        let file = folder.create_new("t.info")?;
        file::write_all(&file, self.to_text().as_bytes(), &folder.join(INFO))?;
        folder.rename("t.info", INFO)
    }
}

pub(crate) fn parse_id(text: &str) -> Option<AreaId> {
    let id = u64::from_str_radix(text, 16).ok()?;
    (text.len() == 16 && id != 0).then_some(AreaId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_with_odd_names() {
        let parent = |n: Option<&str>| Lineage {
            id: AreaId(7),
            epoch: Epoch(3),
            name: n.map(|n| AreaName::new(n).unwrap()),
        };
        let parents = vec![parent(Some("a b\nc")), parent(None), parent(Some("%2F/ "))];
        let info = Info { id: AreaId(1), created_ns: 5, parents };
        assert_eq!(Info::parse(&info.to_text()), Some(info));
    }

    #[test]
    fn nonsense_is_no_info() {
        for text in
            ["", "id 0", "id 00000000000000001", "created 1", "id 0000000000000001\nparent x"]
        {
            assert_eq!(Info::parse(text), None, "{text}");
        }
        assert!(Info::parse("id 0000000000000001\nfuture line\n").is_some());
    }
}
