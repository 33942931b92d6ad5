//! Sockets: pairs, messages that carry descriptors, TCP options.

use super::{check, sum};
use crate::{Error, Result};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A connected pair of Unix sockets that keep message boundaries.
pub fn packet_pair() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` is valid for two integers.
    let done = unsafe {
        libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr())
    };
    check("socketpair", done as i64)?;
    // SAFETY: the kernel has just given us both descriptors and nobody else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
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
pub fn interface_addresses() -> Result<Vec<std::net::IpAddr>> {
    Ok(named_addresses()?.into_iter().map(|(_, address)| address).collect())
}

/// As [`interface_addresses`], each with the name of its interface.
pub fn named_addresses() -> Result<Vec<(String, std::net::IpAddr)>> {
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
                addresses.extend(address_at(address).map(|address| (name(), address)));
            }
            entry = interface.ifa_next;
        }
    }
    // SAFETY: `list` came from getifaddrs and is not used any more.
    unsafe { libc::freeifaddrs(list) };
    addresses.sort_by_key(|(_, address)| address.is_loopback());
    Ok(addresses)
}

/// The address of the internet that a socket address holds, if it is of that family.
///
/// # Safety
/// The address must be valid for reads of as many bytes as its family says.
unsafe fn address_at(address: *const libc::sockaddr) -> Option<std::net::IpAddr> {
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
    // SAFETY: no pointers are passed.
    check("listen", unsafe { libc::listen(fd.as_raw_fd(), connections) } as i64).map(drop)
}

/// Lets a socket count as readable only once this many bytes (or an end) are there.
pub fn set_low_water(fd: BorrowedFd<'_>, bytes: u32) -> Result<()> {
    option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes as i32, "setsockopt(SO_RCVLOWAT)")
}

/// The most descriptors that one message carries.
pub const MOST_PASSED: usize = 2;

/// Space for one control message that carries that many descriptors and no more, aligned for the kernel.
#[repr(C, align(8))]
struct Control([u8; 24]);

// SAFETY: both only compute; no memory is touched.
const _: () = assert!(unsafe { libc::CMSG_SPACE(8) == 24 && libc::CMSG_LEN(8) == 24 } && MOST_PASSED == 2);

/// Sends one message with these descriptors, [`MOST_PASSED`] at most. Does not raise SIGPIPE.
pub fn send_message(fd: BorrowedFd<'_>, bytes: &[u8], passed: &[BorrowedFd<'_>]) -> Result<usize> {
    if passed.len() > MOST_PASSED {
        return Err(Error::Misuse(format!("{} descriptors in one message", passed.len())));
    }
    let mut vector = libc::iovec { iov_base: bytes.as_ptr() as *mut libc::c_void, iov_len: bytes.len() };
    let mut control = Control([0; 24]);
    // SAFETY: a msghdr of zeroes is a valid value of the type.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut vector;
    message.msg_iovlen = 1;
    if !passed.is_empty() {
        let bytes = 4 * passed.len() as u32;
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: the control space is large and aligned enough for one header and as many descriptors as were checked
        // for above, and the CMSG macros stay inside `msg_controllen`.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(bytes) as _;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            for (index, passed) in passed.iter().enumerate() {
                data.add(index).write_unaligned(passed.as_raw_fd());
            }
        }
    }
    // SAFETY: every pointer in `message` refers to a local that lives across the call.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    check("sendmsg", sent as i64).map(|n| n as usize)
}

/// The descriptors that came with a message, in their order.
pub type Passed = [Option<OwnedFd>; MOST_PASSED];

/// Receives one message and the descriptors it carries, if any. Nothing at all is the end of the connection.
/// With `wait` false, returns EAGAIN when there is none.
pub fn receive_message(fd: BorrowedFd<'_>, buffer: &mut [u8], wait: bool) -> Result<(usize, Passed)> {
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; 24]);
    // SAFETY: a msghdr of zeroes is a valid value of the type.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let flags = libc::MSG_CMSG_CLOEXEC | if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: every pointer in `message` refers to a local that lives across the call.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, flags) };
    let got = check("recvmsg", got as i64)? as usize;
    let mut passed = Passed::default();
    // SAFETY: the kernel has filled `message`; the CMSG macros stay inside `msg_controllen`, and a descriptor
    // in an SCM_RIGHTS message is ours alone. There is room for as many as we take, so no other can be leaked.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        if !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS
        {
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            for (index, place) in passed.iter_mut().enumerate() {
                if (*header).cmsg_len as usize >= libc::CMSG_LEN(4 * (index as u32 + 1)) as usize {
                    *place = Some(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
        }
    }
    if message.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(Error::Refused(format!("a message longer than {} bytes", buffer.len())));
    }
    Ok((got, passed))
}

/// Sends bytes without blocking and without SIGPIPE. Returns how many went.
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize> {
    // The bare system call: the library's function is a cancellation point, which costs in a process with threads.
    // SAFETY: the pointer and length describe `bytes`; there is no address.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            std::ptr::null::<libc::sockaddr>(),
            0,
        )
    };
    check("send", sent).map(|n| n as usize)
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
    let flags = libc::MSG_DONTWAIT | if peek { libc::MSG_PEEK } else { 0 };
    // The bare system call, as in `send`.
    // SAFETY: the pointer and length describe `buffer`; no address is asked for.
    let got = unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            fd.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
            flags,
            std::ptr::null_mut::<libc::sockaddr>(),
            std::ptr::null_mut::<libc::socklen_t>(),
        )
    };
    check("recv", got).map(|n| n as usize)
}

/// Whether a socket that connects to this address stays on this machine.
pub fn is_here(fd: BorrowedFd<'_>, to: &std::net::SocketAddr) -> bool {
    to.ip().is_loopback() || end_address(fd, libc::getsockname) == Some(to.ip())
}

/// Whether a connected socket has its other end on this machine.
pub fn is_from_here(fd: BorrowedFd<'_>) -> bool {
    end_address(fd, libc::getpeername).is_some_and(|other| is_here(fd, &(other, 0).into()))
}

/// A call that gives the address of one end of a socket.
type NameOf = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

fn end_address(fd: BorrowedFd<'_>, name_of: NameOf) -> Option<std::net::IpAddr> {
    // SAFETY: a sockaddr_storage of zeroes is a valid value of the type.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut bytes = std::mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let place: *mut libc::sockaddr_storage = &mut storage;
    // SAFETY: the pointers describe `storage` and `bytes`, which live across the call.
    let done = unsafe { name_of(fd.as_raw_fd(), place.cast(), &mut bytes) };
    // SAFETY: the kernel has filled in an address, whose family says how it is to be read.
    (done == 0).then(|| unsafe { address_at(place.cast()) }).flatten()
}

/// So many questions after room, or whether the machine is there, may be unanswered at a time: the answer to the latest is perhaps
/// on its way.
const UNANSWERED_PROBES: u8 = 2;
/// So often bytes may have been sent again, likewise.
const UNANSWERED_REPEATS: u8 = 1;
/// The longest time, and the most questions, that the kernel takes for keepalive.
const MAX_KEEPALIVE_SECONDS: i32 = 32_767;
const MAX_KEEPALIVE_COUNT: u32 = 127;

/// Makes a TCP socket fit for us: no delay of small frames, no pacing, and an error, not silence, when the peer's
/// machine has been unreachable for `timeout_ms`.
pub fn tune_tcp(fd: BorrowedFd<'_>, timeout_ms: u32) -> Result<()> {
    avoid_pacing(fd);
    let (idle, interval) = keepalive_seconds(timeout_ms);
    option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "setsockopt(TCP_NODELAY)")?;
    option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, timeout_ms as i32, "setsockopt(TCP_USER_TIMEOUT)")?;
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
    option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 0, "setsockopt(TCP_USER_TIMEOUT)")
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
    let mut name = [0u8; 16];
    let mut bytes = name.len() as libc::socklen_t;
    // SAFETY: `name` is valid for writes of `bytes`, which is valid for writes itself.
    let got = unsafe {
        let place = name.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, place, &mut bytes)
    };
    if got != 0 || !name.starts_with(b"bbr") {
        return;
    }
    // Reno is in every kernel. Where neither may be chosen, it works as it is.
    for other in [&b"cubic"[..], b"reno"] {
        // SAFETY: `other` is valid for reads of its length.
        let set = unsafe {
            let (place, bytes) = (other.as_ptr().cast(), other.len() as libc::socklen_t);
            libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, place, bytes)
        };
        if set == 0 {
            return;
        }
    }
}

/// The most bytes that a segment of this TCP connection carries.
pub fn segment_bytes(fd: BorrowedFd<'_>) -> Result<u32> {
    read_option(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, "getsockopt(TCP_MAXSEG)").map(|bytes| bytes as u32)
}

/// The pending error of a socket, 0 if there is none: how a non-blocking connect ended.
pub fn pending_error(fd: BorrowedFd<'_>) -> Result<i32> {
    read_option(fd, libc::SOL_SOCKET, libc::SO_ERROR, "getsockopt(SO_ERROR)")
}

/// Starts to connect to an address without waiting for it.
pub fn start_connect(address: &std::net::SocketAddr) -> Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers are passed.
    let fd = unsafe { check("socket", libc::socket(family, kind, 0) as i64)? };
    // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    let (storage, length) = to_sockaddr(address);
    // SAFETY: `storage` holds an address of `length` bytes of the family of the socket.
    let done =
        unsafe { libc::connect(fd.as_raw_fd(), (&storage as *const libc::sockaddr_storage).cast(), length) };
    match check("connect", done as i64) {
        Ok(_) | Err(Error::System { errno: libc::EINPROGRESS, .. }) => Ok(fd),
        Err(error) => Err(error),
    }
}

/// Makes the close of a TCP socket a reset, as a crash of the peer's machine would look.
pub fn reset_on_close(fd: BorrowedFd<'_>) -> Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: `linger` is valid for reads of its size.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&linger as *const libc::linger).cast(),
            std::mem::size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    check("setsockopt(SO_LINGER)", done as i64).map(drop)
}

/// Ends both directions of a connection; the descriptor stays open.
pub fn shut_down(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: no pointers are passed.
    check("shutdown", unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) } as i64).map(drop)
}

fn to_sockaddr(address: &std::net::SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: a sockaddr_storage of zeroes is a valid value of the type.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let place: *mut libc::sockaddr_storage = &mut storage;
    let length = match address {
        std::net::SocketAddr::V4(v4) => {
            let value = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is larger than, and aligned for, every address type.
            unsafe { place.cast::<libc::sockaddr_in>().write(value) };
            std::mem::size_of::<libc::sockaddr_in>()
        }
        std::net::SocketAddr::V6(v6) => {
            let value = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { place.cast::<libc::sockaddr_in6>().write(value) };
            std::mem::size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, length as libc::socklen_t)
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
}
