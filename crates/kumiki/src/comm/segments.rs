//! Segment buffers: equal buffers at both ends, cut into segments, through which data goes in one direction.
//!
//! The program works inside its buffer. The source fills the segment at its *tail* and sends it; the destination reads the one at its
//! *head* and gives it back. Each end has a word that the other one writes: how many segments have come, and how many were given back.
//! A segment is at its place before the word says so. Nothing is copied but from buffer to buffer.

use super::door::{Knock, What};
use super::ends::never_made;
use super::left::{tell_near, Farewell, Left};
use crate::{AtomicOp, Error, GlobalAddress, GlobalPtr, Handle, Order, Rank, Region, Result, Wait, World};
use kumiki_mem::Activity;
use std::collections::VecDeque;

/// The word that the other end writes, and the one that old values go to.
const THEIRS: usize = 0;
pub(super) const OLD: usize = 1;
/// The word in which the other end says that it writes here no more, and why: it is done, if that is all.
pub(super) const LEFT: usize = 2;
pub(super) const DONE: u64 = 1;
pub(super) const WORDS: usize = 3;
/// The most segments and bytes of one: both go into one word of a knock.
const SEGMENT_BITS: u32 = 40;
const MOST_SEGMENTS: u64 = 1 << 24;

/// Where an end is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Nobody has heard of it.
    Prepared,
    Made,
    /// The word of the other end, and its buffer.
    Connected {
        word: GlobalAddress,
        buffer: GlobalAddress,
    },
    Disconnected,
}

/// An end of a segment buffer over memory by its address: what [`SegmentSource`](super::SegmentSource),
/// [`SegmentDestination`](super::SegmentDestination), relays and bindings are made of.
#[derive(Debug)]
pub struct Segments {
    what: What,
    peer: Rank,
    number: u64,
    words: Region<u64>,
    buffer: GlobalAddress,
    bytes: u64,
    count: u64,
    stage: Stage,
    /// Segments that this end has sent, or given back.
    mine: u64,
    /// Sends that are under way, the oldest first.
    sends: VecDeque<Handle>,
    /// What the other end does not know.
    farewell: Farewell,
}

impl Segments {
    /// The end that is filled, over `count` segments of `bytes` at `buffer`. It does not wait for the other one.
    pub fn source(
        world: &World,
        to: Rank,
        buffer: GlobalAddress,
        bytes: usize,
        count: usize,
    ) -> Result<Self> {
        world.note(Segments::new(world, What::Source, to, buffer, bytes as u64, count as u64))
    }

    /// The end that is read.
    pub fn destination(
        world: &World,
        from: Rank,
        buffer: GlobalAddress,
        bytes: usize,
        count: usize,
    ) -> Result<Self> {
        world.note(Segments::new(world, What::Destination, from, buffer, bytes as u64, count as u64))
    }

    fn new(
        world: &World,
        what: What,
        peer: Rank,
        buffer: GlobalAddress,
        bytes: u64,
        count: u64,
    ) -> Result<Self> {
        let mut made = Segments::prepare(world, what, peer, buffer, bytes, count)?;
        made.announce(world, None).map(|()| made)
    }

    /// Takes what an end needs.
    pub(super) fn prepare(
        world: &World,
        what: What,
        peer: Rank,
        buffer: GlobalAddress,
        bytes: u64,
        count: u64,
    ) -> Result<Self> {
        super::state::check_rank(world, peer)?;
        if bytes == 0 || bytes >> SEGMENT_BITS != 0 || count == 0 || count >= MOST_SEGMENTS {
            let most = MOST_SEGMENTS - 1;
            return Err(Error::Misuse(format!(
                "a segment buffer of {count} segments of {bytes} bytes: 1 to {most} segments, each of at least 1 byte"
            )));
        }
        let words = world.alloc::<u64>(WORDS)?;
        if !what.is_agreed() {
            world.comm().with_lobby(world, |lobby| lobby.reserve(world, what, peer))?;
        }
        let (stage, sends, farewell) = (Stage::Prepared, VecDeque::new(), Farewell::Said);
        Ok(Segments { what, peer, number: 0, words, buffer, bytes, count, stage, mine: 0, sends, farewell })
    }

    /// Says to the other rank that this end was made. Only now it is one of those that meet in their order, or by a number that both
    /// have agreed on.
    pub(super) fn announce(&mut self, world: &World, agreed: Option<u64>) -> Result<()> {
        let Segments { what, peer, buffer, bytes, count, .. } = *self;
        let told = [self.words.ptr().address().bits(), buffer.bits(), bytes | count << SEGMENT_BITS];
        self.number = world.comm().with_lobby(world, |lobby| {
            let number = agreed.map_or_else(|| lobby.number(world, what, peer), Ok)?;
            lobby.knock(peer, Knock { what, from: world.rank(), number, words: told });
            lobby.advance(world);
            Ok(number)
        })?;
        self.stage = Stage::Made;
        Ok(())
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> usize {
        self.bytes as usize
    }

    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.count as usize
    }

    /// Whether this end is the one that is filled.
    pub fn is_source(&self) -> bool {
        self.what.is_filled()
    }

    /// Whether both ends know each other. Fails if they are not alike.
    pub fn is_connected(&mut self, world: &World) -> Result<bool> {
        world.note(self.try_connect(world))
    }

    fn try_connect(&mut self, world: &World) -> Result<bool> {
        match self.stage {
            Stage::Connected { .. } => return Ok(true),
            Stage::Prepared | Stage::Disconnected => {
                return Err(Error::Misuse("the segment buffer was disconnected".into()))
            }
            Stage::Made => {}
        }
        let answer = world.comm().with_lobby(world, |lobby| {
            lobby.advance(world);
            lobby.trouble(self.what, self.peer, self.number)?;
            Ok(lobby.answer(self.what, self.peer, self.number))
        })?;
        let Some(knock) = answer else {
            return world.local().check_alive(self.peer).map(|()| false);
        };
        if knock.is_refusal() {
            self.stage = Stage::Disconnected;
            return Err(never_made(self.peer));
        }
        let [word, buffer, measures] = knock.words;
        if measures != self.bytes | self.count << SEGMENT_BITS {
            let (count, bytes) = (measures >> SEGMENT_BITS, measures & ((1 << SEGMENT_BITS) - 1));
            self.stage = Stage::Disconnected;
            return Err(Error::Misuse(format!(
                "rank {} has made its end of {count} segments of {bytes} bytes, this one has {} of {}",
                self.peer, self.count, self.bytes
            )));
        }
        let [word, buffer] = [word, buffer].map(GlobalAddress::from_bits);
        let local = world.local();
        if [word, buffer].iter().any(|address| local.rank_of(*address) != self.peer) {
            return Err(Error::Refused(format!("rank {} says that its memory is another's", self.peer)));
        }
        self.stage = Stage::Connected { word, buffer };
        Ok(true)
    }

    /// Waits until both ends know each other.
    pub fn connect(&mut self, world: &World) -> Result<()> {
        self.meet(world, Wait::FOREVER.from(self.peer).doing(Activity::Channel))
    }

    /// The same, as long as is said.
    pub(super) fn meet(&mut self, world: &World, wait: Wait) -> Result<()> {
        while !self.is_connected(world)? {
            let look = || {
                let knocked = world.comm().with_lobby(world, |lobby| {
                    lobby.advance(world);
                    lobby.trouble(self.what, self.peer, self.number)?;
                    Ok(lobby.has_answer(self.what, self.peer, self.number))
                });
                match knocked {
                    Ok(false) => None,
                    found => Some(found.map(drop)),
                }
            };
            world.memory.wait_for(look, wait)?;
        }
        Ok(())
    }

    /// Segments that the other end has sent, or given back.
    fn theirs(&self, world: &World) -> Result<u64> {
        // Whoever asks again and again must let what comes from other nodes come.
        let word = self.words.ptr().add(THEIRS);
        let seen = world.memory.get(word)?;
        match world.local().is_near(self.peer) {
            true => Ok(seen),
            false => world.memory.progress().and_then(|_| world.memory.get(word)),
        }
    }

    /// Segments that were sent and not given back; fails if that cannot be.
    fn full(&self, world: &World) -> Result<u64> {
        let theirs = self.theirs(world)?;
        let (tail, head) = if self.is_source() { (self.mine, theirs) } else { (theirs, self.mine) };
        let full = tail.checked_sub(head).filter(|full| *full <= self.count);
        full.ok_or_else(|| {
            Error::Refused(format!("rank {} has counted segments that were never sent", self.peer))
        })
    }

    /// Whether this end can go on: fill the segment at the tail, or read the one at the head.
    pub fn is_ready(&self, world: &World) -> Result<bool> {
        let full = world.note(self.full(world))?;
        Ok(if self.is_source() { full < self.count } else { full > 0 })
    }

    /// Waits until this end can go on. Fails if the other one has left, so that it never can.
    pub fn wait_ready(&mut self, world: &World) -> Result<()> {
        match self.wait_ready_or_left(world)? {
            None => Ok(()),
            Some(_) => {
                let why = format!("rank {} has freed its end of the segment buffer", self.peer);
                world.note(Err(Error::Closed(why)))
            }
        }
    }

    /// Waits until this end can go on, or until it cannot any more because the other one has left: why that has.
    pub(super) fn wait_ready_or_left(&mut self, world: &World) -> Result<Option<u64>> {
        self.connect(world)?;
        let this = &*self;
        let look = || this.ready_or_left(world).transpose();
        world.memory.wait_for(look, Wait::FOREVER.from(self.peer).doing(Activity::Channel))
    }

    /// Nothing as long as it must be waited.
    pub(super) fn ready_or_left(&self, world: &World) -> Result<Option<Option<u64>>> {
        // What was sent before it left is there when it has left.
        let left = self.left(world)?;
        let full = self.full(world)?;
        let is_ready = if self.is_source() { full < self.count && left == 0 } else { full > 0 };
        Ok(match (is_ready, left) {
            (true, _) => Some(None),
            (false, 0) => None,
            (false, why) => Some(Some(why)),
        })
    }

    /// Where the segment begins that can be filled, or read: in the buffer, and in global memory.
    pub(super) fn segment_at(&self) -> u64 {
        self.mine % self.count * self.bytes
    }

    pub(super) fn segment(&self) -> GlobalPtr<u64> {
        GlobalPtr::from_address(self.buffer.add(self.segment_at()))
    }

    /// Sends the segment at the tail, or gives back the one at the head. False if there is none.
    pub fn advance(&mut self, world: &World) -> Result<bool> {
        world.note(self.try_advance(world))
    }

    fn try_advance(&mut self, world: &World) -> Result<bool> {
        let Stage::Connected { word, buffer } = self.stage else {
            return Err(Error::Misuse("the segment buffer is not connected".into()));
        };
        if !self.is_ready(world)? {
            return Ok(false);
        }
        // Counts may overtake each other, but none a segment that it counts, or one before it.
        let mut order = Order::None;
        if self.is_source() {
            let at = self.segment_at();
            let (to, from) = (buffer.add(at), self.buffer.add(at));
            order = Order::After(world.copy(to, from, self.bytes as usize, Order::None)?);
        }
        let old = self.words.ptr().add(OLD).address();
        let handle = match self.is_source() || self.left(world)? == 0 {
            true => world.atomic(old, word, AtomicOp::Add(1u64), order),
            // A source that has left need not know; it may even be gone.
            false => return Ok(self.count_one()),
        };
        let handle = match handle {
            Err(Error::PeerLost { .. }) if !self.is_source() && self.left(world)? != 0 => {
                return Ok(self.count_one());
            }
            handle => handle?,
        };
        self.count_one();
        if !self.is_source() {
            // The last is all that matters.
            self.sends.clear();
        }
        self.sends.push_back(handle);
        // What was given back has long come.
        let under_way = self.full(world).unwrap_or(self.count).max(1) as usize;
        while self.sends.len() > under_way {
            self.sends.pop_front();
        }
        Ok(true)
    }

    fn count_one(&mut self) -> bool {
        self.mine += 1;
        true
    }

    /// Why the other end has left; 0 if it has not.
    fn left(&self, world: &World) -> Result<u64> {
        world.memory.get(self.words.ptr().add(LEFT))
    }

    /// Forgets what is complete.
    fn settle(&mut self, world: &World) -> Result<()> {
        while let Some(first) = self.sends.front() {
            if !world.inquire(*first)? {
                break;
            }
            self.sends.pop_front();
        }
        Ok(())
    }

    /// Segments that were given back.
    pub fn head(&self, world: &World) -> Result<u64> {
        if self.is_source() {
            self.theirs(world)
        } else {
            Ok(self.mine)
        }
    }

    /// Segments that were sent.
    pub fn tail(&self, world: &World) -> Result<u64> {
        if self.is_source() {
            Ok(self.mine)
        } else {
            self.theirs(world)
        }
    }

    /// Segments that were sent and are at their place.
    pub fn sent(&mut self, world: &World) -> Result<u64> {
        if !self.is_source() {
            return self.theirs(world);
        }
        self.settle(world)?;
        Ok(self.mine - self.sends.len() as u64)
    }

    /// Waits until everything that was sent or given back is where it belongs. This end is of no use afterwards.
    pub fn disconnect(&mut self, world: &World) -> Result<()> {
        self.leave(world, DONE)
    }

    /// The same, and says why.
    pub(super) fn leave(&mut self, world: &World, why: u64) -> Result<()> {
        let Stage::Connected { word, .. } = self.stage else {
            self.leave_unmet();
            return Ok(());
        };
        self.stage = Stage::Disconnected;
        self.sends.clear();
        let old = self.words.ptr().add(OLD).address();
        let left = word.add(8 * LEFT as u64);
        // Behind everything else that this end has written there.
        let last = world.atomic(old, left, AtomicOp::Swap(why), Order::All);
        match last.and_then(|last| world.complete(last)) {
            // Nobody is there to be told.
            Err(Error::PeerLost { .. }) => Ok(()),
            completed => completed,
        }
    }

    /// An end that has not met the other one tells it when it does.
    fn leave_unmet(&mut self) {
        if self.stage == Stage::Made {
            self.stage = Stage::Disconnected;
            self.farewell = Farewell::ToMeet(self.what, self.number);
        }
    }

    /// Gives it up. What the other end may still write to is kept until that has disconnected, too.
    pub fn free(self, world: &World) -> Result<()> {
        self.free_with(world, None, DONE)
    }

    /// The same with a buffer that the other end writes to, and why it is given up.
    pub(super) fn free_with(mut self, world: &World, buffer: Option<Region<u64>>, why: u64) -> Result<()> {
        let left = self.leave(world, why);
        if let Some(memory) = self.into_left(buffer, why) {
            world.leave_memory(memory);
        }
        left
    }

    /// Gives it up while the program unwinds, when nothing can be sent: a rank of this node is told, one of another when this
    /// rank does something with channels, relays or segment buffers again.
    pub(super) fn abandon(mut self, world: &World, buffer: Option<Region<u64>>, why: u64) {
        match self.stage {
            Stage::Connected { word, .. } if world.local().is_near(self.peer) => {
                tell_near(world, self.peer, word, why);
            }
            Stage::Connected { word, .. } => self.farewell = Farewell::ToTell(word),
            _ => self.leave_unmet(),
        }
        if let Some(memory) = self.into_left(buffer, why) {
            world.keep_memory(memory);
        }
    }

    /// What the other end may still write to: nothing if it has never heard of this one.
    fn into_left(self, buffer: Option<Region<u64>>, why: u64) -> Option<Left> {
        let Segments { words, peer, stage, farewell, .. } = self;
        (stage != Stage::Prepared).then_some(Left { words, _buffer: buffer, peer, farewell, why })
    }
}
