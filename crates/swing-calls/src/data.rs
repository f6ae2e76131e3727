//! Reading data: files, links, directories, attributes, random bytes, messages of queues.

use libc::*;

use crate::fill::{Source, fill, fill_one};
use crate::next::own;
use crate::slot::{calls, of, of_signed};

const OFFSET: usize = size_of::<off64_t>();

unsafe extern "C" {
    fn __chk_fail() -> !;
}

/// Ends the program as the C library does when it finds that a buffer would overflow.
#[inline]
pub(crate) fn check_room(len: usize, room: usize) {
    if len > room {
        // SAFETY: does not return.
        unsafe { __chk_fail() }
    }
}

/// Defines functions that read into one buffer. `[fd]`: all that is asked for, of a file, in one
/// call; `[place]`: the same from a place on, `+ at`, which moves on; `[once]`: what there is.
macro_rules! readers {
    ($([$how:ident] $name:ident(
        $first:ident: $first_kind:ty, $(($path:ident: $path_kind:ty),)? $to:ident, $len:ident
        $(, $arg:ident: $kind:ty)* $(; + $at:ident: $at_kind:ty)? $(; < $room:ident)?
    );)*) => {$(
        /// The C library's function of this name; its buffer may lie in an area.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            $first: $first_kind, $($path: $path_kind,)? $to: *mut c_void, $len: size_t
            $(, $arg: $kind)* $(, $at: $at_kind)? $(, $room: size_t)?
        ) -> ssize_t {
            let call = own!($name(
                $first_kind, $($path_kind,)? *mut c_void, size_t $(, $kind)* $(, $at_kind)?
                $(, readers!(@size $room))?
            ) -> ssize_t);
            $(check_room($len, $room);)?
            let source = readers!(@source $how $first);
            fill_one($to, $len, source, |to, len, _done| {
                $(let $at = $at.saturating_add(_done as $at_kind);)?
                // SAFETY: as the function asks for; a replaced buffer is as long.
                unsafe { call($first, $($path,)? to, len $(, $arg)* $(, $at)? $(, $room)?) }
            })
        }
    )*};
    (@size $room:ident) => { size_t };
    (@source fd $fd:ident) => { Source::Position($fd) };
    (@source place $fd:ident) => { Source::Place($fd) };
    (@source once $fd:ident) => { Source::Once };
}

readers! {
    [fd] read(fd: c_int, to, len);
    [fd] __read_chk(fd: c_int, to, len; < room);
    [place] pread(fd: c_int, to, len; + at: off_t);
    [place] pread64(fd: c_int, to, len; + at: off64_t);
    [place] __pread_chk(fd: c_int, to, len; + at: off_t; < room);
    [place] __pread64_chk(fd: c_int, to, len; + at: off64_t; < room);
    [once] readlink(path: *const c_char, to, len);
    [once] __readlink_chk(path: *const c_char, to, len; < room);
    [once] readlinkat(dir: c_int, (path: *const c_char), to, len);
    [once] __readlinkat_chk(dir: c_int, (path: *const c_char), to, len; < room);
    [once] getdents64(fd: c_int, to, len);
    [once] getxattr(path: *const c_char, (name: *const c_char), to, len);
    [once] lgetxattr(path: *const c_char, (name: *const c_char), to, len);
    [once] fgetxattr(fd: c_int, (name: *const c_char), to, len);
    [once] listxattr(path: *const c_char, to, len);
    [once] llistxattr(path: *const c_char, to, len);
    [once] flistxattr(fd: c_int, to, len);
}

/// Random bytes; the buffer may lie in an area.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getrandom(to: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
    let call = own!(getrandom(*mut c_void, size_t, c_uint) -> ssize_t);
    fill_one(to, len, Source::Whole, |to, len, _| {
        // SAFETY: as the function asks for; a replaced buffer is as long.
        unsafe { call(to, len, flags) }
    })
}

/// Random bytes, by a call that has no way to fail; the buffer may lie in an area.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn arc4random_buf(to: *mut c_void, len: size_t) {
    let call = own!(arc4random_buf(*mut c_void, size_t) -> ());
    fill_one(to, len, Source::Whole, |to, len, _| {
        // SAFETY: as the function asks for; a replaced buffer is as long.
        unsafe { call(to, len) };
        len as ssize_t
    });
}

/// Defines functions that read into a list of buffers.
macro_rules! vector_readers {
    ($($name:ident($($arg:ident: $kind:ty),* $(; + $at:ident: $at_kind:ty)?
        $(; $flags:ident: $flags_kind:ty)?);)*) => {$(
        /// The C library's function of this name; its buffers may lie in areas.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int, vectors: *const iovec, count: c_int
            $(, $at: $at_kind)? $(, $flags: $flags_kind)?
        ) -> ssize_t {
            let call = own!($name(
                c_int, *const iovec, c_int $(, $at_kind)? $(, $flags_kind)?
            ) -> ssize_t);
            let source = Source::Position(fd);
            // From where the file stands, or from an offset: -1 stands for the former.
            $(let source = if $at < 0 { source } else { Source::Place(fd) };)?
            let each = |vectors, count, _done: usize| {
                $(let $at = if $at < 0 { $at } else { $at.saturating_add(_done as $at_kind) };)?
                // SAFETY: as the function asks for; a replaced list is as long.
                unsafe { call(fd, vectors, count as c_int $(, $at)? $(, $flags)?) }
            };
            match usize::try_from(count) {
                // SAFETY: as the function asks for.
                Ok(count) => unsafe { fill(vectors, count, source, each) },
                // SAFETY: the kernel refuses it.
                Err(_) => unsafe { call(fd, vectors, count $(, $at)? $(, $flags)?) },
            }
        }
    )*};
}

vector_readers! {
    readv();
    preadv(; + at: off_t);
    preadv64(; + at: off64_t);
    preadv2(; + at: off_t; flags: c_int);
    preadv64v2(; + at: off64_t; flags: c_int);
}

/// Reads another process's memory; the buffers may lie in areas.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn process_vm_readv(
    process: pid_t,
    vectors: *const iovec,
    count: c_ulong,
    remote: *const iovec,
    remote_count: c_ulong,
    flags: c_ulong,
) -> ssize_t {
    let call = own!(
        process_vm_readv(pid_t, *const iovec, c_ulong, *const iovec, c_ulong, c_ulong) -> ssize_t
    );
    let each = |vectors, count, _| {
        // SAFETY: as the function asks for.
        unsafe { call(process, vectors, count as c_ulong, remote, remote_count, flags) }
    };
    // SAFETY: as the function asks for.
    unsafe { fill(vectors, count as usize, Source::Once, each) }
}

/// A message of a queue: its kind, and as many bytes as are told.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn msgrcv(
    queue: c_int,
    to: *mut c_void,
    len: size_t,
    kind: c_long,
    flags: c_int,
) -> ssize_t {
    use crate::slot::{Slot, Use, again, told};
    const HEAD: usize = size_of::<c_long>();
    let call = own!(msgrcv(c_int, *mut c_void, size_t, c_long, c_int) -> ssize_t);
    let mut slots = [Slot::new(to, len.saturating_add(HEAD), Use::Filled(HEAD))];
    let mut tries = 0;
    loop {
        slots.iter().for_each(Slot::prepare);
        // SAFETY: as the function asks for; a replaced buffer is as long.
        let got = unsafe { call(queue, slots[0].at().cast(), len, kind, flags) };
        if !again(got as i64, &slots, &mut tries) {
            return told(got, &mut slots, got as i64);
        }
    }
}

calls! {
    mq_receive(queue: mqd_t, to: *mut c_char, len: size_t, priority: *mut c_uint) -> ssize_t {
        to: filled(len), priority: both(of::<c_uint>(1))
    }
    mq_timedreceive(
        queue: mqd_t, to: *mut c_char, len: size_t, priority: *mut c_uint, until: *const timespec
    ) -> ssize_t { to: filled(len), priority: both(of::<c_uint>(1)) }
    getentropy(to: *mut c_void, len: size_t) -> c_int { to: both(len) }
    sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t { at: both(OFFSET) }
    sendfile64(to: c_int, from: c_int, at: *mut off64_t, len: size_t) -> ssize_t {
        at: both(OFFSET)
    }
    copy_file_range(
        from: c_int, from_at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t,
        flags: c_uint
    ) -> ssize_t { from_at: both(OFFSET), to_at: both(OFFSET) }
    splice(
        from: c_int, from_at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t,
        flags: c_uint
    ) -> ssize_t { from_at: both(OFFSET), to_at: both(OFFSET) }
    mincore(at: *mut c_void, len: size_t, pages: *mut c_uchar) -> c_int {
        pages: both(len.div_ceil(4096))
    }
    getgroups(count: c_int, to: *mut gid_t) -> c_int { to: both(of_signed::<gid_t>(count)) }
}

/// The longest path that the kernel tells.
const PATH: usize = 4096;

/// The path of the working directory. What is allocated when `to` is null comes from `malloc`, and
/// may lie in an area as well.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getcwd(to: *mut c_char, len: size_t) -> *mut c_char {
    let call = own!(getcwd(*mut c_char, size_t) -> *mut c_char);
    if !to.is_null() && !crate::copy::touches_area(to.cast(), len.max(1)) {
        // SAFETY: as the function asks for.
        return unsafe { call(to, len) };
    }
    let mut room = [0_u8; PATH];
    let most = if to.is_null() && len == 0 { PATH } else { len.min(PATH) };
    // SAFETY: the room has so many bytes; what is written there ends with a zero.
    unsafe {
        if call(room.as_mut_ptr().cast(), most).is_null() {
            return std::ptr::null_mut();
        }
        let written = strlen(room.as_ptr().cast()) + 1;
        strict_assert!(written <= most, "the kernel keeps to the room");
        let found = if to.is_null() { malloc(written.max(len)).cast() } else { to };
        if !found.is_null() {
            crate::copy::store(room.as_ptr(), found.cast(), written);
        }
        found
    }
}

/// As [`getcwd`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __getcwd_chk(
    to: *mut c_char,
    len: size_t,
    room: size_t,
) -> *mut c_char {
    check_room(len, room);
    // SAFETY: the caller's promise.
    unsafe { getcwd(to, len) }
}
