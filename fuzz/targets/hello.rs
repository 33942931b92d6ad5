//! The stateless decoders: a HELLO from anybody, and a frame header from an authenticated peer. And both sides of a relay's handshake.
//!
//! What must hold: nothing panics; no HELLO but the real one is believed; what decodes encodes to the same bytes;
//! no header without the right tag is believed.
#![no_main]

use kumiki_net::auth::{
    check_hello, refused_record, FrameKey, Identity, JobId, Purpose, Secret, HELLO_BYTES,
};
use kumiki_net::route::words::{Asked, Asking};
use kumiki_net::wire::frame::{self, FRAME_HEADER_BYTES, HEADER_BYTES};
use kumiki_net::wire::Connection;
use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;

const JOB: JobId = JobId(77);

fuzz_target!(|bytes: &[u8]| {
    let secret = Secret::from_bytes([0x5a; 32]);
    stranger(bytes, &secret);
    damaged(bytes, &secret);
    honest(bytes, &secret);
    header(bytes);
    relay(bytes, &secret);
});

/// The input as it is.
fn stranger(bytes: &[u8], secret: &Secret) {
    match check_hello(bytes, secret, JOB) {
        // The seed corpus holds one real record, and no other can be made without the secret.
        Ok(_) => assert_eq!(bytes, real_hello(secret)),
        Err(refusal) => {
            let _ = (refused_record(&refusal), refusal.to_string());
        }
    }
}

/// The real record with some of its bytes changed by the input.
fn damaged(bytes: &[u8], secret: &Secret) {
    let mut record = real_hello(secret);
    for change in bytes.chunks_exact(2) {
        record[usize::from(change[0]) % HELLO_BYTES] ^= change[1];
    }
    let unchanged = record == real_hello(secret);
    assert_eq!(check_hello(&record, secret, JOB).is_ok(), unchanged);
}

/// A HELLO with fields from the input says just these.
fn honest(bytes: &[u8], secret: &Secret) {
    let Some(fields) = bytes.first_chunk::<20>() else { return };
    let number = |at: usize| u32::from_le_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]]);
    let job = JobId(u64::from(number(0)) << 32 | u64::from(number(4)));
    let from = Identity { rank: number(8), incarnation: number(12) };
    let to = number(16);
    let purpose = if bytes.len() & 1 == 0 { Purpose::Data } else { Purpose::Control };
    let record = Connection::initiate(job, secret, from, to, purpose, [1; 32], 0).take_output();
    let hello = check_hello(&record.expect("an initiator speaks first"), secret, job).expect("it is honest");
    assert_eq!((hello.from, hello.to, hello.purpose), (from, to, purpose));
}

fn header(bytes: &[u8]) {
    let key = FrameKey::from_bytes([7; 32]);
    if let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
        if let Ok(decoded) = frame::decode(header) {
            assert_eq!(frame::encode(&decoded), *header);
            let sealed = frame::seal(&decoded, &key, 3).expect("what decodes can be sealed");
            assert_eq!(frame::open(&sealed, &key, 3), Ok(decoded));
        }
    }
    if let Some(sealed) = bytes.first_chunk::<FRAME_HEADER_BYTES>() {
        assert!(frame::open(sealed, &key, 0).is_err());
    }
}

/// Strangers reach nobody through a relay, and no relay but one that knows the secret is believed.
fn relay(bytes: &[u8], secret: &Secret) {
    let split = bytes.first().map_or(0, |&first| usize::from(first) % bytes.len());
    let (mut asked, wanted) = (Asked::new([2; 32], 0), SocketAddr::from(([10, 0, 0, 1], 7100)));
    let mut asking = Asking::new(secret, wanted, [1; 32], 0);
    while asking.take_output().is_some() {}
    for piece in [&bytes[..split], &bytes[split..]] {
        assert!(!matches!(asked.feed(secret, piece), Ok((_, Some(_)))));
        assert!(!matches!(asking.feed(secret, piece), Ok((_, Some(_)))));
        while asked.take_output().is_some() {}
    }
}

fn real_hello(secret: &Secret) -> Vec<u8> {
    let me = Identity { rank: 3, incarnation: 1 };
    let mut caller = Connection::initiate(JOB, secret, me, 9, Purpose::Data, [0x11; 32], 0);
    caller.take_output().expect("an initiator speaks first").to_vec()
}
