//! Arrays in the simulator, where each rank has a node of its own, against what a sequential program computes.

use kumiki::array::{
    set_check, Align, Array, Coarray, Format, Mapping, Nodes, Plan, Shadow, Sub, Template, Width,
};
use kumiki::comm::{Max, Sum};
use kumiki::{Error, Result, World};
use kumiki_sim::{Cluster, Crash, End, Faults, Network, Time};
use std::sync::Arc;

/// Runs a program on all ranks of a small cluster.
fn everywhere(ranks: u32, program: impl Fn(&World) -> Result<()> + Send + Sync) {
    let outcome = Cluster::new(ranks, Network::torus(&[ranks])).run(|attachment| {
        let world = World::attach(attachment)?;
        program(&world)?;
        world.finalize()
    });
    let ends = outcome.expect("it runs").values().expect("nobody panicked");
    assert_eq!(ends, vec![Ok(()); ranks as usize]);
}

/// Ways in which one dimension of so many indices is spread over some nodes.
fn formats(nodes: u32, extent: u64) -> Vec<Format> {
    let mut sizes = vec![0; nodes as usize];
    sizes[nodes as usize - 1] = extent / 3;
    sizes[0] += extent - extent / 3;
    vec![Format::Block(None), Format::Cyclic(1), Format::Cyclic(3), Format::Irregular(sizes.into())]
}

fn line(ranks: u32, size: u64, format: Format, shadow: Shadow) -> Result<Arc<Mapping>> {
    let template = Template::new(&[(0, size as i64 - 1)], &[format], &Nodes::line(ranks))?;
    Mapping::new(&template, &[size], &[Align::with(0, 0)], &[shadow])
}

fn matrix(grid: &[u32], sizes: [u64; 2], formats: [Format; 2], shadows: [Shadow; 2]) -> Result<Arc<Mapping>> {
    let bounds = sizes.map(|size| (0, size as i64 - 1));
    let template = Template::new(&bounds, &formats, &Nodes::grid(grid)?)?;
    Mapping::new(&template, &sizes, &[Align::with(0, 0), Align::with(1, 0)], &shadows)
}

#[test]
fn every_distribution_is_copied_to_every_other() {
    for ranks in [1, 2, 3, 5] {
        everywhere(ranks, |world| {
            let sources = formats(ranks, 23).into_iter().chain([Format::None]);
            for from in sources {
                for to in formats(ranks, 23).into_iter().chain([Format::None]) {
                    let mut source =
                        Array::<u32, 1>::new(world, &line(ranks, 23, from.clone(), Shadow::NONE)?)?;
                    let mut target = Array::<u32, 1>::new(world, &line(ranks, 23, to, Shadow::NONE)?)?;
                    source.update(|[i], cell| *cell = i as u32 + 1);
                    // Backwards, every second.
                    target.copy_from(&[Sub::range(1, 11, 2)], &source, &[Sub::range(22, 11, -2)])?;
                    target.for_each(|[i], value| {
                        let wanted = if i % 2 == 1 && i < 22 { 23 - (i as u32 - 1) } else { 0 };
                        assert_eq!(value, wanted, "{i} of {from:?}");
                    });
                }
            }
            Ok(())
        });
    }
}

#[test]
fn long_messages_and_several_copies_at_a_time_arrive() {
    everywhere(4, |world| {
        let sizes = [300, 200];
        let rows = matrix(&[4, 1], sizes, [Format::Block(None), Format::Block(None)], [Shadow::NONE; 2])?;
        let columns = matrix(&[1, 4], sizes, [Format::Block(None), Format::Cyclic(2)], [Shadow::NONE; 2])?;
        let mut one = Array::<f64, 2>::new(world, &rows)?;
        let mut two = one.beside::<f64, 2>(&columns)?;
        let mut three = two.like()?;
        one.update(|[i, j], cell| *cell = (i * 1000 + j) as f64);
        let all = [Sub::All, Sub::All];
        let first = two.start_copy_from(&all, &one, &all)?;
        one.update(|_, cell| *cell += 0.5);
        let second = three.start_copy_from(&all, &one, &all)?;
        one.fill(-1.0);
        second.finish()?;
        first.finish()?;
        two.for_each(|[i, j], value| assert_eq!(value, (i * 1000 + j) as f64));
        three.for_each(|[i, j], value| assert_eq!(value, (i * 1000 + j) as f64 + 0.5));
        let cost = two.copy_cost(&all, &one, &all)?;
        assert_eq!((cost.receivers, cost.sent + cost.kept), (3, 75 * 200 * 8));
        // Overlapping, within one array.
        two.copy_inside(&[Sub::from(1..300), Sub::All], &[Sub::from(0..299), Sub::All])?;
        two.for_each(|[i, j], value| assert_eq!(value, ((i - 1).max(0) * 1000 + j) as f64));
        let four = two.redistribute(&rows)?;
        four.for_each(|[i, j], value| assert_eq!(value, ((i - 1).max(0) * 1000 + j) as f64));
        let mut turned = four.beside::<f64, 2>(&matrix(
            &[2, 2],
            [200, 300],
            [Format::Cyclic(1), Format::Block(None)],
            [Shadow::NONE; 2],
        )?)?;
        turned.transpose_from(&four)?;
        turned.for_each(|[j, i], value| assert_eq!(value, ((i - 1).max(0) * 1000 + j) as f64));
        Ok(())
    });
}

#[test]
fn sixty_four_ranks_move_seven_dimensions_and_deal_out_in_turn() {
    everywhere(64, |world| {
        let array = |grid: &[u32], sizes: &[u64], formats: &[Format]| {
            let bounds: Vec<(i64, i64)> = sizes.iter().map(|size| (0, *size as i64 - 1)).collect();
            let template = Template::new(&bounds, formats, &Nodes::grid(grid)?)?;
            let aligns: Vec<Align> = (0..sizes.len()).map(|at| Align::with(at, 0)).collect();
            Mapping::new(&template, sizes, &aligns, &vec![Shadow::NONE; sizes.len()])
        };
        // Six of seven dimensions are cut: first all but the last, then all but the first.
        let (mut before, mut after) = (vec![Format::Block(None); 7], vec![Format::Block(None); 7]);
        (before[6], after[0]) = (Format::None, Format::None);
        let number = |index: [i64; 7]| index.iter().fold(0, |number, at| 4 * number + at) as u32;
        let mut from = Array::<u32, 7>::new(world, &array(&[2; 6], &[4; 7], &before)?)?;
        let mut to = from.beside::<u32, 7>(&array(&[2; 6], &[4; 7], &after)?)?;
        from.update(|index, cell| *cell = number(index));
        let all = [const { Sub::All }; 7];
        let cost = to.copy_cost(&all, &from, &all)?;
        assert!(cost.pieces <= 64 && cost.receivers <= 32, "{cost:?}");
        to.copy_from(&all, &from, &all)?;
        to.for_each(|index, value| assert_eq!(value, number(index), "{index:?}"));
        // Everybody sends to everybody: a piece for each.
        let mut blocks = Array::<u32, 1>::new(world, &array(&[64], &[6400], &[Format::Block(None)])?)?;
        let mut turns = blocks.beside::<u32, 1>(&array(&[64], &[6400], &[Format::Cyclic(1)])?)?;
        blocks.update(|[i], cell| *cell = i as u32);
        let cost = turns.copy_cost(&[Sub::All], &blocks, &[Sub::All])?;
        assert!(cost.pieces <= 128 && cost.receivers == 63, "{cost:?}");
        turns.copy_from(&[Sub::All], &blocks, &[Sub::All])?;
        turns.for_each(|[i], value| assert_eq!(value, i as u32));
        Ok(())
    });
}

#[test]
fn shadows_are_filled_and_added_back() {
    everywhere(6, |world| {
        let mapping = matrix(
            &[2, 3],
            [8, 7],
            [Format::Block(None), Format::Block(None)],
            [Shadow::both(2), Shadow::Width { low: 1, high: 2 }],
        )?;
        let value = |i: i64, j: i64| (i.rem_euclid(8) * 100 + j.rem_euclid(7) + 1) as f64;
        let mut array = Array::<f64, 2>::new(world, &mapping)?;
        array.update(|[i, j], cell| *cell = value(i, j));
        let bounds = array.bounds();
        let around = array.reflect()?;
        if let Some([(i0, i1), (j0, j1)]) = bounds {
            for (i, j) in (i0 - 2..=i1 + 2).flat_map(|i| (j0 - 1..=j1 + 2).map(move |j| (i, j))) {
                let inside = (0..8).contains(&i) && (0..7).contains(&j);
                assert_eq!(around[[i, j]], if inside { value(i, j) } else { 0.0 }, "{i} {j}");
            }
            assert_eq!(around.row([i0, j0 - 1], (j1 - j0 + 4) as usize).len() as i64, j1 - j0 + 4);
            let local = around.local()?;
            let first = around.first().expect("there is one");
            assert_eq!(local[&first[..]], value(i0, j0));
        }
        let ring = Width { low: 1, high: 1, periodic: true };
        let around = array.start_reflect(&[ring, ring], true)?.finish()?;
        if let Some([(i0, i1), (j0, j1)]) = bounds {
            for (i, j) in (i0 - 1..=i1 + 1).flat_map(|i| (j0 - 1..=j1 + 1).map(move |j| (i, j))) {
                assert_eq!(around[[i, j]], value(i, j), "{i} {j}");
            }
        }
        let mut ones = Array::<u32, 2>::new(world, &mapping)?;
        ones.local_mut()?.fill(1);
        ones.reduce_shadow(&[ring, Width::NONE], false)?;
        // Blocks are 4 rows: the first and the last of each are in the shadow of another.
        ones.for_each(|[i, _], value| assert_eq!(value, if matches!(i, 0 | 3 | 4 | 7) { 2 } else { 1 }));
        Ok(())
    });
}

#[test]
fn a_full_shadow_is_everything() {
    everywhere(3, |world| {
        let mut array = Array::<u16, 1>::new(world, &line(3, 10, Format::Cyclic(2), Shadow::Full)?)?;
        array.update(|[i], cell| *cell = i as u16 + 1);
        // Own elements lie side by side with those of others, which are no row of this rank.
        let first = 2 * i64::from(world.rank());
        assert_eq!(array.row([first], 2), [first as u16 + 1, first as u16 + 2]);
        let row = || array.row([first], 8)[7];
        assert!(first + 8 > 10 || std::panic::catch_unwind(std::panic::AssertUnwindSafe(row)).is_err());
        let all = array.reflect()?;
        for i in 0..10 {
            assert_eq!(all[[i]], i as u16 + 1);
        }
        Ok(())
    });
}

#[test]
fn reductions_are_of_all_elements_once_also_where_some_have_none() {
    everywhere(4, |world| {
        // Blocks of 2: the last rank has nothing.
        let mut array = Array::<i64, 1>::block(world, &[5], &[1])?;
        assert_eq!(array.bounds().is_none(), world.rank() == 3);
        array.update(|[i], cell| *cell = -10 - (i - 3).abs());
        assert_eq!((array.sum()?, array.min()?, array.max()?), (-57, -13, -10));
        assert_eq!((array.min_at()?, array.max_at()?), ((-13, [0]), (-10, [3])));
        array.fill(4);
        assert_eq!(array.max_at()?, (4, [0]));
        assert_eq!(array.reduce(i64::MIN, Max)?, 4);
        // Replicated over the rows of nodes.
        let template = Template::block(&[4, 6], &Nodes::grid(&[2, 2])?)?;
        let row = Mapping::new(&template, &[6], &[Align::with(1, 0)], &[Shadow::NONE])?;
        let mut copies = Array::<i64, 1>::new(world, &row)?;
        copies.update(|[i], cell| *cell = i);
        assert_eq!(copies.sum()?, 15);
        assert_eq!(copies.to_vec()?, [0, 1, 2, 3, 4, 5]);
        let empty = Array::<i64, 1>::block(world, &[0], &[0])?;
        assert_eq!(empty.sum()?, 0);
        assert!(matches!(empty.max(), Err(Error::Misuse(_))));
        Ok(())
    });
}

#[test]
fn all_get_all_by_messages_and_by_their_group() {
    // Blocks; irregular ones, of which one is empty; and parts that do not follow each other.
    for format in [Format::Block(None), Format::Irregular(vec![4, 0, 1, 4].into()), Format::Cyclic(1)] {
        everywhere(4, |world| {
            let template = Template::new(&[(0, 8)], std::slice::from_ref(&format), &Nodes::line(4))?;
            let aligns = [Align::with(0, 0), Align::COLLAPSED];
            let mut parts =
                Array::<u32, 2>::new(world, &Mapping::new(&template, &[9, 3], &aligns, &[Shadow::NONE; 2])?)?;
            let whole = Mapping::everywhere(&Nodes::line(4), &[9, 3])?;
            let mut all = parts.beside::<u32, 2>(&whole)?;
            let subs = [const { Sub::All }; 2];
            for round in 0..6 {
                // From here on there is a group.
                if round == 3 {
                    parts.sync()?;
                }
                parts.update(|[i, j], cell| *cell = (100 * round + 10 * i + j) as u32);
                all.copy_from(&subs, &parts, &subs)?;
                for (i, j) in (0..9).flat_map(|i| (0..3).map(move |j| (i, j))) {
                    assert_eq!(all[[i, j]], (100 * round + 10 * i + j) as u32);
                }
            }
            Ok(())
        });
    }
}

#[test]
fn any_element_is_read_and_written_in_a_shared_phase() {
    everywhere(4, |world| {
        let mapping = matrix(
            &[2, 2],
            [6, 8],
            [Format::Block(None), Format::Cyclic(1)],
            [Shadow::both(1), Shadow::NONE],
        )?;
        let mut array = Array::<u64, 2>::new(world, &mapping)?;
        array.update(|[i, j], cell| *cell = (10 * i + j) as u64);
        let me = u64::from(world.rank());
        array.share(|shared| {
            assert_eq!(shared.get([5, 7])?, 57);
            let section = shared.get_section(&[Sub::range(5, 3, -2), Sub::range(0, 4, 2)])?;
            assert_eq!(section, [50, 52, 54, 56, 30, 32, 34, 36, 10, 12, 14, 16]);
            Ok(())
        })?;
        array.share(|shared| {
            shared.put([me as i64, 0], 100 + me)?;
            shared.put_section(&[Sub::Index(me as i64), Sub::from(1..8)], &[me; 7])
        })?;
        array.for_each(|[i, j], value| {
            let wanted = match (i, j) {
                (0..4, 0) => 100 + i,
                (0..4, _) => i,
                _ => 10 * i + j,
            };
            assert_eq!(value, wanted as u64);
        });
        let outside = array.share(|shared| shared.get([6, 0]));
        assert!(matches!(outside, Err(Error::Misuse(_))));
        Ok(())
    });
}

#[test]
fn matrices_are_multiplied_whatever_their_mappings() {
    everywhere(4, |world| {
        let block = || Format::Block(None);
        let left = matrix(&[2, 2], [9, 140], [block(), Format::Cyclic(3)], [Shadow::NONE; 2])?;
        let right = matrix(&[4, 1], [140, 7], [Format::Cyclic(1), block()], [Shadow::NONE; 2])?;
        let result = matrix(&[2, 2], [9, 7], [block(), Format::Cyclic(2)], [Shadow::both(1), Shadow::NONE])?;
        let mut a = Array::<i64, 2>::new(world, &left)?;
        let mut b = Array::<i64, 2>::new(world, &right)?;
        let mut c = Array::<i64, 2>::new(world, &result)?;
        a.update(|[i, k], cell| *cell = i + 2 * k);
        b.update(|[k, j], cell| *cell = k - j);
        c.matmul_from(&a, &b)?;
        c.for_each(|[i, j], value| {
            assert_eq!(value, (0..140).map(|k| (i + 2 * k) * (k - j)).sum::<i64>());
        });
        let mut wrong = Array::<i64, 2>::block(world, &[7, 9], &[0, 0])?;
        assert!(matches!(wrong.matmul_from(&a, &b), Err(Error::Misuse(_))));
        Ok(())
    });
}

#[test]
fn sort_scan_pack_and_unpack_go_by_the_order_of_elements() {
    for ranks in [1, 4, 5] {
        everywhere(ranks, |world| {
            for format in formats(ranks, 101) {
                let mapping = line(ranks, 101, format, Shadow::NONE)?;
                let mut array = Array::<f64, 1>::new(world, &mapping)?;
                array.update(|[i], cell| *cell = (i * 37 % 101) as f64);
                array.sort()?;
                array.for_each(|[i], value| assert_eq!(value, i as f64));
                array.sort_down()?;
                array.for_each(|[i], value| assert_eq!(value, 100.0 - i as f64));
                array.fill(1.0);
                array.scan(Sum)?;
                array.for_each(|[i], value| assert_eq!(value, i as f64 + 1.0));
            }
            let mut few = Array::<u8, 1>::block(world, &[3], &[0])?;
            few.update(|[i], cell| *cell = 2 - i as u8);
            few.sort()?;
            assert_eq!(few.to_vec()?, [0, 1, 2]);
            let block = || Format::Block(None);
            let mapping = matrix(&[1, ranks], [6, 11], [block(), Format::Cyclic(2)], [Shadow::NONE; 2])?;
            let mut source = Array::<i32, 2>::new(world, &mapping)?;
            let mut mask = Array::<u8, 2>::new(world, &mapping)?;
            let mut vector = Array::<i32, 1>::block(world, &[40], &[0])?;
            source.update(|[i, j], cell| *cell = (i * 11 + j) as i32);
            mask.update(|[i, j], cell| *cell = u8::from((i * 11 + j) % 3 == 0));
            vector.fill(-1);
            assert_eq!(source.pack_into(&mask, &mut vector)?, 22);
            vector.for_each(|[i], value| assert_eq!(value, if i < 22 { 3 * i as i32 } else { -1 }));
            let mut back = source.like()?;
            back.fill(7);
            assert_eq!(back.unpack_from(&mask, &vector)?, 22);
            back.for_each(|[i, j], value| {
                let at = (i * 11 + j) as i32;
                assert_eq!(value, if at % 3 == 0 { at } else { 7 });
            });
            // The mask lies on the same nodes in another order.
            let turned: Vec<u32> = (0..ranks).rev().collect();
            let template = Template::new(&[(0, 5)], &[block()], &Nodes::of(&turned, &[ranks])?)?;
            let aligns = [Align::with(0, 0), Align::COLLAPSED];
            let mut turned =
                Array::<u8, 2>::new(world, &Mapping::new(&template, &[6, 11], &aligns, &[Shadow::NONE; 2])?)?;
            turned.update(|[i, j], cell| *cell = u8::from((i * 11 + j) % 3 == 0));
            assert_eq!(source.pack_into(&turned, &mut vector)?, 22);
            vector.for_each(|[i], value| assert_eq!(value, if i < 22 { 3 * i as i32 } else { -1 }));
            assert_eq!(back.unpack_from(&turned, &vector)?, 22);
            Ok(())
        });
    }
}

#[test]
fn what_comes_for_a_reflect_that_is_given_up_does_not_go_to_the_next() {
    everywhere(3, |world| {
        let mapping = line(3, 12, Format::Block(None), Shadow::both(1))?;
        let mut array = Array::<i64, 1>::new(world, &mapping)?;
        for round in 0..3 {
            array.fill(-1);
            drop(array.start_reflect(&Width::all(&mapping), true)?);
            array.update(|[i], cell| *cell = 100 * round + i);
            let around = array.reflect()?;
            let (first, last) = (4 * i64::from(world.rank()), 4 * i64::from(world.rank()) + 3);
            if first > 0 {
                assert_eq!(around[[first - 1]], 100 * round + first - 1);
            }
            if last < 11 {
                assert_eq!(around[[last + 1]], 100 * round + last + 1);
            }
        }
        Ok(())
    });
}

/// Two square matrices on all ranks.
fn matrices(world: &World, size: u64) -> Result<[Array<'_, f64, 2>; 2]> {
    let blocks = [Format::Block(None), Format::Block(None)];
    let mapping = matrix(&[world.ranks(), 1], [size; 2], blocks, [Shadow::NONE; 2])?;
    let array = Array::new(world, &mapping)?;
    let other = array.like()?;
    Ok([array, other])
}

fn transpose([array, other]: &mut [Array<'_, f64, 2>; 2]) -> Result<()> {
    array.update(|[i, j], cell| *cell = (i * 1000 + j) as f64);
    other.fill(0.0);
    other.transpose_from(array)?;
    other.for_each(|[j, i], value| assert_eq!(value, (i * 1000 + j) as f64));
    Ok(())
}

#[test]
fn where_the_budget_has_no_room_for_parcels_private_memory_does() {
    let outcome = Cluster::new(3, Network::torus(&[3])).budget_bytes(2 << 20).run(|attachment| {
        let world = World::attach(attachment)?;
        // Lanes, connections and what else is made once.
        transpose(&mut matrices(&world, 30)?)?;
        let mut large = matrices(&world, 300)?;
        let Err(Error::OutOfMemory { left, .. }) = world.alloc::<u8>(2 << 20) else {
            panic!("there is a budget")
        };
        let taken = world.alloc::<u8>(left as usize - (600 << 10))?;
        world.sync()?;
        // Each message has 80,000 bytes, and a parcel for it 128 KiB, which is made where there are eight times as many.
        (0..3).try_for_each(|_| transpose(&mut large))?;
        world.sync()?;
        drop(taken);
        (0..3).try_for_each(|_| transpose(&mut large))?;
        drop(large);
        world.finalize()
    });
    let ends = outcome.expect("it runs").values().expect("nobody panicked");
    assert_eq!(ends, vec![Ok(()); 3]);
}

#[test]
fn a_rank_that_has_no_memory_to_send_says_so_and_all_try_again() {
    const SHORT: u32 = 1;
    let outcome = Cluster::new(3, Network::torus(&[3])).budget_bytes(3 << 20).run(|attachment| {
        let world = World::attach(attachment)?;
        transpose(&mut matrices(&world, 30)?)?;
        let blocks = || [Format::Block(None), Format::Block(None)];
        let rows = matrix(&[3, 1], [300; 2], blocks(), [Shadow::NONE; 2])?;
        let columns = matrix(&[1, 3], [300; 2], blocks(), [Shadow::NONE; 2])?;
        let mut array = Array::<f64, 2>::new(&world, &rows)?;
        let mut other = array.beside::<f64, 2>(&columns)?;
        array.update(|[i, j], cell| *cell = (i * 1000 + j) as f64);
        let all = [const { Sub::All }; 2];
        for starts in [false, true] {
            let Err(Error::OutOfMemory { left, .. }) = world.alloc::<u8>(3 << 20) else {
                panic!("there is a budget")
            };
            let is_short = world.rank() == SHORT;
            let taken = is_short.then(|| world.alloc::<u8>(left as usize - (8 << 10))).transpose()?;
            world.sync()?;
            let copied = match starts {
                false => other.copy_from(&all, &array, &all),
                true => other.start_copy_from(&all, &array, &all).and_then(|started| started.finish()),
            };
            match copied {
                Err(Error::OutOfMemory { .. }) if is_short => {}
                Err(Error::Refused(text)) if !is_short => assert!(text.contains("rank 1"), "{text}"),
                ended => panic!("rank {}: {ended:?}", world.rank()),
            }
            world.sync()?;
            drop(taken);
            world.sync()?;
            other.copy_from(&all, &array, &all)?;
            other.for_each(|[i, j], value| assert_eq!(value, (i * 1000 + j) as f64));
        }
        drop((array, other));
        world.finalize()
    });
    let ends = outcome.expect("it runs").values().expect("nobody panicked");
    assert_eq!(ends, vec![Ok(()); 3]);
}

#[test]
fn a_gathering_that_fails_leaves_nobody_waiting() {
    everywhere(3, |world| {
        let mut parts = Array::<u64, 1>::block(world, &[3000], &[0])?;
        parts.update(|[i], cell| *cell = i as u64);
        let mut all = parts.beside::<u64, 1>(&Mapping::everywhere(parts.mapping().nodes(), &[3000])?)?;
        let subs = [Sub::All];
        // One does something else with the group: it is broken for all.
        let group = parts.group()?;
        let called = match world.rank() {
            1 => group.barrier(),
            _ => group.allreduce(&mut [1u64], Sum),
        };
        assert!(called.is_err());
        // All know it, and nobody waits.
        assert!(all.copy_from(&subs, &parts, &subs).is_err());
        world.sync()?;
        // By messages it goes on, and no count is out of step.
        all.start_copy_from(&subs, &parts, &subs)?.finish()?;
        (0..3000).for_each(|i| assert_eq!(all[[i]], i as u64));
        // One has the group that is broken, and the others have none: they are told.
        let (to, from) = (all.mapping().clone(), parts.mapping().clone());
        let plan = Plan::copy(world, from.nodes(), 8, (&to, &to.whole()), (&from, &from.whole()))?;
        assert!(plan.gathers());
        let own: Vec<u8> =
            (1000 * world.rank()..).take(1000).flat_map(|i| u64::from(i).to_ne_bytes()).collect();
        let mut whole = vec![0; 24_000];
        let ran = plan.run_with(world, (world.rank() == 1).then_some(group), &own, &mut whole);
        match world.rank() {
            1 => assert!(ran.is_err()),
            _ => assert!(matches!(&ran, Err(Error::Refused(text)) if text.contains("rank 1")), "{ran:?}"),
        }
        world.sync()?;
        plan.run_with(world, None, &own, &mut whole)?;
        assert!(whole.chunks(8).zip(0u64..).all(|(cell, i)| cell == i.to_ne_bytes()));
        Ok(())
    });
}

#[test]
fn whoever_exchanges_with_one_that_is_lost_is_told_who_it_is() {
    const VICTIM: u32 = 1;
    for operation in (1..).step_by(3) {
        let faults = Faults { crashes: vec![Crash { rank: VICTIM, operation }], ..Faults::default() };
        let outcome = Cluster::new(3, Network::torus(&[3])).faults(faults).run(|attachment| -> Result<()> {
            let world = World::attach(attachment)?;
            let told =
                matrices(&world, 400).and_then(|mut both| (0..2).try_for_each(|_| transpose(&mut both)));
            if told.is_err() {
                // Whoever ends now would be missed, too.
                for _ in 0..3 {
                    kumiki_sim::compute(Time::from_seconds(1.0));
                    let _ = world.progress();
                }
                return told;
            }
            world.finalize()
        });
        let outcome = outcome.expect("nobody hangs");
        for (rank, end) in outcome.ends.iter().enumerate() {
            match end {
                End::Crashed | End::Returned(Ok(())) => {}
                End::Returned(Err(Error::PeerLost { rank: VICTIM, .. })) => {}
                other => panic!("rank {rank}, crash at {operation}: {other:?}"),
            }
        }
        if !outcome.ends.iter().any(|end| matches!(end, End::Crashed)) {
            return;
        }
    }
}

#[test]
fn elements_are_gathered_and_scattered_by_index_arrays() {
    everywhere(3, |world| {
        let mapping = line(3, 20, Format::Cyclic(2), Shadow::NONE)?;
        let grid = matrix(&[3, 1], [5, 4], [Format::Block(None), Format::Block(None)], [Shadow::both(1); 2])?;
        let mut table = Array::<u32, 2>::new(world, &grid)?;
        table.update(|[i, j], cell| *cell = (i * 4 + j) as u32);
        let mut values = Array::<u32, 1>::new(world, &mapping)?;
        let (mut rows, mut columns) =
            (Array::<i64, 1>::new(world, &mapping)?, Array::<i64, 1>::new(world, &mapping)?);
        rows.update(|[i], cell| *cell = (19 - i) / 4);
        columns.update(|[i], cell| *cell = (19 - i) % 4);
        values.gather_from(&table, &[&rows, &columns])?;
        values.for_each(|[i], value| assert_eq!(value, 19 - i as u32));
        values.update(|[i], cell| *cell = 100 + i as u32);
        values.scatter_into(&mut table, &[&rows, &columns])?;
        table.for_each(|[i, j], value| assert_eq!(value, 119 - (i * 4 + j) as u32));
        rows.update(|[i], cell| *cell = i);
        let wrong = values.gather_from(&table, &[&rows, &columns]);
        assert!(matches!(wrong, Err(Error::Misuse(_) | Error::Refused(_))));
        Ok(())
    });
}

#[test]
fn files_are_written_in_parallel_and_read_with_another_mapping() {
    let folder = std::env::temp_dir().join(format!("kumiki-arrays-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("array.npy");
    everywhere(4, |world| {
        let block = || Format::Block(None);
        let mapping =
            matrix(&[2, 2], [9, 11], [block(), Format::Cyclic(2)], [Shadow::both(1), Shadow::NONE])?;
        let mut array = Array::<f32, 2>::new(world, &mapping)?;
        array.update(|[i, j], cell| *cell = (i * 100 + j) as f32);
        array.save(&path)?;
        let other = matrix(&[4, 1], [9, 11], [Format::Cyclic(1), block()], [Shadow::NONE; 2])?;
        let again = Array::<f32, 2>::load(world, &other, &path)?;
        again.for_each(|[i, j], value| assert_eq!(value, (i * 100 + j) as f32));
        for wrong in [
            Array::<f64, 2>::load(world, &other, &path).err(),
            Array::<f32, 1>::load(world, &line(4, 99, block(), Shadow::NONE)?, &path).err(),
        ] {
            assert!(matches!(wrong, Some(Error::Misuse(_))), "{wrong:?}");
        }
        assert!(array.save(folder.join("no such folder/array.npy")).is_err());
        Ok(())
    });
    let bytes = std::fs::read(&path).expect("a file");
    assert_eq!(bytes.len(), 128 + 9 * 11 * 4);
    assert!(bytes.starts_with(
        b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (9, 11,), }"
    ));
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn rows_of_others_go_along() {
    for ranks in [1, 2, 3, 4] {
        everywhere(ranks, |world| {
            let value = |[i, j]: [i64; 2]| 100 * i + j;
            let grid = if ranks == 4 { [2, 2] } else { [ranks, 1] };
            let around = [Shadow::Width { low: 1, high: 2 }, Shadow::both(1)];
            for rows in formats(grid[0], 13) {
                for columns in formats(grid[1], 9) {
                    let formats = [rows.clone(), columns];
                    let is_cyclic = formats.iter().any(|format| matches!(format, Format::Cyclic(_)));
                    let shadows = if is_cyclic { [Shadow::NONE; 2] } else { around };
                    let with = matrix(&grid, [13, 9], formats.clone(), shadows)?;
                    let mut source = Array::<i64, 2>::new(world, &with)?;
                    source.update(|index, cell| *cell = value(index));
                    let without = matrix(&grid, [13, 9], formats, [Shadow::NONE; 2])?;
                    let mut target = Array::<i64, 2>::new(world, &without)?;
                    // Two lists of three kinds: what is own, with the shadow, and of other elements.
                    let mut marks = Array::<[i32; 2], 2>::new(world, &without)?;
                    marks.update(|[i, j], cell| *cell = [i as i32, j as i32]);
                    let other = source.redistribute(&with)?;
                    let mut source = other.redistribute(&with)?;
                    let source = source.reflect()?;
                    let inside = [(1, 10), (1, 7)];
                    target.zip_rows_in(
                        inside,
                        (source, [&*source; 2], &marks),
                        |[i, j], row, (near, own, marks)| {
                            assert!(own.iter().all(|own| *own == near.row([0, 0])));
                            let wanted: Vec<[i32; 2]> =
                                (0..row.len()).map(|at| [i as i32, j as i32 + at as i32]).collect();
                            assert_eq!(marks, wanted);
                            let reach = if is_cyclic { 0..=0 } else { -1..=1 };
                            for (di, dj) in reach.clone().flat_map(|di| reach.clone().map(move |dj| (di, dj)))
                            {
                                for (at, cell) in near.row([di, dj]).iter().enumerate() {
                                    assert_eq!(*cell, value([i + di, j + dj + at as i64]));
                                }
                            }
                            row.iter_mut().for_each(|cell| *cell += 1);
                        },
                    );
                    target.for_each(|[i, j], cell| {
                        let is_inside = (1..=10).contains(&i) && (1..=7).contains(&j);
                        assert_eq!(cell, i64::from(is_inside));
                    });
                }
            }
            Ok(())
        });
    }
}

#[test]
fn a_row_that_is_not_there_is_told() {
    everywhere(2, |world| {
        let mut cube = Array::<u8, 3>::block(world, &[6, 4, 5], &[1, 0, 1])?;
        let mut other = cube.like()?;
        let mut small = Array::<u8, 3>::block(world, &[6, 4, 4], &[0, 0, 0])?;
        let cube = cube.reflect()?;
        let mut panics = |by: [i64; 3]| {
            let walk = || other.zip_rows(cube, |_, row, near| assert_eq!(near.row(by).len(), row.len()));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(walk)).is_err()
        };
        assert!(!panics([1, 0, -1]) && !panics([-1, 0, 1]) && !panics([0, 0, 0]));
        assert!(
            panics([0, 1, 0]) && panics([2, 0, 0]) && panics([0, 0, -2]) && panics([i64::MIN, 0, i64::MAX])
        );
        let walk = || other.zip_rows(&small, |_, _, _| {});
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(walk)).is_err());
        small.zip_rows(&*cube, |_, small, cube| assert_eq!(small.len(), cube.len()));
        Ok(())
    });
}

#[test]
fn loops_are_over_own_elements_and_views_are_of_them() {
    everywhere(4, |world| {
        let mapping = matrix(
            &[2, 2],
            [10, 9],
            [Format::Block(None), Format::Cyclic(2)],
            [Shadow::both(1), Shadow::NONE],
        )?;
        let mut array = Array::<i64, 2>::new(world, &mapping)?;
        let part = mapping.part(world.rank());
        let mut count = 0;
        array.update(|[i, j], cell| {
            assert!(part.owns(&[i, j]));
            *cell = 100 * i + j;
            count += 1;
        });
        assert_eq!(count as u64, part.count(0) * part.count(1));
        assert_eq!(array.own()?.iter().sum::<i64>(), {
            let mut sum = 0;
            array.for_each(|_, value| sum += value);
            sum
        });
        array.own_mut()?.mapv_inplace(|value| value + 1);
        let mut rows = 0;
        array.for_rows(|[i, j], row| {
            row.iter().zip(j..).for_each(|(value, j)| assert_eq!(*value, 100 * i + j + 1));
            rows += row.len();
        });
        assert_eq!(rows, count);
        array.update_rows_parallel(|[i, j], row| row.iter_mut().zip(j..).for_each(|(cell, j)| *cell = i - j));
        array.for_each(|[i, j], value| assert_eq!(value, i - j));
        let mut plain = Array::<i64, 3>::block(world, &[13, 4, 5], &[1, 0, 1])?;
        plain.update_rows_parallel(|[i, j, k], row| {
            row.iter_mut().zip(k..).for_each(|(cell, k)| *cell = i * 100 + j * 10 + k);
        });
        plain.for_each(|[i, j, k], value| assert_eq!(value, i * 100 + j * 10 + k));
        let widths = [(1, 1), (0, 0), (1, 2)];
        let mut marks = plain.like()?;
        for part in marks.boundary(&widths) {
            marks.update_in(part, |_, cell| *cell += 1);
        }
        if let Some(interior) = marks.interior(&widths) {
            marks.update_in(interior, |_, cell| *cell += 1);
        }
        marks.for_each(|_, value| assert_eq!(value, 1));
        Ok(())
    });
}

#[test]
fn arrays_on_some_ranks_leave_the_others_alone() {
    everywhere(5, |world| {
        let odd = Nodes::of(&[1, 3], &[2])?;
        if !odd.contains(world.rank()) {
            return Ok(());
        }
        let template = Template::block(&[9], &odd)?;
        let mapping = Mapping::new(&template, &[9], &[Align::with(0, 0)], &[Shadow::both(1)])?;
        let mut array = Array::<u64, 1>::new(world, &mapping)?;
        array.update(|[i], cell| *cell = i as u64);
        assert_eq!(array.sum()?, 36);
        let around = array.reflect()?;
        assert_eq!(around[[4]] + around[[5]], 9);
        array.sort_down()?;
        assert_eq!(array.to_vec()?, [8, 7, 6, 5, 4, 3, 2, 1, 0]);
        Ok(())
    });
}

#[test]
fn plans_are_kept_and_mappings_shared() {
    everywhere(2, |world| {
        let mapping = line(2, 100, Format::Block(None), Shadow::both(1))?;
        let one = Plan::reflect(world, 8, &mapping, &Width::all(&mapping), true)?;
        let two = Plan::reflect(world, 8, &mapping, &Width::all(&mapping), true)?;
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!(one.cost().sent, 8);
        let array = Array::<f64, 1>::new(world, &mapping)?;
        assert!(std::mem::size_of_val(&array) <= 1024);
        Ok(())
    });
}

#[test]
fn coarrays_are_read_and_written_by_section() {
    everywhere(4, |world| {
        let field = Coarray::<u32>::new(world, &[6, 2000])?;
        let (me, images) = (field.this_image(), field.images());
        let next = (me + 1) % images;
        let column = [Sub::range(5, 3, -2), Sub::Index(7)];
        field.put_section(next, &column, &[me, me + 10, me + 20])?;
        field.sync_all()?;
        let before = (me + images - 1) % images;
        assert_eq!(field.get_section(me, &column)?, [before, before + 10, before + 20]);
        assert_eq!((field.get(next, &[1, 7])?, field.own()?.load(2007)?), (me + 20, before + 20));
        field.sync_all()?;
        // From one image to another, by a third: long rows, and short ones.
        field.put_section(me, &[Sub::Index(0), Sub::All], &vec![me; 2000])?;
        field.sync_all()?;
        let other = Coarray::<u32>::new(world, &[3, 2000])?;
        let (from, to) = ((me + 2) % images, (me + 3) % images);
        other.copy((to, &[Sub::from(1..2), Sub::All]), &field, (from, &[Sub::from(0..1), Sub::All]))?;
        other.copy(
            (to, &[Sub::Index(0), Sub::from(0..3)]),
            &field,
            (from, &[Sub::Index(0), Sub::range(0, 3, 2)]),
        )?;
        other.sync_all()?;
        let source = (me + images - 1) % images;
        assert_eq!(other.get_section(me, &[Sub::Index(1), Sub::All])?, vec![source; 2000]);
        assert_eq!(other.get_section(me, &[Sub::Index(0), Sub::from(0..4)])?, [source, source, source, 0]);
        let wrong = other.copy(
            (to, &[Sub::Index(0), Sub::from(0..3)]),
            &field,
            (from, &[Sub::Index(0), Sub::from(0..4)]),
        );
        assert!(matches!(wrong, Err(Error::Misuse(_))));
        assert!(matches!(other.get(images, &[0, 0]), Err(Error::Misuse(_))));
        assert!(matches!(other.get(0, &[3, 0]), Err(Error::Misuse(_))));
        field.free()?;
        other.free()
    });
}

#[test]
fn images_wait_for_events_locks_and_each_other() {
    everywhere(4, |world| {
        let words = Coarray::<u64>::new(world, &[8])?;
        let (me, images) = (words.this_image(), words.images());
        let next = (me + 1) % images;
        words.put(next, &[3], 100 + u64::from(me))?;
        words.post(next, &[0])?;
        words.post(next, &[0])?;
        words.wait_event(&[0], 2)?;
        assert_eq!(words.event_count(&[0])?, 0);
        assert_eq!(words.get(me, &[3])?, 100 + u64::from((me + images - 1) % images));
        for _ in 0..10 {
            words.lock(0, &[1])?;
            let count = words.get(0, &[2])?;
            words.put(0, &[2], count + 1)?;
            assert!(matches!(words.try_lock(0, &[1]), Err(Error::Misuse(_))));
            words.unlock(0, &[1])?;
        }
        assert!(matches!(words.unlock(next, &[4]), Err(Error::Misuse(_))));
        words.fetch_add(0, &[5], 1)?;
        words.sync_images(&[next, (me + images - 1) % images])?;
        words.sync_all()?;
        assert_eq!((words.get(0, &[2])?, words.atomic_ref(0, &[5])?), (40, 4));
        words.atomic_define(me, &[6], 9)?;
        assert_eq!(words.compare_swap(me, &[6], 9, 10)?, 9);
        // Some ranks only.
        if me % 2 == 1 {
            let odd = Coarray::<u8>::on(world, &Nodes::of(&[1, 3], &[2])?, &[2])?;
            odd.put(1 - odd.this_image(), &[1], 7)?;
            odd.sync_all()?;
            assert_eq!((odd.images(), odd.get(odd.this_image(), &[1])?, odd.rank_of(1)?), (2, 7, 3));
            odd.free()?;
        }
        words.free()
    });
}

#[test]
fn the_checked_mode_says_where_calls_differ() {
    everywhere(3, |world| {
        set_check(world, true);
        let mut array = Array::<f64, 1>::block(world, &[30], &[2])?;
        array.reflect()?;
        assert_eq!(array.sum()?, 0.0);
        let width = |low| Width { low, high: 1, periodic: false };
        let differs = array.reflect_with(&[width(if world.rank() == 2 { 2 } else { 1 })], true).map(drop);
        let Err(Error::Misuse(why)) = differs else { panic!("{differs:?}") };
        assert!(why.contains("rank 0 calls reflect(") && why.contains("and rank 2 calls reflect("), "{why}");
        assert_eq!(why.matches("arrays.rs:").count(), 2, "{why}");
        let differs = if world.rank() == 1 { array.min() } else { array.max() };
        let Err(Error::Misuse(why)) = differs else { panic!("{differs:?}") };
        assert!(why.contains("rank 0 calls max(") && why.contains("rank 1 calls min("), "{why}");
        let differs = Array::<f64, 1>::block(world, &[if world.rank() == 1 { 31 } else { 30 }], &[2]);
        assert!(matches!(differs, Err(Error::Misuse(_))));
        Ok(())
    });
}
