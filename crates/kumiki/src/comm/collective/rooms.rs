//! Rooms: what is long and goes to all members of a node is shown in long pieces.
//!
//! Where a member reads what another one has in its own memory, the system copies it, page by page; what lies in the arena the processor
//! copies, which is so much faster that one copy more, into a *room* of the member that has it, does not matter where several read it.
//! A half of a block is too short for that: members would meet all the time.
//!
//! A member makes its room for the first call that has a use for it, outside of its block, if there is memory for it. At the beginning of
//! each such call all tell each other where their rooms are; if one has none, nobody uses any. At the end they meet, so that nobody
//! reads in a room between two calls: it can go with the group.

use super::direct::{Circle, Note};
use super::shown::Wanted;
use super::Talk;
use crate::{Purpose, Region, Result};
use kumiki_mem::Span;

/// Bytes of a piece, and of a room, which has two of them, used in turn.
pub(super) const ROOM_PIECE: usize = 128 << 10;
const ROOM_BYTES: u64 = 2 * ROOM_PIECE as u64;
/// What is shorter than this does not go through rooms, nor does what few members have: there each reads what it needs.
const LEAST_BYTES: usize = 1 << 20;
const LEAST_MEMBERS: u64 = 4;
/// A room is made where there is memory for so many of them.
const ROOM_SHARE: u64 = 8;

/// The room of a member.
#[derive(Debug, Default)]
pub(super) enum Room {
    #[default]
    Untried,
    Open(Region<u64>),
    None,
}

/// Whether so many members of a node show so many bytes in rooms, if they have some.
pub(super) fn goes_in_rooms(members: u64, bytes: usize) -> bool {
    bytes >= LEAST_BYTES && members >= LEAST_MEMBERS
}

impl<'w> Talk<'_, 'w> {
    /// As [`stream`](Self::stream), where all members know that so many bytes are the most that goes to one of them.
    pub(super) fn stream_long(
        &mut self,
        bytes: usize,
        mine: &[u8],
        into: &mut [u8],
        wanted: Wanted<'_>,
    ) -> Result<()> {
        match self.rooms(bytes)? {
            None => self.stream(mine, into, wanted),
            Some(rooms) => {
                self.stream_through(Some(&rooms), mine, into, wanted)?;
                self.meet()
            }
        }
    }

    /// The rooms of all members of the node, if so many bytes go through them.
    fn rooms(&mut self, bytes: usize) -> Result<Option<Vec<Span<'w>>>> {
        let (count, _) = self.near();
        if !goes_in_rooms(count as u64, bytes) {
            return Ok(None);
        }
        let _booked = self.scratch(count * (size_of::<Note>() + size_of::<Span<'_>>()))?;
        self.make_room();
        let own = match &self.state.room {
            Room::Open(room) => [room.address().bits(), ROOM_BYTES, 0],
            Room::Untried | Room::None => [0; 3],
        };
        let notes = self.tell_notes(Circle::Near, own)?;
        if notes.iter().any(|note| note[1] != ROOM_BYTES) {
            return Ok(None);
        }
        let local = self.local();
        let span = |note: &Note| local.span(crate::GlobalAddress::from_bits(note[0]), ROOM_BYTES);
        notes.iter().map(span).collect::<Result<_>>().map(Some)
    }

    fn make_room(&mut self) {
        if !matches!(self.state.room, Room::Untried) {
            return;
        }
        let memory = &self.group.world.memory;
        // What the program may need is left to it.
        let is_much = memory.book(Purpose::Comm, ROOM_SHARE * ROOM_BYTES).is_ok();
        let made = is_much.then(|| memory.try_alloc::<u64>(ROOM_BYTES as usize / 8).ok()).flatten();
        self.state.room = made.map_or(Room::None, Room::Open);
    }
}
