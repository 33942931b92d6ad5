//! Joining a world, meeting the others in it, and ending it.

use super::World;
use crate::services::SERVICES;
use crate::{Error, Part, Result};
use kumiki_mem::{Attachment, Hosting};
use std::time::Duration;

/// So often a rank that waits for all others looks after messages, though nothing of its own is under way.
const LOOK: Duration = Duration::from_millis(100);

/// How a world is joined: from [`World::options`]. What a launcher or the environment says goes before it.
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::options().starter_bytes(1 << 20).init()?;
/// assert_eq!(world.starter_bytes(), 1 << 20);
/// # world.finalize()
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct WorldOptions {
    starter_bytes: usize,
    part: Option<Part>,
}

impl WorldOptions {
    /// Bytes of starter memory of each rank, if neither a launcher nor `KUMIKI_STARTER` says how many.
    pub fn starter_bytes(mut self, bytes: usize) -> Self {
        self.starter_bytes = bytes;
        self
    }

    /// This process is in this part of a job that several launchers start. It may be a rank of other worlds, too: that of its own
    /// launcher, and those of other portfiles.
    pub fn part(mut self, part: Part) -> Self {
        self.part = Some(part);
        self
    }

    /// Joins the world: see [`World::init`].
    pub fn init(self) -> Result<World> {
        let WorldOptions { starter_bytes, part } = self;
        kumiki_mem::World::init_with(starter_bytes as u64, part.as_ref(), SERVICES).map(World::over)
    }
}

impl World {
    /// Joins the world that the environment describes: under `kumiki run`, under another launcher, or alone. Returns
    /// when every rank has joined.
    pub fn init() -> Result<World> {
        World::options().init()
    }

    /// Options for joining a world.
    pub fn options() -> WorldOptions {
        WorldOptions { starter_bytes: kumiki_mem::STARTER_BYTES as usize, part: None }
    }

    /// The world of an attachment that somebody else made: the simulator gives one to each rank of its cluster.
    pub fn attach(attachment: Attachment) -> Result<World> {
        kumiki_mem::World::attach(attachment, SERVICES).map(World::over)
    }

    /// Waits until every rank has come here. It orders what came before it on every rank, but does not complete
    /// operations: call [`complete_all`](Self::complete_all) first if others are to see them. Messages that are under way go on
    /// meanwhile.
    ///
    /// A rank that finalizes or drops its world has not come here: then everybody gets
    /// [`PeerLost`](crate::Error::PeerLost) for it. After an error the rank is still in the barrier, and the next call goes
    /// on with it.
    pub fn sync(&self) -> Result<()> {
        self.tell_later();
        self.sync_with_messages(None)
    }

    /// As [`sync`](Self::sync), for at most this long. After [`Timeout`](crate::Error::Timeout) the rank is still in the
    /// barrier; the next call goes on waiting.
    pub fn sync_for(&self, limit: Duration) -> Result<()> {
        self.tell_later();
        self.sync_with_messages(Some(limit))
    }

    /// What was begun to be sent or received another rank may need before it comes: messages go on meanwhile.
    fn sync_with_messages(&self, limit: Option<Duration>) -> Result<()> {
        let until_ns = limit.map(|limit| {
            let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
            self.memory.now_ns().saturating_add(limit_ns)
        });
        let left = || until_ns.map(|until| Duration::from_nanos(until.saturating_sub(self.memory.now_ns())));
        // Also where nothing of this rank is under way: others may have something to tell it before they come.
        while self.has_messages() && left().is_none_or(|left| left > LOOK) {
            match self.wait_with_messages(LOOK, |limit| self.memory.meet_for(limit)) {
                Err(Error::Timeout { .. }) => {}
                met => return self.note(met),
            }
        }
        match left() {
            Some(left) => self.memory.sync_for(left),
            None => self.memory.sync(),
        }
    }

    /// Renumbers the ranks and starts over: every rank calls this with its new number, all different. Regions and data
    /// structures are gone, starter memory is zero. When the numbers cannot be, every rank gets the error, and has left
    /// the world.
    pub fn reset(self, new_rank: u32) -> Result<World> {
        // What another rank waits for before it comes here is sent. The rest is gone, as everything is.
        self.memory.reset_in_place(new_rank, || self.end_all()).map(World::over)
    }

    /// Completes this rank's operations, waits for all ranks to finalize, and leaves. Dropping a world does the same, but
    /// cannot tell what went wrong; and a world that has returned an error, or whose data structures have, is not
    /// finalized by dropping it: the rank then counts as lost.
    ///
    /// All ranks finalize together. If others come to a [`sync`](Self::sync) instead, nobody gets past it:
    /// they get [`PeerLost`](crate::Error::PeerLost) for this rank, this rank gets [`Misuse`](crate::Error::Misuse), and
    /// the job is reported as failed because of it. The same holds for a rank that returns early and so drops its world.
    /// A rank that gives up while others go on can say why with [`abort`](Self::abort). A process that ends
    /// with its world forgotten, or in a `static`, has not finalized: it counts as lost.
    ///
    /// Messages that wait to be sent are sent meanwhile, however late their receivers come, and those that nobody has received are dropped.
    /// Whoever sends to a rank that has finalized, or waits for a message of it, gets [`PeerLost`](crate::Error::PeerLost).
    pub fn finalize(self) -> Result<()> {
        self.tell_later();
        let saved = self.save_tuning();
        self.memory.finalize_in_place(|| self.end_all()).and(saved)
    }

    /// Whether this process is in the world, and not a child that it has forked.
    pub(crate) fn is_in(&self) -> bool {
        self.memory.is_attached() && self.local().can_touch(self.rank())
    }

    /// Leaves without the others, who go on: what waits to be sent is sent, but nobody is waited for longer than the limit. What this process still does for others.
    pub(crate) fn depart(&self, limit: Duration) -> (Result<()>, Hosting) {
        self.tell_later();
        self.memory
            .depart_in_place(limit, || self.wait_for_lent() || self.end_messages() || self.wait_for_ends())
    }

    /// What a rank that ends does for others until all have come to that, too. Whether something is left to do.
    pub(crate) fn end_all(&self) -> bool {
        self.end_messages() | self.end_ends(true)
    }

    /// Whether this world, or a structure in it, has returned an error: then dropping it does not finalize it.
    pub fn has_returned_an_error(&self) -> bool {
        self.memory.has_returned_an_error()
    }

    /// Ends the whole job with a message, from any rank. Does not return.
    pub fn abort(&self, message: &str) -> ! {
        self.memory.abort(message)
    }

    /// As [`abort`](Self::abort), with the exit code that the job shall have; 0 would not be one of failure, and counts as 1.
    pub fn abort_with_code(&self, code: u8, message: &str) -> ! {
        self.memory.abort_with_code(code, message)
    }
}
