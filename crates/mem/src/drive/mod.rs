//! The drive: who polls, who sleeps, and the world that a program holds.
//!
//! | file | what |
//! |---|---|
//! | `world.rs` | [`World`](crate::World): init, finalize, who is who, the ledger |
//! | `issue.rs` | copies, atomics, completion, and the typed calls that wait for themselves |
//! | `awaited.rs` | copies of memory whose owner waits for them |
//! | `region.rs`, `vouched.rs` | memory that a program gives to all ranks, and takes back; and that of programs in other languages |
//! | `cells.rs` | registered memory in the hands of its owner |
//! | `call.rs` | calls: work that another rank does for us |
//! | `barrier.rs`, `team.rs` | how all ranks meet, and how those of a team do |
//! | `errand.rs` | atomics on private memory of a neighbour that polls |
//! | `transports.rs` | who is reached by which transport; the engine and what moves its messages, together |
//! | `wait.rs`, `pace.rs`, `patience.rs`, `naps.rs`, `service.rs` | threads that wait, how time passes for them, how long they spin, how they sleep, and the one that serves when none waits |
//! | `pending.rs` | puts and gets of memory that is owned or borrowed meanwhile, and futures |
//! | `loans.rs` | memory that a scope lends by address |
//! | `section.rs` | copies of shapes, and puts with a signal |
//! | `word.rs` | waiting for a word of one's own memory |
//! | `accounts.rs`, `measure.rs` | what it all costs |

pub(crate) mod accounts;
mod awaited;
pub(crate) mod barrier;
pub(crate) mod call;
pub(crate) mod cells;
pub(crate) mod errand;
pub(crate) mod issue;
pub(crate) mod loans;
pub(crate) mod measure;
pub(crate) mod naps;
mod pace;
mod patience;
pub(crate) mod pending;
pub(crate) mod region;
#[cfg(test)]
mod region_promises;
pub(crate) mod section;
mod service;
pub(crate) mod team;
pub(crate) mod transports;
pub(crate) mod vouched;
pub(crate) mod wait;
pub(crate) mod word;
pub(crate) mod world;

use crate::engine::barrier::{Passage, WORLD};
use crate::engine::calls::Services;
use crate::engine::{Engine, Report};
use crate::error::PROCESS_GONE;
use crate::node::Node;
use crate::{Error, Result};
use errand::Manners;
use kumiki_net::agent::channel::{Channel, ToAgent};
use kumiki_net::contract::Server;
use kumiki_net::os::descriptor::Event;
use kumiki_net::os::{process, time};
use kumiki_net::shm::world::Status;
use kumiki_net::Rank;
use pace::Pace;
use pending::Futures;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use team::Teams;
use transports::Machine;

/// How often a thread that polls yields to one that waits for the engine: about as long as it takes to wake that.
const WAYS: u32 = 256;

/// How long the agent may take to say how a process ended that is no longer there.
const ENDING_MS: u64 = 200;

/// What every part of a world shares in one process: the memory of its node, the machine, and who waits for it.
pub(crate) struct Drive {
    memory: Node,
    /// Operations incomplete, or failed and not told: 0 means that completing is free.
    pub(crate) pending: AtomicU64,
    pub(crate) next_handle: AtomicU64,
    /// The most operations that may be incomplete at once.
    most_operations: usize,
    /// When to leave errands at neighbours.
    manners: Manners,
    /// Whether there is a transport, so that waiting means polling.
    has_transport: AtomicBool,
    /// How time passes for whoever waits.
    pub(crate) pace: Pace,
    /// What this rank does for others.
    services: Services,
    machine: Mutex<Machine>,
    pub(crate) waiting: Waiting,
    /// Raised when an operation completes; made when somebody first asks for it.
    completion: OnceLock<Event>,
    /// How many barriers this rank has entered.
    epoch: AtomicU64,
    /// A barrier that was entered and given up because of a deadline.
    passage: Mutex<Option<Passage>>,
    /// The teams that this rank is in.
    teams: Mutex<Teams>,
}

/// What can be done with the memory of the node can be done by whoever holds the drive.
impl Deref for Drive {
    type Target = Node;

    #[inline(always)]
    fn deref(&self) -> &Node {
        &self.memory
    }
}

/// How threads of this process share the work of waiting.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Goes up whenever a thread starts to poll inline, or sends something.
    pub(crate) inline_turns: AtomicU64,
    /// Threads polling inline, spinning or asleep in the sleeper, or sending.
    pub(crate) inline: AtomicU32,
    /// Whether a thread sleeps in the sleeper for all.
    pub(crate) poller: AtomicBool,
    /// Changes when something completed; the other threads sleep on it.
    pub(crate) progress: AtomicU32,
    /// Threads that sleep on `progress`.
    pub(crate) sleepers: AtomicU32,
    /// The service thread sleeps on this while a thread polls inline.
    pub(crate) service: AtomicU32,
    /// Whether it does.
    pub(crate) service_parked: AtomicBool,
    /// Whether it sleeps for so long that messages which were kept back must wake it: on that word, or in the sleeper.
    pub(crate) service_naps: AtomicBool,
    pub(crate) service_sleeps: AtomicBool,
    /// Not zero while a transport keeps messages to send them together; another number for each time.
    pub(crate) kept: AtomicU32,
    /// How often one has begun to.
    pub(crate) times_kept: AtomicU32,
    /// Threads asleep on a word of the arena: the service thread may spin for them.
    pub(crate) arena_sleepers: AtomicU32,
    /// Threads that look for something in their memory which only messages bring, and may sleep where those come in.
    pub(crate) for_messages: AtomicU32,
    /// How long to spin before sleeping.
    pub(crate) spin_ns: AtomicU64,
    /// Threads that wait for the engine while another has it.
    pub(crate) for_engine: AtomicU32,
    /// How many ranks share a core of this machine.
    pub(crate) crowd: u32,
    /// Whether the last look of a thread that waits for memory left answers that were kept.
    pub(crate) keeps: AtomicBool,
    /// Whether a thread has left answers that may wait for long, and whether the service thread looks at them soon without being told.
    pub(crate) late: AtomicBool,
    pub(crate) minds_late: AtomicBool,
    /// What a thread waited for last, for whom, since when, and until when it counts as the same wait if it is begun again.
    pub(crate) paused: AtomicU64,
    pub(crate) paused_since_ms: AtomicU64,
    pub(crate) paused_until_ms: AtomicU64,
    /// Futures that wait for an operation.
    pub(crate) futures: Futures,
}

/// A thread that is at work with the engine: the service thread keeps out of its way.
pub(crate) struct Busy<'a>(&'a AtomicU32);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Waiting {
    /// Counts this thread among those that poll inline, or send, until what it gives is dropped.
    #[inline]
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.inline.fetch_add(1, Ordering::SeqCst);
        Busy(&self.inline)
    }
}

impl Server for Drive {
    fn serve(&self) {
        // What went wrong is told to whoever waits for it.
        let _ = self.look_once(&mut |_| None::<()>);
    }
}

/// The machine, held by one thread. When it is given back, what the engine has to say is passed on.
pub(crate) struct Held<'a> {
    drive: &'a Drive,
    machine: MutexGuard<'a, Machine>,
    // Behind the machine, which is free when this is dropped.
    woken: Woken<'a>,
}

/// Wakes futures when it is dropped, if something has completed.
struct Woken<'a> {
    drive: &'a Drive,
    is_due: bool,
}

impl Drop for Woken<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_due {
            self.drive.waiting.futures.wake();
        }
    }
}

impl Deref for Held<'_> {
    type Target = Machine;

    #[inline]
    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl DerefMut for Held<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        let engine = &mut self.machine.engine;
        // For the path that completes without the lock.
        self.drive.pending.store(engine.pending(), Ordering::Release);
        if engine.take_completed() {
            self.drive.raise_completion();
            self.woken.is_due = true;
        }
        while let Some(report) = self.machine.engine.next_report() {
            self.drive.pass_on_report(report, self.machine.channel.as_ref());
        }
    }
}

impl Drive {
    #[inline(never)]
    pub(crate) fn new(
        memory: Node,
        channel: Option<Channel>,
        services: Services,
        waiting: Waiting,
        pace: Pace,
        most_operations: usize,
    ) -> Arc<Drive> {
        Arc::new(Drive {
            memory,
            pending: AtomicU64::new(0),
            next_handle: AtomicU64::new(1),
            most_operations,
            manners: Manners::default(),
            has_transport: AtomicBool::new(false),
            pace,
            services,
            machine: Mutex::new(Machine::new(Engine::new(services), channel)),
            waiting,
            completion: OnceLock::new(),
            epoch: AtomicU64::new(0),
            passage: Mutex::new(None),
            teams: Mutex::default(),
        })
    }

    #[cold]
    fn pass_on_report(&self, report: Report, channel: Option<&Channel>) {
        match report {
            Report::Lost(rank, cause) if !self.closed.load(Ordering::Acquire) => {
                kumiki_net::event!(warn, rank = self.rank.0, peer = rank.0, %cause, "a peer is missed");
                let _ = channel.map(|channel| channel.send(&ToAgent::ReportLost { rank, cause }));
            }
            Report::Lost(..) => {}
            // Whoever has not come to it yet looks when it does.
            Report::Discord(team, epoch, discord) if team != WORLD => {
                self.break_up_team(team, epoch, discord);
            }
            Report::Discord(_, epoch, discord) if epoch <= self.epoch.load(Ordering::SeqCst) => {
                self.break_up(discord);
            }
            Report::Discord(..) => {}
        }
    }

    /// Whether there is nothing to complete. Fails in a forked child, which has no operations of its own.
    #[inline]
    pub(crate) fn is_quiet(&self) -> Result<bool> {
        if process::is_forked_child() {
            self.check_usable()?;
        }
        Ok(self.pending.load(Ordering::Acquire) == 0)
    }

    /// Remembers that the program is given an error.
    #[inline]
    pub(crate) fn note<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.note_error(error))
    }

    #[cold]
    fn note_error(&self, error: Error) -> Error {
        self.faulted.store(true, Ordering::Relaxed);
        kumiki_net::event!(warn, rank = self.rank.0, %error, "an operation failed");
        match error {
            Error::PeerLost { rank, fate, why } if why == PROCESS_GONE => {
                Error::PeerLost { rank, fate, why: self.how_it_ended(Rank(rank)).unwrap_or(why) }
            }
            other => other,
        }
    }

    /// How a neighbour ended whose process is no longer there, in the words of its agent, which knows in a moment.
    fn how_it_ended(&self, rank: Rank) -> Option<String> {
        let limit_ms = time::now_ms() + ENDING_MS;
        loop {
            let place = self.arena.place(rank).map(|word| word.load());
            if let Some(place) = place.filter(|place| place.status == Status::Lost) {
                return Some(place.cause.to_string());
            }
            if time::now_ms() >= limit_ms {
                return None;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// The machine. A thread that panicked while it held it left it between two frames, which is consistent.
    #[inline]
    pub(crate) fn machine(&self) -> Held<'_> {
        let machine = match self.machine.try_lock() {
            Ok(machine) => machine,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.machine_in_turn(),
        };
        self.held(machine)
    }

    #[inline]
    fn held<'a>(&'a self, machine: MutexGuard<'a, Machine>) -> Held<'a> {
        Held { drive: self, machine, woken: Woken { drive: self, is_due: false } }
    }

    /// The machine, if nobody has it.
    #[inline]
    pub(crate) fn free_machine(&self) -> Option<Held<'_>> {
        self.machine.try_lock().ok().map(|machine| self.held(machine))
    }

    /// The machine, once another thread has done with it.
    #[cold]
    fn machine_in_turn(&self) -> MutexGuard<'_, Machine> {
        self.waiting.for_engine.fetch_add(1, Ordering::Relaxed);
        let machine = self.machine.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.waiting.for_engine.fetch_sub(1, Ordering::Relaxed);
        machine
    }

    /// Between two polls: lets those have the engine who wait for it. A lock goes to whoever asks for it first, and that is a
    /// thread which has just given it back and polls again.
    #[inline]
    pub(crate) fn make_way(&self) {
        for _ in 0..WAYS {
            if self.waiting.for_engine.load(Ordering::Relaxed) == 0 {
                return;
            }
            process::yield_now();
        }
    }

    /// Makes the completion descriptor readable, if anybody asked for one.
    #[inline(always)]
    pub(crate) fn raise_completion(&self) {
        if self.completion.get().is_some() {
            self.raise_completion_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn raise_completion_now(&self) {
        if let Some(event) = self.completion.get() {
            event.raise();
        }
    }
}
