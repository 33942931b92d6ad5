//! What patterns cost.

use super::super::worker::{places, Draws, Measured, Request, Sampler, FIRST_WORD};
use super::flat::Flat;
use kumiki::comm::{Group, Messages, Receiver, Sender, Slots, SparseOptions, Sum};
use kumiki::data::SharedArray;
use kumiki::join::{Join, JoinGroup};
use kumiki::World;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The word of starter memory with the number of operations that rank 0 wants.
const COUNT_WORD: usize = FIRST_WORD as usize + 5;
/// Messages under way at a time: of long ones, and of short ones.
pub(in crate::bench) const WINDOW: u64 = 8;
const FLYING: u64 = 64;
/// Reads of a list.
const LIST: u64 = 4096;
/// What a sparse exchange is of, and to how many ranks each sends.
const PARTICLE_BYTES: usize = 48;
const NEIGHBOURS: u64 = 3;

type Particle = [u64; PARTICLE_BYTES / 8];

pub(in crate::bench) type Done<T> = Result<T, String>;

/// How ranks 0 and 1 send to each other.
enum Ends<'w> {
    /// The others do not.
    Nobody,
    Channels(Box<(Sender<'w, u64>, Receiver<'w, u64>)>),
    Messages(Messages<'w>, u32),
    /// Two programs that have joined.
    Joined(Box<JoinGroup<'w>>, u32),
}

/// The tag of messages.
const TAG: u64 = 7;
/// Longer messages are begun together.
const SHORT_WORDS: usize = 128;

impl Ends<'_> {
    fn send(&self, message: &[u64]) -> Done<()> {
        match self {
            Ends::Nobody => Ok(()),
            Ends::Channels(ends) => ends.0.send(message).map_err(text),
            Ends::Messages(messages, peer) => messages.send(*peer, TAG, message).map_err(text),
            Ends::Joined(all, peer) => all.send(*peer, TAG, message).map_err(text),
        }
    }

    fn receive(&self, into: &mut [u64]) -> Done<()> {
        match self {
            Ends::Nobody => Ok(()),
            Ends::Channels(ends) => ends.1.receive_into(into).map(drop).map_err(text),
            Ends::Messages(messages, peer) => messages.receive_into(into, *peer, TAG).map(drop).map_err(text),
            Ends::Joined(all, peer) => all.receive_into(into, *peer, TAG).map(drop).map_err(text),
        }
    }

    /// Sends messages of so many words: long ones at the same time, where there is a call for that.
    fn send_some(&self, messages: &[u64], words: usize) -> Done<()> {
        let mut parts = messages.chunks_exact(words);
        match self {
            Ends::Messages(ends, peer) if words > SHORT_WORDS => {
                ends.scope(|scope| parts.try_for_each(|part| scope.send(*peer, TAG, part))).map_err(text)
            }
            Ends::Joined(all, peer) if words > SHORT_WORDS => {
                all.scope(|scope| parts.try_for_each(|part| scope.send(*peer, TAG, part))).map_err(text)
            }
            _ => parts.try_for_each(|part| self.send(part)),
        }
    }

    /// Receives such messages.
    fn receive_some(&self, memory: &mut [u64], words: usize) -> Done<()> {
        let mut parts = memory.chunks_exact_mut(words);
        match self {
            Ends::Messages(ends, peer) if words > SHORT_WORDS => ends
                .scope(|scope| parts.try_for_each(|part| scope.receive_into(part, *peer, TAG)))
                .map_err(text),
            Ends::Joined(all, peer) if words > SHORT_WORDS => all
                .scope(|scope| parts.try_for_each(|part| scope.receive_into(part, *peer, TAG)))
                .map_err(text),
            _ => parts.try_for_each(|part| self.receive(part)),
        }
    }

    fn free(self) -> Done<()> {
        let Ends::Channels(ends) = self else { return Ok(()) };
        let freeing = ends.0.start_free().map_err(text)?;
        ends.1.free().map_err(text)?;
        freeing.wait().map(drop).map_err(text)
    }
}

pub(in crate::bench) fn text(error: kumiki::Error) -> String {
    error.to_string()
}

/// Nanoseconds of one operation of which all ranks do as many as rank 0 says. The clock of rank 0 counts.
pub(in crate::bench) fn together(
    world: &World,
    sampler: &mut Sampler,
    request: &Request,
    mut work: impl FnMut(u64) -> Done<()>,
) -> Measured {
    let word = |rank| Ok::<_, String>(world.starter::<u64>(rank).map_err(text)?.add(COUNT_WORD));
    let tell = |count: u64| -> Done<()> {
        // Whoever has not read the count before, as a work that waits for nobody lets it be, must do so first.
        world.sync().map_err(text)?;
        for rank in 0..world.ranks() {
            world.put(word(rank)?, count).map_err(text)?;
        }
        world.sync().map_err(text)
    };
    if world.rank() != 0 {
        let own = word(world.rank())?;
        loop {
            world.sync().map_err(text)?;
            world.sync().map_err(text)?;
            match world.get(own).map_err(text)? {
                0 => return Ok(Vec::new()),
                count => work(count)?,
            }
        }
    }
    let seconds = sampler.sample(&request.metric, request.reps, |count| {
        tell(count)?;
        let began = Instant::now();
        work(count)?;
        Ok::<Duration, String>(began.elapsed())
    });
    tell(0)?;
    Ok(seconds?.into_iter().map(|seconds| seconds * 1e9).collect())
}

/// After so many calls a group has decided how to do the next ones, if there is something to decide; and after so many of those that are long.
const MOST_TRIALS: u64 = 200;
const MOST_LONG_TRIALS: u64 = 44;

/// Measures the patterns of a world.
pub(in crate::bench) struct Comm<'a> {
    pub(super) world: &'a World,
    sampler: Sampler,
    /// All ranks; made when first needed.
    group: Option<Group<'a>>,
    /// The programs whose world this is, if it is of several, and all their processes.
    join: Option<&'a Join>,
    universe: Option<JoinGroup<'a>>,
    /// Bare sockets to other ranks.
    pub(super) flat: Option<Flat>,
}

impl<'a> Comm<'a> {
    pub(in crate::bench) fn new(world: &'a World, join: Option<&'a Join>) -> Comm<'a> {
        Comm { world, sampler: Sampler::default(), group: None, join, universe: None, flat: None }
    }

    /// Every rank calls it; the answer of rank 0 counts. The first value is the unit.
    pub(in crate::bench) fn measure(&mut self, request: &Request) -> (&'static str, Measured) {
        let parts = request.parts();
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        let (unit, measured) = match parts[1..] {
            [way @ ("channel" | "message" | "join"), "pingpong", bytes] => {
                ("ns", number(bytes).and_then(|bytes| self.ping_pong(way, bytes, request)))
            }
            [way @ ("channel" | "message"), "rate", bytes] => {
                ("ns", number(bytes).and_then(|bytes| self.one_way(way, bytes, FLYING, request)))
            }
            [way @ ("channel" | "message" | "join"), "bw", bytes] => {
                let rate = |bytes| Ok(to_rate(bytes, &self.one_way(way, bytes, WINDOW, request)?));
                ("MB/s", number(bytes).and_then(rate))
            }
            ["histogram", words] => ("ns", number(words).and_then(|words| self.histogram(words, request))),
            ["gather", words] => ("ns", number(words).and_then(|words| self.gather(words, request))),
            ["planes", side] => ("us", number(side).and_then(|side| self.halo(0, side, request))),
            ["columns", side] => ("us", number(side).and_then(|side| self.halo(2, side, request))),
            ["overlap", side] => ("x", number(side).and_then(|side| self.overlap(side, request))),
            ["sparse", bytes] => ("us", number(bytes).and_then(|bytes| self.sparse(bytes, request))),
            ["barrier"] => ("us", self.collective("barrier", 8, request)),
            [name @ ("bcast" | "allreduce" | "allgather" | "alltoall"), bytes] => {
                ("us", number(bytes).and_then(|bytes| self.collective(name, bytes, request)))
            }
            ["join", name @ ("bcast" | "allreduce"), bytes] => {
                ("us", number(bytes).and_then(|bytes| self.joined_collective(name, bytes, request)))
            }
            ["flat", name @ ("bcast" | "allreduce"), "8"] => ("us", self.flat_collective(name, request)),
            _ => ("ns", Err(format!("{} is not a metric known here", request.metric))),
        };
        let met = self.world.sync().map_err(text);
        (unit, met.and(measured))
    }

    /// Nanoseconds of one operation of which all ranks do as many as rank 0 says.
    pub(super) fn together(&mut self, request: &Request, work: impl FnMut(u64) -> Done<()>) -> Measured {
        together(self.world, &mut self.sampler, request, work)
    }

    /// A channel each way between ranks 0 and 1, or messages.
    fn ends(&self, way: &str, slots: Slots) -> Done<Ends<'a>> {
        let world = self.world;
        if world.rank() > 1 {
            return Ok(Ends::Nobody);
        }
        let peer = 1 - world.rank();
        if way == "message" {
            return Ok(Ends::Messages(world.messages(), peer));
        }
        if way == "join" {
            let all = self.joined()?.universe().map_err(text)?;
            return Ok(Ends::Joined(Box::new(all), peer));
        }
        let sender = world.sender::<u64>(peer).map_err(text)?;
        let receiver = world.receiver::<u64>(peer, slots).map_err(text)?;
        Ok(Ends::Channels(Box::new((sender, receiver))))
    }

    /// The programs that have joined.
    fn joined(&self) -> Done<&'a Join> {
        self.join.ok_or_else(|| "these are ranks of one launcher, not programs that have joined".into())
    }

    /// Half the time of a message there and one back.
    fn ping_pong(&mut self, way: &str, bytes: u64, request: &Request) -> Measured {
        let is_first = self.world.rank() == 0;
        let ends = self.ends(way, Slots::new(16, bytes as usize))?;
        let mut message = vec![0u64; bytes as usize / 8];
        let times = self.together(request, |count| {
            if matches!(ends, Ends::Nobody) {
                return Ok(());
            }
            for number in 0..count {
                if is_first {
                    message[0] = number;
                    ends.send(&message)?;
                }
                ends.receive(&mut message)?;
                if message[0] != number {
                    return Err("a message was wrong".into());
                }
                if !is_first {
                    ends.send(&message)?;
                }
            }
            Ok(())
        })?;
        ends.free()?;
        Ok(times.into_iter().map(|time| time / 2.0).collect())
    }

    /// Messages from rank 0 to rank 1, so many at a time, and one back for those.
    fn one_way(&mut self, way: &str, bytes: u64, flying: u64, request: &Request) -> Measured {
        let is_first = self.world.rank() == 0;
        let slot_bytes = bytes.min(64 << 10) as usize;
        let ends = self.ends(way, Slots::new(if bytes > 1024 { 8 } else { 128 }, slot_bytes))?;
        // Each from a place of its own, and to one, as with MPI.
        let bytes = bytes.max(8);
        let (words, places) = (bytes as usize / 8, places(bytes, flying));
        let (messages, mut memory) = (vec![1u64; words * places], vec![0u64; words * places]);
        let times = self.together(request, |count| {
            let mut left = count;
            while left > 0 {
                let now = left.min(flying);
                for begun in (0..now as usize).step_by(places) {
                    let some = words * places.min(now as usize - begun);
                    match is_first {
                        true => ends.send_some(black_box(&messages[..some]), words)?,
                        false => ends.receive_some(black_box(&mut memory[..some]), words)?,
                    }
                }
                match is_first {
                    true => ends.receive(&mut memory[..words])?,
                    false => ends.send(&[now])?,
                }
                left -= now;
            }
            Ok(())
        });
        ends.free()?;
        times
    }

    /// The group of all ranks.
    pub(super) fn take_group(&mut self) -> Done<Group<'a>> {
        match self.group.take() {
            Some(group) => Ok(group),
            None => self.world.group().map_err(text),
        }
    }

    /// Keeps it for the next metric.
    pub(super) fn give_group(&mut self, group: Group<'a>) {
        self.group = Some(group);
    }

    /// Microseconds of a call that all ranks make, of so many bytes.
    fn collective(&mut self, name: &str, bytes: u64, request: &Request) -> Measured {
        let group = self.take_group()?;
        let times = self.collective_of(&group, name, bytes, request);
        self.give_group(group);
        times
    }

    /// The same of all processes of all programs that have joined.
    fn joined_collective(&mut self, name: &str, bytes: u64, request: &Request) -> Measured {
        let all = match self.universe.take() {
            Some(all) => all,
            None => self.joined()?.universe().map_err(text)?,
        };
        let times =
            all.collectives().map_err(text).and_then(|group| self.collective_of(group, name, bytes, request));
        self.universe = Some(all);
        times
    }

    fn collective_of(&mut self, group: &Group<'a>, name: &str, bytes: u64, request: &Request) -> Measured {
        let (ranks, words) = (group.ranks(), bytes as usize / 8);
        let whole = if matches!(name, "allgather" | "alltoall") { words * ranks as usize } else { words };
        let (mut from, mut into) = (vec![1.0f64; whole], vec![0.0f64; whole]);
        let call = |number: u64, from: &mut [f64], into: &mut [f64]| match name {
            "barrier" => group.barrier(),
            "bcast" => group.broadcast((number % u64::from(ranks)) as u32, from),
            "allreduce" => group.allreduce_into(from, into, Sum),
            "allgather" => group.allgather(&from[..words], into),
            _ => group.alltoall(from, into),
        };
        // What is measured is what comes after the first calls, in which a group tries how to do it; MPI was told when it was made.
        let decided = group.decisions().len();
        let most = if 8 * whole >= 256 << 10 { MOST_LONG_TRIALS } else { MOST_TRIALS };
        for number in (0..most).take_while(|_| group.decisions().len() == decided) {
            call(number, &mut from, &mut into).map_err(text)?;
        }
        into.fill(0.0);
        let times = self.together(request, |count| {
            (0..count).try_for_each(|number| call(number, &mut from, &mut into)).map_err(text)
        })?;
        // Not while the clock runs: MPI is not asked to look, either.
        let expected = match name {
            "allreduce" => Some(f64::from(ranks)),
            "allgather" | "alltoall" => Some(1.0),
            _ => None,
        };
        let is_right = expected.is_none_or(|expected| into.iter().all(|value| *value == expected));
        let mut wrong = [u64::from(!is_right)];
        // The answer of the first counts.
        group.allreduce(&mut wrong, Sum).map_err(text)?;
        match wrong[0] == 0 {
            true => Ok(times.into_iter().map(|nanoseconds| nanoseconds / 1e3).collect()),
            false => Err(format!("a value of {name} is wrong")),
        }
    }

    /// Microseconds of an exchange in which each rank sends so many bytes of particles to three others.
    fn sparse(&mut self, bytes: u64, request: &Request) -> Measured {
        let world = self.world;
        let (me, ranks) = (u64::from(world.rank()), u64::from(world.ranks()));
        let (count, few) = ((bytes as usize / PARTICLE_BYTES).max(1), NEIGHBOURS.min(ranks - 1));
        // Each may be the one that all the others send to.
        let options = SparseOptions::default().room((count + 1) * ranks as usize);
        let mut exchange = world.sparse_exchange::<Particle>(options).map_err(text)?;
        let mut next = random(world.rank());
        let particles = vec![[me; PARTICLE_BYTES / 8]; count];
        let times = self.together(request, |steps| {
            for _ in 0..steps {
                let first = next();
                for neighbour in 0..few {
                    let to = (me + 1 + first.wrapping_add(neighbour) % (ranks - 1)) % ranks;
                    exchange.send(to as u32, black_box(&particles)).map_err(text)?;
                }
                for (source, particles) in exchange.finish().map_err(text)? {
                    if particles.len() != count || particles[0][0] != u64::from(source) {
                        return Err("particles were wrong".into());
                    }
                }
            }
            Ok(())
        })?;
        exchange.free().map_err(text)?;
        Ok(times.into_iter().map(|nanoseconds| nanoseconds / 1e3).collect())
    }

    /// A table of so many words over all ranks that have this value.
    fn table(&self, words: u64, value: u64) -> Done<(SharedArray<u64>, usize)> {
        let world = self.world;
        // Whose word it is, a program knows without a division.
        let share = words as usize / world.ranks() as usize;
        if !share.is_power_of_two() {
            return Err(format!("{words} words on {} ranks: no power of two for each", world.ranks()));
        }
        let table = world.shared_array::<u64>(share).map_err(text)?;
        let own = world.view(table.at(world.rank(), 0), share).map_err(text)?;
        (0..share).try_for_each(|index| own.store(index, value)).map_err(text)?;
        drop(own);
        world.sync().map_err(text)?;
        Ok((table, share))
    }

    /// Random updates of a table over all ranks, by all ranks at once.
    fn histogram(&mut self, words: u64, request: &Request) -> Measured {
        let world = self.world;
        let ranks = u64::from(world.ranks());
        let (table, share) = self.table(words, 0)?;
        let mut draws = Draws::new(world.rank(), words as usize);
        let mut done = 0;
        let near = Near::of(world, &table, share)?;
        let parts = near.parts();
        let times = self.together(request, |count| {
            let mut stream = world.stream();
            // In registers: behind an atomic operation memory is read again.
            let (parts, spread) = (parts.as_slice(), Spread::of(share));
            let mut left = count;
            while left > 0 {
                let places = draws.some(left);
                for &place in places {
                    let (rank, index) = spread.find(place);
                    match parts[rank].get(index) {
                        Some(word) => drop(word.fetch_add(1, Relaxed)),
                        None => stream.add(table.at(rank as u32, index), 1).map_err(text)?,
                    }
                }
                left -= places.len() as u64;
            }
            stream.flush().map_err(text)?;
            done += count;
            world.sync().map_err(text)
        })?;
        world.sync().map_err(text)?;
        // Every rank did as many.
        let own = world.view(table.at(world.rank(), 0), share).map_err(text)?;
        let mut sum = 0u64;
        for index in 0..share {
            sum += own.load(index).map_err(text)?;
        }
        drop(own);
        drop(near);
        let total = world.starter::<u64>(0).map_err(text)?.add(COUNT_WORD + 1);
        world.fetch_add(total, sum).map_err(text)?;
        world.sync().map_err(text)?;
        let found = world.get(total).map_err(text)?;
        world.sync().map_err(text)?;
        if world.rank() == 0 {
            world.put(total, 0).map_err(text)?;
            if found != done * ranks {
                return Err(format!("{found} updates of {} are in the table", done * ranks));
            }
        }
        Ok(times)
    }

    /// Random reads of a table over all ranks, by all ranks at once.
    fn gather(&mut self, words: u64, request: &Request) -> Measured {
        let world = self.world;
        let (table, share) = self.table(words, 7)?;
        let near = Near::of(world, &table, share)?;
        let parts = near.parts();
        let mut draws = Draws::new(world.rank(), words as usize);
        self.together(request, |count| {
            let (parts, spread) = (parts.as_slice(), Spread::of(share));
            let mut left = count;
            while left > 0 {
                let now = left.min(LIST);
                let mut sum = 0;
                let mut far = Vec::new();
                let mut of_list = now;
                while of_list > 0 {
                    let places = draws.some(of_list);
                    sum += places.iter().fold(0, |sum, &place| {
                        let (rank, index) = spread.find(place);
                        match parts[rank].get(index) {
                            Some(word) => sum + word.load(Relaxed),
                            None => {
                                far.push(table.at(rank as u32, index));
                                sum
                            }
                        }
                    });
                    of_list -= places.len() as u64;
                }
                sum += world.get_many(far).map_err(text)?.into_iter().sum::<u64>();
                if sum != 7 * now {
                    return Err("a word was wrong".into());
                }
                left -= now;
            }
            world.sync().map_err(text)
        })
    }
}

/// Views of the parts of a table that are on this node, as a program that knows where it runs has them.
struct Near<'w>(Vec<Option<kumiki::View<'w, u64>>>);

impl<'w> Near<'w> {
    fn of(world: &'w World, table: &SharedArray<u64>, share: usize) -> Done<Near<'w>> {
        let here = world.node_ranks();
        let view = |rank: u32| match here.contains(&rank) {
            true => world.view(table.at(rank, 0), share).map(Some).map_err(text),
            false => Ok(None),
        };
        (0..world.ranks()).map(view).collect::<Done<Vec<_>>>().map(Near)
    }

    /// The words of each rank that is on this node, of others none. This process has seen all of them: the system has no page of theirs to map later.
    fn parts(&self) -> Vec<&[AtomicU64]> {
        let parts: Vec<&[AtomicU64]> =
            self.0.iter().map(|view| view.as_ref().map_or(&[][..], |view| view.words())).collect();
        let seen = parts.iter().flat_map(|words| words.iter().step_by(512));
        black_box(seen.map(|word| word.load(Relaxed)).fold(0, u64::wrapping_add));
        parts
    }
}

/// How the words of a table lie on its ranks, on each a power of two of them.
#[derive(Clone, Copy)]
struct Spread {
    shift: u32,
    mask: usize,
}

impl Spread {
    fn of(share: usize) -> Spread {
        Spread { shift: share.ilog2(), mask: share - 1 }
    }

    /// Rank and index of a word.
    #[inline]
    fn find(self, place: usize) -> (usize, usize) {
        (place >> self.shift, place & self.mask)
    }
}

fn to_rate(bytes: u64, times: &[f64]) -> Vec<f64> {
    times.iter().map(|nanoseconds| bytes as f64 * 1e3 / nanoseconds).collect()
}

/// Random numbers, the same as those of peers.
fn random(rank: u32) -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_add(rank.into());
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}
