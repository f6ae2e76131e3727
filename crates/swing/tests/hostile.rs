//! Damaged and malicious files are refused with an error, before anything of them is used
//! (INV-AREA-6).

#[macro_use]
mod common;

use std::fs;
use std::path::PathBuf;

use common::*;
use swing::{Backing, HookError, OpenError, Publish};

/// An area with a base, a derived one, and both folders.
fn prepared() -> (Home, PathBuf, PathBuf) {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, SMALL, 1);
    fill(&area, data_at(0), 2 * DATA, 1);
    area.publish(Publish::Shared, b"root").unwrap();
    let derived = h.ns.hook(&name("a")).unwrap().derive(Some(&name("b"))).unwrap();
    fill(&derived, data_at(1), 1, 2);
    derived.publish(Publish::Shared, b"root").unwrap();
    let (a, b) = (h.dir.path().join("a"), h.dir.path().join("b"));
    (h, a, b)
}

fn refused(h: &Home, text: &str) {
    let hook = h.ns.hook(&name(text));
    assert!(matches!(hook, Err(HookError::Corrupt { .. })), "{hook:?}");
    let open = h.ns.open_area(&name(text));
    assert!(matches!(open, Err(OpenError::Corrupt { .. })), "{open:?}");
}

/// The only manifest of a folder.
fn manifest(folder: &std::path::Path) -> PathBuf {
    let mut all = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    all.find(|p| p.file_name().unwrap().to_str().unwrap().starts_with("m.")).unwrap()
}

fn damaged_manifests() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (h, a, _) = prepared();
    let file = manifest(&a);
    let good = fs::read(&file).unwrap();
    for round in 0..300 {
        let mut bad = good.clone();
        match round % 3 {
            0 => bad.truncate(rng.usize(..good.len())),
            1 => {
                let bit = rng.usize(..good.len() * 8);
                bad[bit / 8] ^= 1 << (bit % 8);
            }
            _ => bad.iter_mut().for_each(|b| *b = rng.u8(..)),
        }
        fs::write(&file, &bad).unwrap();
        refused(&h, "a");
        if round % 3 == 0 {
            let epoch = h.ns.shared_epoch(&name("a"));
            assert!(bad.len() >= 128 || epoch.is_err());
        }
    }
    fs::write(&file, &good).unwrap();
    assert!(h.ns.hook(&name("a")).is_ok() && h.ns.open_area(&name("a")).is_ok());
}

/// Without the check of sizes the first read would be a SIGBUS.
fn a_memory_file_that_is_too_short() {
    let (h, a, _) = prepared();
    let memory = fs::OpenOptions::new().write(true).open(memory_of(&a)).unwrap();
    if backing() == Backing::Memfd {
        // It cannot be made shorter by anybody.
        assert!(memory.set_len(0).is_err() && h.ns.hook(&name("a")).is_ok());
        return;
    }
    for len in [0, 4096, data_at(1) + DATA - 1] {
        memory.set_len(len).unwrap();
        refused(&h, "a");
        // The derived area maps the first extents of the same file.
        if len <= data_at(0) {
            refused(&h, "b");
        }
    }
}

fn a_memory_file_that_is_another_one() {
    let (h, a, _) = prepared();
    let copy = fs::read(a.join("owner.lock")).unwrap();
    fs::remove_file(memory_of(&a)).unwrap();
    fs::write(a.join("memory"), copy).unwrap();
    refused(&h, "a");
}

fn missing_files() {
    for missing in ["memory", "parents"] {
        let (h, a, b) = prepared();
        let hook = if missing == "memory" {
            fs::remove_file(memory_of(&a)).unwrap();
            h.ns.hook(&name("a"))
        } else {
            fs::remove_dir_all(b.join(missing)).unwrap();
            h.ns.hook(&name("b"))
        };
        assert!(matches!(hook, Err(HookError::Corrupt { .. })), "{hook:?}");
    }
}

fn things_that_are_no_files() {
    let (h, a, _) = prepared();
    fs::remove_file(a.join("shared")).unwrap();
    fs::create_dir(a.join("shared")).unwrap();
    assert!(h.ns.hook(&name("a")).is_err());
    fs::remove_dir(a.join("shared")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", a.join("shared")).unwrap();
    assert!(h.ns.hook(&name("a")).is_err(), "links are not followed");
    fs::write(h.dir.path().join("plain file"), "x").unwrap();
    assert!(h.ns.hook(&name("plain file")).is_err());
    assert!(h.ns.open_area(&name("plain file")).is_err());
    fs::write(h.dir.path().join(".tokens"), "").unwrap();
    assert_eq!(h.ns.list().unwrap().len(), 2);
    assert_eq!(h.ns.gc().unwrap().damaged, 1);
}

/// A manifest of another area under this one's name.
fn exchanged_manifests() {
    let (h, a, b) = prepared();
    fs::copy(manifest(&b), manifest(&a)).unwrap();
    refused(&h, "a");
}

fn unreadable_texts_hide_an_area_from_lists_only() {
    let (h, a, _) = prepared();
    fs::write(a.join("info"), [0xff, 0xfe, 0]).unwrap();
    fs::write(a.join("owner.lock"), [0xff; 100]).unwrap();
    assert_eq!(h.ns.list().unwrap().len(), 1);
    assert!(h.ns.hook(&name("a")).is_ok());
    assert!(h.ns.open_area(&name("a")).is_ok());
    h.ns.remove(&name("a")).unwrap();
}

over_both_back_ends! {
    damaged_manifests,
    a_memory_file_that_is_too_short,
    a_memory_file_that_is_another_one,
    missing_files,
    things_that_are_no_files,
    exchanged_manifests,
    unreadable_texts_hide_an_area_from_lists_only,
}
