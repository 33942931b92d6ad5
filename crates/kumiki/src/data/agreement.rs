//! How all ranks come to use one thing: rank 0 makes it, and every rank gets a handle to it.
//!
//! All ranks make the same calls in the same order. What rank 0 made is told in a record that lies in the head of its pool,
//! where every rank finds it; starter memory is the program's. The record carries a mark of the call: which of its kind it
//! is, what it makes and with what arguments. A rank that finds its own mark and has all that it needs says so in the record. If
//! not all have (one came with something else, or could not even speak), every rank gets an error, and what was made is given
//! back.
//!
//! There are two records, used in turn: a rank can still be looking at one for who agrees when rank 0 writes the next. A rank
//! that dies in the middle makes the barrier fail, for all; nobody waits for it.

use super::heap;
use crate::{Error, Fate, GlobalPtr, Rank, Result, Team, World};
use std::hash::{Hash, Hasher};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// What is told to all ranks: mark, outcome, three words of the handle, and what all ranks count: who agrees, and on how many
/// of them two things hold.
pub(crate) type Record = [u64; 8];
/// Where the counts are.
const COUNTS: usize = 5;

/// So often whoever waits for the members of a team looks after messages, though nothing of its own is under way.
const LOOK: Duration = Duration::from_millis(100);

const MADE: u64 = 1;
const NO_MEMORY: u64 = 2;
const LOST: u64 = 3;
const FAILED: u64 = 4;

/// Something that other ranks can use when they are told three words.
pub(crate) trait Handed<'w>: Sized {
    /// What to tell.
    fn words(&self) -> [u64; 3];

    /// The handle of another rank.
    fn open(world: &'w World, words: [u64; 3]) -> Result<Self>;

    /// Gives back what nobody has used.
    fn discard(self) -> Result<()>;
}

/// What a rank comes for: the same on all ranks.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    name: &'static str,
    mark: u64,
}

impl Wish {
    /// To make something of this name with these arguments.
    pub(crate) fn new(name: &'static str, arguments: impl Hash) -> Wish {
        let mut marks = Marks(0xcbf2_9ce4_8422_2325);
        (name, arguments).hash(&mut marks);
        Wish { name, mark: marks.finish() }
    }

    /// To make something of elements of a type.
    pub(crate) fn of<T>(name: &'static str, arguments: impl Hash) -> Wish {
        Wish::new(name, (std::any::type_name::<T>(), size_of::<T>(), arguments))
    }
}

/// FNV-1a: ranks may run different programs, whose standard libraries need not hash alike.
struct Marks(u64);

impl Hasher for Marks {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Those who agree: all ranks, or the members of a team.
#[derive(Clone, Copy)]
pub(crate) struct Circle<'w> {
    pub(crate) world: &'w World,
    pub(crate) team: Option<&'w Team>,
}

impl<'w> Circle<'w> {
    pub(crate) fn all(world: &'w World) -> Circle<'w> {
        Circle { world, team: None }
    }

    pub(crate) fn rank(&self) -> Rank {
        self.team.map_or_else(|| self.world.rank(), Team::rank)
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.team.map_or_else(|| self.world.ranks(), Team::ranks)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        let Some(team) = self.team else { return self.world.sync() };
        loop {
            match self.world.wait_with_messages(LOOK, |limit| team.meet_for(limit)) {
                Err(Error::Timeout { .. }) => {}
                met => return self.world.note(met),
            }
        }
    }

    /// How many times they have agreed. Threads of this rank come one after the other, as ranks do: whoever has this keeps it
    /// until all that it does with the others is done.
    pub(crate) fn lock(&self) -> MutexGuard<'w, u64> {
        let agreements = self.team.map_or_else(|| self.world.agreements(), Team::agreements);
        agreements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the first of them tells the others what became of it; one place while another may still be read.
    fn record(&self, turn: u64) -> GlobalPtr<Record> {
        let first = match self.team {
            Some(team) => team.record(),
            None => GlobalPtr::from_address(heap::notice(self.world.local(), 0)),
        };
        first + (turn % 2) as usize
    }
}

/// Makes something on rank 0, and gives every rank its handle. Collective.
pub(crate) fn share<'w, S: Handed<'w>>(
    world: &'w World,
    wish: Wish,
    make: impl FnOnce() -> Result<S>,
) -> Result<S> {
    share_and_count(world, wish, make, |_| [false; 2]).map(|(made, _)| made)
}

/// As [`share`]; and when a rank is told, it looks whether two things hold there: gives on how many ranks they do.
pub(crate) fn share_and_count<'w, S: Handed<'w>>(
    world: &'w World,
    wish: Wish,
    make: impl FnOnce() -> Result<S>,
    look: impl FnOnce([u64; 3]) -> [bool; 2],
) -> Result<(S, [u64; 2])> {
    let circle = Circle::all(world);
    let agreed = agree(circle, &mut circle.lock(), wish, make, look)?;
    Ok((agreed.made, world.note(agreed.counts)?))
}

/// What all have agreed on, as one of them sees it.
pub(crate) struct Agreed<S> {
    pub(crate) made: S,
    /// On how many two things hold. An error is this rank's alone: the others have agreed and go on.
    pub(crate) counts: Result<[u64; 2]>,
    /// A number that no other agreement of the circle has.
    pub(crate) turn: u64,
}

/// As [`share_and_count`], among those of a circle, whose lock the caller has. After an error nobody goes on: all know that they do
/// not agree, or cannot meet any more.
pub(crate) fn agree<'w, S: Handed<'w>>(
    circle: Circle<'w>,
    turn: &mut u64,
    wish: Wish,
    make: impl FnOnce() -> Result<S>,
    look: impl FnOnce([u64; 3]) -> [bool; 2],
) -> Result<Agreed<S>> {
    let world = circle.world;
    world.tell_later();
    *turn += 1;
    let turn = *turn;
    let mark = wish.mark ^ turn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let record = circle.record(turn);
    let counts = record.cast::<u64>() + COUNTS;

    let made = (circle.rank() == 0).then(make);
    if let Some(made) = &made {
        tell(circle, record, mark, made);
    }
    // Whatever goes wrong between the two barriers, this rank comes to the second: the others must learn that it does not agree.
    let told = circle.sync().and_then(|()| {
        let told = world.get(record);
        let agrees = told.as_ref().is_ok_and(|told| told[0] == mark);
        let said = match &told {
            Ok(told) if agrees => say(world, counts, *told, look),
            _ => Ok(()),
        };
        circle.sync()?;
        let counted = world.get(counts.cast::<[u64; 3]>());
        if circle.team.is_some() {
            // Whoever has read this may leave the team, and takes the record with it.
            circle.sync()?;
        }
        // Without memory for a record there is none, on any rank.
        let told = told.map_err(|error| match error {
            Error::Bounds { .. } => no_memory(size_of::<Record>() as u64),
            other => other,
        })?;
        verdict(wish, circle.ranks().into(), agrees, said, counted).map(|counts| (told, counts))
    });
    match (told, made) {
        (Ok((_, counts)), Some(made)) => world.note(made).map(|made| Agreed { made, counts, turn }),
        (Ok((told, counts)), None) => {
            let words = world.note(outcome(wish, told))?;
            S::open(world, words).map(|made| Agreed { made, counts, turn })
        }
        (Err(error), made) => {
            let error = match made {
                Some(Err(own)) => own,
                Some(Ok(made)) => {
                    // Nobody uses it.
                    let _ = made.discard();
                    error
                }
                None => error,
            };
            world.note(Err(error))
        }
    }
}

/// Whether all agree, by what a rank has said and counted. A rank that has agreed, and does not learn what the others did, goes on
/// with them as long as it must come where they come: they do not know.
fn verdict(
    wish: Wish,
    ranks: u64,
    agrees: bool,
    said: Result<()>,
    counted: Result<[u64; 3]>,
) -> Result<Result<[u64; 2]>> {
    let assents = counted.as_ref().map_or(ranks, |counted| counted[0]);
    // The others have counted what was perhaps said.
    let is_unsaid =
        said.as_ref().is_err_and(|error| !matches!(error, Error::PeerLost { fate: Fate::Unknown, .. }));
    match said.and(counted) {
        _ if !agrees => Err(disagreement(wish, false, 0)),
        Ok([_, one, two]) if assents >= ranks => Ok(Ok([one, two])),
        Ok(_) => Err(disagreement(wish, true, ranks - assents)),
        Err(error) if is_unsaid || assents < ranks => Err(error),
        Err(error) => Ok(Err(error)),
    }
}

/// Says of what this rank has been told what holds here, and then that it agrees: who has said the one has said the other.
fn say(
    world: &World,
    counts: GlobalPtr<u64>,
    told: Record,
    look: impl FnOnce([u64; 3]) -> [bool; 2],
) -> Result<()> {
    let [one, two] = match told {
        [_, MADE, words @ .., _, _, _] => look(words),
        _ => [false; 2],
    };
    for (count, _) in [true, one, two].iter().enumerate().rev().filter(|(_, &holds)| holds) {
        world.fetch_add(counts + count, 1)?;
    }
    Ok(())
}

/// Writes what became of it where all ranks look.
fn tell<'w, S: Handed<'w>>(circle: Circle<'w>, record: GlobalPtr<Record>, mark: u64, made: &Result<S>) {
    let world = circle.world;
    // The record is there once something was allocated on this rank; that of a team is its own.
    if circle.team.is_none() && world.local().pool(0).is_ok_and(|pool| pool.is_empty()) {
        if let Some(block) = world.try_malloc(8, 0) {
            let _ = world.free(block);
        }
    }
    let (outcome, [one, two, three]) = match made {
        Ok(made) => (MADE, made.words()),
        Err(Error::OutOfMemory { asked, left, .. }) => (NO_MEMORY, [*asked, *left, 0]),
        Err(Error::PeerLost { rank, .. }) => (LOST, [u64::from(*rank), 0, 0]),
        Err(_) => (FAILED, [0; 3]),
    };
    // Where there is no memory for it the others find none.
    let _ = world.put(record, [mark, outcome, one, two, three, 0, 0, 0]);
}

/// The words of the handle, or the error of rank 0 as others see it.
fn outcome(wish: Wish, [_, outcome, one, two, three, ..]: Record) -> Result<[u64; 3]> {
    let name = wish.name;
    match outcome {
        MADE => Ok([one, two, three]),
        NO_MEMORY => Err(Error::OutOfMemory {
            asked: one,
            left: two,
            what: "rank 0 has none for what all ranks share",
        }),
        LOST => Err(Error::PeerLost {
            rank: one as u32,
            fate: Fate::NotDone,
            why: format!("rank 0 could not make {name} on it"),
        }),
        _ => Err(Error::Misuse(format!("rank 0 could not make {name}; its own error says why"))),
    }
}

fn disagreement(wish: Wish, agrees: bool, others: u64) -> Error {
    let name = wish.name;
    let who = match agrees {
        true => format!("{others} ranks came"),
        false => "this rank came".to_string(),
    };
    Error::Misuse(format!(
        "{name} for all ranks: {who} with something else than rank 0, or could not say; all ranks make the same calls with the same arguments, in the \
         same order"
    ))
}

fn no_memory(asked: u64) -> Error {
    Error::OutOfMemory { asked, left: 0, what: "rank 0 has none to tell the others what they share" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The others take the next barrier for another one if it stays away, and it takes theirs for its own if it comes.
    #[test]
    fn a_rank_that_alone_fails_to_learn_what_all_agreed_on_goes_on_with_the_others() {
        let wish = Wish::new("a test", ());
        let short = || no_memory(1);
        let lost = |fate| Error::PeerLost { rank: 0, fate, why: "a test".into() };
        let decide = |agrees, said, counted| verdict(wish, 4, agrees, said, counted);
        assert_eq!(decide(true, Ok(()), Ok([4, 1, 0])), Ok(Ok([1, 0])));
        assert_eq!(decide(true, Ok(()), Err(short())), Ok(Err(short())), "the others may all agree");
        let unknown = || lost(Fate::Unknown);
        assert_eq!(decide(true, Err(unknown()), Ok([4, 0, 0])), Ok(Err(unknown())), "it was counted");
        assert_eq!(decide(true, Err(unknown()), Err(short())), Ok(Err(unknown())));
        // All see these.
        assert_eq!(decide(true, Err(unknown()), Ok([3, 0, 0])), Err(unknown()));
        assert_eq!(decide(true, Err(short()), Err(short())), Err(short()), "nobody has counted it");
        for differs in [decide(true, Ok(()), Ok([3, 0, 0])), decide(false, Ok(()), Err(short()))] {
            assert!(matches!(differs, Err(Error::Misuse(_))), "{differs:?}");
        }
    }
}
