//! Rings: records go round whole, a full one knows it, and what nobody writes there is refused.

use super::record::{Note, Record};
use super::ring::{Lap, Ring, LARGEST_RING, MAILBOX_BYTES};
use crate::GlobalAddress;
use crate::World;

fn short(tag: u64, bytes: usize) -> Record {
    Record { from: 0, hungry: false, note: Note::Short { context: 0, tag, bytes: bytes as u64 } }
}

#[test]
fn records_of_all_lengths_go_round_a_ring_whole() {
    let world = World::init().unwrap();
    let local = world.local();
    let ring = Ring::lane(local, 0, 512).unwrap();
    let (mut head, mut quick) = (0, 0);
    for round in 0..200u64 {
        let length = (round * 37 % 200) as usize;
        let body: Vec<u8> = (0..length).map(|at| (at as u64 + round) as u8).collect();
        let mut writing = ring.write_locked(local).unwrap();
        assert!(writing.push(&short(round, length), &body).unwrap(), "round {round}");
        assert!(ring.read(local, head).unwrap().record().unwrap().is_none(), "it does not count yet");
        assert!(writing.publish().unwrap());
        let mut reading = ring.read(local, head).unwrap();
        let record = reading.record().unwrap().unwrap();
        assert_eq!(record, short(round, length));
        // A quick look sees the same, if its words are in one piece.
        assert!(reading.short().is_none_or(|seen| seen == record) && !reading.is_empty());
        quick += u32::from(reading.short().is_some());
        let mut read = vec![0; length];
        reading.body(&record, &mut read).unwrap();
        assert_eq!(read, body);
        head = reading.skip(&record);
        assert!(reading.record().unwrap().is_none() && reading.short().is_none() && reading.is_empty());
        assert!(!ring.free_up_to(local, head, true).unwrap());
    }
    assert!((150..200).contains(&quick), "{quick} quick looks");
    ring.raze(local);
    assert!(ring.write_locked(local).is_err() && Ring::lane_of(local, 0, ring.address).is_err());
    world.finalize().unwrap();
}

#[test]
fn whoever_keeps_a_lap_comes_to_the_same_places_as_whoever_does_not_even_behind_what_was_taken_back() {
    let world = World::init().unwrap();
    let local = world.local();
    let ring = Ring::lane(local, 0, 504).unwrap();
    let (mut mark, mut written, mut read) = (ring.mark(), Lap::default(), Lap::default());
    let (mut tail, mut head) = (0, 0);
    for round in 0..300u64 {
        let length = (round * 37 % 120) as usize;
        // What was not published is as if it had never been: a lap before, perhaps.
        for is_published in [false, true] {
            let mut writing = ring.write_at(local, (&mut mark, &mut written), (tail, head)).unwrap();
            assert!(writing.push(&short(round, length), &vec![round as u8; length]).unwrap());
            if is_published {
                tail = writing.tail();
                assert!(writing.publish().unwrap());
            }
        }
        let span = local.span_at(&mut mark).unwrap();
        let record = ring.read(local, head).unwrap().record().unwrap();
        let mut reading = ring.read_in(span, &mut read, head).unwrap();
        assert_eq!(
            (reading.record().unwrap(), record),
            (record, Some(short(round, length))),
            "round {round}"
        );
        let mut body = vec![0; length];
        reading.body(&short(round, length), &mut body).unwrap();
        assert_eq!(body, vec![round as u8; length]);
        head = reading.skip(&short(round, length));
        assert!(reading.is_empty() && !ring.has_more(local, head));
        ring.free_up_to(local, head, true).unwrap();
    }
    ring.raze(local);
    world.finalize().unwrap();
}

#[test]
fn a_ring_that_is_full_knows_that_somebody_waits() {
    let world = World::init().unwrap();
    let local = world.local();
    let ring = Ring::mailbox_made(local, 0).unwrap();
    assert_eq!(Ring::mailbox(local, 0).unwrap(), Some(ring));
    assert_eq!(Ring::mailbox_made(local, 0).unwrap(), ring, "there is one");
    let mut writing = ring.write_locked(local).unwrap();
    let mut count = 0;
    while writing.push(&short(count, 80), &[7; 80]).unwrap() {
        count += 1;
    }
    assert_eq!(count, (MAILBOX_BYTES - 8) / 104);
    assert!(writing.publish().unwrap());
    assert!(!ring.write_locked(local).unwrap().push(&short(0, 80), &[7; 80]).unwrap());
    let mut reading = ring.read(local, 0).unwrap();
    let record = reading.record().unwrap().unwrap();
    let head = reading.skip(&record);
    assert!(ring.free_up_to(local, head, true).unwrap() && !ring.free_up_to(local, head, true).unwrap());
    assert!(ring.write_locked(local).unwrap().push(&short(0, 80), &[7; 80]).unwrap());
    world.finalize().unwrap();
}

#[test]
fn records_of_a_writer_that_was_killed_count_or_do_not_and_the_next_one_goes_on_behind_them() {
    let world = World::init().unwrap();
    let local = world.local();
    let ring = Ring::lane(local, 0, 512).unwrap();
    let write = |tags: &[u64], counts: bool| {
        let mut writing = ring.write_locked(local).unwrap();
        tags.iter().for_each(|tag| assert!(writing.push(&short(*tag, 8), &[*tag as u8; 8]).unwrap()));
        if counts {
            assert!(writing.publish().unwrap());
        }
    };
    let mut head = 0;
    let mut read = || {
        let mut reading = ring.read(local, head).unwrap();
        let mut tags = Vec::new();
        while let Some(record) = reading.record().unwrap() {
            tags.push(record.envelope().unwrap().tag);
            head = reading.skip(&record);
        }
        ring.free_up_to(local, head, true).unwrap();
        tags
    };
    for round in 0..50 {
        // Killed before anything counts.
        write(&[90, 91], false);
        assert_eq!(read(), [0u64; 0], "round {round}");
        // Killed before the tail was moved: what counts may have been read, or not.
        let tail = local.span(ring.address, 192).unwrap().load(64).unwrap();
        write(&[1, 2], true);
        local.span(ring.address, 192).unwrap().store(64, tail).unwrap();
        let early = if round % 2 == 0 { read() } else { Vec::new() };
        write(&[3], true);
        assert_eq!([early, read()].concat(), [1, 2, 3], "round {round}");
    }
    ring.raze(local);
    world.finalize().unwrap();
}

#[test]
fn what_nobody_writes_into_a_ring_is_refused() {
    let world = World::init().unwrap();
    let local = world.local();
    let ring = Ring::lane(local, 3, 256).unwrap();
    assert!(Ring::lane_of(local, 3, ring.address).is_ok() && Ring::lane_of(local, 4, ring.address).is_err());
    let span = local.span(ring.address, 256).unwrap();
    for tail in [u64::MAX, 4, 264, 1 << 60] {
        span.store(64, tail).unwrap();
        assert!(ring.write_locked(local).is_err(), "{tail}");
    }
    assert!(ring.read(local, 4).is_err());
    // The last bytes that can ever be written.
    span.store(64, !15).unwrap();
    span.store(128, !15).unwrap();
    assert!(ring.write_locked(local).unwrap().push(&short(0, 80), &[7; 80]).unwrap());
    span.store(64, 0).unwrap();
    span.store(128, 0).unwrap();
    // A body that is longer than the ring, or than anything, and what is no record.
    for first in [1 | 233 << 32, 1 | 300 << 32, u64::MAX, 1 | u64::MAX << 32, 12] {
        span.store(192, first).unwrap();
        let reading = ring.read(local, 0).unwrap();
        assert!(reading.record().is_err() && reading.short().is_none(), "{first:#x}");
        assert!(ring.write_locked(local).is_err(), "{first:#x}");
    }
    // What is no short message, and one that says more.
    for (kind, is_short) in [(0, false), (1, true), (2, false), (7, false), (0x101, false), (77, false)] {
        span.store(192, kind).unwrap();
        assert_eq!(ring.read(local, 0).unwrap().short().is_some(), is_short, "{kind}");
    }
    for bytes in [0, 100, 257, LARGEST_RING + 8, !7] {
        assert!(Ring::new(GlobalAddress::from_bits(0), bytes).is_err(), "{bytes}");
    }
    world.finalize().unwrap();
}
