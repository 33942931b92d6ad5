//! Not every byte that another rank may write is a `bool`.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let flag = world.starter::<bool>(0)?;
    world.put(flag, true)?;
    world.finalize()
}
