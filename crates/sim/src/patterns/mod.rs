//! Communication patterns by name, ready to run: each is a [`Workload`] of puts and flags.
//!
//! | file | what |
//! |---|---|
//! | `mod` | the patterns and who sends to whom in which step |
//! | `steps` | which steps of a schedule are run |
//! | `script` | what a rank does in a step |
//! | `run` | running a pattern, with independent steps side by side |

mod run;
mod script;
mod steps;

pub use run::run_pattern;
pub use steps::Steps;

use std::str::FromStr;

use crate::random::Random;
use crate::{Error, Network, Script, Time, Topology, Workload};

/// Which pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatternKind {
    /// Every rank sends to the next one.
    Ring,
    /// All-to-all in steps: in step `s` rank `r` sends to `r + s`.
    ShiftPairwise,
    /// All-to-all in steps: in step `s` rank `r` sends to `r xor s`. The number of ranks must be a power of two.
    XorPairwise,
    /// All-to-all without steps: every rank sends to all others in an order of its own, as fast as its window allows.
    Alltoall,
    /// The ranks form a ring in random order; everyone sends to both neighbours.
    RandomRing,
    /// Everyone sends to another rank, drawn so that everyone receives once.
    RandomPermutation,
    /// Everyone sends to both neighbours in each dimension of a grid of ranks.
    Halo,
    /// Allreduce on a ring: every rank sends a part of the vector to the next, as soon as it has the part before.
    AllreduceRing,
    /// A dissemination barrier: in round `i` rank `r` tells rank `r + 2^i`.
    BarrierDissemination,
}

impl PatternKind {
    /// Every pattern.
    pub const ALL: &'static [PatternKind] = &[
        PatternKind::Ring,
        PatternKind::ShiftPairwise,
        PatternKind::XorPairwise,
        PatternKind::Alltoall,
        PatternKind::RandomRing,
        PatternKind::RandomPermutation,
        PatternKind::Halo,
        PatternKind::AllreduceRing,
        PatternKind::BarrierDissemination,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PatternKind::Ring => "ring",
            PatternKind::ShiftPairwise => "shift-pairwise",
            PatternKind::XorPairwise => "xor-pairwise",
            PatternKind::Alltoall => "alltoall",
            PatternKind::RandomRing => "random-ring",
            PatternKind::RandomPermutation => "random-permutation",
            PatternKind::Halo => "halo",
            PatternKind::AllreduceRing => "allreduce-ring",
            PatternKind::BarrierDissemination => "barrier-dissemination",
        }
    }

    /// Whether a step must wait for the data of the step before it: such steps cannot be left out or run apart.
    pub fn steps_depend(self) -> bool {
        matches!(self, PatternKind::AllreduceRing | PatternKind::BarrierDissemination)
    }

    /// How many different steps there are; `None` where a step can be repeated as often as one likes.
    fn steps(self, ranks: u32) -> Option<u32> {
        match self {
            PatternKind::ShiftPairwise | PatternKind::XorPairwise | PatternKind::Alltoall => Some(ranks - 1),
            PatternKind::AllreduceRing => Some(2 * (ranks - 1)),
            PatternKind::BarrierDissemination => Some(ranks.next_power_of_two().trailing_zeros()),
            PatternKind::Ring
            | PatternKind::RandomRing
            | PatternKind::RandomPermutation
            | PatternKind::Halo => None,
        }
    }
}

impl FromStr for PatternKind {
    type Err = String;
    fn from_str(text: &str) -> Result<PatternKind, String> {
        PatternKind::ALL.iter().copied().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<&str> = PatternKind::ALL.iter().map(|kind| kind.name()).collect();
            format!("unknown pattern '{text}': expected one of {}", names.join(", "))
        })
    }
}

/// A pattern with its sizes. Fields are set, then [`run_pattern`] runs it, or [`simulate`](crate::simulate) as any workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Which one.
    pub kind: PatternKind,
    /// How many ranks take part.
    pub ranks: u32,
    /// The size of a message; of an allreduce, of the whole vector.
    pub bytes: u64,
    /// How many messages go to each partner in a step.
    pub messages: u32,
    /// Which steps are run.
    pub steps: Steps,
    /// For everything that the pattern draws: permutations, sampled steps, imbalance.
    pub seed: u64,
    /// Every rank computes for a time drawn between zero and this before each step.
    pub imbalance: Time,
    /// How many messages of a rank may be outstanding in `alltoall`.
    pub window: u32,
    /// The grid of ranks of a halo exchange; its product is `ranks`.
    pub grid: Vec<u32>,
}

impl Pattern {
    /// A pattern for all ranks of a network: messages of 64 KiB, one to each partner, all steps, everyone on time.
    pub fn new(kind: PatternKind, network: &Network) -> Pattern {
        let ranks = u32::try_from(network.ranks()).unwrap_or(u32::MAX);
        Pattern {
            kind,
            ranks,
            bytes: 65_536,
            messages: 1,
            steps: Steps::All,
            seed: 1,
            imbalance: Time::ZERO,
            window: 4,
            grid: grid_of_ranks(network, ranks),
        }
    }

    /// The same pattern for another number of ranks.
    pub fn with_ranks(mut self, ranks: u32, network: &Network) -> Pattern {
        self.ranks = ranks;
        self.grid = grid_of_ranks(network, ranks);
        self
    }

    /// The pattern with its steps chosen and its permutations drawn; refused when it cannot be.
    pub fn prepare(&self, sync_steps: bool) -> Result<Prepared, Error> {
        let wrong = |what: String| Err(Error::Options(format!("{}: {what}", self.kind.name())));
        if self.ranks < 2 {
            return wrong(format!("needs at least 2 ranks, not {}", self.ranks));
        }
        if self.kind == PatternKind::XorPairwise && !self.ranks.is_power_of_two() {
            return wrong(format!("the number of ranks must be a power of two, not {}", self.ranks));
        }
        if self.kind == PatternKind::Halo && self.grid.iter().product::<u32>() != self.ranks {
            return wrong(format!("the grid {:?} does not have {} ranks", self.grid, self.ranks));
        }
        if self.messages == 0 || self.window == 0 {
            return wrong("messages and window must be at least 1".to_owned());
        }
        if self.kind.steps_depend() && matches!(self.steps, Steps::Sample { .. }) {
            return wrong("its steps depend on each other and cannot be sampled".to_owned());
        }
        let total = self.kind.steps(self.ranks);
        if total.is_none() && self.steps.count(1) > MOST_REPEATS {
            return wrong(format!(
                "its step can be repeated {MOST_REPEATS} times, not {}",
                self.steps.count(1)
            ));
        }
        let at_once = u64::from(self.ranks) * u64::from(self.messages) * self.partners_of_a_rank();
        let bytes = at_once.saturating_mul(crate::memory::MESSAGE_BYTES);
        crate::memory::check(&format!("{}: {at_once} messages at once", self.kind.name()), bytes)
            .map_err(Error::Options)?;
        let chosen = match (total, self.kind.steps_depend()) {
            (Some(total), false) => self.steps.choose(total),
            (Some(total), true) => (0..self.steps.count(total).min(total)).collect(),
            (None, _) => (0..self.steps.count(1)).collect(),
        };
        let orders = match self.kind {
            PatternKind::RandomRing | PatternKind::RandomPermutation => chosen
                .iter()
                .map(|&step| Random::of(self.seed, 0x0bde, u64::from(step)).permutation(self.ranks))
                .map(|order| Order { place: inverse(&order), order })
                .collect(),
            _ => Vec::new(),
        };
        let total = total.unwrap_or(chosen.len() as u32);
        Ok(Prepared { pattern: self.clone(), chosen, total, orders, sync_steps })
    }

    /// How many others a rank sends to in a step.
    fn partners_of_a_rank(&self) -> u64 {
        match self.kind {
            PatternKind::RandomRing => 2,
            PatternKind::Halo => 2 * self.grid.len() as u64,
            _ => 1,
        }
    }
}

/// How often a step can be repeated.
const MOST_REPEATS: u32 = 1 << 16;

/// The ranks of a random ring, and where in it each rank is.
#[derive(Clone, Debug, PartialEq)]
struct Order {
    order: Vec<u32>,
    place: Vec<u32>,
}

/// A pattern that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    pattern: Pattern,
    /// The steps that are run, by their number in the schedule.
    chosen: Vec<u32>,
    /// How many steps the whole schedule has.
    total: u32,
    /// For each chosen step, where the pattern draws one.
    orders: Vec<Order>,
    sync_steps: bool,
}

impl Prepared {
    /// The numbers of the steps that are run.
    pub fn chosen(&self) -> &[u32] {
        &self.chosen
    }

    /// Calls `to(rank)` for everyone that a rank sends to in a step (an index into the chosen ones).
    pub fn partners(&self, rank: u32, index: usize, mut to: impl FnMut(u32)) {
        let ranks = self.pattern.ranks;
        let step = self.chosen[index];
        match self.pattern.kind {
            PatternKind::Ring | PatternKind::AllreduceRing => to((rank + 1) % ranks),
            PatternKind::ShiftPairwise => to(self.shifted(rank, step)),
            PatternKind::Alltoall => to(self.shifted(rank, self.chosen[self.in_own_order(rank, index)])),
            PatternKind::XorPairwise => to(rank ^ (step + 1)),
            PatternKind::BarrierDissemination => {
                to(((u64::from(rank) + (1u64 << step)) % u64::from(ranks)) as u32);
            }
            PatternKind::RandomRing => {
                let Order { order, place } = &self.orders[index];
                let at = place[rank as usize];
                to(order[((at + 1) % ranks) as usize]);
                to(order[((at + ranks - 1) % ranks) as usize]);
            }
            PatternKind::RandomPermutation => {
                // Everyone sends to the next in a random ring: a permutation in which nobody sends to itself.
                let Order { order, place } = &self.orders[index];
                to(order[((place[rank as usize] + 1) % ranks) as usize]);
            }
            PatternKind::Halo => self.neighbours(rank, to),
        }
    }

    /// The rank that is a step further on than the step's number, around the end.
    fn shifted(&self, rank: u32, step: u32) -> u32 {
        ((u64::from(rank) + u64::from(step) + 1) % u64::from(self.pattern.ranks)) as u32
    }

    /// Every rank goes through the chosen steps of an all-to-all in an order of its own, so that at any time all dimensions of a network are
    /// in use.
    fn in_own_order(&self, rank: u32, index: usize) -> usize {
        let steps = self.chosen.len() as u64;
        let mut random = Random::of(self.pattern.seed, 0xa11, u64::from(rank));
        let start = random.below(steps);
        let mut stride = 1 + random.below(steps);
        while greatest_common_divisor(stride, steps) != 1 {
            stride = 1 + random.below(steps);
        }
        ((start + index as u64 * stride) % steps) as usize
    }

    /// Both neighbours of a rank in each dimension of the grid, without itself.
    fn neighbours(&self, rank: u32, mut to: impl FnMut(u32)) {
        let mut stride = 1;
        for &size in &self.pattern.grid {
            let at = rank / stride % size;
            let base = rank - at * stride;
            if size > 1 {
                to(base + (at + 1) % size * stride);
                to(base + (at + size - 1) % size * stride);
            }
            stride *= size;
        }
    }

    /// The size of each message.
    fn message_bytes(&self) -> u64 {
        match self.pattern.kind {
            PatternKind::AllreduceRing => self.pattern.bytes.div_ceil(u64::from(self.pattern.ranks)),
            _ => self.pattern.bytes,
        }
    }

    fn messages_of(&self, index: usize, message: &mut dyn FnMut(u32, u32, u64)) {
        for rank in 0..self.pattern.ranks {
            self.partners(rank, index, |to| {
                for _ in 0..self.pattern.messages {
                    message(rank, to, self.message_bytes());
                }
            });
        }
    }
}

impl Workload for Prepared {
    fn name(&self) -> String {
        self.pattern.kind.name().to_owned()
    }

    fn ranks(&self) -> u32 {
        self.pattern.ranks
    }

    fn start(&self, rank: u32) -> Box<dyn Script + '_> {
        Box::new(script::PatternScript::new(self, rank, 0..self.chosen.len()))
    }

    fn steps(&self) -> Option<u32> {
        Some(self.chosen.len() as u32)
    }

    fn messages_of_step(&self, step: u32, message: &mut dyn FnMut(u32, u32, u64)) -> bool {
        let known = (step as usize) < self.chosen.len();
        if known {
            self.messages_of(step as usize, message);
        }
        known
    }
}

/// One step of a pattern, as a workload of its own.
struct OneStep<'a> {
    prepared: &'a Prepared,
    index: usize,
}

impl Workload for OneStep<'_> {
    fn name(&self) -> String {
        self.prepared.name()
    }

    fn ranks(&self) -> u32 {
        self.prepared.ranks()
    }

    fn start(&self, rank: u32) -> Box<dyn Script + '_> {
        Box::new(script::PatternScript::new(self.prepared, rank, self.index..self.index + 1))
    }

    fn messages_of_step(&self, step: u32, message: &mut dyn FnMut(u32, u32, u64)) -> bool {
        if step == 0 {
            self.prepared.messages_of(self.index, message);
        }
        step == 0
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

fn inverse(order: &[u32]) -> Vec<u32> {
    let mut place = vec![0; order.len()];
    for (at, &rank) in order.iter().enumerate() {
        place[rank as usize] = at as u32;
    }
    place
}

/// The grid of a network when there is a rank on each node of one; otherwise the numbers nearest to each other that give the ranks.
fn grid_of_ranks(network: &Network, ranks: u32) -> Vec<u32> {
    if let Topology::Grid(dimensions) = &network.topology {
        if network.nodes() == u64::from(ranks) {
            return dimensions.iter().map(|dimension| dimension.size).collect();
        }
    }
    let mut grid = vec![1, 1, 1];
    let mut left = ranks;
    let mut factors = Vec::new();
    let mut factor = 2;
    while left > 1 {
        if left.is_multiple_of(factor) {
            factors.push(factor);
            left /= factor;
        } else if factor * factor > left {
            factor = left;
        } else {
            factor += 1;
        }
    }
    for &factor in factors.iter().rev() {
        let smallest = grid.iter_mut().min().expect("three dimensions");
        *smallest *= factor;
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_every_step_as_many_messages_come_as_go() {
        let network = Network::torus(&[4, 4, 2]);
        // In an all-to-all without steps it is so over the whole.
        for &kind in PatternKind::ALL.iter().filter(|&&kind| kind != PatternKind::Alltoall) {
            let prepared = Pattern::new(kind, &network).prepare(true).unwrap();
            for index in 0..prepared.chosen().len() {
                let mut sent = vec![0; 32];
                let mut received = vec![0; 32];
                prepared.messages_of(index, &mut |from, to, _| {
                    assert_ne!(from, to, "{}", kind.name());
                    sent[from as usize] += 1;
                    received[to as usize] += 1;
                });
                assert_eq!(sent, received, "{} step {index}", kind.name());
            }
        }
    }

    #[test]
    fn an_all_to_all_meets_everyone_once() {
        let network = Network::torus(&[4, 4]);
        for kind in [PatternKind::ShiftPairwise, PatternKind::XorPairwise, PatternKind::Alltoall] {
            let prepared = Pattern::new(kind, &network).prepare(false).unwrap();
            let mut met = [false; 16];
            for index in 0..prepared.chosen().len() {
                prepared.partners(3, index, |to| assert!(!std::mem::replace(&mut met[to as usize], true)));
            }
            assert_eq!(met.iter().filter(|met| **met).count(), 15);
        }
    }

    #[test]
    fn a_part_of_an_all_to_all_brings_everyone_as_much_as_it_takes() {
        let network = Network::torus(&[4, 4]);
        let mut pattern = Pattern::new(PatternKind::Alltoall, &network);
        pattern.steps = "5".parse().unwrap();
        let prepared = pattern.prepare(false).unwrap();
        let mut received = [0; 16];
        (0..5).for_each(|index| prepared.messages_of(index, &mut |_, to, _| received[to as usize] += 1));
        assert_eq!(received, [5; 16]);
    }

    #[test]
    fn what_cannot_run_is_refused() {
        let network = Network::torus(&[3, 4]);
        let refused = |pattern: Pattern| pattern.prepare(false).unwrap_err().to_string();
        assert!(refused(Pattern::new(PatternKind::XorPairwise, &network)).contains("power of two, not 12"));
        let lonely = Pattern::new(PatternKind::Ring, &network).with_ranks(1, &network);
        assert!(refused(lonely).contains("at least 2 ranks"));
        let mut sampled = Pattern::new(PatternKind::AllreduceRing, &network);
        sampled.steps = "sample:2:1".parse().unwrap();
        assert!(refused(sampled).contains("cannot be sampled"));
        assert!("rign".parse::<PatternKind>().unwrap_err().contains("unknown pattern 'rign'"));
    }

    #[test]
    fn ranks_form_a_grid_that_is_nearly_a_cube() {
        let network = Network::torus(&[64]);
        assert_eq!(grid_of_ranks(&network, 24), [3, 4, 2]);
        assert_eq!(grid_of_ranks(&network, 7), [7, 1, 1]);
        assert_eq!(grid_of_ranks(&network, 64), [64]);
    }
}
