//! `task`: a statement that only some nodes execute.

use super::references::{self, KxmpRef};
use super::{edge, edge_or, session, sets};
use crate::guard::misuse;
use kumiki::{Members, Rank, Result};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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

/// Who is in those tasks, the outermost first.
static INSIDE: Mutex<Vec<Members>> = Mutex::new(Vec::new());

/// Whether this node executes a task with `nocomm`.
pub(super) fn is_in_plain() -> bool {
    PLAIN.load(Ordering::Relaxed) > 0
}

/// An error if this node would wait for one of these ranks, which is not in a task with `nocomm` that this one executes: it never comes.
pub(super) fn check_present(mut ranks: impl Iterator<Item = Rank>) -> Result<()> {
    if !is_in_plain() {
        return Ok(());
    }
    let inside = INSIDE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_missing = |rank: &Rank| inside.iter().any(|members| members.position(*rank).is_none());
    ranks.find(is_missing).map_or(Ok(()), |rank| {
        Err(misuse(format!(
            "rank {rank} would have to take part, and is not in the task around this, which has the word nocomm: the nodes that execute stay those from \
             before it. Leave nocomm out, or name nodes of the task in an on-clause"
        )))
    })
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
                    let members = session::with(|world| references::members(world, &on))?;
                    match members.filter(|members| members.position(sets::rank()).is_some()) {
                        Some(members) => {
                            INSIDE.lock().unwrap_or_else(PoisonError::into_inner).push(members);
                            PLAIN.fetch_add(1, Ordering::Relaxed);
                            (1, std::ptr::dangling_mut())
                        }
                        None => (0, std::ptr::null_mut()),
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
                INSIDE.lock().unwrap_or_else(PoisonError::into_inner).pop();
            }
        }
        Ok(())
    });
}
