//! Memory that is lent to other ranks cannot be used while it is.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let mut field = [1u32, 2, 3];
    world.lend(&mut field, |_lent| field[0])?;
    world.finalize()
}
