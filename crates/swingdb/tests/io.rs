//! Files in and out of a database, through the public interface only.

#[path = "io/backup.rs"]
mod backup;
#[path = "common/mod.rs"]
mod common;
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
#[path = "io/folders.rs"]
mod folders;
#[path = "io/formats.rs"]
mod formats;
#[path = "io/guesses.rs"]
mod guesses;
#[path = "io/hostile.rs"]
mod hostile;
#[path = "io/json.rs"]
mod json;
#[path = "io/mutations.rs"]
mod mutations;
#[path = "io/parquet_bounds.rs"]
mod parquet_bounds;
#[path = "io/streams.rs"]
mod streams;
#[path = "io/support.rs"]
mod support;
#[path = "io/workers.rs"]
mod workers;
