//! A typed block on each rank, that every rank finds without being told where.

use super::agreement::{share, share_and_count, Handed, Wish};
use crate::{Error, GlobalAddress, GlobalPtr, Pod, Purpose, Rank, Region, Result, World};
use kumiki_mem::Booking;

/// A block of elements on each rank, all of one length, made by all ranks together with [`World::shared_array`].
///
/// Every rank addresses the elements of every other with [`at`](Self::at), by arithmetic: usually no table of ranks is kept.
/// What a rank does with its own block by [`read`](Self::read) and [`write`](Self::write) is seen by all, as if it had been
/// put there.
///
/// The memory of a rank's block goes back when that rank drops its array; who uses it afterwards gets
/// [`Bounds`](Error::Bounds). [`free`](Self::free) waits for the others first.
///
/// ```
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let mailboxes = world.shared_array::<u64>(4)?;
/// let next = (world.rank() + 1) % world.ranks();
/// world.put(mailboxes.at(next, 2), 7 + world.rank() as u64)?;
/// world.sync()?;
/// let before = (world.rank() + world.ranks() - 1) % world.ranks();
/// assert_eq!(mailboxes.get(2)?, 7 + before as u64);
/// mailboxes.free(&world)?;
/// # world.finalize()
/// # }
/// ```
pub struct SharedArray<T: Pod> {
    block: Region<T>,
    places: Places,
}

/// Where the block of each rank is.
enum Places {
    /// At the same place on every rank: that of rank 0, and the way from one rank to the next.
    Alike { ranks: u32, first: (u64, u64), step: (u64, u64) },
    /// Each somewhere: ranks that have registered and freed differently.
    Apart { parts: Box<[[u64; 2]]>, _booked: Booking },
}

impl<T: Pod> std::fmt::Debug for SharedArray<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = std::any::type_name::<T>();
        write!(f, "SharedArray<{name}>({} elements on each rank)", self.len())
    }
}

/// Where the block of rank 0 is.
struct First([u64; 3]);

impl<'w> Handed<'w> for First {
    fn words(&self) -> [u64; 3] {
        self.0
    }

    fn open(_: &'w World, words: [u64; 3]) -> Result<Self> {
        Ok(First(words))
    }

    fn discard(self) -> Result<()> {
        Ok(())
    }
}

/// A block of rank 0's heap that all ranks know for a while.
struct Notes<'w>(&'w World, GlobalAddress);

impl<'w> Handed<'w> for Notes<'w> {
    fn words(&self) -> [u64; 3] {
        [self.1.bits(), 0, 0]
    }

    fn open(world: &'w World, words: [u64; 3]) -> Result<Self> {
        Ok(Notes(world, GlobalAddress::from_bits(words[0])))
    }

    fn discard(self) -> Result<()> {
        self.0.free(self.1)
    }
}

impl World {
    /// Makes a block of `count` zeroed elements on each rank. Collective: all ranks call it, with the same type and count; if they
    /// do not, or if a rank has no memory, every rank gets an error.
    pub fn shared_array<T: Pod>(&self, count: usize) -> Result<SharedArray<T>> {
        let block = self.alloc::<T>(count);
        let wish = Wish::of::<T>("an array", count);
        let own = block.as_ref().map_or([0; 2], |block| parts(block.ptr()));
        let step = step(self)?;
        // A rank may have none, or one at another place: all must know it.
        let look = |[address, registration, _]: [u64; 3]| {
            [own[0] == 0, own != along((address, registration), step, self.rank())]
        };
        let told = share_and_count(self, wish, || Ok(First([own[0], own[1], 0])), look)?;
        let (First([address, registration, _]), [short, apart]) = told;
        let block = match (block, short) {
            (Ok(block), 0) => block,
            (Ok(_), short) => {
                let asked = count.saturating_mul(size_of::<T>()) as u64;
                let what = if short == 1 {
                    "one rank has none for its block"
                } else {
                    "some ranks have none for theirs"
                };
                return self.note(Err(Error::OutOfMemory { asked, left: 0, what }));
            }
            (Err(error), _) => return Err(error),
        };
        let places = match apart {
            0 => Places::Alike { ranks: self.ranks(), first: (address, registration), step },
            _ => exchange(self, own)?,
        };
        Ok(SharedArray { block, places })
    }
}

impl<T: Pod> SharedArray<T> {
    /// A pointer to an element of a rank's block. One of a rank or an element that is not there gives
    /// [`Bounds`](Error::Bounds) when it is used.
    #[inline]
    pub fn at(&self, rank: Rank, index: usize) -> GlobalPtr<T> {
        self.ptr(rank) + index
    }

    /// A pointer to the first element of a rank's block; null if there is no such rank.
    #[inline]
    pub fn ptr(&self, rank: Rank) -> GlobalPtr<T> {
        let [address, registration] = match &self.places {
            Places::Alike { ranks, first, step } if rank < *ranks => along(*first, *step, rank),
            Places::Alike { .. } => [0; 2],
            Places::Apart { parts, .. } => parts.get(rank as usize).copied().unwrap_or([0; 2]),
        };
        GlobalPtr::from_parts(GlobalAddress::from_bits(address), registration)
    }

    /// This rank's own block.
    pub fn own(&self) -> &Region<T> {
        &self.block
    }

    /// This rank's own block, without the others'.
    pub(crate) fn into_own(self) -> Region<T> {
        self.block
    }

    /// Elements of each rank's block.
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// Whether the blocks have no elements.
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// An element of this rank's own block.
    pub fn get(&self, index: usize) -> Result<T> {
        let mut value = T::zeroed();
        self.read(index, std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Changes an element of this rank's own block.
    pub fn set(&self, index: usize, value: T) -> Result<()> {
        self.write(index, &[value])
    }

    /// Copies elements out of this rank's own block, from `first`.
    pub fn read(&self, first: usize, into: &mut [T]) -> Result<()> {
        self.block.read(first, into)
    }

    /// Copies elements into this rank's own block, from `first`.
    pub fn write(&self, first: usize, from: &[T]) -> Result<()> {
        self.block.write(first, from)
    }

    /// All elements of this rank's own block.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); self.len()];
        self.read(0, &mut values)?;
        Ok(values)
    }

    /// Waits until all ranks have come here, and gives the memory back. Collective.
    pub fn free(self, world: &World) -> Result<()> {
        world.sync()
    }
}

fn parts<T: Pod>(pointer: GlobalPtr<T>) -> [u64; 2] {
    let (address, registration) = pointer.parts();
    [address.bits(), registration]
}

/// How the parts of a pointer change from one rank to the next, at the same place.
fn step(world: &World) -> Result<(u64, u64)> {
    let [one, two] = [0, (world.ranks() - 1).min(1)].map(|rank| world.starter::<u8>(rank).map(parts));
    let (one, two) = (one?, two?);
    Ok((two[0].wrapping_sub(one[0]), two[1].wrapping_sub(one[1])))
}

/// The parts of the pointer to the same place on another rank.
#[inline]
fn along(first: (u64, u64), step: (u64, u64), rank: Rank) -> [u64; 2] {
    let rank = u64::from(rank);
    [first.0.wrapping_add(step.0.wrapping_mul(rank)), first.1.wrapping_add(step.1.wrapping_mul(rank))]
}

/// Where the block of each rank is, from each. Collective.
fn exchange(world: &World, own: [u64; 2]) -> Result<Places> {
    let ranks = world.ranks() as usize;
    let notes = share(world, Wish::new("a table of blocks", ()), || {
        let block = world.malloc(size_of::<[u64; 2]>() * ranks, 0)?;
        // Who cannot say where its block is leaves this there.
        world.put_slice(GlobalPtr::from_address(block), &vec![[0u64; 2]; ranks])?;
        Ok(Notes(world, block))
    })?;
    let table = GlobalPtr::<[u64; 2]>::from_address(notes.1);
    // A rank that cannot keep the table says nothing: then all get an error, and nobody has an array that another one has not.
    let booked = world.book(Purpose::Directory, size_of::<[u64; 2]>() as u64 * ranks as u64);
    let said = match &booked {
        Ok(_) => world.put(table + world.rank() as usize, own),
        Err(_) => Ok(()),
    };
    world.sync()?;
    let parts = world.get_vec(table, ranks);
    world.sync()?;
    if world.rank() == 0 {
        notes.discard()?;
    }
    let booked = booked?;
    said?;
    let parts = parts?;
    if let Some(rank) = parts.iter().position(|part| *part == [0; 2]) {
        let why = format!("rank {rank} could not say where its block of an array is; its own error says why");
        return world.note(Err(Error::Refused(why)));
    }
    Ok(Places::Apart { parts: parts.into(), _booked: booked })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiki_sim::{Cluster, Network};

    /// Takes all memory of a rank but so many bytes.
    fn leave_only(world: &World, bytes: u64) -> Result<Vec<Booking>> {
        let mut hog = vec![world.book(Purpose::Comm, bytes)?];
        for bytes in (0..24).rev().map(|power| 1 << power) {
            while let Ok(booked) = world.memory.book(Purpose::Comm, bytes) {
                hog.push(booked);
            }
        }
        drop(hog.swap_remove(0));
        Ok(hog)
    }

    /// Otherwise others would use memory of a rank that has given it back.
    #[test]
    fn whoever_has_no_memory_for_its_array_or_the_table_all_have_an_array_or_none() {
        let outcome = Cluster::new(3, Network::torus(&[3])).budget_bytes(4 << 20).run(|attachment| {
            let world = World::attach(attachment)?;
            // Blocks are at different places.
            let other = (world.rank() == 1).then(|| world.alloc::<u64>(100)).transpose()?;
            drop(world.alloc::<u64>(1000)?);
            world.shared_array::<u64>(10)?.free(&world)?;
            let mut made = Vec::new();
            for bytes in (8..800).step_by(8) {
                let hog = (world.rank() == 0).then(|| leave_only(&world, bytes)).transpose()?;
                world.sync()?;
                let array = world.shared_array::<u64>(10);
                world.sync()?;
                made.push(array.map(drop));
                drop(hog);
            }
            drop(other);
            world.finalize().map(|()| made)
        });
        let made = outcome.expect("it runs").values().expect("nobody panicked");
        let made: Vec<Vec<_>> = made.into_iter().map(|made| made.expect("it ends well")).collect();
        let are_made = |rank: usize| made[rank].iter().map(Result::is_ok).collect::<Vec<_>>();
        assert!(are_made(0) == are_made(1) && are_made(0) == are_made(2), "{made:?}");
        let unsaid =
            |end: &Result<()>| matches!(end, Err(Error::Refused(why)) if why.contains("could not say"));
        assert!(made[1].iter().any(unsaid), "the table has a turn: {made:?}");
        assert!(are_made(0).contains(&true), "{made:?}");
    }
}
