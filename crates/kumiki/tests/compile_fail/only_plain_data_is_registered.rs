//! Registered memory holds plain data only.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let registered = world.register(vec![Box::new(1u64)])?;
    drop(registered);
    world.finalize()
}
