//! Connections that go over several networks at once: Multipath TCP, which the kernel has.
//!
//! One socket, one stream of bytes; the kernel opens a subflow for each pair of addresses that the *endpoints* of the two machines
//! allow, and sends on whichever has room. Endpoints are the administrator's (`ip mptcp endpoint add ADDRESS ...`); where there are
//! none, a connection is what it always was.

use super::network::{attribute, Network, NLMSG_ERROR};
use super::socket;
use crate::{environment, Error, Result};
use rustix::net::{ipproto, socket_with, AddressFamily, Protocol, SocketFlags, SocketType};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const GENERIC_CONTROL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const PM_CMD_ADD_ADDR: u8 = 1;
const PM_CMD_GET_ADDR: u8 = 3;
const PM_CMD_SET_LIMITS: u8 = 5;
const PM_CMD_GET_LIMITS: u8 = 6;
const PM_ATTR_ADDR: u16 = 1;
const PM_ATTR_RCV_ADD_ADDRS: u16 = 2;
const PM_ATTR_SUBFLOWS: u16 = 3;
const PM_ADDR_FAMILY: u16 = 1;
const PM_ADDR_ADDR4: u16 = 3;
const PM_ADDR_PORT: u16 = 5;
const PM_ADDR_FLAGS: u16 = 6;
const PM_FLAG_SIGNAL: u32 = 1;
/// A nested attribute.
const NESTED: u16 = 0x8000;

/// Whether connections to other machines go over several networks, as `KUMIKI_MULTIPATH` says: if this machine has endpoints for
/// it, always, or never.
pub fn is_wanted() -> Result<bool> {
    match environment::choice("KUMIKI_MULTIPATH", &["auto", "on", "off"])? {
        Some("off") => Ok(false),
        Some("on") if works() => Ok(true),
        Some("on") => Err(Error::Refused(
            "KUMIKI_MULTIPATH=on, but this machine has no Multipath TCP that would do (Linux 6.10 or later, and sysctl \
             net.mptcp.enabled=1); leave it at auto"
                .into(),
        )),
        _ => Ok(has_endpoints() && works()),
    }
}

/// A TCP socket that may go over several networks, if the kernel can do that; otherwise a plain one.
pub fn stream_socket(family: AddressFamily, multipath: bool, flags: SocketFlags) -> Result<OwnedFd> {
    if multipath {
        if let Ok(socket) = socket_with(family, SocketType::STREAM, flags, Some(ipproto::MPTCP)) {
            return Ok(socket);
        }
    }
    super::named("socket", socket_with(family, SocketType::STREAM, flags, None))
}

/// Listens at an address. Callers that know only TCP are answered in TCP.
pub fn listen(address: SocketAddr, multipath: bool) -> std::io::Result<TcpListener> {
    if !multipath {
        return TcpListener::bind(address);
    }
    let made = stream_socket(socket::family(&address), true, SocketFlags::CLOEXEC);
    let fd = made.map_err(std::io::Error::other)?;
    rustix::net::sockopt::set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, 128)?;
    Ok(fd.into())
}

/// What the kernel knows of a connection that may go over several networks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// Whether something that was sent has not been acknowledged.
    pub is_owed: bool,
    /// How long ago anything was heard, on whatever network.
    pub heard_ms: u64,
}

/// What the kernel knows of a connection; `None` if it goes over one network, or the kernel (before 6.10) does not say.
pub fn life(fd: BorrowedFd<'_>) -> Option<Life> {
    const SOL_MPTCP: i32 = 284;
    const MPTCP_INFO: i32 = 1;
    const WRITTEN_AT: usize = 16;
    const ACKNOWLEDGED_AT: usize = 24;
    const LAST_DATA_AT: usize = 88;
    const LAST_ACKNOWLEDGEMENT_AT: usize = 92;
    let mut info = [0u8; 96];
    let mut bytes = info.len() as libc::socklen_t;
    // SAFETY: `info` and `bytes` are valid for writes of their sizes.
    let got = unsafe {
        let place = info.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), SOL_MPTCP, MPTCP_INFO, place, &mut bytes)
    };
    if got != 0 || (bytes as usize) < info.len() {
        return None;
    }
    let word = |at: usize| info[at..].first_chunk().map(|bytes| u64::from(u32::from_ne_bytes(*bytes)));
    let long = |at: usize| info[at..].first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
    let heard_ms = word(LAST_DATA_AT)?.min(word(LAST_ACKNOWLEDGEMENT_AT)?);
    Some(Life { is_owed: long(WRITTEN_AT)? != long(ACKNOWLEDGED_AT)?, heard_ms })
}

/// Whether the kernel has all that we need of it: small frames at once, life that is asked for, and an account of that.
fn works() -> bool {
    let made = stream_socket(AddressFamily::INET, true, SocketFlags::CLOEXEC);
    made.is_ok_and(|socket| {
        life(socket.as_fd()).is_some() && socket::tune_tcp(socket.as_fd(), 15_000).is_ok()
    })
}

/// Whether this network namespace has endpoints.
fn has_endpoints() -> bool {
    let Ok((network, family)) = path_manager() else { return false };
    // The first answer is an endpoint, or says that there are no more.
    match network.ask(family, libc::NLM_F_DUMP, &message(PM_CMD_GET_ADDR, &[])) {
        Ok((kind, told)) if kind == NLMSG_ERROR && !told.starts_with(&[0; 4]) => accepts_endpoints(),
        told => told.is_ok_and(|(kind, _)| kind == family),
    }
}

/// Whether this network namespace takes addresses that others tell. (Who is not root may not ask for its endpoints, but where
/// somebody has made some this has been said, too.)
fn accepts_endpoints() -> bool {
    // Of a new conversation, so that nothing of the answer before is taken for the answer to this.
    let Ok((network, family)) = path_manager() else { return false };
    let Ok((kind, told)) = network.ask(family, 0, &message(PM_CMD_GET_LIMITS, &[])) else { return false };
    let limit = value_of(&told, PM_ATTR_RCV_ADD_ADDRS).and_then(|value| value.first_chunk().copied());
    kind == family && limit.is_some_and(|limit| u32::from_ne_bytes(limit) > 0)
}

/// Tells others of this address of the machine, and listens for them at this port there.
pub fn add_endpoint(address: Ipv4Addr, port: u16) -> Result<()> {
    let (network, family) = path_manager()?;
    let place = [
        attribute(PM_ADDR_FAMILY, &(libc::AF_INET as u16).to_ne_bytes()),
        attribute(PM_ADDR_ADDR4, &address.octets()),
        attribute(PM_ADDR_PORT, &port.to_ne_bytes()),
        attribute(PM_ADDR_FLAGS, &PM_FLAG_SIGNAL.to_ne_bytes()),
    ];
    let body = message(PM_CMD_ADD_ADDR, &attribute(NESTED | PM_ATTR_ADDR, &place.concat()));
    network.request(family, false, &body, "netlink(new mptcp endpoint)")
}

/// Allows so many networks beside the first.
pub fn set_limits(others: u32) -> Result<()> {
    let (network, family) = path_manager()?;
    let limits =
        [PM_ATTR_RCV_ADD_ADDRS, PM_ATTR_SUBFLOWS].map(|limit| attribute(limit, &others.to_ne_bytes()));
    network.request(family, false, &message(PM_CMD_SET_LIMITS, &limits.concat()), "netlink(mptcp limits)")
}

/// A conversation with the kernel about Multipath TCP, and the number that such messages have.
fn path_manager() -> Result<(Network, u16)> {
    const NETLINK_GENERIC: Option<Protocol> = Some(rustix::net::netlink::GENERIC);
    let network = Network::open_for(NETLINK_GENERIC)?;
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"mptcp_pm\0");
    let (kind, told) = network.ask(GENERIC_CONTROL, 0, &message(CTRL_CMD_GETFAMILY, &name))?;
    let unknown = || Error::System { call: "netlink(mptcp_pm)", errno: libc::EPROTONOSUPPORT };
    if kind != GENERIC_CONTROL {
        return Err(unknown());
    }
    let number = value_of(&told, CTRL_ATTR_FAMILY_ID).and_then(|value| value.first_chunk().copied());
    number.map(|number| (network, u16::from_ne_bytes(number))).ok_or_else(unknown)
}

/// The value of an attribute in a generic message.
fn value_of(message: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = message.get(4..)?;
    loop {
        let (head, _) = rest.split_first_chunk::<4>()?;
        let [bytes, kind] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_ne_bytes);
        let value = rest.get(4..bytes as usize)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get((bytes as usize).next_multiple_of(4)..)?;
    }
}

/// The body of a generic message.
fn message(command: u8, attributes: &[u8]) -> Vec<u8> {
    [&[command, 1, 0, 0], attributes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_damaged_ones_are_none() {
        let two = [attribute(7, &[1, 2, 3]), attribute(9, &[4, 5])].concat();
        let told = message(3, &two);
        assert_eq!(value_of(&told, 7), Some(&[1, 2, 3][..]));
        assert_eq!(value_of(&told, 9), Some(&[4, 5][..]));
        assert_eq!(value_of(&told, 8), None);
        for bytes in 0..told.len() {
            assert!(value_of(&told[..bytes], 8).is_none());
        }
        // Lengths that are too short, or none.
        for length in 0..4u8 {
            assert_eq!(value_of(&[3, 1, 0, 0, length, 0, 9, 0, 1, 2], 9), None);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets of the system")]
    fn a_plain_connection_has_no_such_life() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), true).unwrap();
        let plain = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(life(plain.as_fd()), None);
        assert_eq!(life(listener.accept().unwrap().0.as_fd()), None, "who calls in TCP is answered in TCP");
    }
}
