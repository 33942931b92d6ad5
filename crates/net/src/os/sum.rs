//! The checksum of memory that others may write meanwhile.
//!
//! It is the CRC-32 of [`frame::checksum`], but the memory is read through a raw pointer, each byte once, and never through a
//! reference: a reference would promise that nobody writes. What changes meanwhile gives the sum of neither the old bytes nor
//! the new ones, and that is all it does.

use crate::wire::frame;

/// Bytes that are copied, and then summed up in the innermost cache, where the processor has nothing better.
const BLOCK_BYTES: usize = 16 * 1024;

/// The checksum of what gave `crc` so far (0: of nothing) followed by `bytes` of memory.
///
/// # Safety
/// The memory must be mapped and readable. It may change meanwhile.
pub(super) unsafe fn checksum_more(crc: u32, memory: *const u8, bytes: usize) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes >= wide::LEAST_BYTES && wide::is_there() {
        // SAFETY: as the caller promises; the processor has the instructions.
        return unsafe { wide::checksum_more(crc, memory, bytes) };
    }
    // SAFETY: as the caller promises.
    unsafe { by_copy(crc, memory, bytes) }
}

/// The same by way of a copy.
///
/// # Safety
/// As [`checksum_more`].
unsafe fn by_copy(mut crc: u32, memory: *const u8, bytes: usize) -> u32 {
    let mut block = [0u8; BLOCK_BYTES];
    for at in (0..bytes).step_by(BLOCK_BYTES) {
        let block = &mut block[..BLOCK_BYTES.min(bytes - at)];
        // SAFETY: the block lies within the memory, and the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(memory.add(at), block.as_mut_ptr(), block.len()) };
        crc = frame::checksum_more(crc, block);
    }
    crc
}

/// With 512-bit carry-less multiplication. A register runs through the memory: each step multiplies what it holds by x to the
/// power of the distance, modulo the polynomial, and adds the bytes that lie there; so 64 bytes are left in the end that have the
/// same remainder as all of the memory.
///
/// Eight of them run side by side, each through a lane of its own: memory that is in no cache comes half as fast again if it is
/// asked for at eight places, because the processor reads ahead only within a page. What a register holds at the end of its lane
/// is moved on to the end of the next lane, and added, in the same way.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::frame;
    use std::arch::x86_64::{
        __m512i, _mm512_clmulepi64_epi128, _mm512_loadu_si512, _mm512_set_epi64, _mm512_setzero_si512,
        _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
        _mm_cvtsi32_si128, _mm_prefetch, _MM_HINT_T0,
    };

    const STEP_BYTES: usize = 64;
    const LANES: usize = 8;
    /// Lanes as long as a page; and for what is left, short ones.
    const LONG: usize = 4096;
    const SHORT: usize = 512;
    /// So far before a register its memory is asked for.
    const AHEAD_BYTES: usize = 512;
    /// Below this the way by a copy is as fast.
    pub(super) const LEAST_BYTES: usize = 2048;
    /// The exclusive or of three values, as `vpternlog` numbers functions.
    const XOR3: i32 = 0x96;

    pub(super) fn is_there() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq")
    }

    /// What moves a remainder on by `bytes`: x^(8 * bytes + 32) and x^(8 * bytes - 32) modulo the polynomial of CRC-32, both in
    /// reversed order of bits: the factors of the lower and of the upper half of 128 bits.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn factors(bytes: usize) -> __m512i {
        let (lower, upper) = match bytes {
            LONG => (0x5ad8_a92c, 0x1_b3b1_a484),
            SHORT => (0x1072_db28, 0x1_d741_f35c),
            _ => (0x1_5444_2bd4, 0x1_c6e4_1596),
        };
        _mm512_set_epi64(upper, lower, upper, lower, upper, lower, upper, lower)
    }

    /// Moves a remainder on, and adds what lies there.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn fold(rest: __m512i, factors: __m512i, more: __m512i) -> __m512i {
        let lower = _mm512_clmulepi64_epi128::<0x00>(rest, factors);
        let upper = _mm512_clmulepi64_epi128::<0x11>(rest, factors);
        _mm512_ternarylogic_epi64::<XOR3>(lower, upper, more)
    }

    /// Goes on with eight lanes of `LANE` bytes behind the 64 that have the remainder `rest`.
    ///
    /// # Safety
    /// As [`super::checksum_more`], for the eight lanes; the processor must have the instructions.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    unsafe fn block<const LANE: usize>(rest: __m512i, memory: *const u8) -> __m512i {
        let step = factors(STEP_BYTES);
        let mut rests = [_mm512_setzero_si512(); LANES];
        rests[0] = rest;
        for at in (0..LANE).step_by(STEP_BYTES) {
            for (lane, rest) in rests.iter_mut().enumerate() {
                // SAFETY: the place lies in a lane, and loads need no alignment. What is asked for ahead need not be there.
                *rest = unsafe {
                    let place = memory.add(lane * LANE + at);
                    _mm_prefetch::<_MM_HINT_T0>(place.wrapping_add(AHEAD_BYTES).cast());
                    fold(*rest, step, _mm512_loadu_si512(place.cast()))
                };
            }
        }
        let lane = factors(LANE);
        let [first, others @ ..] = rests;
        others.into_iter().fold(first, |sum, next| fold(sum, lane, next))
    }

    /// # Safety
    /// As [`super::checksum_more`], with at least [`LEAST_BYTES`]; the processor must have the instructions.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub(super) unsafe fn checksum_more(crc: u32, memory: *const u8, bytes: usize) -> u32 {
        // What came before adds the complement of its checksum to the first bits: all ones, if it was nothing.
        let before = _mm512_zextsi128_si512(_mm_cvtsi32_si128(!crc as i32));
        // SAFETY: all that is read lies before `bytes`; loads need no alignment.
        unsafe {
            let mut rest = _mm512_xor_si512(before, _mm512_loadu_si512(memory.cast()));
            let mut at = STEP_BYTES;
            while bytes - at >= LANES * LONG {
                rest = block::<LONG>(rest, memory.add(at));
                at += LANES * LONG;
            }
            while bytes - at >= LANES * SHORT {
                rest = block::<SHORT>(rest, memory.add(at));
                at += LANES * SHORT;
            }
            let step = factors(STEP_BYTES);
            while bytes - at >= STEP_BYTES {
                rest = fold(rest, step, _mm512_loadu_si512(memory.add(at).cast()));
                at += STEP_BYTES;
            }
            let mut last = [0u8; 2 * STEP_BYTES];
            _mm512_storeu_si512(last.as_mut_ptr().cast(), rest);
            let end = STEP_BYTES + bytes - at;
            std::ptr::copy_nonoverlapping(memory.add(at), last[STEP_BYTES..].as_mut_ptr(), bytes - at);
            // What came before is in already: the complement of all ones adds nothing.
            frame::checksum_more(!0, &last[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_checksum_of_the_wire() {
        let mut word = 1u64;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (word >> 56) as u8
        })
        .take(70_000)
        .collect();
        let around = |length: usize| [length - 1, length, length + 1];
        let lengths = [2048, 2304, 4096, 4160, 8256, 16_384, 32_768, 32_832, 36_928, 65_600]
            .into_iter()
            .flat_map(around);
        for length in lengths.chain(0..70).chain([255, 256, 257, 69_000]) {
            for offset in [0, 1, 7, 63] {
                let slice = &bytes[offset..offset + length];
                // SAFETY: the slice is there to be read.
                let sum = unsafe { checksum_more(0, slice.as_ptr(), slice.len()) };
                assert_eq!(sum, frame::checksum(slice), "{length} bytes from {offset}");
                let before = frame::checksum(&bytes[..offset]);
                // SAFETY: as above.
                let sum = unsafe { checksum_more(before, slice.as_ptr(), slice.len()) };
                assert_eq!(sum, frame::checksum(&bytes[..offset + length]), "{length} behind {offset}");
            }
        }
    }
}
