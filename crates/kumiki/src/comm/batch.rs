//! Many single words at once: those of other nodes travel together, hundreds in a message.

use super::{BATCH, COMM};
use crate::{AtomicOp, AtomicWord, Error, GlobalPtr, Purpose, Rank, Result, World};
use kumiki_mem::{Batch, Booking, Call, Done, Outcome, WordTask};
use std::collections::{BTreeSet, VecDeque};

/// Bytes of a message of words.
const BATCH_BYTES: usize = 10 << 10;
/// Messages to one destination that are under way at a time.
const MOST_UNDERWAY: usize = 2;
/// Bytes of a destination: one message that is being filled, the others with what the engine has of them, and where values that were
/// asked for belong.
const DESTINATION_BYTES: usize =
    (1 + 2 * MOST_UNDERWAY) * BATCH_BYTES + (1 + MOST_UNDERWAY) * (BATCH_BYTES / 9) * 4;

const _: () = assert!(DESTINATION_BYTES <= 64 << 10);

/// Values that there is room for before the first has come: whoever gives the list may be wrong about its length.
const MOST_RESERVED: usize = 1 << 16;

/// Whose words go together: those of a node, through one of its ranks; or those of one rank whose memory its neighbours cannot touch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Target {
    Node(u32),
    Rank(Rank),
}

/// A message of words, and where the value of each belongs.
#[derive(Default)]
struct Load {
    batch: Batch,
    /// Empty if no value is asked for.
    slots: Vec<u32>,
}

impl Load {
    fn push(&mut self, task: &WordTask, slot: Option<u32>) -> bool {
        if self.batch.is_empty() {
            self.batch = Batch::with_capacity(BATCH_BYTES);
        }
        let pushed = self.batch.push(task, BATCH_BYTES);
        if pushed {
            self.slots.extend(slot);
        }
        pushed
    }

    /// Its words in order, and where the value of each belongs.
    fn items(&self) -> impl Iterator<Item = (WordTask, Option<u32>)> + '_ {
        self.batch.tasks().enumerate().map(|(index, task)| (task, self.slots.get(index).copied()))
    }
}

/// Words that go one way.
struct Destination<'w> {
    target: Target,
    /// Who is asked.
    rank: Rank,
    filling: Load,
    underway: VecDeque<(Call<'w>, Load)>,
    _booked: Booking,
}

/// Words that are to be done, by where they are.
struct Batcher<'w, W> {
    world: &'w World,
    /// In order of their targets.
    destinations: Vec<Destination<'w>>,
    /// The one that was used last.
    last: usize,
    /// Ranks of other nodes whose neighbours cannot touch their memory.
    alone: BTreeSet<Rank>,
    /// Values that were asked for.
    values: Vec<W>,
    /// The first error: nothing more is done behind it.
    failed: Option<Error>,
}

impl<'w, W: AtomicWord> Batcher<'w, W> {
    fn new(world: &'w World) -> Batcher<'w, W> {
        let (destinations, values) = Default::default();
        Batcher { world, destinations, last: 0, alone: BTreeSet::new(), values, failed: None }
    }

    #[inline]
    fn is_near<T: AtomicWord>(&self, word: GlobalPtr<T>) -> bool {
        let local = self.world.local();
        local.is_near(local.rank_of(word.address()))
    }

    /// Fails if something has failed that nobody was told of by a flush.
    #[inline]
    fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Does what was asked of a word of another node, later.
    fn push(&mut self, task: &WordTask, slot: Option<u32>) -> Result<()> {
        self.check()?;
        let result = self.try_push(task, slot);
        self.failed = result.as_ref().err().cloned();
        self.world.note(result)
    }

    fn try_push(&mut self, task: &WordTask, slot: Option<u32>) -> Result<()> {
        let rank = self.world.local().rank_of(task.address());
        loop {
            // What comes while one is sent may say that its words go another way.
            let at = self.destination(rank)?;
            if self.destinations[at].filling.push(task, slot) {
                return Ok(());
            }
            self.send(at)?;
        }
    }

    /// Where words of a rank go.
    fn destination(&mut self, rank: Rank) -> Result<usize> {
        let target = match self.world.node_of(rank) {
            Some(node) if !self.alone.contains(&rank) => Target::Node(node),
            _ => Target::Rank(rank),
        };
        if self.destinations.get(self.last).is_some_and(|last| last.target == target) {
            return Ok(self.last);
        }
        self.last = match self.destinations.binary_search_by_key(&target, |known| known.target) {
            Ok(found) => found,
            Err(at) => {
                let booked = self.world.book(Purpose::Comm, DESTINATION_BYTES as u64)?;
                let (filling, underway) = Default::default();
                let new = Destination { target, rank, filling, underway, _booked: booked };
                self.destinations.insert(at, new);
                at
            }
        };
        Ok(self.last)
    }

    /// Sends what was gathered for a destination.
    fn send(&mut self, at: usize) -> Result<()> {
        while self.destinations[at].underway.len() >= MOST_UNDERWAY {
            let target = self.destinations[at].target;
            self.take_answer(at)?;
            if self.destinations.get(at).is_none_or(|known| known.target != target) {
                // Another one has come before it.
                return Ok(());
            }
        }
        let destination = &mut self.destinations[at];
        let Some(first) = destination.filling.batch.tasks().next() else { return Ok(()) };
        let local = self.world.local();
        if destination.underway.is_empty() && local.check_alive(destination.rank).is_err() {
            // Its neighbours may live.
            destination.rank = local.rank_of(first.address());
        }
        let load = std::mem::take(&mut destination.filling);
        let call = self.world.start_call(destination.rank, COMM, load.batch.request(BATCH))?;
        destination.underway.push_back((call, load));
        Ok(())
    }

    /// Waits for the oldest message to a destination.
    fn take_answer(&mut self, at: usize) -> Result<()> {
        let mut left = Vec::new();
        if !self.take_one(at, &mut left)? {
            return Ok(());
        }
        // Words of some ranks go another way from now on: behind those that are under way, and before those that are not.
        while self.take_one(at, &mut left)? {}
        let local = self.world.local();
        self.alone.extend(left.iter().map(|(task, _): &(WordTask, _)| local.rank_of(task.address())));
        let waiting = std::mem::take(&mut self.destinations[at].filling);
        left.extend(waiting.items());
        left.iter().try_for_each(|(task, slot)| self.try_push(task, *slot))
    }

    /// Waits for the oldest message to a destination, and gathers what was left of it. Whether something was, or more is to be taken
    /// because of it.
    fn take_one(&mut self, at: usize, left: &mut Vec<(WordTask, Option<u32>)>) -> Result<bool> {
        let destination = &mut self.destinations[at];
        let rank = destination.rank;
        let Some((call, load)) = destination.underway.pop_front() else { return Ok(false) };
        let reply = call.wait()?;
        let outcome = Outcome::read(&load.batch, &reply)?;
        if outcome.is_plain() {
            return Ok(!left.is_empty());
        }
        let local = self.world.local();
        for (index, (task, done)) in outcome.results(&load.batch).enumerate() {
            let slot = load.slots.get(index).copied();
            let value = match done {
                Done::Done => continue,
                Done::Value(value) => value,
                // Not even its owner can do it so: it is done alone, or shows what is wrong.
                Done::Left if local.rank_of(task.address()) == rank => {
                    self.world.memory.perform_word(&task)?
                }
                Done::Left => {
                    left.push((task, slot));
                    continue;
                }
            };
            self.keep(slot, value);
        }
        Ok(!left.is_empty())
    }

    fn keep(&mut self, slot: Option<u32>, value: u64) {
        if let Some(place) = slot.and_then(|slot| self.values.get_mut(slot as usize)) {
            *place = WordTask::value(value);
        }
    }

    /// Sends everything, and waits until it is done.
    fn finish(&mut self) -> Result<()> {
        if let Some(error) = self.failed.take() {
            self.abandon();
            return Err(error);
        }
        let result = self.try_finish();
        if result.is_err() {
            self.abandon();
        }
        result
    }

    fn try_finish(&mut self) -> Result<()> {
        let is_busy = |known: &Destination<'_>| !known.filling.batch.is_empty() || !known.underway.is_empty();
        // All are sent before the first is waited for. What they leave may need another round.
        while self.destinations.iter().any(is_busy) {
            let mut at = 0;
            while at < self.destinations.len() {
                self.send(at)?;
                at += 1;
            }
            at = 0;
            while at < self.destinations.len() {
                match self.destinations[at].underway.is_empty() {
                    true => at += 1,
                    false => self.take_answer(at)?,
                }
            }
        }
        Ok(())
    }

    /// Gives up what is not under way, and waits for what is: nothing of it is done behind this.
    fn abandon(&mut self) {
        for destination in self.destinations.drain(..) {
            destination.underway.into_iter().for_each(|(call, _)| drop(call.wait()));
        }
        self.last = 0;
    }
}

/// Updates of single words, made one by one: those of this node are done at once, those of other nodes travel together.
///
/// Updates of one word through one stream are done in the order in which they were made. They are done when [`flush`](Self::flush)
/// returns, not before. Memory: at most 64 KiB for each node that words were sent to ([`bytes`](Self::bytes)), booked as
/// [`Purpose::Comm`]; a rank whose registered memory lies outside of the node's shared memory counts as a node.
///
/// ```
/// use kumiki::prelude::*;
///
/// # fn main() -> kumiki::Result<()> {
/// let world = World::init()?;
/// let histogram = world.shared_array::<u64>(16)?;
/// let mut stream = world.stream();
/// for sample in 0..1_000u64 {
///     let rank = sample as u32 % world.ranks();
///     stream.add(histogram.at(rank, sample as usize % 16), 1)?;
/// }
/// stream.flush()?;
/// world.sync()?;
/// # assert_eq!(histogram.get(0)? , 63);
/// # drop(stream);
/// # world.finalize()
/// # }
/// ```
///
/// An error says that something was not done: of what was streamed since the last flush, some may be done and some not. Nothing more is
/// done until `flush` has told it, and nothing of it behind that.
pub struct Stream<'w>(Batcher<'w, u64>);

impl std::fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({} destinations, {} bytes)", self.0.destinations.len(), self.bytes())
    }
}

impl Stream<'_> {
    /// Writes a word.
    #[inline]
    pub fn put<W: AtomicWord>(&mut self, to: GlobalPtr<W>, value: W) -> Result<()> {
        match self.0.check().map(|()| self.0.is_near(to))? {
            true => self.0.world.put(to, value),
            false => self.0.push(&WordTask::write(to, value), None),
        }
    }

    /// Adds to a word; integers wrap around.
    #[inline]
    pub fn add<W: AtomicWord>(&mut self, to: GlobalPtr<W>, value: W) -> Result<()> {
        self.update(to, AtomicOp::Add(value))
    }

    /// Changes a word. Its old value is not asked for.
    #[inline]
    pub fn update<W: AtomicWord>(&mut self, to: GlobalPtr<W>, operation: AtomicOp<W>) -> Result<()> {
        match self.0.check().map(|()| self.0.is_near(to))? {
            true => self.0.world.memory.fetch(to, operation).map(drop),
            false => self.0.push(&WordTask::change(to, operation, false), None),
        }
    }

    /// Waits until everything is done that was streamed.
    pub fn flush(&mut self) -> Result<()> {
        let result = self.0.finish();
        self.0.world.note(result)
    }

    /// Bytes of its buffers.
    pub fn bytes(&self) -> usize {
        self.0.destinations.len() * DESTINATION_BYTES
    }
}

/// Dropping a stream flushes it. An error then is one of the world; [`flush`](Stream::flush) tells it.
impl Drop for Stream<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.flush();
        }
    }
}

impl World {
    /// A stream of updates of single words.
    pub fn stream(&self) -> Stream<'_> {
        Stream(Batcher::new(self))
    }

    /// Writes many words. All are written when it returns; of two to one word the later one counts.
    ///
    /// ```
    /// use kumiki::prelude::*;
    ///
    /// # fn main() -> kumiki::Result<()> {
    /// let world = World::init()?;
    /// let table = world.shared_array::<u64>(8)?;
    /// let everywhere = || (0..world.ranks()).flat_map(|rank| (0..8).map(move |index| (rank, index)));
    /// if world.rank() == 0 {
    ///     world.put_many(everywhere().map(|(rank, index)| (table.at(rank, index), index as u64)))?;
    /// }
    /// world.sync()?;
    /// let values = world.get_many(everywhere().map(|(rank, index)| table.at(rank, index)))?;
    /// assert_eq!(values[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn put_many<W: AtomicWord>(&self, words: impl IntoIterator<Item = (GlobalPtr<W>, W)>) -> Result<()> {
        let mut stream = self.stream();
        for (to, value) in words {
            if let Err(error) = stream.put(to, value) {
                stream.0.failed.get_or_insert(error);
                break;
            }
        }
        stream.flush()
    }

    /// Reads many words: their values in the order of the pointers.
    pub fn get_many<W: AtomicWord>(&self, words: impl IntoIterator<Item = GlobalPtr<W>>) -> Result<Vec<W>> {
        self.ask_many(
            words.into_iter(),
            |word| *word,
            |world, word| world.get(*word),
            |word| WordTask::read(*word),
        )
    }

    /// Adds to many words; gives back what each held before. Updates of one word are done in the order given.
    pub fn fetch_add_many<W: AtomicWord>(
        &self,
        words: impl IntoIterator<Item = (GlobalPtr<W>, W)>,
    ) -> Result<Vec<W>> {
        self.fetch_many(words.into_iter().map(|(word, value)| (word, AtomicOp::Add(value))))
    }

    /// Changes many words; gives back what each held before. Updates of one word are done in the order given.
    pub fn fetch_many<W: AtomicWord>(
        &self,
        words: impl IntoIterator<Item = (GlobalPtr<W>, AtomicOp<W>)>,
    ) -> Result<Vec<W>> {
        self.ask_many(
            words.into_iter(),
            |(word, _)| *word,
            |world, (word, operation)| world.memory.fetch(*word, *operation),
            |(word, operation)| WordTask::change(*word, *operation, true),
        )
    }

    /// Asks for the values of many words: near ones at once, far ones together.
    fn ask_many<I, W: AtomicWord>(
        &self,
        items: impl Iterator<Item = I>,
        word: impl Fn(&I) -> GlobalPtr<W>,
        near: impl Fn(&World, &I) -> Result<W>,
        far: impl Fn(&I) -> WordTask,
    ) -> Result<Vec<W>> {
        let mut batcher = Batcher::<W>::new(self);
        let asked = self.ask_each(&mut batcher, items, word, near, far);
        if asked.is_err() {
            batcher.abandon();
        }
        asked.map(|()| batcher.values)
    }

    fn ask_each<I, W: AtomicWord>(
        &self,
        batcher: &mut Batcher<'_, W>,
        items: impl Iterator<Item = I>,
        word: impl Fn(&I) -> GlobalPtr<W>,
        near: impl Fn(&World, &I) -> Result<W>,
        far: impl Fn(&I) -> WordTask,
    ) -> Result<()> {
        batcher.values.reserve(items.size_hint().0.min(MOST_RESERVED));
        for item in items {
            let is_near = batcher.is_near(word(&item));
            batcher.values.push(if is_near { near(self, &item)? } else { W::zeroed() });
            if !is_near {
                let slot = u32::try_from(batcher.values.len() - 1);
                let slot = slot.map_err(|_| Error::Misuse("more than 2^32 words at once".into()));
                batcher.push(&far(&item), Some(self.note(slot)?))?;
            }
        }
        self.note(batcher.finish())
    }
}
