//! What a reflect returns borrows the array: after a write the shadow cannot be read.

use kumiki::array::Array;

fn main() -> kumiki::Result<()> {
    let world = kumiki::World::init()?;
    let mut heat = Array::<f64, 1>::block(&world, &[100], &[1])?;
    let around = heat.reflect()?;
    heat.update(|_, cell| *cell += 1.0);
    println!("{}", around[[0]]);
    Ok(())
}
