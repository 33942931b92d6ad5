//! Segment buffers: equal buffers at both ends, cut into segments, through which data goes in one direction.
//!
//! The program works inside its buffer. The source fills the segment at its *tail* and sends it; the destination reads the one at its
//! *head* and gives it back. Each end has a word that the other one writes: how many segments have come, and how many were given back.
//! A segment is at its place before the word says so. Nothing is copied but from buffer to buffer.

use super::door::{Knock, What};
use crate::{
    AtomicOp, Error, GlobalAddress, GlobalPtr, Handle, Order, Pod, Rank, Region, Registered, Result, Wait,
    World,
};
use std::collections::VecDeque;

/// The word that the other end writes, and the one that old values go to.
const THEIRS: usize = 0;
const OLD: usize = 1;
/// The word in which the other end says that it writes here no more.
pub(super) const LEFT: usize = 2;
const WORDS: usize = 3;
/// The most segments and bytes of one: both go into one word of a knock.
const SEGMENT_BITS: u32 = 40;
const MOST_SEGMENTS: u64 = 1 << 24;

/// Where an end is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Made,
    /// The word of the other end, and its buffer.
    Connected {
        word: GlobalAddress,
        buffer: GlobalAddress,
    },
    Disconnected,
}

/// An end of a segment buffer over memory by its address: what [`SegmentSource`], [`SegmentDestination`] and bindings are made of.
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
        super::state::check_rank(world, peer)?;
        if bytes == 0 || bytes >> SEGMENT_BITS != 0 || count == 0 || count >= MOST_SEGMENTS {
            let most = MOST_SEGMENTS - 1;
            return Err(Error::Misuse(format!(
                "a segment buffer of {count} segments of {bytes} bytes: 1 to {most} segments, each of at least 1 byte"
            )));
        }
        let words = world.alloc::<u64>(WORDS)?;
        let number = world.comm().with_lobby(|lobby| {
            let number = lobby.number(world, what, peer)?;
            let told = [words.ptr().address().bits(), buffer.bits(), bytes | count << SEGMENT_BITS];
            lobby.knock(peer, Knock { what, from: world.rank(), number, words: told });
            lobby.advance(world);
            Ok(number)
        })?;
        let (stage, sends) = (Stage::Made, VecDeque::new());
        Ok(Segments { what, peer, number, words, buffer, bytes, count, stage, mine: 0, sends })
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
        self.what == What::Source
    }

    /// Whether both ends know each other. Fails if they are not alike.
    pub fn is_connected(&mut self, world: &World) -> Result<bool> {
        world.note(self.try_connect(world))
    }

    fn try_connect(&mut self, world: &World) -> Result<bool> {
        match self.stage {
            Stage::Connected { .. } => return Ok(true),
            Stage::Disconnected => return Err(Error::Misuse("the segment buffer was disconnected".into())),
            Stage::Made => {}
        }
        let answer = world.comm().with_lobby(|lobby| {
            lobby.advance(world);
            lobby.trouble(self.what, self.peer, self.number)?;
            Ok(lobby.answer(self.what, self.peer, self.number))
        })?;
        let Some(Knock { words: [word, buffer, measures], .. }) = answer else {
            return world.local().check_alive(self.peer).map(|()| false);
        };
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
        while !self.is_connected(world)? {
            let look = || {
                let knocked = world.comm().with_lobby(|lobby| {
                    lobby.advance(world);
                    lobby.trouble(self.what, self.peer, self.number)?;
                    Ok(lobby.has_answer(self.what, self.peer, self.number))
                });
                match knocked {
                    Ok(false) => None,
                    found => Some(found.map(drop)),
                }
            };
            world.memory.wait_for(look, Wait::FOREVER.from(self.peer))?;
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

    /// Waits until this end can go on.
    pub fn wait_ready(&mut self, world: &World) -> Result<()> {
        self.connect(world)?;
        let this = &*self;
        let look = || match this.full(world) {
            Ok(full) if this.is_source() && full < this.count || !this.is_source() && full > 0 => {
                Some(Ok(()))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        };
        world.memory.wait_for(look, Wait::FOREVER.from(self.peer))
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
            let at = self.mine % self.count * self.bytes;
            let (to, from) = (buffer.add(at), self.buffer.add(at));
            order = Order::After(world.copy(to, from, self.bytes as usize, Order::None)?);
        }
        let old = self.words.ptr().add(OLD).address();
        let handle = world.atomic(old, word, AtomicOp::Add(1u64), order)?;
        self.mine += 1;
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
        let Stage::Connected { word, .. } = self.stage else {
            self.stage = Stage::Disconnected;
            return Ok(());
        };
        self.stage = Stage::Disconnected;
        self.sends.clear();
        let old = self.words.ptr().add(OLD).address();
        let left = word.add(8 * LEFT as u64);
        // Behind everything else that this end has written there.
        let last = world.atomic(old, left, AtomicOp::Swap(1u64), Order::All)?;
        match world.complete(last) {
            // Nobody is there to be told.
            Err(Error::PeerLost { .. }) => Ok(()),
            completed => completed,
        }
    }

    /// Gives it up. What the other end may still write to is kept until that has disconnected, too.
    pub fn free(mut self, world: &World) -> Result<()> {
        let disconnected = self.disconnect(world);
        world.leave_words(self.words);
        disconnected
    }
}

/// The end of a segment buffer that is filled: from [`World::segment_source`].
///
/// Both ends have a buffer of the same number of segments of the same length, and are made by their ranks without waiting for each other.
/// The source writes into the segment at its tail, in its own memory, and [sends](Self::send) it; the destination reads it in its own
/// memory, and [gives it back](SegmentDestination::release).
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let (next, last) = ((world.rank() + 1) % world.ranks(), (world.rank() + world.ranks() - 1) % world.ranks());
/// let mut source = world.segment_source::<f64>(next, 100, 4)?;
/// let mut destination = world.segment_destination::<f64>(last, 100, 4)?;
/// for step in 0..10 {
///     source.wait()?;
///     source.fill(&[step as f64; 100])?;
///     source.send()?;
///     destination.wait()?;
///     assert_eq!(destination.read()?, [step as f64; 100]);
///     destination.release()?;
/// }
/// source.free()?;
/// world.sync()?;
/// destination.free()?;
/// # world.finalize()
/// # }
/// ```
pub struct SegmentSource<'w, T: Pod> {
    world: &'w World,
    segments: Segments,
    memory: Registered<T>,
}

/// The end of a segment buffer that is read: from [`World::segment_destination`]. See [`SegmentSource`].
pub struct SegmentDestination<'w, T: Pod> {
    world: &'w World,
    segments: Segments,
    memory: Registered<T>,
}

impl<T: Pod> std::fmt::Debug for SegmentSource<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.segments.fmt(f)
    }
}

impl<T: Pod> std::fmt::Debug for SegmentDestination<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.segments.fmt(f)
    }
}

fn memory_for<T: Pod>(world: &World, length: usize, count: usize) -> Result<Registered<T>> {
    let elements =
        length.checked_mul(count).filter(|elements| elements.checked_mul(size_of::<T>()).is_some());
    match elements {
        Some(elements) => world.register(vec![T::zeroed(); elements]),
        None => world.note(Err(Error::Misuse(format!("{count} segments of {length} elements are too many")))),
    }
}

impl World {
    /// Makes the end of a segment buffer that is filled, with `count` segments of `length` elements. See [`SegmentSource`].
    pub fn segment_source<T: Pod>(
        &self,
        to: Rank,
        length: usize,
        count: usize,
    ) -> Result<SegmentSource<'_, T>> {
        let memory = memory_for(self, length, count)?;
        let segments = Segments::source(self, to, memory.ptr().address(), length * size_of::<T>(), count)?;
        Ok(SegmentSource { world: self, segments, memory })
    }

    /// Makes the end of a segment buffer that is read. See [`SegmentSource`].
    pub fn segment_destination<T: Pod>(
        &self,
        from: Rank,
        length: usize,
        count: usize,
    ) -> Result<SegmentDestination<'_, T>> {
        let memory = memory_for(self, length, count)?;
        let segments =
            Segments::destination(self, from, memory.ptr().address(), length * size_of::<T>(), count)?;
        Ok(SegmentDestination { world: self, segments, memory })
    }
}

impl<T: Pod> SegmentSource<'_, T> {
    /// Waits until the segment at the tail may be filled.
    pub fn wait(&mut self) -> Result<()> {
        self.segments.wait_ready(self.world)
    }

    /// Whether the segment at the tail may be filled.
    pub fn is_ready(&mut self) -> Result<bool> {
        Ok(self.segments.is_connected(self.world)? && self.segments.is_ready(self.world)?)
    }

    /// The elements of the segment at the tail, in memory of this rank.
    pub fn segment(&self) -> GlobalPtr<T> {
        segment(&self.memory, &self.segments)
    }

    /// Writes elements to the beginning of the segment at the tail.
    pub fn fill(&self, elements: &[T]) -> Result<()> {
        self.world.note(fits::<T>(&self.segments, elements.len()))?;
        self.world.put_slice(self.segment(), elements)
    }

    /// Sends the segment at the tail. False if all are full.
    pub fn send(&mut self) -> Result<bool> {
        self.segments.advance(self.world)
    }

    /// Waits until everything that was sent is at its place, and gives the memory back.
    pub fn free(self) -> Result<Box<[T]>> {
        self.segments.free(self.world)?;
        self.memory.take()
    }
}

impl<T: Pod> SegmentDestination<'_, T> {
    /// Waits until there is a segment at the head.
    pub fn wait(&mut self) -> Result<()> {
        self.segments.wait_ready(self.world)
    }

    /// Whether there is a segment at the head.
    pub fn is_ready(&mut self) -> Result<bool> {
        Ok(self.segments.is_connected(self.world)? && self.segments.is_ready(self.world)?)
    }

    /// The elements of the segment at the head, in memory of this rank.
    pub fn segment(&self) -> GlobalPtr<T> {
        segment(&self.memory, &self.segments)
    }

    /// Reads the segment at the head.
    pub fn read(&self) -> Result<Vec<T>> {
        let length = self.segments.segment_bytes() / size_of::<T>().max(1);
        self.world.get_vec(self.segment(), length)
    }

    /// Gives the segment at the head back to the source. False if there is none.
    pub fn release(&mut self) -> Result<bool> {
        self.segments.advance(self.world)
    }

    /// Gives the memory back. The source must not send any more.
    pub fn free(self) -> Result<Box<[T]>> {
        self.segments.free(self.world)?;
        self.memory.take()
    }
}

fn segment<T: Pod>(memory: &Registered<T>, segments: &Segments) -> GlobalPtr<T> {
    let index = segments.mine % segments.count;
    memory.ptr().add((index * segments.bytes) as usize / size_of::<T>().max(1))
}

fn fits<T: Pod>(segments: &Segments, elements: usize) -> Result<()> {
    let length = segments.segment_bytes() / size_of::<T>().max(1);
    match elements <= length {
        true => Ok(()),
        false => Err(Error::Misuse(format!("{elements} elements for a segment of {length}"))),
    }
}
