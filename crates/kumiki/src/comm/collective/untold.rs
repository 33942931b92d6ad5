//! What ranks on other nodes must hear and could not be told yet: that this one has left, and why.
//!
//! Whoever unwinds sends nothing, for it may be past that; and a budget may be spent. If the process goes on, it tells them at its next
//! meeting, collective or look at what has come.

use super::lanes::Broken;
use crate::{AtomicOp, Error, GlobalPtr, Rank, World};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A rank of another node, and the word in which it is told why something is broken. Beside that there is a word for whoever tells it.
#[derive(Clone, Copy, Debug)]
pub(in crate::comm) struct Untold {
    pub(in crate::comm) rank: Rank,
    pub(in crate::comm) word: GlobalPtr<u64>,
    pub(in crate::comm) scratch: GlobalPtr<u64>,
    pub(in crate::comm) broken: Broken,
}

/// All that a process has to tell.
#[derive(Default)]
pub(super) struct UntoldList {
    is_any: AtomicBool,
    list: Mutex<Vec<Untold>>,
}

impl World {
    /// Tells ranks on other nodes that something is broken, now or when it can. One that is lost, or whose word is gone, needs not know.
    pub(in crate::comm) fn tell(&self, untold: Vec<Untold>) {
        if std::thread::panicking() {
            return self.keep_untold(untold);
        }
        // All at once: one that is stopped must not keep the others from knowing.
        let told: Vec<_> = untold.into_iter().map(|untold| (untold, self.start_telling(untold))).collect();
        let left = told.into_iter().filter_map(|(untold, told)| {
            let failed = told.and_then(|pending| pending.settle()).err()?;
            let is_short = |error: &Error| matches!(error, Error::OutOfMemory { .. });
            // An atomic takes no memory there.
            let again = || self.memory.compare_swap(untold.word, 0, untold.broken.word()).err();
            let failed = if is_short(&failed) { again()? } else { failed };
            let needs_not = |error: &Error| {
                matches!(error, Error::PeerLost { .. } | Error::Bounds { .. } | Error::Closed(_))
            };
            (!needs_not(&failed)).then_some(untold)
        });
        self.keep_untold(left.collect());
    }

    fn start_telling(&self, untold: Untold) -> crate::Result<crate::Pending<'_, u64>> {
        self.local().check_alive(untold.rank)?;
        let signal = AtomicOp::CompareSwap(0, untold.broken.word());
        self.put_vec_signal(untold.scratch, vec![0], untold.word, signal)
    }

    fn keep_untold(&self, untold: Vec<Untold>) {
        if untold.is_empty() {
            return;
        }
        let UntoldList { is_any, list } = &self.groups().untold;
        list.lock().unwrap_or_else(PoisonError::into_inner).extend(untold);
        is_any.store(true, Ordering::Release);
    }

    /// Tells what could not be told before.
    #[inline]
    pub(crate) fn tell_later(&self) {
        if self.groups().untold.is_any.load(Ordering::Relaxed) {
            self.tell_now();
        }
    }

    #[cold]
    fn tell_now(&self) {
        let UntoldList { is_any, list } = &self.groups().untold;
        if std::thread::panicking() || !is_any.swap(false, Ordering::AcqRel) {
            return;
        }
        let untold = std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner));
        // Of a closed world, or in a forked child, nobody is told anything.
        if self.local().check_alive(self.rank()).is_ok() {
            self.tell(untold);
        }
    }
}
