//! Memory of the program that a message is written to when it comes.

use kumiki::raw::Room;

/// Memory that the program has promised to leave alone until it has waited.
pub(crate) struct Buffer {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the program has given the memory away until it waits for the request, which may be in another thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// # Safety
    /// The memory must be writable for so many bytes, and nobody may touch it until the request was waited for, or this was dropped.
    pub(crate) unsafe fn new(start: *mut u8, bytes: usize) -> Buffer {
        Buffer { start, bytes }
    }
}

impl Room for Buffer {
    fn bytes(&mut self) -> &mut [u8] {
        if self.bytes == 0 {
            return &mut [];
        }
        // SAFETY: as whoever made it promises.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}
