//! Init, finalize, who is who, barrier, versions and messages.

use super::{edge, edge_or, give, limit, place, KumikiWorld};
use crate::complaints;
use crate::guard::misuse;
use crate::place::Inside;
use crate::status;
use crate::worlds;
use kumiki::raw::channels;
use kumiki::{Error, Result, World};
use std::ffi::{c_char, c_int, CStr};
use std::time::Duration;

/// So long others are waited for with what channels have begun, when a world ends.
const ENDING: Duration = Duration::from_secs(30);

/// The version of the library.
#[no_mangle]
pub extern "C" fn kumiki_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// What went wrong last in this thread; good until its next failure.
#[no_mangle]
pub extern "C" fn kumiki_last_error() -> *const c_char {
    status::last()
}

/// The name of a status.
#[no_mangle]
pub extern "C" fn kumiki_status_name(code: c_int) -> *const c_char {
    status::name(code).as_ptr()
}

/// Joins the world that the environment describes; returns when all ranks have.
///
/// # Safety
/// `world` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_init(world: *mut *mut KumikiWorld) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(world, "the world", std::ptr::null_mut()) }?;
        let entered = worlds::enter(|| World::init().map(Inside::World))?;
        // SAFETY: as the caller promises.
        unsafe { give(world, "the world", entered) }
    })
}

/// What the end of all channels comes to: of those whose other end is late more is heard when all ranks have come to the end.
fn ended(channels: Result<()>) -> Result<()> {
    match channels {
        Err(Error::Timeout { .. }) => Ok(()),
        channels => channels,
    }
}

/// Completes this rank's operations, waits for all ranks, leaves the world and frees it.
///
/// # Safety
/// `world` must come from [`kumiki_init`]; it is gone afterwards, whatever the status, unless another thread was inside a call.
#[no_mangle]
pub unsafe extern "C" fn kumiki_finalize(world: *mut KumikiWorld) -> c_int {
    edge(|| {
        if world.is_null() {
            return Err(misuse("the world is NULL; a world of acp_init ends with acp_finalize"));
        }
        let ended = place(world)?.replace(|world| {
            let channels = ended(channels::end_all(&world, ENDING));
            world.finalize().and(channels).map(|()| None)
        });
        worlds::release(world);
        ended
    })
}

/// Renumbers the ranks and starts over; all ranks call it, with different numbers.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_reset(world: *mut KumikiWorld, new_rank: u32) -> c_int {
    edge(|| {
        place(world)?.replace(|world| {
            let channels = ended(channels::end_all(&world, ENDING));
            world.reset(new_rank).and_then(|world| channels.map(|()| Some(world)))
        })?;
        if world.is_null() {
            crate::acp::begin_again(Some(new_rank));
        }
        Ok(())
    })
}

/// Ends the whole job with a message, also while another thread ends the world. Returns only if there is no world.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `message` must be a text, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_abort(world: *const KumikiWorld, message: *const c_char) -> c_int {
    edge(|| {
        // SAFETY: not NULL, so it is a text.
        let text = if message.is_null() { c"" } else { unsafe { CStr::from_ptr(message) } };
        let ended = place(world)?.with_at_once(|world| world.abort(&text.to_string_lossy()));
        ended.unwrap_or_else(|| {
            // Another thread ends the world, or makes it, and may never come back: the launcher sees that this process ends.
            complaints::complain(&format!("kumiki_abort: {}", text.to_string_lossy()));
            std::process::exit(1)
        })
    })
}

/// A function that asks the world for a number.
macro_rules! question {
    ($name:ident, $ask:ident, $doc:literal) => {
        #[doc = $doc]
        /// -1 if there is no world.
        ///
        /// # Safety
        /// `world` must be a world, or NULL for that of `acp_init`.
        #[no_mangle]
        pub unsafe extern "C" fn $name(world: *const KumikiWorld) -> i64 {
            edge_or(-1, || place(world)?.with(|world| Ok(world.$ask() as i64)))
        }
    };
}

question!(kumiki_rank, rank, "This rank's number.");
question!(kumiki_ranks, ranks, "How many ranks there are.");
question!(kumiki_node, node, "The index of this rank's node.");
question!(kumiki_nodes, nodes, "How many nodes there are.");
question!(kumiki_starter_bytes, starter_bytes, "Bytes of starter memory of each rank.");

/// The node of a rank; -1 if there is none.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_node_of(world: *const KumikiWorld, rank: u32) -> i64 {
    edge_or(-1, || {
        place(world)?.with(|world| {
            let node = world.node_of(rank);
            node.map(i64::from)
                .ok_or_else(|| misuse(format!("rank {rank}: there are {} ranks", world.ranks())))
        })
    })
}

/// Waits until every rank has come here.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_sync(world: *const KumikiWorld) -> c_int {
    edge(|| place(world)?.with(|world| world.sync()))
}

/// As [`kumiki_sync`], for at most this long; the rank is still in the barrier after a time-out.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_sync_for(world: *const KumikiWorld, milliseconds: u64) -> c_int {
    edge(|| place(world)?.with(|world| world.sync_for(limit(milliseconds))))
}
