//! Programs that are started by themselves and know nothing of each other but what they were told: blocks of ours, and the peers'.
//!
//! `kumiki bench apart WORD...` is their common parent, so that whoever measures has one process to talk to and to end. Words between `:::` are one
//! program. In front of its name may stand `NAME=VALUE`; `@FILE`, for which it waits until there is something in it; and `-`: this one has the standard input
//! and output of the parent. When that one has ended the others may, too, and then must.

use super::super::catalogue::{Place, Session};
use super::super::launch;
use crate::commands::Outcome;
use kumiki::World;
use kumiki_run::system;
use std::ffi::{OsStr, OsString};
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

/// What stands between two programs.
pub(in crate::bench) const NEXT: &str = ":::";
/// What stands in front of the one that talks.
pub(in crate::bench) const TALKS: &str = "-";
const BLOCKS: u32 = 2;
/// How long a file may take to come, and a program to end by itself and when asked.
const FILE_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(2);
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// Programs to start.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The programs, with `:::` in between.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// The parent of these programs.
pub(in crate::bench) fn command(words: &[String]) -> Result<Command, String> {
    let mut command = Command::new(launch::program()?);
    command.args(["bench", "apart"]).args(words);
    Ok(command)
}

/// Two programs of ours that measure what the first process of the first one is told.
pub(super) fn joined(session: Session) -> Result<Command, String> {
    let program = launch::program()?.to_string_lossy().into_owned();
    joined_as(session, &[&program, "bench", "worker", "--joined"])
}

/// The same of any program: on one node, or each on one of its own.
pub(super) fn joined_as(session: Session, program: &[&str]) -> Result<Command, String> {
    let ranks = session.ranks / BLOCKS;
    let mut words = Vec::new();
    for (block, rank) in (0..BLOCKS).flat_map(|block| (0..ranks).map(move |rank| (block, rank))) {
        if !words.is_empty() {
            words.push(NEXT.to_string());
        }
        words.push(format!("WAITIO_PBID={block}"));
        words.extend([format!("KUMIKI_RANK={rank}"), format!("KUMIKI_RANKS={ranks}")]);
        if session.place == Place::Tcp {
            words.push(format!("KUMIKI_NODE=block{block}"));
        }
        if (block, rank) == (0, 0) {
            words.push(TALKS.into());
        }
        words.extend(program.iter().map(|word| word.to_string()));
    }
    let mut secret = [0; 16];
    system::random_bytes(&mut secret).map_err(|error| error.to_string())?;
    let mut command = command(&words)?;
    for (name, _) in std::env::vars_os().filter(|(name, _)| changes_what_is_measured(name)) {
        command.env_remove(name);
    }
    // Arguments can be read by everybody; the environment cannot.
    command.env("WAITIO_SECRET", secret.map(|byte| format!("{byte:02x}")).concat());
    command.env("WAITIO_MASTER_HOST", Ipv4Addr::LOCALHOST.to_string());
    command.env("WAITIO_MASTER_PORT", free_port()?.to_string());
    command.env("WAITIO_NPB", BLOCKS.to_string()).env("WAITIO_TIMEOUT", "50s");
    Ok(command)
}

/// Whether a variable in the shell of whoever measures could make these programs do something else than what is said to be measured: go through a relay or a
/// folder, not mend, not spin.
fn changes_what_is_measured(name: &OsStr) -> bool {
    ["WAITIO_", "KUMIKI_"].iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
}

/// A port of this machine that is free at the moment.
pub(super) fn free_port() -> Result<u16, String> {
    kumiki_run::free_port().map_err(|error| error.to_string())
}

/// Gives this process a core of its own if there are enough for all, as launchers do for their ranks. Whoever starts programs by themselves does not
/// know how many there will be; and a program that may use one core only thinks that the machine has no more.
pub(in crate::bench) fn stay_on_a_core(world: &World) {
    let cores = system::allowed_cores();
    let Some(core) = cores.get(world.rank() as usize).filter(|_| world.ranks() as usize <= cores.len())
    else {
        return;
    };
    if let Some(mut command) = system::command("taskset") {
        command.args(["-a", "-c", "-p", &core.to_string(), &std::process::id().to_string()]);
        // Without it the measurement is as good, but for what the system moves.
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// The words in front of a program that keep it on a core, if there are two or more: of two programs each gets one.
pub(in crate::bench) fn on_core(number: usize) -> Vec<String> {
    let cores = system::allowed_cores();
    match (cores.len(), system::find_program("taskset"), cores.get(number)) {
        (2.., Some(_), Some(core)) => ["taskset", "-c", &core.to_string()].map(String::from).into(),
        _ => Vec::new(),
    }
}

/// The library for C, where it is installed or was built.
pub(super) fn library() -> Result<PathBuf, String> {
    let program = launch::program()?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = ["../lib/libkumiki.so", "libkumiki_c.so", "deps/libkumiki_c.so"];
    let found = places.iter().map(|place| folder.join(place)).filter(|path| path.is_file());
    // One that was built long ago may lie beside a newer one.
    found.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok()).ok_or_else(|| {
        "the library for C is not there: `./x install --prefix P` installs it, and then use P/bin/kumiki"
            .into()
    })
}

/// One program as the words have it.
#[derive(Default, Debug, PartialEq)]
struct Program<'a> {
    variables: Vec<(&'a OsStr, &'a OsStr)>,
    file: Option<&'a Path>,
    talks: bool,
    words: &'a [OsString],
}

impl<'a> Program<'a> {
    fn parse(mut words: &'a [OsString]) -> Program<'a> {
        let mut program = Program::default();
        while let Some((word, rest)) = words.split_first() {
            let bytes = word.as_bytes();
            if word == TALKS {
                program.talks = true;
            } else if let Some(path) = bytes.strip_prefix(b"@") {
                program.file = Some(Path::new(OsStr::from_bytes(path)));
            } else if let Some((name, value)) = variable(bytes) {
                program.variables.push((OsStr::from_bytes(name), OsStr::from_bytes(value)));
            } else {
                break;
            }
            words = rest;
        }
        program.words = words;
        program
    }

    fn start(&self) -> Result<Child, String> {
        let (name, words) = self.words.split_first().ok_or("there is a program without a name")?;
        if let Some(path) = self.file {
            await_file(path)?;
        }
        let mut command = Command::new(name);
        command.args(words).envs(self.variables.iter().copied());
        if !self.talks {
            command.stdin(Stdio::null()).stdout(Stdio::null());
        }
        command.spawn().map_err(|error| format!("cannot start {}: {error}", name.to_string_lossy()))
    }
}

/// Name and value, if a word is that: a path with `=` in it is none.
fn variable(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = word.iter().position(|&byte| byte == b'=')?;
    let (name, value) = (&word[..at], &word[at + 1..]);
    (!name.contains(&b'/')).then_some((name, value))
}

/// Waits until there is something in a file.
fn await_file(path: &Path) -> Result<(), String> {
    let until = Instant::now() + FILE_LIMIT;
    while !std::fs::metadata(path).is_ok_and(|data| data.len() > 0) {
        if Instant::now() >= until {
            return Err(format!("{} never came", path.display()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Starts the programs, and stays until they have ended.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let programs: Vec<Program> = arguments.words.split(|word| word == NEXT).map(Program::parse).collect();
    let mut family = Family::default();
    for program in &programs {
        if let Err(why) = program.start().map(|child| family.add(child, program.talks)) {
            family.end();
            return Err(why);
        }
    }
    Ok(family.wait())
}

/// The programs that run.
#[derive(Default)]
struct Family {
    /// Their numbers, and whether they have ended.
    children: Vec<(i32, bool)>,
    talker: Option<usize>,
    ends: Option<(Sender<Ended>, Receiver<Ended>)>,
}

/// Which has ended, and how.
type Ended = (usize, Option<ExitStatus>);

impl Family {
    fn add(&mut self, mut child: Child, talks: bool) {
        let index = self.children.len();
        self.children.push((child.id() as i32, false));
        if talks {
            self.talker = Some(index);
        }
        let (sender, _) = self.ends.get_or_insert_with(channel);
        let sender = sender.clone();
        std::thread::spawn(move || sender.send((index, child.wait().ok())));
    }

    /// The next that ends within some time.
    fn next(&mut self, limit: Duration) -> Option<(usize, bool, i32)> {
        let (index, status) = self.ends.as_ref()?.1.recv_timeout(limit).ok()?;
        self.children[index].1 = true;
        let code = status.and_then(|status| status.code()).unwrap_or(1);
        Some((index, Some(index) == self.talker, code))
    }

    /// Until the one that talks has ended, or another one failed: without it there would be nothing to talk about. Gives the code.
    fn wait(mut self) -> i32 {
        loop {
            match self.next(Duration::from_secs(3600)) {
                Some((_, false, 0)) => {}
                Some((_, _, code)) => {
                    self.end();
                    return code;
                }
                None => {
                    self.end();
                    return 1;
                }
            }
        }
    }

    /// Waits a little for those that are left, then asks them to end, then makes them.
    fn end(&mut self) {
        for signal in [None, Some(SIGTERM), Some(SIGKILL)] {
            for (pid, _) in self.children.iter().filter(|(_, ended)| !ended) {
                signal.map(|signal| system::signal(*pid, signal));
            }
            let until = Instant::now() + END_LIMIT;
            while self.children.iter().any(|(_, ended)| !ended) && Instant::now() < until {
                self.next(Duration::from_millis(50));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn what_stands_in_front_of_a_program_is_for_its_parent() {
        let line = words("A=1 @/f - sh -c x=2");
        let program = Program::parse(&line);
        assert_eq!(program.variables, [(OsStr::new("A"), OsStr::new("1"))]);
        assert_eq!((program.file, program.talks), (Some(Path::new("/f")), true));
        assert_eq!(program.words, words("sh -c x=2"));
        let line = words("A=/b ./a=b/c -");
        assert_eq!(Program::parse(&line).words, words("./a=b/c -"));
    }

    #[test]
    fn the_others_end_with_the_one_that_talks_and_it_ends_when_one_fails() {
        let code = |text: &str| {
            let line: Vec<OsString> = text.split('|').map(OsString::from).collect();
            let began = Instant::now();
            let code = run(&Arguments { words: line }).expect("they are started");
            assert!(began.elapsed() < Duration::from_secs(60));
            code
        };
        assert_eq!(code("-|sh|-c|exit 3|:::|sleep|1000"), 3);
        assert_eq!(code("-|sleep|1000|:::|X=4|sh|-c|exit $X"), 4);
        assert!(run(&Arguments { words: words("A=1") }).is_err());
    }
}
