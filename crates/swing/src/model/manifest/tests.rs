//! Manifests survive the round trip, and hostile ones are refused without a panic (INV-AREA-6).

use super::*;

pub(crate) fn sample(rng: &mut fastrand::Rng) -> Manifest {
    let geometry = Geometry::new(ByteLen::gib(1), ByteLen::mib(16)).unwrap();
    let sources: Vec<SourceEntry> = (0..rng.u64(1..5))
        .map(|i| SourceEntry {
            area: AreaId(100 + i),
            epoch: Epoch(if i == 0 { 9 } else { rng.u64(1..50) }),
            dev: 3,
            ino: rng.u64(..),
            name: (i % 2 == 0).then(|| AreaName::new(&format!("näme/{i}")).unwrap()),
        })
        .collect();
    let mut runs = Vec::new();
    let mut extent = rng.u32(0..20);
    while extent < geometry.extent_count() && runs.len() < rng.usize(1..30) {
        let range = geometry.range(crate::model::units::ExtentId(extent));
        let plane = rng.u32(0..3);
        runs.push(Run {
            start: range.start.0,
            len: (range.end - range.start).0,
            source: rng.u32(0..sources.len() as u32),
            file_offset: geometry.plane_offset(plane, range.start),
        });
        extent += rng.u32(1..60);
    }
    let payload = (0..rng.usize(0..100)).map(|_| rng.u8(..)).collect();
    Manifest {
        id: AreaId(100),
        epoch: Epoch(9),
        kind: Kind::Shared,
        geometry,
        base: 0x1000_0000_0000,
        published_ns: 5,
        runs,
        sources,
        payload,
    }
}

fn path() -> &'static Path {
    Path::new("/m.1")
}

#[test]
fn round_trip() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..if cfg!(miri) { 5 } else { 200 } {
        let m = sample(&mut rng);
        let bytes = m.encode();
        assert_eq!(Manifest::decode(&bytes, path()).unwrap(), m);
        let h = Header::decode(&bytes, path()).unwrap();
        assert_eq!((h.epoch, h.id), (m.epoch, m.id));
    }
}

#[test]
fn every_bit_flip_is_found() {
    let mut rng = fastrand::Rng::with_seed(2);
    let bytes = sample(&mut rng).encode();
    for bit in (0..bytes.len() * 8).step_by(if cfg!(miri) { 199 } else { 1 }) {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(Manifest::decode(&bad, path()), Err(Fault::Corrupt { .. })), "bit {bit}");
    }
}

#[test]
fn every_truncation_is_found() {
    let mut rng = fastrand::Rng::with_seed(3);
    let bytes = sample(&mut rng).encode();
    for len in (0..bytes.len()).step_by(if cfg!(miri) { 31 } else { 1 }) {
        assert!(Manifest::decode(&bytes[..len], path()).is_err());
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(Manifest::decode(&longer, path()).is_err());
}

/// Writes both checksums anew, so that the checks behind them are reached.
fn reseal(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let body = xxh3_64(&bytes[HEADER_BYTES..]);
    bytes[96..104].copy_from_slice(&body.to_le_bytes());
    let header = xxh3_64(&bytes[..HEADER_SUM_AT]);
    bytes[HEADER_SUM_AT..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
}

#[test]
fn damage_under_a_valid_checksum_never_panics_and_what_passes_is_sound() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
        let mut bytes = sample(&mut rng).encode();
        for _ in 0..rng.usize(1..4) {
            // Whole words are set, since single random bits of a 64-bit offset rarely look
            // plausible.
            let at = rng.usize(..bytes.len() / 8) * 8;
            let end = (at + 8).min(bytes.len());
            let value = match rng.u8(0..4) {
                0 => rng.u64(..),
                1 => u64::MAX - rng.u64(0..3),
                2 => rng.u64(0..4),
                _ => rng.u64(0..64) << 16,
            };
            bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
        if rng.u8(0..8) == 0 {
            bytes.truncate(rng.usize(..=bytes.len()));
        }
        reseal(&mut bytes);
        if let Ok(m) = Manifest::decode(&bytes, path()) {
            check_sound(&m);
        }
    }
}

fn check_sound(m: &Manifest) {
    let mut end = 0;
    for r in &m.runs {
        assert!(r.start >= end && r.len > 0 && (r.source as usize) < m.sources.len());
        end = r.end();
        assert!(end <= m.geometry.reserve().0);
        assert!(r.file_offset.checked_add(r.len).is_some_and(|e| e <= i64::MAX as u64));
    }
    assert!(m.payload.len() <= MAX_PAYLOAD_BYTES && m.sources[0].area == m.id);
}

/// The epoch after any that is accepted is a number, and its manifest would be accepted, too.
#[test]
fn impossible_epochs_are_refused() {
    let mut m = sample(&mut fastrand::Rng::with_seed(5));
    m.sources.truncate(1);
    m.runs.clear();
    let mut with = |epoch: u64| {
        (m.epoch, m.sources[0].epoch) = (Epoch(9), Epoch(9));
        let mut bytes = m.encode();
        for at in [40, HEADER_BYTES + 8] {
            bytes[at..at + 8].copy_from_slice(&epoch.to_le_bytes());
        }
        reseal(&mut bytes);
        Manifest::decode(&bytes, path())
    };
    for epoch in [1, u64::MAX >> 1] {
        assert_eq!(with(epoch).unwrap().epoch, Epoch(epoch));
    }
    for epoch in [0, (u64::MAX >> 1) + 1, u64::MAX - 1, u64::MAX] {
        assert!(matches!(with(epoch), Err(Fault::Corrupt { .. })), "{epoch}");
    }
}

/// Nobody could tell in which file such a run lies.
#[test]
fn runs_in_an_area_without_memory_are_refused() {
    let mut m = sample(&mut fastrand::Rng::with_seed(6));
    let used = m.runs[0].source as usize;
    (m.sources[used].dev, m.sources[used].ino) = (0, 0);
    assert!(matches!(Manifest::decode(&m.encode(), path()), Err(Fault::Corrupt { .. })));
    m.runs.retain(|run| run.source as usize != used);
    assert_eq!(Manifest::decode(&m.encode(), path()).unwrap(), m);
}

#[test]
fn random_bytes_are_refused() {
    let mut rng = fastrand::Rng::with_seed(4);
    for len in [0, 1, 127, 128, 129, 4096] {
        let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        assert!(Manifest::decode(&bytes, path()).is_err());
    }
}

#[test]
fn behind_one_made_ahead_come_zeros_and_a_stamp() {
    let mut m = sample(&mut fastrand::Rng::with_seed(7));
    let short = m.encode().len() - m.payload.len();
    for len in [0, 1, 7, 8, 9, AHEAD_BYTES - short].map(|behind| AHEAD_BYTES - behind) {
        m.payload = vec![1; len - short];
        let mut bytes = m.encode();
        assert_eq!(bytes.len(), len);
        bytes.resize(AHEAD_BYTES, 0);
        assert_eq!(Manifest::decode(&bytes, path()).unwrap(), m);
        for at in (len..AHEAD_BYTES).step_by(if cfg!(miri) { 499 } else { 1 }) {
            let mut bytes = bytes.clone();
            bytes[at] = 1;
            let is_stamp = len <= AHEAD_BYTES - WORD_BYTES && at >= AHEAD_BYTES - WORD_BYTES;
            assert_eq!(Manifest::decode(&bytes, path()).is_ok(), is_stamp, "{len}, {at}");
        }
        bytes.push(0);
        assert!(Manifest::decode(&bytes, path()).is_err(), "too much");
    }
}
