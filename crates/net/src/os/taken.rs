//! Ports that somebody else has: waiting for a moment, since whoever had them may be ending, and telling who it is.

use super::holders::program;
use std::fs::{read_dir, read_link, read_to_string};
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};
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

/// Who has a place that nobody else can listen at, for the end of a message.
pub fn holder(place: SocketAddr) -> String {
    let sockets = listeners(place);
    match owner(&sockets) {
        Some((pid, name)) => {
            format!("process {pid} ({name}) listens there, which may be of a job that has not ended")
        }
        None if sockets.is_empty() => {
            "the port is in use, though nobody is seen to listen there: a connection may have it that another program has made, or that has not ended".into()
        }
        None => "somebody listens there, most likely another job or another user's program".into(),
    }
}

/// The process that has one of these sockets, and what it runs, if it lets itself be seen.
fn owner(sockets: &[u64]) -> Option<(u32, String)> {
    if sockets.is_empty() {
        return None;
    }
    let sockets: Vec<PathBuf> =
        sockets.iter().map(|number| PathBuf::from(format!("socket:[{number}]"))).collect();
    let processes = read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let descriptors = read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors.filter_map(|one| read_link(one.path()).ok()).any(|link| sockets.contains(&link))
    };
    let pid = pids.find(has)?;
    Some((pid, program(pid)?))
}

/// The numbers of the sockets that are in the way of whoever would listen there.
fn listeners(place: SocketAddr) -> Vec<u64> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
    tables.flat_map(|table| listening(&read_to_string(table).unwrap_or_default(), place)).collect()
}

/// The same by a table of `/proc/net`.
fn listening(table: &str, place: SocketAddr) -> Vec<u64> {
    let number = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state, number) = (words.get(1)?, words.get(3)?, words.get(9)?);
        let is_it = *state == LISTENS && is_in_the_way(address(local)?, place);
        number.parse().ok().filter(|_| is_it)
    };
    table.lines().filter_map(number).collect()
}

/// Whether nobody can listen at a place while somebody listens at another: they are the same, or one is all addresses.
fn is_in_the_way(other: SocketAddr, place: SocketAddr) -> bool {
    let (theirs, wanted) = (other.ip().to_canonical(), place.ip().to_canonical());
    // All addresses of version 6 have those of version 4 among them.
    let has = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    other.port() == place.port() && (theirs == wanted || has(theirs, wanted) || has(wanted, theirs))
}

/// An address and port as the tables have them: words of four bytes, each as this machine reads a number, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::to_ne_bytes);
    let words: Vec<[u8; 4]> =
        (0..ip.len()).step_by(8).map(|at| word(ip.get(at..at + 8)?)).collect::<Option<_>>()?;
    let ip = match words[..] {
        [four] => IpAddr::from(four),
        _ => IpAddr::from(<[u8; 16]>::try_from(words.concat()).ok()?),
    };
    Some(SocketAddr::new(ip, port))
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
        // Or later: a child of another test may have it for a moment.
        assert!(bound.unwrap().local_addr().unwrap() == address && tries >= 2, "{tries}");
        let other = bind(|| -> Result<()> { Err(ErrorKind::PermissionDenied.into()) });
        assert_eq!(other.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn whoever_listens_at_a_port_is_named() {
        let ear = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = ear.local_addr().unwrap();
        let listener = || owner(&listeners(place)).map(|(pid, _)| pid);
        assert_eq!(listener(), Some(std::process::id()));
        assert!(holder(place).contains(&format!("process {} (", std::process::id())));
        drop(ear);
        // A child of another test may have it for a moment.
        let until = Instant::now() + Duration::from_secs(1);
        while listener().is_some() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        assert_eq!(listener(), None);
        assert!(holder(place).contains("nobody is seen to listen there"));
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn whoever_listened_at_the_same_port_of_another_address_was_named() {
        let table = "  sl  local_address rem_address st\n   0: 0100007F:1BBC 00000000:0000 0A 0:0 00:0 0 0 0 77 1\n   \
                     1: 0100007F:1BBC 0100007F:9999 01 0:0 00:0 0 0 0 78 1\n   2: 0500000A:1BBC 00000000:0000 0A 0:0 00:0 0 0 0 79 1\n   \
                     3: 00000000:1BBE 00000000:0000 0A 0:0 00:0 0 0 0 80 1\n   \
                     4: 00000000000000000000000000000000:1BBF 0:0 0A 0:0 00:0 0 0 0 81 1\n   \
                     5: 0000000000000000FFFF00000500000A:1BC0 0:0 0A 0:0 00:0 0 0 0 82 1\n   \
                     6: 00000000000000000000000001000000:1BC0 0:0 0A 0:0 00:0 0 0 0 83 1\n";
        for (place, sockets) in [
            ("127.0.0.1:7100", &[77][..]),
            ("10.0.0.5:7100", &[79]),
            ("10.0.0.6:7100", &[]),
            ("0.0.0.0:7100", &[77, 79]),
            ("127.0.0.1:7101", &[]),
            ("10.0.0.5:7102", &[80]),
            ("[::1]:7102", &[]),
            ("10.0.0.5:7103", &[81]),
            ("[::1]:7103", &[81]),
            ("10.0.0.5:7104", &[82]),
            ("[::1]:7104", &[83]),
        ] {
            assert_eq!(listening(table, place.parse().unwrap()), sockets, "{place}");
        }
    }
}
