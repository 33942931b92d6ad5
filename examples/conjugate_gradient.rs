//! The method of conjugate gradients for a sparse matrix whose rows are spread over ranks in blocks: every rank needs all of one vector in each
//! step, and gets it by a copy to an array that everybody has whole. (`examples/xmp/cg.c` is the NAS benchmark.)
//!
//! `kumiki run -n 4 target/release/examples/conjugate_gradient`

use kumiki::array::{Array, Mapping, Sub};
use kumiki::comm::Sum;
use kumiki::prelude::*;

const ROWS: i64 = 2000;
const STEPS: usize = 40;

/// A row of the matrix: its columns and values. Symmetric, and large on the diagonal.
fn row(i: i64) -> impl Iterator<Item = (i64, f64)> {
    let sides = [1, 7, 40].into_iter().flat_map(move |far| [i - far, i + far]);
    let sides = sides.filter(|column| (0..ROWS).contains(column));
    std::iter::once((i, 8.0)).chain(sides.map(|column| (column, -1.0)))
}

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let mut x = Array::<f64, 1>::block(&world, &[ROWS as u64], &[0])?;
    let (mut r, mut p, mut q) = (x.like()?, x.like()?, x.like()?);
    let mut whole = x.beside::<f64, 1>(&Mapping::everywhere(x.mapping().nodes(), &[ROWS as u64])?)?;
    r.update(|[i], value| *value = 1.0 + (i % 3) as f64);
    p.copy_from(&[Sub::All], &r, &[Sub::All])?;
    let mut rho = dot(&r, &r)?;
    for _ in 0..STEPS {
        whole.copy_from(&[Sub::All], &p, &[Sub::All])?;
        q.update(|[i], value| *value = row(i).map(|(column, a)| a * whole[[column]]).sum());
        let (alpha, before) = (rho / dot(&p, &q)?, rho);
        x.update(|at, value| *value += alpha * p[at]);
        r.update(|at, value| *value -= alpha * q[at]);
        rho = dot(&r, &r)?;
        p.update(|at, value| *value = r[at] + rho / before * *value);
    }
    // What is left, from the solution itself.
    whole.copy_from(&[Sub::All], &x, &[Sub::All])?;
    q.update(|[i], value| {
        let product: f64 = row(i).map(|(column, a)| a * whole[[column]]).sum();
        *value = (1.0 + (i % 3) as f64 - product).abs();
    });
    let (error, sum) = (q.max()?, x.sum()?);
    if world.rank() == 0 {
        println!("after {STEPS} steps the solution is wrong by less than 1e-9: {}", error < 1e-9);
        println!("its sum is {sum:.6}");
    }
    drop((x, r, p, q, whole));
    world.finalize()
}

fn dot(one: &Array<'_, f64, 1>, other: &Array<'_, f64, 1>) -> kumiki::Result<f64> {
    let mut sum = [0.0];
    one.for_each(|at, value| sum[0] += value * other[at]);
    one.group()?.allreduce(&mut sum, Sum)?;
    Ok(sum[0])
}
