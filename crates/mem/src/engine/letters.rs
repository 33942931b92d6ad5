//! Letters: work for another rank that nobody waits for. There is no operation, no table and no answer: only one that could not be done comes
//! back, by the name that its sender has given it.
//!
//! A letter goes only where nothing is before it, in one frame. Whoever gets it runs the service that it names, as for a [call](super::calls), in the
//! order in which both came.

use crate::engine::calls::{self, Request};
use crate::engine::frames;
use crate::engine::operations::OPERATION_BYTES;
use crate::engine::Feed;
use crate::{Error, Result};
use kumiki_net::contract::{Leeway, Outbox, FLAG_MORE, LETTER_BYTES, LONG_LETTER_BYTES};
use kumiki_net::wire::Header;
use kumiki_net::Rank;
use std::sync::atomic::Ordering;

/// So many that came back are remembered, and so many of a rank.
const MOST_REFUSED: usize = 256;
const MOST_OF_A_RANK: usize = 64;

/// Those that are coming in, if they are short (long ones come as calls do), and those that came back.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    /// Of which a part has come: one of a sender at most.
    arriving: Vec<(Rank, Vec<u8>)>,
    /// Memory for the next one.
    spare: Vec<u8>,
    refused: Vec<Refused>,
}

/// One that came back.
#[derive(Debug)]
struct Refused {
    from: Rank,
    name: u64,
    error: Error,
}

impl Letters {
    /// Bytes for the ledger.
    pub(crate) fn bytes(&self) -> u64 {
        let arriving = self.arriving.iter().map(|(_, bytes)| bytes.capacity());
        (arriving.sum::<usize>() + self.spare.capacity()) as u64
    }

    /// A part of a short one has come.
    pub(crate) fn part(&mut self, from: Rank, header: &Header, at: u32, bytes: &[u8]) {
        let at = at as usize;
        if !is_short(header) || at + bytes.len() > header.c as usize {
            return;
        }
        let index = match self.arriving.iter().position(|(other, _)| *other == from) {
            Some(index) => index,
            None => {
                let mut memory = std::mem::take(&mut self.spare);
                memory.reserve_exact(LETTER_BYTES);
                self.arriving.push((from, memory));
                self.arriving.len() - 1
            }
        };
        let (_, letter) = &mut self.arriving[index];
        // Parts come in order; of one before it that never became whole nothing is left.
        if at == 0 {
            letter.clear();
        }
        if letter.len() == at {
            letter.extend_from_slice(bytes);
        }
    }

    /// Takes the short one of a sender, if it is whole.
    fn arrived(&mut self, from: Rank, header: &Header) -> Result<Vec<u8>> {
        let wrong = || Error::misuse("a letter is not as long as its header says");
        let index = self.arriving.iter().position(|(other, _)| *other == from).ok_or_else(wrong)?;
        let (_, letter) = self.arriving.swap_remove(index);
        if letter.len() as u64 == header.c {
            return Ok(letter);
        }
        self.recycle(letter);
        Err(wrong())
    }

    fn recycle(&mut self, mut letter: Vec<u8>) {
        if self.spare.capacity() == 0 && letter.capacity() <= LETTER_BYTES {
            letter.clear();
            self.spare = letter;
        }
    }

    /// A peer is gone.
    pub(crate) fn forget_peer(&mut self, peer: Rank) {
        self.arriving.retain(|(from, _)| *from != peer);
        self.refused.retain(|refused| refused.from != peer);
    }

    /// A rank could not do what was in a letter. What nobody asks for makes room.
    fn came_back(&mut self, from: Rank, name: u64, error: Error) {
        if self.refused.iter().any(|refused| (refused.from, refused.name) == (from, name)) {
            return;
        }
        let of_it = self.refused.iter().filter(|refused| refused.from == from).count();
        let is_old = |refused: &Refused| of_it < MOST_OF_A_RANK || refused.from == from;
        if of_it >= MOST_OF_A_RANK || self.refused.len() >= MOST_REFUSED {
            let oldest = self.refused.iter().position(is_old);
            oldest.into_iter().for_each(|oldest| drop(self.refused.remove(oldest)));
        }
        self.refused.push(Refused { from, name, error });
    }

    /// Why a letter of this name came back from one of these ranks, if one did; told once.
    pub(crate) fn take_refused(&mut self, name: u64, is_of: impl Fn(Rank) -> bool) -> Option<Error> {
        let index = self.refused.iter().position(|refused| refused.name == name && is_of(refused.from))?;
        Some(self.refused.remove(index).error)
    }

    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }
}

/// The header of a letter.
pub(crate) fn header(service: u8, name: u64, bytes: usize) -> Header {
    Header { kind: frames::LETTER, op: name, a: service.into(), c: bytes as u64, ..Header::default() }
}

/// Whether a letter is a short one.
fn is_short(header: &Header) -> bool {
    header.c <= LETTER_BYTES as u64
}

/// Whether a letter is a long one, as there may be: in one frame, so that nothing is kept of it behind that.
pub(crate) fn is_long(header: &Header) -> bool {
    !is_short(header) && header.c <= LONG_LETTER_BYTES as u64 && header.flags & FLAG_MORE == 0
}

/// A letter is complete: does what it asks.
pub(crate) fn serve(feed: &mut Feed<'_>, from: Rank, path: u32, header: &Header, out: &mut Outbox) {
    let arrived = match is_short(header) {
        true => feed.engine.letters.arrived(from, header),
        false if is_long(header) => feed.engine.calls.arrived(&feed.node.books, from, header),
        false => Err(Error::misuse("a letter that is longer than any")),
    };
    let bytes = match arrived {
        Ok(bytes) => bytes,
        Err(wrong) => {
            feed.settle();
            return out.messages.push((from, frames::refusal(header.op, wrong, path)));
        }
    };
    let (op, service) = (header.op, header.a);
    let request = Request { from, path, op, service, leeway: Leeway::None, is_letter: true, bytes };
    match calls::attempt_letter(feed, &request) {
        Some(done) => {
            match is_short(header) {
                true => feed.engine.letters.recycle(request.bytes),
                false => {
                    feed.engine.calls.served(request.bytes);
                    feed.settle();
                    give_way(feed);
                }
            }
            if let Err(error) = done {
                out.messages.push((from, frames::refusal(op, error, path)));
            }
        }
        None => {
            let stalled = feed.engine.calls.stall(&feed.node.books, request);
            feed.settle();
            give_way(feed);
            if let Err(error) = stalled {
                out.messages.push((from, frames::refusal(op, error, path)));
            }
        }
    }
}

/// Memory that is kept for the next long letter goes, if the budget has no room for an operation.
pub(crate) fn give_way(feed: &mut Feed<'_>) {
    if feed.node.books.left() < OPERATION_BYTES {
        drop(feed.engine.calls.take_long_spare());
        feed.settle();
    }
}

/// A letter came back.
pub(crate) fn take_refusal(feed: &mut Feed<'_>, from: Rank, header: &Header) {
    let unnamed = || Error::Refused(format!("{from} could not do what was in a letter"));
    let why = frames::result_of(from, header).err().unwrap_or_else(unnamed);
    feed.engine.letters.came_back(from, header.op, why);
    feed.engine.stirred = true;
    feed.node.has_refusals.store(true, Ordering::Release);
    feed.node.refusals.fetch_add(1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::calls::{Service, Services};
    use crate::engine::Engine;
    use crate::Purpose;
    use crate::World;
    use kumiki_net::contract::Sink;
    use std::cell::RefCell;

    const FROM: Rank = Rank(1);

    // The requests that were served, in their order: one that begins with 9 cannot be.
    thread_local!(static SERVED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) });
    const NOTES: &[Service] = &[Service {
        name: "notes",
        serve: |_, _, request, reply| {
            reply.push(1);
            if request.first() == Some(&9) {
                return Err(Error::Closed("it is over".into()));
            }
            SERVED.with_borrow_mut(|served| served.push(request.to_vec()));
            Ok(())
        },
    }];

    /// Gives a rank a letter, in two parts; what it says to that.
    fn give(feed: &mut Feed<'_>, header: &Header, bytes: &[u8]) -> Vec<Header> {
        let mut out = Outbox::default();
        let (first, second) = bytes.split_at(bytes.len() / 2);
        feed.part(FROM, header, 0, first);
        feed.part(FROM, header, first.len() as u32, second);
        assert!(!feed.frame(FROM, 0, header, &mut out), "it is no answer");
        out.messages.into_iter().map(|(_, message)| message.header).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_letter_is_done_without_an_answer_and_one_that_cannot_be_comes_back() {
        let world = World::init().unwrap();
        let mut engine = Engine::new(Services { table: NOTES, may_unwind: false });
        let mut feed = engine.feed(world.core());
        assert_eq!(give(&mut feed, &header(0, 5, 4), &[1, 2, 3, 4]), []);
        // A call that met a lock goes before a letter that comes behind it.
        let leeway = Leeway::None;
        let stalled =
            Request { from: FROM, path: 0, op: 6, service: 0, leeway, is_letter: true, bytes: vec![5] };
        feed.engine.calls.stall(&feed.node.books, stalled).unwrap();
        assert_eq!(give(&mut feed, &header(0, 5, 2), &[6, 6]), []);
        assert_eq!(give(&mut feed, &header(0, 7, 2), &[9, 9]), []);
        assert_eq!(SERVED.with_borrow(Vec::len), 1);
        let mut out = Outbox::default();
        calls::serve_stalled(&mut feed, &mut out);
        assert_eq!(SERVED.take(), [vec![1, 2, 3, 4], vec![5], vec![6, 6]]);
        let back: Vec<_> =
            out.messages.iter().map(|(to, told)| (*to, told.header.kind, told.header.op)).collect();
        assert_eq!(back, [(FROM, frames::REFUSAL, 7)]);
        assert_eq!((feed.engine.calls.has_stalled(), feed.engine.calls.bytes()), (false, 0));
        // One that is not as long as it says, one that is too long, one for a service that is none, and one that cannot be done.
        let long = vec![1; LONG_LETTER_BYTES + 1];
        for (header, bytes) in [
            (header(0, 8, 5), &[1, 2, 3][..]),
            (header(0, 8, long.len()), &long),
            (header(3, 8, 1), &[1]),
            (header(0, 8, 1), &[9]),
        ] {
            let told = give(&mut feed, &header, bytes);
            assert!(matches!(told[..], [told] if told.kind == frames::REFUSAL && told.op == 8), "{told:?}");
        }
        assert_eq!(SERVED.with_borrow(Vec::len), 0);
        feed.settle();
        assert!(feed.engine.letters.bytes() <= LETTER_BYTES as u64);
        world.finalize().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn a_long_letter_is_booked_while_it_comes_and_its_memory_is_for_the_next() {
        let world = World::init().unwrap();
        let mut engine = Engine::new(Services { table: NOTES, may_unwind: false });
        let mut feed = engine.feed(world.core());
        let before = world.core().books.of(Purpose::Operation);
        let booked = || world.core().books.of(Purpose::Operation) - before;
        let header = header(0, 5, LONG_LETTER_BYTES);
        let letter: Vec<u8> = (0..LONG_LETTER_BYTES).map(|at| (at % 7) as u8).collect();
        feed.part(FROM, &header, 0, &letter[..5000]);
        assert!(booked() >= LONG_LETTER_BYTES as u64, "{}", booked());
        for _ in 0..3 {
            assert_eq!(give(&mut feed, &header, &letter), []);
            assert_eq!(SERVED.with_borrow_mut(Vec::pop), Some(letter.clone()));
            assert!(booked() <= LONG_LETTER_BYTES as u64 + LETTER_BYTES as u64, "{}", booked());
        }
        // One whose sender goes leaves nothing.
        feed.part(FROM, &header, 0, &letter[..5000]);
        feed.engine.calls.forget_peer(FROM);
        feed.settle();
        assert_eq!((feed.engine.calls.bytes(), booked()), (0, 0));
        world.finalize().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
    fn long_letters_that_come_on_two_connections_are_not_mixed_up_and_no_call_is_taken_for_one() {
        let world = World::init().unwrap();
        let mut engine = Engine::new(Services { table: NOTES, may_unwind: false });
        let mut feed = engine.feed(world.core());
        let letters = [1u8, 2]
            .map(|number| (Header { payload_crc: number.into(), ..header(0, 5, 6000) }, vec![number; 6000]));
        for (header, bytes) in &letters {
            feed.part(FROM, header, 0, &bytes[..3000]);
        }
        for (header, bytes) in &letters {
            let mut out = Outbox::default();
            feed.part(FROM, header, 3000, &bytes[3000..]);
            assert!(!feed.frame(FROM, 0, header, &mut out) && out.messages.is_empty());
            assert_eq!(SERVED.with_borrow_mut(Vec::pop).as_ref(), Some(bytes));
        }
        // One that has the number of a letter is not kept.
        let call = Header { kind: frames::CALL, op: 1 << 63 | 7, ..letters[0].0 };
        feed.part(FROM, &call, 0, &letters[0].1);
        // Nor one that never ends.
        let endless = Header { flags: FLAG_MORE, ..letters[0].0 };
        feed.part(FROM, &endless, 0, &letters[0].1);
        assert!(!feed.engine.calls.is_serving());
        world.finalize().unwrap();
    }

    #[test]
    fn what_came_back_is_told_once_to_whoever_asks_and_is_not_kept_without_bound() {
        let mut letters = Letters::default();
        let wrong = |name: u64| Error::Refused(name.to_string());
        for name in 0..100 {
            letters.came_back(FROM, name, wrong(name));
        }
        assert_eq!(letters.refused.len(), MOST_OF_A_RANK);
        (0..300).for_each(|rank| letters.came_back(Rank(rank), 7, wrong(7)));
        assert_eq!(letters.refused.len(), MOST_REFUSED);
        let of = |rank| move |from| from == Rank(rank);
        assert_eq!(letters.take_refused(8, of(299)), None);
        assert_eq!(letters.take_refused(7, of(299)), Some(wrong(7)));
        assert_eq!(letters.take_refused(7, of(299)), None);
        assert_eq!(letters.take_refused(7, |_| true), Some(wrong(7)));
        (0..300).for_each(|rank| letters.forget_peer(Rank(rank)));
        assert!(!letters.has_refused());
    }
}
