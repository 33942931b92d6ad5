//! Memory that C gives: checked as far as it can be.

use crate::guard::misuse;
use kumiki::Result;
use std::ffi::c_void;

/// `KUMIKI_IN_PLACE`: what this member has is where it belongs already.
pub(crate) fn is_in_place(memory: *const c_void) -> bool {
    memory as usize == usize::MAX
}

/// Refuses what cannot be so many bytes of a program.
pub(crate) fn check(memory: *const c_void, bytes: usize, name: &str) -> Result<()> {
    // That of WaitIO is 1.
    if is_in_place(memory) || memory as usize == 1 && bytes > 0 {
        return Err(misuse(format!("{name}: it cannot be KUMIKI_IN_PLACE (or that of WaitIO) here")));
    }
    match (memory.is_null(), isize::try_from(bytes)) {
        (_, Ok(0)) | (false, Ok(_)) => Ok(()),
        (true, Ok(_)) => Err(misuse(format!("{name}: {bytes} bytes at NULL"))),
        (_, Err(_)) => Err(misuse(format!("{name}: no memory has {bytes} bytes"))),
    }
}

/// Bytes that C has.
///
/// # Safety
/// `from` must be readable for `bytes`, and nobody may change them before the call returns.
pub(crate) unsafe fn readable<'a>(from: *const c_void, bytes: usize, name: &str) -> Result<&'a [u8]> {
    check(from, bytes, name)?;
    match bytes {
        0 => Ok(&[]),
        // SAFETY: as the caller promises; not NULL, and not longer than memory can be.
        _ => Ok(unsafe { std::slice::from_raw_parts(from.cast(), bytes) }),
    }
}

/// Bytes that C gives to be written.
///
/// # Safety
/// `into` must be writable for `bytes`, and nobody else may touch them before the call returns.
pub(crate) unsafe fn writable<'a>(into: *mut c_void, bytes: usize, name: &str) -> Result<&'a mut [u8]> {
    check(into, bytes, name)?;
    match bytes {
        0 => Ok(&mut []),
        // SAFETY: as the caller promises; not NULL, and not longer than memory can be.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(into.cast(), bytes) }),
    }
}

/// A list of C.
///
/// # Safety
/// `from` must be NULL, or aligned and readable for `count` values that nobody changes before the call returns.
pub(crate) unsafe fn list<'a, T>(from: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    let bytes = size_for(count, size_of::<T>(), name)?;
    check(from.cast(), bytes, name)?;
    match count {
        0 => Ok(&[]),
        // SAFETY: as the caller promises; not NULL, and not longer than memory can be.
        _ => Ok(unsafe { std::slice::from_raw_parts(from, count) }),
    }
}

/// A list of C that is to be written.
///
/// # Safety
/// `into` must be NULL, or aligned and writable for `count` values that nobody else touches before the call returns.
pub(crate) unsafe fn list_mut<'a, T>(into: *mut T, count: usize, name: &str) -> Result<&'a mut [T]> {
    let bytes = size_for(count, size_of::<T>(), name)?;
    check(into.cast(), bytes, name)?;
    match count {
        0 => Ok(&mut []),
        // SAFETY: as the caller promises; not NULL, and not longer than memory can be.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(into, count) }),
    }
}

/// Bytes of so many elements.
pub(crate) fn size_for(count: usize, element: usize, name: &str) -> Result<usize> {
    count
        .checked_mul(element)
        .ok_or_else(|| misuse(format!("{name}: {count} times {element} bytes cannot be")))
}

/// Refuses memory that is read and written at the same time.
pub(crate) fn apart(
    (from, from_bytes): (*const c_void, usize),
    (into, into_bytes): (*const c_void, usize),
) -> Result<()> {
    let (from, into) = (from as usize, into as usize);
    let meet = from < into.saturating_add(into_bytes) && into < from.saturating_add(from_bytes);
    match meet && from_bytes > 0 && into_bytes > 0 {
        true => Err(misuse("data and into: they overlap")),
        false => Ok(()),
    }
}

/// Memory of the program that it has promised to leave alone until a request has ended.
pub(crate) struct Promised {
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the program has given the memory away until it has waited for the request, which may be in another thread.
unsafe impl Send for Promised {}

impl Promised {
    /// Memory that will be written when the request is waited for.
    pub(crate) fn new(start: *mut c_void, bytes: usize, name: &str) -> Result<Promised> {
        check(start, bytes, name).map(|()| Promised { start, bytes })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Writes what came to the beginning of the memory, at the end of the request. There must be room for it.
    ///
    /// # Safety
    /// The program must have kept its promise: the memory is writable, and nobody else touches it meanwhile.
    pub(crate) unsafe fn fill(self, came: &[u8]) {
        assert!(came.len() <= self.bytes, "{} bytes for {}", came.len(), self.bytes);
        if !came.is_empty() {
            // SAFETY: as the caller promises; there is room for it, and what came is memory of our own.
            unsafe { std::ptr::copy_nonoverlapping(came.as_ptr(), self.start.cast(), came.len()) };
        }
    }
}
