//! A histogram: the ranks of a node count together, in memory that they all have in view, and then what the nodes have found is added up.
//!
//! `kumiki run -n 4 target/release/examples/histogram`

use kumiki::prelude::*;

const SAMPLES: u64 = 100_000;
const BINS: usize = 12;

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let (me, ranks) = (world.rank(), world.ranks());
    let bins = world.shared_array::<u64>(BINS)?;

    // The bins of the first rank of the node. Through a view each count is one instruction, with nothing looked up.
    let first = world.node_ranks()[0];
    let counts = world.view(bins.at(first, 0), BINS)?;
    for sample in (0..SAMPLES).skip(me as usize).step_by(ranks as usize) {
        counts.fetch_add(bin_of(sample), 1)?;
    }
    world.sync()?;

    // The first rank of each node adds to those of rank 0, wherever they are: the additions travel together.
    if me == first && me != 0 {
        let mut totals = world.stream();
        for bin in 0..BINS {
            totals.add(bins.at(0, bin), counts.load(bin)?)?;
        }
        totals.flush()?;
    }
    world.sync()?;
    if me == 0 {
        for bin in 0..BINS {
            let count = counts.load(bin)?;
            println!("{bin:2} {count:6} {}", "#".repeat((count / 500) as usize));
        }
    }
    drop(counts);
    world.finalize()
}

/// How many heads eleven throws of a coin gave: few and many are rare.
fn bin_of(sample: u64) -> usize {
    let mixed = (sample + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let thrown = ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 53) & 0x7ff;
    thrown.count_ones() as usize
}
