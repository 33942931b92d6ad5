//! Tests with recipes as another rank sends them: cut anywhere, or made up.

use crate::engine::calls::Services;
use crate::engine::operations::FIRST_INTERNAL;
use crate::engine::sections::{Near, Recipe, MAX_RECIPE_BYTES};
use crate::engine::{frames, Engine, Feed};
use crate::node::address::{GlobalAddress, Registration};
use crate::node::atomic::{AtomicCall, AtomicOp};
use crate::node::ledger::Purpose;
use crate::node::shape::Shape;
use crate::{Error, Region, Result, World};
use kumiki_net::auth;
use kumiki_net::contract::{Filled, Outbox, Payload, Sink, FLAG_MORE};
use kumiki_net::wire::Header;
use kumiki_net::Rank;

const PEER: Rank = Rank(1);
const WORDS: usize = 32;

fn recipe(address: GlobalAddress, shape: Shape) -> Recipe {
    let (whole_low, whole_span) = (shape.low(), shape.span());
    Recipe { address, registration: Registration::ANY, shape, whole_low, whole_span, signal: None }
}

fn signal(target: GlobalAddress) -> Option<AtomicCall> {
    let (code, first, second) = AtomicOp::Add(1u64).encode();
    Some(AtomicCall { target, registration: Registration::ANY, code, first, second })
}

/// Rows of two words, every four.
fn rows() -> Shape {
    Shape::section(&[(4, 4), (2, 1)]).unwrap().in_bytes(8).unwrap()
}

/// Sends a message in parts of so many bytes and pieces of so many, and gives the answer.
fn send(
    feed: &mut Feed<'_>,
    header: Header,
    payload: &[u8],
    part: usize,
    piece: usize,
) -> (Result<()>, Payload) {
    let mut out = Outbox::default();
    let pieces = payload.chunks(piece).count();
    for (index, bytes) in payload.chunks(piece).enumerate() {
        let flags = if index + 1 < pieces { FLAG_MORE } else { 0 };
        let header = Header { d: (index * piece) as u64, flags, ..header };
        for (at, bytes) in bytes.chunks(part).enumerate() {
            feed.part(PEER, &header, (at * part) as u32, bytes);
        }
        feed.frame(PEER, 3, &header, &mut out);
    }
    let (to, answer) = out.messages.pop().expect("an answer");
    assert!(to == PEER && out.messages.is_empty());
    let told =
        if answer.header.kind == frames::DONE { frames::result_of(Rank(0), &answer.header) } else { Ok(()) };
    (told, answer.payload)
}

fn scatter(recipe: &Recipe, data: &[u8]) -> (Header, Vec<u8>) {
    let mut payload = recipe.encode();
    let header = Header {
        kind: frames::SCATTER,
        op: 9,
        a: auth::digest(&payload),
        b: payload.len() as u64,
        c: data.len() as u64,
        ..Header::default()
    };
    payload.extend_from_slice(data);
    (header, payload)
}

fn found(region: &Region<u64>) -> Vec<u64> {
    let mut found = vec![0; WORDS];
    region.read(0, &mut found).unwrap();
    found
}

#[test]
#[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
fn a_put_by_recipe_lands_however_it_is_cut_and_its_word_is_changed_once() {
    let world = World::init().unwrap();
    let region = world.alloc::<u64>(WORDS).unwrap();
    let core = world.core();
    let mut engine = Engine::new(Services::default());
    let mut feed = engine.feed(core);
    let data: Vec<u8> = (1..=8u64).flat_map(u64::to_le_bytes).collect();
    let recipe = Recipe { signal: signal(region.address().add(31 * 8)), ..recipe(region.address(), rows()) };
    let (header, payload) = scatter(&recipe, &data);
    let mut times = 0;
    for part in [1, 3, 8, 60, usize::MAX] {
        for piece in [7, 64, payload.len()] {
            region.write(0, &[0; 31]).unwrap();
            assert_eq!(send(&mut feed, header, &payload, part, piece).0, Ok(()));
            times += 1;
            let found = found(&region);
            assert_eq!(found[..14], [1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0, 7, 8], "{part} {piece}");
            assert_eq!(found[31], times);
        }
    }
    assert_eq!((feed.engine.sections.bytes(), core.books.of(Purpose::Operation)), (0, 0));
    drop(region);
    world.finalize().unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
fn of_a_put_that_is_given_up_half_way_nothing_is_kept() {
    let world = World::init().unwrap();
    let region = world.alloc::<u64>(WORDS).unwrap();
    let core = world.core();
    let mut engine = Engine::new(Services::default());
    let mut feed = engine.feed(core);
    let recipe = Recipe { signal: signal(region.address().add(31 * 8)), ..recipe(region.address(), rows()) };
    let (header, payload) = scatter(&recipe, &[1; 64]);
    for come in [0, 3, payload.len() - 64, payload.len() - 8] {
        let (half, mut out) = (Header { flags: FLAG_MORE, ..header }, Outbox::default());
        if come > 0 {
            feed.part(PEER, &half, 0, &payload[..come]);
            feed.frame(PEER, 3, &half, &mut out);
            assert!(feed.engine.sections.is_serving() && out.messages.is_empty());
        }
        // As its sender says when the memory is gone.
        feed.withdrawn(PEER, &header, &mut out);
        let (_, last) = out.messages.pop().expect("a last word");
        feed.frame(PEER, 3, &last.header, &mut out);
        let (_, answer) = out.messages.pop().expect("an answer");
        assert!(frames::result_of(Rank(0), &answer.header).is_err());
        assert!(!feed.engine.sections.is_serving());
        assert_eq!((feed.engine.sections.bytes(), core.books.of(Purpose::Operation)), (0, 0));
    }
    assert_eq!(found(&region)[31], 0, "its word is as it was");
    drop(region);
    world.finalize().unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
fn a_recipe_that_reaches_out_of_its_region_touches_nothing() {
    let world = World::init().unwrap();
    let region = world.alloc::<u64>(WORDS).unwrap();
    let core = world.core();
    let mut engine = Engine::new(Services::default());
    let mut feed = engine.feed(core);
    let start = region.address();
    let data = vec![0xee; 64];
    let one = |bytes| Shape::of_rows(bytes, &[]).unwrap();
    let good = recipe(start, rows());
    let bad = [
        recipe(start.add(19 * 8), rows()),
        recipe(start, Shape::section(&[(8, -1)]).unwrap().in_bytes(8).unwrap()),
        recipe(start, Shape::of_pieces(vec![(0, 32), (WORDS as u64 * 8 - 31, 32)]).unwrap()),
        recipe(start, one(WORDS as u64 * 8 + 1)),
        recipe(GlobalAddress::NULL, one(64)),
        recipe(GlobalAddress::from_bits(u64::MAX), one(64)),
        Recipe { whole_span: WORDS as u64 * 8 + 1, ..good.clone() },
        Recipe { whole_low: i64::MIN, ..good.clone() },
        Recipe { signal: signal(start.add(WORDS as u64 * 8)), ..good.clone() },
        Recipe { signal: signal(start.add(4)), ..good.clone() },
        Recipe { signal: signal(start).map(|call| AtomicCall { code: 255, ..call }), ..good.clone() },
        Recipe { registration: Registration::of_generation(77), ..good.clone() },
    ];
    for recipe in bad {
        let (header, payload) = scatter(&recipe, &data);
        let header = Header { c: recipe.shape.total(), ..header };
        let told = send(&mut feed, header, &payload, 16, 4096).0;
        assert!(matches!(told, Err(Error::Bounds { .. } | Error::Misuse(_))), "{recipe:?}: {told:?}");
        assert_eq!(found(&region), [0; WORDS], "{recipe:?}");
    }
    // Headers and lengths that are made up.
    let (header, payload) = scatter(&good, &data);
    for wrong in [
        Header { b: 0, ..header },
        Header { b: header.b - 1, ..header },
        Header { b: header.b + 8, ..header },
        Header { b: MAX_RECIPE_BYTES + 1, ..header },
        Header { b: u64::MAX, ..header },
        Header { c: 63, ..header },
        Header { c: u64::MAX, ..header },
    ] {
        let told = send(&mut feed, wrong, &payload, 16, 4096).0;
        assert!(told.is_err(), "{wrong:?}");
        assert_eq!(found(&region), [0; WORDS], "{wrong:?}");
    }
    // Fewer bytes than the shape has, and more; then nothing that was begun is kept for ever.
    assert!(send(&mut feed, header, &payload[..payload.len() - 1], 16, 4096).0.is_err());
    assert!(send(&mut feed, header, &[&payload[..], &[1]].concat(), 16, 4096).0.is_err());
    for op in 0..100 {
        feed.part(PEER, &Header { op, ..header }, 0, &payload[..20]);
    }
    assert!(feed.engine.sections.bytes() < 16 << 10);
    feed.engine.sections.forget_peer(PEER);
    feed.settle();
    assert_eq!(core.books.of(Purpose::Operation), 0);
    drop(region);
    world.finalize().unwrap();
}

/// Where the bytes go is in the payload: not even a checksum that fits may make another recipe of it.
#[test]
#[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
fn a_recipe_that_was_changed_on_its_way_touches_nothing() {
    let world = World::init().unwrap();
    let region = world.alloc::<u64>(WORDS).unwrap();
    let core = world.core();
    let mut engine = Engine::new(Services::default());
    let mut feed = engine.feed(core);
    let (header, payload) = scatter(&recipe(region.address(), rows()), &[0xee; 64]);
    for bit in 0..8 * header.b as usize {
        let mut changed = payload.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let told = send(&mut feed, header, &changed, usize::MAX, usize::MAX).0;
        assert!(matches!(told, Err(Error::Misuse(_))), "bit {bit}: {told:?}");
        assert_eq!(found(&region), [0; WORDS], "bit {bit}");
    }
    // Another length in a later part, and a part that begins inside of a recipe that was read.
    for wrong in [Header { b: header.b + 100, d: header.b, ..header }, Header { d: 8, ..header }] {
        feed.part(PEER, &Header { flags: FLAG_MORE, ..header }, 0, &payload[..header.b as usize]);
        feed.part(PEER, &wrong, 0, &[0xee; 8]);
        assert_eq!(found(&region), [0; WORDS], "{wrong:?}");
    }
    let again = recipe(region.address(), Shape::section(&[(1 << 40, 0)]).unwrap().in_bytes(8).unwrap());
    let (header, payload) = scatter(&again, &[]);
    let told =
        send(&mut feed, Header { c: again.shape.total(), ..header }, &payload, usize::MAX, usize::MAX).0;
    assert!(matches!(told, Err(Error::Misuse(_))), "{told:?}");
    feed.engine.sections.forget_peer(PEER);
    feed.settle();
    drop(region);
    world.finalize().unwrap();
}

/// Memory that is put from is only read, whatever the answer is.
#[test]
#[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
fn bytes_that_answer_a_put_by_recipe_were_written_to_its_source() {
    let world = World::init().unwrap();
    let core = world.core();
    let mut engine = Engine::new(Services::default());
    let mut values = [7u64; 8];
    let lowest = values.as_mut_ptr() as usize;
    let shape = Shape::of_rows(64, &[]).unwrap();
    let near = || Near { lowest, shape: shape.clone(), first: 0, bytes: 64 };
    for (id, wants) in [(FIRST_INTERNAL + 1, false), (FIRST_INTERNAL + 2, true)] {
        engine.sections.begin(id, vec![0; 8], near(), wants);
        let header = Header { kind: frames::DATA, op: id, c: 64, ..Header::default() };
        assert_eq!(engine.sections.land(core, &header, 0, &[7; 8]), Some(wants));
        assert_eq!(engine.sections.room(&header, 0, 64).is_some(), wants);
        // Nothing is received where the operation has no place for it.
        for (at, bytes) in [(0, 65), (1, 64), (u32::MAX, 8)] {
            assert!(engine.sections.room(&header, at, bytes).is_none(), "{bytes} at {at}");
        }
        assert!(engine.sections.room(&Header { d: u64::MAX, ..header }, 1, 8).is_none());
        engine.sections.end(id);
    }
    let rows = Near { shape: Shape::of_rows(8, &[(4, 16)]).unwrap(), bytes: 32, ..near() };
    engine.sections.begin(FIRST_INTERNAL + 3, vec![0; 8], rows, true);
    let header = Header { kind: frames::DATA, op: FIRST_INTERNAL + 3, c: 32, ..Header::default() };
    assert!(engine.sections.room(&header, 0, 8).is_none());
    world.finalize().unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "an arena is a mapping of a file")]
fn a_get_by_recipe_is_answered_with_its_rows_in_order() {
    let world = World::init().unwrap();
    let region = world.alloc::<u64>(WORDS).unwrap();
    region.write(0, &(0..WORDS as u64).collect::<Vec<_>>()).unwrap();
    let core = world.core();
    let mut engine = Engine::new(Services::default());
    let mut feed = engine.feed(core);
    let payload = recipe(region.address(), rows()).encode();
    let (a, b) = (auth::digest(&payload), payload.len() as u64);
    let header = Header { kind: frames::GATHER, op: 9, a, b, c: 64, ..Header::default() };
    let (told, answer) = send(&mut feed, header, &payload, 9, 4096);
    let Payload::Lazy(source, 64) = answer else { panic!("{told:?} {answer:?}") };
    let mut bytes = [0; 64];
    let (first, second) = bytes.split_at_mut(20);
    assert_eq!(feed.fill(source, 0, first), Filled::Whole);
    assert_eq!(feed.fill(source, 20, second), Filled::Whole);
    let numbers: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    assert_eq!(numbers, [0, 1, 4, 5, 8, 9, 12, 13]);
    assert_eq!((feed.fill(source, 0, &mut [0; 8]), feed.engine.sections.bytes()), (Filled::Gone, 0));
    // Memory that is gone before it is sent.
    let (_, answer) = send(&mut feed, header, &payload, 9, 4096);
    let Payload::Lazy(source, 64) = answer else { panic!("{answer:?}") };
    drop(region);
    assert_eq!((feed.fill(source, 0, &mut [0; 64]), feed.engine.sections.bytes()), (Filled::Gone, 0));
    assert!(matches!(send(&mut feed, header, &payload, 9, 4096).0, Err(Error::Bounds { .. })));
    world.finalize().unwrap();
}
