//! A Fourier transform in two dimensions: rows are transformed where they are, the matrix is transposed, and what were columns are transformed as rows.
//!
//! `kumiki run -n 4 target/release/examples/fft`

use kumiki::array::Array;
use kumiki::prelude::*;
use std::f64::consts::TAU;

const SIDE: u64 = 64;

/// Real and imaginary part.
type Complex = [f64; 2];

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let mut signal = Array::<Complex, 2>::block(&world, &[SIDE, SIDE], &[0, 0])?;
    let mut turned = signal.like()?;
    // Two waves: 3 by 5 periods, and 10 by 0 of half the height.
    let wave = |i: i64, j: i64| {
        let phase = |x: i64, y: i64| TAU * (x * i + y * j) as f64 / SIDE as f64;
        [phase(3, 5).cos() + 0.5 * phase(10, 0).sin(), 0.0]
    };
    signal.update(|[i, j], value| *value = wave(i, j));
    transform(&mut signal, &mut turned, false)?;
    let spectrum = turned.to_vec()?;
    transform(&mut turned, &mut signal, true)?;
    let mut errors = signal.beside::<f64, 2>(signal.mapping())?;
    errors.update(|at, value| {
        let (found, wanted) = (signal[at], wave(at[0], at[1]));
        *value = (found[0] - wanted[0]).hypot(found[1] - wanted[1]);
    });
    let error = errors.max()?;
    if world.rank() == 0 {
        // It is transposed: the second index is that of rows.
        for (place, [re, im]) in spectrum.iter().enumerate().filter(|(_, [re, im])| re.hypot(*im) > 1.0) {
            let (j, i) = (place as u64 / SIDE, place as u64 % SIDE);
            println!("{i:>2} by {j:>2} periods: {:.3}", re.hypot(*im) / (SIDE * SIDE) as f64);
        }
        println!("forth and back again is right to 1e-12: {}", error < 1e-12);
    }
    drop((signal, turned, errors));
    world.finalize()
}

/// The transform of a matrix, transposed, in another one; the first is used up.
fn transform<'w>(
    from: &mut Array<'w, Complex, 2>,
    to: &mut Array<'w, Complex, 2>,
    is_back: bool,
) -> kumiki::Result<()> {
    from.update_rows(|_, row| fft(row, is_back));
    to.transpose_from(from)?;
    to.update_rows(|_, row| fft(row, is_back));
    Ok(())
}

/// In place; the length is a power of 2.
fn fft(values: &mut [Complex], is_back: bool) {
    let n = values.len();
    let bits = n.trailing_zeros();
    for at in 0..n {
        let other = at.reverse_bits() >> (usize::BITS - bits);
        if at < other {
            values.swap(at, other);
        }
    }
    let sign = if is_back { 1.0 } else { -1.0 };
    let mut half = 1;
    while half < n {
        for start in (0..n).step_by(2 * half) {
            for k in 0..half {
                let (sin, cos) = (sign * TAU * k as f64 / (2 * half) as f64).sin_cos();
                let [re, im] = values[start + half + k];
                let turned = [re * cos - im * sin, re * sin + im * cos];
                let [x, y] = values[start + k];
                values[start + k] = [x + turned[0], y + turned[1]];
                values[start + half + k] = [x - turned[0], y - turned[1]];
            }
        }
        half *= 2;
    }
    if is_back {
        values.iter_mut().for_each(|[re, im]| (*re, *im) = (*re / n as f64, *im / n as f64));
    }
}
