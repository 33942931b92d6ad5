//! Namespaces of our own, so that the litter of a job can be told from what other programs do at the same time.

use std::io::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

static OWN: AtomicBool = AtomicBool::new(false);

/// Whether `/tmp`, `/dev/shm` and the network are ours alone.
pub(crate) fn is_own() -> bool {
    OWN.load(Ordering::Relaxed)
}

/// Whether this process may make namespaces and mount.
pub(crate) fn is_root() -> bool {
    // SAFETY: no pointers are passed.
    unsafe { libc::geteuid() == 0 }
}

/// Makes a private `/tmp`, `/dev/shm`, network and System V IPC. Must be called while the process has one thread.
pub(crate) fn enter() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    if program.starts_with("/tmp") || program.starts_with("/dev/shm") {
        return Err("the programs lie in /tmp".into());
    }
    let user = if is_root() { 0 } else { libc::CLONE_NEWUSER };
    // SAFETY: no pointers are passed.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    // SAFETY: no pointers are passed; there are no other threads.
    check("unshare", unsafe {
        libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | user)
    })?;
    if user != 0 {
        let write = |file: &str, text: String| std::fs::write(file, text).map_err(|error| error.to_string());
        write("/proc/self/setgroups", "deny".into())?;
        write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    }
    let nothing = std::ptr::null();
    // SAFETY: the strings end with a zero; the other pointers may be null for this call.
    let private = unsafe {
        libc::mount(nothing, c"/".as_ptr(), nothing, libc::MS_REC | libc::MS_PRIVATE, nothing.cast())
    };
    check("mount(/)", private)?;
    for place in [c"/tmp", c"/dev/shm"] {
        if Path::new(place.to_str().unwrap_or_default()).is_dir() {
            // SAFETY: the strings end with a zero; data may be null.
            let mounted = unsafe {
                libc::mount(c"tmpfs".as_ptr(), place.as_ptr(), c"tmpfs".as_ptr(), 0, nothing.cast())
            };
            check("mount(tmpfs)", mounted)?;
        }
    }
    // Where we were may lie under one of them, and launchers want to know where they are.
    std::env::set_current_dir("/").map_err(|error| error.to_string())?;
    raise_loopback()?;
    OWN.store(true, Ordering::Relaxed);
    Ok(())
}

/// A new network namespace has a loopback interface that is down.
fn raise_loopback() -> Result<(), String> {
    // SAFETY: no pointers are passed.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) };
    check("socket", socket)?;
    // SAFETY: a request of zeroes is a valid value of the type.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
    // SAFETY: the request is valid for reads; the socket is open.
    let raised = unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &request) };
    // SAFETY: the socket is ours and is not used again.
    unsafe { libc::close(socket) };
    check("ioctl(SIOCSIFFLAGS)", raised)
}

fn check(call: &str, result: i32) -> Result<(), String> {
    match result {
        0.. => Ok(()),
        _ => Err(format!("{call}: {}", Error::last_os_error())),
    }
}
