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
#[cfg(target_arch = "x86_64")]
mod folding {
    use super::frame;
    use std::arch::x86_64::{
        __m128i, __m512i, _mm512_clmulepi64_epi128, _mm512_loadu_si512, _mm512_set_epi64,
        _mm512_setzero_si512, _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
        _mm512_zextsi128_si512, _mm_clmulepi64_si128, _mm_cvtsi32_si128, _mm_loadu_si128, _mm_prefetch,
        _mm_set_epi64x, _mm_setzero_si128, _mm_storeu_si128, _mm_xor_si128, _MM_HINT_T0,
    };

    const LINE_BYTES: usize = 64;
    const LANES: usize = 8;
    /// Lanes as long as a page; and for what is left, short ones, and tiny ones.
    const LONG: usize = 4096;
    const SHORT: usize = 512;
    const TINY: usize = LINE_BYTES;
    /// So far before a register its memory is asked for.
    const AHEAD_BYTES: usize = 512;
    /// Below this the way by a copy is as fast.
    pub(super) const LEAST_BYTES: usize = 2048;
    /// The exclusive or of three values, as `vpternlog` numbers functions.
    const XOR3: i32 = 0x96;

    /// What moves a remainder on by so many bytes: x^(8 * bytes + 32) and x^(8 * bytes - 32) modulo the polynomial of CRC-32, both
    /// in reversed order of bits: the factors of the lower and of the upper half of 128 bits.
    const fn factors(bytes: usize) -> (i64, i64) {
        match bytes {
            LONG => (0x5ad8_a92c, 0x1_b3b1_a484),
            SHORT => (0x1072_db28, 0x1_d741_f35c),
            TINY => (0x1_5444_2bd4, 0x1_c6e4_1596),
            16 => (0x1_7519_97d0, 0xccaa_009e),
            _ => panic!("nothing moves on by so many bytes"),
        }
    }

    /// A register of the processor.
    ///
    /// # Safety
    /// All of its functions need the instructions that work on it, and memory that can be read, or written.
    trait Register: Copy {
        const BYTES: usize;
        unsafe fn zero() -> Self;
        /// What came before adds the complement of its checksum to the first bits: all ones, if it was nothing.
        unsafe fn behind(crc: u32) -> Self;
        unsafe fn load(memory: *const u8) -> Self;
        unsafe fn store(self, memory: *mut u8);
        unsafe fn factors(bytes: usize) -> Self;
        unsafe fn add(self, other: Self) -> Self;
        /// Moves a remainder on, and adds what lies there.
        unsafe fn fold(self, factors: Self, more: Self) -> Self;
    }

    impl Register for __m512i {
        const BYTES: usize = 64;

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: of the trait; and so below.
            unsafe { _mm512_setzero_si512() }
        }

        #[inline(always)]
        unsafe fn behind(crc: u32) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_zextsi128_si512(_mm_cvtsi32_si128(!crc as i32)) }
        }

        #[inline(always)]
        unsafe fn load(memory: *const u8) -> Self {
            // SAFETY: as above; it need not be aligned.
            unsafe { _mm512_loadu_si512(memory.cast()) }
        }

        #[inline(always)]
        unsafe fn store(self, memory: *mut u8) {
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(memory.cast(), self) }
        }

        #[inline(always)]
        unsafe fn factors(bytes: usize) -> Self {
            let (lower, upper) = factors(bytes);
            // SAFETY: as above.
            unsafe { _mm512_set_epi64(upper, lower, upper, lower, upper, lower, upper, lower) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_xor_si512(self, other) }
        }

        #[inline(always)]
        unsafe fn fold(self, factors: Self, more: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                let lower = _mm512_clmulepi64_epi128::<0x00>(self, factors);
                let upper = _mm512_clmulepi64_epi128::<0x11>(self, factors);
                _mm512_ternarylogic_epi64::<XOR3>(lower, upper, more)
            }
        }
    }

    impl Register for __m128i {
        const BYTES: usize = 16;

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: of the trait; and so below.
            unsafe { _mm_setzero_si128() }
        }

        #[inline(always)]
        unsafe fn behind(crc: u32) -> Self {
            // SAFETY: as above.
            unsafe { _mm_cvtsi32_si128(!crc as i32) }
        }

        #[inline(always)]
        unsafe fn load(memory: *const u8) -> Self {
            // SAFETY: as above; it need not be aligned.
            unsafe { _mm_loadu_si128(memory.cast()) }
        }

        #[inline(always)]
        unsafe fn store(self, memory: *mut u8) {
            // SAFETY: as above.
            unsafe { _mm_storeu_si128(memory.cast(), self) }
        }

        #[inline(always)]
        unsafe fn factors(bytes: usize) -> Self {
            let (lower, upper) = factors(bytes);
            // SAFETY: as above.
            unsafe { _mm_set_epi64x(upper, lower) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm_xor_si128(self, other) }
        }

        #[inline(always)]
        unsafe fn fold(self, factors: Self, more: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                let lower = _mm_clmulepi64_si128::<0x00>(self, factors);
                let upper = _mm_clmulepi64_si128::<0x11>(self, factors);
                _mm_xor_si128(_mm_xor_si128(lower, upper), more)
            }
        }
    }

    pub(super) fn has_wide() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq")
    }

    pub(super) fn has_narrow() -> bool {
        is_x86_feature_detected!("pclmulqdq")
    }

    /// With registers of 512 bits.
    ///
    /// # Safety
    /// As [`super::checksum_more`], with at least [`LEAST_BYTES`]; the processor must have the instructions.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub(super) unsafe fn wide(crc: u32, memory: *const u8, bytes: usize) -> u32 {
        // SAFETY: as the caller promises.
        unsafe { checksum_more::<__m512i>(crc, memory, bytes) }
    }

    /// With registers of 128 bits.
    ///
    /// # Safety
    /// As [`wide`].
    #[target_feature(enable = "pclmulqdq")]
    pub(super) unsafe fn narrow(crc: u32, memory: *const u8, bytes: usize) -> u32 {
        // SAFETY: as the caller promises.
        unsafe { checksum_more::<__m128i>(crc, memory, bytes) }
    }

    /// Goes on with eight lanes of `LANE` bytes behind what has the remainder `rest`.
    ///
    /// # Safety
    /// As [`super::checksum_more`], for the eight lanes; the processor must have the instructions.
    #[inline(always)]
    unsafe fn block<R: Register, const LANE: usize>(rest: R, memory: *const u8) -> R {
        // SAFETY: each place lies in a lane. What is asked for ahead need not be there.
        unsafe {
            let step = R::factors(R::BYTES);
            let mut rests = [R::zero(); LANES];
            rests[0] = rest;
            for line in (0..LANE).step_by(LINE_BYTES) {
                for (lane, rest) in rests.iter_mut().enumerate() {
                    let place = memory.add(lane * LANE + line);
                    _mm_prefetch::<_MM_HINT_T0>(place.wrapping_add(AHEAD_BYTES).cast());
                    for at in (0..LINE_BYTES).step_by(R::BYTES) {
                        *rest = rest.fold(step, R::load(place.add(at)));
                    }
                }
            }
            let lane = R::factors(LANE);
            let [first, others @ ..] = rests;
            others.into_iter().fold(first, |sum, next| sum.fold(lane, next))
        }
    }

    /// # Safety
    /// As [`wide`].
    #[inline(always)]
    unsafe fn checksum_more<R: Register>(crc: u32, memory: *const u8, bytes: usize) -> u32 {
        // SAFETY: all that is read lies before `bytes`.
        unsafe {
            let mut rest = R::behind(crc).add(R::load(memory));
            let mut at = R::BYTES;
            while bytes - at >= LANES * LONG {
                rest = block::<R, LONG>(rest, memory.add(at));
                at += LANES * LONG;
            }
            while bytes - at >= LANES * SHORT {
                rest = block::<R, SHORT>(rest, memory.add(at));
                at += LANES * SHORT;
            }
            while bytes - at >= LANES * TINY {
                rest = block::<R, TINY>(rest, memory.add(at));
                at += LANES * TINY;
            }
            let step = R::factors(R::BYTES);
            while bytes - at >= R::BYTES {
                rest = rest.fold(step, R::load(memory.add(at)));
                at += R::BYTES;
            }
            let mut last = [0u8; 2 * LINE_BYTES];
            rest.store(last.as_mut_ptr());
            let end = R::BYTES + bytes - at;
            std::ptr::copy_nonoverlapping(memory.add(at), last[R::BYTES..].as_mut_ptr(), bytes - at);
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
