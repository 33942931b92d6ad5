//! Random programs of copies and atomics, from several ranks and threads, against a sequential model.
//!
//! A program runs in phases with a barrier after each. In a phase, what different threads do does not touch the same bytes
//! (what would, is left out), so its result does not depend on who comes first; what one thread does may, and then
//! carries an order that says so. Rank 0 makes the programs, sends them to the others, and compares the memory
//! of all with the model; when they differ it looks for the smallest program for which they do.

use crate::stage::{patterned, Block, Stage};
use crate::way::Memory;
use kumiki::{AtomicOp, GlobalAddress, Handle, Order};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::ops::Range;

const CASES: u32 = 120;
const THREADS: u64 = 2;
const RANKS: u64 = 4;
/// Bytes of a block; each rank has one in the arena and one of the way's kind.
const BYTES: u64 = 512;
const PLACES: u64 = 2 * RANKS;
/// Words that describe a step.
const STEP_WORDS: usize = 9;
const MAX_STEPS: usize = 128;
/// Instead of the number of steps: there are no more programs.
const END: u64 = u64::MAX;

/// One operation. Places are numbers in the memory of all blocks, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    phase: u64,
    actor: u64,
    dst: u64,
    src: u64,
    /// Bytes of a copy; of the word, for an atomic.
    bytes: u64,
    /// 0 for a copy, 1 to 6 for an atomic.
    code: u64,
    first: u64,
    second: u64,
    /// 0 none, 1 after, 2 all, 3 continue.
    order: u64,
}

impl Step {
    fn words(self) -> [u64; STEP_WORDS] {
        let Step { phase, actor, dst, src, bytes, code, first, second, order } = self;
        [phase, actor, dst, src, bytes, code, first, second, order]
    }

    fn from_words(words: &[u64]) -> Step {
        let [phase, actor, dst, src, bytes, code, first, second, order] =
            *words.first_chunk::<STEP_WORDS>().expect("a whole step");
        Step { phase, actor, dst, src, bytes, code, first, second, order }
    }

    fn writes(self) -> [Range<u64>; 2] {
        let changed = if self.code == 0 { 0..0 } else { self.src..self.src + self.bytes };
        [self.dst..self.dst + self.bytes, changed]
    }

    fn reads(self) -> Range<u64> {
        self.src..self.src + self.bytes
    }

    /// Whether the result depends on which of the two comes first.
    fn conflicts(self, other: Step) -> bool {
        let overlap = |one: &Range<u64>, two: &Range<u64>| one.start < two.end && two.start < one.end;
        let meets = |one: Step, two: Step| {
            let touched = [one.writes()[0].clone(), one.writes()[1].clone(), one.reads()];
            touched.iter().any(|range| two.writes().iter().any(|written| overlap(range, written)))
        };
        meets(self, other) || meets(other, self)
    }

    fn run_in(self, memory: &mut [u8]) {
        let range = |at: u64| at as usize..(at + self.bytes) as usize;
        if self.code == 0 {
            memory.copy_within(range(self.src), self.dst as usize);
            return;
        }
        let mut word = [0; 8];
        word[..self.bytes as usize].copy_from_slice(&memory[range(self.src)]);
        let old = u64::from_le_bytes(word);
        let new = match self.code {
            1 if old == self.first => self.second,
            1 => old,
            2 => self.first,
            3 => old.wrapping_add(self.first),
            4 => old ^ self.first,
            5 => old | self.first,
            6 => old & self.first,
            7 => old.min(self.first),
            _ => old.max(self.first),
        };
        memory[range(self.src)].copy_from_slice(&new.to_le_bytes()[..self.bytes as usize]);
        memory[range(self.dst)].copy_from_slice(&old.to_le_bytes()[..self.bytes as usize]);
    }
}

/// A step in which everything is possible.
fn step() -> impl Strategy<Value = Step> {
    let place = || (0..PLACES, 0..BYTES);
    let bytes = prop_oneof![4 => 0..40u64, 1 => 1..BYTES];
    let operands = (0..9u64, any::<bool>(), prop_oneof![0..3u64, any::<u64>()], any::<u64>());
    (0..4u64, 0..RANKS * THREADS, place(), place(), bytes, operands, 0..4u64).prop_map(
        |(phase, actor, dst, src, bytes, (code, wide, first, second), order)| {
            let narrow = |value: u64| if wide { value } else { value & u32::MAX as u64 };
            let (bytes, align) = match (code, wide) {
                (0, _) => (bytes, 1),
                (_, true) => (8, 8),
                (_, false) => (4, 4),
            };
            let at = |(place, offset): (u64, u64)| place * BYTES + offset.min(BYTES - bytes) / align * align;
            let (dst, src) = (at(dst), at(src));
            Step { phase, actor, dst, src, bytes, code, first: narrow(first), second: narrow(second), order }
        },
    )
}

/// Steps by phases, without those that meet a step of another thread in their phase, and without atomics whose old
/// value would go where the word is.
fn tidy(steps: &[Step]) -> Vec<Step> {
    let mut kept: Vec<Step> = Vec::new();
    for phase in 0..4 {
        for step in steps.iter().filter(|step| step.phase == phase) {
            let rival = |other: &&Step| other.phase == phase && other.actor != step.actor;
            let alone = kept.iter().filter(rival).all(|other| !step.conflicts(*other));
            let itself =
                step.code != 0 && step.dst < step.src + step.bytes && step.src < step.dst + step.bytes;
            if alone && !itself {
                kept.push(*step);
            }
        }
    }
    kept
}

/// The memory of all and where its parts are.
struct Field {
    addresses: Vec<GlobalAddress>,
}

impl Field {
    fn at(&self, place: u64) -> GlobalAddress {
        self.addresses[(place / BYTES) as usize].add(place % BYTES)
    }
}

/// The memory at the start of a program.
fn beginning() -> Vec<u8> {
    patterned(4711, (PLACES * BYTES) as usize)
}

pub(crate) fn programs(stage: &Stage) {
    assert_eq!(stage.ranks() as u64, RANKS);
    let arena = Block::new(&stage.world, Memory::Arena, BYTES as usize);
    let other = stage.block(BYTES as usize);
    let (first, second) = (stage.exchange(arena.address()), stage.exchange(other.address()));
    let field = Field { addresses: first.into_iter().chain(second).collect() };
    let script = Block::new(&stage.world, Memory::Arena, 8 * (1 + MAX_STEPS * STEP_WORDS));
    let script = stage.exchange(script.address())[0];
    if stage.me() != 0 {
        while let Some(steps) = receive(stage, script) {
            execute(stage, &field, &steps);
        }
        stage.sync();
        return;
    }
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let result = runner.run(&proptest::collection::vec(step(), 1..MAX_STEPS), |steps| {
        let steps = tidy(&steps);
        let words: Vec<u64> = steps.iter().flat_map(|step| step.words()).collect();
        stage.write(script.add(8), &words);
        stage.write(script, &[steps.len() as u64]);
        stage.sync();
        execute(stage, &field, &steps);
        compare(stage, &field, &steps)
    });
    stage.write(script, &[END]);
    stage.sync();
    stage.sync();
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn receive(stage: &Stage, script: GlobalAddress) -> Option<Vec<Step>> {
    stage.sync();
    let count = stage.word(script);
    if count == END {
        return None;
    }
    let words: Vec<u64> = stage.read(script.add(8), count as usize * STEP_WORDS);
    Some(words.chunks_exact(STEP_WORDS).map(Step::from_words).collect())
}

/// What every rank does for a program, from the first barrier to the last.
fn execute(stage: &Stage, field: &Field, steps: &[Step]) {
    let memory = beginning();
    for place in [stage.me() as u64, RANKS + stage.me() as u64] {
        let part = (place * BYTES) as usize..((place + 1) * BYTES) as usize;
        stage.write(field.at(place * BYTES), &memory[part]);
    }
    stage.sync();
    for phase in 0..4 {
        stage.at_once((0..THREADS).map(|thread| {
            let actor = stage.me() as u64 * THREADS + thread;
            let mine = steps.iter().filter(move |step| step.phase == phase && step.actor == actor);
            let mine: Vec<Step> = mine.copied().collect();
            Box::new(move || act(stage, field, &mine)) as Box<dyn FnOnce() + Send>
        }));
        stage.complete_all();
        stage.sync();
    }
    // Rank 0 reads the memory of all before this one.
    if stage.me() != 0 {
        stage.sync();
    }
}

/// The steps of one thread in one phase.
fn act(stage: &Stage, field: &Field, steps: &[Step]) {
    let mut handles: Vec<Handle> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let needed = (0..index).rev().find(|&earlier| steps[earlier].conflicts(*step));
        let older = (0..index.saturating_sub(1)).any(|earlier| steps[earlier].conflicts(*step));
        let order = match (step.order, needed) {
            (0, None) => Order::None,
            (1, None) => handles.first().map_or(Order::None, |&handle| Order::After(handle)),
            (1, Some(needed)) => Order::After(handles[needed]),
            (2, _) => Order::All,
            // Continuing is behind the last step only.
            (_, _) if !older => Order::Continue,
            (_, _) => Order::All,
        };
        let (dst, src) = (field.at(step.dst), field.at(step.src));
        let handle = match (step.code, step.bytes) {
            (0, bytes) => stage.world.copy(dst, src, bytes as usize, order),
            (_, 8) => stage.world.atomic(dst, src, operation(*step), order),
            (_, _) => stage.world.atomic(dst, src, narrowed(operation(*step)), order),
        };
        handles.push(handle.unwrap_or_else(|error| panic!("{step:?}: {error}")));
    }
}

fn operation(step: Step) -> AtomicOp<u64> {
    match step.code {
        1 => AtomicOp::CompareSwap(step.first, step.second),
        2 => AtomicOp::Swap(step.first),
        3 => AtomicOp::Add(step.first),
        4 => AtomicOp::Xor(step.first),
        5 => AtomicOp::Or(step.first),
        6 => AtomicOp::And(step.first),
        7 => AtomicOp::Min(step.first),
        _ => AtomicOp::Max(step.first),
    }
}

fn narrowed(operation: AtomicOp<u64>) -> AtomicOp<u32> {
    match operation {
        AtomicOp::CompareSwap(old, new) => AtomicOp::CompareSwap(old as u32, new as u32),
        AtomicOp::Swap(value) => AtomicOp::Swap(value as u32),
        AtomicOp::Add(value) => AtomicOp::Add(value as u32),
        AtomicOp::Xor(value) => AtomicOp::Xor(value as u32),
        AtomicOp::Or(value) => AtomicOp::Or(value as u32),
        AtomicOp::And(value) => AtomicOp::And(value as u32),
        AtomicOp::Min(value) => AtomicOp::Min(value as u32),
        AtomicOp::Max(value) => AtomicOp::Max(value as u32),
    }
}

/// The memory of all against the model.
fn compare(stage: &Stage, field: &Field, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut model = beginning();
    steps.iter().for_each(|step| step.run_in(&mut model));
    let mut found = Vec::new();
    for place in 0..PLACES {
        found.extend(stage.read::<u8>(field.at(place * BYTES), BYTES as usize));
    }
    stage.sync();
    match (0..model.len()).find(|&at| model[at] != found[at]) {
        None => Ok(()),
        Some(at) => {
            let (rank, place) = (at as u64 / BYTES % RANKS, at as u64 % BYTES);
            let why =
                format!("byte {place} of rank {rank} is {:#x}, the model has {:#x}", found[at], model[at]);
            Err(TestCaseError::fail(format!("{why}; steps: {steps:#?}")))
        }
    }
}
