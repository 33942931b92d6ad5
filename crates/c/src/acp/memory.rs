//! Registration of memory, and global addresses.

use super::types::rank_of;
use super::{edge, WORLD};
use crate::guard::misuse;
use kumiki::raw;
use kumiki::GlobalAddress;
use std::ffi::{c_int, c_void};

/// The address of the starter memory of a rank; 0 if there is no such rank.
#[no_mangle]
pub extern "C" fn acp_query_starter_ga(rank: c_int) -> u64 {
    edge("acp_query_starter_ga", 0, || {
        let rank = rank_of(rank)?;
        WORLD.with(|world| world.starter_address(rank).map(GlobalAddress::bits))
    })
}

/// Makes memory of this process addressable by all; gives a key, which is its first address.
///
/// # Safety
/// The memory must be there until it is unregistered.
#[no_mangle]
pub unsafe extern "C" fn acp_register_memory(addr: *mut c_void, size: usize, color: c_int) -> u64 {
    edge("acp_register_memory", 0, || {
        let colour = u32::try_from(color).map_err(|_| misuse(format!("colour {color} cannot be")))?;
        // SAFETY: as the caller promises.
        unsafe { WORLD.register(addr.cast(), size, colour) }.map(GlobalAddress::bits)
    })
}

/// Takes memory back.
#[no_mangle]
pub extern "C" fn acp_unregister_memory(atkey: u64) -> c_int {
    edge("acp_unregister_memory", -1, || WORLD.unregister(atkey).map(|()| 0))
}

/// The global address of a byte of registered memory; 0 if it is not in it.
#[no_mangle]
pub extern "C" fn acp_query_ga(atkey: u64, addr: *mut c_void) -> u64 {
    edge("acp_query_ga", 0, || WORLD.address_in(atkey, addr as usize).map(GlobalAddress::bits))
}

/// The pointer to a byte of this process's own memory; NULL for that of others.
#[no_mangle]
pub extern "C" fn acp_query_address(ga: u64) -> *mut c_void {
    edge("acp_query_address", std::ptr::null_mut(), || {
        WORLD.with(|world| {
            let pointer = raw::memory(world).local_pointer(GlobalAddress::from_bits(ga));
            Ok(pointer.map_or(std::ptr::null_mut(), <*mut u8>::cast))
        })
    })
}

/// The rank of an address; -1 for that of nothing.
#[no_mangle]
pub extern "C" fn acp_query_rank(ga: u64) -> c_int {
    edge("acp_query_rank", -1, || {
        WORLD.with(|world| Ok(world.rank_of(GlobalAddress::from_bits(ga)).map_or(-1, |rank| rank as c_int)))
    })
}

/// The colour of the memory at an address; -1 for that of nothing. For memory of another node it is 0, the colour that all
/// networks have.
#[no_mangle]
pub extern "C" fn acp_query_color(ga: u64) -> c_int {
    edge("acp_query_color", -1, || {
        WORLD.with(|world| {
            let address = GlobalAddress::from_bits(ga);
            let Some(rank) = world.rank_of(address) else { return Ok(-1) };
            let elsewhere = world.node_of(rank) != Some(world.node());
            let unknown = if elsewhere { 0 } else { -1 };
            Ok(raw::memory(world).colour_of(address).map_or(unknown, |colour| colour as c_int))
        })
    })
}

/// How many colours there are.
#[no_mangle]
pub extern "C" fn acp_colors() -> c_int {
    edge("acp_colors", -1, || WORLD.with(|world| Ok(raw::memory(world).colours() as c_int)))
}
