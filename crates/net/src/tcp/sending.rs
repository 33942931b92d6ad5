//! Which connection a message goes on, what waits, and what goes out together.

use super::link::{is_small, Link};
use super::reach::Attempt;
use super::Tcp;
use crate::contract::{
    Leeway, Message, Outbox, Path, Sink, LETTER_BYTES, LONG_LETTER_BYTES, MOST_LETTERS, MOST_UNHEARD,
};
use crate::os::time;
use crate::wire::Header;
use crate::{Rank, Result};

/// While so many answers of a rank are on their way, messages to it go out together: the first of those answers comes soon, and
/// whoever takes it sends what has been kept.
pub(super) const FEW_UNANSWERED: u32 = 8;
/// So many of them at most.
const MOST_FED: usize = 64;

/// Whether another message follows at once, with which this one may go out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    No,
    Comes,
}

/// Messages that the outbox has room for from one time to the next.
const KEPT_OUTBOX: usize = 64;

impl Tcp {
    /// Sends a message the way that it says, or keeps it until it can be sent. An error means that nothing was kept.
    pub(super) fn send_inner(
        &mut self,
        to: Rank,
        message: Message,
        more: More,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<()> {
        let index = match message.path {
            Path::Answer(index) => {
                let link = self.links.get(index as usize).and_then(Option::as_ref);
                if link.is_none_or(|link| link.peer != Some(to) || link.has_said_all()) {
                    return Ok(());
                }
                index
            }
            Path::Relay => match self.relay(to, message, sink, out)? {
                Some(index) => index,
                None => return Ok(()),
            },
            // What waits for this peer already goes first, even when a link has come up meanwhile.
            Path::Route if self.waits_behind(to, message) => return Ok(()),
            Path::Route => match self.route(to, sink, out) {
                Ok(Some(index)) if self.may_request(index) => index,
                Ok(_) => {
                    self.wait_for_place(to, message);
                    return Ok(());
                }
                Err(error) if error.is_own_trouble() => {
                    self.call_later(to, message, &error, sink, out);
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
        };
        self.heat(index);
        let Some(link) = self.links[index as usize].as_mut() else { return Ok(()) };
        self.tick += 1;
        link.used = self.tick;
        if more == More::Comes {
            link.push(message);
            link.balance(&*self.setup.accounts);
            if !std::mem::replace(&mut link.fed, true) {
                self.fed.push(index);
            }
            return Ok(());
        }
        match link.send_now(&message) {
            Ok(Some(sent)) => {
                if link.stream.is_some() {
                    link.balance(&*self.setup.accounts);
                }
                if !sent {
                    self.watch_writes(index, true);
                }
                self.expect_life(index);
            }
            Ok(None) => {
                link.push(message);
                link.balance(&*self.setup.accounts);
                if link.established {
                    self.flush_one(index, sink, out);
                }
            }
            Err(error) => {
                // It counts among those that are lost with the link.
                link.push(message);
                self.fail(index, error, sink, out);
            }
        }
        Ok(())
    }

    /// Sends a header and some bytes at once, if there is a connection and nothing goes before them. Whether they have gone.
    pub(super) fn send_letter(
        &mut self,
        to: Rank,
        header: Header,
        payload: &[u8],
        sink: &mut dyn Sink,
    ) -> bool {
        // What waits goes first; answers that wait for long go with a message, when they are enough.
        let waits = !self.waiting.is_empty() || !self.retries.is_empty() || self.late.is_full();
        if waits || payload.len() > LONG_LETTER_BYTES {
            return false;
        }
        let index = self.routes.get(&to.0).copied();
        let is_fed = |index: &u32| {
            self.links[*index as usize].as_ref().is_some_and(|link| link.fed && link.established)
        };
        if let Some(index) = index.filter(is_fed) {
            let mut out = std::mem::take(&mut self.outbox);
            self.flush_one(index, sink, &mut out);
            self.settle_outbox(&mut out, sink);
            self.outbox = out;
        }
        let link = index.and_then(|index| Some((index, self.links[index as usize].as_mut()?)));
        let comings = self.comings;
        let gone = |link: &Link| if link.letters.0 == comings { link.letters.1 } else { 0 };
        let may_go = |link: &Link| {
            let is_few = gone(link) < MOST_LETTERS && link.unheard < MOST_UNHEARD;
            let is_one_of_few = payload.len() > LETTER_BYTES || is_few;
            link.may_send_now() && link.may_request() && is_one_of_few && !link.surplus
        };
        let Some((index, link)) = link.filter(|(_, link)| may_go(link)) else {
            return false;
        };
        self.tick += 1;
        link.used = self.tick;
        let is_short = u8::from(payload.len() <= LETTER_BYTES);
        link.letters = (comings, gone(link) + is_short);
        link.unheard += is_short;
        match link.send_letter(header, payload, &mut self.buffers) {
            Ok(None) => return false,
            Ok(Some(sent)) => {
                if link.stream.is_some() || !sent {
                    link.balance(&*self.setup.accounts);
                }
                self.heat(index);
                if !sent {
                    self.watch_writes(index, true);
                }
                self.expect_life(index);
            }
            Err(error) => {
                let mut out = std::mem::take(&mut self.outbox);
                self.fail(index, error, sink, &mut out);
                self.settle_outbox(&mut out, sink);
                self.outbox = out;
            }
        }
        true
    }

    /// Sends what waits on a link, which may have been fed.
    fn flush_one(&mut self, index: u32, sink: &mut dyn Sink, out: &mut Outbox) {
        if self.links[index as usize].as_mut().is_some_and(|link| std::mem::take(&mut link.fed)) {
            self.fed.retain(|&fed| fed != index);
        }
        self.flush_link(index, sink, out);
    }

    /// The link for what must be asked for others: beyond the cap if need be, and beside a link on which we have said goodbye,
    /// where nothing of ours is under way any more. `None`: it waits until a call can be made.
    fn relay(
        &mut self,
        to: Rank,
        message: Message,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) -> Result<Option<u32>> {
        if let Some(retry) = self.retries.iter_mut().find(|retry| retry.peer == to) {
            retry.messages.push_back(message);
            return Ok(None);
        }
        let link = self.routes.get(&to.0).and_then(|&index| self.links[index as usize].as_ref());
        if let Some(link) = link.filter(|link| link.may_relay()) {
            return Ok(Some(link.index));
        }
        if let Some(index) = self.any_relay(to) {
            return Ok(Some(index));
        }
        match self.call(to, Attempt::first(time::now_ms())) {
            Err(error) if error.is_own_trouble() => {
                self.call_later(to, message, &error, sink, out);
                Ok(None)
            }
            called => called.map(Some),
        }
    }

    /// Whether questions may be asked on a link: nobody has said goodbye there.
    fn may_request(&self, index: u32) -> bool {
        self.links[index as usize].as_ref().is_none_or(|link| link.may_request())
    }

    /// Keeps a question until there is a place for its connection.
    fn wait_for_place(&mut self, to: Rank, message: Message) {
        self.waiting.push((to, message));
        self.balance_waiting();
    }

    /// Books what the questions take that wait for a place. It cannot be refused: operations were booked that ask them.
    pub(super) fn balance_waiting(&mut self) {
        let now = (self.waiting.capacity() * std::mem::size_of::<(Rank, Message)>()) as u64;
        let before = std::mem::replace(&mut self.waiting_bytes, now);
        if now > before {
            self.setup.accounts.force(now - before);
        } else if now < before {
            self.setup.accounts.unbook(before - now);
        }
    }

    /// Puts a message behind those that wait to be sent to the same peer, if there are any.
    fn waits_behind(&mut self, to: Rank, message: Message) -> bool {
        // Those first that have not even come to a call: when their turn comes they go behind the others.
        if self.waiting.iter().any(|(peer, _)| *peer == to) {
            self.wait_for_place(to, message);
            return true;
        }
        let retry = self.retries.iter_mut().find(|retry| retry.peer == to);
        let waits = retry.is_some();
        if let Some(retry) = retry {
            retry.messages.push_back(message);
        }
        waits
    }

    /// Does what sinks asked for in callbacks, until they ask for no more.
    pub(super) fn settle_outbox(&mut self, out: &mut Outbox, sink: &mut dyn Sink) {
        while !out.messages.is_empty() {
            let mut messages = std::mem::take(&mut out.messages);
            messages.retain(|(to, message)| !self.late.takes(*to, message));
            // As many as go together wait for the next message, or the next poll. If there are more, somebody sends much.
            if self.late.is_full() && !messages.is_empty() {
                messages.extend(self.late.take());
            }
            let may_wait = messages.iter().all(|(_, message)| message.leeway != Leeway::None);
            let more = if may_wait || messages.len() > 1 { More::Comes } else { More::No };
            self.drain(messages.drain(..), more, sink, out);
            if !may_wait {
                self.flush_fed(sink, out);
            }
            // Its memory is for the next ones, but for what a burst has taken.
            if out.messages.is_empty() && messages.capacity() <= KEPT_OUTBOX {
                out.messages = messages;
            }
        }
    }

    /// Sends messages that were taken from where they waited. Questions to a rank that is lost on the way are not asked: it was
    /// told already that they were not.
    pub(super) fn drain(
        &mut self,
        messages: impl IntoIterator<Item = (Rank, Message)>,
        more: More,
        sink: &mut dyn Sink,
        out: &mut Outbox,
    ) {
        self.draining = true;
        for (to, message) in messages {
            let is_answer = matches!(message.path, Path::Answer(_));
            if !is_answer && self.lost_meanwhile.contains(&to) {
                continue;
            }
            if let Err(error) = self.send_inner(to, message, more, sink, out) {
                self.forget_unsent(to);
                sink.lost(to, error, out);
            }
        }
        self.draining = false;
        self.lost_meanwhile.clear();
    }

    /// Keeps a question to a rank, to go out with others, if answers of that rank are on their way. `None`: it must be sent;
    /// otherwise whether as much is kept for the rank as goes out together.
    #[inline]
    pub(super) fn keep(&mut self, to: Rank, message: &Message) -> Option<bool> {
        let is_plain = message.path == Path::Route && is_small(message);
        // What waits for this peer already goes first.
        let goes_behind = self.waiting.iter().any(|(peer, _)| *peer == to)
            || self.retries.iter().any(|retry| retry.peer == to);
        if !is_plain || goes_behind {
            return None;
        }
        let index = *self.routes.get(&to.0)?;
        let awaited = |link: &&mut Box<Link>| link.takes_more() && link.unanswered >= FEW_UNANSWERED;
        let link = self.links[index as usize].as_mut().filter(awaited)?;
        if !link.may_request() {
            return None;
        }
        self.tick += 1;
        link.used = self.tick;
        link.push(*message);
        link.balance(&*self.setup.accounts);
        let is_enough = link.queued() >= MOST_FED;
        if !std::mem::replace(&mut link.fed, true) {
            self.fed.push(index);
        }
        self.heat(index);
        Some(is_enough)
    }

    /// Feeds links with the answers that have waited for long.
    pub(super) fn feed_late(&mut self, sink: &mut dyn Sink, out: &mut Outbox) {
        if !self.late.is_empty() {
            let late: Vec<_> = self.late.take().collect();
            self.drain(late, More::Comes, sink, out);
        }
    }

    /// Sends what links were fed with.
    pub(super) fn flush_fed(&mut self, sink: &mut dyn Sink, out: &mut Outbox) {
        while let Some(index) = self.fed.pop() {
            let link = self.links.get_mut(index as usize).and_then(Option::as_mut);
            if link.is_some_and(|link| std::mem::take(&mut link.fed) && link.established) {
                self.flush_link(index, sink, out);
            }
        }
    }
}
