//! Global memory holds plain data only: other ranks can write any bytes there.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let region = world.alloc::<String>(4)?;
    drop(region);
    world.finalize()
}
