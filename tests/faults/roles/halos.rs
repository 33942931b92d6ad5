//! A ring of ranks that exchange a halo again and again: for so many steps, or until one of them is killed.

use super::{all_are_here, argument, is_here, report, say};
use kumiki::comm::HaloOptions;
use kumiki::{Result, World};

pub(crate) fn play() -> Result<()> {
    let world = World::init()?;
    let (me, ranks) = (world.rank(), world.ranks());
    let group = world.group()?;
    let mut halo = group.cartesian(&[ranks], &[true])?.halo::<u64>(&[1000], HaloOptions::width(3))?;
    is_here(&world, 50)?;
    if me == 0 {
        all_are_here(&world, 50)?;
        say("ready");
    }
    let mut field = vec![0; halo.len()];
    let has_thread = argument("FAULTS_WHAT") == "thread";
    let mut step = |step: u64| -> Result<()> {
        field.fill(step * 10 + u64::from(me));
        match has_thread {
            true => halo.overlap(&mut field, |_| ())?,
            false => halo.exchange(&mut field)?,
        }
        let beside = [(0, (me + ranks - 1) % ranks), (1005, (me + 1) % ranks)];
        for (at, rank) in beside {
            if field[at] != step * 10 + u64::from(rank) {
                say(&format!("wrong: {} of step {step} from rank {rank}", field[at]));
            }
        }
        Ok(())
    };
    if let Ok(steps) = argument("FAULTS_STEPS").parse() {
        (0..steps).try_for_each(step)?;
        say("right");
        halo.free()?;
        group.free()?;
        return world.finalize();
    }
    let lost = (0..).map(&mut step).find(Result::is_err).unwrap_or(Ok(()));
    report("exchange", &lost);
    report("later", &step(0));
    drop(halo);
    drop(group);
    // The world has lost a rank.
    world.finalize().or(Ok(()))
}

/// Two ranks that exchange wide halos a few times, and then say what has left their node on each of its networks.
pub(crate) fn wide() -> Result<()> {
    const CELLS: usize = 1 << 19;
    let world = World::init()?;
    let group = world.group()?;
    let grid = group.cartesian(&[2, 1], &[true, false])?;
    let mut halo = grid.halo::<u64>(&[2, CELLS], HaloOptions::sides(&[[1, 1], [0, 0]]))?;
    let mut field = vec![0; halo.len()];
    world.sync()?;
    say("ready");
    let before = sent_bytes();
    for step in 0..4 {
        field.fill(step * 10 + u64::from(world.rank()));
        halo.exchange(&mut field)?;
        let other = step * 10 + u64::from(1 - world.rank());
        let (first, last) = (&field[..CELLS], &field[3 * CELLS..]);
        assert!(first.iter().chain(last).all(|&cell| cell == other), "a wrong ghost cell in step {step}");
    }
    world.sync()?;
    let after = sent_bytes();
    say(&format!("sent {} {}", after[0] - before[0], after[1] - before[1]));
    halo.free()?;
    group.free()?;
    world.finalize()
}

/// Bytes that this node has sent on each of its two networks, so far.
fn sent_bytes() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/net/dev").expect("a list of devices");
    ["eth0:", "eth1:"].map(|name| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).expect("a device");
        line.split_whitespace().nth(9).and_then(|bytes| bytes.parse().ok()).expect("a number of bytes")
    })
}
