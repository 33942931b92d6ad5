//! What it costs: the ledger and the budget.

use super::{edge, give, place, KumikiWorld};
use crate::guard::misuse;
use kumiki::Purpose;
use std::ffi::{c_char, c_int, CStr};

/// The books as they stand: `kumiki_ledger` of `kumiki.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct KumikiLedger {
    /// Bytes private to the process.
    pub private_bytes: u64,
    /// Bytes in the arena of the node.
    pub arena_bytes: u64,
    /// The budget; all ones if there is none.
    pub budget_bytes: u64,
    /// Private bytes for each open connection.
    pub bytes_per_connected_peer: u64,
    /// Open connections.
    pub connected_peers: u64,
    /// Private bytes for each operation that is not complete.
    pub bytes_per_operation: u64,
    /// Bytes of page tables, estimated.
    pub page_table_bytes: u64,
}

/// Gives the books as they stand.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `ledger` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_read_ledger(world: *const KumikiWorld, ledger: *mut KumikiLedger) -> c_int {
    edge(|| {
        let books = place(world)?.with(|world| Ok(world.ledger()))?;
        let sums = KumikiLedger {
            private_bytes: books.private_bytes(),
            arena_bytes: books.arena_bytes(),
            budget_bytes: books.budget_bytes.unwrap_or(u64::MAX),
            bytes_per_connected_peer: books.bytes_per_connected_peer,
            connected_peers: books.connected_peers,
            bytes_per_operation: books.bytes_per_operation,
            page_table_bytes: books.page_table_bytes,
        };
        // SAFETY: as the caller promises.
        unsafe { give(ledger, "the ledger", sums) }
    })
}

/// Gives the bytes taken for a purpose, by its name in reports: "heap", "connections", ...
///
/// # Safety
/// As [`kumiki_read_ledger`]; `purpose` must be a text, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_ledger_bytes(
    world: *const KumikiWorld,
    purpose: *const c_char,
    bytes: *mut u64,
) -> c_int {
    edge(|| {
        // SAFETY: not NULL, so it is a text.
        let name = if purpose.is_null() { c"" } else { unsafe { CStr::from_ptr(purpose) } }.to_string_lossy();
        let known = Purpose::ALL.iter().copied().find(|purpose| purpose.name() == name);
        let purpose = known.ok_or_else(|| {
            let names: Vec<&str> = Purpose::ALL.iter().map(|purpose| purpose.name()).collect();
            misuse(format!("there is no purpose `{name}`; there are {}", names.join(", ")))
        })?;
        let found = place(world)?.with(|world| Ok(world.ledger().of(purpose)))?;
        // SAFETY: as the caller promises.
        unsafe { give(bytes, "the bytes", found) }
    })
}
