//! Ranks that no launcher of ours started: how they find each other.
//!
//! The processes of a node meet at an abstract Unix socket whose name only those who know the secret can compute;
//! it has no file and goes with its process. Whoever binds it first hosts the agent of the node in a thread. The
//! process of rank 0 hosts the hub of the job, at the address in `KUMIKI_MASTER`. Parts of one job that several launchers
//! start have a portfile instead, and perhaps a hub that is there already.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | what a stranger knows of its job, and how it meets the others |
//! | `agent.rs` | the agent as a thread of the first stranger of a node |
//! | `hub.rs` | the hub of strangers, as a thread of the process of rank 0 |
//! | `host.rs` | both in a process of their own, where programs join |
//! | `greet.rs` | the handshake of control connections |
//! | `returning.rs` | an agent whose connection to the hub broke, and who comes back |
//! | `meeting.rs` | the hub in a process that starts several launchers |
//! | `portfile.rs` | the file in which the parts of a job find each other |
//! | `blocks/` | programs that do not know how many processes the others have |

mod agent;
pub mod blocks;
mod greet;
pub mod host;
mod hub;
pub mod meeting;
pub mod portfile;
mod returning;

use crate::agent::channel::Channel;

use crate::auth::{Identity, JobId, Secret};
use crate::environment;
use crate::os::descriptor::Event;
use crate::os::file::read_private;
use crate::os::{mpi, process, random_bytes, socket, taken, time};
use crate::route::files::{Listening, Target};
use crate::route::Route;
use crate::terms::Terms;
use crate::{Error, Result};
use agent::HostedAgent;
use host::{Host, Role};
pub(in crate::agent) use hub::{Gathering, HostedHub};
use portfile::{Part, Portfile};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Enough for loops that keep their buffers small.
const STACK_BYTES: usize = 128 << 10;
/// How long to wait before the next try to meet.
const RETRY_MS: u64 = 5;
/// How long the end of a process may take to show.
const ENDING_MS: i32 = 200;
/// What is told by MPI: bytes of a secret, and of an address.
const KEY_BYTES: usize = 32;
const MASTER_BYTES: usize = 96;
/// The longest file of a secret.
const SECRET_FILE_BYTES: u64 = 1 << 20;

/// What a stranger knows of its job.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) master: SocketAddr,
    pub(super) secret: Secret,
    pub(super) job: JobId,
    /// Whether the hub is there already; otherwise rank 0 hosts it…
    pub(super) hub_apart: bool,
    /// …and listens here, if it does not have to bind the master's address.
    pub(super) hub: Option<TcpListener>,
    /// Whether this is a world of several programs: what one of them loses does not end the others.
    pub(super) joins_programs: bool,
    /// Starter memory of each rank, if this process decides.
    pub(super) starter_bytes: u64,
    pub(super) meeting_point: [u8; 32],
    /// The way to other machines.
    pub(super) route: Route,
    /// Where the hub is found in files, if it is hosted here and there are such.
    pub(super) hub_in_files: Option<SocketAddr>,
}

/// The threads that this process runs for others. They end by themselves once nobody needs them.
#[derive(Debug)]
pub(super) struct Hosted {
    stop: Arc<Event>,
    hub: Option<Running>,
    agent: Option<Running>,
    /// The roll call of the blocks, what ends it, and what leads there through files.
    roll: Option<(JoinHandle<()>, Arc<Event>, Option<Listening>)>,
    /// The way to other machines.
    route: Route,
}

/// Something that this process does for others, in a thread or in a process that it has started.
#[derive(Debug)]
enum Running {
    Thread(JoinHandle<()>),
    Process(Host),
}

impl Running {
    fn is_running(&self) -> bool {
        match self {
            Running::Thread(thread) => !thread.is_finished(),
            Running::Process(host) => host.is_running(),
        }
    }
}

/// The part of a job that the environment says this process belongs to.
pub(super) fn part_from_environment() -> Result<Option<Part>> {
    let Some(portfile) = environment::text("KUMIKI_PORTFILE")? else { return Ok(None) };
    Ok(Some(Part { portfile, offset: environment::number("KUMIKI_OFFSET_RANK")?.unwrap_or(0) }))
}

/// As a rank of one part of a job.
pub(super) fn call_of_part(part: &Part, starter_bytes: u64) -> Result<Call> {
    let file = Portfile::read(&part.portfile)?;
    // A process that no launcher has counted is the only one of its part.
    let index = foreign_place()?.map_or(0, |(_, rank, _)| rank);
    let rank = part.offset.checked_add(index).filter(|&rank| rank < file.ranks).ok_or_else(|| {
        let Portfile { ranks, .. } = file;
        Error::Misuse(format!(
            "rank {} + {index} cannot be: by {} all parts together have {ranks} ranks",
            part.offset, part.portfile
        ))
    })?;
    call((rank, file.ranks), &file.master, file.key(), file.hub_apart, starter_bytes)
}

/// What the environment says, `None` if this process is alone.
pub(super) fn call_from_environment(starter_bytes: u64) -> Result<Option<Call>> {
    let Some(master) = environment::text("KUMIKI_MASTER")? else {
        if let Some(call) = call_by_mpi(starter_bytes)? {
            return Ok(Some(call));
        }
        return match foreign_place()? {
            Some((source, _, ranks)) if ranks > 1 => Err(Error::Refused(format!(
                "{source} says that this process is one of {ranks}, but not how to meet the others: set \
                 KUMIKI_MASTER=host:port (where rank 0 shall listen) and KUMIKI_SECRET_FILE, or use `kumiki run`"
            ))),
            _ => Ok(None),
        };
    };
    let Some((_, rank, ranks)) = foreign_place()? else {
        return Err(Error::Refused(
            "KUMIKI_MASTER is set, but not which rank this is: set KUMIKI_RANK and KUMIKI_RANKS".into(),
        ));
    };
    if ranks == 0 || rank >= ranks {
        return Err(Error::Misuse(format!("rank {rank} of {ranks} cannot be: ranks go from 0 to one less")));
    }
    let Some(path) = environment::text("KUMIKI_SECRET_FILE")? else {
        return Err(Error::Refused(
            "KUMIKI_MASTER is set, but not KUMIKI_SECRET_FILE: make one with \
             `(umask 077; head -c 32 /dev/urandom > secret)` and give every rank a copy"
                .into(),
        ));
    };
    call((rank, ranks), &master, read_secret(&path)?, false, starter_bytes).map(Some)
}

/// What the first process says where an MPI runs: where all meet, and a secret that nobody else knows. `None` if none runs, or only here.
fn call_by_mpi(starter_bytes: u64) -> Result<Option<Call>> {
    let Some(place) = mpi::place().filter(|(_, ranks)| *ranks > 1) else { return Ok(None) };
    let mut told = [0; KEY_BYTES + MASTER_BYTES];
    // Whatever goes wrong at the first, the others are not left waiting: they see that there is no address.
    let found = if place.0 == 0 { offer(&mut told) } else { Ok(()) };
    if !mpi::spread(&mut told) {
        return Err(Error::Refused("the MPI of this process could not tell all where to meet".into()));
    }
    found?;
    let (key, master) = told.split_at(KEY_BYTES);
    let master =
        String::from_utf8_lossy(master.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    if master.is_empty() {
        return Err(Error::Refused(
            "rank 0 found no address where all can meet; its own error says why".into(),
        ));
    }
    call(place, &master, portfile::derive_key(key), false, starter_bytes).map(Some)
}

/// A secret, and an address of this machine.
fn offer(told: &mut [u8]) -> Result<()> {
    let name = process::host_name();
    let outside = (name.as_str(), 0).to_socket_addrs().ok().into_iter().flatten();
    let inside = SocketAddr::from(([127, 0, 0, 1], 0));
    let ears = outside.filter(|address| !address.ip().is_loopback()).chain([inside]);
    let ear = ears.filter_map(|address| TcpListener::bind(address).ok()).next();
    let address = ear.and_then(|ear| ear.local_addr().ok()).map(|address| address.to_string());
    let address = address.filter(|address| address.len() < MASTER_BYTES);
    let address = address.ok_or_else(|| Error::Refused("there is no address to listen at".into()))?;
    random_bytes(&mut told[..KEY_BYTES])?;
    told[KEY_BYTES..KEY_BYTES + address.len()].copy_from_slice(address.as_bytes());
    Ok(())
}

/// Initialises the MPI that this process was linked with, if its launcher has not said how the processes meet: then MPI tells them. Whether it did.
pub(in crate::agent) fn start_mpi() -> bool {
    let is_told = |name: &&'static str| matches!(environment::text(name), Ok(Some(_)) | Err(_));
    let is_ours = ["KUMIKI_AGENT_FD", "KUMIKI_MASTER", "KUMIKI_PORTFILE"].iter().any(is_told);
    !is_ours && is_one_of_several() && mpi::start()
}

fn call(
    (rank, ranks): (u32, u32),
    master: &str,
    secret: [u8; 32],
    hub_apart: bool,
    starter_bytes: u64,
) -> Result<Call> {
    let node = environment::text("KUMIKI_NODE")?.unwrap_or_default();
    let meeting_point = blake3::keyed_hash(&secret, format!("meeting point\0{master}\0{node}").as_bytes());
    Ok(Call {
        rank,
        ranks,
        master: resolve(master)?,
        job: job_id(&secret, master),
        secret: Secret::from_bytes(secret),
        hub_apart,
        hub: None,
        joins_programs: false,
        starter_bytes,
        meeting_point: *meeting_point.as_bytes(),
        route: Route::Direct,
        hub_in_files: None,
    })
}

/// The number of the job that meets at this address.
pub(super) fn job_id(secret: &[u8; 32], master: &str) -> JobId {
    let hash = blake3::keyed_hash(secret, format!("job\0{master}").as_bytes());
    JobId(hash.as_bytes()[..8].iter().fold(0, |job, &byte| job << 8 | byte as u64))
}

/// Rank and size as whoever started us says: (who, rank, ranks).
pub(in crate::agent) fn foreign_place() -> Result<Option<(&'static str, u32, u32)>> {
    if let Some(rank) = environment::number("KUMIKI_RANK")? {
        let ranks = environment::number("KUMIKI_RANKS")?;
        let ranks = ranks.ok_or_else(|| Error::Refused("KUMIKI_RANK is set, but not KUMIKI_RANKS".into()))?;
        return Ok(Some(("KUMIKI_RANKS", rank, ranks)));
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.trim().parse().ok());
    let launchers = [
        ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("mpirun", "PMI_RANK", "PMI_SIZE"),
        ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        ("Slurm", "SLURM_PROCID", "SLURM_NTASKS"),
    ];
    for (who, rank, ranks) in launchers {
        if let (Some(rank), Some(ranks)) = (number(rank), number(ranks)) {
            // The script of a Slurm batch job has these variables too, but is no task of a step.
            if who == "Slurm" && std::env::var_os("SLURM_STEP_ID").is_none() {
                continue;
            }
            return Ok(Some((who, rank, ranks)));
        }
    }
    Ok(None)
}

/// Whether a launcher says that this process is one of several.
pub(super) fn is_one_of_several() -> bool {
    matches!(foreign_place(), Ok(Some((_, _, ranks))) if ranks > 1)
}

fn resolve(master: &str) -> Result<SocketAddr> {
    let wrong = |why: String| Error::Refused(format!("KUMIKI_MASTER={master}: {why}"));
    let mut found =
        master.to_socket_addrs().map_err(|error| wrong(format!("{error}; it should be host:port")))?;
    let address = found.next().ok_or_else(|| wrong("the name has no address".into()))?;
    if address.ip().is_unspecified() || address.port() == 0 {
        return Err(wrong("it must be an address and port that every rank can reach".into()));
    }
    Ok(address)
}

/// The secret in a file: at least 32 bytes, or 64 hexadecimal digits, that nobody else can read.
fn read_secret(path: &str) -> Result<[u8; 32]> {
    let wrong = |why: String| Error::Refused(format!("KUMIKI_SECRET_FILE={path}: {why}"));
    let bytes = read_private(Path::new(path), SECRET_FILE_BYTES).map_err(wrong)?;
    let text = bytes.trim_ascii();
    // Raw bytes may end in what looks like a blank; only digits are trimmed.
    let hexadecimal = !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit);
    let (key, least) = if hexadecimal { (text, 64) } else { (&bytes[..], 32) };
    if key.len() < least {
        return Err(wrong("it is too short: at least 32 bytes or 64 hexadecimal digits".into()));
    }
    Ok(portfile::derive_key(key))
}

/// The process whose thread the agent of this node is.
pub(super) struct AgentProcess(Option<OwnedFd>);

impl AgentProcess {
    /// Whether it has ended. To be asked when its line has closed: a process that ends closes its lines a moment before
    /// its end can be seen.
    pub(super) fn has_ended(&self) -> bool {
        let Some(pidfd) = &self.0 else { return false };
        let seen = crate::os::descriptor::poll(&[(pidfd.as_fd(), false)], ENDING_MS);
        seen.is_ok_and(|ready| ready[0].readable)
    }
}

/// Meets the others: the line to the agent of this node and its process, and what this process hosts. Tries until the
/// deadline.
pub(super) fn meet(call: &Call, hosted: &mut Hosted, deadline_ms: u64) -> Result<(Channel, AgentProcess)> {
    loop {
        let tried = attempt(call, hosted);
        match tried {
            Ok(Some(met)) => return Ok(met),
            Err(error @ (Error::Misuse(_) | Error::OutOfMemory { .. })) => return Err(error),
            // Somebody who was here before is just leaving, or is just coming: try again.
            Ok(None) => {}
            Err(error) if time::now_ms() >= deadline_ms => return Err(error),
            Err(_) => {}
        }
        if time::now_ms() >= deadline_ms {
            let what = format!("waiting for the other processes of this node and for {}", call.master);
            return Err(Error::Timeout { what, after_ms: 0 });
        }
        std::thread::sleep(Duration::from_millis(RETRY_MS));
    }
}

fn attempt(call: &Call, hosted: &mut Hosted) -> Result<Option<(Channel, AgentProcess)>> {
    if call.rank == 0 && !call.hub_apart && !is_running(&hosted.hub) {
        let listener = match &call.hub {
            Some(listener) => listener.try_clone().map_err(|error| Error::from_io("dup", &error))?,
            None => bind(call.master)?,
        };
        let gathering = Gathering::from_environment(call)?;
        hosted.hub = Some(match host::start(call, &Role::Hub(&listener, gathering.terms)) {
            Some(host) => Running::Process(host),
            None => {
                let ear = find_hub(&call.route, call.hub_in_files, &listener)?;
                let (hub, stop) = (HostedHub::new(listener, gathering)?, hosted.stop.clone());
                let body = move || {
                    hub.run(&stop);
                    drop(ear);
                };
                Running::Thread(start_thread("kumiki-hub", body)?)
            }
        });
    }
    let name = [b"kumiki-".as_slice(), &call.meeting_point[..16]].concat();
    let address =
        UnixAddr::from_abstract_name(name).map_err(|error| Error::from_io("abstract socket name", &error))?;
    match UnixStream::connect_addr(&address) {
        Ok(stream) => introduce(call, stream).map(Some),
        Err(_) if !is_running(&hosted.agent) => {
            // Nobody is there: host it ourselves, unless somebody else is quicker.
            if let Ok(listener) = UnixListener::bind_addr(&address) {
                hosted.agent = Some(match host::start(call, &Role::Agent(&listener)) {
                    Some(host) => Running::Process(host),
                    None => {
                        let agent = HostedAgent::new(call, listener, hosted.stop.clone())?;
                        Running::Thread(start_thread("kumiki-agent", move || agent.run())?)
                    }
                });
            }
            Ok(None)
        }
        Err(_) => Ok(None),
    }
}

/// Lets others find the hub through files, if that is how they come.
fn find_hub(route: &Route, place: Option<SocketAddr>, hub: &TcpListener) -> Result<Option<Listening>> {
    let (Some(place), Route::Files(files, _)) = (place, route) else { return Ok(None) };
    let port = hub.local_addr().map_err(|error| Error::from_io("getsockname", &error))?;
    files.listen(place, Target::Port(port)).map(Some)
}

/// Listens at the address where the others look for rank 0.
fn bind(master: SocketAddr) -> Result<TcpListener> {
    taken::bind(|| TcpListener::bind(master)).map_err(|error| {
        let why = match taken::is_taken(&error) {
            true => format!("{}; end it, or choose another port, the same for all ranks", taken::holder(master)),
            false => "it must be a free port of this machine".into(),
        };
        Error::Refused(format!(
            "rank 0 cannot listen at the master's address {master} (KUMIKI_MASTER, or the portfile): {error}; {why}"
        ))
    })
}

/// Proves to the agent who we are, and gets the line to it.
fn introduce(call: &Call, stream: UnixStream) -> Result<(Channel, AgentProcess)> {
    let (user, pid) = socket::peer_credentials(stream.as_fd())?;
    if user != process::user() {
        return Err(Error::Misuse(format!("the agent of this node belongs to another user ({user})")));
    }
    // In another namespace its number means nothing here, and is 0.
    let pidfd = if pid > 0 { process::open_pidfd(pid).ok() } else { None };
    // The size of the world takes the place of the incarnation: it is covered by the proof.
    let me = Identity { rank: call.rank, incarnation: call.ranks };
    let greeted = greet::call(stream.into(), call.job, &call.secret, me)?;
    // It lives, or its socket would be closed; it may be slow.
    let patience_ms = u64::from(Terms::peer_timeout_ms()?);
    let limit_ms = time::now_ms() + patience_ms;
    loop {
        let mut byte = [0];
        match socket::receive_message(greeted.socket.as_fd(), &mut byte, false) {
            Ok((1, [Some(line), _])) => return Ok((Channel::new(line)?, AgentProcess(pidfd))),
            Err(error) if error.would_block() && time::now_ms() < limit_ms => {
                crate::os::descriptor::poll(&[(greeted.socket.as_fd(), false)], 50)?;
            }
            Err(error) if error.would_block() => {
                let what = format!("waiting for the agent of this node, which calls {}", call.master);
                return Err(Error::Timeout { what, after_ms: patience_ms });
            }
            Ok(_) => return Err(Error::Closed("the agent of this node is ending".into())),
            Err(error) => return Err(error),
        }
    }
}

fn is_running(running: &Option<Running>) -> bool {
    running.as_ref().is_some_and(Running::is_running)
}

fn start_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let builder = std::thread::Builder::new().name(name.into()).stack_size(STACK_BYTES);
    builder.spawn(body).map_err(|error| Error::from_io("clone(thread)", &error))
}

impl Hosted {
    pub(super) fn new() -> Result<Hosted> {
        Ok(Hosted { stop: Arc::new(Event::new()?), hub: None, agent: None, roll: None, route: Route::Direct })
    }

    /// Everybody has come, or nobody need come any more: the roll is not called any longer.
    pub(super) fn end_roll(&mut self) {
        if let Some((thread, stop, ear)) = self.roll.take() {
            stop.raise();
            let _ = thread.join();
            drop(ear);
        }
    }

    /// Waits until nobody needs our threads any more. They watch the others, so a death does not make us wait.
    pub(super) fn wait(mut self) {
        self.end_roll();
        for running in [self.agent.take(), self.hub.take()].into_iter().flatten() {
            if let Running::Thread(thread) = running {
                let _ = thread.join();
            }
        }
        self.route.settle(true);
    }

    /// Everybody has come: what other processes do goes on without this one.
    pub(super) fn release(&mut self) {
        self.end_roll();
        for running in [&self.agent, &self.hub].into_iter().flatten() {
            if let Running::Process(host) = running {
                host.release();
            }
        }
    }

    /// Whether somebody needs our threads.
    pub(super) fn is_needed(&self) -> bool {
        let is_needed = |running: &Running| matches!(running, Running::Thread(_)) && running.is_running();
        [&self.agent, &self.hub].into_iter().flatten().any(is_needed)
    }

    /// Ends our threads at once, because we could not join.
    pub(super) fn abandon(self) {
        self.stop.raise();
        self.wait();
    }
}
