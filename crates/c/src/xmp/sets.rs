//! Sets of nodes: which ranks they are, in which order, and the group in which they do things together.
//!
//! A set is known by its members, so that a `task` that is executed again finds it. Its group is made by its members alone, when they do something
//! together for the first time. The stack says which nodes execute: all of them at the bottom, those of a task above.

use super::references::LoopWish;
use super::{session, tasks};
use kumiki::array::Nodes;
use kumiki::comm::Group;
use kumiki::{Error, Members, Rank, Result, World};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Nodes in an order.
pub(super) struct Set {
    pub(super) members: Members,
    /// The number of this node in it.
    pub(super) me: Rank,
    group: OnceLock<Group<'static>>,
    /// Whoever makes the group has it.
    making: Mutex<()>,
    nodes: OnceLock<Nodes>,
    /// Whether calls are compared between nodes.
    is_checked: OnceLock<bool>,
}

/// Sets that this node is in, by their members, and those that execute.
struct Known {
    sets: Option<HashMap<Members, Arc<Set>>>,
    executing: Vec<Arc<Set>>,
    /// Those of the loops of late, the last one first, of those who execute now. A loop that is executed again need not look for its set.
    loops: Vec<(LoopWish, Option<Arc<Set>>)>,
}

/// How many loops are remembered.
const MOST_LOOPS: usize = 8;

static KNOWN: Mutex<Known> = Mutex::new(Known { sets: None, executing: Vec::new(), loops: Vec::new() });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rank of this process.
static RANK: AtomicU32 = AtomicU32::new(0);

/// The rank of this process.
pub(super) fn rank() -> Rank {
    RANK.load(Ordering::Relaxed)
}

/// All nodes execute.
pub(super) fn begin(world: &World) {
    RANK.store(world.rank(), Ordering::Relaxed);
    let all = Members::strided(0, 1, world.ranks());
    let set = Arc::new(Set::new(all.clone(), world.rank()));
    let mut known = known();
    known.executing = vec![set.clone()];
    known.sets = Some(HashMap::from([(all, set)]));
}

/// The world ends.
pub(super) fn end_all() {
    let left = {
        let mut known = known();
        (known.sets.take(), std::mem::take(&mut known.executing), std::mem::take(&mut known.loops))
    };
    drop(left);
}

/// The set of a loop that was executed lately; none if this node is in none.
pub(super) fn asked_lately(wish: &LoopWish) -> Option<Option<Arc<Set>>> {
    known().loops.iter().find(|(known, _)| known == wish).map(|(_, set)| set.clone())
}

/// Remembers the set of a loop.
pub(super) fn note_asked(wish: LoopWish, set: Option<Arc<Set>>) {
    let loops = &mut known().loops;
    loops.truncate(MOST_LOOPS - 1);
    loops.insert(0, (wish, set));
}

/// What was remembered of loops does not hold any more: a template has changed, or others execute.
pub(super) fn forget_loops() {
    known().loops.clear();
}

/// The set of these members; none if this node is not among them.
pub(super) fn of(world: &World, members: Members) -> Option<Arc<Set>> {
    let me = members.position(world.rank())?;
    let mut known = known();
    let sets = known.sets.get_or_insert_with(HashMap::new);
    if let Some(set) = sets.get(&members) {
        return Some(set.clone());
    }
    let set = Arc::new(Set::new(members.clone(), me));
    sets.insert(members, set.clone());
    Some(set)
}

/// The nodes that execute.
pub(super) fn executing() -> Result<Arc<Set>> {
    known().executing.last().cloned().ok_or_else(not_started)
}

/// The first set of the stack: all nodes.
pub(super) fn entire() -> Result<Arc<Set>> {
    known().executing.first().cloned().ok_or_else(not_started)
}

/// There is no world, or not any more.
pub(super) fn not_started() -> Error {
    Error::Closed(
        "the program has not started, or has ended: main must be compiled by xmpcc, or call xmp_init first"
            .into(),
    )
}

/// From now on these execute.
pub(super) fn push(set: Arc<Set>) {
    let mut known = known();
    known.loops.clear();
    known.executing.push(set);
}

/// Those who executed before execute again.
pub(super) fn pop() {
    let mut known = known();
    if known.executing.len() > 1 {
        known.loops.clear();
        known.executing.pop();
    }
}

impl Set {
    fn new(members: Members, me: Rank) -> Set {
        let (group, nodes, is_checked) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Set { members, me, group, making: Mutex::new(()), nodes, is_checked }
    }

    /// The same for arrays: a line of nodes.
    pub(super) fn nodes(&self) -> Result<&Nodes> {
        if let Some(nodes) = self.nodes.get() {
            return Ok(nodes);
        }
        let ranks: Vec<Rank> = self.members.iter().collect();
        let nodes = Nodes::of(&ranks, &[ranks.len() as u32])?;
        Ok(self.nodes.get_or_init(|| nodes))
    }

    /// Whether this node is alone in it.
    pub(super) fn is_single(&self) -> bool {
        self.members.len() == 1
    }

    /// Does something with the group. The first time it is made by all members.
    pub(super) fn with_group<R>(&self, work: impl FnOnce(&Group<'static>) -> Result<R>) -> Result<R> {
        tasks::check_present(self.members.iter())?;
        session::with(|world| {
            let group = self.group(world)?;
            work(group)
        })
    }

    /// Its group, if there is one: on all members, or on none, as an error ends the program.
    pub(super) fn known_group(&self) -> Option<&Group<'static>> {
        self.group.get()
    }

    /// Its group. Made in a world that is given up only when all sets are gone.
    fn group(&self, world: &'static World) -> Result<&Group<'static>> {
        if let Some(group) = self.group.get() {
            return Ok(group);
        }
        let _alone = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = self.group.get() {
            return Ok(group);
        }
        let mut name = DefaultHasher::new();
        self.members.hash(&mut name);
        let team = world.team_among(self.members.clone(), name.finish())?;
        let group = team.group(world)?;
        team.free()?;
        Ok(self.group.get_or_init(|| group))
    }

    /// Whether its nodes compare their calls.
    pub(super) fn is_checked(&self) -> Result<bool> {
        if let Some(is_checked) = self.is_checked.get() {
            return Ok(*is_checked);
        }
        let is_checked = session::with(kumiki::array::is_checked)?;
        Ok(*self.is_checked.get_or_init(|| is_checked))
    }
}
