//! Asking for messages to be sent and received, and waiting for that.

use super::bytes::{Bytes, Short};
use super::early::Takes;
use super::glance::{Glance, Waiting};
use super::matching::{Envelope, Selector};
use super::post::{Post, Wanted};
use super::record::Note;
use super::{Delivery, MessageOptions, Place};
use crate::comm::ends::Room;
use crate::comm::state::Poll;
use crate::{Error, Fate, Rank, Result, Wait, World};
use kumiki_mem::Activity;
use std::any::Any;
use std::cell::Cell;
use std::time::Duration;

/// So many messages are sent before one looks at what has come.
const SENDS_A_LOOK: u64 = 16;
/// Whoever waits for a rank of another node asks it after so many looks to say when it goes.
const LOOKS_BEFORE_ASKING: usize = 8;
/// How often something may move before a rank that finalizes looks at the barrier again.
const MOST_MOVES: u32 = 16;

/// A message to somebody.
#[derive(Clone, Copy, Debug)]
pub(super) struct To {
    pub(super) rank: Rank,
    pub(super) context: u32,
    pub(super) tag: u64,
}

impl To {
    fn short(self, bytes: &[u8]) -> Note {
        Note::Short { context: self.context, tag: self.tag, bytes: bytes.len() as u64 }
    }
}

/// How a message that is to be sent goes.
pub(super) enum Started {
    /// It is gone.
    Gone,
    /// It waits.
    Waits(u64),
    /// There is no room for it now: whoever can wait need not have it copied for that.
    Full,
    /// It is too long to go as it is.
    TooLong,
}

/// A message of so many bytes is not copied while its sender waits for room.
const LEAST_WAITING: usize = 4 << 10;

/// A receive that was begun.
pub(super) enum Begun<R> {
    /// It is over.
    Done(Result<Received<R>>),
    /// It waits.
    Waits(u64),
}

/// What was received.
pub(super) enum Received<R> {
    /// A message that was read where it came.
    Read((Envelope, Result<R>)),
    /// One that came otherwise.
    Delivered(Option<Delivery>),
}

/// The glance of whoever does not wait for the message of one source.
fn no_glance<T>(_: &mut Post) -> Glance<T> {
    Glance::Unclear
}

/// How long whoever waits sleeps before it looks again, if nobody wakes it: not for long while a rank that could not take something is
/// to be asked again, or something may have to be [fetched early](super::early).
#[derive(Clone, Copy)]
struct Nap {
    is_short: bool,
    doing: Activity,
    peer: Option<Rank>,
    takes: Takes,
}

impl Nap {
    const SHORT: Duration = Duration::from_millis(1);

    /// That of a wait for a rank, or for any.
    fn now(world: &World, doing: Activity, peer: Option<Rank>, takes: Takes) -> Nap {
        let comm = world.comm();
        let is_short = comm.may_nap() && comm.with_post(|post| post.asks_again || post.has_early(takes));
        Nap { is_short, doing, peer, takes }
    }

    /// The wait: for any rank it is for somebody who is there.
    fn wait(self, somebody: Rank) -> Wait {
        let Nap { doing, peer, .. } = self;
        let wait = match self.is_short {
            true => Wait::at_most(Nap::SHORT),
            false => Wait::FOREVER,
        };
        let wait = wait.from(somebody).doing(doing);
        if peer.is_none() {
            wait.with_anybody()
        } else {
            wait
        }
    }

    /// A look that finds nothing, but ends, if the nap should have been a short one.
    fn look<T>(self, post: &mut Post, look: impl FnOnce(&mut Post) -> Option<T>) -> Option<Option<T>> {
        match look(post) {
            None => {
                let is_short = self.is_short || post.asks_again || post.has_early(self.takes);
                (is_short && !self.is_short).then_some(None)
            }
            found => Some(found),
        }
    }

    /// A short one is over, and nothing has come.
    fn is_over(self, world: &World) {
        world.fetch_early(self.takes);
    }
}

/// Somebody who waits for a message without posting a receive.
struct Probing<'w>(&'w World);

impl<'w> Probing<'w> {
    fn begin(world: &'w World) -> Result<Self> {
        world.comm().with_post(|post| {
            post.enter(world)?;
            post.probes += 1;
            Ok(Probing(world))
        })
    }
}

impl Drop for Probing<'_> {
    fn drop(&mut self) {
        self.0.comm().with_post(|post| post.probes -= 1);
    }
}

impl World {
    /// Fails if there is no such rank.
    fn check_message_rank(&self, rank: Rank) -> Result<()> {
        match rank < self.ranks() {
            true => Ok(()),
            false => Err(Error::Misuse(format!(
                "a message and rank {rank}: there are {} ranks, numbered from 0",
                self.ranks()
            ))),
        }
    }

    /// Makes messages go on, and wakes threads that may wait for one.
    fn advance_post(&self, post: &mut Post) {
        if post.advance(self) {
            self.memory.wake_own();
        }
    }

    /// Begins to send a message that is short, without waiting. One that is not so short, and for which there is no room, is only kept if
    /// whoever sends it does not wait.
    pub(super) fn start_short(&self, to: To, bytes: &[u8], waits: bool) -> Result<Started> {
        self.check_message_rank(to.rank)?;
        self.comm().with_post(|post| {
            let note = to.short(bytes);
            let number = post.number();
            if number.is_multiple_of(SENDS_A_LOOK) {
                self.advance_post(post);
            }
            let sent = match post.send_in_lane(self, to.rank, note, bytes) {
                Some(sent) => sent,
                None => {
                    post.enter(self)?;
                    if bytes.len() as u64 > post.longest_short(self, to.rank) {
                        return Ok(Started::TooLong);
                    }
                    post.send_now(self, to.rank, note, bytes)
                }
            };
            match sent {
                Ok(true) => return Ok(Started::Gone),
                Ok(false) if waits && bytes.len() >= LEAST_WAITING => return Ok(Started::Full),
                // A lock that somebody holds who is stopped: the message waits.
                Ok(false) | Err(Error::Timeout { .. }) => {}
                Err(error) => return Err(error),
            }
            post.send_later(self, to.rank, number, note, bytes)?;
            self.advance_post(post);
            Ok(if post.is_sent(number) { Started::Gone } else { Started::Waits(number) })
        })
    }

    /// Waits until there is room for a message in its lane, and writes it there. False if there is no such lane any more, or something waits
    /// before it.
    pub(super) fn send_into_lane(&self, to: To, bytes: &[u8]) -> Result<bool> {
        let try_to = |post: &mut Post| post.send_in_lane(self, to.rank, to.short(bytes), bytes);
        let glance = |post: &mut Post| match try_to(post) {
            Some(Ok(false)) => Glance::Nothing,
            Some(sent) => Glance::Found(sent),
            None => Glance::Unclear,
        };
        let look = |post: &mut Post| match try_to(post) {
            Some(Ok(false)) => None,
            Some(sent) => Some(sent),
            None => Some(Ok(false)),
        };
        self.wait_mail(Activity::Send, Some(to.rank), (glance, look), |_| {})
    }

    /// Begins to send a message that the receiver fetches, out of memory that is registered.
    pub(super) fn start_lent(
        &self,
        to: To,
        place: Place,
        bytes: u64,
        memory: Option<Box<dyn Any + Send>>,
    ) -> Result<u64> {
        self.check_message_rank(to.rank)?;
        self.comm().with_post(|post| {
            post.enter(self)?;
            let number = post.number();
            let Place { address, registration } = place;
            let note = Note::Lent { context: to.context, tag: to.tag, bytes, place: address, number };
            post.lend(self, to.rank, (number, note), registration, memory)?;
            self.advance_post(post);
            post.tell(self);
            Ok(number)
        })
    }

    /// A message that was lent is lent no more, whatever became of it.
    pub(super) fn end_lending(&self, to: Rank, request: u64) {
        self.comm().with_post(|post| post.end_lending(to, request));
    }

    /// Begins to receive.
    pub(super) fn start_receiving(&self, selector: Selector) -> Result<u64> {
        selector.source.map_or(Ok(()), |source| self.check_message_rank(source))?;
        self.comm().with_post(|post| self.begin_receiving(post, selector, false, None))
    }

    /// The same, into memory of the program.
    pub(super) fn start_landing(&self, selector: Selector, room: Box<dyn Room>) -> Result<u64> {
        selector.source.map_or(Ok(()), |source| self.check_message_rank(source))?;
        self.comm().with_post(|post| self.begin_receiving(post, selector, false, Some(room)))
    }

    /// Receives what has come, or begins to receive.
    pub(super) fn receive_now<R>(
        &self,
        selector: Selector,
        short: &impl Fn(Envelope, Short<'_>) -> Result<R>,
    ) -> Result<Begun<R>> {
        selector.source.map_or(Ok(()), |source| self.check_message_rank(source))?;
        self.comm().with_post_in_turn(self, |post| {
            let request = match post.glance(self, &Waiting { selector: &selector, request: 0, short }) {
                Glance::Found(read) => return Ok(Begun::Done(Ok(Received::Read(read)))),
                // Whoever waits looks soon, and what was kept for it need not be looked for.
                Glance::Nothing => post.want(selector, true),
                Glance::Unclear if post.has_kept(&selector) => {
                    let request = post.want(selector, true);
                    // Who has sent it may wait for credit.
                    if selector.source.is_none_or(|source| post.keeps_back(source, None)) {
                        self.advance_post(post);
                    }
                    request
                }
                Glance::Unclear => self.begin_receiving(post, selector, true, None)?,
            };
            Ok(match post.done.remove(request) {
                Some(outcome) => Begun::Done(outcome.map(Received::Delivered)),
                None => Begun::Waits(request),
            })
        })
    }

    /// Waits for a message that somebody has [begun to receive](Self::receive_now).
    pub(super) fn wait_received<R>(
        &self,
        selector: Selector,
        request: u64,
        short: &impl Fn(Envelope, Short<'_>) -> Result<R>,
    ) -> Result<Received<R>> {
        let peer = selector.source;
        let waiting = Waiting { selector: &selector, request, short };
        let glance = |post: &mut Post| match post.glance(self, &waiting) {
            Glance::Found(read) => Glance::Found(Ok(Received::Read(read))),
            Glance::Nothing => Glance::Nothing,
            Glance::Unclear => Glance::Unclear,
        };
        let look =
            |post: &mut Post| post.outcome(request, peer).map(|outcome| outcome.map(Received::Delivered));
        self.wait_mail(Activity::Receive, peer, (glance, look), |post| post.give_up(request, peer))
    }

    /// Whoever `fetches` is told where a long message lies, and says when it was fetched.
    fn begin_receiving(
        &self,
        post: &mut Post,
        selector: Selector,
        fetches: bool,
        room: Option<Box<dyn Room>>,
    ) -> Result<u64> {
        post.enter(self)?;
        let request = post.number();
        // Before what has come is looked at: then nothing of that need be kept.
        if let Some(room) = room {
            post.rooms.insert(request, room);
        }
        post.receive(selector, Wanted::new(request, fetches));
        self.advance_post(post);
        Ok(request)
    }

    /// Waits until a request is done, and says what became of it. It can be asked once.
    pub(super) fn wait_message(
        &self,
        doing: Activity,
        request: u64,
        peer: Option<Rank>,
    ) -> Result<Option<Delivery>> {
        let look = |post: &mut Post| post.outcome(request, peer);
        self.wait_mail(doing, peer, (no_glance, look), |post| post.give_up(request, peer))
    }

    /// Waits for the first message that fits, and leaves it where it is.
    pub(super) fn wait_probe(&self, selector: Selector) -> Result<Envelope> {
        selector.source.map_or(Ok(()), |source| self.check_message_rank(source))?;
        let _probing = Probing::begin(self)?;
        let look = |post: &mut Post| match post.probe(&selector) {
            None => post.trouble(selector.source).map(Err),
            found => found.map(Ok),
        };
        self.wait_mail(Activity::Receive, selector.source, (no_glance, look), |_| {})
    }

    /// The first message that fits, if one has come.
    pub(super) fn probe_now(&self, selector: Selector) -> Result<Option<Envelope>> {
        selector.source.map_or(Ok(()), |source| self.check_message_rank(source))?;
        // As if somebody waited for it: what is before it is taken, so that whoever asks again and again finds it in the end. But once:
        // whoever sends all the time is not listened to for ever.
        let _probing = Probing::begin(self)?;
        let found = match self.comm().poll(self, |post| post.probe(&selector)) {
            Poll::Ready(found) => return Ok(Some(found)),
            Poll::Errand => {
                self.go_on_with_all();
                self.comm().with_post(|post| post.probe(&selector))
            }
            Poll::Pending => None,
        };
        match (found, self.comm().with_post(|post| self.probe_trouble(post, selector.source))) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    /// Why a message of a rank, or of any, will not come. Of one that only finalizes that is not said: a program that asks whether there is
    /// something is right, even if it is the last one.
    fn probe_trouble(&self, post: &Post, source: Option<Rank>) -> Option<Error> {
        let local = self.local();
        match source {
            Some(source) => local.check_alive(source).err().or_else(|| post.trouble_but_closed(source)),
            None if self.ranks() > 1 && !self.others().any(|rank| local.check_alive(rank).is_ok()) => {
                Some(self.nobody_left(post))
            }
            None => post.trouble(None),
        }
    }

    /// Waits until a look at the messages finds something, which must come from a rank, or from any; or a glance, which is all that most looks
    /// are. Everything else goes on meanwhile. If it cannot come, what was asked for is given up.
    fn wait_mail<T>(
        &self,
        doing: Activity,
        peer: Option<Rank>,
        (glance, look): (impl Fn(&mut Post) -> Glance<Result<T>>, impl Fn(&mut Post) -> Option<Result<T>>),
        give_up: impl Fn(&mut Post),
    ) -> Result<T> {
        let looks = Cell::new(0usize);
        loop {
            let Some(whom) = peer.or_else(|| self.somebody_else()) else {
                return self.comm().with_post(|post| {
                    self.advance_post(post);
                    look(post).unwrap_or_else(|| {
                        give_up(post);
                        Err(self.nobody_left(post))
                    })
                });
            };
            self.ask_before_sleep([whom]);
            let takes = match (doing, peer) {
                (Activity::Send, _) => Takes::All(peer),
                (_, Some(peer)) => Takes::Of(peer),
                (_, None) => Takes::Nothing,
            };
            let nap = Nap::now(self, doing, peer, takes);
            let found = |post: &mut Post| match nap.look(post, &look) {
                // Whoever waits for somebody who goes is not woken otherwise.
                None => {
                    post.tell(self);
                    looks.set(looks.get() + 1);
                    if looks.get().is_multiple_of(LOOKS_BEFORE_ASKING) {
                        post.ask_about(self, whom);
                    }
                    // What it sent before it went comes first.
                    match post.is_fetching() || post.is_answered_by(self, whom) {
                        true => None,
                        false => post.check_there(self, whom).err().map(Err),
                    }
                }
                found => found.map(Ok),
            };
            let glanced = |post: &mut Post| match glance(post) {
                Glance::Found(found) => Glance::Found(Ok(Some(found))),
                Glance::Nothing => Glance::Nothing,
                Glance::Unclear => Glance::Unclear,
            };
            let turn = |is_quick| match self.comm().poll_quickly(self, is_quick, glanced, found) {
                Poll::Ready(found) => Some(found),
                Poll::Errand => Some(Ok(None)),
                Poll::Pending => None,
            };
            match self.memory.look_for_quick_or_whole(turn, nap.wait(whom)) {
                Ok(Some(found)) => return found,
                Ok(None) => drop(self.go_on_with_all()),
                Err(Error::Timeout { .. }) if nap.is_short => nap.is_over(self),
                Err(error) => {
                    let ended = self
                        .comm()
                        .with_post(|post| self.end_wait(post, peer, whom, error, (&look, &give_up)));
                    if let Some(found) = ended {
                        return found;
                    }
                }
            }
        }
    }

    /// A wait for somebody has failed: what comes of it. Nothing if it can go on with somebody else.
    fn end_wait<T>(
        &self,
        post: &mut Post,
        peer: Option<Rank>,
        whom: Rank,
        error: Error,
        (look, give_up): (impl Fn(&mut Post) -> Option<Result<T>>, impl Fn(&mut Post)),
    ) -> Option<Result<T>> {
        if post.check_there(self, whom).is_ok() {
            give_up(post);
            return Some(Err(error));
        }
        // What it sent before it went comes first.
        self.advance_post(post);
        let found = look(post);
        if found.is_none() && peer.is_some() {
            post.lose(self, whom, &error);
            return look(post).or_else(|| {
                give_up(post);
                Some(Err(error))
            });
        }
        found
    }

    /// Where nobody is woken by time, ranks of other nodes that somebody is going to wait for are asked at once to tell when they go.
    fn ask_before_sleep(&self, ranks: impl IntoIterator<Item = Rank>) {
        if self.memory.sleeps_at_once() {
            self.comm().with_post(|post| ranks.into_iter().for_each(|rank| post.ask_about(self, rank)));
        }
    }

    /// Fetches a message that others have lent and may wait for, while this rank waits: one that nobody has asked for yet, too.
    pub(crate) fn fetch_early(&self, takes: Takes) {
        let has_begun = self.comm().with_post(|post| {
            post.begin_early(self, takes);
            post.has_fetches()
        });
        if has_begun {
            self.go_on_with_all();
        }
    }

    /// Whether a request is done.
    pub(super) fn test_message(&self, request: u64, peer: Option<Rank>) -> bool {
        self.go_on_with_all();
        self.comm().with_post(|post| self.has_ended(post, request, peer))
    }

    /// Whether a request is done, or never can be.
    fn has_ended(&self, post: &mut Post, request: u64, peer: Option<Rank>) -> bool {
        if post.is_done(request) || post.trouble_of(request, peer).is_some() {
            return true;
        }
        match peer {
            Some(rank) => post.check_there(self, rank).is_err() && !post.is_answered_by(self, rank),
            None => post.somebody(self).is_none(),
        }
    }

    /// Waits until a message to a rank has left, or what is said about messages of it: from then on it comes without this rank, which may do something else that
    /// the other one has to come to first.
    pub(crate) fn see_off(&self, all: impl Iterator<Item = (Rank, Option<u64>)>) -> Result<()> {
        for (peer, request) in all {
            while self.comm().with_post(|post| post.keeps_back(peer, request)) {
                self.ask_before_sleep([peer]);
                let nap = Nap::now(self, Activity::Send, Some(peer), Takes::Nothing);
                let gone = |post: &mut Post| match post.keeps_back(peer, request) {
                    // Credit for it may be behind what cannot be read. What is said about messages needs none.
                    true => {
                        let trouble = request.and_then(|request| post.trouble_of(request, Some(peer)));
                        trouble.or_else(|| post.broken.clone()).map(Err)
                    }
                    false => Some(Ok(())),
                };
                let turn = || match self.comm().poll(self, |post| nap.look(post, gone)) {
                    Poll::Ready(found) => Some(found.unwrap_or(Ok(()))),
                    Poll::Errand => Some(Ok(())),
                    Poll::Pending => None,
                };
                match self.memory.look_for(turn, nap.wait(peer)) {
                    Ok(()) => drop(self.go_on_with_all()),
                    Err(Error::Timeout { .. }) if nap.is_short => nap.is_over(self),
                    Err(error) => return self.note(Err(error)),
                }
            }
        }
        Ok(())
    }

    /// Waits until one of several requests is done.
    pub(super) fn wait_any_message(&self, requests: &[(u64, Option<Rank>)]) -> Result<usize> {
        if requests.is_empty() {
            return self.note(Err(Error::Misuse("wait_any: there is no request".into())));
        }
        loop {
            // If all are with the same rank, that is waited for.
            let peer = requests[0].1.filter(|_| requests.iter().all(|(_, peer)| *peer == requests[0].1));
            let whom = peer.or_else(|| self.somebody_else()).unwrap_or(self.rank());
            self.ask_before_sleep(requests.iter().map(|(_, peer)| peer.unwrap_or(whom)));
            let look = |post: &mut Post| {
                let ended = |(request, peer): &(u64, Option<Rank>)| self.has_ended(post, *request, *peer);
                requests.iter().position(ended)
            };
            let sends = |post: &mut Post| requests.iter().any(|(request, _)| post.is_lent(*request));
            let takes = match (peer, self.comm().with_post(sends)) {
                (_, true) => Takes::All(peer),
                (Some(peer), false) => Takes::Of(peer),
                (None, false) => Takes::Nothing,
            };
            let nap = Nap::now(self, Activity::Receive, peer, takes);
            let told = |post: &mut Post| {
                let found = look(post);
                if found.is_none() {
                    post.tell(self);
                }
                found
            };
            let turn = || match self.comm().poll(self, |post| nap.look(post, told)) {
                Poll::Ready(at) => Some(Ok(at)),
                Poll::Errand => Some(Ok(None)),
                Poll::Pending => None,
            };
            match self.memory.look_for(turn, nap.wait(whom)) {
                Ok(Some(at)) => return Ok(at),
                Ok(None) => drop(self.go_on_with_all()),
                Err(Error::Timeout { .. }) if nap.is_short => nap.is_over(self),
                Err(error) if self.local().check_alive(whom).is_ok() => return self.note(Err(error)),
                Err(_) => {}
            }
        }
    }

    /// Somebody who is there and may send something.
    fn somebody_else(&self) -> Option<Rank> {
        self.comm().with_post(|post| post.somebody(self))
    }

    fn others(&self) -> impl Iterator<Item = Rank> {
        let me = self.rank();
        (0..self.ranks()).filter(move |rank| *rank != me)
    }

    fn nobody_left(&self, post: &Post) -> Error {
        let errors = self.others().filter_map(|rank| post.check_there(self, rank).err());
        errors.last().unwrap_or(Error::PeerLost {
            rank: self.rank(),
            fate: Fate::NotDone,
            why: "nobody is left who could send".into(),
        })
    }

    /// Takes a receive back. False if it has got its message.
    pub(super) fn cancel_message(&self, request: u64) -> bool {
        self.comm().with_post(|post| {
            self.advance_post(post);
            post.withdraw(request)
        })
    }

    pub(super) fn forget_message(&self, request: u64) {
        self.comm().with_post(|post| post.forget(request));
    }

    /// The message of a receive is not wanted, but taken.
    pub(super) fn throw_message_away(&self, request: u64) {
        self.comm().with_post(|post| post.throw_away(request));
    }

    /// A message that whoever waited for it has fetched, or cannot fetch.
    pub(super) fn message_fetched(&self, source: Rank, number: u64) {
        self.comm().with_post(|post| {
            post.fetched_directly(source, number);
            self.advance_post(post);
        });
    }

    /// A buffer of a message that was read.
    pub(super) fn reuse_buffer(&self, bytes: Bytes) {
        if matches!(bytes, Bytes::Many(_)) {
            self.comm().with_post(|post| post.reuse(bytes));
        }
    }

    pub(super) fn set_message_options(&self, options: MessageOptions) {
        self.comm().with_post(|post| post.options = options);
    }

    /// What a rank that leaves alone does first: it waits a moment for a message that it has lent to be fetched. False if none is, by anybody who
    /// is there.
    pub(crate) fn wait_for_lent(&self) -> bool {
        // It receives nothing any more: others may wait until what they have lent to it is fetched, or dropped.
        self.comm().with_post(|post| post.close());
        self.go_on_with_all();
        let to = self.comm().with_post(|post| post.lends_to(self));
        if let Some(peer) = to {
            self.has_moved_on(peer);
        }
        to.is_some()
    }

    /// What a rank that ends does until all others have come to that, too: it sends what waits to be sent, and drops what nobody has asked
    /// for; and then it takes nothing any more. Whether something is left to do.
    pub(crate) fn end_messages(&self) -> bool {
        let comm = self.comm();
        comm.with_post(|post| post.close());
        self.go_on_with_all();
        for turn in 0.. {
            let Some(peer) = comm.with_post(|post| post.busy_with()) else { break };
            // However much moves: the barrier must be looked at, too.
            if turn == MOST_MOVES || !self.has_moved_on(peer) {
                return true;
            }
        }
        let has_shut = comm.with_post(|post| post.shut(self));
        if has_shut {
            // What others sent in the last moment is dropped, and they are told.
            self.go_on_with_all();
        }
        has_shut
    }

    /// Waits a moment for something to move, while a rank has something to take.
    fn has_moved_on(&self, peer: Rank) -> bool {
        let before = self.comm().with_post(|post| post.moves());
        let turn = || match self.comm().poll(self, |post| (post.moves() != before).then_some(())) {
            Poll::Ready(()) | Poll::Errand => Some(Ok(())),
            Poll::Pending => None,
        };
        let moved = self.memory.look_for(turn, Wait::at_most(Nap::SHORT).from(peer).doing(Activity::Send));
        match moved {
            Ok(()) => drop(self.go_on_with_all()),
            Err(error @ Error::PeerLost { rank, .. }) if rank == peer => {
                self.comm().with_post(|post| post.lose(self, peer, &error));
            }
            // The barrier fails for the same reason, or it is none of this peer.
            Err(_) => return false,
        }
        true
    }
}
