//! The real system calls, on Linux.

use nix::errno::Errno;
use nix::libc;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

type Result<T> = std::result::Result<T, Errno>;

/// Turns a C return value into a count or the errno.
fn check(value: isize) -> Result<usize> {
    if value < 0 { Err(Errno::last()) } else { Ok(value as usize) }
}

/// Reads up to `room` bytes and appends them to `buffer`. `Ok(0)` is end of file.
pub fn read_append(fd: RawFd, buffer: &mut Vec<u8>, room: usize) -> Result<usize> {
    buffer.reserve(room);
    let spare = buffer.spare_capacity_mut();
    let room = room.min(spare.len());
    // SAFETY: `spare` is writable memory of at least `room` bytes owned by the vector.
    let got = check(unsafe { libc::read(fd, spare.as_mut_ptr().cast(), room) })?;
    // SAFETY: the kernel has initialised `got <= room` bytes directly after the old length.
    unsafe { buffer.set_len(buffer.len() + got) };
    Ok(got)
}

/// Reads into `buffer` and forgets what was read; for draining. `Ok(0)` is end of file.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: `buffer` is writable for its whole length.
    check(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// Writes from several pieces of memory in one call.
pub fn writev(fd: RawFd, pieces: &[IoSlice<'_>]) -> Result<usize> {
    // SAFETY: IoSlice is guaranteed to have the layout of iovec, and the slices outlive the call.
    check(unsafe { libc::writev(fd, pieces.as_ptr().cast(), pieces.len().min(1024) as i32) })
}

/// Writes one piece of memory.
pub fn write(fd: RawFd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: `bytes` is readable for its whole length.
    check(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
}

/// Sends `count` bytes of a file from `*offset` without copying them through user space; advances `offset`.
pub fn sendfile(socket: RawFd, file: &OwnedFd, offset: &mut i64, count: usize) -> Result<usize> {
    // SAFETY: both descriptors are open for the duration of the call and `offset` is a valid pointer.
    check(unsafe { libc::sendfile(socket, file.as_raw_fd(), offset, count) })
}

/// Reads a file at an offset into `buffer`: `lseek` and `read`, the two calls that APR makes. `Ok(0)` is end of file.
pub fn read_at(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    // SAFETY: lseek takes no pointer.
    check(unsafe { libc::lseek(file.as_raw_fd(), offset as i64, libc::SEEK_SET) } as isize)?;
    read(file.as_raw_fd(), buffer)
}

/// Holds partial segments back (`true`) or lets them go (`false`). Only an optimisation: errors are ignored.
pub fn set_cork(fd: RawFd, on: bool) {
    let value = libc::c_int::from(on);
    // SAFETY: the option value is a c_int that outlives the call, and its size is given.
    unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_CORK,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

/// Waits until `fd` is readable (or writable), has hung up or failed (`true`), or `limit` has passed (`false`).
/// Rounds the limit up to a millisecond.
pub fn poll(fd: RawFd, for_writing: bool, limit: Duration) -> Result<bool> {
    let mut entry =
        libc::pollfd { fd, events: if for_writing { libc::POLLOUT } else { libc::POLLIN }, revents: 0 };
    let millis = i32::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
    // SAFETY: one valid pollfd, count 1.
    Ok(check(unsafe { libc::poll(&raw mut entry, 1, millis) } as isize)? > 0)
}

/// Closes the sending side.
pub fn shutdown_write(fd: RawFd) -> Result<()> {
    // SAFETY: shutdown takes no pointer.
    check(unsafe { libc::shutdown(fd, libc::SHUT_WR) } as isize).map(drop)
}

/// Makes a descriptor non-blocking: `fcntl(F_GETFL)`, `fcntl(F_SETFL)`, as APR does it (mpm-semantics 2, step 3).
pub fn set_nonblocking(fd: RawFd) -> Result<()> {
    // SAFETY: fcntl with these commands takes no pointer.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) } as isize)? as i32;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } as isize).map(drop)
}

/// Takes a connection from a listening socket; close-on-exec is set in the same call. Returns the client's address
/// along with it, as accept hands it out for nothing.
pub fn accept(listener: RawFd) -> Result<(OwnedFd, SocketAddr)> {
    // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: storage and length are valid and length gives the storage's size.
    let fd = check(unsafe {
        libc::accept4(listener, (&raw mut storage).cast(), &raw mut length, libc::SOCK_CLOEXEC)
    } as isize)?;
    // SAFETY: accept4 has just created this descriptor and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    Ok((socket, address_of(&storage)))
}

/// The local address of a connection: asked for only when the listener is bound to a wildcard address.
pub fn local_address(fd: RawFd) -> Result<SocketAddr> {
    // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: storage and length are valid and length gives the storage's size.
    check(unsafe { libc::getsockname(fd, (&raw mut storage).cast(), &raw mut length) } as isize)?;
    Ok(address_of(&storage))
}

/// Reads an address out of what the kernel filled in. Anything but IPv4 and IPv6 reads as 0.0.0.0:0.
/// An IPv4 client on a dual-stack socket reads as IPv4, the way Apache logs it.
fn address_of(storage: &libc::sockaddr_storage) -> SocketAddr {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the kernel wrote a sockaddr_in; the storage is larger and aligned for it.
            let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            SocketAddr::from((ip, u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that the kernel wrote a sockaddr_in6; the storage is larger and aligned for it.
            let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = IpAddr::from(v6.sin6_addr.s6_addr).to_canonical();
            SocketAddr::from((ip, u16::from_be(v6.sin6_port)))
        }
        _ => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    }
}

/// What the core needs to know of a file: one `newfstatat`, as Apache makes (std's `metadata` would call `statx`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// Type and permission bits.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    /// Modification time, microseconds since the epoch (may be negative).
    pub mtime_us: i64,
    /// Inode number.
    pub inode: u64,
}

impl FileStat {
    /// A regular file?
    pub fn is_file(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }

    /// A directory?
    pub fn is_dir(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    /// A symbolic link? Only [`lstat`] ever sees one.
    pub fn is_link(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFLNK
    }
}

/// Stats a path, following symbolic links.
pub fn stat(path: &Path) -> Result<FileStat> {
    nix::sys::stat::stat(path).map(|s| file_stat(&s))
}

/// Stats a path without following a symbolic link at its end.
pub fn lstat(path: &Path) -> Result<FileStat> {
    nix::sys::stat::lstat(path).map(|s| file_stat(&s))
}

fn file_stat(s: &libc::stat) -> FileStat {
    FileStat {
        mode: s.st_mode,
        size: s.st_size.max(0) as u64,
        mtime_us: s.st_mtime * 1_000_000 + s.st_mtime_nsec / 1000,
        inode: s.st_ino,
    }
}

/// Opens a file for reading, close-on-exec: `openat(O_RDONLY|O_CLOEXEC)` as in Apache's profile. The caller has
/// established that it is a regular file, so the open cannot wait for a writer as a FIFO's would.
pub fn open_read(path: &Path) -> Result<OwnedFd> {
    use nix::fcntl::{OFlag, open};
    open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, nix::sys::stat::Mode::empty())
}

/// A read-only, shared mapping of a part of a file, unmapped on drop.
///
/// The pages are never dereferenced in user space, only handed to `writev`: if another process truncates the file
/// meanwhile, the kernel reports EFAULT to us instead of raising SIGBUS.
#[derive(Debug)]
pub struct Map {
    base: *mut libc::c_void,
    length: usize,
}

// SAFETY: the mapping is read-only, is not tied to the thread that made it, and has exactly one owner.
unsafe impl Send for Map {}

impl Map {
    /// Maps `length` bytes from `offset`. The offset must be a multiple of the page size and the length not zero.
    pub fn new(file: &OwnedFd, offset: u64, length: usize) -> Result<Map> {
        // SAFETY: a fresh mapping at an address of the kernel's choice cannot alias anything; failure is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset as i64,
            )
        };
        if base == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(Map { base, length }) }
    }

    /// In bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Writes `head` and then the mapping from `from` on to a socket in one `writev`.
    pub fn writev_from(&self, fd: RawFd, head: &[u8], from: usize) -> Result<usize> {
        debug_assert!(from <= self.length);
        let pieces = [
            libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() },
            libc::iovec { iov_base: self.base.wrapping_byte_add(from), iov_len: self.length - from },
        ];
        let skip = usize::from(head.is_empty());
        // SAFETY: both ranges belong to memory that outlives the call: `head` is borrowed and the mapping is owned. The
        // kernel reads the mapping; pages that vanished under it give EFAULT, not a fault in this process.
        check(unsafe { libc::writev(fd, pieces[skip..].as_ptr(), (2 - skip) as i32) })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: base and length are those of a mapping this value owns, and nothing borrows it any more.
        unsafe { libc::munmap(self.base, self.length) };
    }
}

/// CPU times of this process and of its children that were waited for, in clock ticks: user, system, children's user,
/// children's system. One `times` call; Apache makes one per request with ExtendedStatus (mpm-semantics 9.3).
pub fn times() -> [i64; 4] {
    let mut times = libc::tms { tms_utime: 0, tms_stime: 0, tms_cutime: 0, tms_cstime: 0 };
    // SAFETY: the pointer is valid for the call.
    unsafe { libc::times(&raw mut times) };
    [times.tms_utime, times.tms_stime, times.tms_cutime, times.tms_cstime]
}

/// Microseconds since the epoch. No system call: the kernel answers in user space (vDSO).
pub fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_micros() as i64
}

/// Local time in a format of `strftime`; empty if the result is longer than 127 bytes.
pub fn format_local(seconds: i64, format: &std::ffi::CStr) -> String {
    // SAFETY: tm is plain data for which all zeroes is a valid value (its one pointer, the zone name, may be null).
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    let mut text = [0_u8; 128];
    // SAFETY: all pointers are valid for the calls, and the length of `text` is given.
    let length = unsafe {
        libc::localtime_r(&raw const seconds, &raw mut tm);
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &raw const tm)
    };
    String::from_utf8_lossy(&text[..length]).into_owned()
}

/// The system's load averages over 1, 5 and 15 minutes; zeroes where there are none.
pub fn load_average() -> [f64; 3] {
    let mut load = [0.0; 3];
    // SAFETY: the array has room for the three numbers asked for.
    unsafe { libc::getloadavg(load.as_mut_ptr(), 3) };
    load
}

/// Clock ticks in a second: the unit of [`times`].
pub fn clock_ticks() -> i64 {
    // SAFETY: sysconf takes no pointer.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }
}

/// Local time in the access log's form, `01/Dec/2026:02:03:04 +0000`. The first call of a process reads the time zone.
pub fn local_time(seconds: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // SAFETY: tm is plain data for which all zeroes is a valid value (its one pointer, the zone name, may be null).
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; localtime_r is the thread-safe form.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut tm) };
    let (sign, offset) = if tm.tm_gmtoff < 0 { ('-', -tm.tm_gmtoff) } else { ('+', tm.tm_gmtoff) };
    format!(
        "{:02}/{}/{:04}:{:02}:{:02}:{:02} {sign}{:02}{:02}",
        tm.tm_mday,
        MONTHS.get(tm.tm_mon as usize).unwrap_or(&"???"),
        tm.tm_year + 1900,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        offset / 3600,
        offset / 60 % 60,
    )
}
