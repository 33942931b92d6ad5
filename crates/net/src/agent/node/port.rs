//! The node's one listening port: strangers are turned away, sockets of the job go to the ranks they ask for.
//!
//! Before a HELLO is checked a socket costs one descriptor and no buffer of ours: the bytes stay in the kernel and
//! are only looked at, as they come: whoever does not speak our language is dropped at the first wrong byte. There are at most [`MAX_PENDING`] such sockets, each for at most [`HELLO_MS`].

use crate::agent::report;
use crate::auth::{self, Hello, JobId, Refusal, Secret, HELLO_BYTES, PREFIX_BYTES};
use crate::environment;
use crate::os::descriptor::Epoll;
use crate::os::{multipath, socket, taken};
use crate::{Error, Result};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

/// The most sockets whose HELLO has not come. On a machine with many more ranks than cores many of ours may be among them, that
/// have connected and wait for their next turn to speak.
const MAX_PENDING: usize = 256;
/// So many are taken at a time, so that a storm of connections does not keep the agent from its other duties.
const ACCEPTED: usize = 64;
/// How long a HELLO may take. Ranks say it in the moment in which they connect; one that is kept from it for so long finds its
/// connection closed, and calls again.
const HELLO_MS: u64 = 4_000;
/// How long a stranger is left alone when others wait for its place. Long enough for an honest one.
const YOUNG_MS: u64 = 250;
/// Connections that the kernel keeps for us: every rank of another node may call in the same moment.
const BACKLOG: i32 = 4096;
/// How long to leave the port alone when there is no room or no descriptor left.
const PAUSE_MS: u64 = 5;
/// At most one line about refused sockets in this time.
const LOG_INTERVAL_MS: u64 = 10_000;

/// The port and the sockets that have not said who they are.
#[derive(Debug)]
pub(in crate::agent) struct Port {
    listener: TcpListener,
    address: SocketAddr,
    token: u64,
    first_socket_token: u64,
    next_id: u64,
    pending: Vec<Stranger>,
    paused_until_ms: Option<u64>,
    refused: u64,
    logged_ms: Option<u64>,
}

#[derive(Debug)]
struct Stranger {
    id: u64,
    socket: TcpStream,
    from: SocketAddr,
    deadline_ms: u64,
    /// With how many bytes it counts as readable.
    needs: usize,
}

impl Stranger {
    /// Whether a HELLO lies there that we had no time to look at: then it is we who are slow.
    fn has_spoken(&self) -> bool {
        let mut bytes = [0; HELLO_BYTES];
        matches!(socket::receive(self.socket.as_fd(), &mut bytes, true), Ok(HELLO_BYTES))
    }
}

impl Port {
    /// Binds a port on this address; of the range in `KUMIKI_PORTS` if there is one.
    pub(in crate::agent) fn bind(ip: IpAddr, token: u64, first_socket_token: u64) -> Result<Port> {
        let listener = listen(ip)?;
        listener.set_nonblocking(true).map_err(|error| Error::from_io("fcntl(O_NONBLOCK)", &error))?;
        let address = listener.local_addr().map_err(|error| Error::from_io("getsockname", &error))?;
        Ok(Port {
            listener,
            address,
            token,
            first_socket_token,
            next_id: 0,
            pending: Vec::new(),
            paused_until_ms: None,
            refused: 0,
            logged_ms: None,
        })
    }

    /// Where the port is.
    pub(in crate::agent) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to listen to the port.
    pub(in crate::agent) fn watch(&self, epoll: &Epoll) -> Result<()> {
        epoll.add(self.listener.as_fd(), self.token, false)
    }

    /// Takes the connections that wait.
    pub(in crate::agent) fn accept(&mut self, epoll: &Epoll, now_ms: u64) {
        for _ in 0..ACCEPTED {
            if self.pending.len() >= MAX_PENDING && !self.make_room(now_ms) {
                return self.pause(epoll, now_ms);
            }
            match self.listener.accept() {
                Ok((socket, from)) => self.admit(epoll, socket, from, now_ms),
                Err(error) => {
                    let out_of = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
                    if error.raw_os_error().is_some_and(|errno| out_of.contains(&errno)) {
                        self.make_room(now_ms);
                        self.pause(epoll, now_ms);
                    }
                    return;
                }
            }
        }
    }

    /// Looks at a socket that has become readable. Gives it out if it belongs to the job.
    pub(in crate::agent) fn examine(
        &mut self,
        epoll: &Epoll,
        token: u64,
        (secret, job): (&Secret, JobId),
        now_ms: u64,
    ) -> Option<(Hello, OwnedFd)> {
        let id = token.checked_sub(self.first_socket_token)?;
        let index = self.pending.iter().position(|stranger| stranger.id == id)?;
        let mut bytes = [0; HELLO_BYTES];
        let got = socket::receive(self.pending[index].socket.as_fd(), &mut bytes, true).unwrap_or(0);
        let checked = auth::check_hello(&bytes[..got], secret, job);
        if matches!(checked, Err(Refusal::Truncated { .. })) && self.pending[index].wait_for_more(got) {
            return None;
        }
        let Stranger { socket, from, .. } = self.pending.swap_remove(index);
        let _ = epoll.remove(socket.as_fd());
        if got == 0 {
            // It hung up before it said a word: a probe, or a rank that died while it called. Nothing was refused,
            // and a death has its own report.
            return None;
        }
        match checked {
            Ok(hello) => {
                socket::set_low_water(socket.as_fd(), 1).ok()?;
                Some((hello, socket.into()))
            }
            Err(refusal) => {
                if let Some(answer) = auth::refused_record(&refusal) {
                    let _ = socket::send(socket.as_fd(), &answer);
                }
                self.refuse(from, &refusal.to_string(), now_ms);
                None
            }
        }
    }

    /// When [`tick`](Self::tick) wants to be called.
    pub(in crate::agent) fn wake_up_at(&self) -> Option<u64> {
        self.pending.iter().map(|stranger| stranger.deadline_ms).chain(self.paused_until_ms).min()
    }

    /// Drops strangers that say nothing, and wakes the port from its rest.
    pub(in crate::agent) fn tick(&mut self, epoll: &Epoll, now_ms: u64) {
        let late = |stranger: &Stranger| stranger.deadline_ms <= now_ms && !stranger.has_spoken();
        while let Some(index) = self.pending.iter().position(late) {
            let stranger = self.pending.swap_remove(index);
            self.refuse(stranger.from, "it did not say who it is", now_ms);
        }
        if self.paused_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            self.paused_until_ms = None;
            let _ = self.watch(epoll);
        }
    }

    fn admit(&mut self, epoll: &Epoll, socket: TcpStream, from: SocketAddr, now_ms: u64) {
        let ready = socket.set_nonblocking(true).is_ok();
        self.next_id += 1;
        let id = self.next_id;
        if ready && epoll.add(socket.as_fd(), self.first_socket_token + id, false).is_ok() {
            self.pending.push(Stranger { id, socket, from, deadline_ms: now_ms + HELLO_MS, needs: 1 });
        }
    }

    /// Drops strangers that have said nothing for a while, because others wait. False if there are none: all are
    /// so new that they may be honest, and who waits is better off in the kernel's queue.
    fn make_room(&mut self, now_ms: u64) -> bool {
        let before = self.pending.len();
        let old = |stranger: &Stranger| {
            stranger.deadline_ms <= now_ms + HELLO_MS - YOUNG_MS && !stranger.has_spoken()
        };
        while let Some(index) = self.pending.iter().position(old) {
            let stranger = self.pending.swap_remove(index);
            self.refuse(stranger.from, "others wait, and it does not say who it is", now_ms);
        }
        self.pending.len() < before
    }

    /// Rests for a moment, or we would be woken again at once.
    fn pause(&mut self, epoll: &Epoll, now_ms: u64) {
        if self.paused_until_ms.is_none() {
            let _ = epoll.remove(self.listener.as_fd());
            self.paused_until_ms = Some(now_ms + PAUSE_MS);
        }
    }

    fn refuse(&mut self, from: SocketAddr, why: &str, now_ms: u64) {
        self.refused += 1;
        if self.logged_ms.is_none_or(|logged_ms| now_ms >= logged_ms + LOG_INTERVAL_MS) {
            self.logged_ms = Some(now_ms);
            let total = self.refused;
            report::print(&format!(
                "refused a connection from {from}: {why} ({total} so far; the job goes on)"
            ));
        }
    }
}

impl Stranger {
    /// What has come is the beginning of a HELLO: the socket counts as readable again when there is more to judge. So a
    /// stranger goes at its first wrong byte, and one that speaks our language slowly wakes us a few times at most. False: no
    /// more will come.
    fn wait_for_more(&mut self, got: usize) -> bool {
        // With fewer bytes than asked for it is only readable because it has ended.
        let goes_on = got >= self.needs;
        self.needs = if got < PREFIX_BYTES { got + 1 } else { HELLO_BYTES };
        goes_on && socket::set_low_water(self.socket.as_fd(), self.needs as u32).is_ok()
    }
}

/// Listens on this address, at a port of the range in `KUMIKI_PORTS` if there is one.
pub(in crate::agent) fn listen(ip: IpAddr) -> Result<TcpListener> {
    let listener = bind_in_range(ip)?;
    socket::set_backlog(listener.as_fd(), BACKLOG)?;
    Ok(listener)
}

fn bind_in_range(ip: IpAddr) -> Result<TcpListener> {
    let multipath = multipath::is_wanted()?;
    let bind = |port| multipath::listen(SocketAddr::new(ip, port), multipath);
    let Some((low, high)) = environment::ports()? else {
        return bind(0).map_err(|error| Error::from_io("bind(the node's port)", &error));
    };
    // Nodes of one machine start at different places, so that they do not all try the same port first.
    let count = (high - low) as u32 + 1;
    let start = std::process::id() % count;
    let mut told = low;
    let free = taken::bind(|| {
        let mut last = None;
        for step in 0..count {
            let port = low + ((start + step) % count) as u16;
            match bind(port) {
                Ok(listener) => return Ok(listener),
                // That one is taken tells more than that another one nobody may have.
                Err(error) if last.is_none() || taken::is_taken(&error) => {
                    (last, told) = (Some(error), port);
                }
                Err(_) => {}
            }
        }
        Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
    });
    free.map_err(|error| {
        let name = environment::ports_name();
        Error::Refused(match taken::is_taken(&error) {
            true => format!(
                "no port of {name}={low}-{high} is free on {ip} (port {told}: {}); widen the range, or end who has them",
                taken::holder(SocketAddr::new(ip, told))
            ),
            false => format!("cannot listen on {ip} at a port of {name}={low}-{high}: {error}"),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Identity, Purpose};
    use crate::os::time;
    use crate::wire::Connection;
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;

    const JOB: JobId = JobId(5);

    /// A port whose clock stands still, and somebody who calls there.
    fn called() -> (Port, Epoll, TcpStream) {
        let (port, epoll) = (Port::bind([127, 0, 0, 1].into(), 0, 1).unwrap(), Epoll::new().unwrap());
        port.watch(&epoll).unwrap();
        let caller = TcpStream::connect(port.address()).unwrap();
        caller.set_nonblocking(true).unwrap();
        (port, epoll, caller)
    }

    /// Does what the port is woken for. False if it is not.
    fn serve(port: &mut Port, epoll: &Epoll, handed_over: &mut Option<OwnedFd>) -> bool {
        let mut tokens = Vec::new();
        epoll.wait(3_000, |token, _| tokens.push(token)).unwrap();
        for &token in &tokens {
            match token {
                0 => port.accept(epoll, 1_000),
                token => {
                    let secret = Secret::from_bytes([7; 32]);
                    let found = port.examine(epoll, token, (&secret, JOB), 1_000);
                    *handed_over = found.map(|(_, socket)| socket);
                }
            }
        }
        !tokens.is_empty()
    }

    #[test]
    fn a_stranger_is_dropped_at_its_first_wrong_byte() {
        for said in [&b"G"[..], b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"KMX", b"KMKi"] {
            let (mut port, epoll, mut caller) = called();
            caller.write_all(said).unwrap();
            let mut answer = [0; 8];
            while let Err(error) = caller.read(&mut answer) {
                if error.kind() != std::io::ErrorKind::WouldBlock {
                    break;
                }
                assert!(serve(&mut port, &epoll, &mut None), "{said:?} is not dropped");
            }
            assert_eq!(answer, [0; 8], "{said:?} gets an answer");
            assert!(port.pending.is_empty());
        }
    }

    #[test]
    fn a_hello_that_comes_in_pieces_is_taken_and_one_that_ends_early_is_not() {
        let me = Identity { rank: 1, incarnation: 0 };
        let secret = Secret::from_bytes([7; 32]);
        let mut calling = Connection::initiate(JOB, &secret, me, 0, Purpose::Data, [9; 32], 0);
        let hello = calling.take_output().unwrap();
        for whole in [true, false] {
            let (mut port, epoll, mut caller) = called();
            let mut handed_over = None;
            assert!(serve(&mut port, &epoll, &mut handed_over));
            for piece in [&hello[..3], &hello[3..7], &hello[7..20]] {
                caller.write_all(piece).unwrap();
                assert!(serve(&mut port, &epoll, &mut handed_over));
                assert_eq!((port.pending.len(), handed_over.is_none()), (1, true));
            }
            match whole {
                true => caller.write_all(&hello[20..]).unwrap(),
                false => caller.shutdown(std::net::Shutdown::Write).unwrap(),
            }
            assert!(serve(&mut port, &epoll, &mut handed_over));
            assert_eq!((port.pending.len(), handed_over.is_some()), (0, whole));
        }
    }

    #[test]
    fn a_hello_that_we_were_too_slow_to_look_at_is_not_refused() {
        let (epoll, secret, job) = (Epoll::new().unwrap(), Secret::from_bytes([7; 32]), JobId(9));
        let mut port = Port::bind(Ipv4Addr::LOCALHOST.into(), 1, 100).unwrap();
        port.watch(&epoll).unwrap();
        let hello = Hello { purpose: Purpose::Data, from: Identity { rank: 3, incarnation: 0 }, to: 0 };
        let mut honest = TcpStream::connect(port.address()).unwrap();
        honest.write_all(&auth::hello(&hello, job, &[1; 32], &secret)).unwrap();
        let silent = TcpStream::connect(port.address()).unwrap();
        let now_ms = time::now_ms();
        while port.pending.len() < 2 {
            port.accept(&epoll, now_ms);
        }
        // Long after the time of both: one has spoken, and waits for us.
        port.tick(&epoll, now_ms + 10 * HELLO_MS);
        assert_eq!(port.pending.len(), 1);
        assert!(!port.make_room(now_ms + 10 * HELLO_MS));
        let mut tokens = Vec::new();
        while tokens.is_empty() {
            epoll.wait(1000, |token, _| tokens.extend((token != 1).then_some(token))).unwrap();
        }
        let (found, _) = port.examine(&epoll, tokens[0], (&secret, job), now_ms).expect("the honest one");
        assert_eq!((found.from.rank, found.to), (3, 0));
        drop(silent);
    }
}
