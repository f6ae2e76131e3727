//! Files in and out of a database, through the public interface only.

#[path = "io/copy.rs"]
mod copy;
#[path = "io/csv.rs"]
mod csv;
#[path = "io/duckdb.rs"]
mod duckdb;
#[path = "io/errors.rs"]
mod errors;
#[path = "io/first_error.rs"]
mod first_error;
#[path = "io/formats.rs"]
mod formats;
#[path = "io/generated.rs"]
mod generated;
#[path = "io/hostile.rs"]
mod hostile;
#[path = "io/mutations.rs"]
mod mutations;
#[path = "io/support.rs"]
mod support;
