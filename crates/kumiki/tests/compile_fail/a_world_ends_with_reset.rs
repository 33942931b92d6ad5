//! After a reset there is a new world; the old one cannot be used.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let again = world.reset(0)?;
    world.sync()?;
    again.finalize()
}
