//! Rooms: what is long and goes to all members of a node is shown in long pieces.
//!
//! Where a member reads what another one has in its own memory, the system copies it, page by page; what lies in the arena the processor
//! copies, which is so much faster that one copy more, into a *room* of the member that has it, does not matter where several read it.
//! A half of a block is too short for that: members would meet all the time.
//!
//! A member makes its room for the first call that has a use for it, outside of its block, if there is memory for it. At the beginning of
//! each such call all tell each other where their rooms are; if one has none, nobody uses any from then on, and each reads what it needs. At the end they
//! meet, so that nobody reads in a room between two calls. When a member leaves, its room stays as long as its block: a call that fails may have left
//! somebody behind who reads there.

use super::direct::{Circle, Note};
use super::operation::Reduction;
use super::shown::merge_shown;
use super::{Algorithm, Group, Talk, SCRATCH_BYTES};
use crate::{Purpose, Region, Result};
use kumiki_mem::Span;
use std::sync::PoisonError;

/// Bytes of a piece, and of a room, which has two of them, used in turn.
pub(super) const ROOM_PIECE: usize = 128 << 10;
const ROOM_BYTES: u64 = 2 * ROOM_PIECE as u64;
/// What is shorter than this does not go through rooms; where each member has a core, and meeting is cheap, what is much shorter does not…
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_BYTES_WITH_CORES: u64 = 32 << 10;
/// …nor does what few members have, where each reads what it needs; and many would take much memory, and page tables for it.
const LEAST_MEMBERS: u64 = 4;
const MOST_MEMBERS: u64 = 32;
/// A room is made where there is memory for so many of them.
const ROOM_SHARE: u64 = 8;

/// The room of a member.
#[derive(Debug, Default)]
pub(super) enum Room {
    #[default]
    Untried,
    Open(Region<u64>),
    /// Somebody has none.
    Never,
}

impl Room {
    pub(super) fn into_memory(self) -> Option<Region<u64>> {
        match self {
            Room::Open(memory) => Some(memory),
            Room::Untried | Room::Never => None,
        }
    }
}

/// How something goes to all members of a node.
pub(super) enum Rooms<'w> {
    /// It is too short for rooms.
    Short,
    /// Through these.
    Open(Vec<Span<'w>>),
    /// It would go through rooms if all had one.
    None,
}

/// Whether so many members of a node, of which each has a core or not, with halves of so many bytes show so many bytes in rooms, if they have some.
pub(super) fn goes_in_rooms((members, cores): (u64, bool), half: u64, bytes: u64) -> bool {
    let are_some = (LEAST_MEMBERS..=MOST_MEMBERS).contains(&members);
    let least = if cores { LEAST_BYTES_WITH_CORES } else { LEAST_BYTES };
    are_some && bytes >= least && half < ROOM_PIECE as u64
}

impl<'w> Talk<'_, 'w> {
    /// How so many bytes go to all members of the node: the same for all of them.
    pub(super) fn rooms(&mut self, bytes: usize) -> Result<Rooms<'w>> {
        let (count, _) = self.near();
        // Where there are several nodes, what is long goes from memory to memory on each of them.
        let is_all = count == self.group.count as usize;
        if !is_all || !goes_in_rooms((count as u64, self.group.looks), self.group.layout.half, bytes as u64) {
            return Ok(Rooms::Short);
        }
        if matches!(self.state.room, Room::Never) {
            return Ok(Rooms::None);
        }
        self.make_room();
        let own = match &self.state.room {
            Room::Open(room) => [room.address().bits(), ROOM_BYTES, 0],
            Room::Untried | Room::Never => [0; 3],
        };
        let notes = self.tell_notes(Circle::Near, own)?;
        if notes.iter().any(|note| note[1] != ROOM_BYTES) {
            self.state.room = Room::Never;
            return Ok(Rooms::None);
        }
        let local = self.local();
        let span = |note: &Note| local.span(crate::GlobalAddress::from_bits(note[0]), ROOM_BYTES);
        notes.iter().map(span).collect::<Result<_>>().map(Rooms::Open)
    }

    /// Combines elements of the members of the node, in their order, on all of them, through rooms: each combines a part of each piece.
    pub(super) fn merge_in_rooms(
        &mut self,
        rooms: &[Span<'w>],
        data: &mut [u8],
        reduction: Reduction<'_>,
    ) -> Result<()> {
        let ((count, me), element) = (self.near(), reduction.element);
        let step = ROOM_PIECE / element * element;
        // So much of the own part is combined at once, beside what others have of it.
        let once = (SCRATCH_BYTES / 2 / element).max(1) * element;
        let _booked = self.scratch(2 * once)?;
        let (whole, mut buffers) = (data.len(), Default::default());
        for (turn, piece) in data.chunks_mut(step).enumerate() {
            // Whoever writes there again has met all who read there now.
            let place = (turn % 2 * ROOM_PIECE) as u64;
            let elements = piece.len() / element;
            let part = |member: usize| {
                let [start, end] = [member, member + 1].map(|member| elements * member / count * element);
                (start..end, place + start as u64)
            };
            rooms[me].write(place, piece)?;
            self.show(whole, &[])?;
            let (own, mut at) = part(me);
            for own in piece[own].chunks_mut(once) {
                let shown = |index: u32, into: &mut [u8]| rooms[index as usize].read(at, into);
                merge_shown(own, reduction, (me, count), &mut buffers, shown)?;
                // Only this member has read what it had there.
                rooms[me].write(at, own)?;
                at += own.len() as u64;
            }
            self.meet()?;
            for member in (1..count).map(|step| (me + step) % count) {
                let (theirs, at) = part(member);
                rooms[member].read(at, &mut piece[theirs])?;
            }
        }
        // Nobody reads in rooms any more.
        self.meet()
    }

    fn make_room(&mut self) {
        let memory = &self.group.world.memory;
        if matches!(self.state.room, Room::Untried) {
            // What the program may need of its budget is left to it.
            let is_much = memory.book(Purpose::Comm, ROOM_SHARE * ROOM_BYTES).is_ok();
            let made = is_much.then(|| memory.try_alloc::<u64>(ROOM_BYTES as usize / 8).ok()).flatten();
            self.state.room = made.map_or(Room::Untried, Room::Open);
        }
    }
}

impl Group<'_> {
    /// Something was decided about calls that might go through rooms: if not so, the room is given back. Nobody reads in it between calls.
    pub(super) fn forgo_room(&self, algorithm: Algorithm) {
        if algorithm != Algorithm::Flat {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(state.room, Room::Open(_)) {
                state.room = Room::Untried;
            }
        }
    }
}
