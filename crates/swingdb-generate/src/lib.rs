//! Reproducible data sets for demonstrations, tests and benchmarks.
//!
//! - [`taxi`]: GPS reports of the taxis of a made-up city, ordered by time, with real trips;
//! - [`tpch`]: the eight tables of TPC-H at any scale factor;
//! - [`weather`]: hourly weather for each zone of the same city, to join with the taxis.
//!
//! Every generator is a pure function of its options: the same seed gives the same rows on any
//! machine, with any number of threads, and whatever part of the data set is asked for first. No
//! transcendental function of the platform's C library takes part.
//!
//! ```
//! let reader = swingdb_generate::taxi(1_000, 42);
//! let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
//! assert_eq!(rows, 1_000);
//! ```

pub mod city;
mod fill;
mod random;
pub mod taxi;
mod taxi_plan;
pub mod tpch;
pub mod weather;

pub use city::{HotSpot, hot_spots};
pub use fill::{fill_taxi, fill_tpch, fill_weather};
pub use taxi::{TaxiGenerator, TaxiOptions, TaxiReader, taxi};
pub use tpch::TpchTable;
pub use weather::{WeatherOptions, weather, zones};
