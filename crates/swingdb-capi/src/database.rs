//! Databases: opening, snapshots, sharing, stores on a disk.
//!
//! Each function returns 0 or a negative number; `include/swingdb.h` documents them.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::time::Duration;

use swingdb::{Database, Durability, OpenOptions, StoreOptions};

use crate::call::{call, hand_out, handle, needed, place, take_back, text};
use crate::error::{Failure, Result};

/// An open database.
#[expect(non_camel_case_types, reason = "its name in C")]
pub struct swingdb_database(pub(crate) Database);

/// "commit", "manual", or a number of seconds.
fn durability_of(given: &str) -> Result<Durability> {
    match given {
        "commit" => return Ok(Durability::Commit),
        "manual" => return Ok(Durability::Manual),
        _ => {}
    }
    let seconds = given.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    let wrong = || {
        let message = "is not \"commit\", \"manual\" or a number of seconds";
        Failure::argument(format!("durability {given:?} {message}"))
    };
    seconds.map(Durability::Interval).ok_or_else(wrong)
}

/// # Safety
/// Texts are null or end with a zero; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_open(
    name: *const c_char,
    store: *const c_char,
    durability: *const c_char,
    out: *mut *mut swingdb_database,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (name, store, durability, out) = unsafe {
            let durability = text("durability", durability)?;
            (needed("the name", name)?, text("the store", store)?, durability, place(out)?)
        };
        let durability = durability.map(durability_of).transpose()?;
        let database = match store {
            Some(store) => {
                let options = StoreOptions { directory: store.into(), durability };
                Database::open_with_options(name, &OpenOptions::default().store(options))?
            }
            None if durability.is_some() => {
                return Err(Failure::argument("a durability needs a store"));
            }
            None => Database::open(name)?,
        };
        out.set(hand_out(swingdb_database(database)));
        Ok(())
    })
}

/// # Safety
/// Texts are null or end with a zero; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_snapshot(
    name: *const c_char,
    as_name: *const c_char,
    out: *mut *mut swingdb_database,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (name, as_name, out) = unsafe {
            (needed("the name", name)?, text("the snapshot's name", as_name)?, place(out)?)
        };
        let database = match as_name {
            Some(as_name) => Database::get_snapshot(name, as_name)?,
            None => Database::snapshot(name)?,
        };
        out.set(hand_out(swingdb_database(database)));
        Ok(())
    })
}

/// # Safety
/// Texts are null or end with a zero; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_restore(
    directory: *const c_char,
    name: *const c_char,
    out: *mut *mut swingdb_database,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (directory, name, out) =
            unsafe { (needed("the directory", directory)?, text("the name", name)?, place(out)?) };
        let options = OpenOptions::default();
        let database = Database::restore(Path::new(directory), name, &options)?;
        out.set(hand_out(swingdb_database(database)));
        Ok(())
    })
}

/// # Safety
/// `database` is null or a handle that was not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_share(database: *const swingdb_database) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let database = unsafe { handle("the database", database) }?;
        Ok(database.0.share().map(drop)?)
    })
}

/// # Safety
/// `database` is null or a handle that was not given back; `newer` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_refresh(
    database: *const swingdb_database,
    newer: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let database = unsafe { handle("the database", database) }?;
        let found = database.0.refresh()?;
        // SAFETY: the caller's promise.
        if let Ok(newer) = unsafe { place(newer) } {
            newer.set(c_int::from(found));
        }
        Ok(())
    })
}

/// # Safety
/// `database` is null or a handle that was not given back; `directory` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_checkpoint(
    database: *const swingdb_database,
    directory: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (database, directory) =
            unsafe { (handle("the database", database)?, text("the directory", directory)?) };
        match directory {
            Some(directory) => database.0.checkpoint_to(Path::new(directory))?,
            None => database.0.checkpoint()?,
        };
        Ok(())
    })
}

/// # Safety
/// `database` is null or a handle that was not given back; nobody uses it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_close(database: *mut swingdb_database) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        match unsafe { take_back(database) } {
            Some(database) => Ok(database.0.close()?),
            None => Ok(()),
        }
    })
}

/// # Safety
/// `name` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_drop(name: *const c_char) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { needed("the name", name) }?;
        Ok(swingdb::drop(name).map(|_| ())?)
    })
}
