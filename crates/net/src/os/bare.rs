//! Bare memory that processes could share: what the machine itself does, for benchmarks to measure against.

use super::memory::{self, Mapping};
use crate::{Error, Result};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;

/// A shared mapping of words, all of them committed. It has no name and is gone when dropped.
#[derive(Debug)]
pub struct SharedWords {
    mapping: Mapping,
}

impl SharedWords {
    /// Maps `count` words, all zero.
    pub fn new(count: usize) -> Result<SharedWords> {
        let bytes = (count.max(1) as u64).checked_mul(8).ok_or(Error::Misuse("too many words".into()))?;
        let file = memory::create_sealed(c"kumiki-bare", bytes)?;
        memory::commit(file.as_fd(), 0, bytes)?;
        Ok(SharedWords { mapping: Mapping::new(file.as_fd(), bytes)? })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        let start = self.mapping.start().cast::<AtomicU64>();
        // SAFETY: the mapping is aligned to a page, `bytes` long, committed, and lives as long as `self`; its words are
        // only reached as atomics, and by `copy_from`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.mapping.bytes() / 8) }
    }

    /// A plain `memcpy` of the first `bytes` of another mapping into this one.
    ///
    /// # Panics
    /// If one of them is shorter.
    pub fn copy_from(&mut self, other: &SharedWords, bytes: usize) {
        assert!(bytes <= self.mapping.bytes() && bytes <= other.mapping.bytes(), "{bytes} bytes do not fit");
        let (to, from) = (self.mapping.start(), other.mapping.start());
        // SAFETY: both ranges are inside their mappings, which are different ones; nobody else has this one, and
        // the other is only read.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_is_copied_arrives() {
        let (from, mut to) = (SharedWords::new(1000).unwrap(), SharedWords::new(1000).unwrap());
        from.words()[999].store(7, Ordering::Relaxed);
        to.copy_from(&from, 8000);
        assert_eq!(to.words()[999].load(Ordering::Relaxed), 7);
        assert_eq!(to.words()[0].load(Ordering::Relaxed), 0);
    }
}
