//! A decoder with a bug planted on purpose. If the fuzzer cannot find this one, then its silence about the real
//! decoders means nothing.
//!
//! The bug hides where bugs of decoders do: behind a header that must be well-formed, and then behind a combination of
//! fields of several bytes each (2^-104 by chance). It also guards the compiler flags of `fuzz/run`: with LLVM's usual
//! merging of conditions into one branch, nothing of this is found.
#![no_main]

use kumiki_net::wire::frame::{self, HEADER_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return };
    let Ok(header) = frame::decode(header) else { return };
    if header.kind == 0x2a && header.payload_bytes == 0x5_1234 && header.op == 0x0123_4567_89ab_cdef {
        panic!("the canary was found");
    }
});
