//! The extension module `swingdb._internal`: what the Python package stands on.
//!
//! The names users see, their documentation and everything that can be written in Python is in
//! `python/swingdb`; here is what needs the engine: handles, sessions, results, and the conversion
//! of values between Python and Arrow.
//!
//! Rules every function here keeps:
//! * The interpreter's lock is released while the engine works, and a Ctrl-C in the main thread
//!   ends the running statement: see [`blocking`].
//! * A handle made before a `fork` is refused in the child, and never torn down there: see
//!   [`fork`].
//! * Results and arrays keep the memory they show; nothing that happens to a connection takes it
//!   away.

mod aggregates;
mod batches;
mod blocking;
mod called;
mod capsule;
mod columns;
mod database;
mod databases;
mod declared;
mod errors;
mod files;
mod fork;
mod functions;
mod infer;
mod panics;
mod params;
mod progress;
mod result;
mod rows;
mod session;
mod table_functions;
mod temporal;
mod types;
mod views;
mod work;

use pyo3::prelude::*;
use swingdb::allocator::{JEMALLOC_OPTIONS, at_first_query};
use tikv_jemalloc_ctl::background_thread;
// The C interface, which `swingdb.memory` calls: one library, so one table of areas and one handler
// of faults in the process.
use swing_capi as _;
// The entry point of the ADBC driver, which `swingdb.adbc` tells driver managers of.
use adbc_driver_swingdb as _;

// Nobody holds its locks in a forked child, whatever the threads of its parent were about.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: Option<&[u8; JEMALLOC_OPTIONS.len()]> = Some(JEMALLOC_OPTIONS);

/// The extension module.
#[pymodule(name = "_internal")]
mod internal {
    use super::*;

    #[pymodule_export]
    use super::batches::{Batches, NumpyColumn};
    #[pymodule_export]
    use super::blocking::after_fork_in_child;
    #[pymodule_export]
    use super::columns::{batches_from_columns, batches_of_alike};
    #[pymodule_export]
    use super::database::Database;
    #[pymodule_export]
    use super::databases::{discard_snapshot, doctor, drop, gc, lineage, list_databases};
    #[pymodule_export]
    use super::result::Rows;
    #[pymodule_export]
    use super::session::Session;
    #[pymodule_export]
    use super::work::Work;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::blocking::note_main_thread(module.py())?;
        // Without the thread, memory that queries leave goes back to the system later.
        at_first_query(|| _ = background_thread::write(true));
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
