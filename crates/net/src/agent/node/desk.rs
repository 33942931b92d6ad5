//! What every agent has, whoever runs it: the line to the hub, what it watches, the node once there is one, and the times of
//! its beats. The agent that is a process (`process/`) and the one that is a thread of a stranger (`strangers/agent.rs`) differ
//! in where their ranks come from and in how they learn of an end; what they do alike is here.

use super::{token, Node};
use crate::agent::link::Link;
use crate::agent::protocol::ToHub;
use crate::os::descriptor::{Epoll, Readiness};
use crate::os::time;
use crate::terms::Terms;
use crate::wire::Resumption;
use crate::Result;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How long an agent that always has something to do may put its timers off.
const TICK_MS: u64 = 50;

/// The agent's place of work.
#[derive(Debug)]
pub(in crate::agent) struct Desk {
    /// `None` while the hub has not been reached, and once it is gone.
    pub(in crate::agent) link: Option<Link>,
    link_watched_for_room: bool,
    /// Whether the connection broke, and the line may go on over another.
    is_interrupted: bool,
    /// The node watches its ranks with the same.
    pub(in crate::agent) epoll: Arc<Epoll>,
    /// Present from the launch message on.
    pub(in crate::agent) node: Option<Node>,
    /// When the hub was last heard.
    pub(in crate::agent) heard_ms: u64,
    beat_ms: u64,
    ticked_ms: u64,
}

/// What there is to know about the time since the timers were last looked at.
#[derive(Clone, Copy, Debug)]
pub(in crate::agent) struct Tick {
    /// How long a peer may be silent.
    pub(in crate::agent) timeout_ms: u64,
    /// We were stopped ourselves, and must not blame others for what we have not seen.
    pub(in crate::agent) slept: bool,
    /// A beat was due.
    pub(in crate::agent) beat: bool,
}

impl Desk {
    pub(in crate::agent) fn new() -> Result<Desk> {
        let now_ms = time::now_ms();
        Ok(Desk {
            link: None,
            link_watched_for_room: false,
            is_interrupted: false,
            epoll: Arc::new(Epoll::new()?),
            node: None,
            heard_ms: now_ms,
            beat_ms: now_ms,
            ticked_ms: now_ms,
        })
    }

    /// Takes the line to the hub.
    pub(in crate::agent) fn connect(&mut self, link: Link) -> Result<()> {
        self.epoll.add(link.input(), token::LINK, false)?;
        self.heard_ms = time::now_ms();
        self.link = Some(link);
        Ok(())
    }

    /// Whether the hub has closed the line, and we have not hung up yet.
    pub(in crate::agent) fn is_cut_off(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_ended)
    }

    /// The connection broke: what is to be said waits until the line goes on.
    pub(in crate::agent) fn interrupt(&mut self) {
        let Some(link) = self.link.as_ref().filter(|_| !self.is_interrupted) else { return };
        self.is_interrupted = true;
        let _ = self.epoll.remove(link.input());
        if std::mem::take(&mut self.link_watched_for_room) {
            let _ = self.epoll.remove(link.output());
        }
    }

    /// The line goes on over this connection.
    pub(in crate::agent) fn resume(&mut self, socket: OwnedFd, theirs: Resumption) -> Result<()> {
        let Some(link) = &mut self.link else { return Ok(()) };
        link.go_on(socket, theirs)?;
        self.epoll.add(link.input(), token::LINK, false)?;
        self.is_interrupted = false;
        self.heard_ms = time::now_ms();
        Ok(())
    }

    /// Bytes that wait for the hub.
    pub(in crate::agent) fn backlog_bytes(&self) -> usize {
        self.link.as_ref().map_or(0, Link::backlog_bytes)
    }

    /// Waits until something happens, it is so late, or `most_ms` have passed; and tells what has happened.
    pub(in crate::agent) fn wait(&self, until_ms: u64, most_ms: u64) -> Result<Vec<(u64, Readiness)>> {
        let timeout_ms = until_ms.saturating_sub(time::now_ms()).min(most_ms) as i32;
        let mut events = Vec::new();
        self.epoll.wait(timeout_ms, |token, readiness| events.push((token, readiness)))?;
        Ok(events)
    }

    /// When there is something to do even if nothing happens.
    pub(in crate::agent) fn wake_up_at(&self) -> u64 {
        let beat = self.beat_ms + self.beat_interval_ms();
        match &self.node {
            Some(node) if node.is_probed() => 0,
            Some(node) => node.port.wake_up_at().map_or(beat, |port| port.min(beat)),
            None => beat,
        }
    }

    /// A message for the hub.
    pub(in crate::agent) fn tell(&mut self, message: &ToHub) {
        if let Some(link) = &mut self.link {
            link.send(&message.encode());
        }
    }

    /// What the hub has said, as whole messages.
    pub(in crate::agent) fn hear(&mut self) -> Result<Vec<Vec<u8>>> {
        let messages = self.link.as_mut().map_or(Ok(Vec::new()), Link::receive)?;
        if !messages.is_empty() {
            self.heard_ms = time::now_ms();
        }
        Ok(messages)
    }

    /// Something has come to the port of the node.
    pub(in crate::agent) fn serve_port(&mut self, token: u64) {
        let Some(node) = &mut self.node else { return };
        if token == token::PORT {
            node.port.accept(&node.epoll, time::now_ms());
        } else if let Some((hello, socket)) = node.examine(token) {
            node.pass_socket(hello, socket);
        }
    }

    /// Whether it is time to look at the timers. They only count once everything that had happened before is known: an agent
    /// that was stopped itself must not blame its ranks.
    pub(in crate::agent) fn is_time(&self, busy: bool) -> bool {
        !busy || self.ticked_ms + TICK_MS < time::now_ms()
    }

    /// Says that we are alive if that is due, and looks after the port. Nothing of it matters to ranks before there is a node.
    pub(in crate::agent) fn tick(&mut self, now_ms: u64) -> Option<Tick> {
        let slept_ms = now_ms - std::mem::replace(&mut self.ticked_ms, now_ms);
        let beat = self.beat(now_ms);
        let timeout_ms = self.timeout_ms();
        let node = self.node.as_mut()?;
        node.port.tick(&node.epoll, now_ms);
        let slept = slept_ms > timeout_ms / 2;
        if slept {
            self.heard_ms = now_ms;
        }
        Some(Tick { timeout_ms, slept, beat })
    }

    /// Says that we are alive, if that is due.
    pub(in crate::agent) fn beat(&mut self, now_ms: u64) -> bool {
        let due = now_ms >= self.beat_ms + self.beat_interval_ms();
        if due {
            self.beat_ms = now_ms;
            self.tell(&ToHub::Heartbeat);
        }
        due
    }

    /// The end of a round: what has gathered is sent. Questions after ranks are answered only when nothing has happened that is
    /// not dealt with.
    pub(in crate::agent) fn conclude(&mut self, busy: bool) {
        if let Some(node) = self.node.as_mut().filter(|_| !busy) {
            node.answer_probes();
        }
        self.settle();
    }

    /// Sends what has gathered: messages for the hub, wake-ups for the ranks.
    pub(in crate::agent) fn settle(&mut self) {
        let messages = self.node.as_mut().map(|node| {
            node.settle();
            std::mem::take(&mut node.outbox)
        });
        let Some(link) = &mut self.link else { return };
        messages.unwrap_or_default().iter().for_each(|message| link.send(&message.encode()));
        if self.is_interrupted {
            return;
        }
        link.flush();
        let wants_room = link.backlog_bytes() > 0;
        if wants_room != std::mem::replace(&mut self.link_watched_for_room, wants_room) {
            let _ = match wants_room {
                true => self.epoll.add(link.output(), token::LINK_OUT, true),
                false => self.epoll.remove(link.output()),
            };
        }
    }

    /// How long a peer may be silent.
    pub(in crate::agent) fn timeout_ms(&self) -> u64 {
        self.node.as_ref().map_or_else(Terms::default, |node| node.launch.terms).peer_timeout_ms.into()
    }

    fn beat_interval_ms(&self) -> u64 {
        self.node.as_ref().map_or(1_000, |node| (node.launch.terms.peer_timeout_ms as u64 / 5).max(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_was_not_told_its_ranks_for_a_second_never_slept_again() {
        let mut desk = Desk::new().unwrap();
        for _ in 0..3 {
            let late_ms = desk.wake_up_at() + 5;
            assert!(desk.tick(late_ms).is_none(), "there is no node yet");
            assert!(desk.wake_up_at() > late_ms, "it is woken again at once");
        }
    }
}
