//! Groups, and what their members do together.
//!
//! | file | what |
//! |---|---|
//! | `calls.rs` | the collectives, as programs call them |
//! | `make.rs` | how a group is made |
//! | `algorithm.rs` | which algorithms there are |
//! | `tune.rs`, `model.rs`, `kept.rs` | which one does it, by trying; what need not be tried; and from run to run |
//! | `cartesian.rs` | members in a grid |
//! | `shown.rs`, `piped.rs` | flat: the members of a node show each other what they have; and what is long, in pieces |
//! | `told.rs` | what is short and comes from one member of a node |
//! | `rooms.rs` | the same in long pieces, for all of them |
//! | `spread.rs` | they tell each other where memory is that they lend, and when they are done with it |
//! | `tree.rs`, `doubling.rs`, `ring.rs` | over lanes |
//! | `direct.rs` | straight between the memories of members: what is long |
//! | `levels.rs` | on each node by itself, and then among the first members of the nodes |
//! | `started.rs`, `plan.rs` | what is started, and goes on bit by bit |
//! | `lanes.rs`, `waits.rs` | streams of bytes between members; and waits for members of the node |
//! | `wide.rs` | longer rings for them, between nodes |
//! | `traffic.rs` | what goes out and comes in on them |
//! | `block.rs` | the memory of a member |
//! | `others.rs` | what other patterns need of a group |
//! | `retired.rs` | that of members who have left |
//! | `operation.rs` | how elements are combined |
//!
//! A member has a block of bounded size in its own memory, and knows the blocks of those at a distance of a power of two, to which
//! its lanes lead: every algorithm over lanes is made of such steps. On a node the members find each other's blocks in a table that
//! the first of them has. Nobody has a table of all.

mod algorithm;
mod block;
mod calls;
mod cartesian;
mod direct;
mod doubling;
mod kept;
mod lanes;
mod levels;
mod make;
mod model;
mod operation;
mod others;
mod piped;
mod plan;
pub(super) mod retired;
mod ring;
mod rooms;
mod shown;
mod spread;
mod started;
mod told;
mod traffic;
mod tree;
mod tune;
mod untold;
mod waits;
mod wide;

pub use algorithm::Algorithm;
pub(crate) use block::serve;
pub use cartesian::Cartesian;
pub use make::GroupOptions;
pub use operation::{
    And, Combine, Integer, Max, MaxAt, Min, MinAt, Number, Operation, Or, Product, Sum, Xor,
};

pub(crate) use operation::{merge, Merger, Reduction};
pub(crate) use retired::Groups;
pub use started::Started;
pub use tune::Decision;
pub(super) use {
    cartesian::Shape as GridShape, lanes::Broken, lanes::Cause, retired::part, retired::Retired,
    untold::Untold,
};

use crate::{Error, GlobalAddress, Members, Purpose, Rank, Region, Result, Team, World};
use block::Layout;
use kumiki_mem::{Booking, Posted, Span};
use lanes::Lane;
use operation::Aligned;
pub(super) use others::{hash, mix};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use tune::Tuner;

/// What is as long as this goes straight between the memories of members, where it can.
const LONG_BYTES: usize = 64 << 10;
/// Bytes that a call may take without asking: they are booked with the group.
const SCRATCH_BYTES: usize = 4096;
/// Bytes of what is combined that are kept for the next call; they are booked with the group, too.
const MERGED_BYTES: usize = 1024;
/// Where the blocks of the members of a node are is known to each, if there are no more than this; otherwise it is looked up.
const MOST_KNOWN: u32 = 16;

/// Ranks that do things together: all of them, from [`World::group`], or the members of a team, from [`Team::group`].
///
/// All members make the same calls in the same order. In the first calls of a kind and size the algorithms that may be the fastest are
/// tried, and all members keep the same one ([`decisions`](Self::decisions)); [`force`](Self::force) says which to use instead, and
/// [`GroupOptions::fixed`] that nothing is tried: then sums are the same from run to run, to the last bit. On every member the result of a reduction is the same to the last bit.
///
/// When a call fails on a member, because a rank is lost, because members do different things or because it got an error of its own,
/// the group is broken: the call fails on all members that have not finished it, and every later one fails at once. Nobody waits for
/// a member that has failed.
///
/// Dropping a group is leaving it: the others finish the calls that it has finished, and cannot go on then. Members that are done together [`free`](Self::free) it. Threads of a rank
/// that call at the same time come one after the other.
///
/// ```
/// use kumiki::comm::Sum;
/// use kumiki::prelude::*;
///
/// # fn main() -> kumiki::Result<()> {
/// let world = World::init()?;
/// let group = world.group()?;
/// let mut total = [f64::from(world.rank()), 1.0];
/// group.allreduce(&mut total, Sum)?;
/// assert_eq!(total[1], f64::from(world.ranks()));
/// group.free()?;
/// # world.finalize()
/// # }
/// ```
pub struct Group<'w> {
    pub(super) world: &'w World,
    pub(super) members: Members,
    me: Rank,
    count: u32,
    block: GlobalAddress,
    /// Until it is given back.
    memory: Option<(Region<u64>, Booking)>,
    number: u64,
    layout: Layout,
    /// Among all members, and among the first ones of the nodes if that is something else.
    all: Web,
    leaders: Option<Web>,
    near: Near,
    /// The blocks of the members of this node, if they are few.
    known: Box<[Span<'w>]>,
    /// Whether the members of this node look at each other instead of meeting: they do if all of them spin.
    looks: bool,
    /// One thread after the other, from the choice of an algorithm to the end of the call; and who it is.
    turn: Mutex<()>,
    holder: AtomicUsize,
    state: Mutex<State>,
    /// The number of an algorithm, from 1 on; 0 if none is forced.
    forced: AtomicU8,
    /// Whether the others are not told when this member goes.
    is_quiet: AtomicBool,
    /// Whether the members have made other groups, or something else, of it.
    is_parted: AtomicBool,
    tuner: Mutex<Tuner>,
    nodes: u32,
    options: GroupOptions,
}

/// Members in a circle, and the lanes between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Web {
    /// The number of this member in it; none if it is not in it.
    me: u32,
    count: u32,
    /// Its first lane.
    first: usize,
}

impl Web {
    /// How many steps of a power of two it takes to come round.
    fn rounds(self) -> u32 {
        rounds(self.count)
    }

    /// The lane to the member so many before this one: a power of two of them.
    fn down(self, power: u32) -> usize {
        self.lane(power, self.is_opposite(power) && !self.is_behind_the_middle())
    }

    /// The lane to the member so many behind this one.
    fn up(self, power: u32) -> usize {
        self.lane(power, !self.is_opposite(power) || !self.is_behind_the_middle())
    }

    fn lane(self, power: u32, is_up: bool) -> usize {
        self.first + 2 * power as usize + usize::from(is_up)
    }

    /// Whether the members so many before and behind this one are the same. Then one lane does for both, and what goes back on it says what has
    /// been received.
    fn is_opposite(self, power: u32) -> bool {
        self.count == 2 << power
    }

    fn is_behind_the_middle(self) -> bool {
        self.me >= self.count / 2
    }
}

/// The smallest power of two that is not below a number.
fn rounds(count: u32) -> u32 {
    count.max(1).next_power_of_two().trailing_zeros()
}

/// The members of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Near {
    count: u32,
    /// The number of this member among them.
    me: u32,
    /// The block of the first of them, which has the table.
    first: GlobalAddress,
}

/// What changes with each call.
struct State {
    /// Where all members meet, and those of this node if that is something else. Gone when the group is broken.
    team: Option<Team>,
    node_team: Option<Team>,
    lanes: Vec<Lane>,
    /// What is under way to other nodes.
    calls: VecDeque<(Rank, Posted)>,
    /// The wide rings of this member.
    wide: Vec<wide::WideRing>,
    /// Where it shows what is long and goes to all of its node.
    room: rooms::Room,
    scratch: Aligned,
    /// For what is combined.
    merged: [Aligned; 2],
    /// How many calls there were, what they were, and what the node was told of this one.
    call: u64,
    history: u64,
    board: u64,
    /// How often the members of the node have shown each other something, and brought something to the first of them.
    turn: u64,
    led: u64,
    /// How often one of them has told the others something short, and how often all others have taken it, as far as this member knows.
    told: u64,
    taken: u64,
    /// How often one of them has told the others where something is.
    spreads: u64,
    /// What the own count of pieces is, and whether others may still read some.
    piped: u64,
    is_unread: bool,
    heard: Option<Broken>,
    broken: Option<Broken>,
    /// What those on other nodes have not been told.
    untold: Option<Broken>,
    /// Whether a rank that is no member is lost: then not every loss matters.
    has_lost_strangers: bool,
    /// What was started and is not over, in its order.
    jobs: VecDeque<Box<dyn started::Job>>,
    /// Who may look at the block of this member, once it has said that it looks at no block of others: that is said once.
    parted: Option<Vec<(u64, Rank)>>,
}

/// A member in the middle of a call.
struct Talk<'a, 'w> {
    group: &'a Group<'w>,
    state: &'a mut State,
    /// The same on all members if they do the same.
    mark: u64,
    /// The number of the call.
    call: u64,
}

impl std::fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group(rank {} of {})", self.me, self.count)
    }
}

impl<'w> Group<'w> {
    /// This rank's number in the group.
    pub fn rank(&self) -> Rank {
        self.me
    }

    /// How many members it has.
    pub fn ranks(&self) -> u32 {
        self.count
    }

    /// The number in the world of a member; `None` if there is no such member.
    pub fn world_rank(&self, rank: Rank) -> Option<Rank> {
        self.members.get(rank)
    }

    /// Bytes of this rank's block in the arena. What it takes privately is in the ledger under [`Purpose::Comm`](crate::Purpose::Comm)
    /// and [`Purpose::Team`](crate::Purpose::Team).
    pub fn block_bytes(&self) -> usize {
        self.layout.bytes as usize
    }

    /// Lets all later calls use this algorithm where it will do, and one that always does where not; `None` lets them choose again.
    /// Collective in the sense that all members must say the same before the same call.
    pub fn force(&self, algorithm: impl Into<Option<Algorithm>>) {
        let number = algorithm.into().map_or(0, |algorithm| algorithm as u8 + 1);
        self.forced.store(number, Ordering::Relaxed);
    }

    /// Waits until all members have come here, and gives the group back. Collective.
    pub fn free(self) -> Result<()> {
        self.barrier()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let mut talk = Talk { group: &self, state, mark: 0, call: 0 };
        talk.settle();
        // All have come, and what they sent is there: nobody sends anything more. Behind the next meeting nobody looks at a block, either.
        talk.state.parted = Some(talk.guests());
        talk.part();
        let [node, all] =
            [talk.state.node_team.take(), talk.state.team.take()].map(|team| team.map_or(Ok(()), Team::free));
        node.and(all)
    }

    /// Parts the members into groups: those that give the same colour are in one, in the order of their keys, and of their numbers where the
    /// keys are equal. Collective. Whoever gives `None` is in no group.
    pub fn split(&self, colour: impl Into<Option<u32>>, key: i64) -> Result<Option<Group<'w>>> {
        let _turn = self.enter()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.carry_on(&mut state, |_| true);
        let Some(team) = state.team.as_ref().filter(|_| state.broken.is_none()) else {
            let why = state.broken.map_or(Error::Closed("the group has ended".into()), Broken::error);
            return self.world.note(Err(why));
        };
        self.is_parted.store(true, Ordering::Relaxed);
        let team = team.team_split(self.world, colour, key)?;
        team.map(|team| self.world.note(make::make(self.world, Some(team), self.options))).transpose()
    }

    /// Whether the members have made other groups, or something else, of it, which may outlive it.
    pub(crate) fn is_parted(&self) -> bool {
        self.is_parted.load(Ordering::Relaxed)
    }

    /// Ends this member's part without a word to the others, who may be in the last call: what they may need is kept until it is [ended](Remains::end).
    pub(crate) fn end_quietly(mut self) -> Remains {
        self.is_quiet.store(true, Ordering::Relaxed);
        let (memory, block) = (self.memory.take(), self.block);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody carries on with what was started: others may wait for it.
        if let Some(job) = state.jobs.front() {
            let left = Broken::left(self.world.rank(), job.call()[0] - 1);
            Talk { group: &self, state: &mut state, mark: 0, call: 0 }.leave(left);
        }
        let teams = [state.node_team.take(), state.team.take()].into_iter().flatten().collect();
        let guests = Talk { group: &self, state: &mut state, mark: 0, call: 0 }.guests();
        let (wide, room) = (std::mem::take(&mut state.wide), std::mem::take(&mut state.room).into_memory());
        drop(state);
        Remains { teams, memory, wide, room, guests, block }
    }

    fn address(&self) -> GlobalAddress {
        self.block
    }

    /// Lets one thread of this rank do something with the group, and then the next.
    fn enter(&self) -> Result<Turn<'_>> {
        let (me, holder) = (this_thread(), &self.holder);
        if holder.load(Ordering::Relaxed) == me {
            let wrong = "an operation of a collective calls its own group".to_string();
            return self.world.note(Err(Error::Misuse(wrong)));
        }
        self.world.tell_later();
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        holder.store(me, Ordering::Relaxed);
        Ok(Turn { holder, _turn: turn })
    }

    /// The same, if no other thread does.
    fn enter_if_free(&self) -> Option<Turn<'_>> {
        let turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.holder.store(this_thread(), Ordering::Relaxed);
        Some(Turn { holder: &self.holder, _turn: turn })
    }

    fn has(&self, world_rank: Rank) -> bool {
        self.members.position(world_rank).is_some()
    }

    /// The blocks of the members of this node, if there is a table of them.
    fn near_blocks(&self) -> impl Iterator<Item = GlobalAddress> + use<'_, 'w> {
        let count = if self.layout.half > 0 { self.near.count } else { 0 };
        (0..count).filter_map(|index| self.near_block(index).ok())
    }

    /// The block of a member of this node, if it is known and this process may touch it.
    #[inline]
    fn known(&self, index: u32) -> Option<Span<'w>> {
        let known = self.known.get(index as usize)?;
        // A forked child may not.
        self.world.local().can_touch(self.world.rank()).then_some(*known)
    }

    fn near_block(&self, index: u32) -> Result<GlobalAddress> {
        if let Some(block) = self.known(index) {
            return Ok(block.address());
        }
        let place = self.layout.table + 8 * u64::from(index);
        let table = self.world.local().span(self.near.first, place + 8)?;
        match table.load(place)? {
            0 => Err(Error::Closed("a member has not come into the group".into())),
            word => Ok(GlobalAddress::from_bits(word & !block::SPINS)),
        }
    }

    /// Does something that all members do at once. What tells them apart is in the mark.
    fn run<T>(
        &self,
        name: &'static str,
        mark: u64,
        work: impl FnOnce(&mut Talk<'_, 'w>) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        // What was started before comes before it. If that fails, so does this.
        let _ = self.carry_on(state, |_| true);
        if let Some(broken) = state.broken {
            Talk { group: self, state, mark: 0, call: 0 }.tell();
            return self.world.note(Err(broken.error()));
        }
        let mark = state.begin(self.number, name, mark);
        let call = state.call;
        let mut guard = Guard(Talk { group: self, state, mark, call }, true);
        let done = guard.begin().and_then(|()| work(&mut guard.0));
        guard.1 = false;
        match done.and_then(|done| guard.0.post(true).map(|()| done)) {
            Ok(done) => Ok(done),
            Err(error) => {
                let error = guard.0.give_up(error);
                self.world.note(Err(error))
            }
        }
    }
}

/// What is left of a group that a member has ended quietly.
pub(crate) struct Remains {
    teams: Vec<Team>,
    memory: Option<(Region<u64>, Booking)>,
    wide: Vec<wide::WideRing>,
    room: Option<Region<u64>>,
    guests: Vec<(u64, Rank)>,
    block: GlobalAddress,
}

impl std::fmt::Debug for Remains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remains({:?})", self.block)
    }
}

impl Remains {
    /// The others need nothing of it any more, or are not waited for.
    pub(crate) fn end(self, world: &World) {
        let Remains { teams, memory, wide, room, guests, block } = self;
        let _ = block::close(world.local(), block);
        drop(wide);
        if let Some((block, booked)) = memory {
            world.retire(Retired { block, room, guests, booked });
        }
        drop(teams);
    }
}

/// A number that no other thread has now, and that is not 0.
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// What a thread has while it is in a call.
struct Turn<'a> {
    holder: &'a AtomicUsize,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.holder.store(0, Ordering::Relaxed);
    }
}

/// A call that is not over: if the program panics in it, the others must know.
struct Guard<'a, 'w>(Talk<'a, 'w>, bool);

impl Guard<'_, '_> {
    fn begin(&mut self) -> Result<()> {
        self.0.check()?;
        self.0.reap()?;
        self.0.post(false)
    }
}

impl Drop for Guard<'_, '_> {
    fn drop(&mut self) {
        if self.1 {
            let _ = self.0.give_up(Error::Refused("the program panicked".into()));
        }
    }
}

impl State {
    /// The mark of the next call, which has those of all calls before in it: where nobody had to look at another one's mark, and they differed,
    /// the next marks that somebody looks at differ, too.
    fn begin(&mut self, group: u64, name: &str, mark: u64) -> u64 {
        self.call += 1;
        self.history = mix(mix(mix(mix(group, self.history), self.call), hash(name)), mark);
        self.history
    }
}

impl Talk<'_, '_> {
    /// Fails if the group is broken.
    fn check(&mut self) -> Result<()> {
        match self.own()?.load(block::BROKEN_AT)? {
            word if lanes::ends(word, self.call) => Err(self.heard(word)),
            _ => Ok(()),
        }
    }

    /// Breaks the group. What a partner has said goes before what this member has found.
    fn give_up(&mut self, error: Error) -> Error {
        let me = self.group.world.rank();
        let told = self.state.heard.or_else(|| {
            let word = self.own().and_then(|own| own.load(block::BROKEN_AT)).unwrap_or(0);
            Broken::of(word).filter(|_| lanes::ends(word, self.call))
        });
        // Whoever meets one that has left finds nothing where it was.
        let is_absence = matches!(
            error,
            Error::PeerLost { .. } | Error::Bounds { .. } | Error::Refused(_) | Error::Closed(_)
        );
        let (broken, error) = match told {
            Some(broken) if broken.cause != Cause::Left || is_absence => (broken, broken.error()),
            _ => {
                let broken = match &error {
                    Error::Misuse(why) if why.contains("do different things") => {
                        Broken::new(Cause::Differs, me)
                    }
                    // One that is there has only left, behind the call before at the earliest.
                    Error::PeerLost { rank, .. } if self.local().check_alive(*rank).is_ok() => {
                        Broken::left(*rank, self.call.saturating_sub(1))
                    }
                    error => Broken::by(error, me),
                };
                (broken, error)
            }
        };
        self.leave(broken);
        error
    }

    /// Leaves the group, for a reason. Whoever unwinds sends nothing: it may be past that. It does so later, if it goes on.
    fn leave(&mut self, broken: Broken) {
        self.state.broken = Some(broken);
        self.spread_near(broken);
        self.state.untold = Some(broken);
        if !std::thread::panicking() {
            self.tell();
        }
        self.state.node_team = None;
        self.state.team = None;
        self.state.end_jobs(broken);
    }

    /// Tells those on other nodes why this member has left, if they do not know.
    fn tell(&mut self) {
        if let Some(broken) = self.state.untold.take() {
            self.spread_far(broken);
            self.settle();
        }
    }

    /// Books memory for a while; a little is booked with the group.
    fn scratch(&self, bytes: usize) -> Result<Option<Booking>> {
        let is_much = bytes > SCRATCH_BYTES;
        is_much.then(|| self.group.world.book(Purpose::Comm, bytes as u64)).transpose()
    }

    /// Says to the members of this node that this one will never touch their blocks again.
    fn part(&self) {
        let (group, guests) = (self.group, self.group.layout.guests);
        let partners = self.state.lanes.iter().filter(|lane| lane.near).map(|lane| lane.block);
        let mut blocks: Vec<_> = partners.chain(group.near_blocks()).collect();
        // The table is in the block of the first member.
        blocks.sort_unstable_by_key(|block| (*block == group.near.first, block.bits()));
        blocks.dedup();
        for block in blocks.into_iter().filter(|block| *block != group.block) {
            let _ = retired::part(self.local(), block, guests + u64::from(group.near.me));
        }
    }

    /// The members of this node that may touch the own block: the byte in which each says that it does not any more, and its rank.
    fn guests(&self) -> Vec<(u64, Rank)> {
        let partners = self.state.lanes.iter().filter(|lane| lane.near).map(|lane| (lane.guest, lane.rank));
        let shown = if self.group.layout.half > 0 { self.group.near.count } else { 0 };
        let near = (0..shown).filter_map(|index| {
            let block = self.group.near_block(index).ok()?;
            Some((index, self.local().rank_of(block)))
        });
        let mut guests: Vec<_> =
            partners.chain(near).filter(|(index, _)| *index != self.group.near.me).collect();
        guests.sort_unstable();
        guests.dedup();
        guests.into_iter().map(|(at, rank)| (self.group.layout.guests + u64::from(at), rank)).collect()
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        // A forked child has no part in the group, and what a closed world had of it is gone.
        if self.world.local().check_alive(self.world.rank()).is_err() {
            return;
        }
        self.keep_decisions();
        let memory = self.memory.take();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let mut talk = Talk { group: self, state, mark: 0, call: 0 };
        if talk.state.team.is_some() {
            let unfinished = talk.state.jobs.front().map(|job| job.call()[0] - 1);
            let last = unfinished.unwrap_or(talk.state.call);
            talk.leave(Broken::left(self.world.rank(), last));
        }
        if !std::thread::panicking() {
            talk.tell();
            talk.settle();
        }
        let calls = talk.state.calls.drain(..);
        calls.for_each(|(_, posted)| self.world.memory.forget_call(posted));
        let guests = match talk.state.parted.take() {
            Some(guests) => guests,
            None => {
                let guests = talk.guests();
                talk.part();
                guests
            }
        };
        // Whoever is in the last call may look at the block, which is kept for that.
        if !self.is_quiet.load(Ordering::Relaxed) {
            let _ = block::close(self.world.local(), self.block);
        }
        // Nobody writes into them any more.
        talk.state.wide.clear();
        let room = std::mem::take(&mut talk.state.room).into_memory();
        if let Some((block, booked)) = memory {
            self.world.retire(Retired { block, room, guests, booked });
        }
    }
}
