//! Every way moves every byte, whatever the sizes; and what is wrong is said.

use std::path::Path;
use std::process::{Command, Output};

fn bulk(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_swing-bulk")).args(words).output().unwrap()
}

fn ways() -> Vec<String> {
    let output = bulk(&["list"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').next().unwrap().to_string()).collect()
}

/// A source of random bytes, and what a run of each way on it said.
fn each(folder: &Path, bytes: &str, options: &[&str], look: impl Fn(&str, &Path, &Output)) {
    let (source, target) = (folder.join("source"), folder.join("target"));
    let name = source.to_str().unwrap();
    assert!(bulk(&["make", name, bytes, "7"]).status.success());
    for way in ways() {
        let words = ["run", &way, name, target.to_str().unwrap()];
        let output = bulk(&[&words[..], options].concat());
        look(&way, &target, &output);
    }
}

fn equal(folder: &Path) -> impl Fn(&str, &Path, &Output) {
    let source = folder.join("source");
    move |way, target, output| {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{way}: {error}");
        let same = std::fs::read(&source).unwrap() == std::fs::read(target).unwrap();
        assert!(same, "{way}: the target has other bytes");
        let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(line["seconds"].as_f64().unwrap() > 0.0, "{way}: {line}");
    }
}

#[test]
fn every_way_moves_every_byte() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // Neither whole pages nor whole chunks; many pieces, and more chunks than fit a ring.
    let small = ["--chunk-kib", "8", "--pipe-kib", "64", "--piece-kib", "2048", "--depth", "3"];
    each(folder.path(), "9437897", &small, equal(folder.path()));
    // All in one chunk, and as a file of one byte, cold.
    each(folder.path(), "70001", &["--sync"], equal(folder.path()));
    each(folder.path(), "1", &["--cold"], equal(folder.path()));
}

#[test]
fn files_in_memory_are_moved_too() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    each(folder.path(), "3000017", &["--chunk-kib", "64"], equal(folder.path()));
}

#[test]
fn a_process_that_fails_ends_the_other() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let names = [source.to_str().unwrap(), target.to_str().unwrap()];
    assert!(bulk(&["make", names[0], "9000000", "7"]).status.success());
    for way in ways() {
        let mut shell = Command::new("prlimit");
        shell.args(["--fsize=1000000", env!("CARGO_BIN_EXE_swing-bulk"), "run", &way]);
        let output = shell.args(names).output().unwrap();
        assert!(!output.status.success(), "{way} wrote more than it may");
    }
}

#[test]
fn wrong_words_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    let (name, target) = (source.to_str().unwrap(), folder.path().join("target"));
    assert!(bulk(&["make", name, "10", "7"]).status.success());
    let target = target.to_str().unwrap();
    for words in [
        &["run", "pigeon", name, target][..],
        &["run", "pipe", target, target],
        &["run", "pipe", name, target, "--chunk-kib", "0"],
        &["run", "pipe", name, target, "--chunk-kib"],
        &["run", "pipe", name, target, "--speed", "3"],
        &["walk"],
    ] {
        let output = bulk(words);
        assert!(!output.status.success() && !output.stderr.is_empty(), "{words:?}");
    }
}
