//! The world as programs see it: a surface of its own over the global memory of `kumiki-mem`, and the services of the data
//! structures. What programs are not meant to use is in [`raw`](crate::raw).
//!
//! | file | what |
//! |---|---|
//! | `life.rs` | joining, meeting, ending: init, sync, reset, finalize, abort |
//! | `ranks.rs` | who is who |
//! | `teams.rs`, `among.rs` | some of the ranks, with a barrier of their own: made by all, or by themselves |
//! | `memory.rs` | memory that others can address, and what it costs |
//! | `operations.rs` | reading, writing and copying |
//! | `atomics.rs` | changing a word |
//! | `words.rs` | waiting for a word |
//! | `shapes.rs` | sections, lists of pieces, puts with a signal |
//! | `pending.rs` | puts and gets that are begun and not waited for |
//! | `completion.rs` | operations that are under way |
//! | `inside.rs` | what the structures of this crate need of the memory below |

pub(crate) mod among;
mod atomics;
mod completion;
mod inside;
mod life;
mod memory;
mod operations;
mod pending;
mod ranks;
mod shapes;
mod teams;
mod words;

pub use life::WorldOptions;
pub use teams::Team;

use crate::{array, comm, data, Members};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One rank's view of the world: who is in it, and the memory they share. Many threads may use it at once.
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let counter = world.starter::<u64>(0)?;
/// world.fetch_add(counter, 1)?;
/// world.sync()?;
/// assert_eq!(world.get(counter)?, world.ranks() as u64);
/// world.finalize()
/// # }
/// ```
///
/// # Order and visibility
///
/// - [`put`](Self::put), [`put_slice`](Self::put_slice) and the operations on words have taken effect when they return; what
///   [`get`](Self::get) returns was there at some moment of the call.
/// - A [`copy`](Self::copy) or an [`atomic`](Self::atomic) is only started. It has taken effect when it is
///   [complete](Self::complete); what must be complete before it starts is its [`Order`](crate::Order).
/// - [`sync`](Self::sync) meets all ranks: what was complete on any of them before it is seen by every one behind it. It does
///   not complete what is under way; [`complete_all`](Self::complete_all) does.
/// - Without a `sync` between them, a word of 4 or 8 bytes that is aligned is read and written whole; anything longer may be
///   seen half written. Updates of one word by any ranks are atomic together, whether they are on this node or not.
pub struct World {
    pub(crate) memory: kumiki_mem::World,
    /// What this process knows of hash tables that others made.
    tables: data::Directories,
    /// How many times this rank has come to an agreement with all others.
    agreements: Mutex<u64>,
    /// How many teams this rank was the first to make without the others.
    founded: AtomicU64,
    /// Its channels, and what it knows of those of others.
    comm: comm::State,
    /// What it keeps of groups that it has left.
    groups: comm::Groups,
    /// Plans of arrays that were asked for, and what is left of their groups.
    arrays: array::State,
    /// Whether all ranks have made a team together: they, and parts of them, may be in collectives.
    pub(crate) met_all: AtomicBool,
    /// Members of groups that were made without the others, and what they call them: they may be in collectives.
    met: Mutex<Vec<(u64, Members)>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.memory.fmt(f)
    }
}

impl Drop for World {
    /// Messages that wait to be sent are sent while the memory below finalizes; after an error it does not.
    fn drop(&mut self) {
        let (local, me) = (self.memory.local(), self.memory.rank());
        // Not in a forked child, and not after the end.
        let is_here = !std::thread::panicking() && self.memory.is_attached() && local.can_touch(me);
        if is_here && !self.memory.has_returned_an_error() {
            self.tell_later();
            self.memory.let_go(|| self.end_all());
        }
    }
}

impl World {
    pub(crate) fn over(memory: kumiki_mem::World) -> World {
        World {
            memory,
            tables: data::Directories::default(),
            agreements: Mutex::new(0),
            founded: AtomicU64::new(0),
            comm: comm::State::default(),
            groups: comm::Groups::default(),
            arrays: array::State::default(),
            met_all: AtomicBool::new(false),
            met: Mutex::default(),
        }
    }

    /// The members of a group have met: whoever leaves a join waits for the others.
    pub(crate) fn meet(&self, name: u64, members: Members) {
        let (mut met, known) = (self.met(), (name, members));
        if !met.contains(&known) {
            met.push(known);
        }
    }

    /// Groups whose members have met.
    pub(crate) fn met(&self) -> MutexGuard<'_, Vec<(u64, Members)>> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this process knows of hash tables that others made.
    pub(crate) fn tables(&self) -> &data::Directories {
        &self.tables
    }

    /// Its channels, and what it knows of those of others.
    pub(crate) fn comm(&self) -> &comm::State {
        &self.comm
    }

    /// What it keeps of groups that it has left.
    pub(crate) fn groups(&self) -> &comm::Groups {
        &self.groups
    }

    /// Plans of arrays that were asked for, and what is left of their groups.
    pub(crate) fn arrays(&self) -> &array::State {
        &self.arrays
    }

    /// How many times this rank has come to an agreement with all others.
    pub(crate) fn agreements(&self) -> &Mutex<u64> {
        &self.agreements
    }
}
