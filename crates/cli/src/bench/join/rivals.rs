//! The contenders beside Kumiki: MPI inside one job and between two, ZeroMQ, and a tree over bare sockets.

use super::super::catalogue::{Place, Session};
use super::super::comm::FLAT;
use super::super::harness::Rival;
use super::super::launch;
use super::super::peers::{self, Connected};
use super::super::workshop::{self, Workshop};
use super::apart::{command, free_port, NEXT, TALKS};
use kumiki_run::report;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = include_str!("../../../embedded/zmq.c");
const ZEROMQ: &str = "zeromq";
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
    let others: Vec<&str> = names.iter().copied().filter(|name| ![ZEROMQ, TREE].contains(name)).collect();
    let mut found: Vec<Box<dyn Rival>> = Vec::new();
    if !others.is_empty() {
        mpi(&others.join(","), &mut found)?;
    }
    if is_wanted(ZEROMQ) {
        match build() {
            Ok((program, scratch)) => {
                for place in [Place::Shm, Place::Tcp] {
                    let (program, scratch) = (program.clone(), scratch.clone());
                    found.push(Box::new(ZeroMq { program, scratch, place }));
                }
            }
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
    let peers = peers::find(list).map_err(|why| format!("{why}, {ZEROMQ}, {TREE}"))?;
    for peer in peers.iter().filter(|peer| peer.tcp) {
        match Connected::of(peer) {
            Ok(connected) => found.push(Box::new(connected)),
            Err(why) => report(&format!("{} cannot connect two jobs, which is left out: {why}", peer.name)),
        }
    }
    found.extend(peers.into_iter().map(|peer| Box::new(peer) as _));
    Ok(())
}

/// Builds the program with ZeroMQ, unless that has been done. Gives it, and a folder to run it in.
fn build() -> Result<(PathBuf, PathBuf), String> {
    let workshop = Workshop::open()?;
    let mut compiler = workshop::tool("cc")?;
    compiler.arg("-O2");
    let program = workshop.build("zmq", ("c", PROGRAM), compiler, &["-lzmq"]).map_err(|why| {
        match why.contains("zmq.h") {
            true => "install libzmq3-dev (apt-get install libzmq3-dev)".to_string(),
            false => why,
        }
    })?;
    Ok((program, workshop.scratch()?))
}
