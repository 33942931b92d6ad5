//! Ending the whole job from one rank.

use crate::job::Job;
use crate::stage::Stage;
use crate::way::NODES;
use libtest_mimic::Trial;

pub(crate) const MESSAGE: &str = "the reactor is out of water";

/// Rank 2 ends the job; the others wait for it in a barrier.
pub(crate) fn abort(stage: &Stage) {
    if stage.me() == 2 {
        stage.world.abort(MESSAGE);
    }
    let waited = stage.world.sync();
    panic!("the barrier gave {waited:?} in a job that was aborted");
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |way: &'static crate::way::Way| {
        Trial::test(format!("{}::abort", way.name), move || {
            let ended = Job::new(way, "abort", 4).run().code(1)?;
            // The launcher's report, once. A rank that hears of the end before it is killed may quote it in an error of
            // its own, in init or in the barrier.
            let report = |line: &&str| line.starts_with("kumiki:") && line.contains(MESSAGE);
            let printed = ended.output.lines().filter(report).count();
            ended.expect(printed == 1, &format!("the message is printed {printed} times"))
        })
    };
    NODES.iter().map(trial).collect()
}
