//! Which connection questions to a rank go on.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// From the number of a rank to the place of its connection in the table of the transport.
pub(super) type Routes = HashMap<u32, u32, RankHash>;

/// Spreads ranks over the table of routes. Ranks come from our own world table, so nobody can choose them to collide.
#[derive(Clone, Copy, Default)]
pub(super) struct RankHash;

pub(super) struct RankHasher(u64);

impl BuildHasher for RankHash {
    type Hasher = RankHasher;

    fn build_hasher(&self) -> RankHasher {
        RankHasher(0)
    }
}

impl Hasher for RankHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte as u32));
    }

    fn write_u32(&mut self, rank: u32) {
        // Fibonacci hashing: the table looks at both ends of the word.
        self.0 = (self.0 ^ rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
