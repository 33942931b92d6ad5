//! Lanes: streams of bytes between a member and those at a distance of a power of two, in both directions.
//!
//! A lane ends in a ring in the block of whoever receives. The sender knows how much of it is free by a word in its own block, the
//! credit, which the receiver sets now and then. On a node both write to each other's block; to another node a piece is a call, which
//! is not waited for. Every piece says to which call of which member it belongs, so that members who do different things are found
//! out.
//!
//! Whoever cannot go on says so to its partners, who say it to theirs: nobody waits for a member that has failed.

use super::block::{self, Request, BROKEN_AT, CALL_AT, CREDIT_AT, HEAD_BYTES, LANE_HEAD_BYTES};
use super::traffic::Traffic;
use super::Talk;
use crate::comm::COLLECTIVE;
use crate::data::message::Reader;
use crate::{Error, Fate, GlobalAddress, Rank, Result, Wait};
use kumiki_mem::{Local, Span};
use std::sync::atomic::Ordering::Release;
use std::time::Duration;

/// Bytes before each piece: the mark of the call, how many bytes there are in all, how many in the piece.
const PIECE_HEAD_BYTES: u64 = 24;
/// How long a member waits before it asks whom it waits for what that does.
const SLOW: Duration = Duration::from_secs(1);
/// Calls to other nodes that may be under way.
const MOST_CALLS: usize = 32;

/// Why a group can do nothing any more, and because of whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Broken {
    pub(super) cause: Cause,
    pub(super) rank: Rank,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
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
    pub(super) fn word(self) -> u64 {
        self.cause as u64 | u64::from(self.rank) << 8
    }

    pub(super) fn of(word: u64) -> Option<Broken> {
        let causes = [Cause::Failed, Cause::Lost, Cause::Differs, Cause::Left];
        let cause = causes.into_iter().find(|cause| *cause as u64 == word & 0xff)?;
        Some(Broken { cause, rank: (word >> 8) as u32 })
    }

    /// What others than the one who found it are told.
    pub(super) fn error(self) -> Error {
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
    pub(super) fn by(error: &Error, me: Rank) -> Broken {
        match error {
            Error::PeerLost { rank, .. } => Broken { cause: Cause::Lost, rank: *rank },
            _ => Broken { cause: Cause::Failed, rank: me },
        }
    }
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
    /// Its block, and where the other end of the lane is in it.
    pub(super) block: GlobalAddress,
    pub(super) there: u64,
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

/// What ended a wait.
enum Event {
    Go,
    Broken(u64),
    Differs(Rank),
}

fn footprint(bytes: u64) -> u64 {
    PIECE_HEAD_BYTES + bytes.next_multiple_of(8)
}

impl<'w> Talk<'_, 'w> {
    /// The longest piece: two of them fit into a ring.
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
        let longest = self.piece_bytes();
        let (out_total, in_total) = (traffic.out_bytes(), traffic.in_bytes());
        let (mut sent, mut received) = (0, 0);
        let (mut sends, mut receives) = (to, from);
        let keeps_pace = to.is_some() && traffic.keeps_pace();
        loop {
            let mut moved = false;
            let mut room = None;
            while let Some(lane) = sends {
                let bytes = traffic.out(sent, longest.min(out_total - sent));
                if self.room(lane)? < footprint(bytes.len() as u64) {
                    room = Some((lane, footprint(bytes.len() as u64)));
                    break;
                }
                self.put_piece(lane, out_total as u64, bytes)?;
                sent += bytes.len();
                moved = true;
                sends = sends.filter(|_| sent < out_total);
            }
            let mut piece = None;
            while let Some(lane) = receives {
                let Some(next) = self.peek(lane)? else {
                    piece = Some(lane);
                    break;
                };
                if next.total != in_total as u64 || next.bytes > (in_total - received) as u64 {
                    return Err(self.wrong_length(lane, in_total as u64, next.total));
                }
                if keeps_pace && received + next.bytes as usize > sent {
                    break;
                }
                self.take_piece(lane, next, |bytes| traffic.take(received, bytes))?;
                received += next.bytes as usize;
                moved = true;
                receives = receives.filter(|_| received < in_total);
            }
            if sends.is_none() && receives.is_none() {
                return Ok(());
            }
            if !moved {
                self.wait(room, piece)?;
            }
        }
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
            self.wait(None, Some(lane))?;
        }
    }

    /// Passes a stream on, from one lane to another.
    pub(super) fn relay(&mut self, from: usize, to: usize) -> Result<()> {
        let mut passed = 0;
        loop {
            let piece = self.next_piece(from)?;
            let bytes = footprint(piece.bytes);
            while self.room(to)? < bytes {
                self.wait(Some((to, bytes)), None)?;
            }
            let mut kept = Vec::new();
            self.take_piece(from, piece, |bytes| kept.extend_from_slice(bytes))?;
            self.put_piece(to, piece.total, &kept)?;
            passed += piece.bytes;
            if passed >= piece.total {
                return Ok(());
            }
        }
    }

    /// The own block.
    pub(super) fn own(&self) -> Result<Span<'w>> {
        self.local().span(self.group.address(), self.group.layout.bytes)
    }

    pub(super) fn local(&self) -> Local<'w> {
        self.group.world.local()
    }

    /// Free bytes of the ring at the other end.
    fn room(&self, lane: usize) -> Result<u64> {
        let lane = &self.state.lanes[lane];
        let credit = self.own()?.load(lane.here + CREDIT_AT)?;
        Ok(self.group.layout.ring.saturating_sub(lane.sent.wrapping_sub(credit)))
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
            let there = self.group.world.local().span(at.block, at.there + LANE_HEAD_BYTES + ring)?;
            let there = there.part(at.there, LANE_HEAD_BYTES + ring)?;
            let place = there.part(LANE_HEAD_BYTES, ring)?;
            block::write_ring(place, position, bytemuck::cast_slice(&head))?;
            block::write_ring(place, position + PIECE_HEAD_BYTES, bytes)?;
            there.store(0, end)?;
            return self.group.world.wake(rank);
        }
        let mut whole = std::mem::take(&mut self.state.scratch);
        whole.clear();
        whole.extend_from_slice(bytemuck::cast_slice(&head));
        whole.extend_from_slice(bytes);
        whole.resize(footprint(bytes.len() as u64) as usize, 0);
        let request = Request::Piece { lane: at.there, ring, position, bytes: &whole };
        let (rank, request) = (at.rank, request.encode(at.block, number));
        self.state.scratch = whole;
        self.call(rank, request)
    }

    /// What the next piece of a lane says, if there is one.
    fn peek(&self, lane: usize) -> Result<Option<Piece>> {
        let at = &self.state.lanes[lane];
        let ring = self.group.layout.ring;
        let here = self.own()?.part(at.here, LANE_HEAD_BYTES + ring)?;
        if here.load(0)? == at.received {
            return Ok(None);
        }
        let mut head = [0u64; 3];
        block::read_ring(
            here.part(LANE_HEAD_BYTES, ring)?,
            at.received,
            bytemuck::cast_slice_mut(&mut head),
        )?;
        let [mark, total, bytes] = head;
        if mark != self.mark || bytes > self.piece_bytes() as u64 {
            return Err(differs(format!("rank {} came with another call", at.rank)));
        }
        Ok(Some(Piece { mark, total, bytes }))
    }

    /// Takes a piece out of a ring, and tells the sender now and then that there is room.
    pub(super) fn take_piece(&mut self, lane: usize, piece: Piece, take: impl FnOnce(&[u8])) -> Result<()> {
        debug_assert_eq!(piece.mark, self.mark);
        let ring = self.group.layout.ring;
        let mut bytes = std::mem::take(&mut self.state.scratch);
        bytes.resize(piece.bytes as usize, 0);
        let at = &self.state.lanes[lane];
        let place = self.own()?.part(at.here + LANE_HEAD_BYTES, ring)?;
        block::read_ring(place, at.received + PIECE_HEAD_BYTES, &mut bytes)?;
        take(&bytes);
        self.state.scratch = bytes;
        let at = &mut self.state.lanes[lane];
        at.received += footprint(piece.bytes);
        if at.received - at.credited < ring / 4 {
            return Ok(());
        }
        at.credited = at.received;
        let (rank, value, word) = (at.rank, at.received, at.there + CREDIT_AT);
        if at.near {
            self.group.world.local().span(at.block, word + 8)?.store(word, value)?;
            return self.group.world.wake(rank);
        }
        let request = Request::Credit { at: word, value }.encode(at.block, self.group.number);
        self.call(rank, request)
    }

    /// Has something done on another node. It is not waited for, but for what was begun long before.
    fn call(&mut self, rank: Rank, request: Vec<u8>) -> Result<()> {
        if self.state.calls.len() >= MOST_CALLS {
            if let Some(oldest) = self.state.calls.pop_front() {
                oldest.wait()?;
            }
        }
        let call = self.group.world.start_call(rank, COLLECTIVE, request)?;
        self.state.calls.push_back(call);
        Ok(())
    }

    /// Waits until a lane has room, or a piece has come, whichever is asked for.
    fn wait(&mut self, room: Option<(usize, u64)>, piece: Option<usize>) -> Result<()> {
        let (own, ring) = (self.own()?, self.group.layout.ring);
        let lanes = &self.state.lanes;
        let credit = match room {
            Some((lane, bytes)) => Some((own.word(lanes[lane].here + CREDIT_AT)?, lanes[lane].sent, bytes)),
            None => None,
        };
        let head = match piece {
            Some(lane) => Some((own.word(lanes[lane].here)?, lanes[lane].received)),
            None => None,
        };
        let broken = own.word(BROKEN_AT)?;
        let look = || {
            use std::sync::atomic::Ordering::Acquire;
            let has_room = credit.is_some_and(|(word, sent, bytes)| {
                ring.saturating_sub(sent.wrapping_sub(word.load(Acquire))) >= bytes
            });
            if has_room || head.is_some_and(|(word, received)| word.load(Acquire) != received) {
                return Some(Ok(Event::Go));
            }
            match broken.load(Acquire) {
                0 => self.stranger().map(|rank| Ok(Event::Differs(rank))),
                word => Some(Ok(Event::Broken(word))),
            }
        };
        let [one, other] = [room.map(|(lane, _)| lane), piece].map(|lane| lane.map(|lane| lanes[lane].rank));
        let mut strangers_lost = false;
        let event = loop {
            let wait = Wait::at_most(SLOW);
            let waited = match (one, other) {
                (Some(one), Some(other)) if one != other && !strangers_lost => {
                    self.group.world.look_for(look, wait)
                }
                (_, Some(rank)) | (Some(rank), None) => self.group.world.look_for(look, wait.from(rank)),
                (None, None) => return Ok(()),
            };
            match waited {
                Err(Error::Timeout { .. }) => {}
                // It is none of ours.
                Err(Error::PeerLost { rank, .. }) if !self.group.has(rank) => strangers_lost = true,
                waited => break waited?,
            }
            // One that is late may be in something else.
            for lane in [room.map(|(lane, _)| lane), piece].into_iter().flatten() {
                self.inquire(lane)?;
            }
        };
        match event {
            Event::Go => Ok(()),
            Event::Differs(rank) => Err(differs(format!("rank {rank} came with another call"))),
            Event::Broken(word) => Err(self.heard(word)),
        }
    }

    /// Asks a partner on another node which call it is in.
    fn inquire(&self, lane: usize) -> Result<()> {
        let (lane, own) = (&self.state.lanes[lane], self.state.board);
        if lane.near {
            return self.local().check_alive(lane.rank);
        }
        let request = Request::Board.encode(lane.block, self.group.number);
        let reply = self.group.world.call(lane.rank, COLLECTIVE, request)?;
        let board = Reader::new(&reply).long()?;
        match board >> 48 == own >> 48 && board != own {
            true => Err(differs(format!("rank {} came with another call", lane.rank))),
            false => Ok(()),
        }
    }

    /// Takes note of what a partner has said.
    pub(super) fn heard(&mut self, word: u64) -> Error {
        let broken = Broken::of(word).unwrap_or(Broken { cause: Cause::Failed, rank: u32::MAX });
        self.state.heard = Some(broken);
        broken.error()
    }

    /// A member on this node that is in the same call by its number, and in another one by its mark.
    fn stranger(&self) -> Option<Rank> {
        let own = self.state.board;
        self.group.near_blocks().find_map(|block| {
            let word = self.local().span(block, HEAD_BYTES).ok()?.load(CALL_AT).ok()?;
            (word >> 48 == own >> 48 && word != own).then(|| self.local().rank_of(block))
        })
    }

    /// Says on this node which call this member is in.
    pub(super) fn post(&mut self) -> Result<()> {
        self.state.board = self.state.call << 48 | self.mark & 0xffff_ffff_ffff;
        self.own()?.word(CALL_AT)?.store(self.state.board, Release);
        Ok(())
    }

    /// Tells every partner on another node that the group is broken. Whoever cannot be told is lost, or has gone.
    pub(super) fn spread_far(&mut self, broken: Broken) {
        let lanes: Vec<_> = self.state.lanes.iter().map(|lane| (lane.near, lane.rank, lane.block)).collect();
        for (_, rank, block) in lanes.into_iter().filter(|(near, ..)| !near) {
            let _ = self.call(rank, Request::Break(broken).encode(block, self.group.number));
        }
    }

    /// Tells those of this node.
    pub(super) fn spread_near(&self, broken: Broken) {
        let partners = self.state.lanes.iter().filter(|lane| lane.near).map(|lane| lane.block);
        for block in partners.chain(self.group.near_blocks()) {
            break_near(self.local(), block, self.group.number, broken);
            let _ = self.group.world.wake(self.local().rank_of(block));
        }
    }

    /// Waits for all that is under way to other nodes.
    pub(super) fn settle(&mut self) {
        self.state.calls.drain(..).for_each(|call| drop(call.wait()));
    }
}

fn break_near(local: Local<'_>, block: GlobalAddress, number: u64, broken: Broken) {
    let Ok(head) = local.span(block, HEAD_BYTES) else { return };
    // One that has left may have given its block back.
    if head.load(block::NUMBER_AT) == Ok(number) {
        let _ = block::break_block(head, broken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_group_is_broken_goes_into_a_word_and_comes_out_as_an_error() {
        for cause in [Cause::Failed, Cause::Lost, Cause::Differs, Cause::Left] {
            let broken = Broken { cause, rank: 70_000 };
            assert_eq!(Broken::of(broken.word()), Some(broken));
            assert!(broken.error().to_string().contains("70000"), "{}", broken.error());
        }
        assert_eq!((Broken::of(0), Broken::of(99)), (None, None));
        let lost = Broken { cause: Cause::Lost, rank: 3 };
        assert_eq!(Broken::by(&lost.error(), 1), lost);
        assert_eq!(Broken::by(&Error::Misuse("a test".into()), 1), Broken { cause: Cause::Failed, rank: 1 });
    }
}
