//! A histogram whose bins are spread over all ranks: each rank counts its share of the samples and adds what it found to the
//! bins, wherever they are.
//!
//! `kumiki run -n 4 target/release/examples/histogram`

use kumiki::prelude::*;

const SAMPLES: u64 = 100_000;
const BINS: usize = 12;

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let ranks = world.ranks() as usize;
    // Bin b is on rank b % ranks.
    let bins = world.shared_array::<u64>(BINS.div_ceil(ranks))?;
    let place = |bin: usize| bins.at((bin % ranks) as Rank, bin / ranks);

    // What a rank finds is added once for each bin, not once for each sample.
    let mut found = [0; BINS];
    (0..SAMPLES).skip(world.rank() as usize).step_by(ranks).for_each(|sample| found[bin_of(sample)] += 1);
    for (bin, &count) in found.iter().enumerate() {
        world.fetch_add(place(bin), count)?;
    }
    world.sync()?;

    if world.rank() == 0 {
        for bin in 0..BINS {
            let count = world.get(place(bin))?;
            println!("{bin:2} {count:6} {}", "#".repeat((count / 500) as usize));
        }
    }
    world.finalize()
}

/// How many heads eleven throws of a coin gave: few and many are rare.
fn bin_of(sample: u64) -> usize {
    let mixed = (sample + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let thrown = ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 53) & 0x7ff;
    thrown.count_ones() as usize
}
