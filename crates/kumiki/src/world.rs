//! The world as programs see it: the global memory of `kumiki-mem`, and the services of the data structures.

use crate::data;
use crate::Result;
use kumiki_mem::{Attachment, Part};
use std::ops::Deref;

/// One rank's view of the world: who is in it, and the memory they share. Many threads may use it at once.
///
/// Everything that can be done with memory comes from [`kumiki_mem::World`], to which this dereferences; the structures
/// in [`data`](crate::data) take a reference to it.
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
#[derive(Debug)]
pub struct World {
    memory: kumiki_mem::World,
    /// What this process knows of hash tables that others made.
    tables: data::Directories,
}

impl World {
    /// Joins the world that the environment describes: under `kumiki run`, under another launcher, or alone. Returns
    /// when every rank has joined.
    pub fn init() -> Result<World> {
        World::init_as(kumiki_mem::STARTER_BYTES, None)
    }

    /// As [`init`](Self::init), with this many bytes of starter memory if nobody else says how many: neither a launcher
    /// nor `KUMIKI_STARTER`; and as this part of a job that several launchers start, if the environment does not say that.
    pub fn init_as(starter_bytes: u64, part: Option<&Part>) -> Result<World> {
        kumiki_mem::World::init_with(starter_bytes, part, data::SERVICES).map(World::over)
    }

    /// The world of an attachment that somebody else made.
    pub fn attach(attachment: Attachment) -> Result<World> {
        kumiki_mem::World::attach(attachment, data::SERVICES).map(World::over)
    }

    fn over(memory: kumiki_mem::World) -> World {
        World { memory, tables: data::Directories::default() }
    }

    /// What this process knows of hash tables that others made.
    pub(crate) fn tables(&self) -> &data::Directories {
        &self.tables
    }

    /// Renumbers the ranks and starts over: every rank calls this with its new number, all different. Regions and data
    /// structures are gone, starter memory is zero. When the numbers cannot be, every rank gets the error, and has left
    /// the world.
    pub fn reset(self, new_rank: u32) -> Result<World> {
        let World { memory, tables } = self;
        drop(tables);
        memory.reset(new_rank).map(World::over)
    }

    /// Completes this rank's operations, waits for all ranks to finalize, and leaves. Dropping a world does the same, but
    /// cannot tell what went wrong; and a world that has returned an error, or whose data structures have, is not
    /// finalized by dropping it: the rank then counts as lost.
    ///
    /// All ranks finalize together. If others come to a [`sync`](kumiki_mem::World::sync) instead, nobody gets past it:
    /// they get [`PeerLost`](crate::Error::PeerLost) for this rank, this rank gets [`Misuse`](crate::Error::Misuse), and
    /// the job is reported as failed because of it. The same holds for a rank that returns early and so drops its world.
    /// A rank that gives up while others go on can say why with [`abort`](kumiki_mem::World::abort). A process that ends
    /// with its world forgotten, or in a `static`, has not finalized: it counts as lost.
    pub fn finalize(self) -> Result<()> {
        self.memory.finalize()
    }
}

impl Deref for World {
    type Target = kumiki_mem::World;

    #[inline]
    fn deref(&self) -> &kumiki_mem::World {
        &self.memory
    }
}
