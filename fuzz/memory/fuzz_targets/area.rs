//! Manifests of an area that somebody else wrote, without a database on top: an error or a
//! snapshot.
//!
//! The first byte says whether the input is a whole manifest or changes of a good one (place,
//! place, value), and whether it gets valid checksums.

#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use swing::{AreaName, AreaOffset, AreaOptions, Namespace, Publish, WriteIntent};
use xxhash_rust::xxh3::xxh3_64;

const HEADER: usize = 128;

struct Prepared {
    namespace: Namespace,
    name: AreaName,
    shared: PathBuf,
    intact: Vec<u8>,
    _area: swing::Area,
    _home: tempfile::TempDir,
}

fn prepared() -> &'static Prepared {
    static PREPARED: OnceLock<Prepared> = OnceLock::new();
    PREPARED.get_or_init(|| {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let namespace = Namespace::open(home.path()).unwrap();
        let name = AreaName::new("area").unwrap();
        let area = namespace.create(&name, &AreaOptions::default()).unwrap();
        for part in 0..3u64 {
            let at = area.geometry().small_zone().0 + part * (8 << 20);
            let range = AreaOffset(at)..AreaOffset(at + 100);
            area.make_writable(range, WriteIntent::Overwrite).unwrap();
            area.publish(Publish::Shared, b"root").unwrap();
        }
        let shared = home.path().join("area").join("shared");
        let intact = std::fs::read(&shared).unwrap();
        Prepared { namespace, name, shared, intact, _area: area, _home: home }
    })
}

fn seal(manifest: &mut [u8]) {
    if manifest.len() < HEADER {
        return;
    }
    let body = xxh3_64(&manifest[HEADER..]).to_le_bytes();
    manifest[96..104].copy_from_slice(&body);
    let header = xxh3_64(&manifest[..HEADER - 8]).to_le_bytes();
    manifest[HEADER - 8..HEADER].copy_from_slice(&header);
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((flags, input)) = input.split_first() else { return };
    let prepared = prepared();
    let mut manifest = match flags & 1 {
        0 => input.to_vec(),
        _ => {
            let mut manifest = prepared.intact.clone();
            for change in input.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
                let length = manifest.len();
                manifest[at % length] = change[2];
            }
            manifest
        }
    };
    if flags & 2 != 0 {
        seal(&mut manifest);
    }
    let temporary = prepared.shared.with_file_name("t.fuzz");
    std::fs::write(&temporary, &manifest).unwrap();
    std::fs::rename(&temporary, &prepared.shared).unwrap();
    let hooked = prepared.namespace.hook(&prepared.name);
    let unchanged = manifest == prepared.intact;
    assert!(!unchanged || hooked.is_ok(), "the good manifest was refused: {hooked:?}");
    if flags & 2 == 0 && !unchanged {
        assert!(hooked.is_err(), "a manifest with wrong checksums was taken");
    }
    drop(hooked);
});
