//! Requests and replies of the data library as bytes: a code, then fields in the codec of the whole library.

use crate::Error;
pub(crate) use kumiki_mem::codec::{Reader, Writer};

/// The error for a code that no version of ours sends.
pub(crate) fn unknown(code: u8) -> Error {
    Error::Misuse(format!("the data library knows no request {code}; is the other rank of the same version?"))
}
