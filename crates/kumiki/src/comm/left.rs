//! What is left of an end of a segment buffer: memory that the other one may still write to, and what that one has not been told.

use super::door::What;
use super::lobby::Lobby;
use super::segments::{LEFT, OLD, WORDS};
use crate::{AtomicOp, Error, GlobalAddress, GlobalPtr, Handle, Order, Rank, Region, World};

/// Whether the other end knows that this one has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Farewell {
    /// It does, or there is nobody to be told.
    Said,
    /// It is being told.
    Telling(Handle),
    /// It is to be told at this word.
    ToTell(GlobalAddress),
    /// It is to be told when it is known where.
    ToMeet(What, u64),
}

/// Memory of an end that is gone, which the other one may still write to.
pub(super) struct Left {
    pub(super) words: Region<u64>,
    pub(super) _buffer: Option<Region<u64>>,
    pub(super) peer: Rank,
    pub(super) farewell: Farewell,
    /// Why the end is gone.
    pub(super) why: u64,
}

impl Left {
    /// Whether the other end, which is there, does not know that this one has left.
    pub(super) fn is_untold(&self, world: &World) -> bool {
        self.farewell != Farewell::Said && world.local().check_alive(self.peer).is_ok()
    }

    /// Tells the other end what it does not know, if that is possible by now. Whether something may still be written to the memory.
    pub(super) fn advance(&mut self, world: &World, lobby: &mut Lobby) -> bool {
        let local = world.local();
        if local.check_alive(self.peer).is_err() {
            return false;
        }
        if let Farewell::ToMeet(what, number) = self.farewell {
            if let Some(knock) = lobby.answer(what, self.peer, number) {
                let word = GlobalAddress::from_bits(knock.words[0]);
                let is_theirs = local.rank_of(word) == self.peer;
                self.farewell = if is_theirs { Farewell::ToTell(word) } else { Farewell::Said };
            }
        }
        if let Farewell::ToTell(word) = self.farewell {
            // Whoever unwinds sends nothing.
            if !std::thread::panicking() {
                self.farewell = self.tell(world, word);
            }
        }
        if let Farewell::Telling(handle) = self.farewell {
            // Nothing of the program's own may be asked about here.
            match world.memory.result_of(handle) {
                None => return true,
                Some(_) => self.farewell = Farewell::Said,
            }
        }
        self.farewell != Farewell::Said || world.memory.get(self.words.ptr().add(LEFT)) == Ok(0)
    }

    fn tell(&self, world: &World, word: GlobalAddress) -> Farewell {
        if world.local().is_near(self.peer) {
            tell_near(world, self.peer, word, self.why);
            return Farewell::Said;
        }
        let old: GlobalPtr<u64> = self.words.ptr().add(OLD);
        // Behind everything that this end has sent: the other one frees its memory when it knows.
        let told =
            world.atomic(old.address(), word.add(8 * LEFT as u64), AtomicOp::Swap(self.why), Order::All);
        match told {
            Ok(handle) => Farewell::Telling(handle),
            Err(Error::PeerLost { .. } | Error::Bounds { .. }) => Farewell::Said,
            Err(_) => Farewell::ToTell(word),
        }
    }
}

/// Tells an end on this node, at its words, why the other one has left.
pub(super) fn tell_near(world: &World, peer: Rank, word: GlobalAddress, why: u64) {
    let words = world.local().span(word, 8 * WORDS as u64);
    let told = words.and_then(|words| words.store(8 * LEFT as u64, why));
    let _ = told.and_then(|()| world.memory.wake(peer));
}
