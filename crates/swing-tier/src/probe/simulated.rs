//! A model of a solid-state disk with known numbers, to check the probe against.
//!
//! The device is an array of *domains* that work beside each other. Chunks of the address space go
//! round the domains, as in RAID 0. Two domains may share a *channel*, over which bytes move one
//! after the other. Before all is the *controller*, which takes a moment for each chunk that a
//! request touches; behind all the *link* to the host, which moves the bytes of all requests one
//! after the other. A part of a chunk can be slow: flash cells that hold several bits have fast
//! and slow pages.
//!
//! A request ends when its last byte has gone over the link. Its time is stretched by noise, and
//! some requests by a spike. The clock is the model's own: a probe of it takes no real time, and
//! gives the same result for the same seed.
//!
//! What this says about latency: a request inside of one chunk waits for one channel; one that
//! crosses a boundary moves its parts over two channels at once and is faster. So latency over the
//! offset has the chunk as its period, is flat for the smallest requests, and flat again where a
//! request is a whole number of chunks longer than one. That is what the paper measures.

use std::time::Duration;

use crate::probe::Random;
use crate::probe::device::{Device, Extent};
use crate::storage::IoResult;

/// The numbers of a [`SimulatedDevice`].
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What the device is called in reports.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: u64,
    /// Length of a chunk in bytes; zero: the device has no chunks, and one domain serves each
    /// request, chosen at random.
    pub chunk_bytes: u64,
    /// How many domains there are.
    pub domains: u32,
    /// How many channels they share; a divisor of `domains`.
    pub channels: u32,
    /// What the controller takes for each chunk of a request, in nanoseconds.
    pub controller_ns: f64,
    /// What a domain takes to find the bytes of a chunk, in nanoseconds.
    pub sense_ns: f64,
    /// What it takes more for each byte in the second half of a chunk, in nanoseconds.
    pub slow_half_ns: f64,
    /// What a channel takes for a byte, in nanoseconds.
    pub channel_byte_ns: f64,
    /// What the link takes for a byte, in nanoseconds.
    pub link_byte_ns: f64,
    /// The standard deviation of a request's time, as a part of it.
    pub noise: f64,
    /// The part of requests that take ten times as long.
    pub spikes: f64,
}

impl Model {
    /// The paper's three devices: an Intel SLC disk with chunks of 4 KiB, an Intel MLC disk with 16
    /// KiB, an OCZ disk with 8 KiB and fast and slow pages; each has 20 domains, which on the first
    /// two share channels in pairs. The times are made up in the order of such a disk's.
    pub fn of_the_paper() -> [Model; 3] {
        let intel = Model {
            name: "SSD-1",
            bytes: 1 << 30,
            chunk_bytes: 4 << 10,
            domains: 20,
            channels: 10,
            controller_ns: 2_000.0,
            sense_ns: 25_000.0,
            slow_half_ns: 0.0,
            channel_byte_ns: 10.0,
            link_byte_ns: 3.6,
            noise: 0.05,
            spikes: 0.005,
        };
        let mlc = Model {
            name: "SSD-2",
            chunk_bytes: 16 << 10,
            sense_ns: 50_000.0,
            channel_byte_ns: 8.0,
            ..intel.clone()
        };
        let ocz = Model {
            name: "SSD-3",
            chunk_bytes: 8 << 10,
            channels: 20,
            sense_ns: 50_000.0,
            slow_half_ns: 10.0,
            noise: 0.1,
            ..intel.clone()
        };
        [intel, mlc, ocz]
    }

    /// A disk without chunks and domains that could be seen from outside, such as a virtual one.
    pub fn without_structure() -> Model {
        let [intel, ..] = Model::of_the_paper();
        Model { name: "no structure", chunk_bytes: 0, channels: 20, noise: 0.2, ..intel }
    }
}

/// A device that is a [`Model`].
#[derive(Debug)]
pub struct SimulatedDevice {
    model: Model,
    random: Random,
    now_ns: f64,
    domain_free: Vec<f64>,
    channel_free: Vec<f64>,
    controller_free: f64,
    link_free: f64,
}

impl SimulatedDevice {
    /// A device that does the same for the same seed.
    pub fn new(model: Model, seed: u64) -> Self {
        SimulatedDevice {
            random: Random::new(seed),
            now_ns: 0.0,
            domain_free: vec![0.0; model.domains.max(1) as usize],
            channel_free: vec![0.0; model.channels.max(1) as usize],
            controller_free: 0.0,
            link_free: 0.0,
            model,
        }
    }

    /// When a request that is submitted now ends.
    fn end_of(&mut self, extent: Extent) -> f64 {
        let model = &self.model;
        let (mut from, end) = (extent.offset, extent.offset + u64::from(extent.len));
        let mut last = self.now_ns;
        let start = self.now_ns;
        while from < end {
            let (domain, part_end) = match model.chunk_bytes {
                0 => (self.random.below(u64::from(model.domains)), end),
                chunk => (from / chunk % u64::from(model.domains), (from / chunk + 1) * chunk),
            };
            let until = part_end.min(end);
            let slow = match model.chunk_bytes {
                0 => 0,
                chunk => until.saturating_sub(from.max(part_end - chunk / 2)),
            };
            self.controller_free = self.controller_free.max(start) + model.controller_ns;
            let sensed = &mut self.domain_free[domain as usize];
            *sensed = sensed.max(self.controller_free)
                + model.sense_ns
                + slow as f64 * model.slow_half_ns;
            let channel = domain as usize % self.channel_free.len();
            let moved = &mut self.channel_free[channel];
            *moved = moved.max(*sensed) + (until - from) as f64 * model.channel_byte_ns;
            // The domain's register is full until the channel has emptied it.
            *sensed = *moved;
            last = last.max(*moved);
            from = until;
        }
        let bytes = f64::from(extent.len) * model.link_byte_ns;
        self.link_free = self.link_free.max(last) + bytes;
        let time = self.link_free - start;
        start + time * self.stretch()
    }

    /// The noise of one request, as a factor.
    fn stretch(&mut self) -> f64 {
        let bell: f64 = (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0;
        let factor = (1.0 + self.model.noise * bell).max(0.2);
        if self.random.unit() < self.model.spikes { factor * 10.0 } else { factor }
    }
}

impl Device for SimulatedDevice {
    fn bytes(&self) -> u64 {
        self.model.bytes
    }

    fn step(&self) -> u64 {
        512
    }

    fn read(&mut self, extents: &[Extent], depth: u32) -> IoResult<Duration> {
        let start = self.now_ns;
        let mut in_flight: Vec<f64> = Vec::new();
        let mut last = start;
        for &extent in extents {
            if in_flight.len() >= depth.max(1) as usize {
                let first =
                    (0..in_flight.len()).min_by(|&a, &b| in_flight[a].total_cmp(&in_flight[b]));
                let ended = first.map_or(self.now_ns, |index| in_flight.swap_remove(index));
                self.now_ns = self.now_ns.max(ended);
            }
            let end = self.end_of(extent);
            in_flight.push(end);
            last = last.max(end);
        }
        self.now_ns = last;
        Ok(Duration::from_nanos((last - start) as u64))
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns as u64)
    }

    fn describe(&self) -> String {
        format!("a model of {}", self.model.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(model: Model) -> SimulatedDevice {
        SimulatedDevice::new(Model { noise: 0.0, spikes: 0.0, ..model }, 1)
    }

    fn ns(device: &mut SimulatedDevice, offsets: &[u64], len: u32) -> u64 {
        let extents: Vec<_> = offsets.iter().map(|&offset| Extent { offset, len }).collect();
        device.read(&extents, 64).unwrap().as_nanos() as u64
    }

    #[test]
    fn one_request_costs_what_the_numbers_say() {
        let [intel, _, ocz] = Model::of_the_paper();
        let expected = 2_000.0 + 25_000.0 + 4096.0 * 10.0 + 4096.0 * 3.6;
        assert_eq!(ns(&mut quiet(intel.clone()), &[0], 4096), expected as u64);
        let crossing = 2_000.0 + 2_000.0 + 25_000.0 + 2048.0 * 10.0 + 4096.0 * 3.6;
        assert_eq!(ns(&mut quiet(intel), &[2048], 4096), crossing as u64);
        let (fast, slow) = (quiet(ocz.clone()), quiet(ocz));
        let [fast, slow] =
            [(fast, 0), (slow, 4096)].map(|(mut device, at)| ns(&mut device, &[at], 512));
        assert_eq!(slow - fast, 5120);
    }

    #[test]
    fn two_reads_disturb_each_other_where_they_share_something() {
        let [intel, ..] = Model::of_the_paper();
        let pair = |far: u64| ns(&mut quiet(intel.clone()), &[0, far * 4096], 4096);
        assert!(pair(20) > pair(10) && pair(10) > pair(1), "{:?}", [1, 10, 20].map(pair));
        assert_eq!((pair(3), pair(23), pair(20)), (pair(7), pair(27), pair(40)));
    }

    #[test]
    fn the_depth_limits_what_is_in_flight() {
        let [intel, ..] = Model::of_the_paper();
        let extents: Vec<_> = (0..200).map(|n| Extent { offset: n * 4096, len: 4096 }).collect();
        let mut times = Vec::new();
        for depth in [1, 4, 10, 64] {
            times.push(quiet(intel.clone()).read(&extents, depth).unwrap());
        }
        // At ten the link to the host is full.
        assert!(times[0] > 2 * times[1] && times[1] > times[2], "{times:?}");
        assert_eq!(times[2], times[3]);
        let mut device = SimulatedDevice::new(intel.clone(), 5);
        let first = device.read(&extents, 4).unwrap();
        assert_eq!(device.now(), first);
        assert_eq!(SimulatedDevice::new(intel, 5).read(&extents, 4).unwrap(), first);
    }
}
