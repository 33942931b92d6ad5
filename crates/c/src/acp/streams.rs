//! What the program has printed into the streams of the C library, and nobody has seen yet.

use super::is_forked_child;
use std::ffi::{c_int, c_void};
use std::sync::mpsc;
use std::time::Duration;

/// How long streams may take: one that another thread reads or writes just now is locked, perhaps for ever.
const FLUSH: Duration = Duration::from_secs(1);
/// Longer than an abort takes.
const ABORT: Duration = Duration::from_secs(10);

extern "C" {
    /// Of the C library: writes out what a stream holds; with NULL, what all hold.
    fn fflush(stream: *mut c_void) -> c_int;
    /// Of the C library: ends the process, and does nothing else.
    fn _exit(code: c_int) -> !;
}

/// Writes out what all streams hold, before the process ends with this code. The copies that a forked child has are those of its parent.
pub(super) fn flush_before_abort(code: c_int) {
    if is_forked_child() {
        return;
    }
    let (done, flushed) = mpsc::channel();
    let flush = move || {
        // SAFETY: NULL stands for all streams, and the C library locks each.
        let _ = unsafe { fflush(std::ptr::null_mut()) };
        let _ = done.send(());
    };
    let started = std::thread::Builder::new().spawn(flush).is_ok();
    if started && flushed.recv_timeout(FLUSH).is_err() {
        // An `exit` would wait for the same stream.
        let _ = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(ABORT);
            // SAFETY: it takes nothing of ours, and does not return.
            unsafe { _exit(code) }
        });
    }
}
