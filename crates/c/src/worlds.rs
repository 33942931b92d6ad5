//! The worlds of `kumiki.h`, each behind a handle.
//!
//! As those of things, a handle looks like a pointer to C, and is a number that was never given before: one whose world has ended, or that
//! is no world, is found out. The places that worlds are in are there for as long as the program is, so finding one takes a single look.

use crate::api::KumikiWorld;
use crate::guard::misuse;
use crate::place::{Inside, Place};
use kumiki::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// So many worlds a process can be in at a time.
const MOST: usize = 64;
/// From one number to the next.
const STEP: usize = 16;
/// What numbers of worlds end with: those of things are multiples of the step.
const MARK: usize = 8;

/// Where a world can be.
struct Spot {
    /// The handle of the world that is here; 0 if there is none.
    number: AtomicUsize,
    place: Place,
}

static SPOTS: [Spot; MOST] = [const { Spot { number: AtomicUsize::new(0), place: Place::new() } }; MOST];

/// The number that was given last.
static LAST: Mutex<usize> = Mutex::new(MARK);

/// Where the world of a number is, if it is there.
fn spot_of(number: usize) -> &'static Spot {
    &SPOTS[number / STEP % MOST]
}

fn gone() -> Error {
    misuse("there is no such world: it has ended, or was never given")
}

/// The place of a world. That of `acp_init` has no handle of its own: NULL names it.
pub(crate) fn find(world: *const KumikiWorld) -> Result<&'static Place> {
    if world.is_null() {
        return Ok(&crate::acp::WORLD);
    }
    let spot = spot_of(world as usize);
    match spot.number.load(Ordering::Acquire) == world as usize {
        true => Ok(&spot.place),
        false => Err(gone()),
    }
}

/// Takes a free place for a world that is not there yet: its number.
fn reserve() -> Result<usize> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    for next in (1..=MOST).map(|steps| last.wrapping_add(steps * STEP)) {
        let spot = spot_of(next);
        if spot.number.load(Ordering::Acquire) == 0 {
            spot.number.store(next, Ordering::Release);
            *last = next;
            return Ok(next);
        }
    }
    Err(misuse(format!("this process is in {MOST} worlds, and can be in no more at a time")))
}

/// Gives the place of a number back, if that is still its.
fn give_back(number: usize) {
    let _ = spot_of(number).number.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Relaxed);
}

/// Makes a world: its handle.
pub(crate) fn enter(join: impl FnOnce() -> Result<Inside>) -> Result<*mut KumikiWorld> {
    let number = reserve()?;
    let entered = spot_of(number).place.enter_inside(join);
    entered.inspect_err(|_| give_back(number))?;
    Ok(number as *mut KumikiWorld)
}

/// The handle of a world that has ended is of no use any more; that of one that goes on, because another thread is in it, stays.
pub(crate) fn release(world: *const KumikiWorld) {
    if find(world).is_ok_and(|place| !place.is_taken()) {
        give_back(world as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_never_given_twice() {
        let first = reserve().unwrap();
        give_back(first);
        let others: Vec<usize> = (0..3 * MOST)
            .map(|_| {
                let number = reserve().unwrap();
                assert!(find(number as *const KumikiWorld).is_ok());
                give_back(number);
                number
            })
            .collect();
        assert!(others.is_sorted() && others[0] > first, "{others:?}");
        for gone in [first, others[MOST], others[3 * MOST - 1], 16, 24 + STEP * MOST * 1000, usize::MAX] {
            assert!(matches!(find(gone as *const KumikiWorld), Err(Error::Misuse(_))), "{gone}");
            release(gone as *const KumikiWorld);
        }
    }

    #[test]
    fn a_world_that_could_not_be_made_takes_no_place() {
        for _ in 0..2 * MOST {
            let failed = enter(|| Err(Error::Closed("not today".into())));
            assert!(matches!(failed, Err(Error::Closed(_))));
        }
    }
}
