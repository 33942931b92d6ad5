//! Sockets: pairs, messages that carry descriptors, TCP options.

use super::{check, multipath, named, sum};
use crate::{Error, Result};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion, tcp_congestion};
use rustix::net::{connect, getpeername, getsockname, listen, recvmsg, sendmsg, shutdown, socketpair};
use rustix::net::{AddressFamily, Shutdown, SocketAddrAny, SocketFlags, SocketType};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// A connected pair of Unix sockets that keep message boundaries.
pub fn packet_pair() -> Result<(OwnedFd, OwnedFd)> {
    let made = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    named("socketpair", made)
}

/// A connected pair of Unix stream sockets.
pub fn stream_pair() -> Result<(OwnedFd, OwnedFd)> {
    std::os::unix::net::UnixStream::pair()
        .map(|(one, other)| (one.into(), other.into()))
        .map_err(|error| Error::from_io("socketpair", &error))
}

/// The user id of the process at the other end of a Unix socket, and its process id.
pub fn peer_credentials(fd: BorrowedFd<'_>) -> Result<(u32, i32)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = std::mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: both out-parameters are valid for writes of their sizes.
    let done = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&mut credentials as *mut libc::ucred).cast(),
            &mut bytes,
        )
    };
    check("getsockopt(SO_PEERCRED)", done as i64)?;
    Ok((credentials.uid, credentials.pid))
}

/// The addresses of the network interfaces that are up, loopback last.
pub fn interface_addresses() -> Result<Vec<IpAddr>> {
    Ok(named_addresses()?.into_iter().map(|(_, address)| address).collect())
}

/// As [`interface_addresses`], each with the name of its interface.
pub fn named_addresses() -> Result<Vec<(String, IpAddr)>> {
    Ok(interfaces()?.into_iter().map(|(name, address, _)| (name, address)).collect())
}

/// The networks that this machine is in, each as its own address there and how many bits of that are the network's. Those of which
/// every machine has one, for itself and for its cable, are left out.
pub fn attached_networks() -> Result<Vec<(IpAddr, u8)>> {
    let is_own = |address: &IpAddr| match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local(),
    };
    let networks = interfaces()?.into_iter().map(|(_, address, prefix)| (address, prefix));
    Ok(networks.filter(|(address, _)| !is_own(address)).collect())
}

/// The interfaces that are up: their names, addresses, and how many bits of those are the network's.
fn interfaces() -> Result<Vec<(String, IpAddr, u8)>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `list` is valid for writes; it is freed below.
    unsafe { check("getifaddrs", libc::getifaddrs(&mut list) as i64)? };
    let mut addresses = Vec::new();
    let mut entry = list;
    while !entry.is_null() {
        // SAFETY: the entries form a list that lives until freeifaddrs; an address is as long as its family says,
        // and a name is a C string.
        unsafe {
            let interface = &*entry;
            let address = interface.ifa_addr;
            if !address.is_null() && interface.ifa_flags & libc::IFF_UP as u32 != 0 {
                let name = || std::ffi::CStr::from_ptr(interface.ifa_name).to_string_lossy().into_owned();
                let mask = interface.ifa_netmask;
                let mask = if mask.is_null() { None } else { address_at(mask) };
                addresses.extend(address_at(address).map(|address| (name(), address, prefix(address, mask))));
            }
            entry = interface.ifa_next;
        }
    }
    // SAFETY: `list` came from getifaddrs and is not used any more.
    unsafe { libc::freeifaddrs(list) };
    addresses.sort_by_key(|(_, address, _)| address.is_loopback());
    Ok(addresses)
}

/// How many bits a mask sets; without one the network is the address alone.
fn prefix(address: IpAddr, mask: Option<IpAddr>) -> u8 {
    match mask {
        Some(IpAddr::V4(mask)) => mask.to_bits().count_ones() as u8,
        Some(IpAddr::V6(mask)) => mask.to_bits().count_ones() as u8,
        None if address.is_ipv4() => 32,
        None => 128,
    }
}

/// The address of the internet that a socket address holds, if it is of that family.
///
/// # Safety
/// The address must be valid for reads of as many bytes as its family says.
unsafe fn address_at(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller promises; the family comes first in every kind of address.
    unsafe {
        match (*address).sa_family as i32 {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(v4.sin_addr.s_addr.to_ne_bytes().into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(v6.sin6_addr.s6_addr.into())
            }
            _ => None,
        }
    }
}

/// Changes how many connections the kernel keeps for a listening socket.
pub fn set_backlog(fd: BorrowedFd<'_>, connections: i32) -> Result<()> {
    named("listen", listen(fd, connections))
}

/// Lets a socket count as readable only once this many bytes (or an end) are there.
pub fn set_low_water(fd: BorrowedFd<'_>, bytes: u32) -> Result<()> {
    option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes as i32, "setsockopt(SO_RCVLOWAT)")
}

/// The most descriptors that one message carries.
pub const MOST_PASSED: usize = 2;

/// Space for one control message that carries that many descriptors.
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(MOST_PASSED));

/// Sends one message with these descriptors, [`MOST_PASSED`] at most. Does not raise SIGPIPE.
pub fn send_message(fd: BorrowedFd<'_>, bytes: &[u8], passed: &[BorrowedFd<'_>]) -> Result<usize> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let mut push = || control.push(SendAncillaryMessage::ScmRights(passed));
    if passed.len() > MOST_PASSED || !passed.is_empty() && !push() {
        return Err(Error::Misuse(format!("{} descriptors in one message", passed.len())));
    }
    named("sendmsg", sendmsg(fd, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL))
}

/// The descriptors that came with a message, in their order.
pub type Passed = [Option<OwnedFd>; MOST_PASSED];

/// Receives one message and the descriptors it carries, if any. Nothing at all is the end of the connection.
/// With `wait` false, returns EAGAIN when there is none.
pub fn receive_message(fd: BorrowedFd<'_>, buffer: &mut [u8], wait: bool) -> Result<(usize, Passed)> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    let got = named("recvmsg", recvmsg(fd, &mut [IoSliceMut::new(buffer)], &mut control, flags))?;
    let mut passed = Passed::default();
    // What there is no place for is closed.
    let came = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    passed.iter_mut().zip(came.flatten()).for_each(|(place, descriptor)| *place = Some(descriptor));
    if got.flags.contains(ReturnFlags::TRUNC) {
        return Err(Error::Refused(format!("a message longer than {} bytes", buffer.len())));
    }
    Ok((got.bytes, passed))
}

/// Sends bytes without blocking and without SIGPIPE. Returns how many went.
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize> {
    named("send", rustix::net::send(fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT))
}

/// Memory that others may write, shown for sending: no reference to it is ever made.
#[derive(Debug)]
pub struct Lent<'a> {
    memory: libc::iovec,
    owner: PhantomData<&'a ()>,
}

impl Lent<'_> {
    /// # Safety
    /// The memory must stay mapped and readable while this lives. It may change meanwhile.
    pub unsafe fn new(pointer: *const u8, bytes: usize) -> Self {
        Lent { memory: libc::iovec { iov_base: pointer as *mut _, iov_len: bytes }, owner: PhantomData }
    }

    /// The checksum of the memory as it is now; of bytes that change meanwhile, of no use.
    pub fn checksum(&self) -> u32 {
        // SAFETY: whoever made this promised that the memory can be read.
        unsafe { sum::checksum_more(0, self.memory.iov_base.cast(), self.memory.iov_len) }
    }
}

/// Sends bytes, and others behind them; as [`send`] otherwise.
pub fn send_both(fd: BorrowedFd<'_>, first: &[u8], then: &[u8]) -> Result<usize> {
    // SAFETY: a slice can be read for as long as it is borrowed, which is longer than this.
    send_lent(fd, first, &unsafe { Lent::new(then.as_ptr(), then.len()) })
}

/// The [checksum](crate::wire::frame::checksum) of many bytes, as fast as the processor can.
pub fn checksum(bytes: &[u8]) -> u32 {
    checksum_more(0, bytes)
}

/// The checksum of what gave `crc` so far followed by many bytes, likewise.
pub fn checksum_more(crc: u32, bytes: &[u8]) -> u32 {
    // SAFETY: the bytes are there, and nobody writes them.
    unsafe { sum::checksum_more(crc, bytes.as_ptr(), bytes.len()) }
}

/// Sends bytes and, behind them, memory as it is at that moment; as [`send`] otherwise.
pub fn send_lent(fd: BorrowedFd<'_>, first: &[u8], then: &Lent<'_>) -> Result<usize> {
    let first = libc::iovec { iov_base: first.as_ptr() as *mut _, iov_len: first.len() };
    let parts = [first, then.memory];
    // SAFETY: a msghdr of zeroes is a valid value of the type.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr() as *mut _;
    message.msg_iovlen = parts.len() as _;
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the message describes two pieces of memory that are mapped for as long as the call takes; both are only read.
    let sent = unsafe { libc::syscall(libc::SYS_sendmsg, fd.as_raw_fd(), &message, flags) };
    check("send", sent).map(|n| n as usize)
}

/// Memory that others may touch, shown for receiving: no reference to it is ever made.
#[derive(Debug)]
pub struct Place<'a> {
    memory: libc::iovec,
    owner: PhantomData<&'a mut ()>,
}

impl Place<'_> {
    /// # Safety
    /// The memory must stay mapped, readable and writable while this lives. Others may touch it meanwhile, but not through
    /// references.
    pub unsafe fn new(pointer: *mut u8, bytes: usize) -> Self {
        Place { memory: libc::iovec { iov_base: pointer.cast(), iov_len: bytes }, owner: PhantomData }
    }

    /// The checksum of what gave `crc` so far followed by the first `bytes` of the memory as they are now.
    pub fn checksum_more(&self, crc: u32, bytes: usize) -> u32 {
        // SAFETY: whoever made this promised that the memory can be read.
        unsafe { sum::checksum_more(crc, self.memory.iov_base.cast(), bytes.min(self.memory.iov_len)) }
    }
}

/// Receives into memory and, once that is full, into `then`; as [`receive`] otherwise.
pub fn receive_into(fd: BorrowedFd<'_>, first: &mut Place<'_>, then: &mut [u8]) -> Result<usize> {
    let then = libc::iovec { iov_base: then.as_mut_ptr().cast(), iov_len: then.len() };
    let mut parts = [first.memory, then];
    // SAFETY: a msghdr of zeroes is a valid value of the type.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    // SAFETY: the message describes two pieces of memory that are mapped and ours to write for as long as the call takes.
    let got = unsafe { libc::syscall(libc::SYS_recvmsg, fd.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    check("recv", got).map(|n| n as usize)
}

/// Receives bytes without blocking; 0 is the end. With `peek`, leaves them where they are.
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8], peek: bool) -> Result<usize> {
    let flags = RecvFlags::DONTWAIT | if peek { RecvFlags::PEEK } else { RecvFlags::empty() };
    named("recv", rustix::net::recv(fd, buffer, flags).map(|(got, _)| got))
}

/// Whether a socket that connects to this address stays on this machine.
pub fn is_here(fd: BorrowedFd<'_>, to: &SocketAddr) -> bool {
    to.ip().is_loopback() || own_address(fd) == Some(to.ip())
}

/// Whether a connected socket has its other end on this machine.
pub fn is_from_here(fd: BorrowedFd<'_>) -> bool {
    other_address(fd).is_some_and(|other| is_here(fd, &(other, 0).into()))
}

/// The address that the other end of a connected socket has.
pub fn other_address(fd: BorrowedFd<'_>) -> Option<IpAddr> {
    getpeername(fd).ok().flatten().and_then(internet)
}

/// The address of this machine that a connected socket has.
pub fn own_address(fd: BorrowedFd<'_>) -> Option<IpAddr> {
    getsockname(fd).ok().and_then(internet)
}

/// The address of the internet that a socket has, if it is of that family.
fn internet(address: SocketAddrAny) -> Option<IpAddr> {
    SocketAddr::try_from(address).ok().map(|address| address.ip())
}

/// So many questions after room, or whether the machine is there, may be unanswered at a time: the answer to the latest is perhaps
/// on its way.
const UNANSWERED_PROBES: u8 = 2;
/// So often bytes may have been sent again, likewise.
const UNANSWERED_REPEATS: u8 = 1;
/// The longest time, and the most questions, that the kernel takes for keepalive.
const MAX_KEEPALIVE_SECONDS: i32 = 32_767;
const MAX_KEEPALIVE_COUNT: u32 = 127;

/// Makes a TCP socket fit for us (what is none needs nothing of it): no delay of small frames, no pacing, and an error, not silence, when the peer's
/// machine has been unreachable for `timeout_ms`.
pub fn tune_tcp(fd: BorrowedFd<'_>, timeout_ms: u32) -> Result<()> {
    if own_address(fd).is_none() {
        return Ok(());
    }
    avoid_pacing(fd);
    let (idle, interval) = keepalive_seconds(timeout_ms);
    option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "setsockopt(TCP_NODELAY)")?;
    set_user_timeout(fd, timeout_ms)?;
    option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1, "setsockopt(SO_KEEPALIVE)")?;
    option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, idle, "setsockopt(TCP_KEEPIDLE)")?;
    option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, interval, "setsockopt(TCP_KEEPINTVL)")?;
    option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4, "setsockopt(TCP_KEEPCNT)")
}

/// After how many seconds without traffic the kernel asks whether the other machine is there, and how often then: several times
/// within the timeout.
fn keepalive_seconds(timeout_ms: u32) -> (i32, i32) {
    let seconds = (timeout_ms / 1000).max(3) as i32;
    let of = |part: i32| (seconds / part).clamp(1, MAX_KEEPALIVE_SECONDS);
    (of(3), of(6))
}

/// Makes the socket of a connection between ranks fit for us, as [`tune_tcp`] does. On this machine no network can fail.
pub fn tune_data(fd: BorrowedFd<'_>, timeout_ms: u32, is_here: bool) -> Result<()> {
    if !is_here {
        return tune_tcp(fd, timeout_ms);
    }
    if own_address(fd).is_none() {
        return Ok(());
    }
    avoid_pacing(fd);
    option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "setsockopt(TCP_NODELAY)")
}

/// Leaves the verdict on a silent machine to [`is_silent`], after [`tune_tcp`] with the same timeout: bytes that the peer's
/// process does not take are no error any more. Without that limit the kernel counts its unanswered questions instead, so it
/// must ask for longer than the timeout; it still ends a connection on which nothing is under way.
pub fn leave_verdict(fd: BorrowedFd<'_>, timeout_ms: u32) -> Result<()> {
    let (_, interval) = keepalive_seconds(timeout_ms);
    // And once more for what the division leaves, and once more so that the verdict comes first.
    let count = (timeout_ms / 1000 / interval as u32 + 2).clamp(4, MAX_KEEPALIVE_COUNT) as i32;
    option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, count, "setsockopt(TCP_KEEPCNT)")?;
    set_user_timeout(fd, 0)
}

/// How long bytes may be unacknowledged; a connection over several networks has no such limit.
fn set_user_timeout(fd: BorrowedFd<'_>, timeout_ms: u32) -> Result<()> {
    let name = "setsockopt(TCP_USER_TIMEOUT)";
    match option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, timeout_ms as i32, name) {
        Err(Error::System { errno: libc::ENOPROTOOPT | libc::EOPNOTSUPP, .. }) => Ok(()),
        set => set,
    }
}

/// Whether bytes are sent again and again to a machine that has not answered for so long. A machine that answers that its process has
/// no room for more is not silent, and a connection without traffic is watched by the system.
pub fn is_silent(fd: BorrowedFd<'_>, limit_ms: u64) -> bool {
    // SAFETY: a tcp_info of zeroes is a valid value of the type.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = std::mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` and `bytes` are valid for writes of their sizes.
    let got = unsafe {
        let place = (&mut info as *mut libc::tcp_info).cast();
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut bytes)
    };
    got == 0 && tells_of_silence(&info, limit_ms)
}

/// Whether the kernel's account of a connection tells that. Bytes that have not been acknowledged yet mean nothing: they may have
/// been sent this moment, on a connection that had been quiet for longer than the limit.
fn tells_of_silence(info: &libc::tcp_info, limit_ms: u64) -> bool {
    let asks_in_vain = info.tcpi_retransmits > UNANSWERED_REPEATS || info.tcpi_probes > UNANSWERED_PROBES;
    let heard_ms = info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv) as u64;
    asks_in_vain && heard_ms >= limit_ms
}

/// Takes the place of congestion control that paces (BBR sets a timer for every few segments) with one that does not.
/// Whatever else the administrator has chosen stays.
pub fn avoid_pacing(fd: BorrowedFd<'_>) {
    if !tcp_congestion(fd).is_ok_and(|name| name.starts_with("bbr")) {
        return;
    }
    // Reno is in every kernel. Where neither may be chosen, it works as it is.
    let _ = set_tcp_congestion(fd, "cubic").or_else(|_| set_tcp_congestion(fd, "reno"));
}

/// The most bytes that a segment of this TCP connection carries.
pub fn segment_bytes(fd: BorrowedFd<'_>) -> Result<u32> {
    read_option(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, "getsockopt(TCP_MAXSEG)").map(|bytes| bytes as u32)
}

/// The pending error of a socket, 0 if there is none: how a non-blocking connect ended.
pub fn pending_error(fd: BorrowedFd<'_>) -> Result<i32> {
    read_option(fd, libc::SOL_SOCKET, libc::SO_ERROR, "getsockopt(SO_ERROR)")
}

/// The family of an address.
pub(super) fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    }
}

/// Starts to connect to an address without waiting for it, over several networks if that is wanted.
pub fn start_connect(address: &SocketAddr, multipath: bool) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = multipath::stream_socket(family(address), multipath, flags)?;
    match connect(&fd, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(errno) => named("connect", Err(errno)),
    }
}

/// Makes the close of a TCP socket a reset, as a crash of the peer's machine would look.
pub fn reset_on_close(fd: BorrowedFd<'_>) -> Result<()> {
    named("setsockopt(SO_LINGER)", set_socket_linger(fd, Some(Duration::ZERO)))
}

/// Ends both directions of a connection; the descriptor stays open.
pub fn shut_down(fd: BorrowedFd<'_>) -> Result<()> {
    named("shutdown", shutdown(fd, Shutdown::Both))
}

/// Ends our direction of a connection; the other goes on.
pub fn end_output(fd: BorrowedFd<'_>) -> Result<()> {
    named("shutdown", shutdown(fd, Shutdown::Write))
}

fn read_option(fd: BorrowedFd<'_>, level: i32, name: i32, call: &'static str) -> Result<i32> {
    let mut value = 0i32;
    let mut bytes = 4 as libc::socklen_t;
    // SAFETY: `value` and `bytes` are valid for writes of their sizes.
    let done =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&mut value as *mut i32).cast(), &mut bytes) };
    check(call, done as i64)?;
    Ok(value)
}

fn option(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32, call: &'static str) -> Result<()> {
    // SAFETY: `value` is valid for reads of four bytes.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&value as *const i32).cast(), 4) };
    check(call, done as i64).map(drop)
}

/// The lowest port that is tried, and how many are.
const LEAST_PORT: u16 = 10_000;
const PORTS_TRIED: usize = 64;

/// A port of this machine that is free at the moment, for somebody else to listen at. Not one of those that the system gives to connections: they may be
/// given away before that somebody comes.
pub fn free_port() -> Result<u16> {
    let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|ear| ear.local_addr());
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first_given: u16 = range.split_whitespace().next().and_then(|port| port.parse().ok()).unwrap_or(0);
    let ports = first_given.saturating_sub(LEAST_PORT);
    // Somewhere, and then one after the other: nobody in this process gets what another one has just got.
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    let next = NEXT.get_or_init(|| {
        let mut number = [0; 2];
        let _ = super::random_bytes(&mut number);
        AtomicU16::new(u16::from_le_bytes(number))
    });
    for _ in 0..if ports > 0 { PORTS_TRIED } else { 0 } {
        let port = LEAST_PORT + next.fetch_add(1, Ordering::Relaxed) % ports;
        if listen(port).is_ok() {
            return Ok(port);
        }
    }
    let found = listen(0).map_err(|error| Error::Refused(format!("there is no free port: {error}")))?;
    Ok(found.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn bytes_sent_this_moment_were_taken_for_silence() {
        // SAFETY: a tcp_info of zeroes is a valid value of the type.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        (info.tcpi_last_ack_recv, info.tcpi_last_data_recv) = (1_500, 1_500);
        assert!(!tells_of_silence(&info, 1_000), "nothing is under way");
        info.tcpi_unacked = 1;
        assert!(!tells_of_silence(&info, 1_000), "the answer is on its way");
        info.tcpi_retransmits = 1;
        assert!(!tells_of_silence(&info, 1_000), "one segment may get lost");
        info.tcpi_retransmits = 2;
        assert!(tells_of_silence(&info, 1_000));
        assert!(!tells_of_silence(&info, 1_501), "it has answered in time");
        (info.tcpi_retransmits, info.tcpi_probes) = (0, 3);
        assert!(tells_of_silence(&info, 1_000));
    }

    #[test]
    fn keepalive_gave_a_machine_up_before_the_peer_timeout() {
        let socket = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let fd = socket.as_fd();
        let tcp = |name| read_option(fd, libc::IPPROTO_TCP, name, "getsockopt").unwrap();
        for timeout_ms in [100, 1_000, 3_999, 10_000, 15_000, 59_999, 86_400_000] {
            tune_tcp(fd, timeout_ms).unwrap();
            assert_eq!(tcp(libc::TCP_USER_TIMEOUT), timeout_ms as i32);
            leave_verdict(fd, timeout_ms).unwrap();
            assert_eq!(tcp(libc::TCP_USER_TIMEOUT), 0);
            let (idle, interval) = (tcp(libc::TCP_KEEPIDLE), tcp(libc::TCP_KEEPINTVL));
            let gives_up_ms = 1_000 * (idle + tcp(libc::TCP_KEEPCNT) * interval) as u32;
            // The verdict comes within a second after the timeout.
            assert!(gives_up_ms > timeout_ms + 1_000, "after {gives_up_ms} of {timeout_ms} ms");
            // It needs three questions that were not answered.
            assert!(timeout_ms < 4_000 || 1_000 * (idle + 2 * interval) as u32 <= timeout_ms);
        }
    }

    #[test]
    fn a_free_port_is_none_that_connections_are_given() {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let given: Vec<u16> = range.split_whitespace().map(|port| port.parse().unwrap()).collect();
        let port = free_port().unwrap();
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
        assert!(given[0] <= LEAST_PORT || !(given[0]..=given[1]).contains(&port), "{port}");
    }
}
