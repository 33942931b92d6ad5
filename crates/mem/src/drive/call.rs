//! Calls as a program makes them: start one, wait for its reply.

use crate::drive::issue::{Launched, Number};
use crate::drive::world::World;
use crate::drive::Drive;
use crate::engine::calls::{self, MAX_CALL_BYTES};
use crate::engine::frames::Few;
use crate::engine::letters;
use crate::engine::operations::Action;
use crate::node::local::Local;
use crate::{Error, Result};
use kumiki_net::contract::{Leeway, LONG_LETTER_BYTES};
use kumiki_net::os::process;
use kumiki_net::shm::control::Activity;
use kumiki_net::Rank;
use std::sync::atomic::Ordering;

/// A call that is under way. Dropping it forgets it; the work may be done all the same.
pub struct Call<'w> {
    core: &'w Drive,
    id: u64,
    /// The reply of a call that was done at once.
    ready: Option<Result<Vec<u8>>>,
}

/// The name of a call that was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted(u64);

impl std::fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Call({})", self.id)
    }
}

impl Call<'_> {
    /// Waits for the reply.
    pub fn wait(mut self) -> Result<Vec<u8>> {
        if let Some(ready) = self.ready.take() {
            return self.core.note(ready);
        }
        let (core, id) = (self.core, self.id);
        let waited = core.wait_until(Activity::Complete, None, |engine| {
            let result = engine.operations.take_result_of(id)?;
            let reply = engine.calls.end(id);
            engine.feed(core).settle();
            Some(result.map(|()| reply))
        });
        core.note(waited.and_then(|reply| reply))
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        // In a forked child the engine may be held by a thread that does not exist there.
        if self.id == 0 || process::is_forked_child() {
            return;
        }
        let mut machine = self.core.machine();
        let engine = &mut machine.engine;
        engine.operations.remove(self.id);
        let _ = engine.operations.take_result_of(self.id);
        engine.calls.end(self.id);
        engine.feed(self.core).settle();
    }
}

impl World {
    /// What can be done on this node without a message.
    #[inline]
    pub fn local(&self) -> Local<'_> {
        Local { node: self.core(), busy: None }
    }

    /// Starts a call: `rank` runs the service on the request. Many can be under way at once; those to one rank are done
    /// in the order started.
    pub fn start_call(&self, rank: u32, service: u8, request: Vec<u8>) -> Result<Call<'_>> {
        self.core().note(self.begin_call(rank, service, request, Leeway::None))
    }

    fn begin_call(&self, rank: u32, service: u8, request: Vec<u8>, leeway: Leeway) -> Result<Call<'_>> {
        let core: &Drive = self.core();
        core.check_usable()?;
        let bytes = request.len() as u64;
        if bytes > MAX_CALL_BYTES {
            let wrong = format!("a request of {bytes} bytes; at most {MAX_CALL_BYTES} can be sent");
            return Err(Error::misuse(wrong));
        }
        if rank == core.rank.0 {
            let mut reply = Vec::new();
            let served =
                calls::run(core.services, self.local(), service as u64, core.rank, &request, &mut reply);
            return Ok(Call { core, id: 0, ready: Some(served.map(|()| reply)) });
        }
        self.local().check_alive(rank)?;
        let few = Few::new(&request);
        let mut machine = core.machine();
        let id = machine.engine.new_internal();
        machine.engine.calls.begin(id, request);
        drop(machine);
        let call = Call { core, id, ready: None };
        let action = Action::Call { to: Rank(rank), service, leeway, bytes, few };
        match self.launch(Number::Given(id), action) {
            Ok((_, Launched::Underway)) => Ok(call),
            Ok((_, Launched::Done(_))) => Err(Error::misuse("a call cannot be done without its reply")),
            Err(error) => Err(error),
        }
    }

    /// Starts a call of which only its name is kept: whoever has that asks for the [answer](Self::answer_of), or forgets it. A name that
    /// is lost costs the memory of its call until the world ends. The answer may come a little later than that to another call, with
    /// something else that the rank sends.
    pub fn post_call(&self, rank: u32, service: u8, request: Vec<u8>) -> Result<Posted> {
        self.core().note(self.try_to_post_call(rank, service, request, Leeway::Short))
    }

    /// The same for whoever goes on after an error: it does not count as one that this world has returned. Says how long the answer may
    /// take, for nobody waits for it.
    pub fn try_to_post_call(
        &self,
        rank: u32,
        service: u8,
        request: Vec<u8>,
        leeway: Leeway,
    ) -> Result<Posted> {
        let mut call = self.begin_call(rank, service, request, leeway)?;
        if let Some(ready) = call.ready.take() {
            return ready.map(|_| Posted(0));
        }
        let id = std::mem::take(&mut call.id);
        Ok(Posted(id))
    }

    /// Has a rank run a service on a request that nobody waits for, if that can go at once: whether it has. What a rank is asked in this and in other ways
    /// is done in the order asked. If it cannot be done, [`refused_letter`](Self::refused_letter) says so by this name.
    pub fn send_letter(&self, rank: u32, service: u8, name: u64, request: &[u8]) -> Result<bool> {
        let core: &Drive = self.core();
        if request.len() > LONG_LETTER_BYTES || !core.has_transport.load(Ordering::Relaxed) {
            return Ok(false);
        }
        core.check_usable()?;
        self.local().check_alive(rank)?;
        core.machine().letter(core, Rank(rank), letters::header(service, name, request.len()), request)
    }

    /// How many letters could not be done so far: where it has changed, somebody may [be told](Self::refused_letter).
    #[inline]
    pub fn refused_letters(&self) -> u64 {
        self.core().refusals.load(Ordering::Acquire)
    }

    /// Why a letter of this name, to one of the ranks that it may have gone to, could not be done, if that is known and was not told yet. It is gone: that there
    /// was no memory for it there does not mean that it can go again.
    #[inline]
    pub fn refused_letter(&self, name: u64, may_be_of: impl Fn(u32) -> bool) -> Option<Error> {
        let core: &Drive = self.core();
        if !core.has_refusals.load(Ordering::Acquire) || core.check_usable().is_err() {
            return None;
        }
        let mut machine = core.machine();
        let refused = machine.engine.letters.take_refused(name, |from| may_be_of(from.0));
        core.has_refusals.store(machine.engine.letters.has_refused(), Ordering::Release);
        refused.map(|error| match error {
            Error::OutOfMemory { .. } => {
                Error::Refused(format!("what was sent could not be taken there: {error}"))
            }
            error => error,
        })
    }

    /// The reply to a call that was posted, if it is there; it can be taken once. It is not looked for: whoever waits, or makes
    /// progress, does that.
    pub fn answer_of(&self, posted: Posted) -> Option<Result<Vec<u8>>> {
        self.answer_and_request_of(posted).map(|(answer, _)| answer)
    }

    /// The same, with what was asked: whoever asks again need not keep it.
    pub fn answer_and_request_of(&self, posted: Posted) -> Option<(Result<Vec<u8>>, Vec<u8>)> {
        if posted.0 == 0 {
            return Some((Ok(Vec::new()), Vec::new()));
        }
        let core: &Drive = self.core();
        if let Err(error) = core.check_usable() {
            return Some((Err(error), Vec::new()));
        }
        let mut machine = core.machine();
        let engine = &mut machine.engine;
        let result = engine.operations.take_result_of(posted.0)?;
        let (request, reply) = engine.calls.end_whole(posted.0, result.is_err());
        engine.feed(core).settle();
        Some((result.map(|()| reply), request))
    }

    /// Gives a posted call up: the work may be done all the same.
    pub fn forget_call(&self, posted: Posted) {
        drop(Call { core: self.core(), id: posted.0, ready: None });
    }

    /// Calls a rank and waits for the reply.
    pub fn call(&self, rank: u32, service: u8, request: Vec<u8>) -> Result<Vec<u8>> {
        self.start_call(rank, service, request)?.wait()
    }
}
