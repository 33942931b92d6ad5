//! Lanes: streams of bytes between a member and those at a distance of a power of two, in both directions.
//!
//! A lane ends in a ring in the block of whoever receives. The sender knows how much of it is free by a word in its own block, the
//! credit, which the receiver sets now and then. On a node both write to each other's block; to another node a piece is a call, which
//! is not waited for. Every piece says to which call of which member it belongs, so that members who do different things are found
//! out.
//!
//! Whoever cannot go on says so to its partners, who say it to theirs: nobody waits for a member that has failed.

use super::block::{self, Place, Request, BROKEN_AT, CREDIT_AT, HEAD_BYTES, LANE_HEAD_BYTES};
use super::traffic::Traffic;
use super::tree::chunks;
use super::wide::{Wide, WIDE_BYTES, WIDE_PIECE};
use super::Talk;
use crate::comm::COLLECTIVE;
use crate::data::message::Reader;
use crate::{Error, Fate, GlobalAddress, Rank, Result, Wait};
use kumiki_mem::{Activity, Leeway, Local, Posted, Span};
use std::cell::Cell;
use std::time::Duration;

/// Bytes before each piece: the mark of the call, how many bytes there are in all, how many in the piece.
const PIECE_HEAD_BYTES: u64 = 24;
/// How long a member waits before it asks whom it waits for what that does.
pub(super) const SLOW: Duration = Duration::from_millis(200);
/// How often a member of this node that is waited for must be found to have finished the call. One of another node must be for the peer timeout.
const NEAR_LOOKS: u32 = 2;
const WAIT: Wait = Wait::FOREVER.doing(Activity::Collective);
pub(super) const WAIT_A_WHILE: Wait = Wait::at_most(SLOW).doing(Activity::Collective);
/// Bytes that are taken out of a ring at a time: few, so that they are near when something is done with them.
const TAKEN_BYTES: usize = 4096;
/// Calls to other nodes that may be under way.
const MOST_CALLS: usize = 32;
/// A request of so many bytes is a long one, and so many of these are many.
const LONG_REQUEST: usize = 8 << 10;
const MOST_LONG_CALLS: usize = 8;

/// Why a group can do nothing any more, and because of whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::comm) struct Broken {
    pub(in crate::comm) cause: Cause,
    pub(in crate::comm) rank: Rank,
    /// The last call that a member has finished which has left, without its upper bits: others may still be in it.
    after: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::comm) enum Cause {
    /// A member got an error of its own.
    Failed = 1,
    /// A member is lost.
    Lost = 2,
    /// A member came with another call than the others.
    Differs = 3,
    /// A member has left the group.
    Left = 4,
}

impl Broken {
    pub(in crate::comm) fn new(cause: Cause, rank: Rank) -> Broken {
        Broken { cause, rank, after: 0 }
    }

    /// A member has left after a call.
    pub(in crate::comm) fn left(rank: Rank, call: u64) -> Broken {
        Broken { cause: Cause::Left, rank, after: call as u16 }
    }

    pub(in crate::comm) fn word(self) -> u64 {
        self.cause as u64 | u64::from(self.rank) << 8 | u64::from(self.after) << 40
    }

    /// Whether a call cannot go on: whoever has left has done all that the others need for the calls before.
    fn ends(self, call: u64) -> bool {
        self.cause != Cause::Left || self.is_before(call as u16)
    }

    fn is_before(self, call: u16) -> bool {
        // Numbers wrap around.
        call.wrapping_sub(self.after) as i16 > 0
    }

    /// Whether it says more than another that was said before.
    pub(super) fn outweighs(self, other: Broken) -> bool {
        other.cause == Cause::Left && (self.cause != Cause::Left || self.is_before(other.after))
    }

    pub(in crate::comm) fn of(word: u64) -> Option<Broken> {
        let causes = [Cause::Failed, Cause::Lost, Cause::Differs, Cause::Left];
        let cause = causes.into_iter().find(|cause| *cause as u64 == word & 0xff)?;
        Some(Broken { cause, rank: (word >> 8) as u32, after: (word >> 40) as u16 })
    }

    /// What others than the one who found it are told.
    pub(in crate::comm) fn error(self) -> Error {
        let rank = self.rank;
        let lost = |why: &str| Error::PeerLost { rank, fate: Fate::NotDone, why: why.into() };
        match self.cause {
            Cause::Failed => {
                Error::Refused(format!("rank {rank} could not go on with the group; its own error says why"))
            }
            Cause::Lost => lost("a member of the group has lost it"),
            Cause::Left => lost("it has left the group, while others went on"),
            Cause::Differs => differs(format!("rank {rank} found it out")),
        }
    }

    /// What an error of this rank is for the others.
    pub(in crate::comm) fn by(error: &Error, me: Rank) -> Broken {
        match error {
            Error::PeerLost { rank, .. } => Broken::new(Cause::Lost, *rank),
            _ => Broken::new(Cause::Failed, me),
        }
    }
}

/// Whether a word in which members say that the group is broken means that a call cannot go on.
pub(super) fn ends(word: u64, call: u64) -> bool {
    word != 0 && Broken::of(word).is_none_or(|broken| broken.ends(call))
}

/// Members do not do the same.
pub(super) fn differs(who: String) -> Error {
    let rule = "all members make the same calls of a group, in the same order, with lengths that fit";
    Error::Misuse(format!("the members of a group do different things ({who}); {rule}"))
}

/// What a member keeps of a partner.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) rank: Rank,
    pub(super) near: bool,
    /// The wide ring of this end; and whether what goes out goes into that of the other.
    pub(super) wide: Wide,
    pub(super) sends_wide: bool,
    /// The number of the lane in the block of the partner.
    pub(super) there: u32,
    /// The number of the partner among the members of its node.
    pub(super) guest: u32,
    pub(super) block: GlobalAddress,
    /// Where this end is in the own block.
    pub(super) here: u64,
    /// Bytes that were sent and received, and what the partner was told of the latter.
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) credited: u64,
}

const _: () = assert!(size_of::<Lane>() <= 64);

/// What a piece says of itself.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    mark: u64,
    pub(super) total: u64,
    pub(super) bytes: u64,
}

/// What somebody waits for: room in a lane for so many bytes, or a piece on one, whichever comes first.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Needs {
    room: Option<(usize, u64)>,
    piece: Option<usize>,
}

impl Needs {
    fn lanes(self) -> impl Iterator<Item = usize> {
        [self.room.map(|(lane, _)| lane), self.piece].into_iter().flatten()
    }
}

/// How far an exchange with one or two partners is.
#[derive(Debug)]
pub(super) struct Exchange {
    to: Option<usize>,
    from: Option<usize>,
    sent: usize,
    received: usize,
    keeps_pace: bool,
}

impl Exchange {
    pub(super) fn new(to: Option<usize>, from: Option<usize>, traffic: &dyn Traffic) -> Exchange {
        Exchange { to, from, sent: 0, received: 0, keeps_pace: to.is_some() && traffic.keeps_pace() }
    }
}

/// Where another member is, by its board, as one sees it who is in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Behind,
    Level,
    /// It is in a call of the same number that is another one.
    Elsewhere,
    /// It has finished this call.
    Ahead,
}

/// What a member writes to its board: the number of the call, whether it is over, and what tells it from others.
pub(super) fn board(call: u64, mark: u64, is_over: bool) -> u64 {
    call << 48 | u64::from(is_over) << 47 | mark & MARK_BITS
}

const MARK_BITS: u64 = (1 << 47) - 1;

/// By the call that the other is in, and what it did in the one that this member is in, if it remembers.
pub(super) fn standing(own: u64, other: u64, past: u64) -> Standing {
    // Numbers wrap around.
    let ahead = ((other >> 48) as u16).wrapping_sub((own >> 48) as u16) as i16;
    let is_same = |board: u64| board & MARK_BITS == own & MARK_BITS;
    match ahead {
        ..0 => Standing::Behind,
        1.. if past >> 48 == own >> 48 && !is_same(past) => Standing::Elsewhere,
        1.. => Standing::Ahead,
        0 if !is_same(other) => Standing::Elsewhere,
        0 if other >> 47 & 1 == 1 => Standing::Ahead,
        0 => Standing::Level,
    }
}

/// What ended a wait.
enum Event {
    Go,
    Broken(u64),
}

fn footprint(bytes: u64) -> u64 {
    PIECE_HEAD_BYTES + bytes.next_multiple_of(8)
}

impl<'w> Talk<'_, 'w> {
    /// The longest piece in the ring of a block: two of them fit into it.
    pub(super) fn piece_bytes(&self) -> usize {
        ((self.group.layout.ring / 2).saturating_sub(PIECE_HEAD_BYTES) & !7) as usize
    }

    /// Sends and receives at once: neither waits for the other.
    pub(super) fn exchange(
        &mut self,
        to: Option<usize>,
        from: Option<usize>,
        traffic: &mut dyn Traffic,
    ) -> Result<()> {
        let mut exchange = Exchange::new(to, from, traffic);
        while let Some(needs) = self.advance(&mut exchange, traffic)? {
            self.wait(needs)?;
        }
        Ok(())
    }

    /// Goes on with an exchange as far as it goes without waiting; gives what it needs to go on, if it is not over.
    pub(super) fn advance(
        &mut self,
        exchange: &mut Exchange,
        traffic: &mut dyn Traffic,
    ) -> Result<Option<Needs>> {
        loop {
            let room = self.send_some(exchange, traffic)?;
            let (piece, moved) = self.receive_some(exchange, traffic)?;
            match exchange.to.is_none() && exchange.from.is_none() {
                true => return Ok(None),
                // What has gone out may let more come in.
                false if moved || room.is_none() && piece.is_none() => {}
                false => return Ok(Some(Needs { room, piece })),
            }
        }
    }

    /// Sends while there is room; gives what there is none for.
    fn send_some(
        &mut self,
        exchange: &mut Exchange,
        traffic: &mut dyn Traffic,
    ) -> Result<Option<(usize, u64)>> {
        let total = traffic.out_bytes();
        let mut gathered = Vec::new();
        while let Some(lane) = exchange.to {
            let longest = if self.sends_wide(lane, total)? { WIDE_PIECE } else { self.piece_bytes() };
            let bytes = traffic.out(exchange.sent, longest.min(total - exchange.sent), &mut gathered);
            let needed = footprint(bytes.len() as u64);
            if self.room(lane)? < needed {
                return Ok(Some((lane, needed)));
            }
            self.put_piece(lane, total as u64, bytes)?;
            exchange.sent += bytes.len();
            exchange.to = exchange.to.filter(|_| exchange.sent < total);
        }
        Ok(None)
    }

    /// Receives what is there; gives the lane on which there is nothing, and whether something was.
    fn receive_some(
        &mut self,
        exchange: &mut Exchange,
        traffic: &mut dyn Traffic,
    ) -> Result<(Option<usize>, bool)> {
        let (total, mut moved) = (traffic.in_bytes(), false);
        if let Some(lane) = exchange.from {
            self.widen(lane, total)?;
        }
        while let Some(lane) = exchange.from {
            let Some(next) = self.peek(lane)? else { return Ok((Some(lane), moved)) };
            let received = exchange.received;
            if next.total != total as u64 || next.bytes > (total - received) as u64 {
                return Err(self.wrong_length(lane, total as u64, next.total));
            }
            if exchange.keeps_pace && received + next.bytes as usize > exchange.sent {
                return Ok((None, moved));
            }
            self.take_piece(lane, next, received, traffic)?;
            exchange.received += next.bytes as usize;
            moved = true;
            exchange.from = exchange.from.filter(|_| exchange.received < total);
        }
        Ok((None, moved))
    }

    fn wrong_length(&self, lane: usize, wanted: u64, came: u64) -> Error {
        let rank = self.state.lanes[lane].rank;
        differs(format!("rank {rank} sends {came} bytes instead of {wanted}"))
    }

    /// The next piece of a lane, when it is there.
    pub(super) fn next_piece(&mut self, lane: usize) -> Result<Piece> {
        loop {
            if let Some(piece) = self.peek(lane)? {
                return Ok(piece);
            }
            self.wait(Needs { piece: Some(lane), ..Needs::default() })?;
        }
    }

    /// Passes a stream on, from one lane to another.
    pub(super) fn relay(&mut self, from: usize, to: usize) -> Result<()> {
        let mut part = std::mem::take(&mut self.state.scratch);
        let mut passed = 0;
        loop {
            let piece = self.next_piece(from)?;
            // What is one piece here may be some there. It stays in the ring until all of it has gone: so there is never more of it than is booked.
            for range in chunks(piece.bytes as usize, self.piece_bytes().min(TAKEN_BYTES)) {
                part.resize(range.len());
                let start = self.state.lanes[from].received + PIECE_HEAD_BYTES + range.start as u64;
                block::read_ring(self.ring_here(from)?, start, part.bytes_mut())?;
                let bytes = footprint(range.len() as u64);
                while self.room(to)? < bytes {
                    self.wait(Needs { room: Some((to, bytes)), ..Needs::default() })?;
                }
                self.put_piece(to, piece.total, part.bytes())?;
            }
            self.has_taken(from, piece)?;
            passed += piece.bytes;
            if passed >= piece.total {
                self.state.scratch = part;
                return Ok(());
            }
        }
    }

    /// The own block.
    #[inline]
    pub(super) fn own(&self) -> Result<Span<'w>> {
        if let Some(own) = self.group.known(self.group.near.me) {
            return Ok(own);
        }
        self.local().span(self.group.address(), self.group.layout.bytes)
    }

    pub(super) fn local(&self) -> Local<'w> {
        self.group.world.local()
    }

    /// Free bytes of the ring at the other end.
    fn room(&self, lane: usize) -> Result<u64> {
        let lane = &self.state.lanes[lane];
        let credit = self.own()?.load(lane.here + CREDIT_AT)?;
        Ok(self.ring_there(lane).saturating_sub(lane.sent.wrapping_sub(credit)))
    }

    /// Bytes of the ring at the other end.
    fn ring_there(&self, lane: &Lane) -> u64 {
        if lane.sends_wide {
            WIDE_BYTES
        } else {
            self.group.layout.ring
        }
    }

    /// Puts a piece into the ring at the other end, which has room for it.
    fn put_piece(&mut self, lane: usize, total: u64, bytes: &[u8]) -> Result<()> {
        let (ring, number) = (self.group.layout.ring, self.group.number);
        let head = [self.mark, total, bytes.len() as u64];
        let at = &mut self.state.lanes[lane];
        let position = at.sent;
        at.sent += footprint(bytes.len() as u64);
        if at.near {
            let (end, rank) = (at.sent, at.rank);
            let place = self.group.layout.lane(at.there.into());
            let there = self.group.world.local().span(at.block, place + LANE_HEAD_BYTES + ring)?;
            let there = there.part(place, LANE_HEAD_BYTES + ring)?;
            let place = there.part(LANE_HEAD_BYTES, ring)?;
            block::write_ring(place, position, bytemuck::cast_slice(&head))?;
            block::write_ring(place, position + PIECE_HEAD_BYTES, bytes)?;
            there.store(0, end)?;
            return self.group.world.wake(rank);
        }
        // What goes there anyway says how far this member has come, too.
        at.credited = at.received;
        let place = Place { lane: at.there.into(), position, credit: at.received, is_wide: at.sends_wide };
        let request = Request::Piece { place, head: bytemuck::cast_slice(&head), bytes };
        let (rank, request) = (at.rank, request.encode(at.block, number));
        self.reap()?;
        let world = self.group.world;
        match world.note(world.memory.send_letter(rank, COLLECTIVE, number, &request))? {
            true => Ok(()),
            false => self.call(rank, request),
        }
    }

    /// What the next piece of a lane says, if there is one.
    fn peek(&self, lane: usize) -> Result<Option<Piece>> {
        let at = &self.state.lanes[lane];
        let ring = self.group.layout.ring;
        let here = self.own()?.part(at.here, LANE_HEAD_BYTES + ring)?;
        if here.load(0)? == at.received {
            return Ok(None);
        }
        let (ring, longest) = match self.wide_ring(at, lane)? {
            Some(wide) => (wide, WIDE_PIECE),
            None => (here.part(LANE_HEAD_BYTES, ring)?, self.piece_bytes()),
        };
        let mut head = [0u64; 3];
        block::read_ring(ring, at.received, bytemuck::cast_slice_mut(&mut head))?;
        let [mark, total, bytes] = head;
        if mark != self.mark || bytes > longest as u64 {
            return Err(differs(format!("rank {} came with another call", at.rank)));
        }
        Ok(Some(Piece { mark, total, bytes }))
    }

    /// The ring in which the next piece of a lane is.
    fn ring_here(&self, lane: usize) -> Result<Span<'_>> {
        let at = &self.state.lanes[lane];
        match self.wide_ring(at, lane)? {
            Some(wide) => Ok(wide),
            None => self.own()?.part(at.here + LANE_HEAD_BYTES, self.group.layout.ring),
        }
    }

    /// Takes a piece out of a ring, which is for a place of what comes: there as it is, or part by part.
    pub(super) fn take_piece(
        &mut self,
        lane: usize,
        piece: Piece,
        place: usize,
        traffic: &mut dyn Traffic,
    ) -> Result<()> {
        debug_assert_eq!(piece.mark, self.mark);
        let mut part = std::mem::take(&mut self.state.scratch);
        let ring = self.ring_here(lane)?;
        let start = self.state.lanes[lane].received + PIECE_HEAD_BYTES;
        if let Some(into) = traffic.place(place, piece.bytes as usize) {
            block::read_ring(ring, start, into)?;
        } else {
            for range in chunks(piece.bytes as usize, TAKEN_BYTES) {
                part.resize(range.len());
                block::read_ring(ring, start + range.start as u64, part.bytes_mut())?;
                traffic.take(place + range.start, part.bytes());
            }
        }
        self.state.scratch = part;
        self.has_taken(lane, piece)
    }

    /// A piece is not needed in its ring any more. Tells the sender now and then that there is room.
    fn has_taken(&mut self, lane: usize, piece: Piece) -> Result<()> {
        let ring_bytes = self.ring_here(lane)?.len();
        let at = &mut self.state.lanes[lane];
        at.received += footprint(piece.bytes);
        // What goes back says it, too: between nodes that is mostly in time.
        let late = if at.near { ring_bytes / 4 } else { ring_bytes / 2 };
        if at.received - at.credited < late {
            return Ok(());
        }
        at.credited = at.received;
        let (rank, value) = (at.rank, at.received);
        if at.near {
            let word = self.group.layout.lane(at.there.into()) + CREDIT_AT;
            self.group.world.local().span(at.block, word + 8)?.store(word, value)?;
            return self.group.world.wake(rank);
        }
        let request = Request::Credit { lane: at.there.into(), value }.encode(at.block, self.group.number);
        self.call(rank, request)
    }

    /// Has something done on another node. It is not waited for, but for what was begun long before. Fails if something that was begun
    /// before has failed: pieces that do not come would be waited for.
    pub(super) fn call(&mut self, rank: Rank, request: Vec<u8>) -> Result<()> {
        self.reap()?;
        if self.state.calls.len() >= MOST_CALLS {
            self.reap_any()?;
        }
        if self.state.calls.len() >= MOST_CALLS {
            if let Some((rank, oldest)) = self.state.calls.pop_front() {
                self.answer(rank, oldest)?;
            }
        }
        // Nobody waits for the answer, unless there are many: what was asked is kept until then.
        let many = if request.len() < LONG_REQUEST { MOST_CALLS / 2 } else { MOST_LONG_CALLS };
        let is_early = self.state.calls.len() < many;
        let leeway = if is_early { Leeway::Long } else { Leeway::Short };
        let memory = &self.group.world.memory;
        let posted = self.group.world.note(memory.try_to_post_call(rank, COLLECTIVE, request, leeway))?;
        self.state.calls.push_back((rank, posted));
        Ok(())
    }

    /// Waits for the answer of another node. An error does not count as one that the world has returned.
    fn answer(&self, rank: Rank, posted: Posted) -> Result<Vec<u8>> {
        let (world, found) = (self.group.world, Cell::new(false));
        let look = || {
            let answer = world.memory.answer_of(posted);
            found.set(answer.is_some());
            answer
        };
        let answer = world.look_for(look, WAIT.from(rank));
        if !found.get() {
            world.memory.forget_call(posted);
        }
        answer
    }

    /// The same, also of calls behind one that has no answer yet: that may be to another rank.
    fn reap_any(&mut self) -> Result<()> {
        let memory = &self.group.world.memory;
        let mut result = Ok(());
        self.state.calls.retain(|(_, posted)| match memory.answer_of(*posted) {
            None => true,
            Some(answer) => {
                let answer = answer.map(drop);
                result = std::mem::replace(&mut result, Ok(())).and(answer);
                false
            }
        });
        result
    }

    /// Takes the answers that are there; fails with the first that says so.
    pub(super) fn reap(&mut self) -> Result<()> {
        let group = self.group;
        let refused = group.world.memory.refused_letter(group.number, |from| group.has(from));
        refused.map_or(Ok(()), Err)?;
        while let Some((_, first)) = self.state.calls.front() {
            match self.group.world.memory.answer_of(*first) {
                None => break,
                Some(answer) => {
                    self.state.calls.pop_front();
                    answer?;
                }
            }
        }
        Ok(())
    }

    /// Waits until a lane has room, or a piece has come, whichever is asked for.
    pub(super) fn wait(&mut self, needs: Needs) -> Result<()> {
        let mut overtaken: Option<(Rank, u32)> = None;
        loop {
            match self.wait_a_while(needs)? {
                Some(Event::Go) => return Ok(()),
                Some(Event::Broken(word)) => return Err(self.heard(word)),
                None => {}
            }
            // One that is late may be in something else; and what was sent to it may have failed.
            self.reap()?;
            let ahead = match self.look_around().and_then(|()| self.who_is_ahead(needs)) {
                // One that has gone meanwhile has sent everything before.
                Err(_) if self.is_met(needs)? => return Ok(()),
                ahead => ahead?,
            };
            let Some((rank, near)) = ahead else {
                overtaken = None;
                continue;
            };
            // What it did in this call is there by the next time, if it did something; between nodes its answer may come over another
            // connection, while the one that it sends over is still to be made.
            let looks = overtaken.filter(|(before, _)| *before == rank).map_or(1, |(_, looks)| looks + 1);
            let far = || self.group.world.memory.peer_timeout().div_duration_f64(SLOW) as u32;
            if looks >= NEAR_LOOKS && (near || looks > far()) {
                return match self.is_met(needs)? {
                    true => Ok(()),
                    false => Err(differs(format!("rank {rank} has finished this call"))),
                };
            }
            overtaken = Some((rank, looks));
        }
    }

    /// A partner that is waited for and has finished this call, and whether it is of this node.
    fn who_is_ahead(&mut self, needs: Needs) -> Result<Option<(Rank, bool)>> {
        let mut ahead = None;
        for lane in needs.lanes() {
            if self.inquire(lane)? == Standing::Ahead {
                ahead = Some((self.state.lanes[lane].rank, self.state.lanes[lane].near));
            }
        }
        Ok(ahead)
    }

    /// Whether what is waited for is there.
    fn is_met(&self, needs: Needs) -> Result<bool> {
        let room = match needs.room {
            Some((lane, bytes)) => self.room(lane)? >= bytes,
            None => false,
        };
        Ok(room
            || match needs.piece {
                Some(lane) => self.peek(lane)?.is_some(),
                None => false,
            })
    }

    /// Waits for a moment: `None` if nothing has come.
    fn wait_a_while(&mut self, needs: Needs) -> Result<Option<Event>> {
        use std::sync::atomic::Ordering::Acquire;
        let own = self.own()?;
        let lanes = &self.state.lanes;
        let credit = match needs.room {
            Some((lane, bytes)) => {
                let most = self.ring_there(&lanes[lane]).saturating_sub(bytes);
                Some((own.word(lanes[lane].here + CREDIT_AT)?, lanes[lane].sent, most))
            }
            None => None,
        };
        let head = match needs.piece {
            Some(lane) => Some((own.word(lanes[lane].here)?, lanes[lane].received)),
            None => None,
        };
        let (broken, call) = (own.word(BROKEN_AT)?, self.call);
        let look = || {
            // Whoever has sent something may have left since.
            let broken = broken.load(Acquire);
            let has_room =
                credit.is_some_and(|(word, sent, most)| sent.wrapping_sub(word.load(Acquire)) <= most);
            if has_room || head.is_some_and(|(word, received)| word.load(Acquire) != received) {
                return Some(Ok(Event::Go));
            }
            ends(broken, call).then_some(Ok(Event::Broken(broken)))
        };
        let mut ranks = needs.lanes().map(|lane| lanes[lane].rank);
        let wait = match (ranks.next(), ranks.next()) {
            (Some(one), Some(other)) if one != other && !self.state.has_lost_strangers => WAIT_A_WHILE,
            (Some(one), other) => WAIT_A_WHILE.from(other.unwrap_or(one)),
            (None, _) => return Ok(Some(Event::Go)),
        };
        let (world, near) = (self.group.world, needs.lanes().any(|lane| lanes[lane].near));
        let waited = world.wait_with_messages(SLOW, |limit| match near {
            true => world.look_for(look, wait.for_at_most(limit)),
            false => world.memory.look_for_message(look, wait.for_at_most(limit)),
        });
        match waited {
            Err(Error::Timeout { .. }) => Ok(None),
            // It is none of ours, and no reason to ask anybody.
            Err(Error::PeerLost { rank, .. }) if !self.group.has(rank) => {
                self.state.has_lost_strangers = true;
                self.wait_a_while(needs)
            }
            waited => waited.map(Some),
        }
    }

    /// Asks a partner which call it is in.
    fn inquire(&mut self, lane: usize) -> Result<Standing> {
        let (rank, block) = (self.state.lanes[lane].rank, self.state.lanes[lane].block);
        let [board, past, broken] = if self.state.lanes[lane].near {
            self.local().check_alive(rank)?;
            block::look(self.local().span(block, HEAD_BYTES)?, self.call)?
        } else {
            let request = Request::Board { call: self.call }.encode(block, self.group.number);
            let posted = self.group.world.memory.post_call(rank, COLLECTIVE, request)?;
            let reply = self.answer(rank, posted)?;
            let mut reply = Reader::new(&reply);
            [reply.long()?, reply.long()?, reply.long()?]
        };
        if ends(broken, self.call) {
            return Err(self.heard(broken));
        }
        match standing(self.state.board, board, past) {
            Standing::Elsewhere => Err(differs(format!("rank {rank} came with another call"))),
            standing => Ok(standing),
        }
    }

    /// Meets the other members in a team: all of them, or those of this node. Now and then it is looked whether they are in the same call.
    pub(super) fn meet_in(&mut self, is_near: bool) -> Result<()> {
        loop {
            let node = self.state.node_team.as_ref().filter(|_| is_near);
            let team = node.or(self.state.team.as_ref());
            let team = team.ok_or_else(|| Error::Closed("the group is broken".into()))?;
            match self.group.world.wait_with_messages(SLOW, |limit| team.meet_for(limit)) {
                Err(Error::Timeout { .. }) => self.look_out()?,
                met => return met,
            }
        }
    }

    /// Fails if the others will not come to where this member waits for them.
    pub(super) fn look_out(&mut self) -> Result<()> {
        self.check()?;
        self.reap()?;
        self.look_around()?;
        self.check_near()?;
        // One that is ahead has perhaps met this member, who does not know it yet.
        (0..self.state.lanes.len()).try_for_each(|lane| match self.inquire(lane) {
            // One that has left has done so behind this call.
            Err(Error::Refused(_)) if self.own()?.load(BROKEN_AT)? != 0 => self.check(),
            asked => asked.map(drop),
        })
    }

    /// Takes note of what a partner has said.
    pub(super) fn heard(&mut self, word: u64) -> Error {
        let broken = Broken::of(word).unwrap_or(Broken::new(Cause::Failed, u32::MAX));
        self.state.heard = Some(broken);
        broken.error()
    }

    /// Says on this node which call this member is in, and whether it is done with it.
    pub(super) fn post(&mut self, is_over: bool) -> Result<()> {
        self.state.board = board(self.call, self.mark, is_over);
        block::post(self.own()?, self.call, self.state.board)
    }

    /// Tells every partner on another node that the group is broken. Whoever cannot be told is lost, or has gone.
    pub(super) fn spread_far(&mut self, broken: Broken) {
        let lanes: Vec<_> = self.state.lanes.iter().map(|lane| (lane.near, lane.rank, lane.block)).collect();
        for (_, rank, block) in lanes.into_iter().filter(|(near, ..)| !near) {
            let request = Request::Break(broken).encode(block, self.group.number);
            if self.local().check_alive(rank).is_ok() {
                if let Ok(posted) = self.group.world.memory.post_call(rank, COLLECTIVE, request) {
                    self.state.calls.push_back((rank, posted));
                }
            }
        }
    }

    /// Tells those of this node, and whoever asks this member.
    pub(super) fn spread_near(&self, broken: Broken) {
        let partners = self.state.lanes.iter().filter(|lane| lane.near).map(|lane| lane.block);
        for block in partners.chain(self.group.near_blocks()).chain([self.group.address()]) {
            // Nobody's block goes before this member has parted with it.
            if let Ok(head) = self.local().span(block, HEAD_BYTES) {
                let _ = block::break_block(head, broken);
            }
            let _ = self.group.world.wake(self.local().rank_of(block));
        }
    }

    /// Waits for all that is under way to other nodes, whatever becomes of it.
    pub(super) fn settle(&mut self) {
        while let Some((rank, posted)) = self.state.calls.pop_front() {
            let _ = self.answer(rank, posted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_elsewhere_and_who_is_ahead_is_seen_by_the_board() {
        let own = board(65_535, 7, false);
        let at = |call, mark, is_over| standing(own, board(call, mark, is_over), 0);
        assert_eq!((at(65_535, 7, false), at(65_535, 7, true)), (Standing::Level, Standing::Ahead));
        assert_eq!((at(65_535, 8, false), at(65_535, 8, true)), (Standing::Elsewhere, Standing::Elsewhere));
        // The number of the next call is 0.
        assert_eq!((at(65_536, 3, false), at(65_534, 7, true)), (Standing::Ahead, Standing::Behind));
        // It remembers what it did in this call.
        let later = |mark| standing(own, board(65_540, 9, false), board(65_535, mark, true));
        assert_eq!((later(7), later(8)), (Standing::Ahead, Standing::Elsewhere));
    }

    #[test]
    fn why_a_group_is_broken_goes_into_a_word_and_comes_out_as_an_error() {
        for cause in [Cause::Failed, Cause::Lost, Cause::Differs, Cause::Left] {
            let broken = Broken { cause, rank: 70_000, after: 65_535 };
            assert_eq!(Broken::of(broken.word()), Some(broken));
            assert!(broken.error().to_string().contains("70000"), "{}", broken.error());
        }
        assert_eq!((Broken::of(0), Broken::of(99)), (None, None));
        let lost = Broken::new(Cause::Lost, 3);
        assert_eq!(Broken::by(&lost.error(), 1), lost);
        assert_eq!(Broken::by(&Error::Misuse("a test".into()), 1), Broken::new(Cause::Failed, 1));
    }

    #[test]
    fn who_has_left_ends_the_calls_behind_its_last_one() {
        let left = Broken::left(3, 65_535);
        assert_eq!([65_534, 65_535, 65_536].map(|call| ends(left.word(), call)), [false, false, true]);
        let lost = Broken::new(Cause::Lost, 3);
        assert!(ends(lost.word(), 1) && ends(99, 1) && !ends(0, 1));
        // The first one that has left counts, and what is worse.
        assert!(left.outweighs(Broken::left(2, 65_536)) && !Broken::left(2, 65_536).outweighs(left));
        assert!(lost.outweighs(left) && !left.outweighs(lost) && !lost.outweighs(lost));
    }
}
