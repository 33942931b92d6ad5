//! Who sends to a rank, and the lanes that it gives to those who send much.
//!
//! A lane belongs to a pair: the receiver makes it, offers it, and the sender says in the mailbox from which message on it uses it. When
//! others send more, or the pair falls quiet, the receiver asks for it back; the sender then writes an end into the lane, and uses the
//! mailbox again. Only then, or when the sender is gone, is its memory freed. Whatever is found in the mailbox behind that end is
//! later than everything in the lane: so no message is lost, and none overtakes another.

use super::by_rank::ByRank;
use super::outgoing::Out;
use super::post::Way;
use super::record::Note;
use super::ring::{self, Lap, Reading, Ring};
use super::{MessageWay, CREDIT};
use crate::{GlobalAddress, Rank, Result, World};
use kumiki_mem::{Local, Mark, Span};
use std::collections::BTreeSet;

/// Messages that a source has sent lately, at which it gets a lane.
const MUCH: u16 = 4;
/// Messages after which what came before counts half.
const HALVING: u32 = 256;
/// A lane of so many bytes is a wide one.
const LEAST_WIDE: u64 = 64 << 10;
const _: () = assert!(LEAST_WIDE < super::WIDE_NEAR && LEAST_WIDE < super::WIDE_FAR);

/// What is known of somebody who sends through the mailbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Source {
    /// Messages that were received, and of which it was not told.
    pub(super) owed: u8,
    /// Messages for which it got credit before they were received.
    pub(super) advanced: u32,
    /// Messages that are kept.
    pub(super) kept: u32,
    /// Messages lately, and those of them for which there is no lane that is wide enough.
    recent: u16,
    long: u8,
}

/// How far a lane is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The sender may not know of it yet.
    Offered,
    /// It is used.
    Open,
    /// It holds what its sender does not write.
    Broken,
}

/// A lane of this rank.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) source: Rank,
    pub(super) ring: Ring,
    mark: Mark,
    lap: Lap,
    pub(super) stage: Stage,
    /// Bytes that were read.
    pub(super) head: u64,
    /// How far it was read when its sender was last surely seen to wait.
    pub(super) looked: u64,
    /// Bytes of messages that came in it and that nobody has asked for.
    pub(super) kept_bytes: u64,
    /// The sender was asked to leave it.
    is_asked_back: bool,
    recent: u16,
    /// Messages lately that were too long for it, but not for a wide one.
    long: u8,
}

impl Lane {
    fn is_wide(&self) -> bool {
        self.ring.bytes >= LEAST_WIDE
    }

    /// The memory of its ring.
    #[inline]
    pub(super) fn span<'a>(&mut self, local: Local<'a>) -> Result<Span<'a>> {
        local.span_at(&mut self.mark)
    }

    /// Begins to read what comes next.
    #[inline]
    pub(super) fn read<'a>(&mut self, local: Local<'a>) -> Result<Reading<'a>> {
        let span = self.span(local)?;
        self.ring.read_in(span, &mut self.lap, self.head)
    }
}

/// A lane of this rank, as the way on which its writer, on another node, says with letters how far it has read the lane of this rank there; and this rank
/// says the same of it.
pub(super) struct Opposite<'a> {
    span: Span<'a>,
    lane: GlobalAddress,
    head: u64,
    is_open: bool,
}

impl Opposite<'_> {
    /// What the other rank has said is known from now on. (A lane that cannot be looked at has other trouble.)
    #[inline]
    pub(super) fn learn(&self, out: &mut Out) {
        if let Ok(Some(head)) = ring::opposite(self.span) {
            out.was_read_to(head);
        }
    }

    /// How far this rank has read, if the other one does not know.
    #[inline]
    pub(super) fn news(&self) -> Option<u64> {
        let is_news = self.is_open && ring::told(self.span).is_ok_and(|told| told != self.head);
        is_news.then_some(self.head)
    }

    /// How far the other rank knows that this one has read, if it has heard all.
    pub(super) fn told_room(&self) -> Option<Note> {
        let told = ring::told(self.span).ok().filter(|&told| self.is_open && told != 0)?;
        Some(Note::Room { lane: self.lane, head: told })
    }

    /// The other rank is told that.
    #[inline]
    pub(super) fn was_told(self) {
        let _ = ring::tell(self.span, self.head);
    }

    /// What was said is about a lane that is not used any more.
    pub(super) fn forget(&self) {
        let _ = ring::forget_opposite(self.span);
    }
}

/// What is to be done because of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Nothing,
    /// Its source gets a lane.
    Give,
    /// This lane is asked back.
    Ask(Ring, Rank),
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    sources: ByRank<Source>,
    /// Those that have no more credit.
    hungry: BTreeSet<Rank>,
    pub(super) lanes: Vec<Lane>,
    /// Messages since the last halving.
    since: u32,
    /// There was no memory for a wide lane: none is tried again.
    has_no_wide: bool,
}

impl Incoming {
    pub(super) fn source(&mut self, source: Rank) -> &mut Source {
        self.sources.of(source)
    }

    pub(super) fn lane_of(&self, source: Rank) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.source == source)
    }

    /// The lane of a rank of another node, if there is one.
    #[inline]
    pub(super) fn opposite<'a>(&mut self, world: &'a World, other: Rank) -> Option<Opposite<'a>> {
        let local = world.local();
        if local.can_touch(other) {
            return None;
        }
        let lane = self.lanes.iter_mut().find(|lane| lane.source == other)?;
        let span = lane.span(local).ok()?;
        Some(Opposite { span, lane: lane.ring.address, head: lane.head, is_open: lane.stage == Stage::Open })
    }

    /// The lane of a source through which a message came.
    pub(super) fn lane_at(&mut self, way: Way, source: Rank) -> Option<&mut Lane> {
        let Way::Lane(address) = way else { return None };
        self.lanes.iter_mut().find(|lane| lane.ring.address == address && lane.source == source)
    }

    /// Those who wait for credit.
    pub(super) fn hungry(&self) -> impl Iterator<Item = Rank> + '_ {
        self.hungry.iter().copied()
    }

    pub(super) fn is_hungry(&self, source: Rank) -> bool {
        self.hungry.contains(&source)
    }

    /// A source has no more credit.
    pub(super) fn note_hungry(&mut self, source: Rank) {
        self.hungry.insert(source);
    }

    /// A message that came through the mailbox is to be kept. Whether its source had credit for it.
    pub(super) fn keeps(&mut self, source: Rank) -> bool {
        let known = self.source(source);
        let has_credit = known.kept < u32::from(CREDIT).saturating_add(known.advanced);
        known.kept += u32::from(has_credit);
        has_credit
    }

    /// It is kept no more.
    pub(super) fn keeps_no_more(&mut self, source: Rank) {
        let known = self.source(source);
        known.kept = known.kept.saturating_sub(1);
    }

    /// A message has come that would not have had to be fetched if there were a wide lane. The lane that there is, if it is to be left for
    /// that.
    pub(super) fn count_long(&mut self, from: Rank, most_wide: usize) -> Option<Ring> {
        if !self.may_widen(most_wide) {
            return None;
        }
        let Some(at) = self.lane_of(from) else {
            let known = self.source(from);
            known.long = known.long.saturating_add(1);
            return None;
        };
        let lane = &mut self.lanes[at];
        lane.long = lane.long.saturating_add(1);
        let is_due = lane.long >= MUCH as u8 && lane.stage == Stage::Open && !lane.is_wide();
        if !is_due || std::mem::replace(&mut lane.is_asked_back, true) {
            return None;
        }
        let ring = lane.ring;
        self.source(from).long = MUCH as u8;
        Some(ring)
    }

    /// Whether a source is to get a wide lane.
    pub(super) fn wants_wide(&mut self, from: Rank, most_wide: usize) -> bool {
        self.source(from).long >= MUCH as u8 && self.may_widen(most_wide)
    }

    /// Whether there may be one more wide lane.
    fn may_widen(&self, most_wide: usize) -> bool {
        !self.has_no_wide && self.lanes.iter().filter(|lane| lane.is_wide()).count() < most_wide
    }

    /// There was no memory for one.
    pub(super) fn never_widen(&mut self) {
        self.has_no_wide = true;
    }

    /// Nothing comes from a source any more.
    pub(super) fn forget(&mut self, source: Rank) {
        self.hungry.remove(&source);
        self.sources.set(source, Source::default());
    }

    /// Rows of its tables.
    pub(super) fn rows(&self) -> usize {
        self.sources.rows()
    }

    /// A message that came through the mailbox was received: the credit that its source is to be told of now.
    pub(super) fn received(&mut self, source: Rank) -> u64 {
        let is_hungry = self.is_hungry(source);
        let known = self.source(source);
        if known.advanced > 0 {
            known.advanced -= 1;
            return 0;
        }
        known.owed += 1;
        if !is_hungry && known.owed < CREDIT / 2 {
            return 0;
        }
        let count = std::mem::take(&mut known.owed);
        self.hungry.remove(&source);
        count.into()
    }

    /// A source that waits for credit gets some in advance, because a message that waits there may be wanted.
    pub(super) fn advance_credit(&mut self, source: Rank) -> u64 {
        if !self.hungry.remove(&source) {
            return 0;
        }
        let known = self.source(source);
        let more = u64::from(CREDIT / 2);
        known.advanced = known.advanced.saturating_add(more as u32);
        more
    }

    /// Counts a message that came in a lane, if nothing is to be done because of it. False if it is to be [counted](Self::count).
    #[inline]
    pub(super) fn counts_on(&mut self, at: usize) -> bool {
        let is_quiet = self.since + 1 < HALVING;
        if is_quiet {
            self.since += 1;
            self.lanes[at].recent = self.lanes[at].recent.saturating_add(1);
        }
        is_quiet
    }

    /// Counts a message, and says what becomes of lanes because of it.
    pub(super) fn count(&mut self, from: Rank, way: MessageWay, most: usize) -> Step {
        self.since += 1;
        let quiet = (self.since >= HALVING).then(|| self.halve()).flatten();
        if let Some(at) = self.lane_of(from) {
            let lane = &mut self.lanes[at];
            lane.recent = lane.recent.saturating_add(1);
            return quiet.map_or(Step::Nothing, |at| self.ask_back(at));
        }
        let known = self.source(from);
        known.recent = known.recent.saturating_add(1);
        let (recent, long) = (known.recent, known.long);
        let is_much = match way {
            MessageWay::Mailbox => return Step::Nothing,
            MessageWay::Lane => true,
            MessageWay::Automatic => recent >= MUCH || long >= MUCH as u8,
        };
        if is_much && self.lanes.len() < most {
            return Step::Give;
        }
        // One that was used half as much makes room for it.
        let quietest = self.lanes.iter().enumerate().min_by_key(|(_, lane)| lane.recent);
        let loser = quietest.filter(|(_, lane)| is_much && lane.recent < recent / 2).map(|(at, _)| at);
        quiet.or(loser).map_or(Step::Nothing, |at| self.ask_back(at))
    }

    /// A lane was made for a source.
    pub(super) fn give(&mut self, source: Rank, ring: Ring) {
        let recent = std::mem::take(&mut self.source(source).recent);
        self.source(source).long = 0;
        let lane = Lane {
            source,
            ring,
            mark: ring.mark(),
            lap: Lap::default(),
            stage: Stage::Offered,
            head: 0,
            looked: 0,
            kept_bytes: 0,
            is_asked_back: false,
            recent,
            long: 0,
        };
        self.lanes.push(lane);
    }

    fn ask_back(&mut self, at: usize) -> Step {
        let lane = &mut self.lanes[at];
        match std::mem::replace(&mut lane.is_asked_back, true) {
            true => Step::Nothing,
            false => Step::Ask(lane.ring, lane.source),
        }
    }

    /// What was lately is longer ago. A lane that was not used for long, if there is one.
    fn halve(&mut self) -> Option<usize> {
        self.since = 0;
        self.sources.change(|source| (source.recent, source.long) = (source.recent / 2, source.long / 2));
        self.lanes.iter_mut().for_each(|lane| (lane.recent, lane.long) = (lane.recent / 2, lane.long / 2));
        self.lanes.iter().position(|lane| lane.recent == 0 && !lane.is_asked_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GlobalAddress;

    fn ring(number: u64) -> Ring {
        Ring::new(GlobalAddress::from_bits(number << 12), 256).unwrap()
    }

    #[test]
    fn credit_goes_back_in_halves_and_at_once_to_who_waits_for_it() {
        let mut incoming = Incoming::default();
        let told: Vec<u64> = (0..8).map(|_| incoming.received(3)).collect();
        assert_eq!(told, [0, 0, 0, 4, 0, 0, 0, 4]);
        incoming.note_hungry(3);
        assert_eq!((incoming.received(3), incoming.received(3)), (1, 0));
        // What it got in advance is not given again.
        incoming.note_hungry(4);
        assert_eq!(incoming.hungry().collect::<Vec<_>>(), [4]);
        assert_eq!((incoming.advance_credit(4), incoming.advance_credit(4)), (4, 0));
        let told: Vec<u64> = (0..8).map(|_| incoming.received(4)).collect();
        assert_eq!(told, [0, 0, 0, 0, 0, 0, 0, 4]);
    }

    #[test]
    fn those_who_send_much_get_lanes_and_those_who_fall_quiet_lose_them() {
        let mut incoming = Incoming::default();
        let send = |incoming: &mut Incoming, from: Rank, count: usize| {
            let mut last = Step::Nothing;
            for _ in 0..count {
                let step = incoming.count(from, MessageWay::Automatic, 2);
                if step == Step::Give {
                    incoming.give(from, ring(from.into()));
                }
                last = if step == Step::Nothing { last } else { step };
            }
            last
        };
        assert_eq!(send(&mut incoming, 1, 3), Step::Nothing);
        assert_eq!(send(&mut incoming, 1, 1), Step::Give);
        assert_eq!(send(&mut incoming, 2, 10), Step::Give);
        assert_eq!(incoming.lanes.len(), 2);
        // The cap holds; the one that was used less is asked back, once.
        assert_eq!(send(&mut incoming, 3, 8), Step::Nothing);
        assert_eq!(send(&mut incoming, 3, 4), Step::Ask(ring(1), 1));
        assert_eq!(send(&mut incoming, 3, 4), Step::Nothing);
        incoming.lanes.remove(0);
        assert_eq!(send(&mut incoming, 3, 1), Step::Give);
        // Without anybody who wants it, too, a lane that is not used any more is asked back.
        assert_eq!(send(&mut incoming, 3, 8 * HALVING as usize), Step::Ask(ring(2), 2));
    }

    #[test]
    fn a_way_can_be_forced() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.count(1, MessageWay::Lane, 1), Step::Give);
        for _ in 0..100 {
            assert_eq!(incoming.count(1, MessageWay::Mailbox, 1), Step::Nothing);
        }
    }

    #[test]
    fn sources_that_fell_quiet_take_no_memory() {
        let mut incoming = Incoming::default();
        for from in 0..200 {
            incoming.count(from, MessageWay::Automatic, 0);
        }
        assert_eq!(incoming.rows(), 13);
        for _ in 0..HALVING {
            incoming.count(1000, MessageWay::Automatic, 0);
        }
        assert_eq!(incoming.rows(), 1);
    }
}
