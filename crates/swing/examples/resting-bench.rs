//! Live hooks of an owner that has stored something and rests: how long a hook takes when nobody
//! competes with it. `live-bench` has an owner that goes on storing.
//!
//! `cargo run --release -p swing --example resting-bench -- [MIB [HOOKS [REST_MS]]]` (default 192
//! MiB, 60 hooks, 30 ms between the stores and the hook). The namespace is a temporary directory in
//! `/dev/shm`, or in `$SWING_BENCH_DIR`. Between any two hooks the owner stores to nothing
//! (`nothing`), to one extent (`one`), to every third (`third`), or to all of them (`all`). One
//! line of JSON for each.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use swing::{Area, AreaName, AreaOptions, ByteLen, Namespace};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const EXTENT: u64 = 2 << 20;
/// Hooks at the begin that are not told: the area, and what is known of it, settle.
const BEGIN: usize = 6;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, home, mib] = args.as_slice()
        && mode == "owner"
    {
        return own(home, mib.parse()?);
    }
    let number = |i: usize, default: u64| args.get(i).map_or(Ok(default), |a| a.parse::<u64>());
    let (mib, hooks, rest) = (number(0, 192)?, number(1, 60)?, number(2, 30)?);
    let parent = std::env::var("SWING_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
    let dir = tempfile::Builder::new().prefix("swing-bench-").tempdir_in(parent)?;
    measure(dir.path(), mib, hooks as usize, Duration::from_millis(rest))
}

fn measure(home: &Path, mib: u64, hooks: usize, rest: Duration) -> Outcome<()> {
    let mut owner = Command::new(std::env::current_exe()?)
        .arg("owner")
        .arg(home)
        .arg(mib.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = owner.stdin.take().ok_or("no input")?;
    let mut answers = BufReader::new(owner.stdout.take().ok_or("no output")?);
    let mut ask = |word: &str| -> Outcome<()> {
        input.write_all(format!("{word}\n").as_bytes())?;
        let mut line = String::new();
        answers.read_line(&mut line)?;
        if line.is_empty() { Err("the owner ended".into()) } else { Ok(()) }
    };
    // Its area is there.
    ask("nothing")?;
    let (ns, name) = (Namespace::open(home)?, AreaName::new("resting")?);
    for pattern in ["nothing", "one", "third", "all"] {
        let mut times = Vec::new();
        for _ in 0..BEGIN + hooks {
            ask(pattern)?;
            std::thread::sleep(rest);
            let begin = Instant::now();
            let snapshot = ns.hook_live(&name)?;
            times.push(begin.elapsed());
            drop(snapshot);
        }
        let mut times = times.split_off(BEGIN);
        times.sort_unstable();
        let at = |part: usize| times.get(times.len() * part / 100).map_or(0.0, micros);
        println!(
            "{{\"pattern\":\"{pattern}\",\"mib\":{mib},\"hooks\":{hooks},\"hook_us\":\
             {{\"least\":{:.1},\"p10\":{:.1},\"p50\":{:.1},\"p90\":{:.1}}}}}",
            at(0),
            at(10),
            at(50),
            at(90)
        );
    }
    drop(input);
    owner.wait()?;
    Ok(())
}

fn micros(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The owner: stores as it is told, and says when it has.
fn own(home: &str, mib: u64) -> Outcome<()> {
    let ns = Namespace::open(home)?;
    let options = AreaOptions {
        small_zone: ByteLen(0),
        ..AreaOptions::with_reserve(ByteLen::mib(mib.next_multiple_of(64)))
    };
    let area = ns.create(&AreaName::new("resting")?, &options)?;
    area.track()?;
    let extents = (mib << 20) / EXTENT;
    (0..extents).for_each(|extent| touch(&area, extent));
    area.allow_live_hooks(true)?;
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "one" => touch(&area, 0),
            "third" => (0..extents).step_by(3).for_each(|extent| touch(&area, extent)),
            "all" => (0..extents).for_each(|extent| touch(&area, extent)),
            _ => {}
        }
        println!("stored");
    }
    Ok(())
}

/// Stores to each page of an extent.
fn touch(area: &Area, extent: u64) {
    for page in (0..EXTENT).step_by(4096) {
        let at = (extent * EXTENT + page) as usize;
        // SAFETY: inside the area, which is tracked; this program stores from one thread.
        unsafe { area.base().add(at).cast::<u64>().write_volatile(extent) };
    }
}
