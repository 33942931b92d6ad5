//! Memory that others can write is never a slice.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let region = world.alloc::<u64>(4)?;
    let memory: &[u64] = &region;
    println!("{}", memory[0]);
    world.finalize()
}
