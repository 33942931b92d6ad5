//! The only system calls of the workspace, behind safe and small functions.
//!
//! What rustix has a safe function for is its call; the rest is made through libc: what changes memory behind the compiler's back or
//! waits for others to do so (rustix inlines its calls, and says of these that they leave memory alone), what takes raw
//! addresses, what rustix does not have. Nothing here knows about ranks or jobs. Each file is one family of calls; each function returns
//! [`crate::Error::System`] with the name of the call, so that a user can look it up.
#![allow(unsafe_code)]

pub mod bare;
pub mod descriptor;
pub mod file;
pub mod flow;
pub mod folder;
pub mod futex;
#[cfg(all(test, not(loom)))]
pub(crate) mod heap;
pub mod holders;
pub mod machine;
pub mod memory;
pub mod mpi;
pub mod multipath;
pub mod network;
pub mod probe;
pub mod process;
pub mod rights;
pub mod socket;
mod sum;
pub mod taken;
pub mod terminal;
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

/// Names the call of rustix in its error.
pub(crate) fn named<T>(call: &'static str, result: rustix::io::Result<T>) -> Result<T> {
    result.map_err(|errno| Error::System { call, errno: errno.raw_os_error() })
}

/// Fills a buffer with random bytes from the kernel.
pub fn random_bytes(buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += named("getrandom", rustix::rand::getrandom(&mut buffer[filled..], flags))?;
    }
    Ok(())
}

/// The soft and the hard limit of a resource; `None` is unlimited, also where a sandbox does not say. (Not by rustix, which takes it that the
/// question cannot be refused.)
fn limit_of(resource: libc::__rlimit_resource_t) -> (Option<u64>, Option<u64>) {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: it is written to a struct that outlives the call, and left as it is if that fails.
    unsafe { libc::getrlimit(resource, &mut limit) };
    let bound = |most| (most != libc::RLIM_INFINITY).then_some(most);
    (bound(limit.rlim_cur), bound(limit.rlim_max))
}
