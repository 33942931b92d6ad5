//! Calling a peer, calling again, and what it means when a connection breaks.
//!
//! A peer that the agents know to be alive is at worst slow: whoever calls it waits for its answer as long as the network
//! carries anything at all. Only a machine that does not answer for the peer timeout, or a connection that stood and broke
//! without a goodbye, is a loss. What fails because of this process (no descriptor, no port, no route) blames nobody else.

use super::link::Link;
use super::{fresh_nonce, Tcp};
use crate::contract::{Message, Outbox, Sink};
use crate::os::{multipath, socket, time};
use crate::route::Started;
use crate::shm::world::Status;
use crate::wire::Connection;
use crate::{Error, Rank, Result};
use std::collections::VecDeque;
use std::os::fd::AsFd;

/// How long to wait before a failed call is made again, at first; twice as long each time, up to the second figure.
const RETRY_MS: u64 = 20;
const MOST_RETRY_MS: u64 = 1_000;

/// A call that failed and will be made again.
pub(super) struct Retry {
    pub(super) at_ms: u64,
    pub(super) peer: Rank,
    attempt: Attempt,
    pub(super) messages: VecDeque<Message>,
}

/// What is remembered from one call to the next.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    /// Since when nothing has been heard of the peer's machine, or we have been in trouble.
    since_ms: u64,
    /// How many calls have failed.
    failed: u32,
}

impl Attempt {
    pub(super) fn first(now_ms: u64) -> Attempt {
        Attempt { since_ms: now_ms, failed: 0 }
    }

    pub(super) fn since_ms(self) -> u64 {
        self.since_ms
    }

    pub(super) fn next(self, since_ms: u64) -> Attempt {
        Attempt { since_ms, failed: self.failed + 1 }
    }

    pub(super) fn pause_ms(self) -> u64 {
        (RETRY_MS << self.failed.min(10)).min(MOST_RETRY_MS)
    }
}

impl Tcp {
    pub(super) fn patience_ms(&self) -> u64 {
        self.setup.arena.config().peer_timeout_ms as u64
    }

    /// Where the port of a peer's node is; an error if the peer is gone.
    pub(super) fn address(&self, peer: Rank) -> Result<std::net::SocketAddr> {
        let place = self.setup.arena.place(peer).map(|word| word.load());
        let place = place.ok_or_else(|| Error::Misuse(format!("there is no {peer}")))?;
        match place.status {
            Status::Lost => return Err(Error::PeerLost { rank: peer, why: place.cause.to_string() }),
            Status::Left => return Err(Error::PeerLost { rank: peer, why: "it has finalized".into() }),
            Status::Expected | Status::Alive => {}
        }
        self.setup
            .arena
            .node(place.node)
            .and_then(|node| node.load())
            .ok_or_else(|| Error::Closed(format!("node {} of {peer} has no port", place.node)))
    }

    /// The link for questions to `peer`, opened if there is none; `None` when the cap leaves no room now.
    pub(super) fn route(&mut self, peer: Rank, sink: &mut dyn Sink, out: &mut Outbox) -> Result<Option<u32>> {
        if let Some(&index) = self.routes.get(&peer.0) {
            return Ok(Some(index));
        }
        // Callers do not count: they may be waiting for what we are about to do.
        let at_cap = self.called >= self.setup.connection_cap;
        if at_cap || self.open >= self.setup.most_connections {
            self.evict(|link| link.initiated || !at_cap, sink, out);
            return Ok(None);
        }
        self.call(peer, Attempt::first(time::now_ms())).map(Some)
    }

    /// Begins to connect to the node of a peer: the stream, and whether no network can come between this process and its other end.
    pub(super) fn dial(&self, peer: Rank) -> Result<(Started, bool)> {
        let address = self.address(peer)?;
        let started = self.setup.route.start(&address, self.setup.multipath)?;
        let fd = started.socket.as_fd();
        let is_here = started.is_local || started.opening.is_none() && socket::is_here(fd, &address);
        socket::tune_data(fd, self.patience_ms() as u32, is_here)?;
        Ok((started, is_here))
    }

    /// Opens a link to `peer`.
    pub(super) fn call(&mut self, peer: Rank, attempt: Attempt) -> Result<u32> {
        let (Started { socket: fd, opening, is_local }, is_here) = self.dial(peer)?;
        let now_ms = time::now_ms();
        let (me, patience_ms) = (self.identity(), self.patience_ms());
        let (job, secret, nonce) = (self.setup.job, &self.setup.secret, fresh_nonce()?);
        let mut wire = Connection::initiate(job, secret, me, peer.0, self.purpose(), nonce, now_ms);
        wire.set_deadline(now_ms + patience_ms);
        let mut link = Link::new(fd, wire, Some(peer), attempt);
        link.watching_writes = true;
        (link.is_here, link.opening) = (is_here, opening);
        // Who ends a stream that a thread of this process carries may be that thread: before a byte has come, nobody has answered.
        link.turned_away = is_local;
        // On this machine the connection stands already. The agent at the other end should see who calls before this
        // process has to wait for its next turn.
        let _ = link.say_hello();
        let index = self.insert(link)?;
        self.routes.insert(peer.0, index);
        Ok(index)
    }

    /// A call could not even be made, because of this process or its machine: it is made later, with this message.
    pub(super) fn call_later(
        &mut self,
        peer: Rank,
        message: Message,
        error: &Error,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) {
        if error.is_out_of_descriptors() {
            self.evict(|_| true, sink, out);
        }
        let attempt = Attempt::first(time::now_ms());
        self.try_again(peer, attempt, VecDeque::from([message]));
    }

    fn try_again(&mut self, peer: Rank, attempt: Attempt, messages: VecDeque<Message>) {
        let at_ms = time::now_ms() + attempt.pause_ms();
        self.retries.push(Retry { at_ms, peer, attempt, messages });
        self.note_deadline(Some(at_ms));
    }

    /// A link broke: its stream goes on over another connection if it can.
    pub(super) fn fail(&mut self, index: u32, error: Error, sink: &mut dyn Sink, out: &mut Outbox) {
        if !self.suspend(index) {
            self.give_up(index, error, sink, out);
        }
    }

    /// A link is over: tries again if it never stood, tells the sink otherwise.
    pub(super) fn give_up(&mut self, index: u32, error: Error, sink: &mut dyn Sink, out: &mut Outbox) {
        let session =
            self.links.get(index as usize).and_then(|link| Some(link.as_ref()?.stream.as_ref()?.session));
        let is_over = self.links.get(index as usize).and_then(Option::as_deref).is_some_and(Link::is_over);
        if is_over {
            // Both have said goodbye, and the peer forgets a stream only when it has all of it.
            self.keep_unasked(index);
        }
        let Some(mut link) = self.remove(index) else { return };
        if let Some(mending) = link.mending.take() {
            return self.mending_failed(&link, &mending);
        }
        self.hang_up_others(session);
        if is_over {
            return;
        }
        if !link.established {
            // The last word of a refused handshake tells the peer why.
            let _ = link.flush(&mut self.buffers, sink, out);
        }
        // A caller that has not shown that it has the stream has been asked nothing, and calls again.
        let is_unconfirmed = !link.initiated && !link.established;
        let Some(peer) = link.peer.filter(|_| !is_unconfirmed) else { return };
        let gone = self.address(peer).err();
        let refused = matches!(error, Error::Refused(_));
        if link.initiated && !link.established && !refused && gone.is_none() {
            let messages = link.take_queue();
            let answered = answers(&error, link.is_here) && !link.turned_away;
            return self.call_failed(peer, (link.attempt, answered), messages, error, sink, out);
        }
        let has_other = self.routes.contains_key(&peer.0);
        // Without a goodbye nobody knows what was under way, even if no answer is missing: a signal of a barrier has
        // none, and would be missed for ever. After one, nothing was, but what has begun to come: the sink keeps memory for the rest.
        let cut_off = !link.parting && (link.established || !has_other) || link.is_within_message();
        if link.unanswered > 0 || !link.take_queue().is_empty() || cut_off {
            self.forget_unsent(peer);
            let why = match (gone, error) {
                (Some(Error::PeerLost { why, .. }), _) => why,
                (_, error) => format!("the connection broke ({error})"),
            };
            sink.lost(peer, Error::PeerLost { rank: peer, why }, out);
        }
    }

    /// Takes back all that waits to be sent to a peer: what is reported as lost must not be done after all.
    pub(super) fn forget_unsent(&mut self, peer: Rank) -> Vec<Message> {
        if self.draining && !self.lost_meanwhile.contains(&peer) {
            self.lost_meanwhile.push(peer);
        }
        let mut forgotten = Vec::new();
        for retry in self.retries.extract_if(.., |retry| retry.peer == peer) {
            forgotten.extend(retry.messages);
        }
        forgotten.extend(self.waiting.extract_if(.., |(to, _)| *to == peer).map(|(_, message)| message));
        forgotten
    }

    /// A call did not come to a connection: it is made again, until it is clear that this leads nowhere.
    fn call_failed(
        &mut self,
        peer: Rank,
        (attempt, answered): (Attempt, bool),
        messages: VecDeque<Message>,
        error: Error,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) {
        let now_ms = time::now_ms();
        let since_ms = if answered { now_ms } else { attempt.since_ms };
        if now_ms < since_ms + self.patience_ms() {
            return self.try_again(peer, attempt.next(since_ms), messages);
        }
        let silent =
            messages.into_iter().chain(self.forget_unsent(peer)).any(|message| !message.expects_answer);
        if error.is_own_trouble() {
            sink.unsent(peer, named(error), silent, out);
        } else {
            let why = format!("it cannot be reached ({error})");
            sink.lost(peer, Error::PeerLost { rank: peer, why }, out);
        }
    }

    /// Makes the calls whose time has come.
    pub(super) fn make_retries(&mut self, now_ms: u64, sink: &mut dyn Sink, out: &mut Outbox) {
        // One at a time: a loss takes the others to the same peer with it. What is tried again is not due before its pause.
        while let Some(due) = self.retries.iter().position(|retry| retry.at_ms <= now_ms) {
            let Retry { peer, attempt, messages, .. } = self.retries.remove(due);
            let index = match self.routes.get(&peer.0) {
                Some(&index) => Ok(index),
                None => self.call(peer, attempt),
            };
            match index {
                Ok(index) => {
                    if let Some(link) = self.links[index as usize].as_mut() {
                        messages.into_iter().for_each(|message| link.push(message));
                    }
                    self.flush_link(index, sink, out);
                }
                Err(error) if error.is_own_trouble() => {
                    if error.is_out_of_descriptors() {
                        self.evict(|_| true, sink, out);
                    }
                    self.call_failed(peer, (attempt, false), messages, error, sink, out);
                }
                Err(error) => {
                    self.forget_unsent(peer);
                    sink.lost(peer, error, out);
                }
            }
        }
        let next = self.retries.iter().map(|retry| retry.at_ms).min();
        self.note_deadline(next);
    }

    /// Looks at a handshake whose time is over: whoever lives is given more of it.
    pub(super) fn check_time(&mut self, index: u32, now_ms: u64, sink: &mut dyn Sink, out: &mut Outbox) {
        if self.links[index as usize].as_ref().is_some_and(|link| self.is_left_alone(link)) {
            self.keep_unasked(index);
            self.remove(index);
            return;
        }
        let greeted_by = self.links[index as usize].as_ref().and_then(|link| link.greeted_by());
        if greeted_by.is_some_and(|at_ms| at_ms <= now_ms) {
            // What came in time counts, even if nobody was there to look.
            self.readable(index, sink, out);
            let may_be_slow = self.links[index as usize].as_ref().is_some_and(|link| self.may_be_slow(link));
            let more_ms = now_ms + self.patience_ms();
            if let Some(link) = self.links[index as usize].as_mut().filter(|_| may_be_slow) {
                link.set_deadline(more_ms);
            }
        }
        let knock_ms = self.knock_every_ms();
        let checked = self.links[index as usize].as_mut();
        let Some((checked, wake_up, has_output)) =
            checked.map(|link| (link.check_time(now_ms, knock_ms), link.wake_up_at(), link.has_output()))
        else {
            return;
        };
        self.note_deadline(wake_up);
        match checked {
            // A knock of which the socket took a part.
            Ok(()) if has_output => self.flush_link(index, sink, out),
            Ok(()) => {}
            Err(error) => self.fail(index, error, sink, out),
        }
    }

    /// Whether all was said on a link, and whoever should close it is gone.
    fn is_left_alone(&self, link: &Link) -> bool {
        let waits = link.has_said_all() && !link.is_over();
        waits && link.peer.is_some_and(|peer| self.address(peer).is_err())
    }

    /// Whether the other side of a handshake may only be slow. For whom we have called the agents know; a caller may also be
    /// somebody who plays a HELLO that was recorded, and is not waited for when many are there.
    fn may_be_slow(&self, link: &Link) -> bool {
        match (link.initiated, link.claimed()) {
            (true, _) => link.peer.is_some_and(|peer| self.address(peer).is_ok()),
            (false, Some(caller)) => !self.is_crowded() && self.address(Rank(caller.rank)).is_ok(),
            (false, None) => {
                link.is_unconfirmed() && link.peer.is_some_and(|peer| self.address(peer).is_ok())
            }
        }
    }

    /// Breaks the links on which something is under way to a machine that has not answered for the peer timeout.
    pub(super) fn check_silence(&mut self, sink: &mut dyn Sink, out: &mut Outbox) {
        let limit_ms = self.patience_ms();
        for index in 0..self.links.len() as u32 {
            let link = self.links[index as usize].as_mut();
            let watched = link.filter(|link| link.owes_life());
            if watched.is_some_and(|link| link.is_silent(limit_ms)) {
                let what = "waiting for the peer's machine to answer".into();
                self.fail(index, Error::Timeout { what, after_ms: limit_ms }, sink, out);
            }
        }
    }
}

impl Link {
    /// Whether the machine of the peer has not answered for so long. Over several networks the kernel does not say how long what was
    /// sent has been waiting for an answer, so that is remembered here from look to look.
    fn is_silent(&mut self, limit_ms: u64) -> bool {
        let Some(life) = multipath::life(self.fd.as_fd()) else {
            return socket::is_silent(self.fd.as_fd(), limit_ms);
        };
        let now_ms = time::now_ms();
        if !life.is_owed {
            self.owed_since_ms = 0;
            return false;
        }
        if self.owed_since_ms == 0 {
            self.owed_since_ms = now_ms;
        }
        now_ms >= self.owed_since_ms + limit_ms && life.heard_ms >= limit_ms
    }
}

/// Whether an error of a call shows that the peer's machine answers: its agent has hung up, because it is busy; or that there is
/// no network between us that could be cut.
fn answers(error: &Error, is_here: bool) -> bool {
    match error {
        Error::Closed(_) | Error::System { errno: libc::ECONNRESET | libc::EPIPE, .. } => true,
        Error::System { errno: libc::ETIMEDOUT, .. } | Error::Timeout { .. } => is_here,
        _ => false,
    }
}

/// An error of this process with what can be done about it.
fn named(error: Error) -> Error {
    let Error::System { call, errno } = error else { return error };
    let call = match errno {
        libc::EMFILE => {
            "socket (this process has as many open files as it may have: raise `ulimit -n`, or lower --connections)"
        }
        libc::ENFILE => "socket (the machine has as many open files as it may have: raise fs.file-max)",
        libc::EADDRNOTAVAIL => {
            "connect (this machine has no free port: widen net.ipv4.ip_local_port_range, or lower --connections)"
        }
        libc::ENETUNREACH => {
            "connect (this machine has no route to the other node: see `ip route`, or choose another network with \
             KUMIKI_NET)"
        }
        libc::EACCES | libc::EPERM => "connect (a rule of this machine's firewall forbids it)",
        libc::ENOBUFS | libc::ENOMEM => "socket (the system has no memory for another connection)",
        _ => call,
    };
    Error::System { call, errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_of_our_own_is_named_with_its_remedy() {
        for (errno, remedy) in [
            (libc::EMFILE, "ulimit -n"),
            (libc::ENFILE, "fs.file-max"),
            (libc::EADDRNOTAVAIL, "ip_local_port_range"),
            (libc::ENETUNREACH, "KUMIKI_NET"),
            (libc::EPERM, "firewall"),
            (libc::ENOBUFS, "memory"),
        ] {
            let error = Error::System { call: "connect", errno };
            assert!(error.is_own_trouble(), "{error}");
            assert!(named(error.clone()).to_string().contains(remedy), "{}", named(error));
        }
    }

    #[test]
    fn a_peer_that_refuses_or_does_not_answer_is_not_our_own_trouble() {
        for errno in [libc::ECONNREFUSED, libc::ETIMEDOUT, libc::EHOSTUNREACH, libc::ECONNRESET] {
            assert!(!Error::System { call: "recv", errno }.is_own_trouble());
        }
    }

    #[test]
    fn calls_are_made_ever_more_seldom() {
        let mut attempt = Attempt::first(7);
        let pauses: Vec<u64> = (0..8)
            .map(|_| {
                let pause_ms = attempt.pause_ms();
                attempt = attempt.next(attempt.since_ms);
                pause_ms
            })
            .collect();
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(attempt.since_ms, 7);
    }
}
