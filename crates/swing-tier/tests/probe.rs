//! The probe against models whose numbers are known, and against the real file system here.

use std::time::Duration;

use swing_tier::probe::{
    self, Device, DeviceProfile, Extent, FileDevice, LEAST_PROBE_BYTES, Model, ProbeError,
    ProbeOptions, Random, Report, SimulatedDevice, Stage,
};
use swing_tier::{DirectoryOptions, Engine, Log, LogOptions};

fn probe_model(model: Model, seconds: u64, seed: u64) -> Report {
    let mut device = SimulatedDevice::new(model, seed);
    let time = Duration::from_secs(seconds);
    let report = probe::probe_device(&mut device, time, seed, &mut |_| {}).unwrap();
    let over = report.time.saturating_sub(time);
    assert!(over < Duration::from_secs(2), "it took {:?}", report.time);
    report
}

/// What the paper says of its three devices: chunks of 4, 16 and 8 KiB, 20 domains on each, and
/// two levels, 20 and 10, on the first two.
#[test]
fn the_papers_devices_come_out_as_published() {
    let published = [(4 << 10, Some(10)), (16 << 10, Some(10)), (8 << 10, None)];
    for (model, (chunk, inner)) in Model::of_the_paper().into_iter().zip(published) {
        for seed in [1, 2] {
            let name = model.name;
            let profile = probe_model(model.clone(), 60, seed).profile;
            assert_eq!(profile.chunk_bytes, Some(chunk), "{name}, seed {seed}");
            let domains = profile.domains.map(|d| (d.count, d.unit_bytes, d.inner));
            assert_eq!(domains, Some((20, chunk, inner)), "{name}, seed {seed}");
            assert!(profile.depth > 1 && profile.random_depth >= 8, "{profile:?}");
        }
    }
}

/// The paper's figure 3: which request lengths show a flat line, which a wave.
#[test]
fn the_curves_have_the_shapes_of_the_paper() {
    let waves = |model: &Model| {
        let mut device = SimulatedDevice::new(model.clone(), 1);
        let time = Duration::from_secs(30);
        let sweep = probe::offsets(&mut device, 512, time, &mut Random::new(1)).unwrap();
        let wave = |bytes: u32| {
            let curve = sweep.curves.iter().find(|c| c.request_bytes == bytes).unwrap();
            let (least, most) = curve
                .values
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(a, b), &v| (a.min(v), b.max(v)));
            (most - least) / least
        };
        [512, 4096, 8192].map(wave)
    };
    let [intel, mlc, ocz] = Model::of_the_paper().map(|model| waves(&model));
    assert!(intel[0] < 0.1 && intel[1] > 0.2 && intel[2] < 0.15, "SSD-1: {intel:?}");
    assert!(mlc[0] < 0.1 && mlc[1] > 0.15 && mlc[2] > 0.15, "SSD-2: {mlc:?}");
    assert!(ocz.iter().all(|&wave| wave > 0.1), "SSD-3 has slow halves: {ocz:?}");
}

#[test]
fn other_numbers_than_the_papers_come_out_too() {
    let [intel, ..] = Model::of_the_paper();
    for (chunk_kib, domains, step) in [(2, 7, 512), (12, 4, 512), (64, 8, 512), (128, 3, 4096)] {
        let chunk_bytes = chunk_kib << 10;
        let model = Model { chunk_bytes, domains, channels: domains, noise: 0.1, ..intel.clone() };
        let report = probe_model(model, 120, 9);
        assert_eq!(report.profile.chunk_bytes, Some(chunk_bytes), "{chunk_kib} KiB");
        assert_eq!(report.offsets.last().map(|sweep| sweep.step), Some(step));
        let found = report.profile.domains.map(|d| (d.count, d.inner));
        assert_eq!(found, Some((domains, None)), "{chunk_kib} KiB");
    }
}

#[test]
fn a_device_without_structure_gives_none() {
    let mut wrong = Vec::new();
    for seed in 0..20 {
        let report = probe_model(Model::without_structure(), 20, seed);
        let DeviceProfile { chunk_bytes, domains, .. } = report.profile;
        if chunk_bytes.is_some() || domains.is_some() {
            wrong.push((seed, chunk_bytes, domains));
        }
    }
    assert!(wrong.len() <= 1, "{wrong:?}");
}

#[test]
fn one_domain_is_none() {
    let [intel, ..] = Model::of_the_paper();
    let model = Model { domains: 1, channels: 1, ..intel };
    assert_eq!(probe_model(model, 30, 1).profile.domains, None);
}

#[test]
fn too_little_time_gives_none_and_keeps_to_it() {
    let [intel, ..] = Model::of_the_paper();
    // A hard disk: one arm, 8 ms to find a place, 130 MB/s.
    let disk = Model {
        chunk_bytes: 16 << 20,
        domains: 1,
        channels: 1,
        sense_ns: 8_000_000.0,
        channel_byte_ns: 4.0,
        ..intel
    };
    let report = probe_model(disk, 8, 1);
    assert_eq!((report.profile.chunk_bytes, report.profile.domains), (None, None));
    let profile = report.profile;
    assert!((7_000_000..9_000_000).contains(&profile.latency.fixed_ns), "{profile:?}");
    assert_eq!(profile.request_bytes, 512 << 10, "long requests: {profile:?}");
}

/// A directory on a disk, where there is one: not in memory.
fn on_disk() -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let time = Duration::from_secs(60);
    let made =
        FileDevice::create(directory.path(), DirectoryOptions::default(), LEAST_PROBE_BYTES, time);
    match made {
        Err(ProbeError::NotDirect { reason, .. }) => {
            println!("skipped: {reason}");
            None
        }
        made => made.map(|_| Some(directory)).unwrap(),
    }
}

/// Probes; for longer where the disk is too busy to write the file in that time.
fn probe_patiently(
    path: &std::path::Path,
    mut options: ProbeOptions,
    stage: &mut dyn FnMut(Stage),
) -> Report {
    loop {
        match probe::probe(path, &options, stage) {
            Err(ProbeError::TooSlow { .. }) if options.time < Duration::from_secs(60) => {
                options.time *= 2;
            }
            report => return report.unwrap(),
        }
    }
}

/// INV-PROBE-1.
#[test]
fn the_real_file_system_is_left_as_it_was() {
    let Some(directory) = on_disk() else { return };
    let path = directory.path();
    std::fs::write(path.join("somebody's"), b"data").unwrap();
    let options = ProbeOptions {
        bytes: LEAST_PROBE_BYTES,
        time: Duration::from_secs(4),
        ..Default::default()
    };
    let threads = ProbeOptions { engine: Engine::Threads, time: Duration::from_secs(3), ..options };
    let report = probe_patiently(path, threads, &mut |_| {});
    assert!(report.engine.starts_with("pread"), "{}", report.engine);
    let mut stages = Vec::new();
    let mut names = Vec::new();
    let report = probe_patiently(path, options, &mut |stage| {
        if stage == Stage::Writing {
            stages.clear();
        }
        stages.push(stage);
        names.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()));
    });
    assert_eq!(stages, [Stage::Writing, Stage::Chunks, Stage::Domains, Stage::Speed]);
    assert!(names.iter().all(|name| name == "somebody's"), "{names:?}");
    assert_eq!(std::fs::read(path.join("somebody's")).unwrap(), b"data");
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 1);
    assert!(report.time < Duration::from_secs(120), "{:?}", report.time);
    assert!(report.profile.bytes_per_second > 0 && report.profile.cost.kib_ns > 0);
    println!("{:#?}", report.profile);

    report.profile.save(path).unwrap();
    assert_eq!(DeviceProfile::find(path), Some(report.profile));
    let storage = swing_tier::Directory::open(path, DirectoryOptions::default()).unwrap();
    let log = Log::create(std::sync::Arc::new(storage), LogOptions::default()).unwrap();
    drop(log);
}

#[test]
fn reads_of_the_real_device_are_of_any_sector() {
    let Some(directory) = on_disk() else { return };
    let options = DirectoryOptions::default();
    let time = Duration::from_secs(60);
    let mut device =
        FileDevice::create(directory.path(), options, LEAST_PROBE_BYTES, time).unwrap();
    let step = device.step();
    assert!((512..=4096).contains(&step));
    for (offset, len) in [(0, step), (step, step), (3 * step, 8 * step), (0, 512 << 10)] {
        let extents = [Extent { offset, len: len as u32 }; 5];
        for depth in [1, 3, 64] {
            assert!(device.read(&extents, depth).unwrap() > Duration::ZERO);
        }
    }
    let past_end = Extent { offset: device.bytes(), len: 4096 };
    assert!(device.read(&[past_end], 1).is_err());
    let mut random = Random::new(1);
    for _ in 0..1000 {
        if let Some(place) = device.place(&mut random, 300_000, 4096) {
            assert!(place + 300_000 <= device.bytes() && place.is_multiple_of(512));
        }
    }
    assert_eq!(device.place(&mut random, device.bytes() + 1, 512), None);
}

#[test]
fn what_cannot_be_probed_is_refused() {
    let probed = |path: &std::path::Path, bytes| {
        let options = ProbeOptions { bytes, ..Default::default() };
        probe::probe(path, &options, &mut |_| {}).map(|_| ())
    };
    if let Ok(memory) = tempfile::tempdir_in("/dev/shm") {
        let refused = probed(memory.path(), LEAST_PROBE_BYTES);
        assert!(matches!(refused, Err(ProbeError::NotDirect { .. })), "{refused:?}");
    }
    let nowhere = probed(std::path::Path::new("/nonexistent/store"), LEAST_PROBE_BYTES);
    assert!(matches!(nowhere, Err(ProbeError::Io(_))), "{nowhere:?}");
    let Some(directory) = on_disk() else { return };
    let refused = probed(directory.path(), 1 << 60);
    assert!(matches!(refused, Err(ProbeError::NoRoom { .. })), "{refused:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
