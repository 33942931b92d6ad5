//! Memory cannot be freed while it is lent.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let mut field = vec![1u32, 2, 3];
    world.lend(&mut field, move |_lent| drop(field))?;
    world.finalize()
}
