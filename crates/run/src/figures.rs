//! Sizes and limits of the layers below, for `kumiki info`. Each is asserted where it is made; see docs/memory.md.

use kumiki_net::shm::{arena, control, region, world};
use kumiki_net::{contract, os, tcp, wire};
use std::mem::size_of;

/// The version of the wire protocol.
pub const WIRE_VERSION: u32 = kumiki_net::auth::PROTOCOL_VERSION as u32;
/// Arena bytes of a rank's control block.
pub const CONTROL_BYTES: u64 = size_of::<control::Control>() as u64;
/// Arena bytes of a rank's control block and the part of its region table that is there from the start.
pub const FIXED_BYTES_PER_RANK: u64 = CONTROL_BYTES + os::memory::PAGE_BYTES;
/// Arena bytes of an entry of a region table.
pub const REGION_ENTRY_BYTES: u64 = size_of::<region::RegionEntry>() as u64;
/// Entries of a region table.
pub const SLOTS: u64 = arena::SLOTS as u64;
/// Arena bytes, once a node, for each rank of the world.
pub const WORLD_BYTES_PER_RANK: u64 = size_of::<world::PlaceWord>() as u64;
/// Arena bytes, once a node, for each node of the world.
pub const WORLD_BYTES_PER_NODE: u64 = size_of::<world::NodeWord>() as u64;
/// Private bytes of a connected TCP peer.
pub const CONNECTION_BYTES: u64 = tcp::CONNECTION_BYTES;
/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: u64 = wire::FRAME_HEADER_BYTES as u64;
/// The most bytes that the payload of a frame has that is copied before it is sent.
pub const PIECE_BYTES: u64 = contract::PIECE_BYTES as u64;
/// The most ranks on a node, and the most nodes.
pub const MAX_PER_WORLD: u64 = world::MAX_PER_WORLD as u64;
