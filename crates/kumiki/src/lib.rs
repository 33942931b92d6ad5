//! Joinery for parallel programs: one 64-bit global address space across processes and nodes.
//!
//! Start `kumiki run -n 4 ./program`, and every process of it is a *rank* that can read and write the registered memory
//! of every other one, without its help:
//!
//! ```
//! use kumiki::World;
//!
//! fn main() -> kumiki::Result<()> {
//!     let world = World::init()?;
//!     let next = (world.rank() + 1) % world.ranks();
//!     // Starter memory is there from the start: word 0 of rank 0 is a counter, word 1 of each rank a mailbox.
//!     let counter = world.starter::<u64>(0)?;
//!     world.put(world.starter::<u64>(next)?.add(1), world.rank() as u64)?;
//!     world.fetch_add(counter, 1)?;
//!     world.sync()?;
//!     let from = world.get(world.starter::<u64>(world.rank())?.add(1))?;
//!     println!("rank {} of {}: a put came from rank {from}", world.rank(), world.get(counter)?);
//!     world.finalize()
//! }
//! ```
//!
//! [`data`] has what is built on that memory: global malloc and free, vectors, maps, and the other structures.
#![forbid(unsafe_code)]

pub mod data;
mod world;

pub use kumiki_mem::{
    AtomicOp, AtomicWord, Entry, Error, Fate, GlobalAddress, GlobalPtr, Handle, Ledger, Lent, Order, Part,
    Pod, Purpose, Rank, Region, RegionKey, Registered, Result, Zeroable,
};
pub use world::World;
