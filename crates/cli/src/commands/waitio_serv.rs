//! `waitio-serv`, also `kumiki waitio-serv`: the script of block 0 publishes its host, those of the other blocks wait for it.
//!
//! The original has a daemon for it. Here it is a file of this user, named by user and job: nothing keeps running, so `-d` has nothing
//! to put in the background.

use super::Outcome;
use kumiki_run::system::read_private;
use kumiki_run::{environment, say};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: waitio-serv [-d] -m HOST    publish HOST for the other blocks of this job
       waitio-serv -c [-t SECONDS] wait until it is there, a day at most, and print it
       waitio-serv -r              take it back
       waitio-serv -h, -v          this text; the version

The host is kept in a file that only this user can read, in WAITIO_SCRATCH_DIR, or else in .kumiki in the home folder; all blocks must see the
folder. It is named by the user and the job: COUPLER_JOB_ID, or PBS_JOBID, SLURM_JOB_ID or PJM_JOBID, or else `default`. Publishing
again replaces it. -d is accepted, because scripts have it: nothing needs to run in the background.
";

const EXAMPLES: &str = "\
Examples:
  waitio-serv -d -m $(hostname)                          in the script of block 0
  export WAITIO_MASTER_HOST=$(waitio-serv -c)            in those of the others";

/// The most bytes of a host's name.
const HOST_BYTES: usize = 255;
/// How long the others wait, if nobody says, and how often they look.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
const LOOK: Duration = Duration::from_millis(100);

/// Publish the host of block 0 for programs that join, or wait for it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Options of waitio-serv.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) words: Vec<OsString>,
}

/// What is wanted.
#[derive(PartialEq, Eq, Debug)]
enum Wanted {
    Publish(String),
    Wait(Duration),
    Remove,
    Help,
    Version,
}

pub(crate) fn run(words: &[OsString]) -> Outcome {
    let done = parse(words).and_then(|wanted| match wanted {
        Wanted::Publish(host) => publish(&file()?, &host).map(|()| String::new()),
        Wanted::Wait(longest) => wait(&file()?, longest).map(|host| host + "\n"),
        Wanted::Remove => remove(&file()?).map(|()| String::new()),
        Wanted::Help => Ok(USAGE.into()),
        Wanted::Version => Ok(concat!("waitio-serv (Kumiki ", env!("CARGO_PKG_VERSION"), ")\n").into()),
    });
    match done {
        Ok(text) => super::print(&text),
        Err(message) => {
            say(&format!("waitio-serv: {message}"));
            Ok(1)
        }
    }
}

fn parse(words: &[OsString]) -> Result<Wanted, String> {
    let texts: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let texts = texts.ok_or("an argument is no text")?;
    let mut words = texts.iter();
    let (mut wanted, mut longest) = (None, None);
    while let Some(&word) = words.next() {
        let mut value = |what: &str| words.next().ok_or_else(|| format!("{word} needs {what}"));
        let one = match word {
            "-d" => continue,
            "-t" => {
                let text = value("a number of seconds")?;
                let seconds =
                    text.parse().map_err(|_| format!("-t {text}: it should be a number of seconds"))?;
                longest = Some(Duration::from_secs(seconds));
                continue;
            }
            "-m" => Wanted::Publish(checked(value("a host")?)?.into()),
            "-c" => Wanted::Wait(LONGEST),
            "-r" => Wanted::Remove,
            "-h" | "--help" => Wanted::Help,
            "-v" | "-V" | "--version" => Wanted::Version,
            _ => return Err(format!("there is no option {word} (waitio-serv -h lists them)")),
        };
        if wanted.replace(one).is_some() {
            return Err("-m, -c and -r exclude each other".into());
        }
    }
    match (wanted, longest) {
        (Some(Wanted::Wait(usual)), longest) => Ok(Wanted::Wait(longest.unwrap_or(usual))),
        (Some(_), Some(_)) => Err("-t goes with -c".into()),
        (Some(wanted), None) => Ok(wanted),
        (None, _) => Err("say -m HOST, or -c (waitio-serv -h has more)".into()),
    }
}

/// The name of a host, or an address: one word of printable letters.
fn checked(host: &str) -> Result<&str, String> {
    let is_good =
        !host.is_empty() && host.len() <= HOST_BYTES && host.bytes().all(|byte| byte.is_ascii_graphic());
    is_good.then_some(host).ok_or_else(|| format!("{host:?} is not the name of a host"))
}

/// Where the host of this job is kept.
fn file() -> Result<PathBuf, String> {
    environment::job_place("waitio-serv").map_err(|error| error.to_string())
}

fn publish(file: &Path, host: &str) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("cannot publish {host} in {}: {error}", file.display());
    if let Some(folder) = file.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(cannot)?;
    }
    // Whoever waits sees all of it or nothing.
    let fresh = file.with_extension(format!("new-{}", std::process::id()));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut out| out.write_all(format!("{host}\n").as_bytes()).and_then(|()| out.sync_all()))
        .and_then(|()| std::fs::rename(&fresh, file));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&fresh);
        cannot(error)
    })
}

fn wait(file: &Path, longest: Duration) -> Result<String, String> {
    let until = Instant::now() + longest.min(LONGEST);
    loop {
        // Looked for by its name first, because a file that is refused is not one that is missing.
        if file.symlink_metadata().is_ok() {
            let bytes = read_private(file, HOST_BYTES as u64 + 1)
                .map_err(|why| format!("{}: {why}", file.display()))?;
            let host = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            return checked(&host).map(str::to_owned).map_err(|why| format!("{}: {why}", file.display()));
        }
        if Instant::now() >= until {
            return Err(format!(
                "block 0 has not published its host within {} s; it should run `waitio-serv -m HOST` with the same user, job name and folder: {}",
                longest.as_secs(),
                file.display()
            ));
        }
        std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
}

fn remove(file: &Path) -> Result<(), String> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", file.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Wanted, String> {
        parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options() {
        assert_eq!(parsed(&["-d", "-m", "node1"]), Ok(Wanted::Publish("node1".into())));
        assert_eq!(parsed(&["-m", "node1", "-d"]), Ok(Wanted::Publish("node1".into())));
        assert_eq!(parsed(&["-c"]), Ok(Wanted::Wait(LONGEST)));
        assert_eq!(parsed(&["-c", "-t", "3"]), Ok(Wanted::Wait(Duration::from_secs(3))));
        for wrong in [
            &[][..],
            &["-d"],
            &["-m"],
            &["-m", ""],
            &["-m", "a b"],
            &["-c", "-m", "a"],
            &["-x"],
            &["-t", "x"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
