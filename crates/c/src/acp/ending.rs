//! The end of a process that has not called `acp_finalize`.
//!
//! Programs that exist return from `main` without it. A process that ends well, by `exit(0)` or by returning 0, is finalized
//! then: it waits for the others as in `acp_finalize`, and theirs is not the end of the job. What it had registered of its
//! stack is taken back first. Every other end, by a signal,
//! `_exit` or another code, is a loss, as it always is.

use super::{begin_again, channels, complain, edge, infrastructure, WORLD};
use kumiki::Error;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Once;

extern "C" {
    /// Of the C library: what is called at `exit`, with its code.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn fflush(stream: *mut c_void) -> c_int;
    fn ftrylockfile(stream: *mut c_void) -> c_int;
    fn funlockfile(stream: *mut c_void);
    static stdout: *mut c_void;
}

/// Sees to it that this process is finalized at its end, if that is a good one.
pub(super) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let process = std::process::id() as usize as *mut c_void;
        // SAFETY: the function lives as long as the process (the library cannot be unloaded), and its argument is a number.
        // Without memory for it, which is all that can fail, there is no notice of the end.
        unsafe { on_exit(finalize_at_exit, process) };
    });
}

/// `process` is the number of the process that joined: a child that it forked ends by itself.
extern "C" fn finalize_at_exit(code: c_int, process: *mut c_void) {
    if code != 0 || std::process::id() as usize != process as usize {
        return;
    }
    edge("the end of the process", (), || {
        // What `main` had on its stack is gone: what was to be received there is dropped, before anything goes on.
        let _ = WORLD.with(|world| {
            kumiki::raw::channels::abandon_receives(world);
            Ok(())
        });
        let ended = WORLD.replace(|world| {
            // What was printed must not wait for the others: they may fail, and this process end with them.
            flush_output();
            complain("the process ends without acp_finalize, which is called now");
            // Where that was, this very call keeps its own: others must not write there.
            if let Some(Err(error)) = main_stack().map(|stack| WORLD.retire(&world, &stack)) {
                complain(&format!("the end of the process: {error}"));
            }
            channels::finish(&world);
            world.finalize().map(|()| None)
        });
        match ended {
            Ok(()) => begin_again(None),
            // It has been finalized.
            Err(Error::Closed(_)) => {}
            Err(error) => return infrastructure::ended(Err(error)),
        }
        Ok(())
    });
}

/// Where the stack of the first thread lies.
fn main_stack() -> Option<Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[stack]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

/// Writes what standard output has gathered, unless another thread is at it.
pub(crate) fn flush_output() {
    // SAFETY: a stream of the C library, which lives until after the last function of `on_exit`. Trying its lock does not
    // wait; flushing takes it once more, as its holder may.
    unsafe {
        let stream = std::ptr::read(&raw const stdout);
        if !stream.is_null() && ftrylockfile(stream) == 0 {
            fflush(stream);
            funlockfile(stream);
        }
    }
}
