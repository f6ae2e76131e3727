//! What the size of extents trades: time of one copy, memory copied, number of mappings, time of a
//! hook.
//!
//! `cargo run --release -p swing --example extent-bench -- [MIB [STORES]]` (default 512 MiB, 64
//! stores a round). The namespace is a temporary directory in `/dev/shm`, or in `$SWING_BENCH_DIR`.
//! For each size: an area of MIB is filled and published; then ten rounds of plain eight-byte
//! stores, at random places (a fixed seed), each followed by a publish and a hook. One line of JSON
//! a size.

use std::time::Instant;

use swing::{AreaName, AreaOptions, ByteLen, Namespace, Publish};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let args: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let (mib, stores) = (args.first().copied().unwrap_or(512), args.get(1).copied().unwrap_or(64));
    for bits in [16, 18, 20, 21, 22, 23, 24, 25] {
        bench(mib, stores, 1 << bits)?;
    }
    Ok(())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

fn bench(mib: u64, stores: u64, extent: u64) -> Outcome<()> {
    let parent = std::env::var("SWING_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
    let dir = tempfile::Builder::new().prefix("swing-bench-").tempdir_in(parent)?;
    let ns = Namespace::open(dir.path())?;
    let name = AreaName::new("extents")?;
    let reserve = ByteLen::mib(mib.next_multiple_of(64));
    let options = AreaOptions {
        small_zone: ByteLen(0),
        extent: ByteLen(extent),
        ..AreaOptions::with_reserve(reserve)
    };
    let area = ns.create(&name, &options)?;
    area.track()?;
    let base = area.base().as_ptr();
    // SAFETY: inside the area, which is tracked; this program has one thread that stores.
    unsafe { std::ptr::write_bytes(base, 1, (mib << 20) as usize) };
    area.publish(Publish::Shared, b"")?;
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut copies, mut publishes, mut hooks) = (Vec::new(), Vec::new(), Vec::new());
    let before = area.stats().copied;
    let mut last = None;
    for _ in 0..10 {
        for _ in 0..stores {
            let at = rng.u64(..(mib << 20) / 8) as usize * 8;
            let copied = area.stats().copied;
            let start = Instant::now();
            // SAFETY: as above.
            unsafe { base.add(at).cast::<u64>().write_volatile(2) };
            let time = start.elapsed();
            if area.stats().copied > copied {
                copies.push(time.as_secs_f64() * 1e6);
            }
        }
        let start = Instant::now();
        area.publish(Publish::Shared, b"")?;
        publishes.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        last = Some(ns.hook(&name)?);
        hooks.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let stats = area.stats();
    println!(
        "{{\"extent_kib\":{},\"mib\":{mib},\"stores_a_round\":{stores},\"copy_us\":{:.1},\
         \"copied_mib_a_round\":{:.1},\"runs\":{},\"publish_us\":{:.1},\"hook_us\":{:.1}}}",
        extent >> 10,
        median(&mut copies),
        (stats.copied.get() - before.get()) as f64 / 10.0 / f64::from(1 << 20),
        stats.runs,
        median(&mut publishes),
        median(&mut hooks)
    );
    drop(last);
    Ok(())
}
