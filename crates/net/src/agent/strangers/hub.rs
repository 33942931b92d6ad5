//! The hub of a job that no launcher of ours started: a thread of the process of rank 0, or in a [`Meeting`].
//!
//! [`Meeting`]: super::meeting::Meeting

use super::greet::{Greeted, Greeting};
use super::returning::Returning;
use super::Call;
use crate::agent::hub::{Effect, Hub, Plan};
use crate::agent::link::{Link, Shared};
use crate::agent::protocol::{Launch, ToHub, ToNode};
use crate::agent::report;
use crate::auth::{JobId, Purpose, Secret};
use crate::environment;
use crate::os::descriptor::{self, Event};
use crate::os::{socket, time};
use crate::route::Route;
use crate::terms::Terms;
use crate::wire::Resumption;
use crate::{Error, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::JoinHandle;
use std::time::Duration;

/// The most handshakes at a time.
const MAX_GREETINGS: usize = 64;
/// How often agents are told who is missing, if that has changed.
const TELL_MS: u64 = 100;
/// How often it is looked whether an agent that is to come back is still there, and how long that may take.
const LOOK_MS: u64 = 150;
const LOOK_LIMIT: Duration = Duration::from_millis(1_000);
/// So often nobody listens at its port before it counts as gone.
const MOST_REFUSED: u32 = 3;
/// How many of the missing ranks are named.
const SHOWN_RANKS: usize = 8;

/// The job that comes together here.
#[derive(Debug)]
pub(in crate::agent) struct Gathering {
    pub(in crate::agent) ranks: u32,
    pub(in crate::agent) secret: Secret,
    pub(in crate::agent) job: JobId,
    /// What every rank is told.
    pub(in crate::agent) terms: Terms,
    /// Whether all machines are reached directly: then a port at which nobody listens says that its agent is gone.
    pub(in crate::agent) is_direct: bool,
}

impl Gathering {
    /// As the environment of rank 0 says.
    pub(super) fn from_environment(call: &Call) -> Result<Gathering> {
        let mut terms = Terms::from_environment(call.starter_bytes)?;
        if call.joins_programs && environment::text("KUMIKI_ON_LOSS")?.is_none() {
            terms.continue_on_loss = 1;
        }
        if call.joins_programs && environment::text("KUMIKI_MEND")?.is_none() {
            terms.mend_links = 1;
        }
        let is_direct = matches!(call.route, Route::Direct);
        Ok(Gathering { ranks: call.ranks, secret: call.secret.duplicate(), job: call.job, terms, is_direct })
    }
}

/// The hub before and while it runs.
pub(in crate::agent) struct HostedHub {
    /// Open until every rank has come, or longer if somebody keeps it.
    listener: Option<TcpListener>,
    gathering: Gathering,
    greetings: Vec<(SocketAddr, Greeting)>,
    /// Agents that come back.
    returning: Vec<Returning>,
    /// Those that are to: when it is looked whether they are there, and how often nobody was.
    interrupted: Vec<Interrupted>,
    pub(super) hub: Hub,
    /// One an agent, in the order of the hub's nodes.
    links: Vec<Link>,
    /// Whom the agents know to be missing, and when they are told again.
    missing: Vec<u32>,
    tell_at_ms: u64,
}

/// A node whose agent is to come back.
struct Interrupted {
    node: u32,
    look_at_ms: u64,
    /// Whoever tries to reach it: the others are not to wait for that.
    looking: Option<JoinHandle<bool>>,
    refused: u32,
}

impl HostedHub {
    /// A hub that listens for agents here.
    pub(in crate::agent) fn new(listener: TcpListener, gathering: Gathering) -> Result<HostedHub> {
        listener.set_nonblocking(true).map_err(|error| Error::from_io("fcntl", &error))?;
        Ok(HostedHub {
            listener: Some(listener),
            greetings: Vec::new(),
            returning: Vec::new(),
            interrupted: Vec::new(),
            hub: Hub::new(plan(&gathering), time::now_ms()),
            links: Vec::new(),
            missing: Vec::new(),
            tell_at_ms: 0,
            gathering,
        })
    }

    /// Forgets the job that is over: its ranks may meet again.
    pub(super) fn renew(&mut self) {
        self.hub = Hub::new(plan(&self.gathering), time::now_ms());
        self.links.clear();
        self.interrupted.clear();
        self.missing.clear();
    }

    /// Runs until every agent has ended, or we are told to stop.
    pub(in crate::agent) fn run(mut self, stop: &Event) {
        loop {
            match self.step(stop.as_fd(), u64::MAX) {
                Ok((false, None)) => {}
                Ok(_) => return,
                Err(error) => return report::print(&format!("the hub of the job fails: {error}")),
            }
            if self.hub.is_complete() && !self.mends() {
                self.listener = None;
            }
        }
    }

    /// Whether agents whose connections broke may come back.
    fn mends(&self) -> bool {
        self.gathering.terms.mend_links != 0
    }

    /// Waits until something happens here, to the other descriptor, or it is so late; and deals with it. Tells whether
    /// the other descriptor can be read, and the exit code of the job when it is over.
    pub(super) fn step(&mut self, other: BorrowedFd<'_>, until_ms: u64) -> Result<(bool, Option<i32>)> {
        let other = self.wait(other, until_ms)?;
        let now_ms = time::now_ms();
        self.hub.tick(now_ms);
        self.look_after_interrupted(now_ms);
        if !self.hub.is_complete() && self.tell_at_ms <= now_ms {
            self.tell_at_ms = now_ms + TELL_MS;
            self.tell_missing();
        }
        Ok((other, self.perform()))
    }

    /// Tells everybody who has come for whom they wait, whenever that changes.
    fn tell_missing(&mut self) {
        let missing = self.hub.missing();
        if missing == self.missing {
            return;
        }
        let shown: Vec<String> = missing.iter().take(SHOWN_RANKS).map(u32::to_string).collect();
        let more = match missing.len().saturating_sub(SHOWN_RANKS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let verb = if missing.len() == 1 { "has" } else { "have" };
        self.hub
            .broadcast(ToNode::Waiting { why: format!("rank {}{more} {verb} not come", shown.join(", ")) });
        self.missing = missing;
    }

    fn wait(&mut self, other: BorrowedFd<'_>, until_ms: u64) -> Result<bool> {
        let mut timeout_ms = self.hub.wake_up_at().min(until_ms).saturating_sub(time::now_ms());
        if !self.greetings.is_empty() || !self.returning.is_empty() || !self.hub.is_complete() {
            timeout_ms = timeout_ms.min(100);
        }
        for interrupted in &self.interrupted {
            timeout_ms = timeout_ms.min(interrupted.look_at_ms.saturating_sub(time::now_ms()));
        }
        let mut watched = vec![(other, false)];
        watched.extend(self.listener.iter().map(|listener| (listener.as_fd(), false)));
        watched.extend(self.greetings.iter().map(|(_, greeting)| (greeting.as_fd(), false)));
        watched.extend(self.returning.iter().map(|returning| (returning.as_fd(), false)));
        let first_link = watched.len();
        let mut nodes = Vec::new();
        for (node, link) in self.links.iter().enumerate().filter(|(_, link)| !link.is_ended()) {
            watched.push((link.input(), link.backlog_bytes() > 0));
            nodes.push(node as u32);
        }
        let ready = descriptor::poll(&watched, timeout_ms.min(60_000) as i32)?;
        self.accept();
        self.advance_greetings();
        self.advance_returning();
        for (entry, &node) in ready[first_link..].iter().zip(&nodes) {
            if entry.readable || entry.writable || entry.hung_up {
                self.read(node);
            }
        }
        Ok(ready[0].readable)
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        loop {
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // No descriptors are left, perhaps; without a pause we would be woken at once.
                Err(_) => return std::thread::sleep(std::time::Duration::from_millis(10)),
            };
            // Whoever comes early for the next world tries again.
            if (self.mends() || !self.hub.is_complete()) && make_room(&mut self.greetings) {
                let greeting = Greeting::accept(stream.into(), self.gathering.job).ok();
                self.greetings.extend(greeting.map(|new| (from, new)));
            }
        }
    }

    fn advance_greetings(&mut self) {
        if self.hub.is_complete() && !self.mends() {
            self.greetings.clear();
        }
        for (from, mut greeting) in std::mem::take(&mut self.greetings) {
            match greeting.advance(&self.gathering.secret) {
                Ok(false) => self.greetings.push((from, greeting)),
                Ok(true) => {
                    let Some(greeted) = greeting.finish() else { continue };
                    let _ = socket::tune_tcp(greeted.socket.as_fd(), self.gathering.terms.peer_timeout_ms);
                    if greeted.connection.purpose() == Purpose::MendControl {
                        let patience_ms = u64::from(self.gathering.terms.peer_timeout_ms);
                        self.returning.push(Returning::new(greeted, patience_ms));
                    } else if !self.hub.is_complete() {
                        self.welcome(from, greeted);
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// An agent has proven that it belongs to the job.
    fn welcome(&mut self, from: SocketAddr, greeted: Greeted) {
        let secret = self.gathering.secret.duplicate();
        let rank = greeted.peer.rank;
        if let Ok(link) = Link::sealed(greeted.socket, greeted.connection, secret, greeted.rest) {
            let name = format!("the node of rank {rank} at {}", from.ip());
            self.hub.add_node(name, rank, time::now_ms());
            self.links.push(link);
        }
    }

    /// Hears those who come back: the stream of each goes on, if the agent was not given up meanwhile.
    fn advance_returning(&mut self) {
        for mut returning in std::mem::take(&mut self.returning) {
            let theirs = match returning.hear(&self.gathering.secret) {
                Ok(None) => {
                    self.returning.push(returning);
                    continue;
                }
                Ok(Some(theirs)) => theirs,
                Err(_) => continue,
            };
            let node = self.links.iter().position(|link| link.session() == Some(theirs.session));
            let node = node.filter(|&node| self.hub.listens(node as u32));
            let ours = node.and_then(|node| self.links[node].resumption());
            let said = returning.say(ours.unwrap_or(Resumption { known: false, ..theirs }));
            if let (Some(node), Ok(())) = (node.filter(|_| ours.is_some()), said) {
                if let Err(error) = self.links[node].go_on(returning.into_socket(), theirs) {
                    self.hub.node_gone(node as u32, &error.to_string(), time::now_ms());
                }
            }
        }
    }

    fn read(&mut self, node: u32) {
        let now_ms = time::now_ms();
        let link = &mut self.links[node as usize];
        if link.is_ended() {
            return;
        }
        link.flush();
        let messages = link.receive().and_then(|messages| {
            messages.iter().map(|message| ToHub::decode(message)).collect::<Result<Vec<_>>>()
        });
        // One that can go on is waited for: silence is judged like that of any other.
        let mends = self.gathering.terms.mend_links != 0 && self.hub.address(node).is_some();
        let can_go_on = mends && link.resumption().is_some();
        let ended = link.is_ended() && !(can_go_on && self.hub.is_complete());
        match messages {
            Ok(messages) => messages.into_iter().for_each(|message| self.hub.receive(node, message, now_ms)),
            Err(error) => self.hub.node_gone(node, &error.to_string(), now_ms),
        }
        if ended {
            self.hub.node_gone(node, "its connection was closed", now_ms);
        } else if self.links[node as usize].is_ended() {
            self.interrupted.push(Interrupted { node, look_at_ms: now_ms, looking: None, refused: 0 });
        }
    }

    /// An agent that died does not come back: then nobody listens at its port any more.
    fn look_after_interrupted(&mut self, now_ms: u64) {
        let (links, hub) = (&self.links, &self.hub);
        self.interrupted.retain(|it| links[it.node as usize].is_ended() && hub.listens(it.node));
        for it in self.interrupted.iter_mut().filter(|it| it.look_at_ms <= now_ms) {
            it.look_at_ms = now_ms + LOOK_MS;
            let Some(address) = self.hub.address(it.node).filter(|_| self.gathering.is_direct) else {
                continue;
            };
            let refused = match it.looking.take() {
                None => {
                    it.looking = super::start_thread("kumiki-look", move || nobody_listens(&address)).ok();
                    continue;
                }
                Some(looking) if !looking.is_finished() => {
                    it.looking = Some(looking);
                    continue;
                }
                Some(looking) => looking.join().unwrap_or(false),
            };
            it.refused = if refused { it.refused + 1 } else { 0 };
            if it.refused >= MOST_REFUSED {
                let why = "its connection was closed, and nobody listens at its port";
                self.hub.node_gone(it.node, why, now_ms);
            }
        }
    }

    /// Does what the hub wants; the exit code when the job is over.
    fn perform(&mut self) -> Option<i32> {
        let mut over = None;
        while let Some(effect) = self.hub.next_effect() {
            match effect {
                Effect::Send(node, message) => self.links[node as usize].send(&message.encode()),
                Effect::SendAll(except, message) => {
                    let message = Shared::new(&message.encode());
                    for (node, link) in (0..).zip(&mut self.links) {
                        if Some(node) != except && self.hub.listens(node) {
                            link.send_shared(&message);
                        }
                    }
                }
                Effect::Report(text) => report::print(&text),
                Effect::Finished(code) => over = Some(code),
            }
        }
        over
    }
}

/// Whether a port is there no more, on a machine that answers.
fn nobody_listens(address: &SocketAddr) -> bool {
    let called = TcpStream::connect_timeout(address, LOOK_LIMIT);
    called.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// Makes room for another handshake: of strangers who say nothing the first gives way. Whether there is room.
fn make_room(greetings: &mut Vec<(SocketAddr, Greeting)>) -> bool {
    if greetings.len() >= MAX_GREETINGS {
        let silent = greetings.iter().position(|(_, greeting)| !greeting.has_claim());
        silent.map(|silent| greetings.remove(silent));
    }
    greetings.len() < MAX_GREETINGS
}

fn plan(gathering: &Gathering) -> Plan {
    let &Gathering { ranks, job, terms, .. } = gathering;
    let template = Some(Box::new(Launch::of_strangers(job.0, terms)));
    Plan { ranks, nodes: Vec::new(), terms, template }
}

#[cfg(test)]
mod tests {
    use super::super::greet;
    use super::*;
    use crate::auth::Identity;

    #[test]
    fn strangers_who_said_nothing_kept_agents_out() {
        let (secret, job) = (Secret::from_bytes([7; 32]), JobId(5));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let terms = Terms::from_environment(4096).unwrap();
        let gathering = Gathering { ranks: 2, secret: secret.duplicate(), job, terms, is_direct: true };
        let hub = HostedHub::new(listener, gathering).unwrap();
        let silent: Vec<_> = (0..MAX_GREETINGS + 3).map(|_| TcpStream::connect(address).unwrap()).collect();
        let stop = Event::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| hub.run(&stop));
            let me = Identity { rank: 1, incarnation: 0 };
            let greeted = greet::call(TcpStream::connect(address).unwrap().into(), job, &secret, me);
            stop.raise();
            assert!(greeted.is_ok(), "{:?}", greeted.err());
        });
        drop(silent);
    }
}
