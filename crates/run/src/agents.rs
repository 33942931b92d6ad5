//! Starting the agent of each node: a child here, or a program at the other end of ssh.

use crate::plan::PlannedNode;
use crate::{Options, Result, RunError};
use kumiki_net::agent::link::Link;
use kumiki_net::auth::Secret;
use kumiki_net::os::process::{self, ChildSetup};
use kumiki_net::os::{descriptor, file, memory, socket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// An agent, or the ssh that leads to it.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    pub(crate) child: Child,
    pub(crate) link: Link,
    /// The program that reaches another host, if the agent is there.
    pub(crate) reached_by: Option<String>,
}

/// Starts the agent of a node. It finds the job's secret in its standard input: sealed memory here, a pipe to ssh elsewhere,
/// never a socket.
pub(crate) fn start(options: &Options, node: &PlannedNode, secret: &Secret) -> Result<AgentProcess> {
    match &node.host {
        None => start_here(options, secret),
        Some(host) => start_by_ssh(options, host, secret),
    }
}

fn start_here(options: &Options, secret: &Secret) -> Result<AgentProcess> {
    let (ours, theirs) = socket::stream_pair()?;
    let sealed = memory::seal_bytes(c"kumiki-secret", secret.expose())?;
    let mut command = Command::new(options.agent_program.as_deref().unwrap_or(Path::new("/proc/self/exe")));
    command.arg0("kumiki").arg("agent").arg("--fd").arg(theirs.as_raw_fd().to_string()).stdin(sealed);
    let setup = ChildSetup {
        keep: Some(theirs.as_fd()),
        own_network: options.network_namespaces,
        ..ChildSetup::default()
    };
    let child = process::spawn(command, setup).map_err(|error| {
        RunError::Options(format!("cannot start the agent of a node: {error}{}", netns_hint(options)))
    })?;
    let link = Link::new(memory::duplicate(ours.as_fd())?, ours, true)?;
    Ok(AgentProcess { child, link, reached_by: None })
}

fn netns_hint(options: &Options) -> &'static str {
    if options.network_namespaces {
        " (--netns needs root or user namespaces)"
    } else {
        ""
    }
}

fn start_by_ssh(options: &Options, host: &str, secret: &Secret) -> Result<AgentProcess> {
    let mut words = options.ssh.split_whitespace();
    let program = words.next().ok_or_else(|| RunError::Options("--ssh names no command".into()))?;
    let missing =
        || RunError::Options(format!("cannot start {program} to reach {host}: there is no such program"));
    let mut command = file::command(program).ok_or_else(missing)?;
    command.args(words);
    if Path::new(program).file_name().is_some_and(|name| name == "ssh") {
        // Never ask for anything: nobody could answer, for the standard input is ours.
        command.args(["-x", "-T", "-o", "BatchMode=yes"]);
        let (interval, count) = patience(Duration::from_millis(options.terms.peer_timeout_ms.into()));
        command.arg("-o").arg(format!("ServerAliveInterval={interval}"));
        command.arg("-o").arg(format!("ServerAliveCountMax={count}"));
    }
    let remote = format!("exec {} agent --stdio", quote(&own_path(options)?));
    command.arg("--").arg(host).arg(remote).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = process::spawn(command, ChildSetup::default())
        .map_err(|error| RunError::Options(format!("cannot start {program} to reach {host}: {error}")))?;
    let (Some(input), Some(output)) = (child.stdout.take(), child.stdin.take()) else {
        return Err(RunError::Options(format!("{program} has no streams")));
    };
    // A pipe that nothing has been written to takes it at once. An ssh that has ended is noticed by its stream.
    let output = OwnedFd::from(output);
    let _ = descriptor::write(output.as_fd(), secret.expose());
    let link = Link::new(input.into(), output, true)?;
    Ok(AgentProcess { child, link, reached_by: Some(program.into()) })
}

/// How often ssh asks whether the other host is there, in seconds, and how many questions may stay unanswered: it gives up
/// no sooner than we do.
fn patience(peer_timeout: Duration) -> (u64, u64) {
    let seconds = peer_timeout.as_secs_f64().ceil().max(1.0) as u64;
    let interval = (seconds / 3).clamp(1, 5);
    (interval, seconds.div_ceil(interval))
}

/// Where this program is; it must be at the same place on every host.
fn own_path(options: &Options) -> Result<PathBuf> {
    match &options.agent_program {
        Some(path) => std::path::absolute(path),
        None => std::env::current_exe(),
    }
    .map_err(|error| RunError::Options(format!("cannot tell where this program is: {error}")))
}

/// Quotes a path for the shell of the other host: everything between single quotes is taken as it is.
fn quote(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_is_as_patient_as_we_are() {
        for milliseconds in [100, 1_000, 4_500, 15_000, 16_000, 600_000] {
            let timeout = Duration::from_millis(milliseconds);
            let (interval, count) = patience(timeout);
            let gives_up = Duration::from_secs(interval * count);
            assert!(interval >= 1 && timeout <= gives_up, "{timeout:?}: {interval} {count}");
            assert!(gives_up <= timeout + Duration::from_secs(6), "{timeout:?}: {interval} {count}");
        }
    }

    #[test]
    fn a_quoted_path_is_one_word_to_a_shell() {
        for path in ["/usr/bin/kumiki", "/a b/$(touch x)/`y`", "/it's", "/a\nb;rm"] {
            let output = Command::new("sh")
                .arg("-c")
                .arg(format!("printf %s {}", quote(Path::new(path))))
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), path);
        }
    }
}
