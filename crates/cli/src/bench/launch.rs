//! Metrics that need a job for each sample: start-up time and the memory that joining costs.

use super::catalogue::Place;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a job may take to start and end.
const LIMIT: Duration = Duration::from_secs(180);

/// A `kumiki run` of this very program.
pub(super) fn job(place: Place, ranks: u32, arguments: &[&str]) -> Result<Command, String> {
    let program = program()?;
    let cores = kumiki_run::system::allowed_cores().len();
    let nodes = if place == Place::Tcp { ranks } else { 1 };
    // As for the peers: a core for each rank where there are enough.
    let bind = if ranks as usize <= cores { "core" } else { "none" };
    let mut command = Command::new(&program);
    command.args(["run", "--ranks", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]);
    command.args(["--bind", bind]).arg("--").arg(&program).args(arguments);
    Ok(command)
}

/// Where this program is.
fn program() -> Result<PathBuf, String> {
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
