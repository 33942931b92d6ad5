//! A queue of jobs of very different length: whoever is done takes the next while its result is on its way, and rank 0 prints what was
//! found.
//!
//! `kumiki run -n 4 target/release/examples/work_queue`

use kumiki::{prelude::*, Pending};

/// Starting points in one job; jobs in all.
const STARTS: u64 = 5_000;
const JOBS: u64 = 40;

/// What a job found: plain data, so it can lie in global memory.
#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(C)]
struct Found {
    steps: u64,
    start: u64,
}

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let queue = Counter::shared(&world, 0)?;
    let results = world.shared_array::<Found>(JOBS as usize)?;
    let mut on_its_way: Option<Pending<'_, Found>> = None;
    loop {
        let job = queue.next()?;
        if job >= JOBS {
            break;
        }
        let found = work(job);
        // A result travels while the next job is worked on. (`before.await` waits for it likewise, in an asynchronous program.)
        if let Some(before) = on_its_way.replace(world.put_vec(results.at(0, job as usize), [found])?) {
            before.complete()?;
        }
    }
    on_its_way.map(Pending::complete).transpose()?;
    // Every result of this rank is at its place; now every rank's are.
    world.sync()?;
    if world.rank() == 0 {
        let all = results.to_vec()?;
        let most = all.iter().max_by_key(|found| found.steps).expect("there are jobs");
        println!("of {} numbers, {} takes the most steps to 1: {}", JOBS * STARTS, most.start, most.steps);
    }
    world.finalize()
}

/// The start below which a sequence of Collatz takes the most steps.
fn work(job: u64) -> Found {
    let mut best = Found { steps: 0, start: 0 };
    for start in job * STARTS + 1..=(job + 1) * STARTS {
        let (mut number, mut steps) = (start, 0);
        while number != 1 {
            number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
            steps += 1;
        }
        if steps > best.steps {
            best = Found { steps, start };
        }
    }
    best
}
