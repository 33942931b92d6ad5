//! Real programs in virtual time: ranks that are threads of this process, over a network that is simulated.
//!
//! A [`Cluster`] runs a function once for each rank. The function gets an attachment, makes a world of it
//! (`World::attach`), and uses the ordinary interface: there are no sockets, no processes and no real clock. One rank
//! runs at a time, and the order depends on nothing but the network, the seed and the program, so a run that failed can
//! be repeated.
//!
//! Each rank is a node of its own to the program. What it computes takes no time unless it says so with [`compute`]. Messages
//! are packets in the network of the engine: they meet on links and in buffers, are routed and paced. A rank that waits
//! sleeps until its next message or deadline. A rank that
//! computes is served all the same, as by the service thread of a real one. [`Faults`] break things on purpose.
//!
//! | file | what |
//! |---|---|
//! | `hall` | whose turn it is: the events and the threads that wait for them |
//! | `agenda` | what will happen, by time |
//! | `transport` | the contract of `kumiki-net`, over the hall |
//! | `carrier` | messages on the packet network |
//! | `faults` | what goes wrong, by seed |
//!
//! Not simulated: `reset` and operations by a second thread of a rank, which are refused as misuse; waiting for anything
//! but the world (a mutex shared by two ranks, say).

mod agenda;
mod carrier;
mod faults;
mod hall;
mod transport;

pub use faults::{Crash, Faults, LinkOutage, Outage, Wire};

use crate::{Error, Network, Pacing, Time};
use hall::{Hall, Limits};
use kumiki_net::agent::bootstrap::Attachment;
use kumiki_net::auth::JobId;
use kumiki_net::environment;
use kumiki_net::os::time as clock;
use kumiki_net::shm::arena::Arena;
use kumiki_net::terms::Terms;
use kumiki_net::Rank;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

/// The stack of a simulated rank.
const STACK_BYTES: usize = 512 << 10;
/// The most ranks of a cluster.
const MAX_RANKS: u32 = 4096;

/// Simulated machines, and what is to go wrong on them.
///
/// ```
/// use kumiki_sim::{Cluster, Network};
/// let cluster = Cluster::new(4, Network::torus(&[4])).seed(7);
/// let outcome = cluster.run(|attachment| attachment.rank.0 * 2).unwrap();
/// assert_eq!(outcome.values(), Ok(vec![0, 2, 4, 6]));
/// ```
#[derive(Clone, Debug)]
pub struct Cluster {
    ranks: u32,
    network: Network,
    seed: u64,
    faults: Faults,
    starter_bytes: u64,
    budget_bytes: u64,
    peer_timeout: Duration,
    limits: Limits,
    pacing: Pacing,
}

/// How the part of one rank ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End<T> {
    /// The function returned.
    Returned(T),
    /// The function panicked, with this message.
    Panicked(String),
    /// A fault crashed the rank.
    Crashed,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<T> {
    /// The seed, to repeat it.
    pub seed: u64,
    /// The time at which the last rank ended.
    pub time: Time,
    /// Messages that were sent.
    pub messages: u64,
    /// Their bytes, headers not counted.
    pub bytes: u64,
    /// Packets that came through the network, those that were sent again included, and their hops.
    pub packets: u64,
    /// See [`packets`](Self::packets).
    pub packet_hops: u64,
    /// Packets that faults took.
    pub lost: u64,
    /// How each rank ended.
    pub ends: Vec<End<T>>,
}

impl<T> Outcome<T> {
    /// What the ranks returned, if all of them did; otherwise who did not and why, with the seed.
    pub fn values(self) -> Result<Vec<T>, String> {
        let seed = self.seed;
        let value = |(rank, end)| match end {
            End::Returned(value) => Ok(value),
            End::Panicked(why) => Err(format!("rank {rank} panicked (seed {seed}): {why}")),
            End::Crashed => Err(format!("rank {rank} crashed (seed {seed})")),
        };
        self.ends.into_iter().enumerate().map(value).collect()
    }
}

/// Runs `body` once for each rank of a network without faults: [`Cluster`] with what it has by itself.
pub fn run<T: Send>(
    ranks: u32,
    network: Network,
    body: impl Fn(Attachment) -> T + Sync,
) -> Result<Outcome<T>, Error> {
    Cluster::new(ranks, network).run(body)
}

thread_local!(static HERE: RefCell<Option<(Arc<Hall>, u32)>> = const { RefCell::new(None) });

/// Spends simulated time computing. Does nothing in a thread that is not a simulated rank.
pub fn compute(time: Time) {
    let here = HERE.with(|here| here.borrow().clone());
    if let Some((hall, rank)) = here {
        hall.compute(rank, time);
    }
}

/// Whether this thread is one of a simulated rank.
fn is_rank() -> bool {
    HERE.with(|here| here.borrow().is_some())
}

/// The simulated time; `None` in a thread that is not a simulated rank.
pub fn now() -> Option<Time> {
    HERE.with(|here| here.borrow().as_ref().map(|(hall, _)| hall.now()))
}

impl Cluster {
    /// So many ranks on a network, each on a node of its own.
    pub fn new(ranks: u32, network: Network) -> Cluster {
        Cluster {
            ranks,
            network,
            seed: 0,
            faults: Faults::default(),
            starter_bytes: 4096,
            budget_bytes: u64::MAX,
            peer_timeout: Duration::from_secs(15),
            limits: Limits {
                patience: Time::from_seconds(600.0),
                time: Time::from_seconds(6.0 * 3600.0),
                messages: 20_000_000,
            },
            pacing: Pacing::Off,
        }
    }

    /// What everything that is drawn depends on.
    pub fn seed(mut self, seed: u64) -> Cluster {
        self.seed = seed;
        self
    }

    /// What goes wrong.
    pub fn faults(mut self, faults: Faults) -> Cluster {
        self.faults = faults;
        self
    }

    /// Bytes of starter memory of each rank.
    pub fn starter_bytes(mut self, bytes: u64) -> Cluster {
        self.starter_bytes = bytes;
        self
    }

    /// The budget of each rank.
    pub fn budget_bytes(mut self, bytes: u64) -> Cluster {
        self.budget_bytes = bytes;
        self
    }

    /// How long a peer may be unreachable before it counts as lost.
    pub fn peer_timeout(mut self, timeout: Duration) -> Cluster {
        self.peer_timeout = timeout;
        self
    }

    /// For how long of simulated time nothing may arrive anywhere before the run counts as stuck.
    pub fn patience(mut self, patience: Time) -> Cluster {
        self.limits.patience = patience;
        self
    }

    /// The simulated time after which the run counts as stuck, whatever still moves (ranks that wait ask each other now and
    /// then whether they are still there).
    pub fn limit(mut self, limit: Time) -> Cluster {
        self.limits.time = limit;
        self
    }

    /// How many messages the ranks may send together before the run counts as stuck; 20 million by default. A loop that sends
    /// without end lets simulated time pass too slowly to be caught by [`limit`](Self::limit).
    pub fn most_messages(mut self, messages: u64) -> Cluster {
        self.limits.messages = messages;
        self
    }

    /// The idle time between two packets of a message: off, a time, or by hops.
    pub fn pacing(mut self, pacing: Pacing) -> Cluster {
        self.pacing = pacing;
        self
    }

    /// Runs `body` once for each rank, to the end of all of them.
    ///
    /// # Errors
    /// When there are too many ranks for the network, when the network is no network, and when the ranks are stuck:
    /// everybody waits and nothing is under way.
    pub fn run<T: Send>(&self, body: impl Fn(Attachment) -> T + Sync) -> Result<Outcome<T>, Error> {
        let fits = self.network.ranks();
        if self.ranks == 0 || self.ranks > MAX_RANKS || u64::from(self.ranks) > fits {
            let most = fits.min(u64::from(MAX_RANKS));
            return Err(Error::Options(format!(
                "{} ranks on {}: there can be 1 to {most}",
                self.ranks, self.network.name
            )));
        }
        let arenas = self.arenas().map_err(|error| Error::Options(error.to_string()))?;
        let carrier = carrier::Carrier::new(&self.network, self.ranks, self.pacing, self.seed)?;
        let plan = faults::Plan::new(&self.faults, self.seed, self.ranks)?;
        let hall = Arc::new(Hall::new(arenas.clone(), carrier, plan, self.limits)?);
        let ends = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.ranks)
                .map(|rank| {
                    let (seat, arena, body) = (hall.clone(), arenas[rank as usize].clone(), &body);
                    let thread = std::thread::Builder::new()
                        .name(format!("rank {rank}"))
                        .stack_size(STACK_BYTES)
                        .spawn_scoped(scope, move || live(seat, rank, arena, body));
                    if thread.is_err() {
                        hall.absent(rank);
                    }
                    thread
                })
                .collect();
            hall.begin();
            let end = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, End<T>>>| {
                thread.ok().and_then(|thread| thread.join().ok()).unwrap_or(End::Crashed)
            };
            threads.into_iter().map(end).collect::<Vec<_>>()
        });
        let (hall::Totals { time, messages, bytes, packets, packet_hops, lost }, verdict) = hall.result();
        match verdict {
            Some(why) => Err(Error::Stuck { seed: self.seed, what: why }),
            None => Ok(Outcome { seed: self.seed, time, messages, bytes, packets, packet_hops, lost, ends }),
        }
    }

    /// An arena of which each rank has a part that looks like a node of its own.
    fn arenas(&self) -> kumiki_net::Result<Vec<Arc<Arena>>> {
        let terms = Terms {
            peer_timeout_ms: self.peer_timeout.as_millis().min(u128::from(u32::MAX)) as u32,
            starter_bytes: self.starter_bytes,
            budget_bytes: self.budget_bytes,
            connection_cap: u32::MAX,
            operation_cap: environment::operations()?.unwrap_or(Terms::default().operation_cap),
            continue_on_loss: 1,
            allow_process_vm: 0,
            ..Terms::default()
        };
        let arenas = Arena::apart(self.seed, self.ranks, terms)?;
        Ok(arenas.into_iter().map(Arc::new).collect())
    }
}

/// The life of the thread of a rank.
fn live<T>(
    hall: Arc<Hall>,
    rank: u32,
    arena: Arc<Arena>,
    body: &(impl Fn(Attachment) -> T + Sync),
) -> End<T> {
    clock::live_by(Some(hall.clone()));
    HERE.with(|here| *here.borrow_mut() = Some((hall.clone(), rank)));
    let transport = Box::new(transport::Link::new(hall.clone(), rank));
    let mut attachment = Attachment::new(arena, Rank(rank), Some(transport), JobId(0));
    let seat = hall.clone();
    attachment.departure = Some(Box::new(move || seat.depart(rank)));
    let ended = panic::catch_unwind(AssertUnwindSafe(|| {
        hall.enter(rank);
        body(attachment)
    }));
    let end = match ended {
        Ok(value) => End::Returned(value),
        Err(payload) if payload.is::<hall::Crashed>() => End::Crashed,
        Err(payload) => End::Panicked(message(&*payload)),
    };
    hall.leave(rank);
    HERE.with(|here| *here.borrow_mut() = None);
    clock::live_by(None);
    end
}

/// The words of a panic.
fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("something that has no words")
        .to_owned()
}
