//! The end of a process: most programs of WaitIO just exit.
//!
//! One that ends well, by `exit(0)` or by returning 0 from `main`, leaves as `waitio_finalize` does, and then stays for as long as it is needed
//! as the host of a node or of the whole. Every other end is a loss, which the others are told.

use super::{edge, session};
use crate::acp::flush_output;
use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::time::Duration;

/// Longer than leaving takes.
const LONGEST: Duration = Duration::from_secs(60);

extern "C" {
    /// Of the C library: what is called at `exit`, with its code.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Sees to it that this process leaves at its end, if that is a good one.
pub(super) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let process = std::process::id() as usize as *mut c_void;
        // SAFETY: the function lives as long as the process (the library cannot be unloaded), and its argument is a number.
        // Without memory for it, which is all that can fail, there is no notice of the end.
        unsafe { on_exit(leave_at_exit, process) };
    });
}

/// `process` is the number of the process that joined: a child that it forked ends by itself.
extern "C" fn leave_at_exit(code: c_int, process: *mut c_void) {
    if code != 0 || std::process::id() as usize != process as usize || !session::is_needed() {
        return;
    }
    edge("the end of the process", || {
        // What was printed must not wait for the others.
        flush_output();
        let left = session::leave(LONGEST);
        session::host();
        left
    });
}
