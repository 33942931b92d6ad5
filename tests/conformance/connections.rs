//! More peers than connections: the least recently used one makes room, and nothing is lost.

use crate::job::Job;
use crate::stage::{patterned, Stage};
use crate::way;
use kumiki::{AtomicOp, GlobalPtr, Order};
use libtest_mimic::Trial;

const RANKS: u32 = 8;
const LARGE: usize = 150_000;

/// Everybody speaks to everybody at once, over and over, with two connections each.
pub(crate) fn all_to_all(stage: &Stage) {
    let ranks = stage.ranks() as u64;
    let (local, block) = (stage.block(LARGE + 4096), stage.block(4096 + LARGE * ranks as usize));
    let all = stage.exchange(block.address());
    let data = patterned(stage.me() as u64, LARGE);
    stage.write(local.address().add(4096), &data);
    for round in 0..6u64 {
        for rank in stage.others() {
            let base = all[rank as usize];
            let word = GlobalPtr::<u64>::from_address(base);
            stage.world.fetch_add(word, 1).expect("add");
            stage.world.put(word.add(64 + stage.me() as usize), round).expect("put");
        }
        for rank in stage.others() {
            let base = all[rank as usize];
            stage.copy(
                base.add(4096 + LARGE as u64 * stage.me() as u64),
                local.address().add(4096),
                LARGE as u64,
            );
            let old = local.address().add(8 * rank as u64);
            stage.world.atomic(old, base, AtomicOp::Add(1u64), Order::None).expect("atomic");
        }
        stage.complete_all();
        stage.sync();
        assert_eq!(stage.word(block.address()), 2 * (round + 1) * (ranks - 1), "additions of round {round}");
        for rank in stage.others() {
            let word = block.address().add(8 * (64 + rank as u64));
            assert_eq!(stage.word(word), round, "what rank {rank} put");
            let lane = block.address().add(4096 + LARGE as u64 * rank as u64);
            assert!(
                stage.read::<u8>(lane, LARGE) == patterned(rank as u64, LARGE),
                "what rank {rank} copied"
            );
            stage.write(lane, &vec![0u8; LARGE]);
        }
        stage.sync();
    }
}

/// Everybody sends its neighbour more than a connection takes at once, with a flag behind it, and meanwhile asks somebody else,
/// for which the connection that brings the flood must make room.
pub(crate) fn crowds(stage: &Stage) {
    const PARTS: u64 = 48;
    // Larger ones keep their order only while nobody writes to them.
    const PART: u64 = 248 << 10;
    const FLOOD: u64 = PARTS * PART;
    let (local, block) = (stage.block((FLOOD + 64) as usize), stage.block((FLOOD + 64) as usize));
    let all = stage.exchange(block.address());
    let behind = |steps: u32| all[((stage.me() + steps) % stage.ranks()) as usize];
    let (next, other) = (behind(1), behind(2));
    for round in 1..=4u64 {
        stage.write(local.address(), &vec![round; (FLOOD / 8 + 1) as usize]);
        for part in 0..PARTS {
            stage.copy(next.add(part * PART), local.address().add(part * PART), PART);
        }
        let flag = local.address().add(FLOOD);
        stage.world.copy(next.add(FLOOD), flag, 8, Order::Continue).expect("flag");
        for _ in 0..4 {
            let word = GlobalPtr::<u64>::from_address(other.add(FLOOD + 8));
            stage.world.fetch_add(word, 1).expect("add");
        }
        while stage.word(block.address().add(FLOOD)) < round {
            std::thread::yield_now();
        }
        let words = stage.read::<u64>(block.address(), (FLOOD / 8) as usize);
        let late = words.iter().filter(|&&word| word != round).count();
        assert_eq!(late, 0, "words that came behind the flag in round {round}");
        stage.complete_all();
        stage.sync();
        assert_eq!(stage.word(block.address().add(FLOOD + 8)), 4 * round, "additions");
        stage.sync();
    }
}

/// Everybody copies between two others at once, over and over: whoever pushes for somebody needs a connection of its own for
/// it, while those that it has wait for others who push.
pub(crate) fn circles(stage: &Stage) {
    const BYTES: u64 = 4096;
    let ranks = stage.ranks();
    let block = stage.block((BYTES * (ranks as u64 + 1)) as usize);
    let all = stage.exchange(block.address());
    stage.write(block.address(), &patterned(stage.me() as u64, BYTES as usize));
    stage.sync();
    for step in 1..ranks {
        let source = (stage.me() + step) % ranks;
        for rank in (0..ranks).filter(|&rank| rank != stage.me() && rank != source) {
            let lane = all[rank as usize].add(BYTES * (1 + stage.me() as u64));
            stage.copy(lane, all[source as usize], BYTES);
        }
        stage.complete_all();
        stage.sync();
        for from in (0..ranks).filter(|&from| from != stage.me() && (from + step) % ranks != stage.me()) {
            let lane = block.address().add(BYTES * (1 + from as u64));
            let wanted = patterned(((from + step) % ranks) as u64, BYTES as usize);
            assert!(
                stage.read::<u8>(lane, BYTES as usize) == wanted,
                "what rank {from} copied in step {step}"
            );
        }
        stage.sync();
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(topic, ranks, cap): (&'static str, u32, &'static str)| {
        Trial::test(format!("tcp::{topic}_with_{cap}_connections"), move || {
            let job = Job::new(way::named("tcp"), topic, ranks);
            job.env("KUMIKI_CONNECTIONS", cap).run().success()
        })
    };
    let cases = [("all_to_all", RANKS), ("crowds", 4), ("circles", RANKS)];
    cases
        .into_iter()
        .flat_map(|(topic, ranks)| ["1", "2", "256"].map(|cap| trial((topic, ranks, cap))))
        .collect()
}
