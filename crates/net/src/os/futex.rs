//! Sleeping on a word of shared memory.

use std::sync::atomic::AtomicU32;

/// Sleeps while `word` holds `expected`, for at most `timeout_ms`. Wakes early on a wake-up, a signal, or for
/// no reason: callers look at their condition again.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ms: u64) {
    wait_us(word, expected, timeout_ms.saturating_mul(1000));
}

/// As [`wait`], for at most `timeout_us`.
pub fn wait_us(word: &AtomicU32, expected: u32, timeout_us: u64) {
    let timeout = libc::timespec {
        tv_sec: (timeout_us / 1_000_000) as libc::time_t,
        tv_nsec: ((timeout_us % 1_000_000) * 1000) as libc::c_long,
    };
    // SAFETY: `word` is a live aligned u32; the kernel only reads it. Failure (EAGAIN, EINTR, ETIMEDOUT) all
    // mean "look again", which is what the caller does.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &timeout as *const libc::timespec,
        );
    }
}

/// Wakes at most `count` sleepers on `word`, in any process that maps it. Returns how many woke.
pub fn wake(word: &AtomicU32, count: i32) -> i32 {
    // SAFETY: `word` is a live aligned u32; the kernel uses only its address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count) as i32 }
}

/// Wakes every sleeper on `word`.
pub fn wake_all(word: &AtomicU32) {
    wake(word, i32::MAX);
}
