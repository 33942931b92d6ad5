//! Waiting for a word that another rank writes.

use super::World;
use crate::{AtomicWord, GlobalPtr, Rank, Result, Until, Wait};

impl World {
    /// Waits until a word of this rank's own memory (starter memory, a region, a shared array, registered memory, what was allocated
    /// here) is what it shall be, and gives it. The thread sleeps when it does not come soon; puts, atomics and copies of any
    /// rank wake it, whether they come from this node or from another one. What was written before the word by the same rank is seen
    /// then.
    ///
    /// The wait ends with [`Timeout`](crate::Error::Timeout) if it has a [limit](Wait::at_most), and with
    /// [`PeerLost`](crate::Error::PeerLost) if a rank is lost: any, or the one that the word must come [from](Wait::from).
    ///
    /// What is written through a [`View`](crate::View), the cells of registered memory or the methods of a region wakes nobody. It is seen
    /// within 50 ms all the same, or at once if the writer calls [`wake`](Self::wake).
    ///
    /// ```
    /// use kumiki::prelude::*;
    ///
    /// # fn main() -> kumiki::Result<()> {
    /// let world = World::init()?;
    /// let arrivals = world.shared_array::<u64>(1)?;
    /// let next = (world.rank() + 1) % world.ranks();
    /// world.fetch_add(arrivals.at(next, 0), 5)?;
    /// let mine = arrivals.at(world.rank(), 0);
    /// assert_eq!(world.wait_until(mine, Is::AtLeast(5), Wait::FOREVER)?, 5);
    /// // A closure says what will do, too.
    /// world.wait_until(mine, |value| value % 2 == 1, Wait::FOREVER.from(0))?;
    /// # world.finalize()
    /// # }
    /// ```
    pub fn wait_until<W: AtomicWord>(
        &self,
        word: GlobalPtr<W>,
        until: impl Until<W>,
        wait: Wait,
    ) -> Result<W> {
        self.memory.wait_until(word, until, wait)
    }

    /// Waits until `look` finds something, or fails: for whoever waits for one of several words, or for a word of a neighbour that
    /// [wakes](Self::wake) this rank. It looks at once, and whenever something was written to memory of this rank that would wake
    /// [`wait_until`](Self::wait_until). The look should be short, and must not wait.
    ///
    /// ```
    /// use kumiki::prelude::*;
    ///
    /// # fn main() -> kumiki::Result<()> {
    /// let world = World::init()?;
    /// let marks = world.shared_array::<u64>(2)?;
    /// let next = (world.rank() + 1) % world.ranks();
    /// world.put(marks.at(next, 1), 7)?;
    /// let look = || {
    ///     let found = (0..2).map(|index| marks.get(index)).find(|mark| *mark != Ok(0));
    ///     found.map(|mark| mark.map(|mark| mark + 1))
    /// };
    /// assert_eq!(world.wait_for(look, Wait::FOREVER)?, 8);
    /// # world.finalize()
    /// # }
    /// ```
    pub fn wait_for<T>(&self, look: impl Fn() -> Option<Result<T>>, wait: Wait) -> Result<T> {
        self.memory.wait_for(look, wait)
    }

    /// Wakes the threads of a rank of this node that wait for a word: for whoever writes to its memory without a put, an atomic or a
    /// copy. Nothing happens if none waits, or if the rank is on another node.
    pub fn wake(&self, rank: Rank) -> Result<()> {
        self.memory.wake(rank)
    }
}
