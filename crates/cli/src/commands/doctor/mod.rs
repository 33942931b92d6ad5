//! `kumiki doctor`: is this machine ready, and if not, what to do. What can be tried is tried, not guessed.
//!
//! | file | what it looks at |
//! |---|---|
//! | `limits.rs` | what the system allows a process |
//! | `machine.rs` | processors and memory |
//! | `kernel.rs` | shared memory, process descriptors, copies between processes, namespaces |
//! | `network.rs` | interfaces, loopback, the name of this host |
//! | `others.rs` | programs and libraries that Kumiki can use, and the environment |

mod kernel;
mod limits;
mod machine;
mod network;
mod others;

use super::Outcome;
use serde_json::json;
use std::io::IsTerminal;

const EXAMPLES: &str = "\
Examples:
  kumiki doctor                      one line a check, with a remedy where one is needed
  kumiki doctor --json | jq '.checks[] | select(.status != \"OK\")'
  ssh beta kumiki doctor             the same on another host

The exit code is 1 if a check failed: then Kumiki does not work here. A warning means that something is slower, smaller or \
missing that not every job needs.";

/// Check whether this machine is ready, and say what to do if not.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// As one JSON object.
    #[arg(long)]
    json: bool,
}

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Status {
    Ok,
    Warn,
    Fail,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::Warn => "WARN",
            Status::Fail => "FAIL",
        }
    }

    /// The escape sequence of its colour: green, yellow, red.
    fn colour(self) -> &'static str {
        match self {
            Status::Ok => "\x1b[32m",
            Status::Warn => "\x1b[33m",
            Status::Fail => "\x1b[31m",
        }
    }
}

/// One line of the report.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Check {
    name: &'static str,
    status: Status,
    found: String,
    remedy: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, status: Status::Ok, found: found.into(), remedy: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { name, status: Status::Warn, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn fail(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { name, status: Status::Fail, found: found.into(), remedy: Some(remedy.into()) }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut checks = Vec::new();
    // Kernel checks fork and must come while there is one thread; those of the network start another.
    checks.extend(limits::checks());
    checks.extend(machine::checks());
    checks.extend(kernel::checks());
    checks.extend(network::checks());
    checks.extend(others::checks());
    let worst = checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok);
    let text = if arguments.json { as_json(&checks, worst) } else { as_text(&checks, wants_colour()) };
    super::print(&text)?;
    Ok((worst == Status::Fail) as i32)
}

fn wants_colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

fn as_json(checks: &[Check], worst: Status) -> String {
    let list: Vec<_> = checks
        .iter()
        .map(|Check { name, status, found, remedy }| {
            json!({"name": name, "status": status.name(), "found": found, "remedy": remedy})
        })
        .collect();
    format!("{:#}\n", json!({"status": worst.name(), "checks": list}))
}

fn as_text(checks: &[Check], colour: bool) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Check { name, status, found, remedy } in checks {
        let (on, off) = if colour { (status.colour(), "\x1b[0m") } else { ("", "") };
        text.push_str(&format!("{on}{:<4}{off}  {name:<width$}  {found}\n", status.name()));
        if let Some(remedy) = remedy {
            text.push_str(&format!("      {:width$}  → {remedy}\n", ""));
        }
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let (warnings, failures) = (count(Status::Warn), count(Status::Fail));
    text.push_str(&format!("{} checks, {warnings} warnings, {failures} failures\n", checks.len()));
    text
}

/// A number of bytes as people read it.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_a_line_for_a_check_and_one_for_its_remedy() {
        let checks =
            [Check::ok("cores", "2"), Check::fail("arena", "memfd_create failed", "update the kernel")];
        let text = as_text(&checks, false);
        assert_eq!(
            text,
            "OK    cores  2\nFAIL  arena  memfd_create failed\n             → update the kernel\n2 checks, 0 warnings, \
             1 failures\n"
        );
        assert!(as_text(&checks, true).contains("\x1b[31mFAIL"));
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(
            (bytes(512), bytes(65536), bytes(3 << 29)),
            ("512 B".into(), "64 KiB".into(), "1.5 GiB".into())
        );
    }
}
