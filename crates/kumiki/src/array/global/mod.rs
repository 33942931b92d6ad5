//! Arrays as programs have them: typed, of `N` dimensions, each rank with its part in memory of its own.
//!
//! | file | what |
//! |---|---|
//! | `frame.rs` | where an element of the local part lies |
//! | `cells.rs` | its memory |
//! | `loops.rs` | loops over the own elements: by element, by row, in parallel threads |
//! | `rows.rs` | rows of others that go along |
//! | `shadow.rs` | reflect, and reading the shadow while it is valid |
//! | `moves.rs` | copies of sections, redistribution, transposition |
//! | `reduce.rs` | sums, extrema and their places |
//! | `share.rs` | a phase in which every rank reads and writes any element |
//! | `matmul.rs` | products of matrices |
//! | `order.rs` | sort, scan, pack, unpack |
//! | `indexed.rs` | gather and scatter by index arrays |
//! | `npy.rs` | files that NumPy reads |

mod cells;
mod frame;
mod indexed;
mod loops;
mod matmul;
mod moves;
mod npy;
mod order;
mod reduce;
mod rows;
mod shadow;
mod share;

pub use moves::Copying;
pub use npy::NpyElement;
pub use rows::{Near, Rows};
pub use shadow::{Reflected, Reflecting};
pub use share::Shared;

use super::check;
use super::club::Club;
use super::space::{misuse, Align, Mapping, Nodes, Part, Shadow, Template, MAX_DIMENSIONS};
use crate::comm::Group;
use crate::{Pod, Purpose, Result, World};
use cells::Cells;
use frame::Frame;
use kumiki_mem::Booking;
use ndarray::{ArrayViewD, ArrayViewMutD, IxDyn, ShapeBuilder};
use std::ops::Index;
use std::sync::Arc;

/// An array of `N` dimensions whose elements are spread over ranks. Each rank has its part in memory of its own, with room for the shadow around it.
///
/// All that is collective is called by all nodes of the array, in the same order. Elements of others are seen after a [reflect](Self::reflect) (those
/// around the own part), by [copies of sections](Self::copy_from), or in a [phase](Self::share) in which anybody reads and writes anything.
///
/// ```
/// use kumiki::array::{Array, Nodes, Sub};
/// use kumiki::World;
///
/// # fn main() -> kumiki::Result<()> {
/// let world = World::init()?;
/// // 100 by 60 cells in blocks of rows, one row of others above and below.
/// let mut heat = Array::<f64, 2>::block(&world, &[100, 60], &[1, 0])?;
/// heat.update(|[i, j], cell| *cell = (i * j) as f64);
/// assert_eq!(heat.sum()?, 4950.0 * 1770.0);
/// let mut next = heat.like()?;
/// let around = heat.reflect()?;
/// next.update(|[i, j], cell| {
///     *cell = if i == 0 || i == 99 { 0.0 } else { (around[[i - 1, j]] + around[[i + 1, j]]) / 2.0 };
/// });
/// assert_eq!(next.max_at()?, (98.0 * 59.0, [98, 59]));
/// # drop((heat, next));
/// # world.finalize()
/// # }
/// ```
pub struct Array<'w, T: Pod, const N: usize> {
    club: Arc<Club<'w>>,
    mapping: Arc<Mapping>,
    frame: Frame<N>,
    cells: Cells<T>,
    _booked: Booking,
}

/// What an array takes beside its elements, at most; its mapping and what its nodes do together are shared by all arrays that have the same.
const MOST_BYTES: usize = 1024;
const _: () = assert!(size_of::<Array<'_, u8, MAX_DIMENSIONS>>() <= MOST_BYTES);

impl<T: Pod, const N: usize> std::fmt::Debug for Array<'_, T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array<{}>({:?})", std::any::type_name::<T>(), self.mapping.sizes())
    }
}

impl<'w, T: Pod, const N: usize> Array<'w, T, N> {
    /// An array that lies as a mapping says; all elements are zero. If somebody has no memory for its part, that one gets an error: nothing is
    /// communicated, but in the checked mode.
    #[track_caller]
    pub fn new(world: &'w World, mapping: &Arc<Mapping>) -> Result<Array<'w, T, N>> {
        let element = std::any::type_name::<T>();
        check::alike(world, mapping.nodes(), "Array::new", || format!("{element}, {mapping:?}"))?;
        world.note(Array::make(Club::new(world, mapping.nodes()), mapping))
    }

    /// An array on all ranks whose first dimension is spread in blocks, with a shadow of the same width on both sides of each dimension.
    #[track_caller]
    pub fn block(world: &'w World, sizes: &[u64; N], shadow: &[u64; N]) -> Result<Array<'w, T, N>> {
        let mapping = world.note((|| {
            let nodes = Nodes::line(world.ranks());
            let template = Template::block(&sizes[..1.min(N)], &nodes)?;
            let aligns: Vec<Align> =
                (0..N).map(|at| if at == 0 { Align::with(0, 0) } else { Align::COLLAPSED }).collect();
            Mapping::new(&template, sizes, &aligns, &shadow.map(Shadow::both))
        })())?;
        Array::new(world, &mapping)
    }

    fn make(club: Arc<Club<'w>>, mapping: &Arc<Mapping>) -> Result<Array<'w, T, N>> {
        let frame = Frame::new(&mapping.part(club.world.rank()))?;
        let bytes = (frame.len as u64).checked_mul(size_of::<T>() as u64);
        let bytes = bytes.ok_or_else(|| misuse("an array with more bytes than there are"))?;
        let booked = club.world.book(Purpose::Data, bytes)?;
        let cells = Cells::new(frame.len, MOST_BYTES.saturating_sub(size_of::<Array<'w, T, N>>()))?;
        Ok(Array { club, mapping: mapping.clone(), frame, cells, _booked: booked })
    }

    /// Another array with the same mapping; all elements are zero.
    pub fn like(&self) -> Result<Array<'w, T, N>> {
        self.world().note(Array::make(self.club.clone(), &self.mapping))
    }

    /// An array of other elements on the same nodes.
    pub fn beside<U: Pod, const M: usize>(&self, mapping: &Arc<Mapping>) -> Result<Array<'w, U, M>> {
        let club = match mapping.nodes() == &self.club.nodes {
            true => self.club.clone(),
            false => Club::new(self.world(), mapping.nodes()),
        };
        self.world().note(Array::make(club, mapping))
    }

    /// The world that it is in.
    pub fn world(&self) -> &'w World {
        self.club.world
    }

    /// How it lies.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// What this rank has of it.
    pub fn part(&self) -> Part<'_> {
        self.mapping.part(self.world().rank())
    }

    /// What its nodes do together. Collective when it is called first.
    pub fn group(&self) -> Result<&Group<'w>> {
        self.club.group()
    }

    /// Waits until all its nodes have come here. Collective.
    pub fn sync(&self) -> Result<()> {
        self.group()?.barrier()
    }

    /// Gives every own element this value.
    pub fn fill(&mut self, value: T) {
        self.update(|_, cell| *cell = value);
    }

    /// The own elements, without the shadow.
    pub fn own(&self) -> Result<ArrayViewD<'_, T>> {
        let (start, shape, strides) = self.world().note(self.frame.own(&self.part()))?;
        let shape = IxDyn(&shape).strides(IxDyn(&strides));
        let view = ArrayViewD::from_shape(shape, self.cells.get(start..).unwrap_or_default());
        view.map_err(|error| misuse(format!("a view of an array: {error}")))
    }

    /// The own elements, without the shadow, to be changed.
    pub fn own_mut(&mut self) -> Result<ArrayViewMutD<'_, T>> {
        let (start, shape, strides) = self.world().note(self.frame.own(&self.part()))?;
        let shape = IxDyn(&shape).strides(IxDyn(&strides));
        let view = ArrayViewMutD::from_shape(shape, self.cells.get_mut(start..).unwrap_or_default());
        view.map_err(|error| misuse(format!("a view of an array: {error}")))
    }

    /// The whole local part with its shadow, to be changed: cells beyond the bounds of the array are the program's, and a reflect leaves them alone.
    pub fn local_mut(&mut self) -> Result<ArrayViewMutD<'_, T>> {
        let extents = self.frame.extents;
        let view = ArrayViewMutD::from_shape(IxDyn(&extents), &mut self.cells);
        view.map_err(|error| misuse(format!("a view of an array: {error}")))
    }

    /// An own element; `None` if another rank has it.
    pub fn get_own(&self, index: [i64; N]) -> Option<&T> {
        self.frame.own_at(index).map(|at| &self.cells[at])
    }

    /// An own element, to be changed; `None` if another rank has it.
    pub fn get_own_mut(&mut self, index: [i64; N]) -> Option<&mut T> {
        self.frame.own_at(index).map(|at| &mut self.cells[at])
    }

    /// Own elements side by side in the last dimension: so many from an index on. In loops over rows, [`zip_rows`](Self::zip_rows) finds them faster.
    ///
    /// # Panics
    ///
    /// If this rank does not have all of them side by side.
    #[inline]
    #[track_caller]
    pub fn row(&self, first: [i64; N], len: usize) -> &[T] {
        match self.frame.row(first, len, false) {
            Some(start) => &self.cells[start..start + len],
            None => {
                panic!("rank {} has no {len} own elements from {first:?} on of {self:?}", self.world().rank())
            }
        }
    }

    /// In the checked mode: compares a call with those of the other nodes.
    #[track_caller]
    fn check(&self, what: &str, detail: impl FnOnce() -> String) -> Result<()> {
        let (world, nodes, sizes) = (self.world(), &self.club.nodes, self.mapping.sizes());
        check::alike(world, nodes, what, || format!("an array of {sizes:?}{}", detail()))
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.cells)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.cells)
    }
}

impl<T: Pod, const N: usize> Index<[i64; N]> for Array<'_, T, N> {
    type Output = T;

    /// An own element.
    ///
    /// # Panics
    ///
    /// If another rank has it.
    #[inline]
    #[track_caller]
    fn index(&self, index: [i64; N]) -> &T {
        match self.frame.own_at(index) {
            Some(at) => &self.cells[at],
            None => panic!("element {index:?} of {self:?} is not of rank {}", self.world().rank()),
        }
    }
}
