//! An address of this machine that one test has for itself.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// An address of the loopback network that nobody else uses, with a port that is free there. Every agent of every test
/// that runs at the same time asks for some free port of 127.0.0.1, and would sooner or later get one that a test has
/// only looked up for somebody else.
pub(crate) fn address() -> SocketAddr {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed) % 254 + 1;
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, call as u8, high, low);
    TcpListener::bind((ip, 0))
        .and_then(|listener| listener.local_addr())
        .expect("a port of the loopback network")
}
