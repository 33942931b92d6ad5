//! The world: the ranks that share a global memory, as one of them sees it.

use crate::address::{AddressFormat, GlobalAddress, GlobalPtr, STARTER_SLOT};
use crate::atomic::{perform_narrow, perform_wide, AtomicOp, AtomicWord};
use crate::core::{Core, Waiting};
use crate::handle::{
    Action, AtomicCall, Client, Handle, Operation, Side, FIRST_INTERNAL, MAX_OPERATIONS, OPERATION_BYTES,
};
use crate::ledger::{Books, Entry, Ledger, Purpose};
use crate::order::{self, Condition, Order};
use crate::progress::{Engine, Receiver};
use crate::region::Registry;
use crate::serve;
use crate::{copy, Error, Result};
use bytemuck::Pod;
use kumiki_net::agent::bootstrap::{self, Attachment};
use kumiki_net::agent::channel::{Channel, FromAgent, ToAgent};
use kumiki_net::auth::{JobId, Secret};
use kumiki_net::contract::{Closing, Footprint};
use kumiki_net::os::descriptor::{self, Event};
use kumiki_net::os::{futex, machine, process, time};
use kumiki_net::shm::control::Activity;
use kumiki_net::shm::region::{Kind, RegionView};
use kumiki_net::tcp::{Setup, Tcp};
use kumiki_net::{environment, hook, Rank};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The stack of the service thread: it calls nothing deep.
const SERVICE_STACK_BYTES: usize = 64 * 1024;
/// How long to spin before sleeping when every rank has a core of its own.
const SPIN_NS: u64 = 100_000;
/// Descriptors that a process needs beside its connections: standard streams, agent, arena, epoll, eventfd, and a few
/// of the program's own.
const OTHER_DESCRIPTORS: u64 = 16;
/// How long finalize waits for connections to close in good order.
const CLOSE_MS: u64 = 200;

/// How long a reset waits for the other ranks, which have all come to the barrier before it.
const RESET_MS: u64 = 60_000;

/// Tells the worlds that a process has had apart; 0 is none.
static NEXT_LIFE: AtomicU64 = AtomicU64::new(1);

/// One rank's view of the world: who is in it, and the memory they share. Many threads may use it at once.
///
/// ```
/// # fn main() -> kumiki_mem::Result<()> {
/// let world = kumiki_mem::World::init()?;
/// let counter = world.starter::<u64>(0)?;
/// world.fetch_add(counter, 1)?;
/// world.sync()?;
/// assert_eq!(world.get(counter)?, world.ranks() as u64);
/// world.finalize()
/// # }
/// ```
pub struct World {
    core: Arc<Core>,
    attachment: Mutex<Option<Seat>>,
    service: Mutex<Option<std::thread::JoinHandle<()>>>,
    secret: Arc<Secret>,
    job: JobId,
}

/// What became of an operation that was launched.
enum Launched {
    /// It is complete; an atomic has its old value.
    Done(Option<u64>),
    /// It is in the table and will be completed by an answer.
    Underway,
}

/// What is left of an attachment when its arena has become shared.
struct Seat {
    attachment: Attachment,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World(rank {} of {})", self.rank(), self.ranks())
    }
}

impl World {
    /// Joins the world that the environment describes: under `kumiki run`, under another launcher, or alone. Returns
    /// when every rank has joined.
    pub fn init() -> Result<World> {
        let measure = crate::measure::Measurement::begin();
        let attachment = bootstrap::attach(None)?;
        let world = World::from_attachment(attachment)?;
        if let Some(measure) = measure {
            measure.finish(&world)?;
        }
        Ok(world)
    }

    /// The world of an attachment that somebody else made.
    pub fn from_attachment(attachment: Attachment) -> Result<World> {
        process::watch_forks();
        let config = *attachment.arena.config();
        let arena = attachment.arena.clone();
        let place = arena.place(attachment.rank).map(|word| word.load());
        let place = place.ok_or_else(|| Error::misuse(format!("there is no {}", attachment.rank)))?;
        let books = Books::new(config.budget_bytes);
        books.book(Purpose::World, std::mem::size_of::<Core>() as u64 + 1024)?;
        books.book(Purpose::ArenaControl, 2 * kumiki_net::os::memory::PAGE_BYTES)?;
        books.book(Purpose::Starter, arena.heap_start())?;
        let core = Core {
            format: AddressFormat::new(config.ranks),
            rank: attachment.rank,
            node: place.node,
            local: place.local,
            pending: AtomicU64::new(0),
            next_handle: AtomicU64::new(1),
            next_internal: AtomicU64::new(0),
            life: NEXT_LIFE.fetch_add(1, Ordering::Relaxed),
            process_vm: AtomicBool::new(config.allow_process_vm != 0),
            process_vm_tried: AtomicBool::new(false),
            has_transport: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            faulted: AtomicBool::new(false),
            books,
            registry: Mutex::new(Registry::new(arena.heap_start()..arena.slice_bytes())),
            engine: Mutex::new(Engine::new(attachment.channel.clone())),
            waiting: Waiting { spin_ns: AtomicU64::new(spin_ns(&config)?), ..Waiting::default() },
            completion: OnceLock::new(),
            epoch: AtomicU64::new(0),
            passage: Mutex::new(None),
            arena,
        };
        core.publish_starter()?;
        let (secret, job) = (Secret::from_bytes(*attachment.secret.expose()), attachment.job);
        let world = World {
            core: Arc::new(core),
            attachment: Mutex::new(Some(Seat { attachment })),
            service: Mutex::new(None),
            secret: Arc::new(secret),
            job,
        };
        if config.nodes > 1 {
            world.ensure_transport()?;
        }
        // Nobody may be addressed before its starter memory is published.
        if let Err(error) = world.core.barrier(Activity::Init, None) {
            // The world is broken without our doing: we are not in it, and may end as we like.
            let _ = world.close().map(|mut seat| seat.attachment.leave());
            return Err(error);
        }
        Ok(world)
    }

    /// A world of one whose addresses are cut in another way.
    #[cfg(test)]
    pub(crate) fn with_format(format: AddressFormat) -> World {
        let mut world = World::init().expect("a world of one");
        Arc::get_mut(&mut world.core).expect("nobody else has it yet").format = format;
        world
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// This rank's number.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.core.rank.0
    }

    /// How many ranks there are.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.core.ranks()
    }

    /// The index of this rank's node.
    pub fn node(&self) -> u32 {
        self.core.node
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.core.arena.config().nodes
    }

    /// The node of a rank; `None` if there is no such rank.
    pub fn node_of(&self, rank: u32) -> Option<u32> {
        self.core.arena.place(Rank(rank)).map(|word| word.load().node)
    }

    /// The ranks of this rank's node, in order.
    pub fn node_ranks(&self) -> Vec<u32> {
        (0..self.ranks()).filter(|&rank| self.node_of(rank) == Some(self.core.node)).collect()
    }

    /// Waits until every rank has come here. It orders what came before it on every rank, but does not complete
    /// operations: call [`complete_all`](Self::complete_all) first if others are to see them.
    pub fn sync(&self) -> Result<()> {
        self.core.note(self.core.barrier(Activity::Barrier, None))
    }

    /// As [`sync`](Self::sync), for at most this long. After [`Timeout`](Error::Timeout) the rank is still in the
    /// barrier; the next call goes on waiting.
    pub fn sync_for(&self, limit: Duration) -> Result<()> {
        self.core.note(self.core.barrier(Activity::Barrier, Some(deadline_after(limit))))
    }

    /// Ends the whole job with a message, from any rank. Does not return.
    pub fn abort(&self, message: &str) -> ! {
        let channel = self.core.engine().state.channel.clone();
        match channel {
            Some(channel) if channel.send(&ToAgent::Abort { message: message.to_string() }).is_ok() => {
                // The agent ends this process; if it does not, we do.
                let forever = AtomicU32::new(0);
                let until_ms = time::now_ms() + 5_000;
                while time::now_ms() < until_ms {
                    futex::wait(&forever, 0, 1_000);
                }
            }
            _ => eprintln!("kumiki: rank {} aborts: {message}", self.rank()),
        }
        std::process::exit(1)
    }

    /// Renumbers the ranks and starts over: every rank calls this with its new number, all different. Regions are
    /// gone, starter memory is zero.
    pub fn reset(self, new_rank: u32) -> Result<World> {
        // A number that cannot be is not refused here: all ranks must hear of it, from the agents.
        self.core.quiesce();
        self.core.barrier(Activity::Reset, None)?;
        let mut attachment = self.close()?.attachment;
        if let Some(channel) = attachment.channel.clone() {
            match renumber(&channel, new_rank) {
                Ok(rank) => attachment.rank = rank,
                Err(error) => {
                    // Every rank hears of it, so no rank may end the job before the others have.
                    let _ = attachment.leave();
                    return Err(error);
                }
            }
        } else if new_rank != 0 {
            return Err(Error::misuse(format!("reset to rank {new_rank}: there is one rank")));
        } else {
            attachment.arena.prepare_rank(attachment.local)?;
        }
        World::from_attachment(attachment)
    }

    /// Completes this rank's operations, waits for all ranks, and leaves. Dropping a world does the same, but cannot
    /// tell what went wrong; and a world that has returned an error is not finalized by dropping it: the rank then
    /// counts as lost.
    pub fn finalize(self) -> Result<()> {
        let completed = self.complete_all();
        let met = self.core.barrier(Activity::Finalize, None);
        self.close()?.attachment.leave()?;
        completed.and(met)
    }

    /// Ends the engine and the service thread; what is left is the seat.
    fn close(&self) -> Result<Seat> {
        let seat = self.attachment.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let seat = seat.ok_or_else(|| Error::Closed("the world has been finalized".into()))?;
        self.close_transport();
        self.core.closed.store(true, Ordering::Release);
        self.stop_service();
        Ok(seat)
    }

    /// Sends what waits to be sent, the last signal of a barrier above all, and takes leave of every peer.
    fn close_transport(&self) {
        let started_ms = time::now_ms();
        let mut sent_ms = started_ms;
        loop {
            let mut engine = self.core.engine();
            let Engine { transport, state, sleeper } = &mut *engine;
            let Some(transport) = transport.as_mut() else { return };
            let mut receiver = Receiver { core: &self.core, state };
            let closing = transport.close(&mut receiver);
            let now_ms = time::now_ms();
            let over = match closing {
                Closing::Closed => return,
                Closing::Parting => now_ms > sent_ms + CLOSE_MS,
                Closing::Sending => {
                    sent_ms = now_ms;
                    now_ms > started_ms + self.core.arena.config().peer_timeout_ms as u64
                }
            };
            if over || transport.poll(&mut receiver).is_err() {
                return;
            }
            let sleeper = sleeper.clone();
            drop(engine);
            if let Some(sleeper) = sleeper {
                let _ = sleeper.sleep(1);
            }
        }
    }

    fn stop_service(&self) {
        let service = self.service.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(thread) = service {
            let sleeper = self.core.engine().sleeper.clone();
            if let Some(sleeper) = sleeper {
                sleeper.wake();
            }
            self.core.waiting.service.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&self.core.waiting.service);
            let _ = thread.join();
        }
        let mut engine = self.core.engine();
        engine.transport = None;
        engine.sleeper = None;
        self.core.has_transport.store(false, Ordering::Release);
    }

    /// Makes sure that this rank's private memory can be served to those who cannot copy it themselves.
    pub(crate) fn serve_private(&self) -> Result<()> {
        if self.ranks() == 1 {
            return Ok(());
        }
        self.ensure_transport()
    }

    /// Starts the transport and the service thread, if they are not running.
    pub(crate) fn ensure_transport(&self) -> Result<()> {
        if self.core.has_transport.load(Ordering::Acquire) {
            return Ok(());
        }
        self.core.check_usable()?;
        let mut service = self.service.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if service.is_some() {
            return Ok(());
        }
        let mut engine = self.core.engine();
        let config = self.core.arena.config();
        let setup = Setup {
            arena: self.core.arena.clone(),
            rank: self.core.rank,
            job: self.job,
            secret: self.secret.clone(),
            connection_cap: connection_cap(config.connection_cap)?,
        };
        let channel = engine.state.channel.clone();
        let tcp = Tcp::new(setup, channel.as_ref().map(|channel| channel.as_fd()))?;
        let transport = hook::wrap(Box::new(tcp), self.core.rank)?;
        self.core.books.book(Purpose::Connection, transport.footprint().fixed_bytes)?;
        self.core.books.book(Purpose::Thread, SERVICE_STACK_BYTES as u64)?;
        engine.install(transport)?;
        let sleeper = engine.sleeper.clone();
        drop(engine);
        self.core.has_transport.store(true, Ordering::Release);
        let core = self.core.clone();
        let thread = std::thread::Builder::new()
            .name("kumiki-service".into())
            .stack_size(SERVICE_STACK_BYTES)
            .spawn(move || {
                machine::prefer_short_slices();
                if let Some(sleeper) = sleeper {
                    core.serve(&*sleeper);
                }
            })
            .map_err(|error| Error::System { call: "clone", errno: error.raw_os_error().unwrap_or(0) })?;
        *service = Some(thread);
        Ok(())
    }

    /// Starts an operation in its order and gives its handle.
    fn issue(&self, action: Action, order: Order) -> Result<Handle> {
        self.core.note(self.try_issue(action, order))
    }

    fn try_issue(&self, action: Action, order: Order) -> Result<Handle> {
        let core = &self.core;
        core.check_usable()?;
        let id = core.new_handle();
        let condition = order.condition(id, order::last_of_thread(core.life));
        order::set_last_of_thread(core.life, id);
        if condition == Condition::Free || core.pending.load(Ordering::Acquire) == 0 {
            self.launch(id, action)?;
        } else {
            self.defer(id, action, condition)?;
        }
        Ok(Handle::from_number(id))
    }

    /// Starts an operation now.
    fn launch(&self, id: u64, action: Action) -> Result<Launched> {
        let core = &self.core;
        let (peer, message, rest) = match serve::start(core, id, action)? {
            serve::Started::Sent(peer, message) => (peer, message, action),
            serve::Started::Complete(value) => {
                let elsewhere = match (value, action) {
                    (Some(old), Action::Atomic { dst: Some(dst), call }) => {
                        serve::store_value(core, id, dst, old, call.code)?
                    }
                    _ => None,
                };
                let Some((peer, message)) = elsewhere else {
                    core.raise_completion();
                    return Ok(Launched::Done(value));
                };
                // The atomic is done; what goes on is the delivery of its old value.
                (peer, message, serve::DELIVERY)
            }
        };
        self.ensure_transport()?;
        self.await_room()?;
        let operation =
            Operation { action: rest, client: Client::Program, peer: Some(peer), condition: Condition::Free };
        let mut engine = core.engine();
        self.check_room()?;
        engine.state.operations.insert(id, operation);
        Receiver { core, state: &mut engine.state }.note_pending();
        let sent = engine.send(core, peer, message);
        if let Err(error) = sent {
            engine.state.operations.remove(id);
            Receiver { core, state: &mut engine.state }.note_pending();
            return Err(error);
        }
        Ok(Launched::Underway)
    }

    /// Puts an operation in the table, to be started when its condition holds.
    fn defer(&self, id: u64, action: Action, condition: Condition) -> Result<()> {
        self.ensure_transport()?;
        self.await_room()?;
        let core = &self.core;
        let mut engine = core.engine();
        self.check_room()?;
        let pipelines = match condition {
            Condition::Exactly(previous) => {
                let previous = engine.state.operations.get(previous);
                previous.is_some_and(|previous| serve::pipelines(core, previous, action))
            }
            _ => false,
        };
        let condition = if pipelines { Condition::Free } else { condition };
        let operation = Operation { action, client: Client::Program, peer: None, condition };
        engine.state.operations.insert(id, operation);
        Receiver { core, state: &mut engine.state }.note_pending();
        engine.start_ready(core)
    }

    /// Waits while as many operations are incomplete as may be.
    fn await_room(&self) -> Result<()> {
        if (self.core.pending.load(Ordering::Relaxed) as usize) < MAX_OPERATIONS {
            return Ok(());
        }
        self.core.wait_until(Activity::Complete, None, |engine| {
            (engine.state.operations.len() < MAX_OPERATIONS).then_some(())
        })
    }

    /// Fails if the budget has no room for one more operation.
    fn check_room(&self) -> Result<()> {
        let left = self.core.books.left();
        if left < OPERATION_BYTES {
            return Err(Error::OutOfMemory {
                asked: OPERATION_BYTES,
                left,
                what: "the budget, for an operation",
            });
        }
        Ok(())
    }

    /// Copies `bytes` from `src` to `dst`, which may be anybody's. Ranges of one region may overlap.
    pub fn copy(&self, dst: GlobalAddress, src: GlobalAddress, bytes: u64, order: Order) -> Result<Handle> {
        let core = &self.core;
        if order == Order::None || core.pending.load(Ordering::Acquire) == 0 {
            if let (Some(to), Some(from)) = (core.direct(dst, 0, bytes), core.direct(src, 0, bytes)) {
                // SAFETY: both ranges were checked and lie in the arena.
                unsafe { copy::move_bytes(to, from, bytes as usize) };
                core.raise_completion();
                return Ok(Handle::from_number(core.new_handle()));
            }
        }
        self.issue(Action::Copy { dst: Side::Global(dst, 0), src: Side::Global(src, 0), bytes }, order)
    }

    /// Does an atomic operation on the word at `target` and puts its old value at `dst`.
    pub fn atomic<W: AtomicWord>(
        &self,
        dst: GlobalAddress,
        target: GlobalAddress,
        operation: AtomicOp<W>,
        order: Order,
    ) -> Result<Handle> {
        let (code, first, second) = operation.encode();
        self.check_alignment::<W>(target)?;
        self.check_alignment::<W>(dst)?;
        // A place for the old value that cannot be is refused before the word is changed, as far as can be told here.
        self.core.reach(dst, 0, std::mem::size_of::<W>() as u64)?;
        let call = AtomicCall { target, generation: 0, code, first, second };
        self.issue(Action::Atomic { dst: Some(dst), call }, order)
    }

    fn check_alignment<W>(&self, address: GlobalAddress) -> Result<()> {
        let bytes = std::mem::size_of::<W>() as u64;
        if address.bits() % bytes != 0 {
            return Err(Error::misuse(format!(
                "the address {:#x} of an atomic is not a multiple of {bytes}",
                address.bits()
            )));
        }
        Ok(())
    }

    /// Waits until this operation and every one before it is complete. Tells the first failure among them.
    #[inline]
    pub fn complete(&self, handle: Handle) -> Result<()> {
        if self.core.pending.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        self.complete_until(handle.number(), None)
    }

    /// Waits until every operation is complete.
    pub fn complete_all(&self) -> Result<()> {
        self.complete(Handle::from_number(self.core.next_handle.load(Ordering::Relaxed)))
    }

    /// As [`complete`](Self::complete), for at most this long.
    pub fn wait(&self, handle: Handle, limit: Duration) -> Result<()> {
        if self.core.pending.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        self.complete_until(handle.number(), Some(deadline_after(limit)))
    }

    fn complete_until(&self, id: u64, deadline_ms: Option<u64>) -> Result<()> {
        let core = &self.core;
        let completed = core.wait_until(Activity::Complete, deadline_ms, |engine| {
            let result = engine.state.operations.take_result_up_to(id);
            if result.is_some() {
                Receiver { core, state: &mut engine.state }.note_pending();
            }
            result
        });
        core.note(completed.and_then(|result| result))
    }

    /// Waits for this operation alone, whatever came before it.
    pub fn complete_one(&self, handle: Handle) -> Result<()> {
        if self.core.pending.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let core = &self.core;
        let completed = core.wait_until(Activity::Complete, None, |engine| {
            let result = engine.state.operations.take_result_of(handle.number());
            if result.is_some() {
                Receiver { core, state: &mut engine.state }.note_pending();
            }
            result
        });
        core.note(completed.and_then(|result| result))
    }

    /// Whether this operation and every one before it is complete. A failure is told once, here or by
    /// [`complete`](Self::complete).
    pub fn inquire(&self, handle: Handle) -> Result<bool> {
        if self.core.pending.load(Ordering::Acquire) == 0 {
            return Ok(true);
        }
        self.core.check_usable()?;
        let mut engine = self.core.engine();
        engine.poll(&self.core)?;
        let result = engine.state.operations.take_result_up_to(handle.number());
        Receiver { core: &self.core, state: &mut engine.state }.note_pending();
        self.core.note(result.map_or(Ok(false), |result| result.map(|()| true)))
    }

    /// A descriptor that becomes readable when an operation completes, for event loops and async runtimes: wait until
    /// it is readable, call [`clear_completion`](Self::clear_completion), then [`inquire`](Self::inquire).
    pub fn completion_fd(&self) -> Result<BorrowedFd<'_>> {
        self.core.check_usable()?;
        if self.core.completion.get().is_none() {
            let _ = self.core.completion.set(Event::new()?);
        }
        let event = self.core.completion.get();
        event
            .map(|event| event.as_fd())
            .ok_or_else(|| Error::Closed("the completion descriptor is gone".into()))
    }

    /// Makes the completion descriptor unreadable until the next completion.
    pub fn clear_completion(&self) {
        if let Some(event) = self.core.completion.get() {
            event.clear();
        }
    }

    /// Writes one element; it is at its place when this returns.
    #[inline]
    pub fn put<T: Pod>(&self, to: GlobalPtr<T>, value: T) -> Result<()> {
        let bytes = std::mem::size_of::<T>();
        if let Some(pointer) = self.core.direct(to.address, to.generation, bytes as u64) {
            // SAFETY: the destination was checked for a `T`; `value` is plain data of that size.
            unsafe { copy::move_bytes(pointer, (&value as *const T).cast(), bytes) };
            return Ok(());
        }
        self.put_slice(to, std::slice::from_ref(&value))
    }

    /// Reads one element.
    #[inline]
    pub fn get<T: Pod>(&self, from: GlobalPtr<T>) -> Result<T> {
        let bytes = std::mem::size_of::<T>();
        let mut value = T::zeroed();
        if let Some(pointer) = self.core.direct(from.address, from.generation, bytes as u64) {
            // SAFETY: the source was checked for a `T`; every bit pattern is a `T`.
            unsafe { copy::move_bytes((&mut value as *mut T).cast(), pointer, bytes) };
            return Ok(value);
        }
        self.get_slice(from, std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Writes elements from memory that need not be registered; they are at their place when this returns.
    pub fn put_slice<T: Pod>(&self, to: GlobalPtr<T>, values: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let dst = Side::Global(to.address, to.generation);
        self.transfer(dst, Side::Lent(bytes.as_ptr() as usize), bytes.len() as u64)
    }

    /// Reads elements into memory that need not be registered.
    pub fn get_slice<T: Pod>(&self, from: GlobalPtr<T>, into: &mut [T]) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        let src = Side::Global(from.address, from.generation);
        self.transfer(Side::Lent(bytes.as_mut_ptr() as usize), src, bytes.len() as u64)
    }

    /// A copy with memory that the caller lends: it is complete, or forgotten, when this returns.
    fn transfer(&self, dst: Side, src: Side, bytes: u64) -> Result<()> {
        let action = Action::Copy { dst, src, bytes };
        self.call(action).map(drop)
    }

    /// Does one operation that nobody holds a handle to, and waits for it.
    fn call(&self, action: Action) -> Result<Option<u64>> {
        self.core.note(self.try_call(action))
    }

    fn try_call(&self, action: Action) -> Result<Option<u64>> {
        let core = &self.core;
        core.check_usable()?;
        let id = core.new_internal();
        if let Launched::Done(value) = self.launch(id, action)? {
            return Ok(value);
        }
        let result = core.wait_until(Activity::Complete, None, |engine| {
            let result = engine.state.operations.take_result_of(id);
            if result.is_some() {
                Receiver { core, state: &mut engine.state }.note_pending();
            }
            result.map(|result| result.map(|()| engine.state.operations.values.remove(&id)))
        });
        match result {
            Ok(result) => result,
            Err(error) => {
                // The memory goes back to the caller: an answer that still comes must find nothing.
                let mut engine = core.engine();
                engine.state.operations.remove(id);
                Receiver { core, state: &mut engine.state }.note_pending();
                Err(error)
            }
        }
    }

    /// Changes a word and gives back its old value.
    #[inline]
    fn fetch<W: AtomicWord>(&self, target: GlobalPtr<W>, operation: AtomicOp<W>) -> Result<W> {
        let bytes = std::mem::size_of::<W>();
        let (code, first, second) = operation.encode();
        if let Some(pointer) = self.core.direct(target.address, target.generation, bytes as u64) {
            if pointer as usize % bytes == 0 {
                // SAFETY: the word was checked to be in bounds and is aligned.
                let old = unsafe {
                    match bytes {
                        8 => perform_wide(&*pointer.cast::<AtomicU64>(), code & 7, first, second),
                        _ => perform_narrow(
                            &*pointer.cast::<AtomicU32>(),
                            code & 7,
                            first as u32,
                            second as u32,
                        ) as u64,
                    }
                };
                return Ok(W::narrow(old));
            }
        }
        self.check_alignment::<W>(target.address)?;
        let call = AtomicCall { target: target.address, generation: target.generation, code, first, second };
        let old = self.call(Action::Atomic { dst: None, call })?;
        old.map(W::narrow).ok_or_else(|| Error::Refused("an atomic was answered without a value".into()))
    }

    /// Adds to a word, wrapping around; gives back the old value.
    #[inline]
    pub fn fetch_add<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::Add(value))
    }

    /// Stores `new` if the word holds `old`; gives back what it held.
    #[inline]
    pub fn compare_swap<W: AtomicWord>(&self, target: GlobalPtr<W>, old: W, new: W) -> Result<W> {
        self.fetch(target, AtomicOp::CompareSwap(old, new))
    }

    /// Stores a value; gives back the old one.
    #[inline]
    pub fn swap<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::Swap(value))
    }

    /// Exclusive or; gives back the old value.
    pub fn fetch_xor<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::Xor(value))
    }

    /// Or; gives back the old value.
    pub fn fetch_or<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::Or(value))
    }

    /// And; gives back the old value.
    pub fn fetch_and<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.fetch(target, AtomicOp::And(value))
    }

    /// The books as they stand.
    pub fn ledger(&self) -> Ledger {
        let core = &self.core;
        let footprint = {
            let engine = core.engine();
            engine.transport.as_ref().map_or(Footprint::default(), |transport| transport.footprint())
        };
        if footprint.fixed_bytes > 0 {
            let bytes = footprint.fixed_bytes
                + footprint.connected * footprint.bytes_per_connection
                + footprint.queued_bytes;
            core.books.set(Purpose::Connection, bytes);
        }
        Ledger {
            entries: Purpose::ALL
                .iter()
                .map(|&purpose| Entry { purpose, bytes: core.books.of(purpose) })
                .collect(),
            budget_bytes: core.books.budget(),
            bytes_per_unknown_peer: 0,
            bytes_per_known_peer: 0,
            bytes_per_connected_peer: footprint.bytes_per_connection,
            connected_peers: footprint.connected,
            bytes_per_operation: OPERATION_BYTES,
            bytes_per_region: 16,
            page_table_bytes: crate::measure::page_table_bytes(),
        }
    }

    /// Regions and free ranges that this rank's tables hold.
    pub fn region_count(&self) -> usize {
        self.core.region_count()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let attached = self.attachment.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_some();
        if !attached || process::is_forked_child() {
            return;
        }
        let mut clean = false;
        // After an error the program most likely did not get to its end: its ranks are not at the same point, and a
        // barrier here would be taken for one of theirs.
        if !std::thread::panicking() && !self.core.faulted.load(Ordering::Relaxed) {
            let completed = self.complete_all();
            clean = self.core.barrier(Activity::Finalize, None).and(completed).is_ok();
        }
        // A rank that did not get this far in good order is left to its agent, which tells the others.
        if let Ok(mut seat) = self.close() {
            if clean {
                let _ = seat.attachment.leave();
            }
        }
    }
}

impl Core {
    /// Publishes starter memory in its fixed slot.
    fn publish_starter(&self) -> Result<()> {
        let entry = self.arena.region(self.local, STARTER_SLOT as usize);
        let entry = entry.ok_or_else(|| Error::misuse("this rank has no region table"))?;
        let bytes = self.arena.config().starter_bytes;
        entry.publish(RegionView { kind: Kind::Arena, base: 0, bytes, generation: 1, colour: 0 });
        Ok(())
    }

    /// Waits until no operation of the program is incomplete, whatever became of them.
    pub(crate) fn quiesce(&self) {
        if self.pending.load(Ordering::Acquire) == 0 {
            return;
        }
        let _ = self.wait_until(Activity::Complete, None, |engine| {
            engine.state.operations.holds(Condition::UpTo(FIRST_INTERNAL - 1)).then_some(())
        });
    }
}

/// Asks the agent for a new number and waits for its answer.
fn renumber(channel: &Channel, new_rank: u32) -> Result<Rank> {
    channel.send(&ToAgent::Reset { new_rank })?;
    let started_ms = time::now_ms();
    loop {
        match channel.receive(started_ms + RESET_MS)? {
            Some(FromAgent::ResetDone { rank }) => return Ok(rank),
            Some(FromAgent::ResetRefused { why }) => return Err(Error::Misuse(why)),
            Some(_) => {}
            None => {
                let what = "waiting for the other ranks to reset".to_string();
                return Err(Error::Timeout { what, after_ms: time::now_ms() - started_ms });
            }
        }
    }
}

/// How long to spin: not at all when ranks outnumber cores.
fn spin_ns(config: &kumiki_net::shm::arena::Config) -> Result<u64> {
    match environment::text("KUMIKI_SPIN")?.as_deref() {
        None | Some("auto") => {}
        Some(text) => {
            let wrong =
                |_| Error::misuse(format!("KUMIKI_SPIN={text}: write microseconds such as 50, or auto"));
            return text.parse::<u64>().map(|microseconds| microseconds * 1_000).map_err(wrong);
        }
    }
    Ok(if config.machine_ranks <= process::cores() { SPIN_NS } else { 0 })
}

/// The cap on connections, from the configuration and the limit on descriptors.
fn connection_cap(wanted: u32) -> Result<usize> {
    let (soft, _) = descriptor::limit()?;
    let room = soft.saturating_sub(OTHER_DESCRIPTORS);
    if room < 4 {
        return Err(Error::System {
            call: "raise the limit on open files to at least 20 (ulimit -n)",
            errno: 24,
        });
    }
    Ok((wanted as u64).min(room) as usize)
}

fn deadline_after(limit: Duration) -> u64 {
    time::now_ms().saturating_add(limit.as_millis().min(u64::MAX as u128) as u64)
}
