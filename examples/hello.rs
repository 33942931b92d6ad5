//! Put, fetch-and-add, barrier and get: the smallest program that shares memory.
//!
//! `kumiki run -n 4 target/release/examples/hello`

use kumiki::World;

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let next = (world.rank() + 1) % world.ranks();
    // Starter memory is there from the start: word 0 of rank 0 is a counter, word 1 of each rank a mailbox.
    let counter = world.starter::<u64>(0)?;
    world.put(world.starter::<u64>(next)?.add(1), world.rank() as u64)?;
    world.fetch_add(counter, 1)?;
    world.sync()?;
    let from = world.get(world.starter::<u64>(world.rank())?.add(1))?;
    println!("rank {} of {}: a put came from rank {from}", world.rank(), world.get(counter)?);
    world.finalize()
}
