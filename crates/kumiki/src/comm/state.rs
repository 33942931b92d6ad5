//! All ends that a process has, and waiting for any of their requests.
//!
//! Whoever waits for one request makes all ends go on: a rank that waits until it can send takes meanwhile what it has asked to receive, so
//! that two ranks that send to each other do not wait for each other.

use super::door;
use super::ends::{Basket, Done, Fetch, Load, Now, ReceiveEnd, Results, Room, SendEnd};
use super::left::Left;
use super::lobby::Lobby;
use super::message::{Fetch as MessageFetch, Glance, Post};
use crate::{Error, GlobalAddress, GlobalPtr, Purpose, Rank, Result, Wait, World};
use kumiki_mem::Activity;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An end of a channel of this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelEnd(u64);

/// Something that an end was asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    end: ChannelEnd,
    number: u64,
}

/// Whoever asks for this has everything go on that can, and everything fetched that is to be.
const NOTHING: Request = Request { end: ChannelEnd(0), number: 0 };

/// How long a rank that leaves waits for its ends before it looks at everything else.
const ENDS_A_MOMENT: Duration = Duration::from_millis(5);

/// So often in a row what has come is looked at by a rank that waits for something else.
const MOST_ROUNDS: usize = 16;

/// So long a rank waits in a collective before it looks after messages, and between two looks.
const SLICE: Duration = Duration::from_millis(1);

/// What became of a request.
#[derive(Debug)]
pub struct Received {
    /// Bytes that the message has where it was written to; for a send those that were sent.
    pub bytes: usize,
    /// Bytes that the sender sent: more, if the memory for them was too short.
    pub sent: usize,
    /// The message, where no memory was given for it.
    pub message: Vec<u8>,
}

enum End {
    Send(SendEnd),
    Receive(ReceiveEnd),
}

impl End {
    fn peer(&self) -> Rank {
        match self {
            End::Send(end) => end.peer,
            End::Receive(end) => end.peer,
        }
    }

    /// Whether something of it is not done.
    fn is_busy(&self) -> bool {
        match self {
            End::Send(end) => end.is_busy(),
            End::Receive(end) => end.is_busy(),
        }
    }

    fn moves(&self) -> u64 {
        match self {
            End::Send(end) => end.moves(),
            End::Receive(end) => end.moves(),
        }
    }

    /// Whether something is still to come of it, when all channels end.
    fn is_open(&self) -> bool {
        match self {
            End::Send(end) => !end.has_failed() && (!end.is_freed() || end.is_busy()),
            End::Receive(end) => end.is_awaiting_more(),
        }
    }

    fn is_receiving(&self) -> bool {
        matches!(self, End::Receive(_))
    }

    fn is_freed(&self) -> bool {
        match self {
            End::Send(end) => end.is_freed(),
            End::Receive(end) => end.is_freed(),
        }
    }

    fn fail(&mut self, error: Error, done: &mut Results) {
        match self {
            End::Send(end) => end.fail(error, done),
            End::Receive(end) => end.fail(error, done),
        }
    }
}

#[derive(Default)]
struct Inner {
    lobby: Lobby,
    ends: BTreeMap<u64, End>,
    done: Results,
    /// Requests that nobody will ask for.
    forgotten: HashSet<u64>,
    fetches: Vec<Fetch>,
    /// Numbers of ends and requests that were given out.
    numbers: u64,
    /// Whether what nobody has asked to receive is dropped.
    is_closing: bool,
    /// Memory of segment buffers that the other end may still write to.
    left: Vec<Left>,
    /// Messages without channels.
    post: Post,
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Makes every end go on.
    fn advance(&mut self, world: &World) {
        let before = self.done.len();
        self.lobby.advance(world);
        if self.is_closing {
            for end in self.ends.values_mut() {
                if let End::Send(end) = end {
                    end.close();
                }
            }
        }
        let Inner { lobby, ends, done, fetches, is_closing, .. } = self;
        ends.retain(|id, end| match end {
            End::Send(end) => !end.advance(world, lobby, done),
            End::Receive(end) => {
                let (fetch, is_over) = end.advance(*id, world, lobby, done, *is_closing);
                fetches.extend(fetch);
                !is_over
            }
        });
        if !self.forgotten.is_empty() {
            let Inner { done, forgotten, .. } = self;
            done.retain(|request, _| !forgotten.remove(request));
        }
        let is_news = self.post.advance(world);
        self.post.has_toured();
        if is_news || self.done.len() > before {
            // Another thread may wait for it.
            world.memory.wake_own();
        }
        let Inner { lobby, left, is_closing, .. } = self;
        left.retain_mut(|memory| memory.advance(world, lobby));
        // Behind all that have taken what is for them.
        if *is_closing {
            lobby.refuse(world);
        }
    }

    /// Somebody who is there and waits for something that an end of this rank has to do; or may wait for room, if this rank `drains` what
    /// nobody will receive.
    fn owes(&self, world: &World, drains: bool) -> Option<Rank> {
        let is_there = |rank: Rank| world.local().check_alive(rank).is_ok();
        // Where somebody is lost all that is left is to say so.
        let drains = drains && self.ends.values().any(End::is_receiving) && (0..world.ranks()).all(is_there);
        let mut ends = self.ends.values().filter(|end| is_there(end.peer()));
        let owed = ends.find(|end| match end {
            End::Send(end) => end.is_busy(),
            End::Receive(end) => drains && end.is_missed(),
        });
        let untold = || self.left.iter().find(|left| left.is_untold(world)).map(|left| left.peer);
        owed.map(End::peer).or_else(|| self.lobby.has_to_knock_at()).or_else(untold)
    }

    /// How far all ends have come.
    fn moves(&self) -> u64 {
        self.ends.values().fold(self.post.moves(), |sum, end| sum.wrapping_add(end.moves()))
    }

    /// Whether something is to be fetched by whoever waits.
    fn has_fetches(&self) -> bool {
        !self.fetches.is_empty() || self.post.has_fetches()
    }

    fn fail(&mut self, end: u64, error: Error) {
        let Inner { ends, done, .. } = self;
        if let Some(end) = ends.get_mut(&end) {
            end.fail(error, done);
        }
    }

    fn end(&mut self, end: ChannelEnd) -> Result<&mut End> {
        let found = self.ends.get_mut(&end.0).filter(|end| !end.is_freed());
        found.ok_or_else(|| Error::Misuse("the channel has been freed".into()))
    }
}

/// What a look has found.
pub(super) enum Poll<T> {
    Ready(T),
    /// Something else is to be done first: [`World::go_on_with_all`].
    Errand,
    Pending,
}

/// The ends of a process.
#[derive(Default)]
pub(crate) struct State {
    inner: Mutex<Inner>,
    /// Whether there ever were messages.
    has_messages: AtomicBool,
    /// Whether somebody who waits for a message may have to look again soon, though nobody wakes it, as far as is known.
    may_nap: AtomicBool,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with messages.
    pub(super) fn with_post<T>(&self, work: impl FnOnce(&mut Post) -> T) -> T {
        self.work(&mut self.lock(), work)
    }

    #[inline(always)]
    fn work<T>(&self, inner: &mut Inner, work: impl FnOnce(&mut Post) -> T) -> T {
        let worked = work(&mut inner.post);
        if inner.post.is_in_use() && !self.has_messages.load(Ordering::Relaxed) {
            self.has_messages.store(true, Ordering::Relaxed);
        }
        self.may_nap.store(inner.post.may_nap(), Ordering::Relaxed);
        worked
    }

    /// The same behind everything else, if that was not looked at for long: for whoever makes nothing go on itself.
    pub(super) fn with_post_in_turn<T>(&self, world: &World, work: impl FnOnce(&mut Post) -> T) -> T {
        let mut inner = self.lock();
        if inner.post.is_tour_due() {
            inner.post.leaves_lanes = true;
            inner.advance(world);
            inner.post.leaves_lanes = false;
        }
        self.work(&mut inner, work)
    }

    /// Makes everything go on, and looks at the messages.
    pub(super) fn poll<T>(&self, world: &World, look: impl FnOnce(&mut Post) -> Option<T>) -> Poll<T> {
        self.poll_quickly(world, false, |_| Glance::Unclear, look)
    }

    /// The same where a glance does not do; if it shall be quick, only if a message has come.
    pub(super) fn poll_quickly<T>(
        &self,
        world: &World,
        is_quick: bool,
        glance: impl FnOnce(&mut Post) -> Glance<T>,
        look: impl FnOnce(&mut Post) -> Option<T>,
    ) -> Poll<T> {
        let mut inner = self.lock();
        if !inner.post.is_tour_due() {
            match glance(&mut inner.post) {
                Glance::Found(found) => return Poll::Ready(found),
                Glance::Nothing if is_quick => return Poll::Pending,
                Glance::Unclear if is_quick && !inner.post.has_news(world) => return Poll::Pending,
                Glance::Nothing | Glance::Unclear => {}
            }
        }
        inner.advance(world);
        self.may_nap.store(inner.post.may_nap(), Ordering::Relaxed);
        match look(&mut inner.post) {
            Some(found) => Poll::Ready(found),
            None if inner.has_fetches() => Poll::Errand,
            None => Poll::Pending,
        }
    }

    /// Whether somebody who waits for a message may have to look again soon, though nobody wakes it.
    pub(super) fn may_nap(&self) -> bool {
        self.may_nap.load(Ordering::Relaxed)
    }

    /// Does something with what this process knows of ends that have not met.
    pub(super) fn with_lobby<T>(
        &self,
        world: &World,
        work: impl FnOnce(&mut Lobby) -> Result<T>,
    ) -> Result<T> {
        let Inner { lobby, left, .. } = &mut *self.lock();
        // Whoever was left by this rank may wait to be told.
        if !left.is_empty() {
            left.retain_mut(|memory| memory.advance(world, lobby));
        }
        work(lobby)
    }
}

/// That there is such a rank, and that it is not lost.
pub(super) fn check_rank(world: &World, rank: Rank) -> Result<()> {
    match rank < world.ranks() {
        true => world.local().check_alive(rank),
        false => {
            Err(Error::Misuse(format!("rank {rank}: there are {} ranks, numbered from 0", world.ranks())))
        }
    }
}

impl World {
    /// Makes the end of a channel that sends to a rank.
    pub(crate) fn open_sender(&self, to: Rank) -> Result<ChannelEnd> {
        self.note(check_rank(self, to).and_then(|()| {
            let mut inner = self.comm().lock();
            let end = SendEnd::new(self, &mut inner.lobby, to)?;
            Ok(self.settle_in(&mut inner, End::Send(end)))
        }))
    }

    /// Makes the end of a channel that receives from a rank.
    pub(crate) fn open_receiver(&self, from: Rank, slots: usize, slot_bytes: usize) -> Result<ChannelEnd> {
        self.note(check_rank(self, from).and_then(|()| {
            let mut inner = self.comm().lock();
            let end = ReceiveEnd::new(self, &mut inner.lobby, from, slots as u64, slot_bytes as u64)?;
            Ok(self.settle_in(&mut inner, End::Receive(end)))
        }))
    }

    fn settle_in(&self, inner: &mut Inner, end: End) -> ChannelEnd {
        let number = inner.number();
        inner.ends.insert(number, end);
        inner.advance(self);
        ChannelEnd(number)
    }

    /// Begins to send bytes. They are copied where they cannot be sent at once.
    pub(crate) fn start_send(&self, end: ChannelEnd, bytes: &[u8]) -> Result<Request> {
        self.comm().lock().advance(self);
        if let Some(request) = self.send_now(end, bytes)? {
            return Ok(request);
        }
        let mut inner = self.comm().lock();
        let request = Request { end, number: inner.number() };
        let bytes = bytes.len() as u64;
        inner.done.insert(request.number, Done { result: Ok(bytes), whole: bytes, basket: None });
        Ok(request)
    }

    /// Sends bytes that there is room for at once, or begins to send them.
    pub(super) fn send_now(&self, end: ChannelEnd, bytes: &[u8]) -> Result<Option<Request>> {
        let mut inner = self.comm().lock();
        let sender = self.note(sender_of(&mut inner, end))?;
        if self.note(sender.send_now(self, bytes))? {
            return Ok(None);
        }
        let booked = self.book(Purpose::Comm, bytes.len() as u64)?;
        let request = Request { end, number: inner.number() };
        sender_of(&mut inner, end)?.keep(request.number, bytes.to_vec(), booked);
        Ok(Some(request))
    }

    /// Takes a message that is there in one piece, or says where it is to be fetched from: then [`fetch_alone`](Self::fetch_alone) must follow.
    /// All ends go on before it, unless the look is to be a quick one.
    pub(super) fn take_now(&self, end: ChannelEnd, into: &mut [u8], is_quick: bool) -> Result<Now> {
        let mut inner = self.comm().lock();
        if !is_quick {
            inner.advance(self);
        }
        match inner.end(end)? {
            End::Receive(receiver) => receiver.take_now(self, into),
            End::Send(_) => Ok(Now::Otherwise),
        }
    }

    /// Fetches as much of a message as there is room for.
    pub(super) fn fetch_alone(&self, end: ChannelEnd, place: GlobalAddress, into: &mut [u8]) -> Result<()> {
        let fetched = self.memory.get_awaited(GlobalPtr::from_address(place), into);
        let mut inner = self.comm().lock();
        if let Some(End::Receive(receiver)) = inner.ends.get_mut(&end.0) {
            receiver.fetched_alone();
        }
        // The sender is told.
        inner.advance(self);
        drop(inner);
        // Another thread may wait for what comes behind it.
        self.memory.wake_own();
        fetched
    }

    /// Whether messages are to be fetched for other requests: then whoever waits must [see to them](Self::look_after_channels).
    pub(super) fn has_to_fetch(&self) -> bool {
        !self.comm().lock().fetches.is_empty()
    }

    /// Sends bytes that there is room for at once; whether there was.
    pub(super) fn send_if_room(&self, end: ChannelEnd, bytes: &[u8]) -> Result<bool> {
        let mut inner = self.comm().lock();
        let sent = sender_of(&mut inner, end).and_then(|sender| sender.send_now(self, bytes));
        drop(inner);
        self.note(sent)
    }

    /// Begins to send memory of this rank that the receiver reads itself. It must stay as it is until the request is done.
    pub(crate) fn start_send_from(
        &self,
        end: ChannelEnd,
        from: GlobalAddress,
        bytes: usize,
    ) -> Result<Request> {
        self.note(if self.local().rank_of(from) == self.rank() {
            self.begin_send(end, Load::Memory(from, bytes as u64, None))
        } else {
            Err(Error::Misuse("a channel sends memory of its own rank".into()))
        })
    }

    pub(super) fn begin_send(&self, end: ChannelEnd, load: Load) -> Result<Request> {
        let mut inner = self.comm().lock();
        let request = Request { end, number: inner.number() };
        sender_of(&mut inner, end)?.send(request.number, load);
        inner.advance(self);
        Ok(request)
    }

    /// Begins to receive a message: into memory that is given, or as much as it takes.
    pub(crate) fn start_receive(&self, end: ChannelEnd, room: Option<Box<dyn Room>>) -> Result<Request> {
        let mut inner = self.comm().lock();
        let request = Request { end, number: inner.number() };
        match inner.end(end) {
            Ok(End::Receive(receiver)) => {
                let basket = room.map_or(Basket::Growing(Vec::new()), Basket::Room);
                receiver.want(request.number, basket);
            }
            Ok(End::Send(_)) => return self.note(Err(Error::Misuse("this end of the channel sends".into()))),
            Err(error) => return self.note(Err(error)),
        }
        inner.advance(self);
        Ok(request)
    }

    /// Begins to free an end: behind all that was sent, and when both ends are freed. What was sent and is not received is dropped.
    pub(crate) fn start_free(&self, end: ChannelEnd) -> Result<Request> {
        let mut inner = self.comm().lock();
        let request = Request { end, number: inner.number() };
        match inner.end(end) {
            Ok(End::Receive(receiver)) => receiver.free(request.number),
            Ok(End::Send(sender)) => sender.send(request.number, Load::End),
            Err(error) => return self.note(Err(error)),
        }
        inner.advance(self);
        Ok(request)
    }

    /// Whether a message has begun to come, or none can.
    pub(super) fn has_mail(&self, end: ChannelEnd) -> Result<bool> {
        let mut inner = self.comm().lock();
        inner.advance(self);
        match inner.ends.get(&end.0) {
            Some(End::Receive(receiver)) => receiver.has_mail(self),
            _ => Ok(false),
        }
    }

    /// Whether a request is done: then [`wait_request`](Self::wait_request) does not wait.
    pub(crate) fn test_request(&self, request: Request) -> bool {
        // A message that is to be fetched is fetched by whoever asks.
        self.go_on_with(request);
        let inner = self.comm().lock();
        inner.done.contains_key(&request.number) || !inner.ends.contains_key(&request.end.0)
    }

    /// Makes all ends go on, and fetches what is to be fetched. Whether the request is done.
    fn go_on_with(&self, request: Request) -> bool {
        self.go_on_for(request, usize::MAX).unwrap_or(false)
    }

    /// The same for so many rounds at most; `None` if there was more to do.
    fn go_on_for(&self, request: Request, rounds: usize) -> Option<bool> {
        for _ in 0..rounds {
            let mut inner = self.comm().lock();
            let before = inner.moves();
            inner.advance(self);
            if inner.done.contains_key(&request.number) {
                return Some(true);
            }
            let mut next = inner.post.next_fetches(self);
            if !next.is_empty() {
                drop(inner);
                let fetched = MessageFetch::run_all(&mut next, self);
                self.comm().with_post(|post| {
                    next.into_iter().zip(fetched).for_each(|(fetch, fetched)| post.fetched(fetch, fetched));
                });
                // Another thread may wait for it.
                self.memory.wake_own();
                continue;
            }
            let Some(mut fetch) = inner.fetches.pop() else {
                match inner.moves() == before {
                    true => return Some(false),
                    // What one end has sent another one of this process may take.
                    false => continue,
                }
            };
            drop(inner);
            let fetched = fetch.run(self);
            let mut inner = self.comm().lock();
            let Inner { ends, done, .. } = &mut *inner;
            if let Some(End::Receive(receiver)) = ends.get_mut(&fetch.end) {
                receiver.fetched(fetch, fetched, done);
            }
            drop(inner);
            // Another thread may wait for it.
            self.memory.wake_own();
        }
        None
    }

    /// Makes everything go on that can, and fetches everything that is to be.
    pub(super) fn go_on_with_all(&self) -> bool {
        self.go_on_with(NOTHING)
    }

    /// Nobody will wait for a request: it goes on all the same, and nothing of it is kept.
    pub(crate) fn forget_request(&self, request: Request) {
        let mut inner = self.comm().lock();
        let is_known = inner.ends.contains_key(&request.end.0);
        if inner.done.remove(&request.number).is_none() && is_known {
            inner.forgotten.insert(request.number);
        }
    }

    /// Waits until a request is done, and says what became of it. It can be asked once. Memory that was given for it is the program's again.
    pub(crate) fn wait_request(&self, request: Request) -> Result<Received> {
        while !self.go_on_with(request) {
            let peer = {
                let inner = self.comm().lock();
                let Some(end) = inner.ends.get(&request.end.0) else {
                    return self.note(Err(Error::Misuse("the request was waited for before".into())));
                };
                end.peer()
            };
            let look = || {
                let mut inner = self.comm().lock();
                inner.advance(self);
                let Inner { done, ends, .. } = &*inner;
                let is_over = done.contains_key(&request.number) || inner.has_fetches();
                (is_over || !ends.contains_key(&request.end.0)).then_some(Ok(()))
            };
            if let Err(error) = self.memory.wait_for(look, Wait::FOREVER.from(peer).doing(Activity::Channel))
            {
                // Whatever else this end was asked for fails with it.
                self.comm().lock().fail(request.end.0, error);
            }
        }
        let Some(done) = self.comm().lock().done.remove(&request.number) else {
            return self.note(Err(Error::Misuse("the request was waited for before".into())));
        };
        let message = match done.basket {
            Some(Basket::Growing(message)) => message,
            _ => Vec::new(),
        };
        let bytes = self.note(done.result)? as usize;
        Ok(Received { bytes, sent: done.whole as usize, message })
    }

    /// Makes all channels go on; whether something of them is not done.
    pub(crate) fn look_after_channels(&self) -> bool {
        self.go_on_with(NOTHING);
        let inner = self.comm().lock();
        inner.lobby.has_to_knock_at().is_some()
            || inner.ends.values().any(End::is_busy)
            || inner.post.is_active()
    }

    /// Makes messages go on, and all channels with them; whether something is under way that other ranks may wait for.
    pub(crate) fn look_after_messages(&self) -> bool {
        // Whoever looks waits for something else, which must not wait for a sender that never stops.
        self.has_messages()
            && (self.go_on_for(NOTHING, MOST_ROUNDS).is_none() || self.comm().lock().post.is_active())
    }

    /// Whether this rank has ever had to do with messages.
    pub(crate) fn has_messages(&self) -> bool {
        self.comm().has_messages.load(Ordering::Relaxed)
    }

    /// Waits for at most so long, in slices if there are messages that other ranks may wait for: they go on meanwhile. Most waits are
    /// over before that matters.
    pub(crate) fn wait_with_messages<T>(
        &self,
        limit: Duration,
        wait: impl Fn(Duration) -> Result<T>,
    ) -> Result<T> {
        let mut left = limit;
        if left > SLICE && self.has_messages() {
            loop {
                match wait(SLICE) {
                    Err(Error::Timeout { .. }) => left = left.saturating_sub(SLICE),
                    waited => return waited,
                }
                if !self.look_after_messages() || left <= SLICE {
                    break;
                }
            }
        }
        wait(left)
    }

    /// No message is written to memory of the program any more: what it has asked to receive is dropped.
    pub(crate) fn abandon_receives(&self) {
        let mut inner = self.comm().lock();
        inner.post.abandon_rooms();
        let Inner { ends, fetches, done, .. } = &mut *inner;
        for fetch in fetches.drain(..) {
            if let Some(End::Receive(receiver)) = ends.get_mut(&fetch.end) {
                receiver.fetched(fetch, Err(Error::Closed("the program has ended".into())), done);
            }
        }
        for end in ends.values_mut() {
            if let End::Receive(receiver) = end {
                receiver.abandon();
            }
        }
    }

    /// Keeps what the other end of a segment buffer may still write to until it says that it does not.
    pub(super) fn leave_memory(&self, memory: Left) {
        let mut inner = self.comm().lock();
        inner.left.push(memory);
        inner.advance(self);
    }

    /// The same, and nothing goes on.
    pub(super) fn keep_memory(&self, memory: Left) {
        self.comm().lock().left.push(memory);
    }

    /// What a rank that ends does for those who wait for ends of its channels and segment buffers, until all others have come to that,
    /// too: it sends what waits to be sent, drains what nobody will receive, and then opens its door no more. Whether something is left.
    pub(crate) fn end_ends(&self, drains: bool) -> bool {
        self.comm().lock().is_closing = true;
        self.go_on_with(NOTHING);
        let mut inner = self.comm().lock();
        inner.advance(self);
        let local = self.local();
        match inner.owes(self, drains) {
            // Others may have to knock first; without memory for that they are refused, and told so.
            Some(_) => {
                let _ = door::stay_open(local);
                true
            }
            // Whoever has knocked meanwhile is refused the next time.
            None => door::close(local).unwrap_or(false),
        }
    }

    /// The same for a rank that leaves alone: it waits a moment if something is left.
    pub(crate) fn wait_for_ends(&self) -> bool {
        let is_left = self.end_ends(false);
        let owed = self.comm().lock().owes(self, false).filter(|_| is_left);
        if let Some(peer) = owed {
            let look = || {
                let mut inner = self.comm().lock();
                inner.advance(self);
                (inner.has_fetches() || inner.owes(self, false) != Some(peer)).then_some(Ok(()))
            };
            // What goes wrong with it is found out by the end itself.
            let _ =
                self.memory.look_for(look, Wait::at_most(ENDS_A_MOMENT).from(peer).doing(Activity::Channel));
        }
        is_left
    }

    /// Ends all channels of this rank: waits until everything is sent, and until those who send to it have sent everything; what nobody has
    /// asked for is dropped. Nobody is waited for longer than `limit`.
    pub(crate) fn end_channels(&self, limit: Duration) -> Result<()> {
        self.comm().lock().is_closing = true;
        let next = |inner: &mut Inner| {
            inner.advance(self);
            let open = inner.ends.iter().find(|(_, end)| end.is_open());
            open.map(|(id, end)| (*id, end.peer()))
        };
        loop {
            self.go_on_with(NOTHING);
            let found = next(&mut self.comm().lock());
            let Some((id, peer)) = found else { return Ok(()) };
            let look = || {
                let mut inner = self.comm().lock();
                let is_next = next(&mut inner).is_some_and(|(next, _)| next == id);
                (!is_next || inner.has_fetches()).then_some(Ok(()))
            };
            match self.memory.wait_for(look, Wait::at_most(limit).from(peer).doing(Activity::Channel)) {
                Ok(()) => {}
                Err(error @ Error::Timeout { .. }) => return Err(error),
                Err(error) => self.comm().lock().fail(id, error),
            }
        }
    }
}

fn sender_of(inner: &mut Inner, end: ChannelEnd) -> Result<&mut SendEnd> {
    match inner.end(end)? {
        End::Send(sender) => Ok(sender),
        End::Receive(_) => Err(Error::Misuse("this end of the channel receives".into())),
    }
}
