//! The block of a member: where things are in it, and what a rank of another node may have done to it.
//!
//! ```text
//! head      number of the group, lock, broken, call, bytes of a ring, lanes; what it spreads; the last calls
//! lanes     for each partner: words (head, credit, who it is, where its wide ring is), a ring of bytes
//! guests    for each member of the node: whether it will never touch this block again
//! table     on the first member of a node: where the blocks of the members of the node are, and which of them spin
//! told      how many calls were told and taken, and lines for what is told
//! halves    two places for what the members of a node show each other, used in turn
//! ```
//!
//! A SIGKILL leaves a block as it is; it goes with the rank. Members of the node touch it without asking, so that a block is not given back
//! before all of them that live have said that they are done with it (`retired.rs`). Those of other nodes ask the owner: when the number is
//! out of the block, what is in flight to it is refused.

use super::lanes::{Broken, Cause};
use super::wide::WIDE_BYTES;
use super::MOST_KNOWN;
use crate::data::message::{unknown, Reader, Writer};
use crate::{Error, GlobalAddress, Result};
use kumiki_mem::{Local, Span};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Bytes of the head, and where its words are.
pub(super) const HEAD_BYTES: u64 = LOG_AT + 8 * LOG_CALLS;
pub(super) const NUMBER_AT: u64 = 0;
pub(super) const LOCK_AT: u64 = 8;
pub(super) const BROKEN_AT: u64 = 16;
const CALL_AT: u64 = 24;
const RING_AT: u64 = 32;
const LANES_AT: u64 = 40;
/// How many members of the node have ever brought something to its first one, whose block this is.
pub(super) const ARRIVED_AT: u64 = 48;
/// How many pieces this member has ever piped, and how often it has read all of the others (`piped.rs`).
pub(super) const PIPED_AT: u64 = 56;
/// What this member tells the others of its node (`spread.rs`): the last time that it did, how many have used it, of which call it is, and up to five words.
pub(super) const SPREAD_AT: u64 = 64;
pub(super) const USED_AT: u64 = 72;
pub(super) const SPREAD_MARK_AT: u64 = 80;
pub(super) const SPREAD_NOTE_AT: u64 = 88;
pub(super) const SPREAD_END: u64 = LOG_AT;
const LOG_AT: u64 = 128;
/// Calls that are remembered.
const LOG_CALLS: u64 = 16;

/// Bytes before the ring of a lane, and where its words are.
pub(super) const LANE_HEAD_BYTES: u64 = 64;
pub(super) const CREDIT_AT: u64 = 8;
const PEER_AT: u64 = 16;
/// The wide ring of this end, and the position from which on pieces are in it: one more, or 0 if none is.
pub(super) const WIDE_AT: u64 = 24;
pub(super) const WIDE_FROM_AT: u64 = 32;
/// Bytes of the wide ring of the other end; 0 if it has none.
pub(super) const OFFERED_AT: u64 = 40;

/// Bytes before what a member shows: a mark, how much it has in all, and the turn in which it shows it.
pub(super) const HALF_HEAD_BYTES: u64 = 24;
pub(super) const TURN_AT: u64 = 16;
/// Bytes of a line of the cache, with which both halves begin.
pub(super) const LINE_BYTES: u64 = 64;

/// Lines for what a member tells the others of its node (`told.rs`), behind one that says how far it has come; and the smallest half beside which there are some.
pub(super) const TOLD_LINES: u64 = 8;
const LEAST_HALF_BESIDE: u64 = 1024;

/// Bytes of the request of a piece beside those of the piece.
const PIECE_REQUEST_BYTES: usize = 1 + 6 * 8;

/// Set in a word of the table if the member spins: blocks are aligned.
pub(super) const SPINS: u64 = 1;

/// The smallest and the largest ring.
const LEAST_RING: u64 = 128;
const MOST_RING: u64 = 4096;

/// What is where in a block. The first three are the same for all members, the others for those of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// How many lanes there are.
    pub(super) lanes: u64,
    /// Bytes of the ring of each.
    pub(super) ring: u64,
    /// Where members of the node say that they are done with the block: a byte each.
    pub(super) guests: u64,
    /// Where the table of the node begins.
    pub(super) table: u64,
    /// Where the lines begin for what is told; 0 if there are none.
    pub(super) told: u64,
    /// Where the first half begins.
    pub(super) halves: u64,
    /// Bytes that can be shown in a half; 0 if there are none.
    pub(super) half: u64,
    /// Bytes of the block.
    pub(super) bytes: u64,
}

impl Layout {
    /// A layout within so many bytes, for a member with so many lanes and with so many members on its node. `shows` says whether any
    /// node has more than one.
    pub(super) fn new(most: u64, lanes: u64, here: u64, shows: bool) -> Result<Layout> {
        let most = most & !63;
        let share = if shows { most / 2 } else { most };
        let ring = match lanes {
            0 => 0,
            _ => {
                let room = share.saturating_sub(HEAD_BYTES) / lanes;
                (room.saturating_sub(LANE_HEAD_BYTES) & !63).min(MOST_RING)
            }
        };
        if lanes > 0 && ring < LEAST_RING || most < 1024 {
            let least = (HEAD_BYTES + lanes * (LANE_HEAD_BYTES + LEAST_RING)) << u32::from(shows);
            let wrong = format!(
                "a block of {most} bytes for each member; a group of this size needs {}",
                least.max(1024)
            );
            return Err(Error::Misuse(wrong));
        }
        let guests = HEAD_BYTES + lanes * (LANE_HEAD_BYTES + ring);
        let table = guests + if here > 1 { here.next_multiple_of(64) } else { 0 };
        let behind = table + (8 * here).next_multiple_of(64);
        let lines = (1 + TOLD_LINES) * LINE_BYTES;
        let is_told = shows
            && (2..=u64::from(MOST_KNOWN)).contains(&here)
            && most.saturating_sub(behind + lines) / 2 >= LEAST_HALF_BESIDE;
        let (told, halves) = if is_told { (behind, behind + lines) } else { (0, behind) };
        // A table that takes all the room is not worth it: such a node has no halves.
        let room = (most.saturating_sub(halves) / 2) & !63;
        let half = if shows && here > 1 && room >= 512 { room - HALF_HEAD_BYTES } else { 0 };
        let bytes = if half > 0 { halves + 2 * room } else { table };
        Ok(Layout { lanes, ring, guests, table, told, halves, half, bytes })
    }

    /// Where a lane begins.
    pub(super) fn lane(&self, index: u64) -> u64 {
        HEAD_BYTES + index * (LANE_HEAD_BYTES + self.ring)
    }

    /// Bytes of each of the four places behind the heads of both halves, which begin with a line of the cache.
    pub(super) fn quarter(&self) -> u64 {
        ((self.half + HALF_HEAD_BYTES).saturating_sub(LINE_BYTES) / 2) & !(LINE_BYTES - 1)
    }

    /// Where the one of a piece begins.
    pub(super) fn quarter_of(&self, piece: u64) -> u64 {
        self.half_of(piece) + LINE_BYTES + piece / 2 % 2 * self.quarter()
    }

    /// Where the half of a turn begins.
    pub(super) fn half_of(&self, turn: u64) -> u64 {
        self.halves + (turn % 2) * (self.half + HALF_HEAD_BYTES)
    }
}

/// Writes bytes into a ring, which may wrap around.
pub(super) fn write_ring(ring: Span<'_>, position: u64, bytes: &[u8]) -> Result<()> {
    let at = position % ring.len();
    let first = (ring.len() - at).min(bytes.len() as u64) as usize;
    ring.write(at, &bytes[..first])?;
    ring.write(0, &bytes[first..])
}

/// Reads bytes out of a ring, which may wrap around.
pub(super) fn read_ring(ring: Span<'_>, position: u64, into: &mut [u8]) -> Result<()> {
    let at = position % ring.len();
    let first = (ring.len() - at).min(into.len() as u64) as usize;
    ring.read(at, &mut into[..first])?;
    ring.read(0, &mut into[first..])
}

/// Where a piece goes, and what its sender has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) lane: u64,
    pub(super) position: u64,
    pub(super) credit: u64,
    /// Whether it goes into the wide ring.
    pub(super) is_wide: bool,
}

/// What a member has done to a block on another node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request<'a> {
    /// A piece is put into the ring of a lane, and its head is behind it then. Its sender has received so much on that lane.
    Piece { place: Place, head: &'a [u8], bytes: &'a [u8] },
    /// The owner of a lane has received so much.
    Credit { lane: u64, value: u64 },
    /// The owner of a lane has a wide ring of so many bytes for it.
    Offer { lane: u64, bytes: u64 },
    /// The group is broken.
    Break(Broken),
    /// Says which call the member is in, what it did in one before, and why the group is broken if it is.
    Board { call: u64 },
}

impl<'a> Request<'a> {
    pub(super) fn encode(self, block: GlobalAddress, number: u64) -> Vec<u8> {
        let request = |code: u8| Writer::new(code).long(block.bits()).long(number);
        match self {
            Request::Piece { place, head, bytes } => {
                let Place { lane, position, credit, is_wide } = place;
                let whole = (head.len() + bytes.len()).next_multiple_of(8);
                let code = if is_wide { 4 } else { 0 };
                let request = Writer::in_buffer(code, Vec::new(), PIECE_REQUEST_BYTES + whole);
                let request = request.long(block.bits()).long(number).long(lane).long(position).long(credit);
                let padding = &[0; 7][..whole - head.len() - bytes.len()];
                request.long(whole as u64).fixed(head).fixed(bytes).fixed(padding)
            }
            Request::Credit { lane, value } => request(1).long(lane).long(value),
            Request::Break(broken) => request(2).long(broken.word()),
            Request::Board { call } => request(3).long(call),
            Request::Offer { lane, bytes } => request(5).long(lane).long(bytes),
        }
        .finish()
    }

    fn decode(request: &'a [u8]) -> Result<(GlobalAddress, u64, Request<'a>)> {
        let mut request = Reader::new(request);
        let code = request.byte()?;
        let (block, number) = (GlobalAddress::from_bits(request.long()?), request.long()?);
        let decoded = match code {
            0 | 4 => {
                let [lane, position, credit] = [request.long()?, request.long()?, request.long()?];
                let place = Place { lane, position, credit, is_wide: code == 4 };
                Request::Piece { place, head: &[], bytes: request.bytes()? }
            }
            1 => Request::Credit { lane: request.long()?, value: request.long()? },
            2 => Request::Break(Broken::of(request.long()?).ok_or_else(|| unknown(code))?),
            3 => Request::Board { call: request.long()? },
            5 => Request::Offer { lane: request.long()?, bytes: request.long()? },
            code => return Err(unknown(code)),
        };
        Ok((block, number, decoded))
    }
}

/// Does what a member on another node asks.
pub(crate) fn serve(local: Local<'_>, from: u32, request: &[u8], reply: &mut Vec<u8>) -> Result<()> {
    let (block, number, request) = Request::decode(request)?;
    let gone = || Error::Refused("that member has left the group".into());
    let own_at = |address: GlobalAddress, bytes: u64| match local.rank_of(address) == local.rank() {
        true => local.span(address, bytes),
        false => Err(gone()),
    };
    // Whoever has left needs not know what it could do now.
    let is_news = matches!(request, Request::Credit { .. } | Request::Offer { .. } | Request::Break(_));
    let absent = || if is_news { Ok(()) } else { Err(gone()) };
    let own = |bytes: u64| own_at(block, bytes);
    let Ok(head) = own(HEAD_BYTES) else { return absent() };
    if head.load(NUMBER_AT)? != number {
        return absent();
    }
    // Whoever gives the block back has the lock, too.
    let _held = local.lock(head.word(LOCK_AT)?)?;
    if head.load(NUMBER_AT)? != number {
        return absent();
    }
    // What the head says may have been written by anybody on this node.
    let ring = head.load(RING_AT)?;
    let lane_of = |lane: u64| {
        let bytes = ring.checked_add(LANE_HEAD_BYTES).filter(|_| ring > 0).ok_or_else(gone)?;
        let at = lane.checked_mul(bytes).and_then(|at| at.checked_add(HEAD_BYTES)).ok_or_else(gone)?;
        let place = own(at.checked_add(bytes).ok_or_else(gone)?)?.part(at, bytes)?;
        match lane < head.load(LANES_AT)? && place.load(PEER_AT)? == u64::from(from) {
            true => Ok(place),
            false => Err(Error::Refused("a lane of somebody else".into())),
        }
    };
    match request {
        Request::Piece { place: Place { lane, position, credit, is_wide }, bytes, .. } => {
            let place = lane_of(lane)?;
            let ring = match is_wide {
                true => wide_ring(own_at, place).map_err(|_| gone())?,
                false => place.part(LANE_HEAD_BYTES, ring)?,
            };
            if bytes.len() as u64 > ring.len() || place.load(0)? != position {
                // One before it has not come: what lies there is of a lap before.
                break_block(head, Broken::new(Cause::Failed, from))?;
                return Err(Error::Refused("a piece that does not follow the one before it".into()));
            }
            if is_wide && place.load(WIDE_FROM_AT)? == 0 {
                place.store(WIDE_FROM_AT, position.wrapping_add(1))?;
            }
            write_ring(ring, position, bytes)?;
            // Behind one that was sent alone there may be one that is older.
            if credit > place.load(CREDIT_AT)? {
                place.store(CREDIT_AT, credit)?;
            }
            place.store(0, position.wrapping_add(bytes.len() as u64))
        }
        Request::Offer { lane, bytes } => lane_of(lane)?.store(OFFERED_AT, bytes),
        Request::Credit { lane, value } => lane_of(lane)?.store(CREDIT_AT, value),
        Request::Break(broken) => break_block(head, broken),
        Request::Board { call } => {
            let words = look(head, call)?;
            words.iter().for_each(|word| reply.extend_from_slice(&word.to_le_bytes()));
            Ok(())
        }
    }
}

/// The wide ring of a lane, if this rank has one there.
fn wide_ring<'a>(own: impl Fn(GlobalAddress, u64) -> Result<Span<'a>>, lane: Span<'_>) -> Result<Span<'a>> {
    own(GlobalAddress::from_bits(lane.load(WIDE_AT)?), WIDE_BYTES)
}

/// Writes the head of a new block, which is zero.
pub(super) fn prepare(local: Local<'_>, block: GlobalAddress, layout: Layout, number: u64) -> Result<()> {
    let head = local.span(block, HEAD_BYTES)?;
    head.store(RING_AT, layout.ring)?;
    head.store(LANES_AT, layout.lanes)?;
    head.store(NUMBER_AT, number)
}

/// Says in the own block who sends on a lane.
pub(super) fn expect(local: Local<'_>, block: GlobalAddress, at: u64, rank: u32) -> Result<()> {
    local.span(block, at + LANE_HEAD_BYTES)?.part(at, LANE_HEAD_BYTES)?.store(PEER_AT, rank.into())
}

/// What a member says of itself: the call it is in, what it did in another one, and why the group is broken.
pub(super) fn look(head: Span<'_>, call: u64) -> Result<[u64; 3]> {
    Ok([head.load(CALL_AT)?, head.load(LOG_AT + call % LOG_CALLS * 8)?, head.load(BROKEN_AT)?])
}

/// Says in which call a member is.
pub(super) fn post(head: Span<'_>, call: u64, board: u64) -> Result<()> {
    head.store(LOG_AT + call % LOG_CALLS * 8, board)?;
    head.store(CALL_AT, board)
}

/// Says in a block that the group is broken, unless somebody has said as much.
pub(super) fn break_block(head: Span<'_>, broken: Broken) -> Result<()> {
    let word = head.word(BROKEN_AT)?;
    let is_more = |said| said == 0 || Broken::of(said).is_some_and(|said| broken.outweighs(said));
    let _ = word.fetch_update(AcqRel, Acquire, |said| is_more(said).then(|| broken.word()));
    Ok(())
}

/// Takes the number out of a block: from now on nobody of another node writes to it.
pub(super) fn close(local: Local<'_>, block: GlobalAddress) -> Result<()> {
    let head = local.span(block, HEAD_BYTES)?;
    let _held = local.lock(head.word(LOCK_AT)?)?;
    head.word(NUMBER_AT)?.store(0, Release);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_stays_within_what_it_may_take_and_says_what_it_needs() {
        for (lanes, here, shows) in
            [(0, 1, false), (2, 2, true), (8, 16, true), (20, 1, false), (20, 1024, true), (36, 32, true)]
        {
            let layout = Layout::new(16 << 10, lanes, here, shows).expect("it fits");
            assert!(layout.bytes <= 16 << 10, "{layout:?}");
            assert!(lanes == 0 || layout.ring >= LEAST_RING && layout.ring <= MOST_RING, "{layout:?}");
            assert_eq!(layout.lane(lanes), layout.guests);
            assert!(
                layout.table >= layout.guests + if here > 1 { here } else { 0 }
                    && layout.table <= layout.bytes
            );
            assert!(layout.half == 0 || layout.half_of(1) + HALF_HEAD_BYTES + layout.half == layout.bytes);
            // Four places for pieces, none of which touches a head or another.
            let mut places: Vec<u64> = (0..8).map(|piece| layout.quarter_of(piece)).collect();
            assert_eq!(places[..4], places[4..]);
            places.truncate(4);
            places.sort_unstable();
            let ends = [layout.half_of(1), layout.bytes];
            for (place, end) in places.iter().zip([places[1], ends[0], places[3], ends[1]]) {
                assert!(layout.half == 0 || place + layout.quarter() <= end && place % 64 == 0, "{layout:?}");
            }
            assert!(layout.half == 0 || places[2] >= ends[0] + HALF_HEAD_BYTES && layout.quarter() > 0);
        }
        let short = Layout::new(2048, 20, 4, true).expect_err("it does not fit");
        assert!(matches!(&short, Error::Misuse(why) if why.contains("needs 8192")), "{short}");
    }

    /// A piece that was refused would be missed by nobody: what lies in the ring is of a lap before.
    #[test]
    fn a_piece_that_does_not_follow_or_is_for_another_breaks_nothing_but_the_group() {
        use kumiki_sim::{Cluster, Network};
        let outcome = Cluster::new(1, Network::torus(&[1])).run(|attachment| {
            let world = crate::World::attach(attachment)?;
            let layout = Layout::new(4096, 2, 1, false)?;
            let memory = world.alloc::<u64>(layout.bytes as usize / 8)?;
            let (local, block) = (world.local(), memory.address());
            prepare(local, block, layout, 77)?;
            (0..2).try_for_each(|lane| expect(local, block, layout.lane(lane), 3))?;
            let ask =
                |from, request: Request<'_>| serve(local, from, &request.encode(block, 77), &mut Vec::new());
            let piece = |lane, position| {
                let place = Place { lane, position, credit: 0, is_wide: false };
                Request::Piece { place, head: &[], bytes: &[1; 64] }
            };
            let broken = || local.span(block, HEAD_BYTES).and_then(|head| head.load(BROKEN_AT));
            ask(3, piece(1, 0))?;
            for (from, request) in [(4, piece(1, 64)), (3, piece(2, 0)), (3, piece(u64::MAX / 8, 0))] {
                assert!(ask(from, request).is_err(), "from {from}: {request:?}");
            }
            assert!(ask(3, Request::Credit { lane: 9, value: 1 }).is_err());
            assert_eq!(broken()?, 0);
            assert!(ask(3, piece(1, 192)).is_err(), "one is missing");
            assert_eq!(Broken::of(broken()?), Some(Broken::new(Cause::Failed, 3)));
            close(local, block)?;
            assert!(ask(3, piece(0, 0)).is_err(), "it is closed");
            assert_eq!(ask(3, Request::Credit { lane: 0, value: 1 }), Ok(()), "nobody needs it any more");
            drop(memory);
            world.finalize()
        });
        assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), [Ok(())]);
    }

    #[test]
    fn requests_come_as_they_were_sent_and_others_are_refused() {
        let block = GlobalAddress::from_bits(77);
        let place = Place { lane: 3, position: 1000, credit: 64, is_wide: true };
        let sent = Request::Piece { place, head: b"a ", bytes: b"piece" }.encode(block, 5);
        let (to, number, came) = Request::decode(&sent).expect("it is whole");
        assert_eq!((to, number), (block, 5));
        assert!(
            matches!(came, Request::Piece { place: came, head: b"", bytes: b"a piece\0" } if came == place)
        );
        for short in 0..sent.len() {
            assert!(Request::decode(&sent[..short]).is_err());
        }
        let mut other = sent;
        other[0] = 9;
        assert!(Request::decode(&other).is_err());
    }
}
