//! Probes a directory's device, or a model of one, and prints everything as JSON.
//!
//!     cargo run --release -p swing-tier --example probe_curves -- WHERE [SECONDS] [MIB]
//!
//! WHERE is a directory, or the name of a model: SSD-1, SSD-2, SSD-3, none.

use std::path::Path;
use std::time::Duration;

use swing_tier::probe::{self, Model, ProbeOptions, SimulatedDevice};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let place = words.first().map_or(".", String::as_str);
    let number = |at: usize, default| words.get(at).map_or(default, |w| w.parse().unwrap());
    let time = Duration::from_secs(number(1, 20));
    let models = Model::of_the_paper().into_iter().chain([Model::without_structure()]);
    let model =
        models.into_iter().find(|m| m.name == place || place == "none" && m.chunk_bytes == 0);
    let report = match model {
        Some(model) => {
            let mut device = SimulatedDevice::new(model, 1);
            probe::probe_device(&mut device, time, 1, &mut |_| {}).unwrap()
        }
        None => {
            let options = ProbeOptions { bytes: number(2, 512) << 20, time, ..Default::default() };
            probe::probe(Path::new(place), &options, &mut |stage| eprintln!("{stage:?}"))
                .unwrap_or_else(|error| panic!("{error}"))
        }
    };
    println!("{}", report.to_json());
}
