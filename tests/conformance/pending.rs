//! Puts and gets that are begun and not waited for: memory that is owned, borrowed, given up and awaited.

use crate::stage::{patterned, Stage};
use kumiki::{GlobalPtr, Order, Pending};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

const BYTES: usize = 300_000;

/// Wakes the thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: one future, and a thread that sleeps until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

pub(crate) fn pending(stage: &Stage) {
    let world = &stage.world;
    let block = stage.block(2 * BYTES);
    let places = stage.exchange(block.address());
    let next = (stage.me() + 1) % stage.ranks();
    let (mine, theirs) = (block.address(), places[next as usize]);
    let byte = |offset: usize| GlobalPtr::<u8>::from_address(theirs.add(offset as u64));
    let me = u64::from(stage.me());
    // Owned: many at once, of all lengths, and each gives its own memory back.
    let lengths = [0, 1, 16, 17, 4000, 100_000, BYTES];
    for length in lengths {
        let puts: Vec<Pending<'_, u8>> = (0..4)
            .map(|part| {
                let (from, to) = (length * part / 4, length * (part + 1) / 4);
                world.put_vec(byte(from), &patterned(me, length)[from..to]).expect("put")
            })
            .collect();
        let memory: Vec<u8> = puts.into_iter().flat_map(|put| put.complete().expect("complete")).collect();
        assert!(memory == patterned(me, length));
        let mut read = world.get_into(byte(0), vec![0; length]).expect("get");
        while !read.is_complete() {
            world.progress().expect("progress");
        }
        assert!(read.complete().expect("complete") == memory, "{length} bytes");
    }
    // Awaited.
    let read = block_on(async {
        world.put_vec(byte(7), vec![5; 5000])?.await?;
        let handle = world.copy(mine.add(BYTES as u64 + 20_000), theirs, 100, Order::None)?;
        world.completion(handle).await?;
        world.get_into(byte(7), vec![0; 5000])?.await
    });
    assert_eq!(read, Ok(vec![5; 5000]));
    assert!(block_on(async { world.get_into(byte(4 * BYTES), vec![0; 10])?.await }).is_err());
    // Given up: nobody touches the memory, and nothing is left over.
    for _ in 0..20 {
        drop(world.get_into(byte(0), vec![0; BYTES]));
        drop(world.put_vec(byte(BYTES + 40_000), vec![1; 1000]));
    }
    // Borrowed.
    let (mut one, mut other, data) = (vec![0; 1000], vec![0; BYTES], patterned(me + 9, 5000));
    let done = world.scope(|scope| {
        scope.put(byte(BYTES), &data)?;
        scope.get(byte(7), &mut one)?;
        scope.get(byte(0), &mut other)
    });
    assert_eq!((done, &one), (Ok(()), &vec![5; 1000]));
    assert!(other[7..] == world.get_vec(byte(7), BYTES - 7).expect("get"));
    assert!(world.get_vec(byte(BYTES), 5000).expect("get") == data);
    let failed = world.scope(|scope| scope.put(byte(2 * BYTES + 64), &data).map(|()| 5));
    assert!(failed.is_err(), "{failed:?}");
    // One that panics ends what it began, too.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut into = vec![0; BYTES];
        let _ = world.scope(|scope| {
            scope.get(byte(0), &mut into)?;
            std::panic::resume_unwind(Box::new(()));
            #[allow(unreachable_code)]
            Ok(())
        });
    }));
    assert!(panicked.is_err());
    stage.sync();
    stage.complete_all();
    stage.sync();
}
