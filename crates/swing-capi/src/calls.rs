//! The exported functions; `include/swing.h` documents them.
//!
//! Each returns 0 or a negative number, and never unwinds into C. Pointers that a caller passes are
//! checked for null; that they point to what the header demands is the caller's promise.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use swing::{ByteLen, HookAt, IfStale};

use crate::areas::{Entry, Registry, Wishes, registry};
use crate::error::{self, Code, Failure, Result};
use crate::hold;
use crate::hooks::HookMode;
use crate::names::MAX_NAME;

pub use crate::heap_calls::*;
pub use crate::object_calls::*;
pub use crate::pointer_calls::*;

/// `swing_hook`: at the origin's addresses, or fail.
pub const SWING_AT_ORIGIN: c_uint = 1;
/// `swing_hook`: the state last published, without asking the owner.
pub const SWING_PUBLISHED: c_uint = 2;

/// `swing_hook`: the state last published, if the owner does not give its present one.
pub const SWING_STALE: c_uint = 4;

/// An area of the calling process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct swing_area {
    /// Its first address.
    pub address: *mut c_void,
    /// Its length in bytes, rounded up.
    pub length: usize,
    /// Its token.
    pub token: c_int,
    /// Not 0 if the addresses are those of the origin: raw pointers in it are valid.
    pub at_origin: c_int,
    /// Of a hooked area: when its state was published, in nanoseconds since 1970. Else 0.
    pub published_ns: u64,
}

/// Memory of an area.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct swing_stats {
    /// Bytes that have memory.
    pub mapped: u64,
    /// Of these: in memory of the area's own.
    pub own: u64,
    /// Of these: shared with its origin.
    pub foreign: u64,
    /// Old versions kept for those who hooked.
    pub retired: u64,
    /// Bytes copied so far.
    pub copied: u64,
}

/// How an area is made; zeros mean what `swing_create` does.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct swing_options {
    /// The unit of copying.
    pub extent: usize,
    /// Where the area begins, if these addresses are free.
    pub address: *mut c_void,
}

const _: () = assert!(size_of::<swing_area>() == 32 && size_of::<swing_options>() == 16);
const _: () = assert!(size_of::<swing_stats>() == 40);

/// A call has panicked: what it was about, an area, its allocator or the table of areas, may be
/// half changed, and is not used any more.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Runs a call's body: failures and panics become numbers. After a panic no call does anything.
pub(crate) fn run(body: impl FnOnce(&'static Registry) -> Result<()>) -> c_int {
    run_unless(&BROKEN, body)
}

fn run_unless(is_broken: &AtomicBool, body: impl FnOnce(&'static Registry) -> Result<()>) -> c_int {
    let broken = || {
        let text = "a check inside the library has failed, so it does nothing any more in this \
                    process: what was published last is unharmed";
        Failure::new(Code::Internal, text)
    };
    let failure = if is_broken.load(Ordering::Relaxed) {
        broken()
    } else {
        match catch_unwind(AssertUnwindSafe(|| registry().and_then(body))) {
            Ok(Ok(())) => return 0,
            Ok(Err(failure)) => failure,
            Err(_) => {
                is_broken.store(true, Ordering::Relaxed);
                broken()
            }
        }
    };
    let number = error::note(failure);
    assert!(number < 0, "a failure is no success");
    number
}

pub(crate) fn null() -> Failure {
    Failure::new(Code::Argument, "a pointer is null")
}

/// As `run`, for a call that gives something: stored where the caller wants it, and not begun when
/// that is nowhere.
///
/// # Safety
/// `out` is null or valid for a store.
pub(crate) unsafe fn run_into<T>(
    out: *mut T,
    body: impl FnOnce(&'static Registry) -> Result<T>,
) -> c_int {
    run(|registry| {
        if out.is_null() {
            return Err(null());
        }
        let value = body(registry)?;
        // SAFETY: not null, and the caller promises the rest.
        unsafe { out.write(value) };
        Ok(())
    })
}

/// What the flags of a hook say.
fn hook_mode(flags: c_uint) -> Result<HookMode> {
    if flags & !(SWING_AT_ORIGIN | SWING_PUBLISHED | SWING_STALE) != 0 {
        return Err(Failure::new(Code::Argument, format!("unknown flags {flags:#x}")));
    }
    let (live, accept) = (flags & SWING_PUBLISHED == 0, flags & SWING_STALE != 0);
    if accept && !live {
        let text = "SWING_STALE is for hooks that ask the owner, so not with SWING_PUBLISHED";
        return Err(Failure::new(Code::Argument, text));
    }
    let if_stale = if accept { IfStale::Accept } else { IfStale::Fail };
    let at = match flags & SWING_AT_ORIGIN {
        0 => HookAt::Anywhere,
        _ => HookAt::OriginAddress,
    };
    Ok(HookMode { at, live, if_stale })
}

fn area_of(entry: &Entry) -> swing_area {
    assert!(entry.token > 0 && entry.base != 0, "an area that is open");
    swing_area {
        address: entry.base as *mut c_void,
        length: entry.len as usize,
        token: entry.token,
        at_origin: c_int::from(entry.at_origin),
        published_ns: entry.published_ns,
    }
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `swing_area`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_create(length: usize, out: *mut swing_area) -> c_int {
    let area = |registry: &Registry| {
        let entry = registry.create(length as u64, &Wishes::default())?;
        Ok(area_of(&entry))
    };
    // SAFETY: the caller's promise.
    unsafe { run_into(out, area) }
}

/// See `swing.h`.
///
/// # Safety
/// `options` points to a `swing_options`, `out` to a `swing_area`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_create_with(
    length: usize,
    options: *const swing_options,
    out: *mut swing_area,
) -> c_int {
    let area = |registry: &Registry| {
        if options.is_null() {
            return Err(null());
        }
        // SAFETY: the caller's promise.
        let swing_options { extent, address } = unsafe { options.read() };
        let base = (!address.is_null()).then_some(address as usize);
        let wishes = Wishes { extent: (extent > 0).then_some(extent as u64), base };
        let entry = registry.create(length as u64, &wishes)?;
        Ok(area_of(&entry))
    };
    // SAFETY: the caller's promise.
    unsafe { run_into(out, area) }
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `swing_area`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_hook(token: c_int, flags: c_uint, out: *mut swing_area) -> c_int {
    let area = |registry: &Registry| {
        let entry = registry.hook(token, hook_mode(flags)?)?;
        Ok(area_of(&entry))
    };
    // SAFETY: the caller's promise.
    unsafe { run_into(out, area) }
}

/// See `swing.h`.
///
/// # Safety
/// `name` is a C string, `out` points to a `swing_area`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_hook_named(
    name: *const c_char,
    flags: c_uint,
    out: *mut swing_area,
) -> c_int {
    let area = |registry: &Registry| {
        // SAFETY: the caller's promise.
        let name = unsafe { name_of(name) }?;
        if name.is_empty() {
            return Err(Failure::new(Code::Argument, "the empty name is none"));
        }
        let entry = registry.hook_named(name, hook_mode(flags)?)?;
        Ok(area_of(&entry))
    };
    // SAFETY: the caller's promise.
    unsafe { run_into(out, area) }
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `swing_area`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_copy(token: c_int, out: *mut swing_area) -> c_int {
    let area = |registry: &Registry| {
        let entry = registry.copy(token)?;
        Ok(area_of(&entry))
    };
    // SAFETY: the caller's promise.
    unsafe { run_into(out, area) }
}

/// The bytes of a name, if it can be one.
///
/// # Safety
/// `name` is null or a C string that outlives the result.
unsafe fn name_of<'a>(name: *const c_char) -> Result<&'a [u8]> {
    if name.is_null() {
        return Err(null());
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    if bytes.len() > MAX_NAME {
        let text = format!("a name has at most {MAX_NAME} bytes");
        return Err(Failure::new(Code::Argument, text));
    }
    Ok(bytes)
}

/// See `swing.h`.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_set_name(token: c_int, name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    run(|registry| registry.set_name(token, unsafe { name_of(name) }?))
}

/// See `swing.h`.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_find(name: *const c_char) -> c_int {
    let mut token = 0;
    let status = run(|registry| {
        // SAFETY: the caller's promise.
        let name = unsafe { name_of(name) }?;
        if name.is_empty() {
            return Err(Failure::new(Code::Argument, "the empty name is none"));
        }
        token = registry.find(name)?;
        Ok(())
    });
    assert!(status < 0 || token > 0, "a token, or why there is none");
    if status == 0 { token } else { status }
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_is_fresh(token: c_int) -> c_int {
    let mut fresh = 0;
    let status = run(|registry| {
        fresh = c_int::from(registry.own(token)?.is_fresh);
        Ok(())
    });
    if status == 0 { fresh } else { status }
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_allow_hooks(token: c_int, allow: c_int) -> c_int {
    run(|registry| registry.allow(token, allow != 0))
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_copy_ahead(token: c_int, yes: c_int) -> c_int {
    run(|registry| registry.copy_ahead(token, yes != 0))
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_publish(token: c_int) -> c_int {
    run(|registry| registry.publish(token))
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_release(token: c_int) -> c_int {
    run(|registry| {
        hold::end(token);
        registry.release(token)
    })
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_set_threshold(token: c_int, bytes: usize) -> c_int {
    run(|registry| {
        let threshold = (bytes > 0).then_some(ByteLen(bytes as u64));
        Ok(registry.own(token)?.area.set_cow_threshold(threshold)?)
    })
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_hold(token: c_int) -> c_int {
    run(|registry| hold::begin(registry.own(token)?))
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_resume(token: c_int) -> c_int {
    run(|_| match hold::end(token) {
        true => Ok(()),
        false => Err(Failure::new(Code::Argument, "this thread does not hold the area")),
    })
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_writable(address: *mut c_void, length: usize) -> c_int {
    run(|_| match swing::tracked::prepare(address.cast(), length) {
        true => Ok(()),
        false => Err(Failure::new(
            Code::NoMemory,
            "no memory for the range: the memory file system is full; release areas, or enlarge it",
        )),
    })
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_pin(address: *mut c_void, length: usize) -> c_int {
    run(|_| match swing::tracked::pin(address.cast(), length) {
        // Given back by its address.
        Some(pin) => {
            std::mem::forget(pin);
            Ok(())
        }
        None => Err(Failure::new(
            Code::NoMemory,
            "no memory for the range: the memory file system is full; release areas, or enlarge it",
        )),
    })
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_unpin(address: *mut c_void, length: usize) -> c_int {
    run(|_| match swing::tracked::unpin(address.cast(), length) {
        true => Ok(()),
        false => Err(Failure::new(Code::Argument, "nothing in the area is pinned")),
    })
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_token_at(address: *const c_void) -> c_int {
    let mut token = 0;
    let status = run(|registry| {
        token = registry.at(address as usize)?.token;
        Ok(())
    });
    if status == 0 { token } else { status }
}

/// See `swing.h`.
///
/// # Safety
/// `out` points to a `swing_stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_get_stats(token: c_int, out: *mut swing_stats) -> c_int {
    let stats = |registry: &Registry| {
        let stats = registry.own(token)?.area.stats();
        Ok(swing_stats {
            mapped: stats.mapped.0,
            own: stats.own.0,
            foreign: stats.foreign.0,
            retired: stats.retired.0,
            copied: stats.copied.0,
        })
    };
    // SAFETY: the caller's promise.
    unsafe { run_into(out, stats) }
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_collect() -> c_int {
    let mut swept = 0;
    let status = run(|registry| {
        swept = registry.sweep();
        registry.ns.gc().map(|_| ()).map_err(|e| Failure::new(Code::Io, e))
    });
    // Others may make and leave areas while this one looks: no more than a call can tell.
    if status == 0 { c_int::try_from(swept).unwrap_or(c_int::MAX) } else { status }
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_strerror(code: c_int) -> *const c_char {
    let known = Code::ALL.into_iter().find(|known| *known as c_int == code);
    assert!(known.is_none() || code < 0, "errors are negative");
    match (known, code) {
        (Some(known), _) => known.text().as_ptr(),
        (None, 0) => c"success".as_ptr(),
        (None, _) => c"unknown error".as_ptr(),
    }
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_last_error() -> *const c_char {
    crate::last_error::last()
}

/// See `swing.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_in_the_library_does_not_unwind_into_c() {
        let dir = tempfile::tempdir().unwrap();
        // SAFETY: no other test of this program reads or writes the environment.
        unsafe { std::env::set_var("SWINGDB_HOME", dir.path()) };
        let broken = AtomicBool::new(false);
        assert_eq!(run_unless(&broken, |_| Ok(())), 0);
        assert_eq!(run_unless(&broken, |_| panic!("on purpose")), Code::Internal as c_int);
        // What it was about may be half changed.
        assert_eq!(run_unless(&broken, |_| Ok(())), Code::Internal as c_int);
        assert_eq!(run(|_| Ok(())), 0);
    }
}
