//! Hash maps without chance: an input does the same each time it is tried, and so does a run with the same seed.

use std::ffi::c_void;

/// Takes the place of the C library's function, which the standard library asks for the keys of hash maps. It gives what is there
/// already: zeroes, in an array of the standard library.
#[no_mangle]
extern "C" fn getrandom(_place: *mut c_void, bytes: usize, _flags: u32) -> isize {
    bytes as isize
}
