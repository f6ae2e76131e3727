//! System calls that the standard library lacks, memory shared by two processes, and a counter in
//! it that the other process can wait for.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a system call returned, again when a signal interrupted it.
pub fn call(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        let result = call();
        if result >= 0 {
            return Ok(result as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// An error where the other side has ended too early.
pub fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the other process has ended too early")
}

/// A pipe of at least `bytes`: the end to read, the end to write.
pub fn pipe(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the call writes two numbers.
    call(|| unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } as isize)?;
    // SAFETY: the call has just opened both, and nobody else has them.
    let ends = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    widen(ends.1.as_fd(), bytes)?;
    Ok(ends)
}

/// Gives a pipe a capacity of at least `bytes`.
pub fn widen(pipe: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    // SAFETY: no memory is involved.
    let set =
        call(|| unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes as i32) } as _);
    set.map(drop)
}

/// Moves bytes between a pipe and a file, at the file's position.
pub fn splice(from: &impl AsRawFd, to: &impl AsRawFd, bytes: usize) -> io::Result<usize> {
    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
    let none = std::ptr::null_mut;
    // SAFETY: without offsets no memory is involved.
    call(|| unsafe { libc::splice(from, none(), to, none(), bytes, libc::SPLICE_F_MOVE) })
}

/// Moves bytes of a file at `offset` into a pipe.
pub fn splice_at(
    from: &impl AsRawFd,
    offset: u64,
    to: &impl AsRawFd,
    bytes: usize,
) -> io::Result<usize> {
    let (from, to, mut offset) = (from.as_raw_fd(), to.as_raw_fd(), offset as i64);
    // SAFETY: the call reads and writes one number, `offset`.
    call(|| unsafe {
        libc::splice(from, &mut offset, to, std::ptr::null_mut(), bytes, libc::SPLICE_F_MOVE)
    })
}

/// Sends bytes of a file at `offset`.
pub fn sendfile_at(
    from: &impl AsRawFd,
    offset: u64,
    to: &impl AsRawFd,
    bytes: usize,
) -> io::Result<usize> {
    let (from, to, mut offset) = (from.as_raw_fd(), to.as_raw_fd(), offset as i64);
    // SAFETY: the call reads and writes one number, `offset`.
    call(|| unsafe { libc::sendfile(to, from, &mut offset, bytes) })
}

/// Sends bytes of a file, from its position on.
pub fn sendfile(from: &impl AsRawFd, to: &impl AsRawFd, bytes: usize) -> io::Result<usize> {
    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
    // SAFETY: without an offset no memory is involved.
    call(|| unsafe { libc::sendfile(to, from, std::ptr::null_mut(), bytes) })
}

/// Copies bytes from file to file, at the positions of both.
pub fn copy_file_range(from: &File, to: &File, bytes: usize) -> io::Result<usize> {
    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
    let none = std::ptr::null_mut;
    // SAFETY: without offsets no memory is involved.
    call(|| unsafe { libc::copy_file_range(from, none(), to, none(), bytes, 0) })
}

/// Puts the pages of `bytes` into a pipe. They must not change before they are read there.
pub fn vmsplice(bytes: &[u8], to: &impl AsRawFd) -> io::Result<usize> {
    let part = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
    // SAFETY: the call reads `part` and the bytes that it describes.
    call(|| unsafe { libc::vmsplice(to.as_raw_fd(), &part, 1, 0) })
}

/// Copies from `address` on in another process.
pub fn read_other(pid: i32, address: usize, out: &mut [u8]) -> io::Result<usize> {
    let here = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let there = libc::iovec { iov_base: address as *mut _, iov_len: out.len() };
    // SAFETY: the call writes to `out` at most its length.
    call(|| unsafe { libc::process_vm_readv(pid, &here, 1, &there, 1, 0) })
}

/// Lets a process that is no ancestor of this one read its memory, where the kernel asks for that.
pub fn allow_reading() {
    // SAFETY: no memory is involved. Kernels without the restriction do not know the call.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// Passes an open file to the other end of a Unix socket.
pub fn send_file(socket: &impl AsRawFd, file: BorrowedFd<'_>) -> io::Result<()> {
    let mut byte = [1_u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut room = [0_u64; 4];
    // SAFETY: all zeros are a value of the structure.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = room.as_mut_ptr().cast();
    // SAFETY: arithmetic only.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
    // SAFETY: the header and its descriptor lie within `room`, which is aligned for both.
    unsafe {
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(head).cast::<i32>().write_unaligned(file.as_raw_fd());
    }
    // SAFETY: the message describes memory that lives until the call has returned.
    call(|| unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) })?;
    Ok(())
}

/// The file that the other end of a Unix socket passes.
pub fn receive_file(socket: &impl AsRawFd) -> io::Result<File> {
    let mut byte = [0_u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut room = [0_u64; 4];
    // SAFETY: all zeros are a value of the structure.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = room.as_mut_ptr().cast();
    message.msg_controllen = std::mem::size_of_val(&room) as _;
    // SAFETY: the message describes memory that lives until the call has returned.
    let got = call(|| unsafe {
        libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC)
    })?;
    // SAFETY: the kernel has filled the message.
    let head = unsafe { libc::CMSG_FIRSTHDR(&message) };
    if got == 0 || head.is_null() {
        return Err(ended());
    }
    // SAFETY: the only kind of message here carries one descriptor, which is ours now.
    unsafe { Ok(File::from_raw_fd(libc::CMSG_DATA(head).cast::<i32>().read_unaligned())) }
}

/// An empty file in memory whose length can be sealed.
pub fn memfd(bytes: usize) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with a zero.
    let number = call(|| unsafe { libc::memfd_create(c"bulk".as_ptr(), flags) } as isize)?;
    // SAFETY: the call has just opened it, and nobody else has it.
    let file = unsafe { File::from_raw_fd(number as i32) };
    file.set_len(bytes as u64)?;
    Ok(file)
}

/// Nobody can write to the file, or change its length, from now on.
pub fn seal(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: no memory is involved.
    call(|| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } as isize)?;
    Ok(())
}

/// Mapped memory, until it is dropped. Two processes may share it, so its bytes are reached by
/// pointers; a slice is for those who know that nobody writes there.
#[derive(Debug)]
pub struct Map {
    base: NonNull<u8>,
    len: usize,
}

impl Map {
    /// Memory that this process shares with those it forks.
    pub fn shared(len: usize) -> io::Result<Self> {
        Self::new(len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_ANONYMOUS, -1)
    }

    /// A file, to read.
    pub fn read(file: &File, len: usize) -> io::Result<Self> {
        Self::new(len, libc::PROT_READ, 0, file.as_raw_fd())
    }

    /// A file, to write.
    pub fn write(file: &File, len: usize) -> io::Result<Self> {
        Self::new(len, libc::PROT_READ | libc::PROT_WRITE, 0, file.as_raw_fd())
    }

    fn new(len: usize, protection: i32, flags: i32, file: i32) -> io::Result<Self> {
        let flags = flags | libc::MAP_SHARED;
        let anywhere = std::ptr::null_mut();
        // SAFETY: a fresh mapping at addresses of the kernel's choice.
        let base = unsafe { libc::mmap(anywhere, len, protection, flags, file, 0) };
        match base == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self { base: NonNull::new(base.cast()).ok_or_else(ended)?, len }),
        }
    }

    /// Where `len` bytes at `offset` lie.
    pub fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "inside the mapping");
        // SAFETY: just checked.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Bytes that nobody writes as long as they are borrowed.
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: mapped; callers hand a part over by a counter before the other reads it.
        unsafe { std::slice::from_raw_parts(self.at(offset, len), len) }
    }

    /// Bytes that nobody else reads or writes as long as they are borrowed.
    #[allow(clippy::mut_from_ref)]
    pub fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: mapped; callers hand a part over by a counter before they write to it.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset, len), len) }
    }

    /// Reads the pages of a part in, and enters them into the page table.
    pub fn populate(&self, offset: usize, len: usize) -> io::Result<()> {
        let at = self.at(offset, len).cast();
        // SAFETY: the advice concerns pages of this mapping, which stays readable as it is.
        call(|| unsafe { libc::madvise(at, len, libc::MADV_POPULATE_READ) } as isize).map(drop)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; borrowed bytes have ended.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A number in shared memory that only grows.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU32);

impl Counter {
    /// The number now.
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Sets the number; wakes the other process.
    pub fn set(&self, number: u32) {
        self.0.store(number, Ordering::Release);
        // SAFETY: the address is that of a live word.
        unsafe {
            libc::syscall(libc::SYS_futex, self.0.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
        }
    }

    /// Sleeps until the number is at least `number`.
    pub fn wait(&self, number: u32) {
        loop {
            let now = self.get();
            if now >= number {
                return;
            }
            let forever = std::ptr::null::<libc::timespec>();
            // SAFETY: the address is that of a live word.
            unsafe {
                let at = self.0.as_ptr();
                libc::syscall(libc::SYS_futex, at, libc::FUTEX_WAIT, now, forever);
            }
        }
    }
}
