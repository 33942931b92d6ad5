//! How a halo is made: a team of its own, a block on each member, and for each member the blocks of its neighbours.
//!
//! As with groups, the first member has a table for the time being, in which everybody says where its block is and how large its piece of
//! the field. Each takes from it what it needs, and says that it has it. If one cannot, all get an error.

use super::geometry::{LinkPlan, Plan, Rules};
use super::links::{Kind, Link, Links, Parcel};
use super::{Halo, HaloOptions};
use crate::comm::collective::Retired;
use crate::comm::rows::STAGE_BYTES;
use crate::comm::Cartesian;
use crate::data::agreement::{agree, Agreed, Handed, Wish};
use crate::{Error, GlobalAddress, GlobalPtr, Members, Pod, Purpose, Rank, Region, Result, Team, World};
use kumiki_mem::Booking;
use std::cell::RefCell;
use std::marker::PhantomData;

impl<'w> Cartesian<'_, 'w> {
    /// Makes a halo of fields of which each member has a piece of these extents, without ghosts; the last dimension lies together in memory.
    /// Members that differ in one dimension alone have the same extents in the others.
    ///
    /// Collective: the options are the same on all members. If one has no memory for it, or its extents do not fit to those of its neighbours,
    /// every one gets an error.
    pub fn halo<T: Pod>(&self, extents: &[usize], options: HaloOptions) -> Result<Halo<'w, T>> {
        self.halo_of(size_of::<T>(), extents, options)
    }

    /// The same for elements of so many bytes, over fields of `T`: the same elements, or bytes.
    pub(crate) fn halo_of<T: Pod>(
        &self,
        element: usize,
        extents: &[usize],
        options: HaloOptions,
    ) -> Result<Halo<'w, T>> {
        let world = self.group.world;
        let team = self.group.another_team()?;
        let rules = Rules {
            ghosts: options.ghosts(self.shape.dimensions.len()),
            grid: self.shape.clone(),
            has_corners: options.has_corners,
            element,
            fields: options.fields,
        };
        let wish = Wish::of::<T>("a halo", &rules);
        world.note(Making { world, members: &self.group.members, rules, extents }.make(team, wish))
    }
}

/// What a member comes with.
struct Making<'a, 'w> {
    world: &'w World,
    members: &'a Members,
    rules: Rules,
    extents: &'a [usize],
}

/// What a member has before it knows the others.
struct Prepared<'w> {
    plan: Plan,
    block: Region<u64>,
    links: Vec<Link<'w>>,
    booked: Booking,
}

/// What others know of: those of this node may touch its block, also if nothing comes of the halo. Each says when it will not any more; one
/// that never learned of the block does so when it is gone.
struct Shown<'w> {
    world: &'w World,
    prepared: Option<Prepared<'w>>,
}

impl<'w> Shown<'w> {
    fn take(mut self) -> Option<Prepared<'w>> {
        self.prepared.take()
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if let Some(Prepared { block, links, booked, .. }) = self.prepared.take() {
            links.iter().for_each(|link| link.part(self.world.local()));
            let guests = links.iter().filter_map(Link::guest).collect();
            self.world.retire(Retired { block, room: None, guests, booked });
        }
    }
}

/// The table of the first member: how many have what they need, and for each where its block is and its extents.
struct Table<'w> {
    world: &'w World,
    block: GlobalAddress,
    /// Words for a member.
    words: usize,
}

impl<'w> Handed<'w> for Table<'w> {
    fn words(&self) -> [u64; 3] {
        [self.block.bits(), self.words as u64, 0]
    }

    fn open(world: &'w World, [block, words, _]: [u64; 3]) -> Result<Self> {
        Ok(Table { world, block: GlobalAddress::from_bits(block), words: words as usize })
    }

    fn discard(self) -> Result<()> {
        self.world.free(self.block)
    }
}

impl<'w> Table<'w> {
    fn new(world: &'w World, members: u32, dimensions: usize) -> Result<Table<'w>> {
        let words = 2 + dimensions;
        let all = 1 + words * members as usize;
        let table = Table { world, block: world.malloc(8 * all, world.rank())?, words };
        let cleared = (0..all).try_for_each(|word| world.put(table.word(word), 0));
        cleared.inspect_err(|_| drop(world.free(table.block)))?;
        Ok(table)
    }

    fn word(&self, index: usize) -> GlobalPtr<u64> {
        GlobalPtr::from_address(self.block) + index
    }

    fn of(&self, member: Rank) -> GlobalPtr<u64> {
        self.word(1 + self.words * member as usize)
    }
}

impl<'w> Making<'_, 'w> {
    fn make<T: Pod>(self, team: Team, wish: Wish) -> Result<Halo<'w, T>> {
        let (world, me, count) = (self.world, team.rank(), team.ranks());
        world.sweep_groups();
        let prepared = self.prepare(me);
        let circle = team.circle(world)?;
        let dimensions = self.rules.ghosts.len();
        let short = |_| [prepared.is_err(), false];
        let Agreed { made: table, counts, .. } =
            agree(circle, &mut circle.lock(), wish, || Table::new(world, count, dimensions), short)?;
        // Whatever goes wrong now, this rank comes to the same barriers as the others.
        let (mut shown, said) = match (prepared, &counts) {
            (Ok(prepared), Ok([0, _])) => {
                let said = self.say(&table, &prepared, me);
                (Some(Shown { world, prepared: Some(prepared) }), said)
            }
            (Err(error), _) => (None, Err(error)),
            (_, Err(error)) => (None, Err(error.clone())),
            (_, Ok([missing, _])) => (None, Err(not_all(*missing))),
        };
        // If nobody can meet any more the table stays: others may still write into it.
        circle.sync()?;
        let links = shown.as_mut().and_then(|shown| shown.prepared.as_mut()).map(|own| &mut own.links[..]);
        let connected = said.and_then(|()| self.connect_all(&table, links.unwrap_or_default()));
        let connected = connected.and_then(|()| world.fetch_add(table.word(0), 1));
        let whole = || shown.and_then(Shown::take).ok_or_else(|| not_all(1));
        let ready = circle.sync().and_then(|()| {
            let ready = world.get(table.word(0));
            circle.sync().map(|()| ready)
        });
        let ready = match ready {
            Ok(ready) => ready,
            // Others may have passed, and write to the block of this one: it leaves as from a halo that is there.
            Err(error) => {
                connected?;
                return Err(self.leave::<T>(team, whole()?, error));
            }
        };
        if me == 0 {
            // If somebody has freed it already, that is no matter for the halo, which the others have.
            let _ = table.discard();
        }
        connected?;
        match ready {
            Ok(ready) if ready < u64::from(count) => Err(not_all(u64::from(count) - ready)),
            Ok(_) => Ok(self.halo(team, whole()?)),
            // The others may all have the halo.
            Err(error) => Err(self.leave::<T>(team, whole()?, error)),
        }
    }

    /// Learns where the blocks of all neighbours are. Whatever is wrong with one, this member then knows where to part with the others.
    fn connect_all(&self, table: &Table<'_>, links: &mut [Link<'_>]) -> Result<()> {
        let mut links: Vec<_> = links.iter_mut().collect();
        // A neighbour in several directions is asked once.
        links.sort_unstable_by_key(|link| link.plan.member);
        let mut all = Ok(());
        for links in links.chunk_by_mut(|one, next| one.plan.member == next.plan.member) {
            let connected = self.connect(table, links);
            all = all.and(connected);
        }
        all
    }

    /// Leaves a halo that others may have.
    fn leave<T: Pod>(self, team: Team, prepared: Prepared<'w>, error: Error) -> Error {
        drop(self.halo::<T>(team, prepared));
        error
    }

    fn halo<T: Pod>(self, team: Team, prepared: Prepared<'w>) -> Halo<'w, T> {
        let Prepared { plan, block, links, booked } = prepared;
        let links = Links {
            world: self.world,
            block: block.address(),
            block_bytes: plan.bytes,
            links,
            turn: 0,
            stage: vec![0; STAGE_BYTES],
            broken: None,
            has_parted: false,
        };
        Halo {
            links,
            team: Some(team),
            memory: Some((block, booked)),
            is_underway: false,
            fields: self.rules.fields,
            extents: self.extents.to_vec(),
            ghosts: self.rules.ghosts,
            padded: plan.padded,
            elements: plan.elements * self.rules.element / size_of::<T>().max(1),
            element: PhantomData,
        }
    }

    fn prepare(&self, me: Rank) -> Result<Prepared<'w>> {
        let world = self.world;
        let plan = self.rules.plan(me, self.extents)?;
        let is_far = |link: &LinkPlan| {
            link.member != me
                && !self.members.get(link.member).is_some_and(|rank| world.local().is_near(rank))
        };
        let mut private = size_of::<Halo<'_, u8>>() as u64 + STAGE_BYTES as u64;
        for link in &plan.links {
            let parcel = if is_far(link) { self.rules.strip_bytes(&link.sends)? } else { 0 };
            let known = size_of::<Link<'_>>() as u64 + link.sends.memory_bytes() + link.takes.memory_bytes();
            private = private.saturating_add(parcel.saturating_mul(2)).saturating_add(known);
        }
        let booked = world.book(Purpose::Comm, private)?;
        let block = world.alloc::<u64>(plan.bytes.div_ceil(8) as usize)?;
        let links: Result<Vec<_>> = plan.links.iter().map(|link| self.link(me, link, is_far(link))).collect();
        Ok(Prepared { links: links?, plan, block, booked })
    }

    /// A link whose other end is not known.
    fn link(&self, me: Rank, plan: &LinkPlan, is_far: bool) -> Result<Link<'w>> {
        let (out_bytes, in_bytes) =
            (self.rules.strip_bytes(&plan.sends)?, self.rules.strip_bytes(&plan.takes)?);
        let parcel = || match is_far {
            true => memory(out_bytes as usize).map(Parcel::Idle),
            false => Ok(Parcel::Idle(Vec::new())),
        };
        let kind = match is_far {
            _ if plan.member == me => Kind::Own,
            true => Kind::Far,
            false => Kind::Near,
        };
        Ok(Link {
            plan: plan.clone(),
            rank: self.members.get(plan.member).unwrap_or(u32::MAX),
            kind,
            block: GlobalPtr::NULL,
            head: 0,
            strips: [0; 2],
            out_bytes,
            in_bytes,
            parcels: RefCell::new([parcel()?, parcel()?]),
        })
    }

    /// Says where the block of this member is, and how large its piece.
    fn say(&self, table: &Table<'_>, prepared: &Prepared<'_>, me: Rank) -> Result<()> {
        let (address, registration) = prepared.block.ptr().parts();
        let mut words = vec![address.bits(), registration];
        words.extend(self.extents.iter().map(|extent| *extent as u64));
        self.world.put_slice(table.of(me), &words)
    }

    /// Learns where the block of a neighbour is, and where in it this member writes: by all links to it.
    fn connect(&self, table: &Table<'_>, links: &mut [&mut Link<'_>]) -> Result<()> {
        let Some(Link { plan: LinkPlan { member, .. }, rank, .. }) = links.first().map(|link| &**link) else {
            return Ok(());
        };
        let (member, rank) = (*member, *rank);
        let mut words = vec![0; 2 + self.extents.len()];
        self.world.get_slice(table.of(member), &mut words)?;
        let address = GlobalAddress::from_bits(words[0]);
        if words[0] == 0 || self.world.local().rank_of(address) != rank {
            return Err(Error::Refused(format!("member {member} has not said where its block is")));
        }
        let extents: Vec<usize> = words[2..].iter().map(|word| *word as usize).collect();
        let there = self.rules.plan(member, &extents)?.links;
        let mut all = Ok(());
        for link in links {
            let back = self.rules.opposite(link.plan.code);
            let found = there.binary_search_by_key(&back, |link| link.code);
            let found = found.map_err(|_| Error::Refused(format!("member {member} has no link back")))?;
            link.block = GlobalPtr::from_parts(address, words[1]);
            (link.head, link.strips) = (there[found].head, there[found].strips);
            all = all.and(self.check_extents(&extents, link));
        }
        all
    }

    /// Beside each other members have the same extents in the other dimensions.
    fn check_extents(&self, theirs: &[usize], link: &Link<'_>) -> Result<()> {
        let steps = self.rules.steps(link.plan.code);
        let mut axes = self.extents.iter().zip(theirs).zip(&steps);
        if axes.any(|((own, theirs), step)| *step == 0 && own != theirs) {
            let (own, member) = (self.extents, link.plan.member);
            return Err(Error::Misuse(format!("extents {own:?} beside {theirs:?} of member {member}")));
        }
        Ok(())
    }
}

/// Memory of so many bytes, which has been booked.
fn memory(bytes: usize) -> Result<Vec<u8>> {
    let mut memory = Vec::new();
    let what = "the system has no memory for a halo";
    let none = |_| Error::OutOfMemory { asked: bytes as u64, left: 0, what };
    memory.try_reserve_exact(bytes).map_err(none)?;
    Ok(memory)
}

fn not_all(missing: u64) -> Error {
    Error::Refused(format!("{missing} members could not have the halo; their errors say why"))
}
