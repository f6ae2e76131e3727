//! Medians of hook, publish and copy-on-write, which must not depend on the size of the area.
//!
//! `cargo run --release -p swing --example swing-bench -- [MIB ...]` (default 1 and 1024). The
//! namespace is a temporary directory in `/dev/shm`, or in `$SWING_BENCH_DIR`. Memory is touched
//! before anything is timed.

use std::time::{Duration, Instant};

use swing::{Area, AreaName, AreaOffset, AreaOptions, Namespace, Publish, WriteIntent};

const ROUNDS: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, home] = args.as_slice()
        && mode == "hook-once"
    {
        return hook_once(home);
    }
    let mut sizes: Vec<u64> = args.iter().filter_map(|a| a.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1, 1024];
    }
    println!(
        "{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>13} {:>13} {:>9} {:>9} {:>9}",
        "MiB",
        "hook us",
        "fresh us",
        "unhook us",
        "derive us",
        "share us",
        "publish0 us",
        "publish64K us",
        "publish2M us",
        "cow64K us",
        "cow2M us",
        "load GB/s"
    );
    for size in sizes {
        bench(size)?;
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, |t| t.as_secs_f64() * 1e6)
}

fn timed<T>(times: &mut Vec<Duration>, f: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let out = f();
    times.push(start.elapsed());
    out
}

fn touch(area: &Area, at: u64, len: u64) -> Result<(), swing::WriteError> {
    area.make_writable(AreaOffset(at)..AreaOffset(at + len), WriteIntent::Keep)?;
    // SAFETY: the byte has just been made writable, and this program has one thread.
    unsafe { area.base().add(at as usize).write(at as u8) };
    Ok(())
}

fn bench(mib: u64) -> Result<(), Box<dyn std::error::Error>> {
    let parent = std::env::var("SWING_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
    let dir = tempfile::Builder::new().prefix("swing-bench-").tempdir_in(parent)?;
    let ns = Namespace::open(dir.path())?;
    let name = AreaName::new("bench")?;
    let area = ns.create(&name, &AreaOptions::default_database())?;
    let zone = area.geometry().small_zone().0;
    let len = (mib << 20).max(2 << 20);
    let load = Instant::now();
    area.make_writable(AreaOffset(zone)..AreaOffset(zone + len), WriteIntent::Overwrite)?;
    // SAFETY: the whole range has just been made writable, and this program has one thread.
    unsafe { std::ptr::write_bytes(area.base().add(zone as usize).as_ptr(), 1, len as usize) };
    let load = len as f64 / load.elapsed().as_secs_f64() / 1e9;
    for i in 0..8 {
        touch(&area, i << 16, 1)?;
    }
    area.publish(Publish::Shared, b"root")?;
    let (mut hook, mut unhook) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let snapshot = timed(&mut hook, || ns.hook(&name))?;
        timed(&mut unhook, || drop(snapshot));
    }
    let mut fresh = Vec::new();
    for _ in 0..20 {
        let out = std::process::Command::new(std::env::current_exe()?)
            .args(["hook-once", &dir.path().display().to_string()])
            .output()?;
        fresh.push(Duration::from_nanos(String::from_utf8(out.stdout)?.trim().parse()?));
    }
    // A named area derived from a snapshot, and its first share with one small extent changed.
    let (mut derive, mut share) = (Vec::new(), Vec::new());
    let child = AreaName::new("child")?;
    for _ in 0..ROUNDS {
        let snapshot = ns.hook(&name)?;
        let derived = timed(&mut derive, || snapshot.derive(Some(&child)))?;
        touch(&derived, 0, 1)?;
        timed(&mut share, || derived.publish(Publish::Shared, b"root"))?;
        drop((snapshot, derived));
        ns.remove(&child)?;
    }
    let mut publish0 = Vec::new();
    for _ in 0..ROUNDS {
        timed(&mut publish0, || area.publish(Publish::Shared, b"root"))?;
    }
    let cow = |at: &dyn Fn(u64) -> u64| -> Result<_, Box<dyn std::error::Error>> {
        let (mut copies, mut publishes) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS as u64 {
            timed(&mut copies, || touch(&area, at(round), 1))?;
            timed(&mut publishes, || area.publish(Publish::Shared, b"root"))?;
        }
        Ok((median(copies), median(publishes)))
    };
    let (cow64, publish64) = cow(&|_| 0)?;
    let extents = len >> 21;
    let (cow2m, publish2m) = cow(&|round| zone + ((round * 7919 % extents) << 21))?;
    println!(
        "{mib:>9} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>11.1} {publish64:>13.1} \
         {publish2m:>13.1} {cow64:>9.1} {cow2m:>9.1} {load:>9.2}",
        median(hook),
        median(fresh),
        median(unhook),
        median(derive),
        median(share),
        median(publish0)
    );
    let stats = area.stats();
    eprintln!("{stats:?}");
    Ok(())
}

/// The first hook of a fresh process, in nanoseconds, full path.
fn hook_once(home: &str) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let ns = Namespace::open(home)?;
    let snapshot = ns.hook(&AreaName::new("bench")?)?;
    let elapsed = start.elapsed();
    let at = snapshot.geometry().small_zone().0 as usize;
    // SAFETY: the first byte of the data zone is mapped in every benchmark area.
    let first = unsafe { snapshot.base().add(at).read() };
    assert_eq!(first & 1, 1);
    println!("{}", elapsed.as_nanos());
    Ok(())
}
