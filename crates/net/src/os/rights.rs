//! What this process may do with a range of its own memory, as the kernel has it.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;

/// What a range allows: what the least of its pages does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rights {
    /// Not even reading; or a part of it is not there.
    Nothing,
    /// Reading alone.
    Read,
    /// Reading and writing.
    Write,
}

/// The rights of so many bytes. A system that does not say has never refused anything here: everything is allowed then.
pub fn of_range(start: u64, bytes: u64) -> Rights {
    let Some(end) = start.checked_add(bytes) else { return Rights::Nothing };
    let Ok(mut maps) = File::open("/proc/self/maps") else { return Rights::Write };
    ask(&maps, start, end).unwrap_or_else(|| {
        let mut text = Vec::new();
        match maps.read_to_end(&mut text) {
            Ok(_) => judge(&String::from_utf8_lossy(&text), start, end),
            Err(_) => Rights::Write,
        }
    })
}

fn rights(read: bool, write: bool) -> Rights {
    match (read, write) {
        (true, true) => Rights::Write,
        (true, false) => Rights::Read,
        (false, _) => Rights::Nothing,
    }
}

/// `struct procmap_query` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: u64 = 3 << 30 | (size_of::<Query>() as u64) << 16 | (b'f' as u64) << 8 | 17;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;

/// Asks for the mappings of the range one by one, which takes a microsecond however many others the process has. `None`: the
/// kernel is older than 6.11, or something of the range is not mapped; the whole list says what is.
fn ask(maps: &File, start: u64, end: u64) -> Option<Rights> {
    let (mut at, mut least) = (start, Rights::Write);
    while at < end {
        let size = size_of::<Query>() as u64;
        let mut query = Query { size, query_addr: at, ..Query::default() };
        // SAFETY: the kernel writes to the query alone, whose size it is told; no name and no build id is asked for.
        let told = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) };
        if told != 0 || query.vma_end <= at {
            return None;
        }
        least = least.min(rights(query.vma_flags & READABLE != 0, query.vma_flags & WRITABLE != 0));
        at = query.vma_end;
    }
    Some(least)
}

/// What the list of all mappings, in the order of their addresses, says of a range.
fn judge(maps: &str, start: u64, end: u64) -> Rights {
    let (mut at, mut least) = (start, Rights::Write);
    for line in maps.lines() {
        if at >= end {
            break;
        }
        let Some((from, to, allowed)) = mapping(line) else { continue };
        if to <= at {
            continue;
        }
        if from > at {
            return Rights::Nothing;
        }
        (at, least) = (to, least.min(allowed));
    }
    if at >= end {
        least
    } else {
        Rights::Nothing
    }
}

/// Where the mapping of a line begins and ends, and what it allows.
fn mapping(line: &str) -> Option<(u64, u64, Rights)> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(from)?, number(to)?, rights(rest.starts_with('r'), rest.get(1..2) == Some("w"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-3000 rw-p 00000000 00:00 0 [heap]
3000-4000 r--p 00000000 00:00 0
4000-5000 rw-s 00000000 00:00 0 /dev/zero
6000-7000 ---p 00000000 00:00 0
7000-8000 r-xp 00000000 08:01 7 /bin/a b
";

    #[test]
    fn a_range_allows_what_the_least_of_its_pages_does() {
        let cases = [
            (0x1000, 0x3000, Rights::Write),
            (0x1800, 0x1801, Rights::Write),
            (0x2000, 0x3001, Rights::Read),
            (0x3000, 0x5000, Rights::Read),
            (0x4000, 0x5000, Rights::Write),
            (0x4000, 0x5001, Rights::Nothing),
            (0x0, 0x1001, Rights::Nothing),
            (0x6000, 0x6001, Rights::Nothing),
            (0x7000, 0x8000, Rights::Read),
            (0x7fff, 0x8001, Rights::Nothing),
            (0x9000, 0x9000, Rights::Write),
        ];
        for (start, end, wanted) in cases {
            assert_eq!(judge(MAPS, start, end), wanted, "{start:#x}..{end:#x}");
        }
    }

    #[test]
    fn the_kernel_says_what_memory_of_this_process_allows() {
        static CONSTANT: [u8; 3 * 4096] = [1; 3 * 4096];
        let mut own = vec![0u8; 5000];
        assert_eq!(of_range(own.as_mut_ptr() as u64, 5000), Rights::Write);
        assert_eq!(of_range(CONSTANT.as_ptr() as u64, 3 * 4096), Rights::Read);
        assert_eq!(of_range(64, 8), Rights::Nothing);
        assert_eq!(of_range(u64::MAX - 7, 8), Rights::Nothing);
        assert_eq!(of_range(64, 0), Rights::Write);
        // Both ways of asking agree, where there are two.
        let maps = File::open("/proc/self/maps").unwrap();
        let start = CONSTANT.as_ptr() as u64;
        assert!(ask(&maps, start, start + 8).is_none_or(|told| told == Rights::Read));
    }
}
