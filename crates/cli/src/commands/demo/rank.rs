//! What each process of the demonstration does.

use super::heat::{rows_of, Block};
use super::report::{Figures, Report};
use super::{Outcome, Problem};
use crate::progress::bar;
use indicatif::ProgressBar;
use kumiki::{GlobalAddress, GlobalPtr, Ledger, Region, World};
use std::ffi::OsString;
use std::time::Instant;

/// Words of starter memory: where the rows for a rank are; on rank 0 also where the whole field and the figures are.
const HALO: u64 = 0;
const FIELD: u64 = 1;
const FIGURES: u64 = 2;
/// Figures of a rank.
const FIGURE_WORDS: usize = 4;
/// Steps between two looks at the progress bar.
const STEPS_A_LOOK: u32 = 25;

pub(crate) fn rank(words: Vec<OsString>) -> Outcome {
    let problem = &Problem::from_words(&words).ok_or("these are not the words of `kumiki demo`")?;
    private_bytes(); // The first reading touches what reading touches.
    let before = private_bytes();
    let world = World::init().map_err(|error| error.to_string())?;
    let added = private_bytes().saturating_sub(before);
    let done = solve(&world, problem, added).map_err(|error| error.to_string());
    let done = done.and_then(|report| report.map_or(Ok(true), |report| report.publish(problem)));
    match done {
        Ok(right) => world.finalize().map(|()| !right as i32).map_err(|error| error.to_string()),
        // The others wait for us: they must hear of it.
        Err(message) => world.abort(&format!("the demonstration failed on rank {}: {message}", world.rank())),
    }
}

/// Solves the problem with all ranks; on rank 0 also alone, and reports.
fn solve(world: &World, problem: &Problem, added: u64) -> kumiki::Result<Option<Report>> {
    let (size, me, ranks) = (problem.size as usize, world.rank() as usize, world.ranks() as usize);
    let rows = rows_of(size, me, ranks);
    let mut block = Block::new(size, rows.clone());
    let halo = Halo::new(world, size)?;
    let gathered = Gathered::new(world, size)?;
    world.sync()?;
    let neighbours = Neighbours::new(world, size)?;
    world.sync()?;
    let bar = progress("heat", problem, me == 0);
    let started = Instant::now();
    let mut moved = 0;
    for step in 0..problem.steps {
        moved += neighbours.put(world, &block, step)?;
        world.sync()?;
        halo.take(&mut block, step)?;
        block.step();
        if step % STEPS_A_LOOK == 0 {
            bar.set_position(step as u64);
        }
    }
    world.sync()?;
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let field = word(world, 0, FIELD)?;
    world.put_slice(field.cast::<f64>().add(rows.start * size), block.field())?;
    let figures = word(world, 0, FIGURES)?.add(me * FIGURE_WORDS);
    let ledger = world.ledger();
    world.put_slice(figures, &[moved, added, ledger.private_bytes(), ledger.arena_bytes()])?;
    world.sync()?;
    gathered.map(|gathered| gathered.report(world, problem, seconds, ledger)).transpose()
}

/// What a word of starter memory points to.
fn word(world: &World, rank: u32, word: u64) -> kumiki::Result<GlobalPtr<u64>> {
    let bits = world.get(world.starter::<u64>(rank)?.add(word as usize))?;
    Ok(GlobalPtr::from_address(GlobalAddress::from_bits(bits)))
}

/// Where a row from a neighbour goes: one for odd and one for even steps, so that one barrier a step is enough.
fn place(size: usize, step: u32, below: bool) -> usize {
    ((step % 2) as usize * 2 + below as usize) * size
}

/// The rows that the neighbours put here.
struct Halo<'a> {
    world: &'a World,
    region: Region<f64>,
    size: usize,
}

impl Halo<'_> {
    fn new(world: &World, size: usize) -> kumiki::Result<Halo<'_>> {
        let region = world.alloc::<f64>(4 * size)?;
        world.put(world.starter::<u64>(world.rank())?.add(HALO as usize), region.address().bits())?;
        Ok(Halo { world, region, size })
    }

    /// Takes over what has come for this step.
    fn take(&self, block: &mut Block, step: u32) -> kumiki::Result<()> {
        if self.world.rank() > 0 {
            self.region.read(place(self.size, step, false), block.above())?;
        }
        if self.world.rank() + 1 < self.world.ranks() {
            self.region.read(place(self.size, step, true), block.below())?;
        }
        Ok(())
    }
}

/// Where our outermost rows go.
struct Neighbours {
    size: usize,
    upper: Option<GlobalPtr<f64>>,
    lower: Option<GlobalPtr<f64>>,
}

impl Neighbours {
    fn new(world: &World, size: usize) -> kumiki::Result<Neighbours> {
        let of = |rank: u32| word(world, rank, HALO).map(GlobalPtr::cast);
        let (me, ranks) = (world.rank(), world.ranks());
        let upper = (me > 0).then(|| of(me - 1)).transpose()?;
        let lower = (me + 1 < ranks).then(|| of(me + 1)).transpose()?;
        Ok(Neighbours { size, upper, lower })
    }

    /// Puts our outermost rows into the memory of the neighbours. Returns the bytes.
    fn put(&self, world: &World, block: &Block, step: u32) -> kumiki::Result<u64> {
        let mut bytes = 0;
        // We are below the upper one and above the lower one.
        for (to, row, below) in [(self.upper, block.first(), true), (self.lower, block.last(), false)] {
            let Some(to) = to else { continue };
            world.put_slice(to.add(place(self.size, step, below)), row)?;
            bytes += std::mem::size_of_val(row) as u64;
        }
        Ok(bytes)
    }
}

/// Room on rank 0 for what all ranks bring together.
struct Gathered {
    field: Region<f64>,
    figures: Region<u64>,
}

impl Gathered {
    fn new(world: &World, size: usize) -> kumiki::Result<Option<Gathered>> {
        if world.rank() != 0 {
            return Ok(None);
        }
        let field = world.alloc::<f64>(size * size)?;
        let figures = world.alloc::<u64>(world.ranks() as usize * FIGURE_WORDS)?;
        world.put(world.starter::<u64>(0)?.add(FIELD as usize), field.address().bits())?;
        world.put(world.starter::<u64>(0)?.add(FIGURES as usize), figures.address().bits())?;
        Ok(Some(Gathered { field, figures }))
    }

    /// Solves the problem alone, and compares.
    fn report(
        &self,
        world: &World,
        problem: &Problem,
        seconds: f64,
        ledger: Ledger,
    ) -> kumiki::Result<Report> {
        let mut field = vec![0.0; self.field.len()];
        self.field.read(0, &mut field)?;
        let mut words = vec![0; self.figures.len()];
        self.figures.read(0, &mut words)?;
        let size = problem.size as usize;
        let bar = progress("one process, to check", problem, true);
        let started = Instant::now();
        let mut alone = Block::new(size, 0..size);
        for step in 0..problem.steps {
            alone.step();
            if step % STEPS_A_LOOK == 0 {
                bar.set_position(step as u64);
            }
        }
        let serial_seconds = started.elapsed().as_secs_f64();
        bar.finish_and_clear();
        // `max` of f64 would pass over a NaN.
        let difference = |worst: f64, (one, other): (&f64, &f64)| {
            let difference = (one - other).abs();
            if difference > worst || difference.is_nan() {
                difference
            } else {
                worst
            }
        };
        Ok(Report {
            ranks: world.ranks(),
            nodes: world.nodes(),
            seconds,
            serial_seconds,
            difference: field.iter().zip(alone.field()).fold(0.0, difference),
            figures: words.chunks_exact(FIGURE_WORDS).map(Figures::from_words).collect(),
            field,
            ledger,
        })
    }
}

/// A bar on the terminal; nothing where there is none.
fn progress(what: &str, problem: &Problem, wanted: bool) -> ProgressBar {
    let template = format!("{what} {{bar:48.cyan/blue}} {{pos}}/{{len}} steps, {{eta}} left");
    bar(u64::from(problem.steps), &template, wanted)
}

/// Private memory of this process, as the kernel counts it.
fn private_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}
