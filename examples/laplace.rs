//! Laplace's equation on a square, in blocks of rows: one line a directive of XcalableMP (`examples/xmp/laplace.c` is the same program in C).
//!
//! `kumiki run -n 4 target/release/examples/laplace`

use kumiki::array::Array;
use kumiki::prelude::*;

const SIDE: u64 = 64;
const STEPS: usize = 200;

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let last = SIDE as i64 - 1;
    // One row of the neighbours below and above.
    let mut field = Array::<f64, 2>::block(&world, &[SIDE, SIDE], &[1, 0])?;
    let mut next = field.like()?;
    // The upper edge is hot.
    field.update(|[i, _], cell| *cell = if i == 0 { 100.0 } else { 0.0 });
    next.update(|[i, _], cell| *cell = if i == 0 { 100.0 } else { 0.0 });
    for _ in 0..STEPS {
        // What it gives borrows the array: nobody changes it while the shadow is read.
        let around = field.reflect()?;
        next.zip_rows_in([(1, last - 1), (1, last - 1)], around, |_, row, around| {
            let (above, below) = (around.row([-1, 0]), around.row([1, 0]));
            let (left, right) = (around.row([0, -1]), around.row([0, 1]));
            for (at, cell) in row.iter_mut().enumerate() {
                *cell = (above[at] + below[at] + left[at] + right[at]) / 4.0;
            }
        });
        std::mem::swap(&mut field, &mut next);
    }
    let (sum, all) = (field.sum()?, field.to_vec()?);
    if world.rank() == 0 {
        println!("after {STEPS} steps: {sum:.9} in all");
        println!("a serial run gives {}", if all == serial() { "the same" } else { "something else" });
    }
    drop((field, next));
    world.finalize()
}

fn serial() -> Vec<f64> {
    let side = SIDE as usize;
    let mut field = vec![0.0; side * side];
    field[..side].fill(100.0);
    let mut next = field.clone();
    for _ in 0..STEPS {
        for at in (1..side - 1).flat_map(|i| (1..side - 1).map(move |j| i * side + j)) {
            next[at] = (field[at - side] + field[at + side] + field[at - 1] + field[at + 1]) / 4.0;
        }
        std::mem::swap(&mut field, &mut next);
    }
    field
}
