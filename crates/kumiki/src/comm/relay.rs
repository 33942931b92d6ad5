//! Relays: buckets that go from each rank to the next, along a line.
//!
//! A relay is a segment buffer from each rank of the line to the next one, and what they need to know of each other: whether the one
//! before has more, and why somebody is not there any more. Programs that are parallel in time are such lines: each rank has a piece of
//! the time, takes what the piece before it came to, and gives what its own came to to the next.

use super::door::What;
use super::segments::{Segments, DONE};
use crate::data::agreement::{agree, Agreed, Circle, Handed, Wish};
use crate::{Error, Fate, GlobalPtr, Members, Pod, Purpose, Rank, Region, Result, Wait, World};
use kumiki_mem::Booking;
use std::time::Duration;

/// Bytes before the elements of a bucket: how many there are.
const HEAD_BYTES: usize = 8;
/// Why somebody has left, if he was not done: this, and the rank that is to blame.
const BROKEN: u64 = 1 << 32;

/// How a relay is made: the argument of [`World::relay`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct RelayOptions {
    segment: usize,
    depth: usize,
}

impl RelayOptions {
    /// Buckets of so many elements at most, of which so many are between a rank and the next: those that are under way, and those that
    /// have come and were not taken. Two are enough to work on one while the next one comes.
    pub const fn new(segment: usize, depth: usize) -> RelayOptions {
        RelayOptions { segment, depth }
    }
}

/// A line of ranks along which buckets of elements go, each to the next: from [`World::relay`].
///
/// The first rank [sends](Self::send); each takes the next bucket ([`receive`](Self::receive)), does something with it and
/// [passes it on](Self::pass_on), while the next one comes; the last one keeps what comes. Buckets come in the order in which they were
/// sent. A rank that is slow holds up those before it when all its buckets are full; their memory does not grow.
///
/// ```
/// use kumiki::comm::RelayOptions;
///
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let mut relay = world.relay::<f64>(RelayOptions::new(100, 2))?;
/// let mut came = 0;
/// if relay.is_first() && !relay.is_last() {
///     // Ten buckets; `send` cuts what is longer.
///     relay.send(&[1.0; 1000])?;
/// } else if !relay.is_first() {
///     while let Some(bucket) = relay.receive()? {
///         bucket.iter_mut().for_each(|value| *value += 1.0);
///         came += bucket.len();
///         if !relay.is_last() {
///             relay.pass_on()?;
///         }
///     }
///     assert_eq!(came, 1000);
/// }
/// // The next rank hears that this was all.
/// relay.close()?;
/// # world.finalize()
/// # }
/// ```
///
/// **Memory.** As many buckets as its depth in the heap for each of its two neighbours, and one in the process: booked when the relay is
/// made, and never more.
///
/// **Errors.** When a rank is lost its neighbours get [`PeerLost`](Error::PeerLost); they leave the relay with that, and so on along the
/// line: each gets an error that names the rank that was lost. So it is with one that drops its relay without [closing](Self::close) it; if that
/// is by a panic that it survives, ranks of other nodes learn it when it does something with channels, relays or segment buffers again.
pub struct Relay<'w, T: Pod> {
    world: &'w World,
    position: u32,
    ranks: u32,
    /// The ranks before and behind this one.
    neighbours: [Option<Rank>; 2],
    options: RelayOptions,
    before: Option<End>,
    behind: Option<End>,
    /// The bucket that was received last.
    bucket: Vec<T>,
    /// Why nothing more goes.
    failed: Option<Error>,
    is_over: bool,
    _booked: Booking,
}

/// An end of the segment buffer between this rank and a neighbour.
struct End {
    rank: Rank,
    segments: Segments,
    memory: Region<u64>,
}

impl<T: Pod> std::fmt::Debug for Relay<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, options) = (std::any::type_name::<T>(), self.options);
        write!(f, "Relay<{name}>(rank {} of {}, {options:?})", self.position, self.ranks)
    }
}

impl World {
    /// Makes a relay of all ranks, in the order of their numbers. Collective: all ranks call it with the same type and options; if they do
    /// not, or if a rank has no memory for it, every rank gets an error. See [`Relay`].
    pub fn relay<T: Pod>(&self, options: RelayOptions) -> Result<Relay<'_, T>> {
        let relay = self.relay_over(0..self.ranks(), options)?;
        relay.ok_or_else(|| Error::Closed("this rank is not in the world".into()))
    }

    /// Makes a relay of some ranks, in this order. Collective among all ranks. Gives `None` to those that are not in it.
    pub fn relay_over<T: Pod>(
        &self,
        members: impl Into<Members>,
        options: RelayOptions,
    ) -> Result<Option<Relay<'_, T>>> {
        let members = members.into();
        let prepared = members.check(self.ranks()).and_then(|()| prepare(self, &members, options));
        let wish = Wish::of::<T>("a relay", (options, &members));
        let (circle, look) = (Circle::all(self), |_| [prepared.is_err(), false]);
        let Agreed { counts, turn, .. } = agree(circle, &mut circle.lock(), wish, || Ok(Nothing), look)?;
        let relay = self.note(prepared)?;
        if let Some(missing) =
            counts.as_ref().ok().map(|[missing, _]| *missing).filter(|missing| *missing > 0)
        {
            let why = format!("{missing} ranks could not be in the relay; their errors say why");
            return self.note(Err(Error::Refused(why)));
        }
        let agreed = counts.map(drop);
        match relay {
            Some(relay) => relay.connect(agreed, turn).map(Some),
            None => self.note(agreed.map(|()| None)),
        }
    }
}

/// All ranks only agree.
struct Nothing;

impl<'w> Handed<'w> for Nothing {
    fn words(&self) -> [u64; 3] {
        [0; 3]
    }

    fn open(_: &'w World, _: [u64; 3]) -> Result<Self> {
        Ok(Nothing)
    }

    fn discard(self) -> Result<()> {
        Ok(())
    }
}

/// Takes what a rank needs for a relay; nothing if it is not in it.
fn prepare<'w, T: Pod>(
    world: &'w World,
    members: &Members,
    options: RelayOptions,
) -> Result<Option<Relay<'w, T>>> {
    let RelayOptions { segment, depth } = options;
    let bytes = segment.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_next_multiple_of(8));
    let bytes = bytes.and_then(|bytes| bytes.checked_add(HEAD_BYTES));
    let whole = bytes.and_then(|bytes| bytes.checked_mul(depth)).filter(|bytes| *bytes < 1 << 40);
    let (Some(bytes), Some(whole), false) = (bytes, whole, segment == 0 || depth == 0 || size_of::<T>() == 0)
    else {
        let element = size_of::<T>();
        return Err(Error::Misuse(format!(
            "a relay of {depth} buckets of {segment} elements, each of {element} bytes; at least 1 of 1, and less than 1 TiB, can be had"
        )));
    };
    let Some(position) = members.position(world.rank()) else { return Ok(None) };
    let booked = world.book(Purpose::Comm, (size_of::<Relay<'_, T>>() + segment * size_of::<T>()) as u64)?;
    let end = |what: What, rank: Option<Rank>| {
        let Some(rank) = rank else { return Ok(None) };
        let memory = world.alloc::<u64>(whole / 8)?;
        let buffer = memory.address();
        let segments = Segments::prepare(world, what, rank, buffer, bytes as u64, depth as u64)?;
        Ok::<_, Error>(Some(End { rank, segments, memory }))
    };
    let neighbours =
        [position.checked_sub(1).and_then(|before| members.get(before)), members.get(position + 1)];
    let before = end(What::RelayDestination, neighbours[0])?;
    let behind = end(What::RelaySource, neighbours[1])?;
    let (ranks, bucket) = (members.len(), Vec::new());
    let relay = Relay {
        world,
        position,
        ranks,
        neighbours,
        options,
        before,
        behind,
        bucket,
        failed: None,
        is_over: false,
        _booked: booked,
    };
    Ok(Some(relay))
}

impl<'w, T: Pod> Relay<'w, T> {
    /// Meets the neighbours, if this rank knows that all have agreed. If it does not know, they may wait for it, and are told.
    fn connect(mut self, agreed: Result<()>, turn: u64) -> Result<Relay<'w, T>> {
        let world = self.world;
        // Both must know of it before one is waited for; and if one is lost, the other one must be met to be told.
        for end in [&mut self.before, &mut self.behind].into_iter().flatten() {
            end.segments.announce(world, Some(turn))?;
        }
        self.settle(agreed)?;
        // Whoever has lost a rank when they agreed does not come: a loss of any rank ends this.
        let ends = [&mut self.before, &mut self.behind].into_iter().flatten();
        let met = ends.map(|end| end.segments.meet(world, Wait::FOREVER)).fold(Ok(()), Result::and);
        // Neighbours that were there at once may have been told by the same loss that nothing comes of it.
        let lost = match world.look_for(|| None::<Result<()>>, Wait::at_most(Duration::ZERO)) {
            Err(lost @ Error::PeerLost { .. }) => Err(lost),
            _ => Ok(()),
        };
        self.settle(met.and(lost))?;
        Ok(self)
    }

    /// The number of this rank in the line, from 0.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// How many ranks the line has.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Whether there is nobody before this rank.
    pub fn is_first(&self) -> bool {
        self.position == 0
    }

    /// Whether there is nobody behind this rank.
    pub fn is_last(&self) -> bool {
        self.position + 1 == self.ranks
    }

    /// The rank from which buckets come.
    pub fn previous(&self) -> Option<Rank> {
        self.neighbours[0]
    }

    /// The rank to which buckets go.
    pub fn next(&self) -> Option<Rank> {
        self.neighbours[1]
    }

    /// Waits for the next bucket, and gives its elements, which may be changed and [passed on](Self::pass_on). Meanwhile the next one
    /// comes. `None` when the rank before this one has closed its relay, and all that it sent has been taken.
    pub fn receive(&mut self) -> Result<Option<&mut [T]>> {
        self.check()?;
        let received = self.try_receive();
        match self.settle(received)? {
            true => Ok(Some(&mut self.bucket)),
            false => Ok(None),
        }
    }

    /// Whether [`receive`](Self::receive) would not wait: there is a bucket, or the rank before this one has closed its relay.
    pub fn has_bucket(&mut self) -> Result<bool> {
        self.check()?;
        let world = self.world;
        let look = |end: &End| match end.segments.ready_or_left(world)? {
            Some(_) => Ok(true),
            None => match world.local().check_alive(end.rank) {
                Ok(()) => Ok(false),
                // It may have sent its last one before it went.
                Err(gone) => end.segments.ready_or_left(world)?.map(|_| true).ok_or(gone),
            },
        };
        let is_ready = self.before.as_ref().map_or(Ok(false), look);
        self.settle(is_ready)
    }

    /// Waits for as many buckets as it takes to fill this memory: what the rank before this one has [sent](Self::send) at once, if it is as
    /// long. Fails if buckets end elsewhere, or if no more come.
    pub fn receive_into(&mut self, into: &mut [T]) -> Result<()> {
        let mut filled = 0;
        while filled < into.len() {
            let Some(bucket) = self.receive()? else {
                let wanted = into.len();
                let short = format!("the relay has ended with {filled} of {wanted} elements");
                return self.world.note(Err(Error::Closed(short)));
            };
            let Some(place) = into.get_mut(filled..filled + bucket.len()) else {
                let (came, left) = (bucket.len(), into.len() - filled);
                let wrong = format!("a bucket of {came} elements where {left} were wanted");
                return self.world.note(Err(Error::Misuse(wrong)));
            };
            place.copy_from_slice(bucket);
            filled += bucket.len();
        }
        Ok(())
    }

    /// Passes the bucket on that was received last, as it is now. Waits while the next rank has no room for it.
    pub fn pass_on(&mut self) -> Result<()> {
        self.check()?;
        let bucket = std::mem::take(&mut self.bucket);
        let passed = self.put(&bucket);
        self.bucket = bucket;
        self.settle(passed)
    }

    /// Sends elements to the next rank, in as many buckets as it takes. Waits while the next rank has no room for them. Fails with
    /// [`Closed`](Error::Closed) if that has closed its relay; this one stays as it is.
    pub fn send(&mut self, elements: &[T]) -> Result<()> {
        self.check()?;
        let sent = elements.chunks(self.options.segment).try_for_each(|bucket| self.put(bucket));
        self.settle(sent)
    }

    /// Ends the relay for this rank: the next one hears that no more comes. What was sent is there when this returns; what has come and
    /// was not received is dropped. It does not wait for the neighbours to do the same.
    pub fn close(mut self) -> Result<()> {
        self.check()?;
        self.leave(DONE)
    }

    fn try_receive(&mut self) -> Result<bool> {
        let world = self.world;
        let Some(before) = &mut self.before else {
            return Err(Error::Misuse("the first rank of a relay receives nothing".into()));
        };
        if let Some(why) = before.segments.wait_ready_or_left(world)? {
            return if why == DONE { Ok(false) } else { Err(left(why, before.rank)) };
        }
        let place = before.segments.segment();
        let (count, most) = (world.get(place)?, self.options.segment as u64);
        if count > most {
            let why = format!("rank {} has sent a bucket of {count} elements; {most} fit", before.rank);
            return Err(Error::Refused(why));
        }
        self.bucket.resize(count as usize, T::zeroed());
        let elements = GlobalPtr::<u8>::from_address(place.address().add(HEAD_BYTES as u64));
        world.get_slice(elements, bytemuck::cast_slice_mut(&mut self.bucket))?;
        // While this one is worked on there is room for another.
        before.segments.advance(world).map(|_| true)
    }

    /// Sends one bucket.
    fn put(&mut self, elements: &[T]) -> Result<()> {
        let world = self.world;
        let Some(behind) = &mut self.behind else {
            return Err(Error::Misuse("the last rank of a relay sends nothing".into()));
        };
        match behind.segments.wait_ready_or_left(world)? {
            Some(DONE) => {
                let why = format!("rank {} has closed its relay and takes no more", behind.rank);
                return Err(Error::Closed(why));
            }
            Some(why) => return Err(left(why, behind.rank)),
            None => {}
        }
        let place = behind.segments.segment();
        world.put(place, elements.len() as u64)?;
        let to = GlobalPtr::<u8>::from_address(place.address().add(HEAD_BYTES as u64));
        world.put_slice(to, bytemuck::cast_slice(elements))?;
        behind.segments.advance(world).map(drop)
    }

    fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |error| self.world.note(Err(error.clone())))
    }

    /// Leaves the relay, and lets the neighbours know why, if something has failed that has to do with others.
    fn settle<R>(&mut self, result: Result<R>) -> Result<R> {
        let error = match result {
            Ok(done) => return Ok(done),
            // The next rank wants no more: this one may close its relay, too.
            Err(error @ (Error::Misuse(_) | Error::Closed(_))) => return self.world.note(Err(error)),
            Err(error) => error,
        };
        let blamed = match &error {
            Error::PeerLost { rank, .. } => *rank,
            _ => self.world.rank(),
        };
        self.failed = Some(error.clone());
        let _ = self.leave(BROKEN | u64::from(blamed));
        self.world.note(Err(error))
    }

    fn leave(&mut self, why: u64) -> Result<()> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        let world = self.world;
        let ends = [self.behind.take(), self.before.take()].into_iter().flatten();
        let left = ends.map(|end| match std::thread::panicking() {
            true => {
                end.segments.abandon(world, Some(end.memory), why);
                Ok(())
            }
            false => end.segments.free_with(world, Some(end.memory), why),
        });
        left.fold(Ok(()), Result::and)
    }
}

/// Why a relay does not go on, when a neighbour has said so.
fn left(why: u64, neighbour: Rank) -> Error {
    let rank = why as u32;
    let why = match rank == neighbour {
        true => format!("rank {rank} has left the relay"),
        false => format!("rank {neighbour} has left the relay because of rank {rank}"),
    };
    Error::PeerLost { rank, fate: Fate::NotDone, why }
}

/// Dropping a relay breaks it for the others.
impl<T: Pod> Drop for Relay<'_, T> {
    fn drop(&mut self) {
        // A forked child has no part in it, and what a closed world had of it is gone.
        if self.world.local().check_alive(self.world.rank()).is_ok() {
            let _ = self.leave(BROKEN | u64::from(self.world.rank()));
        }
    }
}
