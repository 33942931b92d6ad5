//! Atomics are on words of 4 and 8 bytes.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let place = world.starter::<u16>(0)?;
    world.fetch_add(place, 1)?;
    world.finalize()
}
