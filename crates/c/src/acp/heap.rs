//! Memory on any rank: `acp_malloc` and `acp_free`.

use super::types::rank_of;
use super::{edge, WORLD};
use kumiki::GlobalAddress;
use std::ffi::c_int;

/// Takes memory on a rank; 0 if there is none.
#[no_mangle]
pub extern "C" fn acp_malloc(size: usize, rank: c_int) -> u64 {
    edge("acp_malloc", 0, || {
        let rank = rank_of(rank)?;
        WORLD.with(|world| world.malloc(size, rank).map(GlobalAddress::bits))
    })
}

/// Gives memory back, from any rank. That of nothing is nothing to give back.
#[no_mangle]
pub extern "C" fn acp_free(ga: u64) {
    edge("acp_free", (), || match ga {
        0 => Ok(()),
        ga => WORLD.with(|world| world.free(GlobalAddress::from_bits(ga))),
    });
}
