//! Ports that somebody else has: waiting for a moment, since whoever had them may be ending, and telling who it is.

use super::holders::program;
use std::fs::{read_dir, read_link, read_to_string};
use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long somebody who is ending may keep a port, and how often it is looked.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);
/// In the tables of `/proc/net`: the state of a socket that listens.
const LISTENS: &str = "0A";

/// Binds a port; as long as it is taken again and again, for 2 s at most.
pub fn bind<T>(mut bind: impl FnMut() -> Result<T>) -> Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match bind() {
            Err(error) if is_taken(&error) && Instant::now() < until => std::thread::sleep(LOOK),
            done => return done,
        }
    }
}

/// Whether somebody else has the port.
pub fn is_taken(error: &Error) -> bool {
    error.kind() == ErrorKind::AddrInUse
}

/// Who listens at a port of this machine, for the end of a message.
pub fn holder(port: u16) -> String {
    match listener(port) {
        Some((pid, name)) => {
            format!("process {pid} ({name}) listens there, which may be of a job that has not ended")
        }
        None => "somebody listens there, most likely another job or another user's program".into(),
    }
}

/// The process that listens at a port, and what it runs, if it lets itself be seen.
fn listener(port: u16) -> Option<(u32, String)> {
    let sockets: Vec<PathBuf> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .flat_map(|table| listening(&read_to_string(table).unwrap_or_default(), port))
        .map(|number| PathBuf::from(format!("socket:[{number}]")))
        .collect();
    let processes = read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let descriptors = read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors.filter_map(|one| read_link(one.path()).ok()).any(|link| sockets.contains(&link))
    };
    let pid = pids.into_iter().find(|pid| !sockets.is_empty() && has(pid))?;
    Some((pid, program(pid)?))
}

/// The numbers of the sockets that listen at a port, by a table of `/proc/net`.
fn listening(table: &str, port: u16) -> Vec<u64> {
    let port = format!("{port:04X}");
    let number = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state, number) = (words.get(1)?, words.get(3)?, words.get(9)?);
        let is_it = *state == LISTENS && local.rsplit(':').next() == Some(&port);
        number.parse().ok().filter(|_| is_it)
    };
    table.lines().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_port_of_one_who_was_ending_was_refused_at_once() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        let mut first = Some(first);
        let mut tries = 0;
        let bound = bind(|| {
            let done = TcpListener::bind(address);
            // It ends after it has been in the way.
            tries += 1;
            first = None;
            done
        });
        assert_eq!((bound.unwrap().local_addr().unwrap(), tries), (address, 2));
        let other = bind(|| -> Result<()> { Err(ErrorKind::PermissionDenied.into()) });
        assert_eq!(other.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn whoever_listens_at_a_port_is_named() {
        let ear = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = ear.local_addr().unwrap().port();
        assert_eq!(listener(port).map(|(pid, _)| pid), Some(std::process::id()));
        assert!(holder(port).contains(&format!("process {} (", std::process::id())));
        drop(ear);
        assert_eq!(listener(port), None);
        let table = "  sl  local_address rem_address st\n   0: 0100007F:1BBC 00000000:0000 0A 0:0 00:0 0 0 0 77 1\n   \
                     1: 0100007F:1BBC 0100007F:9999 01 0:0 00:0 0 0 0 78 1\n";
        assert_eq!((listening(table, 7100), listening(table, 7101)), (vec![77], vec![]));
    }
}
