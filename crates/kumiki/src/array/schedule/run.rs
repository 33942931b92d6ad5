//! Running a plan: one message to each receiver, which its pieces are packed into.

use super::plan::{Peer, Plan};
use crate::array::space::misuse;
use crate::comm::rows::{copy_between, Section};
use crate::comm::{MessageReceiving, MessageSending};
use crate::{Error, Result, World};
use std::sync::Arc;

/// The messages of arrays: no program has this number.
const CONTEXT: u32 = 0x8000_0004;

/// Puts what came for a section into memory.
type Put<'a> = &'a mut dyn FnMut(&Section, &[u8], &mut [u8]);

/// A plan that runs: from [`Plan::start`]. What is received goes to its place in [`finish`](Self::finish). Plans that overlap in time are started in the same
/// order on all ranks; they may be finished in any. One that is dropped waits for what others send, and throws it away.
#[derive(Debug)]
#[must_use = "what is received goes to its place when it is finished"]
pub struct Underway<'w> {
    world: &'w World,
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
        // Receives are posted now, so that plans that overlap in time get what is theirs.
        let messages = world.messages().context(CONTEXT);
        let receive = |peer: &Peer| messages.start_receive::<u8>(peer.rank, 0);
        let receiving: Vec<_> = self.takes.iter().map(receive).collect::<Result<_>>()?;
        let sending = self.send(world, from)?;
        let kept = self.keep(from);
        Ok(Underway { world, plan: self.clone(), sending, receiving, kept })
    }

    /// All of it: from the local part of one array to that of another.
    pub fn run(&self, world: &World, from: &[u8], to: &mut [u8]) -> Result<()> {
        world.note(self.check("source", from.len(), self.from_bytes))?;
        world.note(self.check("target", to.len(), self.to_bytes))?;
        let sending = self.send(world, from)?;
        for (source, target) in &self.own {
            copy_between(from, source, to, target);
        }
        self.take(world, to, &mut scatter)?;
        sending.into_iter().try_for_each(MessageSending::wait)
    }

    /// All of it, within the local part of one array: as if all were read before anything is written.
    pub fn run_inside(&self, world: &World, memory: &mut [u8]) -> Result<()> {
        self.run_in_place(world, memory, &mut scatter)
    }

    /// All of it, within the local part of one array: what comes is combined with what is there, by a function of the elements that are there, which it
    /// changes, and those that come.
    pub fn run_combining(
        &self,
        world: &World,
        memory: &mut [u8],
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        self.run_in_place(world, memory, &mut combining(combine))
    }

    fn run_in_place(&self, world: &World, memory: &mut [u8], put: Put<'_>) -> Result<()> {
        world.note(self.check("source", memory.len(), self.from_bytes))?;
        world.note(self.check("target", memory.len(), self.to_bytes))?;
        let sending = self.send(world, memory)?;
        let kept = self.keep(memory);
        self.take(world, memory, put)?;
        self.put_kept(&kept, memory, put);
        sending.into_iter().try_for_each(MessageSending::wait)
    }

    /// What stays with this rank, as it is now.
    fn keep(&self, from: &[u8]) -> Vec<u8> {
        let mut kept = vec![0; self.own.iter().map(|(from, _)| from.bytes()).sum()];
        let mut at = 0;
        for (section, _) in &self.own {
            at += section.rows().gather(from, &mut kept[at..]);
        }
        kept
    }

    fn put_kept(&self, kept: &[u8], to: &mut [u8], put: Put<'_>) {
        let mut at = 0;
        for (_, section) in &self.own {
            put(section, &kept[at..at + section.bytes()], to);
            at += section.bytes();
        }
    }

    fn check(&self, what: &str, given: usize, wanted: usize) -> Result<()> {
        match given == wanted {
            true => Ok(()),
            false => Err(misuse(format!("a {what} of {given} bytes, and its local part has {wanted}"))),
        }
    }

    /// Sends what others get.
    fn send<'w>(&self, world: &'w World, from: &[u8]) -> Result<Vec<MessageSending<'w>>> {
        let messages = world.messages().context(CONTEXT);
        let mut sending = Vec::with_capacity(self.sends.len());
        for peer in &self.sends {
            let mut message = vec![0; peer.bytes];
            let mut at = 0;
            for piece in &peer.pieces {
                at += piece.rows().gather(from, &mut message[at..]);
            }
            sending.push(messages.start_send(peer.rank, 0, message)?);
        }
        Ok(sending)
    }

    /// Waits for what others send, one after the other, in memory that is used again.
    fn take(&self, world: &World, to: &mut [u8], put: Put<'_>) -> Result<()> {
        let Some(most) = self.takes.iter().map(|peer| peer.bytes).max() else { return Ok(()) };
        let messages = world.messages().context(CONTEXT);
        let mut message = world.arrays().plans.scratch(most);
        for peer in &self.takes {
            let came = messages.receive_into(&mut message[..peer.bytes], peer.rank, 0)?.bytes;
            world.note(self.unpack(peer, &message[..came], to, put))?;
        }
        world.arrays().plans.use_again(message);
        Ok(())
    }

    fn unpack(&self, peer: &Peer, message: &[u8], to: &mut [u8], put: Put<'_>) -> Result<()> {
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
        self.end(to, &mut combining(combine))
    }

    fn end(mut self, to: &mut [u8], put: Put<'_>) -> Result<()> {
        let plan = self.plan.clone();
        self.world.note(plan.check("target", to.len(), plan.to_bytes))?;
        for (peer, receiving) in plan.takes.iter().zip(std::mem::take(&mut self.receiving)) {
            let message = receiving.wait()?.elements;
            self.world.note(plan.unpack(peer, &message, to, put))?;
        }
        plan.put_kept(&self.kept, to, put);
        std::mem::take(&mut self.sending).into_iter().try_for_each(MessageSending::wait)
    }
}

/// What comes for a plan that nobody finishes is received and thrown away: the next plan must not take it for its own.
impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let receiving = std::mem::take(&mut self.receiving);
        // After an error others may not send any more; nor can anything be received when the world has ended.
        if std::thread::panicking() || !self.world.is_in() || self.world.has_returned_an_error() {
            return;
        }
        for one in receiving {
            if one.wait().is_err() {
                return;
            }
        }
    }
}

fn scatter(section: &Section, came: &[u8], to: &mut [u8]) {
    section.rows().scatter(came, to);
}

/// Puts what is made of what was there and what comes.
fn combining<'a>(
    combine: &'a mut dyn FnMut(&mut [u8], &[u8]),
) -> impl FnMut(&Section, &[u8], &mut [u8]) + use<'a> {
    let mut stage = Vec::new();
    move |section, came, to| {
        stage.resize(section.bytes(), 0);
        section.rows().gather(to, &mut stage);
        combine(&mut stage, came);
        section.rows().scatter(&stage, to);
    }
}
