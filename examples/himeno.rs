//! The Himeno benchmark: Jacobi's method for Poisson's equation with 19 points, on blocks in two dimensions. Inner cells are computed while the
//! shadow is on its way; corners come with it. (`examples/xmp/himeno.c` is the same in XcalableMP C, `kumiki bench array` measures it.)
//!
//! `kumiki run -n 4 target/release/examples/himeno`

use kumiki::array::{Align, Array, Format, Mapping, Near, Nodes, Rows, Shadow, Template, Width};
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
            gosa[0] += sweep(&fixed, &mut next, block, &under_way);
        }
        let around = under_way.finish()?;
        for block in &outer {
            gosa[0] += sweep(&fixed, &mut next, *block, around);
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

/// One step for the cells of a block that are not at a side: rows of `p` come with those around them. Gives the sum of the squares of what cells changed by.
fn sweep<'a, 'w: 'a>(
    fixed: &Fixed<'_>,
    next: &mut Array<'_, f32, 3>,
    block: Block,
    p: impl Rows<3, Row = Near<'a, 'w, f32, 3>>,
) -> f64 {
    let inside = std::array::from_fn(|at| (block[at].0.max(1), block[at].1.min(SIZES[at] as i64 - 2)));
    let fixed = (&fixed.a, &fixed.b, &fixed.c, &fixed.bound, &fixed.source);
    let mut gosa = 0.0;
    next.zip_rows_in(inside, (p, fixed), |_, row, (p, (a, b, c, bound, source))| {
        let q = |di: i64, dj: i64, dk: i64| p.row([di, dj, dk]);
        let own = q(0, 0, 0);
        let (above, behind, right) = (q(1, 0, 0), q(0, 1, 0), q(0, 0, 1));
        let (below, before, left) = (q(-1, 0, 0), q(0, -1, 0), q(0, 0, -1));
        let corners = [
            [q(1, 1, 0), q(1, -1, 0), q(-1, 1, 0), q(-1, -1, 0)],
            [q(0, 1, 1), q(0, -1, 1), q(0, 1, -1), q(0, -1, -1)],
            [q(1, 0, 1), q(-1, 0, 1), q(1, 0, -1), q(-1, 0, -1)],
        ];
        for (x, cell) in row.iter_mut().enumerate() {
            let [d, e, f] = corners.map(|[one, two, three, four]| one[x] - two[x] - three[x] + four[x]);
            let s0 = a[x][0] * above[x]
                + a[x][1] * behind[x]
                + a[x][2] * right[x]
                + b[x][0] * d
                + b[x][1] * e
                + b[x][2] * f
                + c[x][0] * below[x]
                + c[x][1] * before[x]
                + c[x][2] * left[x]
                + source[x];
            let ss = (s0 * a[x][3] - own[x]) * bound[x];
            gosa += f64::from(ss * ss);
            *cell = own[x] + OMEGA * ss;
        }
    });
    gosa
}
