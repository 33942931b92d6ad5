//! How plans grow: with the pieces that a rank exchanges, not with elements or with the number of ranks. The tests print the figures (`--nocapture`).

use super::plan::Plan;
use crate::array::space::{Align, Format, Mapping, Nodes, Shadow, Template};
use std::sync::Arc;
use std::time::Instant;

/// An array of the given sizes on a grid of nodes, aligned dimension by dimension.
fn array(nodes: &Nodes, sizes: &[u64], formats: &[Format]) -> Arc<Mapping> {
    let bounds: Vec<(i64, i64)> = sizes.iter().map(|&size| (0, size as i64 - 1)).collect();
    let template = Template::new(&bounds, formats, nodes).unwrap();
    let aligns: Vec<Align> = (0..sizes.len()).map(|at| Align::with(at, 0)).collect();
    Mapping::new(&template, sizes, &aligns, &vec![Shadow::NONE; sizes.len()]).unwrap()
}

/// What a plan comes to: pieces, bytes of memory that it takes, microseconds in which it was made (the best of several).
fn figures(nodes: &Nodes, rank: u32, to: &Arc<Mapping>, from: &Arc<Mapping>) -> (u64, usize, f64) {
    let mut best = f64::MAX;
    let mut found = (0, 0);
    for _ in 0..5 {
        let start = Instant::now();
        let plan = Plan::copy_of(rank, nodes, 8, (to, &to.whole()), (from, &from.whole())).unwrap();
        best = best.min(start.elapsed().as_secs_f64() * 1e6);
        found = (plan.cost().pieces, plan.size());
    }
    (found.0, found.1, best)
}

#[test]
fn a_copy_in_seven_dimensions_grows_with_its_pieces_and_not_with_elements() {
    let nodes = Nodes::grid(&[2; 6]).unwrap();
    let mut seen = Vec::new();
    for side in [4u64, 8, 16] {
        // Six dimensions are cut into blocks; the copy cuts the last one instead of the first.
        let (mut before, mut after) = (vec![Format::Block(None); 7], vec![Format::Block(None); 7]);
        (before[6], after[0]) = (Format::None, Format::None);
        let (from, to) = (array(&nodes, &[side; 7], &before), array(&nodes, &[side; 7], &after));
        let (pieces, bytes, time) = figures(&nodes, 37, &to, &from);
        println!(
            "7 dimensions, {:>9} elements on 64 nodes: {pieces} pieces, {bytes} bytes, {time:.1} us",
            side.pow(7)
        );
        seen.push((pieces, bytes));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
    assert!(seen[0].0 <= 256, "{seen:?}");
}

#[test]
fn a_copy_among_more_ranks_grows_with_what_a_rank_exchanges() {
    let mut seen = Vec::new();
    for ranks in [8u32, 64, 512] {
        let nodes = Nodes::line(ranks);
        let side = u64::from(ranks) * 1000;
        // Blocks that are moved by half a block: every rank exchanges with two.
        let mut moved = vec![1000; ranks as usize];
        (moved[0], moved[ranks as usize - 1]) = (500, 1500);
        let (from, to) = (
            array(&nodes, &[side], &[Format::Block(None)]),
            array(&nodes, &[side], &[Format::Irregular(moved.into())]),
        );
        let (pieces, bytes, time) = figures(&nodes, ranks / 2, &to, &from);
        println!("{ranks:>3} ranks, blocks moved by a half: {pieces} pieces, {bytes} bytes, {time:.1} us");
        seen.push((pieces, bytes));
        // To all others: as many pieces as there are ranks, and no more.
        let turns = array(&nodes, &[side], &[Format::Cyclic(1)]);
        let (pieces, bytes, time) = figures(&nodes, ranks / 2, &turns, &from);
        println!("{ranks:>3} ranks, blocks dealt out in turn: {pieces} pieces, {bytes} bytes, {time:.1} us");
        assert!(pieces <= 2 * u64::from(ranks), "{pieces} pieces among {ranks} ranks");
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
}
