//! A pointer to one type is not a pointer to another.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let place = world.starter::<u64>(0)?;
    world.put(place, 1.5f64)?;
    world.finalize()
}
