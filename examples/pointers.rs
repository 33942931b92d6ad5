//! A ring of nodes, one on each rank, each with a pointer to the next: pointers are plain data, and lie in global memory like
//! any other. Rank 0 follows them round; the last rank reads all nodes at once.
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
    if me == ranks - 1 {
        // All reads of a scope are under way together, into memory that it borrows; when it ends, they have ended.
        let mut pointers = vec![GlobalPtr::NULL; ranks as usize];
        world.scope(|scope| {
            (0..).zip(pointers.chunks_mut(1)).try_for_each(|(rank, one)| scope.get(doors.at(rank, 0), one))
        })?;
        let mut nodes = vec![Node { value: 0, rank: 0, next: GlobalPtr::NULL }; ranks as usize];
        world.scope(|scope| {
            pointers.iter().zip(nodes.chunks_mut(1)).try_for_each(|(&pointer, one)| scope.get(pointer, one))
        })?;
        println!("all at once: sum {}", nodes.iter().map(|node| node.value).sum::<u64>());
    }
    // Nobody frees its node while somebody may follow a pointer to it.
    world.sync()?;
    world.finalize()
}
