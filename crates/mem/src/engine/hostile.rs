//! Tests with frames of a rank of the job that answers what it was not asked, or asks for what cannot be.

use crate::engine::calls::Services;
use crate::engine::frames;
use crate::engine::operations::{Action, Operation, Side};
use crate::engine::order::Condition;
use crate::engine::Engine;
use crate::node::address::{GlobalAddress, Registration};
use crate::World;
use kumiki_net::contract::{Outbox, Sink};
use kumiki_net::wire::Header;
use kumiki_net::Rank;

const ASKED: Rank = Rank(1);
const STRANGER: Rank = Rank(2);

#[test]
#[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
fn answers_of_a_rank_that_was_not_asked_are_not_believed() {
    let world = World::init().unwrap();
    let core = world.core();
    let mut place = [0u8; 64];
    let start = place.as_mut_ptr();
    // SAFETY: the array outlives the operation, and is only read through this pointer.
    let found = || unsafe { std::ptr::read_volatile(start.cast::<[u8; 64]>()) };
    let src = Side::Global(GlobalAddress::from_bits(1 << 52), Registration::ANY);
    let action = Action::Copy { dst: Side::Lent(start as usize), src, bytes: 64 };
    let mut engine = Engine::new(Services::default());
    let id = engine.new_internal();
    let operation = Operation { peer: Some(ASKED), ..Operation::of_program(action, Condition::Free) };
    engine.operations.insert(id, operation);
    let mut feed = engine.feed(core);
    let mut out = Outbox::default();
    let data = Header { kind: frames::DATA, op: id, ..Header::default() };

    feed.part(STRANGER, &data, 0, &[7; 64]);
    assert!(feed.place(STRANGER, &data, 0, 64).is_none());
    // What does not fit would spoil the operation.
    feed.part(STRANGER, &data, 60, &[7; 64]);
    assert!(feed.torn(STRANGER, 0, &data, &mut out));
    for kind in [frames::DATA, frames::DATA_FEW, frames::VALUE, frames::DONE, frames::RETURN] {
        for c in [0, 8, 64] {
            feed.frame(STRANGER, 0, &Header { kind, op: id, c, b: u64::MAX, ..Header::default() }, &mut out);
        }
    }
    assert_eq!(found(), [0; 64], "a stranger wrote into memory that was lent");
    assert_eq!(feed.engine.operations.get(id), Some(&operation), "a stranger changed the operation");
    assert!(!feed.engine.operations.is_spoiled(id) && out.messages.is_empty());

    // The same frames of the rank that was asked are what the operation waits for.
    feed.part(ASKED, &data, 0, &[7; 64]);
    assert!(feed.frame(ASKED, 0, &data, &mut out));
    assert_eq!(feed.engine.operations.take_result_of(id), Some(Ok(())));
    assert_eq!(found(), [7; 64]);
    world.finalize().unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
fn signals_of_a_rank_that_leads_no_other_node_are_not_believed() {
    let world = World::init().unwrap();
    let core = world.core();
    let mut engine = Engine::new(Services::default());
    let mut feed = engine.feed(core);
    let mut out = Outbox::default();
    // All came, and one of them to finalize: everybody would get past the barrier, or nobody ever.
    let signal = Header { kind: frames::SIGNAL, b: 1 << 40, c: 3, d: 1, ..Header::default() };
    for (from, round) in [(STRANGER, 0), (Rank(0), 1 << 40)] {
        feed.frame(from, 0, &Header { a: round, ..signal }, &mut out);
        assert!(
            (0..24).all(|round| feed.engine.barriers.world().signal(round).epoch == 0),
            "{from} opened a barrier"
        );
        assert!(feed.engine.barriers.world().discord(u64::MAX).is_none(), "{from} broke a barrier");
    }
    feed.frame(Rank(0), 0, &Header { c: 1, d: 0, ..signal }, &mut out);
    assert_eq!(feed.engine.barriers.world().signal(0).epoch, 1 << 40, "it is the leader's word that counts");
    drop(world);
}

/// Whatever another node puts at an address of this rank, or does to the word there, is refused.
pub(crate) fn put_is_refused(world: &World, address: GlobalAddress) {
    let core = world.core();
    let mut engine = Engine::new(Services::default());
    let mut feed = engine.feed(core);
    let about = |kind, c| Header { kind, op: 5, a: address.bits(), c, ..Header::default() };
    let put = about(frames::PUT, 32);
    feed.part(STRANGER, &put, 0, &[9; 32]);
    let mut out = Outbox::default();
    let atomic = Header { flags: 8 | 3, b: 1, ..about(frames::ATOMIC, 0) };
    for header in [put, about(frames::PUT_FEW, 8), atomic] {
        assert!(!feed.frame(STRANGER, 0, &header, &mut out));
        let (to, answer) = out.messages.pop().expect("an answer");
        let told = frames::result_of(Rank(0), &answer.header);
        assert!(to == STRANGER && matches!(told, Err(crate::Error::Bounds { .. })), "{told:?}");
        assert!(told.is_err_and(|error| error.to_string().contains("read-only memory")));
    }
}
