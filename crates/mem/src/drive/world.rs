//! The world: the ranks that share a global memory, as one of them sees it.

use crate::drive::accounts::{Booking, Connections};
use crate::drive::pace::Pace;
use crate::drive::{Drive, Waiting};
use crate::engine::calls::{Service, Services};
use crate::engine::frames;
use crate::engine::operations::{FIRST_INTERNAL, OPERATION_BYTES};
use crate::engine::order::Condition;
use crate::node::ledger::{Entry, Ledger, Purpose};
use crate::node::region::RECORD_BYTES;
use crate::node::{neighbours, Node};
use crate::{Error, Result};
use kumiki_net::agent::blocks::Summons;
use kumiki_net::agent::bootstrap::{self, Attachment, Hosting};
use kumiki_net::agent::channel::{Channel, FromAgent, ToAgent};
use kumiki_net::agent::portfile::Part;
use kumiki_net::agent::report;
use kumiki_net::auth::{JobId, Secret};
use kumiki_net::contract::{Capabilities, Closing, Footprint, Server, Sleeper, Transport};
use kumiki_net::os::descriptor;
use kumiki_net::os::{futex, machine, multipath, process, time};
use kumiki_net::route::Route;
use kumiki_net::shm::arena::Phase;
use kumiki_net::shm::control::Activity;
use kumiki_net::shm::world::Cause;
use kumiki_net::tcp::{Pacing, Setup, Tcp};
use kumiki_net::{environment, hook, Rank};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// The stack of the service thread: it calls nothing deep.
const SERVICE_STACK_BYTES: usize = 64 * 1024;
/// How long to spin before sleeping when every rank has a core of its own.
const SPIN_NS: u64 = 100_000;
/// Descriptors that a process needs beside its connections: standard streams, agent, arena, epoll, eventfd, and a few
/// of the program's own.
const OTHER_DESCRIPTORS: u64 = 16;
/// The fewest connections that a rank can do with.
const LEAST_CONNECTIONS: u64 = 4;
/// Descriptors of a stream through files: two ends, a folder, a pulse, and what is written and read.
const STREAM_DESCRIPTORS: u64 = 6;
/// How long finalize waits for connections to close in good order.
const CLOSE_MS: u64 = 200;

/// How long a reset waits for the other ranks, which have all come to the barrier before it.
const RESET_MS: u64 = 60_000;

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
    core: Arc<Drive>,
    attachment: Mutex<Option<Seat>>,
    service: Mutex<Option<std::thread::JoinHandle<()>>>,
    secret: Arc<Secret>,
    job: JobId,
    route: Route,
    /// A transport that came with the attachment, until it is installed.
    given: Mutex<Option<Box<dyn Transport>>>,
}

/// A service thread, and what tells it to begin.
type ServiceThread = (std::thread::JoinHandle<()>, SyncSender<Arc<dyn Sleeper>>);

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
        World::init_with(bootstrap::STARTER_BYTES, None, &[])
    }

    /// As [`init`](Self::init), with this many bytes of starter memory if nobody else says how many (neither a launcher
    /// nor `KUMIKI_STARTER`), as this part of a job if it is in parts and the environment does not say so, and with what this rank does for others; every rank
    /// must give the same table.
    pub fn init_with(starter_bytes: u64, part: Option<&Part>, services: &'static [Service]) -> Result<World> {
        let measure = crate::drive::measure::Measurement::begin();
        let attachment = match part {
            Some(part) => bootstrap::attach_part(part, None, starter_bytes)?,
            None => bootstrap::attach(None, starter_bytes)?,
        };
        let world = World::attach(attachment, services)?;
        if let Some(measure) = measure {
            measure.finish(&world)?;
        }
        Ok(world)
    }

    /// Joins, as a process of a block, the world of the programs of all blocks, and gives how many processes each block has. Waits for the
    /// others for so long, or for as long as is usual.
    pub fn init_block(
        summons: &Summons,
        limit: Option<Duration>,
        services: &'static [Service],
    ) -> Result<(World, Vec<u32>)> {
        let deadline_ms = limit.map(deadline_after);
        let (attachment, ranks) = bootstrap::attach_block(summons, deadline_ms, bootstrap::STARTER_BYTES)?;
        Ok((World::attach(attachment, services)?, ranks))
    }

    /// The world of an attachment that somebody else made.
    pub fn attach(attachment: Attachment, services: &'static [Service]) -> Result<World> {
        let (channel, rank) = (attachment.channel.clone(), attachment.rank);
        World::take_seat(attachment, services).and_then(World::join).inspect_err(|error| {
            // The others wait for us in vain, even if this process goes on without the world.
            if let Some(channel) = channel.filter(|_| !is_broken(error)) {
                let _ = channel.send(&ToAgent::ReportLost { rank, cause: Cause::NOT_JOINED });
            }
        })
    }

    /// A world that has not met the others yet. (Apart from its caller: meeting the others need not lie on top of
    /// what is on the stack here.)
    #[inline(never)]
    fn take_seat(mut attachment: Attachment, services: &'static [Service]) -> Result<World> {
        process::watch_forks();
        let given = attachment.transport.take();
        let core = drive_for(&attachment, services, given.as_deref().map(Transport::capabilities))?;
        core.control().board.introduce(attachment.rank, attachment.origin);
        let (secret, job) = (Secret::from_bytes(*attachment.secret.expose()), attachment.job);
        let route = attachment.route.clone();
        Ok(World {
            core,
            attachment: Mutex::new(Some(Seat { attachment })),
            service: Mutex::new(None),
            secret: Arc::new(secret),
            job,
            route,
            given: Mutex::new(given),
        })
    }

    /// Meets the others: nobody may be addressed before its starter memory is published.
    #[inline(never)]
    fn join(self) -> Result<World> {
        let transport = if self.nodes() > 1 { self.ensure_transport() } else { Ok(()) };
        let Err(error) = transport.and_then(|()| self.core.barrier(Activity::Init, None)) else {
            kumiki_net::event!(
                info,
                rank = self.rank(),
                ranks = self.ranks(),
                nodes = self.nodes(),
                "joined the world"
            );
            return Ok(self);
        };
        // A world that broke without our doing is left in good order: we are not in it, and may end as we like.
        if let (Ok(mut seat), true) = (self.close(false), is_broken(&error)) {
            let _ = seat.attachment.leave();
        }
        Err(error)
    }

    /// A world of one whose addresses are cut in another way.
    #[cfg(test)]
    pub(crate) fn with_format(format: crate::node::address::AddressFormat) -> World {
        let mut world = World::init().expect("a world of one");
        Arc::get_mut(&mut world.core).expect("nobody else has it yet").memory.format = format;
        world
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Drive> {
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
        if process::is_forked_child() {
            return None;
        }
        self.core.arena.place(Rank(rank)).map(|word| word.load().node)
    }

    /// Whether this rank looks again and again for a moment before it sleeps: where ranks do not outnumber cores, or as `KUMIKI_SPIN` says.
    pub fn spins(&self) -> bool {
        self.core.waiting.spin_ns.load(Ordering::Relaxed) > 0 && !self.core.pace.sleeps_at_once()
    }

    /// The ranks of this rank's node, in order.
    pub fn node_ranks(&self) -> Vec<u32> {
        (0..self.ranks()).filter(|&rank| self.node_of(rank) == Some(self.core.node)).collect()
    }

    /// Waits until every rank has come here. It orders what came before it on every rank, but does not complete
    /// operations: call [`complete_all`](Self::complete_all) first if others are to see them.
    ///
    /// A rank that finalizes or drops its world has not come here: then everybody gets [`PeerLost`](Error::PeerLost) for
    /// it. After an error the rank is still in the barrier, and the next call goes on with it.
    pub fn sync(&self) -> Result<()> {
        self.core.note(self.core.barrier(Activity::Barrier, None))
    }

    /// As [`sync`](Self::sync), for at most this long. After [`Timeout`](Error::Timeout) the rank is still in the
    /// barrier; the next call goes on waiting.
    pub fn sync_for(&self, limit: Duration) -> Result<()> {
        self.core.note(self.core.barrier(Activity::Barrier, Some(deadline_after(limit))))
    }

    /// As [`sync_for`](Self::sync_for), for whoever goes on after an error: it does not count as one that this world has returned.
    pub fn meet_for(&self, limit: Duration) -> Result<()> {
        self.core.barrier(Activity::Barrier, Some(deadline_after(limit)))
    }

    /// Whether time passes only while all ranks sleep, as that of a simulation: whoever waits there is woken by what comes, not by time.
    pub fn sleeps_at_once(&self) -> bool {
        self.core.pace.sleeps_at_once()
    }

    /// Counts an error as one that this world has returned: for what is built on it, whose errors are not all its own.
    #[inline]
    pub fn note<T>(&self, result: Result<T>) -> Result<T> {
        self.core.note(result)
    }

    /// Whether this world has not been finalized or left.
    pub fn is_attached(&self) -> bool {
        self.attachment.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_some()
    }

    /// Whether this world has returned an error: then dropping it does not finalize it.
    pub fn has_returned_an_error(&self) -> bool {
        self.core.faulted.load(Ordering::Relaxed)
    }

    /// Ends the whole job with a message, from any rank. Does not return.
    pub fn abort(&self, message: &str) -> ! {
        self.abort_with_code(1, message)
    }

    /// As [`abort`](Self::abort), with the exit code that the job shall have; 0 would not be one of failure, and counts as 1.
    pub fn abort_with_code(&self, code: u8, message: &str) -> ! {
        let code = code.max(1);
        // A simulated rank is a thread: the others go on, or end with the run.
        if self.core.services.may_unwind {
            std::panic::panic_any(format!("rank {} aborts: {message}", self.rank()));
        }
        // In a forked child the engine may be held by a thread that does not exist there.
        let forked = process::is_forked_child();
        let channel = if forked { None } else { self.core.machine().channel.clone() };
        match channel {
            Some(channel) if channel.send(&ToAgent::Abort { code, message: message.to_string() }).is_ok() => {
                self.await_end(&channel, message);
            }
            _ => report::print(&format!("rank {} aborts: {message}", self.rank())),
        }
        std::process::exit(code.into())
    }

    /// Waits for the end of the job that this rank has asked for.
    fn await_end(&self, channel: &Channel, message: &str) {
        let seat = self.attachment.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let ends_itself = seat.as_ref().is_some_and(|seat| seat.attachment.is_foreign());
        drop(seat);
        let shared = self.core.arena.shared();
        // An agent that is our parent ends this process. Who was started by somebody else ends by itself, once the others
        // know. If nothing of that happens, we do not wait for ever.
        let until_ms = time::now_ms() + 5_000;
        while time::now_ms() < until_ms {
            if ends_itself && (shared.phase() == Phase::Aborting || channel.try_receive().is_err()) {
                break;
            }
            futex::wait(shared.phase_word(), shared.phase() as u32, if ends_itself { 50 } else { 1_000 });
        }
        // The job may have been ending before, for another reason, or with nobody left who could report.
        let beginning: String = message.chars().take(40).collect();
        if ends_itself && !shared.reason().contains(&beginning) {
            report::print(&format!("rank {} aborts: {message}", self.rank()));
        }
    }

    /// Renumbers the ranks and starts over: every rank calls this with its new number, all different. Regions are
    /// gone, starter memory is zero. When the numbers cannot be, every rank gets the error, and has left the world.
    pub fn reset(self, new_rank: u32) -> Result<World> {
        self.reset_in_place(new_rank, || false)
    }

    /// The same for what is built on a world, and ends with it: of this one nothing is left to do but to drop it. `work` is what that has to
    /// do until all have come, as in [`finalize_in_place`](Self::finalize_in_place).
    pub fn reset_in_place(&self, new_rank: u32, work: impl FnMut() -> bool) -> Result<World> {
        if self.core.services.may_unwind {
            return Err(Error::misuse(
                "reset of a simulated rank: it keeps its number to the end of the run; start another run instead",
            ));
        }
        self.core.check_not_forked()?;
        // A number that cannot be is not refused here: all ranks must hear of it, from the agents.
        self.core.quiesce();
        self.core.note(self.core.meet_while(Activity::Reset, work))?;
        let mut attachment = self.close(true)?.attachment;
        self.core.pass_on();
        if let Some(channel) = attachment.channel.clone() {
            match renumber(&channel, new_rank) {
                Ok(rank) => attachment.rank = rank,
                Err(error) => {
                    // All ranks are refused alike, and none has a world any more: each leaves in good order.
                    let _ = attachment.leave();
                    return Err(error);
                }
            }
        } else if new_rank != 0 {
            return Err(Error::misuse(format!("reset to rank {new_rank}: there is one rank")));
        } else {
            attachment.arena.clear()?;
            attachment.arena.prepare_rank(attachment.local)?;
        }
        World::attach(attachment, self.core.services.table)
    }

    /// Completes this rank's operations, waits for all ranks to finalize, and leaves. Dropping a world does the same, but
    /// cannot tell what went wrong; and a world that has returned an error is not finalized by dropping it: the rank then
    /// counts as lost.
    ///
    /// All ranks finalize together. If others come to a [`sync`](Self::sync) instead, nobody gets past it: they get
    /// [`PeerLost`](Error::PeerLost) for this rank, this rank gets [`Misuse`](Error::Misuse), and the job is reported as
    /// failed because of it. The same holds for a rank that returns early and so drops its world. A rank that gives up
    /// while others go on can say why with [`abort`](Self::abort).
    pub fn finalize(self) -> Result<()> {
        self.finalize_in_place(|| false)
    }

    /// The same for what is built on a world, and ends with it: of this one nothing is left to do but to drop it. Until all ranks have come
    /// `work` is called again and again, and says whether it has something left to do.
    pub fn finalize_in_place(&self, work: impl FnMut() -> bool) -> Result<()> {
        self.core.check_not_forked()?;
        let completed = self.complete_all();
        let met = self.core.meet_while(Activity::Finalize, work);
        let mut seat = self.close(met.is_ok())?;
        // Whoever finalizes while others go on does not leave in good order: it is lost to them.
        if !matches!(met, Err(Error::Misuse(_))) {
            seat.attachment.leave()?;
        }
        completed.and(met)
    }

    /// Leaves without waiting for the others, who may go on: to them this rank has left. `work` is called again and again while it has
    /// something left to do, but not for longer than the limit. Of this world nothing is left to do but to drop it.
    pub fn depart_in_place(&self, limit: Duration, mut work: impl FnMut() -> bool) -> (Result<()>, Hosting) {
        let closed = self.core.check_not_forked().and_then(|()| {
            let completed = self.complete_all();
            let until_ms = deadline_after(limit);
            while work() && time::now_ms() < until_ms && self.core.check_usable().is_ok() {}
            // Whoever waits in one for this rank need not find out by itself.
            self.core.leave_teams();
            let left_ms = until_ms.saturating_sub(time::now_ms());
            kumiki_net::event!(info, rank = self.core.rank.0, together = false, "leaves the world");
            Ok((completed, self.close_within(left_ms.max(CLOSE_MS))?))
        });
        match closed {
            Ok((completed, mut seat)) => {
                let (left, hosting) = seat.attachment.depart();
                (completed.and(left.map_err(Error::from)), hosting)
            }
            Err(error) => (Err(error), Hosting::default()),
        }
    }

    /// Ends the engine and the service thread; what is left is the seat. What waits to be sent has the peer timeout for it if
    /// all ranks close together, `met`; else others may go on to ask for ever, and are left to their agents soon.
    fn close(&self, met: bool) -> Result<Seat> {
        kumiki_net::event!(info, rank = self.core.rank.0, together = met, "leaves the world");
        self.close_within(if met { self.core.arena.config().peer_timeout_ms.into() } else { CLOSE_MS })
    }

    /// The same; what waits to be sent has so long for it.
    fn close_within(&self, longest_ms: u64) -> Result<Seat> {
        let seat = self.attachment.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let seat = seat.ok_or_else(|| Error::Closed("the world has been finalized".into()))?;
        self.close_transport(longest_ms);
        self.core.closed.store(true, Ordering::Release);
        self.stop_service();
        Ok(seat)
    }

    /// Sends what waits to be sent, the last signal of a barrier above all, and takes leave of every peer.
    fn close_transport(&self, longest_ms: u64) {
        let started_ms = time::now_ms();
        let mut sent_ms = started_ms;
        loop {
            let mut machine = self.core.machine();
            let (closing, polled) = machine.close(&self.core);
            let now_ms = time::now_ms();
            let over = match closing {
                Closing::Closed => return,
                Closing::Parting => now_ms > sent_ms + self.route.longer(CLOSE_MS),
                Closing::Sending => {
                    sent_ms = now_ms;
                    now_ms > started_ms + longest_ms
                }
            };
            if over || polled.is_err() {
                return;
            }
            let sleeper = machine.sleeper.clone();
            drop(machine);
            if let Some(sleeper) = sleeper {
                let _ = sleeper.sleep(1);
            }
        }
    }

    fn stop_service(&self) {
        let service = self.service.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(thread) = service {
            let sleeper = self.core.machine().sleeper.clone();
            if let Some(sleeper) = sleeper {
                sleeper.wake();
            }
            self.core.waiting.service.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&self.core.waiting.service);
            let _ = thread.join();
        }
        let mut machine = self.core.machine();
        machine.transports.clear();
        machine.sleeper = None;
        // Regions may outlive the world, and hold the machine. The line to the agent must not: its end tells that a rank that has
        // not left lets go of the world. The seat keeps it for as long as there is something to say.
        machine.channel = None;
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
        let mut machine = self.core.machine();
        let config = self.core.arena.config();
        let most_connections = most_connections(self.route.has_files())?;
        let setup = Setup {
            arena: self.core.arena.clone(),
            rank: self.core.rank,
            job: self.job,
            secret: self.secret.clone(),
            // Half of the room is for those who call us.
            connection_cap: (config.connection_cap as usize).min(most_connections / 2),
            most_connections,
            pacing: Pacing::from_environment()?,
            multipath: multipath::is_wanted()?,
            route: self.route.clone(),
            accounts: Arc::new(Connections(Arc::downgrade(&self.core))),
            callers: machine.callers.clone(),
        };
        let channel = machine.channel.clone();
        let mut given = self.given.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_given = given.is_some();
        let mut transport = match given.take() {
            Some(transport) => transport,
            None => {
                let tcp = Tcp::new(setup, channel.as_ref().map(|channel| channel.as_fd()))?;
                hook::wrap(Box::new(tcp), self.core.rank, frames::name)?
            }
        };
        let (fixed, stack, thread) = match self.prepare_service(&mut *transport) {
            Ok(prepared) => prepared,
            Err(error) => {
                // There is no other of its kind: the next try finds it again.
                *given = Some(transport).filter(|_| is_given);
                return Err(error);
            }
        };
        drop(given);
        machine.install(transport);
        fixed.keep();
        stack.keep();
        if let (Some((thread, begin)), Some(sleeper)) = (thread, machine.sleeper.clone()) {
            // It waits for this.
            let _ = begin.send(sleeper);
            *service = Some(thread);
        }
        drop(machine);
        self.core.has_transport.store(true, Ordering::Release);
        Ok(())
    }

    /// Books what a transport takes, and starts the thread that serves it, if it needs one. The thread comes first: whoever finds
    /// a transport counts on somebody who serves.
    fn prepare_service(
        &self,
        transport: &mut dyn Transport,
    ) -> Result<(Booking, Booking, Option<ServiceThread>)> {
        transport.serve_with(Arc::downgrade(&self.core) as Weak<dyn Server>);
        let served = transport.capabilities().serves_by_itself;
        let fixed = Booking::new(&self.core, Purpose::Connection, transport.footprint().fixed_bytes)?;
        let stack_bytes = if served { 0 } else { SERVICE_STACK_BYTES as u64 };
        let stack = Booking::new(&self.core, Purpose::Thread, stack_bytes)?;
        let thread = if served { None } else { Some(self.start_service()?) };
        Ok((fixed, stack, thread))
    }

    /// A service thread that begins to serve when it is told how to sleep, and ends if nobody does.
    fn start_service(&self) -> Result<ServiceThread> {
        let core = self.core.clone();
        let (begin, told) = sync_channel::<Arc<dyn Sleeper>>(1);
        let thread = std::thread::Builder::new()
            .name("kumiki-service".into())
            .stack_size(SERVICE_STACK_BYTES)
            .spawn(move || {
                machine::prefer_short_slices();
                machine::wake_on_time();
                if let Ok(sleeper) = told.recv() {
                    core.serve(&*sleeper);
                }
            });
        let failed =
            |error: std::io::Error| Error::System { call: "clone", errno: error.raw_os_error().unwrap_or(0) };
        Ok((thread.map_err(failed)?, begin))
    }

    /// The books as they stand.
    pub fn ledger(&self) -> Ledger {
        let core = &self.core;
        let footprint = if process::is_forked_child() {
            Footprint::default()
        } else {
            core.machine().transports.footprint()
        };
        // A transport of ours books what it takes; that of a simulation is measured.
        if core.services.may_unwind && footprint.fixed_bytes > 0 {
            let bytes = footprint.fixed_bytes
                + footprint.connected * footprint.bytes_per_connection
                + footprint.queued_bytes;
            core.books.set(Purpose::Connection, bytes);
        }
        // Neighbours change the pool of this rank, so its bytes are measured; they are in the total already.
        let pool_bytes = self.local().pool(self.rank()).map_or(0, |pool| pool.len());
        core.books.note(Purpose::Data, pool_bytes);
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
            bytes_per_region: RECORD_BYTES,
            page_table_bytes: crate::drive::measure::page_table_bytes(),
        }
    }

    /// Regions and free ranges that this rank's tables hold.
    pub fn region_count(&self) -> usize {
        self.core.region_count()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.let_go(|| false);
    }
}

impl World {
    /// What dropping a world does, for what is built on it: `work` is called until all have come, as in
    /// [`finalize_in_place`](Self::finalize_in_place). After an error it is not.
    pub fn let_go(&self, work: impl FnMut() -> bool) {
        if !self.is_attached() || process::is_forked_child() {
            return;
        }
        let (mut clean, mut met) = (false, false);
        // After an error the program most likely did not get to its end, and the others need not wait to learn that. If it
        // failed for a reason of its own, it comes here to leave, and a barrier of those who go on fails for all.
        if !std::thread::panicking() && !self.core.faulted.load(Ordering::Relaxed) {
            let completed = self.complete_all();
            met = self.core.meet_while(Activity::Finalize, work).is_ok();
            clean = met && completed.is_ok();
        }
        // A rank that did not get this far in good order is left to its agent, which tells the others.
        if let Ok(mut seat) = self.close(met) {
            if clean {
                let _ = seat.attachment.leave();
            }
        }
    }
}

impl Drive {
    /// Waits until no operation of the program is incomplete, whatever became of them.
    pub(crate) fn quiesce(&self) {
        // What a closed world has left incomplete stays so: nothing comes or goes any more.
        if self.pending.load(Ordering::Acquire) == 0 || self.closed.load(Ordering::Acquire) {
            return;
        }
        let _ = self.wait_until(Activity::Complete, None, |engine| {
            engine.operations.holds(Condition::UpTo(FIRST_INTERNAL - 1)).then_some(())
        });
    }
}

/// An environment variable of the table in `kumiki-net`; an empty one counts as not set.
pub fn variable(name: &'static str) -> Result<Option<String>> {
    Ok(environment::text(name)?)
}

/// Rank and size of this process in its job, as whoever started it says.
pub fn place_in_job() -> Result<(u32, u32)> {
    Ok(bootstrap::place_in_job()?)
}

/// Initialises the MPI that this process was linked with, if that is needed to find the others: whether it did.
pub fn start_mpi() -> bool {
    bootstrap::start_mpi()
}

/// Finalizes the MPI of this process, if it runs.
pub fn stop_mpi() {
    kumiki_net::os::mpi::stop();
}

/// Whether somebody else is the reason that a world could not be joined.
fn is_broken(error: &Error) -> bool {
    matches!(error, Error::PeerLost { .. } | Error::Closed(_))
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

/// The drive of an attachment. (Apart from its caller, as are `Node::new` and `Drive::new`: each has large things on its stack that are
/// gone when it returns.)
#[inline(never)]
fn drive_for(
    attachment: &Attachment,
    services: &'static [Service],
    given: Option<Capabilities>,
) -> Result<Arc<Drive>> {
    let config = *attachment.arena.config();
    let bytes = std::mem::size_of::<Drive>() as u64 + 1024;
    let has_agent = attachment.channel.is_some();
    // A rank that comes with its transport is a thread of a simulation, which crashes by unwinding to its end.
    let simulated = given.is_some();
    let memory = Node::new(attachment.arena.clone(), attachment.rank, has_agent, !simulated, bytes)?;
    let services = Services { table: services, may_unwind: simulated };
    let pace = Pace::new(given.is_some_and(|given| given.sleeps_at_once));
    let waiting = Waiting {
        spin_ns: AtomicU64::new(spin_ns(&config)?),
        crowd: config.machine_ranks / config.machine_cores.max(1),
        ..Waiting::default()
    };
    let most_operations = config.operation_cap as usize;
    Ok(Drive::new(memory, attachment.channel.clone(), services, waiting, pace, most_operations))
}

/// How long to spin: not at all when ranks outnumber cores.
fn spin_ns(config: &kumiki_net::shm::arena::Config) -> Result<u64> {
    match environment::text("KUMIKI_SPIN")?.as_deref() {
        None | Some("auto") => {}
        Some(text) => {
            let wrong =
                |_| Error::misuse(format!("KUMIKI_SPIN={text}: write microseconds such as 50, or auto"));
            return text.parse::<u64>().map(|microseconds| microseconds.saturating_mul(1_000)).map_err(wrong);
        }
    }
    Ok(if config.machine_ranks <= config.machine_cores { SPIN_NS } else { 0 })
}

/// How many connections the limit on descriptors leaves room for, if they may have to go through files or not.
fn most_connections(has_files: bool) -> Result<usize> {
    let (soft, _) = descriptor::limit();
    let each = if has_files { STREAM_DESCRIPTORS } else { 1 };
    let room = soft.saturating_sub(OTHER_DESCRIPTORS + neighbours::descriptors(soft)) / each;
    if room < LEAST_CONNECTIONS {
        let least = OTHER_DESCRIPTORS + LEAST_CONNECTIONS * each;
        return Err(Error::Refused(format!(
            "a rank needs at least {least} open files, the limit is {soft}: raise it (ulimit -n {least})"
        )));
    }
    Ok(room as usize)
}

pub(crate) fn deadline_after(limit: Duration) -> u64 {
    time::now_ms().saturating_add(limit.as_millis().min(u64::MAX as u128) as u64)
}
