//! Running the real program in a namespace of its own.
#![allow(dead_code, reason = "each test uses its part")]

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A namespace in memory and a directory for files; both vanish with it.
pub struct World {
    home: TempDir,
    files: TempDir,
}

impl World {
    pub fn new() -> Self {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        World { home, files: tempfile::tempdir().unwrap() }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.file(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    }

    pub fn history(&self) -> PathBuf {
        self.file("history")
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The program, not started yet.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_swingdb"));
        command.args(args).current_dir(self.files.path());
        command.env("SWINGDB_HOME", self.home.path()).env("SWINGDB_HISTORY", self.history());
        command.env("TERM", "xterm").stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs it; it must succeed and say nothing on the standard error.
    pub fn ok(&self, args: &[&str]) -> String {
        succeeded(self.run(args), args)
    }

    /// Runs it; it must fail with this status. Answers what it said.
    pub fn fails(&self, status: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {error}");
        assert!(error.starts_with("error: "), "{args:?}: {error}");
        error
    }

    /// Runs it with this text on the standard input.
    pub fn fed(&self, args: &[&str], input: &str) -> Output {
        let mut child = self.start(args);
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    pub fn fed_ok(&self, args: &[&str], input: &str) -> String {
        succeeded(self.fed(args, input), args)
    }

    /// Starts it with pipes.
    pub fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// A database `cities` with three rows, one of them without a number, shared.
    pub fn cities(&self) {
        self.ok(&[
            "cities",
            "-c",
            "CREATE TABLE city (id BIGINT, name VARCHAR, people BIGINT)",
            "-c",
            "INSERT INTO city VALUES (1, 'Oslo', 717710), (2, 'Bergen', NULL), (3, 'Å \"x\"', 7)",
            "-c",
            "SHARE",
        ]);
    }
}

fn succeeded(output: Output, args: &[&str]) -> String {
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {error}");
    assert_eq!(error, "", "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}
