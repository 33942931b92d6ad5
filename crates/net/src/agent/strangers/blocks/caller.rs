//! Whoever calls the roll: a thread of rank 0 of block 0, until all have come and know it.

use super::notes::{Here, Told};
use super::roll::Roll;
use super::Ear;
use crate::agent::link::Link;
use crate::agent::report;
use crate::agent::strangers::greet::Greeting;
use crate::auth::{JobId, Secret};
use crate::os::descriptor::{self, Event};
use crate::os::{process, socket, time};
use crate::terms::Terms;
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};

/// The most handshakes at a time, and the most who wait here; others come again.
const MAX_GREETINGS: usize = 64;
const MOST_WAITING: usize = 256;
/// How long those shall stay away: so long, and longer if there are many of them. Who stays away for so many times as long has gone.
const LATER_MS: u64 = 500;
const LATER_EACH: usize = 10;
const SILENT_TIMES: u64 = 10;
/// How often those who wait are told who is missing, if that has changed.
const TELL_MS: u64 = 200;
/// How long those who have come may take to fetch the answer, once all have.
const ENDING_MS: u64 = 60_000;
/// How long somebody who was refused may take to read why, and somebody who has proven to know the secret to say who it is.
const READING_MS: u64 = 2_000;
const SAYING_MS: u64 = 5_000;

/// How many refusals are told here, of those who know the secret, and of others: whoever calls without it leaves the room of the former.
const MOST_REFUSALS: usize = 16;

/// The answer to all who have come.
pub(super) struct Answer {
    pub(super) port: u16,
    pub(super) nonce: [u8; 32],
}

pub(super) struct Caller {
    ear: Ear,
    secret: Secret,
    job: JobId,
    answer: Answer,
    roll: Roll,
    greetings: Vec<Greeting>,
    guests: Vec<Guest>,
    missing: String,
    tell_at_ms: u64,
    /// When all had come.
    complete_ms: Option<u64>,
    /// What was said of those who were refused: each once.
    refusals: BTreeSet<String>,
    /// The same of those who have not proven to know the secret, who may be anybody.
    strangers: BTreeSet<String>,
}

/// Somebody who has proven to know the secret.
struct Guest {
    link: Link,
    /// Who it is, once it has said so and was noted.
    here: Option<Here>,
    /// When it is sent away, if it has not said so, has been refused, or told all.
    until_ms: Option<u64>,
    /// Whether it has said something.
    has_spoken: bool,
}

impl Caller {
    pub(super) fn new(ear: Ear, blocks: u32, secret: Secret, job: JobId, answer: Answer) -> Caller {
        Caller {
            ear,
            secret,
            job,
            answer,
            roll: Roll::new(blocks),
            greetings: Vec::new(),
            guests: Vec::new(),
            missing: String::new(),
            tell_at_ms: 0,
            complete_ms: None,
            refusals: BTreeSet::new(),
            strangers: BTreeSet::new(),
        }
    }

    /// Calls until all have come and been told, or we are told to stop.
    pub(super) fn run(mut self, stop: &Event) {
        loop {
            match self.step(stop.as_fd()) {
                Ok(false) => {}
                Ok(true) => return,
                Err(error) => return report::print(&format!("the roll call of the blocks fails: {error}")),
            }
        }
    }

    /// Whether it is over.
    fn step(&mut self, stop: BorrowedFd<'_>) -> Result<bool> {
        let mut watched = vec![(stop, false), (self.ear.as_fd(), false)];
        watched.extend(self.greetings.iter().map(|greeting| (greeting.as_fd(), false)));
        watched.extend(self.guests.iter().map(|guest| (guest.link.input(), guest.link.backlog_bytes() > 0)));
        let ready = descriptor::poll(&watched, TELL_MS as i32)?;
        if ready[0].readable {
            return Ok(true);
        }
        self.accept();
        self.advance_greetings();
        self.hear();
        let now_ms = time::now_ms();
        if self.complete_ms.is_none() {
            if let Some(ranks) = self.roll.complete() {
                self.complete_ms = Some(now_ms);
                self.tell_all(&ranks, now_ms);
            } else if self.tell_at_ms <= now_ms {
                self.tell_missing(now_ms);
            }
        }
        self.guests.retain(|guest| {
            let over = guest.until_ms.is_some_and(|until_ms| until_ms <= now_ms);
            !over && !guest.link.is_ended()
        });
        // Whoever missed the answer comes again; that all have met is known elsewhere, and ends this.
        Ok(self.complete_ms.is_some_and(|complete_ms| now_ms >= complete_ms + ENDING_MS))
    }

    fn accept(&mut self) {
        while let Some(socket) = self.ear.accept() {
            // Strangers who say nothing must not keep others out.
            if self.greetings.len() >= MAX_GREETINGS {
                self.greetings.remove(0);
            }
            self.greetings.extend(Greeting::accept(socket, self.job).ok());
        }
    }

    fn advance_greetings(&mut self) {
        for mut greeting in std::mem::take(&mut self.greetings) {
            match greeting.advance(&self.secret) {
                Ok(false) => self.greetings.push(greeting),
                Ok(true) => {
                    let Some(greeted) = greeting.finish() else { continue };
                    let secret = self.secret.duplicate();
                    let _ =
                        Terms::peer_timeout_ms().and_then(|ms| socket::tune_tcp(greeted.socket.as_fd(), ms));
                    let link = Link::sealed(greeted.socket, greeted.connection, secret, greeted.rest);
                    let until_ms = Some(time::now_ms() + SAYING_MS);
                    self.guests.extend(link.ok().map(|link| Guest {
                        link,
                        here: None,
                        until_ms,
                        has_spoken: false,
                    }));
                }
                Err(Error::Refused(why)) => {
                    let from = socket::other_address(greeting.as_fd());
                    let from = from.map_or_else(|| "this machine".into(), |ip| ip.to_string());
                    let text = format!(
                        "block 0 does not take in somebody who called from {from}: {why}; a block of this job needs the same WAITIO_SECRET or \
                         WAITIO_SECRET_FILE, and the same release of the library"
                    );
                    tell_refusal(&mut self.strangers, text);
                }
                Err(_) => {}
            }
        }
    }

    /// Listens to those who are here.
    fn hear(&mut self) {
        for index in 0..self.guests.len() {
            let guest = &mut self.guests[index];
            guest.link.flush();
            let said = guest.link.receive();
            let gone = guest.link.is_ended();
            let first = said.ok().and_then(|messages| messages.into_iter().next());
            if let Some(message) = first.filter(|_| !guest.has_spoken) {
                guest.has_spoken = true;
                match Here::decode(&message) {
                    Ok(here) => self.note(index, here),
                    Err(_) => self.guests[index].until_ms = Some(0),
                }
            }
            if gone && self.complete_ms.is_none() {
                self.gone(index);
            }
        }
    }

    /// A guest went before all had come. It may be here once more, by another way.
    fn gone(&mut self, index: usize) {
        let Some(Here { block, rank, token, .. }) = self.guests[index].here.take() else { return };
        let is_it = |guest: &Guest| guest.here.as_ref().is_some_and(|here| here.token == token);
        if !self.guests.iter().any(is_it) {
            self.roll.forget(block, rank, token);
        }
    }

    fn note(&mut self, index: usize, here: Here) {
        let now_ms = time::now_ms();
        let waiting = self.guests.iter().filter(|guest| guest.here.is_some()).count();
        let noted = self.roll.note(&here, now_ms);
        let guest = &mut self.guests[index];
        if let Err(why) = noted {
            let Here { block, rank, name, .. } = &here;
            let text = format!("block 0 does not take in rank {rank} of block {block} ({name}): {why}");
            guest.link.send(&Told::Refused { why }.encode());
            guest.until_ms = Some(now_ms + READING_MS);
            return tell_refusal(&mut self.refusals, text);
        }
        match self.complete_ms.and_then(|_| self.roll.complete()) {
            Some(ranks) => {
                guest.here = Some(here);
                self.tell_one(index, &ranks, now_ms);
            }
            None if waiting >= MOST_WAITING => {
                let ms = later_ms(self.roll.len()) as u32;
                guest.link.send(&Told::Later { ms, missing: self.missing.clone() }.encode());
                guest.until_ms = Some(now_ms + READING_MS);
            }
            None => {
                (guest.here, guest.until_ms) = (Some(here), None);
                guest.link.send(&Told::Waiting { missing: self.missing.clone() }.encode());
            }
        }
    }

    fn tell_all(&mut self, ranks: &[u32], now_ms: u64) {
        for index in 0..self.guests.len() {
            if self.guests[index].here.is_some() {
                self.tell_one(index, ranks, now_ms);
            }
        }
    }

    fn tell_one(&mut self, index: usize, ranks: &[u32], now_ms: u64) {
        let Answer { port, nonce } = self.answer;
        let guest = &mut self.guests[index];
        guest.link.send(&Told::All { ranks: ranks.to_vec(), port: port.into(), nonce }.encode());
        guest.until_ms = Some(now_ms + READING_MS);
    }

    fn tell_missing(&mut self, now_ms: u64) {
        self.tell_at_ms = now_ms + TELL_MS;
        let since_ms = now_ms.saturating_sub(SILENT_TIMES * later_ms(self.roll.len()));
        let is_it = |guest: &Guest, token| guest.here.as_ref().is_some_and(|here| here.token == token);
        self.roll.forget_silent(since_ms, |token| self.guests.iter().any(|guest| is_it(guest, token)));
        let missing = self.roll.missing();
        if missing != self.missing {
            let told = Told::Waiting { missing: missing.clone() }.encode();
            let waiting = self.guests.iter_mut().filter(|guest| guest.here.is_some());
            waiting.for_each(|guest| guest.link.send(&told));
            self.missing = missing;
        }
    }
}

/// Says here, too, that somebody was refused. Whoever comes again and again is told of once.
fn tell_refusal(told: &mut BTreeSet<String>, text: String) {
    if told.len() < MOST_REFUSALS && !told.contains(&text) {
        report::print(&text);
        told.insert(text);
    }
}

/// How long whoever cannot wait here shall stay away, if so many have come.
fn later_ms(count: usize) -> u64 {
    (LATER_MS + (count / LATER_EACH) as u64).min(super::MOST_PAUSE_MS)
}

impl Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Ear::Network(listener) => listener.as_fd(),
            Ear::Machine(listener) => listener.as_fd(),
        }
    }

    /// Somebody who calls. On the machine only those of the same user are listened to.
    fn accept(&self) -> Option<std::os::fd::OwnedFd> {
        loop {
            let accepted = match self {
                Ear::Network(listener) => listener.accept().map(|(stream, _)| stream.into()),
                Ear::Machine(listener) => listener.accept().map(|(stream, _)| stream.into()),
            };
            match accepted.map_err(|error| Error::from_io("accept", &error)) {
                Ok(socket) if matches!(self, Ear::Network(_)) || is_of_this_user(&socket) => {
                    return Some(socket)
                }
                Ok(_) => {}
                Err(error) if error.would_block() => return None,
                // No descriptors are left, perhaps; without a pause we would be woken at once.
                Err(_) => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    return None;
                }
            }
        }
    }
}

fn is_of_this_user(socket: &std::os::fd::OwnedFd) -> bool {
    matches!(socket::peer_credentials(socket.as_fd()), Ok((user, _)) if user == process::user())
}
