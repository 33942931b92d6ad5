//! The agent of a node as a thread of the first process that came: strangers meet here.
//!
//! It has no children: a rank is known to be gone when its pidfd or its channel says so. Whoever started the processes has the
//! duty to end them; only a rank that the world has given up is killed here, because the others take over what it held. Its
//! stack is small: buffers are on the heap.

use super::greet::{self, Greeting};
use super::returning;
use super::Call;
use crate::agent::channel::{FromAgent, Packet};
use crate::agent::link::Link;
use crate::agent::node::desk::Desk;
use crate::agent::node::port::Port;
use crate::agent::node::seat::{Seat, Standing};
use crate::agent::node::{token, Node};
use crate::agent::protocol::{Launch, ToHub, ToNode};
use crate::auth::{Identity, JobId, Secret};
use crate::environment;
use crate::os::descriptor::{Event, Readiness};
use crate::os::{process, socket, time};
use crate::route::files::Listening;
use crate::route::Route;
use crate::shm::world::Cause;
use crate::terms::Terms;
use crate::wire::Resumption;
use crate::{Error, Result};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const STOP: u64 = 16;
const MEETING: u64 = 17;
/// Handshakes of strangers; looked at together.
const GREETINGS: u64 = 18;
/// The most handshakes at a time.
const MAX_GREETINGS: usize = 64;
/// How often to try to reach the hub, which may not be there yet.
const RETRY_MS: u64 = 10;
/// How often to call it again, when the connection broke.
const RETURN_MS: u64 = 100;
/// How long an agent that has nothing else to do tries.
const RETURN_LIMIT_MS: u64 = 5_000;
/// So often nobody listens where it was before it counts as gone.
const MOST_REFUSED: u32 = 5;

/// The agent before and while it runs.
pub(super) struct HostedAgent {
    rank: u32,
    master: SocketAddr,
    route: Route,
    secret: Secret,
    job: JobId,
    listener: UnixListener,
    /// Kept open for as long as it is watched.
    _stop: Arc<Event>,
    stopped: bool,
    greetings: Vec<Greeting>,
    /// Why the world cannot begin yet, as far as is known.
    waiting: String,
    desk: Desk,
    /// The address by which we reached the hub, and so others reach us.
    own_address: Option<IpAddr>,
    /// What leads others to our port through files.
    ear: Option<Listening>,
    arrivals: Vec<Arrival>,
    /// When the hub is called again, who calls it, and how often nobody listened there.
    return_at_ms: u64,
    calling: Option<Calling>,
    refused: u32,
}

/// A thread that calls the hub: the others are not to wait for that.
type Calling = JoinHandle<Result<Option<(OwnedFd, Resumption)>>>;

/// A stranger that has come before it was known who else would.
struct Arrival {
    rank: u32,
    /// The size of the world, as it knows it.
    ranks: u32,
    channel: OwnedFd,
    pid: Option<u32>,
    pidfd: Option<OwnedFd>,
}

impl Arrival {
    /// Tells it why the world does not begin. It only matters if that never ends, so whoever does not read misses nothing.
    fn tell(&self, why: &str) {
        let _ = socket::send_message(self.channel.as_fd(), &Packet::waiting(why).bytes, &[]);
    }
}

impl HostedAgent {
    pub(super) fn new(call: &Call, listener: UnixListener, stop: Arc<Event>) -> Result<HostedAgent> {
        listener.set_nonblocking(true).map_err(|error| Error::from_io("fcntl", &error))?;
        let desk = Desk::new()?;
        desk.epoll.add(stop.as_fd(), STOP, false)?;
        desk.epoll.add(listener.as_fd(), MEETING, false)?;
        Ok(HostedAgent {
            rank: call.rank,
            master: call.master,
            route: call.route.clone(),
            secret: call.secret.duplicate(),
            job: call.job,
            listener,
            _stop: stop,
            stopped: false,
            greetings: Vec::new(),
            waiting: String::new(),
            desk,
            own_address: None,
            ear: None,
            arrivals: Vec::new(),
            return_at_ms: 0,
            calling: None,
            refused: 0,
        })
    }

    /// Runs until every rank of the node has left or is gone.
    pub(super) fn run(mut self) {
        while !self.is_over() {
            if let Err(error) = self.step() {
                self.give_up(&error.to_string());
            }
        }
        self.finish();
    }

    fn step(&mut self) -> Result<()> {
        self.reach_hub();
        let events = self.desk.wait(self.wake_up_at(), 1_000)?;
        let busy = !events.is_empty();
        for (token, readiness) in events {
            self.handle_event(token, readiness)?;
        }
        self.advance_greetings();
        if self.desk.is_cut_off() && !self.returns() {
            self.desk.link = None;
            self.give_up(&format!("{} is gone", self.hub_name()));
        }
        if self.desk.is_time(busy) {
            self.tick();
        }
        self.desk.conclude(busy);
        Ok(())
    }

    /// Connects to the hub, if it has been reached yet.
    fn reach_hub(&mut self) {
        if self.desk.link.is_some() || self.desk.node.is_some() {
            return;
        }
        match self.call_hub() {
            Ok(()) => self.tell_waiting(String::new()),
            Err(why) => self.tell_waiting(why),
        }
    }

    /// One call to the hub. The error says why it cannot be reached.
    fn call_hub(&mut self) -> std::result::Result<(), String> {
        let master = self.master;
        let stream = self.route.connect(&master).map_err(|error| {
            format!("nobody answers at {master}, where rank 0 should listen (KUMIKI_MASTER, or the portfile): {error}")
        })?;
        let own = socket::own_address(stream.as_fd());
        // Until the launch says what counts for all.
        let _ = Terms::peer_timeout_ms().and_then(|timeout_ms| socket::tune_tcp(stream.as_fd(), timeout_ms));
        let me = Identity { rank: self.rank, incarnation: 0 };
        let greeted = greet::call(stream, self.job, &self.secret, me).map_err(|error| {
            format!(
                "{master} does not take us ({error}); all ranks need the same KUMIKI_SECRET_FILE, and KUMIKI_MASTER written \
                 in the same way"
            )
        })?;
        let link = Link::sealed(greeted.socket, greeted.connection, self.secret.duplicate(), greeted.rest);
        let mut link = link.map_err(|error| error.to_string())?;
        for arrival in &self.arrivals {
            link.send(&ToHub::Arrived { rank: arrival.rank, ranks: arrival.ranks }.encode());
        }
        self.own_address = own;
        self.desk.connect(link).map_err(|error| error.to_string())
    }

    /// The connection to the hub broke. If connections are mended in this job the hub is called again, until it was silent for too long;
    /// whether it may still come to that.
    fn returns(&mut self) -> bool {
        let mends = self.desk.node.as_ref().is_some_and(|node| node.launch.terms.mend_links != 0);
        let Some(ours) = self.desk.link.as_ref().and_then(Link::resumption).filter(|_| mends) else {
            return false;
        };
        self.desk.interrupt();
        if time::now_ms() < self.return_at_ms {
            return true;
        }
        self.return_at_ms = time::now_ms() + RETURN_MS;
        let called = match self.calling.take() {
            None => {
                let (route, hub, job, secret) =
                    (self.route.clone(), self.master, self.job, self.secret.duplicate());
                let me = Identity { rank: self.rank, incarnation: 0 };
                let call = move || returning::call(&route, hub, job, &secret, me, ours);
                self.calling = super::start_thread("kumiki-return", call).ok();
                return true;
            }
            Some(calling) if !calling.is_finished() => {
                self.calling = Some(calling);
                return true;
            }
            Some(calling) => calling.join(),
        };
        match called {
            Ok(Ok(Some((socket, theirs)))) => {
                self.refused = 0;
                return self.desk.resume(socket, theirs).is_ok();
            }
            Ok(Ok(None)) => return false,
            // Where somebody is in between, that is who refuses.
            Ok(Err(Error::System { errno: libc::ECONNREFUSED, .. }))
                if matches!(self.route, Route::Direct) =>
            {
                self.refused += 1;
            }
            _ => self.refused = 0,
        }
        self.refused < MOST_REFUSED
    }

    /// Tells those who have come why the world does not begin, whenever that changes.
    fn tell_waiting(&mut self, why: String) {
        if why != self.waiting {
            self.waiting = why;
            self.arrivals.iter().for_each(|arrival| arrival.tell(&self.waiting));
        }
    }

    fn handle_event(&mut self, token: u64, readiness: Readiness) -> Result<()> {
        let index = token as u32;
        match token {
            STOP => self.stopped = true,
            MEETING => self.accept(),
            GREETINGS | token::LINK_OUT => {}
            token::LINK => self.read_link()?,
            _ => match token & !0xffff_ffff {
                token::CHANNEL => self.read_channel(index, readiness),
                token::PIDFD => self.process_ended(index),
                _ => self.desk.serve_port(token),
            },
        }
        Ok(())
    }

    fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // No descriptors are left, perhaps; without a pause we would be woken at once.
                Err(_) => return std::thread::sleep(Duration::from_millis(RETRY_MS)),
            };
            let ours =
                matches!(socket::peer_credentials(stream.as_fd()), Ok((user, _)) if user == process::user());
            if !ours || self.greetings.len() >= MAX_GREETINGS || self.desk.node.is_some() {
                // With the world complete nobody else belongs to it; who comes early for the next one tries again.
                continue;
            }
            let Ok(greeting) = Greeting::accept(stream.into(), self.job) else { continue };
            if self.desk.epoll.add(greeting.as_fd(), GREETINGS, false).is_ok() {
                self.greetings.push(greeting);
            }
        }
    }

    fn advance_greetings(&mut self) {
        for mut greeting in std::mem::take(&mut self.greetings) {
            match greeting.advance(&self.secret) {
                Ok(false) => self.greetings.push(greeting),
                Ok(true) => {
                    let _ = self.desk.epoll.remove(greeting.as_fd());
                    if let Some(greeted) = greeting.finish() {
                        self.admit(&greeted.socket, greeted.peer);
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// A stranger has proven that it belongs to the job: it gets a line.
    fn admit(&mut self, stream: &OwnedFd, peer: Identity) {
        let Ok((ours, theirs)) = socket::packet_pair() else { return };
        if socket::send_message(stream.as_fd(), &[1], &[theirs.as_fd()]).is_err() {
            return;
        }
        let pid = socket::peer_credentials(stream.as_fd()).ok().map(|(_, pid)| pid).filter(|&pid| pid > 0);
        let pidfd = pid.and_then(|pid| process::open_pidfd(pid).ok());
        if let Some(pidfd) = &pidfd {
            let token = token::PIDFD + self.arrivals.len() as u64;
            let _ = self.desk.epoll.add(pidfd.as_fd(), token, false);
        }
        self.desk.tell(&ToHub::Arrived { rank: peer.rank, ranks: peer.incarnation });
        let pid = pid.map(|pid| pid as u32);
        let _ = crate::os::descriptor::set_nonblocking(ours.as_fd(), true);
        let arrival = Arrival { rank: peer.rank, ranks: peer.incarnation, channel: ours, pid, pidfd };
        arrival.tell(&self.waiting);
        self.arrivals.push(arrival);
    }

    fn read_link(&mut self) -> Result<()> {
        for message in self.desk.hear()? {
            match ToNode::decode(&message)? {
                ToNode::Launch(launch) => self.launch(*launch)?,
                ToNode::Terminate { reason, .. } => self.give_up(&reason),
                ToNode::Waiting { why } => self.tell_waiting(why),
                other => {
                    if let Some(node) = &mut self.desk.node {
                        node.handle_hub(other)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Everybody has come: the strangers take their seats.
    fn launch(&mut self, launch: Launch) -> Result<()> {
        let ip = match (environment::text("KUMIKI_NET")?, self.own_address) {
            // Whoever came through files needs no address.
            (_, None) if self.route.has_files() => Ipv4Addr::LOCALHOST.into(),
            (Some(_), _) => environment::reached_address()?,
            (None, own) => own.ok_or_else(|| Error::Closed("the hub is not connected".into()))?,
        };
        if self.desk.node.is_some() {
            return Ok(());
        }
        if let Some(link) = &self.desk.link {
            socket::tune_tcp(link.input(), launch.terms.peer_timeout_ms)?;
        }
        let port = Port::bind(ip, token::PORT, token::STRANGER)?;
        let (address, ear) = self.route.announce(port.address())?;
        self.ear = ear;
        let mut node = Node::new(launch, self.secret.duplicate(), self.desk.epoll.clone(), port)?;
        for arrival in self.arrivals.drain(..) {
            node.add_seat(arrival.rank, arrival.channel)?;
            if let Some(seat) = node.seats.last_mut() {
                (seat.known_pid, seat.pidfd) = (arrival.pid, arrival.pidfd);
            }
        }
        node.outbox.push(ToHub::Prepared { address });
        self.desk.node = Some(node);
        Ok(())
    }

    fn read_channel(&mut self, local: u32, readiness: Readiness) {
        let Some(node) = &mut self.desk.node else { return };
        if readiness.writable {
            node.flush_rank(local);
        }
        if (readiness.readable || readiness.hung_up) && !node.receive_rank(local) {
            self.seat_empty(local, Cause::DISCONNECTED);
        }
    }

    fn process_ended(&mut self, local: u32) {
        match &mut self.desk.node {
            None => {
                let Some(arrival) = self.arrivals.get_mut(local as usize) else { return };
                if arrival.pidfd.take().is_some() {
                    let message = format!("rank {} ended before everybody had come", arrival.rank);
                    self.desk.tell(&ToHub::Failed { code: 1, message: message.clone() });
                    self.give_up(&message);
                }
            }
            Some(node) => {
                node.receive_rank(local);
                node.seats[local as usize].pidfd = None;
                self.seat_empty(local, Cause::EXITED);
            }
        }
    }

    /// A rank is gone. If it had not left, the others must know.
    fn seat_empty(&mut self, local: u32, cause: Cause) {
        let Some(node) = &mut self.desk.node else { return };
        let seat = &mut node.seats[local as usize];
        if matches!(seat.standing, Standing::Left | Standing::Lost) {
            return;
        }
        if seat.is_killed && seat.pidfd.is_some() {
            // Its channel closes a moment before it is gone, and nobody may take over before.
            return;
        }
        let cause = seat.given_up.unwrap_or(cause);
        if cause == Cause::DISCONNECTED {
            // It has let go of the world without a word, but may have more to do: it is not killed for that.
            seat.pidfd = None;
        }
        // Before the ranks here learn of it, and perhaps end for it: the process that we are a thread of may be the first.
        // What it said itself comes first.
        if let Some(link) = &mut self.desk.link {
            node.outbox.drain(..).for_each(|message| link.send(&message.encode()));
            link.send(&ToHub::Lost { local, cause }.encode());
        }
        if seat.standing == Standing::Out {
            seat.standing = Standing::Lost;
        }
        node.rank_gone(local, cause, None);
    }

    /// The job cannot go on: whoever waits here is told.
    fn give_up(&mut self, why: &str) {
        match &mut self.desk.node {
            Some(node) => {
                node.announce_end(why);
                let _ = node.handle_hub(ToNode::Refuse { why: why.into() });
            }
            // Without a node the strangers only have their lines, and those close with us.
            None => {
                refuse_arrivals(&mut self.arrivals, why);
                self.stopped = true;
            }
        }
        self.desk.settle();
    }

    fn wake_up_at(&self) -> u64 {
        if self.desk.link.is_none() && self.desk.node.is_none() {
            return time::now_ms() + RETRY_MS;
        }
        let greeting = if self.greetings.is_empty() { u64::MAX } else { time::now_ms() + 100 };
        let back = if self.desk.is_cut_off() { self.return_at_ms } else { u64::MAX };
        self.desk.wake_up_at().min(greeting).min(back)
    }

    fn tick(&mut self) {
        let now_ms = time::now_ms();
        let Some(tick) = self.desk.tick(now_ms) else { return };
        if let Some(node) = self.desk.node.as_mut().filter(|_| tick.beat) {
            check_stopped(node, now_ms, if tick.slept { 0 } else { tick.timeout_ms });
        }
        if self.desk.link.is_some() && now_ms >= self.desk.heard_ms + tick.timeout_ms {
            self.desk.link = None;
            self.give_up(&format!("{} does not answer", self.hub_name()));
        }
    }

    /// Who is missed when the hub is.
    fn hub_name(&self) -> String {
        let between = self.route.relay().map(|name| format!(", or the relay {name} on the way there,"));
        format!("the process of rank 0, which holds the job together{}", between.unwrap_or(",".into()))
    }

    fn is_over(&self) -> bool {
        let empty = |standing| matches!(standing, Standing::Left | Standing::Lost);
        let refused = |node: &Node| node.is_refused() && node.seats.iter().all(|seat| seat.channel.is_none());
        self.stopped
            || self
                .desk
                .node
                .as_ref()
                .is_some_and(|node| refused(node) || node.seats.iter().all(|seat| empty(seat.standing)))
    }

    fn finish(&mut self) {
        self.desk.settle();
        self.desk.tell(&ToHub::Done);
        // What the ranks here have said last is said, if the hub can be reached again in time: they have left, and are not lost.
        let return_ms = time::now_ms() + RETURN_LIMIT_MS;
        while self.desk.is_cut_off() && time::now_ms() < return_ms && self.returns() {
            // Nobody else is served any more: what waits at the desk would wake us at once, again and again.
            let pause_ms = self.return_at_ms.saturating_sub(time::now_ms()).min(RETURN_MS);
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
        let limit_ms = time::now_ms() + 1_000;
        while let Some(link) =
            self.desk.link.as_mut().filter(|link| link.backlog_bytes() > 0 && !link.is_ended())
        {
            if time::now_ms() >= limit_ms {
                break;
            }
            let _ = crate::os::descriptor::poll(&[(link.output(), true)], 100);
            link.flush();
        }
    }
}

/// Ends ranks that have been stopped for longer than the timeout; without one, starts to count anew, for we were stopped too. We
/// are not their parent, and have to look.
fn check_stopped(node: &mut Node, now_ms: u64, timeout_ms: u64) {
    for local in 0..node.seats.len() as u32 {
        let seat = &mut node.seats[local as usize];
        let is_in = matches!(seat.standing, Standing::In | Standing::Pending);
        if !is_in || seat.given_up.is_some() || !seat.known_pid.is_some_and(process::is_stopped) {
            seat.stopped_ms = None;
            continue;
        }
        let since_ms = *seat.stopped_ms.get_or_insert(now_ms);
        if timeout_ms == 0 {
            seat.stopped_ms = Some(now_ms);
        } else if now_ms >= since_ms + timeout_ms {
            node.end_process(local, Some(Cause::STOPPED));
        }
    }
}

fn refuse_arrivals(arrivals: &mut Vec<Arrival>, why: &str) {
    for arrival in arrivals.drain(..) {
        let mut seat = Seat::new(arrival.rank, Some(arrival.channel));
        seat.send(FromAgent::Refused { why: why.into() });
    }
}
