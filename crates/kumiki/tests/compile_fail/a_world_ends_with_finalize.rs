//! A world cannot be used after it was finalized.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    world.finalize()?;
    world.sync()
}
