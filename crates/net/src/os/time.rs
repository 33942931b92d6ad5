//! The monotonic clock: wall-clock time may jump, this does not.

/// Milliseconds of the monotonic clock.
pub fn now_ms() -> u64 {
    now_ns() / 1_000_000
}

/// Nanoseconds of the monotonic clock, the same in every process of the machine.
pub fn now_ns() -> u64 {
    let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `spec` is valid for writes; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut spec) };
    spec.tv_sec as u64 * 1_000_000_000 + spec.tv_nsec as u64
}
