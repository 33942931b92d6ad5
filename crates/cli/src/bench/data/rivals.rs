//! The contenders beside Kumiki: a C++ program that is built here, and clients of a Redis server.

use super::super::catalogue::Place;
use super::super::harness::Rival;
use super::super::launch;
use super::super::workshop::{self, Workshop};
use kumiki_run::report;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = include_str!("../../../embedded/local.cpp");

/// The C++ library in one process.
struct Std {
    program: PathBuf,
}

impl Rival for Std {
    fn name(&self) -> &str {
        "std"
    }

    fn knows(&self, line: &str) -> bool {
        line.starts_with("std.")
    }

    fn command(&self, _ranks: u32, _arguments: &[&str]) -> Result<Command, String> {
        Ok(Command::new(&self.program))
    }
}

/// Clients of a Redis server, one for each rank of a job.
struct RedisClients;

impl Rival for RedisClients {
    fn name(&self) -> &str {
        "redis"
    }

    fn knows(&self, line: &str) -> bool {
        line.starts_with("redis.")
    }

    fn command(&self, ranks: u32, _arguments: &[&str]) -> Result<Command, String> {
        launch::job(Place::Shm, ranks, &["bench", "worker"])
    }
}

/// The peers that are wanted and can be measured here. Says on standard error what cannot.
pub(super) fn find(list: &str) -> Result<Vec<Box<dyn Rival>>, String> {
    let wanted: Vec<&str> = match list {
        "auto" => vec!["std", "redis"],
        "none" => vec![],
        names => names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
    };
    let mut found: Vec<Box<dyn Rival>> = Vec::new();
    for name in wanted {
        match name {
            "std" => match build() {
                Ok(program) => found.push(Box::new(Std { program })),
                Err(why) => report(&format!("the C++ library is left out: {why}")),
            },
            "redis" if super::redis::is_installed() => found.push(Box::new(RedisClients)),
            "redis" => report("Redis is left out: install redis-server (apt-get install redis-server)"),
            other => return Err(format!("--peers {other}: there is no such peer; known are std, redis")),
        }
    }
    Ok(found)
}

/// Builds the C++ program, unless that has been done.
fn build() -> Result<PathBuf, String> {
    let mut compiler = workshop::tool("g++")?;
    compiler.arg("-O2");
    Workshop::open()?.build("local", ("cpp", PROGRAM), compiler, &[])
}
