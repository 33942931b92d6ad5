//! Which algorithm does a collective.

use super::Group;

/// How a collective is done. Not every one will do for every collective, on every group; [`Group::force`] says which to prefer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Algorithm {
    /// The members, all of one node, show each other what they have: one copy in and one out.
    Flat,
    /// Along a binomial tree; a few bytes go from the root straight to a few.
    Tree,
    /// Each step reaches twice as far: recursive doubling, dissemination, Bruck.
    Doubling,
    /// Each step halves what a member cares for, and then doubles it again: Rabenseifner.
    Halving,
    /// From each member to the next; what need not be combined goes straight to all, if they are few.
    Ring,
    /// Straight between the memories of members: each reads what it needs of the others, or writes what they need.
    Direct,
    /// Flat on each node, and among the first members of the nodes.
    Levels,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::Flat,
        Algorithm::Tree,
        Algorithm::Doubling,
        Algorithm::Halving,
        Algorithm::Ring,
        Algorithm::Direct,
        Algorithm::Levels,
    ];

    /// Its name, in small letters.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Flat => "flat",
            Algorithm::Tree => "tree",
            Algorithm::Doubling => "doubling",
            Algorithm::Halving => "halving",
            Algorithm::Ring => "ring",
            Algorithm::Direct => "direct",
            Algorithm::Levels => "levels",
        }
    }
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Group<'_> {
    /// The algorithm of a call: the forced one if it will do, otherwise the first of those that the group can do. The last will always
    /// do. `element` is the size of what must not be parted.
    pub(super) fn choose(&self, candidates: &[Algorithm], element: usize) -> Algorithm {
        let last = *candidates.last().expect("there is one that always does");
        let can = |algorithm: &Algorithm| self.can(*algorithm, element);
        let forced = self.forced().filter(|forced| candidates.contains(forced) && can(forced));
        forced.or_else(|| candidates.iter().copied().find(can)).unwrap_or(last)
    }

    /// Whether nobody says which algorithm to use.
    pub(super) fn forced_none(&self) -> bool {
        self.forced().is_none()
    }

    /// What is to be used, if somebody says so.
    #[inline]
    pub(super) fn forced(&self) -> Option<Algorithm> {
        let number = usize::from(self.forced.load(std::sync::atomic::Ordering::Relaxed));
        number.checked_sub(1).and_then(|index| Algorithm::ALL.get(index).copied())
    }

    /// Whether this group can do it so, with elements of this size.
    pub(super) fn can(&self, algorithm: Algorithm, element: usize) -> bool {
        let shows = self.layout.half >= element.max(8) as u64;
        match algorithm {
            Algorithm::Flat => self.near.count == self.count && shows,
            Algorithm::Levels => self.leaders.is_some() && shows,
            _ => true,
        }
    }
}
