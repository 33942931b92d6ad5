//! Copies between any two places, by anybody.

use crate::stage::{assert_same, patterned, Block, Stage};
use crate::way::Memory;
use kumiki::GlobalAddress;

const SIZES: &[usize] = &[0, 1, 7, 8, 16, 17, 4095, 4096, 65536, 131_071, 131_072, 131_073];
const KINDS: [Memory; 2] = [Memory::Arena, Memory::Private];
/// What destinations hold before a copy.
const UNTOUCHED: u8 = 0xee;
/// Room beside a copy, so that it can begin at an odd place and its surroundings can be checked.
const SLACK: usize = 64;

/// Every rank copies from every rank to every rank, between every two kinds of memory: it owns the source, the
/// destination, both or neither. Each copy has a lane of its own in the destination, so all of them run at once.
pub(crate) fn copy(stage: &Stage) {
    for from in KINDS {
        for to in KINDS {
            for &size in SIZES {
                copy_everywhere(stage, from, to, size);
            }
        }
    }
}

/// Where a copy begins in its source and in its lane: mostly odd places.
fn shifts(caller: u32, source: u32, size: usize) -> (usize, usize) {
    ((size * 7 + caller as usize) % 13, (caller * 5 + source * 3) as usize % 11)
}

fn copy_everywhere(stage: &Stage, from: Memory, to: Memory, size: usize) {
    let ranks = stage.ranks();
    let lane = size + SLACK;
    let seed = |rank: u32| (rank as usize * 1_000_003 + size) as u64;
    let source = Block::new(&stage.world, from, size + SLACK);
    stage.write(source.address(), &patterned(seed(stage.me()), size + SLACK));
    let target = Block::new(&stage.world, to, lane * (ranks * ranks) as usize);
    stage.write(target.address(), &vec![UNTOUCHED; lane * (ranks * ranks) as usize]);
    let sources = stage.exchange(source.address());
    let targets = stage.exchange(target.address());
    for s in 0..ranks {
        for d in 0..ranks {
            let (skip, shift) = shifts(stage.me(), s, size);
            let place = (stage.me() * ranks + s) as usize * lane + shift;
            let dst = targets[d as usize].add(place as u64);
            stage.copy(dst, sources[s as usize].add(skip as u64), size as u64);
        }
    }
    stage.complete_all();
    stage.sync();
    let mut wanted = vec![UNTOUCHED; lane * (ranks * ranks) as usize];
    for caller in 0..ranks {
        for s in 0..ranks {
            let (skip, shift) = shifts(caller, s, size);
            let place = (caller * ranks + s) as usize * lane + shift;
            let data = patterned(seed(s), size + SLACK);
            wanted[place..place + size].copy_from_slice(&data[skip..skip + size]);
        }
    }
    let found: Vec<u8> = stage.read(target.address(), wanted.len());
    assert_same(&found, &wanted, || {
        let at = (0..found.len()).find(|&at| found[at] != wanted[at]).unwrap_or(0);
        let (caller, s) = (at / lane / ranks as usize, at / lane % ranks as usize);
        format!(
            "{size} bytes, {from:?} to {to:?}, copied by rank {caller} from rank {s} to rank {}",
            stage.me()
        )
    });
    stage.sync();
}

/// Overlapping source and destination in one region behave like memmove, whoever copies.
pub(crate) fn overlap(stage: &Stage) {
    const BYTES: usize = 512 * 1024;
    for kind in KINDS {
        let block = Block::new(&stage.world, kind, BYTES);
        let mut model = patterned(stage.me() as u64, BYTES);
        stage.write(block.address(), &model);
        let blocks = stage.exchange(block.address());
        for (size, shift) in
            [(5, 1), (8, 4), (100, 17), (5000, 1), (40_000, 9000), (300_000, 3), (300_000, 140_001)]
        {
            for backwards in [false, true] {
                let (dst, src) = if backwards { (7, 7 + shift) } else { (7 + shift, 7) };
                // In round k rank r works in the memory of rank r + k, so that one rank at a time does.
                for round in 0..stage.ranks() {
                    let whose = blocks[((stage.me() + round) % stage.ranks()) as usize];
                    stage.copied(whose.add(dst as u64), whose.add(src as u64), size as u64).expect("copy");
                    model.copy_within(src..src + size, dst);
                    stage.sync();
                }
                let found: Vec<u8> = stage.read(block.address(), BYTES);
                assert_same(&found, &model, || format!("{kind:?}: {size} bytes from {src} to {dst}"));
            }
        }
        stage.sync();
    }
}

/// Copies of 1 MiB + 3 and 16 MiB by the owner of the source, of the destination, and by a third rank.
pub(crate) fn large(stage: &Stage) {
    let ranks = stage.ranks();
    for (size, pairs) in [((1 << 20) + 3, all_pairs(ranks)), (16 << 20, vec![(0, 1), (1, 2), (2, 0)])] {
        let source = stage.block(size + SLACK);
        let data = |rank: u32| patterned(rank as u64 + 77, size + SLACK);
        stage.write(source.address(), &data(stage.me()));
        let sources = stage.exchange(source.address());
        let target = stage.block(size + SLACK);
        let targets = stage.exchange(target.address());
        for (round, &(s, d)) in pairs.iter().enumerate() {
            let callers = [s, d, (0..ranks).find(|&rank| rank != s && rank != d).unwrap_or(s)];
            let caller = callers[round % callers.len()];
            if caller == stage.me() {
                let (dst, src): (GlobalAddress, GlobalAddress) = (targets[d as usize], sources[s as usize]);
                stage.copied(dst.add(3), src.add(5), size as u64).expect("a large copy");
            }
            stage.sync();
            if d == stage.me() {
                let found: Vec<u8> = stage.read(target.address().add(3), size);
                assert_same(&found, &data(s)[5..5 + size], || format!("{size} bytes from {s} by {caller}"));
                stage.write(target.address(), &vec![UNTOUCHED; size + SLACK]);
            }
        }
        stage.sync();
    }
}

fn all_pairs(ranks: u32) -> Vec<(u32, u32)> {
    (0..ranks).flat_map(|s| (0..ranks).map(move |d| (s, d))).collect()
}
