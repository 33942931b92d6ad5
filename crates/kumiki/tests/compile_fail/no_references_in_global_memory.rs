//! A reference means nothing in another process.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let region = world.alloc::<&'static u64>(4)?;
    drop(region);
    world.finalize()
}
