//! A full file system is an error of the statement, never the death of the process.
//!
//! The small file system is mounted, which takes root; without it the test says so and passes.

use std::path::{Path, PathBuf};
use std::process::Command;

use swingdb_processes::child::Victim;

const VICTIM: &str = env!("CARGO_BIN_EXE_swingdb-victim");
const SIZE: &str = "size=96m";

/// A small tmpfs; unmounted when dropped.
struct SmallFileSystem(
    PathBuf,
    #[expect(dead_code, reason = "keeps the directory")] tempfile::TempDir,
);

impl SmallFileSystem {
    fn mount(options: &str) -> Option<Self> {
        let directory = tempfile::tempdir().ok()?;
        let path = directory.path().to_path_buf();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("{SIZE},mode=0700,{options}"), "swingdb-test"]);
        mount.arg(&path).output().ok()?.status.success().then_some(Self(path, directory))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        // Lazily: a child that has just been killed may still be letting go.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_file_system_is_an_error_and_the_database_goes_on() {
    for options in ["huge=never", "huge=advise"] {
        let Some(small) = SmallFileSystem::mount(options) else {
            eprintln!("skipped: mounting a tmpfs with {options} needs root");
            continue;
        };
        let home = small.path().join("home");
        // Otherwise the database goes on in the rest of the machine's memory.
        let files = [("SWINGDB_BACKING", "file")];
        let mut victim = Victim::start_with(VICTIM, &home, &["fill", "db"], &files);
        let said: Vec<String> = (0..3).map(|_| victim.line()).collect();
        let ended = victim.finish();
        ended.assert_well(&format!("{options}, said {said:?}"));
        assert!(said[0].starts_with("OutOfMemory:"), "{options}: {said:?}");
        let (appended, counted) = said[1].split_once(' ').unwrap();
        assert_eq!(appended, counted, "{options}: a failed append left rows");
        assert!(appended.parse::<u64>().unwrap() >= 200_000, "{options}: {said:?}");
        assert_eq!(said[2], "goes on", "{options}");
    }
}
