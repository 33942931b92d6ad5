//! What must hold of the edge as a whole.

use crate::acp;
use crate::api;
use crate::guard::misuse;
use kumiki::Error;
use std::ffi::CStr;

fn last_error() -> String {
    // SAFETY: the text of this thread, which fails in nothing until it is copied.
    unsafe { CStr::from_ptr(api::world::kumiki_last_error()) }.to_string_lossy().into_owned()
}

#[test]
fn a_panic_does_not_cross() {
    assert_eq!(api::edge(|| panic!("on purpose: {}", 7)), 9);
    assert!(last_error().ends_with("on purpose: 7"), "{}", last_error());
    assert_eq!(acp::edge("acp_nothing", -7, || panic!("on purpose")), -7);
    assert_eq!(api::edge_or(3, || Err(misuse("this way"))), 3);
    assert_eq!(last_error(), "misuse: this way");
}

#[test]
fn every_error_has_a_code_with_a_name() {
    let errors = [Error::Refused("no".into()), Error::Closed("yes".into()), misuse("so")];
    for (error, code) in errors.into_iter().zip([4, 6, 8]) {
        assert_eq!(api::edge(|| Err(error)), code);
    }
    // SAFETY: names are constants.
    let name = |code| unsafe { CStr::from_ptr(api::world::kumiki_status_name(code)) };
    assert_eq!(
        (name(0), name(9), name(10)),
        (c"success", c"a bug of the library", c"there is no such status")
    );
}

/// Every exported function goes through the wrapper that stops panics.
#[test]
fn every_exported_function_is_guarded() {
    let mut found = 0;
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let text = std::fs::read_to_string(&entry).unwrap();
            for function in text.split("#[no_mangle]").skip(1) {
                let body = &function[..function.find("\n}\n").unwrap_or(function.len())];
                let kumiki = ["kumiki_version", "kumiki_last_error", "kumiki_status_name"];
                let waitio = ["waitio_error", "truef"];
                // Compares a pointer, and sets it.
                let xmp = ["kxmp_array_await"];
                let guarded = body.contains("edge(") || body.contains("edge_or(");
                let is_plain = kumiki.iter().chain(&waitio).chain(&xmp).any(|name| body.contains(name));
                assert!(guarded || is_plain, "{entry:?}: {body}");
                found += 1;
            }
        }
    }
    assert!(found > 40, "the search finds {found} functions only");
}
