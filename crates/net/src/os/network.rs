//! Network namespaces, and the few network devices that connect them: a bridge, pairs of cables, addresses.
//!
//! A namespace lives as long as a process in it, and takes its devices with it; so nothing is left behind.

use super::{check, named};
use crate::{Error, Result};
use rustix::net::{socket_with, AddressFamily, Protocol, SocketFlags, SocketType};
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

pub(super) const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_PID: u16 = 19;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const RTM_NEWQDISC: u16 = 36;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_H_ROOT: u32 = u32::MAX;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Puts this process into a new network namespace; for a user who is not root, into a new user namespace as well,
/// in which it may set up that network. The process must have no other threads.
pub fn enter_new_network() -> Result<()> {
    let (user, group) = (super::process::user(), rustix::process::getegid().as_raw());
    let root = user == 0;
    let flags = libc::CLONE_NEWNET | if root { 0 } else { libc::CLONE_NEWUSER };
    // SAFETY: no pointers are passed.
    check("unshare(CLONE_NEWNET)", unsafe { libc::unshare(flags) } as i64)?;
    if !root {
        let write = |path: &str, text: String| {
            std::fs::write(path, text).map_err(|error| Error::from_io("write(/proc/self/uid_map)", &error))
        };
        write("/proc/self/setgroups", "deny".into())?;
        write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    Ok(())
}

/// Runs `body` in the network namespace of another process, on a thread that ends with it.
pub fn in_network_of<T: Send>(pid: u32, body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let path = format!("/proc/{pid}/ns/net");
    let file = std::fs::File::open(path).map_err(|error| Error::from_io("open(/proc/PID/ns/net)", &error))?;
    let enter = || {
        // Only the calling thread changes its namespace, and it ends soon.
        let entered = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
        named("setns", entered)?;
        body()
    };
    let crashed = || Error::Closed("a thread that sets up the network has crashed".into());
    std::thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|_| Err(crashed()))
}

/// A conversation with the kernel about the network devices of the namespace it was opened in.
#[derive(Debug)]
pub struct Network(OwnedFd);

impl Network {
    /// Opens the conversation.
    pub fn open() -> Result<Network> {
        Network::open_for(None)
    }

    /// Opens one about something else.
    pub(super) fn open_for(protocol: Option<Protocol>) -> Result<Network> {
        let made = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol);
        named("socket(AF_NETLINK)", made).map(Network)
    }

    /// Makes a bridge.
    pub fn add_bridge(&self, name: &str) -> Result<()> {
        let info = attribute(IFLA_LINKINFO, &attribute(IFLA_INFO_KIND, b"bridge"));
        let body = [link_header(0, false), attribute(IFLA_IFNAME, &text(name)), info].concat();
        self.request(RTM_NEWLINK, true, &body, "netlink(new bridge)")
    }

    /// Makes a cable: one end here, plugged into the bridge, the other in the namespace of a process.
    pub fn add_cable(&self, name: &str, bridge: &str, far_name: &str, far_pid: u32) -> Result<()> {
        let far = [
            link_header(0, false),
            attribute(IFLA_IFNAME, &text(far_name)),
            attribute(IFLA_NET_NS_PID, &far_pid.to_ne_bytes()),
        ]
        .concat();
        let data = attribute(IFLA_INFO_DATA, &attribute(VETH_INFO_PEER, &far));
        let info = attribute(IFLA_LINKINFO, &[attribute(IFLA_INFO_KIND, b"veth"), data].concat());
        let bridge = index(bridge)?.to_ne_bytes();
        let master = attribute(IFLA_MASTER, &bridge);
        let body = [link_header(0, false), attribute(IFLA_IFNAME, &text(name)), info, master].concat();
        self.request(RTM_NEWLINK, true, &body, "netlink(new veth)")
    }

    /// Turns a device on.
    pub fn turn_on(&self, name: &str) -> Result<()> {
        self.request(RTM_NEWLINK, false, &link_header(index(name)?, true), "netlink(device up)")
    }

    /// Gives a device an address.
    pub fn add_address(&self, name: &str, address: Ipv4Addr, prefix: u8) -> Result<()> {
        let mut body = vec![libc::AF_INET as u8, prefix, 0, 0];
        body.extend(index(name)?.to_ne_bytes());
        body.extend(attribute(IFA_LOCAL, &address.octets()));
        body.extend(attribute(IFA_ADDRESS, &address.octets()));
        self.request(RTM_NEWADDR, true, &body, "netlink(new address)")
    }

    /// Lets so many bytes a second leave a device, and so many wait for their turn; more are dropped.
    pub fn shape(&self, name: &str, bytes_per_second: u64, queue_bytes: u32) -> Result<()> {
        let mut body = vec![0; 4];
        body.extend(index(name)?.to_ne_bytes());
        body.extend([0; 4]);
        body.extend(TC_H_ROOT.to_ne_bytes());
        body.extend([0; 4]);
        // What may leave at once: what leaves in a millisecond, but a few packets at least.
        let burst = (bytes_per_second / 1000).clamp(4 * 1514, 1 << 20) as u32;
        let rate = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
        // The rate, no other for peaks, the queue; the burst is told by itself.
        let mut parameters = vec![0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0];
        parameters.extend(rate.to_ne_bytes());
        parameters.extend([0; 12]);
        parameters.extend(queue_bytes.to_ne_bytes());
        parameters.extend([0; 8]);
        let mut options = attribute(TCA_TBF_PARMS, &parameters);
        options.extend(attribute(TCA_TBF_BURST, &burst.to_ne_bytes()));
        if rate == u32::MAX {
            options.extend(attribute(TCA_TBF_RATE64, &bytes_per_second.to_ne_bytes()));
        }
        body.extend(attribute(TCA_KIND, &text("tbf")));
        body.extend(attribute(TCA_OPTIONS, &options));
        self.request(RTM_NEWQDISC, true, &body, "netlink(new queue, tbf)")
    }

    /// Asks for something to be done.
    pub(super) fn request(&self, kind: u16, create: bool, body: &[u8], call: &'static str) -> Result<()> {
        let create = if create { libc::NLM_F_CREATE | libc::NLM_F_EXCL } else { 0 };
        let (kind, answer) = self.ask(kind, libc::NLM_F_ACK | create, body)?;
        let errno = answer.first_chunk().map(|errno| i32::from_ne_bytes(*errno));
        match errno.filter(|_| kind == NLMSG_ERROR) {
            Some(0) => Ok(()),
            errno => Err(Error::System { call, errno: errno.map_or(libc::EIO, |errno| -errno) }),
        }
    }

    /// Asks, and gives the first message of the answer: its kind, and what is in it.
    pub(super) fn ask(&self, kind: u16, flags: i32, body: &[u8]) -> Result<(u16, Vec<u8>)> {
        let mut message = Vec::with_capacity(16 + body.len());
        message.extend((16 + body.len() as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        super::socket::send(self.0.as_fd(), &message)?;
        let mut answer = vec![0; 4096];
        super::descriptor::poll(&[(self.0.as_fd(), false)], 2_000)?;
        let got = super::socket::receive(self.0.as_fd(), &mut answer, false)?;
        let bytes = answer.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)) as usize;
        let kind = u16::from_ne_bytes([answer[4], answer[5]]);
        answer.truncate(got.min(bytes));
        Ok((kind, answer.split_off(answer.len().min(16))))
    }
}

/// The fixed part of a message about a device.
fn link_header(index: u32, up: bool) -> Vec<u8> {
    let flags = if up { libc::IFF_UP as u32 } else { 0 };
    let mut header = vec![0; 4];
    header.extend(index.to_ne_bytes());
    header.extend(flags.to_ne_bytes());
    header.extend(flags.to_ne_bytes());
    header
}

/// An attribute: its length, its kind, its value, and padding to four bytes.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + 8);
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn text(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

fn index(name: &str) -> Result<u32> {
    let name = std::ffi::CString::new(name).map_err(|_| Error::Misuse("a device name with a zero".into()))?;
    // SAFETY: `name` is a C string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(Error::last_os("if_nametoindex")),
        index => Ok(index),
    }
}
