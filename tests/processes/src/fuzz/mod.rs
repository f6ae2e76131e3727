//! What the fuzzers run on arbitrary bytes; also run from seeds by an ordinary test.
//!
//! Each function makes a case of its own from the bytes, looks at what comes out, and panics when
//! that must not be. `fuzz/` hands them to libFuzzer.

mod bytes;
mod csv;
mod files;
mod manifest;
mod session;
mod sql;

pub use csv::csv;
pub use files::files;
pub use manifest::{Shared, manifest, shared};
pub use session::session;
pub use sql::sql;
