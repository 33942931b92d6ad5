//! Heat along a rod that is cut into pieces, one on each rank. Before each step a rank puts the cells at its two ends into the
//! ghost cells of its neighbours: a halo exchange.
//!
//! `kumiki run -n 4 target/release/examples/halo`

use kumiki::prelude::*;

const CELLS: usize = 240;
const STEPS: usize = 500;

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let (me, ranks) = (world.rank(), world.ranks());
    let first = CELLS * me as usize / ranks as usize;
    let count = CELLS * (me as usize + 1) / ranks as usize - first;
    let mut rod: Vec<f64> = (0..count).map(|cell| begin(first + cell)).collect();

    // Two ghost cells on each rank, for the left and the right neighbour; twice, so that nobody overwrites what a slower
    // neighbour still reads.
    let ghosts = world.shared_array::<[f64; 2]>(2)?;
    for step in 0..STEPS {
        let turn = step % 2;
        let side = |rank: Rank, side: usize| ghosts.at(rank, turn).cast::<f64>() + side;
        if me > 0 {
            world.put(side(me - 1, 1), rod[0])?;
        }
        if me + 1 < ranks {
            world.put(side(me + 1, 0), rod[count - 1])?;
        }
        world.sync()?;
        let [left, right] = ghosts.get(turn)?;
        // The ends of the rod lose no heat.
        let left = if me > 0 { left } else { rod[0] };
        let right = if me + 1 < ranks { right } else { rod[count - 1] };
        rod = diffuse(&rod, left, right);
    }

    // Every rank puts its piece into the whole rod on rank 0.
    let whole = world.shared_array::<f64>(CELLS)?;
    world.put_slice(whole.at(0, first), &rod)?;
    world.sync()?;
    if me == 0 {
        let whole = whole.to_vec()?;
        let heat: f64 = whole.iter().sum();
        println!("heat {heat:.6} after {STEPS} steps");
        for cell in (0..CELLS).step_by(CELLS / 12) {
            println!("{cell:3} {:6.3} {}", whole[cell], "#".repeat((whole[cell] * 5.0).round() as usize));
        }
        println!("a serial run gives {}", if whole == serial() { "the same" } else { "something else" });
    }
    world.finalize()
}

/// The rod is warm in its first third.
fn begin(cell: usize) -> f64 {
    if cell < CELLS / 3 {
        10.0
    } else {
        0.0
    }
}

/// One step of a piece with what lies beside it.
fn diffuse(rod: &[f64], left: f64, right: f64) -> Vec<f64> {
    let at = |cell: usize, by: isize| match cell.checked_add_signed(by) {
        None => left,
        Some(cell) => rod.get(cell).copied().unwrap_or(right),
    };
    (0..rod.len()).map(|cell| rod[cell] + 0.25 * (at(cell, -1) - 2.0 * rod[cell] + at(cell, 1))).collect()
}

fn serial() -> Vec<f64> {
    let mut rod: Vec<f64> = (0..CELLS).map(begin).collect();
    for _ in 0..STEPS {
        rod = diffuse(&rod, rod[0], rod[CELLS - 1]);
    }
    rod
}
