//! Workspaces: one block laid over all ranks in chunks.

use super::{edge, WORLD};
use crate::guard::misuse;
use kumiki::data::{Chunks, RawWorkspace, Workspace};
use kumiki::raw;
use kumiki::{GlobalAddress, Result};
use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `acp_wsditem`.
#[repr(C)]
#[derive(Debug)]
pub struct Item {
    /// Bytes of the whole.
    pub size_ws: usize,
    /// Bytes of each chunk but the last.
    pub size_default: usize,
    /// Bytes of the last chunk.
    pub size_remainder: usize,
    /// How many chunks there are.
    pub ngas: usize,
    /// The address of this rank's chunks, once more.
    pub key_data: u64,
    /// The address of this rank's chunks; 0 if it has none.
    pub ga_data: u64,
    /// The addresses of the chunks, once more.
    pub keys: *mut u64,
    /// The address of each chunk.
    pub gas: *mut u64,
    /// The rank of each chunk.
    pub procs: *mut c_int,
    /// The length of each chunk.
    pub sizes: *mut c_int,
    /// This rank's chunks; NULL if it has none.
    pub data: *mut c_void,
}

/// What an `acp_wsd_t` points to: the struct that programs see, and behind it what it points to.
#[repr(C)]
struct Space {
    item: Item,
    raw: RawWorkspace,
    keys: Vec<u64>,
    gas: Vec<u64>,
    procs: Vec<c_int>,
    sizes: Vec<c_int>,
}

/// Chunks of a workspace at most: every process has a list of them for the program.
const MOST_CHUNKS: usize = 1 << 22;

/// `ACP_WSD_NULL`.
const NULL: *mut Item = usize::MAX as *mut Item;

/// The workspaces that programs have, by their addresses. Those of a world that has ended are not among them: what they know
/// of global memory holds no more.
static LIVE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// What `acp_setparams_ws` said last: the first rank, and the length of a chunk.
static PARAMETERS: Mutex<Option<(u32, usize)>> = Mutex::new(None);

/// The length of a chunk as the struct has it.
fn length(bytes: usize) -> Result<c_int> {
    c_int::try_from(bytes)
        .map_err(|_| misuse(format!("a chunk of {bytes} bytes is too long for acp_wsditem")))
}

impl Space {
    fn new(workspace: Workspace<'_>, own: Option<*mut u8>, me: u32) -> Result<Box<Space>> {
        let chunks: Vec<_> = workspace.chunks().collect();
        let gas: Vec<u64> = chunks.iter().map(|chunk| chunk.address.bits()).collect();
        let first = chunks.iter().find(|chunk| chunk.rank == me).map_or(0, |chunk| chunk.address.bits());
        let sizes: Result<Vec<c_int>> = chunks.iter().map(|chunk| length(chunk.bytes)).collect();
        let mut space = Box::new(Space {
            item: Item {
                size_ws: workspace.len(),
                size_default: workspace.chunk_bytes(),
                size_remainder: chunks.last().map_or(0, |chunk| chunk.bytes),
                ngas: chunks.len(),
                key_data: first,
                ga_data: first,
                keys: std::ptr::null_mut(),
                gas: std::ptr::null_mut(),
                procs: std::ptr::null_mut(),
                sizes: std::ptr::null_mut(),
                data: own.map_or(std::ptr::null_mut(), <*mut u8>::cast),
            },
            keys: gas.clone(),
            procs: chunks.iter().map(|chunk| chunk.rank as c_int).collect(),
            sizes: sizes?,
            gas,
            raw: workspace.into_raw(),
        });
        space.item.keys = space.keys.as_mut_ptr();
        space.item.gas = space.gas.as_mut_ptr();
        space.item.procs = space.procs.as_mut_ptr();
        space.item.sizes = space.sizes.as_mut_ptr();
        Ok(space)
    }
}

fn live() -> MutexGuard<'static, BTreeSet<usize>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees what is left of all workspaces: the world has ended, and their memory with it.
pub(super) fn forget_all() {
    for space in std::mem::take(&mut *live()) {
        // SAFETY: it came from `Box::into_raw`, and nobody finds it any more.
        drop(unsafe { Box::from_raw(space as *mut Space) });
    }
}

fn no_such_workspace() -> kumiki::Error {
    misuse("there is no such workspace: it has been destroyed, or acp_create_ws never gave it")
}

/// The workspace that a program names.
fn raw_of(space: *const Item) -> Result<RawWorkspace> {
    let live = live();
    if !live.contains(&(space as usize)) {
        return Err(no_such_workspace());
    }
    // SAFETY: `acp_create_ws` made it, with the struct that programs see as its first field; nobody destroys it while we
    // hold the lock.
    Ok(unsafe { &*space.cast::<Space>() }.raw.clone())
}

/// Makes a workspace; all ranks do it together.
#[no_mangle]
pub extern "C" fn acp_create_ws(size: usize) -> *mut Item {
    edge("acp_create_ws", NULL, || {
        let parameters = *PARAMETERS.lock().unwrap_or_else(PoisonError::into_inner);
        WORLD.with(|world| {
            let workspace = match parameters {
                Some((start, chunk)) => {
                    length(chunk.min(size))?;
                    let chunks = size.div_ceil(chunk);
                    if chunks > MOST_CHUNKS {
                        return Err(misuse(format!(
                            "{chunks} chunks are more than the {MOST_CHUNKS} of a workspace"
                        )));
                    }
                    Workspace::shared_with(world, size, Chunks::of(chunk).from_rank(start % world.ranks()))?
                }
                None => {
                    length(size.div_ceil(world.ranks() as usize))?;
                    Workspace::shared(world, size)?
                }
            };
            let mine = workspace.chunks().find(|chunk| chunk.rank == world.rank());
            let own = mine.and_then(|chunk| raw::memory(world).local_pointer(chunk.address));
            let space = Box::into_raw(Space::new(workspace, own, world.rank())?);
            live().insert(space as usize);
            Ok(space.cast())
        })
    })
}

/// Says how later workspaces are laid out: the first rank, and the length of a chunk.
#[no_mangle]
pub extern "C" fn acp_setparams_ws(proc_start: usize, size_default: usize) -> c_int {
    edge("acp_setparams_ws", -1, || {
        let start = u32::try_from(proc_start).map_err(|_| misuse(format!("rank {proc_start} cannot be")))?;
        if size_default == 0 {
            return Err(misuse("a chunk must have bytes"));
        }
        *PARAMETERS.lock().unwrap_or_else(PoisonError::into_inner) = Some((start, size_default));
        Ok(0)
    })
}

fn destroy(wsd: *mut Item) -> Result<()> {
    if !live().remove(&(wsd as usize)) {
        return Err(no_such_workspace());
    }
    // SAFETY: it came from `Box::into_raw`, and nobody finds it any more.
    let space = unsafe { Box::from_raw(wsd.cast::<Space>()) };
    WORLD.with(|world| Workspace::from_raw(world, space.raw).destroy())
}

/// Gives a workspace back; all ranks do it together.
#[no_mangle]
pub extern "C" fn acp_destroy_ws(wsd: *mut Item) {
    edge("acp_destroy_ws", (), || destroy(wsd));
}

/// The same as [`acp_destroy_ws`].
#[no_mangle]
pub extern "C" fn acp_free_ws(wsd: *mut Item) {
    edge("acp_free_ws", (), || destroy(wsd));
}

/// Copies from an offset of a workspace to anywhere: 0, or 1 if that failed.
#[no_mangle]
pub extern "C" fn acp_read_ws(wsd: *mut Item, ga: u64, size: usize, offset: usize) -> c_int {
    edge("acp_read_ws", 1, || {
        let raw = raw_of(wsd)?;
        WORLD.with(|world| {
            let workspace = Workspace::from_raw(world, raw);
            workspace.read_to(offset, GlobalAddress::from_bits(ga), size).map(|()| 0)
        })
    })
}

/// Copies from anywhere to an offset of a workspace: 0, or 1 if that failed.
#[no_mangle]
pub extern "C" fn acp_write_ws(wsd: *mut Item, ga: u64, size: usize, offset: usize) -> c_int {
    edge("acp_write_ws", 1, || {
        let raw = raw_of(wsd)?;
        WORLD.with(|world| {
            let workspace = Workspace::from_raw(world, raw);
            workspace.write_from(offset, GlobalAddress::from_bits(ga), size).map(|()| 0)
        })
    })
}
