//! The curves of a probe as an SVG file: four plots, the first two as the paper draws them.

use std::fmt::Write;
use swingdb::probe::Report;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
/// Room for the axes' labels, left and below, and for the title.
const LEFT: f64 = 62.0;
const BELOW: f64 = 44.0;
const ABOVE: f64 = 34.0;
const RIGHT: f64 = 14.0;
const COLOURS: [&str; 8] =
    ["#3d6b99", "#c0463a", "#4f8a5b", "#8a6bb1", "#b8862b", "#2f8f9d", "#8a8f98", "#1b2430"];

/// A line with its name.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// One plot.
struct Plot {
    title: String,
    x: &'static str,
    y: &'static str,
    /// Whether the horizontal axis is logarithmic.
    powers: bool,
    lines: Vec<Line>,
}

/// The file.
pub fn svg(report: &Report) -> String {
    let plots = [chunks(report), domains(report), alone(report), together(report)];
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" \
         viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        2.0 * WIDTH,
        2.0 * HEIGHT
    );
    for (at, plot) in plots.iter().enumerate() {
        let (x, y) = ((at % 2) as f64 * WIDTH, (at / 2) as f64 * HEIGHT);
        plot.draw(x, y, &mut text);
    }
    text.push_str("</svg>\n");
    text
}

fn chunks(report: &Report) -> Plot {
    let sweep = report.offsets.last();
    let lines = sweep.into_iter().flat_map(|sweep| {
        sweep.curves.iter().map(|curve| {
            let at =
                |(step, ns): (usize, &f64)| (step as f64 * sweep.step as f64 / 1024.0, ns / 1e3);
            Line {
                name: format!("{} KiB", f64::from(curve.request_bytes) / 1024.0),
                points: curve.values.iter().enumerate().map(at).collect(),
            }
        })
    });
    let found = report.profile.chunk_bytes.map_or("no period found".to_string(), |bytes| {
        format!("chunk {} KiB", bytes as f64 / 1024.0)
    });
    let title = format!("Latency over the offset: {found}");
    Plot { title, x: "offset, KiB", y: "us", powers: false, lines: lines.collect() }
}

fn domains(report: &Report) -> Plot {
    let lines = report.strides.iter().map(|sweep| Line {
        name: format!("{} KiB", sweep.unit_bytes as f64 / 1024.0),
        points: (1..).map(f64::from).zip(sweep.bandwidth().into_iter().map(|b| b / 1e6)).collect(),
    });
    let found = report
        .profile
        .domains
        .map_or("no period found".to_string(), |domains| format!("{} domains", domains.count));
    let title = format!("Two reads at once over their distance: {found}");
    Plot { title, x: "distance, reads", y: "MB/s", powers: false, lines: lines.collect() }
}

fn alone(report: &Report) -> Plot {
    let measured = &report.speed.alone;
    let latency = report.profile.latency;
    let kib = |bytes: u32| f64::from(bytes) / 1024.0;
    let fitted = |bytes: u32| (latency.fixed_ns as f64 + kib(bytes) * latency.kib_ns as f64) / 1e3;
    let lines = vec![
        Line {
            name: "measured".to_string(),
            points: measured.iter().map(|&(bytes, ns)| (kib(bytes), ns / 1e3)).collect(),
        },
        Line {
            name: "fixed + bytes x rate".to_string(),
            points: measured.iter().map(|&(bytes, _)| (kib(bytes), fitted(bytes))).collect(),
        },
    ];
    let title = "One request at a time".to_string();
    Plot { title, x: "length, KiB", y: "us", powers: true, lines }
}

fn together(report: &Report) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    for measured in &report.speed.together {
        let name = format!("{} KiB", measured.request_bytes >> 10);
        let point = (f64::from(measured.depth), measured.bytes_per_second() / 1e6);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name, points: vec![point] }),
        }
    }
    let profile = &report.profile;
    let title = format!("Many at a time: {} KiB x {}", profile.request_bytes >> 10, profile.depth);
    Plot { title, x: "requests in flight", y: "MB/s", powers: true, lines }
}

impl Plot {
    fn draw(&self, x: f64, y: f64, text: &mut String) {
        let inner = (WIDTH - LEFT - RIGHT, HEIGHT - ABOVE - BELOW);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let most_y = points().map(|p| p.1).fold(0.0, f64::max).max(1e-9) * 1.05;
        let scale = |value: f64| if self.powers { value.max(1e-9).log2() } else { value };
        let (least_x, most_x) = points()
            .map(|p| scale(p.0))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            });
        let wide = (most_x - least_x).max(1e-9);
        let to_x = |value: f64| x + LEFT + (scale(value) - least_x) / wide * inner.0;
        let to_y = |value: f64| y + ABOVE + (1.0 - value / most_y) * inner.1;
        self.draw_frame(x, y, text);
        if self.lines.iter().all(|line| line.points.is_empty()) {
            label(text, (x + WIDTH / 2.0, y + HEIGHT / 2.0), "middle", "nothing measured");
            return;
        }
        for tick in ticks(most_y) {
            label(text, (x + LEFT - 6.0, to_y(tick) + 4.0), "end", &format!("{tick}"));
            rule(text, (x + LEFT, to_y(tick)), (x + WIDTH - RIGHT, to_y(tick)), "#e3e6ea");
        }
        let marks: Vec<f64> = if self.powers {
            (least_x.round() as i32..=most_x.round() as i32).map(|n| f64::from(n).exp2()).collect()
        } else {
            ticks(most_x)
        };
        for mark in marks.into_iter().filter(|&mark| scale(mark) >= least_x - 1e-9) {
            let at = (to_x(mark), y + HEIGHT - BELOW + 15.0);
            label(text, at, "middle", &format!("{mark}"));
        }
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let path: Vec<_> =
                line.points.iter().map(|p| format!("{:.1},{:.1}", to_x(p.0), to_y(p.1))).collect();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\" points=\"{}\"/>",
                path.join(" ")
            );
        }
        for (at, (line, colour)) in self.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let middle = y + HEIGHT - BELOW - 8.0 - 13.0 * at as f64;
            let end = x + WIDTH - RIGHT - 4.0;
            rule(text, (end - 14.0, middle - 4.0), (end, middle - 4.0), colour);
            label(text, (end - 18.0, middle), "end", &line.name);
        }
    }

    fn draw_frame(&self, x: f64, y: f64, text: &mut String) {
        let corner = (x + LEFT, y + HEIGHT - BELOW);
        rule(text, (x + LEFT, y + ABOVE), corner, "#1b2430");
        rule(text, corner, (x + WIDTH - RIGHT, corner.1), "#1b2430");
        label(text, (x + LEFT, y + 16.0), "start", &self.title);
        label(text, (x + LEFT, y + 29.0), "start", self.y);
        label(text, (x + WIDTH - RIGHT, y + HEIGHT - 12.0), "end", self.x);
    }
}

/// Round numbers from zero to `most`, four to eight of them.
fn ticks(most: f64) -> Vec<f64> {
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let step = [5.0, 2.0, 1.0].map(|n| n * power).into_iter().find(|step| most / step >= 4.0);
    let step = step.unwrap_or(power);
    (0..=8).map(|n| f64::from(n) * step).filter(|&tick| tick <= most).collect()
}

fn rule(text: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn label(text: &mut String, at: (f64, f64), anchor: &str, words: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"#1b2430\">{words}</text>",
        at.0, at.1
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use swingdb::probe::{Model, SimulatedDevice, probe_device};

    #[test]
    fn a_report_is_drawn_whole() {
        let [model, ..] = Model::of_the_paper();
        let mut device = SimulatedDevice::new(model, 1);
        let report = probe_device(&mut device, Duration::from_secs(20), 1, &mut |_| {}).unwrap();
        let drawn = svg(&report);
        assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"));
        let lines = 4 + 1 + 2 + 6;
        assert_eq!(drawn.matches("<polyline").count(), lines);
        assert!(drawn.contains("chunk 4 KiB") && drawn.contains("20 domains"));
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "every place is a number");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(7.3), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(ticks(2100.0), [0.0, 500.0, 1000.0, 1500.0, 2000.0]);
    }
}
