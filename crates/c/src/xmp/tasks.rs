//! `task`: a statement that only some nodes execute.

use super::references::{self, KxmpRef};
use super::{edge, edge_or, session, sets};
use std::ffi::{c_char, c_int, c_void};

/// `kxmp_task`.
#[repr(C)]
#[derive(Debug)]
pub struct KxmpTask {
    inside: c_int,
    /// Whether the executing nodes are others meanwhile: not NULL then.
    outer: *mut c_void,
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
                    (c_int::from(is_in), std::ptr::null_mut())
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
        let task = unsafe { &mut *task };
        if !task.outer.is_null() {
            task.outer = std::ptr::null_mut();
            sets::pop();
        }
        Ok(())
    });
}
