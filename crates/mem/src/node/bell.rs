//! Waking ranks of this node that wait for a word of their memory. Whoever writes to memory of the node says so here; how they wait
//! is in `drive/word.rs`, and the protocol between the two in `net/src/shm/bell.rs`.

use crate::node::recent::Glance;
use crate::node::Node;
use kumiki_net::os::futex;

impl Node {
    /// Something was written where this pointer leads: wakes its owner, if that waits for it. One load, and a branch that is not
    /// taken, if nobody waits for anything.
    #[inline(always)]
    pub(crate) fn wrote(&self, pointer: *const u8) {
        if self.finder.anybody_listens() {
            self.ring_owner(pointer);
        }
    }

    /// The same behind an access that took this glance before it.
    #[inline(always)]
    pub(crate) fn wrote_after(&self, glance: Glance<'_>, pointer: *const u8) {
        if glance.anybody_listens() {
            self.ring_owner(pointer);
        }
    }

    /// Memory that is not of the arena is of this process.
    #[cold]
    #[inline(never)]
    fn ring_owner(&self, pointer: *const u8) {
        self.ring(self.arena.owner_of(pointer).unwrap_or(self.local));
    }

    /// Wakes the threads of a rank of this node that wait for a word.
    pub(crate) fn ring(&self, local: u32) {
        let Some(control) = self.arena.control(local) else { return };
        if control.bell.withdraw(&self.arena.shared().signs.listeners) {
            futex::wake_all(control.bell.word());
        }
    }

    /// Whether a rank of the node may wait for a word.
    #[inline]
    pub(crate) fn anybody_listens(&self) -> bool {
        self.finder.anybody_listens()
    }

    /// The same, if somebody of the node waits at all: a bell is in a line that its rank writes for other reasons, too.
    #[inline]
    pub(crate) fn ring_if_any(&self, local: u32) {
        if self.finder.anybody_listens() {
            self.ring(local);
        }
    }

    /// Something came for this rank and may have been written to its memory.
    #[inline]
    pub(crate) fn ring_own(&self) {
        self.ring_if_any(self.local);
    }
}
