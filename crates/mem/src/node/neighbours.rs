//! The memories of neighbours as files, for short copies to and from their private memory.

use kumiki_net::os::descriptor;
use kumiki_net::os::memory::MemoryFile;
use std::sync::OnceLock;

/// So many files at most: descriptors are few. Neighbours without one are reached as for long copies.
const FILES: usize = 8;
/// A process that may open fewer files than this needs all of them for other things.
const LEAST_DESCRIPTORS: u64 = 64;
/// Copies up to here go through the file: of one page, more or less.
pub(crate) const SHORT_BYTES: u64 = 4096;

/// A neighbour that was reached once: its process, and its file if there may be one.
#[derive(Debug)]
struct Neighbour {
    pid: i32,
    file: Option<MemoryFile>,
}

/// Opened at first use; closed with the world.
#[derive(Default, Debug)]
pub(crate) struct Neighbours([OnceLock<Neighbour>; FILES]);

const _: () = assert!(std::mem::size_of::<Neighbours>() <= FILES * 16);

/// How many descriptors are kept for these files in a process that may have so many in all.
pub(crate) fn descriptors(limit: u64) -> u64 {
    if limit < LEAST_DESCRIPTORS {
        0
    } else {
        FILES as u64
    }
}

fn open(pid: i32) -> Option<MemoryFile> {
    let (limit, _) = descriptor::limit();
    if descriptors(limit) == 0 {
        return None;
    }
    MemoryFile::open(pid).ok()
}

impl Neighbours {
    /// The file of the process `pid`, which has the place `local` on the node. `None`: there is none.
    #[inline]
    pub(crate) fn file(&self, local: u32, pid: i32) -> Option<&MemoryFile> {
        let first = || Neighbour { pid, file: open(pid) };
        let neighbour = self.0[local as usize % FILES].get_or_init(first);
        neighbour.file.as_ref().filter(|_| neighbour.pid == pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumiki_net::os::memory::Direction;

    #[test]
    fn a_short_copy_goes_through_the_file() {
        let neighbours = Neighbours::default();
        let pid = std::process::id() as i32;
        let (from, mut to) = ([1u8, 2, 3, 4], [0u8; 4]);
        let file = neighbours.file(3, pid).expect("a process may open its own memory");
        // SAFETY: both arrays are ours, and as long as is said.
        unsafe {
            assert!(file.copy(Direction::Read, to.as_mut_ptr(), from.as_ptr() as u64, 4));
            assert_eq!(to, from);
            to = [5, 6, 7, 8];
            let mut target = [0u8; 4];
            assert!(file.copy(Direction::Write, to.as_mut_ptr(), target.as_mut_ptr() as u64, 4));
            assert_eq!(std::ptr::read_volatile(&target), to);
            assert!(!file.copy(Direction::Read, to.as_mut_ptr(), 0, 4), "nothing lies at 0");
        }
    }

    #[test]
    fn few_descriptors_are_left_to_connections() {
        assert_eq!((descriptors(32), descriptors(63)), (0, 0));
        assert_eq!((descriptors(64), descriptors(1024)), (8, 8));
    }

    #[test]
    fn a_place_is_that_of_its_first_process() {
        let neighbours = Neighbours::default();
        let pid = std::process::id() as i32;
        assert!(neighbours.file(0, pid).is_some());
        assert!(neighbours.file(FILES as u32, pid + 1).is_none());
        assert!(neighbours.file(1, i32::MAX).is_none(), "no process has this number");
        assert!(neighbours.file(0, pid).is_some());
    }
}
