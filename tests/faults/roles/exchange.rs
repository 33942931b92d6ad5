//! A short exchange between two nodes, in the middle of which a fault is injected.

use super::{kind, rank, say};
use kumiki::{Error, Fate, Result, World};

/// Elements of the larger transfer: several pieces of a frame.
const LARGE: usize = 40_000;

/// Each rank writes, reads and adds to the memory of the other. Afterwards each says what it got: `right`, or what
/// failed first; `wrong` if it saw anything that nobody wrote.
pub(crate) fn play() -> Result<()> {
    let world = match World::init() {
        Ok(world) => world,
        Err(error) => {
            say(&format!("outcome {} {} {error}", rank(), kind(&error)));
            return Ok(());
        }
    };
    let mut sums = (0, 0);
    let outcome = exchange(&world, &mut sums);
    let failed = outcome.is_err();
    let text = outcome.err().map_or("right".into(), |error| format!("{} {error}", kind(&error)));
    say(&format!("outcome {} {text}", rank()));
    say(&format!("sums {} {} {}", rank(), sums.0, sums.1));
    // Our own word can be read whatever happened to the other side.
    let found = world.starter::<u64>(rank()).and_then(|word| world.get(word));
    say(&format!("found {} {}", rank(), found.map_or("nothing".into(), |found| found.to_string())));
    if failed {
        // Finalizing would be a barrier, and the other rank may still wait in one that we did not come to.
        std::process::exit(1);
    }
    let _ = world.finalize();
    Ok(())
}

fn exchange(world: &World, sums: &mut (u64, u64)) -> Result<()> {
    let other = 1 - world.rank();
    let region = world.alloc::<u64>(LARGE)?;
    let place = world.starter::<u64>(other)?.add(1);
    world.put(place, region.address().bits())?;
    world.sync()?;
    let theirs = kumiki::GlobalAddress::from_bits(world.get(world.starter::<u64>(rank())?.add(1))?);
    let theirs = kumiki::GlobalPtr::<u64>::from_address(theirs);
    let values: Vec<u64> = (0..LARGE as u64).map(|index| index * 3 + rank() as u64).collect();
    world.put_slice(theirs, &values)?;
    let mut back = vec![0; LARGE];
    world.get_slice(theirs, &mut back)?;
    if back != values {
        say("wrong values came back");
    }
    for _ in 0..3 {
        match world.fetch_add(world.starter::<u64>(other)?, 1) {
            Ok(_) => sums.0 += 1,
            Err(Error::PeerLost { rank, fate, why }) => {
                sums.1 += (fate == Fate::Unknown) as u64;
                return Err(Error::PeerLost { rank, fate, why });
            }
            Err(error) => return Err(error),
        }
    }
    world.sync()?;
    let mut mine = vec![0; LARGE];
    region.read(0, &mut mine)?;
    if mine.iter().enumerate().any(|(index, &value)| value != index as u64 * 3 + other as u64) {
        say("wrong values arrived");
    }
    Ok(())
}
