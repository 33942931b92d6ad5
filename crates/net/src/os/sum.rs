//! The checksum of memory that others may write meanwhile.
//!
//! It is the CRC-32C of [`frame::checksum`], but the memory is read through a raw pointer, each byte once, and never through a
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
    if bytes >= folding::LEAST_BYTES {
        if folding::has_wide() {
            // SAFETY: as the caller promises; the processor has the instructions.
            return unsafe { folding::wide(crc, memory, bytes) };
        }
        if folding::has_narrow() {
            // SAFETY: as above.
            return unsafe { folding::narrow(crc, memory, bytes) };
        }
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

/// With carry-less multiplication. A register runs through the memory: each step multiplies what it holds by x to the power of
/// the distance, modulo the polynomial, and adds the bytes that lie there; so as many bytes are left in the end as a register has,
/// with the same remainder as all of the memory.
///
/// Eight of them run side by side, each through a lane of its own: memory that is in no cache comes half as fast again if it is
/// asked for at eight places, because the processor reads ahead only within a page. What a register holds at the end of its lane
/// is moved on to the end of the next lane, and added, in the same way.
///
/// Where registers have 128 bits, the first four lanes are left to the instruction that divides by this very polynomial: it works
/// while others multiply, and both together are twice as fast.
#[cfg(target_arch = "x86_64")]
mod folding {
    use super::frame;
    use std::arch::x86_64::{
        __m128i, __m512i, _mm512_clmulepi64_epi128, _mm512_loadu_si512, _mm512_set_epi64,
        _mm512_setzero_si512, _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
        _mm512_zextsi128_si512, _mm_clmulepi64_si128, _mm_crc32_u64, _mm_crc32_u8, _mm_cvtsi128_si64,
        _mm_cvtsi32_si128, _mm_cvtsi64_si128, _mm_loadu_si128, _mm_prefetch, _mm_set_epi64x,
        _mm_setzero_si128, _mm_unpackhi_epi64, _mm_xor_si128, _MM_HINT_T0,
    };

    const LINE_BYTES: usize = 64;
    const LANES: usize = 8;
    const HALF: usize = LANES / 2;
    /// Lanes as long as a page; and for what is left, short ones, and tiny ones.
    const LONG: usize = 4096;
    const SHORT: usize = 512;
    const TINY: usize = LINE_BYTES;
    /// So far before a register its memory is asked for.
    const AHEAD_BYTES: usize = 512;
    /// Below this the way by a copy is as fast.
    pub(super) const LEAST_BYTES: usize = 2048;
    /// The polynomial of CRC-32C but for its highest power, in reversed order of bits, like all that follows.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    /// The exclusive or of three values, as `vpternlog` numbers functions.
    const XOR3: i32 = 0x96;

    /// x to this power modulo the polynomial, one bit up: a product of two values in reversed order of bits is one bit short.
    const fn power(exponent: usize) -> i64 {
        let (mut rest, mut at) = (1u32 << 31, 0);
        while at < exponent {
            rest = (rest >> 1) ^ (POLYNOMIAL & (rest & 1).wrapping_neg());
            at += 1;
        }
        (rest as i64) << 1
    }

    /// What moves a remainder on by so many bytes: the factors of the lower and of the upper half of 128 bits.
    struct Factors<const BYTES: usize>;

    impl<const BYTES: usize> Factors<BYTES> {
        const LOWER: i64 = power(8 * BYTES + 32);
        const UPPER: i64 = power(8 * BYTES - 32);
        /// Of a remainder of 32 bits that moves on by half of all lanes, if this is the length of one.
        const BY_HALF: i64 = power(8 * BYTES * HALF - 32);
    }

    pub(super) fn has_wide() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq")
    }

    pub(super) fn has_narrow() -> bool {
        is_x86_feature_detected!("avx")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("sse4.2")
    }

    /// With registers of 512 bits.
    ///
    /// # Safety
    /// As [`super::checksum_more`], with at least [`LEAST_BYTES`]; the processor must have the instructions.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub(super) unsafe fn wide(crc: u32, memory: *const u8, bytes: usize) -> u32 {
        // SAFETY: all that is read lies before `bytes`.
        unsafe {
            // What came before adds the complement of its checksum to the first bits: all ones, if it was nothing.
            let before = _mm512_zextsi128_si512(_mm_cvtsi32_si128(!crc as i32));
            let mut rest = _mm512_xor_si512(before, _mm512_loadu_si512(memory.cast()));
            let mut at = LINE_BYTES;
            while bytes - at >= LANES * LONG {
                rest = wide_block::<LONG>(rest, memory.add(at));
                at += LANES * LONG;
            }
            while bytes - at >= LANES * SHORT {
                rest = wide_block::<SHORT>(rest, memory.add(at));
                at += LANES * SHORT;
            }
            while bytes - at >= LANES * TINY {
                rest = wide_block::<TINY>(rest, memory.add(at));
                at += LANES * TINY;
            }
            while bytes - at >= LINE_BYTES {
                rest = fold_wide::<LINE_BYTES>(rest, _mm512_loadu_si512(memory.add(at).cast()));
                at += LINE_BYTES;
            }
            let mut last = [0u8; 2 * LINE_BYTES];
            _mm512_storeu_si512(last.as_mut_ptr().cast(), rest);
            let end = LINE_BYTES + bytes - at;
            std::ptr::copy_nonoverlapping(memory.add(at), last[LINE_BYTES..].as_mut_ptr(), bytes - at);
            // What came before is in already: the complement of all ones adds nothing.
            frame::checksum_more(!0, &last[..end])
        }
    }

    /// Goes on with eight lanes of `LANE` bytes behind what has the remainder `rest`.
    ///
    /// # Safety
    /// As [`wide`], for the eight lanes.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    unsafe fn wide_block<const LANE: usize>(rest: __m512i, memory: *const u8) -> __m512i {
        let mut rests = [_mm512_setzero_si512(); LANES];
        rests[0] = rest;
        for line in (0..LANE).step_by(LINE_BYTES) {
            for (lane, rest) in rests.iter_mut().enumerate() {
                // SAFETY: each place lies in a lane. What is asked for ahead need not be there.
                unsafe {
                    let place = memory.add(lane * LANE + line);
                    _mm_prefetch::<_MM_HINT_T0>(place.wrapping_add(AHEAD_BYTES).cast());
                    *rest = fold_wide::<LINE_BYTES>(*rest, _mm512_loadu_si512(place.cast()));
                }
            }
        }
        let [first, others @ ..] = rests;
        others.into_iter().fold(first, |sum, next| fold_wide::<LANE>(sum, next))
    }

    /// Moves a remainder on, and adds what lies there.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn fold_wide<const BYTES: usize>(rest: __m512i, more: __m512i) -> __m512i {
        let (lower, upper) = (Factors::<BYTES>::LOWER, Factors::<BYTES>::UPPER);
        let factors = _mm512_set_epi64(upper, lower, upper, lower, upper, lower, upper, lower);
        let lower = _mm512_clmulepi64_epi128::<0x00>(rest, factors);
        let upper = _mm512_clmulepi64_epi128::<0x11>(rest, factors);
        _mm512_ternarylogic_epi64::<XOR3>(lower, upper, more)
    }

    /// With registers of 128 bits, and the instruction that divides.
    ///
    /// # Safety
    /// As [`super::checksum_more`]; the processor must have the instructions.
    #[target_feature(enable = "avx,pclmulqdq,sse4.2")]
    pub(super) unsafe fn narrow(crc: u32, memory: *const u8, bytes: usize) -> u32 {
        // SAFETY: all that is read lies before `bytes`.
        unsafe {
            let (mut rest, mut at) = (u64::from(!crc), 0);
            while bytes - at >= LANES * LONG {
                rest = narrow_block::<LONG>(rest, memory.add(at));
                at += LANES * LONG;
            }
            while bytes - at >= LANES * SHORT {
                rest = narrow_block::<SHORT>(rest, memory.add(at));
                at += LANES * SHORT;
            }
            while bytes - at >= LANES * TINY {
                rest = narrow_block::<TINY>(rest, memory.add(at));
                at += LANES * TINY;
            }
            while bytes - at >= 8 {
                rest = _mm_crc32_u64(rest, word(memory.add(at)));
                at += 8;
            }
            let mut rest = rest as u32;
            for at in at..bytes {
                rest = _mm_crc32_u8(rest, memory.add(at).read());
            }
            !rest
        }
    }

    /// Goes on with eight lanes of `LANE` bytes behind what left `rest`.
    ///
    /// # Safety
    /// As [`narrow`], for the eight lanes.
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq,sse4.2")]
    unsafe fn narrow_block<const LANE: usize>(rest: u64, memory: *const u8) -> u64 {
        let (mut divided, mut folded) = ([rest, 0, 0, 0], [_mm_setzero_si128(); HALF]);
        for line in (0..LANE).step_by(LINE_BYTES) {
            // SAFETY: each place lies in a lane. What is asked for ahead need not be there.
            unsafe {
                for lane in 0..LANES {
                    let ahead = memory.wrapping_add(lane * LANE + line + AHEAD_BYTES);
                    _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                }
                for at in (line..line + LINE_BYTES).step_by(16) {
                    for lane in 0..HALF {
                        let place = memory.add(lane * LANE + at);
                        let more = _mm_loadu_si128(place.add(HALF * LANE).cast());
                        divided[lane] = _mm_crc32_u64(divided[lane], word(place));
                        folded[lane] = fold_narrow::<16>(folded[lane], more);
                        divided[lane] = _mm_crc32_u64(divided[lane], word(place.add(8)));
                    }
                }
            }
        }
        let [first, others @ ..] = folded;
        let last = others.into_iter().fold(first, |sum, next| fold_narrow::<LANE>(sum, next));
        let [first, others @ ..] = divided;
        let rest = others.into_iter().fold(first, |sum, next| moved(sum, Factors::<LANE>::UPPER) ^ next);
        let (lower, upper) = (_mm_cvtsi128_si64(last), _mm_cvtsi128_si64(_mm_unpackhi_epi64(last, last)));
        moved(rest, Factors::<LANE>::BY_HALF) ^ _mm_crc32_u64(_mm_crc32_u64(0, lower as u64), upper as u64)
    }

    /// Eight bytes, that others may write meanwhile.
    ///
    /// # Safety
    /// They must be there.
    #[inline(always)]
    unsafe fn word(memory: *const u8) -> u64 {
        // SAFETY: as the caller promises; they need not be aligned.
        unsafe { memory.cast::<u64>().read_unaligned() }
    }

    /// Moves a remainder of 128 bits on, and adds what lies there.
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq")]
    fn fold_narrow<const BYTES: usize>(rest: __m128i, more: __m128i) -> __m128i {
        let factors = _mm_set_epi64x(Factors::<BYTES>::UPPER, Factors::<BYTES>::LOWER);
        let lower = _mm_clmulepi64_si128::<0x00>(rest, factors);
        let upper = _mm_clmulepi64_si128::<0x11>(rest, factors);
        _mm_xor_si128(_mm_xor_si128(lower, upper), more)
    }

    /// Moves a remainder of 32 bits on.
    #[inline]
    #[target_feature(enable = "avx,pclmulqdq,sse4.2")]
    fn moved(rest: u64, factor: i64) -> u64 {
        let (rest, factor) = (_mm_cvtsi64_si128(rest as i64), _mm_cvtsi64_si128(factor));
        _mm_crc32_u64(0, _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0x00>(rest, factor)) as u64)
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
                let expected = frame::checksum(&bytes[..offset + length]);
                assert_eq!(sum, expected, "{length} behind {offset}");
                // Where there are wide registers the narrow ones are not used otherwise.
                #[cfg(target_arch = "x86_64")]
                if length >= folding::LEAST_BYTES && folding::has_narrow() {
                    // SAFETY: as above; the processor has the instructions.
                    let sum = unsafe { folding::narrow(before, slice.as_ptr(), slice.len()) };
                    assert_eq!(sum, expected, "{length} behind {offset}, narrow");
                }
            }
        }
    }
}
