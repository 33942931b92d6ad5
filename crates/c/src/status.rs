//! Error codes of `kumiki.h`, and the message of the last failure of each thread.

use crate::guard::Failure;
use kumiki::Error;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr, CString};

/// A code and its name.
pub(crate) struct Code {
    number: c_int,
    name: &'static CStr,
}

/// Every code, as `kumiki.h` has them.
pub(crate) const CODES: [Code; 10] = [
    Code { number: 0, name: c"success" },
    Code { number: 1, name: c"a rank is lost" },
    Code { number: 2, name: c"timed out" },
    Code { number: 3, name: c"out of memory" },
    Code { number: 4, name: c"refused" },
    Code { number: 5, name: c"out of bounds" },
    Code { number: 6, name: c"closed" },
    Code { number: 7, name: c"a system call failed" },
    Code { number: 8, name: c"misuse" },
    Code { number: 9, name: c"a bug of the library" },
];

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// The code of a failure.
pub(crate) fn code(failure: &Failure) -> c_int {
    match failure {
        Failure::Error(Error::PeerLost { .. }) => 1,
        Failure::Error(Error::Timeout { .. }) => 2,
        Failure::Error(Error::OutOfMemory { .. }) => 3,
        Failure::Error(Error::Refused(_)) => 4,
        Failure::Error(Error::Bounds { .. }) => 5,
        Failure::Error(Error::Closed(_)) => 6,
        Failure::Error(Error::System { .. }) => 7,
        Failure::Error(_) => 8,
        Failure::Panic(_) => 9,
    }
}

/// The name of a code.
pub(crate) fn name(number: c_int) -> &'static CStr {
    CODES.iter().find(|code| code.number == number).map_or(c"there is no such status", |code| code.name)
}

/// Keeps the message of a failure for `kumiki_last_error`, and gives its code.
pub(crate) fn keep(failure: &Failure) -> c_int {
    keep_text(&failure.to_string());
    code(failure)
}

/// Keeps a message for `kumiki_last_error` and `waitio_error`.
pub(crate) fn keep_text(text: &str) {
    let text: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // A thread that is ending has no place for it.
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = text));
}

/// The message of the last failure of this thread; good until the next one.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |last| last.as_ptr())).unwrap_or(c"".as_ptr())
}
