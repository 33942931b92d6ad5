//! The barrier.

use crate::stage::Stage;
use kumiki::Error;
use std::time::Duration;

/// What was written before a barrier is seen after it, a thousand times.
pub(crate) fn barriers(stage: &Stage) {
    let (world, me, ranks) = (&stage.world, stage.me(), stage.ranks());
    for round in 1..=500u64 {
        let step = 1 + (round % (ranks as u64 - 1)) as u32;
        let place = stage.starter((me + step) % ranks).add(me as usize);
        world.put(place, round * 10 + me as u64).expect("put");
        stage.sync();
        let from = (me + ranks - step) % ranks;
        let found = world.get(stage.starter(me).add(from as usize)).expect("get");
        assert_eq!(found, round * 10 + from as u64, "what rank {from} wrote before barrier {round}");
        stage.sync();
    }
}

/// A barrier that timed out goes on with the next call.
pub(crate) fn late(stage: &Stage) {
    let world = &stage.world;
    let timed_out = stage.starter(0).add(16);
    for round in 1..=5u64 {
        if stage.me() == 0 {
            // Comes only when everybody else has given up once.
            while world.get(timed_out).expect("get") < round * (stage.ranks() as u64 - 1) {
                std::thread::yield_now();
            }
            world.put(stage.starter(0).add(17), round).expect("put");
            stage.sync();
        } else {
            let early = world.sync_for(Duration::from_millis(5));
            assert!(matches!(early, Err(Error::Timeout { .. })), "{early:?}");
            world.fetch_add(timed_out, 1).expect("add");
            world.sync_for(Duration::from_secs(60)).expect("the barrier goes on");
            assert_eq!(world.get(stage.starter(0).add(17)).expect("get"), round);
        }
        stage.sync();
    }
}
