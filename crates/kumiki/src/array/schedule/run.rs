//! Running a plan: one message to each receiver, which its pieces are packed into.

use super::plan::{Peer, Plan};
use crate::array::space::misuse;
use crate::comm::rows::{copy_between, Section};
use crate::comm::{MessageReceiving, MessageSending};
use crate::{Error, Result, World};
use std::sync::Arc;

/// The messages of arrays: no program has this number.
const CONTEXT: u32 = 0x8000_0004;

/// A plan that runs: from [`Plan::start`]. What is received goes to its place in [`finish`](Self::finish). Plans that overlap in time are started in the same
/// order on all ranks; they may be finished in any.
#[derive(Debug)]
#[must_use = "what is received goes to its place when it is finished"]
pub struct Underway<'w> {
    plan: Arc<Plan>,
    sending: Vec<MessageSending<'w>>,
    receiving: Vec<MessageReceiving<'w, u8>>,
    /// What stays with this rank, as it was.
    kept: Vec<u8>,
}

impl Plan {
    /// Sends what others get. When this returns the program may change the source.
    pub fn start<'w>(self: &Arc<Self>, world: &'w World, from: &[u8]) -> Result<Underway<'w>> {
        world.note(self.check("source", from.len(), self.from_bytes))?;
        let (receiving, sending) = self.send(world, from)?;
        let mut kept = vec![0; self.own.iter().map(|(from, _)| from.bytes()).sum()];
        let mut at = 0;
        for (section, _) in &self.own {
            at += section.rows().gather(from, &mut kept[at..]);
        }
        Ok(Underway { plan: self.clone(), sending, receiving, kept })
    }

    /// All of it: from the local part of one array to that of another.
    pub fn run(&self, world: &World, from: &[u8], to: &mut [u8]) -> Result<()> {
        world.note(self.check("source", from.len(), self.from_bytes))?;
        world.note(self.check("target", to.len(), self.to_bytes))?;
        let (receiving, sending) = self.send(world, from)?;
        for (source, target) in &self.own {
            copy_between(from, source, to, target);
        }
        self.receive(receiving, to, &mut scatter)?;
        sending.into_iter().try_for_each(MessageSending::wait)
    }

    /// All of it, within the local part of one array: as if all were read before anything is written.
    pub fn run_inside(self: &Arc<Self>, world: &World, memory: &mut [u8]) -> Result<()> {
        world.note(self.check("target", memory.len(), self.to_bytes))?;
        let underway = self.start(world, memory)?;
        underway.finish(memory)
    }

    /// All of it, within the local part of one array: what comes is combined with what is there, by a function of the elements that are there, which it
    /// changes, and those that come.
    pub fn run_combining(
        self: &Arc<Self>,
        world: &World,
        memory: &mut [u8],
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        world.note(self.check("target", memory.len(), self.to_bytes))?;
        let underway = self.start(world, memory)?;
        underway.finish_combining(memory, combine)
    }

    fn check(&self, what: &str, given: usize, wanted: usize) -> Result<()> {
        match given == wanted {
            true => Ok(()),
            false => Err(misuse(format!("a {what} of {given} bytes, and its local part has {wanted}"))),
        }
    }

    #[allow(clippy::type_complexity, reason = "what is received and what is sent")]
    fn send<'w>(
        &self,
        world: &'w World,
        from: &[u8],
    ) -> Result<(Vec<MessageReceiving<'w, u8>>, Vec<MessageSending<'w>>)> {
        let messages = world.messages().context(CONTEXT);
        let receive = |peer: &Peer| messages.start_receive::<u8>(peer.rank, 0);
        let receiving: Vec<_> = self.takes.iter().map(receive).collect::<Result<_>>()?;
        let mut sending = Vec::with_capacity(self.sends.len());
        for peer in &self.sends {
            let mut message = vec![0; peer.bytes];
            let mut at = 0;
            for piece in &peer.pieces {
                at += piece.rows().gather(from, &mut message[at..]);
            }
            sending.push(messages.start_send(peer.rank, 0, message)?);
        }
        Ok((receiving, sending))
    }

    fn receive(
        &self,
        receiving: Vec<MessageReceiving<'_, u8>>,
        to: &mut [u8],
        put: &mut dyn FnMut(&Section, &[u8], &mut [u8]),
    ) -> Result<()> {
        for (peer, receiving) in self.takes.iter().zip(receiving) {
            let message = receiving.wait()?.elements;
            if message.len() != peer.bytes {
                let (rank, came, wanted) = (peer.rank, message.len(), peer.bytes);
                return Err(Error::Misuse(format!(
                    "rank {rank} sends {came} bytes of an array where {wanted} are expected: do all ranks make the same calls?"
                )));
            }
            let mut at = 0;
            for piece in &peer.pieces {
                put(piece, &message[at..at + piece.bytes()], to);
                at += piece.bytes();
            }
        }
        Ok(())
    }
}

impl Underway<'_> {
    /// Whether [`finish`](Self::finish) would not wait.
    pub fn is_done(&self) -> bool {
        self.receiving.iter().all(MessageReceiving::is_done)
            && self.sending.iter().all(MessageSending::is_done)
    }

    /// Waits for what others send, and puts it where it belongs.
    pub fn finish(self, to: &mut [u8]) -> Result<()> {
        self.end(to, &mut scatter)
    }

    /// The same, and what comes is combined with what is there.
    pub fn finish_combining(self, to: &mut [u8], combine: &mut dyn FnMut(&mut [u8], &[u8])) -> Result<()> {
        let mut stage = Vec::new();
        self.end(to, &mut |section, came, to| {
            stage.resize(section.bytes(), 0);
            section.rows().gather(to, &mut stage);
            combine(&mut stage, came);
            section.rows().scatter(&stage, to);
        })
    }

    fn end(self, to: &mut [u8], put: &mut dyn FnMut(&Section, &[u8], &mut [u8])) -> Result<()> {
        let plan = self.plan;
        plan.check("target", to.len(), plan.to_bytes)?;
        plan.receive(self.receiving, to, put)?;
        let mut at = 0;
        for (_, section) in &plan.own {
            put(section, &self.kept[at..at + section.bytes()], to);
            at += section.bytes();
        }
        self.sending.into_iter().try_for_each(MessageSending::wait)
    }
}

fn scatter(section: &Section, came: &[u8], to: &mut [u8]) {
    section.rows().scatter(came, to);
}
