//! File descriptors: reading, writing, polling, and the limits on them.

use super::check;
use crate::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// What to wait for on a descriptor, and what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Readiness {
    /// Bytes (or a connection, or an end of file) can be read.
    pub readable: bool,
    /// Bytes can be written.
    pub writable: bool,
    /// The other side is gone or the descriptor is broken.
    pub hung_up: bool,
}

/// An epoll instance: many descriptors watched at once, each with a token.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// A new, empty instance.
    pub fn new() -> Result<Self> {
        // SAFETY: no pointers are passed; the returned descriptor is ours alone.
        let fd = unsafe { check("epoll_create1", libc::epoll_create1(libc::EPOLL_CLOEXEC) as i64)? };
        // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    /// Starts to watch `fd` for reading, and for writing if `writable`.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, writable: bool) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, writable)
    }

    /// Changes what `fd` is watched for.
    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, writable: bool) -> Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, writable)
    }

    /// Stops to watch `fd`.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, false)
    }

    /// Waits up to `timeout_ms` (0: not at all, negative: for ever) and reports (token, readiness) to `found`.
    pub fn wait(&self, timeout_ms: i32, mut found: impl FnMut(u64, Readiness)) -> Result<usize> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        // SAFETY: the pointer and count describe `events`, which lives across the call.
        let count = unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, timeout_ms)
        };
        let count = match check("epoll_wait", count as i64) {
            Ok(count) => count as usize,
            Err(error) if error.would_block() => 0,
            Err(error) => return Err(error),
        };
        for event in &events[..count] {
            let bits = event.events as i32;
            let readiness = Readiness {
                readable: bits & (libc::EPOLLIN | libc::EPOLLRDHUP) != 0,
                writable: bits & libc::EPOLLOUT != 0,
                hung_up: bits & (libc::EPOLLHUP | libc::EPOLLERR) != 0,
            };
            found(event.u64, readiness);
        }
        Ok(count)
    }

    fn control(&self, operation: i32, fd: BorrowedFd<'_>, token: u64, writable: bool) -> Result<()> {
        let interest = if writable { libc::EPOLLIN | libc::EPOLLOUT } else { libc::EPOLLIN };
        let mut event = libc::epoll_event { events: interest as u32, u64: token };
        // SAFETY: both descriptors are open for the length of the call; `event` is only read.
        let done = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd.as_raw_fd(), &mut event) };
        check("epoll_ctl", done as i64).map(drop)
    }
}

impl std::os::fd::AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An eventfd: a counter that makes a descriptor readable.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// A new event, not raised.
    pub fn new() -> Result<Self> {
        // SAFETY: no pointers are passed.
        let fd =
            unsafe { check("eventfd", libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as i64)? };
        // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
        Ok(Event(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    /// Makes the descriptor readable.
    pub fn raise(&self) {
        let one = 1u64.to_ne_bytes();
        // A full counter is already readable, so the result does not matter.
        let _ = write(self.as_fd(), &one);
    }

    /// Makes the descriptor unreadable again.
    pub fn clear(&self) {
        let mut count = [0; 8];
        let _ = read(self.as_fd(), &mut count);
    }
}

impl std::os::fd::AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

use std::os::fd::AsFd;

/// Reads what is there, at most the buffer. 0 is the end of the file.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the pointer and length describe `buffer`.
    let got = unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    check("read", got as i64).map(|n| n as usize)
}

/// Writes what fits.
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the pointer and length describe `bytes`.
    let put = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    check("write", put as i64).map(|n| n as usize)
}

/// Waits until one of the descriptors is readable, or (where the flag is set) writable; or the timeout.
pub fn poll(fds: &[(BorrowedFd<'_>, bool)], timeout_ms: i32) -> Result<Vec<Readiness>> {
    let mut list: Vec<libc::pollfd> = fds
        .iter()
        .map(|(fd, writable)| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN | if *writable { libc::POLLOUT } else { 0 },
            revents: 0,
        })
        .collect();
    // SAFETY: the pointer and count describe `list`, which lives across the call.
    let count = unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, timeout_ms) };
    match check("poll", count as i64) {
        Err(error) if !error.would_block() => return Err(error),
        _ => {}
    }
    Ok(list
        .iter()
        .map(|entry| Readiness {
            readable: entry.revents & libc::POLLIN != 0,
            writable: entry.revents & libc::POLLOUT != 0,
            hung_up: entry.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0,
        })
        .collect())
}

/// Sets or clears O_NONBLOCK.
pub fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    // SAFETY: no pointers are passed.
    let flags = unsafe { check("fcntl(F_GETFL)", libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) as i64)? } as i32;
    let flags = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    // SAFETY: no pointers are passed.
    let done = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) };
    check("fcntl(F_SETFL)", done as i64).map(drop)
}

/// Sets or clears close-on-exec.
pub fn set_close_on_exec(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    let flags = if on { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: no pointers are passed.
    let done = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, flags) };
    check("fcntl(F_SETFD)", done as i64).map(drop)
}

/// Takes ownership of a descriptor that was inherited under a number from the environment. Refuses numbers
/// that are not open, and the standard streams.
pub fn adopt(number: i32) -> Result<OwnedFd> {
    if number <= 2 {
        return Err(Error::Misuse(format!("descriptor {number} cannot be a Kumiki descriptor")));
    }
    // SAFETY: no pointers are passed; an invalid number only gives EBADF.
    unsafe { check("fcntl(F_GETFD)", libc::fcntl(number, libc::F_GETFD) as i64)? };
    // SAFETY: the number is open, and by the protocol of the launcher it belongs to this library alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The limit on open descriptors: (soft, hard).
pub fn limit() -> Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes.
    unsafe { check("getrlimit", libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) as i64)? };
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Raises the soft limit on open descriptors to the hard one.
pub fn raise_limit() -> Result<u64> {
    let (_, hard) = limit()?;
    let wanted = libc::rlimit { rlim_cur: hard, rlim_max: hard };
    // SAFETY: `wanted` is only read.
    unsafe { check("setrlimit", libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) as i64)? };
    Ok(hard)
}
