//! Arrays on one node, on several, and on both together: copies between distributions, shadows, reductions, and the phases in which they are shared.

use crate::job::Job;
use crate::stage::Stage;
use crate::way::{NODES, SIMULATED};
use kumiki::array::{Align, Array, Coarray, Format, Mapping, Nodes, Shadow, Sub, Template, Width};
use kumiki::{Error, Result, World};
use libtest_mimic::Trial;
use std::sync::Arc;

fn matrix(grid: &[u32], sizes: [u64; 2], formats: [Format; 2], shadows: [Shadow; 2]) -> Result<Arc<Mapping>> {
    let bounds = sizes.map(|size| (0, size as i64 - 1));
    let template = Template::new(&bounds, &formats, &Nodes::grid(grid)?)?;
    Mapping::new(&template, &sizes, &[Align::with(0, 0), Align::with(1, 0)], &shadows)
}

fn value(i: i64, j: i64) -> f64 {
    (i * 1000 + j) as f64
}

/// Every pair of distributions, with messages that are short, and ones that are long.
pub(crate) fn array_copies(stage: &Stage) {
    copies(&stage.world).expect("copies");
}

fn copies(world: &World) -> Result<()> {
    let ranks = world.ranks();
    for sizes in [[5, 7], [61, 203]] {
        let all = || {
            [Format::Block(None), Format::Cyclic(1), Format::Cyclic(3)]
                .into_iter()
                .flat_map(move |format| [[ranks, 1], [1, ranks]].map(|grid| (grid, format.clone())))
        };
        for ((from_grid, from), (to_grid, to)) in
            all().flat_map(|from| all().map(move |to| (from.clone(), to)))
        {
            let from = matrix(&from_grid, sizes, [from.clone(), from], [Shadow::NONE; 2])?;
            let to = matrix(&to_grid, sizes, [to.clone(), to], [Shadow::NONE; 2])?;
            let mut source = Array::<f64, 2>::new(world, &from)?;
            let mut target = Array::<f64, 2>::new(world, &to)?;
            source.update(|[i, j], cell| *cell = value(i, j));
            target.copy_from(&[Sub::All, Sub::All], &source, &[Sub::All, Sub::All])?;
            target.for_each(|[i, j], found| assert_eq!(found, value(i, j)));
            let (rows, columns) = (sizes[0] as i64, sizes[1] as i64);
            let started = target.start_copy_from(
                &[Sub::range(0, rows, 1), Sub::range(columns - 1, columns, -1)],
                &source,
                &[Sub::range(rows - 1, rows, -1), Sub::All],
            )?;
            source.fill(0.0);
            started.finish()?;
            target.for_each(|[i, j], found| assert_eq!(found, value(rows - 1 - i, columns - 1 - j)));
        }
    }
    Ok(())
}

/// Shadows, many times in a row: whoever runs ahead does not overwrite what others have not read.
pub(crate) fn array_shadows(stage: &Stage) {
    shadows(&stage.world).expect("shadows");
}

fn shadows(world: &World) -> Result<()> {
    let grid = if world.ranks().is_multiple_of(2) { [2, world.ranks() / 2] } else { [world.ranks(), 1] };
    let blocks = [Format::Block(None), Format::Block(None)];
    let mapping = matrix(&grid, [40, 30], blocks, [Shadow::both(1), Shadow::both(2)])?;
    let mut array = Array::<f64, 2>::new(world, &mapping)?;
    let ring = Width { low: 1, high: 1, periodic: true };
    for step in 0..100i64 {
        array.update(|[i, j], cell| *cell = value(i, j) + step as f64 / 128.0);
        let bounds = array.bounds();
        let around = match step % 2 {
            0 => array.reflect_with(&[ring, ring], true)?,
            _ => array.start_reflect(&[ring, ring], true)?.finish()?,
        };
        if let Some([(i0, i1), (j0, j1)]) = bounds {
            for (i, j) in (i0 - 1..=i1 + 1).flat_map(|i| [j0 - 1, j0, j1 + 1].map(|j| (i, j))) {
                let wanted = value(i.rem_euclid(40), j.rem_euclid(30)) + step as f64 / 128.0;
                assert_eq!(around[[i, j]], wanted, "{i} {j} in step {step}");
            }
        }
    }
    assert_eq!(array.max_at()?.1, [39, 29]);
    array.fill(1.0);
    assert_eq!(array.sum()?, 1200.0);
    Ok(())
}

/// Copies that go in several messages to each rank: again and again, several at a time, given up, within one array, and of some ranks only.
pub(crate) fn array_rounds(stage: &Stage) {
    rounds(&stage.world).expect("rounds");
}

fn rounds(world: &World) -> Result<()> {
    let (ranks, all) = (world.ranks(), [const { Sub::All }; 2]);
    let (rows, columns) = (1500, 1100);
    let blocks = || [Format::Block(None), Format::Block(None)];
    let from = matrix(&[ranks, 1], [rows, columns], blocks(), [Shadow::NONE; 2])?;
    let turns =
        matrix(&[1, ranks], [rows, columns], [Format::Block(None), Format::Cyclic(1)], [Shadow::NONE; 2])?;
    let across = matrix(&[ranks, 1], [columns, rows], blocks(), [Shadow::NONE; 2])?;
    let mut source = Array::<f64, 2>::new(world, &from)?;
    let (mut turned, mut dealt) = (source.beside::<f64, 2>(&across)?, source.beside::<f64, 2>(&turns)?);
    let mut other = dealt.like()?;
    for step in 0..4 {
        let now = move |i: i64, j: i64| value(i, j) + 0.25 * f64::from(step);
        source.update(|[i, j], cell| *cell = now(i, j));
        turned.transpose_from(&source)?;
        turned.for_each(|[j, i], found| assert_eq!(found, now(i, j)));
        let first = dealt.start_copy_from(&all, &source, &all)?;
        let given_up = other.start_copy_from(&all, &source, &all)?;
        source.update(|_, cell| *cell += 1000.0);
        turned.transpose_from(&source)?;
        drop(given_up);
        // Not all finish it at the same time.
        if world.rank().is_multiple_of(2) {
            first.finish()?;
            other.copy_from(&all, &source, &all)?;
        } else {
            while !first.is_done() {
                world.progress()?;
            }
            first.finish()?;
            other.copy_from(&all, &source, &all)?;
        }
        turned.for_each(|[j, i], found| assert_eq!(found, now(i, j) + 1000.0));
        dealt.for_each(|[i, j], found| assert_eq!(found, now(i, j)));
        other.for_each(|[i, j], found| assert_eq!(found, now(i, j) + 1000.0));
    }
    // It is as if all were read before anything is written.
    source.update(|[i, j], cell| *cell = value(i, j));
    source.copy_inside(&[Sub::from(400..1500), Sub::All], &[Sub::from(0..1100), Sub::All])?;
    source.for_each(|[i, j], found| assert_eq!(found, value(if i < 400 { i } else { i - 400 }, j)));
    // A shadow of more than one message, added back.
    let wide = 50_000;
    let template = Template::new(&[(0, 4 * wide - 1)], &[Format::Block(None)], &Nodes::line(ranks))?;
    let line =
        Mapping::new(&template, &[4 * wide as u64], &[Align::with(0, 0)], &[Shadow::both(wide as u64)])?;
    let mut line = Array::<i64, 1>::new(world, &line)?;
    let ring = [Width { low: wide as u64, high: wide as u64, periodic: true }];
    for step in 0..3 {
        line.update(|[i], cell| *cell = i + step);
        let around = line.reflect_with(&ring, true)?;
        if let Some([(low, high)]) = around.bounds() {
            for i in [low - wide, low - 1, low, high, high + 1, high + wide] {
                assert_eq!(around[[i]], i.rem_euclid(4 * wide) + step);
            }
        }
        line.reduce_shadow(&ring, true)?;
        line.for_each(|[i], found| assert_eq!(found, 3 * (i + step)));
    }
    // Some ranks by themselves.
    let half = Nodes::line(ranks).subset(&[Sub::from(0..i64::from(ranks / 2))], world.rank())?;
    if half.ranks().any(|rank| rank == world.rank()) {
        let template = Template::new(&[(0, 999)], &[Format::Block(None)], &half)?;
        let some = Mapping::new(
            &template,
            &[1000, 1000],
            &[Align::with(0, 0), Align::COLLAPSED],
            &[Shadow::NONE; 2],
        )?;
        let mut some = Array::<f64, 2>::new(world, &some)?;
        some.update(|[i, j], cell| *cell = value(i, j));
        let mut other = some.like()?;
        other.transpose_from(&some)?;
        other.for_each(|[j, i], found| assert_eq!(found, value(i, j)));
    }
    Ok(())
}

/// Copies that go one way, to a rank that comes late to all of them: more than it has given credit for. Then all do something together that is no message.
pub(crate) fn array_late(stage: &Stage) {
    late(stage).expect("late");
}

fn late(stage: &Stage) -> Result<()> {
    let world = &stage.world;
    let ranks = i64::from(world.ranks());
    let line = |size: i64| {
        let line = Template::new(&[(0, size - 1)], &[Format::Block(None)], &Nodes::line(world.ranks()))?;
        Mapping::new(&line, &[size as u64], &[Align::with(0, 0)], &[Shadow::NONE])
    };
    // One message, two, and one with little behind it.
    for (bytes, times) in [(16 << 10, 20), (600 << 10, 3), (516 << 10, 3)] {
        let side = bytes / 8;
        let mut source = Array::<i64, 1>::new(world, &line(ranks * side)?)?;
        let mut target = source.beside::<i64, 1>(&line(2 * ranks * side)?)?;
        source.update(|[i], cell| *cell = i + 1);
        // From the first rank to the last, side by side and in every other place.
        for step in [1, 2] {
            let right = [Sub::from(0..side)];
            let left = [Sub::range(2 * (ranks - 1) * side, side, step)];
            target.update(|_, cell| *cell = 0);
            if world.rank() + 1 == world.ranks() && stage.way.nodes != SIMULATED {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            for _ in 0..times {
                target.copy_from(&left, &source, &right)?;
            }
            target.start_copy_from(&left, &source, &right)?.finish()?;
            let sum = target.sum()?;
            assert_eq!(sum, side * (side + 1) / 2, "{bytes} bytes, step {step}");
            target.for_each(|[i], found| {
                let at = i - 2 * (ranks - 1) * side;
                let is_in = at >= 0 && at % step == 0 && at / step < side;
                assert_eq!(found, if is_in { at / step + 1 } else { 0 });
            });
        }
    }
    Ok(())
}

/// Copies in which one rank gets much and sends little, and another the other way round.
pub(crate) fn array_uneven(stage: &Stage) {
    uneven(&stage.world).expect("uneven");
}

fn uneven(world: &World) -> Result<()> {
    let (ranks, side) = (world.ranks(), 1500);
    let sizes = |last: u64| {
        let others = (side - last) / u64::from(ranks - 1).max(1);
        let mut sizes = vec![others; ranks as usize];
        sizes[ranks as usize - 1] = side - others * u64::from(ranks - 1);
        Format::Irregular(sizes.into())
    };
    let all = [const { Sub::All }; 2];
    let columns =
        matrix(&[1, ranks], [side; 2], [Format::Block(None), Format::Block(None)], [Shadow::NONE; 2])?;
    let mut source = Array::<f64, 2>::new(world, &columns)?;
    source.update(|[i, j], cell| *cell = value(i, j));
    for last in [50, 1400] {
        let rows = matrix(&[ranks, 1], [side; 2], [sizes(last), Format::Block(None)], [Shadow::NONE; 2])?;
        let mut target = source.beside::<f64, 2>(&rows)?;
        for _ in 0..2 {
            target.copy_from(&all, &source, &all)?;
            target.for_each(|[i, j], found| assert_eq!(found, value(i, j)));
        }
        let mut back = source.like()?;
        back.copy_from(&all, &target, &all)?;
        back.for_each(|[i, j], found| assert_eq!(found, value(i, j)));
        target.start_copy_from(&all, &source, &all)?.finish()?;
        target.for_each(|[i, j], found| assert_eq!(found, value(i, j)));
    }
    Ok(())
}

/// Under a budget, with less and less of it left: some messages are packed into memory of the arena, and others are not.
pub(crate) fn array_budget(stage: &Stage) {
    little_left(stage).expect("little left");
}

const BUDGET: usize = 48 << 20;

fn little_left(stage: &Stage) -> Result<()> {
    let (world, size) = (&stage.world, 1 << 20);
    let line = |format| {
        let template = Template::new(&[(0, size - 1)], &[format], &Nodes::line(world.ranks()))?;
        Mapping::new(&template, &[size as u64], &[Align::with(0, 0)], &[Shadow::NONE])
    };
    let mut source = Array::<f64, 1>::new(world, &line(Format::Cyclic(1))?)?;
    let mut target = source.beside::<f64, 1>(&line(Format::Block(None))?)?;
    for left in (4..12).rev().flat_map(|mebi| [mebi << 20, (mebi << 20) - (300 << 10)]) {
        let free = match world.alloc::<u8>(BUDGET) {
            Err(Error::OutOfMemory { left, .. }) => left,
            other => panic!("the budget is not what it was: {other:?}"),
        };
        let hog = world.alloc::<u8>((free - left) as usize).expect("most of the budget");
        for step in 0..3 {
            source.update(|[i], cell| *cell = value(i, step));
            target.copy_from(&[Sub::All], &source, &[Sub::All])?;
            target.for_each(|[i], found| assert_eq!(found, value(i, step), "{left} bytes left"));
            world.sync()?;
        }
        drop(hog);
        world.sync()?;
    }
    Ok(())
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |way: &'static crate::way::Way| {
        Trial::test(format!("{}::array_budget", way.name), move || {
            Job::new(way, "array_budget", 2).env("KUMIKI_BUDGET", &BUDGET.to_string()).run().success()
        })
    };
    NODES.iter().map(trial).collect()
}

/// Phases in which any rank reads and writes any element, and coarrays.
pub(crate) fn array_sharing(stage: &Stage) {
    sharing(&stage.world).expect("sharing");
}

fn sharing(world: &World) -> Result<()> {
    let (me, ranks) = (i64::from(world.rank()), world.ranks());
    let mapping = matrix(&[ranks, 1], [20, 30], [Format::Cyclic(2), Format::Block(None)], [Shadow::NONE; 2])?;
    let mut array = Array::<u64, 2>::new(world, &mapping)?;
    array.share(|shared| shared.put_section(&[Sub::All, Sub::Index(me)], &[me as u64 + 1; 20]))?;
    array.for_each(|[_, j], found| assert_eq!(found, if j < i64::from(ranks) { j as u64 + 1 } else { 0 }));
    let total = array.share(|shared| Ok(shared.get_section(&[Sub::All, Sub::All])?.iter().sum::<u64>()))?;
    assert_eq!(total, 20 * u64::from(ranks * (ranks + 1) / 2));
    array.copy_inside(&[Sub::All, Sub::from(1..30)], &[Sub::All, Sub::from(0..29)])?;
    let mut line = Array::<i64, 1>::block(world, &[1000], &[0])?;
    line.update(|[i], cell| *cell = i * 7919 % 1000);
    line.sort()?;
    line.for_each(|[i], found| assert_eq!(found, i));
    let field = Coarray::<u64>::new(world, &[4, 600])?;
    let next = (field.this_image() + 1) % field.images();
    field.put_section(next, &[Sub::from(1..4), Sub::range(0, 300, 2)], &[7; 900])?;
    field.post(next, &[0, 0])?;
    field.wait_event(&[0, 0], 1)?;
    let own = field.get_section(field.this_image(), &[Sub::from(1..4), Sub::All])?;
    assert_eq!(own.iter().sum::<u64>(), 6300);
    for _ in 0..5 {
        field.lock(0, &[0, 1])?;
        let count = field.get(0, &[0, 2])?;
        field.put(0, &[0, 2], count + 1)?;
        field.unlock(0, &[0, 1])?;
    }
    field.sync_all()?;
    assert_eq!(field.get(0, &[0, 2])?, 5 * u64::from(ranks));
    field.free()
}
