//! Choosing an algorithm at run time: what cannot be the fastest is dropped by a rough model, the others are tried in the first calls of
//! a kind and size, some calls each and some times; and all members keep the one whose slowest member was the fastest, or what usually is if
//! that was hardly slower.
//!
//! All members count the same calls, so they try the same algorithm in the same call, and know in which call they decide. There each
//! tells the others its times, by a collective whose algorithm is fixed; from the same numbers all come to the same choice.

use super::model::{Facts, Speed};
use super::operation::{merge, Max, Reduction};
use super::{Algorithm, Group};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

/// One that took so many times as long as the best (in hundredths) has no second turn, if calls are long: what may have disturbed it, as what
/// is new to all caches does the first, does not take that long.
const SLOW_PERCENT: u64 = 300;
/// What is usually the best is kept where another was faster by less than this (in hundredths).
fn better_percent(class: Class) -> u64 {
    // Those are tried in few calls, and what disturbs the machine comes to more.
    if is_long(class) {
        10
    } else {
        2
    }
}

/// How often it is the turn of each algorithm. What disturbs one of them for a moment does not count, and is longer than many short calls.
fn rounds(class: Class) -> u32 {
    if is_long(class) {
        2
    } else {
        3
    }
}

fn is_long(class: Class) -> bool {
    class.power > 18
}

/// How often an algorithm is tried when it is its turn, in calls that follow each other: what members gain by running ahead counts, and what
/// they lose by waiting. What takes less than the rest of a call is tried more often.
fn tries(class: Class) -> u32 {
    match class.power {
        0..=12 => 8,
        13..=18 => 5,
        _ => 3,
    }
}

/// Kinds and sizes of calls that are decided about. What comes later takes what usually is the best.
const MOST_CLASSES: usize = 32;
/// Bytes of a file of decisions that are read.
pub(super) const MOST_FILE_BYTES: u64 = 64 << 10;
/// The first words of such a file.
pub(super) const TITLE: &str = "kumiki decisions 1";

const ALGORITHMS: usize = Algorithm::ALL.len();

/// Calls that are decided about together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Class {
    pub(super) collective: &'static str,
    pub(super) commutes: bool,
    /// The bytes are fewer than two to this power; 0 if members do not know them alike.
    pub(super) power: u32,
}

/// The collectives that are worth a choice.
const COLLECTIVES: [&str; 4] = ["broadcast", "allreduce", "allgather", "alltoall"];

#[derive(Clone, Copy, Debug)]
enum Entry {
    /// These are tried in turn, after so many rounds, and took so long.
    Trying {
        calls: u32,
        rounds: u32,
        tried: [bool; ALGORITHMS],
        times: Times,
    },
    Decided {
        algorithm: Algorithm,
        slowest_ns: u64,
    },
}

/// What the calls of this turn took together, and those of the fastest turn of each algorithm.
#[derive(Clone, Copy, Debug)]
struct Times {
    turn_ns: u64,
    least_ns: [u64; ALGORITHMS],
}

impl Times {
    const NONE: Times = Times { turn_ns: 0, least_ns: [u64::MAX; ALGORITHMS] };

    fn add(&mut self, algorithm: Algorithm, took_ns: u64, ends_turn: bool) {
        self.turn_ns = self.turn_ns.saturating_add(took_ns);
        if ends_turn {
            let least_ns = &mut self.least_ns[algorithm as usize];
            *least_ns = std::mem::take(&mut self.turn_ns).min(*least_ns);
        }
    }

    /// What a call of so many took, about.
    fn means_ns(&self, tries: u32) -> [u64; ALGORITHMS] {
        self.least_ns.map(|least_ns| least_ns / u64::from(tries))
    }
}

/// Bytes of what is kept for each class.
pub(super) const TABLE_BYTES: u64 = (MOST_CLASSES * (size_of::<Class>() + size_of::<Entry>())) as u64;
const _: () = assert!(TABLE_BYTES <= 5120);

/// What the choice of a call depends on beside what was decided: its class, the size of an element, and how many candidates there are.
type Key = (Class, usize, usize);

/// What a group has decided, and tries.
#[derive(Debug)]
pub(super) struct Tuner {
    table: BTreeMap<Class, Entry>,
    /// The last that was decided, and for elements of what size: most calls are like the one before.
    last: Option<(Key, Algorithm)>,
    is_fixed: bool,
    /// Once it is known: before anything is tried.
    speed: Option<Speed>,
}

impl Tuner {
    pub(super) fn new(is_fixed: bool) -> Tuner {
        Tuner { table: BTreeMap::new(), last: None, is_fixed, speed: None }
    }
}

/// An algorithm for a call, and what its time counts for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) algorithm: Algorithm,
    trial: Option<Class>,
    /// Whether it is the last trial before the turn of another.
    ends_turn: bool,
}

impl Choice {
    fn of(algorithm: Algorithm) -> Choice {
        Choice { algorithm, trial: None, ends_turn: false }
    }
}

/// What a group has decided about a kind and size of calls: from [`Group::decisions`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The collective.
    pub collective: &'static str,
    /// Whether it is for operations of which the order does not matter.
    pub commutes: bool,
    /// It is for calls of fewer bytes than this, and of half as many at least; 0 if it is for any number.
    pub below_bytes: u64,
    /// What is used.
    pub algorithm: Algorithm,
    /// What a call took on the slowest member; 0 if the decision came from a file.
    pub slowest_ns: u64,
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let order = if self.commutes { "" } else { " in order" };
        write!(f, "{}{order} below {} bytes: {}", self.collective, self.below_bytes, self.algorithm)?;
        if self.slowest_ns > 0 {
            write!(f, " ({} ns)", self.slowest_ns)?;
        }
        Ok(())
    }
}

impl Group<'_> {
    /// What this group has decided so far, after trying. The same on all members.
    ///
    /// ```
    /// # use kumiki::prelude::*;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = World::init()?;
    /// let group = world.group()?;
    /// for _ in 0..200 {
    ///     group.allreduce(&mut [1.5], kumiki::comm::Sum)?;
    /// }
    /// group.decisions().iter().for_each(|decision| println!("{decision}"));
    /// # group.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn decisions(&self) -> Vec<Decision> {
        let tuner = self.tuner();
        let decided = tuner.table.iter().filter_map(|(class, entry)| match entry {
            Entry::Decided { algorithm, slowest_ns } => Some(Decision {
                collective: class.collective,
                commutes: class.commutes,
                below_bytes: if class.power == 0 { 0 } else { 1 << class.power },
                algorithm: *algorithm,
                slowest_ns: *slowest_ns,
            }),
            Entry::Trying { .. } => None,
        });
        decided.collect()
    }

    /// The decisions as text that [`learn`](Self::learn) reads: for groups of as many ranks on as many nodes.
    pub fn decisions_as_text(&self) -> String {
        let mut text = format!("{TITLE}\n");
        for (class, algorithm) in self.decided() {
            text.push_str(&line_of(class, algorithm, [self.count, self.nodes]));
        }
        text
    }

    /// What was decided.
    pub(super) fn decided(&self) -> Vec<(Class, Algorithm)> {
        let tuner = self.tuner();
        let decided = tuner.table.iter().filter_map(|(class, entry)| match entry {
            Entry::Decided { algorithm, .. } => Some((*class, *algorithm)),
            Entry::Trying { .. } => None,
        });
        decided.collect()
    }

    /// Takes decisions from a text of [`decisions_as_text`](Self::decisions_as_text); what is for other groups is passed over, and all of it by
    /// a group that is [fixed](super::GroupOptions::fixed). All
    /// members give the same text. One that cannot be read is [`Misuse`](Error::Misuse), and names the line; nothing is taken of it then.
    pub fn learn(&self, text: &str) -> Result<()> {
        let wrong = |(line, why)| Error::Misuse(format!("decisions of groups, line {line}: {why}"));
        let lines = self.world.note(parse(text).map_err(wrong))?;
        let mut tuner = self.tuner();
        for (class, algorithm, [ranks, nodes]) in lines {
            let has_room = tuner.table.len() < MOST_CLASSES || tuner.table.contains_key(&class);
            if [ranks, nodes] == [self.count, self.nodes] && has_room && !tuner.is_fixed {
                tuner.table.insert(class, Entry::Decided { algorithm, slowest_ns: 0 });
            }
        }
        tuner.last = None;
        Ok(())
    }

    fn tuner(&self) -> MutexGuard<'_, Tuner> {
        self.tuner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The algorithm of a call that is worth a choice: the forced one if it will do; one that is tried; or the one that was decided. `candidates` begin with
    /// what usually is the best, and the last will always do. `element` is the size of what must not be parted.
    pub(super) fn pick(
        &self,
        class: (&'static str, bool, Option<usize>),
        candidates: &[Algorithm],
        element: usize,
    ) -> Result<Choice> {
        let (collective, commutes, bytes) = class;
        let power =
            bytes.map_or(0, |bytes| usize::BITS - bytes.leading_zeros()).max(u32::from(bytes.is_some()));
        let class = Class { collective, commutes, power };
        let mut tuner = self.tuner();
        let forced = self.forced();
        let key = (class, element, candidates.len());
        if let Some((_, algorithm)) = tuner.last.filter(|last| last.0 == key && forced.is_none()) {
            return Ok(Choice::of(algorithm));
        }
        let can: Vec<_> =
            candidates.iter().copied().filter(|algorithm| self.can(*algorithm, element)).collect();
        let usual = can.first().copied().unwrap_or(Algorithm::Tree);
        if let Some(forced) = forced {
            let algorithm = if can.contains(&forced) { forced } else { usual };
            return Ok(Choice::of(algorithm));
        }
        if !tuner.table.contains_key(&class) {
            if tuner.speed.is_none() && !tuner.is_fixed && can.len() > 1 && self.count > 1 {
                // All members come here in the same call.
                drop(tuner);
                let speed = self.measure()?;
                tuner = self.tuner();
                tuner.speed = Some(speed);
            }
            let promising = match tuner.speed {
                Some(speed) => self.facts(speed).promising(collective, &can, 1 << power.min(40)),
                None => Vec::new(),
            };
            if promising.len() < 2 || tuner.table.len() >= MOST_CLASSES {
                let only = promising.first().copied().filter(|_| promising.len() == 1);
                let algorithm = only.unwrap_or(usual);
                tuner.last = Some((key, algorithm));
                return Ok(Choice::of(algorithm));
            }
            let tried = Algorithm::ALL.map(|algorithm| promising.contains(&algorithm));
            tuner.table.insert(class, Entry::Trying { calls: 0, rounds: 0, tried, times: Times::NONE });
        }
        match tuner.table.get_mut(&class) {
            Some(Entry::Decided { algorithm, .. }) if can.contains(algorithm) => {
                let algorithm = *algorithm;
                tuner.last = Some((key, algorithm));
                Ok(Choice::of(algorithm))
            }
            Some(Entry::Trying { calls, rounds: done, tried, times }) => {
                let turns: Vec<_> =
                    can.iter().copied().filter(|algorithm| tried[*algorithm as usize]).collect();
                if turns.len() != tried.iter().filter(|is_tried| **is_tried).count() {
                    // With elements that are longer not all of them will do: such a call is no trial.
                    return Ok(Choice::of(usual));
                }
                let (call, tries) = (*calls, tries(class));
                let turn = (call / tries) as usize;
                if turns.is_empty() || turn < turns.len() {
                    *calls += 1;
                    let algorithm = turns.get(turn).copied().unwrap_or(usual);
                    let ends_turn = (call + 1).is_multiple_of(tries);
                    return Ok(Choice { algorithm, trial: Some(class), ends_turn });
                }
                *done += 1;
                if *done < rounds(class) && !is_long(class) {
                    *calls = 1;
                    return Ok(Choice { algorithm: turns[0], trial: Some(class), ends_turn: tries == 1 });
                }
                let (own, is_last) = (times.means_ns(tries), *done >= rounds(class));
                drop(tuner);
                self.decide(class, &turns, own, is_last)
            }
            _ => Ok(Choice::of(usual)),
        }
    }

    fn facts(&self, speed: Speed) -> Facts {
        let (piece, half) = (self.layout.ring / 2, self.layout.half);
        // On one node it is the same for all members.
        let pipes = self.nodes == 1 && self.looks;
        Facts { ranks: self.count.into(), nodes: self.nodes.into(), piece, half, pipes, speed }
    }

    /// The largest of what each member has, on all members.
    fn slowest(&self, mut times: [u64; ALGORITHMS]) -> Result<[u64; ALGORITHMS]> {
        let merge = |into: &mut [u8], others: &[u8], first: bool| merge::<u64>(&Max, into, others, first);
        let reduction = Reduction::of::<u64, _>(&Max, &merge);
        self.run("decide", 0, |talk| {
            talk.doubling_allreduce(self.all, bytemuck::cast_slice_mut(&mut times), reduction)
        })?;
        Ok(times)
    }

    /// Keeps the one whose slowest member was the fastest, or the first that was hardly slower; unless it is the last time, those that may be.
    fn decide(
        &self,
        class: Class,
        turns: &[Algorithm],
        own_ns: [u64; ALGORITHMS],
        is_last: bool,
    ) -> Result<Choice> {
        let slowest = self.slowest(own_ns)?;
        let of = |algorithm: Algorithm| slowest[algorithm as usize];
        let least_ns = turns.iter().map(|algorithm| of(*algorithm)).min().unwrap_or(0);
        let within = |percent: u64| least_ns.saturating_add(least_ns.saturating_mul(percent) / 100);
        // What usually is better stands before the others.
        let good = turns.iter().copied().find(|algorithm| of(*algorithm) <= within(better_percent(class)));
        let algorithm = good.unwrap_or(Algorithm::Tree);
        let slowest_ns = of(algorithm);
        let most_ns = within(SLOW_PERCENT - 100);
        let again = |algorithm: &Algorithm| turns.contains(algorithm) && of(*algorithm) <= most_ns;
        let tried = Algorithm::ALL.map(|algorithm| again(&algorithm));
        let mut tuner = self.tuner();
        if is_last || tried.iter().filter(|is_tried| **is_tried).count() < 2 {
            tuner.table.insert(class, Entry::Decided { algorithm, slowest_ns });
            drop(tuner);
            self.forgo_room(algorithm);
            return Ok(Choice::of(algorithm));
        }
        if let Some(Entry::Trying { calls, tried: before, .. }) = tuner.table.get_mut(&class) {
            (*calls, *before) = (1, tried);
        }
        let first = turns.iter().copied().find(again).unwrap_or(algorithm);
        Ok(Choice { algorithm: first, trial: Some(class), ends_turn: tries(class) == 1 })
    }

    /// Does a call, and takes its time if it is a trial.
    pub(super) fn timed<T>(&self, choice: Choice, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(class) = choice.trial else { return call() };
        let begun_ns = self.world.memory.now_ns();
        let done = call();
        let took_ns = self.world.memory.now_ns() - begun_ns;
        if let Some(Entry::Trying { times, .. }) = self.tuner().table.get_mut(&class) {
            times.add(choice.algorithm, took_ns, choice.ends_turn);
        }
        done
    }
}

type Line = (Class, Algorithm, [u32; 2]);

/// A decision for groups of so many ranks on so many nodes, as a line.
pub(super) fn line_of(class: Class, algorithm: Algorithm, [ranks, nodes]: [u32; 2]) -> String {
    let Class { collective, commutes, power } = class;
    let order = if commutes { "any" } else { "kept" };
    let below_bytes = if power == 0 { 0 } else { 1u64 << power };
    format!("{collective} order {order} ranks {ranks} nodes {nodes} bytes {below_bytes} {algorithm}\n")
}

/// The decisions of a text; or the line that is wrong, and why.
pub(super) fn parse(text: &str) -> std::result::Result<Vec<Line>, (usize, String)> {
    if text.len() as u64 > MOST_FILE_BYTES {
        return Err((1, "there is more than 64 KiB of it".into()));
    }
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    if lines.next().is_none_or(|(_, line)| line != TITLE) {
        return Err((1, format!("it must be `{TITLE}`")));
    }
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| parse_line(line).map_err(|why| (number, why))).collect()
}

fn parse_line(line: &str) -> std::result::Result<Line, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [collective, "order", order, "ranks", ranks, "nodes", nodes, "bytes", bytes, algorithm] = words[..]
    else {
        return Err(format!("`{line}` is not `collective order any|kept ranks N nodes N bytes N algorithm`"));
    };
    let number = |word: &str| word.parse::<u64>().map_err(|_| format!("`{word}` is not a number"));
    let known = COLLECTIVES.iter().find(|known| **known == collective);
    let collective = known.ok_or_else(|| format!("there is no collective `{collective}`"))?;
    let commutes = match order {
        "any" => true,
        "kept" => false,
        _ => return Err(format!("the order is any or kept, not `{order}`")),
    };
    let power = match number(bytes)? {
        0 => 0,
        bytes if bytes.is_power_of_two() => bytes.trailing_zeros(),
        bytes => return Err(format!("{bytes} bytes are not a power of two")),
    };
    let found = Algorithm::ALL.into_iter().find(|known| known.name() == algorithm);
    let algorithm = found.ok_or_else(|| format!("there is no algorithm `{algorithm}`"))?;
    let small =
        |word: &str| number(word)?.try_into().map_err(|_| format!("`{word}` is more than there can be"));
    Ok((Class { collective, commutes, power }, algorithm, [small(ranks)?, small(nodes)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_that_cannot_be_read_name_the_line() {
        let good = format!("{TITLE}\n# a note\n\nallreduce order any ranks 4 nodes 2 bytes 1024 levels\n");
        let class = Class { collective: "allreduce", commutes: true, power: 10 };
        assert_eq!(parse(&good).expect("it is right"), [(class, Algorithm::Levels, [4, 2])]);
        for (wrong, why) in [
            ("", "line 1"),
            ("something else", "line 1"),
            ("allreduce order any ranks 4", "line 2"),
            ("allreduce order any ranks 4 nodes 2 bytes 1000 levels", "power of two"),
            ("allreduce order any ranks x nodes 2 bytes 1024 levels", "`x`"),
            ("allreduce order any ranks 4294967300 nodes 2 bytes 1024 levels", "4294967300"),
            ("allreduce order no ranks 4 nodes 2 bytes 1024 levels", "`no`"),
            ("alltogether order any ranks 4 nodes 2 bytes 1024 levels", "alltogether"),
            ("allreduce order any ranks 4 nodes 2 bytes 1024 quick", "quick"),
        ] {
            let text = if why == "line 1" { wrong.into() } else { format!("{TITLE}\n{wrong}\n") };
            let (line, error) = parse(&text).expect_err(wrong);
            assert!(format!("line {line}: {error}").contains(why), "{error}");
        }
    }
}
