//! What stands for lent memory does not outlive the loan.

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let mut field = [1u32, 2, 3];
    let lent = world.lend(&mut field, |lent| lent)?;
    println!("{:?}", lent.ptr());
    world.finalize()
}
