//! A table's log: one file for each commit, and checkpoints that have all before them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use swingdb_common::error::{Error, Result};

use super::actions::{Actions, Add, Metadata, Protocol};
use super::failure::broken;

/// The folder of a table's log.
pub(super) const LOG_FOLDER: &str = "_delta_log";

/// Features that ask nothing of this reader, or whose use in a file is looked for.
const KNOWN_FEATURES: &[&str] = &[
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
];

/// One version of a table.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) metadata: Metadata,
    /// Its files, in the order in which the log names them.
    pub(super) files: Vec<Add>,
}

impl Version {
    /// Reads a version, the newest one if `wanted` is `None`.
    pub(super) fn read(root: &Path, wanted: Option<u64>) -> Result<Self> {
        let listed = Listed::find(root)?;
        let newest = listed.newest().ok_or_else(|| broken(root, "has a log without a commit"))?;
        let version = wanted.unwrap_or(newest);
        if version > newest {
            let message = format!("has no version {version}; the newest one is {newest}");
            return Err(broken(root, message));
        }
        let mut state = State::default();
        let next = match listed.checkpoint(version) {
            Some((at, parts)) => {
                for part in parts {
                    state.apply(Actions::of_checkpoint(part)?);
                }
                at + 1
            }
            None => 0,
        };
        for number in next..=version {
            let Some(commit) = listed.commits.get(&number) else {
                return Err(broken(
                    root,
                    format!("has no version {version} any more: its log has no commit {number}"),
                ));
            };
            state.apply(Actions::of_commit(commit)?);
        }
        state.finish(root)
    }
}

/// The files of a log.
#[derive(Default)]
struct Listed {
    commits: BTreeMap<u64, PathBuf>,
    /// For each version the checkpoint's parts by their number, and how many there should be.
    checkpoints: BTreeMap<u64, HashMap<u64, BTreeMap<u64, PathBuf>>>,
}

impl Listed {
    fn find(root: &Path) -> Result<Self> {
        let folder = root.join(LOG_FOLDER);
        let fail = |error| Error::io(&folder, error);
        let mut all = Self::default();
        for entry in std::fs::read_dir(&folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let parts: Vec<&str> = name.split('.').collect();
            let number = |text: &str| {
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse::<u64>().ok().filter(|_| digits)
            };
            let Some(version) = parts.first().and_then(|text| number(text)) else { continue };
            match parts[1..] {
                ["json"] => {
                    all.commits.insert(version, path);
                }
                ["checkpoint", "parquet"] => all.add_part(version, (1, 1), path),
                ["checkpoint", part, of, "parquet"] => {
                    if let (Some(part), Some(of)) = (number(part), number(of)) {
                        all.add_part(version, (part, of), path);
                    }
                }
                // Others stand for what commits say as well.
                _ => {}
            }
        }
        Ok(all)
    }

    fn add_part(&mut self, version: u64, (part, of): (u64, u64), path: PathBuf) {
        self.checkpoints.entry(version).or_default().entry(of).or_default().insert(part, path);
    }

    fn newest(&self) -> Option<u64> {
        let whole = self.checkpoint(u64::MAX).map(|(version, _)| version);
        self.commits.keys().next_back().copied().max(whole)
    }

    /// The last checkpoint up to a version of which all parts are there.
    fn checkpoint(&self, version: u64) -> Option<(u64, impl Iterator<Item = &PathBuf>)> {
        self.checkpoints.range(..=version).rev().find_map(|(at, kinds)| {
            let whole = kinds.iter().find(|(of, parts)| parts.keys().copied().eq(1..=**of));
            whole.map(|(_, parts)| (*at, parts.values()))
        })
    }
}

/// What the actions so far have made.
#[derive(Default)]
struct State {
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
    /// In the order in which they came; a file that was added again is the later one.
    files: Vec<Add>,
}

impl State {
    fn apply(&mut self, actions: Actions) {
        self.protocol = actions.protocol.or(self.protocol.take());
        self.metadata = actions.metadata.or(self.metadata.take());
        let mut gone: HashSet<&str> = actions.removed.iter().map(String::as_str).collect();
        gone.extend(actions.added.iter().map(|add| add.path.as_str()));
        self.files.retain(|file| !gone.contains(file.path.as_str()));
        self.files.extend(actions.added);
    }

    /// The version, unless a reader must be able to do what this one cannot.
    fn finish(self, root: &Path) -> Result<Version> {
        let protocol = self.protocol.ok_or_else(|| broken(root, "has a log without protocol"))?;
        let metadata = self.metadata.ok_or_else(|| broken(root, "has a log without columns"))?;
        let refused = |what: &str| {
            let message = format!(
                "{root:?} has {what}, which Delta tables are not read with; write the rows to \
                 another table without, or as Parquet files"
            );
            Err(Error::unsupported(message))
        };
        if !(1..=3).contains(&protocol.min_reader_version) {
            return refused(&format!("reader version {}", protocol.min_reader_version));
        }
        let mut features = protocol.reader_features.iter().flatten();
        if let Some(unknown) = features.find(|name| !KNOWN_FEATURES.contains(&name.as_str())) {
            return refused(&format!("the reader feature {unknown:?}"));
        }
        let mode = metadata.configuration.get("delta.columnMapping.mode");
        if mode.and_then(Option::as_deref).is_some_and(|mode| mode != "none") {
            return refused("column mapping (delta.columnMapping.mode)");
        }
        if self.files.iter().any(Add::has_deleted_rows) {
            return refused("deletion vectors");
        }
        Ok(Version { metadata, files: self.files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Listed {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join(LOG_FOLDER);
        std::fs::create_dir(&folder).unwrap();
        for name in names {
            std::fs::write(folder.join(name), "").unwrap();
        }
        Listed::find(directory.path()).unwrap()
    }

    #[test]
    fn checkpoints_count_when_all_their_parts_are_there() {
        let all = listed(&[
            "00000000000000000000.json",
            "00000000000000000003.checkpoint.parquet",
            "00000000000000000007.checkpoint.0000000001.0000000002.parquet",
            "00000000000000000008.json",
            "00000000000000000009.json.tmp",
            "00000000000000000004.00000000000000000006.compacted.json",
            "_last_checkpoint",
        ]);
        assert_eq!(all.newest(), Some(8));
        assert_eq!(all.commits.keys().copied().collect::<Vec<_>>(), [0, 8]);
        assert_eq!(all.checkpoint(8).map(|(at, parts)| (at, parts.count())), Some((3, 1)));
        assert!(all.checkpoint(2).is_none());
    }

    #[test]
    fn files_that_come_again_replace_and_removed_ones_go() {
        let add = |path: &str| -> Add {
            serde_json::from_str(&format!(r#"{{"path": "{path}", "partitionValues": {{}}}}"#))
                .unwrap()
        };
        let mut state = State::default();
        state.apply(Actions { added: vec![add("a"), add("b")], ..Actions::default() });
        let removed = vec!["a".to_string()];
        state.apply(Actions { added: vec![add("c")], removed, ..Actions::default() });
        state.apply(Actions { added: vec![add("b")], ..Actions::default() });
        let names: Vec<_> = state.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, ["c", "b"]);
    }
}
