//! A contender: a job that measures what it is told, one line at a time, and sleeps in between.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a job may take until it is ready, and until it has answered.
const START_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(90);
/// How long a job may take to end when told so, and when asked by a signal.
const QUIT_LIMIT: Duration = Duration::from_secs(10);
const TERM_LIMIT: Duration = Duration::from_secs(3);
const SIGTERM: i32 = 15;

/// What a contender measured.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Answer {
    pub(super) samples: Vec<f64>,
    /// How often an operation was reported complete and was not.
    pub(super) incomplete: u64,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum NoAnswer {
    /// It said so, and can be asked something else.
    Refused(String),
    /// It is of no use any more.
    Gone(String),
}

/// A running job.
pub(super) struct Contender {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Contender {
    /// Starts a job and waits until it is ready. Its standard error is ours if `loud`.
    pub(super) fn start(mut command: Command, loud: bool) -> Result<Contender, String> {
        let errors = if loud { Stdio::inherit() } else { Stdio::null() };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", command.get_program().to_string_lossy()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = channel();
        if let Some(output) = output {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let contender = Contender { child, input, lines };
        let until = Instant::now() + START_LIMIT;
        loop {
            match contender.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("ready ") => return Ok(contender),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Err("it was not ready in time".into()),
                Err(RecvTimeoutError::Disconnected) => return Err("it ended before it was ready".into()),
            }
        }
    }

    /// The process of the launcher.
    pub(super) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Asks for one measurement.
    pub(super) fn ask(&mut self, metric: &str) -> Result<Answer, NoAnswer> {
        let gone = |what: &str| NoAnswer::Gone(what.to_string());
        let input = self.input.as_mut().ok_or_else(|| gone("it has no input"))?;
        writeln!(input, "{metric} 1").and_then(|()| input.flush()).map_err(|_| gone("it has ended"))?;
        let until = Instant::now() + ANSWER_LIMIT;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                // Launchers and libraries may say other things in between.
                Ok(line) => {
                    if let Some(answer) = parse(&line, metric) {
                        return answer;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(gone("it did not answer in time")),
                Err(RecvTimeoutError::Disconnected) => return Err(gone("it ended instead of answering")),
            }
        }
    }

    /// Ends the job: by `quit` (not by the end of its input alone: Open MPI 5's launcher would stay), then by signals.
    pub(super) fn end(mut self) {
        if let Some(input) = self.input.as_mut() {
            let _ = writeln!(input, "quit").and_then(|()| input.flush());
        }
        self.wait(QUIT_LIMIT);
    }

    fn wait(&mut self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                _ => return true,
            }
        }
        false
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // A launcher that is asked takes its ranks with it; one that is killed may not.
            let _ = kumiki_run::system::signal(self.pid(), SIGTERM);
            if !self.wait(TERM_LIMIT) {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
    }
}

/// The answer in a line, if it is one for this metric.
fn parse(line: &str, metric: &str) -> Option<Result<Answer, NoAnswer>> {
    let value: Value = serde_json::from_str(line).ok()?;
    if value["metric"] != metric {
        return None;
    }
    if let Some(error) = value["error"].as_str() {
        return Some(Err(NoAnswer::Refused(error.to_string())));
    }
    let samples = value["samples"].as_array()?.iter().filter_map(Value::as_f64).collect();
    Some(Ok(Answer { samples, incomplete: value["incomplete"].as_u64().unwrap_or(0) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_other_lines() {
        let good = r#"{"metric":"put8.alloc","unit":"ns","incomplete":7,"samples":[31.5]}"#;
        assert_eq!(parse(good, "put8.alloc"), Some(Ok(Answer { samples: vec![31.5], incomplete: 7 })));
        assert_eq!(parse(good, "get8.alloc"), None);
        assert_eq!(parse("a warning", "put8.alloc"), None);
        let bad = r#"{"metric":"mem","error":"no"}"#;
        assert_eq!(parse(bad, "mem"), Some(Err(NoAnswer::Refused("no".into()))));
    }

    #[test]
    fn a_program_that_is_no_contender_is_reported() {
        assert!(Contender::start(Command::new("true"), false).is_err());
        assert!(Contender::start(Command::new("/no/such/program"), false).is_err());
    }
}
