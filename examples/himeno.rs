//! The Himeno benchmark: Jacobi's method for Poisson's equation with 19 points, on blocks in two dimensions. Inner cells are computed while the
//! shadow is on its way; corners come with it. (`examples/xmp/himeno.c` is the same in XcalableMP C, `kumiki bench array` measures it.)
//!
//! `kumiki run -n 4 target/release/examples/himeno`

use kumiki::array::{Align, Array, Format, Mapping, Nodes, Shadow, Template, Width};
use kumiki::comm::Sum;
use kumiki::prelude::*;

const SIZES: [u64; 3] = [64, 32, 32];
const STEPS: usize = 20;
const OMEGA: f32 = 0.8;

/// From the first to the last index of each dimension.
type Block = [(i64, i64); 3];

/// What does not change, for each cell.
struct Fixed<'w> {
    a: Array<'w, [f32; 4], 3>,
    b: Array<'w, [f32; 3], 3>,
    c: Array<'w, [f32; 3], 3>,
    bound: Array<'w, f32, 3>,
    source: Array<'w, f32, 3>,
}

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let ranks = world.ranks();
    let columns = (1..=ranks).rfind(|n| n * n <= ranks && ranks.is_multiple_of(*n)).unwrap_or(1);
    let nodes = Nodes::grid(&[ranks / columns, columns])?;
    let bounds = SIZES.map(|size| (0, size as i64 - 1));
    let formats = [Format::Block(None), Format::Block(None), Format::None];
    let template = Template::new(&bounds, &formats, &nodes)?;
    let aligns = [Align::with(0, 0), Align::with(1, 0), Align::with(2, 0)];
    let with_shadow = [Shadow::both(1), Shadow::both(1), Shadow::NONE];
    let shaded = Mapping::new(&template, &SIZES, &aligns, &with_shadow)?;
    let plain = Mapping::new(&template, &SIZES, &aligns, &[Shadow::NONE; 3])?;

    let mut fixed = Fixed {
        a: Array::new(&world, &plain)?,
        b: Array::new(&world, &plain)?,
        c: Array::new(&world, &plain)?,
        bound: Array::new(&world, &plain)?,
        source: Array::new(&world, &plain)?,
    };
    fixed.a.fill([1.0, 1.0, 1.0, 1.0 / 6.0]);
    fixed.c.fill([1.0; 3]);
    fixed.bound.fill(1.0);

    let mut p = Array::<f32, 3>::new(&world, &shaded)?;
    let last = (SIZES[0] - 1) as f32;
    p.update(|[i, ..], cell| *cell = (i * i) as f32 / (last * last));
    // The sides stay as they are.
    let mut next = p.like()?;
    next.update(|[i, ..], cell| *cell = (i * i) as f32 / (last * last));

    let widths = Width::all(&shaded);
    let cut = [(1, 1), (1, 1), (0, 0)];
    let (inner, outer) = (p.interior(&cut), p.boundary(&cut));
    let mut gosa = [0.0];
    for _ in 0..STEPS {
        gosa = [0.0];
        let under_way = p.start_reflect(&widths, true)?;
        if let Some(block) = inner {
            gosa[0] += sweep(&fixed, &mut next, block, |index| under_way[index]);
        }
        let around = under_way.finish()?;
        for block in &outer {
            gosa[0] += sweep(&fixed, &mut next, *block, |index| around[index]);
        }
        next.group()?.allreduce(&mut gosa, Sum)?;
        std::mem::swap(&mut p, &mut next);
    }
    if world.rank() == 0 {
        println!("gosa after {STEPS} iterations: {:.5e}", gosa[0]);
    }
    drop((p, next, fixed));
    world.finalize()
}

/// One step for the cells of a block that are not at a side. Gives the sum of the squares of what they changed by.
fn sweep(fixed: &Fixed<'_>, next: &mut Array<'_, f32, 3>, block: Block, p: impl Fn([i64; 3]) -> f32) -> f64 {
    let inside = std::array::from_fn(|at| (block[at].0.max(1), block[at].1.min(SIZES[at] as i64 - 2)));
    let mut gosa = 0.0;
    next.update_in(inside, |[i, j, k], cell| {
        let at = [i, j, k];
        let (a, b, c) = (fixed.a[at], fixed.b[at], fixed.c[at]);
        let q = |di: i64, dj: i64, dk: i64| p([i + di, j + dj, k + dk]);
        let s0 = a[0] * q(1, 0, 0)
            + a[1] * q(0, 1, 0)
            + a[2] * q(0, 0, 1)
            + b[0] * (q(1, 1, 0) - q(1, -1, 0) - q(-1, 1, 0) + q(-1, -1, 0))
            + b[1] * (q(0, 1, 1) - q(0, -1, 1) - q(0, 1, -1) + q(0, -1, -1))
            + b[2] * (q(1, 0, 1) - q(-1, 0, 1) - q(1, 0, -1) + q(-1, 0, -1))
            + c[0] * q(-1, 0, 0)
            + c[1] * q(0, -1, 0)
            + c[2] * q(0, 0, -1)
            + fixed.source[at];
        let ss = (s0 * a[3] - q(0, 0, 0)) * fixed.bound[at];
        gosa += f64::from(ss * ss);
        *cell = q(0, 0, 0) + OMEGA * ss;
    });
    gosa
}
