//! Halos: the cells around a member's piece of a field, filled with those of its neighbours in a grid.
//!
//! | file | what |
//! |---|---|
//! | `geometry.rs` | who gets which cells of whom, and where they lie: values |
//! | `make.rs` | how a halo is made |
//! | `links.rs` | sending, waiting, taking; and what happens when one cannot go on |
//!
//! A field is memory of the program, which computes in it as it likes. Cells go from there straight into a strip of the neighbour, and from
//! that into its ghost cells: nobody but the program touches a field while it computes.

mod geometry;
mod links;
mod make;

use crate::comm::collective::Retired;
use crate::{Error, Pod, Purpose, Region, Result, Team};
use kumiki_mem::Booking;
use links::Links;
use std::marker::PhantomData;

/// Stack of a helper thread, which packs and waits.
const STACK_BYTES: usize = 256 << 10;

/// How a halo is made: the argument of [`Cartesian::halo`](super::Cartesian::halo).
///
/// ```
/// use kumiki::comm::HaloOptions;
///
/// // Two ghost cells on each side in all dimensions, and also those beyond edges and corners.
/// let around = HaloOptions::width(2).corners();
/// // In the first dimension one below and none above, in the second two above.
/// let upwind = HaloOptions::sides(&[[1, 0], [0, 2]]).fields(3);
/// # let _ = (around, upwind);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct HaloOptions {
    ghosts: Ghosts,
    has_corners: bool,
    fields: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Ghosts {
    Everywhere(usize),
    Sides(Vec<[usize; 2]>),
}

impl HaloOptions {
    /// So many ghost cells on both sides of every dimension.
    pub fn width(cells: usize) -> HaloOptions {
        HaloOptions { ghosts: Ghosts::Everywhere(cells), has_corners: false, fields: 1 }
    }

    /// So many ghost cells below and above, for each dimension.
    pub fn sides(cells: &[[usize; 2]]) -> HaloOptions {
        HaloOptions { ghosts: Ghosts::Sides(cells.to_vec()), has_corners: false, fields: 1 }
    }

    /// Also the cells beyond edges and corners, which members at a diagonal have.
    pub fn corners(mut self) -> HaloOptions {
        self.has_corners = true;
        self
    }

    /// So many fields at a time, whose cells travel together; 1 if nothing is said.
    pub fn fields(mut self, fields: usize) -> HaloOptions {
        self.fields = fields;
        self
    }

    fn ghosts(&self, dimensions: usize) -> Vec<[usize; 2]> {
        match &self.ghosts {
            Ghosts::Everywhere(cells) => vec![[*cells; 2]; dimensions],
            Ghosts::Sides(cells) => cells.clone(),
        }
    }
}

/// The ghost cells of a field of which each member of a grid has a piece: from [`Cartesian::halo`](super::Cartesian::halo).
///
/// A piece lies in memory of the program with its ghost cells around it, the last dimension together: [`len`](Self::len) elements, of which
/// [`index`](Self::index) says where each is. An exchange fills the ghost cells with what their owners had when they
/// started it. Ghost cells beyond a border that does not close to a ring are never touched, nor are those beyond edges and corners
/// unless they were [asked for](HaloOptions::corners).
///
/// [`exchange`](Self::exchange) does it all; between [`start`](Self::start) and [`finish`](Self::finish) the program computes, and needs to make no
/// call; and while a program computes in [`overlap`](Self::overlap), a helper thread does the sending, too. All members exchange the same
/// number of times. One may be an exchange ahead of its neighbours: then it waits.
///
/// When an exchange fails on a member, because a rank is lost or because it got an error of its own, the halo is broken: its neighbours get an
/// error, and theirs. Dropping a halo is leaving it: the others finish the exchanges that it has sent its cells for, and cannot go on then. Members that are done together [`free`](Self::free) it.
/// A wrong argument is refused, and the exchange is not begun: the halo is whole, and the others wait until this member does exchange, or leaves.
///
/// ```
/// use kumiki::comm::HaloOptions;
///
/// # fn main() -> kumiki::Result<()> {
/// # let world = kumiki::World::init()?;
/// let group = world.group()?;
/// // A ring of slabs of 4 by 6 cells, one ghost cell below and above in the first dimension.
/// let grid = group.cartesian(&[group.ranks(), 1], &[true, false])?;
/// let mut halo = grid.halo::<f64>(&[4, 6], HaloOptions::sides(&[[1, 1], [0, 0]]))?;
/// let mut field = vec![f64::from(world.rank()); halo.len()];
/// halo.exchange(&mut field)?;
/// let below = (world.rank() + world.ranks() - 1) % world.ranks();
/// assert_eq!(field[halo.index(&[-1, 5])], f64::from(below));
/// halo.free()?;
/// # group.free()?;
/// # world.finalize()
/// # }
/// ```
pub struct Halo<'w, T: Pod> {
    links: Links<'w>,
    /// Gone when the halo is broken, or freed.
    team: Option<Team>,
    /// Until it is given back.
    memory: Option<(Region<u64>, Booking)>,
    is_underway: bool,
    fields: usize,
    extents: Vec<usize>,
    ghosts: Vec<[usize; 2]>,
    padded: Vec<usize>,
    elements: usize,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod> std::fmt::Debug for Halo<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Halo<{}>({:?} around {:?})", std::any::type_name::<T>(), self.ghosts, self.extents)
    }
}

impl<T: Pod> Halo<'_, T> {
    /// Elements of a field with its ghost cells.
    #[allow(clippy::len_without_is_empty, reason = "there is no field without cells")]
    pub fn len(&self) -> usize {
        self.elements
    }

    /// Extents of a field with its ghost cells.
    pub fn padded(&self) -> &[usize] {
        &self.padded
    }

    /// Extents of a field without its ghost cells.
    pub fn extents(&self) -> &[usize] {
        &self.extents
    }

    /// Where a cell is in memory: its place counts from the first own cell on, so that ghost cells below are negative.
    ///
    /// # Panics
    ///
    /// If there is no such cell.
    pub fn index(&self, place: &[i64]) -> usize {
        assert_eq!(place.len(), self.padded.len(), "the dimensions of a place in a field");
        let axes = place.iter().zip(&self.ghosts).zip(&self.padded);
        axes.fold(0, |index, ((at, [low, _]), extent)| {
            let at = usize::try_from(at + *low as i64).ok().filter(|at| at < extent);
            index * extent + at.unwrap_or_else(|| panic!("there is no cell {place:?} in {self:?}"))
        })
    }

    /// Bytes of this member's block in the arena, into which its neighbours write. What it takes privately is in the ledger under
    /// [`Purpose::Comm`](crate::Purpose::Comm).
    pub fn block_bytes(&self) -> usize {
        self.links.block_bytes as usize
    }

    /// Fills the ghost cells of a field.
    pub fn exchange(&mut self, field: &mut [T]) -> Result<()> {
        self.exchange_all(&mut [field])
    }

    /// Fills the ghost cells of all fields.
    pub fn exchange_all(&mut self, fields: &mut [&mut [T]]) -> Result<()> {
        self.begin(fields.iter().map(|field| field.len()))?;
        let sent = self.links.send(&shared(fields), false);
        let taken =
            sent.and_then(|()| self.links.wait()).and_then(|()| self.links.take(&mut bytes(fields), false));
        self.end(taken)
    }

    /// Sends the cells that neighbours need. When this returns the program may change them.
    ///
    /// ```
    /// # use kumiki::comm::HaloOptions;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// # let group = world.group()?;
    /// # let grid = group.cartesian(&[group.ranks()], &[true])?;
    /// let mut halo = grid.halo::<f64>(&[1000], HaloOptions::width(1))?;
    /// let mut heat = vec![1.5; halo.len()];
    /// let mut next = heat.clone();
    /// for _ in 0..10 {
    ///     halo.start(&heat)?;
    ///     let mean = |heat: &[f64], at: usize| (heat[at - 1] + heat[at] + heat[at + 1]) / 3.0;
    ///     (2..1000).for_each(|at| next[at] = mean(&heat, at));
    ///     halo.finish(&mut heat)?;
    ///     [1, 1000].into_iter().for_each(|at| next[at] = mean(&heat, at));
    ///     std::mem::swap(&mut heat, &mut next);
    /// }
    /// halo.free()?;
    /// # group.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn start(&mut self, field: &[T]) -> Result<()> {
        self.start_all(&[field])
    }

    /// The same of all fields.
    pub fn start_all(&mut self, fields: &[&[T]]) -> Result<()> {
        self.begin(fields.iter().map(|field| field.len()))?;
        let fields: Vec<&[u8]> = fields.iter().map(|field| bytemuck::cast_slice(field)).collect();
        match self.links.send(&fields, true) {
            Ok(()) => {
                self.is_underway = true;
                Ok(())
            }
            failed => self.end(failed),
        }
    }

    /// Waits until the cells of all neighbours are there, and fills the ghost cells of the field with them.
    pub fn finish(&mut self, field: &mut [T]) -> Result<()> {
        self.finish_all(&mut [field])
    }

    /// The same of all fields.
    pub fn finish_all(&mut self, fields: &mut [&mut [T]]) -> Result<()> {
        self.links.check()?;
        self.check_fields(fields.iter().map(|field| field.len()))?;
        if !self.is_underway {
            return self.links.world.note(Err(Error::Misuse("no exchange was started".into())));
        }
        let taken = self.links.wait().and_then(|()| self.links.take(&mut bytes(fields), true));
        self.end(taken)
    }

    /// Does an exchange while `work` computes: a helper thread sends the cells that neighbours need and waits for theirs, and `work` reads the
    /// field, whose ghost cells are filled when both are done. Gives what `work` gives.
    ///
    /// ```
    /// # use kumiki::comm::HaloOptions;
    /// # fn main() -> kumiki::Result<()> {
    /// # let world = kumiki::World::init()?;
    /// # let group = world.group()?;
    /// # let grid = group.cartesian(&[group.ranks()], &[true])?;
    /// let mut halo = grid.halo::<f64>(&[1000], HaloOptions::width(1))?;
    /// let (mut heat, mut next) = (vec![1.5; halo.len()], vec![0.0; halo.len()]);
    /// let sum: f64 = halo.overlap(&mut heat, |heat| {
    ///     (2..1000).for_each(|at| next[at] = (heat[at - 1] + heat[at] + heat[at + 1]) / 3.0);
    ///     next.iter().sum()
    /// })?;
    /// assert_eq!((sum, heat[0]), (998.0 * 1.5, 1.5));
    /// halo.free()?;
    /// # group.free()?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn overlap<R>(&mut self, field: &mut [T], work: impl FnOnce(&[T]) -> R) -> Result<R> {
        self.overlap_all(&mut [field], |fields| work(fields[0]))
    }

    /// The same of all fields.
    pub fn overlap_all<R>(&mut self, fields: &mut [&mut [T]], work: impl FnOnce(&[&[T]]) -> R) -> Result<R> {
        self.begin(fields.iter().map(|field| field.len()))?;
        // If the work unwinds the exchange can be finished.
        self.is_underway = true;
        let lent: Vec<&[T]> = fields.iter().map(|field| &**field).collect();
        let (sent, worked) = send_beside(&mut self.links, &shared(fields), || work(&lent));
        let taken = sent.and_then(|()| self.links.take(&mut bytes(fields), true));
        self.end(taken).map(|()| worked)
    }

    /// Waits until all members have come here, and gives the halo back. Collective.
    ///
    /// One that was started is finished first: whoever frees a halo in between leaves it, and gets an error.
    pub fn free(mut self) -> Result<()> {
        self.links.check()?;
        if self.is_underway {
            return self
                .links
                .world
                .note(Err(Error::Misuse("an exchange was started and not finished".into())));
        }
        if let Err(error) = self.links.settle() {
            return Err(self.links.give_up(error));
        }
        self.links.part();
        // All that was sent is there, and behind the meeting nobody writes any more.
        self.team.take().map_or(Ok(()), Team::free)
    }

    /// Fails if no exchange can begin.
    fn begin(&self, lengths: impl ExactSizeIterator<Item = usize>) -> Result<()> {
        self.links.check()?;
        self.check_fields(lengths)?;
        match self.is_underway {
            true => {
                self.links.world.note(Err(Error::Misuse("an exchange was started and not finished".into())))
            }
            false => Ok(()),
        }
    }

    fn check_fields(&self, mut lengths: impl ExactSizeIterator<Item = usize>) -> Result<()> {
        let (count, wanted, elements) = (lengths.len(), self.fields, self.elements);
        if count == wanted && lengths.all(|length| length == elements) {
            return Ok(());
        }
        let wrong = format!("{count} fields for a halo of {wanted} with {elements} elements each");
        self.links.world.note(Err(Error::Misuse(wrong)))
    }

    /// An exchange is over, or the halo.
    fn end(&mut self, result: Result<()>) -> Result<()> {
        self.is_underway = false;
        if result.is_err() {
            self.team = None;
        }
        result
    }
}

/// Sends and waits in a thread of its own while `work` is done, if there can be one.
fn send_beside<R>(links: &mut Links<'_>, fields: &[&[u8]], work: impl FnOnce() -> R) -> (Result<()>, R) {
    let unspawned = match links.world.memory.has_threads() {
        false => Err(work),
        true => std::thread::scope(|scope| {
            let Ok(_stack) = links.world.book(Purpose::Thread, STACK_BYTES as u64) else { return Err(work) };
            let threads = std::thread::Builder::new().name("halo".into()).stack_size(STACK_BYTES);
            match threads.spawn_scoped(scope, || links.send(fields, true).and_then(|()| links.wait())) {
                Ok(helper) => {
                    let worked = work();
                    let sent = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    Ok((sent, worked))
                }
                Err(_) => Err(work),
            }
        }),
    };
    // Without a thread the cells are sent first, and nobody waits for them before the work is done.
    unspawned.unwrap_or_else(|work| {
        let sent = links.send(fields, true);
        let worked = work();
        (sent.and_then(|()| links.wait()), worked)
    })
}

/// Fields as bytes, to be read.
fn shared<'a, T: Pod>(fields: &'a [&mut [T]]) -> Vec<&'a [u8]> {
    fields.iter().map(|field| bytemuck::cast_slice(field)).collect()
}

/// Fields as bytes, to be written.
fn bytes<'a, T: Pod>(fields: &'a mut [&mut [T]]) -> Vec<&'a mut [u8]> {
    fields.iter_mut().map(|field| bytemuck::cast_slice_mut(field)).collect()
}

impl<T: Pod> Drop for Halo<'_, T> {
    fn drop(&mut self) {
        let world = self.links.world;
        // A forked child has no part in the halo, and what a closed world had of it is gone.
        if world.local().check_alive(world.rank()).is_err() {
            return;
        }
        if self.team.take().is_some() {
            self.links.leave();
        }
        self.links.part();
        let guests = self.links.guests();
        if let Some((block, booked)) = self.memory.take() {
            world.retire(Retired { block, room: None, guests, booked });
        }
    }
}
