//! Large copies into and out of private memory of a neighbour, of which the neighbour takes a share while it waits for something.
//!
//! The system copies such memory at the speed of one core, while the core of the neighbour, whose turn is next, looks for it to be done. So
//! the neighbour is offered a share (the protocol is in `net/src/shm/haul.rs`): it copies the same bytes, from its side.
//!
//! Whoever has offered a share waits for a neighbour that has taken it, and may have been stopped just then: nothing else is known to keep it from
//! writing later. So only copies are shared that the neighbour has a part in: of messages that it has sent, and in collectives. A
//! program that reads memory of another rank waits for nobody.

use crate::node::access::{libc_errno, Private, Reach};
use crate::node::address::{GlobalAddress, Registration};
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::os::memory::{self, Direction, PAGE_BYTES};
use kumiki_net::os::{futex, process, time};
use kumiki_net::shm::control::Activity;
use kumiki_net::shm::haul::{Offered, Pieces, Share, ABOUT_WORDS, MOST_PIECES};
use kumiki_net::Rank;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// A copy of fewer bytes is over before anybody comes.
const LEAST_BYTES: u64 = 64 << 10;
/// Bytes of a piece: an eighth of all, between these two. A rank that waits is kept by one for so long.
const LEAST_PIECE: u64 = 32 << 10;
const MOST_PIECE: u64 = 256 << 10;
/// For a copy of so many bytes and more a neighbour that sleeps while it waits is woken.
const WAKES_BYTES: u64 = 1 << 20;
/// Turns between two looks at whether the neighbour lives, while it is at its last piece.
const LIFE_TURNS: u32 = 1024;
/// Whoever waits for that for so long tells others, and sleeps between two looks.
const LONG_MS: u64 = 2;
/// After so many copies in a row of which neighbours have taken a piece and not done it they are not asked again.
pub(super) const MOST_FAILURES: u32 = 8;

/// What a haul is about, as both sides know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct About {
    /// The rank that offers it, and what that does with the neighbour's memory.
    rank: Rank,
    direction: Direction,
    /// The neighbour's memory: its global address, and the registration that it must be of.
    address: GlobalAddress,
    generation: u16,
    /// The memory of the rank, in its process.
    place: u64,
    bytes: u64,
    piece: u64,
}

impl About {
    fn words(self) -> [u64; ABOUT_WORDS] {
        let writes = u64::from(self.direction == Direction::Write);
        let what = u64::from(self.rank.0) << 32 | writes << 16 | u64::from(self.generation);
        [what, self.address.bits(), self.place, self.bytes, self.piece]
    }

    fn from_words([what, address, place, bytes, piece]: [u64; ABOUT_WORDS]) -> About {
        About {
            rank: Rank((what >> 32) as u32),
            direction: if what >> 16 & 1 == 1 { Direction::Write } else { Direction::Read },
            generation: what as u16,
            address: GlobalAddress::from_bits(address),
            place,
            bytes,
            piece,
        }
    }

    /// Where a piece begins, and how long it is. `None` if there is no such piece.
    fn part(self, index: u64) -> Option<(u64, u64)> {
        let start = self.piece.checked_mul(index).filter(|start| *start < self.bytes)?;
        Some((start, (self.bytes - start).min(self.piece)))
    }
}

/// How long the pieces of a copy are.
fn piece_of(bytes: u64) -> u64 {
    let piece = bytes.div_ceil(8).clamp(LEAST_PIECE, MOST_PIECE).max(bytes.div_ceil(MOST_PIECES));
    piece.next_multiple_of(PAGE_BYTES)
}

impl Node {
    /// Reads much private memory of a neighbour that waits until this is done. False if that is not what this is, or could not be done.
    pub(crate) fn get_awaited(
        &self,
        from: GlobalAddress,
        registration: Registration,
        into: &mut [u8],
    ) -> bool {
        let (bytes, into) = (into.len() as u64, into.as_mut_ptr());
        let from = self.awaited(from, registration, bytes);
        // SAFETY: the destination is the caller's.
        from.is_some_and(
            |from| unsafe { self.copy_neighbour(from, Direction::Read, into, bytes, true) } == Ok(true),
        )
    }

    /// Writes, likewise.
    pub(crate) fn put_awaited(&self, to: GlobalAddress, registration: Registration, values: &[u8]) -> bool {
        let (bytes, values) = (values.len() as u64, values.as_ptr().cast_mut());
        let to = self.awaited(to, registration, bytes).filter(|to| to.is_writable());
        // SAFETY: the values are only read.
        to.is_some_and(
            |to| unsafe { self.copy_neighbour(to, Direction::Write, values, bytes, true) } == Ok(true),
        )
    }

    /// Private memory of a neighbour of which so much is copied that it is worth sharing.
    fn awaited(&self, address: GlobalAddress, registration: Registration, bytes: u64) -> Option<Private> {
        if bytes < LEAST_BYTES || self.hauls_left.load(Ordering::Relaxed) == 0 {
            return None;
        }
        match self.reach(address, registration, bytes) {
            Ok(Reach::Private(private)) if private.local() != self.local => Some(private),
            _ => None,
        }
    }

    /// Copies between memory of this process and private memory of a neighbour, and lets that take a share if it waits. `Ok(false)` when the
    /// system does not allow it.
    ///
    /// # Safety
    /// As [`copy_neighbour`](Self::copy_neighbour), with the region pinned.
    pub(super) unsafe fn copy_together(
        &self,
        neighbour: Private,
        direction: Direction,
        local: *mut u8,
        bytes: u64,
    ) -> Result<bool> {
        // SAFETY: each part lies in what the caller vouches for.
        let copy = |start: u64, bytes| unsafe {
            self.copy_pinned(neighbour.add(start), direction, local.add(start as usize), bytes)
        };
        let Some(control) = self.arena.control(neighbour.local()) else { return copy(0, bytes) };
        let about = About {
            rank: self.rank,
            direction,
            address: neighbour.address(),
            generation: neighbour.generation(),
            place: local as u64,
            bytes,
            piece: piece_of(bytes),
        };
        let pieces = bytes.div_ceil(about.piece);
        // One that only counts as gone may still be at it.
        let is_gone = |rank| !self.is_alive(rank) && self.has_ended(rank);
        let Some(offered) = control.haul.offer(self.rank, is_gone, about.words(), pieces) else {
            return copy(0, bytes);
        };
        if bytes >= WAKES_BYTES {
            self.ring_if_any(neighbour.local());
        }
        let (mut copied, mut own) = (Ok(true), 0);
        while let Some(index) = offered.claim() {
            // Another one than the next is nobody's to give.
            let Some((start, bytes)) = about.part(own).filter(|_| index == own) else { break };
            copied = copy(start, bytes);
            own += 1;
            if copied != Ok(true) {
                break;
            }
        }
        // What stands there was written by others if it does not fit what was claimed here: then nothing else counts as done.
        let first = offered.close();
        let shared = first.map_or(Pieces::Failed, |first| self.await_pieces(&offered, first, neighbour));
        offered.end();
        if copied != Ok(true) {
            return copied;
        }
        if first == Some(own) && shared == Pieces::Done {
            if own != pieces {
                self.hauls_left.store(MOST_FAILURES, Ordering::Relaxed);
            }
            return copied;
        }
        let one_less = |left: u32| left.checked_sub(1);
        let _ = self.hauls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        // What the neighbour has not done is done here, and what is wrong with it found.
        let start = (own * about.piece).min(bytes);
        copy(start, bytes - start)
    }

    /// Waits until the pieces are over that others have claimed. They are not before the neighbour has said so, or its process is gone, whatever
    /// is said of the rank: it may be writing to memory of this process.
    fn await_pieces(&self, offered: &Offered<'_>, first: u64, neighbour: Private) -> Pieces {
        let (mut turns, mut since_ms, mut is_long) = (0u32, 0, false);
        let pieces = loop {
            let pieces = offered.pieces(first);
            if pieces != Pieces::UnderWay {
                break pieces;
            }
            std::hint::spin_loop();
            turns = turns.wrapping_add(1);
            if !turns.is_multiple_of(LIFE_TURNS) && !is_long {
                continue;
            }
            // It has lost the processor meanwhile, or its life. Who sees to it that this is known may be gone with it.
            if self.is_ended(neighbour) {
                break Pieces::Failed;
            }
            process::yield_now();
            let now_ms = time::now_ms();
            since_ms = if since_ms == 0 { now_ms } else { since_ms };
            if is_long {
                futex::wait(&AtomicU32::new(0), 0, 1);
            } else if now_ms - since_ms > LONG_MS {
                is_long = true;
                self.control().begin_wait(Activity::Complete, neighbour.rank().0, since_ms);
            }
        };
        if is_long {
            self.control().end_wait();
        }
        pieces
    }

    /// Whether no thread of a neighbour's process can be at its memory any more, which is pinned.
    fn is_ended(&self, neighbour: Private) -> bool {
        // It may have become another program, which has no such memory.
        let is_elsewhere = || matches!(neighbour.probe(self.pid_of(neighbour.local())), Ok(0) | Err(_));
        self.has_ended(neighbour.rank()) || !self.is_alive(neighbour.rank()) && is_elsewhere()
    }

    /// Whether the process of a rank of this node has ended, with all its threads. Nobody else is believed about that.
    fn has_ended(&self, rank: Rank) -> bool {
        let place = self.arena.place(rank).map(|word| word.load()).filter(|place| place.node == self.node);
        let Some(place) = place else { return true };
        match process::open_pidfd(self.pid_of(place.local)) {
            Ok(process) => process::has_ended(process.as_fd()),
            Err(kumiki_net::Error::System { errno, .. }) => errno == libc_errno::ESRCH,
            Err(_) => false,
        }
    }

    fn pid_of(&self, local: u32) -> i32 {
        self.arena.control(local).map_or(0, |control| control.pid.load(Ordering::Relaxed)) as i32
    }

    /// Does a piece of a haul that a neighbour has offered, if there is one: what whoever waits does meanwhile. Whether there was.
    #[inline]
    pub(crate) fn helps(&self) -> bool {
        self.control().haul.has_pieces() && self.take_share()
    }

    #[cold]
    fn take_share(&self) -> bool {
        // Whoever cannot do it leaves it to the one who offers it.
        if self.check_usable().is_err() || !self.may_copy() {
            return false;
        }
        let Some(share) = self.control().haul.claim() else { return false };
        if self.copy_share(&share).is_ok() {
            share.finish();
            self.shares.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    fn copy_share(&self, share: &Share<'_>) -> Result<()> {
        let about = About::from_words(share.about);
        let rank = about.rank;
        let wrong = || Error::misuse(format!("{rank} shares a copy that cannot be"));
        let (start, bytes) = about.part(share.piece).ok_or_else(wrong)?;
        let registration = Registration::of_generation(about.generation);
        let reach = self.reach(about.address.add(start), registration, bytes)?;
        let reach = if about.direction == Direction::Write { reach.check_writable(bytes)? } else { reach };
        let (Reach::Direct(own), Some(_pin)) = self.try_pin_own(reach)? else { return Err(wrong()) };
        let place = self.arena.place(rank).map(|word| word.load()).ok_or_else(wrong)?;
        // It may be gone since it offered this, and its number that of another process.
        self.check_alive(rank, place)?;
        // This process copies nothing between places of its own for others.
        let is_neighbour = place.node == self.node && place.local != self.local;
        let control = self.arena.control(place.local).filter(|_| is_neighbour).ok_or_else(wrong)?;
        let pid = control.pid.load(Ordering::Relaxed) as i32;
        let opposite = if about.direction == Direction::Write { Direction::Read } else { Direction::Write };
        // SAFETY: the memory here was checked for `bytes`, and is pinned; the rank has said that the memory there is the other side of its copy,
        // and waits until this piece is over.
        let moved = unsafe { copy_whole(pid, opposite, own, about.place.wrapping_add(start), bytes) };
        match moved {
            Ok(moved) if moved == bytes => Ok(()),
            Ok(_) => Err(wrong()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Copies all, or as much as the system can: how much that is.
///
/// # Safety
/// As [`memory::copy_process`].
pub(super) unsafe fn copy_whole(
    pid: i32,
    direction: Direction,
    local: *mut u8,
    remote: u64,
    bytes: u64,
) -> kumiki_net::Result<u64> {
    let mut done = 0;
    while done < bytes {
        let piece = (bytes - done).min(1 << 30) as usize;
        // SAFETY: `local` is valid for `bytes`, of which `done` are behind us.
        match unsafe { memory::copy_process(pid, direction, local.add(done as usize), remote + done, piece)? }
        {
            0 => break,
            moved => done += moved as u64,
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::two_of_a_node;
    use kumiki_net::shm::region::Kind;
    use kumiki_net::shm::world::{Cause, Status};
    use std::sync::atomic::{AtomicBool, AtomicU64};

    const BYTES: usize = 300_000;

    /// Two ranks, and memory of the second of them: what the first knows of it.
    struct Pair {
        nodes: [Node; 2],
        theirs: Vec<u8>,
        slot: u16,
        generation: u16,
    }

    impl Pair {
        fn new(kind: Kind) -> Pair {
            let nodes = two_of_a_node(2);
            for node in &nodes {
                node.control().pid.store(std::process::id(), Ordering::Relaxed);
            }
            let mut theirs = pattern(7);
            let granted = nodes[1].register(theirs.as_mut_ptr(), BYTES as u64, kind, 0).unwrap();
            Pair { nodes, theirs, slot: granted.slot, generation: granted.generation }
        }

        fn address(&self) -> GlobalAddress {
            self.nodes[0].format.address(Rank(1), self.slot, 0)
        }

        fn private(&self) -> Private {
            match self.nodes[0].reach(self.address(), Registration::ANY, BYTES as u64) {
                Ok(Reach::Private(private)) => private,
                other => panic!("{other:?}"),
            }
        }

        fn about(&self, direction: Direction, own: &mut [u8]) -> About {
            About {
                rank: Rank(0),
                direction,
                address: self.address(),
                generation: self.generation,
                place: own.as_mut_ptr() as u64,
                bytes: BYTES as u64,
                piece: piece_of(BYTES as u64),
            }
        }

        /// What becomes of a haul of which the neighbour takes the last piece alone.
        fn last_piece(&self, about: About) -> Pieces {
            let pieces = about.bytes.div_ceil(about.piece);
            let haul = &self.nodes[1].control().haul;
            let offered = haul.offer(Rank(0), |_| false, about.words(), pieces).expect("a free place");
            assert!(self.nodes[1].helps());
            let first = offered.close();
            assert_eq!(first, Some(pieces - 1));
            let became = offered.pieces(pieces - 1);
            offered.end();
            became
        }
    }

    fn pattern(seed: usize) -> Vec<u8> {
        (0..BYTES).map(|at| (at / 3 * seed + at) as u8).collect()
    }

    #[test]
    fn pieces_are_pages_between_two_lengths_and_few_enough() {
        for bytes in [LEAST_BYTES, LEAST_BYTES + 1, 1 << 20, (1 << 24) + 5, 1 << 34, 1 << 45] {
            let piece = piece_of(bytes);
            assert!(piece.is_multiple_of(PAGE_BYTES) && piece >= LEAST_PIECE);
            assert!(bytes.div_ceil(piece) <= MOST_PIECES && bytes.div_ceil(piece) > 1);
            assert!(piece <= MOST_PIECE || bytes / MOST_PIECE > MOST_PIECES / 2, "{bytes}: {piece}");
        }
    }

    #[test]
    fn what_a_haul_is_about_comes_as_it_was_written() {
        let pair = Pair::new(Kind::Private);
        for direction in [Direction::Read, Direction::Write] {
            let about = About { rank: Rank(0x00ff_ff01), ..pair.about(direction, &mut [0]) };
            assert_eq!(About::from_words(about.words()), about);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn the_neighbour_copies_a_piece_in_either_direction() {
        let pair = Pair::new(Kind::Private);
        let mut own = vec![0; BYTES];
        assert_eq!(pair.last_piece(pair.about(Direction::Read, &mut own)), Pieces::Done);
        let start = BYTES / piece_of(BYTES as u64) as usize * piece_of(BYTES as u64) as usize;
        assert_eq!(own[start..], pattern(7)[start..]);
        assert!(own[..start].iter().all(|byte| *byte == 0));
        own = pattern(5);
        assert_eq!(pair.last_piece(pair.about(Direction::Write, &mut own)), Pieces::Done);
        // Memory of the second rank, which others have written: read as they do.
        assert_eq!(pair.theirs[start..], pattern(5)[start..]);
        assert_eq!(pair.theirs[..start], pattern(7)[..start]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn what_cannot_be_is_not_copied() {
        let pair = Pair::new(Kind::Private);
        let mut own = vec![0; BYTES];
        let about = pair.about(Direction::Read, &mut own);
        let wrong = [
            About { generation: about.generation + 1, ..about },
            About { bytes: 2 * about.bytes, ..about },
            About { piece: 0, bytes: 0, ..about },
            About { rank: Rank(2), ..about },
            About { rank: Rank(1), ..about },
            About { address: pair.nodes[0].format.address(Rank(0), pair.slot, 0), ..about },
        ];
        for about in wrong {
            let haul = &pair.nodes[1].control().haul;
            let offered = haul.offer(Rank(0), |_| false, about.words(), 9).expect("a free place");
            assert!(pair.nodes[1].helps());
            let first = offered.close().expect("it is ours");
            assert_eq!(offered.pieces(first), Pieces::Failed, "{about:?}");
            offered.end();
        }
        let arena = &pair.nodes[1].arena;
        arena.place(Rank(0)).unwrap().set_status(Status::Lost, Cause::EXITED, arena.changes());
        assert_eq!(pair.last_piece(about), Pieces::Failed, "it is gone, and its number may be another's");
        assert!(own.iter().all(|byte| *byte == 0));
        let pair = Pair::new(Kind::ReadOnly);
        assert_eq!(pair.last_piece(pair.about(Direction::Write, &mut own)), Pieces::Failed);
        assert_eq!(pair.last_piece(pair.about(Direction::Read, &mut own)), Pieces::Done);
        assert_eq!(pair.theirs, pattern(7));
    }

    /// The neighbour waits all the time, as in any wait of a program; and once it takes a piece and does not do it.
    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_copy_that_is_shared_is_whole_also_if_the_neighbour_fails() {
        let pair = Pair::new(Kind::Private);
        let ([first, second], private) = (&pair.nodes, pair.private());
        let (ends, spoils) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    if spoils.load(Ordering::Relaxed) {
                        drop(second.control().haul.claim());
                    } else {
                        second.helps();
                    }
                    std::hint::spin_loop();
                }
            });
            let right = pattern(7);
            let is_over = |round: usize| match first.hauls_left.load(Ordering::Relaxed) {
                0 => true,
                _ => {
                    let helped = second.shares.load(Ordering::Relaxed) > 0;
                    spoils.store(helped && round > 300, Ordering::Relaxed);
                    false
                }
            };
            // A thread that has no core of its own comes once in a while.
            for round in (0..).take_while(|round| !is_over(*round)) {
                let bytes = BYTES - round % 1000;
                let mut own = vec![0; bytes];
                // SAFETY: the memory is our own, and as long as is said.
                let read = unsafe {
                    first.copy_neighbour(private, Direction::Read, own.as_mut_ptr(), bytes as u64, true)
                };
                assert_eq!(read, Ok(true));
                assert!(own == right[..bytes], "round {round}");
            }
            ends.store(true, Ordering::Relaxed);
        });
        assert!(!second.control().haul.has_pieces());
    }

    /// The first rank reads what it can, while a thread of the second one has claimed a piece, does something, and goes on with the piece then.
    fn read_beside_a_slow_thread(pair: &Pair, meanwhile: impl FnOnce() + Send) -> (Result<bool>, Vec<u8>) {
        let ([first, second], private) = (&pair.nodes, pair.private());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let share = loop {
                    if let Some(share) = second.control().haul.claim() {
                        break share;
                    }
                    std::hint::spin_loop();
                };
                meanwhile();
                let copied = second.copy_share(&share);
                is_over.store(true, Ordering::SeqCst);
                if copied.is_ok() {
                    share.finish();
                }
            });
            loop {
                let mut own = vec![0; BYTES];
                let to = own.as_mut_ptr();
                // SAFETY: the memory is our own, and as long as is said.
                let read = unsafe { first.copy_neighbour(private, Direction::Read, to, BYTES as u64, true) };
                let pieces = second.control().haul.has_pieces();
                assert!(!pieces, "nobody may begin with a piece any more");
                // The first copies may have been over before the thread came.
                if is_over.load(Ordering::SeqCst) {
                    return (read, own);
                }
                assert_eq!((read, own == pattern(7)), (Ok(true), true), "it went on before the thread");
            }
        })
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn nobody_goes_on_while_a_neighbour_may_still_write_whatever_is_said_of_it() {
        let pause = || std::thread::sleep(std::time::Duration::from_millis(30));
        let pair = Pair::new(Kind::Private);
        let (read, own) = read_beside_a_slow_thread(&pair, pause);
        assert!(read == Ok(true) && own == pattern(7));
        // A rank that has left the world, and whose process goes on.
        let arena = pair.nodes[1].arena.clone();
        let (read, own) = read_beside_a_slow_thread(&pair, || {
            arena.place(Rank(1)).unwrap().set_status(Status::Left, Cause::EXITED, arena.changes());
            pause();
        });
        assert!(read == Ok(true) && own == pattern(7), "{read:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_copy_of_nothing_does_not_show_what_the_system_allows() {
        let pair = Pair::new(Kind::Private);
        let (first, private, mut byte) = (&pair.nodes[0], pair.private(), 0);
        for (bytes, shows) in [(0, false), (1, true)] {
            // SAFETY: the byte is our own.
            let copied = unsafe { first.copy_neighbour(private, Direction::Read, &mut byte, bytes, false) };
            assert_eq!((copied, first.process_vm_tried.load(Ordering::Relaxed)), (Ok(true), shows));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn what_others_have_written_there_makes_no_holes() {
        let pair = Pair::new(Kind::Private);
        let ([first, second], private, right) = (&pair.nodes, pair.private(), pattern(7));
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let words = (&raw const second.control().haul).cast::<AtomicU64>();
                // SAFETY: the second of its words is within it, and is atomic.
                let claims = unsafe { &*words.add(1) };
                while !ends.load(Ordering::Relaxed) {
                    claims.fetch_or(2 << 12, Ordering::Relaxed);
                }
            });
            for _ in 0..2000 {
                let mut own = vec![0; BYTES];
                let to = own.as_mut_ptr();
                // SAFETY: the memory is our own, and as long as is said.
                let read = unsafe { first.copy_neighbour(private, Direction::Read, to, BYTES as u64, true) };
                assert!(read == Ok(true) && own == right);
            }
            ends.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_wait_for_a_piece_ends_with_the_process_though_nobody_says_that_the_rank_is_lost() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let pair = Pair::new(Kind::Private);
        let [first, second] = &pair.nodes;
        let about = pair.about(Direction::Read, &mut []);
        let offered = second.control().haul.offer(Rank(0), |_| false, about.words(), 3).unwrap();
        let share = second.control().haul.claim().unwrap();
        second.control().pid.store(child.id(), Ordering::Relaxed);
        assert!(first.is_alive(Rank(1)));
        assert_eq!(first.await_pieces(&offered, offered.close().unwrap(), pair.private()), Pieces::Failed);
        drop(share);
    }
}
