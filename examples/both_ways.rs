//! One program, run both ways: as processes under `kumiki run`, or on a simulated cluster, with as many ranks as you like and a
//! clock of its own.
//!
//! ```text
//! kumiki run -n 4 target/release/examples/both_ways        processes
//! target/release/examples/both_ways --simulate 64          64 ranks on a torus, in this process
//! ```

use kumiki::prelude::*;
use kumiki_sim::{Cluster, Network};

/// The program: it only sees a world. All ranks learn the largest of what each of them has, in as many steps as there are bits in
/// the number of ranks.
fn program(world: &World) -> kumiki::Result<u64> {
    let (me, ranks) = (world.rank(), world.ranks());
    let boxes = world.shared_array::<u64>(32)?;
    let mut most = number(me);
    let (mut step, mut reach) = (0, 1);
    while reach < ranks {
        world.put(boxes.at((me + reach) % ranks, step), most)?;
        world.sync()?;
        most = most.max(boxes.get(step)?);
        (step, reach) = (step + 1, 2 * reach);
    }
    boxes.free(world)?;
    Ok(most)
}

/// What a rank has.
fn number(rank: Rank) -> u64 {
    u64::from(rank) * 7 % 64
}

fn main() -> kumiki::Result<()> {
    match std::env::args().skip_while(|argument| argument != "--simulate").nth(1) {
        Some(ranks) => simulate(ranks.parse().expect("a number of ranks")),
        None => {
            let world = World::init()?;
            let most = program(&world)?;
            if world.rank() == 0 {
                println!("{} ranks, the largest is {most}", world.ranks());
            }
            world.finalize()
        }
    }
}

/// The same program on a simulated torus: twice, to show that a run can be repeated.
fn simulate(ranks: u32) -> kumiki::Result<()> {
    let once = || {
        let outcome = Cluster::new(ranks, Network::torus(&[8, 8])).seed(7).run(|attachment| {
            let world = World::attach(attachment)?;
            let most = program(&world)?;
            world.finalize()?;
            Ok::<u64, Error>(most)
        });
        let outcome = outcome.expect("it runs");
        (outcome.time, outcome.values().expect("nobody panicked"))
    };
    let (first, second) = (once(), once());
    let found: Vec<u64> = first.1.iter().cloned().collect::<kumiki::Result<_>>()?;
    println!("{ranks} simulated ranks, the largest is {}", found[0]);
    println!("all have it: {}", found.iter().all(|&most| most == found[0]));
    println!("the same again, to the nanosecond: {}", first == second);
    Ok(())
}
