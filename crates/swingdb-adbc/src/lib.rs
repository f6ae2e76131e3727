//! The library `libadbc_driver_swingdb.so`: a driver of ADBC, Arrow's interface to databases.
//!
//! A driver manager loads it by its entry point, `AdbcDriverSwingdbInit`. The crates `adbc_core`
//! and `adbc_ffi` make C functions of the traits that are implemented here, check handles and keep
//! panics in.
//!
//! * [`driver`]: databases, and the options that name them.
//! * [`connection`]: sessions, transactions, what tables there are.
//! * [`statement`]: SQL, parameters, and ingestion of Arrow streams.
//!
//! Rows leave with plain texts instead of string views, which many consumers do not know.

mod connection;
mod driver;
mod error;
mod info;
mod objects;
mod option_values;
mod rows;
mod session;
mod statement;

/// The exported symbols.
mod export {
    adbc_ffi::export_driver!(AdbcDriverSwingdbInit, crate::driver::SwingDriver);
}
