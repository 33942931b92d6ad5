//! Memory that others can address.

use super::{edge, edge_or, give, place, KumikiWorld};
use crate::guard::misuse;
use crate::place::Held;
use kumiki::raw;
use kumiki::GlobalAddress;
use std::ffi::{c_int, c_void};

/// The address of the starter memory of a rank.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `address` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_starter(world: *const KumikiWorld, rank: u32, address: *mut u64) -> c_int {
    edge(|| {
        let starter = place(world)?.with(|world| world.starter_address(rank))?;
        // SAFETY: as the caller promises.
        unsafe { give(address, "the address", starter.bits()) }
    })
}

/// Takes zeroed memory from this rank's part of the arena.
///
/// # Safety
/// As [`kumiki_starter`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_alloc(world: *const KumikiWorld, bytes: usize, address: *mut u64) -> c_int {
    edge(|| {
        let place = place(world)?;
        let region = place.with(|world| world.alloc::<u8>(bytes))?;
        let bits = region.address().bits();
        // SAFETY: as the caller promises.
        unsafe { give(address, "the address", bits) }?;
        place.held().insert(bits, Held::Allocated(region));
        Ok(())
    })
}

/// Gives memory of [`kumiki_alloc`] back.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_dealloc(world: *const KumikiWorld, address: u64) -> c_int {
    edge(|| {
        let mut held = place(world)?.held();
        match held.remove(&address) {
            Some(Held::Allocated(region)) => {
                drop(held);
                drop(region);
                Ok(())
            }
            other => {
                other.map(|registered| held.insert(address, registered));
                Err(misuse(format!("{address:#x} is not the beginning of memory of kumiki_alloc")))
            }
        }
    })
}

/// Makes memory that the program has addressable by all ranks.
///
/// # Safety
/// As [`kumiki_starter`]; and the memory must be there until it is unregistered.
#[no_mangle]
pub unsafe extern "C" fn kumiki_register(
    world: *const KumikiWorld,
    memory: *mut c_void,
    bytes: usize,
    address: *mut u64,
) -> c_int {
    edge(|| {
        // Before anything is registered: what failed must not be.
        // SAFETY: as the caller promises.
        unsafe { give(address, "the address", 0) }?;
        // SAFETY: as the caller promises.
        let registered = unsafe { place(world)?.register(memory.cast(), bytes, 0) }?;
        // SAFETY: as the caller promises.
        unsafe { give(address, "the address", registered.bits()) }
    })
}

/// Takes registered memory back: nobody else touches it when this returns.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_unregister(world: *const KumikiWorld, address: u64) -> c_int {
    edge(|| place(world)?.unregister(address))
}

/// The pointer to an address of this rank's own memory; NULL for other memory.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_pointer(world: *const KumikiWorld, address: u64) -> *mut c_void {
    edge_or(std::ptr::null_mut(), || {
        place(world)?.with(|world| {
            let pointer = raw::memory(world).local_pointer(GlobalAddress::from_bits(address));
            Ok(pointer.map_or(std::ptr::null_mut(), <*mut u8>::cast))
        })
    })
}

/// The rank that owns an address; -1 if it is nobody's.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_rank_of(world: *const KumikiWorld, address: u64) -> i64 {
    edge_or(-1, || {
        place(world)?.with(|world| Ok(world.rank_of(GlobalAddress::from_bits(address)).map_or(-1, i64::from)))
    })
}

/// Takes memory on any rank, without its help.
///
/// # Safety
/// As [`kumiki_starter`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_malloc(
    world: *const KumikiWorld,
    bytes: usize,
    rank: u32,
    address: *mut u64,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(address, "the address", 0) }?;
        let taken = place(world)?.with(|world| world.malloc(bytes, rank))?;
        // SAFETY: as the caller promises.
        unsafe { give(address, "the address", taken.bits()) }
    })
}

/// Gives memory of [`kumiki_malloc`] back, from any rank.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_free(world: *const KumikiWorld, address: u64) -> c_int {
    edge(|| place(world)?.with(|world| world.free(GlobalAddress::from_bits(address))))
}
