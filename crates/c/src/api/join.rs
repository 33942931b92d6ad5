//! Programs that join: separate ones, each under its own launcher, which become one world.
//!
//! Their messages, groups, collectives and requests are those of every world.

use super::buffers::{list, readable};
use super::groups::{self, GroupThing, KumikiGroup};
use super::{edge, edge_or, give, limit, place, KumikiWorld};
use crate::guard::misuse;
use crate::place::Inside;
use crate::things::{self, Here};
use crate::worlds;
use kumiki::join::{Join, JoinOptions};
use kumiki::raw::channels;
use kumiki::Result;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::time::Duration;

/// So long others are waited for with what channels have begun, when a process leaves.
const ENDING: Duration = Duration::from_secs(30);

/// `kumiki_join_options`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KumikiJoinOptions {
    /// The number of this program's block, or -1.
    pub block: i64,
    /// How many blocks there are.
    pub blocks: i64,
    /// The rank of this process in its block, or -1.
    pub rank: i64,
    /// How many processes the block has.
    pub ranks: i64,
    /// Where rank 0 of block 0 listens, or NULL.
    pub host: *const c_char,
    /// At which port.
    pub port: u16,
    /// `host:port` of a relay, or NULL.
    pub relay: *const c_char,
    /// What all blocks know, or NULL.
    pub secret: *const c_void,
    /// Its bytes.
    pub secret_bytes: usize,
    /// How long to wait for the others; 0 is as long as is usual.
    pub milliseconds: u64,
}

/// The options that hold if nothing is said: the environment says it.
///
/// # Safety
/// `options` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_join_default_options(options: *mut KumikiJoinOptions) -> c_int {
    edge(|| {
        let (host, relay, secret) = (std::ptr::null(), std::ptr::null(), std::ptr::null());
        let (block, blocks, rank, ranks) = (-1, -1, -1, -1);
        let default = KumikiJoinOptions {
            block,
            blocks,
            rank,
            ranks,
            host,
            port: 0,
            relay,
            secret,
            secret_bytes: 0,
            milliseconds: 0,
        };
        // SAFETY: as the caller promises.
        unsafe { give(options, "the options", default) }
    })
}

/// A number of some; `None` if the first is negative.
fn place_among(at: i64, of: i64, name: &str) -> Result<Option<(u32, u32)>> {
    if at < 0 {
        return Ok(None);
    }
    let both = (u32::try_from(at).ok()).zip(u32::try_from(of).ok()).filter(|(at, of)| at < of);
    both.map(Some).ok_or_else(|| misuse(format!("{name}: {at} of {of} cannot be: from 0 to one less")))
}

/// A text; `None` if it is NULL.
///
/// # Safety
/// `text` must be a text while the result is used, or NULL.
unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, so it is a text.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map(Some).map_err(|_| misuse(format!("{name}: it is no text in UTF-8")))
}

/// What the program wants.
///
/// # Safety
/// As [`kumiki_join_init`].
unsafe fn wanted(options: *const KumikiJoinOptions) -> Result<JoinOptions> {
    let mut wanted = Join::options();
    // SAFETY: as the caller promises.
    let Some(options) = (unsafe { options.as_ref() }) else { return Ok(wanted) };
    if let Some((block, blocks)) = place_among(options.block, options.blocks, "block")? {
        wanted = wanted.block(block, blocks);
    }
    if let Some((rank, ranks)) = place_among(options.rank, options.ranks, "rank")? {
        wanted = wanted.rank(rank, ranks);
    }
    // SAFETY: as the caller promises.
    match (unsafe { text(options.host, "host") }?, options.port) {
        (None, 0) => {}
        (Some(host), port) if port != 0 => wanted = wanted.master(host, port),
        (None, port) => return Err(misuse(format!("port: {port} without a host; both are said, or none"))),
        (Some(_), _) => return Err(misuse("port: 0 of a host; both are said, or none")),
    }
    // SAFETY: as the caller promises.
    if let Some(relay) = unsafe { text(options.relay, "relay") }? {
        wanted = wanted.relay(relay);
    }
    if !options.secret.is_null() {
        // SAFETY: as the caller promises.
        wanted = wanted.secret(unsafe { readable(options.secret, options.secret_bytes, "secret") }?);
    }
    Ok(match options.milliseconds {
        0 => wanted,
        milliseconds => wanted.timeout(limit(milliseconds)),
    })
}

/// Joins; returns when every process of every block has come.
///
/// # Safety
/// `options` must be readable, or NULL: its host and its relay texts, and its secret readable, or these are NULL. `world` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_join_init(
    options: *const KumikiJoinOptions,
    world: *mut *mut KumikiWorld,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(world, "the world", std::ptr::null_mut()) }?;
        // SAFETY: as the caller promises.
        let wanted = unsafe { wanted(options) }?;
        let joined = worlds::enter(|| wanted.init().map(Inside::Join))?;
        // SAFETY: as the caller promises.
        unsafe { give(world, "the world", joined) }
    })
}

/// Sees to it that what was sent arrives, leaves, and frees the world. The others go on.
///
/// # Safety
/// `world` must come from [`kumiki_join_init`]; it is gone afterwards, whatever the status, unless another thread was inside a call.
#[no_mangle]
pub unsafe extern "C" fn kumiki_join_leave(world: *mut KumikiWorld) -> c_int {
    edge(|| {
        if world.is_null() {
            return Err(misuse("the world is NULL"));
        }
        let left = place(world)?.leave(|join| {
            let channels = channels::end_all(join.world(), ENDING);
            join.leave().and(channels)
        });
        worlds::release(world);
        left
    })
}

/// Asks the joined programs for a number.
fn ask(world: *const KumikiWorld, question: impl FnOnce(&Join) -> Result<i64>) -> Result<i64> {
    things::enter(world, |here| question(here.joined()?))
}

/// How many blocks there are.
///
/// # Safety
/// `world` must be a world.
#[no_mangle]
pub unsafe extern "C" fn kumiki_join_blocks(world: *const KumikiWorld) -> i64 {
    edge_or(-1, || ask(world, |join| Ok(join.blocks().len() as i64)))
}

/// The number of this process's block.
///
/// # Safety
/// `world` must be a world.
#[no_mangle]
pub unsafe extern "C" fn kumiki_join_block(world: *const KumikiWorld) -> i64 {
    edge_or(-1, || ask(world, |join| Ok(i64::from(join.block()))))
}

/// The rank of this process in its block.
///
/// # Safety
/// `world` must be a world.
#[no_mangle]
pub unsafe extern "C" fn kumiki_join_rank(world: *const KumikiWorld) -> i64 {
    edge_or(-1, || ask(world, |join| Ok(i64::from(join.rank()))))
}

/// How many processes a block has; -1 if there is no such block.
///
/// # Safety
/// `world` must be a world.
#[no_mangle]
pub unsafe extern "C" fn kumiki_join_ranks(world: *const KumikiWorld, block: u32) -> i64 {
    let of = |join: &Join| {
        let ranks = join.blocks().get(block as usize).copied().map(i64::from);
        ranks.ok_or_else(|| misuse(format!("block: {block} of {}", join.blocks().len())))
    };
    edge_or(-1, || ask(world, of))
}

/// The number in the world of a process; -1 if there is none.
///
/// # Safety
/// `world` must be a world.
#[no_mangle]
pub unsafe extern "C" fn kumiki_join_world_rank(world: *const KumikiWorld, block: u32, rank: u32) -> i64 {
    let of = |join: &Join| {
        let none = || misuse(format!("there is no rank {rank} of block {block}"));
        join.world_rank(block, rank).map(i64::from).ok_or_else(none)
    };
    edge_or(-1, || ask(world, of))
}

/// The block of a rank of the world, and its rank there.
///
/// # Safety
/// `world` must be a world; `block` and `rank` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_join_place_of(
    world: *const KumikiWorld,
    world_rank: u32,
    block: *mut u32,
    rank: *mut u32,
) -> c_int {
    edge(|| {
        let of = |here: &Here<'_>| {
            let none = || misuse(format!("rank {world_rank}: there are {} ranks", here.world.ranks()));
            here.joined()?.place_of(world_rank).ok_or_else(none)
        };
        let place = things::enter(world, of)?;
        // SAFETY: as the caller promises.
        unsafe { give(block, "the block", place.0) }?;
        // SAFETY: as the caller promises.
        unsafe { give(rank, "the rank", place.1) }
    })
}

/// Makes a group of some processes of any blocks, by their ranks in the world. Collective among these; NULL for whoever is none of them.
///
/// # Safety
/// `world` must be a world; `members` must be readable for `count` numbers; `group` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_join_group(
    world: *const KumikiWorld,
    id: i32,
    members: *const u32,
    count: usize,
    group: *mut *mut KumikiGroup,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { groups::prepare(group) }?;
        // SAFETY: as the caller promises.
        let members = unsafe { list(members, count, "members") }?.to_vec();
        let make = |here: &Here<'_>| {
            // SAFETY: what borrows it is kept, or dropped here.
            let made = unsafe { here.lasting_join() }?.group(id, members)?;
            if made.rank().is_some() {
                made.collectives()?;
                // SAFETY: it was written before.
                unsafe { groups::keep(here, group, GroupThing::Joined(made)) };
            }
            Ok(())
        };
        things::enter(world, make)
    })
}
