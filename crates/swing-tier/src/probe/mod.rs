//! What a device is like: measured once, saved, and used by all that read from it.
//!
//! [`probe`] treats the device below a directory as a black box. It finds
//! 1. the *chunk*: so many bytes in a row lie in one of the device's parallel units;
//! 2. the *domains*, the parallel units;
//! 3. the length and depth of requests that a scan reads best with;
//! 4. what a request and what a byte costs, alone and among many.
//!
//! A virtual disk, or one whose translation layer scatters everything, shows neither chunk nor
//! domains: then the answer is `None`, and length and depth alone count.
//!
//! ```no_run
//! use std::path::Path;
//! use swing_tier::probe::{self, ProbeOptions};
//!
//! let store = Path::new("/data/store");
//! let report = probe::probe(store, &ProbeOptions::default(), &mut |stage| println!("{stage:?}"))?;
//! report.profile.save(store)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod device;
mod file;
mod json;
mod period;
mod random;
mod run;
mod simulated;
mod speed;
mod sweep;

pub use crate::profile::{
    DeviceId, DeviceProfile, Domains, Latency, MAX_CHUNK_BYTES, MAX_DOMAINS, PROFILE_NAME,
    ProfileError,
};
pub use device::{Device, Extent};
pub use file::{FileDevice, LEAST_PROBE_BYTES};
pub use period::{Curve, Period, find_period};
pub use random::Random;
pub use run::{ProbeError, ProbeOptions, Report, Stage, probe, probe_device};
pub use simulated::{Model, SimulatedDevice};
pub use speed::{Speed, Throughput};
pub use sweep::{OffsetSweep, StrideSweep, offsets, strides};
