//! Teams that their members make alone: by messages, from the first of them to the others and back, as in a tree.

use super::{Team, World};
use crate::comm::Messages;
use crate::{Error, GlobalAddress, GlobalPtr, Members, Rank, Result};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long to wait before something is tried again.
const AGAIN: Duration = Duration::from_millis(2);
/// The messages of those who make a team: no program has this number.
const CONTEXT: u32 = 0x8000_0002;

impl World {
    /// Makes a team of some ranks, in this order, without the others: as [`team`](Self::team), but only the members call it, with the same members
    /// and the same name. Teams of the same name whose members overlap are made one after the other.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// let world = kumiki::World::init()?;
    /// let half = world.ranks().div_ceil(2);
    /// if world.rank() < half {
    ///     let team = world.team_among(0..half, 7)?;
    ///     team.sync()?;
    ///     team.free()?;
    /// }
    /// # world.finalize()
    /// # }
    /// ```
    pub fn team_among(&self, members: impl Into<Members>, name: u64) -> Result<Team> {
        let members = members.into();
        self.note(members.check(self.ranks()))?;
        let Some(me) = members.position(self.rank()) else {
            return self.note(Err(Error::Misuse("a team of which this rank is no member".into())));
        };
        let mail = self.messages().context(CONTEXT);
        self.note(Tree { world: self, mail, name, members: &members, me }.make())
    }

    /// A number for a team that this rank is the first of.
    fn next_team(&self, name: u64) -> u64 {
        let count = self.founded.fetch_add(1, Ordering::Relaxed);
        super::teams::mixed(u64::from(self.rank()) | 1 << 63, &[count, name])
    }
}

/// Those who make a team, each below the one whose number lacks its lowest bit.
struct Tree<'a> {
    world: &'a World,
    mail: Messages<'a>,
    name: u64,
    members: &'a Members,
    me: Rank,
}

/// What the first member tells: whether all is well, the number of the team, and where they are going to agree.
type Words = [u64; 4];

impl Tree<'_> {
    fn make(&self) -> Result<Team> {
        let mut own = Ok(());
        let record = match self.me {
            0 => self.world.alloc(2).map_err(|error| own = Err(error)).ok(),
            _ => None,
        };
        let words = record.as_ref().map_or([0; 4], |record| {
            let (address, registration) = crate::Region::ptr(record).parts();
            [1, self.world.next_team(self.name), address.bits(), registration]
        });
        let [well, number, address, registration] = self.spread(words)?;
        own?;
        if well == 0 {
            return Err(not_all());
        }
        let prepared = self.world.memory.prepare_team(number, self.members.clone());
        let prepared = prepared.and_then(|team| team.ok_or_else(not_all));
        let all = self.agree(prepared.is_ok());
        let memory = match (prepared, all) {
            (Ok(memory), Ok(None)) => memory,
            (Ok(memory), Ok(Some(why))) => {
                // Nobody joins it.
                memory.abandon();
                return Err(why);
            }
            // Others may join it.
            (Ok(_), Err(error)) => return Err(error),
            (Err(error), _) => return Err(error),
        };
        let joined = memory.join();
        let all = self.agree(joined.is_ok());
        joined?;
        if let Some(why) = all? {
            return Err(why);
        }
        memory.joined();
        let place = GlobalPtr::from_parts(GlobalAddress::from_bits(address), registration);
        Ok(Team::of_parts(memory, place, record))
    }

    /// What keeps a member from saying yes, as far as this rank knows; nothing if all do.
    fn agree(&self, yes: bool) -> Result<Option<Error>> {
        let mut why = (!yes).then(not_all);
        for child in self.children() {
            match self.receive(child) {
                Ok([1, ..]) => {}
                Ok(_) => {
                    why.get_or_insert_with(not_all);
                }
                // Nobody else can say that.
                Err(error) => why = Some(error),
            }
        }
        let words = [u64::from(why.is_none()), 0, 0, 0];
        if self.me != 0 {
            // Whoever does not hear it is gone, and nothing is heard of it either.
            self.tell(self.parent(), words);
        }
        let [well, ..] = self.spread(words)?;
        Ok(if well == 1 { None } else { why.or_else(|| Some(not_all())) })
    }

    /// What the first member says; all others pass it on. Whoever does not hear it says that not all is well.
    fn spread(&self, words: Words) -> Result<Words> {
        let heard = if self.me == 0 { Ok(words) } else { self.receive(self.parent()) };
        for child in self.children() {
            // Who is gone is missed in the end.
            self.tell(child, *heard.as_ref().unwrap_or(&[0; 4]));
        }
        heard
    }

    fn parent(&self) -> Rank {
        parent(self.me)
    }

    fn children(&self) -> impl Iterator<Item = Rank> {
        children(self.me, self.members.len())
    }

    /// Tells a member something, unless it is gone: it waits for that, so what is only in the way of this rank is tried again.
    fn tell(&self, member: Rank, words: Words) {
        while let Err(error) = self.mail.send(self.member(member), self.name, &words) {
            let is_passing = matches!(error, Error::OutOfMemory { .. } | Error::Timeout { .. });
            let is_there = self.world.local().check_alive(self.member(member)).is_ok();
            if !is_passing || !is_there || self.world.progress().is_err() {
                return;
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn receive(&self, member: Rank) -> Result<Words> {
        let mut words = [0; 4];
        let got = self.mail.receive_into(&mut words, self.member(member), self.name)?;
        match got.bytes == size_of::<Words>() {
            true => Ok(words),
            false => Err(Error::Refused(format!("member {member} says something else about a team"))),
        }
    }

    fn member(&self, member: Rank) -> Rank {
        self.members.get(member).unwrap_or(Rank::MAX)
    }
}

/// Whom a member that is not the first is below.
pub(crate) fn parent(me: Rank) -> Rank {
    me & (me - 1)
}

/// Those that are below a member.
pub(crate) fn children(me: Rank, count: u32) -> impl Iterator<Item = Rank> {
    let powers = if me == 0 { u32::BITS } else { me.trailing_zeros() };
    (0..powers).map(move |power| me | 1 << power).filter(move |&child| child < count)
}

fn not_all() -> Error {
    Error::Refused("a member could not be in the team; its own error says why".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::MessageOptions;
    use kumiki_sim::{Cluster, Network};

    #[test]
    fn everybody_is_below_somebody_and_the_first_above_all() {
        for count in 1..40 {
            let mut seen = vec![0];
            (0..count).for_each(|me| seen.extend(children(me, count)));
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
            assert!((1..count).all(|me| children(parent(me), count).any(|child| child == me)));
        }
    }

    #[test]
    fn members_make_teams_without_the_others_and_several_at_a_time() {
        let outcome = Cluster::new(11, Network::torus(&[11])).run(|attachment| {
            let world = World::attach(attachment)?;
            let me = world.rank();
            // The others do nothing but to finalize.
            for members in [vec![3, 1, 4, 9, 10], vec![7, 6], vec![5, 4, 3, 2, 1, 0], vec![8]] {
                for name in [1, 2] {
                    if members.contains(&me) {
                        let team = world.team_among(members.clone(), name)?;
                        assert_eq!(team.world_rank(team.rank()), Some(me));
                        team.sync()?;
                        let group = team.group(&world)?;
                        let mut sum = [me];
                        group.allreduce(&mut sum, crate::comm::Sum)?;
                        assert_eq!(sum[0], members.iter().sum::<u32>());
                        group.free()?;
                        team.free()?;
                    }
                }
            }
            assert!(world.team_among(vec![(me + 1) % 11], 1).is_err());
            world.finalize()
        });
        assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), vec![Ok(()); 11]);
    }

    #[test]
    fn whoever_has_no_room_to_hear_a_member_says_so() {
        let outcome = Cluster::new(2, Network::torus(&[2])).run(|attachment| {
            let world = World::attach(attachment)?;
            let (me, messages) = (world.rank(), world.messages());
            messages.set_options(MessageOptions { kept_bytes: 20_000, ..MessageOptions::default() })?;
            // More than the first may keep stands before what the second says.
            let sends = (0..200u64 * u64::from(me)).map(|at| messages.start_send(0, 1, vec![at; 100]));
            let sends = sends.collect::<Result<Vec<_>>>()?;
            let refused = world.team_among(0..2, 1).map(drop);
            match me {
                0 => assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}"),
                _ => assert_eq!(refused, Err(not_all())),
            }
            for at in 0..200 * u64::from(1 - me) {
                assert_eq!(messages.receive::<u64>(1, 1)?.elements, vec![at; 100]);
            }
            messages.wait_all(sends)?;
            world.finalize()
        });
        assert_eq!(outcome.expect("it runs").values().expect("nobody panicked"), vec![Ok(()); 2]);
    }
}
