//! What every part of a world shares: who we are, where memory is, the books, and the engine.

use crate::drive::barrier::Passage;
use crate::drive::errand::Manners;
use crate::drive::wait::Engine;
use crate::engine::calls::Service;
use crate::engine::operations::{Handle, FIRST_INTERNAL};
use crate::node::address::{AddressFormat, GlobalAddress};
use crate::node::ledger::Books;
use crate::node::neighbours::Neighbours;
use crate::node::region::Registry;
use crate::{Error, Result};
use kumiki_net::contract::{Server, IN_PLACE_BYTES};
use kumiki_net::os::descriptor::Event;
use kumiki_net::os::{process, time};
use kumiki_net::shm::arena::{Arena, Phase};
use kumiki_net::shm::control::Control;
use kumiki_net::shm::finder::Finder;
use kumiki_net::Rank;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};

/// How long payloads are copied after one was torn: who writes to memory that is being sent may well do it again.
const COPY_MS: u64 = 1_000;

/// How often a thread that polls yields to one that waits for the engine: about as long as it takes to wake that.
const WAYS: u32 = 256;

/// How often a simulated rank may look at one place before it sleeps.
const LOOKS: u32 = 8;

thread_local! {
    /// The place that a simulated rank looked at last, and how often since something came.
    static LOOKED: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// The shared state of a world in one process.
pub(crate) struct Core {
    pub(crate) format: AddressFormat,
    /// The short way to memory of this node. In a simulated world it finds nothing: there each look is counted.
    pub(crate) finder: Finder,
    pub(crate) rank: Rank,
    pub(crate) node: u32,
    pub(crate) local: u32,
    pub(crate) arena: Arc<Arena>,
    /// Operations incomplete, or failed and not told: 0 means that completing is free.
    pub(crate) pending: AtomicU64,
    pub(crate) next_handle: AtomicU64,
    pub(crate) next_internal: AtomicU64,
    /// The most operations that may be incomplete at once.
    pub(crate) most_operations: usize,
    /// Different for every world that this process has had.
    pub(crate) life: u64,
    /// Whether same-node private memory can be copied directly.
    pub(crate) process_vm: AtomicBool,
    /// Whether that has been tried, and was right.
    pub(crate) process_vm_tried: AtomicBool,
    /// The memories of neighbours for short copies.
    pub(crate) neighbours: Neighbours,
    /// When to leave errands at neighbours.
    pub(crate) manners: Manners,
    /// Whether the engine has a transport, so that waiting means polling.
    pub(crate) has_transport: AtomicBool,
    /// Set by finalize and reset: regions and pointers that outlive the world find it closed.
    pub(crate) closed: AtomicBool,
    /// Whether time and messages are the simulator's: then waiting is sleeping.
    pub(crate) simulated: bool,
    /// Whether the program was ever given an error: dropping the world then does not finalize it.
    pub(crate) faulted: AtomicBool,
    /// Bytes taken from the machine since it was last asked what it can still give.
    pub(crate) taken_unasked: AtomicU64,
    /// Until when payloads are copied before they are sent: one that was not was torn.
    pub(crate) copies_until_ms: AtomicU64,
    pub(crate) books: Books,
    /// What this rank does for others: the table of the layer above.
    pub(crate) services: &'static [Service],
    pub(crate) registry: Mutex<Registry>,
    pub(crate) engine: Mutex<Engine>,
    pub(crate) waiting: Waiting,
    /// Raised when an operation completes; made when somebody first asks for it.
    pub(crate) completion: OnceLock<Event>,
    /// How many barriers this rank has entered.
    pub(crate) epoch: AtomicU64,
    /// A barrier that was entered and given up because of a deadline.
    pub(crate) passage: Mutex<Option<Passage>>,
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
    /// Not zero while the transport keeps messages to send them together; another number for each time.
    pub(crate) kept: AtomicU32,
    /// Threads asleep on a word of the arena: the service thread may spin for them.
    pub(crate) arena_sleepers: AtomicU32,
    /// How long to spin before sleeping.
    pub(crate) spin_ns: AtomicU64,
    /// Threads that wait for the engine while another has it.
    pub(crate) for_engine: AtomicU32,
    /// How many ranks share a core of this machine.
    pub(crate) crowd: u32,
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

impl Server for Core {
    fn serve(&self) {
        // What went wrong is told to whoever waits for it.
        let _ = self.poll_once(&mut |_| None::<()>);
    }
}

impl Core {
    /// The control block of this rank.
    #[inline]
    pub(crate) fn control(&self) -> &Control {
        self.arena.control(self.local).expect("this rank has a control block")
    }

    /// Ranks of the world.
    #[inline]
    pub(crate) fn ranks(&self) -> u32 {
        self.arena.config().ranks
    }

    /// Whether a payload of so many bytes may be sent from where it lies.
    pub(crate) fn sends_in_place(&self, bytes: u64) -> bool {
        bytes >= IN_PLACE_BYTES && time::now_ms() >= self.copies_until_ms.load(Ordering::Relaxed)
    }

    /// A payload was torn: the next ones are copied.
    pub(crate) fn copy_for_a_while(&self) {
        self.copies_until_ms.store(time::now_ms() + COPY_MS, Ordering::Relaxed);
    }

    /// Fails in a forked child.
    pub(crate) fn check_not_forked(&self) -> Result<()> {
        if process::is_forked_child() {
            return Err(Error::misuse(
                "this process is a fork of a rank; only the rank itself may use the world (start programs with \
                 exec or posix_spawn instead)",
            ));
        }
        Ok(())
    }

    /// Fails in a forked child, after finalize, and when the job is ending.
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.check_not_forked()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed("the world has been finalized".into()));
        }
        self.check_job()
    }

    /// Fails when the job is ending.
    pub(crate) fn check_job(&self) -> Result<()> {
        if self.arena.shared().phase() == Phase::Aborting {
            return Err(Error::Closed(format!("the job is ending: {}", self.arena.shared().reason())));
        }
        Ok(())
    }

    /// In simulated time, memory changes only while its reader sleeps: a rank that looks at one place again and again
    /// sleeps until something comes.
    #[cold]
    pub(crate) fn breathe(&self, address: GlobalAddress) -> Result<()> {
        if !self.simulated {
            return Ok(());
        }
        let (last, times) = LOOKED.get();
        let times = if last == address.bits() { times + 1 } else { 0 };
        LOOKED.set((address.bits(), times));
        if times >= LOOKS {
            let sleeper = self.engine().sleeper.clone();
            if let Some(sleeper) = sleeper {
                let _ = sleeper.sleep(1);
            }
            self.poll_once(&mut |_| None::<()>).1?;
        }
        Ok(())
    }

    /// Something has come: whoever looks again may find what it looks for.
    pub(crate) fn forget_looks(&self) {
        LOOKED.set((0, 0));
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
    pub(crate) fn note<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.faulted.store(true, Ordering::Relaxed);
        }
        result
    }

    /// The next number for an operation of the program: for one that is complete, or with the engine held for one that enters
    /// the table now.
    #[inline]
    pub(crate) fn new_handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// The handle of an operation that is complete, with everything before it if `all` was, and that needs no number of its own
    /// then: nobody ever has to wait for it. Threads that copy on the node would get in each other's way at the counter.
    #[inline]
    pub(crate) fn handle_of_done(&self, all: bool) -> Handle {
        match all {
            true => Handle::DONE,
            false => Handle::from_number(self.new_handle()),
        }
    }

    /// The next number for an operation that nobody holds a handle to.
    pub(crate) fn new_internal(&self) -> u64 {
        FIRST_INTERNAL | self.next_internal.fetch_add(1, Ordering::Relaxed)
    }

    /// The engine. A thread that panicked while it held it left it between two frames, which is consistent.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.engine_in_turn(),
        }
    }

    /// The engine, once another thread has done with it.
    #[cold]
    fn engine_in_turn(&self) -> MutexGuard<'_, Engine> {
        self.waiting.for_engine.fetch_add(1, Ordering::Relaxed);
        let engine = self.engine.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.waiting.for_engine.fetch_sub(1, Ordering::Relaxed);
        engine
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

    /// The registry, likewise.
    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Makes the completion descriptor readable, if anybody asked for one.
    #[inline]
    pub(crate) fn raise_completion(&self) {
        if let Some(event) = self.completion.get() {
            event.raise();
        }
    }
}
