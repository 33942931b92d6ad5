//! Two engines and a virtual clock: handshakes, frames, goodbyes, and everything that must be refused.

use super::frame::{self, KIND_GOODBYE};
use super::*;
use crate::auth::{self, Identity, JobId, Purpose, Reason, Record, Refusal, Secret};
use proptest::prelude::*;

const JOB: JobId = JobId(77);
const LEFT: Identity = Identity { rank: 3, incarnation: 1 };
const RIGHT: Identity = Identity { rank: 9, incarnation: 4 };
const LEFT_NONCE: [u8; 32] = [0x11; 32];
const RIGHT_NONCE: [u8; 32] = [0x22; 32];

fn secret() -> Secret {
    Secret::from_bytes([0x5a; 32])
}

fn initiator() -> Connection {
    Connection::initiate(JOB, &secret(), LEFT, RIGHT.rank, Purpose::Data, LEFT_NONCE, 0)
}

fn responder() -> Connection {
    Connection::accept(JOB, RIGHT, Purpose::Data, RIGHT_NONCE, 0)
}

fn output(connection: &mut Connection) -> Vec<u8> {
    connection.take_output().expect("there is output").to_vec()
}

/// Feeds bytes in pieces of a given size until they are used up or a frame with payload needs the caller.
fn feed_in_pieces(
    connection: &mut Connection,
    bytes: &[u8],
    piece_bytes: usize,
) -> Result<Vec<Event>, WireError> {
    let mut events = Vec::new();
    for mut piece in bytes.chunks(piece_bytes) {
        while !piece.is_empty() {
            let left = connection.payload_left() as usize;
            if left > 0 {
                let taken = left.min(piece.len());
                connection.payload(&piece[..taken])?;
                piece = &piece[taken..];
                continue;
            }
            let (taken, event) = connection.feed(&secret(), piece)?;
            assert!(taken > 0, "feed must make progress");
            piece = &piece[taken..];
            if event != Event::NeedMore {
                events.push(event);
            }
        }
    }
    Ok(events)
}

fn feed_all(connection: &mut Connection, bytes: &[u8]) -> Result<Vec<Event>, WireError> {
    feed_in_pieces(connection, bytes, usize::MAX)
}

/// An honest handshake: both ends and the three records.
struct Pair {
    left: Connection,
    right: Connection,
    hello: Vec<u8>,
    challenge: Vec<u8>,
    proof: Vec<u8>,
}

fn pair() -> Pair {
    let (mut left, mut right) = (initiator(), responder());
    let hello = output(&mut left);
    assert_eq!(feed_all(&mut right, &hello), Ok(vec![]));
    let challenge = output(&mut right);
    assert_eq!(feed_all(&mut left, &challenge), Ok(vec![Event::Established(RIGHT)]));
    let proof = output(&mut left);
    assert_eq!(feed_all(&mut right, &proof), Ok(vec![Event::Established(LEFT)]));
    assert!(left.take_output().is_none() && right.take_output().is_none());
    Pair { left, right, hello, challenge, proof }
}

fn request(op: u64) -> Header {
    Header { kind: 16, op, a: 1, b: 2, c: 3, d: 4, generation: 5, generation_b: 6, ..Header::default() }
}

fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

fn refusal(error: WireError) -> Refusal {
    match error {
        WireError::Refused(refusal) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// The error of a connection that must fail on these bytes, and must then stay failed.
fn failure(mut connection: Connection, bytes: &[u8]) -> WireError {
    let error = feed_all(&mut connection, bytes).expect_err("must be refused");
    assert_stays_failed(&mut connection, error);
    error
}

fn assert_stays_failed(connection: &mut Connection, error: WireError) {
    assert_eq!(connection.feed(&secret(), b"x"), Err(error));
    assert_eq!(connection.feed(&secret(), b""), Err(error));
    assert_eq!(connection.payload(b""), Err(error));
    assert_eq!(connection.seal(request(0)), Err(error));
    assert_eq!(connection.seal_reply(request(0)), Err(error));
    assert_eq!(connection.goodbye(), Err(error));
    assert_eq!(connection.expired(0), Err(error));
    assert_eq!(connection.end_of_input(), Err(error));
    assert_eq!(connection.error(), Some(error));
    assert!(!connection.may_request() && !connection.may_reply() && connection.peer().is_none());
    assert_eq!(connection.wake_up_at(), None);
    let farewell = connection.take_output();
    let expected = match error {
        WireError::Refused(refusal) => auth::refused_record(&refusal),
        _ => None,
    };
    assert_eq!(farewell.as_deref(), expected.as_ref().map(|record| &record[..]));
    assert!(connection.take_output().is_none(), "a farewell is sent once");
}

/// All of them; a few in Miri, where a handshake takes seconds.
fn thinned<I: Iterator>(all: I) -> std::iter::StepBy<I> {
    all.step_by(if cfg!(miri) { 61 } else { 1 })
}

#[test]
fn a_handshake_and_frames_work_at_every_piece_size() {
    let payload: Vec<u8> = (0..100).collect();
    for piece_bytes in thinned(1..=200) {
        let (mut left, mut right) = (initiator(), responder());
        let hello = output(&mut left);
        assert_eq!(feed_in_pieces(&mut right, &hello, piece_bytes), Ok(vec![]));
        let challenge = output(&mut right);
        let events = feed_in_pieces(&mut left, &challenge, piece_bytes);
        assert_eq!(events, Ok(vec![Event::Established(RIGHT)]));
        // The first frames may come right behind the proof.
        let mut bytes = output(&mut left);
        let headers = [request(1).with_payload(&payload), request(2), request(3).with_payload(&payload)];
        for header in headers {
            bytes.extend(left.seal(header).unwrap());
            bytes.extend(&payload[..header.payload_bytes as usize]);
        }
        let mut expected = vec![Event::Established(LEFT)];
        expected.extend(headers.map(Event::Frame));
        assert_eq!(feed_in_pieces(&mut right, &bytes, piece_bytes), Ok(expected));
        assert!(right.is_between_frames());
        assert_eq!((left.peer(), right.peer()), (Some(RIGHT), Some(LEFT)));
    }
}

#[test]
fn every_split_of_every_record_and_header_in_two_works() {
    let Pair { hello, challenge, proof, mut left, .. } = pair();
    let frame = left.seal(request(1)).unwrap();
    for at in thinned(0..=auth::CHALLENGE_BYTES) {
        let (mut left, mut right) = (initiator(), responder());
        let halves = |bytes: &[u8]| {
            let at = at.min(bytes.len());
            [bytes[..at].to_vec(), bytes[at..].to_vec()]
        };
        let _ = output(&mut left);
        for half in halves(&hello) {
            assert_eq!(right.feed(&secret(), &half), Ok((half.len(), Event::NeedMore)));
        }
        assert_eq!(output(&mut right), challenge);
        let events: Vec<_> = halves(&challenge).map(|half| feed_all(&mut left, &half).unwrap()).concat();
        assert_eq!(events, [Event::Established(RIGHT)]);
        assert_eq!(output(&mut left), proof);
        let rest = halves(&proof).into_iter().chain(halves(&frame));
        let events: Vec<_> = rest.flat_map(|half| feed_all(&mut right, &half).unwrap()).collect();
        assert_eq!(events, [Event::Established(LEFT), Event::Frame(request(1))]);
    }
}

#[test]
fn every_flipped_bit_of_the_handshake_is_refused() {
    let Pair { hello, challenge, proof, .. } = pair();
    for bit in thinned(0..hello.len() * 8) {
        refusal(failure(responder(), &flipped(&hello, bit)));
    }
    for bit in thinned(0..challenge.len() * 8) {
        let mut left = initiator();
        let _ = output(&mut left);
        refusal(failure(left, &flipped(&challenge, bit)));
    }
    for bit in thinned(0..proof.len() * 8) {
        let mut right = responder();
        feed_all(&mut right, &hello).unwrap();
        let _ = output(&mut right);
        refusal(failure(right, &flipped(&proof, bit)));
    }
}

#[test]
fn every_flipped_bit_of_a_frame_is_refused() {
    let payload = *b"sixteen bytes ok";
    let header = request(1).with_payload(&payload);
    let frame = [&pair().left.seal(header).unwrap()[..], &payload].concat();
    assert_eq!(feed_all(&mut pair().right, &frame), Ok(vec![Event::Frame(header)]));
    for bit in thinned(0..frame.len() * 8) {
        let error = failure(pair().right, &flipped(&frame, bit));
        let header_bits = FRAME_HEADER_BYTES * 8;
        let expected = if bit < header_bits { WireError::BadTag } else { WireError::BadChecksum };
        assert_eq!(error, expected, "bit {bit}");
    }
}

/// The headers of a bundle, packed.
fn packed(headers: &[Header]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for header in headers {
        let mut place = [0; bundle::MOST_PACKED_BYTES];
        let length = bundle::pack(header, &mut place);
        bytes.extend_from_slice(&place[..length]);
    }
    bytes
}

#[test]
fn every_flipped_bit_of_a_bundle_is_refused() {
    let headers = [request(1), Header { kind: 17, op: 2, ..Header::default() }, request(3)];
    let packed = packed(&headers);
    let sealed = pair().left.seal_bundle(&packed, true).unwrap();
    let mut right = pair().right;
    assert_eq!(feed_all(&mut right, &sealed), Ok(vec![Event::Bundle]));
    assert!(right.awaits_bundle() && !right.is_between_frames());
    assert_eq!((right.payload_left() as usize, right.bundle(&packed)), (packed.len(), Ok(())));
    assert!(bundle::headers(&packed).eq(headers) && right.is_between_frames());
    for bit in thinned(0..sealed.len() * 8) {
        assert_eq!(failure(pair().right, &flipped(&sealed, bit)), WireError::BadTag);
    }
    for bit in thinned(0..packed.len() * 8) {
        let mut right = pair().right;
        feed_all(&mut right, &sealed).unwrap();
        assert_eq!(right.bundle(&flipped(&packed, bit)), Err(WireError::BadTag), "bit {bit}");
        assert_stays_failed(&mut right, WireError::BadTag);
    }
}

#[test]
fn a_bundle_is_no_payload_and_keeps_to_the_goodbyes() {
    let Pair { mut left, mut right, .. } = pair();
    let packed = packed(&[request(1), request(2)]);
    let misused = |result: Result<(), WireError>| assert!(matches!(result, Err(WireError::Misuse(_))));
    misused(right.bundle(&packed));
    misused(left.seal(Header { kind: frame::KIND_BUNDLE, payload_bytes: 48, ..Header::default() }).map(drop));
    let first = left.seal_bundle(&packed, true).unwrap();
    feed_all(&mut right, &first).unwrap();
    misused(right.payload(&packed).map(drop));
    misused(right.feed(&secret(), b"x").map(drop));
    misused(right.bundle(&packed[..packed.len() - 1]));
    assert_eq!(right.bundle(&packed), Ok(()), "none of that had an effect");
    misused(right.bundle(&packed));
    // The peer has said goodbye: replies may still go, requests may not.
    right.goodbye().unwrap();
    assert_eq!(feed_all(&mut left, &output(&mut right)), Ok(vec![Event::Goodbye]));
    misused(left.seal_bundle(&packed, true).map(drop));
    let replies = left.seal_bundle(&packed, false).unwrap();
    assert_eq!(feed_all(&mut right, &replies), Ok(vec![Event::Bundle]));
    // A replay is not the next in the numbering.
    assert_eq!(right.bundle(&packed), Ok(()));
    assert_eq!(failure(right, &replies), WireError::BadTag);
}

#[test]
fn a_recorded_handshake_cannot_be_replayed() {
    let Pair { hello, proof, challenge, .. } = pair();
    // To a responder with a fresh nonce: the hello passes, the proof does not.
    let mut right = Connection::accept(JOB, RIGHT, Purpose::Data, [0x33; 32], 0);
    feed_all(&mut right, &hello).unwrap();
    let _ = output(&mut right);
    assert_eq!(refusal(failure(right, &proof)), Refusal::Proof);
    // To an initiator with a fresh nonce.
    let mut left = Connection::initiate(JOB, &secret(), LEFT, RIGHT.rank, Purpose::Data, [0x44; 32], 0);
    let _ = output(&mut left);
    assert_eq!(refusal(failure(left, &challenge)), Refusal::Proof);
    // All at once, without waiting.
    let mut right = Connection::accept(JOB, RIGHT, Purpose::Data, [0x33; 32], 0);
    let all = [hello, proof].concat();
    assert_eq!(refusal(feed_all(&mut right, &all).unwrap_err()), Refusal::OutOfTurn);
}

#[test]
fn frames_cannot_be_replayed_reordered_dropped_or_moved_to_another_connection() {
    let Pair { mut left, mut right, .. } = pair();
    let frames: Vec<_> = (0..3).map(|op| left.seal(request(op)).unwrap()).collect();
    feed_all(&mut right, &frames[0]).unwrap();
    assert_eq!(failure(right, &frames[0]), WireError::BadTag, "replayed");
    assert_eq!(failure(pair().right, &frames[1]), WireError::BadTag, "dropped or reordered");
    assert_eq!(failure(pair().left, &frames[0]), WireError::BadTag, "reflected");
    // The same ends, other nonces.
    let mut left = Connection::initiate(JOB, &secret(), LEFT, RIGHT.rank, Purpose::Data, [0x44; 32], 0);
    let mut right = responder();
    feed_all(&mut right, &output(&mut left)).unwrap();
    feed_all(&mut left, &output(&mut right)).unwrap();
    feed_all(&mut right, &output(&mut left)).unwrap();
    assert_eq!(failure(right, &frames[0]), WireError::BadTag, "from another connection");
}

#[test]
fn reflected_records_are_refused() {
    let mut left = initiator();
    let hello = output(&mut left);
    let expected = Refusal::Record { expected: Record::Challenge, got: Record::Hello as u8 };
    assert_eq!(refusal(failure(left, &hello)), expected);
    // A hello that is sent back to its own rank asks for another rank.
    let own = Connection::accept(JOB, LEFT, Purpose::Data, RIGHT_NONCE, 0);
    assert_eq!(refusal(failure(own, &hello)), Refusal::Target { asked: RIGHT.rank, ours: LEFT.rank });
    // The responder's own proof in the initiator's record.
    let mut right = responder();
    feed_all(&mut right, &hello).unwrap();
    let challenge = output(&mut right);
    let mut forged = pair().proof;
    forged[8..].copy_from_slice(&challenge[48..]);
    assert_eq!(refusal(failure(right, &forged)), Refusal::Proof);
    let mut right = responder();
    feed_all(&mut right, &hello).unwrap();
    let challenge = output(&mut right);
    let expected = Refusal::Record { expected: Record::Proof, got: Record::Challenge as u8 };
    assert_eq!(refusal(failure(right, &challenge)), expected);
}

#[test]
fn every_truncation_is_reported() {
    let Pair { hello, challenge, proof, mut left, .. } = pair();
    let frame = left.seal(request(0).with_payload(b"abc")).unwrap();
    let cut_short = |mut connection: Connection, bytes: &[u8], length: usize| {
        feed_all(&mut connection, &bytes[..length]).unwrap();
        let error = connection.end_of_input().unwrap_err();
        let need = bytes.len() as u32;
        let expected = Refusal::Truncated { got: length as u32, need };
        assert_eq!(error, if length == 0 { WireError::Closed } else { expected.into() });
        assert_stays_failed(&mut connection, error);
    };
    for length in thinned(0..hello.len()) {
        cut_short(responder(), &hello, length);
    }
    for length in thinned(0..challenge.len()) {
        let mut left = initiator();
        let _ = output(&mut left);
        cut_short(left, &challenge, length);
    }
    for length in thinned(0..proof.len()) {
        let mut right = responder();
        feed_all(&mut right, &hello).unwrap();
        let _ = output(&mut right);
        cut_short(right, &proof, length);
    }
    for length in thinned(0..frame.len() + 3) {
        let mut right = pair().right;
        feed_all(&mut right, &[&frame[..], b"abc"].concat()[..length]).unwrap();
        assert_eq!(right.end_of_input(), Err(WireError::Closed));
        assert_stays_failed(&mut right, WireError::Closed);
    }
}

#[test]
fn strangers_are_refused_with_a_distinct_reason_and_told_why() {
    let call = |job, key: [u8; 32], to, purpose| {
        let key = Secret::from_bytes(key);
        Connection::initiate(job, &key, LEFT, to, purpose, LEFT_NONCE, 0)
    };
    let mut off_by_one_bit = [0x5a; 32];
    off_by_one_bit[31] ^= 0x80;
    let (job, rank, data) = (JOB, RIGHT.rank, Purpose::Data);
    let cases = [
        (call(JobId(78), [0x5a; 32], rank, data), Refusal::Job { theirs: JobId(78), ours: JOB }, Reason::Job),
        (call(job, off_by_one_bit, rank, data), Refusal::Secret, Reason::Secret),
        (call(job, [0x5a; 32], 8, data), Refusal::Target { asked: 8, ours: 9 }, Reason::Target),
        (
            call(job, [0x5a; 32], rank, Purpose::Control),
            Refusal::Purpose { theirs: Purpose::Control, ours: data },
            Reason::Purpose,
        ),
    ];
    for (mut stranger, expected, reason) in cases {
        let mut right = responder();
        let error = feed_all(&mut right, &output(&mut stranger)).unwrap_err();
        assert_eq!(refusal(error), expected);
        let answer = output(&mut right);
        let told = feed_all(&mut stranger, &answer).unwrap_err();
        assert_eq!(refusal(told), Refusal::ByPeer { reason, version: auth::PROTOCOL_VERSION });
        assert!(stranger.take_output().is_none(), "a refusal is not answered");
    }
}

#[test]
fn another_version_is_named_on_both_sides_whatever_its_length() {
    let mut theirs = output(&mut initiator())[..auth::PREFIX_BYTES].to_vec();
    theirs[4..6].copy_from_slice(&99u16.to_le_bytes());
    let mut right = responder();
    let error = feed_all(&mut right, &theirs).unwrap_err();
    assert_eq!(refusal(error), Refusal::Version { theirs: 99, ours: auth::PROTOCOL_VERSION });
    assert!(error.to_string().contains("version 99"), "{error}");
    // A responder of version 99 would answer this to us.
    let mut answer = output(&mut right);
    answer[4..6].copy_from_slice(&99u16.to_le_bytes());
    let mut left = initiator();
    let _ = output(&mut left);
    let error = failure(left, &answer);
    assert_eq!(refusal(error), Refusal::ByPeer { reason: Reason::Version, version: 99 });
    assert!(error.to_string().contains("version 99"), "{error}");
}

#[test]
fn a_responder_without_the_secret_is_refused() {
    let wrong = Secret::from_bytes([0x5b; 32]);
    let mut left = initiator();
    let hello = output(&mut left);
    let digest = auth::hello_digest(&hello.try_into().unwrap());
    let (challenge, _) = auth::challenge(&digest, RIGHT, &RIGHT_NONCE, &wrong);
    assert_eq!(refusal(failure(left, &challenge)), Refusal::Proof);
}

#[test]
fn garbage_is_refused_at_its_first_wrong_byte_and_not_answered() {
    let tls: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    for garbage in [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", tls, b"SSH-2.0-OpenSSH_9.6\r\n", b"KMKx", b"\0"] {
        for piece_bytes in [1, 2, usize::MAX] {
            let mut right = responder();
            let error = feed_in_pieces(&mut right, garbage, piece_bytes).unwrap_err();
            assert_eq!(refusal(error), Refusal::NotKumiki);
            assert!(!right.has_output());
            let mut left = initiator();
            let _ = output(&mut left);
            assert_eq!(
                refusal(feed_in_pieces(&mut left, garbage, piece_bytes).unwrap_err()),
                Refusal::NotKumiki
            );
        }
    }
}

#[test]
fn who_speaks_out_of_turn_is_refused() {
    // Before our hello is even sent.
    assert_eq!(refusal(failure(initiator(), b"K")), Refusal::OutOfTurn);
    // Frames behind the challenge, before our proof.
    let Pair { challenge, .. } = pair();
    let mut left = initiator();
    let _ = output(&mut left);
    assert_eq!(refusal(failure(left, &[&challenge[..], b"frame"].concat())), Refusal::OutOfTurn);
}

#[test]
fn a_handshake_ends_in_time_or_fails() {
    let start_ms = 1_000;
    let mut right = Connection::accept(JOB, RIGHT, Purpose::Data, RIGHT_NONCE, start_ms);
    let deadline_ms = start_ms + ANSWER_TIMEOUT_MS;
    assert_eq!(right.wake_up_at(), Some(deadline_ms));
    // A slow-loris: bytes do not move the deadline, nor does the next record.
    feed_all(&mut right, &output(&mut initiator())).unwrap();
    assert_eq!(right.expired(deadline_ms - 1), Ok(()));
    assert_eq!(right.wake_up_at(), Some(deadline_ms));
    assert_eq!(right.expired(deadline_ms), Err(WireError::Timeout));
    assert_stays_failed(&mut right, WireError::Timeout);
    let mut left = initiator();
    assert_eq!(left.expired(HANDSHAKE_TIMEOUT_MS), Err(WireError::Timeout));
    assert_stays_failed(&mut left, WireError::Timeout);
    let mut open = pair().left;
    assert_eq!((open.wake_up_at(), open.expired(u64::MAX)), (None, Ok(())));
}

#[test]
fn an_eviction_loses_nothing() {
    let Pair { mut left, mut right, .. } = pair();
    // The right side has a request outstanding when the left side says goodbye.
    let asked = right.seal(request(1)).unwrap();
    left.goodbye().unwrap();
    let goodbye = output(&mut left);
    assert!(!left.may_request() && left.may_reply());
    assert!(matches!(left.seal(request(9)), Err(WireError::Misuse(_))));
    // It serves the request all the same.
    assert_eq!(feed_all(&mut left, &asked), Ok(vec![Event::Frame(request(1))]));
    let reply = left.seal_reply(request(2)).unwrap();
    assert_eq!(feed_all(&mut right, &goodbye), Ok(vec![Event::Goodbye]));
    assert!(!right.may_request() && right.may_reply());
    assert!(matches!(right.seal(request(9)), Err(WireError::Misuse(_))));
    assert_eq!(feed_all(&mut right, &reply), Ok(vec![Event::Frame(request(2))]));
    // Now it has nothing outstanding.
    right.goodbye().unwrap();
    assert!(!right.is_finished(), "its goodbye has not been sent");
    let answer = output(&mut right);
    assert!(right.is_finished() && !right.may_reply());
    assert_eq!(feed_all(&mut left, &answer), Ok(vec![Event::Closed]));
    assert!(left.is_finished() && !left.may_reply());
    assert_eq!((left.end_of_input(), right.end_of_input()), (Ok(()), Ok(())));
    assert!(left.take_output().is_none() && right.take_output().is_none());
    assert_eq!(failure(left, &[b'x'; FRAME_HEADER_BYTES]), WireError::BadTag);
}

#[test]
fn a_knock_shows_whether_a_goodbye_has_come_and_nothing_else() {
    let Pair { mut left, mut right, .. } = pair();
    assert!(matches!(left.knock(), Err(WireError::Misuse(_))), "nobody has said goodbye");
    left.goodbye().unwrap();
    assert!(matches!(left.knock(), Err(WireError::Misuse(_))), "take the goodbye first");
    let goodbye = output(&mut left);
    let knocks = [left.knock().unwrap(), left.knock().unwrap()];
    assert_eq!(feed_all(&mut right, &goodbye), Ok(vec![Event::Goodbye]));
    assert_eq!(feed_all(&mut right, &knocks[0]), Ok(vec![Event::Knock]));
    assert!(right.may_reply() && !right.may_request());
    right.goodbye().unwrap();
    let answer = output(&mut right);
    // The second one has crossed it.
    assert_eq!(feed_all(&mut right, &knocks[1]), Ok(vec![Event::Knock]));
    assert!(right.is_finished());
    assert_eq!(feed_all(&mut left, &answer), Ok(vec![Event::Closed]));
    assert!(matches!(left.knock(), Err(WireError::Misuse(_))), "it is answered");

    let Pair { mut left, mut right, .. } = pair();
    left.goodbye().unwrap();
    drop(output(&mut left));
    assert_eq!(
        feed_all(&mut right, &left.knock().unwrap()),
        Err(WireError::BadTag),
        "the goodbye is missing"
    );

    let Pair { mut left, right, .. } = pair();
    let unasked = left.seal_own(&Header { kind: frame::KIND_KNOCK, ..Header::default() }).unwrap();
    assert!(matches!(failure(right, &unasked), WireError::BadHeader { .. }));
}

#[test]
fn an_acknowledgement_behind_both_goodbyes_was_an_error() {
    let mut left = Connection::initiate(JOB, &secret(), LEFT, RIGHT.rank, Purpose::KeptData, LEFT_NONCE, 0);
    let mut right = responder();
    let hello = output(&mut left);
    feed_all(&mut right, &hello).unwrap();
    let challenge = output(&mut right);
    feed_all(&mut left, &challenge).unwrap();
    let proof = output(&mut left);
    feed_all(&mut right, &proof).unwrap();
    left.goodbye().unwrap();
    right.goodbye().unwrap();
    let (from_left, from_right) = (output(&mut left), output(&mut right));
    assert_eq!(feed_all(&mut right, &from_left), Ok(vec![Event::Closed]));
    assert_eq!(feed_all(&mut left, &from_right), Ok(vec![Event::Closed]));
    // Each tells what has come, in pieces too; and nothing else may be said any more.
    let told = left.acknowledge(72).unwrap();
    assert_eq!(right.feed(&secret(), &told[..5]), Ok((5, Event::NeedMore)));
    assert_eq!(right.feed(&secret(), &told[5..]), Ok((told.len() - 5, Event::Acknowledged(72))));
    assert!(right.is_finished());
    let resumption = Resumption { session: 1, received: 2, known: true };
    let resumed = left.resume(resumption).unwrap();
    assert_eq!(failure(right, &resumed), WireError::Closed);
}

#[test]
fn goodbyes_that_cross_close_both_sides() {
    let Pair { mut left, mut right, .. } = pair();
    left.goodbye().unwrap();
    right.goodbye().unwrap();
    right.goodbye().unwrap();
    let from_left = output(&mut left);
    // The right side hears it before it has sent its own.
    assert_eq!(feed_all(&mut right, &from_left), Ok(vec![Event::Closed]));
    assert!(!right.is_finished());
    let from_right = output(&mut right);
    assert!(right.is_finished());
    assert_eq!(feed_all(&mut left, &from_right), Ok(vec![Event::Closed]));
    assert!(left.is_finished());
}

#[test]
fn a_goodbye_waits_for_nothing_but_goes_before_later_frames() {
    let Pair { mut left, mut right, .. } = pair();
    left.goodbye().unwrap();
    assert!(matches!(left.seal_reply(request(1)), Err(WireError::Misuse(_))), "take the goodbye first");
    let bytes = [output(&mut left), left.seal_reply(request(1)).unwrap().to_vec()].concat();
    assert_eq!(feed_all(&mut right, &bytes), Ok(vec![Event::Goodbye, Event::Frame(request(1))]));
}

#[test]
fn a_payload_that_may_change_is_torn_and_not_the_end() {
    let Pair { mut left, mut right, .. } = pair();
    let unsteady = |op| Header { flags: FLAG_UNSTEADY, ..request(op).with_payload(b"ab") };
    for (op, arrives, landed) in
        [(1, b"ab", Landed::Wholly), (2, b"ax", Landed::Torn), (3, b"ab", Landed::Wholly)]
    {
        feed_all(&mut right, &left.seal(unsteady(op)).unwrap()).unwrap();
        assert_eq!(right.payload(&arrives[..1]), Ok(Landed::Partly));
        assert_eq!(right.payload(&arrives[1..]), Ok(landed));
    }
    // The same damage to one that was steady is final.
    feed_all(&mut right, &left.seal(request(4).with_payload(b"ab")).unwrap()).unwrap();
    assert_eq!(right.payload(b"ax"), Err(WireError::BadChecksum));
    assert_eq!(right.error(), Some(&WireError::BadChecksum).copied());
}

#[test]
fn misuse_has_no_effect() {
    let mut early = initiator();
    assert!(matches!(early.seal(request(0)), Err(WireError::Misuse(_))));
    assert!(matches!(early.goodbye(), Err(WireError::Misuse(_))));
    assert!(matches!(early.payload(b""), Err(WireError::Misuse(_))));
    let Pair { mut left, mut right, .. } = pair();
    let large = Header { payload_bytes: MAX_PAYLOAD_BYTES + 1, ..request(0) };
    assert_eq!(left.seal(large), Err(WireError::TooLarge { bytes: MAX_PAYLOAD_BYTES + 1 }));
    assert!(left.seal(Header { kind: 2, ..request(0) }).is_err());
    assert!(matches!(
        left.seal(Header { kind: KIND_GOODBYE, ..Header::default() }),
        Err(WireError::Misuse(_))
    ));
    assert!(matches!(right.payload(b"x"), Err(WireError::Misuse(_))));
    let header = request(1).with_payload(b"ab");
    feed_all(&mut right, &left.seal(header).unwrap()).unwrap();
    assert!(matches!(right.feed(&secret(), b"x"), Err(WireError::Misuse(_))));
    assert!(matches!(right.payload(b"abc"), Err(WireError::Misuse(_))));
    assert!(!right.is_between_frames());
    assert_eq!(right.payload(b"a"), Ok(Landed::Partly));
    assert_eq!(right.payload(b""), Ok(Landed::Partly));
    assert_eq!(right.payload(b"b"), Ok(Landed::Wholly));
    assert_eq!(feed_all(&mut right, &left.seal(request(2)).unwrap()), Ok(vec![Event::Frame(request(2))]));
}

#[test]
fn an_authentic_but_malformed_header_is_refused() {
    let Pair { hello, challenge, proof, .. } = pair();
    let digest = auth::hello_digest(&hello.clone().try_into().unwrap());
    let checked = auth::check_challenge(&challenge.try_into().unwrap(), &digest, RIGHT.rank, &secret());
    let keys = auth::frame_keys(&checked.unwrap().1, &secret());
    // A buggy rank of our own job: right key, wrong header.
    let sealed = |bytes: [u8; frame::HEADER_BYTES], sequence: u64| {
        frame::seal_encoded(&bytes, &keys.forward, sequence).to_vec()
    };
    let connected = || {
        let mut right = responder();
        feed_all(&mut right, &hello).unwrap();
        let _ = output(&mut right);
        feed_all(&mut right, &proof).unwrap();
        right
    };
    let large = Header { payload_bytes: u32::MAX, payload_crc: 1, ..request(0) };
    let error = failure(connected(), &sealed(frame::encode(&large), 0));
    assert_eq!(error, WireError::TooLarge { bytes: u32::MAX });
    let reserved = Header { kind: 2, ..Header::default() };
    assert!(matches!(
        failure(connected(), &sealed(frame::encode(&reserved), 0)),
        WireError::BadHeader { .. }
    ));
    let goodbye = frame::encode(&Header { kind: KIND_GOODBYE, ..Header::default() });
    let twice = [sealed(goodbye, 0), sealed(goodbye, 1)].concat();
    assert!(matches!(failure(connected(), &twice), WireError::BadHeader { what: "a second goodbye" }));
}

#[test]
fn nothing_secret_is_printed() {
    let text = format!("{:?} {:?} {:?}", initiator(), pair().left, initiator().take_output());
    assert!(text.contains("awaits challenge") && text.contains("open"), "{text}");
    assert!(!text.contains("17, 17"), "{text}");
}

/// What a user of the wire does, for the property test below.
#[derive(Clone, Debug)]
enum Step {
    Request { from_left: bool, payload: Vec<u8> },
    Deliver { to_left: bool, bytes: usize },
    Goodbye { left: bool },
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(from_left, payload)| Step::Request { from_left, payload }),
        8 => (any::<bool>(), 1..400usize).prop_map(|(to_left, bytes)| Step::Deliver { to_left, bytes }),
        1 => any::<bool>().prop_map(|left| Step::Goodbye { left }),
    ]
}

/// One end, the bytes on their way to it, and what it has asked and been answered.
struct End {
    connection: Connection,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    asked: u64,
    answered: u64,
    served: u64,
    heard_goodbye: bool,
}

const REQUEST: u8 = 16;
const REPLY: u8 = 17;

impl End {
    fn new(connection: Connection) -> Self {
        let (incoming, outgoing) = (Vec::new(), Vec::new());
        Self { connection, incoming, outgoing, asked: 0, answered: 0, served: 0, heard_goodbye: false }
    }

    fn drain(&mut self) {
        while let Some(output) = self.connection.take_output() {
            self.outgoing.extend_from_slice(&output);
        }
    }

    fn ask(&mut self, payload: &[u8]) {
        if self.connection.may_request() {
            let header = Header { kind: REQUEST, op: self.asked, ..Header::default() }.with_payload(payload);
            self.outgoing.extend(self.connection.seal(header).unwrap());
            self.outgoing.extend(payload);
            self.asked += 1;
        }
    }

    fn say_goodbye(&mut self) {
        if self.connection.peer().is_some() && self.asked == self.answered {
            self.connection.goodbye().unwrap();
            self.drain();
        }
    }

    fn deliver(&mut self, bytes: usize) {
        let bytes: Vec<u8> = self.incoming.drain(..bytes.min(self.incoming.len())).collect();
        for event in feed_all(&mut self.connection, &bytes).expect("an honest peer is never refused") {
            self.drain();
            match event {
                Event::Frame(header) if header.kind == REQUEST => {
                    assert_eq!(header.op, self.served, "requests arrive once and in order");
                    let reply = Header { kind: REPLY, op: header.op, ..Header::default() };
                    self.outgoing
                        .extend(self.connection.seal_reply(reply).expect("a request is always answered"));
                    self.served += 1;
                }
                Event::Frame(header) => {
                    assert_eq!(header.op, self.answered);
                    self.answered += 1;
                }
                Event::Goodbye => self.heard_goodbye = true,
                _ => {}
            }
        }
        self.drain();
        if self.heard_goodbye {
            self.say_goodbye();
        }
    }
}

fn exchange(left: &mut End, right: &mut End) {
    right.incoming.append(&mut left.outgoing);
    left.incoming.append(&mut right.outgoing);
}

proptest! {
    #[test]
    fn whatever_two_honest_ends_do_every_request_is_answered(
        steps in proptest::collection::vec(any_step(), 0..80)
    ) {
        let (mut left, mut right) = (End::new(initiator()), End::new(responder()));
        left.drain();
        for step in steps {
            match step {
                Step::Request { from_left, payload } => {
                    if from_left { left.ask(&payload) } else { right.ask(&payload) }
                }
                Step::Deliver { to_left, bytes } => {
                    if to_left { left.deliver(bytes) } else { right.deliver(bytes) }
                }
                Step::Goodbye { left: true } => left.say_goodbye(),
                Step::Goodbye { left: false } => right.say_goodbye(),
            }
            exchange(&mut left, &mut right);
        }
        for _ in 0..20 {
            left.deliver(usize::MAX);
            right.deliver(usize::MAX);
            exchange(&mut left, &mut right);
        }
        prop_assert_eq!((left.asked, right.asked), (left.answered, right.answered));
        left.say_goodbye();
        exchange(&mut left, &mut right);
        right.deliver(usize::MAX);
        exchange(&mut left, &mut right);
        left.deliver(usize::MAX);
        prop_assert!(left.connection.is_finished() && right.connection.is_finished());
    }

    #[test]
    fn arbitrary_bytes_are_never_believed(bytes: Vec<u8>, piece_bytes in 1..50usize) {
        // None of them can be a proof: nothing becomes established, nothing panics.
        for mut connection in [initiator(), responder()] {
            let _ = connection.take_output();
            let events = feed_in_pieces(&mut connection, &bytes, piece_bytes);
            prop_assert!(!matches!(events, Ok(ref events) if !events.is_empty()));
            prop_assert!(connection.peer().is_none());
        }
    }

    #[test]
    fn the_verdict_does_not_depend_on_the_split(
        at in 0..268usize, value: u8, left_bytes in 1..90usize, right_bytes in 1..90usize
    ) {
        let Pair { hello, mut left, proof, .. } = pair();
        let frame = left.seal(request(0)).unwrap();
        let mut rest = [&proof[..], &frame].concat();
        let mut hello = hello.clone();
        match at.checked_sub(hello.len()) {
            None => hello[at] = value,
            Some(at) if at < rest.len() => rest[at] = value,
            Some(_) => {}
        }
        let verdict = |piece_bytes| {
            let mut right = responder();
            feed_in_pieces(&mut right, &hello, piece_bytes)?;
            let _ = right.take_output();
            feed_in_pieces(&mut right, &rest, piece_bytes)
        };
        prop_assert_eq!(verdict(left_bytes), verdict(right_bytes));
    }
}
