//! The translator of C programs with `#pragma xmp`.
//!
//! What must hold: nothing panics; what is wrong can be shown; directives leave as many lines as there were.
#![no_main]

mod unseeded;

use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let marked = kumiki_xmp::mark(text, &mut |_, _| None);
    let lines = |text: &str| text.matches('\n').count();
    assert_eq!(lines(&marked), lines(text));
    let files = HashMap::from([("a.c".to_owned(), text.to_owned())]);
    let options = kumiki_xmp::Options {
        omni_local_subscripts: bytes.len() % 2 == 0,
        images_from_1: bytes.len() % 4 < 2,
    };
    match kumiki_xmp::translate(&format!("# 1 \"a.c\"\n{marked}"), &files, &options) {
        Ok(_) => {}
        Err(problems) => {
            assert!(!problems.is_empty());
            problems.iter().for_each(|problem| drop(problem.to_string()));
        }
    }
});
