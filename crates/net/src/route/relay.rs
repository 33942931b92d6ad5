//! The relay: on a machine that both sides reach, it makes the connections that they cannot make themselves, for whoever knows the
//! secret, and carries their bytes.
//!
//! It believes nothing of what it carries: those who talk through it prove to each other who they are as on every way. It is given the secret of the blocks, so its machine is trusted as theirs are. Before a
//! caller has proven that it knows the secret it costs one descriptor and a few hundred bytes, for a bounded time, and nobody is called for it. Nothing is kept for longer than
//! the connection, and one thread does it all.

use super::gate::contains;
use super::words::{Answer, Asked};
use crate::auth::{Secret, NONCE_BYTES};
use crate::os::descriptor::{self, Epoll};
use crate::os::{self, socket, taken, time};
use crate::{Error, Result};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How long a call of the relay may take.
pub const DIAL_MS: u64 = 4_000;
/// How long a caller may take to prove that it may ask, and to ask.
const PROVE_MS: u64 = 5_000;
/// The most callers that have not proven anything; the oldest gives way to the next.
const MOST_UNPROVEN: usize = 64;
/// Bytes that are kept of each direction of a connection, at most.
const KEPT_BYTES: usize = 128 << 10;
/// So often a connection is served before others have their turn.
const TURNS: u32 = 8;
/// A machine that is silent for so long is gone.
const SILENT_MS: u32 = 15_000;
/// How often it is looked for such.
const LOOK_MS: u64 = 5_000;
/// At most one line about the same trouble in this time.
const SAY_MS: u64 = 1_000;
/// Connections that the system keeps for us until we look.
const BACKLOG: i32 = 1024;

/// What a relay is told.
#[derive(Debug)]
pub struct Settings {
    /// Where it listens: `host:port`, each.
    pub listen: Vec<String>,
    /// What it demands of callers: of [`words::key`](super::words::key).
    pub key: Secret,
    /// The networks in which it calls; none: everywhere. On its own machine only addresses that are named here whole.
    pub allowed: Vec<(IpAddr, u8)>,
    /// The most connections at a time.
    pub connections: usize,
    /// A connection over which nothing went for so long is closed.
    pub idle: Option<Duration>,
    /// Whether each connection is told.
    pub is_verbose: bool,
}

/// A relay that listens.
pub struct Relay<'a> {
    settings: Settings,
    listeners: Vec<TcpListener>,
    epoll: Epoll,
    calls: Vec<Option<Box<Call>>>,
    carrying: usize,
    counts: Counts,
    said_ms: Option<u64>,
    /// When it is looked next for machines that do not answer.
    look_at_ms: u64,
    say: &'a mut dyn FnMut(&str),
}

/// What it has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Connections that it made.
    pub made: u64,
    /// Callers that could not prove that they may ask.
    pub refused: u64,
    /// Calls that came to nothing.
    pub failed: u64,
    /// Bytes that it carried.
    pub bytes: u64,
}

/// A connection, from its caller's first byte on.
struct Call {
    from: SocketAddr,
    caller: End,
    stage: Stage,
    /// When it is given up, or was used last.
    at_ms: u64,
}

enum Stage {
    /// It has to be proven that the caller may ask.
    Proving(Asked),
    /// Somebody is called for it.
    Dialling {
        asked: Asked,
        wanted: SocketAddr,
        callee: End,
    },
    Carrying {
        wanted: SocketAddr,
        callee: End,
        there: Pipe,
        back: Pipe,
    },
    /// It is told why not.
    Parting,
}

/// One socket, and what it is watched for.
struct End {
    socket: OwnedFd,
    watched: Option<(bool, bool)>,
    unsent: Vec<u8>,
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    start: usize,
    /// The one side has said all.
    has_ended: bool,
    /// The other knows it.
    is_shut: bool,
}

const SIDES: u64 = 2;

impl<'a> Relay<'a> {
    /// Listens. What happens is told to `say`, line by line.
    pub fn new(settings: Settings, say: &'a mut dyn FnMut(&str)) -> Result<Relay<'a>> {
        descriptor::raise_limit()?;
        let epoll = Epoll::new()?;
        let mut listeners = Vec::new();
        for name in &settings.listen {
            let wrong = |why: String| Error::Refused(format!("cannot listen at {name}: {why}"));
            let addresses = super::gate::resolve(name).map_err(wrong)?;
            let bound = taken::bind(|| TcpListener::bind(&addresses[..])).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            });
            // The error is that of the last address.
            let listener = bound.map_err(|error| match (taken::is_taken(&error), addresses.last()) {
                (true, Some(&address)) => {
                    let who = taken::holder(address);
                    wrong(format!("{error}: {who}; end it, or choose another port, also in WAITIO_RELAY"))
                }
                _ => wrong(error.to_string()),
            })?;
            socket::set_backlog(listener.as_fd(), BACKLOG)?;
            epoll.add(listener.as_fd(), listeners.len() as u64, false)?;
            listeners.push(listener);
        }
        let relay = Relay {
            settings,
            listeners,
            epoll,
            calls: Vec::new(),
            carrying: 0,
            counts: Counts::default(),
            said_ms: None,
            look_at_ms: 0,
            say,
        };
        for address in relay.addresses()? {
            (relay.say)(&format!("relay: listening at {address}"));
        }
        Ok(relay)
    }

    /// Where it listens.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let of = |listener: &TcpListener| {
            listener.local_addr().map_err(|error| Error::from_io("getsockname", &error))
        };
        self.listeners.iter().map(of).collect()
    }

    /// Carries bytes until the other descriptor can be read. Gives what it has done.
    pub fn run(mut self, stop: BorrowedFd<'_>) -> Result<Counts> {
        self.epoll.add(stop, u64::MAX, false)?;
        let first = self.listeners.len() as u64;
        loop {
            let mut tokens = Vec::new();
            self.epoll.wait(self.pause_ms(), |token, _| tokens.push(token))?;
            for token in tokens {
                match token {
                    u64::MAX => return Ok(self.counts),
                    token if token < first => self.accept(token as usize),
                    token => self.serve(((token - first) / SIDES) as usize),
                }
            }
            self.tend();
        }
    }

    fn pause_ms(&self) -> i32 {
        let is_young = |call: &Call| !matches!(call.stage, Stage::Carrying { .. });
        let next = match self.calls.iter().flatten().any(|call| is_young(call)) {
            true => 100,
            false => 10_000,
        };
        self.settings.idle.map_or(next, |idle| next.min(idle.as_millis().clamp(10, 10_000) as i32))
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..MOST_UNPROVEN {
            let (stream, from) = match self.listeners[listener].accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.tell(&format!("relay: cannot take a connection: {error}"));
                    // No descriptors are left, perhaps; without a pause we would be woken at once.
                    return std::thread::sleep(Duration::from_millis(10));
                }
            };
            self.make_room();
            let now_ms = time::now_ms();
            let mut nonce = [0; NONCE_BYTES];
            let ready = os::random_bytes(&mut nonce).and_then(|()| {
                socket::tune_tcp(stream.as_fd(), SILENT_MS)?;
                descriptor::set_nonblocking(stream.as_fd(), true)
            });
            if ready.is_err() {
                continue;
            }
            let stage = Stage::Proving(Asked::new(nonce, now_ms));
            let call = Call { from, caller: End::new(stream.into()), stage, at_ms: now_ms + PROVE_MS };
            let index = self.calls.iter().position(Option::is_none).unwrap_or(self.calls.len());
            if index == self.calls.len() {
                self.calls.push(None);
            }
            self.calls[index] = Some(Box::new(call));
            self.watch(index);
        }
    }

    /// Strangers who say nothing must not keep others out.
    fn make_room(&mut self) {
        let is_unproven = |call: &Call| matches!(call.stage, Stage::Proving(_) | Stage::Parting);
        let unproven = || {
            let calls = self.calls.iter().enumerate();
            calls.filter_map(|(index, call)| call.as_ref().map(|call| (index, call)))
        };
        let mut young = unproven().filter(|(_, call)| is_unproven(call)).collect::<Vec<_>>();
        if young.len() < MOST_UNPROVEN {
            return;
        }
        young.sort_by_key(|(_, call)| call.at_ms);
        let (oldest, from) = (young[0].0, young[0].1.from);
        self.end(oldest);
        self.refuse(from, "others wait, and it does not prove that it may ask");
    }

    /// Does what can be done for a connection now.
    fn serve(&mut self, index: usize) {
        let Some(mut call) = self.calls.get_mut(index).and_then(Option::take) else { return };
        let goes_on = self.advance(&mut call);
        if matches!(call.stage, Stage::Carrying { .. }) && !goes_on {
            self.carrying -= 1;
        }
        if goes_on {
            self.calls[index] = Some(call);
            self.watch(index);
        } else if self.settings.is_verbose {
            (self.say)(&format!("relay: {} has ended ({} open)", call, self.carrying));
        }
    }

    /// False when it is over.
    fn advance(&mut self, call: &mut Call) -> bool {
        match &mut call.stage {
            Stage::Proving(_) => self.prove(call),
            Stage::Dialling { .. } => self.dial(call),
            Stage::Carrying { .. } => self.carry(call),
            Stage::Parting => call.caller.flush().is_ok() && call.caller.is_there(),
        }
    }

    fn prove(&mut self, call: &mut Call) -> bool {
        let Stage::Proving(asked) = &mut call.stage else { return false };
        let mut bytes = [0; 512];
        let got = match socket::receive(call.caller.socket.as_fd(), &mut bytes, false) {
            // A probe, or somebody who died while it called.
            Ok(0) => return false,
            Ok(got) => got,
            Err(error) => return error.would_block(),
        };
        let fed = asked.feed(&self.settings.key, &bytes[..got]);
        while let Some(output) = asked.take_output() {
            call.caller.unsent.extend(output);
        }
        let sent = call.caller.flush().is_ok();
        match fed {
            Err(trouble) => {
                self.refuse(call.from, &trouble.to_string());
                false
            }
            Ok((_, None)) => sent,
            // Whoever asks waits for the answer.
            Ok((used, Some(_))) if used != got => {
                self.refuse(call.from, "it does not wait for its answer");
                false
            }
            Ok((_, Some(wanted))) => self.begin_dial(call, wanted),
        }
    }

    /// Calls of ours that nobody has answered yet: each may be a connection soon.
    fn dialling(&self) -> usize {
        let stages = self.calls.iter().flatten().map(|call| &call.stage);
        stages.filter(|stage| matches!(stage, Stage::Dialling { .. })).count()
    }

    fn begin_dial(&mut self, call: &mut Call, wanted: SocketAddr) -> bool {
        let stage = std::mem::replace(&mut call.stage, Stage::Parting);
        let Stage::Proving(asked) = stage else { return false };
        let answer = if !self.may_call(wanted.ip()) {
            Answer::Forbidden
        } else if self.carrying + self.dialling() >= self.settings.connections {
            Answer::Full
        } else {
            match socket::start_connect(&wanted, false) {
                Ok(callee) => {
                    let _ = socket::tune_tcp(callee.as_fd(), SILENT_MS);
                    call.at_ms = time::now_ms() + DIAL_MS;
                    call.stage = Stage::Dialling { asked, wanted, callee: End::new(callee) };
                    return true;
                }
                Err(Error::System { errno, .. }) => Answer::of_error(errno),
                Err(_) => Answer::Failed,
            }
        };
        self.part(call, asked, &wanted, answer)
    }

    /// Tells a caller what became of its call, when that is nothing.
    fn part(&mut self, call: &mut Call, mut asked: Asked, wanted: &SocketAddr, answer: Answer) -> bool {
        self.counts.failed += 1;
        self.tell(&format!("relay: for {}: {}", call.from, answer.tell(wanted)));
        call.stage = Stage::Parting;
        call.at_ms = time::now_ms() + PROVE_MS;
        let Ok(words) = asked.answer(answer) else { return false };
        call.caller.unsent.extend(words);
        call.caller.flush().is_ok()
    }

    fn dial(&mut self, call: &mut Call) -> bool {
        let Stage::Dialling { callee, .. } = &call.stage else { return false };
        let state = descriptor::poll(&[(callee.socket.as_fd(), true)], 0);
        let errno = socket::pending_error(callee.socket.as_fd()).unwrap_or(libc::EIO);
        let is_up = state.is_ok_and(|state| state[0].writable);
        let is_late = time::now_ms() >= call.at_ms;
        let answer = match (errno, is_up) {
            (0, true) => Answer::Open,
            (0, false) if is_late => Answer::Silent,
            (0, false) => return call.caller.is_there(),
            (errno, _) => Answer::of_error(errno),
        };
        let stage = std::mem::replace(&mut call.stage, Stage::Parting);
        let Stage::Dialling { mut asked, wanted, callee } = stage else { return false };
        if answer != Answer::Open {
            let _ = self.epoll.remove(callee.socket.as_fd());
            return self.part(call, asked, &wanted, answer);
        }
        let Ok(words) = asked.answer(Answer::Open) else { return false };
        call.caller.unsent.extend(words);
        self.carrying += 1;
        self.counts.made += 1;
        call.at_ms = time::now_ms();
        // From now on whoever does not read is slow, and `tend` tells him from one who is gone.
        for end in [&call.caller, &callee] {
            let _ = socket::leave_verdict(end.socket.as_fd(), SILENT_MS);
        }
        let (there, back) = (Pipe::default(), Pipe::default());
        call.stage = Stage::Carrying { wanted, callee, there, back };
        if self.settings.is_verbose {
            (self.say)(&format!("relay: {} begins ({} open)", call, self.carrying));
        }
        true
    }

    fn carry(&mut self, call: &mut Call) -> bool {
        let Stage::Carrying { callee, there, back, .. } = &mut call.stage else { return false };
        if call.caller.flush().is_err() {
            return false;
        }
        if !call.caller.unsent.is_empty() {
            return true;
        }
        let (mut moved, mut turn) = (1, 0);
        while moved > 0 && turn < TURNS {
            let carried = there.carry(&call.caller, callee).and_then(|there| {
                back.carry(callee, &call.caller).map(|back| (there.0 + back.0, there.1 + back.1))
            });
            moved = match carried {
                Ok((moved, carried)) => {
                    self.counts.bytes += carried as u64;
                    moved
                }
                Err(_) => {
                    // As it broke here it breaks there.
                    let _ = socket::reset_on_close(call.caller.socket.as_fd());
                    let _ = socket::reset_on_close(callee.socket.as_fd());
                    return false;
                }
            };
            turn += 1;
        }
        if turn > 1 {
            call.at_ms = time::now_ms();
        }
        !(there.is_shut && back.is_shut)
    }

    /// Lets go of what has taken too long.
    fn tend(&mut self) {
        let now_ms = time::now_ms();
        let looks = now_ms >= self.look_at_ms;
        if looks {
            self.look_at_ms = now_ms + LOOK_MS;
        }
        let idle_ms = self.settings.idle.map(|idle| idle.as_millis() as u64);
        for index in 0..self.calls.len() {
            let Some(call) = &self.calls[index] else { continue };
            let (from, at_ms) = (call.from, call.at_ms);
            match &call.stage {
                Stage::Proving(_) if now_ms >= at_ms => {
                    self.end(index);
                    self.refuse(from, "it did not prove in time that it may ask");
                }
                Stage::Parting if now_ms >= at_ms => self.end(index),
                Stage::Dialling { .. } if now_ms >= at_ms => self.serve(index),
                Stage::Carrying { .. } if idle_ms.is_some_and(|idle_ms| now_ms >= at_ms + idle_ms) => {
                    let text = format!("relay: {call} is closed: nothing went over it (--idle)");
                    (self.say)(&text);
                    self.carrying -= 1;
                    self.end(index);
                }
                Stage::Carrying { callee, .. }
                    if looks && (call.caller.is_silent() || callee.is_silent()) =>
                {
                    let text = format!("relay: {call} is closed: a machine does not answer");
                    (self.say)(&text);
                    self.carrying -= 1;
                    self.end(index);
                }
                _ => {}
            }
        }
        while self.calls.last().is_some_and(Option::is_none) {
            self.calls.pop();
        }
    }

    fn end(&mut self, index: usize) {
        self.calls[index] = None;
    }

    /// Watches the sockets of a connection for what can be done with them.
    fn watch(&mut self, index: usize) {
        let Some(call) = self.calls[index].as_mut() else { return };
        let token = self.listeners.len() as u64 + index as u64 * SIDES;
        let waits = !call.caller.unsent.is_empty();
        let watched = match &mut call.stage {
            Stage::Proving(_) | Stage::Parting => call.caller.watch(&self.epoll, token, (true, waits)),
            Stage::Dialling { callee, .. } => callee
                .watch(&self.epoll, token + 1, (false, true))
                .and_then(|()| call.caller.watch(&self.epoll, token, (true, false))),
            Stage::Carrying { callee, there, back, .. } => {
                let here = (there.has_room(), waits || back.has_bytes());
                let beyond = (back.has_room(), there.has_bytes());
                callee
                    .watch(&self.epoll, token + 1, beyond)
                    .and_then(|()| call.caller.watch(&self.epoll, token, here))
            }
        };
        if let Err(error) = watched {
            if matches!(call.stage, Stage::Carrying { .. }) {
                self.carrying -= 1;
            }
            self.end(index);
            self.tell(&format!("relay: a connection is lost: {error}"));
        }
    }

    /// Whether it calls an address for others.
    fn may_call(&self, ip: IpAddr) -> bool {
        let allowed = &self.settings.allowed;
        if allowed
            .iter()
            .any(|(named, prefix)| *named == ip && *prefix == if ip.is_ipv4() { 32 } else { 128 })
        {
            return true;
        }
        if !allowed.is_empty() && !allowed.iter().any(|network| contains(*network, ip)) {
            return false;
        }
        let is_everybody = match ip {
            IpAddr::V4(v4) => v4.is_broadcast() || v4.is_multicast(),
            IpAddr::V6(v6) => v6.is_multicast() || v6.to_ipv4_mapped().is_some(),
        };
        // What listens on this machine for itself is nobody else's.
        let own = || socket::interface_addresses().map_or(true, |own| own.contains(&ip));
        !(is_everybody || ip.is_loopback() || ip.is_unspecified() || own())
    }

    fn refuse(&mut self, from: SocketAddr, why: &str) {
        self.counts.refused += 1;
        let refused = self.counts.refused;
        self.tell(&format!("relay: refused {from}: {why} ({refused} so far)"));
    }

    /// Says something that may come very often.
    fn tell(&mut self, text: &str) {
        let now_ms = time::now_ms();
        if self.said_ms.is_none_or(|said_ms| now_ms >= said_ms + SAY_MS) || self.settings.is_verbose {
            self.said_ms = Some(now_ms);
            (self.say)(text);
        }
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.stage {
            Stage::Dialling { wanted, .. } | Stage::Carrying { wanted, .. } => {
                write!(f, "{} to {wanted}", self.from)
            }
            _ => write!(f, "{}", self.from),
        }
    }
}

impl End {
    fn new(socket: OwnedFd) -> End {
        End { socket, watched: None, unsent: Vec::new() }
    }

    /// Sends what is left of our own words.
    fn flush(&mut self) -> Result<()> {
        while !self.unsent.is_empty() {
            match socket::send(self.socket.as_fd(), &self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.would_block() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether its machine has not answered for too long.
    fn is_silent(&self) -> bool {
        socket::is_silent(self.socket.as_fd(), SILENT_MS.into())
    }

    /// Whether it has not hung up; it has nothing to say now.
    fn is_there(&self) -> bool {
        socket::receive(self.socket.as_fd(), &mut [0], true).is_err_and(|error| error.would_block())
    }

    /// An end of which nothing is wanted is not watched at all: the system would tell again and again that it has hung up.
    fn watch(&mut self, epoll: &Epoll, token: u64, (readable, writable): (bool, bool)) -> Result<()> {
        let wanted = Some((readable, writable)).filter(|_| readable || writable);
        if wanted == self.watched {
            return Ok(());
        }
        let fd = self.socket.as_fd();
        match (self.watched.is_some(), wanted) {
            (false, Some(_)) => epoll.add_for(fd, token, readable, writable)?,
            (true, Some(_)) => epoll.change_for(fd, token, readable, writable)?,
            (true, None) => epoll.remove(fd)?,
            (false, None) => {}
        }
        self.watched = wanted;
        Ok(())
    }
}

impl Pipe {
    fn has_bytes(&self) -> bool {
        self.start < self.bytes.len()
    }

    /// Whether more is taken from the one side.
    fn has_room(&self) -> bool {
        !self.has_ended && !self.has_bytes()
    }

    /// Carries what can be carried now: bytes taken and given, and those that were given. An end of the one side goes to the other when all
    /// bytes before it have.
    fn carry(&mut self, from: &End, to: &End) -> Result<(usize, usize)> {
        let (mut moved, mut carried) = (0, 0);
        if self.has_room() {
            self.bytes.resize(KEPT_BYTES, 0);
            self.start = 0;
            let got = match socket::receive(from.socket.as_fd(), &mut self.bytes, false) {
                Ok(0) => {
                    self.has_ended = true;
                    0
                }
                Ok(got) => got,
                Err(error) if error.would_block() => 0,
                Err(error) => return Err(error),
            };
            self.bytes.truncate(got);
            moved += got;
        }
        if self.has_bytes() {
            match socket::send(to.socket.as_fd(), &self.bytes[self.start..]) {
                Ok(sent) => {
                    self.start += sent;
                    moved += sent;
                    carried += sent;
                }
                Err(error) if error.would_block() => {}
                Err(error) => return Err(error),
            }
        } else if self.has_ended && !self.is_shut {
            self.is_shut = true;
            socket::end_output(to.socket.as_fd())?;
        }
        if !self.has_bytes() && moved == 0 {
            // A quiet connection keeps no memory.
            self.bytes = Vec::new();
        }
        Ok((moved, carried))
    }
}
