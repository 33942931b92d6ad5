//! Joinery for parallel programs: one 64-bit global address space across processes and nodes.
//!
//! Start `kumiki run -n 4 ./program`, and every process of it is a *rank* that can read and write the shared memory
//! of every other one, without its help:
//!
//! ```
//! use kumiki::World;
//!
//! fn main() -> kumiki::Result<()> {
//!     let world = World::init()?;
//!     let next = (world.rank() + 1) % world.ranks();
//!     // Two words on each rank: word 0 of rank 0 is a counter, word 1 of each rank a mailbox.
//!     let words = world.shared_array::<u64>(2)?;
//!     world.put(words.at(next, 1), world.rank() as u64)?;
//!     world.fetch_add(words.at(0, 0), 1)?;
//!     world.sync()?;
//!     println!(
//!         "rank {} of {}: a put came from rank {}",
//!         world.rank(),
//!         world.get(words.at(0, 0))?,
//!         words.get(1)?
//!     );
//!     world.finalize()
//! }
//! ```
//!
//! The steps below go on from there; each is a program that also runs with one rank, without a launcher. Longer ones are in the
//! folder `examples` of the repository, and `docs/guide.md` there says how to depend on the crate, start programs, and what is
//! seen when.
//!
//! # A histogram over all ranks
//!
//! A [`SharedArray`](data::SharedArray) is a block of elements on each rank; [`at`](data::SharedArray::at) points to any of them.
//! Here bin `b` is on rank `b % ranks`, and whoever finds something adds it there.
//!
//! ```
//! use kumiki::prelude::*;
//!
//! # fn main() -> kumiki::Result<()> {
//! let world = World::init()?;
//! let ranks = world.ranks() as usize;
//! let bins = world.shared_array::<u64>(10usize.div_ceil(ranks))?;
//! let place = |bin: usize| bins.at((bin % ranks) as Rank, bin / ranks);
//! for sample in (0..1000).skip(world.rank() as usize).step_by(ranks) {
//!     world.fetch_add(place(sample * sample % 10), 1)?;
//! }
//! world.sync()?;
//! assert_eq!(world.get(place(4))?, 200);
//! # world.finalize()
//! # }
//! ```
//!
//! # A map
//!
//! The structures of [`data`] live in global memory. `shared` makes one for all ranks; each has a handle to the same.
//!
//! ```
//! use kumiki::prelude::*;
//!
//! # fn main() -> kumiki::Result<()> {
//! let world = World::init()?;
//! let squares = TypedMap::<u32, u64>::shared(&world, Spread::everywhere().slots(100))?;
//! squares.insert(world.rank(), u64::from(world.rank()).pow(2))?;
//! world.sync()?;
//! let last = world.ranks() - 1;
//! assert_eq!(squares.get(last)?, Some(u64::from(last).pow(2)));
//! # world.finalize()
//! # }
//! ```
//!
//! # A work queue
//!
//! Jobs that take differently long are drawn from a counter: whoever is done takes the next.
//!
//! ```
//! use kumiki::prelude::*;
//!
//! # fn main() -> kumiki::Result<()> {
//! # fn work(job: u64) -> u64 { job * 2 }
//! let world = World::init()?;
//! let queue = Counter::shared(&world, 0)?;
//! let results = world.shared_array::<u64>(50)?;
//! loop {
//!     let job = queue.next()?;
//!     if job >= 50 {
//!         break;
//!     }
//!     world.put(results.at(0, job as usize), work(job))?;
//! }
//! world.sync()?;
//! if world.rank() == 0 {
//!     assert_eq!(results.get(49)?, 98);
//! }
//! # world.finalize()
//! # }
//! ```
//!
//! # A halo exchange
//!
//! Each rank has a piece of a field, and needs the cells beside it: its neighbours put them into its ghost cells, and each put changes a
//! word that the rank waits for. Nobody waits for all ranks.
//!
//! ```
//! use kumiki::{prelude::*, AtomicOp};
//!
//! # fn main() -> kumiki::Result<()> {
//! let world = World::init()?;
//! let (me, ranks) = (world.rank(), world.ranks());
//! let mut piece = vec![f64::from(me); 100];
//! let (left, right) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
//! // Two pairs of ghost cells in turn: a neighbour may be a step ahead, but not two, because it waits for this rank.
//! let ghosts = world.shared_array::<f64>(4)?;
//! let arrived = world.shared_array::<u64>(2)?;
//! for step in 1..=10 {
//!     let turn = 2 * (step as usize % 2);
//!     world.put_signal(ghosts.at(left, turn + 1), &[piece[0]], arrived.at(left, 1), AtomicOp::Add(1))?;
//!     world.put_signal(ghosts.at(right, turn), &[piece[99]], arrived.at(right, 0), AtomicOp::Add(1))?;
//!     for side in 0..2 {
//!         world.wait_until(arrived.at(me, side), Is::AtLeast(step), Wait::FOREVER)?;
//!     }
//!     piece[0] = (ghosts.get(turn)? + piece[0] + piece[1]) / 3.0;
//!     piece[99] = (piece[98] + piece[99] + ghosts.get(turn + 1)?) / 3.0;
//! }
//! # world.finalize()
//! # }
//! ```
//!
//! # An error
//!
//! What goes wrong is a value, and touches nothing; the world goes on. [`Error`] says of each kind what a program can do.
//!
//! ```
//! use kumiki::prelude::*;
//!
//! # fn main() -> kumiki::Result<()> {
//! let world = World::init()?;
//! let numbers = world.shared_array::<u64>(4)?;
//! match world.get(numbers.at(0, 4)) {
//!     Ok(number) => println!("{number}"),
//!     Err(Error::Bounds { rank, .. }) => println!("rank {rank} has no such element"),
//!     Err(Error::PeerLost { rank, why, .. }) => println!("rank {rank} is gone: {why}"),
//!     Err(other) => return Err(other),
//! }
//! # world.finalize()
//! # }
//! ```
//!
//! # A test in the simulator
//!
//! `kumiki_sim` runs the same code with as many ranks as a test needs, in one process, in virtual time and the same each time.
//!
//! ```
//! use kumiki::prelude::*;
//! use kumiki_sim::{Cluster, Network};
//!
//! fn program(world: &World) -> kumiki::Result<u64> {
//!     let total = world.shared_array::<u64>(1)?;
//!     world.fetch_add(total.at(0, 0), u64::from(world.rank()))?;
//!     world.sync()?;
//!     let sum = world.get(total.at(0, 0))?;
//!     total.free(world)?;
//!     Ok(sum)
//! }
//!
//! let outcome = Cluster::new(16, Network::torus(&[4, 4])).run(|attachment| {
//!     let world = World::attach(attachment)?;
//!     let sum = program(&world)?;
//!     world.finalize()?;
//!     Ok::<u64, Error>(sum)
//! });
//! assert_eq!(outcome.unwrap().values().unwrap(), vec![Ok(120); 16]);
//! ```
//!
//! # Your own types
//!
//! Numbers, arrays of them and [pointers](GlobalPtr) go into global memory as they are. A type of the program does if it is
//! plain data: any bytes are a value of it, and none of them is a gap.
//!
//! ```
//! #[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
//! #[repr(C)]
//! struct Particle {
//!     place: [f64; 3],
//!     mass: f64,
//!     nearest: kumiki::GlobalPtr<Particle>,
//! }
//!
//! # fn main() -> kumiki::Result<()> {
//! # let world = kumiki::World::init()?;
//! let particles = world.alloc::<Particle>(100)?;
//! let first = particles.ptr();
//! world.put(first + 7, Particle { place: [0.0; 3], mass: 1.5, nearest: first })?;
//! assert!(world.get(world.get(first + 7)?.nearest)?.nearest.is_null());
//! # drop(particles);
//! # world.finalize()
//! # }
//! ```
//!
//! # Where to go on
//!
//! [`World`] has the operations, and says what is seen when; [`data`] has the structures, [`comm`] the patterns of communication, [`array`](mod@array) distributed arrays; [`raw`] is for bindings to other languages.
#![forbid(unsafe_code)]

pub mod array;
pub mod comm;
pub mod data;
pub mod join;
pub mod prelude;
pub mod raw;
mod services;
mod world;

pub use kumiki_mem::{
    AtomicOp, AtomicWord, Celled, Completion, Entry, Error, Fate, GlobalAddress, GlobalPtr, Handle, Is,
    Ledger, Lent, Members, Order, Part, Pending, Pod, Purpose, Region, Registered, Result, Scope, Shape,
    Until, View, Wait, Zeroable,
};
pub use world::{Team, World, WorldOptions};

/// The number of a rank: from 0, below [`World::ranks`]. A plain number, because programs compute with it.
pub type Rank = u32;

/// The guide of the repository: its programs are tested like those of this page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
mod guide {}

/// The page on patterns of communication: likewise.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/comm.md")]
mod comm_guide {}

/// The page on arrays: likewise.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/array.md")]
mod array_guide {}
