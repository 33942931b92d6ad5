//! Connections that break, and streams that go on over another one.
//!
//! A link that is [kept](crate::auth::Purpose::KeptData) outlives its connection: what was not acknowledged is still there. Whoever
//! has opened it calls again, proves once more who it is, and both say how many bytes of the stream have come to them; behind that the
//! stream goes on where it was cut. Nothing above notices, but for the time it takes. A peer that the agents know to be gone is not
//! called, and one that cannot be reached for the peer timeout is lost.

use super::link::{Broken, Link, Mending};
use super::pacing::{Grant, Spacing};
use super::reach::Attempt;
use super::{fresh_nonce, Tcp};
use crate::auth::Purpose;
use crate::contract::{Outbox, Sink, Transport};
use crate::os::{socket, time};
use crate::route::Started;
use crate::wire::{Connection, Resumption};
use crate::{Error, Rank, Result};
use std::os::fd::{AsFd, OwnedFd};

/// Whoever was called leaves it to the other side to call again, for so long. Then it calls itself: the other side may have forgotten
/// the stream after a goodbye that did not come.
const LEAVE_MS: u64 = 1_000;
/// A peer is told what has come when its link was quiet for about so long.
const TELL_MS: u64 = 100;
/// How often it is looked whether a peer whose connection broke is still there.
const LOOK_MS: u64 = 50;

impl Tcp {
    /// What new connections are for.
    pub(super) fn purpose(&self) -> Purpose {
        match self.setup.arena.config().mend_links {
            0 => Purpose::Data,
            _ => Purpose::KeptData,
        }
    }

    /// A link broke: if its stream can go on, it waits for another connection.
    pub(super) fn suspend(&mut self, index: u32) -> bool {
        let Some(link) = self.links.get(index as usize).and_then(Option::as_deref) else { return false };
        let Some(peer) = link.peer.filter(|_| link.can_be_mended()) else { return false };
        if self.address(peer).is_err() {
            return false;
        }
        crate::event!(debug, peer = peer.0, "the connection broke, and is to be mended");
        self.cool(index);
        let now_ms = time::now_ms();
        let Some(link) = self.links[index as usize].as_deref_mut() else { return false };
        let Some(stream) = &mut link.stream else { return false };
        let call_at_ms = Some(if link.initiated { now_ms } else { now_ms + LEAVE_MS });
        stream.break_off(Broken {
            since_ms: now_ms,
            first_ms: now_ms,
            call_at_ms,
            attempt: Attempt::first(now_ms),
        });
        link.watching_writes = false;
        let _ = self.sleeper.epoll.remove(link.fd.as_fd());
        // The peer, or whoever is in between, need not wait for us.
        let _ = socket::shut_down(link.fd.as_fd());
        self.note_deadline(Some(now_ms));
        true
    }

    /// This link is no longer the one with the latest traffic.
    fn cool(&mut self, index: u32) {
        if self.hot == Some(index) {
            self.watch();
            self.hot = None;
        }
    }

    /// Looks after the links whose connections broke: calls again, and gives up what cannot be mended.
    pub(super) fn tend_broken(&mut self, now_ms: u64, sink: &mut dyn Sink, out: &mut Outbox) {
        for index in 0..self.links.len() as u32 {
            let link = self.links[index as usize].as_deref();
            let Some(broken) = link.and_then(|link| link.stream.as_ref()?.broken) else { continue };
            let peer = link.and_then(|link| link.peer).unwrap_or_default();
            if let Err(gone) = self.address(peer) {
                self.give_up(index, gone, sink, out);
            } else if now_ms >= broken.since_ms + self.patience_ms() && !self.is_heard(index) {
                let after_ms = now_ms - broken.since_ms;
                let what = "waiting for the connection to be mended".into();
                self.give_up(index, Error::Timeout { what, after_ms }, sink, out);
            } else {
                if broken.call_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                    if let Err(error) = self.call_again(index, peer) {
                        if error.is_out_of_descriptors() {
                            self.evict(|_| true, sink, out);
                        }
                        self.call_again_later(index);
                    }
                }
                self.note_deadline(Some(now_ms + LOOK_MS));
            }
        }
    }

    /// A caller stands: what broke of its calls before it had shown that it has the stream is of no use any more, for it has called anew.
    pub(super) fn forget_calls_before(&mut self, index: u32) {
        let Some(link) = self.links[index as usize].as_deref().filter(|link| !link.initiated) else { return };
        let peer = link.peer;
        let is_old = |link: &&Link| link.peer == peer && link.is_unconfirmed() && link.is_broken();
        let old: Vec<u32> =
            self.links.iter().flatten().map(|link| &**link).filter(is_old).map(|link| link.index).collect();
        for index in old {
            self.remove(index);
        }
    }

    /// We are closing: a call that broke before it stood is not waited for for long.
    pub(super) fn is_hopeless(&self, index: u32) -> bool {
        let link = self.links[index as usize].as_deref().filter(|link| link.is_unconfirmed());
        let broken = link.and_then(|link| link.stream.as_ref()?.broken);
        broken.is_some_and(|broken| time::now_ms() >= broken.since_ms + 2 * LEAVE_MS)
    }

    /// Whether a call for a link stands, and only its peer has not answered: it may be slow.
    fn is_heard(&self, index: u32) -> bool {
        let calls = self.links.iter().flatten().filter(|link| link.initiated);
        let for_it = |link: &Link| link.mending.as_ref().is_some_and(|mending| mending.link == index);
        calls.into_iter().any(|link| for_it(link) && link.has_said_hello())
    }

    /// Messages have come that the peer keeps: it is told when the link is quiet.
    pub(super) fn tell_later(&mut self, index: u32) {
        let link = self.links.get(index as usize).and_then(Option::as_ref);
        if self.tell_at_ms.is_none() && link.is_some_and(|link| link.has_news()) {
            self.tell_at_ms = Some(time::now_ms() + TELL_MS);
            self.note_deadline(self.tell_at_ms);
        }
    }

    /// Tells peers what has come.
    pub(super) fn tell_all(&mut self, now_ms: u64, sink: &mut dyn Sink, out: &mut Outbox) {
        match self.tell_at_ms {
            Some(at_ms) if at_ms <= now_ms => self.tell_at_ms = None,
            later => return self.note_deadline(later),
        }
        for index in 0..self.links.len() as u32 {
            if let Some(link) = self.links[index as usize].as_mut().filter(|link| link.has_news()) {
                link.tell_news();
                self.flush_link(index, sink, out);
            }
        }
    }

    /// Opens a connection on which the stream of a link is to go on.
    fn call_again(&mut self, index: u32, peer: Rank) -> Result<()> {
        let (Started { socket: fd, opening, .. }, is_here) = self.dial(peer)?;
        let now_ms = time::now_ms();
        let (me, patience_ms) = (self.identity(), self.patience_ms());
        let (job, secret, nonce) = (self.setup.job, &self.setup.secret, fresh_nonce()?);
        let mut wire = Connection::initiate(job, secret, me, peer.0, Purpose::MendData, nonce, now_ms);
        wire.set_deadline(now_ms + patience_ms);
        let broken = self.links[index as usize].as_deref_mut().and_then(|link| link.stream.as_deref_mut());
        let Some(stream) = broken else { return Ok(()) };
        let mut link = Link::new(fd, wire, Some(peer), Attempt::first(now_ms));
        let ours = Some(stream.resumption());
        link.mending =
            Some(Box::new(Mending { link: index, session: stream.session, ours, ..Mending::default() }));
        if let Some(broken) = &mut stream.broken {
            broken.call_at_ms = None;
        }
        link.watching_writes = true;
        (link.is_here, link.opening) = (is_here, opening);
        let _ = link.say_hello();
        self.insert(link).map(drop)
    }

    /// A call for a link did not come to anything: it is made again.
    pub(super) fn call_again_later(&mut self, index: u32) {
        let link = self.links.get_mut(index as usize).and_then(Option::as_deref_mut);
        let Some(broken) = link.and_then(|link| link.stream.as_mut()?.broken.as_mut()) else { return };
        broken.attempt = broken.attempt.next(broken.since_ms);
        let at_ms = time::now_ms() + broken.attempt.pause_ms();
        broken.call_at_ms = Some(at_ms);
        self.note_deadline(Some(at_ms));
    }

    /// The link on which this one was to go on with a stream is gone.
    pub(super) fn mending_failed(&mut self, link: &Link, mending: &Mending) {
        let broken = self.links.get(mending.link as usize).and_then(Option::as_deref);
        let is_it = broken
            .and_then(|link| link.stream.as_ref())
            .is_some_and(|stream| stream.session == mending.session);
        if link.initiated && is_it {
            self.call_again_later(mending.link);
        }
    }

    /// If both sides have said on a link how far a stream has come, that goes on over its connection. Whether it is such a link, and
    /// is gone.
    pub(super) fn take_over(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) -> bool {
        let link = self.links.get(index as usize).and_then(Option::as_deref);
        let Some((link, mending)) = link.and_then(|link| Some((link, link.mending.as_deref()?))) else {
            return false;
        };
        let Some(theirs) = mending.theirs else { return false };
        let session = if link.initiated { mending.session } else { theirs.session };
        let (initiated, peer) = (link.initiated, link.peer);
        let is_broken = |other: &&Link| {
            other.peer == peer && other.stream.as_ref().is_some_and(|stream| stream.session == session)
        };
        let mut others = self.links.iter().flatten().map(|other| &**other);
        let target = others.find(is_broken);
        let is_outdated =
            target.and_then(|link| link.stream.as_ref()).is_some_and(|stream| stream.is_outdated(theirs));
        let target = target.map(|target| target.index);
        if !initiated && is_outdated {
            // It was overtaken by another call.
            self.remove(index);
            return true;
        }
        if !initiated && !self.answer_resumption(index, target, theirs, sink, out) {
            self.remove(index);
            return true;
        }
        let Some(carrier) = self.remove(index) else { return true };
        let Some(target) = target else { return true };
        if theirs.known && theirs.session == session {
            self.attach(target, carrier.fd, carrier.is_here, theirs, sink, out);
        } else {
            let why = "the peer has given it up".into();
            self.give_up(target, Error::Closed(why), sink, out);
        }
        true
    }

    /// Says how far the stream has come here, or that nobody knows it. Whether it goes on.
    fn answer_resumption(
        &mut self,
        index: u32,
        target: Option<u32>,
        theirs: Resumption,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> bool {
        let stream = target.and_then(|target| self.links[target as usize].as_ref()?.stream.as_ref());
        let ours = stream.map_or(Resumption { known: false, ..theirs }, |stream| stream.resumption());
        let Some(mending) = self.links[index as usize].as_mut().and_then(|link| link.mending.as_mut()) else {
            return false;
        };
        mending.ours = Some(ours);
        self.flush_link(index, sink, out);
        // So few bytes fit into a new socket, or it is of no use.
        let said = self.links[index as usize].as_ref().is_some_and(|link| !link.has_output());
        said && ours.known
    }

    /// The stream of a link goes on over this socket.
    fn attach(
        &mut self,
        index: u32,
        socket: OwnedFd,
        is_here: bool,
        theirs: Resumption,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) {
        self.cool(index);
        let peer_timeout_ms = self.setup.arena.config().peer_timeout_ms;
        let patience_ms = self.patience_ms();
        let Some(link) = self.links[index as usize].as_deref_mut() else { return };
        if !link.is_broken() {
            // The peer has noticed first.
            let _ = self.sleeper.epoll.remove(link.fd.as_fd());
        }
        if !link.go_on(socket, theirs) {
            let why = "the peer has received what was not sent".into();
            return self.give_up(index, Error::Closed(why), sink, out);
        }
        let now_ms = time::now_ms();
        if let Some(vain) = link.stream.as_ref().filter(|stream| stream.is_vain(patience_ms, now_ms)) {
            let after_ms = now_ms - vain.trouble.map_or(now_ms, |trouble| trouble.first_ms);
            let what = "waiting for something to come through a connection that is mended and breaks".into();
            return self.give_up(index, Error::Timeout { what, after_ms }, sink, out);
        }
        link.release_kept(&mut self.buffers);
        (link.is_here, link.owed_since_ms, link.watching_writes) = (is_here, 0, true);
        // What they say is of the old connection.
        (link.grant, link.spacing) = (Grant::default(), Spacing::default());
        if !is_here {
            let _ = socket::leave_verdict(link.fd.as_fd(), peer_timeout_ms);
        }
        if let Err(error) = self.sleeper.epoll.add(link.fd.as_fd(), u64::from(index), true) {
            return self.fail(index, error, sink, out);
        }
        crate::event!(debug, peer = link.peer.map(|peer| peer.0), "the connection is mended");
        let session = link.stream.as_ref().map(|stream| stream.session);
        self.hang_up_others(session);
        self.flush_link(index, sink, out);
        if let Some(link) = self.links[index as usize].as_mut() {
            link.lingers();
        }
        self.expect_life(index);
        self.tell_later(index);
    }

    /// Ends our calls for a stream that goes on: both sides may have called.
    pub(super) fn hang_up_others(&mut self, session: Option<u64>) {
        if session.is_none() {
            return;
        }
        let others = self.links.iter().flatten().filter(|link| {
            link.initiated && link.mending.as_ref().is_some_and(|mending| Some(mending.session) == session)
        });
        let others: Vec<u32> = others.map(|link| link.index).collect();
        for index in others {
            self.remove(index);
        }
    }
}
