//! What every agent does, whether a process of its own or a thread of the first rank of a node: it makes the
//! arena, welcomes ranks, announces losses, and passes sockets on. It never blocks and is never on the data path.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the state of a node, and what ranks and the hub make of it |
//! | `seat.rs` | what an agent knows of one local rank |
//! | `port.rs` | the node's listening port: strangers out, sockets to their ranks |
//! | `desk.rs` | the line to the hub, the beats and the rounds of an agent, of either kind |
//! | `process/` | the agent as a process of its own, the parent of its ranks |

pub(super) mod desk;
pub(super) mod port;
pub mod process;
pub(super) mod seat;

use super::report;
use super::talk::channel::{FromAgent, ToAgent, MAX_PACKET_BYTES};
use super::talk::protocol::{Launch, Table, ToHub, ToNode, Wait};
use crate::auth::{self, Hello, JobId, Purpose, Refusal, Secret};
use crate::os::descriptor::{self, Epoll};
use crate::os::process::{open_pidfd, signal_pidfd};
use crate::os::{futex, memory, socket, time};
use crate::shm::arena::{Arena, Config, Phase};
use crate::shm::control::{Activity, NOBODY};
use crate::shm::world::{Cause, Place, Status};
use crate::{Error, Rank, Result};
use port::Port;
use seat::{Seat, Standing};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Tokens of the descriptors that an agent watches; the low half is an index.
pub(super) mod token {
    pub(crate) const LINK: u64 = 0;
    pub(crate) const LINK_OUT: u64 = 1;
    pub(crate) const SIGNALS: u64 = 2;
    pub(crate) const PORT: u64 = 3;
    pub(crate) const INPUT: u64 = 4;
    pub(crate) const CHANNEL: u64 = 1 << 32;
    pub(crate) const PIDFD: u64 = 2 << 32;
    pub(crate) const OUTPUT: u64 = 3 << 32;
    pub(crate) const ERROR: u64 = 4 << 32;
    pub(crate) const STRANGER: u64 = 8 << 32;
}

/// How long a killed process may take to be gone before others take over what it held.
const FENCE_MS: i32 = 100;

/// The state of a node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) launch: Launch,
    secret: Secret,
    /// The same for the ranks, in a memfd that cannot be changed.
    secret_file: OwnedFd,
    pub(super) epoll: Arc<Epoll>,
    pub(super) seats: Vec<Seat>,
    pub(super) port: Port,
    arena: Option<Arena>,
    refused: Option<String>,
    /// Something has changed that sleeping ranks must look at.
    changed: bool,
    /// The hub knows what the ranks were waiting for when the first was lost.
    waits_reported: bool,
    /// Messages for the hub.
    pub(super) outbox: Vec<ToHub>,
    /// Ranks of which the hub wants to know all that has happened.
    probes: Vec<Rank>,
}

impl Node {
    pub(super) fn new(launch: Launch, secret: Secret, epoll: Arc<Epoll>, port: Port) -> Result<Node> {
        port.watch(&epoll)?;
        Ok(Node {
            secret_file: memory::seal_bytes(c"kumiki-secret", secret.expose())?,
            secret,
            launch,
            epoll,
            seats: Vec::new(),
            port,
            arena: None,
            refused: None,
            changed: false,
            waits_reported: false,
            outbox: Vec::new(),
            probes: Vec::new(),
        })
    }

    /// Adds a local rank, with the agent's end of its channel.
    pub(super) fn add_seat(&mut self, rank: u32, channel: OwnedFd) -> Result<()> {
        let token = token::CHANNEL + self.seats.len() as u64;
        crate::os::descriptor::set_nonblocking(channel.as_fd(), true)?;
        self.epoll.add(channel.as_fd(), token, false)?;
        self.seats.push(Seat::new(rank, Some(channel)));
        Ok(())
    }

    /// A message of the hub that is about the world; others are for the owner of the node.
    pub(super) fn handle_hub(&mut self, message: ToNode) -> Result<()> {
        match message {
            ToNode::Begin(table) => self.begin(&table)?,
            ToNode::Ready => self.ready(),
            ToNode::Refuse { why } => self.refuse(why),
            ToNode::Loss { rank, cause } => self.apply_loss(rank, cause),
            ToNode::Leave(leaves) => {
                for (rank, barriers) in leaves.iter(self.launch.ranks) {
                    self.set_left(rank, barriers);
                }
            }
            ToNode::ResetPrepare(table) => self.reset_prepare(&table)?,
            ToNode::ResetGo => self.reset_go(),
            ToNode::ResetRefused { why } => self.each_present(|seat| {
                seat.send(FromAgent::ResetRefused { why: why.clone() });
            }),
            ToNode::Describe => self.report_waits(),
            ToNode::Probe { rank } => self.probes.push(rank),
            ToNode::Fence { rank } => self.fence(rank),
            _ => {}
        }
        Ok(())
    }

    /// Answers the hub's questions after ranks. To be called when nothing has happened that is not dealt with: the end of a
    /// process may have been announced together with the question.
    pub(super) fn answer_probes(&mut self) {
        self.outbox.extend(self.probes.drain(..).map(|rank| ToHub::Probed { rank }));
    }

    /// Whether the hub waits for [`answer_probes`](Self::answer_probes).
    pub(super) fn is_probed(&self) -> bool {
        !self.probes.is_empty()
    }

    /// Whether nobody can join any more.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Handles what a rank has sent. Returns false when the other end of its channel is closed.
    pub(super) fn receive_rank(&mut self, local: u32) -> bool {
        let mut buffer = [0; MAX_PACKET_BYTES];
        loop {
            let Some(channel) = self.seats[local as usize].channel.as_ref() else { return false };
            match socket::receive_message(channel.as_fd(), &mut buffer, false) {
                Ok((0, _)) => break,
                Ok((length, _)) => match ToAgent::decode(&buffer[..length]) {
                    Ok(message) => self.handle(local, message),
                    Err(error) => {
                        report::print(&format!("rank {}: {error}", self.seats[local as usize].rank))
                    }
                },
                Err(error) if error.would_block() => return true,
                // The other end closed with packets unread. That is reported once; what it sent can still be read.
                Err(Error::System { errno: libc::ECONNRESET, .. }) => {}
                Err(_) => break,
            }
        }
        if let Some(channel) = self.seats[local as usize].channel.take() {
            let _ = self.epoll.remove(channel.as_fd());
        }
        false
    }

    /// Sends what waits for a rank, and keeps its descriptor watched for room while something does.
    pub(super) fn flush_rank(&mut self, local: u32) {
        let seat = &mut self.seats[local as usize];
        seat.flush();
        if let Some(channel) = &seat.channel {
            let _ = self.epoll.change(channel.as_fd(), token::CHANNEL + local as u64, seat.has_backlog());
        }
    }

    /// A rank is gone. If it was in the world, it is lost, and `news` tells the hub so: before what the others wait
    /// for, which is only worth something to a hub that knows.
    pub(super) fn rank_gone(&mut self, local: u32, cause: Cause, news: Option<ToHub>) -> bool {
        let Seat { standing, rank, .. } = self.seats[local as usize];
        if !matches!(standing, Standing::In | Standing::Pending) {
            return false;
        }
        self.outbox.extend(news);
        self.report_waits_at_loss();
        let rank = Rank(rank);
        // Whoever counts as lost must not come back: others take over what it held.
        await_end(&self.seats[local as usize]);
        self.set_status(rank, Status::Lost, cause);
        self.seats[local as usize].standing = Standing::Lost;
        self.seats[local as usize].pidfd = None;
        true
    }

    /// The world gives up a rank. When it has ended, the hub is told as it is of any other.
    fn fence(&mut self, rank: Rank) {
        let Some(local) = self.seats.iter().position(|seat| seat.rank == rank.0) else { return };
        if self.seats[local].can_be_given_up() {
            self.end_process(local as u32, None);
        }
    }

    /// Ends the process of a rank that must not come back, for a reason of ours if there is one; its end is noticed as any other.
    /// Where that is not allowed, the hub is told.
    pub(super) fn end_process(&mut self, local: u32, cause: Option<Cause>) {
        let seat = &mut self.seats[local as usize];
        seat.given_up = seat.given_up.or(cause);
        match kill(seat) {
            Ok(()) => seat.is_killed = true,
            Err(why) => self.outbox.push(ToHub::Unfenced { local, why }),
        }
    }

    /// A connection that asks for one of the ranks here.
    pub(super) fn pass_socket(&mut self, hello: Hello, socket: OwnedFd) {
        let place = self.arena.as_ref().and_then(|arena| arena.place(Rank(hello.to))).map(|word| word.load());
        let local = place.filter(|place| place.node == self.launch.node).map(|place| place.local);
        let seat = local.and_then(|local| self.seats.get_mut(local as usize));
        let refusal = match seat.filter(|seat| seat.rank == hello.to) {
            _ if !hello.purpose.is_data() => Refusal::Purpose { theirs: hello.purpose, ours: Purpose::Data },
            None => Refusal::Target { asked: hello.to, ours: self.seats.first().map_or(0, |seat| seat.rank) },
            Some(seat) => {
                if seat.standing == Standing::In {
                    seat.send(FromAgent::Socket(socket));
                }
                if seat.has_backlog() {
                    self.flush_rank(local.unwrap_or_default());
                }
                return;
            }
        };
        if let Some(answer) = auth::refused_record(&refusal) {
            let _ = socket::send(socket.as_fd(), &answer);
        }
    }

    /// The job's secret and number, which a HELLO must match.
    pub(super) fn examine(&mut self, token: u64) -> Option<(Hello, OwnedFd)> {
        let job = JobId(self.launch.job);
        self.port.examine(&self.epoll, token, (&self.secret, job), time::now_ms())
    }

    /// Lets the ranks know that the job ends, and why.
    pub(super) fn announce_end(&mut self, reason: &str) {
        self.refused.get_or_insert_with(|| format!("the job is ending: {reason}"));
        if let Some(arena) = &self.arena {
            arena.shared().set_reason(reason);
            arena.shared().set_phase(Phase::Aborting);
            self.changed = true;
        }
    }

    /// Wakes every rank that must look at what has changed; once for all changes since the last call.
    pub(super) fn settle(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let Some(arena) = &self.arena else { return };
        for seat in self.seats.iter_mut().filter(|seat| seat.standing == Standing::In) {
            seat.notice();
        }
        let shared = arena.shared();
        futex::wake_all(shared.barrier.sleep_word());
        futex::wake_all(shared.barrier.gathered_word());
        futex::wake_all(shared.phase_word());
        futex::wake_all(shared.incarnation_word());
    }

    /// What each rank of the node is doing.
    pub(super) fn waits(&self) -> Vec<Wait> {
        let now_ms = time::now_ms();
        (0..self.seats.len() as u32).map(|local| self.wait_of(local, now_ms)).collect()
    }

    fn wait_of(&self, local: u32, now_ms: u64) -> Wait {
        let text = |doing: &str| Wait { local, doing: doing.into(), peer: None, for_ms: 0 };
        let control = self.arena.as_ref().and_then(|arena| arena.control(local));
        match (self.seats[local as usize].standing, control) {
            (Standing::Out, _) => text("has not joined the world"),
            (Standing::Pending, _) | (_, None) => text("waits for the world to begin"),
            (Standing::Left, _) => text("has finalized"),
            (Standing::Lost, _) => text("is lost"),
            (Standing::In, Some(control)) => match control.waiting() {
                (Activity::Computing, _, _) => text("computes"),
                (activity, peer, since_ms) => Wait {
                    local,
                    doing: activity.to_string(),
                    peer: (peer != NOBODY && peer < self.launch.ranks).then_some(Rank(peer)),
                    for_ms: now_ms.saturating_sub(since_ms).max(1),
                },
            },
        }
    }

    /// A loss changes what ranks wait for, so the hub is told before it is known here. Only the first ends a job, and where
    /// losses do not, nobody has asked.
    fn report_waits_at_loss(&mut self) {
        if !self.launch.terms.continues_on_loss() && !std::mem::replace(&mut self.waits_reported, true) {
            self.report_waits();
        }
    }

    fn report_waits(&mut self) {
        let waits = self.waits();
        self.outbox.push(ToHub::Waits { waits });
    }

    fn handle(&mut self, local: u32, message: ToAgent) {
        match message {
            ToAgent::Attach { pid } => self.attach(local, pid),
            ToAgent::Leave => self.leave(local),
            ToAgent::Abort { code, message } => self.outbox.push(ToHub::Abort { local, code, message }),
            ToAgent::Reset { new_rank } => self.outbox.push(ToHub::Reset { local, new_rank }),
            ToAgent::ReportLost { rank, cause } => {
                self.outbox.push(ToHub::Unreachable { local, rank, cause });
            }
        }
    }

    fn attach(&mut self, local: u32, pid: u32) {
        let seat = &mut self.seats[local as usize];
        if matches!(seat.standing, Standing::In | Standing::Pending) {
            return seat.send(FromAgent::Refused { why: format!("rank {} has joined already", seat.rank) });
        }
        if let Some(why) = &self.refused {
            return seat.send(FromAgent::Refused { why: why.clone() });
        }
        let first = seat.standing == Standing::Out;
        seat.pid = seat.known_pid.unwrap_or(pid);
        seat.standing = Standing::Pending;
        self.watch_process(local);
        self.outbox.push(ToHub::Attached { local });
        // A rank that has left waits for the next round.
        if first && self.arena.is_some() {
            self.welcome(local);
        }
    }

    /// Watches the process that joined, which need not be the one that was started.
    fn watch_process(&mut self, local: u32) {
        let seat = &mut self.seats[local as usize];
        if seat.pidfd.is_some() {
            return;
        }
        if let Ok(pidfd) = open_pidfd(seat.pid as i32) {
            if self.epoll.add(pidfd.as_fd(), token::PIDFD + local as u64, false).is_ok() {
                seat.pidfd = Some(pidfd);
            }
        }
    }

    fn welcome(&mut self, local: u32) {
        let Some(arena) = &self.arena else { return };
        let seat = &mut self.seats[local as usize];
        let rank = Rank(seat.rank);
        let control = arena.control(local);
        if let (Some(control), Some(place)) = (control, arena.place(rank)) {
            control.pid.store(seat.pid, Ordering::Relaxed);
            if place.load().status == Status::Expected {
                place.set_status(Status::Alive, Cause::UNKNOWN, arena.changes());
            }
        }
        seat.standing = Standing::In;
        let job = JobId(self.launch.job);
        let secret = memory::duplicate(self.secret_file.as_fd());
        match memory::duplicate(arena.descriptor()).and_then(|arena| Ok((arena, secret?))) {
            Ok((arena, secret)) => seat.send(FromAgent::Welcome { arena, rank, local, job, secret }),
            Err(error) => seat.send(FromAgent::Refused { why: error.to_string() }),
        }
        self.watch_backlogs();
    }

    fn leave(&mut self, local: u32) {
        let seat = &mut self.seats[local as usize];
        if seat.standing != Standing::In {
            return;
        }
        (seat.standing, seat.has_left) = (Standing::Left, true);
        if let Some(pidfd) = seat.pidfd.take() {
            let _ = self.epoll.remove(pidfd.as_fd());
        }
        let rank = Rank(seat.rank);
        let control = self.arena.as_ref().and_then(|arena| arena.control(local));
        let barriers = control.map_or(0, |control| control.barriers.load(Ordering::Relaxed));
        self.outbox.push(ToHub::Left { local, barriers });
        self.set_status(rank, Status::Left, Cause::left_after(barriers));
    }

    /// A rank of another node has finalized. Of our own we knew it first, and they may be about to join again.
    fn set_left(&mut self, rank: Rank, barriers: u32) {
        let place = self.arena.as_ref().and_then(|arena| arena.place(rank)).map(|word| word.load());
        if place.is_some_and(|place| place.node != self.launch.node) {
            self.set_status(rank, Status::Left, Cause::left_after(barriers));
        }
    }

    fn begin(&mut self, table: &Table) -> Result<()> {
        self.seats.iter_mut().for_each(|seat| seat.has_left = false);
        let launch = &self.launch;
        let arena = Arena::create(Config {
            job: launch.job,
            ranks: launch.ranks,
            nodes: launch.nodes,
            node: launch.node,
            local_ranks: self.seats.len() as u32,
            machine_ranks: launch.machine_ranks,
            machine_cores: crate::os::process::cores(),
            terms: launch.terms,
        })?;
        for (node, address) in table.addresses.iter().enumerate() {
            if let Some(word) = arena.node(node as u32) {
                word.store(*address);
            }
        }
        write_places(&arena, table, Status::Expected);
        (0..self.seats.len() as u32).try_for_each(|local| arena.prepare_rank(local))?;
        self.arena = Some(arena);
        for local in 0..self.seats.len() as u32 {
            match self.seats[local as usize].standing {
                Standing::Pending => self.welcome(local),
                Standing::Lost => {}
                _ => self.seats[local as usize].standing = Standing::Out,
            }
        }
        Ok(())
    }

    fn ready(&mut self) {
        let Some(arena) = &self.arena else { return };
        for rank in 0..self.launch.ranks {
            if let Some(place) = arena.place(Rank(rank)) {
                if place.load().status == Status::Expected {
                    place.set_status(Status::Alive, Cause::UNKNOWN, arena.changes());
                }
            }
        }
        arena.shared().set_phase(Phase::Ready);
    }

    fn refuse(&mut self, why: String) {
        for seat in self.seats.iter_mut().filter(|seat| seat.standing == Standing::Pending) {
            seat.standing = Standing::Out;
            seat.send(FromAgent::Refused { why: why.clone() });
        }
        self.refused = Some(why);
    }

    fn apply_loss(&mut self, rank: Rank, cause: Cause) {
        self.report_waits_at_loss();
        if let Some(seat) = self.seats.iter().find(|seat| seat.rank == rank.0) {
            await_end(seat);
        }
        self.set_status(rank, Status::Lost, cause);
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.rank == rank.0) {
            seat.standing = Standing::Lost;
        }
    }

    fn set_status(&mut self, rank: Rank, status: Status, cause: Cause) {
        let Some(arena) = &self.arena else { return };
        let Some(word) = arena.place(rank) else { return };
        let place = word.load();
        if place.status == Status::Lost {
            return;
        }
        word.set_status(status, cause, arena.changes());
        if status == Status::Lost && place.node == self.launch.node {
            if let Some(control) = arena.control(place.local) {
                control.hazards.clear();
                // Writers need not look for it.
                control.bell.withdraw(&arena.shared().signs.listeners);
            }
        }
        arena.shared().announce_loss(rank, status == Status::Lost);
        self.changed = true;
    }

    fn reset_prepare(&mut self, table: &Table) -> Result<()> {
        let Some(arena) = &self.arena else { return Ok(()) };
        for (rank, &(node, local)) in table.places.iter().enumerate() {
            if node == self.launch.node {
                let seat = self.seats.get_mut(local as usize);
                let seat = seat.ok_or_else(|| Error::Refused(format!("there is no local rank {local}")))?;
                seat.rank = rank as u32;
            }
        }
        write_places(arena, table, Status::Alive);
        arena.clear()?;
        for (local, seat) in self.seats.iter().enumerate() {
            arena.prepare_rank(local as u32)?;
            if let Some(control) = arena.control(local as u32) {
                control.pid.store(seat.pid, Ordering::Relaxed);
            }
        }
        self.outbox.push(ToHub::ResetPrepared);
        Ok(())
    }

    fn reset_go(&mut self) {
        if let Some(arena) = &self.arena {
            arena.shared().next_incarnation();
        }
        self.each_present(|seat| seat.send(FromAgent::ResetDone { rank: Rank(seat.rank) }));
    }

    fn each_present(&mut self, then: impl Fn(&mut Seat)) {
        self.seats.iter_mut().filter(|seat| seat.standing == Standing::In).for_each(then);
        self.watch_backlogs();
    }

    fn watch_backlogs(&mut self) {
        for local in 0..self.seats.len() as u32 {
            if self.seats[local as usize].has_backlog() {
                self.flush_rank(local);
            }
        }
    }
}

/// Kills the process that joined as this rank, if it still runs.
fn kill(seat: &Seat) -> std::result::Result<(), String> {
    let pidfd = seat.pidfd.as_ref().ok_or("its process cannot be seen from here")?;
    signal_pidfd(pidfd.as_fd(), libc::SIGKILL).map_err(|error| error.to_string())
}

/// The same, and waits a moment until it is gone.
fn await_end(seat: &Seat) {
    if let (Ok(()), Some(pidfd)) = (kill(seat), &seat.pidfd) {
        let _ = descriptor::poll(&[(pidfd.as_fd(), false)], FENCE_MS);
    }
}

fn write_places(arena: &Arena, table: &Table, status: Status) {
    for (rank, &(node, local)) in table.places.iter().enumerate() {
        if let Some(word) = arena.place(Rank(rank as u32)) {
            word.store(Place { node, local, status, cause: Cause::UNKNOWN }, arena.changes());
        }
        if let Some(word) = arena.node(node).filter(|_| local == 0) {
            word.set_leader(Rank(rank as u32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::Terms;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    #[test]
    fn a_fence_that_crossed_a_leave_killed_a_rank_that_had_asked_to_join_again() {
        let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let port = Port::bind(home, token::PORT, token::STRANGER).unwrap();
        let launch =
            Launch { nodes: 1, ranks: 1, here: vec![0], ..Launch::of_strangers(1, Terms::default()) };
        let mut node =
            Node::new(launch, Secret::from_bytes([7; 32]), Epoll::new().unwrap().into(), port).unwrap();
        let (ours, _theirs) = socket::packet_pair().unwrap();
        node.add_seat(0, ours).unwrap();
        let table = Table { places: vec![(0, 0)], addresses: vec![SocketAddr::from((home, 1))] };
        // A process that cannot be seen from here: whether it is to be killed shows in a complaint to the hub.
        let join = |node: &mut Node| node.handle(0, ToAgent::Attach { pid: 0 });
        let is_killed = |node: &mut Node| {
            node.outbox.clear();
            node.handle_hub(ToNode::Fence { rank: Rank(0) }).unwrap();
            matches!(node.outbox[..], [ToHub::Unfenced { .. }])
        };
        join(&mut node);
        node.handle_hub(ToNode::Begin(table.clone())).unwrap();
        assert!(is_killed(&mut node), "in the first round");
        node.handle(0, ToAgent::Leave);
        join(&mut node);
        assert!(!is_killed(&mut node), "the hub did not know that it had left");
        node.handle_hub(ToNode::Begin(table)).unwrap();
        assert!(is_killed(&mut node), "in the next round");
    }
}
