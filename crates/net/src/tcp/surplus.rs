//! Two ranks that have called each other at the same time have two connections, and one is enough.
//!
//! Each asks on its own first, and answers go back the way the question came: so nothing need be decided before both stand. Then the
//! one that the lower rank has opened stays. The higher rank says goodbye on its own as soon as nothing of its own is under way
//! there, as it would to make room: what was sent before the goodbye is taken before it, what is asked meanwhile waits until the
//! connection is gone, and goes on the other one then. Nothing is lost, and nothing overtakes.

use super::link::Link;
use super::Tcp;
use crate::contract::{Outbox, Sink};
use crate::Rank;

impl Tcp {
    /// A connection to a peer stands: if one of each side does, ours is too many, unless it is the one that stays.
    pub(super) fn note_surplus(&mut self, peer: Rank) {
        if self.setup.rank.0 < peer.0 {
            return;
        }
        let stands = |link: &&Link| link.peer == Some(peer) && link.established && !link.parting;
        let of = |initiated: bool| {
            let mut links = self.links.iter().flatten().map(|link| &**link).filter(stands);
            links.find(|link| link.initiated == initiated).map(|link| link.index)
        };
        let (Some(ours), Some(_)) = (of(true), of(false)) else { return };
        if let Some(link) = self.links[ours as usize].as_mut() {
            link.surplus = true;
            self.settle_later(ours);
        }
    }

    /// Says goodbye on a connection that is too many, if nothing of ours is under way there.
    #[inline]
    pub(super) fn part_with_surplus(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) {
        let Some(link) = self.links.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if link.surplus && link.is_idle() && link.may_request() {
            link.surplus = false;
            self.say_goodbye(index, sink, out);
        }
    }

    /// A connection to a peer on which what others wait for may be asked, whoever has opened it.
    pub(super) fn any_relay(&self, peer: Rank) -> Option<u32> {
        let links = self.links.iter().flatten();
        let mut standing = links.filter(|link| link.peer == Some(peer) && link.established);
        standing.find(|link| link.may_relay()).map(|link| link.index)
    }
}
