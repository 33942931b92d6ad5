//! The contenders beside arrays in Rust: MPI by hand, translated XcalableMP C, and plain loops in C.

use super::super::catalogue::{Place, Session};
use super::super::harness::Rival;
use super::super::launch;
use super::super::peers::{self, Peer};
use super::super::workshop::Workshop;
use kumiki_run::report;
use std::path::PathBuf;
use std::process::Command;

const BY_HAND: &str =
    concat!(include_str!("../../../embedded/ask.h"), include_str!("../../../embedded/array.c"));
const TRANSLATED: &str = include_str!("../../../embedded/array.xmp.c");
const XMP: &str = "xmp";
/// Loops are vectorised, as in Rust: of all C programs here.
const OPTIMISED: &str = "-O3";
/// Lines about plain loops.
const SERIAL: &str = "serial.";
/// Lines that a program for MPI has no answer to.
const LOOPS: [&str; 3] = ["array.triad.", "array.laplace.", "array.stencil."];

/// A program that is written by hand for an MPI.
struct ByHand(Peer);

impl Rival for ByHand {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn is_for(&self, place: Place, ranks: u32) -> bool {
        self.0.is_for(place, ranks)
    }

    fn knows(&self, line: &str) -> bool {
        !line.starts_with(SERIAL) && !LOOPS.iter().any(|name| line.starts_with(name))
    }

    fn command(&self, ranks: u32, arguments: &[&str]) -> Result<Command, String> {
        self.0.command(ranks, arguments)
    }
}

/// The translated program, as a contender of arrays in Rust, or its plain loops as one of its arrays.
struct Translated {
    program: PathBuf,
    place: Place,
    plain: bool,
}

impl Rival for Translated {
    fn name(&self) -> &str {
        if self.plain {
            "plain C"
        } else {
            XMP
        }
    }

    fn is_for(&self, place: Place, _ranks: u32) -> bool {
        place == self.place
    }

    fn is_ours(&self) -> bool {
        !self.plain
    }

    fn knows(&self, line: &str) -> bool {
        line.starts_with(SERIAL) == self.plain
    }

    fn command(&self, ranks: u32, _arguments: &[&str]) -> Result<Command, String> {
        launch::job_of(Session { place: self.place, ranks }, &self.program, &[])
    }
}

/// The job of translated C for a session.
pub(super) fn translated(session: Session) -> Result<Command, String> {
    launch::job_of(session, &build()?, &[])
}

/// Translates the program and compiles it, unless that has been done.
fn build() -> Result<PathBuf, String> {
    let mut compile = Command::new(launch::program()?);
    compile.args(["xmpcc", OPTIMISED]);
    Workshop::open()?.build("array-xmp", ("c", TRANSLATED), compile, &["-lm"])
}

/// The peers that are wanted and can be measured here. Says on standard error what cannot.
pub(super) fn find(list: &str, is_translated: bool) -> Result<Vec<Box<dyn Rival>>, String> {
    let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let others: Vec<&str> = names.iter().copied().filter(|name| *name != XMP).collect();
    let mut found: Vec<Box<dyn Rival>> = Vec::new();
    if !others.is_empty() {
        let workshop = Workshop::open()?;
        for peer in peers::find(&others.join(",")).map_err(|why| format!("{why}, {XMP}"))? {
            match peer.compile(&workshop, "array", BY_HAND, OPTIMISED) {
                Ok(program) => found.push(Box::new(ByHand(peer.running(program)))),
                Err(why) => report(&format!("{} is left out: {why}", peer.name)),
            }
        }
    }
    let wants_xmp = list == "auto" || names.contains(&XMP);
    if is_translated || wants_xmp {
        match build() {
            Ok(program) => found.extend([Place::Shm, Place::Tcp].map(|place| -> Box<dyn Rival> {
                Box::new(Translated { program: program.clone(), place, plain: is_translated })
            })),
            Err(why) => report(&format!("translated C is left out: {why}")),
        }
    }
    Ok(found)
}
