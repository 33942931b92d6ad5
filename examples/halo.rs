//! Heat on a plate that is cut into blocks, one on each rank. Before each step a rank puts the cells at its edges into the inboxes of
//! its neighbours, and waits for theirs: a halo exchange. It waits for those four ranks at most, never for all.
//!
//! `kumiki run -n 4 target/release/examples/halo`

use kumiki::{prelude::*, AtomicOp};
use std::ops::Range;

const SIDE: usize = 48;
const STEPS: u64 = 400;

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let (me, ranks) = (world.rank(), world.ranks());
    // A grid of ranks, as square as it can be.
    let across = (1..=ranks).rfind(|&n| ranks.is_multiple_of(n) && n * n <= ranks).expect("1 will do");
    let (row, column, down) = (me / across, me % across, ranks / across);
    let mut block = Block::new(share(row, down), share(column, across));
    let beside = [
        (row > 0).then(|| me - across),
        (row + 1 < down).then(|| me + across),
        (column > 0).then(|| me - 1),
        (column + 1 < across).then(|| me + 1),
    ];

    // For each side a row of ghost cells and a word that counts how often it came. Two rows, because a neighbour may be a step ahead; it
    // cannot be two ahead, because it waits for this rank in between.
    let inbox = world.shared_array::<f64>(2 * 4 * SIDE)?;
    let arrived = world.shared_array::<u64>(4)?;
    for step in 1..=STEPS {
        let place = |side: usize| (step as usize % 2 * 4 + side) * SIDE;
        for (side, neighbour) in beside.into_iter().enumerate() {
            let edge = block.edge(side);
            match neighbour {
                // What leaves at the top arrives at the bottom. The word changes behind the cells, in the same message.
                Some(rank) => {
                    let (to, word) = (inbox.at(rank, place(side ^ 1)), arrived.at(rank, side ^ 1));
                    world.put_signal(to, &edge, word, AtomicOp::Add(1))?;
                }
                // The plate loses no heat at its rim.
                None => block.set_ghosts(side, &edge),
            }
        }
        for (side, neighbour) in beside.into_iter().enumerate() {
            if let Some(rank) = neighbour {
                world.wait_until(arrived.at(me, side), Is::AtLeast(step), Wait::FOREVER.from(rank))?;
                let mut ghosts = block.edge(side);
                inbox.read(place(side), &mut ghosts)?;
                block.set_ghosts(side, &ghosts);
            }
        }
        block.diffuse();
    }

    // Every rank puts its block into the whole plate on rank 0: a part of each of its rows, from cells with ghosts around them.
    let plate = world.shared_array::<f64>(SIDE * SIDE)?;
    let there = plate.at(0, block.rows.start * SIDE + block.columns.start);
    let section =
        |pitch: usize| Shape::section(&[(block.rows.len(), pitch as isize), (block.columns.len(), 1)]);
    world.put_shape(there, &section(SIDE)?, &block.cells[block.pitch + 1..], &section(block.pitch)?)?;
    world.sync()?;
    if me == 0 {
        show(&plate.to_vec()?);
    }
    world.finalize()
}

/// Which of the rows, or of the columns, one of so many parts has.
fn share(part: u32, parts: u32) -> Range<usize> {
    let from = |part: u32| SIDE * part as usize / parts as usize;
    from(part)..from(part + 1)
}

/// A part of the plate, with a ring of ghost cells around it. Its sides are above, below, left and right.
struct Block {
    rows: Range<usize>,
    columns: Range<usize>,
    pitch: usize,
    cells: Vec<f64>,
}

impl Block {
    /// One quarter of the plate is warm in the beginning.
    fn new(rows: Range<usize>, columns: Range<usize>) -> Block {
        let pitch = columns.len() + 2;
        let mut cells = vec![0.0; pitch * (rows.len() + 2)];
        for (row, column) in rows.clone().flat_map(|row| columns.clone().map(move |column| (row, column))) {
            let warm = row < SIDE / 2 && column < SIDE / 2;
            cells[(row - rows.start + 1) * pitch + column - columns.start + 1] = if warm { 9.0 } else { 0.0 };
        }
        Block { rows, columns, pitch, cells }
    }

    /// The first cell of a side, the first ghost beside it, how far it is to the next of each, and how many there are.
    fn side(&self, side: usize) -> (usize, usize, usize, usize) {
        let (height, width, pitch) = (self.rows.len(), self.columns.len(), self.pitch);
        match side {
            0 => (pitch + 1, 1, 1, width),
            1 => (height * pitch + 1, (height + 1) * pitch + 1, 1, width),
            2 => (pitch + 1, pitch, pitch, height),
            _ => (pitch + width, pitch + width + 1, pitch, height),
        }
    }

    fn edge(&self, side: usize) -> Vec<f64> {
        let (first, _, step, count) = self.side(side);
        self.cells[first..].iter().step_by(step).take(count).copied().collect()
    }

    fn set_ghosts(&mut self, side: usize, ghosts: &[f64]) {
        let (_, first, step, _) = self.side(side);
        self.cells[first..].iter_mut().step_by(step).zip(ghosts).for_each(|(cell, &ghost)| *cell = ghost);
    }

    fn diffuse(&mut self) {
        let old = self.cells.clone();
        for row in 1..=self.rows.len() {
            for at in row * self.pitch + 1..=row * self.pitch + self.columns.len() {
                let around = old[at - self.pitch] + old[at + self.pitch] + old[at - 1] + old[at + 1];
                self.cells[at] += 0.2 * (around - 4.0 * old[at]);
            }
        }
    }
}

fn show(plate: &[f64]) {
    println!("heat {:.6} after {STEPS} steps", plate.iter().sum::<f64>());
    for row in plate.chunks(SIDE).step_by(6) {
        println!("{}", row.iter().step_by(3).map(|cell| format!("{cell:1.0}")).collect::<String>());
    }
    // The same by one block that has no neighbours.
    let mut whole = Block::new(0..SIDE, 0..SIDE);
    for _ in 0..STEPS {
        for side in 0..4 {
            whole.set_ghosts(side, &whole.edge(side));
        }
        whole.diffuse();
    }
    let same =
        plate.chunks(SIDE).zip(whole.cells.chunks(SIDE + 2).skip(1)).all(|(one, two)| one == &two[1..=SIDE]);
    println!("a serial run gives {}", if same { "the same" } else { "something else" });
}
