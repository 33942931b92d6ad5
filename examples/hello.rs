//! Put, fetch-and-add, barrier and get: the smallest program that shares memory.
//!
//! `kumiki run -n 4 target/release/examples/hello`

use kumiki::World;

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let next = (world.rank() + 1) % world.ranks();
    // Two words on each rank: word 0 of rank 0 is a counter, word 1 of each rank a mailbox.
    let words = world.shared_array::<u64>(2)?;
    world.put(words.at(next, 1), world.rank() as u64)?;
    world.fetch_add(words.at(0, 0), 1)?;
    world.sync()?;
    println!(
        "rank {} of {}: a put came from rank {}",
        world.rank(),
        world.get(words.at(0, 0))?,
        words.get(1)?
    );
    world.finalize()
}
