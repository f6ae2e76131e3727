//! Live hooks of an owner that goes on storing: how long a hook takes, and how long stores stall.
//!
//! `cargo run --release -p swing --example live-bench -- [MIB [HOOKS [INTERVAL_MS]]]` (default 1024
//! MiB, 200 hooks, 20 ms apart). The namespace is a temporary directory in `/dev/shm`, or in
//! `$SWING_BENCH_DIR`. A second process owns the area and stores all the time, in three patterns:
//! `sequential` (eight bytes, ascending, over and over), `random` (eight bytes anywhere) and
//! `local` (eight bytes anywhere in the first sixteenth). One line of JSON for each.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use swing::{AreaName, AreaOptions, ByteLen, Namespace};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A store that took longer was trapped.
const TRAPPED: Duration = Duration::from_micros(5);

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, home, mib, pattern] = args.as_slice()
        && mode == "owner"
    {
        return own(home, mib.parse()?, pattern);
    }
    let number = |i: usize, default: u64| args.get(i).map_or(Ok(default), |a| a.parse::<u64>());
    let (mib, hooks, interval) = (number(0, 1024)?, number(1, 200)?, number(2, 20)?);
    for pattern in ["sequential", "random", "local"] {
        let parent = std::env::var("SWING_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
        let dir = tempfile::Builder::new().prefix("swing-bench-").tempdir_in(parent)?;
        measure(dir.path(), mib, hooks, Duration::from_millis(interval), pattern)?;
    }
    Ok(())
}

fn percentile(times: &mut [Duration], part: f64) -> f64 {
    times.sort_unstable();
    let at = ((times.len() as f64 - 1.0) * part).round() as usize;
    times.get(at).map_or(0.0, |t| t.as_secs_f64() * 1e6)
}

fn percentiles(times: &mut [Duration]) -> String {
    let parts =
        [("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];
    let each = parts.map(|(name, part)| format!("\"{name}\":{:.1}", percentile(times, part)));
    format!("{{{}}}", each.join(","))
}

fn measure(home: &Path, mib: u64, hooks: u64, every: Duration, pattern: &str) -> Outcome<()> {
    let mut owner = Command::new(std::env::current_exe()?)
        .arg("owner")
        .arg(home)
        .args([&mib.to_string(), pattern])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let ns = Namespace::open(home)?;
    let name = AreaName::new("live")?;
    while !home.join("live/live").exists() {
        if let Some(status) = owner.try_wait()? {
            return Err(format!("the owner ended: {status}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut times = Vec::new();
    let mut last = swing::Epoch(0);
    for _ in 0..hooks {
        std::thread::sleep(every);
        let start = Instant::now();
        let snapshot = ns.hook_live(&name)?;
        times.push(start.elapsed());
        assert!(snapshot.epoch() > last, "a hook that did not get a fresh state");
        last = snapshot.epoch();
    }
    drop(owner.stdin.take());
    let out = owner.wait_with_output()?;
    println!(
        "{{\"pattern\":\"{pattern}\",\"mib\":{mib},\"hooks\":{hooks},\"interval_ms\":{},\
         \"hook_us\":{},{}}}",
        every.as_millis(),
        percentiles(&mut times),
        String::from_utf8(out.stdout)?.trim()
    );
    Ok(())
}

/// The owner: stores until its standard input ends.
fn own(home: &str, mib: u64, pattern: &str) -> Outcome<()> {
    let random = pattern != "sequential";
    let ns = Namespace::open(home)?;
    let options = AreaOptions {
        small_zone: ByteLen(0),
        ..AreaOptions::with_reserve(ByteLen::mib((mib * 2).max(64)))
    };
    let area = ns.create(&AreaName::new("live")?, &options)?;
    area.track()?;
    let words = (mib << 20) / 8;
    let base = area.base().as_ptr().cast::<u64>();
    for page in 0..words / 512 {
        // SAFETY: inside the area, which is tracked; this program stores from one thread.
        unsafe { base.add(page as usize * 512).write_volatile(1) };
    }
    // Twice all of it is copied: both versions of each extent have memory that the machine has
    // really given.
    for round in 0..2 {
        area.publish(swing::Publish::Shared, b"")?;
        for page in 0..words / 512 {
            // SAFETY: as above.
            unsafe { base.add(page as usize * 512).write_volatile(round) };
        }
    }
    area.allow_live_hooks(true)?;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        told.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let stored_to = if pattern == "local" { words / 16 } else { words };
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut trapped, mut stalls, mut at, mut stores) = (Vec::new(), Vec::new(), 0, 0u64);
    let begin = Instant::now();
    let (mut now, mut copying) = (begin, area.time_copying());
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        // Sixty-four stores a look at the clock, of which at most one is trapped; random ones one
        // by one.
        for _ in 0..if random { 1 } else { 64 } {
            at = match at + 1 {
                _ if random => rng.u64(..stored_to),
                end if end == stored_to => 0,
                next => next,
            };
            // SAFETY: as above.
            unsafe { base.add(at as usize).write_volatile(stores) };
            stores += 1;
        }
        let then = std::mem::replace(&mut now, Instant::now());
        if now - then > TRAPPED {
            let before = std::mem::replace(&mut copying, area.time_copying());
            trapped.push(now - then);
            stalls.push((now - then).saturating_sub(copying - before));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let stats = area.stats();
    println!(
        "\"stores_per_s\":{:.0},\"copied_mib\":{},\"copy_gb_per_s\":{:.2},\"runs\":{},\
         \"trapped\":{},\"trapped_us\":{},\"stall_us\":{}",
        stores as f64 / seconds,
        stats.copied.get() >> 20,
        stats.copied.get() as f64 / area.time_copying().as_nanos() as f64,
        stats.runs,
        trapped.len(),
        percentiles(&mut trapped),
        percentiles(&mut stalls),
    );
    Ok(())
}
