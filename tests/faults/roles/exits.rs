//! The ways in which a process can end.

use super::{argument, rank, report, say};
use kumiki::{Error, Result, World};

/// Rank 1 ends in the way it is told; the others wait for it.
pub(crate) fn play() -> Result<()> {
    let way = argument("FAULTS_WAY");
    if rank() == 1 && way == "_exit-before-init" {
        // SAFETY: it ends the process.
        unsafe { libc::_exit(0) };
    }
    let world = match World::init() {
        Ok(world) => world,
        Err(error) => {
            report("init", &Err(error));
            return Ok(());
        }
    };
    // Whoever is still in this barrier when rank 1 has ended may be told here.
    let met = world.sync();
    if rank() == 1 {
        return met.and_then(|()| end(world, &way));
    }
    if way == "finalize-exit" || way == "return" || way == "drop" {
        return met.and_then(|()| world.finalize());
    }
    if rank() == 2 && way == "leave-early-late" {
        while world.get::<u64>(world.starter(1)?).is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    let mut passed = 0;
    let waited = met.and_then(|()| (0..).try_for_each(|_: u32| world.sync().map(|()| passed += 1)));
    say(&format!("passed {passed}"));
    report("waiting", &waited);
    let _ = world.finalize();
    Ok(())
}

fn end(world: World, way: &str) -> Result<()> {
    match way {
        "return" => return world.finalize(),
        "drop" => drop(world),
        "exit-0" => std::process::exit(0),
        "exit-3" => std::process::exit(3),
        "return-unfinalized" => std::mem::forget(world),
        "panic" => {
            let _lost_in_unwinding = world;
            panic!("on purpose");
        }
        "thread-panic" => {
            let panicked = std::thread::spawn(|| panic!("on purpose")).join();
            assert!(panicked.is_ok(), "a thread panicked");
        }
        "abort" => std::process::abort(),
        "segv" => bad_access(),
        "_exit-0" => {
            // SAFETY: it ends the process.
            unsafe { libc::_exit(0) }
        }
        "exec" => exec(),
        "leave-early" | "leave-early-late" => {
            drop(world);
            std::process::exit(3);
        }
        "early-return" => {
            // What the world knows nothing of.
            let text = std::fs::read_to_string("/no/such/file");
            let text = text.map_err(|error| Error::Refused(error.to_string()))?;
            world.put(world.starter(0)?, text.len())?;
            world.sync()?;
        }
        "finalize-early" => report("finalize", &world.finalize()),
        "finalize-exit" => {
            world.finalize()?;
            std::process::exit(5);
        }
        "world-abort" => world.abort("the input makes no sense"),
        signal => die_by(signal.parse().unwrap()),
    }
    Ok(())
}

/// A store to an address that nothing is mapped at.
fn bad_access() {
    say("about to fault");
    // SAFETY: none: this is the fault that the test is about.
    unsafe { std::hint::black_box(64 as *mut u8).write_volatile(1) };
}

/// Dies by a signal, whatever handler the runtime has installed for it.
fn die_by(signal: i32) {
    // SAFETY: the default action needs no handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Becomes another program, which knows nothing of us and ends well.
fn exec() {
    use std::os::unix::process::CommandExt;
    let error = std::process::Command::new("true").exec();
    panic!("exec: {error}");
}
