//! The monotonic clock: wall-clock time may jump, this does not. A thread may live in another time: the simulator's.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// A time that somebody else decides.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some moment.
    fn now_ns(&self) -> u64;
}

thread_local!(static CLOCK: RefCell<Option<Arc<dyn Clock>>> = const { RefCell::new(None) });

/// Whether any thread of this process lives, or has lived, in another time.
static VIRTUAL: AtomicBool = AtomicBool::new(false);

/// Whether threads of this process may live in another time; false costs next to nothing to find out.
#[inline]
pub fn may_be_virtual() -> bool {
    VIRTUAL.load(Ordering::Relaxed)
}

/// From now on this thread lives in the time of `clock`; with `None`, in the machine's again.
pub fn live_by(clock: Option<Arc<dyn Clock>>) {
    VIRTUAL.store(true, Ordering::Relaxed);
    CLOCK.with(|place| *place.borrow_mut() = clock);
}

/// Milliseconds of the monotonic clock.
pub fn now_ms() -> u64 {
    now_ns() / 1_000_000
}

/// Nanoseconds of the monotonic clock, the same in every process of the machine.
pub fn now_ns() -> u64 {
    if may_be_virtual() {
        let other = CLOCK.try_with(|clock| clock.borrow().as_ref().map(|clock| clock.now_ns()));
        if let Ok(Some(now_ns)) = other {
            return now_ns;
        }
    }
    let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `spec` is valid for writes; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut spec) };
    spec.tv_sec as u64 * 1_000_000_000 + spec.tv_nsec as u64
}
