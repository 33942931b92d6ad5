//! Shared memory objects without a name, and copies between the memories of processes.

use super::{check, named};
use crate::{Error, Result};
use rustix::fs::{fchmod, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::fs::{MemfdFlags, Mode, SealFlags};
use rustix::io::{pread, pwrite};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// The size of a page: the unit in which memory is taken and given back.
pub const PAGE_BYTES: u64 = 4096;
/// The size of a huge page.
pub const HUGE_BYTES: u64 = 2 << 20;
/// From this length on huge pages are asked for: there is at least one in it, wherever it begins.
pub const LARGE_BYTES: u64 = 2 * HUGE_BYTES;

/// Who may read and write a file of ours, by any way to it.
const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);
/// What keeps the size of a file from changing.
const FIXED_SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A memfd of fixed size: mode 0600, sealed against resizing, no name anywhere.
pub fn create_sealed(name: &std::ffi::CStr, bytes: u64) -> Result<OwnedFd> {
    check_file_limit(bytes)?;
    let base = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // NOEXEC_SEAL is newer than the oldest kernel we run on: ask for it, then do without.
    let made = memfd_create(name, base | MemfdFlags::NOEXEC_SEAL).or_else(|_| memfd_create(name, base));
    let fd = named("memfd_create", made)?;
    named("fchmod", fchmod(&fd, OWNER_ONLY))?;
    named("ftruncate(memfd)", ftruncate(&fd, bytes))?;
    named("fcntl(F_ADD_SEALS)", fcntl_add_seals(&fd, FIXED_SIZE | SealFlags::SEAL))?;
    Ok(fd)
}

/// A memfd that holds these bytes and can never change, to be passed on or inherited. It is read from its start.
pub fn seal_bytes(name: &std::ffi::CStr, bytes: &[u8]) -> Result<OwnedFd> {
    let made = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
    let fd = named("memfd_create", made)?;
    named("fchmod", fchmod(&fd, OWNER_ONLY))?;
    if named("pwrite(memfd)", pwrite(&fd, bytes, 0))? != bytes.len() {
        return Err(Error::Closed("a memfd took only a part of what was written".into()));
    }
    named("fcntl(F_ADD_SEALS)", fcntl_add_seals(&fd, FIXED_SIZE | SealFlags::WRITE | SealFlags::SEAL))?;
    Ok(fd)
}

/// The first bytes of a file, wherever others have read it to.
pub fn read_start<const BYTES: usize>(fd: BorrowedFd<'_>) -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    match named("pread", pread(fd, &mut bytes, 0))? {
        got if got == BYTES => Ok(bytes),
        got => Err(Error::Refused(format!("a file has {got} bytes instead of {BYTES}"))),
    }
}

/// Refuses what is longer than a file may be: the kernel would end the process with SIGXFSZ.
fn check_file_limit(bytes: u64) -> Result<()> {
    match super::limit_of(libc::RLIMIT_FSIZE).0 {
        Some(most) if bytes > most => Err(Error::Refused(format!(
            "shared memory of {bytes} bytes, which are only taken as they are used, is longer than a file may be ({most} bytes): \
             raise the limit (ulimit -f unlimited), or set KUMIKI_SLICE, for instance to 64M"
        ))),
        _ => Ok(()),
    }
}

/// Whether the object can never change its size, so that touching it can never raise SIGBUS for that reason.
pub fn is_sealed(fd: BorrowedFd<'_>) -> Result<bool> {
    named("fcntl(F_GET_SEALS)", fcntl_get_seals(fd)).map(|seals| seals.contains(FIXED_SIZE))
}

/// The size of an open file and the bytes it really occupies.
pub fn file_bytes(fd: BorrowedFd<'_>) -> Result<(u64, u64)> {
    named("fstat", fstat(fd)).map(|stat| (stat.st_size as u64, stat.st_blocks as u64 * 512))
}

/// Commits the pages of a range, so that touching them cannot fail later.
pub fn commit(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<()> {
    fallocate(fd, 0, "fallocate", offset, bytes)
}

/// Gives the pages of a range back to the system; they read as zeroes afterwards.
pub fn release(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    fallocate(fd, mode, "fallocate(FALLOC_FL_PUNCH_HOLE)", offset, bytes)
}

/// Not rustix's, which is inlined and tells the compiler that it leaves memory as it is: what a range held before it was released
/// would be read from a register.
fn fallocate(fd: BorrowedFd<'_>, mode: i32, call: &'static str, offset: u64, bytes: u64) -> Result<()> {
    loop {
        // SAFETY: no pointers are passed.
        let done =
            unsafe { libc::fallocate(fd.as_raw_fd(), mode, offset as libc::off_t, bytes as libc::off_t) };
        match check(call, done as i64) {
            Err(Error::System { errno: libc::EINTR, .. }) => continue,
            other => return other.map(drop),
        }
    }
}

/// A shared mapping of a whole file, unmapped when dropped. Not inherited by a fork, not in core dumps.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// Whether the system keeps it from forked children.
    is_kept_from_children: bool,
}

// SAFETY: a mapping is a range of addresses; what may be done with them is decided by who hands out pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives out only the address and the length.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of the file from its start, readable and writable, without reserving memory.
    pub fn new(fd: BorrowedFd<'_>, bytes: u64) -> Result<Self> {
        let start = map_aligned(fd, bytes as usize).map_err(|error| match error {
            Error::System { errno: libc::ENOMEM, .. } => Error::Refused(format!(
                "there is no room for a mapping of {bytes} bytes, which are only taken as they are used: raise the limit \
                 on address space (ulimit -v unlimited), or set KUMIKI_SLICE, for instance to 256M"
            )),
            other => other,
        })?;
        // SAFETY: the range is the mapping just made; the advice changes forks and dumps, not contents. A
        // kernel that refuses the advice costs us a feature, not soundness.
        let is_kept_from_children = unsafe {
            libc::madvise(start, bytes as usize, libc::MADV_DONTDUMP);
            libc::madvise(start, bytes as usize, libc::MADV_DONTFORK) == 0
        };
        let start = NonNull::new(start.cast()).ok_or(Error::Misuse("mmap gave a null mapping".into()))?;
        Ok(Mapping { start, bytes: bytes as usize, is_kept_from_children })
    }

    /// Whether forked children do not have it.
    pub fn is_kept_from_children(&self) -> bool {
        self.is_kept_from_children
    }

    /// The first byte.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the huge pages that lie in a long range, before the rest of it is [committed](commit). Only where the system has
    /// them for whoever asks: where it gives them to all or to nobody there is nothing to ask. What it does not give is
    /// committed in small pages.
    pub fn prefer_huge_pages(&self, offset: u64, bytes: u64) {
        if bytes < LARGE_BYTES || !huge_pages_for_the_asking() {
            return;
        }
        self.take_huge_pages(offset, bytes);
    }

    /// Populates the huge pages of a range; in small ones, if the system has no others.
    fn take_huge_pages(&self, offset: u64, bytes: u64) {
        let Some((start, bytes)) = self.whole_huge_pages(offset, bytes) else { return };
        // SAFETY: the range lies in the mapping. The advice changes the size of pages; populating writes nothing, and ends
        // with an error where memory is short.
        unsafe {
            if libc::madvise(start, bytes, libc::MADV_HUGEPAGE) == 0 {
                libc::madvise(start, bytes, libc::MADV_POPULATE_WRITE);
            }
        }
    }

    /// Takes the wish for huge pages back, of a range that is being [released](release): what is committed there next may
    /// be short, and the kernel would round it up.
    pub fn forget_huge_pages(&self, offset: u64, bytes: u64) {
        if bytes < HUGE_BYTES || !huge_pages_for_the_asking() {
            return;
        }
        if let Some((start, bytes)) = self.whole_huge_pages(offset, bytes) {
            // SAFETY: the range lies in the mapping; the advice changes the size of pages, not contents.
            unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
        }
    }

    /// The huge pages that lie in a range as a whole.
    fn whole_huge_pages(&self, offset: u64, bytes: u64) -> Option<(*mut libc::c_void, usize)> {
        let end =
            offset.checked_add(bytes).filter(|&end| end <= self.bytes as u64)? / HUGE_BYTES * HUGE_BYTES;
        let start = offset.next_multiple_of(HUGE_BYTES);
        (start < end)
            .then(|| (self.start.as_ptr().wrapping_add(start as usize).cast(), (end - start) as usize))
    }
}

/// Asks for huge pages for long memory of this process that nobody has touched yet: for those that lie in it as a whole. Where the system gives them to all, or
/// to nobody, nothing changes.
pub fn prefer_huge_pages<T>(memory: &mut [std::mem::MaybeUninit<T>]) {
    let bytes = size_of_val(memory) as u64;
    if bytes < LARGE_BYTES {
        return;
    }
    let start = memory.as_mut_ptr() as u64;
    let (first, end) = (start.next_multiple_of(HUGE_BYTES), (start + bytes) / HUGE_BYTES * HUGE_BYTES);
    // SAFETY: the range lies in the memory. The advice changes the size of pages that come, not contents; a failure leaves them as they are.
    unsafe { libc::madvise(first as *mut libc::c_void, (end - first) as usize, libc::MADV_HUGEPAGE) };
}

/// Maps a file at a multiple of the size of a huge page, so that those of the file can be mapped as such.
fn map_aligned(fd: BorrowedFd<'_>, bytes: usize) -> Result<*mut libc::c_void> {
    let mapped = |start: *mut libc::c_void| match start {
        libc::MAP_FAILED => Err(Error::last_os("mmap(arena)")),
        start => Ok(start),
    };
    let room = bytes.checked_add(HUGE_BYTES as usize).ok_or(Error::Misuse("a mapping is too long".into()))?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let held = unsafe { mapped(libc::mmap(std::ptr::null_mut(), room, libc::PROT_NONE, flags, -1, 0))? };
    let before = (held as usize).next_multiple_of(HUGE_BYTES as usize) - held as usize;
    let start = held.wrapping_byte_add(before);
    // SAFETY: the new mapping lies in the room just made, which is ours alone; what is left of it is unmapped.
    unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let file = mapped(libc::mmap(start, bytes, protection, flags, fd.as_raw_fd(), 0));
        let kept = if file.is_ok() { before + bytes.next_multiple_of(PAGE_BYTES as usize) } else { 0 };
        if before > 0 || kept == 0 {
            libc::munmap(held, if kept == 0 { room } else { before });
        }
        if kept > 0 && kept < room {
            libc::munmap(held.wrapping_byte_add(kept), room - kept);
        }
        file
    }
}

/// Whether the system has huge pages of shared memory for those who ask for them.
fn huge_pages_for_the_asking() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    *OFFERED.get_or_init(|| {
        let folder = "/sys/kernel/mm/transparent_hugepage";
        let read = |file: &str| std::fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
        asks(&read("hugepages-2048kB/shmem_enabled"), &read("shmem_enabled"))
    })
}

/// What the settings of one size of pages, which may be missing, and of all of them come to.
fn asks(of_size: &str, of_all: &str) -> bool {
    let own = !of_size.is_empty() && !of_size.contains("[inherit]");
    if own { of_size } else { of_all }.contains("[advise]")
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if super::process::is_forked_child() {
            // The mapping was not inherited; something else may lie there by now.
            return;
        }
        // SAFETY: the range is the mapping made in `new`; pointers into it do not outlive their owner, which
        // holds this mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Which way [`copy_process`] moves bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the other process to this one.
    Read,
    /// From this process to the other one.
    Write,
}

/// Copies between this process and another with `process_vm_readv`/`process_vm_writev`. Returns how many bytes
/// moved, which may be fewer than asked.
///
/// # Safety
/// `local` must be valid for `bytes` (for writing when reading from the other process). What the bytes at
/// `remote` mean to the other process is the caller's business: it must know that the other process has lent them.
pub unsafe fn copy_process(
    pid: i32,
    direction: Direction,
    local: *mut u8,
    remote: u64,
    bytes: usize,
) -> Result<usize> {
    let local = libc::iovec { iov_base: local.cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: remote as *mut libc::c_void, iov_len: bytes };
    // SAFETY: one local and one remote vector, as the caller promises; the kernel checks the remote one.
    let moved = unsafe {
        match direction {
            Direction::Read => libc::process_vm_readv(pid, &local, 1, &remote, 1, 0),
            Direction::Write => libc::process_vm_writev(pid, &local, 1, &remote, 1, 0),
        }
    };
    let call = if direction == Direction::Read { "process_vm_readv" } else { "process_vm_writev" };
    check(call, moved as i64).map(|n| n as usize)
}

/// A process's memory as a file. A short copy through it is about a fifth faster than [`copy_process`], which looks the
/// process up and asks for its permission each time; a copy of more than a page is slower.
#[derive(Debug)]
pub struct MemoryFile(OwnedFd);

impl MemoryFile {
    /// Opens the memory of a process, if the system allows it. It stays that of this process, whatever becomes of its number.
    pub fn open(pid: i32) -> Result<MemoryFile> {
        let path = format!("/proc/{pid}/mem");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path);
        file.map(|file| MemoryFile(file.into()))
            .map_err(|error| Error::from_io("open(/proc/PID/mem)", &error))
    }

    /// Copies, and returns whether all of it was. If not, some may have been: [`copy_process`] finds the reason.
    ///
    /// # Safety
    /// As [`copy_process`].
    pub unsafe fn copy(&self, direction: Direction, local: *mut u8, remote: u64, bytes: usize) -> bool {
        let (fd, at) = (self.0.as_raw_fd(), remote as libc::off_t);
        let call = match direction {
            Direction::Read => libc::SYS_pread64,
            Direction::Write => libc::SYS_pwrite64,
        };
        // The bare system call: the library's is a point where threads may be cancelled, which costs.
        // SAFETY: the caller vouches for `local`; the kernel checks the remote side.
        let moved = unsafe { libc::syscall(call, fd, local, bytes, at) };
        moved == bytes as libc::c_long
    }
}

/// The memory of the machine in bytes.
pub fn machine_bytes() -> u64 {
    // SAFETY: no pointers are passed.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    (pages.max(0) as u64).saturating_mul(page.max(0) as u64)
}

/// Duplicates a descriptor, close-on-exec.
pub fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned().map_err(|error| Error::from_io("fcntl(F_DUPFD_CLOEXEC)", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_asked_for_where_asking_is_what_it_takes() {
        let (advise, never) =
            ("always within_size [advise] never deny force", "always within_size advise [never] deny force");
        assert!(asks("", advise) && asks("always [inherit] within_size advise never", advise));
        assert!(!asks("", never) && !asks("", "") && !asks("[never] advise", advise));
        assert!(asks("always inherit within_size [advise] never", never));
        assert!(!asks("", "[always] within_size advise never deny force"));
    }

    #[test]
    fn a_mapping_begins_where_a_huge_page_can() {
        for bytes in [1, 4096, 5000, HUGE_BYTES, 3 * HUGE_BYTES + 4096] {
            let fd = create_sealed(c"aligned", bytes).unwrap();
            let mapping = Mapping::new(fd.as_fd(), bytes).unwrap();
            assert!((mapping.start().as_ptr() as u64).is_multiple_of(HUGE_BYTES));
            commit(fd.as_fd(), 0, bytes).unwrap();
            // SAFETY: the last byte is in the mapping and committed.
            unsafe { mapping.start().as_ptr().add(bytes as usize - 1).write(1) };
            assert!(mapping.whole_huge_pages(1, bytes).is_none_or(|_| bytes > 2 * HUGE_BYTES));
        }
    }

    #[test]
    fn what_lies_around_huge_pages_takes_no_more_than_was_asked_for() {
        let fd = create_sealed(c"huge", 8 * HUGE_BYTES).unwrap();
        let mapping = Mapping::new(fd.as_fd(), 8 * HUGE_BYTES).unwrap();
        let (at, bytes) = (HUGE_BYTES - PAGE_BYTES, 3 * HUGE_BYTES + 5 * PAGE_BYTES);
        mapping.take_huge_pages(at, bytes);
        commit(fd.as_fd(), at, bytes).unwrap();
        assert_eq!(file_bytes(fd.as_fd()).unwrap().1, bytes);
        for place in (at..at + bytes).step_by(PAGE_BYTES as usize) {
            // SAFETY: the page was committed just now.
            unsafe {
                let byte = mapping.start().as_ptr().add(place as usize);
                assert_eq!(byte.read(), 0);
                byte.write(1);
            }
        }
        mapping.forget_huge_pages(at, bytes);
        release(fd.as_fd(), at, bytes).unwrap();
        assert_eq!(file_bytes(fd.as_fd()).unwrap().1, 0);
    }
}
