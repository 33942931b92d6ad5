//! Relays: buckets that go from each rank to the next.

use super::buffers::{list, readable, writable};
use super::{edge, edge_or, give, handle, KumikiWorld};
use crate::things::{self, Here};
use kumiki::comm::{Relay, RelayOptions};
use kumiki::{Members, Result};
use std::ffi::{c_int, c_void};

handle! {
    /// `struct kumiki_relay`.
    KumikiRelay
}

type RelayThing = Relay<'static, u8>;
const NAME: &str = "relay";

/// Makes a relay of some ranks, in this order, or of all if `members` is NULL. Collective among all ranks; NULL for those that are not in it.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `members` must be readable for `count` numbers, or NULL; `relay` must be
/// writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_relay_create(
    world: *const KumikiWorld,
    members: *const u32,
    count: usize,
    bucket_bytes: usize,
    depth: usize,
    relay: *mut *mut KumikiRelay,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(relay, "the relay", std::ptr::null_mut()) }?;
        let listed: Option<Members> = match members.is_null() {
            true => None,
            // SAFETY: as the caller promises.
            false => Some(unsafe { list(members, count, "members") }?.into()),
        };
        let make = |here: &Here<'_>| {
            let members = listed.unwrap_or_else(|| (0..here.world.ranks()).into());
            // SAFETY: what borrows the world is kept.
            let world = unsafe { here.lasting() };
            let made: Option<RelayThing> =
                world.relay_over(members, RelayOptions::new(bucket_bytes, depth))?;
            if let Some(made) = made {
                // SAFETY: it was written before.
                unsafe { relay.write(here.keep(made)) };
            }
            Ok(())
        };
        things::enter(world, make)
    })
}

fn with<R>(
    relay: *const KumikiRelay,
    work: impl FnOnce(&Here<'_>, &mut RelayThing) -> Result<R>,
) -> Result<R> {
    things::with(relay, NAME, work)
}

/// The number of this rank in the line; -1 if there is no such relay.
#[no_mangle]
pub extern "C" fn kumiki_relay_position(relay: *const KumikiRelay) -> i64 {
    edge_or(-1, || with(relay, |_, relay| Ok(relay.position().into())))
}

/// How many ranks the line has; -1 if there is no such relay.
#[no_mangle]
pub extern "C" fn kumiki_relay_ranks(relay: *const KumikiRelay) -> i64 {
    edge_or(-1, || with(relay, |_, relay| Ok(relay.ranks().into())))
}

/// Waits for the next bucket; NULL when no more come.
///
/// # Safety
/// `bucket` and `bytes` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_relay_receive(
    relay: *mut KumikiRelay,
    bucket: *mut *mut c_void,
    bytes: *mut usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(bucket, "the bucket", std::ptr::null_mut()) }?;
        // SAFETY: as the caller promises.
        unsafe { give(bytes, "the bytes", 0) }?;
        with(relay, |_, relay| {
            if let Some(came) = relay.receive()? {
                // SAFETY: both were written before.
                unsafe {
                    bucket.write(came.as_mut_ptr().cast());
                    bytes.write(came.len());
                }
            }
            Ok(())
        })
    })
}

/// Waits for as many buckets as fill this memory.
///
/// # Safety
/// `into` must be writable for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_relay_receive_into(
    relay: *mut KumikiRelay,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let into = unsafe { writable(into, bytes, "into") }?;
        with(relay, |_, relay| relay.receive_into(into))
    })
}

/// Whether receiving would not wait.
///
/// # Safety
/// `has` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_relay_has_bucket(relay: *mut KumikiRelay, has: *mut c_int) -> c_int {
    edge(|| {
        let found = with(relay, |_, relay| relay.has_bucket())?;
        // SAFETY: as the caller promises.
        unsafe { give(has, "the answer", c_int::from(found)) }
    })
}

/// Passes the bucket on that was received last, as it is now.
#[no_mangle]
pub extern "C" fn kumiki_relay_pass_on(relay: *mut KumikiRelay) -> c_int {
    edge(|| with(relay, |_, relay| relay.pass_on()))
}

/// Sends bytes to the next rank, in as many buckets as it takes.
///
/// # Safety
/// `data` must be readable for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_relay_send(
    relay: *mut KumikiRelay,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let data = unsafe { readable(data, bytes, "data") }?;
        with(relay, |_, relay| relay.send(data))
    })
}

/// Ends the relay for this rank, and frees it.
#[no_mangle]
pub extern "C" fn kumiki_relay_close(relay: *mut KumikiRelay) -> c_int {
    edge(|| things::take(relay, NAME, |_, relay: RelayThing| relay.close()))
}
