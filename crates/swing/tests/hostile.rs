//! Damaged and malicious files are refused with an error, before anything of them is used
//! (INV-AREA-6).

#[macro_use]
mod common;

use std::fs;
use std::path::PathBuf;

use common::*;
use swing::{Backing, ExtentId, HookError, OpenError, Publish, PublishError, Snapshot};

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

/// The manifests of a folder.
fn manifests(folder: &std::path::Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    all.filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with("m.")).collect()
}

/// The only one.
fn manifest(folder: &std::path::Path) -> PathBuf {
    let [only] = manifests(folder).try_into().unwrap();
    only
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
            let state = h.ns.shared_state(&name("a"));
            assert!(bad.len() >= 128 || state.is_err());
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
            let opened = h.ns.open_area(&name("b"));
            assert!(matches!(opened, Err(swing::OpenError::Corrupt { .. })), "{opened:?}");
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

/// Names like those of manifests, of all kinds of things, are no reason not to go on.
fn names_that_no_manifest_has() {
    let (h, a, _) = prepared();
    for file in ["m.0", "m.18446744073709551615", "m.9223372036854775808", "m.01", "m."] {
        fs::write(a.join(file), "x").unwrap();
    }
    // One that could be a manifest, but is empty, and nobody's.
    fs::write(a.join("m.4611686018427387904"), "").unwrap();
    let area = h.ns.open_area(&name("a")).unwrap();
    fill(&area, data_at(0), DATA, 9);
    let epoch = area.publish(Publish::Shared, b"").unwrap();
    assert_eq!(epoch.get(), 4_611_686_018_427_387_905, "no epoch is used twice");
    assert!(snapshot_is(&h.ns.hook(&name("a")).unwrap(), data_at(0), DATA, 9));
    drop(area);
    h.ns.gc().unwrap();
    h.ns.remove(&name("b")).unwrap();
    h.ns.remove(&name("a")).unwrap();
    nothing_is_left(&h);
}

/// The last possible epoch can be opened, and is the last: a publish says so, and changes nothing.
fn the_end_of_the_epochs() {
    let (h, a, _) = prepared();
    fs::write(a.join(format!("m.{}", u64::MAX >> 1)), "").unwrap();
    let area = h.ns.open_area(&name("a")).unwrap();
    fill(&area, data_at(0), DATA, 9);
    let full = area.publish(Publish::Shared, b"");
    assert!(matches!(full, Err(PublishError::Limit { .. })), "{full:?}");
    assert!(snapshot_is(&h.ns.hook(&name("a")).unwrap(), data_at(0), DATA, 1));
}

/// Writes both checksums of a manifest anew, so that what is behind them is reached.
fn reseal(bytes: &mut [u8]) {
    let sum = |bytes: &[u8]| xxhash_rust::xxh3::xxh3_64(bytes).to_le_bytes();
    let body = sum(&bytes[128..]);
    bytes[96..104].copy_from_slice(&body);
    let header = sum(&bytes[..120]);
    bytes[120..128].copy_from_slice(&header);
}

/// Fields of manifests with right checksums but wrong values: refused, or harmless. That nothing
/// panics, and that no byte of what can be hooked is a SIGBUS, is all that is asked.
fn plausible_manifests() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut hooked, mut opened) = (0, 0);
    for _ in 0..150 {
        let (h, a, b) = prepared();
        let older = h.ns.hook(&name("a")).unwrap();
        let area = h.ns.open_area(&name("a")).unwrap();
        fill(&area, data_at(1), DATA, 3);
        area.publish(Publish::Shared, b"root").unwrap();
        drop(area);
        for folder in [a, b] {
            for file in manifests(&folder) {
                let mut bytes = fs::read(&file).unwrap();
                for _ in 0..rng.usize(0..3) {
                    let at = rng.usize(3..bytes.len() / 8) * 8;
                    let old = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                    let new = match rng.u8(0..5) {
                        0 => rng.u64(0..4),
                        1 => old ^ (1 << rng.u32(0..64)),
                        2 => old.wrapping_add(DATA),
                        3 => old.wrapping_sub(DATA),
                        _ => rng.u64(0..64) * DATA,
                    };
                    bytes[at..at + 8].copy_from_slice(&new.to_le_bytes());
                }
                reseal(&mut bytes);
                fs::write(&file, bytes).unwrap();
            }
        }
        for text in ["a", "b"] {
            if let Ok(snapshot) = h.ns.hook(&name(text)) {
                hooked += 1;
                read_all(&snapshot);
            }
            if let Ok(area) = h.ns.open_area(&name(text)) {
                opened += 1;
                read_all(&area.freeze_view().unwrap());
                let _ = area.publish(Publish::Shared, b"");
                let _ = area.reclaim();
            }
        }
        assert!(older.payload() == b"root");
        h.ns.gc().unwrap();
        h.ns.list().unwrap();
    }
    println!("{hooked} of 300 could be hooked, {opened} opened");
    assert!(hooked > 20 && opened > 20, "too much is refused to say anything");
}

/// One byte of each extent that is mapped.
fn read_all(snapshot: &Snapshot) {
    let geometry = snapshot.geometry();
    let most = (data_at(64) / SMALL) as u32;
    for extent in (0..geometry.extent_count().min(most)).map(ExtentId) {
        let range = geometry.range(extent);
        if snapshot.is_mapped(&range) {
            read_snapshot(snapshot, range.end.0 - 8, 8);
        }
    }
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
    names_that_no_manifest_has,
    the_end_of_the_epochs,
    plausible_manifests,
    unreadable_texts_hide_an_area_from_lists_only,
}
