//! Reading data: files, links, directories, attributes, random bytes.

use libc::*;
use std::sync::atomic::AtomicUsize;
use swing::tracked::prepare;

use super::{
    SMALL, calls, faulted, in_heap, next, own, prepare_vectors, readers, results, through,
};

readers! {
    read(fd: c_int, to, len);
    __read_chk(fd: c_int, to, len, room: size_t);
    pread(fd: c_int, to, len, at: off_t);
    pread64(fd: c_int, to, len, at: off64_t);
    __pread_chk(fd: c_int, to, len, at: off_t, room: size_t);
    __pread64_chk(fd: c_int, to, len, at: off64_t, room: size_t);
    readlink(path: *const c_char, to, len);
    __readlink_chk(path: *const c_char, to, len, room: size_t);
    getdents64(fd: c_int, to, len);
    flistxattr(fd: c_int, to, len);
    listxattr(path: *const c_char, to, len);
    llistxattr(path: *const c_char, to, len);
}

calls! {
    readv(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: as the function asks for.
        unsafe { prepare_vectors(vectors, count.max(0) as usize) };
    }
    preadv(fd: c_int, vectors: *const iovec, count: c_int, at: off_t) -> ssize_t {
        // SAFETY: as the function asks for.
        unsafe { prepare_vectors(vectors, count.max(0) as usize) };
    }
    preadv64(fd: c_int, vectors: *const iovec, count: c_int, at: off64_t) -> ssize_t {
        // SAFETY: as the function asks for.
        unsafe { prepare_vectors(vectors, count.max(0) as usize) };
    }
    preadv2(fd: c_int, vectors: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
        // SAFETY: as the function asks for.
        unsafe { prepare_vectors(vectors, count.max(0) as usize) };
    }
    preadv64v2(
        fd: c_int, vectors: *const iovec, count: c_int, at: off64_t, flags: c_int
    ) -> ssize_t {
        // SAFETY: as the function asks for.
        unsafe { prepare_vectors(vectors, count.max(0) as usize) };
    }
    process_vm_readv(
        process: pid_t, vectors: *const iovec, count: c_ulong,
        remote: *const iovec, remote_count: c_ulong, flags: c_ulong
    ) -> ssize_t {
        // SAFETY: as the function asks for.
        unsafe { prepare_vectors(vectors, count as usize) };
    }
    readlinkat(folder: c_int, path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t {
        prepare(to.cast(), len);
    }
    __readlinkat_chk(
        folder: c_int, path: *const c_char, to: *mut c_char, len: size_t, room: size_t
    ) -> ssize_t {
        prepare(to.cast(), len);
    }
    getxattr(
        path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t
    ) -> ssize_t {
        prepare(to.cast(), len);
    }
    lgetxattr(
        path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t
    ) -> ssize_t {
        prepare(to.cast(), len);
    }
    fgetxattr(fd: c_int, name: *const c_char, to: *mut c_void, len: size_t) -> ssize_t {
        prepare(to.cast(), len);
    }
    mincore(at: *mut c_void, len: size_t, pages: *mut c_uchar) -> c_int {
        prepare(pages, len.div_ceil(4096));
    }
    getentropy(to: *mut c_void, len: size_t) -> c_int {
        prepare(to.cast(), len);
    }
    msgrcv(
        queue: c_int, to: *mut c_void, len: size_t, kind: c_long, flags: c_int
    ) -> ssize_t {
        prepare(to.cast(), len.saturating_add(size_of::<c_long>()));
    }
    mq_receive(queue: mqd_t, to: *mut c_char, len: size_t, priority: *mut c_uint) -> ssize_t {
        prepare(to.cast(), len);
        prepare(priority.cast(), size_of::<c_uint>());
    }
}

results! {
    sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t; at) -> ssize_t;
    sendfile64(to: c_int, from: c_int, at: *mut off64_t, len: size_t; at) -> ssize_t;
    splice(
        from: c_int, at: *mut loff_t, to: c_int, to_at: *mut loff_t, len: size_t, flags: c_uint;
        at, to_at
    ) -> ssize_t;
    copy_file_range(
        from: c_int, at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t, flags: c_uint;
        at, to_at
    ) -> ssize_t;
}

/// Gets random bytes by way of the stack, or makes the buffer writable.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(to: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
    let next = own!(getrandom(*mut c_void, size_t, c_uint) -> ssize_t);
    if len <= SMALL && in_heap(to) {
        // SAFETY: the room has `len` bytes.
        return through(to, len, |room| unsafe { next(room, len, flags) });
    }
    super::insist(|| {
        prepare(to.cast(), len);
        // SAFETY: as the function asks for.
        unsafe { next(to, len, flags) }
    })
}

/// The path of the working directory. What it allocates when `to` is null comes from the heap.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getcwd(to: *mut c_char, len: size_t) -> *mut c_char {
    let next = own!(getcwd(*mut c_char, size_t) -> *mut c_char);
    if !to.is_null() && !in_heap(to) {
        // SAFETY: as the function asks for.
        return unsafe { next(to, len) };
    }
    let mut room = [0u8; SMALL];
    let most = if to.is_null() && len == 0 { SMALL } else { len.min(SMALL) };
    // SAFETY: the room has so many bytes; what is written there ends with a zero.
    unsafe {
        if next(room.as_mut_ptr().cast(), most).is_null() {
            return std::ptr::null_mut();
        }
        let written = strlen(room.as_ptr().cast()) + 1;
        let to = if to.is_null() { crate::alloc::malloc(written.max(len)).cast() } else { to };
        if !to.is_null() {
            std::ptr::copy_nonoverlapping(room.as_ptr().cast(), to, written);
        }
        to
    }
}

/// As [`getcwd`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __getcwd_chk(to: *mut c_char, len: size_t, room: size_t) -> *mut c_char {
    if len > room {
        // What the C library does with an overflow that it has found.
        std::process::abort();
    }
    // SAFETY: the caller's promise.
    unsafe { getcwd(to, len) }
}

/// Reads items from a stream. Long ones are read into the program's memory directly: what failed
/// with EFAULT goes on where it stopped.
///
/// # Safety
/// As `fread`; `next` is that, or one of its variants.
unsafe fn read_items(
    next: usize,
    to: *mut c_void,
    size: size_t,
    count: size_t,
    stream: *mut FILE,
) -> size_t {
    type Call = unsafe extern "C" fn(*mut c_void, size_t, size_t, *mut FILE) -> size_t;
    // SAFETY: the C library's function has this signature.
    let next = unsafe { std::mem::transmute::<usize, Call>(next) };
    let Some(len) = size.checked_mul(count).filter(|len| *len > 0 && in_heap(to)) else {
        // SAFETY: the caller's promise.
        return unsafe { next(to, size, count, stream) };
    };
    let (mut done, mut tries) = (0, 0);
    loop {
        let at = to.wrapping_byte_add(done);
        prepare(at.cast(), len - done);
        // SAFETY: the caller's promise; the rest of the buffer.
        done += unsafe { next(at, 1, len - done, stream) };
        tries += 1;
        // SAFETY: the caller's stream.
        let failed = unsafe { ferror(stream) } != 0;
        if done == len || !failed || !faulted() || tries == super::TRIES {
            return done / size;
        }
        // SAFETY: as above.
        unsafe { clearerr(stream) };
    }
}

macro_rules! streams {
    ($($name:ident($($arg:ident: $kind:ty),*), $to:ident, $size:ident, $count:ident, $from:ident;)*)
    => {$(
        /// Reads items also into frozen memory.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> size_t {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let next = next(&NEXT, concat!(stringify!($name), "\0"));
            // SAFETY: the caller's promise.
            unsafe { read_items(next, $to, $size, $count, $from) }
        }
    )*};
}

streams! {
    fread(to: *mut c_void, size: size_t, count: size_t, from: *mut FILE), to, size, count, from;
    fread_unlocked(to: *mut c_void, size: size_t, count: size_t, from: *mut FILE),
        to, size, count, from;
}

/// As [`fread`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __fread_chk(
    to: *mut c_void,
    room: size_t,
    size: size_t,
    count: size_t,
    from: *mut FILE,
) -> size_t {
    if size.checked_mul(count).is_none_or(|len| len > room) {
        // What the C library does with an overflow that it has found.
        std::process::abort();
    }
    // SAFETY: the caller's promise.
    unsafe { fread(to, size, count, from) }
}
