//! The frame header: its layout, its tag, and the checksum of a payload.
//!
//! Pure functions from bytes to values and back. [`Connection`](super::Connection) supplies keys and sequence numbers.

use super::{bundle, WireError};
use crate::auth::FrameKey;
use constant_time_eq::constant_time_eq_16;

/// Bytes of a header without its tag.
pub const HEADER_BYTES: usize = 56;
/// Bytes of the tag that authenticates a header.
pub const TAG_BYTES: usize = 16;
/// Bytes of a header and its tag on the wire.
pub const FRAME_HEADER_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// The most bytes that the payload of one frame may have.
pub const MAX_PAYLOAD_BYTES: u32 = 1 << 20;
/// The lowest frame kind of the users of the wire. Kinds below it belong to the wire itself.
pub const FIRST_USER_KIND: u8 = 16;
/// The kind of the frame with which a side says that it will make no more requests and waits for no more replies.
pub const KIND_GOODBYE: u8 = 1;
/// The kind of a frame that holds many headers: see [`bundle`].
pub const KIND_BUNDLE: u8 = 2;
/// The kind of the frame with which a side says how many bytes of a stream that is kept have come.
pub const KIND_ACKNOWLEDGE: u8 = 3;
/// The kind of the frame with which a stream whose connection broke goes on over another.
pub const KIND_RESUME: u8 = 4;
/// The kind of the frame behind a goodbye that is not answered: it says nothing, but its number shows whether that has come.
pub const KIND_KNOCK: u8 = 5;
/// On a frame with a payload: it is sent from memory that may have changed since its checksum was taken. A checksum that is
/// wrong then does not end the connection; the receiver is told that the payload is torn.
pub const FLAG_UNSTEADY: u8 = 0x40;

const ACKNOWLEDGE_FIELDS: &str = "an acknowledgement has fields that are not 0";
const RESUME_FIELDS: &str = "a resumption has fields that are not 0, or knows its stream more than once";

/// A sequence number and a header are whole words: SipHash takes eight bytes at a time.
const _: () = assert!((8 + HEADER_BYTES).is_multiple_of(8));

/// The header of a frame: opaque words to the wire, except the kind and the two payload fields.
///
/// ```
/// use kumiki_net::wire::{frame, Header};
/// let header = Header { kind: 16, op: 42, a: 0xdead_beef, ..Header::default() }.with_payload(b"hello");
/// assert_eq!(header.payload_bytes, 5);
/// assert_eq!(frame::decode(&frame::encode(&header)), Ok(header));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What the frame is. [`FIRST_USER_KIND`] and up are for the user of the wire.
    pub kind: u8,
    /// For the user of the wire; on a frame with a payload, but for [`FLAG_UNSTEADY`].
    pub flags: u8,
    /// For the user of the wire.
    pub generation: u16,
    /// Bytes of the payload that follows the header; at most [`MAX_PAYLOAD_BYTES`].
    pub payload_bytes: u32,
    /// The [`checksum`] of the payload; 0 if there is no payload.
    pub payload_crc: u32,
    /// For the user of the wire.
    pub generation_b: u16,
    /// For the user of the wire.
    pub op: u64,
    /// For the user of the wire.
    pub a: u64,
    /// For the user of the wire.
    pub b: u64,
    /// For the user of the wire.
    pub c: u64,
    /// For the user of the wire.
    pub d: u64,
}

impl Header {
    /// The same header with length and checksum of this payload.
    ///
    /// The payload must be sent as it is now: one that changes in between (memory that other ranks write) arrives
    /// with a wrong checksum, and the peer closes the connection. Copy such memory first, or say [`FLAG_UNSTEADY`].
    ///
    /// A payload that is too large is not refused here but when the header is sealed.
    #[must_use]
    pub fn with_payload(self, payload: &[u8]) -> Self {
        let payload_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        Self { payload_bytes, payload_crc: checksum(payload), ..self }
    }

    /// Checks the rules that every header on the wire obeys, on the way out as on the way in.
    fn check(&self) -> Result<(), WireError> {
        if self.payload_bytes > MAX_PAYLOAD_BYTES {
            return Err(WireError::TooLarge { bytes: self.payload_bytes });
        }
        if self.payload_bytes == 0 && self.payload_crc != 0 {
            return Err(WireError::BadHeader { what: "the checksum of an empty payload is not 0" });
        }
        if self.kind == KIND_GOODBYE && *self != (Self { kind: KIND_GOODBYE, ..Self::default() }) {
            return Err(WireError::BadHeader { what: "a goodbye has fields that are not 0" });
        }
        if self.kind == KIND_KNOCK && *self != (Self { kind: KIND_KNOCK, ..Self::default() }) {
            return Err(WireError::BadHeader { what: "a knock has fields that are not 0" });
        }
        if self.kind == KIND_BUNDLE {
            return self.check_bundle();
        }
        if self.kind == KIND_ACKNOWLEDGE {
            let a = self.a;
            let right = *self == Self { kind: KIND_ACKNOWLEDGE, a, ..Self::default() };
            return if right { Ok(()) } else { Err(WireError::BadHeader { what: ACKNOWLEDGE_FIELDS }) };
        }
        if self.kind == KIND_RESUME {
            let Self { a, b, c, .. } = *self;
            let right = c <= 1 && *self == Self { kind: KIND_RESUME, a, b, c, ..Self::default() };
            return if right { Ok(()) } else { Err(WireError::BadHeader { what: RESUME_FIELDS }) };
        }
        if self.kind < FIRST_USER_KIND && !matches!(self.kind, KIND_GOODBYE | KIND_KNOCK) {
            return Err(WireError::BadHeader {
                what: "the kind is reserved: users of the wire have 16 and up",
            });
        }
        Ok(())
    }

    fn check_bundle(&self) -> Result<(), WireError> {
        let Self { payload_bytes, a, b, .. } = *self;
        if *self != (Self { kind: KIND_BUNDLE, payload_bytes, a, b, ..Self::default() }) {
            return Err(WireError::BadHeader { what: "a bundle has fields that are not 0" });
        }
        bundle::check_length(payload_bytes as usize)
    }
}

/// The checksum of a payload (CRC-32C).
pub fn checksum(payload: &[u8]) -> u32 {
    checksum_more(0, payload)
}

/// The checksum of what gave `crc` so far followed by `more`; that of nothing is 0.
///
/// ```
/// use kumiki_net::wire::frame::{checksum, checksum_more};
/// assert_eq!(checksum_more(checksum(b"put"), b"get"), checksum(b"putget"));
/// ```
pub fn checksum_more(crc: u32, more: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, more)
}

/// The bytes of a header, little-endian.
pub fn encode(header: &Header) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0] = header.kind;
    bytes[1] = header.flags;
    bytes[2..4].copy_from_slice(&header.generation.to_le_bytes());
    bytes[4..8].copy_from_slice(&header.payload_bytes.to_le_bytes());
    bytes[8..12].copy_from_slice(&header.payload_crc.to_le_bytes());
    bytes[12..14].copy_from_slice(&header.generation_b.to_le_bytes());
    // Bytes 14 and 15 are spare and stay 0.
    bytes[16..24].copy_from_slice(&header.op.to_le_bytes());
    bytes[24..32].copy_from_slice(&header.a.to_le_bytes());
    bytes[32..40].copy_from_slice(&header.b.to_le_bytes());
    bytes[40..48].copy_from_slice(&header.c.to_le_bytes());
    bytes[48..56].copy_from_slice(&header.d.to_le_bytes());
    bytes
}

/// The header in these bytes.
///
/// # Errors
/// [`WireError::TooLarge`] or [`WireError::BadHeader`] for what no correct sender writes.
pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, WireError> {
    let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    if u16_at(14) != 0 {
        return Err(WireError::BadHeader { what: "the spare field is not 0" });
    }
    let header = Header {
        kind: bytes[0],
        flags: bytes[1],
        generation: u16_at(2),
        payload_bytes: u32_at(4),
        payload_crc: u32_at(8),
        generation_b: u16_at(12),
        op: u64_at(16),
        a: u64_at(24),
        b: u64_at(32),
        c: u64_at(40),
        d: u64_at(48),
    };
    header.check()?;
    Ok(header)
}

/// The header and its tag, as the frame number `sequence` of the direction of `key`.
///
/// # Errors
/// As [`decode`]: what could not be read is not written.
pub fn seal(header: &Header, key: &FrameKey, sequence: u64) -> Result<[u8; FRAME_HEADER_BYTES], WireError> {
    header.check()?;
    Ok(seal_encoded(&encode(header), key, sequence))
}

/// The header in these bytes, if it is authentic and is the frame number `sequence` of the direction of `key`.
///
/// # Errors
/// [`WireError::BadTag`] before anything in the header is believed; then as [`decode`].
pub fn open(bytes: &[u8; FRAME_HEADER_BYTES], key: &FrameKey, sequence: u64) -> Result<Header, WireError> {
    let mut header = [0; HEADER_BYTES];
    let mut claimed = [0; TAG_BYTES];
    header.copy_from_slice(&bytes[..HEADER_BYTES]);
    claimed.copy_from_slice(&bytes[HEADER_BYTES..]);
    if !constant_time_eq_16(&tag(&header, key, sequence), &claimed) {
        return Err(WireError::BadTag);
    }
    decode(&header)
}

/// The bytes of a header followed by their tag.
pub(super) fn seal_encoded(
    header: &[u8; HEADER_BYTES],
    key: &FrameKey,
    sequence: u64,
) -> [u8; FRAME_HEADER_BYTES] {
    let mut bytes = [0; FRAME_HEADER_BYTES];
    bytes[..HEADER_BYTES].copy_from_slice(header);
    bytes[HEADER_BYTES..].copy_from_slice(&tag(header, key, sequence));
    bytes
}

fn tag(header: &[u8; HEADER_BYTES], key: &FrameKey, sequence: u64) -> [u8; TAG_BYTES] {
    let mut block = [0; 8 + HEADER_BYTES];
    block[..8].copy_from_slice(&sequence.to_le_bytes());
    block[8..].copy_from_slice(header);
    key.tag_header(&block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_header() -> impl Strategy<Value = Header> {
        let small = (FIRST_USER_KIND..=255, any::<u8>(), any::<u16>(), 0..=MAX_PAYLOAD_BYTES, any::<u32>());
        (small, any::<u16>(), any::<[u64; 5]>()).prop_map(|(small, generation_b, [op, a, b, c, d])| {
            let (kind, flags, generation, payload_bytes, crc) = small;
            let payload_crc = if payload_bytes == 0 { 0 } else { crc };
            Header { kind, flags, generation, payload_bytes, payload_crc, generation_b, op, a, b, c, d }
        })
    }

    proptest! {
        #[test]
        fn a_header_survives_the_wire(header in any_header(), key: [u8; 32], sequence: u64) {
            let key = FrameKey::from_bytes(key);
            prop_assert_eq!(decode(&encode(&header)), Ok(header));
            let sealed = seal(&header, &key, sequence).unwrap();
            prop_assert_eq!(open(&sealed, &key, sequence), Ok(header));
            prop_assert_eq!(open(&sealed, &key, sequence.wrapping_add(1)), Err(WireError::BadTag));
        }

        #[test]
        fn what_decodes_encodes_to_the_same_bytes(mut bytes: [u8; 32], tail: [u8; 24]) {
            // Mostly plausible headers: spare zero, payload small.
            bytes[14..16].fill(0);
            bytes[6..8].fill(0);
            let mut whole = [0; HEADER_BYTES];
            whole[..32].copy_from_slice(&bytes);
            whole[32..].copy_from_slice(&tail);
            if let Ok(header) = decode(&whole) {
                prop_assert_eq!(encode(&header), whole);
            }
        }

        #[test]
        fn checksums_join(left: Vec<u8>, right: Vec<u8>) {
            let whole: Vec<u8> = left.iter().chain(&right).copied().collect();
            prop_assert_eq!(checksum_more(checksum(&left), &right), checksum(&whole));
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let header = Header {
            kind: 0x10,
            flags: 0x11,
            generation: 0x1312,
            payload_bytes: 0x0007_1514,
            payload_crc: 0x1b1a_1918,
            generation_b: 0x1d1c,
            op: 0x2726_2524_2322_2120,
            a: 0x2f2e_2d2c_2b2a_2928,
            b: 0x3736_3534_3332_3130,
            c: 0x3f3e_3d3c_3b3a_3938,
            d: 0x4746_4544_4342_4140,
        };
        let expected = [
            0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x07, 0x00, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0, 0, //
            0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e,
            0x2f, //
            0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e,
            0x3f, //
            0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47,
        ];
        assert_eq!(encode(&header), expected);
        assert_eq!(checksum(b"123456789"), 0xe306_9283, "CRC-32C as in RFC 3720");
    }

    #[test]
    fn headers_that_no_correct_sender_writes_are_refused_both_ways() {
        let key = FrameKey::from_bytes([1; 32]);
        let user = Header { kind: FIRST_USER_KIND, ..Header::default() };
        let mut wrong = vec![
            Header { payload_bytes: MAX_PAYLOAD_BYTES + 1, ..user },
            Header { payload_bytes: u32::MAX, ..user },
            Header { payload_crc: 1, ..user },
            Header { kind: KIND_GOODBYE, d: 1, ..Header::default() },
            Header { kind: KIND_KNOCK, a: 1, ..Header::default() },
            Header { kind: KIND_BUNDLE, payload_bytes: 15, ..Header::default() },
            Header { kind: KIND_BUNDLE, payload_bytes: 3073, ..Header::default() },
            Header { kind: KIND_BUNDLE, payload_bytes: 48, payload_crc: 1, ..Header::default() },
            Header { kind: KIND_BUNDLE, payload_bytes: 48, c: 1, ..Header::default() },
            Header { kind: KIND_ACKNOWLEDGE, a: 1, b: 1, ..Header::default() },
            Header { kind: KIND_ACKNOWLEDGE, payload_bytes: 1, ..Header::default() },
            Header { kind: KIND_RESUME, c: 2, ..Header::default() },
            Header { kind: KIND_RESUME, d: 1, ..Header::default() },
        ];
        let defined = [KIND_GOODBYE, KIND_ACKNOWLEDGE, KIND_RESUME, KIND_KNOCK];
        wrong.extend(
            (0..FIRST_USER_KIND).filter(|k| !defined.contains(k)).map(|kind| Header { kind, ..user }),
        );
        for header in wrong {
            assert!(decode(&encode(&header)).is_err(), "{header:?}");
            assert!(seal(&header, &key, 0).is_err(), "{header:?}");
        }
        assert!(seal(&Header { payload_bytes: MAX_PAYLOAD_BYTES, ..user }, &key, 0).is_ok());
        let mut spare = encode(&user);
        spare[15] = 0x80;
        assert!(matches!(decode(&spare), Err(WireError::BadHeader { .. })));
    }
}
