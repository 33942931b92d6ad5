//! Metrics that need a job for each sample: start-up time and the memory that joining costs.

use super::catalogue::Place;
use crate::commands::Outcome;
use kumiki::World;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a job may take to start and end.
const LIMIT: Duration = Duration::from_secs(180);

/// A `kumiki run` of this very program.
pub(super) fn job(place: Place, ranks: u32, arguments: &[&str], options: &[&str]) -> Result<Command, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let cores = kumiki_run::system::allowed_cores().len();
    let nodes = if place == Place::Tcp { ranks } else { 1 };
    // As for the peers: a core for each rank where there are enough.
    let bind = if ranks as usize <= cores { "core" } else { "none" };
    let mut command = Command::new(&program);
    command.args(["run", "--ranks", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]);
    command.args(["--bind", bind]).args(options).arg("--").arg(&program).arg("bench").args(arguments);
    Ok(command)
}

/// The body of a rank that only joins and leaves.
pub(super) fn probe() -> Outcome {
    let world = World::init().map_err(|error| error.to_string())?;
    world.finalize().map_err(|error| error.to_string())?;
    Ok(0)
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

/// KiB of private memory that joining adds to each rank, as the ranks themselves say.
pub(super) fn memory(ranks: u32) -> Result<Vec<f64>, String> {
    let job = job(Place::Shm, ranks, &["probe"], &["--env", "KUMIKI_MEASURE_FD=9"])?;
    // The ranks write to a descriptor that they inherit; a shell makes it of our pipe.
    let mut command = Command::new("sh");
    command.args(["-c", "exec 9>&1; exec \"$@\"", "sh"]).arg(job.get_program()).args(job.get_args());
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    let added = |line: &str| {
        let value: Value = serde_json::from_str(line).ok()?;
        Some((value["private_after"].as_f64()? - value["private_before"].as_f64()?) / 1024.0)
    };
    let added: Vec<f64> = String::from_utf8_lossy(&output.stdout).lines().filter_map(added).collect();
    if added.len() != ranks as usize {
        return Err(format!("{} of {ranks} ranks said what joining cost", added.len()));
    }
    Ok(added)
}
