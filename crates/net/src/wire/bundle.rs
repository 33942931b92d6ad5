//! A bundle: many headers without payload in one frame, under one tag.
//!
//! The headers are its payload. Unlike other payloads they are requests, so an accident-proof checksum is not enough: their keyed
//! hash is in the header of the bundle, whose tag covers it. Pure functions from bytes to values and back.

use super::frame::{Header, FIRST_USER_KIND, KIND_BUNDLE};
use super::WireError;
use crate::auth::FrameKey;
use constant_time_eq::constant_time_eq_16;

/// Bytes of a header in a bundle that says nothing but its kind, its flags, its generations and its number.
const LEAST_PACKED_BYTES: usize = 16;
/// Bytes of one that says all. What is said of payloads is left out, and so are those of `a`, `b`, `c` and `d` that are 0.
pub const MOST_PACKED_BYTES: usize = LEAST_PACKED_BYTES + 4 * 8;
/// The most bytes of the headers of a bundle.
pub const MAX_BUNDLE_BYTES: usize = 3072;
/// Bytes of their hash.
pub(super) const HASH_BYTES: usize = 16;

/// Writes a header that has no payload to the beginning of a place, little-endian. How many bytes it takes.
#[inline]
pub fn pack(header: &Header, place: &mut [u8; MOST_PACKED_BYTES]) -> usize {
    place[0] = header.kind;
    place[1] = header.flags;
    place[2..4].copy_from_slice(&header.generation.to_le_bytes());
    place[4..6].copy_from_slice(&header.generation_b.to_le_bytes());
    place[8..16].copy_from_slice(&header.op.to_le_bytes());
    let (mut words, mut end) = (0, LEAST_PACKED_BYTES);
    for (bit, word) in [header.a, header.b, header.c, header.d].into_iter().enumerate() {
        if word != 0 {
            words |= 1 << bit;
            place[end..end + 8].copy_from_slice(&word.to_le_bytes());
            end += 8;
        }
    }
    place[6] = words;
    // A spare byte.
    place[7] = 0;
    end
}

/// How long the header is that begins with these bytes.
#[inline]
fn packed_bytes(first: &[u8; LEAST_PACKED_BYTES]) -> usize {
    LEAST_PACKED_BYTES + 8 * (first[6] & 0xf).count_ones() as usize
}

/// The headers of a bundle that was [opened](super::Connection::bundle).
///
/// ```
/// use kumiki_net::wire::{bundle, Header};
/// let header = Header { kind: 16, op: 42, a: 0xdead_beef, ..Header::default() };
/// let mut place = [0; bundle::MOST_PACKED_BYTES];
/// let bytes = bundle::pack(&header, &mut place);
/// assert_eq!(bytes, 24);
/// assert_eq!(bundle::headers(&place[..bytes]).collect::<Vec<_>>(), [header]);
/// ```
pub fn headers(packed: &[u8]) -> impl Iterator<Item = Header> + '_ {
    let mut rest = packed;
    std::iter::from_fn(move || {
        let first = rest.first_chunk()?;
        let (header, behind) = rest.split_at_checked(packed_bytes(first))?;
        rest = behind;
        Some(unpack(first, &header[LEAST_PACKED_BYTES..]))
    })
}

#[inline]
fn unpack(first: &[u8; LEAST_PACKED_BYTES], words: &[u8]) -> Header {
    let u16_at = |at: usize| u16::from_le_bytes([first[at], first[at + 1]]);
    let mut words = words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    let mut word = |bit: u8| match first[6] & 1 << bit {
        0 => 0,
        _ => words.next().unwrap_or(0),
    };
    Header {
        kind: first[0],
        flags: first[1],
        generation: u16_at(2),
        generation_b: u16_at(4),
        op: u64::from_le_bytes(*first.last_chunk().unwrap_or(&[0; 8])),
        a: word(0),
        b: word(1),
        c: word(2),
        d: word(3),
        ..Header::default()
    }
}

/// The header of a bundle of these headers.
pub(super) fn header(packed: &[u8], key: &FrameKey) -> Result<Header, WireError> {
    check(packed)?;
    let hash = u128::from_le_bytes(key.hash_bundle(packed));
    let (a, b) = (hash as u64, (hash >> 64) as u64);
    Ok(Header { kind: KIND_BUNDLE, payload_bytes: packed.len() as u32, a, b, ..Header::default() })
}

/// The hash that the header of a bundle promises.
pub(super) fn promised(header: &Header) -> [u8; HASH_BYTES] {
    (u128::from(header.a) | u128::from(header.b) << 64).to_le_bytes()
}

/// Whether these are the headers that the header of their bundle has promised, and such as a correct sender writes.
pub(super) fn open(packed: &[u8], promised: &[u8; HASH_BYTES], key: &FrameKey) -> Result<(), WireError> {
    if !constant_time_eq_16(&key.hash_bundle(packed), promised) {
        return Err(WireError::BadTag);
    }
    check(packed)
}

/// Checks the rules that the length of a bundle obeys.
pub(super) fn check_length(bytes: usize) -> Result<(), WireError> {
    match bytes {
        LEAST_PACKED_BYTES..=MAX_BUNDLE_BYTES => Ok(()),
        _ => Err(WireError::BadHeader { what: "a bundle has 16 to 3072 bytes" }),
    }
}

fn check(packed: &[u8]) -> Result<(), WireError> {
    check_length(packed.len())?;
    let mut rest = packed;
    while let Some(first) = rest.first_chunk() {
        if first[0] < FIRST_USER_KIND || first[6] > 0xf || first[7] != 0 {
            return Err(WireError::BadHeader {
                what: "a bundle holds a reserved kind, or a spare field is not 0",
            });
        }
        rest = rest.get(packed_bytes(first)..).unwrap_or(&[0]);
    }
    match rest {
        [] => Ok(()),
        _ => Err(WireError::BadHeader { what: "a bundle ends within a header" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(headers: &[Header]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for header in headers {
            let mut place = [0xee; MOST_PACKED_BYTES];
            let length = pack(header, &mut place);
            bytes.extend_from_slice(&place[..length]);
        }
        bytes
    }

    proptest! {
        #[test]
        fn headers_survive_a_bundle(
            raw in prop::collection::vec((16u8.., any::<[u16; 3]>(), any::<[u64; 5]>(), 0u8..16), 1..=64),
        ) {
            let all: Vec<Header> = raw
                .into_iter()
                .map(|(kind, [flags, generation, generation_b], [op, a, b, c, d], said)| {
                    let flags = flags as u8;
                    let [a, b, c, d] = [(a, 1), (b, 2), (c, 4), (d, 8)].map(|(word, bit)| if said & bit == 0 { 0 } else { word });
                    Header { kind, flags, generation, generation_b, op, a, b, c, d, ..Header::default() }
                })
                .collect();
            let packed = packed(&all);
            prop_assert_eq!(headers(&packed).collect::<Vec<_>>(), all);
            let key = FrameKey::from_bytes([3; 32]);
            let header = header(&packed, &key).unwrap();
            prop_assert_eq!(open(&packed, &promised(&header), &key), Ok(()));
        }

        #[test]
        fn whatever_comes_is_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 16u8..) {
            let mut bytes = bytes;
            if let [first, _, _, _, _, _, words, spare, ..] = &mut bytes[..] {
                (*first, *words, *spare) = (kind, *words & 0xf, 0);
            }
            let read: usize = headers(&bytes).map(|one| packed(&[one]).len()).sum();
            prop_assert!(read <= bytes.len());
            if check(&bytes).is_ok() {
                prop_assert!(headers(&bytes).all(|one| one.kind >= FIRST_USER_KIND));
            }
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let header = Header {
            kind: 0x10,
            flags: 0x11,
            generation: 0x1312,
            generation_b: 0x1514,
            op: 0x1f1e_1d1c_1b1a_1918,
            a: 0x2726_2524_2322_2120,
            b: 0x2f2e_2d2c_2b2a_2928,
            c: 0x3736_3534_3332_3130,
            d: 0x3f3e_3d3c_3b3a_3938,
            ..Header::default()
        };
        let mut expected: Vec<u8> = (0x10..0x40).collect();
        expected[6..8].copy_from_slice(&[0b1111, 0]);
        assert_eq!(packed(&[header]), expected);
        expected[6] = 0b1010;
        let expected = [&expected[..16], &expected[24..32], &expected[40..]].concat();
        assert_eq!(packed(&[Header { a: 0, c: 0, ..header }]), expected);
    }

    #[test]
    fn bundles_that_no_correct_sender_writes_are_refused_both_ways() {
        let key = FrameKey::from_bytes(std::array::from_fn(|at| at as u8));
        let good = packed(&[Header { kind: FIRST_USER_KIND, b: 1, ..Header::default() }]);
        let with = |at: usize, value: u8| {
            let mut bytes = good.repeat(3);
            bytes[good.len() + at] = value;
            bytes
        };
        let mut wrong = vec![
            Vec::new(),
            good[..15].to_vec(),
            good[..23].to_vec(),
            good.repeat(MAX_BUNDLE_BYTES / good.len() + 1),
            [&good[..], &[0]].concat(),
            with(6, 0x12),
            with(7, 1),
        ];
        wrong.extend((0..FIRST_USER_KIND).map(|kind| with(0, kind)));
        for packed in wrong {
            assert!(matches!(header(&packed, &key), Err(WireError::BadHeader { .. })), "{packed:?}");
            let hash = key.hash_bundle(&packed);
            assert!(matches!(open(&packed, &hash, &key), Err(WireError::BadHeader { .. })), "{packed:?}");
        }
        assert!(header(&good.repeat(MAX_BUNDLE_BYTES / good.len()), &key).is_ok());
        let hash = key.hash_bundle(&good);
        assert_eq!(open(&good.repeat(2), &hash, &key), Err(WireError::BadTag));
        assert_ne!(hash, key.tag_header(&good), "the two hashes have keys of their own");
    }
}
