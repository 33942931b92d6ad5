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

/// With 512-bit carry-less multiplication: four registers run through the memory side by side. Each step multiplies what a
/// register holds by x to the power of the distance, modulo the polynomial, and adds the bytes that lie there; so 256 bytes are
/// left in the end that have the same remainder as all of the memory.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{by_copy, frame};
    use std::arch::x86_64::{
        __m512i, _mm512_clmulepi64_epi128, _mm512_loadu_si512, _mm512_set_epi64, _mm512_storeu_si512,
        _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512, _mm_cvtsi32_si128,
    };

    const REGISTERS: usize = 4;
    const STEP_BYTES: usize = REGISTERS * 64;
    /// Below this the way by a copy is as fast.
    pub(super) const LEAST_BYTES: usize = 8 * STEP_BYTES;
    /// x^(8 * STEP_BYTES + 32) and x^(8 * STEP_BYTES - 32) modulo the polynomial of CRC-32, both in reversed order of bits:
    /// the factors of the lower and of the upper half of 128 bits.
    const LOWER: i64 = 0x1_1542_778a;
    const UPPER: i64 = 0x1_322d_1430;
    /// The exclusive or of three values, as `vpternlog` numbers functions.
    const XOR3: i32 = 0x96;

    pub(super) fn is_there() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq")
    }

    /// # Safety
    /// As [`super::checksum_more`], with at least [`LEAST_BYTES`]; the processor must have the instructions.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub(super) unsafe fn checksum_more(crc: u32, memory: *const u8, bytes: usize) -> u32 {
        let steps = bytes / STEP_BYTES;
        // SAFETY: every load lies within the first `steps` steps of the memory; loads need no alignment.
        let load = |step: usize, register: usize| unsafe {
            _mm512_loadu_si512(memory.add(step * STEP_BYTES + register * 64).cast())
        };
        let mut rest: [__m512i; REGISTERS] = std::array::from_fn(|register| load(0, register));
        // What came before adds the complement of its checksum to the first bits: all ones, if it was nothing.
        rest[0] = _mm512_xor_si512(rest[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(!crc as i32)));
        let factors = _mm512_set_epi64(UPPER, LOWER, UPPER, LOWER, UPPER, LOWER, UPPER, LOWER);
        for step in 1..steps {
            for (register, rest) in rest.iter_mut().enumerate() {
                let lower = _mm512_clmulepi64_epi128::<0x00>(*rest, factors);
                let upper = _mm512_clmulepi64_epi128::<0x11>(*rest, factors);
                *rest = _mm512_ternarylogic_epi64::<XOR3>(lower, upper, load(step, register));
            }
        }
        let mut equivalent = [0u8; STEP_BYTES];
        for (rest, place) in rest.iter().zip(equivalent.chunks_exact_mut(64)) {
            // SAFETY: the place has 64 bytes.
            unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), *rest) };
        }
        // That is in already: the complement of all ones adds nothing.
        let crc = frame::checksum_more(!0, &equivalent);
        let done = steps * STEP_BYTES;
        if done == bytes {
            return crc;
        }
        // SAFETY: the rest of the memory.
        unsafe { by_copy(crc, memory.add(done), bytes - done) }
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
        let lengths = [2048, 2304, 4096, 16_384, 32_768, 65_536].into_iter().flat_map(around);
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
