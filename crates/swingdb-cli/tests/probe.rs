//! `swingdb probe`: what it prints, saves and leaves behind.

mod common;

use common::World;
use std::path::Path;
use std::time::Duration;

/// A directory on a disk; `None` where the tests run in memory.
fn on_disk(world: &World) -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let words = ["probe", text(directory.path()), "--seconds", "2", "--bytes", "32M"];
    let output = world.run(&words);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("cannot be probed") {
        println!("skipped: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    assert_eq!(names(directory.path()), [""; 0]);
    Some(directory)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_result_is_printed_drawn_and_saved() {
    let world = World::new();
    let Some(directory) = on_disk(&world) else { return };
    let plot = world.file("probe.svg");
    let words = ["probe", text(directory.path()), "--seconds", "3", "--bytes", "64M", "--save"];
    let table = world.ok(&[&words[..], &["--plot", text(&plot)]].concat());
    for line in ["chunk ", "domains ", "scan ", "random reads ", "cost of a request ", "saved as "]
    {
        assert!(table.contains(line), "{line}: {table}");
    }
    assert_eq!(names(directory.path()), ["device-profile"]);
    assert!(std::fs::read_to_string(plot).unwrap().starts_with("<svg"));
    let found = swingdb::probe::DeviceProfile::find(directory.path()).unwrap();

    let json = world.ok(&[&words[..], &["--json"]].concat());
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["profile"]["file-system-id"].as_u64(), Some(found.device.identifier));
    assert!(value["profile"]["depth"].as_u64().unwrap() >= 1);
    assert_eq!(value["bytes"].as_u64(), Some(64 << 20));
    assert_eq!(value["offsets"][0]["curves"][0]["ns"].as_array().unwrap().len(), 256);
    let again = swingdb::probe::DeviceProfile::find(directory.path()).unwrap();
    assert_eq!(value["profile"]["request-ns"].as_u64(), Some(again.cost.request_ns));
}

#[test]
fn a_killed_probe_leaves_nothing() {
    let world = World::new();
    let Some(directory) = on_disk(&world) else { return };
    for ms in [20, 100, 700] {
        let words = ["probe", text(directory.path()), "--seconds", "30", "--bytes", "64M"];
        let mut child = world.command(words).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(ms));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(names(directory.path()), [""; 0], "after {ms} ms");
    }
}

#[test]
fn what_cannot_be_probed_is_refused() {
    let world = World::new();
    let said = world.fails(1, &["probe", text(world.home())]);
    assert!(said.contains("choose a directory on a disk"), "{said}");
    let said = world.fails(1, &["probe", "/nonexistent"]);
    assert!(said.contains("No such file"), "{said}");
    world.fails(2, &["probe"]);
    world.fails(2, &["probe", "/tmp", "--bytes", "1K"]);
    world.fails(2, &["probe", "/tmp", "--seconds", "0"]);
}
