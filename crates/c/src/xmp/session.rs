//! Start and end of the program.
//!
//! Units hand in their initialisers before `main`. The end is that of the process: with status 0 all ranks meet, and leave together; every
//! other status ends the job with it.

use super::{asynchronous, directory, edge, edge_or, sets, WORLD};
use crate::acp::flush_output;
use crate::complaints;
use kumiki::{Error, Result, World};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// What a unit does at the start.
pub type Initialiser = extern "C" fn();

/// The initialisers, and how many of them were run in this world.
static UNITS: Mutex<(Vec<Initialiser>, usize)> = Mutex::new((Vec::new(), 0));

fn units() -> MutexGuard<'static, (Vec<Initialiser>, usize)> {
    UNITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many worlds there have been: what was made in one is of no use in the next.
static WORLDS: AtomicU64 = AtomicU64::new(0);

/// Whether the job is being ended.
static ABORTING: AtomicBool = AtomicBool::new(false);

/// Whether MPI was initialised here, and is to be finalized at the end.
static STARTED_MPI: AtomicBool = AtomicBool::new(false);

/// The number of the world.
pub(super) fn number() -> u64 {
    WORLDS.load(Ordering::Relaxed)
}

extern "C" {
    /// Of the C library: what is called at `exit`, with its code.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    /// Of the C library: writes out what a stream holds; with NULL, what all hold.
    fn fflush(stream: *mut c_void) -> c_int;
    fn exit(code: c_int) -> !;
}

/// Does something in the world. Whatever borrows it must be kept where [`end_all`](super::end_all) drops it, or be dropped before `work` returns.
pub(super) fn with<R>(work: impl FnOnce(&'static World) -> Result<R>) -> Result<R> {
    // SAFETY: the world is in a box, which its place does not touch while somebody is in it, and gives up only when it has dropped everything
    // that is kept.
    let lasting = |world: &World| unsafe { &*std::ptr::from_ref(world) };
    WORLD.with(|world| work(lasting(world))).map_err(|error| match error {
        Error::Closed(_) if !WORLD.is_taken() => sets::not_started(),
        error => error,
    })
}

/// Hands in what a unit does at the start.
#[no_mangle]
pub extern "C" fn kxmp_unit(initialise: Option<Initialiser>) {
    edge_or("a unit", (), || {
        units().0.extend(initialise);
        Ok(())
    });
}

/// Joins the world and runs the initialisers.
///
/// # Safety
/// `argc` and `argv` must be those of `main`, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kxmp_start(argc: *mut c_int, argv: *mut *mut *mut c_char) {
    let _ = (argc, argv);
    // SAFETY: there is no place.
    unsafe { edge(std::ptr::null(), "the start of the program", start) }
}

/// Joins the world, unless that has been done, and runs what has not been run.
pub(super) fn start() -> Result<()> {
    if !WORLD.is_taken() {
        // A launcher of MPI says nothing of how the processes meet: the program's MPI can, and is there for it afterwards.
        if kumiki::raw::start_mpi() {
            STARTED_MPI.store(true, Ordering::Relaxed);
        }
        WORLD.enter(World::init)?;
        WORLDS.fetch_add(1, Ordering::Relaxed);
        with(|world| {
            sets::begin(world);
            directory::begin(world)
        })?;
        watch();
    }
    loop {
        // One after the other: an initialiser may load a library that brings more.
        let next = {
            let mut units = units();
            let next = units.0.get(units.1).copied();
            units.1 += usize::from(next.is_some());
            next
        };
        match next {
            Some(initialise) => initialise(),
            None => return Ok(()),
        }
    }
}

/// Leaves the world with all others.
pub(super) fn leave() -> Result<()> {
    asynchronous::discard_all()?;
    with(|world| world.sync())?;
    units().1 = 0;
    WORLD.replace(|world| world.finalize().map(|()| None))
}

/// Ends the job with a message. What the program has printed comes out first.
pub(super) fn abort(code: u8, message: &str) -> ! {
    // The end of this process, which comes of it, is no news.
    ABORTING.store(true, Ordering::Relaxed);
    complaints::tell_rest();
    flush_all();
    let _ = WORLD.with(|world| -> Result<()> { world.abort_with_code(code, message) });
    complaints::complain(&format!("xmp: {message}"));
    std::process::exit(code.into())
}

fn flush_all() {
    flush_output();
    // SAFETY: NULL stands for all streams, and the C library locks each.
    let _ = unsafe { fflush(std::ptr::null_mut()) };
}

/// Sees to it that this process leaves at its end.
fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let process = std::process::id() as usize as *mut c_void;
        // SAFETY: the function lives as long as the process (the library cannot be unloaded), and its argument is a number.
        // Without memory for it, which is all that can fail, there is no notice of the end.
        unsafe { on_exit(end_at_exit, process) };
    });
}

/// `process` is the number of the process that joined: a child that it forked ends by itself.
extern "C" fn end_at_exit(code: c_int, process: *mut c_void) {
    let is_child = std::process::id() as usize != process as usize;
    if is_child || ABORTING.load(Ordering::Relaxed) {
        return;
    }
    // What others see of a status.
    let code = code as u8;
    if WORLD.is_taken() {
        // What was printed must not wait for the others.
        flush_output();
        if code != 0 {
            abort(code, &format!("the program ended with status {code}"));
        }
        // SAFETY: there is no place.
        unsafe {
            edge(std::ptr::null(), "the end of the program", || match leave() {
                // It has been left.
                Err(Error::Closed(_)) => Ok(()),
                left => left,
            });
        }
    }
    // Also after xmp_finalize. A program that failed leaves it to MPI's launcher to end the others.
    if code == 0 && STARTED_MPI.swap(false, Ordering::Relaxed) {
        kumiki::raw::stop_mpi();
    }
}

/// Ends the program on all nodes: as `exit` does.
#[no_mangle]
pub extern "C" fn xmp_exit(status: c_int) {
    edge_or("xmp_exit", (), || Ok(()));
    // SAFETY: the C library's, which runs what was registered and does not return.
    unsafe { exit(status) }
}
