//! The end of a vector that lies on this node.

use super::{Kind, WHOLE};
use crate::Result;
use kumiki_mem::{Local, Span};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The end of a vector on this node, kept for the next element. It holds only while the header still names the same body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail<'a> {
    body_word: &'a AtomicU64,
    size: &'a AtomicU64,
    capacity: &'a AtomicU64,
    state: &'a AtomicU64,
    body: Span<'a>,
    rank: u32,
}

impl<'a> Tail<'a> {
    pub(super) fn new(header: Span<'a>, body: Span<'a>, rank: u32) -> Result<Tail<'a>> {
        let (size_at, capacity_at, state_at) = Kind::Vector.places();
        Ok(Tail {
            body_word: header.word(0)?,
            size: header.word(size_at)?,
            capacity: header.word(capacity_at)?,
            state: header.word(state_at)?,
            body,
            rank,
        })
    }

    /// The size, if the vector is what it was.
    #[inline]
    fn size(&self, local: Local<'_>) -> Option<u64> {
        let same = self.body_word.load(Acquire) == self.body.address().bits()
            && self.capacity.load(Acquire) == self.body.len()
            && self.state.load(Acquire) == WHOLE;
        let size = self.size.load(Acquire);
        (same && size <= self.body.len() && local.can_touch(self.rank)).then_some(size)
    }

    /// Adds bytes at the end; false if that is not so simple.
    #[inline]
    pub(crate) fn push(&self, local: Local<'_>, bytes: &[u8]) -> bool {
        let Some(size) = self.size(local) else { return false };
        // What does not fit is refused by the span, and nothing is written.
        if self.body.write(size, bytes).is_err() {
            return false;
        }
        self.size.store(size + bytes.len() as u64, Release);
        true
    }

    /// Reads bytes; false if that is not so simple.
    #[inline]
    pub(crate) fn read(&self, local: Local<'_>, at: u64, into: &mut [u8]) -> bool {
        let Some(size) = self.size(local) else { return false };
        at.checked_add(into.len() as u64).is_some_and(|end| end <= size) && self.body.read(at, into).is_ok()
    }
}
