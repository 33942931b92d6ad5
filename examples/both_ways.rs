//! One program, run both ways: as processes under `kumiki run`, or on a simulated cluster, with as many ranks as you like and a
//! clock of its own.
//!
//! ```text
//! kumiki run -n 4 target/release/examples/both_ways        processes
//! target/release/examples/both_ways --simulate 64          64 ranks on a torus, in this process
//! ```

use kumiki::prelude::*;
use kumiki_sim::{Cluster, Network};

/// The program: it only sees a world. All ranks learn the largest of what each of them has: first those of a row of ranks, then those
/// of a column, each team by itself.
fn program(world: &World) -> kumiki::Result<u64> {
    let (me, ranks) = (world.rank(), world.ranks());
    let columns = (1..=ranks).rfind(|&n| ranks.is_multiple_of(n) && n * n <= ranks).expect("1 will do");
    let row = world.team_split(me / columns, me.into())?.expect("every rank is in a row");
    let column = world.team_split(me % columns, me.into())?.expect("every rank is in a column");

    let most = world.shared_array::<u64>(2)?;
    let mut known = number(me);
    for (step, team) in [&row, &column].into_iter().enumerate() {
        for member in team.members().iter() {
            world.fetch_max(most.at(member, step), known)?;
        }
        team.sync()?;
        known = most.get(step)?;
    }
    most.free(world)?;
    row.free()?;
    column.free()?;
    Ok(known)
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
