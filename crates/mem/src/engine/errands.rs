//! Errands: atomics on private memory of this rank that neighbours have left in its control block. How they leave them, and
//! wait, is in `drive/errand.rs`.

use crate::engine::{serve, Feed};
use crate::node::address::{GlobalAddress, Registration};
use crate::node::atomic::AtomicCall;
use kumiki_net::shm::errand::ERRANDS;

impl Feed<'_> {
    /// Does the errands that neighbours have left. Gives their number.
    #[cold]
    pub(crate) fn run_errands(&mut self) -> usize {
        let mut done = 0;
        // As many as there are places, so that whoever posts again and again does not keep this thread.
        while done < ERRANDS {
            let Some(taken) = self.node.control().errands.take() else { break };
            done += 1;
            // Others may have repaired the word since the rank that wanted it changed was lost. This is a look and then a change:
            // a rank that is lost between the two has its errand done all the same.
            if !self.node.is_alive(taken.neighbour) {
                taken.drop_it();
                continue;
            }
            let [target, what, first, second] = taken.request;
            let (registration, code) = (Registration::of_generation((what >> 8) as u16), what as u8);
            let target = GlobalAddress::from_bits(target);
            let call = AtomicCall { target, registration, code, first, second };
            taken.finish(serve::perform_owned(self.node, &call).ok());
        }
        done
    }
}
