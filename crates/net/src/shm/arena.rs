//! The node's one shared memory object: creation, attachment, and its parts. Where these lie is in `layout.rs`.

use super::barrier::NodeBarrier;
use super::changes::{Changes, Signs};
use super::control::Control;
use super::finder::Finder;
pub use super::layout::{table_page, NEAR_BYTES, SLOTS, TABLE_PAGES};
use super::layout::{Layout, MAX_SLICES_BYTES, MIN_STRIDE};
use super::region::RegionEntry;
use super::sync::{AtomicU32, AtomicU64, Ordering};
use super::team::TeamBlock;
use super::world::{Cause, NodeWord, Place, PlaceWord, Status};
use crate::environment;
use crate::os::memory::{self, Mapping, PAGE_BYTES};
use crate::os::process::Blank;
use crate::terms::Terms;
use crate::{Error, Rank, Result};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"kumiki\0\x07");

/// What the agent decides before the arena exists; the same words stand at the head of the arena.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The job, as in every handshake.
    pub job: u64,
    /// Ranks of the world.
    pub ranks: u32,
    /// Nodes of the world.
    pub nodes: u32,
    /// The index of this node.
    pub node: u32,
    /// Ranks on this node.
    pub local_ranks: u32,
    /// Ranks on this machine, which may hold several virtual nodes.
    pub machine_ranks: u32,
    /// Cores that the ranks of this machine may run on, all together: a rank that is bound sees only its own.
    pub machine_cores: u32,
    /// What all have agreed to.
    pub terms: Terms,
}

/// The terms are read as if they stood in the configuration themselves.
impl std::ops::Deref for Config {
    type Target = Terms;

    fn deref(&self) -> &Terms {
        &self.terms
    }
}

/// What the world is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Phase {
    /// Ranks are still attaching.
    Gathering = 0,
    /// Everybody is there.
    Ready = 1,
    /// The job is being ended; the reason is in the arena.
    Aborting = 2,
}

impl Phase {
    pub(super) fn from_word(word: u32) -> Phase {
        match word {
            0 => Phase::Gathering,
            1 => Phase::Ready,
            _ => Phase::Aborting,
        }
    }
}

/// The changing words at the head of the arena.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Shared {
    /// A [`Phase`]; ranks sleep on it in init.
    pub(super) phase: AtomicU32,
    /// Goes up whenever a rank leaves or is lost.
    losses: AtomicU32,
    /// The rank lost first, plus one; 0 if none is.
    first_lost: AtomicU32,
    /// Goes up with every `reset`.
    incarnation: AtomicU32,
    /// The barrier of the node.
    pub barrier: NodeBarrier,
    /// What everybody looks at in each access.
    pub signs: Signs,
    reason_bytes: AtomicU32,
    reason: [AtomicU64; 30],
}

#[repr(C)]
pub(super) struct Head {
    pub(super) magic: u64,
    pub(super) slice_stride: u64,
    pub(super) arena_bytes: u64,
    pub(super) config: Config,
    pub(super) shared: Shared,
}

/// The name of the shared memory object, as the system shows it to whoever looks at the descriptors of a process.
pub const NAME: &std::ffi::CStr = c"kumiki-arena";
pub(super) const HEAD_BYTES: u64 = std::mem::size_of::<Head>() as u64;

/// The stride of the slices: room for the machine's memory in both halves of every slice, as far as addresses go round;
/// or what `KUMIKI_SLICE` says.
fn choose_stride(config: &Config) -> Result<u64> {
    // Twice, because the heap and the pool have half of it each.
    let wish = 2 * memory::machine_bytes().max(1 << 32).next_power_of_two();
    let most = MAX_SLICES_BYTES / (config.local_ranks.max(1) as u64).next_power_of_two();
    let wish = environment::bytes("KUMIKI_SLICE")?
        .map_or(wish, |bytes| bytes.clamp(MIN_STRIDE, 1 << 46).next_power_of_two());
    Ok(wish.min(most).max(MIN_STRIDE))
}

/// A process's view of its node's arena.
#[derive(Debug)]
pub struct Arena {
    whole: Arc<Whole>,
    /// The start of the mapping, here because every access needs it.
    base: NonNull<u8>,
    /// The changing words: at the head, or one of `whole.seats`.
    shared: NonNull<Shared>,
    config: Config,
    layout: Layout,
}

/// What the views of one arena hold together.
#[derive(Debug)]
pub(super) struct Whole {
    /// The tables as forked children see them; made with the first finder, and gone before the mapping is.
    blank: OnceLock<Option<Blank>>,
    mapping: Mapping,
    fd: OwnedFd,
    /// The changing words of the nodes that an arena was split into.
    seats: Box<[Shared]>,
}

// SAFETY: both pointers are into memory that `whole` keeps, which is `Send` and `Sync` and touched through atomics, or
// through pointers whose users have their own rules.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Makes a new arena; what the agent does. The world and node tables are still empty.
    pub fn create(config: Config) -> Result<Arena> {
        let layout = Layout::new(&config, HEAD_BYTES, choose_stride(&config)?)?;
        let fd = memory::create_sealed(NAME, layout.total)?;
        memory::commit(fd.as_fd(), 0, layout.controls)?;
        let mapping = Mapping::new(fd.as_fd(), layout.total)?;
        let arena = Arena::over(mapping, fd, config, layout);
        let head = arena.base.cast::<Head>().as_ptr();
        // SAFETY: the mapping is larger than a `Head`, page-aligned, committed, and nobody else has it yet.
        unsafe {
            (&raw mut (*head).slice_stride).write(layout.stride);
            (&raw mut (*head).arena_bytes).write(layout.total);
            (&raw mut (*head).config).write(config);
            (&raw mut (*head).magic).write(MAGIC);
        }
        arena.changes().begin();
        Ok(arena)
    }

    /// Maps an arena that was handed to us, after checking that it is one.
    pub fn attach(fd: OwnedFd) -> Result<Arena> {
        let refuse = |what: &str| Err(Error::Refused(format!("not a Kumiki arena: {what}")));
        let (bytes, _) = memory::file_bytes(fd.as_fd())?;
        if bytes < HEAD_BYTES || !memory::is_sealed(fd.as_fd())? {
            return refuse("it is too short or may change its size");
        }
        let mapping = Mapping::new(fd.as_fd(), bytes)?;
        let head = mapping.start().cast::<Head>().as_ptr();
        // SAFETY: the mapping is at least a `Head` long; each word is read once and then checked. The creator
        // wrote them before it handed the descriptor out.
        let (magic, stride, total, config) = unsafe {
            (
                (&raw const (*head).magic).read(),
                (&raw const (*head).slice_stride).read(),
                (&raw const (*head).arena_bytes).read(),
                (&raw const (*head).config).read(),
            )
        };
        if magic != MAGIC {
            return refuse("it is of another version; use one build of Kumiki on a node");
        }
        let layout = Layout::new(&config, HEAD_BYTES, stride)?;
        if total != bytes || layout.total != bytes {
            return refuse("its head contradicts its size");
        }
        Ok(Arena::over(mapping, fd, config, layout))
    }

    /// A view of a mapping that is as long as the layout says.
    fn over(mapping: Mapping, fd: OwnedFd, config: Config, layout: Layout) -> Arena {
        let base = mapping.start();
        let head = base.cast::<Head>().as_ptr();
        // SAFETY: the mapping is longer than a `Head`, so the field is inside of it; no reference is made.
        let shared = unsafe { NonNull::new_unchecked(&raw mut (*head).shared) };
        let whole = Arc::new(Whole { blank: OnceLock::new(), mapping, fd, seats: Box::new([]) });
        Arena { whole, base, shared, config, layout }
    }

    /// A world whose nodes are all in this process, one a rank, as in the simulator: a view of one new arena for each. Nobody is
    /// waited for: all are alive.
    pub fn apart(job: u64, ranks: u32, terms: Terms) -> Result<Vec<Arena>> {
        let (nodes, local_ranks, machine_ranks) = (ranks, ranks, ranks);
        let config =
            Config { job, ranks, nodes, node: 0, local_ranks, machine_ranks, machine_cores: 1, terms };
        let views = Arena::create(config)?.split()?;
        for (rank, view) in (0..).zip(&views) {
            view.prepare_rank(0)?;
            if let Some(place) = view.place(Rank(rank)) {
                let place_of = Place { node: rank, local: 0, status: Status::Alive, cause: Cause::UNKNOWN };
                place.store(place_of, view.changes());
            }
            view.shared().set_phase(Phase::Ready);
        }
        Ok(views)
    }

    /// Makes one node of each rank of an arena that nobody else has. The views share the world table; each has its own changing
    /// words.
    fn split(self) -> Result<Vec<Arena>> {
        let Arena { whole, base, config, layout, .. } = self;
        let only = || Error::Misuse("an arena that others have cannot be split".into());
        let Whole { mapping, fd, .. } = Arc::into_inner(whole).ok_or_else(only)?;
        let nodes = config.local_ranks;
        // SAFETY: made of atomics, for which all zero is valid, and what a new arena has.
        let seats = (0..nodes).map(|_| unsafe { std::mem::zeroed::<Shared>() }).collect();
        let whole = Arc::new(Whole { blank: OnceLock::new(), mapping, fd, seats });
        let view = |node: u32| Arena {
            base,
            shared: NonNull::from(&whole.seats[node as usize]),
            config: Config { node, nodes, local_ranks: 1, ..config },
            layout: layout.seen_by(node),
            whole: whole.clone(),
        };
        Ok((0..nodes).map(view).collect())
    }

    /// What the agent decided.
    #[inline]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The descriptor, to hand on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.whole.fd.as_fd()
    }

    /// The changing words at the head.
    #[inline]
    pub fn shared(&self) -> &Shared {
        // SAFETY: the words live as long as `self.whole`, in the head, which was committed at creation, or beside
        // it; `Shared` is made of atomics, for which every bit pattern is valid.
        unsafe { self.shared.as_ref() }
    }

    /// What counts everything that is taken away here.
    #[inline]
    pub fn changes(&self) -> &Changes {
        &self.shared().signs.changes
    }

    /// The word of a rank, `None` if there is no such rank.
    #[inline]
    pub fn place(&self, rank: Rank) -> Option<&PlaceWord> {
        if rank.0 >= self.config.ranks {
            return None;
        }
        // SAFETY: the world table is mapped and committed, has `ranks` words, and is made of atomics.
        Some(unsafe { &*self.at(self.layout.world + 8 * rank.0 as u64).cast::<PlaceWord>() })
    }

    /// The words of a node, `None` if there is no such node.
    pub fn node(&self, node: u32) -> Option<&NodeWord> {
        if node >= self.config.nodes {
            return None;
        }
        // SAFETY: the node table is mapped and committed, has `nodes` entries, and is made of atomics.
        Some(unsafe { &*self.at(self.layout.nodes + 64 * node as u64).cast::<NodeWord>() })
    }

    /// The control block of the `local`-th rank of this node.
    #[inline]
    pub fn control(&self, local: u32) -> Option<&Control> {
        if local >= self.config.local_ranks {
            return None;
        }
        // SAFETY: there are `local_ranks` control blocks inside the mapping, each page-aligned and made of atomics;
        // the agent commits a block before its rank starts.
        Some(unsafe { &*self.at(self.layout.control(local)).cast::<Control>() })
    }

    /// An entry of a region table of this node.
    #[inline]
    pub fn region(&self, local: u32, slot: usize) -> Option<&RegionEntry> {
        if local >= self.config.local_ranks || slot >= SLOTS {
            return None;
        }
        // SAFETY: the table is inside the mapping and made of atomics. A page that was never committed reads as
        // zeroes, which is a free entry.
        Some(unsafe { &*self.at(self.layout.entry(local, slot)).cast::<RegionEntry>() })
    }

    /// What the members of a team share that lies in the heap of the `local`-th rank of this node; `None` if it cannot lie there.
    pub fn team_block(&self, local: u32, place: u64) -> Option<&TeamBlock> {
        let bytes = std::mem::size_of::<TeamBlock>() as u64;
        let holds = |part: &Range<u64>| place >= part.start && part.end.checked_sub(bytes) >= Some(place);
        if local >= self.config.local_ranks
            || !place.is_multiple_of(64)
            || !self.heap(local).iter().any(holds)
        {
            return None;
        }
        // SAFETY: the place is aligned, and inside the mapping; a block is made of atomics, for which every bit pattern is valid.
        // Its owner has committed it, and keeps it while it is counted as used.
        Some(unsafe { &*self.at(place).cast::<TeamBlock>() })
    }

    /// The short way to memory of this node; or one that finds nothing, for whoever must look at each access.
    pub fn finder(&self, finds: bool) -> Finder {
        let ranks = if finds { self.config.ranks } else { 0 };
        let config = Config { ranks, ..self.config };
        Finder::new(self.whole.clone(), self.base, &self.shared().signs, &self.layout, &config)
    }

    /// Commits the control block, the first page of the region table and the starter memory of a rank, of an arena that is
    /// new or [cleared](Self::clear); what the agent does before the rank starts.
    pub fn prepare_rank(&self, local: u32) -> Result<()> {
        if local >= self.config.local_ranks {
            return Err(Error::Misuse(format!("there is no local rank {local}")));
        }
        self.commit(self.layout.control(local), PAGE_BYTES)?;
        self.commit(self.layout.entry(local, 0), PAGE_BYTES)?;
        self.commit(self.layout.starter(local), self.layout.starter_bytes())
    }

    /// Gives all memory of all ranks back to the system; what the agent does at a reset, before it prepares them again.
    pub fn clear(&self) -> Result<()> {
        let released = self.release(self.layout.controls, self.layout.total - self.layout.controls);
        self.changes().note();
        released
    }

    /// Commits the page of the region table that holds `slot` of the `local`-th rank.
    pub fn commit_slot(&self, local: u32, slot: usize) -> Result<()> {
        self.commit(self.layout.entry(local, slot) / PAGE_BYTES * PAGE_BYTES, PAGE_BYTES)
    }

    /// Where the starter memory of the `local`-th rank is: whole pages.
    pub fn starter(&self, local: u32) -> Range<u64> {
        let start = self.layout.starter(local);
        start..start + self.layout.starter_bytes()
    }

    /// Where the heap of the `local`-th rank is: its near part, and its far one.
    pub fn heap(&self, local: u32) -> [Range<u64>; 2] {
        let (near, far) = (self.layout.near_heap(local), self.layout.far_heap(local));
        [near..near + NEAR_BYTES, far..far + self.layout.half()]
    }

    /// Where the near part of the pool of the `local`-th rank begins, and the far one.
    #[inline]
    pub fn pool(&self, local: u32) -> (u64, u64) {
        (self.layout.near_pool(local), self.layout.far_pool(local))
    }

    /// The most bytes that the far part of a pool can have.
    #[inline]
    pub fn far_pool_bytes(&self) -> u64 {
        self.layout.half()
    }

    /// Bytes of the whole arena, most of which are never taken.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.layout.total
    }

    /// The byte at a place of the arena. The pages there may not be committed.
    #[inline]
    pub fn pointer(&self, place: u64) -> *mut u8 {
        debug_assert!(place <= self.layout.total);
        self.base.as_ptr().wrapping_add(place as usize)
    }

    /// The rank of this node to whose memory a pointer leads: its starter memory, heap or pool. `None` if it leads elsewhere.
    #[cold]
    pub fn owner_of(&self, pointer: *const u8) -> Option<u32> {
        let place = (pointer as u64).checked_sub(self.base.as_ptr() as u64)?;
        self.layout.owner(place).filter(|&local| local < self.config.local_ranks)
    }

    /// Commits a range of the arena; in huge pages where it is long and the system has them for whoever asks.
    pub fn commit(&self, place: u64, bytes: u64) -> Result<()> {
        self.whole.mapping.prefer_huge_pages(place, bytes);
        memory::commit(self.whole.fd.as_fd(), place, bytes)
    }

    /// Gives a range of the arena back to the system.
    pub fn release(&self, place: u64, bytes: u64) -> Result<()> {
        self.whole.mapping.forget_huge_pages(place, bytes);
        memory::release(self.whole.fd.as_fd(), place, bytes)
    }

    /// Bytes of real memory that the whole arena occupies.
    pub fn occupied_bytes(&self) -> Result<u64> {
        memory::file_bytes(self.whole.fd.as_fd()).map(|(_, occupied)| occupied)
    }

    /// Arena bytes of a rank beside its starter memory and heap.
    pub fn fixed_bytes_per_rank(&self) -> u64 {
        2 * PAGE_BYTES + self.layout.controls / self.config.local_ranks as u64
    }

    #[inline]
    fn at(&self, offset: u64) -> *mut u8 {
        // SAFETY: callers pass offsets inside the layout, which is as long as the mapping.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }
}

impl Whole {
    /// Makes the first `bytes` of the mapping read as zeroes in forked children; false if there is no room for one more such
    /// mapping, or if children inherit it, or if the changing words lie elsewhere.
    pub(super) fn is_blank_in_children(&self, bytes: u64) -> bool {
        let blank = || Blank::new(self.mapping.start(), bytes);
        self.seats.is_empty()
            && self.mapping.is_kept_from_children()
            && self.blank.get_or_init(blank).is_some()
    }
}

impl Shared {
    /// What the world is doing.
    #[inline]
    pub fn phase(&self) -> Phase {
        Phase::from_word(self.phase.load(Ordering::Acquire))
    }

    /// Changes the phase; only the agent does this. Aborting is final.
    pub fn set_phase(&self, phase: Phase) {
        let _ = self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
            (old != Phase::Aborting as u32).then_some(phase as u32)
        });
        #[cfg(not(loom))]
        crate::os::futex::wake_all(&self.phase);
    }

    /// The word to sleep on while the phase does not change.
    pub fn phase_word(&self) -> &AtomicU32 {
        &self.phase
    }

    /// How often a rank left or was lost.
    #[inline]
    pub fn losses(&self) -> u32 {
        self.losses.load(Ordering::Acquire)
    }

    /// Announces that `rank` was lost (or left, with `lost` false); its word must have been written before.
    pub fn announce_loss(&self, rank: Rank, lost: bool) {
        if lost {
            let _ = self.first_lost.compare_exchange(0, rank.0 + 1, Ordering::AcqRel, Ordering::Relaxed);
        }
        self.losses.fetch_add(1, Ordering::SeqCst);
    }

    /// The rank that was lost first.
    pub fn first_lost(&self) -> Option<Rank> {
        self.first_lost.load(Ordering::Acquire).checked_sub(1).map(Rank)
    }

    /// How often the world has been reset.
    #[inline]
    pub fn incarnation(&self) -> u32 {
        self.incarnation.load(Ordering::Acquire)
    }

    /// Starts the world over: the barrier, the losses; only the agent does this, while every rank is in `reset`.
    pub fn next_incarnation(&self) {
        self.barrier.reset();
        self.signs.listeners.reset();
        self.incarnation.fetch_add(1, Ordering::AcqRel);
        #[cfg(not(loom))]
        crate::os::futex::wake_all(&self.incarnation);
    }

    /// The word to sleep on while the incarnation does not change.
    pub fn incarnation_word(&self) -> &AtomicU32 {
        &self.incarnation
    }

    /// Leaves the reason for the end of the job; before the phase is set to [`Phase::Aborting`].
    pub fn set_reason(&self, text: &str) {
        if self.reason_bytes.load(Ordering::Acquire) != 0 {
            return;
        }
        let mut end = text.len().min(self.reason.len() * 8);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for (word, bytes) in self.reason.iter().zip(text.as_bytes()[..end].chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
        self.reason_bytes.store(end as u32, Ordering::Release);
    }

    /// The reason for the end of the job; empty if there is none.
    pub fn reason(&self) -> String {
        let length = (self.reason_bytes.load(Ordering::Acquire) as usize).min(self.reason.len() * 8);
        let bytes: Vec<u8> = self
            .reason
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .take(length)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn config(ranks: u32) -> Config {
        Config {
            job: 7,
            ranks,
            nodes: 1,
            node: 0,
            local_ranks: ranks,
            machine_ranks: ranks,
            machine_cores: 2,
            terms: Terms { starter_bytes: 1024, ..Terms::default() },
        }
    }

    #[test]
    fn two_mappings_of_one_arena_see_the_same_bytes() {
        let arena = Arena::create(config(3)).unwrap();
        (0..3).for_each(|local| arena.prepare_rank(local).unwrap());
        let other = Arena::attach(memory::duplicate(arena.descriptor()).unwrap()).unwrap();
        let place = Place { node: 0, local: 2, status: Status::Alive, cause: Cause::UNKNOWN };
        arena.place(Rank(2)).unwrap().store(place, arena.changes());
        assert_eq!(other.place(Rank(2)).unwrap().load(), place);
        assert!(other.place(Rank(3)).is_none());
        // SAFETY: starter memory is committed and at least 1024 bytes long.
        unsafe {
            arena.pointer(arena.starter(1).start).write(42);
            assert_eq!(other.pointer(other.starter(1).start).read(), 42);
        }
        arena.shared().set_reason("because");
        assert_eq!(other.shared().reason(), "because");
    }

    #[test]
    fn what_is_not_an_arena_is_refused() {
        let fd = memory::create_sealed(c"other", 1 << 20).unwrap();
        assert!(matches!(Arena::attach(fd), Err(Error::Refused(_))));
        let short = memory::create_sealed(c"short", 16).unwrap();
        assert!(matches!(Arena::attach(short), Err(Error::Refused(_))));
    }

    #[test]
    fn a_thousand_ranks_cost_sixteen_kibibytes_each_at_most() {
        let arena = Arena::create(config(1024)).unwrap();
        (0..1024).for_each(|local| arena.prepare_rank(local).unwrap());
        let starter = PAGE_BYTES * 1024;
        let fixed = arena.occupied_bytes().unwrap() - starter;
        assert!(fixed <= 1024 * 16 * 1024, "{fixed} bytes");
        assert!(arena.fixed_bytes_per_rank() <= 16 * 1024);
    }

    #[test]
    fn released_memory_reads_as_zero_again() {
        let arena = Arena::create(config(1)).unwrap();
        arena.prepare_rank(0).unwrap();
        for part in arena.heap(0) {
            arena.commit(part.start, NEAR_BYTES).unwrap();
            // SAFETY: the range was committed just now.
            unsafe {
                let byte = arena.pointer(part.start);
                byte.write(9);
                arena.release(part.start, NEAR_BYTES).unwrap();
                assert_eq!(byte.read(), 0);
            }
        }
    }

    #[test]
    fn a_cleared_arena_holds_its_tables_and_nothing_of_its_ranks() {
        let arena = Arena::create(config(3)).unwrap();
        let empty = arena.occupied_bytes().unwrap();
        (0..3).for_each(|local| arena.prepare_rank(local).unwrap());
        arena.commit_slot(2, SLOTS - 1).unwrap();
        arena.commit(arena.pool(1).1, 1 << 20).unwrap();
        assert!(arena.occupied_bytes().unwrap() > empty + (1 << 20));
        arena.clear().unwrap();
        assert_eq!(arena.occupied_bytes().unwrap(), empty);
    }
}
