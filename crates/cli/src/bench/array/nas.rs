//! CG and EP of the NAS benchmarks: rows, and batches of random numbers, in blocks.

use super::super::comm::{text, Done};
use super::super::worker::{Measured, Request};
use super::ours::{check, Arrays};
use kumiki::array::{Array, Format, Sub};
use kumiki::comm::Sum;
use std::ops::Range;

const MASK: u64 = (1 << 46) - 1;
const FACTOR: u64 = 1_220_703_125;
const STEPS: usize = 15;
const INNER: usize = 25;
/// The binary logarithm of the pairs in a batch of EP.
const BATCH: u32 = 16;

/// Random numbers: 5^13 times the last one, modulo 2^46.
struct Random(u64);

impl Random {
    fn next_number(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(FACTOR) & MASK;
        // Below 2^46: as a signed number it becomes a double in one instruction.
        self.0 as i64 as f64 / (1u64 << 46) as f64
    }

    fn jump(mut self, mut steps: u64) -> Random {
        let mut factor = FACTOR;
        while steps > 0 {
            if steps & 1 == 1 {
                self.0 = self.0.wrapping_mul(factor) & MASK;
            }
            factor = factor.wrapping_mul(factor) & MASK;
            steps >>= 1;
        }
        self
    }
}

/// Rows of a sparse matrix.
struct Matrix {
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Matrix {
    /// The sum of weighted outer products of sparse random vectors: some rows of it.
    fn new(n: usize, nonzeros: usize, shift: f64, own: Range<usize>) -> Matrix {
        let wide = n.next_power_of_two() as f64;
        let mut random = Random(314_159_265);
        random.next_number();
        let mut rows: Vec<Vec<(u32, f64)>> = vec![Vec::new(); own.len()];
        let ratio = 0.1f64.powf(1.0 / n as f64);
        let mut size = 1.0;
        for i in 0..n {
            let mut vector: Vec<(usize, f64)> = Vec::with_capacity(nonzeros + 1);
            while vector.len() < nonzeros {
                let value = random.next_number();
                let place = (wide * random.next_number()) as usize;
                if place < n && vector.iter().all(|(at, _)| *at != place) {
                    vector.push((place, value));
                }
            }
            match vector.iter_mut().find(|(at, _)| *at == i) {
                Some((_, value)) => *value = 0.5,
                None => vector.push((i, 0.5)),
            }
            for &(row, of_row) in vector.iter().filter(|(row, _)| own.contains(row)) {
                for &(column, of_column) in &vector {
                    let mut value = of_column * (size * of_row);
                    if column == row && row == i {
                        value += 0.1 - shift;
                    }
                    rows[row - own.start].push((column as u32, value));
                }
            }
            size *= ratio;
        }
        let mut matrix = Matrix { starts: vec![0], columns: Vec::new(), values: Vec::new() };
        for mut row in rows {
            row.sort_by_key(|(column, _)| *column);
            let begin = matrix.columns.len();
            for (column, value) in row {
                match matrix.values.last_mut() {
                    Some(last) if matrix.columns.len() > begin && matrix.columns.last() == Some(&column) => {
                        *last += value;
                    }
                    _ => {
                        matrix.columns.push(column);
                        matrix.values.push(value);
                    }
                }
            }
            matrix.starts.push(matrix.columns.len());
        }
        matrix
    }

    fn row(&self, row: usize, vector: &[f64]) -> f64 {
        let own = self.starts[row]..self.starts[row + 1];
        let (values, columns) = (&self.values[own.clone()], &self.columns[own]);
        let mut sum = 0.0;
        let add = |sum: &mut f64, (value, column): (&f64, &u32)| *sum += value * vector[*column as usize];
        // Four at a time, in order: that looks up whether there are more a quarter as often.
        let (fours, rest) = (values.chunks_exact(4), values.len() & !3);
        for (values, columns) in fours.zip(columns.chunks_exact(4)) {
            values.iter().zip(columns).for_each(|entry| add(&mut sum, entry));
        }
        values[rest..].iter().zip(&columns[rest..]).for_each(|entry| add(&mut sum, entry));
        sum
    }
}

/// The vectors of CG.
struct Vectors<'a> {
    x: Array<'a, f64, 1>,
    z: Array<'a, f64, 1>,
    d: Array<'a, f64, 1>,
    q: Array<'a, f64, 1>,
    r: Array<'a, f64, 1>,
    /// All of `d`, on every rank.
    whole: Array<'a, f64, 1>,
    matrix: Matrix,
    first: usize,
}

impl Vectors<'_> {
    fn dot(&self, one: &Array<'_, f64, 1>, other: &Array<'_, f64, 1>) -> Done<f64> {
        let mut sum = [0.0];
        one.for_rows(|first, row| {
            sum[0] +=
                row.iter().zip(other.row(first, row.len())).map(|(one, other)| one * other).sum::<f64>();
        });
        self.x.group().map_err(text)?.allreduce(&mut sum, Sum).map_err(text)?;
        Ok(sum[0])
    }

    fn solve(&mut self) -> Done<()> {
        self.z.fill(0.0);
        let x = &self.x;
        self.r.zip_rows(x, |_, row, x| row.copy_from_slice(x));
        self.d.zip_rows(x, |_, row, x| row.copy_from_slice(x));
        let mut rho = self.dot(&self.r, &self.r)?;
        for _ in 0..INNER {
            self.whole.copy_from(&[Sub::All], &self.d, &[Sub::All]).map_err(text)?;
            let n = self.whole.mapping().len() as usize;
            let (matrix, first, whole) = (&self.matrix, self.first, self.whole.row([0], n));
            self.q.update_rows(|[at], row| {
                let begin = at as usize - first;
                for (step, value) in row.iter_mut().enumerate() {
                    *value = matrix.row(begin + step, whole);
                }
            });
            let (alpha, before) = (rho / self.dot(&self.d, &self.q)?, rho);
            let (d, q) = (&self.d, &self.q);
            self.z.zip_rows(d, |_, row, d| add(row, alpha, d));
            self.r.zip_rows(q, |_, row, q| add(row, -alpha, q));
            rho = self.dot(&self.r, &self.r)?;
            let (beta, r) = (rho / before, &self.r);
            self.d.zip_rows(r, |_, row, r| {
                row.iter_mut().zip(r).for_each(|(d, r)| *d = r + beta * *d);
            });
        }
        Ok(())
    }
}

fn add(row: &mut [f64], factor: f64, other: &[f64]) {
    row.iter_mut().zip(other).for_each(|(value, other)| *value += factor * other);
}

impl Arrays<'_> {
    /// Nanoseconds of all iterations of CG.
    pub(super) fn cg(&mut self, class: &str, request: &Request) -> Measured {
        let (n, nonzeros, shift, wanted) = match class {
            "S" => (1400, 7, 10.0, 8.5971775078648),
            "W" => (7000, 8, 12.0, 10.362595087124),
            "A" => (14000, 11, 20.0, 17.130235054029),
            _ => return Err(format!("{class} is no class known here")),
        };
        let x = self.spread::<f64, 1>([n], 0, Format::Block(None), [0])?;
        let like = || x.like().map_err(text);
        let (z, d, q, r) = (like()?, like()?, like()?, like()?);
        let everywhere = kumiki::array::Mapping::everywhere(x.mapping().nodes(), &[n]).map_err(text)?;
        let whole = x.beside::<f64, 1>(&everywhere).map_err(text)?;
        let own = x.bounds().map_or(0..0, |[(low, high)]| low as usize..high as usize + 1);
        let first = own.start;
        let matrix = Matrix::new(n as usize, nonzeros, shift, own);
        let mut vectors = Vectors { x, z, d, q, r, whole, matrix, first };
        self.together(request, |runs| {
            for _ in 0..runs {
                vectors.x.fill(1.0);
                let mut zeta = 0.0;
                for _ in 0..STEPS {
                    vectors.solve()?;
                    let dot = vectors.dot(&vectors.x, &vectors.z)?;
                    let scale = 1.0 / vectors.dot(&vectors.z, &vectors.z)?.sqrt();
                    zeta = shift + 1.0 / dot;
                    let z = &vectors.z;
                    vectors.x.zip_rows(z, |_, row, z| {
                        row.iter_mut().zip(z).for_each(|(x, z)| *x = scale * z);
                    });
                }
                check((zeta - wanted).abs() <= 1e-10 * wanted)?;
            }
            Ok(())
        })
    }

    /// Nanoseconds of EP.
    pub(super) fn ep(&mut self, class: &str, request: &Request) -> Measured {
        let (bits, wanted) = match class {
            "S" => (24, [-3.247_834_652_034_74e3, -6.958_407_078_382_297e3]),
            "W" => (25, [-2.863319731645753e3, -6.320053679109499e3]),
            "A" => (28, [-4.295875165629892e3, -1.580732573678431e4]),
            _ => return Err(format!("{class} is no class known here")),
        };
        // One element a batch: what it adds to the sums, and to how many pairs fell into each ring.
        let batches = self.spread::<u8, 1>([1 << (bits - BATCH)], 0, Format::Block(None), [0])?;
        let mut numbers = vec![0.0; 2 << BATCH];
        self.together(request, |runs| {
            for _ in 0..runs {
                let mut sums = [0.0; 12];
                batches.for_each(|[batch], _| pairs(batch as u64, &mut numbers, &mut sums));
                batches.group().map_err(text)?.allreduce(&mut sums, Sum).map_err(text)?;
                check(sums.iter().zip(wanted).all(|(sum, wanted)| (sum / wanted - 1.0).abs() < 1e-8))?;
            }
            Ok(())
        })
    }
}

/// Adds what one batch of pairs gives.
fn pairs(batch: u64, numbers: &mut [f64], sums: &mut [f64; 12]) {
    let mut random = Random(271_828_183).jump(batch * (2 << BATCH));
    numbers.iter_mut().for_each(|number| *number = random.next_number());
    let (mut sum, mut rings) = ([0.0; 2], [0u32; 10]);
    for pair in numbers.chunks_exact(2) {
        let (x, y) = (2.0 * pair[0] - 1.0, 2.0 * pair[1] - 1.0);
        let t = x * x + y * y;
        if t > 1.0 {
            continue;
        }
        let factor = (-2.0 * t.ln() / t).sqrt();
        let (x, y) = (x * factor, y * factor);
        sum[0] += x;
        sum[1] += y;
        // Neither is not a number: a comparison will do.
        let far = if x.abs() > y.abs() { x.abs() } else { y.abs() };
        rings[(far as i32 as usize).min(9)] += 1;
    }
    sums[..2].iter_mut().zip(sum).for_each(|(all, own)| *all += own);
    sums[2..].iter_mut().zip(rings).for_each(|(all, own)| *all += f64::from(own));
}
