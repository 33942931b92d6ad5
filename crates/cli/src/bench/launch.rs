//! Metrics that need a job for each sample: start-up time and the memory that joining costs.

use super::catalogue::{Place, Session};
use kumiki_run::system;
use serde_json::Value;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How long a job may take to start and end.
const LIMIT: Duration = Duration::from_secs(180);
/// How long one may take to end that was asked to.
const TERM_LIMIT: Duration = Duration::from_secs(10);
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// A `kumiki run` of this very program.
pub(super) fn job(place: Place, ranks: u32, arguments: &[&str]) -> Result<Command, String> {
    job_of(Session { place, ranks }, &program()?, arguments)
}

/// A `kumiki run` of a program.
pub(super) fn job_of(session: Session, program: &Path, arguments: &[&str]) -> Result<Command, String> {
    let Session { place, ranks } = session;
    let cores = system::allowed_cores().len();
    let nodes = if place == Place::Tcp { ranks } else { 1 };
    // As for the peers: a core for each rank where there are enough.
    let bind = if ranks as usize <= cores { "core" } else { "none" };
    let mut command = Command::new(self::program()?);
    command.args(["run", "--ranks", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]);
    command.args(["--bind", bind]).arg("--").arg(program).args(arguments);
    Ok(command)
}

/// A job that answers lines, under one launcher.
pub(super) fn worker(session: Session) -> Result<Command, String> {
    job(session.place, session.ranks, &["bench", "worker"])
}

/// Where this program is.
pub(super) fn program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))
}

/// Seconds from starting a job to its end.
pub(super) fn time(mut command: Command) -> Result<f64, String> {
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(started.elapsed().as_secs_f64()),
            Some(status) => return Err(status.to_string()),
            None if started.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} s", LIMIT.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What a job says until it ends, and how many seconds that took. It has a process group of its own, which is ended with it if it takes
/// longer than the limit. Its standard error is ours if `loud`.
pub(super) fn output(mut command: Command, limit: Duration, loud: bool) -> Result<(String, f64), String> {
    let started = Instant::now();
    let errors = if loud { Stdio::inherit() } else { Stdio::null() };
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (sender, text) = channel();
    if let Some(mut output) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = output.read_to_string(&mut text);
            sender.send(text)
        });
    }
    let ended = ended_within(&mut child, limit)?;
    let seconds = started.elapsed().as_secs_f64();
    let Some(status) = ended else {
        end_group(&mut child);
        return Err(format!("it did not end within {} s", limit.as_secs()));
    };
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    // Somebody whom it has left behind may hold the pipe.
    let text = text.recv_timeout(TERM_LIMIT).map_err(|_| "it ended, and its output did not")?;
    Ok((text, seconds))
}

/// How a job ended, if it did in time.
fn ended_within(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>, String> {
    let until = Instant::now() + limit;
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            ended => return Ok(ended),
        }
    }
}

/// Ends a job with its group. A launcher that is asked takes its ranks with it; one that is killed may not.
fn end_group(child: &mut Child) {
    let group = child.id() as i32;
    let _ = system::signal_group(group, SIGTERM);
    if !matches!(ended_within(child, TERM_LIMIT), Ok(Some(_))) {
        let _ = system::signal_group(group, SIGKILL);
        let _ = child.wait();
    }
}

/// KiB of private memory that joining adds to a rank, as `kumiki mem` says: the least, the median and the most.
pub(super) fn memory(ranks: u32) -> Result<[f64; 3], String> {
    let mut command = Command::new(program()?);
    command.args(["mem", "-n", &ranks.to_string(), "--json"]).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    let value: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let kib = |which: &str| value["added_private_bytes"][which].as_f64().map(|bytes| bytes / 1024.0);
    match (kib("min"), kib("median"), kib("max")) {
        (Some(least), Some(median), Some(most)) => Ok([least, median, most]),
        _ => Err("kumiki mem did not say what joining cost".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_job_that_does_not_end_is_ended_with_its_group() {
        // The shell waits for its child: both are in the group, and nothing of them holds the pipe afterwards.
        let hangs = output(shell("sleep 1000; true"), Duration::from_millis(50), false);
        assert!(hangs.unwrap_err().contains("did not end"));
        let (text, _) = output(shell("echo said"), LIMIT, false).unwrap();
        assert_eq!(text, "said\n");
        assert!(output(shell("exit 3"), LIMIT, false).unwrap_err().contains('3'));
    }
}
