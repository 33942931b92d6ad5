//! Products of matrices: panels of both come to those who need them, whatever the mappings are, and are multiplied where the result is.

use super::Array;
use crate::array::space::{misuse, Align, Mapping, Shadow, Sub};
use crate::comm::Number;
use crate::Result;
use std::sync::Arc;

/// Columns of the left matrix that travel together.
const PANEL: u64 = 128;

impl<'w, T: Number> Array<'w, T, 2> {
    /// Gives this matrix the product of two others. Collective among the nodes of all three.
    ///
    /// ```
    /// # use kumiki::array::Array;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// let mut a = Array::<i64, 2>::block(&world, &[30, 40], &[0, 0])?;
    /// let mut b = Array::<i64, 2>::block(&world, &[40, 20], &[0, 0])?;
    /// let mut c = Array::<i64, 2>::block(&world, &[30, 20], &[0, 0])?;
    /// a.update(|[i, k], cell| *cell = i + k);
    /// b.update(|[k, j], cell| *cell = k - j);
    /// c.matmul_from(&a, &b)?;
    /// let wanted = |i: i64, j: i64| (0..40).map(|k| (i + k) * (k - j)).sum::<i64>();
    /// c.for_each(|[i, j], value| assert_eq!(value, wanted(i, j)));
    /// # drop((a, b, c));
    /// # world.finalize()
    /// # }
    /// ```
    #[track_caller]
    pub fn matmul_from(&mut self, left: &Array<'w, T, 2>, right: &Array<'w, T, 2>) -> Result<()> {
        self.check("matmul_from", String::new)?;
        let [(rows, inner), (other, columns), (high, wide)] = [left, right, &*self].map(|matrix| {
            let sizes = matrix.mapping.sizes();
            (sizes[0], sizes[1])
        });
        if inner != other || rows != high || columns != wide {
            let wrong = format!("{rows} by {inner} times {other} by {columns} is not {high} by {wide}");
            return self.world().note(Err(misuse(wrong)));
        }
        self.fill(T::zeroed());
        for first in (0..inner).step_by(PANEL as usize) {
            let count = PANEL.min(inner - first);
            let some = Sub::range(first as i64, count as i64, 1);
            let mut tall = self.panel(&[rows, count], 0)?;
            let mut flat = self.panel(&[count, columns], 1)?;
            tall.copy_from(&[Sub::All, Sub::All], left, &[Sub::All, some.clone()])?;
            flat.copy_from(&[Sub::All, Sub::All], right, &[some, Sub::All])?;
            self.add_product(&tall, &flat, count as usize)?;
        }
        Ok(())
    }

    /// A matrix of which every rank has what it needs for its own elements: one dimension goes with that of this matrix, the other one is whole.
    fn panel(&self, sizes: &[u64; 2], along: usize) -> Result<Array<'w, T, 2>> {
        let mapping: Arc<Mapping> = self.world().note(match self.mapping.template() {
            Some(template) => {
                let mut aligns = [Align::COLLAPSED; 2];
                aligns[along] = self.mapping.dimensions()[along].align();
                Mapping::new(template, sizes, &aligns, &[Shadow::NONE; 2])
            }
            None => Mapping::everywhere(self.mapping.nodes(), sizes),
        })?;
        self.beside(&mapping)
    }

    fn add_product(&mut self, tall: &Array<'w, T, 2>, flat: &Array<'w, T, 2>, count: usize) -> Result<()> {
        let (tall, flat) = (tall.own()?, flat.own()?);
        let mut own = self.own_mut()?;
        if own.is_empty() {
            return Ok(());
        }
        for (at, mut row) in own.outer_iter_mut().enumerate() {
            for k in 0..count {
                let factor = tall[[at, k]];
                let others = flat.index_axis(ndarray::Axis(0), k);
                match (row.as_slice_mut(), others.as_slice()) {
                    (Some(row), Some(others)) => {
                        row.iter_mut()
                            .zip(others)
                            .for_each(|(sum, other)| *sum = sum.plus(factor.times(*other)));
                    }
                    _ => row
                        .iter_mut()
                        .zip(&others)
                        .for_each(|(sum, other)| *sum = sum.plus(factor.times(*other))),
                }
            }
        }
        Ok(())
    }
}
