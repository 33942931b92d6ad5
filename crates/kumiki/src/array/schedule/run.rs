//! Running a plan: what goes to a receiver is packed into parcels, which it unpacks from where they lie if it is of the same node.
//!
//! A message has at most [`CHUNK_BYTES`]: what is longer goes in several, one a round, so that parcels stay in the cache and are used again. In a round a rank
//! sends to all and then takes from all. Before it sends it waits only for what it sent [`ROUNDS_AHEAD`] rounds before: whoever is the furthest behind waits for nobody.

use super::plan::{Peer, Plan, Scratch};
use crate::array::space::misuse;
use crate::comm::message::{Came, Lying, Tag, SHORT_BYTES};
use crate::comm::rows::{copy_between, Rows, Section, Sink, Source, STAGE_BYTES};
use crate::comm::{MessageReceiving, MessageSending, Messages};
use crate::{Error, Pending, Purpose, Rank, Result, World};
use kumiki_mem::Booking;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The messages of arrays: no program has this number.
const CONTEXT: u32 = 0x8000_0004;

/// Bytes of a message at most, in whole elements.
const CHUNK_BYTES: usize = 512 << 10;

/// How many rounds a rank may be ahead of one that it sends to.
const ROUNDS_AHEAD: usize = 3;

const _: () = assert!(SHORT_BYTES <= STAGE_BYTES);

/// A function of the elements that are there, which it changes, and those that come.
type Combine<'a> = dyn FnMut(&mut [u8], &[u8]) + 'a;

/// What is done with what comes.
enum Put<'a, 'b> {
    /// It goes to its place…
    Scatter,
    /// …or is combined with what is there: elements of so many bytes.
    Combine(&'a mut Combine<'b>, usize),
}

impl Put<'_, '_> {
    /// Does it with the next bytes of some rows, at most so many. Gives how many.
    fn put(
        &mut self,
        rows: &mut Rows<'_>,
        (source, at): (&(impl Source + ?Sized), usize),
        to: &mut [u8],
        most: usize,
        stage: &mut [u8],
    ) -> Result<usize> {
        let Put::Combine(combine, element) = self else { return rows.unpack((source, at), to, most, stage) };
        // As many elements as stay in the cache.
        let block = (STAGE_BYTES / (*element).max(1)).max(1) * *element;
        let whole = most.min(rows.left());
        let (mut came, mut there) = (vec![0; whole.min(block)], vec![0; whole.min(block)]);
        let mut done = 0;
        while done < whole {
            let bytes = block.min(whole - done);
            source.read(at + done, &mut came[..bytes])?;
            let mut before = *rows;
            before.pack(to, (&mut there[..bytes], 0), bytes, stage)?;
            combine(&mut there[..bytes], &came[..bytes]);
            done += rows.unpack((&there[..bytes], 0), to, bytes, stage)?;
        }
        Ok(done)
    }
}

/// Local parts of arrays: those of the source and the target, or one that is both.
enum Memory<'a> {
    Two(&'a [u8], &'a mut [u8]),
    One(&'a mut [u8]),
}

impl Memory<'_> {
    fn source(&self) -> &[u8] {
        match self {
            Memory::Two(from, _) => from,
            Memory::One(both) => both,
        }
    }

    fn target(&mut self) -> &mut [u8] {
        match self {
            Memory::Two(_, to) => to,
            Memory::One(both) => both,
        }
    }
}

/// A plan that runs: from [`Plan::start`]. What is received goes to its place in [`finish`](Self::finish). Plans that overlap in time are started in the same
/// order on all ranks; they may be finished in any. What comes for one that is dropped is thrown away, whenever it comes.
#[derive(Debug)]
#[must_use = "what is received goes to its place when it is finished"]
pub struct Underway<'w> {
    world: &'w World,
    plan: Arc<Plan>,
    sending: Vec<Sent<'w>>,
    /// What is not received yet.
    receiving: VecDeque<MessageReceiving<'w, u8>>,
    /// For all that comes.
    booked: Option<Booking>,
    /// What stays with this rank, as it was.
    kept: Scratch,
}

/// A message that is on its way: in a parcel, or in private memory that is booked.
#[derive(Debug)]
struct Sent<'w> {
    sending: MessageSending<'w>,
    is_parcel: bool,
    booked: Option<Booking>,
}

impl Sent<'_> {
    fn wait(self) -> Result<()> {
        let sent = self.sending.wait();
        drop(self.booked);
        sent
    }
}

/// What comes from a peer.
struct Incoming<'p, 'w> {
    leg: Leg<'p>,
    /// Bytes of which nothing has come.
    due: usize,
    fetch: Option<Fetch<'w>>,
}

impl<'p> Incoming<'p, '_> {
    fn new(leg: Leg<'p>) -> Self {
        Incoming { due: leg.left, leg, fetch: None }
    }

    /// Takes what is due, whenever it comes, and throws it away.
    fn throw_away(&self, messages: Messages<'_>) {
        let rounds = 0..self.due.div_ceil(self.leg.chunk);
        let receive = |_| messages.start_receive::<u8>(self.leg.rank, self.leg.number);
        // An error is the end of the world, or of the peer, and then nothing comes.
        throw_away(rounds.map_while(|round| receive(round).ok()).collect());
    }
}

/// A message that is being read from another node.
struct Fetch<'w> {
    pending: Pending<'w, u8>,
    booked: Option<Booking>,
    /// The sender has it until it is here.
    lying: Lying<'w>,
}

/// How far the pieces of one peer have come.
struct Leg<'p> {
    rank: Rank,
    /// Which of all exchanges with the peer it is, as a tag: what is left of another is never taken for a message of this one.
    number: Tag,
    /// Those that are not done.
    pieces: std::slice::Iter<'p, Section>,
    rows: Option<Rows<'p>>,
    left: usize,
    chunk: usize,
}

impl<'p> Leg<'p> {
    fn new(peer: &'p Peer, number: Tag, chunk: usize) -> Leg<'p> {
        Leg { rank: peer.rank, number, pieces: peer.pieces.iter(), rows: None, left: peer.bytes, chunk }
    }

    /// Bytes of the next message; none if there is none.
    fn next(&self) -> usize {
        self.left.min(self.chunk)
    }

    /// How many messages are left.
    fn rounds(&self) -> usize {
        self.left.div_ceil(self.chunk)
    }

    /// The rows of the piece that is not done.
    fn rows(&mut self) -> Option<&mut Rows<'p>> {
        while self.rows.as_ref().is_none_or(|rows| rows.left() == 0) {
            self.rows = Some(self.pieces.next()?.rows());
        }
        self.rows.as_mut()
    }

    /// Where the next message goes, if that is one place; then it counts as unpacked.
    fn pass_together(&mut self, bytes: usize) -> Option<Range<usize>> {
        let place = self.rows()?.pass_together(bytes)?;
        self.left -= bytes;
        Some(place)
    }

    /// Packs the next message.
    fn pack(&mut self, from: &[u8], sink: &mut (impl Sink + ?Sized), stage: &mut [u8]) -> Result<()> {
        let (bytes, mut done) = (self.next(), 0);
        while let Some(rows) = self.rows().filter(|_| done < bytes) {
            done += rows.pack(from, (sink, done), bytes - done, stage)?;
        }
        self.left -= bytes;
        Ok(())
    }

    /// Unpacks the next message.
    fn unpack(
        &mut self,
        source: &(impl Source + ?Sized),
        to: &mut [u8],
        put: &mut Put<'_, '_>,
        stage: &mut [u8],
    ) -> Result<()> {
        let (bytes, mut done) = (self.next(), 0);
        while let Some(rows) = self.rows().filter(|_| done < bytes) {
            done += put.put(rows, (source, done), to, bytes - done, stage)?;
        }
        self.left -= bytes;
        Ok(())
    }

    /// Fails if the next message, while so many bytes are due, should have another length.
    fn check(&self, came: usize, due: usize) -> Result<()> {
        match (self.rank, due.min(self.chunk)) {
            (_, wanted) if wanted == came => Ok(()),
            (rank, _) if came == 0 => Err(Error::Refused(format!(
                "rank {rank} does not send its part of an array: it was given an error in the same call"
            ))),
            (rank, wanted) => Err(Error::Misuse(format!(
                "rank {rank} sends {came} bytes of an array where {wanted} are expected: do all ranks make the same calls?"
            ))),
        }
    }
}

impl Plan {
    /// Sends what others get. When this returns the program may change the source.
    pub fn start<'w>(self: &Arc<Self>, world: &'w World, from: &[u8]) -> Result<Underway<'w>> {
        let (mut outs, ins) = self.numbered(world);
        let started = self.start_numbered(world, from, &mut outs, &ins);
        if started.is_err() {
            refuse(world, &outs);
        }
        started
    }

    fn start_numbered<'w>(
        self: &Arc<Self>,
        world: &'w World,
        from: &[u8],
        outs: &mut [Leg<'_>],
        ins: &[Leg<'_>],
    ) -> Result<Underway<'w>> {
        let messages = world.messages().context(CONTEXT);
        let mut underway = Underway {
            world,
            plan: self.clone(),
            sending: Vec::new(),
            receiving: VecDeque::new(),
            booked: None,
            kept: Scratch::default(),
        };
        for leg in ins {
            for _ in 0..leg.rounds() {
                underway.receiving.push_back(messages.start_receive::<u8>(leg.rank, leg.number)?);
            }
        }
        world.note(self.check("source", from.len(), self.from_bytes))?;
        // What comes may lie here until it is finished.
        let coming: usize = ins.iter().map(|leg| leg.left).sum();
        underway.booked = Some(world.note(world.book(Purpose::Comm, coming as u64))?);
        let plans = &world.arrays().plans;
        let mut stage = plans.scratch(world, STAGE_BYTES)?;
        for leg in outs {
            while leg.left > 0 {
                underway.sending.push(send(world, messages, leg, from, &mut stage.memory)?);
            }
        }
        plans.use_again(stage);
        underway.kept = self.keep(world, from)?;
        Ok(underway)
    }

    /// All of it: from the local part of one array to that of another.
    pub fn run(&self, world: &World, from: &[u8], to: &mut [u8]) -> Result<()> {
        self.exchange(world, Memory::Two(from, to), &mut Put::Scatter)
    }

    /// All of it, within the local part of one array: as if all were read before anything is written.
    pub fn run_inside(&self, world: &World, memory: &mut [u8]) -> Result<()> {
        self.exchange(world, Memory::One(memory), &mut Put::Scatter)
    }

    /// All of it, within the local part of one array: what comes is combined with what is there, by a function of the elements that are there, which it
    /// changes, and those that come.
    pub fn run_combining(
        &self,
        world: &World,
        memory: &mut [u8],
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        self.exchange(world, Memory::One(memory), &mut Put::Combine(combine, self.element))
    }

    /// Counts an exchange that goes another way; if that fails, those who wait for messages of it, or send some, are told.
    pub(super) fn instead(&self, world: &World, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let (outs, ins) = self.numbered(world);
        let done = work();
        if done.is_err() {
            give_up(world, &outs, &ins.into_iter().map(Incoming::new).collect::<Vec<_>>());
        }
        done
    }

    fn exchange(&self, world: &World, mut memory: Memory<'_>, put: &mut Put<'_, '_>) -> Result<()> {
        let (mut outs, ins) = self.numbered(world);
        let mut ins: Vec<Incoming<'_, '_>> = ins.into_iter().map(Incoming::new).collect();
        let exchanged = self.exchange_numbered(world, &mut memory, put, &mut outs, &mut ins);
        if exchanged.is_err() {
            give_up(world, &outs, &ins);
        }
        exchanged
    }

    fn exchange_numbered<'w>(
        &self,
        world: &'w World,
        memory: &mut Memory<'_>,
        put: &mut Put<'_, '_>,
        outs: &mut [Leg<'_>],
        ins: &mut [Incoming<'_, 'w>],
    ) -> Result<()> {
        world.note(self.check("source", memory.source().len(), self.from_bytes))?;
        world.note(self.check("target", memory.target().len(), self.to_bytes))?;
        let plans = &world.arrays().plans;
        let mut stage = plans.scratch(world, STAGE_BYTES)?;
        let exchanged = self.exchange_staged(world, memory, put, (outs, ins), &mut stage.memory);
        plans.use_again(stage);
        exchanged
    }

    fn exchange_staged<'w>(
        &self,
        world: &'w World,
        memory: &mut Memory<'_>,
        put: &mut Put<'_, '_>,
        (outs, ins): (&mut [Leg<'_>], &mut [Incoming<'_, 'w>]),
        stage: &mut [u8],
    ) -> Result<()> {
        let messages = world.messages().context(CONTEXT);
        let legs = outs.iter().chain(ins.iter().map(|incoming| &incoming.leg));
        let rounds = legs.map(Leg::rounds).max().unwrap_or(0);
        // Where what comes may go to where something is still to be read, all is read first.
        let reads_first = matches!(memory, Memory::One(_)) && !self.is_apart;
        let mut sending = VecDeque::new();
        let mut sent = 0;
        for round in 0..rounds {
            while sent < if reads_first { rounds } else { round + 1 } {
                let is_old = |(number, _): &(usize, _)| !reads_first && number + ROUNDS_AHEAD <= sent;
                while sending.front().is_some_and(is_old) {
                    sending.pop_front().map_or(Ok(()), |(_, old): (_, Sent<'_>)| old.wait())?;
                }
                for leg in outs.iter_mut().filter(|leg| leg.left > 0) {
                    sending.push_back((sent, send(world, messages, leg, memory.source(), stage)?));
                }
                sent += 1;
            }
            if round == 0 {
                self.copy_own(world, memory, put)?;
            }
            for incoming in ins.iter_mut().filter(|incoming| incoming.due > 0) {
                self.take(world, messages, incoming, memory.target(), put, stage)?;
            }
        }
        if rounds == 0 {
            self.copy_own(world, memory, put)?;
        }
        // What is in a parcel comes without this rank, unless there is much of it.
        let parcels = &world.arrays().plans.parcels;
        let mut leaving = Vec::new();
        for (_, sent) in sending {
            match sent.is_parcel && parcels.are_few(world) {
                true => leaving.push(sent.sending),
                false => sent.wait()?,
            }
        }
        // It must have left, though: what this rank does next may be a wait for one that waits for that.
        world.see_off(leaving.iter().filter_map(MessageSending::whither))?;
        self.see_notes_off(world)
    }

    /// Those that have sent something may wait for what is said about it.
    fn see_notes_off(&self, world: &World) -> Result<()> {
        world.see_off(self.takes.iter().map(|peer| (peer.rank, None)))
    }

    /// All that it sends and takes, which nothing has come of. Whatever goes wrong later, this is done once for each run, on all ranks.
    fn numbered(&self, world: &World) -> (Vec<Leg<'_>>, Vec<Leg<'_>>) {
        let mut numbers = world.arrays().plans.numbers();
        let outs = self.legs(&self.sends, |rank| numbers.next_out(rank));
        let ins = self.legs(&self.takes, |rank| numbers.next_in(rank));
        (outs, ins)
    }

    fn legs<'p>(&self, peers: &'p [Peer], mut number: impl FnMut(Rank) -> Tag) -> Vec<Leg<'p>> {
        let element = self.element.max(1);
        let chunk = (CHUNK_BYTES / element).max(1) * element;
        peers.iter().map(|peer| Leg::new(peer, number(peer.rank), chunk)).collect()
    }

    /// Waits for the next message of a peer, and puts what is in it where it belongs. What must be read from another node comes while the one before it is put there.
    fn take<'w>(
        &self,
        world: &'w World,
        messages: Messages<'w>,
        incoming: &mut Incoming<'_, 'w>,
        to: &mut [u8],
        put: &mut Put<'_, '_>,
        stage: &mut [u8],
    ) -> Result<()> {
        let came = messages.receive_lying(incoming.leg.rank, incoming.leg.number, stage)?;
        let bytes = match &came {
            Came::Here(bytes) => *bytes,
            Came::Whole(whole) => whole.len(),
            Came::Lies(lying) => lying.bytes() as usize,
        };
        let due = incoming.due;
        // Behind an empty one nothing comes.
        incoming.due -= if bytes == 0 { due } else { due.min(incoming.leg.chunk) };
        world.note(incoming.leg.check(bytes, due))?;
        match came {
            Came::Lies(lying) => match lying.span() {
                Some(span) => {
                    self.settle(world, incoming, to, put)?;
                    incoming.leg.unpack(&span, to, put, stage)?;
                }
                None => self.fetch(world, lying, incoming, to, put)?,
            },
            Came::Here(_) => {
                self.settle(world, incoming, to, put)?;
                incoming.leg.unpack(&stage[..bytes], to, put, &mut [])?;
            }
            Came::Whole(whole) => {
                self.settle(world, incoming, to, put)?;
                incoming.leg.unpack(&whole[..], to, put, &mut [])?;
            }
        }
        match incoming.due {
            // Its sender may wait for it before it takes what this rank sends next.
            0 => self.settle(world, incoming, to, put),
            _ => Ok(()),
        }
    }

    /// What is being read comes before what has come behind it.
    fn settle(
        &self,
        world: &World,
        incoming: &mut Incoming<'_, '_>,
        to: &mut [u8],
        put: &mut Put<'_, '_>,
    ) -> Result<()> {
        self.put_fetched(world, incoming.fetch.take(), &mut incoming.leg, to, put)
    }

    /// Reads a message from another node: at once if it goes to one place, otherwise while the one before it is put where it belongs.
    fn fetch<'w>(
        &self,
        world: &'w World,
        lying: Lying<'w>,
        incoming: &mut Incoming<'_, 'w>,
        to: &mut [u8],
        put: &mut Put<'_, '_>,
    ) -> Result<()> {
        let (bytes, Incoming { leg, fetch, .. }) = (lying.bytes() as usize, incoming);
        if fetch.is_none() && matches!(put, Put::Scatter) {
            if let Some(place) = leg.pass_together(bytes) {
                return world.get_slice(lying.ptr(), &mut to[place]);
            }
        }
        let Scratch { memory, booked } = world.arrays().plans.scratch(world, bytes)?;
        let pending = world.get_into(lying.ptr(), memory)?;
        let before = fetch.replace(Fetch { pending, booked, lying });
        self.put_fetched(world, before, leg, to, put)
    }

    /// Waits for what is being read from another node, and puts it where it belongs.
    fn put_fetched(
        &self,
        world: &World,
        fetch: Option<Fetch<'_>>,
        leg: &mut Leg<'_>,
        to: &mut [u8],
        put: &mut Put<'_, '_>,
    ) -> Result<()> {
        let Some(Fetch { pending, booked, lying }) = fetch else { return Ok(()) };
        let memory = pending.complete()?;
        // The sender need not wait until it is unpacked.
        drop(lying);
        leg.unpack(&memory[..], to, put, &mut [])?;
        world.arrays().plans.use_again(Scratch { memory, booked });
        Ok(())
    }

    /// Does what stays with this rank.
    fn copy_own(&self, world: &World, memory: &mut Memory<'_>, put: &mut Put<'_, '_>) -> Result<()> {
        match memory {
            Memory::Two(from, to) => {
                self.own.iter().for_each(|(source, target)| copy_between(from, source, to, target));
                Ok(())
            }
            Memory::One(both) => {
                let kept = self.keep(world, both)?;
                self.put_kept(&kept.memory, both, put)?;
                world.arrays().plans.use_again(kept);
                Ok(())
            }
        }
    }

    /// What stays with this rank, as it is now.
    fn keep(&self, world: &World, from: &[u8]) -> Result<Scratch> {
        let bytes = self.own.iter().map(|(from, _)| from.bytes()).sum();
        let mut kept = world.arrays().plans.scratch(world, bytes)?;
        let mut at = 0;
        for (section, _) in &self.own {
            at += section.rows().pack(from, (&mut kept.memory[..], at), usize::MAX, &mut [])?;
        }
        Ok(kept)
    }

    fn put_kept(&self, kept: &[u8], to: &mut [u8], put: &mut Put<'_, '_>) -> Result<()> {
        let mut at = 0;
        for (_, section) in &self.own {
            at += put.put(&mut section.rows(), (kept, at), to, usize::MAX, &mut [])?;
        }
        Ok(())
    }

    fn check(&self, what: &str, given: usize, wanted: usize) -> Result<()> {
        match given == wanted {
            true => Ok(()),
            false => Err(misuse(format!("a {what} of {given} bytes, and its local part has {wanted}"))),
        }
    }
}

/// Who waits for the rest, or sends it, need not wait for this rank.
fn give_up(world: &World, outs: &[Leg<'_>], ins: &[Incoming<'_, '_>]) {
    refuse(world, outs);
    let messages = world.messages().context(CONTEXT);
    ins.iter().for_each(|incoming| incoming.throw_away(messages));
}

/// Takes messages, whenever they come, and throws them away. Whoever sends no more of them sends an empty one, which the first of these receives that has
/// nothing gets: the others go with it if they were thrown away before it.
fn throw_away(receiving: VecDeque<MessageReceiving<'_, u8>>) {
    receiving.into_iter().rev().for_each(MessageReceiving::throw_away);
}

/// Tells those who wait for what is not sent.
fn refuse(world: &World, outs: &[Leg<'_>]) {
    let messages = world.messages().context(CONTEXT);
    for leg in outs.iter().filter(|leg| leg.left > 0) {
        // Who cannot be told is gone, or is told so by another error.
        let _ = messages.start_short(leg.rank, leg.number, &[]).map(drop);
    }
}

/// Packs the next message to a peer, and begins to send it.
fn send<'w>(
    world: &'w World,
    messages: Messages<'w>,
    leg: &mut Leg<'_>,
    from: &[u8],
    stage: &mut [u8],
) -> Result<Sent<'w>> {
    let (rank, number, bytes) = (leg.rank, leg.number, leg.next());
    let plain = |sending| Sent { sending, is_parcel: false, booked: None };
    let is_short = bytes <= SHORT_BYTES;
    if is_short {
        leg.pack(from, &mut stage[..bytes], &mut [])?;
        if let Some(sending) = messages.start_short(rank, number, &stage[..bytes])? {
            return Ok(plain(sending));
        }
    }
    let parcel = world.arrays().plans.parcels.take(world, bytes);
    let Some(parcel) = parcel else {
        if is_short {
            return messages.start_send(rank, number, &stage[..bytes]).map(plain);
        }
        let Scratch { mut memory, booked } = world.arrays().plans.scratch(world, bytes)?;
        leg.pack(from, &mut memory[..], &mut [])?;
        let sending = messages.start_send(rank, number, memory)?;
        return Ok(Sent { sending, is_parcel: false, booked });
    };
    let mut span = world.note(parcel.span(world, bytes))?;
    match is_short {
        true => span.write(0, &stage[..bytes])?,
        false => leg.pack(from, &mut span, stage)?,
    }
    let sending = messages.start_lend(rank, number, (parcel.ptr(), bytes as u64), Box::new(parcel))?;
    Ok(Sent { sending, is_parcel: true, booked: None })
}

impl Underway<'_> {
    /// Whether [`finish`](Self::finish) would not wait.
    pub fn is_done(&self) -> bool {
        self.receiving.iter().all(MessageReceiving::is_done)
            && self.sending.iter().all(|sent| sent.sending.is_done())
    }

    /// Waits for what others send, and puts it where it belongs.
    pub fn finish(self, to: &mut [u8]) -> Result<()> {
        self.end(to, &mut Put::Scatter)
    }

    /// The same, and what comes is combined with what is there.
    pub fn finish_combining(self, to: &mut [u8], combine: &mut dyn FnMut(&mut [u8], &[u8])) -> Result<()> {
        let element = self.plan.element;
        self.end(to, &mut Put::Combine(combine, element))
    }

    fn end(mut self, to: &mut [u8], put: &mut Put<'_, '_>) -> Result<()> {
        let plan = self.plan.clone();
        self.world.note(plan.check("target", to.len(), plan.to_bytes))?;
        for mut leg in plan.legs(&plan.takes, |_| 0) {
            while leg.left > 0 {
                let Some(next) = self.receiving.pop_front() else { break };
                let message = next.wait()?.elements;
                if message.is_empty() {
                    // Behind an empty one nothing comes.
                    self.receiving.drain(..(leg.rounds() - 1).min(self.receiving.len()));
                }
                self.world.note(leg.check(message.len(), leg.left))?;
                leg.unpack(&message[..], to, put, &mut [])?;
            }
        }
        plan.put_kept(&self.kept.memory, to, put)?;
        self.world.arrays().plans.use_again(std::mem::take(&mut self.kept));
        self.booked = None;
        std::mem::take(&mut self.sending).into_iter().try_for_each(Sent::wait)?;
        plan.see_notes_off(self.world)
    }
}

/// What comes for a plan that nobody finishes is received and thrown away: its senders wait for that.
impl Drop for Underway<'_> {
    fn drop(&mut self) {
        throw_away(std::mem::take(&mut self.receiving));
        // After an error, or the end of the world, nothing need leave any more.
        if std::thread::panicking() || !self.world.is_in() || self.world.has_returned_an_error() {
            return;
        }
        // Whoever did not finish it is not told what went wrong with the rest either.
        let _ = self.world.see_off(self.sending.iter().filter_map(|sent| sent.sending.whither()));
        let _ = self.plan.see_notes_off(self.world);
    }
}
