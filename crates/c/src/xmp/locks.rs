//! Atomic accesses to coarrays, and locks in them.

use super::coarrays::Coarray;
use super::sections::{KxmpPart, Section};
use super::{edge, session};
use crate::api::buffers::writable;
use crate::guard::misuse;
use kumiki::{GlobalPtr, Rank, Result, World};
use std::ffi::{c_char, c_int, c_long, c_void};
use std::time::Duration;

/// `XMP_STAT_LOCKED`, `XMP_STAT_UNLOCKED` and `XMP_STAT_LOCKED_OTHER_IMAGE`.
const LOCKED: c_int = 41;
const UNLOCKED: c_int = 42;
const LOCKED_OTHER_IMAGE: c_int = 43;

/// Between two looks at a lock that somebody has, at the longest.
const LONGEST: Duration = Duration::from_millis(1);

/// The one element that a program means, as a word of 4 or 8 bytes.
fn word(coarray: &Coarray, rank: Rank, section: &Section) -> Result<GlobalPtr<u8>> {
    if !section.ranges.is_empty() {
        return Err(misuse(format!(
            "{}: an atomic access is to one element, not to a section",
            coarray.name
        )));
    }
    match coarray.element {
        4 | 8 => Ok(coarray.pointer(rank, section.first)),
        bytes => {
            Err(misuse(format!("{}: an atomic access is to 4 or 8 bytes, not to {bytes}", coarray.name)))
        }
    }
}

/// Writes one element, whole.
///
/// # Safety
/// As `Coarray::at`; `place` must be a text, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_atomic_define(
    place: *const c_char,
    coarray: *const Coarray,
    image: *const c_long,
    part: *const KxmpPart,
    value: c_long,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "xmp_atomic_define", || {
            session::with(|world| {
                let (coarray, rank, section) = Coarray::at(coarray, world, image, part)?;
                let word = word(coarray, rank, &section)?;
                match coarray.element {
                    4 => world.swap(word.cast::<u32>(), value as u32).map(drop),
                    _ => world.swap(word.cast::<u64>(), value as u64).map(drop),
                }
            })
        })
    }
}

/// Reads one element, whole.
///
/// # Safety
/// As `Coarray::at`; `place` must be a text, or NULL; `value` must have so many bytes.
#[no_mangle]
pub unsafe extern "C" fn kxmp_atomic_ref(
    place: *const c_char,
    value: *mut c_void,
    bytes: usize,
    coarray: *const Coarray,
    image: *const c_long,
    part: *const KxmpPart,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "xmp_atomic_ref", || {
            let value = writable(value, bytes, "the value")?;
            session::with(|world| {
                let (coarray, rank, section) = Coarray::at(coarray, world, image, part)?;
                let word = word(coarray, rank, &section)?;
                // A number of the same sign, in as many bytes as the variable has.
                let read = match coarray.element {
                    4 => i64::from(world.fetch_add(word.cast::<u32>(), 0)? as i32),
                    _ => world.fetch_add(word.cast::<u64>(), 0)? as i64,
                };
                let read = read.to_ne_bytes();
                match value.len() {
                    length @ (1 | 2 | 4 | 8) => value.copy_from_slice(&read[..length]),
                    length => {
                        return Err(misuse(format!("the variable has {length} bytes; use an int or a long")))
                    }
                }
                Ok(())
            })
        })
    }
}

/// The lock that a program means.
fn lock_word(coarray: &Coarray, rank: Rank, section: &Section) -> Result<GlobalPtr<u64>> {
    match section.ranges.is_empty() && coarray.element >= size_of::<u64>() {
        true => Ok(coarray.pointer(rank, section.first).cast()),
        false => Err(misuse(format!("{}: a lock is one element of type xmp_lock_t", coarray.name))),
    }
}

/// Takes a lock, waiting for it unless the program wants to know whether it could be taken.
///
/// # Safety
/// As `Coarray::at`; `place` must be a text, or NULL; `acquired` and `status` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_lock(
    place: *const c_char,
    coarray: *const Coarray,
    image: *const c_long,
    part: *const KxmpPart,
    acquired: *mut c_int,
    status: *mut c_int,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "lock", || {
            let (is_taken, code) = session::with(|world| {
                let (coarray, rank, section) = Coarray::at(coarray, world, image, part)?;
                take(world, lock_word(coarray, rank, &section)?, acquired.is_null())
            })?;
            if !acquired.is_null() {
                acquired.write(is_taken.into());
            }
            tell(status, code, "this image has the lock already")
        })
    }
}

/// Whether the lock was taken, and the status.
fn take(world: &World, lock: GlobalPtr<u64>, waits: bool) -> Result<(bool, c_int)> {
    let me = u64::from(world.rank()) + 1;
    let mut pause = Duration::from_micros(1);
    loop {
        match world.compare_swap(lock, 0, me)? {
            0 => return Ok((true, 0)),
            holder if holder == me => return Ok((false, LOCKED)),
            _ if !waits => return Ok((false, 0)),
            _ => {
                world.progress()?;
                // Who has it may wait for a part of a shadow of this node first.
                kumiki::raw::channels::look_after(world);
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST);
            }
        }
    }
}

/// Gives a lock back.
///
/// # Safety
/// As [`kxmp_lock`].
#[no_mangle]
pub unsafe extern "C" fn kxmp_unlock(
    place: *const c_char,
    coarray: *const Coarray,
    image: *const c_long,
    part: *const KxmpPart,
    status: *mut c_int,
) {
    // SAFETY: as the caller promises.
    unsafe {
        edge(place, "unlock", || {
            let code = session::with(|world| {
                let (coarray, rank, section) = Coarray::at(coarray, world, image, part)?;
                let lock = lock_word(coarray, rank, &section)?;
                let me = u64::from(world.rank()) + 1;
                Ok(match world.compare_swap(lock, me, 0)? {
                    0 => UNLOCKED,
                    holder if holder == me => 0,
                    _ => LOCKED_OTHER_IMAGE,
                })
            })?;
            tell(
                status,
                code,
                if code == UNLOCKED { "the lock is not locked" } else { "another image has the lock" },
            )
        })
    }
}

/// Tells the program a status; without a place for it, what is wrong is an error.
unsafe fn tell(status: *mut c_int, code: c_int, what: &str) -> Result<()> {
    if !status.is_null() {
        // SAFETY: as the caller promises.
        unsafe { status.write(code) };
        return Ok(());
    }
    match code {
        0 => Ok(()),
        _ => Err(misuse(format!("{what}; ask for stat(..) to go on"))),
    }
}
