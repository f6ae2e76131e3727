//! Functions of the C library that allocate memory and fill it by system calls of their own, which
//! nobody can intercept: what they allocate comes from outside of the heap. A program frees that as
//! it frees everything.

use std::cell::Cell;

use libc::*;
use swing_calls::{Next, strict_assert};

use super::next::own;
use crate::heap;

unsafe extern "C" {
    static stdin: *mut FILE;
}

/// Gives a stream its buffer now, from outside the heap. One of a terminal ends with each line, as
/// if the C library had given it when it was needed.
fn buffer(stream: usize) -> usize {
    let file = stream as *mut FILE;
    if !file.is_null() {
        set_buffer(file, std::ptr::null_mut(), _IOFBF, BUFSIZ as size_t);
        // SAFETY: an open stream, and the thread's errno, which stays what it was.
        unsafe {
            let errno = *__errno_location();
            if isatty(fileno(file)) == 1 {
                set_buffer(file, std::ptr::null_mut(), _IOLBF, 0);
            }
            *__errno_location() = errno;
        }
    }
    stream
}

/// The stream of standard input exists before the heap.
pub(super) fn own_standard_input() {
    // SAFETY: the C library initialises its streams before any constructor runs.
    buffer(unsafe { stdin } as usize);
}

/// Sets the buffer of a stream; one in the heap is not used, as the C library may.
fn set_buffer(stream: *mut FILE, room: *mut c_char, mode: c_int, len: size_t) -> c_int {
    let call = own!(c"setvbuf": setvbuf(*mut FILE, *mut c_char, c_int, size_t) -> c_int);
    let in_heap = heap::offset(room.cast()).is_some();
    let room = if in_heap { std::ptr::null_mut() } else { room };
    strict_assert!(heap::offset(room.cast()).is_none(), "no stream reads into the heap");
    // SAFETY: the caller's stream.
    heap::outside(|| unsafe { call(stream, room, mode, len) })
}

/// Sets the buffer of a stream.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setvbuf(
    stream: *mut FILE,
    room: *mut c_char,
    mode: c_int,
    len: size_t,
) -> c_int {
    set_buffer(stream, room, mode, len)
}

/// As [`setvbuf`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setbuffer(stream: *mut FILE, room: *mut c_char, len: size_t) {
    set_buffer(stream, room, if room.is_null() { _IONBF } else { _IOFBF }, len);
}

/// As [`setvbuf`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setbuf(stream: *mut FILE, room: *mut c_char) {
    // SAFETY: the caller's promise.
    unsafe { setbuffer(stream, room, BUFSIZ as size_t) };
}

/// Eight words are all the arguments that any of these has; which of them count, and what comes
/// back, is the C library's business.
type Call =
    unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> usize;

macro_rules! inner {
    ($after:path; $($name:ident)*) => {$(
        /// Has what the C library allocates for this outside of the heap.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize
        ) -> usize {
            static NEXT: Next = Next::new(swing_calls::name!($name));
            // SAFETY: the C library's function of this name gets every argument it was given, in
            // the place where it was given, all of them integers and pointers.
            let result = heap::outside(|| unsafe {
                std::mem::transmute::<usize, Call>(NEXT.get())(a, b, c, d, e, f, g, h)
            });
            $after(result)
        }
    )*};
}

// Streams, whose buffers are filled by `read`.
inner! { buffer; fopen fopen64 fdopen freopen freopen64 tmpfile tmpfile64 popen setmntent }

// Directories, paths.
inner! {
    std::convert::identity;
    opendir fdopendir scandir scandir64 scandirat scandirat64 glob glob64
    fts_open fts_read fts_children fts64_open fts64_read fts64_children
    realpath __realpath_chk canonicalize_file_name get_current_dir_name ttyname getlogin
}

thread_local! {
    /// The function of the program that is called for each file of a tree.
    static VISITOR: Cell<usize> = const { Cell::new(0) };
}

/// Calls it, with the arguments that it gets: three, or four.
unsafe extern "C-unwind" fn visit(path: usize, facts: usize, kind: usize, place: usize) -> c_int {
    type Visitor = unsafe extern "C-unwind" fn(usize, usize, usize, usize) -> c_int;
    let visitor = VISITOR.get();
    strict_assert!(visitor != 0, "a walk has a visitor");
    // SAFETY: the program's function, of this or a shorter list of integers and pointers.
    heap::in_program(|| unsafe {
        std::mem::transmute::<usize, Visitor>(visitor)(path, facts, kind, place)
    })
}

macro_rules! walks {
    ($($name:ident)*) => {$(
        /// Walks through a tree of files: what the C library allocates for that is outside of the
        /// heap, what the program's function does is not.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            path: usize, visitor: usize, most: usize, flags: usize
        ) -> usize {
            static NEXT: Next = Next::new(swing_calls::name!($name));
            // One walk may be begun in another one's function.
            let before = VISITOR.replace(visitor);
            let call = visit as unsafe extern "C-unwind" fn(usize, usize, usize, usize) -> c_int;
            let call = if visitor == 0 { 0 } else { call as usize };
            // SAFETY: as of `inner`.
            let result = heap::outside(|| unsafe {
                std::mem::transmute::<usize, Call>(NEXT.get())(path, call, most, flags, 0, 0, 0, 0)
            });
            VISITOR.set(before);
            result
        }
    )*};
}

walks! { ftw ftw64 nftw nftw64 }

// Names of hosts, services, users: files and connections that the C library opens for itself.
inner! {
    std::convert::identity;
    getaddrinfo getnameinfo gethostbyname gethostbyname2 gethostbyaddr
    gethostbyname_r gethostbyname2_r gethostbyaddr_r
    getservbyname getservbyport getservbyname_r getservbyport_r getservent
    getprotobyname getprotobynumber getprotobyname_r getprotobynumber_r
    getpwnam getpwuid getpwent getpwnam_r getpwuid_r getpwent_r
    getgrnam getgrgid getgrent getgrnam_r getgrgid_r getgrent_r getgrouplist initgroups
    getspnam getspnam_r getspent getspent_r getpass getusershell
    gethostent gethostent_r getservent_r getprotoent getprotoent_r
    getnetbyname getnetbyname_r getnetbyaddr getnetbyaddr_r getnetent getnetent_r
    getrpcbyname getrpcbyname_r getrpcbynumber getrpcbynumber_r getrpcent getrpcent_r
    getaliasbyname getaliasbyname_r getaliasent getaliasent_r setnetgrent getnetgrent innetgr
    getttyent getttynam getfsent getfsspec getfsfile
}

// Times of zones and languages of places come from files; each of these may be the first that needs
// the zone.
inner! {
    std::convert::identity;
    tzset localtime localtime_r mktime timelocal ctime ctime_r gmtime gmtime_r timegm getdate
    getdate_r strftime strftime_l wcsftime wcsftime_l setlocale newlocale iconv_open
}

// Which processors a thread may run on, in memory that goes with the attributes.
inner! { std::convert::identity; pthread_getattr_np }
