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
//! Numbers and arrays of them go into global memory as they are. A type of the program does if it is plain data: any bytes
//! are a value of it, and none of them is a gap.
//!
//! ```
//! #[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
//! #[repr(C)]
//! struct Particle {
//!     place: [f64; 3],
//!     mass: f64,
//! }
//!
//! # fn main() -> kumiki::Result<()> {
//! # let world = kumiki::World::init()?;
//! let particles = world.alloc::<Particle>(100)?;
//! world.put(particles.ptr().add(7), Particle { place: [0.0; 3], mass: 1.5 })?;
//! # drop(particles);
//! # world.finalize()
//! # }
//! ```
//!
//! [`data`] has what is built on that memory: global malloc and free, vectors, maps, and the other structures.
#![forbid(unsafe_code)]

pub mod data;
pub mod prelude;
pub mod raw;
mod world;

pub use kumiki_mem::{
    AtomicOp, AtomicWord, Entry, Error, Fate, GlobalAddress, GlobalPtr, Handle, Ledger, Lent, Order, Part,
    Pod, Purpose, Region, Registered, Result, Zeroable,
};
pub use world::{World, WorldOptions};

/// The number of a rank: from 0, below [`World::ranks`]. A plain number, because programs compute with it.
pub type Rank = u32;
