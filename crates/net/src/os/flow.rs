//! How fast the kernel lets a TCP connection go: what it has measured, how much the other side may have under way, how soon one
//! segment follows the other.

use super::check;
use crate::Result;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What the kernel has measured on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    /// The time to the other side and back, lately, in microseconds.
    pub round_trip_us: u64,
    /// The shortest of the last minutes: what the way takes when nothing stands in it.
    pub least_round_trip_us: u64,
    /// Segments that had to be sent again, so far.
    pub repeated: u32,
    /// Bytes a second that the other side has acknowledged lately; 0 if that was all that there was to send.
    pub bytes_per_second: u64,
}

/// Bytes of the kernel's account of a connection that we look at.
const INFO_BYTES: usize = 168;
/// Where in it that is which [`Flow`] has.
const OWN_LIMIT_AT: usize = 7;
const ROUND_TRIP_AT: usize = 68;
const REPEATED_AT: usize = 100;
const LEAST_ROUND_TRIP_AT: usize = 148;
const RATE_AT: usize = 160;

/// What the kernel has measured on a TCP connection; `None` if it does not say, as kernels before 4.9.
pub fn of(fd: BorrowedFd<'_>) -> Option<Flow> {
    let mut info = [0u8; INFO_BYTES];
    let mut bytes = INFO_BYTES as libc::socklen_t;
    // SAFETY: `info` and `bytes` are valid for writes of their sizes.
    let got = unsafe {
        let place = info.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut bytes)
    };
    let word = |at: usize| info[at..].first_chunk().map(|bytes| u64::from(u32::from_ne_bytes(*bytes)));
    let long = |at: usize| info[at..].first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
    if got != 0 || (bytes as usize) < INFO_BYTES {
        return None;
    }
    Some(Flow {
        round_trip_us: word(ROUND_TRIP_AT)?,
        least_round_trip_us: word(LEAST_ROUND_TRIP_AT)?,
        repeated: word(REPEATED_AT)? as u32,
        bytes_per_second: if info[OWN_LIMIT_AT] & 1 == 0 { long(RATE_AT)? } else { 0 },
    })
}

/// The kernel takes windows up to here; a larger one is none.
const WIDEST: i32 = i32::MAX / 2;

/// How many bytes the other side may have under way to us, and whether the kernel may change that as it sees fit: not if we say how
/// many. `None`: as many as the kernel sees fit. What was granted before stays granted.
pub fn set_window(fd: BorrowedFd<'_>, bytes: Option<u32>) -> Result<()> {
    let clamp = bytes.map_or(WIDEST, |bytes| bytes.min(WIDEST as u32) as i32);
    set(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &clamp, "setsockopt(TCP_WINDOW_CLAMP)")?;
    let lock = if bytes.is_some() { SOCK_RCVBUF_LOCK } else { 0 };
    // Kernels before 5.14 do not know that lock; their tuning may widen the window, and it is set anew before long.
    let _ = set(fd, libc::SOL_SOCKET, SO_BUF_LOCK, &lock, "setsockopt(SO_BUF_LOCK)");
    Ok(())
}

/// The most bytes a second that a connection sends; `None`: as many as it can.
pub fn set_rate(fd: BorrowedFd<'_>, bytes_per_second: Option<u64>) -> Result<()> {
    let rate = bytes_per_second.unwrap_or(u64::MAX);
    set(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate, "setsockopt(SO_MAX_PACING_RATE)")
}

const SO_BUF_LOCK: i32 = 72;
const SOCK_RCVBUF_LOCK: i32 = 2;

/// Sets an option that is a number.
fn set<T: Copy>(fd: BorrowedFd<'_>, level: i32, name: i32, value: &T, call: &'static str) -> Result<()> {
    let bytes = std::mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for reads of its size.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (value as *const T).cast(), bytes) };
    check(call, done as i64).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets of the system")]
    fn the_kernel_says_how_long_the_way_is() {
        let (one, _other) = pair();
        let flow = of(one.as_fd()).expect("this kernel says it");
        assert!(flow.least_round_trip_us > 0 && flow.least_round_trip_us < 10_000_000, "{flow:?}");
        assert!(flow.round_trip_us >= flow.least_round_trip_us, "{flow:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets of the system")]
    fn a_window_and_a_rate_are_set_and_lifted() {
        let (one, _other) = pair();
        set_window(one.as_fd(), Some(8192)).unwrap();
        set_window(one.as_fd(), None).unwrap();
        set_rate(one.as_fd(), Some(1_000_000)).unwrap();
        set_rate(one.as_fd(), None).unwrap();
    }
}
