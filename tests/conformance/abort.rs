//! Ending the whole job from one rank.

use crate::job::Job;
use crate::stage::Stage;
use crate::way::NODES;
use libtest_mimic::Trial;

const MESSAGE: &str = "the reactor is out of water";

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
            let printed = ended.output.matches(MESSAGE).count();
            // A rank that hears of the end before it is killed may quote the message in its own error.
            let quoted =
                ended.output.lines().filter(|line| line.contains("panicked") || line.contains("gave Err"));
            let quoted = quoted.filter(|line| line.contains(MESSAGE)).count();
            ended.expect(printed - quoted == 1, &format!("the message is printed {} times", printed - quoted))
        })
    };
    NODES.iter().map(trial).collect()
}
