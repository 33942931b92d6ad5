//! Memory that is lent to other ranks cannot be written while it is.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let mut field = vec![1u32, 2, 3];
    world.lend(&mut field, |_lent| field.push(4))?;
    world.finalize()
}
