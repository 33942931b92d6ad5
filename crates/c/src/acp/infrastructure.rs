//! Start, end, barrier, who is who.

use super::options::{self, Options};
use super::{begin_again, channels, complain, complaints, edge, ending, streams, PROCESS, RANK, WORLD};
use crate::guard::misuse;
use kumiki::{Part, Result, World};
use std::cell::Cell;
use std::ffi::{c_char, c_int, CStr};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

extern "C" {
    /// Of the C library: the arguments before this have been seen by `getopt`.
    static optind: c_int;
}

/// Starter memory of a process without a launcher.
const STARTER_BYTES: u64 = 10240;

/// The exit code of a job that `acp_abort` has ended.
const ABORTED: u8 = 255;

/// What the first `acp_init` was told; later ones go by it.
static OPTIONS: OnceLock<Options> = OnceLock::new();

/// The rank of this process in its first world: it has that again in the next one, whatever `acp_reset` made of it.
static FIRST_RANK: OnceLock<u32> = OnceLock::new();

/// Whether the processes have other ranks than at first. All of them have been reset, or none.
static RENUMBERED: AtomicBool = AtomicBool::new(false);

/// Notes that this process has another number.
pub(super) fn note_reset() {
    RENUMBERED.store(true, Ordering::Relaxed);
}

/// Joins the world; returns when all processes have.
///
/// # Safety
/// `argc` and `argv` must be those of `main`, or NULL.
#[no_mangle]
pub unsafe extern "C" fn acp_init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    edge("acp_init", -1, || {
        // SAFETY: as the caller promises.
        let options = unsafe { take_options(argc, argv) };
        let options = OPTIONS.get_or_init(|| options);
        WORLD.enter(|| join(options))?;
        ending::watch();
        WORLD.with(|world| {
            RANK.store(world.rank().into(), Ordering::Relaxed);
            PROCESS.store(std::process::id(), Ordering::Relaxed);
            Ok(0)
        })
    })
}

fn join(options: &Options) -> Result<World> {
    let part = options.portfile.clone().map(|portfile| Part { portfile, offset: options.offset });
    let mut wanted = World::options().starter_bytes(options.starter_bytes.unwrap_or(STARTER_BYTES) as usize);
    if let Some(part) = part {
        wanted = wanted.part(part);
    }
    let world = wanted.init()?;
    let (wanted, are) = (options.processes.unwrap_or(0), u64::from(world.ranks()));
    if wanted > 1 && are != wanted {
        world.finalize()?;
        let message =
            format!("--acp-nprocs {wanted}: this process is one of {are}; start it with acprun -np {wanted}");
        return Err(misuse(message));
    }
    let first = *FIRST_RANK.get_or_init(|| world.rank());
    match RENUMBERED.swap(false, Ordering::Relaxed) {
        true => world.reset(first),
        false => Ok(world),
    }
}

/// Takes the `--acp-` options out of the arguments of the program. A wrong one ends it.
///
/// # Safety
/// As [`acp_init`].
unsafe fn take_options(argc: *mut c_int, argv: *mut *mut *mut c_char) -> Options {
    if argc.is_null() || argv.is_null() {
        return Options::default();
    }
    // SAFETY: not NULL, so they are those of `main`.
    let (count, vector) = unsafe { (usize::try_from(*argc).unwrap_or(0), *argv) };
    if count == 0 || vector.is_null() {
        return Options::default();
    }
    // SAFETY: `main` has `argc` pointers in `argv`, each NULL or a text.
    let pointers: Vec<*mut c_char> = unsafe { std::slice::from_raw_parts(vector, count) }.to_vec();
    let text = |pointer: &*mut c_char| match pointer.is_null() {
        true => &[][..],
        // SAFETY: as above.
        false => unsafe { CStr::from_ptr(*pointer) }.to_bytes(),
    };
    let arguments: Vec<&[u8]> = pointers.iter().map(text).collect();
    // SAFETY: a number of the C library, which is only read here; a program that calls `getopt` in another thread meanwhile
    // would have its arguments sorted under it in any case.
    let seen = usize::try_from(unsafe { std::ptr::read_volatile(&raw const optind) }).unwrap_or(0);
    let (options, left) = options::take(&arguments, seen).unwrap_or_else(|message| {
        complain(&format!("acp_init: {message}"));
        let usage = options::usage(&String::from_utf8_lossy(arguments[0]));
        let _ = std::io::stderr().write_all(usage.as_bytes());
        std::process::exit(1);
    });
    if left.len() < count {
        // SAFETY: fewer pointers than before, and NULL behind the last, where a longer list has been.
        unsafe {
            left.iter().enumerate().for_each(|(to, &from)| *vector.add(to) = pointers[from]);
            *vector.add(left.len()) = std::ptr::null_mut();
            *argc = left.len() as c_int;
        }
    }
    options
}

/// Completes this process's operations, waits for all processes, and leaves the world.
#[no_mangle]
pub extern "C" fn acp_finalize() -> c_int {
    edge("acp_finalize", -1, || {
        ended(WORLD.replace(|world| {
            channels::finish(&world);
            world.finalize().map(|()| None)
        }))?;
        begin_again(None);
        Ok(0)
    })
}

/// How a world has ended. If it is gone, what it knew goes with it, also after an error: another world must not find it.
pub(super) fn ended(end: Result<()>) -> Result<()> {
    if end.is_err() && !WORLD.is_taken() {
        begin_again(None);
    }
    end
}

/// Frees everything, and goes on as another rank. All processes call it, with different numbers. A number that no rank can
/// have is refused at once: nobody else needs to come, and nothing has changed.
#[no_mangle]
pub extern "C" fn acp_reset(rank: c_int) -> c_int {
    let (was_in, is_no_rank) = (WORLD.is_taken(), Cell::new(false));
    let done = edge("acp_reset", -1, || {
        let ranks = WORLD.with(|world| Ok(world.ranks()))?;
        let wanted = u32::try_from(rank).ok().filter(|&wanted| wanted < ranks);
        is_no_rank.set(wanted.is_none());
        let wanted = wanted
            .ok_or_else(|| misuse(format!("there is no rank {rank}: ranks go from 0 to {}", ranks - 1)))?;
        ended(WORLD.replace(|world| {
            channels::finish(&world);
            world.reset(wanted).map(Some)
        }))?;
        begin_again(Some(wanted));
        Ok(0)
    });
    if done != 0 {
        complain(match (was_in, WORLD.is_taken()) {
            (_, true) if is_no_rank.get() => "acp_reset: nothing has changed: give each rank another number, from 0 to one less than there are ranks",
            (_, true) => "acp_reset: nothing has changed",
            (true, false) => "acp_reset: this process is in no world any more, as after acp_finalize: end, or begin again with acp_init",
            (false, false) => "acp_reset: there was nothing to reset: call acp_init first",
        });
    }
    done
}

/// Ends the whole job, with the exit code that ACP gives it. What the program has printed comes out first.
///
/// # Safety
/// `str` must be a text, or NULL.
#[no_mangle]
pub unsafe extern "C" fn acp_abort(str: *const c_char) {
    // SAFETY: not NULL, so it is a text.
    let text = if str.is_null() { c"no reason was given" } else { unsafe { CStr::from_ptr(str) } };
    let message = format!("acp_abort: {}", text.to_string_lossy());
    edge("acp_abort", (), || {
        complaints::tell_rest();
        streams::flush_before_abort(ABORTED.into());
        // Where there is a world, this tells the launcher, and does not return. Another thread may be at its end, and stay there.
        WORLD.with_at_once(|world| world.abort_with_code(ABORTED, &message)).unwrap_or(Ok(()))
    });
    complain(&message);
    std::process::exit(ABORTED.into());
}

/// Waits until all processes have come here.
#[no_mangle]
pub extern "C" fn acp_sync() -> c_int {
    edge("acp_sync", -1, || WORLD.with(|world| channels::sync(world).map(|()| 0)))
}

/// The number of this process.
#[no_mangle]
pub extern "C" fn acp_rank() -> c_int {
    edge("acp_rank", -1, || WORLD.with(|world| Ok(world.rank() as c_int)))
}

/// How many processes there are.
#[no_mangle]
pub extern "C" fn acp_procs() -> c_int {
    edge("acp_procs", -1, || WORLD.with(|world| Ok(world.ranks() as c_int)))
}
