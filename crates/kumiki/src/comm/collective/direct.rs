//! Straight: members lend memory to each other, and bytes go there in one movement, without the blocks. For what is long.
//!
//! Each tells all others where its memory is (a note); then everybody reads what it needs, or writes what the others need, and all meet
//! before the memory is its owner's alone again; on a node most do so without a meeting (`spread.rs`). An error on the way ends the loan, and whoever still wants to read gets an error, too.

use super::lanes::differs;
use super::operation::{Aligned, Reduction};
use super::ring::split;
use super::spread::Gift;
use super::tree::chunks;
use super::{Talk, Web};
use crate::{GlobalAddress, GlobalPtr, Pod, Purpose, Result};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes that are read at a time where something is done with them meanwhile.
const CHUNK_BYTES: usize = 256 << 10;
/// The same on a node: it stays in the cache.
const NEAR_CHUNK_BYTES: usize = 128 << 10;
/// Chunks that are on their way while one is combined, and so many are written before one waits for that.
const READS_AHEAD: usize = 3;
const WRITES_BEHIND: usize = 16;

/// Where the memory of a member is, and how many bytes it has or wants.
pub(super) type Note = [u64; 3];
const NOTHING: Note = [0; 3];

/// What a member tells each other one: where its memory is, and which part of that is for it.
type Share = [u64; 4];

/// Who does something straight: members with lanes between them, or those of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Circle {
    Lanes(Web),
    Near,
}

/// Where the two pieces of memory are that a member lends, those before and behind its own part, and how many bytes there are with that.
pub(super) type Pieces = [u64; 5];

/// The same, and where the numbers are that it combines with those of others; nowhere, if they are where what comes of that goes.
type Loan = [u64; 7];

pub(super) fn pointer(note: Note, at: usize) -> GlobalPtr<u8> {
    GlobalPtr::from_parts(GlobalAddress::from_bits(note[0]), note[1]) + at
}

/// Where some bytes of the part of one member are in the memory of another, which lends the two pieces around its own part.
fn around(pieces: &Pieces, parts: &[Range<usize>], (me, member): (usize, usize), at: usize) -> GlobalPtr<u8> {
    match *pieces {
        [_, address, key, _, _] if me < member => pointer([address, key, 0], at),
        [_, _, _, address, key] => pointer([address, key, 0], at - parts[member].end),
    }
}

/// The parts of memory that these places are, of which each begins where the one before it ends.
pub(super) fn disjoint<'a>(mut memory: &'a mut [u8], places: &[Range<usize>]) -> Vec<&'a mut [u8]> {
    let part = |place: &Range<usize>| {
        let (part, rest) = std::mem::take(&mut memory).split_at_mut(place.len());
        memory = rest;
        part
    };
    places.iter().map(part).collect()
}

impl Talk<'_, '_> {
    /// All members.
    pub(super) fn circle(&self) -> Circle {
        let group = self.group;
        match group.near.count == group.count && group.layout.half > 0 {
            true => Circle::Near,
            false => Circle::Lanes(group.all),
        }
    }

    /// How many there are, and which of them this is.
    fn size(&self, circle: Circle) -> (usize, usize) {
        match circle {
            Circle::Lanes(web) => (web.count as usize, web.me as usize),
            Circle::Near => self.near(),
        }
    }

    /// Tells all members of a circle a note, and gives theirs.
    pub(super) fn tell_notes(&mut self, circle: Circle, note: Note) -> Result<Vec<Note>> {
        match circle {
            Circle::Lanes(web) => self.tell_over_lanes(web, note),
            Circle::Near => {
                let (count, me) = self.near();
                let bytes = size_of::<Note>();
                let mut notes = vec![NOTHING; count];
                notes[me] = note;
                let into = bytemuck::cast_slice_mut(&mut notes);
                self.stream(bytemuck::cast_slice(&note), into, &|index, _| Ok((0..bytes, index * bytes)))?;
                Ok(notes)
            }
        }
    }

    /// The same for any words, and members that have lanes between them.
    fn tell_over_lanes<W: Pod>(&mut self, web: Web, own: W) -> Result<Vec<W>> {
        let (count, bytes) = (web.count as usize, size_of::<W>());
        let mut all = vec![own; count];
        let places: Vec<_> = (0..count).map(|index| index * bytes..(index + 1) * bytes).collect();
        self.doubling_allgather(web, bytemuck::cast_slice_mut(&mut all), &places)?;
        Ok(all)
    }

    fn meet_circle(&mut self, circle: Circle) -> Result<()> {
        match circle {
            Circle::Lanes(web) => self.doubling_barrier(web),
            Circle::Near => self.meet(),
        }
    }

    /// Lends memory to the others while something is done. What is empty cannot be lent, and nobody wants it.
    fn lent<R>(&mut self, memory: &mut [u8], work: impl FnOnce(&mut Self, Note) -> Result<R>) -> Result<R> {
        let (world, bytes) = (self.group.world, memory.len() as u64);
        if memory.is_empty() {
            return work(self, NOTHING);
        }
        world.lend(memory, |lent| {
            let (address, registration) = lent.ptr().parts();
            work(self, [address.bits(), registration, bytes])
        })?
    }

    /// Lends memory that is only read, if there is some.
    fn lent_to_read<R>(
        &mut self,
        memory: Option<&[u8]>,
        work: impl FnOnce(&mut Self, [u64; 2]) -> Result<R>,
    ) -> Result<R> {
        match memory {
            Some(memory) if !memory.is_empty() => {
                let world = self.group.world;
                world.memory.lend_to_read(memory, |lent| {
                    let (address, registration) = lent.ptr().parts();
                    work(self, [address.bits(), registration])
                })?
            }
            _ => work(self, [0; 2]),
        }
    }

    /// Memory for notes, for a while.
    fn book_notes(&self, circle: Circle) -> Result<Option<kumiki_mem::Booking>> {
        self.scratch(self.size(circle).0 * 2 * size_of::<Share>())
    }

    /// Bytes of one go to all: each reads them.
    pub(super) fn direct_broadcast(&mut self, circle: Circle, root: usize, data: &mut [u8]) -> Result<()> {
        let (count, me) = self.size(circle);
        if count == 1 {
            return Ok(());
        }
        let world = self.group.world;
        let read = |note: Note, data: &mut [u8]| {
            if note[2] != data.len() as u64 {
                return Err(differs(format!("the root has {} bytes instead of {}", note[2], data.len())));
            }
            if !data.is_empty() {
                world.memory.get_awaited(pointer(note, 0), data)?;
            }
            Ok(())
        };
        match (circle, me == root) {
            (Circle::Near, true) => self.lent(data, |talk, note| talk.spread(note)),
            (Circle::Near, false) => self.use_spread(root as u32, |note| read(note, data)),
            (Circle::Lanes(web), true) => self.lent(data, |talk, mut note| {
                talk.tree_broadcast(web, root as u32, bytemuck::cast_slice_mut(&mut note))?;
                talk.doubling_barrier(web)
            }),
            (Circle::Lanes(web), false) => {
                let mut note = NOTHING;
                self.tree_broadcast(web, root as u32, bytemuck::cast_slice_mut(&mut note))?;
                read(note, data)?;
                self.doubling_barrier(web)
            }
        }
    }

    /// The parts of all come to all, each to its place; each has its own there, and reads those of the others.
    pub(super) fn direct_allgather(
        &mut self,
        circle: Circle,
        into: &mut [u8],
        places: &[Range<usize>],
    ) -> Result<()> {
        let (count, me) = self.size(circle);
        let _booked = self.book_notes(circle)?;
        let own = places[me].clone();
        let (before, rest) = into.split_at_mut(own.start);
        let (mine, behind) = rest.split_at_mut(own.len());
        self.lent(mine, |talk, note| {
            let notes = talk.tell_notes(circle, note)?;
            let wrong = (0..count).find(|member| notes[*member][2] != places[*member].len() as u64);
            if let Some(member) = wrong {
                return Err(differs(format!("member {member} has {} bytes", notes[member][2])));
            }
            talk.group.world.scope(|scope| {
                for (memory, members) in [(before, 0..me), (behind, me + 1..count)] {
                    let parts = disjoint(memory, &places[members.clone()]);
                    for (member, part) in members.zip(parts).filter(|(_, part)| !part.is_empty()) {
                        scope.get(pointer(notes[member], 0), part)?;
                    }
                }
                Ok(())
            })?;
            talk.meet_circle(circle)
        })
    }

    /// The same on a node, where each writes its part to all: what it has just written is in its cache, and would have to be fetched from there. A
    /// part that is not given is in its place.
    pub(super) fn near_allgather(
        &mut self,
        data: Option<&[u8]>,
        into: &mut [u8],
        places: &[Range<usize>],
    ) -> Result<()> {
        let (_, me) = self.near();
        let own = places[me].clone();
        let gift = |_| Gift { bytes: data.ok_or(own.len()), at: own.start };
        self.lent(into, |talk, note| talk.give_near(note, gift))
    }

    /// Combines elements of all, in the order of the members; each gets those of its part, which it reads from all others.
    pub(super) fn direct_combined(
        &mut self,
        circle: Circle,
        data: &mut [u8],
        parts: &[Range<usize>],
        reduction: Reduction<'_>,
    ) -> Result<Aligned> {
        let (count, me) = self.size(circle);
        let own = parts[me].clone();
        let mut combined = Aligned::default();
        let element = reduction.element.max(1);
        let chunk = (CHUNK_BYTES / element).max(1) * element;
        let _notes = self.book_notes(circle)?;
        let _booked = self.scratch(own.len() + 2 * chunk.min(own.len()))?;
        combined.resize(own.len());
        let (world, bytes) = (self.group.world, data.len() as u64);
        self.lent(data, |talk, note| {
            let notes = talk.tell_notes(circle, note)?;
            if let Some(member) = notes.iter().position(|note| note[2] != bytes) {
                return Err(differs(format!("member {member} has {} bytes", notes[member][2])));
            }
            let pieces = || chunks(own.len(), chunk).filter(|range| !range.is_empty());
            let reads: Vec<_> =
                pieces().flat_map(|range| (0..count).map(move |member| (member, range.clone()))).collect();
            let start = |index: usize, mut buffer: Vec<u8>| {
                let (member, range) = &reads[index];
                buffer.resize(range.len(), 0);
                world.get_into(pointer(notes[*member], own.start + range.start), buffer)
            };
            // One is read while the one before it is combined.
            let mut spare = Vec::new();
            let mut next = if reads.is_empty() { None } else { Some(start(0, Vec::new())?) };
            for (index, (member, range)) in reads.iter().enumerate() {
                let Some(reading) = next.take() else { break };
                if index + 1 < reads.len() {
                    next = Some(start(index + 1, std::mem::take(&mut spare))?);
                }
                let came = reading.complete()?;
                let place = &mut combined.bytes_mut()[range.clone()];
                match member {
                    0 => place.copy_from_slice(&came),
                    _ => (reduction.merge)(place, &came, false),
                }
                spare = came;
            }
            talk.meet_circle(circle)
        })?;
        Ok(combined)
    }

    /// Combines elements of all, on all: each combines a part, and reads the parts of the others, or gives it to them. Those of this member are given, or
    /// are where what comes of it goes.
    pub(super) fn direct_allreduce(
        &mut self,
        circle: Circle,
        given: Option<&[u8]>,
        data: &mut [u8],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let (count, _) = self.size(circle);
        let parts = element_parts(data.len(), count, reduction);
        match circle {
            Circle::Near => {
                if let Some(given) = given {
                    data.copy_from_slice(given);
                }
                self.near_allreduce(data, &parts, reduction)
            }
            Circle::Lanes(web) => self.far_allreduce(web, given, data, &parts, reduction),
        }
    }

    /// Each lends what is around its own part; it combines that part where it lies, while more of it comes from the others and what is combined goes to
    /// them. Nobody else reads or writes that part of theirs.
    fn far_allreduce(
        &mut self,
        web: Web,
        given: Option<&[u8]>,
        data: &mut [u8],
        parts: &[Range<usize>],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let (count, me, bytes) = (web.count as usize, web.me as usize, data.len() as u64);
        let (own, element) = (parts[me].clone(), reduction.element.max(1));
        let chunk = (CHUNK_BYTES / element).max(1) * element;
        let _notes = self.scratch(count * 2 * size_of::<Loan>())?;
        let _booked = self.scratch((READS_AHEAD + 2) * chunk.min(own.len()))?;
        let world = self.group.world;
        let (before, rest) = data.split_at_mut(own.start);
        let (mine, behind) = rest.split_at_mut(own.len());
        let mut combine = |talk: &mut Self, before: Note, behind: Note, numbers: [u64; 2]| {
            let own_loan = [bytes, before[0], before[1], behind[0], behind[1], numbers[0], numbers[1]];
            let loans = talk.tell_over_lanes::<Loan>(web, own_loan)?;
            if let Some(member) = loans.iter().position(|loan| loan[0] != bytes) {
                return Err(differs(format!("member {member} has {} bytes", loans[member][0])));
            }
            // Where some bytes of this member's part go in the memory of another, and where its numbers are.
            let place = |member: usize, at: usize| {
                let [pieces @ .., _, _] = &loans[member];
                around(pieces, parts, (me, member), own.start + at)
            };
            let numbers = |member: usize, at: usize| match loans[member] {
                [.., 0, _] => place(member, at),
                [.., address, key] => pointer([address, key, 0], own.start + at),
            };
            let others = |range: Range<usize>| {
                (0..count).filter(|member| *member != me).map(move |member| (member, range.clone()))
            };
            let mut reads = chunks(own.len(), chunk).filter(|range| !range.is_empty()).flat_map(others);
            let (mut begun, mut spare) = (VecDeque::new(), Vec::new());
            // Gives what was read next for memory that is not needed any more.
            let mut next = |used: Vec<u8>| {
                spare.push(used);
                while begun.len() <= READS_AHEAD {
                    let Some((member, range)) = reads.next() else { break };
                    let mut buffer = spare.pop().unwrap_or_default();
                    buffer.resize(range.len(), 0);
                    begun.push_back(world.get_into(numbers(member, range.start), buffer)?);
                }
                begun.pop_front().map_or_else(|| Ok(Vec::new()), |reading| reading.complete())
            };
            let (mut kept, mut came) = (Aligned::default(), Vec::new());
            let mut at = 0;
            for some in mine.chunks_mut(WRITES_BEHIND * chunk) {
                world.scope(|scope| {
                    for mine in some.chunks_mut(chunk) {
                        if let Some(given) = given {
                            mine.copy_from_slice(&given[own.start + at..][..mine.len()]);
                        }
                        merge_as_they_come(mine, reduction, (me, count), (&mut kept, &mut came), &mut next)?;
                        let mine = &*mine;
                        // Each begins with another one.
                        let mut members = (1..count).map(|step| (me + step) % count);
                        members.try_for_each(|member| scope.put(place(member, at), mine))?;
                        at += mine.len();
                    }
                    Ok(())
                })?;
            }
            talk.doubling_barrier(web)
        };
        self.lent_to_read(given, |talk, numbers| {
            talk.lent(before, |talk, before| {
                talk.lent(behind, |talk, behind| combine(talk, before, behind, numbers))
            })
        })
    }

    /// The same on a node, where nothing is gained by reading ahead. Each lends what is around its own part, combines that part where it lies, and gives it to
    /// all. Nobody else reads that part of theirs.
    fn near_allreduce(
        &mut self,
        data: &mut [u8],
        parts: &[Range<usize>],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let (count, me) = self.near();
        let (own, element, bytes) = (parts[me].clone(), reduction.element.max(1), data.len() as u64);
        let chunk = (NEAR_CHUNK_BYTES / element).max(1) * element;
        let _notes = self.book_notes(Circle::Near)?;
        let _booked = self.scratch(2 * chunk.min(own.len()))?;
        let world = self.group.world;
        let (before, rest) = data.split_at_mut(own.start);
        let (mine, behind) = rest.split_at_mut(own.len());
        self.lent(before, |talk, before| {
            talk.lent(behind, |talk, behind| {
                let pieces = talk.swap_pieces([bytes, before[0], before[1], behind[0], behind[1]])?;
                // Where some bytes of this member's part are in the memory of another.
                let place =
                    |member: usize, at: usize| around(&pieces[member], parts, (me, member), own.start + at);
                let mut buffers = Default::default();
                for range in chunks(own.len(), chunk).filter(|range| !range.is_empty()) {
                    let mine = &mut mine[range.clone()];
                    let read =
                        |member: usize, into: &mut [u8]| world.get_slice(place(member, range.start), into);
                    merge_alone(mine, reduction, (me, count), &mut buffers, read)?;
                    // Each begins with another one.
                    let mut members = (1..count).map(|step| (me + step) % count);
                    let mine = &*mine;
                    world.scope(|scope| {
                        members.try_for_each(|member| scope.put(place(member, range.start), mine))
                    })?;
                }
                talk.part_near()
            })
        })
    }

    /// Combines elements of all, on one: each combines a part, and that one reads them. The others keep what they have.
    pub(super) fn direct_reduce(
        &mut self,
        circle: Circle,
        root: usize,
        data: &mut [u8],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let (count, me) = self.size(circle);
        let parts = element_parts(data.len(), count, reduction);
        let mut combined = self.direct_combined(circle, data, &parts, reduction)?;
        if me == root {
            data[parts[me].clone()].copy_from_slice(combined.bytes());
        }
        self.lent(combined.bytes_mut(), |talk, note| {
            let notes = talk.tell_notes(circle, note)?;
            if me == root {
                for member in (0..count).filter(|member| *member != me) {
                    let into = &mut data[parts[member].clone()];
                    if notes[member][2] != into.len() as u64 {
                        return Err(differs(format!("member {member} has {} bytes", notes[member][2])));
                    }
                    if !into.is_empty() {
                        talk.group.world.memory.get_awaited(pointer(notes[member], 0), into)?;
                    }
                }
            }
            talk.meet_circle(circle)
        })
    }

    /// Bytes of all come to one, one member's behind the other's: each writes its own. Only that one knows the places.
    pub(super) fn direct_gather(
        &mut self,
        circle: Circle,
        root: usize,
        data: &[u8],
        into: &mut [u8],
        places: &[Range<usize>],
    ) -> Result<()> {
        let (_, me) = self.size(circle);
        let _booked = self.book_notes(circle)?;
        if me == root {
            if places[me].len() != data.len() {
                return Err(differs(format!("the root has {} bytes", data.len())));
            }
            into[places[me].clone()].copy_from_slice(data);
            return self.lent(into, |talk, note| {
                let notes = talk.tell_notes(circle, [note[0], note[1], data.len() as u64])?;
                let wrong =
                    (0..places.len()).find(|member| notes[*member][2] != places[*member].len() as u64);
                match wrong {
                    Some(member) => Err(differs(format!("member {member} has {} bytes", notes[member][2]))),
                    None => talk.meet_circle(circle),
                }
            });
        }
        let notes = self.tell_notes(circle, [0, 0, data.len() as u64])?;
        let start = notes[..me].iter().fold(0u64, |start, note| start.saturating_add(note[2]));
        if !data.is_empty() {
            if notes[root][0] == 0 {
                return Err(differs("the root has no room".into()));
            }
            self.group.world.memory.put_awaited(pointer(notes[root], start as usize), data)?;
        }
        self.meet_circle(circle)
    }

    /// Bytes of one go to all, to each its own: that one writes them.
    pub(super) fn direct_scatter(
        &mut self,
        circle: Circle,
        root: usize,
        data: &[u8],
        places: &[Range<usize>],
        into: &mut [u8],
    ) -> Result<()> {
        let (count, me) = self.size(circle);
        let _booked = self.book_notes(circle)?;
        if me != root {
            return self.lent(into, |talk, note| {
                talk.tell_notes(circle, note)?;
                talk.meet_circle(circle)
            });
        }
        let own = &data[places[me].clone()];
        if own.len() != into.len() {
            return Err(differs(format!("the root takes {} bytes instead of {}", into.len(), own.len())));
        }
        into.copy_from_slice(own);
        let notes = self.tell_notes(circle, [0, 0, into.len() as u64])?;
        if let Some(member) = (0..count).find(|member| notes[*member][2] != places[*member].len() as u64) {
            return Err(differs(format!("member {member} takes {} bytes", notes[member][2])));
        }
        self.group.world.scope(|scope| {
            let others = (0..count).filter(|member| *member != me && !places[*member].is_empty());
            for member in others {
                scope.put(pointer(notes[member], 0), &data[places[member].clone()])?;
            }
            Ok(())
        })?;
        self.meet_circle(circle)
    }

    /// Parts of each for each, all of the same length, on a node.
    pub(super) fn near_alltoall(&mut self, data: &[u8], into: &mut [u8], part: usize) -> Result<()> {
        let (_, me) = self.near();
        let gift =
            |member: usize| Gift { bytes: Ok(&data[member * part..(member + 1) * part]), at: me * part };
        self.lent(into, |talk, note| talk.give_near(note, gift))
    }

    /// Parts of each for each, of any lengths, which each reads from the others: what is read comes to its place without a copy. Takes memory
    /// for three shares a member for a while.
    pub(super) fn direct_alltoall(
        &mut self,
        web: Web,
        data: &[u8],
        out: &[Range<usize>],
        into: &mut [u8],
        places: &[Range<usize>],
    ) -> Result<()> {
        let (count, own) = (web.count as usize, web.me as usize);
        let _booked = self.group.world.book(Purpose::Comm, 3 * (count * size_of::<Share>()) as u64)?;
        if out[own].len() != places[own].len() {
            return Err(differs("a member sends itself another number of elements than it takes".into()));
        }
        self.lent_to_read(Some(data), |talk, [address, key]| {
            let share = |part: &Range<usize>| [address, key, part.start as u64, part.len() as u64];
            let shares: Vec<Share> = out.iter().map(share).collect();
            let mut told: Vec<Share> = vec![[0; 4]; count];
            talk.doubling_alltoall(web, bytemuck::cast_slice(&shares), bytemuck::cast_slice_mut(&mut told))?;
            let others = || (1..count).map(|step| (own + step) % count);
            for other in others() {
                let (sends, takes) = (told[other][3], places[other].len());
                if sends != takes as u64 {
                    return Err(differs(format!("member {other} sends {sends} bytes instead of {takes}")));
                }
            }
            let mut parts = disjoint(into, places);
            talk.group.world.scope(|scope| {
                // Each begins with another one.
                for other in others().filter(|other| !places[*other].is_empty()) {
                    let [address, key, start, _] = told[other];
                    scope
                        .get(pointer([address, key, 0], start as usize), std::mem::take(&mut parts[other]))?;
                }
                parts[own].copy_from_slice(&data[out[own].clone()]);
                Ok(())
            })?;
            // When all have read, nobody needs the memory any more.
            talk.doubling_barrier(web)
        })
    }

    /// Bytes come from a parent and go to children, who read them from this member: as much as is there, while more comes. Who has no
    /// parent has all.
    pub(super) fn passed_on(
        &mut self,
        parent: Option<usize>,
        children: &[usize],
        data: &mut [u8],
    ) -> Result<()> {
        let bytes = data.len();
        if children.is_empty() {
            let Some(parent) = parent else { return Ok(()) };
            let (note, mut have) = (self.take_note(parent, bytes)?, 0);
            while have < bytes {
                let end = self.take_token(parent, have, bytes)?;
                self.group.world.get_slice(pointer(note, have), &mut data[have..end])?;
                have = end;
            }
            return self.send(parent, &[]);
        }
        self.lent(data, |talk, own| {
            children.iter().try_for_each(|child| talk.send(*child, bytemuck::cast_slice(&own)))?;
            match parent {
                Some(parent) => talk.pass(parent, children, own, bytes)?,
                None => talk.give_tokens(children, bytes)?,
            }
            // They have read it, and this member need not be read from any more.
            children.iter().try_for_each(|child| talk.receive(*child, &mut []))?;
            parent.map_or(Ok(()), |parent| talk.send(parent, &[]))
        })
    }

    fn pass(&mut self, parent: usize, children: &[usize], own: Note, bytes: usize) -> Result<()> {
        let (world, note) = (self.group.world, self.take_note(parent, bytes)?);
        let mut have = 0;
        while have < bytes {
            let there = self.take_token(parent, have, bytes)?;
            while have < there {
                let end = there.min(have + CHUNK_BYTES);
                world.memory.copy_now(pointer(own, have), pointer(note, have), end - have)?;
                have = end;
                self.give_tokens(children, have)?;
            }
        }
        Ok(())
    }

    fn take_note(&mut self, parent: usize, bytes: usize) -> Result<Note> {
        let mut note = NOTHING;
        self.receive(parent, bytemuck::cast_slice_mut(&mut note))?;
        match note[2] == bytes as u64 {
            true => Ok(note),
            false => Err(differs(format!("the root has {} bytes instead of {bytes}", note[2]))),
        }
    }

    /// How many bytes a parent has by now.
    fn take_token(&mut self, parent: usize, have: usize, bytes: usize) -> Result<usize> {
        let mut token = [0u64];
        self.receive(parent, bytemuck::cast_slice_mut(&mut token))?;
        match usize::try_from(token[0]) {
            Ok(there) if there > have && there <= bytes => Ok(there),
            _ => Err(differs(format!("a member has {} bytes of {bytes}", token[0]))),
        }
    }

    fn give_tokens(&mut self, children: &[usize], have: usize) -> Result<()> {
        let token = [have as u64];
        children.iter().try_for_each(|child| self.send(*child, bytemuck::cast_slice(&token)))
    }
}

/// Parts of whole elements for so many members.
fn element_parts(bytes: usize, count: usize, reduction: Reduction<'_>) -> Vec<Range<usize>> {
    let size = reduction.element.max(1);
    split(bytes / size, count as u32).map(|part| part.start * size..part.end * size).collect()
}

/// Combines what all have of a part, in their order, where one of them has it. As only that one does it, it need not be done in the same way everywhere.
fn merge_alone(
    own: &mut [u8],
    reduction: Reduction<'_>,
    (me, count): (usize, usize),
    [kept, other]: &mut [Aligned; 2],
    read: impl Fn(usize, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let bytes = own.len();
    let fetch = |member: usize, into: &mut Aligned| {
        into.resize(bytes);
        read(member, into.bytes_mut())
    };
    if me > 0 {
        fetch(0, kept)?;
        for member in 1..me {
            fetch(member, other)?;
            (reduction.merge)(kept.bytes_mut(), other.bytes(), false);
        }
        (reduction.merge)(own, kept.bytes(), true);
    }
    for member in me + 1..count {
        fetch(member, other)?;
        (reduction.merge)(own, other.bytes(), false);
    }
    Ok(())
}

/// Combines a chunk of all members, in their order, where that of this one lies; `next` gives those of the others, one after the other.
fn merge_as_they_come(
    own: &mut [u8],
    reduction: Reduction<'_>,
    (me, count): (usize, usize),
    (kept, came): (&mut Aligned, &mut Vec<u8>),
    mut next: impl FnMut(Vec<u8>) -> Result<Vec<u8>>,
) -> Result<()> {
    if me > 0 {
        *came = next(std::mem::take(came))?;
    }
    if me == 1 {
        (reduction.merge)(own, came, true);
    }
    if me > 1 {
        kept.resize(own.len());
        kept.bytes_mut().copy_from_slice(came);
        for _ in 1..me {
            *came = next(std::mem::take(came))?;
            (reduction.merge)(kept.bytes_mut(), came, false);
        }
        (reduction.merge)(own, kept.bytes(), true);
    }
    for _ in me + 1..count {
        *came = next(std::mem::take(came))?;
        (reduction.merge)(own, came, false);
    }
    Ok(())
}
