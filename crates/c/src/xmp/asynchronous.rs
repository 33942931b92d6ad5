//! What was started and is waited for by the number that the program gave it.

use super::arrays::KxmpArray;
use super::references::{self, KxmpRef};
use super::{edge, edge_or, session, sets, tasks};
use crate::api::buffers::list;
use crate::api::elements::How;
use crate::guard::misuse;
use kumiki::array::{Plan, Underway};
use kumiki::raw::groups::Combination;
use kumiki::{Purpose, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_long};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `KXMP_SYNC`: not asynchronous.
pub(super) const AT_ONCE: c_long = -1;

/// Memory that a plan moves elements out of, or into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Memory {
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
}

// SAFETY: memory of the program, which leaves it alone until it has waited, in whatever thread.
unsafe impl Send for Memory {}

impl Memory {
    /// The part of this node of an array.
    ///
    /// # Safety
    /// The program must not use it until it has waited.
    pub(super) unsafe fn of(array: &KxmpArray, bytes: usize) -> Memory {
        Memory { start: if bytes == 0 { std::ptr::null_mut() } else { array.base }, bytes }
    }

    /// Whether two have no byte in common.
    fn is_apart(self, other: Memory) -> bool {
        let (one, two) = (self.start as usize, other.start as usize);
        one.saturating_add(self.bytes) <= two || two.saturating_add(other.bytes) <= one
    }

    /// # Safety
    /// The program must not use it meanwhile, and nobody else may have it in this form.
    pub(super) unsafe fn slice<'a>(self) -> &'a mut [u8] {
        match self.start.is_null() || self.bytes == 0 {
            true => &mut [],
            // SAFETY: as the caller promises.
            false => unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) },
        }
    }
}

/// Something that was started.
struct Begun {
    underway: Underway<'static>,
    to: Memory,
    /// How what comes is combined with what is there, if it is.
    how: Option<How>,
}

/// What was started, by its number.
static BEGUN: Mutex<BTreeMap<c_long, Vec<Begun>>> = Mutex::new(BTreeMap::new());

fn begun() -> MutexGuard<'static, BTreeMap<c_long, Vec<Begun>>> {
    BEGUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The world ends.
pub(super) fn end_all() {
    let left = std::mem::take(&mut *begun());
    drop(left);
}

/// Runs a plan, or starts it under a number. Source and target may be the same memory.
///
/// # Safety
/// The program must not use the memory before this returns; the target, if there is a number, before it has waited.
pub(super) unsafe fn run(
    plan: &Arc<Plan>,
    from: Memory,
    to: Memory,
    how: Option<How>,
    id: c_long,
) -> Result<()> {
    tasks::check_present(plan.peers())?;
    session::with(|world| {
        if id == AT_ONCE && how.is_none() && plan.gathers() {
            let set = sets::executing()?;
            // All nodes go the same way, wherever their memories are: a source within the target is copied first.
            let bytes = if from.is_apart(to) { 0 } else { from.bytes };
            let _booked = kumiki::raw::memory(world).book(Purpose::Comm, bytes as u64)?;
            let source = match bytes {
                // SAFETY: as the caller promises; it does not overlap with the target.
                0 => Cow::Borrowed(unsafe { &*from.slice() }),
                // SAFETY: as the caller promises; it is not used any more when the target is.
                _ => Cow::Owned(unsafe { from.slice() }.to_vec()),
            };
            // SAFETY: as the caller promises; they do not overlap.
            return plan.run_with(world, set.known_group(), &source, unsafe { to.slice() });
        }
        if id == AT_ONCE && how.is_none() && from.is_apart(to) {
            // SAFETY: as the caller promises; they do not overlap.
            return unsafe { plan.run(world, from.slice(), to.slice()) };
        }
        if id == AT_ONCE && from == to {
            // SAFETY: as the caller promises.
            let memory = unsafe { to.slice() };
            return match how {
                None => plan.run_inside(world, memory),
                Some(how) => {
                    plan.run_combining(world, memory, &mut |into, came| how.merge(into, came, false))
                }
            };
        }
        // SAFETY: as the caller promises; the source is not used any more when the target is.
        let underway = plan.start(world, unsafe { from.slice() })?;
        let begun_now = Begun { underway, to, how };
        if id == AT_ONCE {
            return begun_now.finish();
        }
        begun().entry(id).or_default().push(begun_now);
        Ok(())
    })
}

impl Begun {
    fn finish(self) -> Result<()> {
        // SAFETY: the program has promised to leave it alone until now.
        let to = unsafe { self.to.slice() };
        match self.how {
            None => self.underway.finish(to),
            Some(how) => self.underway.finish_combining(to, &mut |into, came| how.merge(into, came, false)),
        }
    }
}

/// Waits for what has a number.
fn wait(id: c_long) -> Result<()> {
    // What is waited for is in nobody's hands meanwhile.
    let list = begun().remove(&id).unwrap_or_default();
    session::with(|_| list.into_iter().try_for_each(Begun::finish))
}

/// Throws away what was started and would write into this memory, when it has come: the memory is given back.
pub(super) fn discard_into(memory: Memory) -> Result<()> {
    discard(|begun| !begun.to.is_apart(memory))
}

/// Throws away all that was started, when it has come: at the end the memory that it would go to may be gone.
pub(super) fn discard_all() -> Result<()> {
    discard(|_| true)
}

fn discard(is_meant: impl Fn(&Begun) -> bool) -> Result<()> {
    let mut left = Vec::new();
    begun().retain(|_, list| {
        left.extend(list.extract_if(.., |begun| is_meant(begun)));
        !list.is_empty()
    });
    if left.is_empty() {
        return Ok(());
    }
    // What is waited for is in nobody's hands meanwhile.
    session::with(|_| {
        drop(left);
        Ok(())
    })
}

/// Waits for what was started by these numbers. Those that nothing has are left out.
///
/// # Safety
/// `place` must be a text, or NULL; `ids` must have `count` numbers.
#[no_mangle]
pub unsafe extern "C" fn kxmp_wait_async(
    place: *const c_char,
    count: c_int,
    ids: *const c_long,
    on: KxmpRef,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "wait_async", || {
            let count = usize::try_from(count).map_err(|_| misuse(format!("{count} numbers")))?;
            let ids = list(ids, count, "the numbers")?;
            match references::set(&on)? {
                Some(_) => ids.iter().try_for_each(|&id| wait(id)),
                None => Ok(()),
            }
        })
    }
}

/// Whether all that was started by a number is done; then it has been waited for.
#[no_mangle]
pub extern "C" fn xmp_test_async(id: c_int) -> c_int {
    edge_or("xmp_test_async", 1, || {
        let id = c_long::from(id);
        let is_done = session::with(|world| {
            world.progress()?;
            Ok(begun().get(&id).is_none_or(|list| list.iter().all(|begun| begun.underway.is_done())))
        })?;
        if is_done {
            wait(id)?;
        }
        Ok(is_done.into())
    })
}
