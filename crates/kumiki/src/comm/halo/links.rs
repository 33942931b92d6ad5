//! The links of a member to its neighbours: sending, waiting and taking. Bytes only.
//!
//! Exchange number *n* uses the strips *n* modulo 2. A member begins it when it has got everything of the one before from all neighbours, and
//! so knows that they have taken what the strips of this turn held: they began the one before when they were done with the one
//! before that. So nobody asks whether there is room, and nobody is more than one exchange ahead of a neighbour. Where the ghost
//! cells of one side are none, a word goes there all the same.
//!
//! On a node the sender writes into the strip of its neighbour, and then the number of the exchange. To another node both go in one
//! message, from memory that the link keeps, and the service threads see to it while the program computes.
//!
//! Whoever cannot go on says so to its neighbours, who say it to theirs.

use super::geometry::{LinkPlan, ARRIVED_AT, BROKEN_AT, LEFT_AT, PARTED_AT, SCRATCH_AT};
use crate::comm::collective::{part, Broken, Cause, Untold};
use crate::comm::rows::copy_inside;
use crate::{AtomicOp, Error, GlobalAddress, GlobalPtr, Pending, Rank, Result, Wait, World};
use kumiki_mem::{Activity, Local, Span};
use std::cell::RefCell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// A neighbour, in one direction.
pub(super) struct Link<'w> {
    pub(super) plan: LinkPlan,
    pub(super) rank: Rank,
    pub(super) kind: Kind,
    /// Its block, and where the head and the strips of this link are there.
    pub(super) block: GlobalPtr<u64>,
    pub(super) head: u64,
    pub(super) strips: [u64; 2],
    /// Bytes that go there, and that come.
    pub(super) out_bytes: u64,
    pub(super) in_bytes: u64,
    /// What goes to another node, by turn. Whoever waits looks at them.
    pub(super) parcels: RefCell<[Parcel<'w>; 2]>,
}

/// Where a neighbour is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// It is this member.
    Own,
    Near,
    Far,
}

/// Memory of a message to another node.
pub(super) enum Parcel<'w> {
    Idle(Vec<u8>),
    Underway(Pending<'w, u8>),
}

/// All links of a member.
pub(super) struct Links<'w> {
    pub(super) world: &'w World,
    /// The own block, and how long it is.
    pub(super) block: GlobalAddress,
    pub(super) block_bytes: u64,
    pub(super) links: Vec<Link<'w>>,
    /// How many exchanges were begun.
    pub(super) turn: u64,
    pub(super) stage: Vec<u8>,
    pub(super) broken: Option<Broken>,
    /// Whether it has said that it touches no block of others any more: that is said once.
    pub(super) has_parted: bool,
}

impl<'w> Link<'w> {
    /// The own cells of all fields, into memory.
    fn pack(&self, fields: &[&[u8]], into: &mut [u8]) {
        let mut at = 0;
        for field in fields {
            at += self.plan.sends.rows().gather(field, &mut into[at..]);
        }
    }

    /// The own cells of all fields, into a strip.
    fn pack_into(&self, fields: &[&[u8]], mut strip: Span<'_>, stage: &mut [u8]) -> Result<()> {
        let mut at = 0;
        for field in fields {
            at += self.plan.sends.rows().pack(field, (&mut strip, at), usize::MAX, stage)?;
        }
        Ok(())
    }

    /// The ghost cells of all fields, from a strip.
    fn unpack(&self, strip: Span<'_>, fields: &mut [&mut [u8]], stage: &mut [u8]) -> Result<()> {
        let mut at = 0;
        for field in fields {
            at += self.plan.takes.rows().unpack((&strip, at), field, usize::MAX, stage)?;
        }
        Ok(())
    }

    /// The memory of a turn, when what was sent from it is there.
    fn parcel(&mut self, turn: usize) -> Result<Vec<u8>> {
        match std::mem::replace(&mut self.parcels.get_mut()[turn], Parcel::Idle(Vec::new())) {
            Parcel::Idle(memory) => Ok(memory),
            Parcel::Underway(pending) => pending.settle().map_err(|error| self.why(error)),
        }
    }

    /// Why something that was sent there has not arrived, if that is known.
    fn failure(&self) -> Option<Error> {
        let failed = self.parcels.borrow_mut().iter_mut().find_map(|parcel| match parcel {
            Parcel::Idle(_) => None,
            Parcel::Underway(pending) => pending.failure(),
        });
        failed.map(|error| self.why(error))
    }

    /// What it means that something could not be sent there: one whose block is gone has left, and could not say so yet.
    fn why(&self, error: Error) -> Error {
        match error {
            Error::Bounds { rank, .. } if rank == self.rank => Broken::left(rank, 0).error(),
            error => error,
        }
    }

    fn send_far(&mut self, turn: u64, fields: &[&[u8]], world: &'w World) -> Result<()> {
        let which = turn as usize % 2;
        let mut memory = self.parcel(which)?;
        memory.resize(self.out_bytes as usize, 0);
        self.pack(fields, &mut memory);
        let word = self.block + (self.head + ARRIVED_AT) as usize / 8;
        let strip = (self.block + self.strips[which] as usize / 8).cast::<u8>();
        // If one does not arrive, none behind it counts: nobody takes old cells for new ones.
        let signal = AtomicOp::CompareSwap(turn - 1, turn);
        let pending = world.put_vec_signal(strip, memory, word, signal)?;
        self.parcels.get_mut()[which] = Parcel::Underway(pending);
        Ok(())
    }

    /// If the neighbour is of this node: says that this member will never touch its block again.
    pub(super) fn part(&self, local: Local<'_>) {
        // One whose block is not known has not been touched.
        if self.kind == Kind::Near && !self.block.is_null() {
            let _ = part(local, self.block.address(), self.head + PARTED_AT);
        }
    }

    /// If it is of this node: where it says that it will never touch the own block again.
    pub(super) fn guest(&self) -> Option<(u64, Rank)> {
        (self.kind == Kind::Near).then_some((self.plan.head + PARTED_AT, self.rank))
    }

    fn send_near(&self, turn: u64, fields: &[&[u8]], world: &World, stage: &mut [u8]) -> Result<()> {
        let (local, address) = (world.local(), self.block.address());
        let at = self.strips[turn as usize % 2];
        let strip = local.span(address, at + self.out_bytes)?.part(at, self.out_bytes)?;
        self.pack_into(fields, strip, stage)?;
        let word = self.head + ARRIVED_AT;
        local.span(address, word + 8)?.word(word)?.store(turn, Release);
        world.wake(self.rank)
    }
}

impl<'w> Links<'w> {
    fn local(&self) -> Local<'w> {
        self.world.local()
    }

    fn own(&self) -> Result<Span<'w>> {
        self.local().span(self.block, self.block_bytes)
    }

    /// Fails if the halo is broken.
    pub(super) fn check(&self) -> Result<()> {
        self.world.tell_later();
        self.broken.map_or(Ok(()), |broken| self.world.note(Err(broken.error())))
    }

    /// Sends the own cells of the next exchange to all neighbours; what stays with this member only if it is asked for.
    pub(super) fn send(&mut self, fields: &[&[u8]], with_own: bool) -> Result<()> {
        self.turn += 1;
        let mut stage = std::mem::take(&mut self.stage);
        let sent = self.send_all(fields, with_own, &mut stage);
        self.stage = stage;
        sent.map_err(|error| self.give_up(error))
    }

    fn send_all(&mut self, fields: &[&[u8]], with_own: bool, stage: &mut [u8]) -> Result<()> {
        let (own, world, turn) = (self.own()?, self.world, self.turn);
        // What takes longest comes first.
        for link in self.links.iter_mut().filter(|link| link.kind == Kind::Far) {
            link.send_far(turn, fields, world)?;
        }
        for link in &self.links {
            match link.kind {
                Kind::Near => link.send_near(turn, fields, world, stage)?,
                Kind::Own if with_own => {
                    let strip = own.part(link.strips[0], link.out_bytes)?;
                    link.pack_into(fields, strip, stage)?;
                }
                Kind::Own | Kind::Far => {}
            }
        }
        Ok(())
    }

    /// Waits until everything of this exchange has come.
    pub(super) fn wait(&mut self) -> Result<()> {
        (0..self.links.len())
            .try_for_each(|index| self.wait_for_link(index))
            .map_err(|error| self.give_up(error))
    }

    fn wait_for_link(&self, index: usize) -> Result<()> {
        let (own, local, turn) = (self.own()?, self.local(), self.turn);
        let later = &self.links[index..];
        let link = &later[0];
        let (broken, left) = (own.word(BROKEN_AT)?, own.word(link.plan.head + LEFT_AT)?);
        let has_come = |link: &Link<'_>| match own.word(link.plan.head + ARRIVED_AT)?.load(Acquire) {
            _ if link.kind == Kind::Own => Ok(true),
            came if came == turn || came == turn + 1 => Ok(true),
            came if came < turn => Ok(false),
            came => Err(Error::Refused(format!("rank {} says that it is in exchange {came}", link.rank))),
        };
        if has_come(link)? {
            return Ok(());
        }
        let look = |is_quick: bool| {
            // Before what has come is looked at: a member that goes has sent its cells before that.
            let broken = Broken::of(broken.load(Acquire)).or_else(|| Broken::of(left.load(Acquire)));
            match has_come(link) {
                Ok(false) => {}
                came => return Some(came.map(drop)),
            }
            if let Some(broken) = broken {
                return Some(Err(broken.error()));
            }
            if is_quick {
                return None;
            }
            let is_missing = |link: &Link<'_>| has_come(link).is_ok_and(|came| !came);
            // One that is stopped must not hide that another is lost, or has left.
            let lost = later[1..].iter().find_map(|other| {
                let left = own.load(other.plan.head + LEFT_AT).ok().and_then(Broken::of);
                let gone = left.map(Broken::error).or_else(|| local.check_alive(other.rank).err())?;
                // It may have sent before it went.
                is_missing(other).then_some(Err(gone))
            });
            // Whoever has not got the cells of this member does not send its next ones, either.
            let failed = || self.links.iter().filter(|link| is_missing(link)).find_map(Link::failure);
            lost.or_else(|| failed().map(Err))
        };
        self.world.memory.wait_for_quick_or_whole(look, Wait::FOREVER.from(link.rank).doing(Activity::Halo))
    }

    /// Puts what has come into the ghost cells.
    pub(super) fn take(&mut self, fields: &mut [&mut [u8]], with_own: bool) -> Result<()> {
        let mut stage = std::mem::take(&mut self.stage);
        let taken = self.take_all(fields, with_own, &mut stage);
        self.stage = stage;
        taken.map_err(|error| self.give_up(error))
    }

    fn take_all(&self, fields: &mut [&mut [u8]], with_own: bool, stage: &mut [u8]) -> Result<()> {
        let own = self.own()?;
        for link in &self.links {
            if link.kind == Kind::Own && !with_own {
                fields.iter_mut().for_each(|field| self.copy_own(link, field));
                continue;
            }
            let which = if link.kind == Kind::Own { 0 } else { self.turn as usize % 2 };
            let strip = own.part(link.plan.strips[which], link.in_bytes)?;
            link.unpack(strip, fields, stage)?;
        }
        Ok(())
    }

    /// Fills the ghost cells whose owner is this member, without a strip. What comes from one side was sent towards the other.
    fn copy_own(&self, link: &Link<'_>, field: &mut [u8]) {
        let strip = link.plan.strips[0];
        let back = self.links.iter().find(|back| back.kind == Kind::Own && back.strips[0] == strip);
        if let Some(back) = back {
            copy_inside(field, &back.plan.sends, &link.plan.takes);
        }
    }

    /// Waits until all that was sent is there.
    pub(super) fn settle(&mut self) -> Result<()> {
        for link in &mut self.links {
            for turn in 0..2 {
                let memory = link.parcel(turn)?;
                link.parcels.get_mut()[turn] = Parcel::Idle(memory);
            }
        }
        Ok(())
    }

    /// The same of a member that leaves: how it went is no matter.
    fn finish_sending(&mut self) {
        for link in &mut self.links {
            (0..2).for_each(|turn| drop(link.parcel(turn)));
        }
    }

    /// Breaks the halo. What a neighbour has said goes before what this member has found.
    pub(super) fn give_up(&mut self, error: Error) -> Error {
        let told = self.told();
        // Whoever meets one that has left finds nothing where it was.
        let is_absence = matches!(
            error,
            Error::PeerLost { .. } | Error::Bounds { .. } | Error::Refused(_) | Error::Closed(_)
        );
        let (broken, error) = match told {
            Some(broken) if broken.cause != Cause::Left || is_absence => (broken, broken.error()),
            // One that is there has only left.
            _ => match &error {
                Error::PeerLost { rank, .. } if self.local().check_alive(*rank).is_ok() => {
                    (Broken::left(*rank, self.turn - 1), error)
                }
                _ => (Broken::by(&error, self.world.rank()), error),
            },
        };
        match broken.cause {
            // Others finish what this member has sent its cells for.
            Cause::Left => self.tell(broken, |link| link.head + LEFT_AT),
            _ => self.tell(broken, |_| BROKEN_AT),
        }
        let failed: Result<()> = self.world.note(Err(error.clone()));
        failed.err().unwrap_or(error)
    }

    /// What a neighbour has said, or one that has left before it has sent its cells.
    fn told(&self) -> Option<Broken> {
        let own = self.own().ok()?;
        let word = |at| own.load(at).ok().and_then(Broken::of);
        let is_behind =
            |link: &&Link<'_>| own.load(link.plan.head + ARRIVED_AT).is_ok_and(|came| came < self.turn);
        let mut behind = self.links.iter().filter(|link| link.kind != Kind::Own).filter(is_behind);
        word(BROKEN_AT).or_else(|| behind.find_map(|link| word(link.plan.head + LEFT_AT)))
    }

    /// Tells the neighbours that this member has left. They may still wait for cells of others: what each says of itself ends nothing else.
    pub(super) fn leave(&mut self) {
        self.tell(Broken::left(self.world.rank(), self.turn), |link| link.head + LEFT_AT);
    }

    /// Tells the neighbours something, each in a word of its block.
    fn tell(&mut self, broken: Broken, place: impl Fn(&Link<'_>) -> u64) {
        if self.broken.replace(broken).is_some() {
            return;
        }
        let (local, world) = (self.local(), self.world);
        for link in self.links.iter().filter(|link| link.kind == Kind::Near) {
            let place = place(link);
            if let Ok(head) = local.span(link.block.address(), place + 8) {
                let word = head.word(place);
                let _ = word.map(|word| word.compare_exchange(0, broken.word(), AcqRel, Acquire));
            }
            let _ = world.wake(link.rank);
        }
        if broken.cause == Cause::Left && !std::thread::panicking() {
            self.finish_sending();
        }
        let far = self.links.iter().filter(|link| link.kind == Kind::Far);
        let untold = far.map(|link| Untold {
            rank: link.rank,
            word: link.block + place(link) as usize / 8,
            scratch: link.block + SCRATCH_AT as usize / 8,
            broken,
        });
        world.tell(untold.collect());
    }

    /// Says to the neighbours of this node that this member will never touch their blocks again.
    pub(super) fn part(&mut self) {
        if std::mem::replace(&mut self.has_parted, true) {
            return;
        }
        self.links.iter().for_each(|link| link.part(self.local()));
    }

    /// Who of this node may touch the own block, and where each says that it does so no more.
    pub(super) fn guests(&self) -> Vec<(u64, Rank)> {
        self.links.iter().filter_map(Link::guest).collect()
    }
}
