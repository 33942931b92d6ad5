//! A magnetised fluid in a periodic box, cut into blocks, one on each rank: velocity and magnetic field, which carry and bend each other.
//! In each step a helper thread exchanges the cells at the sides of the blocks while the inner cells are computed: a halo.
//!
//! `kumiki run -n 4 target/release/examples/mhd [FOLDER]` also writes two pictures: a slice of the field, and how long rank 0
//! computed and waited in each step.

use kumiki::comm::{Halo, HaloOptions};
use kumiki::prelude::*;
use std::ops::Range;
use std::time::{Duration, Instant};

const SIDE: usize = 24;
const STEPS: usize = 60;
const TIME_STEP: f64 = 0.01;
const VISCOSITY: f64 = 0.05;
const RESISTIVITY: f64 = 0.05;

/// Velocity and magnetic field of a cell.
type Cell = [f64; 6];

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let group = world.group()?;
    let shape = as_square_as_can_be(world.ranks());
    let grid = group.cartesian(&shape, &[true; 3])?;
    let ranges: Vec<Range<usize>> =
        grid.coordinates().iter().zip(&shape).map(|(part, parts)| share(*part, *parts)).collect();
    let extents: Vec<usize> = ranges.iter().map(Range::len).collect();
    let mut halo = grid.halo::<Cell>(&extents, HaloOptions::width(1))?;
    let block = Block::new([&ranges[0], &ranges[1], &ranges[2]]);
    let mut cells = block.start();
    let mut next = cells.clone();
    let mut times = Vec::new();
    for _ in 0..STEPS {
        times.push(step(&block, &mut halo, &mut cells, &mut next)?);
        std::mem::swap(&mut cells, &mut next);
    }
    halo.free()?;
    group.free()?;

    // Every rank puts its block into the whole box on rank 0.
    let whole = world.shared_array::<Cell>(SIDE.pow(3))?;
    let [x, y, z] = block.starts;
    let section = |[rows, row]: [usize; 2]| {
        let [depth, height, width] = block.extents;
        Shape::section(&[(depth, (rows * row) as isize), (height, row as isize), (width, 1)])
    };
    let to = whole.at(0, (x * SIDE + y) * SIDE + z);
    let here = &cells[block.at([0; 3])..];
    world.put_shape(to, &section([SIDE; 2])?, here, &section([block.padded(1), block.padded(2)])?)?;
    world.sync()?;
    if world.rank() == 0 {
        let found = whole.to_vec()?;
        report(&found);
        if let Some(folder) = std::env::args().nth(1) {
            draw(&folder, &found, &times).expect("pictures");
        }
    }
    world.finalize()
}

/// Numbers of ranks in three dimensions.
fn as_square_as_can_be(ranks: u32) -> [u32; 3] {
    let largest = |of: u32, root: f64| {
        let most = f64::from(of).powf(root).round() as u32;
        (1..=most.max(1)).rfind(|part| of.is_multiple_of(*part)).expect("1 will do")
    };
    let first = largest(ranks, 1.0 / 3.0);
    let second = largest(ranks / first, 0.5);
    [ranks / first / second, second, first]
}

/// Which of the cells of a dimension one of so many parts has.
fn share(part: u32, parts: u32) -> Range<usize> {
    let from = |part: u32| SIDE * part as usize / parts as usize;
    from(part)..from(part + 1)
}

/// How long a step took: the inner cells, waiting for the exchange behind them, the cells at the sides.
type Times = [Duration; 3];

fn step(
    block: &Block,
    halo: &mut Halo<'_, Cell>,
    cells: &mut [Cell],
    next: &mut [Cell],
) -> kumiki::Result<Times> {
    let began = Instant::now();
    let inner = halo.overlap(cells, |cells| {
        block.advance(cells, next, Part::Inner);
        began.elapsed()
    })?;
    let exchanged = began.elapsed();
    block.advance(cells, next, Part::Sides);
    Ok([inner, exchanged - inner, began.elapsed() - exchanged])
}

/// A part of the box, with ghost cells around it.
struct Block {
    starts: [usize; 3],
    extents: [usize; 3],
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// Cells that need no ghosts.
    Inner,
    /// The others.
    Sides,
}

impl Block {
    fn new(ranges: [&Range<usize>; 3]) -> Block {
        Block { starts: ranges.map(|range| range.start), extents: ranges.map(Range::len) }
    }

    fn padded(&self, dimension: usize) -> usize {
        self.extents[dimension] + 2
    }

    fn at(&self, [x, y, z]: [usize; 3]) -> usize {
        ((x + 1) * self.padded(1) + y + 1) * self.padded(2) + z + 1
    }

    /// A vortex in three dimensions, and a magnetic field across it.
    fn start(&self) -> Vec<Cell> {
        let mut cells = vec![[0.0; 6]; (0..3).map(|dimension| self.padded(dimension)).product()];
        let [depth, height, width] = self.extents;
        for place in boxes([0..depth, 0..height, 0..width]) {
            let angle = |dimension: usize| {
                let cell = self.starts[dimension] + place[dimension];
                std::f64::consts::TAU * cell as f64 / SIDE as f64
            };
            let (x, y, z) = (angle(0), angle(1), angle(2));
            cells[self.at(place)] =
                [-y.sin(), x.sin(), 0.2 * z.cos(), -y.sin() + 0.3 * z.sin(), (2.0 * x).sin(), 0.3 * y.cos()];
        }
        cells
    }

    fn advance(&self, cells: &[Cell], next: &mut [Cell], part: Part) {
        let [depth, height, width] = self.extents;
        for x in 0..depth {
            for y in 0..height {
                let is_side = |at: usize, extent: usize| at == 0 || at + 1 == extent;
                let row = if is_side(x, depth) || is_side(y, height) { 0..0 } else { 1..width.max(2) - 1 };
                let ranges = match part {
                    Part::Inner => [row, 0..0],
                    Part::Sides if row.is_empty() => [0..width, 0..0],
                    Part::Sides => [0..row.start, row.end..width],
                };
                for z in ranges.into_iter().flatten() {
                    let at = self.at([x, y, z]);
                    next[at] = self.change(cells, at);
                }
            }
        }
    }

    /// A cell after a step: what is carried along, what bends, what is smoothed.
    fn change(&self, cells: &[Cell], at: usize) -> Cell {
        let strides = [self.padded(1) * self.padded(2), self.padded(2), 1];
        let scale = SIDE as f64 / std::f64::consts::TAU;
        let own = cells[at];
        let mut rate = [0.0; 6];
        for (dimension, stride) in strides.into_iter().enumerate() {
            let (below, above) = (cells[at - stride], cells[at + stride]);
            let (flow, field) = (own[dimension], own[dimension + 3]);
            for (index, rate) in rate.iter_mut().enumerate() {
                let other = (index + 3) % 6;
                let (slope, bend) = (above[index] - below[index], above[other] - below[other]);
                let smooth = above[index] + below[index] - 2.0 * own[index];
                let diffusion = if index < 3 { VISCOSITY } else { RESISTIVITY };
                *rate += 0.5 * scale * (field * bend - flow * slope) + diffusion * scale * scale * smooth;
            }
        }
        std::array::from_fn(|index| own[index] + TIME_STEP * rate[index])
    }
}

fn boxes([x, y, z]: [Range<usize>; 3]) -> impl Iterator<Item = [usize; 3]> {
    x.flat_map(move |x| y.clone().map(move |y| (x, y)))
        .flat_map(move |(x, y)| z.clone().map(move |z| [x, y, z]))
}

fn report(found: &[Cell]) {
    let energy = |first: usize| {
        let squares = |cell: &Cell| cell[first..first + 3].iter().map(|value| value * value).sum::<f64>();
        found.iter().map(squares).sum::<f64>() / 2.0 / found.len() as f64
    };
    println!(
        "after {STEPS} steps: energy of motion {:.9}, of the magnetic field {:.9}",
        energy(0),
        energy(3)
    );
    let is_same = found == serial();
    println!("a serial run gives {}", if is_same { "the same" } else { "something else" });
}

/// The same by one block, which is its own neighbour on all sides.
fn serial() -> Vec<Cell> {
    let block = Block::new([&(0..SIDE), &(0..SIDE), &(0..SIDE)]);
    let mut cells = block.start();
    let mut next = cells.clone();
    for _ in 0..STEPS {
        for (dimension, side) in (0..3).flat_map(|dimension| [(dimension, false), (dimension, true)]) {
            for [one, other, _] in boxes([0..SIDE, 0..SIDE, 0..1]) {
                let place = |at: usize| match dimension {
                    0 => [at, one, other],
                    1 => [one, at, other],
                    _ => [one, other, at],
                };
                let stride = [block.padded(1) * block.padded(2), block.padded(2), 1][dimension];
                let (from, to) = match side {
                    false => (block.at(place(SIDE - 1)), block.at(place(0)) - stride),
                    true => (block.at(place(0)), block.at(place(SIDE - 1)) + stride),
                };
                cells[to] = cells[from];
            }
        }
        block.advance(&cells, &mut next, Part::Inner);
        block.advance(&cells, &mut next, Part::Sides);
        std::mem::swap(&mut cells, &mut next);
    }
    boxes([0..SIDE, 0..SIDE, 0..SIDE]).map(|place| cells[block.at(place)]).collect()
}

/// Writes the pictures: the strength of the magnetic field in the middle of the box, and the times of rank 0.
fn draw(folder: &str, found: &[Cell], times: &[Times]) -> std::io::Result<()> {
    std::fs::write(format!("{folder}/mhd_field.svg"), field_picture(found))?;
    std::fs::write(format!("{folder}/mhd_overlap.svg"), overlap_chart(times))
}

fn picture(width: usize, height: usize, title: &str) -> String {
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' font-family='sans-serif' \
         font-size='13' fill='#333'>\n<rect width='{width}' height='{height}' fill='white'/>\n{}",
        text(20.0, 26.0, "start", title)
    )
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> String {
    format!("<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}'>{words}</text>\n")
}

fn field_picture(found: &[Cell]) -> String {
    const CELL: usize = 18;
    let strength = |cell: &Cell| cell[3..].iter().map(|value| value * value).sum::<f64>().sqrt();
    let slice: Vec<f64> = boxes([0..SIDE, 0..SIDE, SIDE / 2..SIDE / 2 + 1])
        .map(|[x, y, z]| strength(&found[(x * SIDE + y) * SIDE + z]))
        .collect();
    let most = slice.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let side = SIDE * CELL;
    let title = format!("strength of the magnetic field in the middle of the box, after {STEPS} steps");
    let mut svg = picture(side + 120, side + 60, &title);
    for (index, value) in slice.iter().enumerate() {
        let (x, y) = (20 + index % SIDE * CELL, 40 + index / SIDE * CELL);
        // A little more than a cell, so that no white shows between two.
        let (more, colour) = (CELL + 1, warmth(value / most));
        svg += &format!("<rect x='{x}' y='{y}' width='{more}' height='{more}' fill='{colour}'/>\n");
    }
    // What the colours say.
    let left = side + 40;
    for part in 0..64 {
        let (y, colour) = (40.0 + side as f64 * (63 - part) as f64 / 64.0, warmth(part as f64 / 63.0));
        let high = side as f64 / 64.0 + 1.0;
        svg += &format!("<rect x='{left}' y='{y:.1}' width='18' height='{high:.1}' fill='{colour}'/>\n");
    }
    for quarter in 0..=4 {
        let y = 44.0 + side as f64 * f64::from(4 - quarter) / 4.0;
        svg += &text(left as f64 + 24.0, y, "start", &format!("{:.2}", most * f64::from(quarter) / 4.0));
    }
    svg + "</svg>\n"
}

/// Dark for 0, and bright for 1.
fn warmth(value: f64) -> String {
    const STOPS: [[f64; 3]; 6] = [
        [10.0, 8.0, 40.0],
        [75.0, 15.0, 110.0],
        [160.0, 45.0, 105.0],
        [225.0, 95.0, 60.0],
        [250.0, 170.0, 60.0],
        [252.0, 250.0, 200.0],
    ];
    let place = value.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let below = (place as usize).min(STOPS.len() - 2);
    let part = place - below as f64;
    let mix = |at: usize| (STOPS[below][at] + part * (STOPS[below + 1][at] - STOPS[below][at])) as u8;
    format!("rgb({},{},{})", mix(0), mix(1), mix(2))
}

fn overlap_chart(times: &[Times]) -> String {
    const PARTS: [(&str, &str); 3] = [
        ("#3b7dd8", "inner cells, while cells are exchanged"),
        ("#d8573b", "waiting for the exchange"),
        ("#8fb8ea", "cells at the sides"),
    ];
    const BASE: f64 = 290.0;
    // One step in ten may be longer than the chart is high: something else had the processor.
    let mut totals: Vec<f64> =
        times.iter().map(|times| times.iter().sum::<Duration>().as_secs_f64() * 1e3).collect();
    totals.sort_by(f64::total_cmp);
    let most_ms = totals[totals.len() * 9 / 10].max(1e-3) * 1.1;
    let up = |ms: f64| BASE - 215.0 * ms / most_ms;
    let mut svg = picture(STEPS * 10 + 90, 340, "where the time of rank 0 went, step by step");
    for ((colour, words), left) in PARTS.into_iter().zip([60.0, 330.0, 530.0]) {
        svg += &format!("<rect x='{left}' y='40' width='12' height='12' fill='{colour}'/>\n");
        svg += &text(left + 18.0, 51.0, "start", words);
    }
    for quarter in 0..=4 {
        let (ms, right) = (most_ms * f64::from(quarter) / 4.0, STEPS * 10 + 60);
        let y = up(ms);
        svg += &format!("<line x1='60' y1='{y:.1}' x2='{right}' y2='{y:.1}' stroke='#ddd'/>\n");
        let unit = if quarter == 4 { " ms" } else { "" };
        svg += &text(54.0, y + 4.0, "end", &format!("{ms:.2}{unit}"));
    }
    for (index, step) in times.iter().enumerate() {
        let mut at_ms = 0.0;
        for (time, (colour, _)) in step.iter().zip(PARTS) {
            let from = up(at_ms);
            at_ms = (at_ms + time.as_secs_f64() * 1e3).min(most_ms);
            let (to, x) = (up(at_ms), 61 + index * 10);
            let high = from - to;
            svg += &format!("<rect x='{x}' y='{to:.1}' width='8' height='{high:.1}' fill='{colour}'/>\n");
        }
    }
    for step in (0..=STEPS).step_by(10) {
        svg += &text(60.0 + step as f64 * 10.0, BASE + 18.0, "middle", &step.to_string());
    }
    svg + &text(60.0 + STEPS as f64 * 5.0, BASE + 38.0, "middle", "step") + "</svg>\n"
}
