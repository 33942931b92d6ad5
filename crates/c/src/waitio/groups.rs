//! Groups, behind handles that are small numbers and never given twice.

use super::arguments::{face, face_in_fortran, Group, GroupPlace, Number, Numbers, Out};
use super::edge_or;
use super::session::{self, Here};
use crate::api::buffers::list;
use crate::guard::misuse;
use kumiki::join::{Join, JoinGroup};
use kumiki::{Rank, Result};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What a `waitio_group_t` points to, as far as programs know.
#[repr(C)]
#[derive(Debug)]
pub struct WaitioGroup {
    _private: [u8; 0],
}

/// `waitio_filter_func_t`.
pub type WaitioFilter = unsafe extern "C" fn(pbid: c_int, rank: c_int) -> c_int;
/// The same as a function of Fortran.
pub type WaitioFortranFilter = unsafe extern "C" fn(pbid: *const c_int, rank: *const c_int) -> c_int;

/// What a handle stands for; requests of collectives have it, too.
pub(super) type Shared = Arc<JoinGroup<'static>>;

/// The groups, by their handles, which begin at 1; None where one was freed.
static TABLE: RwLock<Vec<Option<Shared>>> = RwLock::new(Vec::new());

/// Groups by their ids and members: one that is made again is the same, so that its members agree on what they have for their collectives, however often each
/// has made it.
static KNOWN: Mutex<Vec<Shared>> = Mutex::new(Vec::new());

/// Keeps a group for the program: its handle.
fn keep(group: JoinGroup<'static>) -> Result<usize> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if table.len() >= c_int::MAX as usize {
        return Err(misuse("there are no more numbers for groups"));
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let group = match known.iter().find(|known| known.is_same(&group)) {
        Some(known) => known.clone(),
        None => {
            let group = Arc::new(group);
            known.push(group.clone());
            group
        }
    };
    table.push(Some(group));
    Ok(table.len())
}

/// All groups are gone; their handles are not given again.
pub(super) fn end_all() {
    let ended: Vec<Option<Shared>> =
        TABLE.write().unwrap_or_else(PoisonError::into_inner).iter_mut().map(Option::take).collect();
    drop(ended);
    drop(std::mem::take(&mut *KNOWN.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// Carries on with collectives of all groups that were started. Whether some are under way. (For whoever is in the join.)
pub(super) fn look_after_all() -> bool {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // Each has its turn, whatever the others say.
    known.iter().filter(|group| group.look_after()).count() > 0
}

fn gone(handle: usize) -> kumiki::Error {
    match handle {
        0 => misuse("the group is NULL"),
        _ => misuse(format!("there is no group {handle:#x}: it was freed, or was never made")),
    }
}

/// Does something with a group.
pub(super) fn with<R>(group: Group, work: impl FnOnce(&Here<'_>, &Shared) -> Result<R>) -> Result<R> {
    session::with(|here| {
        let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
        let found = group.0.checked_sub(1).and_then(|at| table.get(at).cloned()).flatten();
        drop(table);
        work(here, &found.ok_or_else(|| gone(group.0))?)
    })
}

/// Makes a group of members, which `pick` gives for each block and its processes, in the order that the program wants.
///
/// # Safety
/// `order` must be readable for a number for each block, or NULL: then blocks come in their own order.
unsafe fn make(
    gid: c_int,
    order: *const c_int,
    pick: impl Fn(u32, u32) -> Result<Vec<u32>>,
) -> Result<usize> {
    session::with(|here| {
        let blocks = here.join.blocks();
        let order = match order.is_null() {
            true => &[][..],
            // SAFETY: as the caller promises.
            false => unsafe { list(order, blocks.len(), "order") }?,
        };
        let mut turns: Vec<usize> = (0..blocks.len()).collect();
        turns.sort_by_key(|&block| order.get(block));
        let mut members: Vec<Rank> = Vec::new();
        for block in turns {
            let picked = pick(block as u32, blocks[block])?;
            members.extend(picked.into_iter().filter_map(|rank| here.join.world_rank(block as u32, rank)));
        }
        // SAFETY: what borrows the join is kept.
        keep(unsafe { here.lasting() }.group(gid, members)?)
    })
}

/// A list of ranks of a block, which a negative number ends; where it goes on behind that.
///
/// # Safety
/// `ranks` must be a list that is ended so, or longer than the block.
unsafe fn listed(ranks: *const c_int, block: u32, count: u32) -> Result<(Vec<u32>, *const c_int)> {
    let (mut found, mut at): (Vec<u32>, _) = (Vec::new(), ranks);
    let mut seen = vec![false; count as usize];
    loop {
        // SAFETY: as the caller promises.
        let rank = unsafe { at.read_unaligned() };
        at = at.wrapping_add(1);
        let Ok(rank) = u32::try_from(rank) else { break };
        if rank >= count {
            return Err(misuse(format!(
                "ranks: there is no rank {rank} in block {block}, which has {count} processes"
            )));
        }
        if std::mem::replace(&mut seen[rank as usize], true) {
            return Err(misuse(format!(
                "ranks: rank {rank} of block {block} comes twice, or a negative number should end the list"
            )));
        }
        found.push(rank);
    }
    found.sort_unstable();
    Ok((found, at))
}

/// Makes a group of those processes that functions take, one function for each block. NULL on failure.
///
/// # Safety
/// `func` and `order` must be readable for each block, or NULL; the functions must return.
#[no_mangle]
pub unsafe extern "C" fn waitio_create_group(
    gid: c_int,
    func: *const Option<WaitioFilter>,
    order: *const c_int,
) -> *mut WaitioGroup {
    let made = edge_or("waitio_create_group", 0, || {
        let blocks = session::with(|here| Ok(here.join.blocks().len()))?;
        // SAFETY: as the caller promises.
        let filters = unsafe { list(func, blocks, "func") }?;
        let pick = |block: u32, count: u32| {
            let Some(filter) = filters[block as usize] else { return Ok(Vec::new()) };
            // SAFETY: a function of the program, which takes two numbers and returns.
            let takes = |rank: &u32| unsafe { filter(block as c_int, *rank as c_int) } != 0;
            Ok((0..count).filter(takes).collect())
        };
        // SAFETY: as the caller promises.
        unsafe { make(gid, order, pick) }
    });
    made as *mut WaitioGroup
}

/// Makes a group of processes by their ranks, a list for each block. NULL on failure.
///
/// # Safety
/// `ranks` and `order` must be readable for each block, or NULL; a negative number must end each list.
#[no_mangle]
pub unsafe extern "C" fn waitio_create_group_wranks(
    gid: c_int,
    ranks: *const *const c_int,
    order: *const c_int,
) -> *mut WaitioGroup {
    let made = edge_or("waitio_create_group_wranks", 0, || {
        let blocks = session::with(|here| Ok(here.join.blocks().len()))?;
        // SAFETY: as the caller promises.
        let lists = unsafe { list(ranks, blocks, "ranks") }?;
        let pick = |block: u32, count: u32| match lists[block as usize] {
            none if none.is_null() => Ok(Vec::new()),
            // SAFETY: as the caller promises.
            ranks => unsafe { listed(ranks, block, count) }.map(|(ranks, _)| ranks),
        };
        // SAFETY: as the caller promises.
        unsafe { make(gid, order, pick) }
    });
    made as *mut WaitioGroup
}

/// For Fortran: what [`waitio_create_group`] does, with one function for all blocks.
unsafe fn create_group_in_fortran(
    gid: Number,
    take: Filter,
    order: Numbers,
    group: GroupPlace,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { group.give(0) }?;
    let take = take.0.ok_or_else(|| misuse("the function is NULL"))?;
    let pick = |block: u32, count: u32| {
        // SAFETY: a function of the program, which takes two numbers and returns.
        let takes = |rank: &u32| unsafe { take(&(block as c_int), &(*rank as c_int)) } != 0;
        Ok((0..count).filter(takes).collect())
    };
    // SAFETY: as the caller promises.
    unsafe { group.give(make(gid.0, order.0, pick)?) }
}

/// For Fortran: what [`waitio_create_group_wranks`] does, with all lists one behind the other.
unsafe fn create_group_wranks_in_fortran(
    gid: Number,
    ranks: Numbers,
    order: Numbers,
    group: GroupPlace,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { group.give(0) }?;
    if ranks.0.is_null() {
        return Err(misuse("the ranks are NULL"));
    }
    let mut at = ranks.0;
    let lists: Vec<Vec<u32>> = session::with(|here| {
        let read = |(block, count): (usize, &u32)| {
            // SAFETY: as the caller promises.
            let (found, next) = unsafe { listed(at, block as u32, *count) }?;
            at = next;
            Ok(found)
        };
        here.join.blocks().iter().enumerate().map(read).collect()
    })?;
    // SAFETY: as the caller promises.
    unsafe { group.give(make(gid.0, order.0, |block, _| Ok(lists[block as usize].clone()))?) }
}

/// A function of Fortran that is passed to another.
pub struct Filter(Option<WaitioFortranFilter>);

impl super::arguments::Argument for Filter {
    type C = Option<WaitioFortranFilter>;
    type Fortran = Option<WaitioFortranFilter>;

    fn of_c(given: Self::C) -> Self {
        Filter(given)
    }

    unsafe fn of_fortran(given: Self::Fortran) -> Result<Self> {
        Ok(Filter(given))
    }
}

face_in_fortran! {
    /// Makes a group of those processes that a function takes.
    waitio_create_group, waitio_create_group_ waitio_create_group_f_ =
        create_group_in_fortran(gid: Number, take: Filter, order: Numbers, group: GroupPlace);
    /// Makes a group of processes by their ranks: lists one behind the other, each ended by a negative number.
    waitio_create_group_wranks, waitio_create_group_wranks_ waitio_create_group_wranks_f_ =
        create_group_wranks_in_fortran(gid: Number, ranks: Numbers, order: Numbers, group: GroupPlace);
}

/// Makes a group that the library knows, after joining if that has not been tried.
unsafe fn create_known(
    comm: GroupPlace,
    known: impl FnOnce(&'static Join) -> Result<JoinGroup<'static>>,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { comm.give(0) }?;
    session::join_by_itself()?;
    // SAFETY: what borrows the join is kept.
    let handle = session::with(|here| keep(known(unsafe { here.lasting() })?))?;
    // SAFETY: as the caller promises.
    unsafe { comm.give(handle) }
}

unsafe fn create_universe(comm: GroupPlace) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { create_known(comm, Join::universe) }
}

unsafe fn create_universe_pbhead(comm: GroupPlace) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { create_known(comm, Join::heads) }
}

unsafe fn create_pbgroup(comm: GroupPlace, pbid: Number) -> Result<()> {
    let block = u32::try_from(pbid.0).map_err(|_| misuse(format!("pbid: there is no block {}", pbid.0)));
    // SAFETY: as the caller promises.
    unsafe { create_known(comm, |join| join.of_block(block?)) }
}

unsafe fn free_group(group: GroupPlace) -> Result<()> {
    // SAFETY: as the caller promises.
    let handle = unsafe { group.get() }?;
    session::with(|_| {
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        let slot = handle.0.checked_sub(1).and_then(|at| table.get_mut(at));
        let freed = slot.and_then(Option::take).ok_or_else(|| gone(handle.0))?;
        drop(table);
        // One that has had collectives the others may still use: it is there until this process leaves.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.has_met() || !Arc::ptr_eq(known, &freed) || Arc::strong_count(known) > 2);
        drop(known);
        drop(freed);
        Ok(())
    })?;
    // SAFETY: as the caller promises.
    unsafe { group.give(0) }
}

unsafe fn group_rank(group: Group, rank: Out) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { rank.give("the rank", -1) }?;
    let me = with(group, |_, group| Ok(group.rank().map_or(-1, |rank| rank as c_int)))?;
    // SAFETY: as the caller promises.
    unsafe { rank.give("the rank", me) }
}

unsafe fn group_size(group: Group, size: Out) -> Result<()> {
    let members = with(group, |_, group| Ok(group.size() as c_int))?;
    // SAFETY: as the caller promises.
    unsafe { size.give("the size", members) }
}

face! {
    /// The group of all processes of all blocks. Joins, unless that has been tried.
    waitio_create_universe | WAITIO_Create_universe, waitio_create_universe_ waitio_create_universe_f_ =
        create_universe(comm: GroupPlace);
    /// The group of the first process of each block. Joins, unless that has been tried.
    waitio_create_universe_pbhead | WAITIO_Create_universe_pbhead,
        waitio_create_universe_pbhead_ waitio_create_universe_pbhead_f_ =
        create_universe_pbhead(comm: GroupPlace);
    /// The group of the processes of one block. Joins, unless that has been tried.
    waitio_create_pbgroup | WAITIO_Create_pbgroup, waitio_create_pbgroup_ waitio_create_pbgroup_f_ =
        create_pbgroup(comm: GroupPlace, pbid: Number);
    /// Gives a group back.
    waitio_free_group, waitio_free_group_ waitio_free_group_f_ = free_group(group: GroupPlace);
    /// Gives a group back.
    waitio_mpi_comm_free | WAITIO_MPI_Comm_free, waitio_mpi_comm_free_ waitio_mpi_comm_free_f_ =
        free_group(comm: GroupPlace);
    /// The number of this process in a group; -1 if it is no member.
    waitio_group_rank, waitio_group_rank_ waitio_group_rank_f_ = group_rank(group: Group, rank: Out);
    /// The number of this process in a group; -1 if it is no member.
    waitio_mpi_comm_rank | WAITIO_MPI_Comm_rank, waitio_mpi_comm_rank_ waitio_mpi_comm_rank_f_ =
        group_rank(comm: Group, rank: Out);
    /// How many members a group has.
    waitio_group_size, waitio_group_size_ waitio_group_size_f_ = group_size(group: Group, size: Out);
    /// How many members a group has.
    waitio_mpi_comm_size | WAITIO_MPI_Comm_size, waitio_mpi_comm_size_ waitio_mpi_comm_size_f_ =
        group_size(comm: Group, size: Out);
}

/// Takes everybody. Programs may have their own: it goes before that of a dynamic library, and in the archive the installer makes this one weak.
#[no_mangle]
pub extern "C" fn truef(_pbid: c_int, _rank: c_int) -> c_int {
    1
}

/// The same for Fortran.
#[no_mangle]
pub extern "C" fn truef_(_pbid: *const c_int, _rank: *const c_int) -> c_int {
    1
}
