//! What arrays cost: loops over them, and what moves between ranks.

use super::super::comm::{text, together, Done};
use super::super::worker::{Measured, Request, Sampler};
use kumiki::array::{Align, Array, Format, Mapping, Nodes, Shadow, Sub, Template, Width};
use kumiki::comm::{Group, Sum};
use kumiki::World;
use std::hint::black_box;
use std::sync::Arc;

/// Elements of 8 bytes in a line of the cache.
const LINE: usize = 8;

/// Measures the arrays of a world.
pub(in crate::bench) struct Arrays<'a> {
    pub(super) world: &'a World,
    sampler: Sampler,
    /// All ranks; made when first needed.
    group: Option<Group<'a>>,
}

impl<'a> Arrays<'a> {
    pub(in crate::bench) fn new(world: &'a World) -> Arrays<'a> {
        Arrays { world, sampler: Sampler::default(), group: None }
    }

    /// Every rank calls it; the answer of rank 0 counts. The first value is the unit.
    pub(in crate::bench) fn measure(&mut self, request: &Request) -> (&'static str, Measured) {
        let parts = request.parts();
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        let (unit, scale, measured) = match parts[1..] {
            ["plain", name, side] => {
                ("ns", 1.0, number(side).and_then(|side| self.plain(name, side, request)))
            }
            ["triad", side] => ("ns", 1.0, number(side).and_then(|side| self.triad(side, request))),
            ["laplace", side] => ("ns", 1.0, number(side).and_then(|side| self.laplace(side, request))),
            ["stencil", side] => ("ns", 1.0, number(side).and_then(|side| self.stencil(side, request))),
            ["planes", side] => ("us", 1e-3, number(side).and_then(|side| self.reflect(0, side, request))),
            ["columns", side] => ("us", 1e-3, number(side).and_then(|side| self.reflect(2, side, request))),
            ["cyclic", side] => ("us", 1e-3, number(side).and_then(|side| self.deal_out(side, request))),
            ["transpose", side] => ("us", 1e-3, number(side).and_then(|side| self.transpose(side, request))),
            ["sum", count] => ("us", 1e-3, number(count).and_then(|count| self.sum(count, request))),
            ["himeno", size] => ("us", 1e-3, self.himeno(size, request)),
            ["cg", class] => ("ms", 1e-6, self.cg(class, request)),
            ["ep", class] => ("ms", 1e-6, self.ep(class, request)),
            _ => ("ns", 1.0, Err(format!("{} is not a metric known here", request.metric))),
        };
        let met = self.world.sync().map_err(text);
        let measured = measured.map(|samples| samples.into_iter().map(|sample| sample * scale).collect());
        (unit, met.and(measured))
    }

    pub(super) fn together(&mut self, request: &Request, work: impl FnMut(u64) -> Done<()>) -> Measured {
        together(self.world, &mut self.sampler, request, work)
    }

    /// An array on all ranks that is spread in one dimension.
    pub(super) fn spread<T: kumiki::Pod, const N: usize>(
        &self,
        sizes: [u64; N],
        dimension: usize,
        format: Format,
        shadow: [u64; N],
    ) -> Done<Array<'a, T, N>> {
        let mapping = spread(self.world.ranks(), &sizes, dimension, format, &shadow).map_err(text)?;
        Array::new(self.world, &mapping).map_err(text)
    }

    fn triad(&mut self, count: u64, request: &Request) -> Measured {
        let sizes = [count * u64::from(self.world.ranks())];
        let mut a = self.spread::<f64, 1>(sizes, 0, Format::Block(None), [0])?;
        let (mut b, mut c) = (a.like().map_err(text)?, a.like().map_err(text)?);
        b.fill(1.0);
        c.fill(2.0);
        let times = self.together(request, |runs| {
            for _ in 0..runs {
                a.zip_rows((&b, &c), |_, row, (b, c)| {
                    for ((a, b), c) in row.iter_mut().zip(b).zip(c) {
                        *a = b + 3.0 * c;
                    }
                });
                black_box(&a);
            }
            Ok(())
        })?;
        check(a.own().map_err(text)?.iter().all(|value| *value == 7.0))?;
        Ok(each(times, count))
    }

    fn laplace(&mut self, side: u64, request: &Request) -> Measured {
        let tall = side * u64::from(self.world.ranks());
        let mut u = self.spread::<f64, 2>([tall, side], 0, Format::Block(None), [1, 0])?;
        let mut v = self.spread::<f64, 2>([tall, side], 0, Format::Block(None), [0, 0])?;
        u.update(|[i, _], cell| *cell = i as f64);
        let u = u.reflect().map_err(text)?;
        let inside = [(1, tall as i64 - 2), (1, side as i64 - 2)];
        let times = self.together(request, |runs| {
            for _ in 0..runs {
                v.zip_rows_in(inside, u, |_, row, u| {
                    let (up, down, left, right) =
                        (u.row([-1, 0]), u.row([1, 0]), u.row([0, -1]), u.row([0, 1]));
                    for (((v, up), down), (left, right)) in
                        row.iter_mut().zip(up).zip(down).zip(left.iter().zip(right))
                    {
                        *v = (up + down + left + right) * 0.25;
                    }
                });
                black_box(&v);
            }
            Ok(())
        })?;
        let mut right = true;
        v.for_each(|[i, j], value| {
            let is_inside = i > 0 && i < tall as i64 - 1 && j > 0 && j < side as i64 - 1;
            right &= value == if is_inside { i as f64 } else { 0.0 };
        });
        check(right)?;
        Ok(each(times, side * side))
    }

    fn stencil(&mut self, side: u64, request: &Request) -> Measured {
        let tall = side * u64::from(self.world.ranks());
        let mut u = self.spread::<f64, 3>([tall, side, side], 0, Format::Block(None), [1, 0, 0])?;
        let mut v = self.spread::<f64, 3>([tall, side, side], 0, Format::Block(None), [0; 3])?;
        u.update(|[i, ..], cell| *cell = i as f64);
        let u = u.reflect().map_err(text)?;
        let inside = [(1, tall as i64 - 2), (1, side as i64 - 2), (1, side as i64 - 2)];
        let times = self.together(request, |runs| {
            for _ in 0..runs {
                v.zip_rows_in(inside, u, |_, row, u| {
                    seven(
                        row,
                        u.row([0, 0, 0]),
                        [u.row([-1, 0, 0]), u.row([1, 0, 0]), u.row([0, -1, 0]), u.row([0, 1, 0])],
                        [u.row([0, 0, -1]), u.row([0, 0, 1])],
                    );
                });
                black_box(&v);
            }
            let middle =
                v.bounds().map(|[(low, high), ..]| [(low + high) / 2, side as i64 / 2, side as i64 / 2]);
            let right = middle.is_none_or(|at| (v[at] - at[0] as f64).abs() < 1e-9 * tall as f64);
            check(right)
        })?;
        Ok(each(times, side * side * side))
    }

    /// The same loops over plain memory: as many elements as one rank has, in pieces that begin a line of the cache apart, as those of arrays do: else
    /// what is measured is how they happen to lie to each other.
    fn plain(&mut self, name: &str, side: u64, request: &Request) -> Measured {
        let n = side as usize;
        match name {
            "triad" => {
                let (mut a, b, c) = (vec![0.0; n], vec![1.0; n + LINE], vec![2.0; n + 2 * LINE]);
                let (b, c) = (&b[LINE..], &c[2 * LINE..]);
                let times = self.together(request, |runs| {
                    for _ in 0..runs {
                        for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                            *a = b + 3.0 * c;
                        }
                        black_box(&a);
                    }
                    check(a[n - 1] == 7.0)
                })?;
                Ok(each(times, side))
            }
            "laplace" => {
                let u: Vec<f64> = (0..(n + 2) * n).map(|at| (at / n) as f64).collect();
                let mut v = vec![0.0; n * n + LINE];
                let v = &mut v[LINE..];
                let times = self.together(request, |runs| {
                    for _ in 0..runs {
                        for i in 1..=n {
                            let from = |at: usize| &u[at..at + n - 2];
                            let at = i * n + 1;
                            let (up, down, left, right) =
                                (from(at - n), from(at + n), from(at - 1), from(at + 1));
                            let row = &mut v[at - n..at - 2];
                            for (((v, up), down), (left, right)) in
                                row.iter_mut().zip(up).zip(down).zip(left.iter().zip(right))
                            {
                                *v = (up + down + left + right) * 0.25;
                            }
                        }
                        black_box(&v);
                    }
                    check(v[(n - 1) * n + n / 2] == n as f64)
                })?;
                Ok(each(times, side * side))
            }
            "stencil" => {
                let u: Vec<f64> = (0..(n + 2) * n * n).map(|at| (at / (n * n)) as f64).collect();
                let mut v = vec![0.0; n * n * n + LINE];
                let v = &mut v[LINE..];
                let times = self.together(request, |runs| {
                    for _ in 0..runs {
                        for i in 1..=n {
                            for j in 1..n - 1 {
                                let at = (i * n + j) * n + 1;
                                let from = |at: usize| &u[at..at + n - 2];
                                seven(
                                    &mut v[at - n * n..at - n * n + n - 2],
                                    from(at),
                                    [from(at - n * n), from(at + n * n), from(at - n), from(at + n)],
                                    [from(at - 1), from(at + 1)],
                                );
                            }
                        }
                        black_box(&v);
                    }
                    check((v[((n - 1) * n + n / 2) * n + n / 2] - n as f64).abs() < 1e-9 * n as f64)
                })?;
                Ok(each(times, side * side * side))
            }
            _ => Err(format!("{} is not a metric known here", request.metric)),
        }
    }

    /// The shadow of a cube that is cut in one dimension, and has cells around it in all.
    fn reflect(&mut self, cut: usize, side: u64, request: &Request) -> Measured {
        let mut cube = self.spread::<f64, 3>([side; 3], cut, Format::Block(None), [1; 3])?;
        cube.update(|index, cell| *cell = index[cut] as f64);
        let mut widths = [Width::NONE; 3];
        widths[cut] = Width { low: 1, high: 1, periodic: false };
        let times = self.together(request, |runs| {
            (0..runs).try_for_each(|_| cube.reflect_with(&widths, false).map(drop)).map_err(text)
        })?;
        let bounds = cube.bounds();
        let cube = cube.reflect_with(&widths, false).map_err(text)?;
        let beside = |low: i64, high: i64| {
            [low - 1, high + 1].into_iter().filter(|at| (0..side as i64).contains(at)).all(|at| {
                let mut index = [side as i64 / 2; 3];
                index[cut] = at;
                cube.get(index) == Some(&(at as f64))
            })
        };
        check(bounds.is_none_or(|bounds| beside(bounds[cut].0, bounds[cut].1))).map(|()| times)
    }

    fn deal_out(&mut self, side: u64, request: &Request) -> Measured {
        let mut from = self.spread::<f64, 2>([side; 2], 0, Format::Block(None), [0; 2])?;
        let mut to = self.spread::<f64, 2>([side; 2], 0, Format::Cyclic(1), [0; 2])?;
        from.update(|[i, j], cell| *cell = (i * side as i64 + j) as f64);
        let all = [const { Sub::All }; 2];
        to.copy_from(&all, &from, &all).map_err(text)?;
        let value = |i: i64, j: i64| (i * side as i64 + j) as f64;
        check_all(&to, value)?;
        self.together(request, |runs| {
            (0..runs).try_for_each(|_| to.copy_from(&all, &from, &all)).map_err(text)?;
            check_ends(&to, value)
        })
    }

    fn transpose(&mut self, side: u64, request: &Request) -> Measured {
        let mut from = self.spread::<f64, 2>([side; 2], 0, Format::Block(None), [0; 2])?;
        let mut to = from.like().map_err(text)?;
        from.update(|[i, j], cell| *cell = (i * side as i64 + j) as f64);
        to.transpose_from(&from).map_err(text)?;
        let value = |i: i64, j: i64| (j * side as i64 + i) as f64;
        check_all(&to, value)?;
        self.together(request, |runs| {
            (0..runs).try_for_each(|_| to.transpose_from(&from)).map_err(text)?;
            check_ends(&to, value)
        })
    }

    fn sum(&mut self, count: u64, request: &Request) -> Measured {
        let group = match self.group.take() {
            Some(group) => group,
            None => self.world.group().map_err(text)?,
        };
        let (own, ranks) = (f64::from(self.world.rank() + 1), f64::from(self.world.ranks()));
        let mut values = vec![own; count as usize];
        let times = self.together(request, |runs| {
            for _ in 0..runs {
                values.fill(own);
                group.allreduce(&mut values, Sum).map_err(text)?;
            }
            check(values.iter().all(|value| *value == ranks * (ranks + 1.0) / 2.0))
        });
        self.group = Some(group);
        times
    }
}

/// Seven points: the middle four tenths, the six around it a tenth each.
fn seven(row: &mut [f64], own: &[f64], around: [&[f64]; 4], [left, right]: [&[f64]; 2]) {
    let count = row.len();
    // Slices of one length, so that the compiler knows that every cell is there.
    let (own, left, right) = (&own[..count], &left[..count], &right[..count]);
    let [up, down, front, back] = around.map(|cells| &cells[..count]);
    for at in 0..count {
        row[at] = 0.4 * own[at] + 0.1 * (up[at] + down[at] + front[at] + back[at] + left[at] + right[at]);
    }
}

fn spread(
    ranks: u32,
    sizes: &[u64],
    dimension: usize,
    format: Format,
    shadow: &[u64],
) -> kumiki::Result<Arc<Mapping>> {
    let template = Template::new(&[(0, sizes[dimension] as i64 - 1)], &[format], &Nodes::line(ranks))?;
    let along = |at| if at == dimension { Align::with(0, 0) } else { Align::COLLAPSED };
    let aligns: Vec<Align> = (0..sizes.len()).map(along).collect();
    let shadows: Vec<Shadow> = shadow.iter().map(|&width| Shadow::both(width)).collect();
    Mapping::new(&template, sizes, &aligns, &shadows)
}

/// Nanoseconds of an element.
fn each(times: Vec<f64>, elements: u64) -> Vec<f64> {
    times.into_iter().map(|time| time / elements as f64).collect()
}

/// Every element.
fn check_all(matrix: &Array<'_, f64, 2>, value: impl Fn(i64, i64) -> f64) -> Done<()> {
    let mut right = true;
    matrix.for_each(|[i, j], found| right &= found == value(i, j));
    check(right)
}

/// The last element of each row, as the programs for MPI do in what is measured.
fn check_ends(matrix: &Array<'_, f64, 2>, value: impl Fn(i64, i64) -> f64) -> Done<()> {
    let mut right = true;
    matrix.for_rows(|[i, j], row| {
        right &= row.last().is_none_or(|last| *last == value(i, j + row.len() as i64 - 1));
    });
    check(right)
}

pub(super) fn check(is_right: bool) -> Done<()> {
    is_right.then_some(()).ok_or_else(|| "a result was wrong".into())
}
