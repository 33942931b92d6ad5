//! Processes: liveness by descriptor, signals, processors, and what happens in a forked child.

use super::check;
use crate::Result;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// A descriptor that becomes readable when the process ends.
pub fn open_pidfd(pid: i32) -> Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { check("pidfd_open", libc::syscall(libc::SYS_pidfd_open, pid, 0))? };
    // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The number of processors this process may run on.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Gives the processor to whoever is next.
#[inline]
pub fn yield_now() {
    // SAFETY: no pointers are passed; it always succeeds on Linux.
    unsafe { libc::sched_yield() };
}

static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn mark_forked() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Arranges that a child made by `fork` knows that it is one. Cheap to call again.
pub fn watch_forks() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: `mark_forked` is async-signal-safe: it stores to a static atomic and nothing else.
        unsafe { libc::pthread_atfork(None, None, Some(mark_forked)) };
    });
}

/// Whether this process is a forked child of one that called [`watch_forks`]: shared memory is not mapped here.
#[inline]
pub fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}
