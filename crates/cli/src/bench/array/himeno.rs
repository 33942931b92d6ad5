//! The Himeno benchmark: Jacobi's method for Poisson's equation, 19 points, cut in its first dimension.

use super::super::comm::text;
use super::super::worker::{Measured, Request};
use super::ours::{check, Arrays};
use kumiki::array::Format;
use kumiki::comm::Sum;

/// What a cell is moved by of what it would have to.
const OMEGA: f32 = 0.8;

impl Arrays<'_> {
    /// Nanoseconds of an iteration.
    pub(super) fn himeno(&mut self, size: &str, request: &Request) -> Measured {
        let sizes: [u64; 3] = match size {
            "S" => [128, 64, 64],
            "M" => [256, 128, 128],
            _ => return Err(format!("{size} is no size known here")),
        };
        let field = |value: f32| {
            let mut field = self.spread::<f32, 3>(sizes, 0, Format::Block(None), [0; 3])?;
            field.fill(value);
            Ok::<_, String>(field)
        };
        let a = [field(1.0)?, field(1.0)?, field(1.0)?, field(1.0 / 6.0)?];
        let b = [field(0.0)?, field(0.0)?, field(0.0)?];
        let c = [field(1.0)?, field(1.0)?, field(1.0)?];
        let (bound, source, mut next) = (field(1.0)?, field(0.0)?, field(0.0)?);
        let mut p = self.spread::<f32, 3>(sizes, 0, Format::Block(None), [1, 0, 0])?;
        let last = (sizes[0] - 1) as f32;
        p.update(|[i, ..], cell| *cell = (i * i) as f32 / (last * last));
        let inside = sizes.map(|size| (1, size as i64 - 2));
        let mut gosa = 0.0;
        let mut moved = vec![0.0; sizes[2] as usize];
        self.together(request, |runs| {
            for _ in 0..runs {
                let mut change = 0.0;
                let around = p.reflect().map_err(text)?;
                let fixed = (a.each_ref(), b.each_ref(), c.each_ref(), [&bound, &source]);
                next.zip_rows_in(inside, (around, fixed), |_, row, (p, (a, b, c, rest))| {
                    let moved = &mut moved[..row.len()];
                    sweep(row, moved, |by| p.row(by), a, b, c, rest);
                    change += squares(moved);
                });
                p.zip_rows_in(inside, &next, |_, row, next| row.copy_from_slice(next));
                let mut sum = [change];
                p.group().map_err(text)?.allreduce(&mut sum, Sum).map_err(text)?;
                gosa = sum[0];
            }
            check(gosa > 0.0 && gosa < 1e-1)
        })
    }
}

/// The sum of the squares, one after the other as they come.
fn squares(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(value * value)).sum()
}

/// One row of the next field, and what each cell would have to move by.
#[inline(always)]
fn sweep<'a>(
    row: &mut [f32],
    moved: &mut [f32],
    p: impl Fn([i64; 3]) -> &'a [f32],
    a: [&[f32]; 4],
    b: [&[f32]; 3],
    c: [&[f32]; 3],
    [bound, source]: [&[f32]; 2],
) {
    let count = row.len();
    // Slices of one length, so that the compiler knows that every cell is there.
    let (a, b, c) = (a.map(|row| &row[..count]), b.map(|row| &row[..count]), c.map(|row| &row[..count]));
    let (bound, source, moved) = (&bound[..count], &source[..count], &mut moved[..count]);
    let p = |di, dj, dk| &p([di, dj, dk])[..count];
    let (own, up, down, front, back) = (p(0, 0, 0), p(1, 0, 0), p(-1, 0, 0), p(0, 1, 0), p(0, -1, 0));
    let (right, left) = (p(0, 0, 1), p(0, 0, -1));
    let (up_front, up_back, down_front, down_back) = (p(1, 1, 0), p(1, -1, 0), p(-1, 1, 0), p(-1, -1, 0));
    let (front_right, back_right, front_left, back_left) =
        (p(0, 1, 1), p(0, -1, 1), p(0, 1, -1), p(0, -1, -1));
    let (up_right, down_right, up_left, down_left) = (p(1, 0, 1), p(-1, 0, 1), p(1, 0, -1), p(-1, 0, -1));
    for x in 0..count {
        let s0 = a[0][x] * up[x]
            + a[1][x] * front[x]
            + a[2][x] * right[x]
            + b[0][x] * (up_front[x] - up_back[x] - down_front[x] + down_back[x])
            + b[1][x] * (front_right[x] - back_right[x] - front_left[x] + back_left[x])
            + b[2][x] * (up_right[x] - down_right[x] - up_left[x] + down_left[x])
            + c[0][x] * down[x]
            + c[1][x] * back[x]
            + c[2][x] * left[x]
            + source[x];
        let ss = (s0 * a[3][x] - own[x]) * bound[x];
        moved[x] = ss;
        row[x] = own[x] + OMEGA * ss;
    }
}
