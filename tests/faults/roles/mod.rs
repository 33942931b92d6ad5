//! What ranks do. A role writes lines that the test waits for; rank 0 can be told to go on by a line of input.

mod exchange;
mod exits;
mod halos;
mod hostile;
mod mail;
mod memory;
mod patterns;
mod plain;
mod storm;
mod structures;
mod tables;
mod victim;

use kumiki::{Error, Result, World};
use kumiki_net::os::time;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Plays a role. What comes back is how the process ends, if the role has not ended it.
pub(crate) fn play(role: &str) -> ExitCode {
    let played = match role {
        "victim" => victim::play(),
        "big-put" => storm::big_put(),
        "atomic-storm" => storm::atomics(),
        "haul" => storm::haul(),
        "table-storm" => tables::play(),
        "structure-storm" => structures::play(),
        "steady" => plain::steady(),
        "idle" => plain::idle(),
        "meet" => plain::meet(),
        "teams" => plain::teams(),
        "collectives" => plain::collectives(),
        "halos" => halos::play(),
        "wide" => halos::wide(),
        "patterns" => patterns::play(),
        "paused" => plain::paused(),
        "busy" => plain::busy(),
        "crosstalk" => plain::crosstalk(),
        "cycles" => plain::cycles(),
        "exchange" => exchange::play(),
        "exits" => exits::play(),
        "budget" => memory::budget(),
        "outlive" => memory::outlive(),
        "viewer" => memory::viewer(),
        "gather" => memory::gather(),
        "listener" => memory::listener(),
        "threadless" => memory::threadless(),
        "mail" => mail::play(),
        "hostile" => hostile::play(),
        other => panic!("there is no role {other}"),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // In one piece: the launcher writes to the same stream.
            let line = format!("rank {}: {error}\n", rank());
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
            ExitCode::from(9)
        }
    }
}

/// This process's rank, as the launcher says.
pub(crate) fn rank() -> u32 {
    argument("KUMIKI_RANK").parse().unwrap_or(0)
}

/// A variable of the job.
pub(crate) fn argument(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// One line, whole, even if several ranks write at once.
pub(crate) fn say(text: &str) {
    let _ = std::io::stdout().write_all(format!("{text}\n").as_bytes());
}

/// Waits for a line of input; only rank 0 has one. The end of the input is no word.
pub(crate) fn wait_for_word() {
    let mut line = String::new();
    if !std::io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        sleep_forever();
    }
}

/// Says that this rank has come so far, in a word of rank 0's starter memory that nothing else uses.
///
/// A barrier would not do before somebody is killed: who has left it may still be needed by those who have not.
pub(crate) fn is_here(world: &World, word: u64) -> Result<()> {
    // Who waits for us may be gone before the answer is here.
    match world.fetch_add(world.starter::<u64>(0)?.add(word as usize), 1) {
        Ok(_) | Err(Error::PeerLost { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits until every rank [is here](is_here).
pub(crate) fn all_are_here(world: &World, word: u64) -> Result<()> {
    while world.get(world.starter::<u64>(0)?.add(word as usize))? < u64::from(world.ranks()) {
        std::thread::yield_now();
    }
    Ok(())
}

/// Does nothing until somebody ends the process.
pub(crate) fn sleep_forever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

/// Says what an operation came to, and when.
pub(crate) fn report(what: &str, result: &Result<()>) {
    let now_ns = time::now_ns();
    let text = match result {
        Ok(()) => "ok".to_string(),
        Err(error) => format!("{} {error}", kind(error)),
    };
    say(&format!("got {} {now_ns} {what} {text}", rank()));
}

/// The kind of an error, in one word.
pub(crate) fn kind(error: &Error) -> String {
    match error {
        Error::PeerLost { rank, fate, .. } => format!("PeerLost({},{fate:?})", rank),
        Error::Timeout { .. } => "Timeout".into(),
        Error::OutOfMemory { .. } => "OutOfMemory".into(),
        Error::Refused(_) => "Refused".into(),
        Error::Bounds { .. } => "Bounds".into(),
        Error::Closed(_) => "Closed".into(),
        Error::System { .. } => "System".into(),
        Error::Misuse(_) => "Misuse".into(),
        _ => "Other".into(),
    }
}
