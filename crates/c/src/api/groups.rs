//! Groups: ranks that do things together.

use super::buffers::list;
use super::{edge, edge_or, give, handle, KumikiWorld};
use crate::guard::misuse;
use crate::things::{self, Here};
use kumiki::comm::{Algorithm, Group, GroupOptions};
use kumiki::join::JoinGroup;
use kumiki::Result;
use std::ffi::{c_char, c_int, CStr};
use std::sync::Arc;

handle! {
    /// `struct kumiki_group`.
    KumikiGroup
}

/// What a handle stands for. Grids and requests that were made of it have it, too.
#[allow(clippy::large_enum_variant)] // Each is by itself behind its handle.
pub(super) enum GroupThing {
    /// A group of a world.
    Own(Group<'static>),
    /// A group of joined programs, whose members have met.
    Joined(JoinGroup<'static>),
}

impl std::ops::Deref for GroupThing {
    type Target = Group<'static>;

    fn deref(&self) -> &Group<'static> {
        match self {
            GroupThing::Own(group) => group,
            GroupThing::Joined(group) => match group.collectives() {
                Ok(group) => group,
                Err(error) => unreachable!("its members have met: {error}"),
            },
        }
    }
}

impl GroupThing {
    fn free(self) -> Result<()> {
        match self {
            GroupThing::Own(group) => group.free(),
            GroupThing::Joined(group) => group.free(),
        }
    }
}

const NAME: &str = "group";

/// `kumiki_group_options`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KumikiGroupOptions {
    /// The most memory that each member gives; 0 if nothing is said.
    pub block_bytes: usize,
    /// Whether no algorithm is tried.
    pub fixed: c_int,
}

/// Does something with a group.
pub(super) fn with<R>(
    group: *const KumikiGroup,
    work: impl FnOnce(&Here<'_>, &Arc<GroupThing>) -> Result<R>,
) -> Result<R> {
    things::share(group, NAME, work)
}

/// Refuses a root that is none, before anybody is met.
pub(super) fn check_root(group: &GroupThing, root: u32) -> Result<()> {
    match root < group.ranks() {
        true => Ok(()),
        false => Err(misuse(format!("root: {root} of a group of {} members", group.ranks()))),
    }
}

/// Makes the place of a group NULL, before anything is made.
///
/// # Safety
/// `to` must be writable, or NULL.
pub(super) unsafe fn prepare(to: *mut *mut KumikiGroup) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { give(to, "the group", std::ptr::null_mut()) }
}

/// Keeps a group for the program.
///
/// # Safety
/// `to` must be writable.
pub(super) unsafe fn keep(here: &Here<'_>, to: *mut *mut KumikiGroup, group: GroupThing) {
    // SAFETY: as the caller promises.
    unsafe { to.write(here.keep(Arc::new(group))) };
}

/// Makes a group of all ranks. Collective.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `options` must be readable, or NULL; `group` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_create(
    world: *const KumikiWorld,
    options: *const KumikiGroupOptions,
    group: *mut *mut KumikiGroup,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(group) }?;
        let mut wanted = GroupOptions::default();
        // SAFETY: as the caller promises.
        if let Some(options) = unsafe { options.as_ref() } {
            if options.block_bytes > 0 {
                wanted = wanted.block_bytes(options.block_bytes);
            }
            if options.fixed != 0 {
                wanted = wanted.fixed();
            }
        }
        let make = |here: &Here<'_>| {
            // SAFETY: what borrows the world is kept.
            let made = unsafe { here.lasting() }.group_with(wanted)?;
            // SAFETY: it was written before.
            unsafe { keep(here, group, GroupThing::Own(made)) };
            Ok(())
        };
        things::enter(world, make)
    })
}

/// Parts a group by colours: NULL for whoever has a negative one.
fn split(
    here: &Here<'_>,
    group: &GroupThing,
    part: *mut *mut KumikiGroup,
    colour: Option<u32>,
    key: i64,
) -> Result<()> {
    if let Some(made) = group.split(colour, key)? {
        // SAFETY: whoever calls has written there.
        unsafe { keep(here, part, GroupThing::Own(made)) };
    }
    Ok(())
}

/// Parts the members into groups by colour, in the order of their keys. Collective.
///
/// # Safety
/// `part` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_split(
    group: *const KumikiGroup,
    colour: i64,
    key: i64,
    part: *mut *mut KumikiGroup,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(part) }?;
        let colour = match colour {
            ..0 => None,
            _ => Some(
                u32::try_from(colour).map_err(|_| misuse(format!("colour: {colour} is above 2^32 - 1")))?,
            ),
        };
        with(group, |here, group| split(here, group, part, colour, key))
    })
}

/// Makes a group of some members, in this order. Collective among all members of the first one.
///
/// # Safety
/// `members` must be readable for `count` numbers; `part` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_subset(
    group: *const KumikiGroup,
    members: *const u32,
    count: usize,
    part: *mut *mut KumikiGroup,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(part) }?;
        // SAFETY: as the caller promises.
        let members = unsafe { list(members, count, "members") }?;
        with(group, |here, group| {
            let mut sorted = members.to_vec();
            sorted.sort_unstable();
            let is_twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
            if is_twice || sorted.last().is_none_or(|last| *last >= group.ranks()) {
                let ranks = group.ranks();
                return Err(misuse(format!("members: {members:?} are not different members of {ranks}")));
            }
            let place = members.iter().position(|member| *member == group.rank());
            split(here, group, part, place.map(|_| 0), place.unwrap_or(0) as i64)
        })
    })
}

/// A question that a group answers with a number.
macro_rules! question {
    ($name:ident, $ask:ident, $doc:literal) => {
        #[doc = $doc]
        /// -1 if there is no such group.
        #[no_mangle]
        pub extern "C" fn $name(group: *const KumikiGroup) -> i64 {
            edge_or(-1, || with(group, |_, group| Ok(group.$ask() as i64)))
        }
    };
}

question!(kumiki_group_rank, rank, "This rank's number in a group.");
question!(kumiki_group_ranks, ranks, "How many members a group has.");
question!(kumiki_group_block_bytes, block_bytes, "Bytes of this rank's block in the arena.");

/// The number in the world of a member; -1 if there is none.
#[no_mangle]
pub extern "C" fn kumiki_group_world_rank(group: *const KumikiGroup, member: u32) -> i64 {
    edge_or(-1, || {
        with(group, |_, group| {
            let none = || misuse(format!("member: {member} of a group of {}", group.ranks()));
            group.world_rank(member).map(i64::from).ok_or_else(none)
        })
    })
}

/// Lets later calls use an algorithm, by its name, where it will do; NULL lets them choose.
///
/// # Safety
/// `algorithm` must be a text, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_force(group: *const KumikiGroup, algorithm: *const c_char) -> c_int {
    edge(|| {
        let forced = match algorithm.is_null() {
            true => None,
            false => {
                // SAFETY: not NULL, so it is a text.
                let name = unsafe { CStr::from_ptr(algorithm) }.to_string_lossy();
                let known = Algorithm::ALL.into_iter().find(|known| known.name() == name);
                Some(known.ok_or_else(|| misuse(format!("algorithm: there is no {name:?}")))?)
            }
        };
        with(group, |_, group| {
            group.force(forced);
            Ok(())
        })
    })
}

/// What was decided so far, as text.
///
/// # Safety
/// `text` must be writable for `room` bytes; `bytes` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_group_decisions(
    group: *const KumikiGroup,
    text: *mut c_char,
    room: usize,
    bytes: *mut usize,
) -> c_int {
    edge(|| {
        let decisions = with(group, |_, group| Ok(group.decisions_as_text()))?;
        // SAFETY: as the caller promises.
        unsafe { give(bytes, "the bytes", decisions.len() + 1) }?;
        // SAFETY: as the caller promises.
        let text = unsafe { super::buffers::writable(text.cast(), room, "text") }?;
        let length = decisions.len().min(room.saturating_sub(1));
        if room > 0 {
            text[..length].copy_from_slice(&decisions.as_bytes()[..length]);
            text[length] = 0;
        }
        Ok(())
    })
}

/// Waits until all members have come here, and gives the group back. Collective.
#[no_mangle]
pub extern "C" fn kumiki_group_free(group: *mut KumikiGroup) -> c_int {
    edge(|| things::take_shared(group, NAME, |_, group: GroupThing| group.free()))
}
