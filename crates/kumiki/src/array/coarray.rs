//! Coarrays: a local array on every image, which every image reads and writes by section; events, locks and synchronisation of images.

use super::club::Club;
use super::schedule::Layout;
use super::space::{misuse, Mapping, Nodes, Section, Sub};
use crate::comm::Messages;
use crate::{AtomicWord, Error, GlobalPtr, Is, Order, Pod, Rank, Region, Result, View, Wait, World};
use std::sync::Arc;
use std::time::Duration;

/// The messages of images that wait for each other: no program has this number.
const CONTEXT: u32 = 0x8000_0006;
/// Sections with rows at least so long are copied between images row by row, without a copy in between.
const LONG_ROW_BYTES: usize = 4096;

/// An array of the same sizes on every image, which is a rank of some nodes: all of them read and write all of it, by element and by section. Images count from 0, in the order of the
/// nodes.
///
/// What is put is there when the call returns. What two images do to one element without waiting for each other is in no order.
///
/// ```
/// use kumiki::array::{Coarray, Sub};
///
/// # fn main() -> kumiki::Result<()> {
/// let world = kumiki::World::init()?;
/// let field = Coarray::<f64>::new(&world, &[10, 20])?;
/// let next = (field.this_image() + 1) % field.images();
/// // Every second element of column 3 of the next image.
/// field.put_section(next, &[Sub::range(0, 5, 2), Sub::Index(3)], &[1.5; 5])?;
/// field.sync_all()?;
/// assert_eq!(field.get(field.this_image(), &[8, 3])?, 1.5);
/// field.free()?;
/// # world.finalize()
/// # }
/// ```
pub struct Coarray<'w, T: Pod> {
    club: Arc<Club<'w>>,
    sizes: Vec<u64>,
    own: Region<T>,
    /// Where the array of each image is.
    images: Vec<GlobalPtr<T>>,
}

impl<T: Pod> std::fmt::Debug for Coarray<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Coarray<{}>({:?} on {} images)", std::any::type_name::<T>(), self.sizes, self.images.len())
    }
}

impl<'w, T: Pod> Coarray<'w, T> {
    /// A coarray on all ranks; all elements are zero. Collective.
    pub fn new(world: &'w World, sizes: &[u64]) -> Result<Coarray<'w, T>> {
        Coarray::on(world, &Nodes::line(world.ranks()), sizes)
    }

    /// A coarray on some nodes; all elements are zero. Collective among them.
    pub fn on(world: &'w World, nodes: &Nodes, sizes: &[u64]) -> Result<Coarray<'w, T>> {
        let club = Club::new(world, nodes);
        let group = club.group()?;
        let own = world.note(Mapping::everywhere(nodes, sizes)).and_then(|mapping| {
            let count =
                usize::try_from(mapping.len()).map_err(|_| misuse("a coarray with too many elements"))?;
            world.alloc::<T>(count.max(1))
        });
        let pointer = own.as_ref().map_or(GlobalPtr::NULL, |own| own.ptr());
        let mut images = vec![GlobalPtr::NULL; group.ranks() as usize];
        group.allgather(&[pointer], &mut images)?;
        let own = own?;
        if let Some(without) = images.iter().position(|image| image.is_null()) {
            let why = format!("image {without} could not have its part of a coarray; its own error says why");
            return world.note(Err(Error::Refused(why)));
        }
        Ok(Coarray { club, sizes: sizes.to_vec(), own, images })
    }

    /// How many images there are.
    pub fn images(&self) -> u32 {
        self.images.len() as u32
    }

    /// The number of this one.
    pub fn this_image(&self) -> u32 {
        self.club.nodes.position(self.world().rank()).unwrap_or(0)
    }

    /// Its sizes on each image.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The rank that is an image.
    pub fn rank_of(&self, image: u32) -> Result<Rank> {
        let rank = self.club.nodes.ranks().nth(image as usize);
        rank.ok_or_else(|| misuse(format!("image {image} of {}", self.images.len())))
    }

    fn world(&self) -> &'w World {
        self.club.world
    }

    fn image(&self, image: u32) -> Result<GlobalPtr<T>> {
        let pointer = self.images.get(image as usize).copied();
        pointer.ok_or_else(|| misuse(format!("image {image} of {}", self.images.len())))
    }

    /// A pointer to an element, for atomic operations and everything else that a world does.
    pub fn at(&self, image: u32, index: &[i64]) -> Result<GlobalPtr<T>> {
        let subscripts: Vec<Sub> = index.iter().copied().map(Sub::Index).collect();
        let layout = self.layout(&subscripts)?;
        Ok(self.world().note(self.image(image))? + layout.start)
    }

    /// Where a section lies in an image.
    fn layout(&self, subscripts: &[Sub]) -> Result<Layout> {
        let section = self.world().note(Section::new(&self.sizes, subscripts))?;
        let (mut start, mut stride, mut loops) = (0i64, 1i64, Vec::new());
        for (span, size) in section.spans().iter().zip(&self.sizes).rev() {
            start += span.base * stride;
            if !span.is_index {
                loops.push((span.count as usize, (span.step * stride) as isize));
            }
            stride *= *size as i64;
        }
        loops.reverse();
        Ok(Layout { start: start as usize, loops })
    }

    /// The elements of this image, in place.
    pub fn own(&self) -> Result<View<'_, T>> {
        self.world().view_of(&self.own)
    }

    /// Reads an element.
    pub fn get(&self, image: u32, index: &[i64]) -> Result<T> {
        self.world().get(self.at(image, index)?)
    }

    /// Writes an element.
    pub fn put(&self, image: u32, index: &[i64], value: T) -> Result<()> {
        self.world().put(self.at(image, index)?, value)
    }

    /// Reads the elements of a section, in C's order.
    pub fn get_section(&self, image: u32, subscripts: &[Sub]) -> Result<Vec<T>> {
        let layout = self.layout(subscripts)?;
        let mut values = vec![T::zeroed(); layout.len()];
        let from = self.world().note(self.image(image))? + layout.start;
        let dense = crate::Shape::contiguous(values.len())?;
        self.world().get_shape(from, &layout.shape()?, &mut values, &dense)?;
        Ok(values)
    }

    /// Writes the elements of a section, given in C's order.
    pub fn put_section(&self, image: u32, subscripts: &[Sub], values: &[T]) -> Result<()> {
        let layout = self.layout(subscripts)?;
        let to = self.world().note(self.image(image))? + layout.start;
        let dense = crate::Shape::contiguous(values.len())?;
        self.world().put_shape(to, &layout.shape()?, values, &dense)
    }

    /// Copies a section of one image of a coarray to one of another, of this or any other coarray on ranks of the same world: this image may be neither.
    pub fn copy(
        &self,
        (to_image, left): (u32, &[Sub]),
        from: &Coarray<'w, T>,
        (from_image, right): (u32, &[Sub]),
    ) -> Result<()> {
        let world = self.world();
        let shapes =
            [(&self.sizes, left), (&from.sizes, right)].map(|(sizes, subs)| Section::new(sizes, subs));
        let [wanted, given] = shapes.map(|section| world.note(section).map(|section| section.shape()));
        let (wanted, given) = (wanted?, given?);
        if wanted != given {
            return world
                .note(Err(misuse(format!("a section of shape {given:?} to one of shape {wanted:?}"))));
        }
        let (target, source) = (self.layout(left)?, from.layout(right)?);
        if target.is_empty() {
            return Ok(());
        }
        let (Some((count, 1)), Some((_, 1))) = (target.loops.last(), source.loops.last()) else {
            return self.put_section(to_image, left, &from.get_section(from_image, right)?);
        };
        let bytes = count * size_of::<T>();
        if bytes < LONG_ROW_BYTES {
            return self.put_section(to_image, left, &from.get_section(from_image, right)?);
        }
        let (to, from) = (world.note(self.image(to_image))?, world.note(from.image(from_image))?);
        let mut last;
        let mut at = vec![0usize; target.loops.len() - 1];
        'rows: loop {
            let place = |layout: &Layout| {
                let steps = at.iter().zip(&layout.loops).map(|(step, (_, stride))| *step as isize * stride);
                layout.start.wrapping_add_signed(steps.sum())
            };
            let (to, from) = (to + place(&target), from + place(&source));
            last = world.copy(to.address(), from.address(), bytes, Order::None)?;
            for dimension in (0..at.len()).rev() {
                at[dimension] += 1;
                if at[dimension] < target.loops[dimension].0 {
                    continue 'rows;
                }
                at[dimension] = 0;
            }
            break;
        }
        world.complete(last)
    }

    /// Waits until all images have come here: what any of them has put before is there. Collective.
    pub fn sync_all(&self) -> Result<()> {
        self.club.group()?.barrier()
    }

    /// Waits until all images have come here, and gives the memory back. An image that just drops it gives its own back: who reads or writes it afterwards gets
    /// [`Bounds`](Error::Bounds). Collective.
    pub fn free(self) -> Result<()> {
        self.sync_all()
    }

    fn messages(&self) -> Messages<'w> {
        self.world().messages().context(CONTEXT)
    }

    /// Waits until each of some images has come to a call that names this one: what they have put before is there.
    pub fn sync_images(&self, images: &[u32]) -> Result<()> {
        let (world, messages) = (self.world(), self.messages());
        let ranks: Result<Vec<Rank>> = images.iter().map(|image| self.rank_of(*image)).collect();
        let ranks = world.note(ranks)?;
        ranks.iter().try_for_each(|rank| messages.send::<u8>(*rank, 0, &[]))?;
        ranks.iter().try_for_each(|rank| messages.receive::<u8>(*rank, 0).map(drop))
    }
}

impl<W: AtomicWord> Coarray<'_, W> {
    /// Reads an element that others may be writing by atomic operations.
    pub fn atomic_ref(&self, image: u32, index: &[i64]) -> Result<W> {
        self.world().fetch_add(self.at(image, index)?, W::zeroed())
    }

    /// Writes an element that others may be reading by atomic operations.
    pub fn atomic_define(&self, image: u32, index: &[i64], value: W) -> Result<()> {
        self.world().swap(self.at(image, index)?, value).map(drop)
    }

    /// Adds to an element, and gives what it was.
    pub fn fetch_add(&self, image: u32, index: &[i64], value: W) -> Result<W> {
        self.world().fetch_add(self.at(image, index)?, value)
    }

    /// Writes an element if it has a value, and gives what it was.
    pub fn compare_swap(&self, image: u32, index: &[i64], old: W, new: W) -> Result<W> {
        self.world().compare_swap(self.at(image, index)?, old, new)
    }
}

impl Coarray<'_, u64> {
    /// Posts an event: an element of a coarray that counts. What this image has put before is seen by whoever has [waited](Self::wait_event) for it.
    pub fn post(&self, image: u32, index: &[i64]) -> Result<()> {
        self.world().fetch_add(self.at(image, index)?, 1).map(drop)
    }

    /// Waits until an event of this image was posted so many times, and takes that off the count.
    pub fn wait_event(&self, index: &[i64], count: u64) -> Result<()> {
        let word = self.at(self.this_image(), index)?;
        self.world().wait_until(word, Is::AtLeast(count), Wait::FOREVER)?;
        self.world().fetch_add(word, count.wrapping_neg()).map(drop)
    }

    /// How often an event of this image was posted and not waited for.
    pub fn event_count(&self, index: &[i64]) -> Result<u64> {
        self.atomic_ref(self.this_image(), index)
    }

    /// Takes a lock: an element that is 0 when nobody has it. An image that has it already gets an error, and so does one that waits for an image that is lost.
    pub fn lock(&self, image: u32, index: &[i64]) -> Result<()> {
        let mut pause = Duration::from_micros(1);
        while !self.try_lock(image, index)? {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
            self.world().progress()?;
            self.world().look_after_messages();
        }
        Ok(())
    }

    /// Takes a lock if nobody has it; whether it did.
    pub fn try_lock(&self, image: u32, index: &[i64]) -> Result<bool> {
        let (world, word) = (self.world(), self.at(image, index)?);
        let mark = u64::from(world.rank()) + 1;
        match world.compare_swap(word, 0, mark)? {
            0 => Ok(true),
            own if own == mark => world.note(Err(misuse("a lock that this image has already"))),
            holder => {
                let rank = u32::try_from(holder - 1).unwrap_or(u32::MAX);
                world.note(world.local().check_alive(rank))?;
                Ok(false)
            }
        }
    }

    /// Gives a lock back.
    pub fn unlock(&self, image: u32, index: &[i64]) -> Result<()> {
        let (world, word) = (self.world(), self.at(image, index)?);
        let mark = u64::from(world.rank()) + 1;
        match world.compare_swap(word, mark, 0)? {
            own if own == mark => Ok(()),
            _ => world.note(Err(misuse("unlock: this image does not have the lock"))),
        }
    }
}
