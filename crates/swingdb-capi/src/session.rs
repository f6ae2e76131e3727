//! Sessions, and statements in them.
//!
//! Each function returns 0 or a negative number; `include/swingdb.h` documents them.

use std::ffi::{c_char, c_double, c_int, c_void};

use arrow::ffi_stream::FFI_ArrowArrayStream;
use swingdb::{Connection, Value};

use crate::call::{call, hand_out, handle, handle_mut, needed, place, take_back};
use crate::database::swingdb_database;
use crate::error::{Failure, Result};

/// The most parameters of a statement.
const MAX_PARAMETERS: usize = 65_535;

/// A session on a database.
#[expect(non_camel_case_types, reason = "its name in C")]
pub struct swingdb_session(Connection);

/// A text with the values of its parameters.
#[expect(non_camel_case_types, reason = "its name in C")]
pub struct swingdb_statement {
    connection: Connection,
    sql: String,
    values: Vec<Value>,
}

/// # Safety
/// `database` is null or a handle that was not given back; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_connect(
    database: *const swingdb_database,
    out: *mut *mut swingdb_session,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (database, out) = unsafe { (handle("the database", database)?, place(out)?) };
        out.set(hand_out(swingdb_session(database.0.connect())));
        Ok(())
    })
}

/// # Safety
/// `session` is null or a handle that was not given back; nobody uses it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_disconnect(session: *mut swingdb_session) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { take_back(session) });
        Ok(())
    })
}

/// # Safety
/// `session` is null or a handle that was not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_interrupt(session: *const swingdb_session) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        unsafe { handle("the session", session) }?.0.interrupt_handle().interrupt();
        Ok(())
    })
}

/// Runs statements. Without a place for rows they are computed and forgotten.
///
/// # Safety
/// `rows` and `changed` are null or may be written.
unsafe fn run(
    connection: &Connection,
    sql: &str,
    values: &[Value],
    rows: *mut FFI_ArrowArrayStream,
    changed: *mut i64,
) -> Result<()> {
    let mut result = connection.execute(sql, values)?;
    let count = result.rows_changed();
    // SAFETY: the caller's promise.
    match unsafe { place(rows) } {
        Ok(rows) => rows.set(FFI_ArrowArrayStream::new(Box::new(result.into_reader()))),
        Err(_) => result.try_for_each(|batch| batch.map(drop))?,
    }
    // SAFETY: the caller's promise.
    if let Ok(changed) = unsafe { place(changed) } {
        changed.set(count.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX)));
    }
    Ok(())
}

/// # Safety
/// `session` is null or a handle that was not given back, `sql` is null or ends with a zero, `rows`
/// and `changed` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_execute(
    session: *const swingdb_session,
    sql: *const c_char,
    rows: *mut FFI_ArrowArrayStream,
    changed: *mut i64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let (session, sql) = (handle("the session", session)?, needed("the statement", sql)?);
            run(&session.0, sql, &[], rows, changed)
        }
    })
}

/// # Safety
/// `session` is null or a handle that was not given back, `sql` is null or ends with a zero, `out`
/// may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_prepare(
    session: *const swingdb_session,
    sql: *const c_char,
    out: *mut *mut swingdb_statement,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (session, sql, out) = unsafe {
            (handle("the session", session)?, needed("the statement", sql)?, place(out)?)
        };
        let connection = session.0.clone();
        out.set(hand_out(swingdb_statement { connection, sql: sql.to_owned(), values: vec![] }));
        Ok(())
    })
}

/// Gives parameter `index`, from 1 on, a value; those before it that have none are NULL.
///
/// # Safety
/// `statement` is null or a handle that was not given back, and that no other thread uses.
unsafe fn bind(
    statement: *mut swingdb_statement,
    index: c_int,
    value: impl FnOnce() -> Result<Value>,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let statement = unsafe { handle_mut("the statement", statement) }?;
        let index = usize::try_from(index).ok().filter(|i| (1..=MAX_PARAMETERS).contains(i));
        let Some(index) = index else {
            return Err(Failure::argument(format!(
                "parameters are numbered 1 to {MAX_PARAMETERS}"
            )));
        };
        let value = value()?;
        if statement.values.len() < index {
            statement.values.resize(index, Value::Null);
        }
        statement.values[index - 1] = value;
        Ok(())
    })
}

/// # Safety
/// `statement` is null or a handle that was not given back, and that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_bind_null(
    statement: *mut swingdb_statement,
    index: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { bind(statement, index, || Ok(Value::Null)) }
}

/// # Safety
/// `statement` is null or a handle that was not given back, and that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_bind_bool(
    statement: *mut swingdb_statement,
    index: c_int,
    value: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { bind(statement, index, || Ok(Value::Bool(value != 0))) }
}

/// # Safety
/// `statement` is null or a handle that was not given back, and that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_bind_int64(
    statement: *mut swingdb_statement,
    index: c_int,
    value: i64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { bind(statement, index, || Ok(Value::Int64(value))) }
}

/// # Safety
/// `statement` is null or a handle that was not given back, and that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_bind_double(
    statement: *mut swingdb_statement,
    index: c_int,
    value: c_double,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { bind(statement, index, || Ok(Value::Float64(value))) }
}

/// Bytes that the program gave.
///
/// # Safety
/// `bytes` is null, or `len` bytes from there on can be read.
unsafe fn bytes<'a>(bytes: *const c_void, len: usize) -> Result<&'a [u8]> {
    match (bytes.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::argument("the value is null")),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), len) }),
    }
}

/// # Safety
/// `statement` is null or a handle that was not given back, and that no other thread uses; `len`
/// bytes from `text` on can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_bind_text(
    statement: *mut swingdb_statement,
    index: c_int,
    text: *const c_char,
    len: usize,
) -> c_int {
    let value = || {
        // SAFETY: the caller's promise.
        let bytes = unsafe { bytes(text.cast(), len) }?;
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| Failure::argument("the value is not UTF-8"))?;
        Ok(Value::Text(text.to_owned()))
    };
    // SAFETY: the caller's promise.
    unsafe { bind(statement, index, value) }
}

/// # Safety
/// `statement` is null or a handle that was not given back, and that no other thread uses; `len`
/// bytes from `blob` on can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_bind_blob(
    statement: *mut swingdb_statement,
    index: c_int,
    blob: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let value = || unsafe { bytes(blob, len) }.map(|bytes| Value::Blob(bytes.to_vec()));
    // SAFETY: the caller's promise.
    unsafe { bind(statement, index, value) }
}

/// # Safety
/// `statement` is null or a handle that was not given back, and that no other thread uses; `rows`
/// and `changed` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_run(
    statement: *const swingdb_statement,
    rows: *mut FFI_ArrowArrayStream,
    changed: *mut i64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let statement = handle("the statement", statement)?;
            run(&statement.connection, &statement.sql, &statement.values, rows, changed)
        }
    })
}

/// # Safety
/// `statement` is null or a handle that was not given back; nobody uses it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swingdb_finish(statement: *mut swingdb_statement) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { take_back(statement) });
        Ok(())
    })
}
