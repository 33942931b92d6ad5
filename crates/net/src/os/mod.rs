//! The only system calls of the workspace, behind safe and small functions.
//!
//! Nothing here knows about ranks or jobs. Each file is one family of calls; each function returns
//! [`crate::Error::System`] with the name of the call, so that a user can look it up.
#![allow(unsafe_code)]

pub mod bare;
pub mod descriptor;
pub mod file;
pub mod futex;
#[cfg(all(test, not(loom)))]
pub(crate) mod heap;
pub mod machine;
pub mod memory;
pub mod network;
pub mod probe;
pub mod process;
pub mod rights;
pub mod socket;
mod sum;
pub mod time;

use crate::{Error, Result};

/// Turns the return value of a C call into a result.
pub(crate) fn check(call: &'static str, value: i64) -> Result<i64> {
    if value < 0 {
        Err(Error::last_os(call))
    } else {
        Ok(value)
    }
}

/// Fills a buffer with random bytes from the kernel.
pub fn random_bytes(buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: the pointer and length describe `rest`, which lives across the call.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        filled += check("getrandom", got as i64)? as usize;
    }
    Ok(())
}
