//! A ring of nodes, one on each rank, each with a pointer to the next: pointers are plain data, and lie in global memory like
//! any other. Rank 0 follows them round.
//!
//! `kumiki run -n 4 target/release/examples/pointers`

use kumiki::prelude::*;

#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(C)]
struct Node {
    value: u64,
    rank: u64,
    next: GlobalPtr<Node>,
}

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let (me, ranks) = (world.rank(), world.ranks());
    // Each rank has its node wherever its memory happens to be, and hangs it in front of the next rank's door.
    let node = world.alloc::<Node>(1)?;
    let doors = world.shared_array::<GlobalPtr<Node>>(1)?;
    world.put(doors.at((me + ranks - 1) % ranks, 0), node.ptr())?;
    world.sync()?;
    let next = doors.get(0)?;
    world.put(node.ptr(), Node { value: u64::from(me * me), rank: me.into(), next })?;
    world.sync()?;

    if me == 0 {
        let (mut at, mut sum) = (node.ptr(), 0);
        loop {
            let here = world.get(at)?;
            println!("rank {} has {}", here.rank, here.value);
            sum += here.value;
            at = here.next;
            if at == node.ptr() {
                break;
            }
        }
        println!("sum {sum}");
    }
    // Nobody frees its node while somebody may follow a pointer to it.
    world.sync()?;
    world.finalize()
}
