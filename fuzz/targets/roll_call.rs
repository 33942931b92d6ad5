//! The decoders of the roll call of programs that join, and the roll itself, to which anybody comes and says what the input says. What
//! must hold is said, and checked, in `crates/net/src/agent/strangers/blocks/storm.rs`.
#![no_main]

mod unseeded;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| kumiki_net::fuzzing::roll_call(script));
