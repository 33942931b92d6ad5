//! CRC-64/XZ, by which keys are placed: eight bytes at a time, with tables made at compile time.

/// The polynomial, reflected.
const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

/// `TABLES[n][b]`: what byte `b` contributes when `n` bytes follow it.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { POLYNOMIAL ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of some bytes.
#[inline]
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    let mut crc = !0u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        let mixed = (crc ^ u64::from_le_bytes(bytes)).to_le_bytes();
        crc = 0;
        for (place, &byte) in mixed.iter().enumerate() {
            crc ^= TABLES[7 - place][byte as usize];
        }
    }
    for &byte in words.remainder() {
        crc = TABLES[0][(crc as u8 ^ byte) as usize] ^ (crc >> 8);
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bit_by_bit(bytes: &[u8]) -> u64 {
        let mut crc = !0u64;
        for &byte in bytes {
            crc ^= byte as u64;
            for _ in 0..8 {
                crc = if crc & 1 == 1 { POLYNOMIAL ^ (crc >> 1) } else { crc >> 1 };
            }
        }
        !crc
    }

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
        assert_eq!(crc64(b""), 0);
    }

    proptest! {
        #[test]
        fn eight_bytes_at_a_time_are_as_one_bit_at_a_time(bytes: Vec<u8>) {
            prop_assert_eq!(crc64(&bytes), bit_by_bit(&bytes));
        }
    }
}
