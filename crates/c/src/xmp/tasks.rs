//! `task`: a statement that only some nodes execute.

use super::references::{self, KxmpRef};
use super::{edge, edge_or, session, sets};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// `kxmp_task`.
#[repr(C)]
#[derive(Debug)]
pub struct KxmpTask {
    inside: c_int,
    /// What the end undoes: NULL nothing, the task itself that other nodes execute meanwhile, anything else that it is plain.
    outer: *mut c_void,
}

/// How many tasks this node is in that are a plain `if`: the executing nodes stay what they were, but not all of them are there.
static PLAIN: AtomicUsize = AtomicUsize::new(0);

/// Whether this node executes a task with `nocomm`.
pub(super) fn is_in_plain() -> bool {
    PLAIN.load(Ordering::Relaxed) > 0
}

/// Begins a task: whether this node executes it.
///
/// # Safety
/// `task` must be writable; `place` must be a text, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_task_begin(
    task: *mut KxmpTask,
    place: *const c_char,
    on: KxmpRef,
    nocomm: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "task", || {
            let (inside, outer) = match nocomm {
                0 => match references::set(&on)? {
                    Some(set) => {
                        sets::push(set);
                        (1, task.cast())
                    }
                    None => (0, std::ptr::null_mut()),
                },
                _ => {
                    let is_in = session::with(|world| {
                        let members = references::members(world, &on)?;
                        Ok(members.is_some_and(|members| members.position(world.rank()).is_some()))
                    })?;
                    match is_in {
                        true => {
                            PLAIN.fetch_add(1, Ordering::Relaxed);
                            (1, std::ptr::dangling_mut())
                        }
                        false => (0, std::ptr::null_mut()),
                    }
                }
            };
            task.write(KxmpTask { inside, outer });
            Ok(inside)
        })
    }
}

/// Ends a task.
///
/// # Safety
/// `task` must come from [`kxmp_task_begin`].
#[no_mangle]
pub unsafe extern "C" fn kxmp_task_end(task: *mut KxmpTask) {
    edge_or("the end of a task", (), || {
        // SAFETY: as the caller promises.
        let (itself, task) = (task.cast(), unsafe { &mut *task });
        match std::mem::replace(&mut task.outer, std::ptr::null_mut()) {
            outer if outer.is_null() => {}
            outer if outer == itself => sets::pop(),
            _ => {
                PLAIN.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Ok(())
    });
}
