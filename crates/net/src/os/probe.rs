//! Trying things out: what this machine lets a process do, found by doing it. For `kumiki doctor`.
//!
//! The trials that need another process fork one. They are for a program that has no other threads.

use super::memory::{self, Mapping, PAGE_BYTES};
use super::{check, process};
use crate::{Error, Result};
use std::net::IpAddr;
use std::os::fd::AsFd;

pub use super::machine::{group_limit, GroupLimit};
pub use super::process::allowed_cores;

/// Something of which a process may only have so much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// Open descriptors.
    Descriptors,
    /// Processes and threads of the user.
    Processes,
    /// Bytes of address space.
    AddressSpace,
    /// Bytes of memory that may be locked.
    LockedMemory,
    /// Bytes of a core file.
    CoreFile,
    /// Bytes of any file, shared memory without a name included.
    File,
}

/// The soft and the hard limit; `None` is unlimited.
pub fn limits(resource: Resource) -> (Option<u64>, Option<u64>) {
    super::limit_of(match resource {
        Resource::Descriptors => libc::RLIMIT_NOFILE,
        Resource::Processes => libc::RLIMIT_NPROC,
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
        Resource::CoreFile => libc::RLIMIT_CORE,
        Resource::File => libc::RLIMIT_FSIZE,
    })
}

/// An address of a network interface that is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The name of the interface.
    pub name: String,
    /// One of its addresses.
    pub address: IpAddr,
}

/// The addresses of the interfaces that are up, loopback last.
pub fn interfaces() -> Result<Vec<Interface>> {
    let named = super::socket::named_addresses()?;
    Ok(named.into_iter().map(|(name, address)| Interface { name, address }).collect())
}

/// Makes a small arena and does to it what Kumiki does: seal, commit, map, write, read, give back. The error names the
/// call that failed.
pub fn try_arena() -> Result<()> {
    let bytes = 16 * PAGE_BYTES;
    let fd = memory::create_sealed(c"kumiki-doctor", bytes)?;
    if !memory::is_sealed(fd.as_fd())? {
        return Err(Error::Refused("the size of a memfd could not be sealed".into()));
    }
    memory::commit(fd.as_fd(), 0, bytes)?;
    let mapping = Mapping::new(fd.as_fd(), bytes)?;
    let word = mapping.start().cast::<u64>().as_ptr();
    // SAFETY: the mapping is ours alone, page-aligned, committed and longer than a word.
    let read = unsafe {
        word.write_volatile(0x6b75_6d69);
        word.read_volatile()
    };
    memory::release(fd.as_fd(), 0, bytes)?;
    // SAFETY: as above; a page that was given back reads as zeroes.
    let after = unsafe { word.read_volatile() };
    match (read, after) {
        (0x6b75_6d69, 0) => Ok(()),
        _ => Err(Error::Refused(
            "shared memory did not keep what was written, or kept it when given back".into(),
        )),
    }
}

/// Holds a process by a descriptor, as the agent does with each rank.
pub fn try_pidfd() -> Result<()> {
    process::open_pidfd(std::process::id() as i32).map(drop)
}

/// Copies memory between two processes that are children of this one, as two ranks of a node are of their agent.
pub fn try_process_vm() -> Result<()> {
    const SAID: u64 = 0x6b75_6d69_6b69;
    let (ready, says_ready) = super::socket::stream_pair()?;
    let mut word = 0u64;
    let place: *mut u64 = &mut word;
    let target = fork_child(|| {
        // SAFETY: the child has its own copy of `word`, and only it touches that copy.
        unsafe { place.write_volatile(SAID) };
        let _ = super::descriptor::write(says_ready.as_fd(), &[1]);
        loop {
            // SAFETY: no pointers are passed.
            unsafe { libc::pause() };
        }
    })?;
    let is_ready = super::descriptor::read(ready.as_fd(), &mut [0]);
    let reader = is_ready.and_then(|_| {
        fork_child(|| {
            let mut got = 0u64;
            let local: *mut u64 = &mut got;
            // SAFETY: `got` is valid for eight bytes; the target is a child of the same program that waits for us.
            let moved = unsafe {
                memory::copy_process(target, memory::Direction::Read, local.cast(), place as u64, 8)
            };
            match moved {
                Ok(8) if got == SAID => 0,
                Err(Error::System { errno, .. }) => errno,
                _ => libc::EIO,
            }
        })
    });
    let code = reader.and_then(wait_for);
    process::signal(target, libc::SIGKILL)?;
    wait_for(target)?;
    match code? {
        0 => Ok(()),
        errno => Err(Error::System { call: "process_vm_readv", errno }),
    }
}

/// How a network namespace can be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetworkNamespace {
    /// With the rights that this process has.
    Directly,
    /// Inside a user namespace.
    InUserNamespace,
}

/// Makes a network namespace in a child process.
pub fn try_network_namespace() -> Result<NetworkNamespace> {
    let attempt = |flags: i32| {
        let child = fork_child(|| {
            // SAFETY: no pointers are passed; only the namespaces of this child change.
            match unsafe { libc::unshare(flags) } {
                0 => 0,
                _ => std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
            }
        })?;
        wait_for(child)
    };
    if attempt(libc::CLONE_NEWNET)? == 0 {
        return Ok(NetworkNamespace::Directly);
    }
    match attempt(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)? {
        0 => Ok(NetworkNamespace::InUserNamespace),
        errno => Err(Error::System { call: "unshare(CLONE_NEWUSER | CLONE_NEWNET)", errno }),
    }
}

/// Whether the dynamic loader finds a library.
pub fn finds_library(name: &std::ffi::CStr) -> bool {
    // SAFETY: `name` is a C string. Loading runs the library's own initialisers, which is what using it would do.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        // SAFETY: the handle came from dlopen and is not used any more.
        unsafe { libc::dlclose(handle) };
    }
    !handle.is_null()
}

/// Forks a child that runs `body` and exits with its value. The body may only do what is allowed in the child of a
/// program without other threads; it is killed when this process dies.
fn fork_child(body: impl FnOnce() -> i32) -> Result<i32> {
    // SAFETY: the callers of this module have no other threads, so that the child finds no lock held; it leaves by
    // `_exit`, so that nothing of the parent's is run or flushed twice.
    unsafe {
        let pid = check("fork", libc::fork() as i64)? as i32;
        if pid == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::_exit(body());
        }
        Ok(pid)
    }
}

/// Waits for a child; its exit code, or `EIO` if a signal ended it.
fn wait_for(pid: i32) -> Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for writes.
        match check("waitpid", unsafe { libc::waitpid(pid, &mut status, 0) } as i64) {
            Err(Error::System { errno: libc::EINTR, .. }) => continue,
            other => other?,
        };
        return Ok(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { libc::EIO });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_can_be_read_and_hard_is_not_below_soft() {
        use Resource::{AddressSpace, CoreFile, Descriptors, LockedMemory, Processes};
        for resource in [Descriptors, Processes, AddressSpace, LockedMemory, CoreFile] {
            let (soft, hard) = limits(resource);
            assert!(soft.unwrap_or(u64::MAX) <= hard.unwrap_or(u64::MAX), "{resource:?}");
        }
    }

    #[test]
    fn an_arena_and_a_pidfd_can_be_had() {
        try_arena().unwrap();
        try_pidfd().unwrap();
    }

    #[test]
    fn a_library_is_found_or_not() {
        assert!(finds_library(c"libc.so.6"));
        assert!(!finds_library(c"libkumiki-is-not-there.so.1"));
    }

    #[test]
    fn loopback_is_the_last_interface() {
        let all = interfaces().unwrap();
        let first_loopback = all.iter().position(|one| one.address.is_loopback());
        assert!(first_loopback.is_none_or(|at| all[at..].iter().all(|one| one.address.is_loopback())));
    }
}
