//! Two to five engines of global memory and a network between them that does what the input says: delivers, tears, repeats, loses
//! peers, and brings frames of a rank of the job that lies. What must hold is said, and checked, in
//! `crates/mem/src/engine/storm.rs`.
#![no_main]

mod unseeded;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| kumiki_mem::fuzzing::engines(script));
