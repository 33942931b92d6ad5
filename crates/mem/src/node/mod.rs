//! The memory of this node: what a process does with memory that it can touch itself, without a message.
//!
//! | file | what |
//! |---|---|
//! | `address.rs` | [`GlobalAddress`](crate::GlobalAddress), [`GlobalPtr`](crate::GlobalPtr) |
//! | `region.rs`, `slots.rs`, `heap.rs` | memory that others can address, its place in the table, and where it is taken from |
//! | `access.rs`, `neighbours.rs` | from an address to a pointer, with every check; the memories of other processes |
//! | `recent.rs` | the regions that a thread used last, found again in a few steps |
//! | `mark.rs` | a place that is used again and again, found again in one |
//! | `kind.rs` | kinds of memory, and what each must be able to do |
//! | `copy.rs`, `atomic.rs` | touching memory |
//! | `haul.rs` | large copies of which a neighbour that waits takes a share |
//! | `batch.rs` | many single words in one request |
//! | `local.rs`, `pool.rs` | memory of this node in the hands of safe code: spans, locks, the pool of each rank |
//! | `view.rs` | regions that are pinned once and then touched at the speed of the machine |
//! | `shape.rs` | sections of many dimensions and lists of pieces |
//! | `bell.rs` | waking whoever waits for a word of its memory |
//! | `ledger.rs` | what it all costs |

pub(crate) mod access;
pub(crate) mod address;
pub(crate) mod atomic;
pub(crate) mod batch;
pub(crate) mod bell;
pub(crate) mod copy;
pub(crate) mod haul;
pub(crate) mod heap;
pub(crate) mod kind;
pub(crate) mod ledger;
pub(crate) mod local;
pub(crate) mod mark;
pub(crate) mod neighbours;
pub(crate) mod pool;
mod recent;
pub(crate) mod region;
pub(crate) mod shape;
pub(crate) mod slots;
pub(crate) mod view;

use crate::{Error, Result};
use address::{AddressFormat, FAR_POOL_SLOT, POOL_SLOT, STARTER_GENERATION, STARTER_SLOT};
use kumiki_net::environment;
use kumiki_net::os::memory::PAGE_BYTES;
use kumiki_net::os::process;
use kumiki_net::shm::arena::{Arena, Phase};
use kumiki_net::shm::control::Control;
use kumiki_net::shm::finder::Finder;
use kumiki_net::shm::region::{Kind, RegionView};
use kumiki_net::Rank;
use ledger::{Books, Purpose};
use neighbours::Neighbours;
use region::Registry;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Tells the worlds that a process has had apart; 0 is none.
static NEXT_LIFE: AtomicU64 = AtomicU64::new(1);

/// The memory of a node as one of its ranks sees it: where everything lies, and the books.
pub(crate) struct Node {
    pub(crate) format: AddressFormat,
    /// The short way to memory of this node. In a simulated world it finds nothing: there each look is counted.
    finder: Finder,
    pub(crate) rank: Rank,
    /// The number of the node.
    pub(crate) node: u32,
    /// The place of this rank on it.
    pub(crate) local: u32,
    pub(crate) arena: Arc<Arena>,
    /// Different for every world that this process has had.
    pub(crate) life: u64,
    /// What stamps of this world have, in any case (see `recent.rs`).
    stamp: u64,
    /// Whether an agent says what becomes of ranks.
    pub(crate) has_agent: bool,
    /// Whether same-node private memory can be copied directly.
    process_vm: AtomicBool,
    /// Whether that has been tried, and was right.
    process_vm_tried: AtomicBool,
    /// So many large copies may neighbours that wait still fail to do their pieces of before they are offered none: no more where they have
    /// no core for it.
    hauls_left: AtomicU32,
    /// Pieces that this rank has done of copies of its neighbours.
    pub(crate) shares: AtomicU64,
    /// The memories of neighbours for short copies.
    neighbours: Neighbours,
    /// Set by finalize and reset: regions and pointers that outlive the world find it closed.
    pub(crate) closed: AtomicBool,
    /// Whether the program was ever given an error: dropping the world then does not finalize it.
    pub(crate) faulted: AtomicBool,
    /// Whether letters of this rank may have come back that nobody has asked for.
    pub(crate) has_refusals: AtomicBool,
    /// How many letters have come back.
    pub(crate) refusals: AtomicU64,
    /// Bytes taken from the machine since it was last asked what it can still give.
    taken_unasked: AtomicU64,
    pub(crate) books: Books,
    registry: Mutex<Registry>,
}

impl Node {
    /// The memory of the node of a rank, whose own part is published: starter memory and the pool. So many bytes are booked for
    /// the world that it is for. Where looks at memory are counted there is no short way to it.
    #[inline(never)]
    pub(crate) fn new(
        arena: Arc<Arena>,
        rank: Rank,
        has_agent: bool,
        has_short_way: bool,
        world_bytes: u64,
    ) -> Result<Node> {
        let config = *arena.config();
        let place = arena.place(rank).map(|word| word.load());
        let place = place.ok_or_else(|| Error::misuse(format!("there is no {rank}")))?;
        let books = Books::new(arena.clone(), place.local);
        books.book(Purpose::World, world_bytes)?;
        books.book(Purpose::ArenaControl, 2 * PAGE_BYTES)?;
        let starter = arena.starter(place.local);
        books.book(Purpose::Starter, starter.end - starter.start)?;
        let life = NEXT_LIFE.fetch_add(1, Ordering::Relaxed);
        let shares_hauls =
            has_short_way && config.machine_ranks <= config.machine_cores && !environment::is_watched();
        let node = Node {
            format: AddressFormat::new(config.ranks),
            finder: arena.finder(has_short_way && life < recent::STAMPED_LIVES),
            rank,
            node: place.node,
            local: place.local,
            life,
            stamp: recent::stamp_of(life),
            has_agent,
            process_vm: AtomicBool::new(config.allow_process_vm != 0),
            process_vm_tried: AtomicBool::new(false),
            hauls_left: AtomicU32::new(if shares_hauls { haul::MOST_FAILURES } else { 0 }),
            shares: AtomicU64::new(0),
            neighbours: Neighbours::default(),
            closed: AtomicBool::new(false),
            faulted: AtomicBool::new(false),
            has_refusals: AtomicBool::new(false),
            refusals: AtomicU64::new(0),
            taken_unasked: AtomicU64::new(0),
            books,
            registry: Mutex::new(Registry::new(arena.heap(place.local))),
            arena,
        };
        node.publish_starter()?;
        node.publish_pool()?;
        Ok(node)
    }

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

    /// The regions of this rank. A thread that panicked while it held them left them between two changes, which is consistent.
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Publishes starter memory in its fixed slot.
    fn publish_starter(&self) -> Result<()> {
        let entry = self.arena.region(self.local, STARTER_SLOT as usize);
        let entry = entry.ok_or_else(|| Error::misuse("this rank has no region table"))?;
        let (base, bytes) = (self.arena.starter(self.local).start, self.arena.config().starter_bytes);
        if bytes > self.format.slot_span() {
            return Err(Error::misuse(format!(
                "starter memory of {bytes} bytes; with so many ranks an address reaches {} of it",
                self.format.slot_span()
            )));
        }
        let generation = STARTER_GENERATION;
        let view = RegionView { kind: Kind::Arena, base, bytes, generation, colour: 0 };
        entry.publish(view, self.arena.changes());
        Ok(())
    }

    /// Publishes the two parts of the pool in their fixed slots, still without a byte.
    fn publish_pool(&self) -> Result<()> {
        let (near, far) = self.arena.pool(self.local);
        for (slot, base) in [(POOL_SLOT, near), (FAR_POOL_SLOT, far)] {
            let entry = self.arena.region(self.local, slot as usize);
            let entry = entry.ok_or_else(|| Error::misuse("this rank has no region table"))?;
            let view = RegionView { kind: Kind::Arena, base, bytes: 0, generation: 1, colour: 0 };
            entry.publish(view, self.arena.changes());
        }
        let control = self.arena.control(self.local);
        control
            .ok_or_else(|| Error::misuse("this rank has no control block"))?
            .pool
            .bytes
            .store(0, Ordering::Release);
        Ok(())
    }
}

/// Two ranks of one node of a machine with so many cores, both in this process, as they see it.
#[cfg(test)]
pub(crate) fn two_of_a_node(machine_cores: u32) -> [Node; 2] {
    use kumiki_net::shm::arena::Config;
    use kumiki_net::shm::world::{Cause, Place, Status};
    use kumiki_net::terms::Terms;

    let (ranks, local_ranks, machine_ranks) = (2, 2, 2);
    let terms = Terms { starter_bytes: 64, ..Terms::default() };
    let config =
        Config { job: 1, ranks, nodes: 1, node: 0, local_ranks, machine_ranks, machine_cores, terms };
    let arena = Arc::new(Arena::create(config).expect("an arena"));
    [0, 1].map(|local| {
        arena.prepare_rank(local).expect("a rank");
        let place = Place { node: 0, local, status: Status::Alive, cause: Cause::UNKNOWN };
        arena.place(Rank(local)).expect("a place").store(place, arena.changes());
        Node::new(arena.clone(), Rank(local), true, true, 0).expect("a node")
    })
}
