//! Changing a word that others change at the same time.

use super::World;
use crate::{AtomicOp, AtomicWord, GlobalAddress, GlobalPtr, Handle, Order, Result};

impl World {
    /// Adds to a word, wrapping around; gives back the old value.
    #[inline]
    pub fn fetch_add<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.memory.fetch_add(target, value)
    }

    /// Stores `new` if the word holds `old`; gives back what it held.
    #[inline]
    pub fn compare_swap<W: AtomicWord>(&self, target: GlobalPtr<W>, old: W, new: W) -> Result<W> {
        self.memory.compare_swap(target, old, new)
    }

    /// Stores a value; gives back the old one.
    #[inline]
    pub fn swap<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.memory.swap(target, value)
    }

    /// Keeps the smaller of a word and a value; gives back the old value.
    #[inline]
    pub fn fetch_min<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.memory.fetch_min(target, value)
    }

    /// Keeps the larger of a word and a value; gives back the old value.
    #[inline]
    pub fn fetch_max<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.memory.fetch_max(target, value)
    }

    /// Exclusive or; gives back the old value.
    #[inline]
    pub fn fetch_xor<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.memory.fetch_xor(target, value)
    }

    /// Or; gives back the old value.
    #[inline]
    pub fn fetch_or<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.memory.fetch_or(target, value)
    }

    /// And; gives back the old value.
    #[inline]
    pub fn fetch_and<W: AtomicWord>(&self, target: GlobalPtr<W>, value: W) -> Result<W> {
        self.memory.fetch_and(target, value)
    }

    /// Starts an atomic operation on the word at `target`, which must be aligned where it lies, and puts its old value at
    /// `dst`. It is done when its handle is [complete](Self::complete).
    #[inline]
    pub fn atomic<W: AtomicWord>(
        &self,
        dst: GlobalAddress,
        target: GlobalAddress,
        operation: AtomicOp<W>,
        order: Order,
    ) -> Result<Handle> {
        self.memory.atomic(dst, target, operation, order)
    }
}
