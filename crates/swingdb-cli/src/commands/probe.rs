//! `swingdb probe`: what the disk below a directory is like.

use crate::args::ProbeArgs;
use crate::commands::probe_plot;
use crate::failure::{Failure, Outcome};
use crate::units;
use std::fmt::Write as _;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;
use swingdb::probe::{self, Period, ProbeOptions, Report, Stage};

pub fn run(args: &ProbeArgs) -> Outcome {
    let time = Duration::from_secs(args.seconds);
    let options = ProbeOptions { bytes: args.bytes, time, ..Default::default() };
    let watched = std::io::stderr().is_terminal();
    let mut told = |stage: Stage| {
        if watched {
            eprintln!("{}", doing(stage, args.bytes));
        }
    };
    let report = probe::probe(&args.path, &options, &mut told).map_err(Failure::message)?;
    if let Some(file) = &args.plot {
        let failed = |e| Failure::message(format!("cannot write {}: {e}", file.display()));
        std::fs::write(file, probe_plot::svg(&report)).map_err(failed)?;
    }
    let saved = if args.save {
        Some(report.profile.save(&args.path).map_err(Failure::message)?)
    } else {
        None
    };
    let mut sink = BufWriter::new(std::io::stdout());
    if args.json {
        writeln!(sink, "{}", report.to_json())?;
    } else {
        write!(sink, "{}", table(&args.path, &report))?;
        match &saved {
            Some(file) => writeln!(sink, "\nsaved as {}", file.display())?,
            None => writeln!(sink, "\nnot saved: --save makes stores here and below use it")?,
        }
    }
    sink.flush()?;
    Ok(())
}

fn doing(stage: Stage, bytes: u64) -> String {
    match stage {
        Stage::Writing => format!("writing {} ...", units::bytes(bytes)),
        Stage::Chunks => "latency over the offset ...".to_string(),
        Stage::Domains => "two reads over their distance ...".to_string(),
        Stage::Speed => "cost, length and depth of requests ...".to_string(),
        _ => "measuring ...".to_string(),
    }
}

/// The result for people: one line for each number, and where it comes from.
fn table(path: &Path, report: &Report) -> String {
    let profile = &report.profile;
    let (cost, latency) = (profile.cost, profile.latency);
    let length = units::bytes(u64::from(profile.request_bytes));
    let rate = units::bytes(profile.bytes_per_second);
    let rows = [
        ("chunk", chunk(report)),
        ("domains", domains(report)),
        (
            "scan",
            (
                format!("{length} x {}", profile.depth),
                format!("{rate}/s; length of a request x requests in flight"),
            ),
        ),
        (
            "random reads",
            (
                format!("4 KiB x {}", profile.random_depth),
                format!("{} reads/s", units::grouped(profile.reads_per_second)),
            ),
        ),
        (
            "cost of a request",
            (
                cost_of(cost.request_ns, cost.kib_ns),
                format!(
                    "while many are in flight; gaps up to {} are read over",
                    units::bytes(cost.longest_gap())
                ),
            ),
        ),
        ("cost alone", (cost_of(latency.fixed_ns, latency.kib_ns), "one at a time".to_string())),
    ];
    let mut text = format!(
        "{}: {}, {} read in {:.1} s\n{}\n\n",
        path.display(),
        profile.device.file_system_name(),
        units::bytes(report.bytes),
        report.time.as_secs_f64(),
        report.engine
    );
    for (name, (value, remark)) in rows {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<18} {value:<24} {remark}");
    }
    text
}

fn chunk(report: &Report) -> (String, String) {
    match (report.profile.chunk_bytes, report.offsets.last().and_then(|s| s.period)) {
        (Some(bytes), Some(period)) => {
            (units::bytes(bytes), format!("latency over the offset repeats: {}", proof(&period)))
        }
        _ => nothing(report.offsets.iter().map(|sweep| sweep.rounds).max()),
    }
}

fn domains(report: &Report) -> (String, String) {
    match (report.profile.domains, report.strides.last().and_then(|s| s.period)) {
        (Some(domains), Some(period)) => (
            domains.count.to_string(),
            format!(
                "two reads over their distance, in units of {}{}: {}",
                units::bytes(domains.unit_bytes),
                domains.inner.map_or(String::new(), |inner| format!(", {inner} inside")),
                proof(&period)
            ),
        ),
        _ => nothing(report.strides.iter().map(|sweep| sweep.rounds).max()),
    }
}

fn nothing(rounds: Option<usize>) -> (String, String) {
    let why = match rounds {
        Some(rounds) if rounds > 0 => format!("no period found ({rounds} rounds)"),
        _ => "no period found (too few measurements; allow more time)".to_string(),
    };
    ("-".to_string(), why)
}

fn proof(period: &Period) -> String {
    format!("effect {:.1} %, p {}", 100.0 * period.effect, probability(period.p_value))
}

fn probability(p: f64) -> String {
    if p <= 0.002 { "at most 0.002".to_string() } else { format!("{p:.3}") }
}

/// `11.3 us + 0.69 us/KiB`.
fn cost_of(request_ns: u64, kib_ns: u64) -> String {
    format!("{:.1} us + {:.2} us/KiB", request_ns as f64 / 1e3, kib_ns as f64 / 1e3)
}
