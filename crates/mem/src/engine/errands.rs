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

#[cfg(test)]
mod tests {
    use crate::engine::stage::Stage;
    use kumiki_net::shm::errand::{Progress, ERRANDS};
    use kumiki_net::shm::world::{Cause, Status};
    use kumiki_net::Rank;

    /// What a neighbour writes down to have a number added to a word of rank 0, or of another rank.
    fn request(stage: &Stage, rank: u32, number: u64) -> [u64; 4] {
        let call = stage.adding(rank, 8, number);
        [call.target.bits(), call.code.into(), call.first, call.second]
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn an_errand_is_done_and_gives_back_the_old_value() {
        let mut stage = Stage::new(3);
        let request = request(&stage, 0, 5);
        for old in [0, 5] {
            assert_eq!(stage.feed(0).run_errands(), 0);
            let Stage { nodes, engines } = &mut stage;
            let posted = nodes[0].control().errands.post(Rank(1), request).expect("a free place");
            assert_eq!(engines[0].feed(&nodes[0]).run_errands(), 1);
            assert_eq!(posted.progress(), Progress::Done(old));
        }
        assert_eq!(stage.word(0, 8), 10);
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn an_errand_that_is_not_for_this_rank_is_refused() {
        let stage = Stage::new(3);
        let [mut wrong, elsewhere] = [0, 2].map(|rank| request(&stage, rank, 5));
        wrong[1] = 0;
        let Stage { nodes, mut engines } = stage;
        let posted = [wrong, elsewhere]
            .map(|request| nodes[0].control().errands.post(Rank(1), request).expect("a free place"));
        assert_eq!(engines[0].feed(&nodes[0]).run_errands(), 2);
        assert!(posted.iter().all(|posted| posted.progress() == Progress::Refused));
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn an_errand_of_a_rank_that_was_lost_is_not_done() {
        let mut stage = Stage::new(3);
        let request = request(&stage, 0, 5);
        let left = |stage: &Stage| stage.nodes[0].control().errands.post(Rank(1), request).is_some();
        assert!((0..ERRANDS).all(|_| left(&stage)) && !left(&stage));
        let arena = &stage.nodes[0].arena;
        arena.place(Rank(1)).expect("a place").set_status(Status::Lost, Cause::EXITED, arena.changes());
        assert_eq!(stage.feed(0).run_errands(), ERRANDS);
        assert_eq!(stage.word(0, 8), 0);
        assert!(left(&stage), "and its places are free");
    }
}
