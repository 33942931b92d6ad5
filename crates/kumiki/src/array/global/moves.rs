//! Copies of sections between arrays, and whole arrays with another mapping.

use super::Array;
use crate::array::check;
use crate::array::schedule::{Cost, Plan, Underway};
use crate::array::space::{Mapping, Nodes, Section, Sub};
use crate::{Pod, Result};
use std::sync::Arc;

/// A copy that is under way: from [`Array::start_copy_from`]. The target has the elements when it is [finished](Self::finish).
#[must_use = "the target gets its elements when it is finished"]
pub struct Copying<'a, 'w, T: Pod, const N: usize> {
    to: &'a mut Array<'w, T, N>,
    underway: Underway<'w>,
}

impl<T: Pod, const N: usize> std::fmt::Debug for Copying<'_, '_, T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Copying(to {:?})", self.to)
    }
}

impl<T: Pod, const N: usize> Copying<'_, '_, T, N> {
    /// Waits for what others send.
    pub fn finish(self) -> Result<()> {
        self.underway.finish(self.to.bytes_mut())
    }

    /// Whether [`finish`](Self::finish) would not wait.
    pub fn is_done(&self) -> bool {
        self.underway.is_done()
    }
}

/// Those who have one array or the other.
fn both(one: &Nodes, other: &Nodes) -> Result<Nodes> {
    if one.contains_all(other) {
        return Ok(one.clone());
    }
    if other.contains_all(one) {
        return Ok(other.clone());
    }
    let mut ranks: Vec<_> = one.ranks().chain(other.ranks()).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let count = ranks.len() as u32;
    Nodes::of(&ranks, &[count])
}

impl<'w, T: Pod, const N: usize> Array<'w, T, N> {
    #[track_caller]
    fn plan<const M: usize>(
        &self,
        left: &Section,
        from: &Array<'w, T, M>,
        right: &Section,
        order: &[usize],
    ) -> Result<Arc<Plan>> {
        let among = both(self.mapping.nodes(), from.mapping.nodes())?;
        check::alike(self.world(), &among, "copy", || {
            let (to, source) = (self.mapping.sizes(), from.mapping.sizes());
            let (left, right) = (left.spans(), right.spans());
            format!("{source:?} {right:?} to {to:?} {left:?}, {order:?}")
        })?;
        let (to, source) = ((&self.mapping, left), (&from.mapping, right));
        Plan::copy_ordered(self.world(), &among, size_of::<T>(), to, source, order)
    }

    /// Copies a section of another array to a section of this one: they have the same shape, or the source is one element. Dimensions with one index do not count.
    /// Collective among the nodes of both; where it gathers all of an array for every node, it is one of the calls of the [`group`](Array::group) of this one.
    ///
    /// ```
    /// # use kumiki::array::{Array, Sub};
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// let mut matrix = Array::<i64, 2>::block(&world, &[10, 10], &[0, 0])?;
    /// let mut column = Array::<i64, 1>::block(&world, &[5], &[0])?;
    /// matrix.update(|[i, j], cell| *cell = 10 * i + j);
    /// // Rows 9, 7, …, 1 of column 4.
    /// column.copy_from(&[Sub::All], &matrix, &[Sub::range(9, 5, -2), Sub::Index(4)])?;
    /// assert_eq!(column.to_vec()?, [94, 74, 54, 34, 14]);
    /// # drop((matrix, column));
    /// # world.finalize()
    /// # }
    /// ```
    #[track_caller]
    pub fn copy_from<const M: usize>(
        &mut self,
        left: &[Sub],
        from: &Array<'w, T, M>,
        right: &[Sub],
    ) -> Result<()> {
        let world = self.world();
        let plan = world.note(self.plan_of(left, from, right))?;
        let club = self.club.clone();
        plan.run_with(world, club.known_group(), from.bytes(), self.bytes_mut())
    }

    #[track_caller]
    fn plan_of<const M: usize>(
        &self,
        left: &[Sub],
        from: &Array<'w, T, M>,
        right: &[Sub],
    ) -> Result<Arc<Plan>> {
        self.plan(&self.mapping.section(left)?, from, &from.mapping.section(right)?, &[])
    }

    /// What [`copy_from`](Self::copy_from) costs this rank.
    #[track_caller]
    pub fn copy_cost<const M: usize>(
        &self,
        left: &[Sub],
        from: &Array<'w, T, M>,
        right: &[Sub],
    ) -> Result<Cost> {
        self.world().note(self.plan_of(left, from, right)).map(|plan| plan.cost())
    }

    /// As [`copy_from`](Self::copy_from): what others need is sent when this returns, and the source may be changed; the target gets its elements later.
    #[track_caller]
    pub fn start_copy_from<'a, const M: usize>(
        &'a mut self,
        left: &[Sub],
        from: &Array<'w, T, M>,
        right: &[Sub],
    ) -> Result<Copying<'a, 'w, T, N>> {
        let world = self.world();
        let plan = world.note(self.plan_of(left, from, right))?;
        let underway = plan.start(world, from.bytes())?;
        Ok(Copying { to: self, underway })
    }

    /// Copies a section of this array to another one of it. They may overlap: it is as if all were read before anything is written. Collective.
    #[track_caller]
    pub fn copy_inside(&mut self, left: &[Sub], right: &[Sub]) -> Result<()> {
        self.check("copy_inside", || format!(", {right:?} to {left:?}"))?;
        let world = self.world();
        let plan = world.note((|| {
            let (left, right) = (self.mapping.section(left)?, self.mapping.section(right)?);
            let (to, from) = ((&self.mapping, &left), (&self.mapping, &right));
            Plan::copy(world, self.mapping.nodes(), size_of::<T>(), to, from)
        })())?;
        plan.run_inside(world, self.bytes_mut())
    }

    /// The same elements with another mapping. Collective among the nodes of both.
    #[track_caller]
    pub fn redistribute(self, mapping: &Arc<Mapping>) -> Result<Array<'w, T, N>> {
        let mut other = self.beside(mapping)?;
        other.copy_from(&[const { Sub::All }; N], &self, &[const { Sub::All }; N])?;
        Ok(other)
    }

    /// Gives this array the elements of another with its dimensions in another order: dimension `k` of this is dimension `order[k]` of the other. Collective
    /// among the nodes of both.
    #[track_caller]
    pub fn permute_from(&mut self, from: &Array<'w, T, N>, order: [usize; N]) -> Result<()> {
        let world = self.world();
        let plan = world.note(self.plan(&self.mapping.whole(), from, &from.mapping.whole(), &order))?;
        plan.run(world, from.bytes(), self.bytes_mut())
    }

    /// All elements, on every node of the array, in C's order. Collective, and a call of the array's [`group`](Array::group) if there is one. For small arrays, and tests.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let whole = self.world().note(Mapping::everywhere(self.mapping.nodes(), &self.mapping.sizes()))?;
        let mut all = self.beside::<T, N>(&whole)?;
        all.copy_from(&[const { Sub::All }; N], self, &[const { Sub::All }; N])?;
        Ok(all.cells.into_vec())
    }
}

impl<'w, T: Pod> Array<'w, T, 2> {
    /// Gives this matrix the elements of another one with rows and columns exchanged. Collective among the nodes of both.
    #[track_caller]
    pub fn transpose_from(&mut self, from: &Array<'w, T, 2>) -> Result<()> {
        self.permute_from(from, [1, 0])
    }
}
