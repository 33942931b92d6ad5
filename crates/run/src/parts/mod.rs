//! Several launchers, one job: starts its parts, and ends with them.
//!
//! A part is a launcher, ours or `mpirun` or the like, with its program. Either all make one world: then its ranks find the others by a portfile,
//! and meet in this process. Or each is a block of programs that join: then they meet by themselves, and this process tells them where, and their secret.
//! Portfile and secret are descriptors of this process, which go with it, unless the user wants files that other machines see.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | a job, and how its parts are told where the others are |
//! | `starter.rs` | starting them, and ending with them |
//! | `common.rs` | what this process is for them meanwhile |
//! | `tagged.rs` | their output, each line behind the number of its block |

mod common;
mod starter;
mod tagged;

use crate::plan::MAX_RANKS;
use crate::{Result, RunError};
use common::Common;
use kumiki_net::agent::meeting::{Meeting, Settings};
use kumiki_net::environment;
use kumiki_net::os::memory;
use starter::Starter;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One part of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// What it is called when something is wrong with it.
    pub title: String,
    /// The launcher and its options.
    pub launcher: Vec<OsString>,
    /// Whether the launcher is ours, and so takes the options of a part. (Without any launcher it starts its processes by itself.)
    pub is_ours: bool,
    /// How many ranks it has.
    pub ranks: u32,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// A job in parts.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The parts; ranks are numbered through all of them.
    pub parts: Vec<Part>,
    /// Starter memory of each rank.
    pub starter_bytes: u64,
    /// The most memory of a rank for `malloc` and data structures.
    pub pool_bytes: Option<u64>,
    /// Where the portfile shall be, if other machines must see it.
    pub portfile: Option<PathBuf>,
    /// End the job after this time.
    pub timeout: Option<Duration>,
    /// Whether the first part gets our standard input.
    pub forward_input: bool,
}

/// Runs a job in parts to its end, as one world. Returns the exit code: that of the part whose rank failed first.
pub fn run(job: &Parts) -> Result<i32> {
    environment::check()?;
    let ranks = job.parts.iter().try_fold(0u32, |sum, part| sum.checked_add(part.ranks));
    let ranks = ranks.filter(|&ranks| ranks <= MAX_RANKS).ok_or_else(|| {
        RunError::Options(format!("there are more ranks than the {MAX_RANKS} that a job can have"))
    })?;
    let meeting =
        Meeting::new(Settings { ranks, starter_bytes: job.starter_bytes, pool_bytes: job.pool_bytes })?;
    let file = Held::new(job.portfile.as_deref(), &meeting.portfile().text())?;
    let mut starter = Starter::new(job, Common::World(Box::new(meeting)), false)?;
    let mut offset = 0;
    for part in &job.parts {
        starter.start(command_line(part, offset, file.path()))?;
        offset += part.ranks;
    }
    starter.run()
}

/// Where the blocks of a job meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeetingPlace {
    /// The host of the first process of the first block; this machine if nothing is said.
    pub host: Option<String>,
    /// The port where it listens; some free one if nothing is said.
    pub port: Option<u16>,
    /// `host:port` of a relay for blocks that cannot reach each other.
    pub relay: Option<String>,
}

/// Runs the parts of a job to their end as blocks that join: each is told its number, where all meet, and their secret. When one fails the others are
/// ended, unless they go on. Returns the exit code of the block that failed first.
pub fn run_blocks(job: &Parts, place: &MeetingPlace, goes_on: bool) -> Result<i32> {
    environment::check()?;
    let host = place.host.clone().unwrap_or_else(|| "localhost".into());
    let port = place.port.map_or_else(kumiki_net::os::socket::free_port, Ok)?;
    let file = secret_of(job, place)?;
    let mut starter = Starter::new(job, Common::Blocks { goes_on }, true)?;
    for (block, part) in job.parts.iter().enumerate() {
        let mut variables = vec![
            format!("WAITIO_PBID={block}").into(),
            format!("WAITIO_NPB={}", job.parts.len()).into(),
            format!("WAITIO_MASTER_HOST={host}").into(),
            format!("WAITIO_MASTER_PORT={port}").into(),
        ];
        variables.extend(place.relay.as_ref().map(|relay| format!("WAITIO_RELAY={relay}").into()));
        let mut path = OsString::from("WAITIO_SECRET_FILE=");
        path.push(file.path());
        variables.push(path);
        block_lines(part, &variables).into_iter().try_for_each(|line| starter.start_of(block, line))?;
    }
    starter.run()
}

/// The file of the blocks' secret: a fresh one, unless a relay has to know it beforehand.
fn secret_of(job: &Parts, place: &MeetingPlace) -> Result<Held> {
    if let Some(relay) = &place.relay {
        let said = environment::text("WAITIO_SECRET_FILE")?.map(|path| Held::Given(path.into()));
        return said.ok_or_else(|| {
            RunError::Options(format!(
                "the relay {relay} and the blocks need the same secret: make a file of it, and set WAITIO_SECRET_FILE for both"
            ))
        });
    }
    let mut secret = [0; 32];
    kumiki_net::os::random_bytes(&mut secret)?;
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    // Blocks of other machines cannot read what this process has.
    Held::new(job.portfile.as_deref(), &digits)
}

/// The command lines of a block: one, or one for each process if it has no launcher.
fn block_lines(part: &Part, variables: &[OsString]) -> Vec<Vec<OsString>> {
    let env = || std::iter::once(OsString::from("env")).chain(variables.iter().cloned());
    let program = || part.program.iter().cloned();
    if part.launcher.is_empty() {
        let place =
            |rank| [format!("KUMIKI_RANK={rank}").into(), format!("KUMIKI_RANKS={}", part.ranks).into()];
        return (0..part.ranks).map(|rank| env().chain(place(rank)).chain(program()).collect()).collect();
    }
    // Not every launcher hands its environment on to other machines.
    let count = [OsString::from("-n"), part.ranks.to_string().into()];
    vec![part.launcher.iter().cloned().chain(count).chain(env()).chain(program()).collect()]
}

/// The portfile while the job runs.
enum Held {
    /// In memory, open here: other processes of the user on this machine get at it by our number.
    Memory(File),
    Path(PathBuf),
    /// A file that was there before, and stays.
    Given(PathBuf),
}

impl Held {
    fn new(path: Option<&Path>, text: &str) -> Result<Held> {
        let Some(path) = path else {
            let mut file = File::from(memory::create_sealed(c"kumiki-portfile", text.len() as u64)?);
            let written = file.write_all(text.as_bytes());
            return written.map(|()| Held::Memory(file)).map_err(|error| wrong("the portfile", &error));
        };
        let shown = format!("the portfile {}", path.display());
        let path = std::path::absolute(path).map_err(|error| wrong(&shown, &error))?;
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                RunError::Options(format!("{shown} exists already: another job may use it; name another"))
            }
            _ => wrong(&shown, &error),
        })?;
        let held = Held::Path(path);
        file.write_all(text.as_bytes()).map_err(|error| wrong(&shown, &error))?;
        Ok(held)
    }

    fn path(&self) -> OsString {
        match self {
            Held::Memory(file) => format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into(),
            Held::Path(path) | Held::Given(path) => path.clone().into(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Held::Path(path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn wrong(what: &str, error: &std::io::Error) -> RunError {
    RunError::Options(format!("cannot write {what}: {error}"))
}

/// The whole command line of a part.
fn command_line(part: &Part, offset: u32, portfile: OsString) -> Vec<OsString> {
    let mut line = part.launcher.clone();
    line.extend(["-n".into(), part.ranks.to_string().into()]);
    if part.is_ours {
        line.extend(["-multirun".into(), "-portfile".into(), portfile]);
        line.extend(["-offsetrank".into(), offset.to_string().into()]);
    } else {
        // Not every launcher hands its environment on to other machines.
        let mut file = OsString::from("KUMIKI_PORTFILE=");
        file.push(portfile);
        line.extend(["env".into(), file, format!("KUMIKI_OFFSET_RANK={offset}").into()]);
    }
    line.extend(part.program.iter().cloned());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(launcher: &str, is_ours: bool, ranks: u32) -> Part {
        let words = |line: &str| line.split(' ').map(OsString::from).collect();
        Part { title: "it".into(), launcher: words(launcher), is_ours, ranks, program: words("./a -x") }
    }

    #[test]
    fn a_part_is_told_its_ranks_and_where_the_others_are() {
        let line = |part: &Part| {
            let line = command_line(part, 3, "/f".into());
            line.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            line(&part("mpirun -q", false, 2)),
            "mpirun -q -n 2 env KUMIKI_PORTFILE=/f KUMIKI_OFFSET_RANK=3 ./a -x"
        );
        assert_eq!(line(&part("acprun", true, 1)), "acprun -n 1 -multirun -portfile /f -offsetrank 3 ./a -x");
    }

    #[test]
    fn a_block_is_told_its_number_and_one_without_a_launcher_is_started_by_us() {
        let lines = |part: &Part| -> Vec<String> {
            let lines = block_lines(part, &["A=1".into(), "B=2".into()]);
            let text = |line: Vec<OsString>| line.join(std::ffi::OsStr::new(" ")).into_string().unwrap();
            lines.into_iter().map(text).collect()
        };
        assert_eq!(lines(&part("mpirun -q", false, 2)), ["mpirun -q -n 2 env A=1 B=2 ./a -x"]);
        let bare = Part { launcher: vec![], ..part("", false, 2) };
        assert_eq!(
            lines(&bare),
            [
                "env A=1 B=2 KUMIKI_RANK=0 KUMIKI_RANKS=2 ./a -x",
                "env A=1 B=2 KUMIKI_RANK=1 KUMIKI_RANKS=2 ./a -x"
            ]
        );
    }

    #[test]
    fn a_portfile_is_private_and_goes_with_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("kumiki-parts-{}", std::process::id()));
        for place in [None, Some(path.as_path())] {
            let held = Held::new(place, "text").unwrap();
            let file = held.path();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            if place.is_some() {
                assert!(Held::new(place, "other").is_err());
                assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
            }
            drop(held);
            assert!(!Path::new(&file).exists());
        }
    }
}
