//! How many connections there are: the cap, who makes room, and whom there is no room for.
//!
//! The connections that this rank opens for itself stay below the cap, however many others it has. Callers are let in beyond it,
//! because whoever waits for their answers may hold the others; but then idle connections are closed in good order until the cap
//! is kept again. Nobody is let in beyond what the system lets this process open, less a few places that are kept for its own
//! calls: the caller finds its connection closed, and calls again a little later.

use super::link::Link;
use super::reach::Attempt;
use super::{fresh_nonce, Tcp};
use crate::auth::Purpose;
use crate::contract::{Outbox, Sink};
use crate::os::{self, socket, time};
use crate::wire::Connection;
use crate::Result;
use std::os::fd::{AsFd, OwnedFd};

impl Tcp {
    /// Says goodbye on the idle link that was used longest ago, of those that may go. Whether there is one.
    pub(super) fn evict(
        &mut self,
        may_go: impl Fn(&Link) -> bool,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> bool {
        let oldest = (0..self.links.len())
            .filter_map(|index| self.links[index].as_ref().map(|link| (index, link)))
            .filter(|(_, link)| link.is_idle() && link.may_request() && may_go(link))
            .min_by_key(|(_, link)| link.used)
            .map(|(index, _)| index as u32);
        let Some(index) = oldest else { return false };
        crate::event!(
            debug,
            peer = self.links[index as usize].as_ref().and_then(|link| link.peer).map(|peer| peer.0),
            "connection closed, to make room for another"
        );
        self.say_goodbye(index, sink, out);
        true
    }

    /// Says goodbye on idle links until no more are left than the cap allows.
    pub(super) fn keep_cap(&mut self, sink: &mut dyn Sink, out: &mut Outbox) {
        let parting = self.links.iter().flatten().filter(|link| link.parting).count();
        for _ in self.setup.connection_cap..self.open.saturating_sub(parting) {
            if !self.evict(|_| true, sink, out) {
                // All are in use: looking for an idle one again and again would cost a pass over all each time.
                return;
            }
        }
    }

    /// Whether as many callers as there may be connections have not proven who they are.
    pub(super) fn is_crowded(&self) -> bool {
        let links = self.links.iter().flatten();
        let unproven = links.filter(|link| !link.initiated && link.peer.is_none()).count();
        unproven >= self.setup.connection_cap.max(super::LEAST_CALLERS)
    }

    /// A caller has said who it is: of those that say the same without proving it the first ones make room. Whoever has recorded
    /// a HELLO may play it as often as it likes, but takes no more places; the rank itself is the latest for long enough, or calls
    /// again.
    pub(super) fn crowd_out(&mut self, index: u32) {
        let claimed = |link: &Link| link.claimed().filter(|_| !link.initiated).map(|caller| caller.rank);
        let Some(link) = self.links.get(index as usize).and_then(Option::as_deref) else { return };
        let Some(rank) = claimed(link) else { return };
        let same = || self.links.iter().flatten().filter(|link| claimed(link) == Some(rank));
        if same().count() > super::CALLERS_PER_RANK {
            let first = same().min_by_key(|link| (link.attempt.since_ms(), link.used)).map(|link| link.index);
            first.and_then(|first| self.remove(first));
        }
    }

    /// Whether there is no room for another caller: this process may have no more connections, or those that are left are for
    /// its own calls.
    pub(super) fn is_full(&self) -> bool {
        let most = self.setup.most_connections;
        let for_callers = most - super::OWN_PLACES.min(most / 4);
        let is_full = |open: usize, called: usize| open >= most || open - called >= for_callers;
        // Those whose connections broke leave room for whoever comes to mend them.
        is_full(self.open, self.called) && {
            let lost = self.links.iter().flatten().filter(|link| link.is_broken());
            let (all, called) =
                lost.fold((0, 0), |(all, called), link| (all + 1, called + link.initiated as usize));
            is_full(self.open - all, self.called - called)
        }
    }

    /// Takes over the callers that the agent has sent, and makes room if there is none.
    pub(super) fn let_in(&mut self, sink: &mut dyn Sink, out: &mut Outbox) {
        let (callers, crowded) = self.setup.callers.take();
        if crowded || !callers.is_empty() && self.is_full() {
            self.evict(|_| true, sink, out);
        }
        for socket in callers {
            // A socket that cannot be taken over is closed; its caller tries again.
            let _ = self.take_in(socket);
        }
    }

    /// Takes over the socket of a caller, if there is room; otherwise closes it.
    pub(super) fn take_in(&mut self, socket: OwnedFd) -> Result<()> {
        if self.is_full() || self.is_crowded() {
            return Ok(());
        }
        os::descriptor::set_nonblocking(socket.as_fd(), true)?;
        let patience_ms = self.setup.arena.config().peer_timeout_ms;
        let is_here = socket::is_from_here(socket.as_fd());
        socket::tune_data(socket.as_fd(), patience_ms, is_here)?;
        let now_ms = time::now_ms();
        let (job, me) = (self.setup.job, self.identity());
        let mut wire = Connection::accept(job, me, Purpose::Data, fresh_nonce()?, now_ms);
        // Longer than the caller gives itself: what that sends behind its PROOF must not be lost.
        wire.set_deadline(now_ms + patience_ms as u64 * 3 / 2);
        let mut link = Link::new(socket, wire, None, Attempt::first(now_ms));
        link.is_here = is_here;
        self.insert(link).map(drop)
    }
}
