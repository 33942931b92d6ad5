//! Workspaces: one block laid over all ranks in chunks.

use super::{edge, WORLD};
use crate::guard::misuse;
use kumiki::data::{RawWorkspace, Workspace};
use kumiki::{GlobalAddress, Result};
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

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

/// `ACP_WSD_NULL`.
const NULL: *mut Item = usize::MAX as *mut Item;

/// What `acp_setparams_ws` said last: the first rank, and the length of a chunk.
static PARAMETERS: Mutex<Option<(u32, u64)>> = Mutex::new(None);

/// The length of a chunk as the struct has it.
fn length(bytes: u64) -> Result<c_int> {
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
                size_ws: workspace.len() as usize,
                size_default: workspace.chunk_bytes() as usize,
                size_remainder: chunks.last().map_or(0, |chunk| chunk.bytes as usize),
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

/// The workspace that a program names.
///
/// # Safety
/// `space` must come from [`acp_create_ws`] and not have been destroyed, or be one of the two values for none.
unsafe fn space_at<'a>(space: *const Item) -> Result<&'a Space> {
    if space.is_null() || space == NULL {
        return Err(misuse("there is no such workspace"));
    }
    // SAFETY: the struct that programs see is the first field of what `acp_create_ws` made.
    Ok(unsafe { &*space.cast::<Space>() })
}

/// Makes a workspace; all ranks do it together.
#[no_mangle]
pub extern "C" fn acp_create_ws(size: usize) -> *mut Item {
    edge("acp_create_ws", NULL, || {
        let parameters = *PARAMETERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        WORLD.with(|world| {
            let bytes = size as u64;
            let workspace = match parameters {
                Some((start, chunk)) => {
                    length(chunk.min(bytes))?;
                    Workspace::create_with(world, bytes, start % world.ranks(), chunk)?
                }
                None => {
                    length(bytes.div_ceil(world.ranks().into()))?;
                    Workspace::create(world, bytes)?
                }
            };
            let mine = workspace.chunks().find(|chunk| chunk.rank == world.rank());
            let own = mine.and_then(|chunk| world.local_pointer(chunk.address));
            Ok(Box::into_raw(Space::new(workspace, own, world.rank())?).cast())
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
        *PARAMETERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) =
            Some((start, size_default as u64));
        Ok(0)
    })
}

/// Gives a workspace back; all ranks do it together.
///
/// # Safety
/// `wsd` must come from [`acp_create_ws`]; it is gone afterwards.
#[no_mangle]
pub unsafe extern "C" fn acp_destroy_ws(wsd: *mut Item) {
    edge("acp_destroy_ws", (), || {
        // SAFETY: as the caller promises.
        unsafe { space_at(wsd) }?;
        // SAFETY: it came from `Box::into_raw`, and the caller does not use it again.
        let space = unsafe { Box::from_raw(wsd.cast::<Space>()) };
        WORLD.with(|world| Workspace::from_raw(world, space.raw).destroy())
    });
}

/// The same as [`acp_destroy_ws`].
///
/// # Safety
/// As [`acp_destroy_ws`].
#[no_mangle]
pub unsafe extern "C" fn acp_free_ws(wsd: *mut Item) {
    // SAFETY: as the caller promises.
    edge("acp_free_ws", (), || unsafe {
        acp_destroy_ws(wsd);
        Ok(())
    });
}

/// Copies from an offset of a workspace to anywhere: 0, or 1 if that failed.
///
/// # Safety
/// `wsd` must come from [`acp_create_ws`].
#[no_mangle]
pub unsafe extern "C" fn acp_read_ws(wsd: *mut Item, ga: u64, size: usize, offset: usize) -> c_int {
    edge("acp_read_ws", 1, || {
        // SAFETY: as the caller promises.
        let space = unsafe { space_at(wsd) }?;
        WORLD.with(|world| {
            let workspace = Workspace::from_raw(world, space.raw.clone());
            workspace.read_to(offset as u64, GlobalAddress::from_bits(ga), size as u64).map(|()| 0)
        })
    })
}

/// Copies from anywhere to an offset of a workspace: 0, or 1 if that failed.
///
/// # Safety
/// `wsd` must come from [`acp_create_ws`].
#[no_mangle]
pub unsafe extern "C" fn acp_write_ws(wsd: *mut Item, ga: u64, size: usize, offset: usize) -> c_int {
    edge("acp_write_ws", 1, || {
        // SAFETY: as the caller promises.
        let space = unsafe { space_at(wsd) }?;
        WORLD.with(|world| {
            let workspace = Workspace::from_raw(world, space.raw.clone());
            workspace.write_from(offset as u64, GlobalAddress::from_bits(ga), size as u64).map(|()| 0)
        })
    })
}
