//! Teams: some of the ranks, with a barrier of their own.
//!
//! A team is made by all ranks together, or by all members of a larger team. They agree, as on everything that they make
//! together, by way of the first of them: it has a table for the time being, in which a split gathers who wants to be with
//! whom, and in which the first member of each new team says where that is going to agree. Afterwards each member has its own
//! view of its own team, and nothing else is left.

use super::World;
use crate::data::agreement::{agree, Agreed, Circle, Handed, Record, Wish};
use crate::{Error, GlobalAddress, GlobalPtr, Members, Purpose, Rank, Region, Result};
use std::sync::atomic::Ordering;
use std::sync::Mutex;
use std::time::Duration;

/// A subset of the ranks, in an order of its own, that meets without the others: from [`World::team`] and
/// [`World::team_split`].
///
/// It can be parted again. Each member keeps its own view: a team whose members are evenly spaced takes a few hundred bytes
/// however many they are, any other 4 bytes a member more ([`bytes`](Self::bytes); the ledger has them under
/// [`Purpose::Team`]).
///
/// Dropping it is leaving it: the other members cannot meet any more, and whoever tries is told who left. Members that are done
/// together [`free`](Self::free) it.
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// // The ranks of each node, in the order of their numbers.
/// let node = world.team_split(world.node(), world.rank().into())?.expect("every rank has a colour");
/// node.sync()?;
/// if node.rank() == 0 {
///     println!("rank {} is the first of {} on its node", world.rank(), node.ranks());
/// }
/// node.free()?;
/// # world.finalize()
/// # }
/// ```
pub struct Team {
    memory: kumiki_mem::Team,
    /// Where its members agree: in the memory of the first of them.
    record: GlobalPtr<Record>,
    _record: Option<Region<Record>>,
    /// How many times they have.
    agreements: Mutex<u64>,
}

impl std::fmt::Debug for Team {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.memory.fmt(f)
    }
}

impl World {
    /// Makes a team of some ranks, in this order: a range, evenly spaced ones ([`Members::strided`]), or a list. Collective: all
    /// ranks call it with the same members; if they do not, every one gets an error. Gives `None` to those that are not members.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// # use kumiki::Members;
    /// let world = kumiki::World::init()?;
    /// let even = world.team(Members::strided(0, 2, world.ranks().div_ceil(2)))?;
    /// if let Some(team) = even {
    ///     team.sync()?;
    ///     assert_eq!(team.world_rank(team.rank()), Some(world.rank()));
    ///     team.free()?;
    /// }
    /// # world.finalize()
    /// # }
    /// ```
    pub fn team(&self, members: impl Into<Members>) -> Result<Option<Team>> {
        self.met_all.store(true, Ordering::Relaxed);
        found(Circle::all(self), members.into())
    }

    /// Parts the ranks into teams: those that give the same colour are in one, in the order of their keys, and of their numbers
    /// where the keys are equal. Collective. Whoever gives `None` is in no team.
    pub fn team_split(&self, colour: impl Into<Option<u32>>, key: i64) -> Result<Option<Team>> {
        self.met_all.store(true, Ordering::Relaxed);
        split(Circle::all(self), colour.into(), key)
    }
}

impl Team {
    /// This rank's number in the team.
    pub fn rank(&self) -> Rank {
        self.memory.rank()
    }

    /// How many members it has.
    pub fn ranks(&self) -> u32 {
        self.memory.ranks()
    }

    /// The number in the world of a member; `None` if there is no such member.
    pub fn world_rank(&self, rank: Rank) -> Option<Rank> {
        self.memory.members().get(rank)
    }

    /// The number in the team of a rank of the world; `None` if it is not a member. Where members are not evenly spaced, this
    /// looks through them.
    pub fn rank_of(&self, world_rank: Rank) -> Option<Rank> {
        self.memory.members().position(world_rank)
    }

    /// Its members, by their numbers in the world.
    pub fn members(&self) -> &Members {
        self.memory.members()
    }

    /// Private bytes that it takes on this rank, as the ledger has them. What the members of a node share is in the heap of the
    /// first of them: 256 bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes() as usize
    }

    /// Waits until every member has come here: as [`World::sync`], without the other ranks. It is left only by passing it:
    /// after an error the rank is still in it, and the next call goes on.
    ///
    /// A member that is lost, drops the team or finalizes does not come: then everybody who waits gets
    /// [`PeerLost`](Error::PeerLost) for it, and so does whoever comes later.
    pub fn sync(&self) -> Result<()> {
        self.memory.sync()
    }

    /// As [`sync`](Self::sync), for at most this long. After [`Timeout`](Error::Timeout) the rank is still in the barrier; the
    /// next call goes on waiting.
    pub fn sync_for(&self, limit: Duration) -> Result<()> {
        self.memory.sync_for(limit)
    }

    /// As [`sync_for`](Self::sync_for), for whoever goes on after an error: it does not count as one that the world has returned.
    pub(crate) fn meet_for(&self, limit: Duration) -> Result<()> {
        self.memory.meet_for(limit)
    }

    /// Makes a team of some members, by their numbers in this team: as [`World::team`]. Collective among the members.
    pub fn team(&self, world: &World, members: impl Into<Members>) -> Result<Option<Team>> {
        found(self.circle(world)?, members.into())
    }

    /// Parts the members into teams: as [`World::team_split`]. Collective among the members.
    pub fn team_split(
        &self,
        world: &World,
        colour: impl Into<Option<u32>>,
        key: i64,
    ) -> Result<Option<Team>> {
        split(self.circle(world)?, colour.into(), key)
    }

    /// Waits until all members have come here, and gives the team back. Collective among the members: the next barrier of whoever
    /// goes on with the team says who left.
    pub fn free(self) -> Result<()> {
        self.memory.free()
    }

    pub(crate) fn circle<'w>(&'w self, world: &'w World) -> Result<Circle<'w>> {
        if !self.memory.is_in(&world.memory) {
            return world.note(Err(Error::Misuse("a team of another world".into())));
        }
        Ok(Circle { world, team: Some(self) })
    }

    /// A team that all members have joined, and where they agree.
    pub(super) fn of_parts(
        memory: kumiki_mem::Team,
        record: GlobalPtr<Record>,
        kept: Option<Region<Record>>,
    ) -> Team {
        Team { memory, record, _record: kept, agreements: Mutex::new(0) }
    }

    pub(crate) fn record(&self) -> GlobalPtr<Record> {
        self.record
    }

    pub(crate) fn agreements(&self) -> &Mutex<u64> {
        &self.agreements
    }

    pub(crate) fn number(&self) -> u64 {
        self.memory.number()
    }
}

/// What a rank wants to be with whom by: 0 before it has said it.
const NO_COLOUR: u64 = 1;
const FIRST_COLOUR: u64 = 2;

/// What those who make teams count in their table, by its words: who has what it needs to be in its team, and who has joined it.
/// Whoever cannot even say so has not.
const PREPARED: usize = 1;
const JOINED: usize = 2;
const HEAD: usize = 3;

/// The table of a split, or of one team, on the first of those who make it: a word that says that it is sorted, and what they
/// count; two words for each of them, and the members of all teams, four bytes each.
struct Table<'w> {
    world: &'w World,
    block: GlobalAddress,
    entries: usize,
}

impl<'w> Handed<'w> for Table<'w> {
    fn words(&self) -> [u64; 3] {
        [self.block.bits(), self.entries as u64, 0]
    }

    fn open(world: &'w World, [block, entries, _]: [u64; 3]) -> Result<Self> {
        Ok(Table { world, block: GlobalAddress::from_bits(block), entries: entries as usize })
    }

    fn discard(self) -> Result<()> {
        self.world.free(self.block)
    }
}

impl<'w> Table<'w> {
    /// Of nobody's entries, on this rank.
    fn new(world: &'w World, entries: usize) -> Result<Table<'w>> {
        let block = world.malloc(8 * HEAD + entries * (16 + 4), world.rank())?;
        let table = Table { world, block, entries };
        world.put_slice(table.entries(), &vec![[0; 2]; entries])?;
        world.put(table.sorted().cast(), [0u64; HEAD])?;
        Ok(table)
    }

    fn sorted(&self) -> GlobalPtr<u64> {
        GlobalPtr::from_address(self.block)
    }

    fn entries(&self) -> GlobalPtr<[u64; 2]> {
        (self.sorted() + HEAD).cast()
    }

    fn list(&self) -> GlobalPtr<u32> {
        (self.entries() + self.entries).cast()
    }

    /// Says that this rank has come so far.
    fn say(&self, what: usize) -> Result<()> {
        self.world.fetch_add(self.sorted() + what, 1).map(drop)
    }

    /// How many of so many have not; after all have said it.
    fn missing(&self, what: usize, ranks: u32) -> Result<u64> {
        Ok(u64::from(ranks).saturating_sub(self.world.get(self.sorted() + what)?))
    }

    /// Turns what each has said into what each must know: of which team it is. For the first of those who part.
    fn sort(&self) -> Result<()> {
        let _booked = self.world.book(Purpose::Team, self.entries as u64 * (2 * 16 + 4))?;
        let said = self.world.get_vec(self.entries(), self.entries)?;
        if said.iter().any(|[colour, _]| *colour == 0) {
            return Err(Error::Refused(
                "a rank could not say which team it is of; its own error says why".into(),
            ));
        }
        let (order, teams) = sorted(&said);
        self.world.put_slice(self.list(), &order)?;
        self.world.put_slice(self.entries(), &teams)?;
        self.world.put(self.sorted(), 1)
    }

    /// The team of one of those who part, by their numbers; `None` if it is in no team.
    fn team_of(&self, rank: Rank) -> Result<Option<Members>> {
        if self.world.get(self.sorted())? != 1 {
            return Err(Error::Refused("the first rank could not sort the others into teams".into()));
        }
        let [word, stride] = self.world.get(self.entries() + rank as usize)?;
        let (first, count) = (word as u32, (word >> 32) as u32);
        Ok(match (count, stride) {
            (0, _) => None,
            (_, 0) => {
                Some(Members::List(self.world.get_vec(self.list() + first as usize, count as usize)?.into()))
            }
            _ => Some(Members::Range { first, stride: stride as u32, count }),
        })
    }
}

/// Those who have a colour, by colour, key and number; and for each what its team is: evenly spaced from a first one, or a part
/// of that list.
fn sorted(said: &[[u64; 2]]) -> (Vec<u32>, Vec<[u64; 2]>) {
    let by = |rank: &u32| {
        let [colour, key] = said[*rank as usize];
        (colour, key as i64, *rank)
    };
    let mut order: Vec<u32> = (0..said.len() as u32).filter(|rank| by(rank).0 >= FIRST_COLOUR).collect();
    order.sort_unstable_by_key(by);
    let mut teams = vec![[0; 2]; said.len()];
    let mut start = 0;
    for team in order.chunk_by(|one, other| by(one).0 == by(other).0) {
        let entry = match Members::from(team) {
            Members::Range { first, stride, count } => {
                [u64::from(first) | u64::from(count) << 32, stride.into()]
            }
            Members::List(list) => [start as u64 | (list.len() as u64) << 32, 0],
        };
        team.iter().for_each(|rank| teams[*rank as usize] = entry);
        start += team.len();
    }
    (order, teams)
}

/// Makes a team of these, by their numbers in the circle.
fn found(circle: Circle<'_>, members: Members) -> Result<Option<Team>> {
    let world = circle.world;
    let mut turns = circle.lock();
    let valid = members.check(circle.ranks());
    let wish = Wish::new("a team", &members);
    let make = || valid.clone().and_then(|()| Table::new(world, 1));
    let agreed = agree(circle, &mut turns, wish, make, |_| [false; 2]);
    // Who names what cannot be learns why; the others, that it names something else, or that the first could not make it.
    let Agreed { made: table, counts, turn } = match (&valid, agreed) {
        (Err(_), Err(_)) => return world.note(valid.map(|()| None)),
        (_, agreed) => agreed?,
    };
    let note = table.entries();
    let wanted = valid
        .and(counts)
        .map(|_| Some(Wanted { members: in_world(circle, &members), note, number: number(circle, turn, 0) }));
    establish(circle, table, wanted)
}

/// Parts those of a circle.
fn split(circle: Circle<'_>, colour: Option<u32>, key: i64) -> Result<Option<Team>> {
    let world = circle.world;
    let mut turns = circle.lock();
    let entries = circle.ranks() as usize;
    let make = || Table::new(world, entries);
    let Agreed { made: table, counts, turn } =
        agree(circle, &mut turns, Wish::new("teams", ()), make, |_| [false; 2])?;
    let colour = colour.map_or(NO_COLOUR, |colour| u64::from(colour) + FIRST_COLOUR);
    let entry = table.entries() + circle.rank() as usize;
    let said = counts.and_then(|_| world.put(entry, [colour, key as u64]));
    circle.sync()?;
    let sorted = if circle.rank() == 0 { table.sort() } else { Ok(()) };
    circle.sync()?;
    let wanted = said.and(sorted).and_then(|()| {
        let Some(members) = table.team_of(circle.rank())? else { return Ok(None) };
        let note = table.entries() + members.get(0).unwrap_or(0) as usize;
        let number = number(circle, turn, colour);
        Ok(Some(Wanted { members: in_world(circle, &members), note, number }))
    });
    establish(circle, table, wanted)
}

/// A team that is to be.
struct Wanted {
    /// By their numbers in the world.
    members: Members,
    /// Where its first member says where they are going to agree.
    note: GlobalPtr<[u64; 2]>,
    number: u64,
}

/// Makes the teams that those of a circle want to be in: all of them, or none.
///
/// Whatever goes wrong on a rank, it comes to the same barriers as the others, who learn there that it is missing. Only when a
/// barrier fails it does not go on; then nobody can. The table stays in that case: others may still write into it.
fn establish(circle: Circle<'_>, table: Table<'_>, wanted: Result<Option<Wanted>>) -> Result<Option<Team>> {
    let (world, ranks) = (circle.world, circle.ranks());
    let prepared = wanted
        .and_then(|wanted| wanted.map_or(Ok(None), |wanted| prepare(world, wanted)))
        .and_then(|prepared| table.say(PREPARED).map(|()| prepared));
    circle.sync()?;
    let joined = match (prepared, table.missing(PREPARED, ranks)) {
        (Ok(prepared), Ok(0)) => prepared.map(|prepared| prepared.join(world)).transpose(),
        (Ok(prepared), Ok(missing)) => {
            prepared.into_iter().for_each(|prepared| prepared.memory.abandon());
            Err(not_all(missing))
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    };
    let joined = joined.and_then(|joined| table.say(JOINED).map(|()| joined));
    circle.sync()?;
    let missing = table.missing(JOINED, ranks);
    // Nobody looks at the table any more.
    circle.sync()?;
    let discarded = if circle.rank() == 0 { table.discard() } else { Ok(()) };
    let made = match (joined, missing) {
        (Ok(_), Ok(missing @ 1..)) => Err(not_all(missing)),
        // Whoever does not learn whether all have joined has the team: if the others give it up, its barriers say so.
        (joined, _) => joined,
    };
    let team = world.note(discarded.and(made))?;
    team.iter().for_each(|team| team.memory.joined());
    Ok(team)
}

fn not_all(missing: u64) -> Error {
    Error::Refused(format!("{missing} ranks could not be in their team; their errors say why"))
}

/// A team that this rank has what it needs for.
struct Prepared {
    memory: kumiki_mem::Team,
    record: Option<Region<Record>>,
    note: GlobalPtr<[u64; 2]>,
}

fn prepare(world: &World, wanted: Wanted) -> Result<Option<Prepared>> {
    let Some(memory) = world.memory.prepare_team(wanted.number, wanted.members)? else { return Ok(None) };
    match prepare_record(world, &memory, wanted.note) {
        Ok(record) => Ok(Some(Prepared { memory, record, note: wanted.note })),
        Err(error) => {
            // Nobody joins without this rank.
            memory.abandon();
            Err(error)
        }
    }
}

/// The first member takes memory for where they agree, and says where.
fn prepare_record(
    world: &World,
    memory: &kumiki_mem::Team,
    note: GlobalPtr<[u64; 2]>,
) -> Result<Option<Region<Record>>> {
    if memory.rank() != 0 {
        return Ok(None);
    }
    let record = world.alloc::<Record>(2)?;
    let (address, registration) = record.ptr().parts();
    world.put(note, [address.bits(), registration])?;
    Ok(Some(record))
}

impl Prepared {
    fn join(self, world: &World) -> Result<Team> {
        let Prepared { memory, record, note } = self;
        memory.join()?;
        let [address, registration] = world.get(note)?;
        let place = GlobalPtr::from_parts(GlobalAddress::from_bits(address), registration);
        Ok(Team::of_parts(memory, place, record))
    }
}

/// Members of a circle by their numbers in the world.
fn in_world(circle: Circle<'_>, members: &Members) -> Members {
    circle.team.map_or_else(|| members.clone(), |team| members.of(team.members()))
}

/// The number of a team: the same on all members, and no other team's that any of them is in. What it is made of is different for
/// each: the circle that made it, how often that had agreed on something, and the colour.
fn number(circle: Circle<'_>, turn: u64, colour: u64) -> u64 {
    mixed(circle.team.map_or(0, Team::number), &[turn, colour])
}

/// A number that all of these go into; never 0.
pub(super) fn mixed(first: u64, parts: &[u64]) -> u64 {
    parts
        .iter()
        .fold(first, |number, part| {
            let mixed =
                (number ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0xd1b5_4a32_d192_ed03);
            let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^ mixed >> 31
        })
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_sorted_by_colour_and_key_and_even_teams_need_no_list() {
        let coloured = |colour: u64, key: i64| [colour + FIRST_COLOUR, key as u64];
        let said =
            [coloured(7, 5), coloured(3, 0), [NO_COLOUR, 0], coloured(7, -1), coloured(3, 0), coloured(7, 9)];
        let (order, teams) = sorted(&said);
        assert_eq!(order, [1, 4, 3, 0, 5]);
        let list = [2 | 3 << 32, 0];
        assert_eq!(teams, [list, [1 | 2 << 32, 3], [0, 0], list, [1 | 2 << 32, 3], list]);
    }

    /// All get an error, nobody has a team that others are not in, and nobody is out of step.
    #[test]
    fn a_rank_that_alone_fails_to_be_in_a_team_is_missed_by_all() {
        use kumiki_sim::{Cluster, Network};
        let outcome = Cluster::new(4, Network::torus(&[4])).run(|attachment| {
            let world = World::attach(attachment)?;
            for (sick, prepares) in [(0, false), (2, false), (2, true), (3, true)] {
                let circle = Circle::all(&world);
                let mut turns = circle.lock();
                let make = || Table::new(&world, 1);
                let Agreed { made: table, turn, .. } =
                    agree(circle, &mut turns, Wish::new("a test", sick), make, |_| [false; 2])?;
                let (is_sick, note) = (world.rank() == sick, table.entries());
                // It does not find where the first one says where they agree.
                let note = if is_sick && prepares { note + (1 << 30) } else { note };
                let wanted = Wanted { members: (0..4).into(), note, number: number(circle, turn, 0) };
                let wanted = if is_sick && !prepares { Err(not_all(1)) } else { Ok(Some(wanted)) };
                let missed = establish(circle, table, wanted).expect_err("one is missing");
                assert!(is_sick || matches!(missed, Error::Refused(_)), "{missed}");
                drop(turns);
                let team = world.team(0..4)?.expect("a member");
                team.sync()?;
                team.free()?;
            }
            world.sync()?;
            assert_eq!(world.heap_use(0)?.blocks, 0, "nothing is left of the tables");
            world.finalize()
        });
        assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), vec![Ok(()); 4]);
    }
}
