//! Registered memory is the guard's until it is taken back.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let field = vec![1u64; 10];
    let registered = world.register(field)?;
    println!("{}", field[0]);
    drop(registered);
    world.finalize()
}
