//! File descriptors: reading, writing, polling, and the limits on them.

use super::limit_of;
use super::named;
use crate::{Error, Result};
use rustix::event::{epoll, eventfd, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fs::{fcntl_getfl, fcntl_setfl, OFlags};
use rustix::io::{fcntl_setfd, Errno, FdFlags};
use rustix::process::{setrlimit, Resource, Rlimit};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

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
        named("epoll_create1", epoll::create(epoll::CreateFlags::CLOEXEC)).map(Epoll)
    }

    /// Starts to watch `fd` for reading, and for writing if `writable`.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, writable: bool) -> Result<()> {
        let data = epoll::EventData::new_u64(token);
        named("epoll_ctl", epoll::add(&self.0, fd, data, interest(writable)))
    }

    /// Changes what `fd` is watched for.
    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, writable: bool) -> Result<()> {
        let data = epoll::EventData::new_u64(token);
        named("epoll_ctl", epoll::modify(&self.0, fd, data, interest(writable)))
    }

    /// Starts to watch `fd` for reading, for writing, or both.
    pub fn add_for(&self, fd: BorrowedFd<'_>, token: u64, readable: bool, writable: bool) -> Result<()> {
        let data = epoll::EventData::new_u64(token);
        named("epoll_ctl", epoll::add(&self.0, fd, data, interests(readable, writable)))
    }

    /// Changes what `fd` is watched for, likewise.
    pub fn change_for(&self, fd: BorrowedFd<'_>, token: u64, readable: bool, writable: bool) -> Result<()> {
        let data = epoll::EventData::new_u64(token);
        named("epoll_ctl", epoll::modify(&self.0, fd, data, interests(readable, writable)))
    }

    /// Stops to watch `fd`.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> Result<()> {
        named("epoll_ctl", epoll::delete(&self.0, fd))
    }

    /// Waits up to `timeout_ms` (0: not at all, negative: for ever) and reports (token, readiness) to `found`.
    pub fn wait(&self, timeout_ms: i32, mut found: impl FnMut(u64, Readiness)) -> Result<usize> {
        use epoll::EventFlags as Is;
        let mut events = [std::mem::MaybeUninit::uninit(); 32];
        let events = match epoll::wait(&self.0, &mut events, timeout(timeout_ms).as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(0),
            Err(errno) => return named("epoll_wait", Err(errno)),
        };
        for event in &*events {
            let bits = event.flags;
            let readiness = Readiness {
                readable: bits.intersects(Is::IN | Is::RDHUP),
                writable: bits.contains(Is::OUT),
                hung_up: bits.intersects(Is::HUP | Is::ERR),
            };
            found(event.data.u64(), readiness);
        }
        Ok(events.len())
    }
}

fn interest(writable: bool) -> epoll::EventFlags {
    interests(true, writable)
}

fn interests(readable: bool, writable: bool) -> epoll::EventFlags {
    let wanted = |is: bool, flag| if is { flag } else { epoll::EventFlags::empty() };
    wanted(readable, epoll::EventFlags::IN) | wanted(writable, epoll::EventFlags::OUT)
}

/// So many milliseconds; `None`, which is for ever, if they are negative.
fn timeout(timeout_ms: i32) -> Option<Timespec> {
    let timeout_ms = u32::try_from(timeout_ms).ok()?;
    Some(Timespec { tv_sec: (timeout_ms / 1000).into(), tv_nsec: (timeout_ms % 1000 * 1_000_000).into() })
}

impl AsFd for Epoll {
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
        named("eventfd", eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)).map(Event)
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

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads what is there, at most the buffer. 0 is the end of the file.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize> {
    named("read", rustix::io::read(fd, buffer))
}

/// Writes what fits.
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize> {
    named("write", rustix::io::write(fd, bytes))
}

/// Waits until one of the descriptors is readable, or (where the flag is set) writable; or the timeout.
pub fn poll(fds: &[(BorrowedFd<'_>, bool)], timeout_ms: i32) -> Result<Vec<Readiness>> {
    poll_until(fds, timeout(timeout_ms))
}

/// The same, for a shorter time.
pub fn poll_within(fds: &[(BorrowedFd<'_>, bool)], longest: Duration) -> Result<Vec<Readiness>> {
    let (tv_sec, tv_nsec) = (longest.as_secs() as i64, i64::from(longest.subsec_nanos()));
    poll_until(fds, Some(Timespec { tv_sec, tv_nsec }))
}

fn poll_until(fds: &[(BorrowedFd<'_>, bool)], timeout: Option<Timespec>) -> Result<Vec<Readiness>> {
    let wanted = |writable: bool| if writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut list: Vec<PollFd<'_>> =
        fds.iter().map(|(fd, writable)| PollFd::from_borrowed_fd(*fd, wanted(*writable))).collect();
    match rustix::event::poll(&mut list, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
        Err(errno) => return named("poll", Err(errno)),
    }
    let found = |entry: &PollFd<'_>| Readiness {
        readable: entry.revents().contains(PollFlags::IN),
        writable: entry.revents().contains(PollFlags::OUT),
        hung_up: entry.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
    };
    Ok(list.iter().map(found).collect())
}

/// Sets or clears O_NONBLOCK.
pub fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    let mut flags = named("fcntl(F_GETFL)", fcntl_getfl(fd))?;
    flags.set(OFlags::NONBLOCK, on);
    named("fcntl(F_SETFL)", fcntl_setfl(fd, flags))
}

/// Sets or clears close-on-exec.
pub fn set_close_on_exec(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    let flags = if on { FdFlags::CLOEXEC } else { FdFlags::empty() };
    named("fcntl(F_SETFD)", fcntl_setfd(fd, flags))
}

/// Closes all descriptors from a number on. Whoever has one of them must not use it any more; so this is for a program that has just begun.
pub fn close_from(first: u32) {
    // SAFETY: closes descriptors, and touches no memory. A kernel without the call (before 5.9) closes none, which does no harm here.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
}

/// Takes ownership of a descriptor that was inherited under a number from the environment. Refuses numbers
/// that are not open, and the standard streams.
pub fn adopt(number: i32) -> Result<OwnedFd> {
    if number <= 2 {
        return Err(Error::Misuse(format!("descriptor {number} cannot be a Kumiki descriptor")));
    }
    // SAFETY: no pointers are passed; an invalid number only gives EBADF.
    unsafe { super::check("fcntl(F_GETFD)", libc::fcntl(number, libc::F_GETFD) as i64)? };
    // SAFETY: the number is open, and by the protocol of the launcher it belongs to this library alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The limit on open descriptors: (soft, hard).
pub fn limit() -> (u64, u64) {
    let (soft, hard) = limit_of(libc::RLIMIT_NOFILE);
    (soft.unwrap_or(u64::MAX), hard.unwrap_or(u64::MAX))
}

/// Raises the soft limit on open descriptors to the hard one.
pub fn raise_limit() -> Result<u64> {
    let (_, maximum) = limit_of(libc::RLIMIT_NOFILE);
    named("setrlimit", setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }))?;
    Ok(maximum.unwrap_or(u64::MAX))
}
