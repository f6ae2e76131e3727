//! How many mappings a state of a tracked area takes, by how the area is stored to: each hook makes
//! them. One thread stores and shares, so the figures are the same on every machine.
//!
//! `cargo run --release -p swing --example mappings`. One line of JSON for each pattern: the mean
//! over the last third of the states. Each state is hooked until right before the next. Patterns:
//! `all` (all extents between any two states), `left-out` (the same, after one interval in which
//! every second extent was left out), `sweep` (ascending, over and over, a state every so often, on
//! average after one and a half rounds), `slow-sweep` (after a third of a round), `random` (nine in
//! ten extents), `few` (one in ten).

use swing::{Area, AreaName, AreaOptions, ByteLen, Namespace, Publish};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const EXTENT: u64 = 64 << 10;
const EXTENTS: u64 = 256;
const STATES: u64 = 300;

fn main() -> Outcome<()> {
    let parent = std::env::var("SWING_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
    let dir = tempfile::Builder::new().prefix("swing-bench-").tempdir_in(parent)?;
    let ns = Namespace::open(dir.path())?;
    for pattern in ["all", "left-out", "sweep", "slow-sweep", "random", "few"] {
        let name = AreaName::new(pattern)?;
        let options = AreaOptions {
            small_zone: ByteLen(0),
            extent: ByteLen(EXTENT),
            ..AreaOptions::with_reserve(ByteLen(EXTENT * EXTENTS))
        };
        let area = ns.create(&name, &options)?;
        area.track()?;
        store(&area, 0..EXTENTS);
        area.publish(Publish::Shared, b"")?;
        let (mut rng, mut at, mut runs, mut held) = (fastrand::Rng::with_seed(1), 0, 0, None);
        for state in 0..STATES {
            let mut sweep = |extents: u64| {
                let from = at;
                at += extents;
                store(&area, (from..=at).map(|e| e % EXTENTS));
            };
            match pattern {
                "left-out" if state == STATES / 3 => store(&area, (0..EXTENTS).step_by(2)),
                "sweep" => sweep(rng.u64(EXTENTS..2 * EXTENTS)),
                "slow-sweep" => sweep(rng.u64(EXTENTS / 4..EXTENTS / 2)),
                "random" => store(&area, (0..EXTENTS).filter(|_| rng.u8(0..10) > 0)),
                "few" => store(&area, (0..EXTENTS).filter(|_| rng.u8(0..10) == 0)),
                _ => store(&area, 0..EXTENTS),
            }
            drop(held.take());
            area.publish(Publish::Shared, b"")?;
            held = Some(ns.hook(&name)?);
            runs += if state >= STATES * 2 / 3 { area.stats().runs } else { 0 };
        }
        let mean = runs as f64 / (STATES / 3) as f64;
        println!("{{\"pattern\":\"{pattern}\",\"extents\":{EXTENTS},\"mappings\":{mean:.2}}}");
    }
    Ok(())
}

/// Stores to some extents.
fn store(area: &Area, extents: impl IntoIterator<Item = u64>) {
    for extent in extents {
        // SAFETY: inside the area, which is tracked; this program stores from one thread.
        unsafe { area.base().add((extent * EXTENT) as usize).cast::<u64>().write_volatile(extent) };
    }
}
