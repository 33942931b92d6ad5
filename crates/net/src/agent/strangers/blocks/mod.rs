//! Blocks: parallel programs under launchers of their own that become one world.
//!
//! Nobody knows beforehand how many processes the others have. So rank 0 of block 0 calls the roll, at the address that all know
//! (`WAITIO_MASTER_HOST` and `_PORT`): every process says which of which block it is, and when all have come each is told how many processes
//! every block has. Then they meet as strangers do. Ranks of the world are numbered by block, and by rank within it.
//!
//! Where there is a secret the roll is called over TCP, and the key of the world is made of the secret and of a number that is told. Without
//! one it is called at an abstract Unix socket of this machine, where the kernel vouches for the user of each side: nobody else
//! hears the number, and no block can be on another machine.
//!
//! | file | what |
//! |---|---|
//! | `roll.rs` | who has come: a value |
//! | `notes.rs` | what is said |
//! | `caller.rs` | whoever calls the roll |
//! | `mod.rs` | whoever is called |
//! | `storm.rs` | anybody who says anything, for tests and the fuzzer |

mod caller;
mod notes;
mod roll;
#[cfg(any(test, fuzzing))]
pub(crate) mod storm;

use super::{greet, job_id, start_thread, Call, Hosted};
use crate::agent::link::Link;
use crate::agent::node::port;
use crate::agent::report;
use crate::auth::{Identity, Secret};
use crate::os::descriptor::{self, Event};
use crate::os::file::read_private;
use crate::os::{self, process, socket, taken, time};
use crate::route::files::{Files, Listening, Target};
use crate::route::{Route, Sockets};
use crate::{environment, Error, Result};
use caller::{Answer, Caller};
use notes::{Here, Told, MOST_BLOCKS, VERSION};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait before the next call to whoever calls the roll, at first and at last.
const RETRY_MS: (u64, u64) = (5, 200);
/// Whoever calls the roll may want that many wait for longer: at most for so long.
const MOST_PAUSE_MS: u64 = 10_000;
/// When a block says on standard error that it waits; then each time after twice as long.
const FIRST_WORD_MS: u64 = 3_000;

/// A process of a block: what it must know to find the others.
pub struct Summons {
    /// The number of its block, and how many there are.
    pub block: (u32, u32),
    /// Its rank in the block, and how many processes that has.
    pub rank: (u32, u32),
    /// The host and the port where rank 0 of block 0 calls the roll.
    pub master: (String, u16),
    /// What all blocks know, and nobody else; without it they must be on one machine and of one user.
    pub secret: Option<Vec<u8>>,
    /// `host:port` of a relay through which other machines are reached, if they cannot be reached otherwise.
    pub relay: Option<String>,
    /// What links machines.
    pub links: Links,
}

/// What links the machines of the blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Links {
    /// Their networks.
    #[default]
    Sockets,
    /// A folder that all see.
    Files,
    /// Their networks where they reach each other by them, and otherwise such a folder.
    Both,
}

impl std::fmt::Debug for Summons {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summons { block, rank, master, .. } = self;
        write!(f, "Summons(rank {} of {}, block {} of {}, {master:?})", rank.0, rank.1, block.0, block.1)
    }
}

/// Where the roll is called.
enum Ear {
    Network(TcpListener),
    Machine(UnixListener),
}

/// How the caller is reached.
#[derive(Clone)]
enum Way {
    Network(Vec<SocketAddr>),
    Machine(UnixAddr),
    Files(Arc<Files>),
    /// Over the network, or through files where that cannot be.
    Both(Vec<SocketAddr>, Arc<Files>),
}

/// The customary port.
const PORT: u16 = 7100;
/// The shortest secret, in letters of the environment or bytes of a file.
const LEAST_SECRET: usize = 16;

impl Summons {
    /// As the variables of the environment say, for this rank of a block; which block it is may be known already.
    pub fn from_environment(rank: (u32, u32), block: Option<(u32, u32)>) -> Result<Summons> {
        environment::check_joining()?;
        let said = match block {
            Some((block, blocks)) => (Some(block), Some(blocks)),
            None => (environment::number("WAITIO_PBID")?, environment::number("WAITIO_NPB")?),
        };
        let block = match said {
            (Some(block), Some(blocks)) => (block, blocks),
            (None, None | Some(1)) => (0, 1),
            (Some(0), None) => (0, 1),
            (Some(block), None) => {
                return Err(Error::Refused(format!(
                    "WAITIO_PBID is {block}, but WAITIO_NPB, how many blocks there are, is not set"
                )))
            }
            (None, Some(blocks)) => {
                return Err(Error::Refused(format!(
                    "WAITIO_NPB is {blocks}, but WAITIO_PBID, which of them this is, is not set"
                )))
            }
        };
        let host = environment::text("WAITIO_MASTER_HOST")?.unwrap_or_else(|| "localhost".into());
        let port = environment::port("WAITIO_MASTER_PORT")?.unwrap_or(PORT);
        Ok(Summons {
            block,
            rank,
            master: (host, port),
            secret: secret(None)?,
            relay: environment::text("WAITIO_RELAY")?.map(|relay| relay.trim().to_owned()),
            links: links(),
        })
    }

    pub(in crate::agent) fn check(&self) -> Result<()> {
        let Summons { block: (block, blocks), rank: (rank, ranks), .. } = self;
        if block >= blocks || *blocks > MOST_BLOCKS {
            return Err(Error::Misuse(format!(
                "block {block} of {blocks} cannot be: blocks go from 0 to one less (WAITIO_PBID, WAITIO_NPB)"
            )));
        }
        if rank >= ranks {
            return Err(Error::Misuse(format!(
                "rank {rank} of {ranks} cannot be: ranks go from 0 to one less"
            )));
        }
        self.secret.as_ref().map_or(Ok(()), |secret| check_secret(secret))
    }

    /// The way to other machines. Without a secret there are none, but by a folder that is this user's alone.
    fn route(&self) -> Result<Route> {
        match (self.links, &self.relay, &self.secret) {
            (Links::Sockets, Some(relay), Some(secret)) => Route::through(relay, secret),
            (Links::Sockets, _, _) => Ok(Route::Direct),
            (links, _, secret) => match Files::from_environment() {
                Ok(files) => Ok(Route::by_files(files, links == Links::Both && secret.is_some())),
                Err(error) => {
                    if self.rank.0 == 0 {
                        let links = asked_links();
                        report::print(&format!("WAITIO_COMM_TYPE={links} cannot be: {error}; sockets it is"));
                    }
                    match (&self.relay, secret) {
                        (Some(relay), Some(secret)) => Route::through(relay, secret),
                        _ => Ok(Route::Direct),
                    }
                }
            },
        }
    }

    /// Says that a relay is not needed where there are files, or all are on one machine.
    fn warn_of_relay(&self) {
        let Some(relay) = &self.relay else { return };
        match (self.links, &self.secret) {
            (Links::Files | Links::Both, _) => report::print(&format!(
                "WAITIO_RELAY={relay} is ignored: with WAITIO_COMM_TYPE={} the detour is a folder",
                asked_links()
            )),
            (Links::Sockets, None) if !self.is_alone() => report::print(&format!(
                "WAITIO_RELAY={relay} is ignored: without a secret all blocks are on one machine; set WAITIO_SECRET_FILE to that of the relay"
            )),
            (Links::Sockets, _) => {}
        }
    }

    /// Whether this process is alone in the world.
    pub(in crate::agent) fn is_alone(&self) -> bool {
        (self.block.1, self.rank.1) == (1, 1)
    }

    fn calls(&self) -> bool {
        (self.block.0, self.rank.0) == (0, 0)
    }

    fn name(&self) -> String {
        let (host, port) = &self.master;
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }

    /// How whoever calls the roll is reached.
    fn way(&self, route: &Route) -> Result<Way> {
        match route {
            Route::Files(files, Sockets::Never) => Ok(Way::Files(files.clone())),
            // A host that has no name here, or no address, may still be found in the folder.
            Route::Files(files, Sockets::Tried(_)) => Ok(match self.way_by_sockets() {
                Ok(Way::Network(addresses)) => Way::Both(addresses, files.clone()),
                _ => Way::Files(files.clone()),
            }),
            Route::Direct | Route::Relay(_) => self.way_by_sockets(),
        }
    }

    fn way_by_sockets(&self) -> Result<Way> {
        let (host, port) = &self.master;
        let wrong = |why: String| {
            Error::Refused(format!("{} (WAITIO_MASTER_HOST, WAITIO_MASTER_PORT): {why}", self.name()))
        };
        let found = (host.trim_matches(['[', ']']), *port).to_socket_addrs();
        let addresses: Vec<SocketAddr> = found.map_err(|error| wrong(error.to_string()))?.collect();
        if addresses.is_empty()
            || addresses.iter().any(|address| address.ip().is_unspecified() || address.port() == 0)
        {
            return Err(wrong("it must be an address and port that every block can reach".into()));
        }
        if self.secret.is_some() {
            return Ok(Way::Network(addresses));
        }
        let own = socket::interface_addresses()?;
        if !addresses.iter().any(|address| address.ip().is_loopback() || own.contains(&address.ip())) {
            return Err(wrong(
                "it is another machine, and there is no secret: set WAITIO_SECRET_FILE (or WAITIO_SECRET) to the same secret in \
                 every block, for instance of `head -c 32 /dev/urandom | xxd -p -c 64`"
                    .into(),
            ));
        }
        let name = blake3::derive_key(
            "kumiki roll call of one machine version 1",
            format!("{} {port}", process::user()).as_bytes(),
        );
        let address = UnixAddr::from_abstract_name([b"kumiki-".as_slice(), &name[..16]].concat());
        address.map(Way::Machine).map_err(|error| Error::from_io("abstract socket name", &error))
    }

    /// The key under which the roll is called; where a folder leads there, it has a number that only those know who can look into it.
    fn key(&self, folder: Option<[u8; 32]>) -> [u8; 32] {
        match (&self.secret, folder) {
            (Some(secret), _) => blake3::derive_key("kumiki roll call secret version 1", secret),
            (None, Some(number)) => blake3::derive_key("kumiki roll call of one folder version 1", &number),
            // Everybody knows it: here the kernel vouches for both sides.
            (None, None) => {
                blake3::derive_key("kumiki roll call of one user version 1", &process::user().to_le_bytes())
            }
        }
    }

    fn here(&self) -> Result<Here> {
        let mut token = [0; 8];
        os::random_bytes(&mut token)?;
        let Summons { block: (block, blocks), rank: (rank, ranks), .. } = *self;
        let name = format!("{}, process {}", process::host_name(), std::process::id());
        Ok(Here { version: VERSION, block, blocks, rank, ranks, token: u64::from_le_bytes(token), name })
    }
}

/// Refuses a secret that can be guessed.
pub fn check_secret(secret: &[u8]) -> Result<()> {
    if secret.len() >= LEAST_SECRET {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "a secret of {} letters can be guessed; it has {LEAST_SECRET} or more (WAITIO_SECRET, WAITIO_SECRET_FILE)",
        secret.len()
    )))
}

/// The secret in a file, or in that which the environment names, or in the environment.
pub fn secret(file: Option<String>) -> Result<Option<Vec<u8>>> {
    let said = environment::text("WAITIO_SECRET_FILE")?;
    let Some(path) = file.or(said) else {
        return Ok(environment::text("WAITIO_SECRET")?.map(String::into_bytes));
    };
    let read = read_private(Path::new(&path), super::SECRET_FILE_BYTES);
    let bytes = read.map_err(|why| Error::Refused(format!("WAITIO_SECRET_FILE={path}: {why}")))?;
    // An editor may have put the end of a line behind it.
    Ok(Some(bytes.trim_ascii_end().to_vec()))
}

/// All have come: what a process needs to meet them, and how many processes each block has.
pub(in crate::agent) fn answer(
    summons: &Summons,
    starter_bytes: u64,
    hosted: &mut Hosted,
    deadline_ms: u64,
) -> Result<(Call, Vec<u32>)> {
    if summons.rank.0 == 0 {
        warn_of_links();
        summons.warn_of_relay();
        warn_of_sizes();
    }
    let route = summons.route()?;
    hosted.route = route.clone();
    let way = summons.way(&route)?;
    let hub = if summons.calls() { Some(call_roll(summons, &way, hosted)?) } else { None };
    let (hub, hub_in_files) = hub.map_or((None, None), |(hub, place)| (Some(hub), place));
    let (Reached { ip: reached, in_files, key, .. }, told) =
        Guest::new(summons, (&way, &route), deadline_ms)?.attend()?;
    let Told::All { ranks, port, nonce } = told else {
        return Err(Error::Closed("the roll call ended without an answer".into()));
    };
    let port = u16::try_from(port).ok().filter(|&port| port != 0);
    let (Some(port), true) = (port, ranks.len() == summons.block.1 as usize) else {
        return Err(Error::Refused("the roll call gave an answer that cannot be".into()));
    };
    let first: u64 = ranks[..summons.block.0 as usize].iter().map(|&ranks| u64::from(ranks)).sum();
    let all: u64 = ranks.iter().map(|&ranks| u64::from(ranks)).sum();
    let (Ok(all), Ok(rank)) = (u32::try_from(all), u32::try_from(first + u64::from(summons.rank.0))) else {
        return Err(Error::Misuse(format!("{all} processes in all blocks are too many")));
    };
    let key = *blake3::keyed_hash(&key, &nonce).as_bytes();
    let reached = if in_files { Files::beside(reached) } else { reached };
    let node = environment::text("KUMIKI_NODE")?.unwrap_or_default();
    let meeting_point = blake3::keyed_hash(&key, format!("meeting point of blocks\0{node}").as_bytes());
    let call = Call {
        rank,
        ranks: all,
        master: SocketAddr::new(reached, port),
        job: job_id(&key, "blocks"),
        secret: Secret::from_bytes(key),
        hub_apart: false,
        hub,
        joins_programs: true,
        starter_bytes,
        meeting_point: *meeting_point.as_bytes(),
        route,
        hub_in_files,
    };
    Ok((call, ranks))
}

/// What `WAITIO_COMM_TYPE` asks for. What is not there is sockets: see [`warn_of_links`].
fn links() -> Links {
    match asked_links().to_ascii_lowercase().as_str() {
        "file" => Links::Files,
        "hybrid" => Links::Both,
        _ => Links::Sockets,
    }
}

fn asked_links() -> String {
    environment::text("WAITIO_COMM_TYPE").ok().flatten().unwrap_or_default().trim().to_owned()
}

/// Says once a block that blocks exchange messages by sockets and shared memory, if something was asked for that is not there. What is said elsewhere than in programs is no reason
/// to fail.
fn warn_of_links() {
    let asked = asked_links();
    match asked.to_ascii_lowercase().as_str() {
        "" | "socket" | "file" | "hybrid" => {}
        "verbs" => report::print(&format!(
            "WAITIO_COMM_TYPE={asked} is not there: sockets are used, and shared memory on a machine"
        )),
        _ => report::print(&format!(
            "WAITIO_COMM_TYPE={asked} is not known (socket, file, hybrid, verbs are): sockets are used"
        )),
    }
}

/// Says once a block of sizes that are none, such as `unlimited`: then it is as if nothing had been said.
fn warn_of_sizes() {
    for name in environment::WAITIO_SIZES {
        if let Some(value) = environment::endless(name) {
            report::print(&format!("{name}={value} is no size: it is ignored, and the default holds"));
        }
    }
}

/// Calls the roll from now on, in a thread; the hub will listen at what this gives, and be found in files there.
fn call_roll(summons: &Summons, way: &Way, hosted: &mut Hosted) -> Result<(TcpListener, Option<SocketAddr>)> {
    let (ear, ip) = listen(summons, way)?;
    let hub = port::listen(ip)?;
    let port = hub.local_addr().map_err(|error| Error::from_io("getsockname", &error))?.port();
    let mut nonce = [0; 32];
    os::random_bytes(&mut nonce)?;
    let (listening, number) = publish(way, &ear)?;
    let key = summons.key(number);
    let (secret, job) = (Secret::from_bytes(key), job_id(&key, "roll call"));
    let caller = Caller::new(ear, summons.block.1, secret, job, Answer { port, nonce });
    let stop = Arc::new(Event::new()?);
    let stopped = stop.clone();
    let place = listening.as_ref().map(|ear| SocketAddr::new(Files::beside(ear.address.ip()), port));
    hosted.roll = Some((start_thread("kumiki-roll", move || caller.run(&stopped))?, stop, listening));
    Ok((hub, place))
}

/// Where the roll is called, and the address of this machine that it has.
fn listen(summons: &Summons, way: &Way) -> Result<(Ear, IpAddr)> {
    let failed = |error: &std::io::Error| {
        let port = summons.master.1;
        // The error is that of the last address.
        let place = match way {
            Way::Network(addresses) | Way::Both(addresses, _) => addresses.last(),
            Way::Machine(_) | Way::Files(_) => None,
        };
        let why = match (taken::is_taken(error), place) {
            (false, _) => "it must be a free port of this machine".into(),
            (true, None) => format!(
                "another program of yours calls the roll there, which may be of a job that has not ended; end it, or set \
                 WAITIO_MASTER_PORT to another port than {port} in every block"
            ),
            (true, Some(&place)) => format!(
                "{}; end it, or set WAITIO_MASTER_PORT to another port than {port} in every block",
                taken::holder(place)
            ),
        };
        Error::Refused(format!(
            "rank 0 of block 0 cannot listen at {} (WAITIO_MASTER_HOST, WAITIO_MASTER_PORT): {error}; {why}",
            summons.name()
        ))
    };
    let on_machine = |address: &UnixAddr| {
        let listener = taken::bind(|| UnixListener::bind_addr(address)).map_err(|error| failed(&error))?;
        listener.set_nonblocking(true).map_err(|error| Error::from_io("fcntl", &error))?;
        Ok((Ear::Machine(listener), IpAddr::V4(Ipv4Addr::LOCALHOST)))
    };
    match way {
        Way::Machine(address) => on_machine(address),
        Way::Files(_) => {
            let mut name = [0; 16];
            os::random_bytes(&mut name)?;
            let address = UnixAddr::from_abstract_name([b"kumiki-".as_slice(), &name].concat());
            on_machine(&address.map_err(|error| Error::from_io("abstract socket name", &error))?)
        }
        Way::Network(addresses) | Way::Both(addresses, _) => {
            let bound = taken::bind(|| TcpListener::bind(&addresses[..]));
            let listener = bound.map_err(|error| failed(&error))?;
            listener.set_nonblocking(true).map_err(|error| Error::from_io("fcntl", &error))?;
            let address = listener.local_addr().map_err(|error| Error::from_io("getsockname", &error))?;
            Ok((Ear::Network(listener), address.ip()))
        }
    }
}

/// Says in the folder, where there is one, how the roll call is reached through it; and the number for those who can look into it.
fn publish(way: &Way, ear: &Ear) -> Result<(Option<Listening>, Option<[u8; 32]>)> {
    let (Way::Files(files) | Way::Both(_, files)) = way else { return Ok((None, None)) };
    let unnamed = |error: std::io::Error| Error::from_io("getsockname", &error);
    let target = match ear {
        Ear::Network(listener) => Target::Port(listener.local_addr().map_err(unnamed)?),
        Ear::Machine(listener) => Target::Machine(listener.local_addr().map_err(unnamed)?),
    };
    let mut listening = files.listen((Files::fresh_address()?, 1).into(), target)?;
    let number = files.publish(&mut listening)?;
    Ok((Some(listening), Some(number)))
}

/// How the caller was reached.
struct Reached {
    socket: Option<OwnedFd>,
    ip: IpAddr,
    /// Whether that is the address of a listener in files.
    in_files: bool,
    key: [u8; 32],
}

/// A process that is called.
struct Guest<'a> {
    summons: &'a Summons,
    /// Where the caller should be, for a message.
    name: String,
    way: &'a Way,
    route: &'a Route,
    here: Here,
    started_ms: u64,
    deadline_ms: u64,
    /// Why it does not begin yet, as far as is known, and when that is said next.
    why: String,
    said_at_ms: u64,
}

impl<'a> Guest<'a> {
    fn new(summons: &'a Summons, (way, route): (&'a Way, &'a Route), deadline_ms: u64) -> Result<Guest<'a>> {
        let started_ms = time::now_ms();
        let name = match way {
            Way::Files(files) => format!("{files}"),
            Way::Both(_, files) => format!("{} and in {files}", summons.name()),
            Way::Network(_) | Way::Machine(_) => summons.name(),
        };
        let why = format!("nobody answers at {name}, where rank 0 of block 0 should listen");
        let said_at_ms = started_ms + FIRST_WORD_MS;
        Ok(Guest {
            summons,
            name,
            way,
            route,
            here: summons.here()?,
            started_ms,
            deadline_ms,
            why,
            said_at_ms,
        })
    }

    /// Waits until all have come: the address at which the caller was reached, and the answer.
    fn attend(mut self) -> Result<(Reached, Told)> {
        let mut pause_ms = RETRY_MS.0;
        loop {
            match self.visit() {
                Ok((reached, told @ Told::All { .. })) => return Ok((reached, told)),
                Ok((_, Told::Refused { why })) => {
                    let (block, rank) = (self.here.block, self.here.rank);
                    return Err(Error::Refused(format!(
                        "rank {rank} of block {block} is not taken in: {why}"
                    )));
                }
                Ok((_, Told::Later { ms, missing })) => {
                    (self.why, pause_ms) = (format!("{missing} not here yet"), u64::from(ms));
                }
                Ok((_, Told::Waiting { .. })) => pause_ms = RETRY_MS.0,
                Err(error @ (Error::Misuse(_) | Error::Timeout { .. })) => return Err(error),
                Err(error) => {
                    self.why = self.trouble(&error);
                    pause_ms = (pause_ms * 2).min(RETRY_MS.1);
                }
            }
            self.say()?;
            std::thread::sleep(Duration::from_millis(pause_ms.min(MOST_PAUSE_MS)));
        }
    }

    /// Why a call failed, for a message.
    fn trouble(&self, error: &Error) -> String {
        let name = &self.name;
        match error {
            Error::Refused(why) => format!(
                "{name} does not take us ({why}): all blocks need the same WAITIO_SECRET or WAITIO_SECRET_FILE, and the same release of the library"
            ),
            error => {
                // Those who have a secret are called elsewhere than those who have none.
                let hint = match (self.way, &self.summons.secret) {
                    (Way::Machine(_), _) => "; this block has no secret: where block 0 has one, every block needs the same WAITIO_SECRET_FILE",
                    (Way::Network(_), Some(_)) => "; this block has a secret: block 0 needs the same (WAITIO_SECRET_FILE)",
                    _ => "",
                };
                format!("nobody answers at {name}, where rank 0 of block 0 should listen: {error}{hint}")
            }
        }
    }

    /// Says now and then for whom this block waits; an error when the time is over.
    fn say(&mut self) -> Result<()> {
        let now_ms = time::now_ms();
        let waited_ms = now_ms - self.started_ms;
        if now_ms >= self.deadline_ms {
            let what = format!("waiting for the other blocks (as block {}): {}", self.here.block, self.why);
            return Err(Error::Timeout { what, after_ms: waited_ms });
        }
        if self.here.rank == 0 && now_ms >= self.said_at_ms {
            self.said_at_ms = now_ms + waited_ms;
            let left = match (self.deadline_ms - now_ms).div_ceil(1000) {
                left if left > 1 << 30 => "it waits for ever".to_string(),
                left => format!("it gives up in {left} s"),
            };
            report::print(&format!("block {} waits: {}; {left}", self.here.block, self.why));
        }
        Ok(())
    }

    /// One call: what became of it.
    fn visit(&mut self) -> Result<(Reached, Told)> {
        let mut reached = self.connect()?;
        let socket = reached.socket.take().ok_or_else(|| Error::Closed("there is no connection".into()))?;
        let key = reached.key;
        let (secret, job) = (Secret::from_bytes(key), job_id(&key, "roll call"));
        let me = Identity { rank: self.here.rank, incarnation: self.here.block };
        let patience_ms = self.deadline_ms.saturating_sub(time::now_ms());
        let greeted = greet::call_within(socket, job, &secret, me, patience_ms)?;
        let mut link = Link::sealed(greeted.socket, greeted.connection, secret, greeted.rest)?;
        link.send(&self.here.encode());
        loop {
            for message in link.receive()? {
                match Told::decode(&message)? {
                    Told::Waiting { missing } => self.why = format!("{missing} not here yet"),
                    told => return Ok((reached, told)),
                }
            }
            if link.is_ended() {
                return Err(Error::Closed("whoever calls the roll has ended".into()));
            }
            self.say()?;
            descriptor::poll(&[(link.input(), false)], 100)?;
        }
    }

    fn connect(&self) -> Result<Reached> {
        match self.way {
            Way::Machine(address) => {
                let stream =
                    UnixStream::connect_addr(address).map_err(|error| Error::from_io("connect", &error))?;
                let (user, _) = socket::peer_credentials(stream.as_fd())?;
                if user != process::user() {
                    return Err(Error::Misuse(format!(
                        "at {} another user ({user}) calls the roll: choose another WAITIO_MASTER_PORT, or set WAITIO_SECRET",
                        self.summons.name()
                    )));
                }
                let (ip, key) = (IpAddr::V4(Ipv4Addr::LOCALHOST), self.summons.key(None));
                Ok(Reached { socket: Some(stream.into()), ip, in_files: false, key })
            }
            Way::Network(addresses) => self.connect_by_network(addresses),
            Way::Files(files) => self.connect_by_files(files),
            Way::Both(addresses, files) => {
                self.connect_by_network(addresses).or_else(|_| self.connect_by_files(files))
            }
        }
    }

    fn connect_by_network(&self, addresses: &[SocketAddr]) -> Result<Reached> {
        let mut last = Error::Closed("it has no address".into());
        for address in addresses {
            // Where there are files, too, they are asked next.
            let way = if self.route.has_files() { &Route::Direct } else { self.route };
            match way.connect(address) {
                Ok(stream) => {
                    let (ip, key) = (address.ip(), self.summons.key(None));
                    return Ok(Reached { socket: Some(stream), ip, in_files: false, key });
                }
                Err(error @ Error::Refused(_)) => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn connect_by_files(&self, files: &Files) -> Result<Reached> {
        let Some((address, number)) = files.master()? else {
            return Err(Error::Closed("nobody calls the roll there".into()));
        };
        let (ip, key) = (address.ip(), self.summons.key(Some(number)));
        Ok(Reached { socket: Some(files.open(&address)?), ip, in_files: true, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free_port() -> u16 {
        crate::os::socket::free_port().unwrap()
    }

    fn summons(block: (u32, u32), rank: (u32, u32), port: u16, secret: Option<&str>) -> Summons {
        let secret = secret.map(|secret| secret.as_bytes().to_vec());
        Summons {
            block,
            rank,
            master: ("127.0.0.1".into(), port),
            secret,
            relay: None,
            links: Links::Sockets,
        }
    }

    /// Has a process come, and gives what it was told.
    fn come(summons: &Summons, limit_ms: u64) -> Result<(Call, Vec<u32>)> {
        summons.check()?;
        let mut hosted = Hosted::new()?;
        let told = answer(summons, 4096, &mut hosted, time::now_ms() + limit_ms);
        if told.is_ok() && summons.calls() {
            // Until the others know it too.
            std::thread::sleep(Duration::from_millis(300));
        }
        hosted.abandon();
        told
    }

    #[test]
    fn all_blocks_learn_how_many_processes_the_others_have() {
        for secret in [None, Some("a secret of all blocks")] {
            let port = free_port();
            std::thread::scope(|scope| {
                let sizes = [1, 3, 2];
                let mut threads = Vec::new();
                for (block, ranks) in (0..3).zip(sizes) {
                    for rank in 0..ranks {
                        // Whoever calls the roll comes last.
                        let late_ms = if (block, rank) == (0, 0) { 100 } else { 0 };
                        threads.push(scope.spawn(move || {
                            std::thread::sleep(Duration::from_millis(late_ms));
                            come(&summons((block, 3), (rank, ranks), port, secret), 20_000).unwrap()
                        }));
                    }
                }
                let told: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
                for (number, (call, ranks)) in (0..).zip(&told) {
                    assert_eq!((call.rank, call.ranks, &ranks[..]), (number, 6, &sizes[..]));
                    assert_eq!((call.job, call.secret.expose()), (told[0].0.job, told[0].0.secret.expose()));
                    assert_eq!(call.hub.is_some(), number == 0);
                }
            });
        }
    }

    #[test]
    fn whoever_waits_in_vain_learns_for_whom() {
        let port = free_port();
        let late = come(&summons((1, 2), (0, 1), port, None), 50).unwrap_err().to_string();
        assert!(late.contains("nobody answers at 127.0.0.1") && late.contains("rank 0 of block 0"), "{late}");
        let late = come(&summons((0, 2), (0, 2), port, None), 700).unwrap_err().to_string();
        assert!(late.contains("block 1, rank 1 of block 0 not here yet"), "{late}");
    }

    #[test]
    fn one_block_too_many_is_refused_and_the_others_begin() {
        let port = free_port();
        std::thread::scope(|scope| {
            let first = scope.spawn(move || come(&summons((0, 2), (0, 1), port, None), 20_000));
            let other = |block, blocks| come(&summons((block, blocks), (0, 1), port, None), 20_000);
            let refused = |block, blocks| other(block, blocks).unwrap_err().to_string();
            assert!(refused(2, 3).contains("WAITIO_NPB"));
            // Block 0 may not have come to its own roll call.
            std::thread::sleep(Duration::from_millis(300));
            assert!(Guest::new(
                &summons((0, 2), (0, 1), port, None),
                (&summons((0, 2), (0, 1), port, None).way(&Route::Direct).unwrap(), &Route::Direct),
                u64::MAX
            )
            .unwrap()
            .attend()
            .map(drop)
            .unwrap_err()
            .to_string()
            .contains("two programs have WAITIO_PBID=0"));
            assert!(other(1, 2).is_ok());
            assert!(first.join().unwrap().is_ok());
        });
    }

    #[test]
    fn another_secret_is_no_way_in() {
        let port = free_port();
        std::thread::scope(|scope| {
            let first = scope
                .spawn(move || come(&summons((0, 2), (0, 1), port, Some("a secret of all blocks")), 3_000));
            let late = come(&summons((1, 2), (0, 1), port, Some("a secret of somebody else")), 500);
            let late = late.unwrap_err().to_string();
            assert!(late.contains("does not take us") || late.contains("nobody answers"), "{late}");
            assert!(come(&summons((1, 2), (0, 1), port, Some("a secret of all blocks")), 3_000).is_ok());
            first.join().unwrap().unwrap();
        });
    }

    #[test]
    fn without_a_secret_no_other_machine_is_called() {
        let far = Summons { master: ("192.0.2.1".into(), 7100), ..summons((1, 2), (0, 1), 7100, None) };
        let refused = come(&far, 1_000).unwrap_err().to_string();
        assert!(refused.contains("WAITIO_SECRET_FILE") && refused.contains("another machine"), "{refused}");
        let wrong = summons((2, 2), (0, 1), 7100, None);
        assert!(matches!(come(&wrong, 1_000), Err(Error::Misuse(_))));
    }
}
