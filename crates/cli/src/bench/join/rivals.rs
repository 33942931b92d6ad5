//! The contenders beside Kumiki: MPI inside one job and between two, ZeroMQ, and a tree over bare sockets.

use super::super::catalogue::{Place, Session};
use super::super::comm::FLAT;
use super::super::harness::Rival;
use super::super::launch;
use super::super::peers::{self, Connected};
use super::super::workshop::{self, Workshop};
use super::apart::{command, free_port, joined_as, library, NEXT, TALKS};
use kumiki_run::report;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = include_str!("../../../embedded/pair.c");
const ZEROMQ: &str = "zeromq";
const WAITIO: &str = "waitio";
const TREE: &str = "flat";

/// Two processes with a pair of sockets of ZeroMQ.
struct ZeroMq {
    program: PathBuf,
    scratch: PathBuf,
    place: Place,
}

impl Rival for ZeroMq {
    fn name(&self) -> &str {
        ZEROMQ
    }

    fn is_for(&self, place: Place, ranks: u32) -> bool {
        place == self.place && ranks == 2
    }

    fn knows(&self, line: &str) -> bool {
        !line.starts_with(FLAT)
    }

    fn command(&self, _ranks: u32, _arguments: &[&str]) -> Result<Command, String> {
        let end = match self.place {
            Place::Shm => {
                format!("ipc://{}", self.scratch.join(format!("zmq-{}", std::process::id())).display())
            }
            Place::Tcp => format!("tcp://127.0.0.1:{}", free_port()?),
        };
        let program = self.program.display().to_string();
        let words = [TALKS, &program, "first", &end, NEXT, &program, "second", &end];
        let mut command = command(&words.map(String::from))?;
        command.current_dir(&self.scratch);
        Ok(command)
    }
}

/// Two processes that use the library by its C interface, as programs that were written for WaitIO do.
struct WaitIo {
    program: PathBuf,
    library: PathBuf,
    place: Place,
}

impl Rival for WaitIo {
    fn name(&self) -> &str {
        WAITIO
    }

    fn is_for(&self, place: Place, ranks: u32) -> bool {
        place == self.place && ranks == 2
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn knows(&self, line: &str) -> bool {
        !line.starts_with(FLAT)
    }

    fn command(&self, ranks: u32, _arguments: &[&str]) -> Result<Command, String> {
        let words = [&self.program, &self.library].map(|path| path.to_string_lossy().into_owned());
        joined_as(Session { place: self.place, ranks }, &words.each_ref().map(String::as_str))
    }
}

/// As many processes as there are in all programs, with bare sockets between them.
struct Tree;

impl Rival for Tree {
    fn name(&self) -> &str {
        TREE
    }

    fn knows(&self, line: &str) -> bool {
        line.starts_with(FLAT)
    }

    fn command(&self, ranks: u32, _arguments: &[&str]) -> Result<Command, String> {
        launch::worker(Session { place: Place::Shm, ranks })
    }
}

/// The peers that are wanted and can be measured here. Says on standard error what cannot.
pub(super) fn find(list: &str) -> Result<Vec<Box<dyn Rival>>, String> {
    let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let is_wanted = |name: &str| list == "auto" || names.contains(&name);
    let others: Vec<&str> =
        names.iter().copied().filter(|name| ![ZEROMQ, WAITIO, TREE].contains(name)).collect();
    let mut found: Vec<Box<dyn Rival>> = Vec::new();
    if !others.is_empty() {
        mpi(&others.join(","), &mut found)?;
    }
    let places = [Place::Shm, Place::Tcp];
    if is_wanted(WAITIO) {
        match build("pair-waitio", &["-DWAITIO"], "-ldl").and_then(|built| Ok((built.0, library()?))) {
            Ok((program, library)) => found.extend(places.map(|place| -> Box<dyn Rival> {
                Box::new(WaitIo { program: program.clone(), library: library.clone(), place })
            })),
            Err(why) => report(&format!("WaitIO is left out: {why}")),
        }
    }
    if is_wanted(ZEROMQ) {
        match build("pair-zmq", &[], "-lzmq") {
            Ok((program, scratch)) => found.extend(places.map(|place| -> Box<dyn Rival> {
                Box::new(ZeroMq { program: program.clone(), scratch: scratch.clone(), place })
            })),
            Err(why) => report(&format!("ZeroMQ is left out: {why}")),
        }
    }
    if is_wanted(TREE) {
        found.push(Box::new(Tree));
    }
    Ok(found)
}

/// Each MPI inside one job; and between two over TCP, which is what they have for that on one machine, too.
fn mpi(list: &str, found: &mut Vec<Box<dyn Rival>>) -> Result<(), String> {
    let peers = peers::find(list).map_err(|why| format!("{why}, {ZEROMQ}, {WAITIO}, {TREE}"))?;
    for peer in peers.iter().filter(|peer| peer.tcp) {
        match Connected::of(peer) {
            Ok(connected) => found.push(Box::new(connected)),
            Err(why) => report(&format!("{} cannot connect two jobs, which is left out: {why}", peer.name)),
        }
    }
    found.extend(peers.into_iter().map(|peer| Box::new(peer) as _));
    Ok(())
}

/// Builds the program for two processes, unless that has been done. Gives it, and a folder to run it in.
fn build(name: &str, options: &[&str], library: &str) -> Result<(PathBuf, PathBuf), String> {
    let workshop = Workshop::open()?;
    let mut compiler = workshop::tool("cc")?;
    compiler.arg("-O2").args(options);
    let built = workshop.build(name, ("c", PROGRAM), compiler, &[library]);
    let program = built.map_err(|why| match why.contains("zmq.h") {
        true => "install libzmq3-dev (apt-get install libzmq3-dev)".to_string(),
        false => why,
    })?;
    Ok((program, workshop.scratch()?))
}
