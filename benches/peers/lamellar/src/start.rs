//! Starts the PEs of a job, and lets them run only while they measure.
//!
//! A PE of Lamellar has threads that never sleep, also while the program waits for its input. So this process reads the lines, wakes
//! the PEs (SIGCONT), and stops them (SIGSTOP) as soon as the answer is there: other contenders have the machine in between.

use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

/// The first argument of a PE. Behind it come the process that has started it, and its core.
pub(crate) const AS_PE: &str = "pe";

/// The most PEs: beyond that somebody has made a mistake.
const MOST: usize = 256;
/// Where Lamellar's segments are, and what their names begin with. The rest is a hash.
const SEGMENTS: &str = "/dev/shm/lamellar_";
/// Bytes of the heap of a PE for messages. By default it is 4 GiB.
const HEAP: &str = "536870912";
/// Bytes of a message to another PE, from which on it is sent. By default it is a tenth: reads then take a third longer, with four PEs several times as long.
const MESSAGE: &str = "1000000";
/// How long PEs may take to end when told so.
const QUIT_LIMIT: Duration = Duration::from_secs(5);

/// What happens to a job.
enum Event {
    /// The next line of the input; `None` at its end.
    Asked(Option<String>),
    /// What a PE says; `None` at the end of its output, which is its own.
    Said(Option<String>),
    /// A signal says that it is over.
    Ended,
}

/// The PEs.
struct Job {
    pes: Vec<Child>,
    /// The files of their segments, as far as they were seen.
    segments: BTreeSet<PathBuf>,
}

/// Starts so many PEs and serves until `quit`.
pub(crate) fn run(pes: usize) -> Result<(), String> {
    if !(1..=MOST).contains(&pes) {
        return Err(format!("{pes} PEs: from 1 to {MOST} can be started"));
    }
    let (sender, events) = channel();
    listen_for_signals(sender.clone())?;
    let mut job = Job { pes: Vec::new(), segments: BTreeSet::new() };
    let number = new_job();
    let cores = own_cores();
    for pe in 0..pes {
        let mut child = command(number, (pe, pes), cores[pe % cores.len()])?.spawn().map_err(text)?;
        if let Some(output) = child.stdout.take() {
            forward(output, sender.clone(), Event::Said);
        }
        job.pes.push(child);
    }
    await_answer(&events, "ready ")?;
    job.stop();
    forward(std::io::stdin(), sender, Event::Asked);
    loop {
        match events.recv().map_err(text)? {
            Event::Asked(Some(line)) if line.trim() != "quit" => {
                job.signal(Signal::CONT);
                job.tell(&line)?;
                await_answer(&events, "{\"metric\"")?;
                job.stop();
            }
            Event::Asked(_) => return job.quit(),
            Event::Said(Some(_)) => {}
            Event::Said(None) => return Err("a PE has ended".into()),
            Event::Ended => return Ok(()),
        }
    }
}

/// Waits for a line that begins so, and prints it. Lamellar says other things in between.
fn await_answer(events: &Receiver<Event>, beginning: &str) -> Result<(), String> {
    loop {
        match events.recv().map_err(text)? {
            Event::Said(Some(line)) if line.starts_with(beginning) => {
                let mut out = std::io::stdout();
                return writeln!(out, "{line}").and_then(|()| out.flush()).map_err(text);
            }
            Event::Said(Some(line)) => eprintln!("{line}"),
            Event::Said(None) => return Err("a PE has ended".into()),
            Event::Asked(_) => return Err("a line came before the answer to the one before".into()),
            Event::Ended => return Err("ended by a signal".into()),
        }
    }
}

impl Job {
    fn stop(&mut self) {
        self.signal(Signal::STOP);
        let open = self.pes.iter().map(|pe| format!("/proc/{}/fd", pe.id()));
        let files = open.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        let files = files.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        self.segments.extend(files.filter(|file| is_segment(file)));
    }

    fn signal(&self, signal: Signal) {
        for pe in &self.pes {
            // One that has ended is seen by the end of its output.
            let _ = rustix::process::kill_process(Pid::from_child(pe), signal);
        }
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        for input in self.pes.iter_mut().filter_map(|pe| pe.stdin.as_mut()) {
            writeln!(input, "{line}").and_then(|()| input.flush()).map_err(text)?;
        }
        Ok(())
    }

    fn quit(mut self) -> Result<(), String> {
        self.signal(Signal::CONT);
        self.tell("quit")?;
        let until = Instant::now() + QUIT_LIMIT;
        while self.pes.iter_mut().any(|pe| matches!(pe.try_wait(), Ok(None))) {
            if Instant::now() > until {
                return Err("the PEs did not end when they were told to".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.stop();
        for pe in &mut self.pes {
            let _ = pe.kill();
        }
        for pe in &mut self.pes {
            let _ = pe.wait();
        }
        // Those that ended well have removed them. A PE that is killed does not.
        self.segments.iter().for_each(|segment| drop(std::fs::remove_file(segment)));
    }
}

/// This program as a PE, told as Lamellar's shared memory wants it.
fn command(job: u128, (pe, pes): (usize, usize), core: usize) -> Result<Command, String> {
    let own = std::process::id().to_string();
    let mut command = Command::new(std::env::current_exe().map_err(text)?);
    command.args([AS_PE, &own, &core.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env("LAMELLAR_BACKEND", "shmem");
    command.env("LAMELLAR_NUM_PES", pes.to_string()).env("LAMELLAR_PE_ID", pe.to_string());
    command.env("LAMELLAR_JOB_ID", job.to_string());
    // Who wants to try others sets them.
    for (name, value) in [("THREADS", "1"), ("HEAP_SIZE", HEAP), ("AM_SIZE_THRESHOLD", MESSAGE)] {
        let name = format!("LAMELLAR_{name}");
        if std::env::var_os(&name).is_none() {
            command.env(name, value);
        }
    }
    Ok(command)
}

/// What a PE does first: it ends with the process that has started it, and stays on its core.
pub(crate) fn become_pe(starter: &str, core: &str) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(text)?;
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().to_string());
    if parent.as_deref() != Some(starter) {
        return Err("the process that has started this PE has gone".into());
    }
    let mut cores = CpuSet::new();
    cores.set(core.parse().map_err(|_| format!("{core} is no core"))?);
    rustix::thread::sched_setaffinity(None, &cores).map_err(text)
}

/// The cores that this process may use.
fn own_cores() -> Vec<usize> {
    let cores = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let list: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| cores.is_set(core)).collect();
    if list.is_empty() {
        vec![0]
    } else {
        list
    }
}

fn forward(from: impl Read + Send + 'static, to: Sender<Event>, event: fn(Option<String>) -> Event) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(event(Some(line))).is_err() {
                return;
            }
        }
        let _ = to.send(event(None));
    });
}

fn listen_for_signals(to: Sender<Event>) -> Result<(), String> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(text)?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let _ = to.send(Event::Ended);
        }
    });
    Ok(())
}

/// A number for a job that no other has had: a segment of another that was killed would be taken for one of it.
fn new_job() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| time.as_nanos()) & u128::from(u64::MAX)
}

fn is_segment(file: &Path) -> bool {
    file.to_str().is_some_and(|name| name.starts_with(SEGMENTS) && !name.ends_with(" (deleted)"))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_of_lamellar_that_are_there_are_removed() {
        assert!(is_segment(Path::new("/dev/shm/lamellar_1006da7b9694fe")));
        assert!(!is_segment(Path::new("/dev/shm/lamellar_1006da7b9694fe (deleted)")));
        assert!(!is_segment(Path::new("/dev/shm/other")));
    }
}
