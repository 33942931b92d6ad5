//! Processes: liveness by descriptor, signals, processors, and what happens in a forked child.

use super::{check, named};
use crate::Result;
use rustix::process::{pidfd_open, set_child_subreaper, waitpid};
use rustix::process::{Pid, PidfdFlags, WaitOptions};
use rustix::thread::{sched_getaffinity, CpuSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A descriptor that becomes readable when the process ends.
pub fn open_pidfd(pid: i32) -> Result<OwnedFd> {
    let of = Pid::from_raw(pid).filter(|_| pid > 0);
    let of = of.ok_or_else(|| crate::Error::Misuse(format!("there is no process {pid}")))?;
    named("pidfd_open", pidfd_open(of, PidfdFlags::empty()))
}

/// The name of this machine.
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// The user that this process acts for.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Sets the name by which process lists show this process; more than 15 bytes are cut off.
pub fn set_name(name: &std::ffi::CStr) {
    // It cannot fail with a name.
    let _ = rustix::thread::set_name(name);
}

/// The number of processors this process may run on.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Gives the processor to whoever is next.
#[inline]
pub fn yield_now() {
    std::thread::yield_now();
}

static FORKED: AtomicBool = AtomicBool::new(false);

/// The most ranges that can be blank in forked children at a time.
const BLANKS: usize = 32;
/// Start and length of each; a free one starts at 0.
static BLANK: [[AtomicUsize; 2]; BLANKS] = [const { [const { AtomicUsize::new(0) }; 2] }; BLANKS];

extern "C" fn mark_forked() {
    if FORKED.swap(true, Ordering::Relaxed) {
        // A fork of a fork has inherited the zeroes, and no world of its own since.
        return;
    }
    for [start, bytes] in &BLANK {
        let (start, bytes) = (start.load(Ordering::Acquire), bytes.load(Ordering::Acquire));
        if start != 0 && bytes != 0 {
            map_blank(start, bytes);
        }
    }
}

/// Maps zeroes, to be read only, where a mapping of the parent is not inherited. Async-signal-safe.
fn map_blank(start: usize, bytes: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let wanted = start as *mut libc::c_void;
    // SAFETY: nothing is replaced; the range was a mapping of ours in the parent, and is nothing in this child.
    let blank = unsafe { libc::mmap(wanted, bytes, libc::PROT_READ, flags, -1, 0) };
    if blank != wanted {
        // Whoever looks there counts on zeroes.
        // SAFETY: it does not return.
        unsafe { libc::abort() };
    }
}

/// A range of addresses, not inherited by forked children, that reads as zeroes in them while this is kept.
#[derive(Debug)]
pub struct Blank {
    index: usize,
}

impl Blank {
    /// Whole pages of a mapping that children do not inherit; `None` if there are as many blank ranges as can be.
    pub fn new(start: std::ptr::NonNull<u8>, bytes: u64) -> Option<Blank> {
        watch_forks();
        let start = start.as_ptr() as usize;
        let index = BLANK.iter().position(|[place, _]| {
            place.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        BLANK[index][1].store(bytes as usize, Ordering::Release);
        Some(Blank { index })
    }
}

impl Drop for Blank {
    fn drop(&mut self) {
        let [start, bytes] = &BLANK[self.index];
        bytes.store(0, Ordering::Release);
        start.store(0, Ordering::Release);
    }
}

/// Arranges that a child made by `fork` knows that it is one. Cheap to call again.
pub fn watch_forks() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: `mark_forked` is async-signal-safe: it looks at static atomics, and maps memory.
        unsafe { libc::pthread_atfork(None, None, Some(mark_forked)) };
    });
}

/// Whether this process is a forked child of one that called [`watch_forks`]: shared memory is not mapped here.
#[inline]
pub fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// What happened to a child process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChildEvent {
    /// It returned or exited with this code.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// A signal stopped it; it still exists.
    Stopped,
    /// It runs again.
    Continued,
}

/// The next event of any child, `None` if there is none now. Ended children are reaped.
///
/// Only for a process whose every child is ours: it takes the events of all of them.
pub fn next_child_event() -> Result<Option<(i32, ChildEvent)>> {
    // SAFETY: a siginfo of zeroes is a valid value of the type.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG;
    // SAFETY: `info` is valid for writes.
    let done = unsafe { libc::waitid(libc::P_ALL, 0, &mut info, flags) };
    match check("waitid", done as i64) {
        Err(crate::Error::System { errno: libc::ECHILD | libc::EINTR, .. }) => return Ok(None),
        other => other?,
    };
    // SAFETY: waitid filled the fields of a child event, or left the zeroes.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let event = match info.si_code {
        _ if pid == 0 => return Ok(None),
        libc::CLD_EXITED => ChildEvent::Exited(status),
        libc::CLD_STOPPED | libc::CLD_TRAPPED => ChildEvent::Stopped,
        libc::CLD_CONTINUED => ChildEvent::Continued,
        _ => ChildEvent::Killed(status),
    };
    Ok(Some((pid, event)))
}

/// Sends a signal to one process. A process that is gone is no error.
pub fn signal(pid: i32, signal: i32) -> Result<()> {
    if pid <= 1 {
        return Err(crate::Error::Misuse(format!("no signal may go to process {pid}")));
    }
    kill(pid, signal)
}

/// Sends a signal to a process group. A group that is gone is no error.
pub fn signal_group(group: i32, signal: i32) -> Result<()> {
    if group <= 1 {
        return Err(crate::Error::Misuse(format!("no signal may go to process group {group}")));
    }
    kill(-group, signal)
}

fn kill(target: i32, signal: i32) -> Result<()> {
    // SAFETY: no pointers are passed.
    match check("kill", unsafe { libc::kill(target, signal) } as i64) {
        Err(crate::Error::System { errno: libc::ESRCH, .. }) => Ok(()),
        other => other.map(drop),
    }
}

/// Whether the process behind a pidfd has ended, and all its threads.
pub fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    let polled = super::descriptor::poll(&[(pidfd, false)], 0);
    polled.is_ok_and(|readiness| readiness.first().is_some_and(|readiness| readiness.readable))
}

/// Sends a signal to the process behind a pidfd, which can never be another process with the same number.
pub fn signal_pidfd(pidfd: BorrowedFd<'_>, signal: i32) -> Result<()> {
    // SAFETY: the descriptor is open; no siginfo is passed.
    let done = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, std::ptr::null::<u8>(), 0)
    };
    match check("pidfd_send_signal", done) {
        Err(crate::Error::System { errno: libc::ESRCH, .. }) => Ok(()),
        other => other.map(drop),
    }
}

/// Whether a process is stopped by a signal. One that is gone, or cannot be seen, is not.
pub fn is_stopped(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program, in brackets, may hold anything.
    text.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}

/// Stops this process until it is continued, as Ctrl-Z does: not where its group has no shell that could continue it.
pub fn stop_self() {
    // Not SIGSTOP, which stops any process.
    // SAFETY: the sets are plain data that sigemptyset and pthread_sigmask initialise before they are read; the signal goes to this thread, and with
    // its default action, takes effect before the call returns.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTSTP);
        let mut before: libc::sigset_t = std::mem::zeroed();
        if libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, &mut before) == 0 {
            libc::raise(libc::SIGTSTP);
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
    }
}

/// Makes orphaned descendants of this process its children, so that none escapes.
pub fn become_subreaper() -> Result<()> {
    named("prctl(PR_SET_CHILD_SUBREAPER)", set_child_subreaper(Some(Pid::INIT)))
}

/// The children of this process, orphans that it adopted included.
pub fn children() -> Vec<i32> {
    let text = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Kills the children of this process except those of `spared`, and what they leave to us in turn, until nothing is left or
/// so long has passed.
///
/// Needs a process that is a [subreaper](become_subreaper): otherwise the children of who is killed escape.
pub fn bury_children(spared: &[i32], limit_ms: u64) {
    let give_up_ms = super::time::now_ms() + limit_ms;
    loop {
        let left: Vec<i32> = children().into_iter().filter(|pid| !spared.contains(pid)).collect();
        if left.is_empty() || super::time::now_ms() >= give_up_ms {
            return;
        }
        for pid in left {
            let _ = signal(pid, libc::SIGKILL);
            // It is our child until it is waited for, so the number is still its own.
            let _ = waitpid(Pid::from_raw(pid), WaitOptions::NOHANG);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Whether this process is in the foreground of the terminal that `fd` is, so that reading it will not stop us.
/// `None` if it is no terminal.
pub fn in_foreground(fd: BorrowedFd<'_>) -> Option<bool> {
    // Not by rustix: either of the two is 0 where it is a group of another namespace.
    // SAFETY: calls with a number that is open, and none.
    let (foreground, own) = unsafe { (libc::tcgetpgrp(fd.as_raw_fd()), libc::getpgrp()) };
    (foreground >= 0).then_some(foreground == own)
}

/// Signals that arrive as reads of a descriptor instead of interrupting the program.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks these signals for the calling thread (threads started later inherit that) and collects them.
    ///
    /// Hang-up, interrupt, quit and Ctrl-Z stay ignored where whoever started us has them ignored (`nohup`, a job that a
    /// script put into the background): blocked and collected they would come through. Ends of children are never
    /// ignored, or the system would bury them before we know how they ended.
    pub fn new(signals: &[i32]) -> Result<Signals> {
        if is_ignored(libc::SIGCHLD)? {
            // SAFETY: the default action needs no handler.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        }
        // SAFETY: the sets are plain data that sigemptyset and sigprocmask initialise before they are read.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for &signal in signals {
                let may_stay = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP].contains(&signal);
                if !(may_stay && is_ignored(signal)?) {
                    libc::sigaddset(&mut set, signal);
                }
            }
            let mut before: libc::sigset_t = std::mem::zeroed();
            check("sigprocmask", libc::sigprocmask(libc::SIG_BLOCK, &set, &mut before) as i64)?;
            let fd =
                check("signalfd", libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) as i64)?;
            Ok(Signals { fd: OwnedFd::from_raw_fd(fd as RawFd), before })
        }
    }

    /// The next signal that has arrived, if any.
    pub fn next(&self) -> Option<i32> {
        let mut info = [0u8; std::mem::size_of::<libc::signalfd_siginfo>()];
        match super::descriptor::read(self.fd.as_fd(), &mut info) {
            Ok(got) if got == info.len() => {
                Some(u32::from_ne_bytes([info[0], info[1], info[2], info[3]]) as i32)
            }
            _ => None,
        }
    }
}

/// Whether this process ignores a signal.
fn is_ignored(signal: i32) -> Result<bool> {
    // SAFETY: an action of zeroes is a valid value of the type.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is changed, and `action` is valid for writes.
    check("sigaction", unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } as i64)?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: `before` is the set that sigprocmask gave us.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// The processors this process may run on.
pub fn allowed_cores() -> Vec<u32> {
    let allowed =
        |set: CpuSet| (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).map(|core| core as u32).collect();
    sched_getaffinity(None).map(allowed).unwrap_or_default()
}

/// How a child differs from one that `Command` alone would make.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChildSetup<'a> {
    /// A descriptor that the child keeps, under the same number.
    pub keep: Option<BorrowedFd<'a>>,
    /// The signal that the child gets when this process dies.
    pub parent_death: Option<i32>,
    /// The only processor that the child may use.
    pub core: Option<u32>,
    /// Whether the child gets a network namespace of its own.
    pub own_network: bool,
}

/// Goes on in a child, in a session of its own, while this process ends. No other thread may be there.
pub fn go_on_in_background() -> Result<()> {
    // SAFETY: the process has one thread, so the child is as whole as its parent; that ends without running anything.
    match unsafe { libc::fork() } {
        0 => super::named("setsid", rustix::process::setsid()).map(drop),
        -1 => Err(crate::Error::from_io("fork", &std::io::Error::last_os_error())),
        // SAFETY: ends this process, and nothing else.
        _ => unsafe { libc::_exit(0) },
    }
}

/// Starts a child in a process group of its own, with no signal blocked.
pub fn spawn(
    mut command: std::process::Command,
    setup: ChildSetup<'_>,
) -> std::io::Result<std::process::Child> {
    use std::os::unix::process::CommandExt;
    let keep = setup.keep.map(|fd| fd.as_raw_fd());
    let parent = std::process::id() as i32;
    let fail = |done: i32| if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) };
    command.process_group(0);
    // SAFETY: between fork and exec the closure calls only async-signal-safe functions and touches only its own
    // captured integers; `last_os_error` reads errno and does not allocate.
    unsafe {
        command.pre_exec(move || {
            // We collect our signals by descriptor and block them; whoever we start must be able to get them.
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            fail(libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()))?;
            if let Some(fd) = keep {
                fail(libc::fcntl(fd, libc::F_SETFD, 0))?;
            }
            if let Some(signal) = setup.parent_death {
                fail(libc::prctl(libc::PR_SET_PDEATHSIG, signal))?;
                // The parent may have died before the request was made.
                if libc::getppid() != parent {
                    libc::_exit(255);
                }
            }
            if let Some(core) = setup.core {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(core as usize, &mut set);
                fail(libc::sched_setaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &set))?;
            }
            if setup.own_network {
                fail(libc::unshare(libc::CLONE_NEWNET))?;
            }
            Ok(())
        });
    }
    command.spawn()
}
