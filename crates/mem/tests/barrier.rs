//! Barriers between nodes, over a transport that is a queue in this process: what ranks come for, and what happens when
//! their signals cannot be sent.

use kumiki_mem::{Attachment, Error, Rank, Result, World};
use kumiki_net::auth::JobId;
use kumiki_net::contract::{
    Capabilities, Closing, Fault, Footprint, Message, Outbox, Sink, Sleeper, Transport,
};
use kumiki_net::shm::arena::Arena;
use kumiki_net::terms::Terms;
use kumiki_net::wire::Header;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long a wait that must end may take; only a test that fails gets there.
const LIMIT: Duration = Duration::from_secs(60);

/// What lies between the ranks.
struct Post {
    boxes: Mutex<Vec<VecDeque<(Rank, Header)>>>,
    changed: Condvar,
    /// For each rank whether its next message cannot be sent, for a reason of its own.
    refuses: Vec<AtomicBool>,
}

struct Link {
    post: Arc<Post>,
    rank: Rank,
}

impl Transport for Link {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { serves_by_itself: true, ..Capabilities::default() }
    }

    fn send(&mut self, to: Rank, message: Message, _: &mut dyn Sink) -> kumiki_net::Result<()> {
        if self.post.refuses[self.rank.index()].swap(false, Ordering::Relaxed) {
            return Err(kumiki_net::Error::System { call: "connect", errno: 24 });
        }
        self.post.boxes.lock().unwrap()[to.index()].push_back((self.rank, message.header));
        self.post.changed.notify_all();
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> kumiki_net::Result<usize> {
        let mut happened = 0;
        loop {
            let next = self.post.boxes.lock().unwrap()[self.rank.index()].pop_front();
            let Some((from, header)) = next else { return Ok(happened) };
            happened += 1;
            let mut out = Outbox::default();
            sink.frame(from, 0, &header, &mut out);
            for (to, message) in out.messages {
                self.send(to, message, sink)?;
            }
        }
    }

    fn sleeper(&self) -> Option<Arc<dyn Sleeper>> {
        Some(Arc::new(Nap(self.post.clone(), self.rank)))
    }

    fn wake_up_at(&self) -> Option<u64> {
        None
    }

    fn close(&mut self, _: &mut dyn Sink) -> Closing {
        Closing::Closed
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    fn inject(&mut self, _: Rank, _: Fault) {}
}

struct Nap(Arc<Post>, Rank);

impl Sleeper for Nap {
    fn sleep(&self, timeout_ms: i32) -> kumiki_net::Result<()> {
        let boxes = self.0.boxes.lock().unwrap();
        let limit = Duration::from_millis(timeout_ms.max(0) as u64);
        let empty = |boxes: &mut Vec<VecDeque<_>>| boxes[self.1.index()].is_empty();
        let _ = self.0.changed.wait_timeout_while(boxes, limit, empty).unwrap();
        Ok(())
    }

    fn wake(&self) {
        self.0.changed.notify_all();
    }
}

/// Attachments of so many ranks, each on a node of its own.
fn attachments(ranks: u32) -> (Arc<Post>, Vec<Attachment>) {
    let terms = Terms { peer_timeout_ms: 60_000, allow_process_vm: 0, ..Terms::default() };
    let arenas = Arena::apart(1, ranks, terms).unwrap();
    let post = Arc::new(Post {
        boxes: Mutex::new(vec![VecDeque::new(); ranks as usize]),
        changed: Condvar::new(),
        refuses: (0..ranks).map(|_| AtomicBool::new(false)).collect(),
    });
    let attach = |(rank, arena): (u32, Arena)| {
        let link = Link { post: post.clone(), rank: Rank(rank) };
        Attachment::new(Arc::new(arena), Rank(rank), Some(Box::new(link)), JobId(1))
    };
    let attachments = (0..).zip(arenas).map(attach).collect();
    (post, attachments)
}

/// Runs each rank in a thread; gives what they came to.
fn run<T: Send>(ranks: u32, body: impl Fn(World, &Post) -> T + Sync) -> Vec<T> {
    let (post, attachments) = attachments(ranks);
    std::thread::scope(|scope| {
        let start = |attachment| {
            let (post, body) = (&*post, &body);
            scope.spawn(move || body(World::attach(attachment, &[]).unwrap(), post))
        };
        let threads: Vec<_> = attachments.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn is_left_by(result: &Result<()>, leaver: u32) -> bool {
    matches!(result, Err(Error::PeerLost { rank, why, .. }) if *rank == leaver && why.contains("it finalized"))
}

#[test]
fn a_finalize_of_one_node_never_satisfies_the_sync_of_another() {
    for (ranks, leaver) in [(2, 0), (2, 1), (3, 1), (4, 3), (5, 0), (6, 4)] {
        let seen = run(ranks, |world, _| match world.rank() == leaver {
            true => world.finalize(),
            false => {
                let first = world.sync();
                assert!(is_left_by(&world.sync(), leaver), "it stays so");
                first
            }
        });
        for (rank, result) in (0..).zip(&seen) {
            let right = match rank == leaver {
                true => matches!(result, Err(Error::Misuse(why)) if why.starts_with("finalize: ")),
                false => is_left_by(result, leaver),
            };
            assert!(right, "{ranks} ranks, rank {leaver} leaves, rank {rank}: {result:?}");
        }
    }
}

#[test]
fn who_comes_late_to_a_barrier_that_is_broken_is_told_at_once() {
    let (tell, told) = channel();
    let told = Mutex::new(told);
    let seen = run(3, |world, _| match world.rank() {
        0 => world.finalize(),
        // Its neighbour on the ring has finalized: it does not wait for the third.
        1 => {
            let seen = world.sync();
            tell.send(()).unwrap();
            seen
        }
        _ => {
            told.lock().unwrap().recv_timeout(LIMIT).unwrap();
            world.sync()
        }
    });
    assert!(is_left_by(&seen[1], 0) && is_left_by(&seen[2], 0), "{seen:?}");
    assert!(matches!(seen[0], Err(Error::Misuse(_))), "{seen:?}");
}

#[test]
fn a_barrier_that_was_given_up_is_finished_before_a_finalize() {
    let (tell, told) = channel();
    let told = Mutex::new(told);
    let seen = run(2, |world, _| {
        if world.rank() == 0 {
            assert!(matches!(world.sync_for(Duration::from_millis(1)), Err(Error::Timeout { .. })));
            tell.send(()).unwrap();
        } else {
            told.lock().unwrap().recv_timeout(LIMIT).unwrap();
            world.sync()?;
        }
        world.finalize()
    });
    assert!(seen.iter().all(|result| result.is_ok()), "{seen:?}");
}

#[test]
fn a_sync_that_failed_for_a_reason_of_its_own_does_not_arrive_twice() {
    let (tell, told) = channel();
    let told = Mutex::new(told);
    let seen = run(2, |world, post| {
        if world.rank() == 0 {
            post.refuses[0].store(true, Ordering::Relaxed);
            let failed = world.sync();
            assert!(matches!(failed, Err(Error::System { .. })), "{failed:?}");
            // The same barrier, and not the next one, which rank 1 comes to later.
            world.sync_for(LIMIT)?;
            assert!(matches!(world.sync_for(Duration::from_millis(1)), Err(Error::Timeout { .. })));
            tell.send(()).unwrap();
        } else {
            world.sync_for(LIMIT)?;
            told.lock().unwrap().recv_timeout(LIMIT).unwrap();
        }
        world.sync()?;
        world.finalize()
    });
    assert!(seen.iter().all(|result| result.is_ok()), "{seen:?}");
}
