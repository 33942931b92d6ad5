//! How a group is made: a team of its own, a block on each member, and for each member the blocks of its partners.
//!
//! The first member has a table for the time being, in which everybody says where its block is. Each takes from it what it needs,
//! and says that it has it; then nobody looks at the table any more. If one cannot, all get an error.

use super::block::{self, Layout};
use super::lanes::Lane;
use super::traffic::GATHERED_BYTES;
use super::tune::{Tuner, TABLE_BYTES};
use super::{kept, Group, Near, State, Web, MERGED_BYTES, MOST_KNOWN, SCRATCH_BYTES};
use crate::data::agreement::{agree, Agreed, Handed, Wish};
use crate::{Error, GlobalAddress, GlobalPtr, Members, Purpose, Rank, Region, Result, Team, World};
use kumiki_mem::Span;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How a group is made: the argument of [`World::group_with`].
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// # let world = kumiki::World::init()?;
/// use kumiki::comm::GroupOptions;
/// let roomy = world.group_with(GroupOptions::default().block_bytes(1 << 20))?;
/// assert!(roomy.block_bytes() <= 1 << 20);
/// # roomy.free()?;
/// # world.finalize()
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct GroupOptions {
    block_bytes: usize,
    is_fixed: bool,
}

impl Default for GroupOptions {
    fn default() -> GroupOptions {
        GroupOptions { block_bytes: 16 << 10, is_fixed: false }
    }
}

impl GroupOptions {
    /// The most memory that each member gives: 16 KiB if nothing is said. Larger blocks take more at a time.
    pub const fn block_bytes(mut self, bytes: usize) -> GroupOptions {
        self.block_bytes = bytes;
        self
    }

    /// No algorithm is tried: what is used depends on the collective, the size and the group alone.
    pub const fn fixed(mut self) -> GroupOptions {
        self.is_fixed = true;
        self
    }
}

impl World {
    /// Makes a group of all ranks. Collective: if a rank has no memory for it, every one gets an error.
    pub fn group(&self) -> Result<Group<'_>> {
        self.group_with(GroupOptions::default())
    }

    /// The same, made as all ranks say.
    pub fn group_with(&self, options: GroupOptions) -> Result<Group<'_>> {
        let team = self.team(0..self.ranks())?;
        self.note(make(self, team, options))
    }
}

impl Team {
    /// Makes a group of the members. Collective among them.
    ///
    /// ```
    /// use kumiki::comm::Max;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// let node = world.team_split(world.node(), 0)?.expect("every rank has a colour");
    /// let group = node.group(&world)?;
    /// let mut last = [world.rank()];
    /// group.allreduce(&mut last, Max)?;
    /// assert_eq!(Some(&last[0]), world.node_ranks().last());
    /// group.free()?;
    /// # node.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn group<'w>(&self, world: &'w World) -> Result<Group<'w>> {
        self.group_with(world, GroupOptions::default())
    }

    /// The same, made as all members say.
    pub fn group_with<'w>(&self, world: &'w World, options: GroupOptions) -> Result<Group<'w>> {
        let team = self.team(world, 0..self.ranks())?;
        world.note(make(world, team, options))
    }
}

impl Group<'_> {
    /// A team of the same members in the same order, for something that they make. Collective.
    pub(in crate::comm) fn another_team(&self) -> Result<Team> {
        let _turn = self.enter()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.carry_on(&mut state, |_| true);
        self.is_parted.store(true, Ordering::Relaxed);
        let team = match state.team.as_ref().filter(|_| state.broken.is_none()) {
            Some(team) => team.team(self.world, 0..self.count)?,
            None => None,
        };
        let why = || state.broken.map_or(Error::Closed("the group has ended".into()), super::Broken::error);
        self.world.note(team.ok_or_else(why))
    }
}

/// Who is where, as a member sees it.
struct Placing {
    near: u32,
    near_me: u32,
    /// The most members that a node has.
    most_near: u32,
    /// The first member of this node.
    near_first: Rank,
    /// The first members of the nodes, and which of them is that of this one.
    leaders: Vec<Rank>,
    leader: u32,
}

impl Placing {
    fn new(world: &World, members: &Members, me: Rank) -> Placing {
        let node = |rank: Rank| members.get(rank).and_then(|rank| world.node_of(rank)).unwrap_or(u32::MAX);
        let mut placing =
            Placing { near: 0, near_me: 0, most_near: 0, near_first: me, leaders: Vec::new(), leader: 0 };
        let (own, mut seen) = (node(me), BTreeMap::new());
        for rank in 0..members.len() {
            let here = seen.entry(node(rank)).or_insert(0);
            *here += 1;
            placing.most_near = placing.most_near.max(*here);
            if *here == 1 {
                if node(rank) == own {
                    (placing.near_first, placing.leader) = (rank, placing.leaders.len() as u32);
                }
                placing.leaders.push(rank);
            }
            if node(rank) == own {
                placing.near_me += u32::from(rank < me);
                placing.near += 1;
            }
        }
        placing
    }
}

/// The table of the first member: how many have what they need, and two words for each.
struct Table<'w>(&'w World, GlobalAddress);

impl<'w> Handed<'w> for Table<'w> {
    fn words(&self) -> [u64; 3] {
        [self.1.bits(), 0, 0]
    }

    fn open(world: &'w World, words: [u64; 3]) -> Result<Self> {
        Ok(Table(world, GlobalAddress::from_bits(words[0])))
    }

    fn discard(self) -> Result<()> {
        self.0.free(self.1)
    }
}

impl<'w> Table<'w> {
    fn new(world: &'w World, count: u32) -> Result<Table<'w>> {
        let block = world.malloc(8 + 8 * count as usize, world.rank())?;
        let table = Table(world, block);
        let cleared = (0..=count).try_for_each(|entry| world.put(table.entry(entry), 0));
        cleared.map(|()| table).inspect_err(|_| drop(world.free(block)))
    }

    fn entry(&self, index: u32) -> GlobalPtr<u64> {
        GlobalPtr::from_address(self.1) + index as usize
    }

    fn block_of(&self, rank: Rank) -> Result<GlobalAddress> {
        match self.0.get(self.entry(1 + rank))? {
            0 => Err(Error::Refused(format!("member {rank} has not said where its block is"))),
            word => Ok(GlobalAddress::from_bits(word)),
        }
    }
}

pub(super) fn make<'w>(world: &'w World, team: Option<Team>, options: GroupOptions) -> Result<Group<'w>> {
    let team = team.ok_or_else(|| Error::Misuse("a group of which this rank is no member".into()))?;
    world.sweep_groups();
    let node_team = team_of_node(world, &team)?;
    let (me, count) = (team.rank(), team.ranks());
    let placing = Placing::new(world, team.members(), me);
    let prepared = prepare(world, &team, &placing, options);
    let circle = team.circle(world)?;
    let wish = Wish::new("a group", options);
    let short = |_| [prepared.is_err(), kept::is_asked()];
    let Agreed { made: table, counts, .. } =
        agree(circle, &mut circle.lock(), wish, || Table::new(world, count), short)?;
    // Whatever goes wrong now, this rank comes to the same barriers as the others.
    let connected = match (prepared, &counts) {
        (Ok(prepared), Ok([0, _])) => say(world, &table, &prepared, me).map(|()| prepared),
        (Err(error), _) => Err(error),
        (_, Err(error)) => Err(error.clone()),
        (_, Ok([missing, _])) => Err(not_all(*missing)),
    };
    // If nobody can meet any more the table stays: others may still write into it.
    circle.sync()?;
    // What this member has prepared others may write to until the next meeting, whatever becomes of it.
    let (prepared, lanes) = match connected {
        Ok(prepared) => {
            let lanes = connect(world, &table, &prepared, &placing, team.members(), me);
            (Some(prepared), lanes.and_then(|lanes| world.fetch_add(table.entry(0), 1).map(|_| lanes)))
        }
        Err(error) => (None, Err(error)),
    };
    circle.sync()?;
    let ready = world.get(table.entry(0));
    circle.sync()?;
    let discarded = if me == 0 { table.discard() } else { Ok(()) };
    let lanes = lanes?;
    let prepared = prepared.ok_or_else(|| not_all(1))?;
    discarded?;
    match ready {
        Ok(ready) if ready < u64::from(count) => return Err(not_all(u64::from(count) - ready)),
        // Whoever does not learn it has the group: if the others give it up, their first call says so.
        _ => {}
    }
    let Prepared { block, layout, all, leaders, booked } = prepared;
    let near = Near { count: placing.near, me: placing.near_me, first: lanes.1 };
    let state = State {
        lanes: lanes.0,
        node_team,
        calls: Default::default(),
        wide: Vec::new(),
        room: Default::default(),
        scratch: Default::default(),
        merged: Default::default(),
        call: 0,
        history: 0,
        board: 0,
        turn: 0,
        led: 0,
        told: 0,
        taken: 0,
        spreads: 0,
        piped: 0,
        is_unread: false,
        heard: None,
        broken: None,
        untold: None,
        has_lost_strangers: false,
        jobs: Default::default(),
        parted: None,
        team: None,
    };
    let mut group = Group {
        world,
        members: team.members().clone(),
        me,
        count,
        block: block.address(),
        memory: Some((block, booked)),
        number: team.number(),
        layout,
        all,
        leaders,
        near,
        known: Box::default(),
        looks: false,
        turn: Mutex::new(()),
        holder: AtomicUsize::new(0),
        state: Mutex::new(State { team: Some(team), ..state }),
        forced: AtomicU8::new(0),
        is_quiet: AtomicBool::new(false),
        is_parted: AtomicBool::new(false),
        tuner: Mutex::new(Tuner::new(options.is_fixed)),
        nodes: placing.leaders.len() as u32,
        options,
    };
    (group.known, group.looks) = known_blocks(world, layout, near)?;
    if counts.is_ok_and(|[_, asking]| asking > 0) {
        group.learn_file()?;
    }
    Ok(group)
}

/// The blocks of the members of this node, if they are few and show each other what they have; and whether all of them spin. All
/// read the same words.
fn known_blocks<'w>(world: &'w World, layout: Layout, near: Near) -> Result<(Box<[Span<'w>]>, bool)> {
    let few = near.count > 1 && near.count <= MOST_KNOWN && layout.half > 0;
    if !few {
        return Ok((Box::default(), false));
    }
    let local = world.local();
    let words = local.span(near.first, layout.table + 8 * u64::from(near.count))?;
    let words: Vec<u64> = (0..u64::from(near.count))
        .map(|index| words.load(layout.table + 8 * index))
        .collect::<Result<_>>()?;
    let block = |word: &u64| local.span(GlobalAddress::from_bits(word & !block::SPINS), layout.bytes);
    let known: Result<_> = words.iter().map(block).collect();
    Ok((known?, words.iter().all(|word| word & block::SPINS != 0)))
}

/// The members of this node, if they are neither all nor each by itself.
fn team_of_node(world: &World, team: &Team) -> Result<Option<Team>> {
    let placing = Placing::new(world, team.members(), team.rank());
    let nodes = placing.leaders.len() as u32;
    match nodes > 1 && nodes < team.ranks() {
        true => team.team_split(world, placing.leader, 0),
        false => Ok(None),
    }
}

fn not_all(missing: u64) -> Error {
    Error::Refused(format!("{missing} members could not be in the group; their errors say why"))
}

/// What a member has before it knows the others.
struct Prepared {
    block: Region<u64>,
    layout: Layout,
    all: Web,
    leaders: Option<Web>,
    booked: kumiki_mem::Booking,
}

fn prepare(world: &World, team: &Team, placing: &Placing, options: GroupOptions) -> Result<Prepared> {
    let (count, nodes) = (team.ranks(), placing.leaders.len() as u32);
    let all = Web { me: team.rank(), count, first: 0 };
    let has_levels = nodes > 1 && nodes < count;
    let first = 2 * all.rounds() as usize;
    let me = if placing.near_me == 0 { placing.leader } else { u32::MAX };
    let leaders = has_levels.then_some(Web { me, count: nodes, first });
    let lanes = first as u64 + leaders.map_or(0, |web| 2 * u64::from(web.rounds()));
    let layout = Layout::new(options.block_bytes as u64, lanes, placing.most_near.into(), nodes < count)?;
    let private = size_of::<Group>() as u64
        + lanes * size_of::<Lane>() as u64
        + 2 * layout.ring
        + TABLE_BYTES
        + u64::from(MOST_KNOWN) * size_of::<Span>() as u64
        + (SCRATCH_BYTES + MERGED_BYTES + GATHERED_BYTES) as u64;
    let booked = world.book(Purpose::Comm, private + team.members().bytes())?;
    let block = world.alloc::<u64>(layout.bytes as usize / 8)?;
    block::prepare(world.local(), block.address(), layout, team.number())?;
    Ok(Prepared { block, layout, all, leaders, booked })
}

/// Says where the block of this member is.
fn say(world: &World, table: &Table<'_>, prepared: &Prepared, me: Rank) -> Result<()> {
    world.put(table.entry(1 + me), prepared.block.address().bits())
}

/// Its lanes, and the block of the first member of its node.
type Connected = (Vec<Lane>, GlobalAddress);

/// Learns where the blocks of the partners are.
fn connect(
    world: &World,
    table: &Table<'_>,
    prepared: &Prepared,
    placing: &Placing,
    members: &Members,
    me: Rank,
) -> Result<Connected> {
    let (layout, own) = (prepared.layout, prepared.block.address());
    let mut lanes = Vec::with_capacity(layout.lanes as usize);
    let mut add = |member: Rank, there: u64| {
        let (block, here) = (table.block_of(member)?, layout.lane(lanes.len() as u64));
        let rank = members.get(member).unwrap_or(u32::MAX);
        let near = world.local().is_near(rank);
        block::expect(world.local(), own, here, rank)?;
        lanes.push(Lane {
            rank,
            near,
            wide: Default::default(),
            sends_wide: false,
            there: there as u32,
            guest: if near { Placing::new(world, members, member).near_me } else { 0 },
            block,
            here,
            sent: 0,
            received: 0,
            credited: 0,
        });
        Ok::<(), Error>(())
    };
    let webs = [Some(prepared.all), prepared.leaders];
    for (web, is_leaders) in webs.into_iter().zip([false, true]) {
        let Some(web) = web.filter(|web| web.me != u32::MAX) else { continue };
        let member = |index: u32| if is_leaders { placing.leaders[index as usize] } else { index };
        for power in 0..web.rounds() {
            let step = (1u32 << power) % web.count;
            add(member((web.me + web.count - step) % web.count), web.lane(power, true) as u64)?;
            add(member((web.me + step) % web.count), web.lane(power, false) as u64)?;
        }
    }
    let first = if placing.near_first == me { own } else { table.block_of(placing.near_first)? };
    if layout.half > 0 {
        let place = layout.table + 8 * u64::from(placing.near_me);
        let table = world.local().span(first, place + 8)?;
        let spins = if world.memory.spins() { block::SPINS } else { 0 };
        table.store(place, own.bits() | spins)?;
    }
    Ok((lanes, first))
}
