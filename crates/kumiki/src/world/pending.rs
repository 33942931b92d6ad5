//! Puts and gets between memory of the program and any address that are begun and not waited for; and futures.

use super::World;
use crate::{AtomicOp, AtomicWord, Completion, GlobalPtr, Handle, Pending, Pod, Result, Scope};

impl World {
    /// Begins to write elements, from memory that is handed over meanwhile and need not be registered. [`Pending::complete`] waits until they are
    /// at their places and gives it back; awaiting it does so too, in any executor. Neither [`complete_all`](Self::complete_all)
    /// nor the [`Order`](crate::Order) of other operations knows of it.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// let world = kumiki::World::init()?;
    /// let table = world.alloc::<u64>(100)?;
    /// let put = world.put_vec(table.ptr(), vec![7; 100])?;
    /// // … something else …
    /// let memory: Vec<u64> = put.complete()?;
    /// let read = world.get_into(table.ptr() + 50, vec![0; 50])?;
    /// assert_eq!(read.complete()?, [7; 50]);
    /// # drop((memory, table));
    /// # world.finalize()
    /// # }
    /// ```
    pub fn put_vec<T: Pod>(&self, to: GlobalPtr<T>, values: impl Into<Vec<T>>) -> Result<Pending<'_, T>> {
        self.memory.put_vec(to, values)
    }

    /// Begins to write elements as [`put_vec`](Self::put_vec) does, and to change a word of the same rank when they are there:
    /// [`put_signal`](Self::put_signal) without waiting. Between nodes it is one message.
    ///
    /// ```
    /// use kumiki::{prelude::*, AtomicOp};
    ///
    /// # fn main() -> kumiki::Result<()> {
    /// let world = World::init()?;
    /// let (inbox, filled) = (world.shared_array::<f32>(100)?, world.shared_array::<u64>(1)?);
    /// let (me, next) = (world.rank(), (world.rank() + 1) % world.ranks());
    /// let put = world.put_vec_signal(inbox.at(next, 0), vec![2.5; 100], filled.at(next, 0), AtomicOp::Add(1))?;
    /// // … something else …
    /// world.wait_until(filled.at(me, 0), Is::AtLeast(1), Wait::FOREVER)?;
    /// assert_eq!(inbox.get(99)?, 2.5);
    /// assert_eq!(put.complete()?.len(), 100);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn put_vec_signal<T: Pod, W: AtomicWord>(
        &self,
        to: GlobalPtr<T>,
        values: impl Into<Vec<T>>,
        word: GlobalPtr<W>,
        signal: AtomicOp<W>,
    ) -> Result<Pending<'_, T>> {
        self.memory.put_vec_signal(to, values, word, signal)
    }

    /// Begins to read as many elements as a vector has into it; as [`put_vec`](Self::put_vec).
    pub fn get_into<T: Pod>(&self, from: GlobalPtr<T>, into: impl Into<Vec<T>>) -> Result<Pending<'_, T>> {
        self.memory.get_into(from, into)
    }

    /// Runs `work`, which may begin puts and gets of memory that it borrows, and returns when all of them have ended, also if it panics. The
    /// first failure is told, if `work` has not told it.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// let world = kumiki::World::init()?;
    /// let table = world.alloc::<u64>(100)?;
    /// let (mut low, high) = ([0; 50], [9; 50]);
    /// world.scope(|scope| {
    ///     scope.put(table.ptr() + 50, &high)?;
    ///     scope.get(table.ptr(), &mut low)
    /// })?;
    /// assert_eq!((low, world.get(table.ptr() + 99)?), ([0; 50], 9));
    /// # drop(table);
    /// # world.finalize()
    /// # }
    /// ```
    ///
    /// What is borrowed must be there until the scope ends:
    ///
    /// ```compile_fail,E0597
    /// # let world = kumiki::World::init().unwrap();
    /// # let table = world.alloc::<u64>(100).unwrap();
    /// world.scope(|scope| {
    ///     let short = [0; 50];
    ///     scope.put(table.ptr(), &short)
    /// }).unwrap();
    /// ```
    ///
    /// and what is being written is not read meanwhile:
    ///
    /// ```compile_fail,E0502
    /// # let world = kumiki::World::init().unwrap();
    /// # let table = world.alloc::<u64>(100).unwrap();
    /// let mut into = [0; 50];
    /// world.scope(|scope| {
    ///     scope.get(table.ptr(), &mut into)?;
    ///     println!("{}", into[0]);
    ///     Ok(())
    /// }).unwrap();
    /// ```
    pub fn scope<'env, R>(
        &self,
        work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.memory.scope(work)
    }

    /// A future of what [`complete`](Self::complete) waits for, usable in any executor: a thread that polls, or the service thread, wakes it.
    pub fn completion(&self, handle: Handle) -> Completion<'_> {
        self.memory.completion(handle)
    }
}
