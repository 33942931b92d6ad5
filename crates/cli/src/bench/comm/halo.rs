//! What the ghost cells of a cube of doubles cost, which is cut over all ranks in one dimension and is a ring there.

use super::super::worker::{Measured, Request};
use super::ours::{text, Comm, Done};
use kumiki::comm::{Halo, HaloOptions};

/// A piece of a cube, and its halo.
struct Piece<'a> {
    halo: Halo<'a, f64>,
    field: Vec<f64>,
    /// The members below and above.
    beside: [f64; 2],
    cut: usize,
}

impl<'a> Comm<'a> {
    /// Microseconds of an exchange, with the cube cut in a dimension.
    pub(super) fn halo(&mut self, cut: usize, side: u64, request: &Request) -> Measured {
        let mut piece = self.piece(cut, side as usize)?;
        let times = self.together(request, |count| {
            (0..count).try_for_each(|_| piece.halo.exchange(&mut piece.field)).map_err(text)?;
            piece.check()
        });
        piece.halo.free().map_err(text)?;
        Ok(times?.into_iter().map(|nanoseconds| nanoseconds / 1e3).collect())
    }

    /// How much longer a computation takes during which an exchange goes on, or the exchange if that takes longer.
    pub(super) fn overlap(&mut self, side: u64, request: &Request) -> Measured {
        let mut piece = self.piece(0, side as usize)?;
        let mut next = vec![0.0; piece.field.len()];
        let part = |name: &str| Request { metric: format!("{}.{name}", request.metric), reps: request.reps };
        let [plane, row] = [piece.plane(), piece.row()];
        let inner = 2 * plane..piece.field.len() - 2 * plane;
        let computed = self.together(&part("computed"), |count| {
            (0..count).for_each(|_| smooth(&piece.field, &mut next, inner.clone(), [plane, row]));
            Ok(())
        })?;
        let exchanged = self.together(&part("exchanged"), |count| {
            (0..count).try_for_each(|_| piece.halo.exchange(&mut piece.field)).map_err(text)
        })?;
        let both = self.together(&part("both"), |count| {
            for _ in 0..count {
                piece.halo.start(&piece.field).map_err(text)?;
                smooth(&piece.field, &mut next, inner.clone(), [plane, row]);
                piece.halo.finish(&mut piece.field).map_err(text)?;
            }
            piece.check()
        })?;
        piece.halo.free().map_err(text)?;
        let longest = computed.into_iter().zip(exchanged).map(|(one, other)| one.max(other));
        Ok(both.into_iter().zip(longest).map(|(both, longest)| both / longest).collect())
    }

    fn piece(&mut self, cut: usize, side: usize) -> Done<Piece<'a>> {
        let group = self.take_group()?;
        let ranks = group.ranks();
        let (mut grid, mut extents, mut periodic) = ([1; 3], [side; 3], [false; 3]);
        (grid[cut], periodic[cut], extents[cut]) = (ranks, true, side / ranks as usize);
        let grid = group.cartesian(&grid, &periodic).map_err(text)?;
        let halo = grid.halo::<f64>(&extents, HaloOptions::width(1)).map_err(text)?;
        let beside = grid.neighbours(cut).map(|rank| rank.map_or(-1.0, f64::from));
        let field = vec![f64::from(group.rank()); halo.len()];
        self.give_group(group);
        Ok(Piece { halo, field, beside, cut })
    }
}

impl Piece<'_> {
    fn check(&self) -> Done<()> {
        let extent = self.halo.extents()[self.cut] as i64;
        for (at, wanted) in [-1, extent].into_iter().zip(self.beside) {
            let mut place = [0; 3];
            place[self.cut] = at;
            if self.field[self.halo.index(&place)] != wanted {
                return Err("a ghost cell is wrong".into());
            }
        }
        Ok(())
    }

    fn plane(&self) -> usize {
        self.halo.padded()[1] * self.halo.padded()[2]
    }

    fn row(&self) -> usize {
        self.halo.padded()[2]
    }
}

/// The mean of each cell and the six around it.
fn smooth(field: &[f64], next: &mut [f64], range: std::ops::Range<usize>, [plane, row]: [usize; 2]) {
    let (start, cells) = (range.start, &mut next[range]);
    let count = cells.len();
    // Slices of one length, so that the compiler knows that every cell is there.
    let from = |first: usize| &field[first..first + count];
    let (own, below, above) = (from(start), from(start - plane), from(start + plane));
    let (front, back) = (from(start - row), from(start + row));
    let (left, right) = (from(start - 1), from(start + 1));
    for at in 0..count {
        let around = below[at] + above[at] + front[at] + back[at] + left[at] + right[at];
        cells[at] = (own[at] + around) / 7.0;
    }
}
