//! Interfaces, loopback, and whether this host's name leads to it.

use super::Check;
use kumiki_run::{environment, probe};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a name may take to resolve.
const RESOLVE: Duration = Duration::from_secs(5);

pub(super) fn checks() -> Vec<Check> {
    vec![loopback(), interfaces(), chosen(), host_name()]
}

fn loopback() -> Check {
    const NAME: &str = "loopback";
    match exchange() {
        Ok(()) => Check::ok(NAME, "a connection to 127.0.0.1 carried bytes both ways"),
        Err(error) => Check::fail(
            NAME,
            format!("no connection to 127.0.0.1: {error}"),
            "`ip link set lo up`; virtual nodes talk over loopback, and ranks of a node about private memory",
        ),
    }
}

/// Binds, connects and sends a byte each way.
fn exchange() -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut caller = TcpStream::connect_timeout(&listener.local_addr()?, Duration::from_secs(2))?;
    let (mut answerer, _) = listener.accept()?;
    for stream in [&caller, &answerer] {
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    }
    let mut byte = [0];
    caller.write_all(&[1])?;
    answerer.read_exact(&mut byte)?;
    answerer.write_all(&byte)?;
    caller.read_exact(&mut byte)
}

fn interfaces() -> Check {
    const NAME: &str = "interfaces";
    match probe::interfaces() {
        Ok(list) if list.iter().any(|one| !one.address.is_loopback()) => {
            let list: Vec<String> = list.iter().map(|one| format!("{} {}", one.name, one.address)).collect();
            Check::ok(NAME, list.join(", "))
        }
        Ok(_) => Check::warn(
            NAME,
            "loopback only: jobs on this machine work, jobs on several hosts do not",
            "bring an interface up (`ip link`), if other hosts are to take part",
        ),
        Err(error) => Check::warn(NAME, error.to_string(), "check `ip address` by hand"),
    }
}

fn chosen() -> Check {
    const NAME: &str = "address of this node";
    let within = "on this machine alone: 127.0.0.1";
    let by = if std::env::var_os("KUMIKI_NET").is_some_and(|value| !value.is_empty()) {
        "it is in KUMIKI_NET"
    } else {
        "ssh came in by it"
    };
    match environment::reached_address() {
        Ok(address) => Check::ok(NAME, format!("{within}; with other hosts: {address}, because {by}")),
        Err(error) if by.contains("KUMIKI_NET") => {
            Check::fail(NAME, error.to_string(), "set KUMIKI_NET to a network from the line above, or unset it")
        }
        Err(_) => Check::ok(
            NAME,
            format!("{within}; with other hosts: the address by which ssh comes in, unless KUMIKI_NET says otherwise"),
        ),
    }
}

fn host_name() -> Check {
    const NAME: &str = "host name";
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    match resolve(&name) {
        Ok(addresses) => judge_addresses(NAME, &name, &addresses),
        Err(why) => Check::warn(
            NAME,
            format!("{name} does not resolve: {why}"),
            "add it to /etc/hosts; Kumiki itself does not need it, `--host` and KUMIKI_MASTER with that name do",
        ),
    }
}

fn judge_addresses(check: &'static str, name: &str, addresses: &[IpAddr]) -> Check {
    let list: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    let found = format!("{name} resolves to {}", list.join(", "));
    if !addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback) {
        return Check::warn(
            check,
            format!("{found}, which other hosts cannot reach (Debian writes 127.0.1.1 into /etc/hosts)"),
            "Kumiki does not listen by this name, so jobs work; give KUMIKI_MASTER an address, not this name",
        );
    }
    Check::ok(check, found)
}

/// Resolves a name, but does not wait for ever for a name server that does not answer.
fn resolve(name: &str) -> Result<Vec<IpAddr>, String> {
    let (tell, told) = std::sync::mpsc::channel();
    let owned = name.to_owned();
    std::thread::spawn(move || {
        let found = (owned.as_str(), 0).to_socket_addrs();
        let _ = tell.send(found.map(|list| list.map(|one| one.ip()).collect::<Vec<_>>()));
    });
    match told.recv_timeout(RESOLVE) {
        Ok(Ok(mut addresses)) => {
            addresses.sort_unstable();
            addresses.dedup();
            Ok(addresses)
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", RESOLVE.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn a_name_that_leads_to_loopback_only_is_a_warning() {
        let debian: IpAddr = "127.0.1.1".parse().unwrap();
        let real: IpAddr = "10.1.2.3".parse().unwrap();
        assert_eq!(judge_addresses("host name", "a", &[debian]).status, Status::Warn);
        assert_eq!(judge_addresses("host name", "a", &[debian, real]).status, Status::Ok);
    }
}
