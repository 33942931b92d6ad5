//! How a process becomes a rank: from the environment to an attachment.
//!
//! | way | how it is recognised |
//! |---|---|
//! | under `kumiki run` | `KUMIKI_AGENT_FD`: an inherited line to the node agent |
//! | in one part of a job | a portfile (an argument, or `KUMIKI_PORTFILE`), and a rank in the part |
//! | in one block of several programs | a summons: [`attach_block`] |
//! | started by hand or by another launcher | `KUMIKI_MASTER` and `KUMIKI_SECRET_FILE`, and a rank and size |
//! | alone | nothing of that: a world of one, in this process |

use crate::agent::blocks::{self, Summons};
use crate::agent::channel::{Channel, FromAgent, ToAgent};
use crate::agent::portfile::Part;
use crate::agent::strangers::{self, Hosted};
use crate::auth::{JobId, Secret};
use crate::contract::Transport;
use crate::environment;
use crate::os::{self, descriptor, futex, process, time};
use crate::route::Route;
use crate::shm::arena::{Arena, Config, Phase};
use crate::shm::board::Origin;
use crate::shm::control::{Activity, NOBODY};
use crate::shm::world::{Cause, Place, Status};
use crate::terms::Terms;
use crate::{Error, Rank, Result};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

pub use crate::terms::STARTER_BYTES;

/// A process's place in a world.
pub struct Attachment {
    /// The arena of its node.
    pub arena: Arc<Arena>,
    /// Its number.
    pub rank: Rank,
    /// Its index on its node.
    pub local: u32,
    /// How it came into the world.
    pub origin: Origin,
    /// The job's secret.
    pub secret: Secret,
    /// The job.
    pub job: JobId,
    /// The line to the node agent; `None` in a world of one.
    pub channel: Option<Channel>,
    /// How other ranks are reached, if not over TCP.
    pub transport: Option<Box<dyn Transport>>,
    /// Told when it leaves in an orderly way, where there is no agent to tell.
    pub departure: Option<Box<dyn FnOnce() + Send>>,
    /// The way to other machines.
    pub route: Route,
    /// What this process does for others, when no launcher of ours started it.
    hosted: Option<Hosted>,
    /// That this process is in a world of several, for as long as it is.
    membership: Option<Membership>,
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Attachment({} of {:?})", self.rank, self.job)
    }
}

/// How this process came into a world of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Door {
    /// By the line to its agent that it inherited. Two worlds would read each other's messages from there.
    Inherited,
    /// It met the others of this job by itself.
    Met(JobId),
}

/// The worlds of several that this process is in: in each once.
static MEMBERSHIPS: Mutex<Vec<Door>> = Mutex::new(Vec::new());

/// That this process is in a world of several; until it is dropped the process cannot join the same once more.
#[derive(Debug)]
struct Membership(Door);

impl Membership {
    fn begin(door: Door) -> Result<Membership> {
        if process::is_forked_child() {
            return Err(Error::Misuse(
                "this process is a fork of a rank, and cannot join a world (start programs with exec or posix_spawn \
                 instead)"
                    .into(),
            ));
        }
        let mut doors = MEMBERSHIPS.lock().unwrap_or_else(PoisonError::into_inner);
        if doors.contains(&door) {
            return Err(Error::Misuse(
                "this process is in the world already: use the World that it has, or finalize that first"
                    .into(),
            ));
        }
        doors.push(door);
        Ok(Membership(door))
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // A forked child is in no world, and a thread that it does not have may hold the lock.
        if process::is_forked_child() {
            return;
        }
        let mut doors = MEMBERSHIPS.lock().unwrap_or_else(PoisonError::into_inner);
        doors.retain(|door| *door != self.0);
    }
}

/// The line to the agent that this process inherited; kept for as long as it lives, so that it can attach again.
static INHERITED: Mutex<Option<Channel>> = Mutex::new(None);

/// Joins the world that the environment describes. Returns when every rank has joined, or with an error as soon as
/// one is gone. `deadline_ms` is a time of the monotonic clock; without it the agents decide who is gone.
///
/// `starter_bytes` is how much starter memory each rank has if neither a launcher nor `KUMIKI_STARTER` says so.
pub fn attach(deadline_ms: Option<u64>, starter_bytes: u64) -> Result<Attachment> {
    if let Some(part) = strangers::part_from_environment()? {
        return attach_part(&part, deadline_ms, starter_bytes);
    }
    if let Some(channel) = inherited()? {
        let membership = Membership::begin(Door::Inherited)?;
        let attachment = join(channel, Origin::Run, deadline_ms)?;
        return Ok(Attachment { membership: Some(membership), ..attachment });
    }
    match strangers::call_from_environment(starter_bytes)? {
        Some(call) => meet(&call, Hosted::new()?, Origin::Launcher, deadline_ms),
        None => alone(starter_bytes),
    }
}

/// Joins as [`attach`] does, the world of a job that several launchers start.
pub fn attach_part(part: &Part, deadline_ms: Option<u64>, starter_bytes: u64) -> Result<Attachment> {
    meet(&strangers::call_of_part(part, starter_bytes)?, Hosted::new()?, Origin::Part, deadline_ms)
}

/// Joins, as a process of a block, the world that the programs of all blocks make: the place in it, and how many processes each block has.
pub fn attach_block(
    summons: &Summons,
    deadline_ms: Option<u64>,
    starter_bytes: u64,
) -> Result<(Attachment, Vec<u32>)> {
    if process::is_forked_child() {
        return Err(Error::Misuse("a child made by fork joins nothing: start it by exec".into()));
    }
    summons.check()?;
    if summons.is_alone() {
        return Ok((alone(starter_bytes)?, vec![1]));
    }
    let limit_ms = deadline_ms.map_or_else(usual_limit_ms, Ok)?;
    let origin = Origin::Block { block: summons.block.0, rank: summons.rank.0 };
    let mut hosted = Hosted::new()?;
    match blocks::answer(summons, starter_bytes, &mut hosted, limit_ms) {
        Ok((call, ranks)) => Ok((meet(&call, hosted, origin, Some(limit_ms))?, ranks)),
        Err(error) => {
            hosted.abandon();
            Err(error)
        }
    }
}

/// Rank and size as the MPI in this process says, or else its launcher; a process that nobody has counted is the only one.
pub fn place_in_job() -> Result<(u32, u32)> {
    // An MPI that was started without a launcher counts each process as the only one; whoever started them may know better.
    let said = environment::number("KUMIKI_RANK")?.is_some();
    if let Some(place) = crate::os::mpi::place().filter(|&(_, ranks)| ranks > 1 || !said) {
        return Ok(place);
    }
    Ok(strangers::foreign_place()?.map_or((0, 1), |(_, rank, ranks)| (rank, ranks)))
}

/// Initialises the MPI that this process was linked with, if that is needed to find the others: whether it did.
pub fn start_mpi() -> bool {
    strangers::start_mpi()
}

/// Whether somebody has given this process a place among several: a launcher of ours, or another one, which may not have
/// said how to meet the others.
pub fn is_rank() -> bool {
    let is_set = |name: &&'static str| matches!(environment::text(name), Ok(Some(_)) | Err(_));
    ["KUMIKI_AGENT_FD", "KUMIKI_MASTER", "KUMIKI_PORTFILE"].iter().any(is_set)
        || strangers::is_one_of_several()
}

impl Attachment {
    /// A place in a world that needs no agent: alone, or over a transport that keeps its own peace.
    pub fn new(
        arena: Arc<Arena>,
        rank: Rank,
        transport: Option<Box<dyn Transport>>,
        job: JobId,
    ) -> Attachment {
        let secret = Secret::from_bytes([0; 32]);
        Attachment {
            arena,
            rank,
            local: 0,
            origin: Origin::Unknown,
            secret,
            job,
            channel: None,
            transport,
            departure: None,
            route: Route::Direct,
            hosted: None,
            membership: None,
        }
    }

    /// Whether no launcher of ours started this process: then no agent of ours ends it either.
    pub fn is_foreign(&self) -> bool {
        self.hosted.is_some()
    }

    /// Leaves the world in an orderly way. The process may attach again afterwards.
    ///
    /// A process that hosts the agent of its node, or the hub, waits until the ranks that need it have left too, or
    /// are gone.
    pub fn leave(&mut self) -> Result<()> {
        let (left, hosting) = self.depart();
        hosting.wait();
        left
    }

    /// The same, and waits for nobody: what this process does for others goes on meanwhile.
    pub fn depart(&mut self) -> (Result<()>, Hosting) {
        let left = self.channel.take().map_or(Ok(()), |channel| channel.send(&ToAgent::Leave));
        if let Some(departure) = self.departure.take() {
            departure();
        }
        self.route.settle(false);
        (left, Hosting(self.hosted.take()))
    }
}

/// What a process does for others after it has left: it keeps the agent of its node, or the hub. They miss it if it ends.
#[derive(Debug, Default)]
#[must_use = "others may need what this process does for them: wait before it ends"]
pub struct Hosting(Option<Hosted>);

impl Hosting {
    /// Waits until nobody needs it any more: the others have left, or are gone.
    pub fn wait(self) {
        if let Some(hosted) = self.0 {
            hosted.wait();
        }
    }

    /// Whether somebody needs it.
    pub fn is_needed(&self) -> bool {
        self.0.as_ref().is_some_and(Hosted::is_needed)
    }
}

fn inherited() -> Result<Option<Channel>> {
    let mut place = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
    if place.is_none() {
        let Some(number) = environment::number("KUMIKI_AGENT_FD")? else { return Ok(None) };
        let stale = |why: &dyn std::fmt::Display| {
            Error::Refused(format!(
                "KUMIKI_AGENT_FD={number} is not the line to a node agent ({why}): start this process with \
                 `kumiki run`, or unset the variable"
            ))
        };
        let fd = descriptor::adopt(number as i32).map_err(|error| stale(&error))?;
        *place = Some(Channel::new(fd).map_err(|error| stale(&error))?);
    }
    Ok(place.clone())
}

/// Joins by a line to the agent.
pub(in crate::agent) fn join(
    channel: Channel,
    origin: Origin,
    deadline_ms: Option<u64>,
) -> Result<Attachment> {
    channel.send(&ToAgent::Attach { pid: std::process::id() })?;
    let limit_ms = deadline_ms.unwrap_or(u64::MAX);
    let start_ms = time::now_ms();
    loop {
        match channel.receive(limit_ms)? {
            Some(FromAgent::Welcome { arena, rank, local, job, secret }) => {
                let arena = Arc::new(Arena::attach(arena)?);
                let secret = Secret::from_bytes(os::memory::read_start(secret.as_fd())?);
                let mut attachment = Attachment {
                    arena,
                    rank,
                    local,
                    origin,
                    secret,
                    job,
                    channel: Some(channel),
                    transport: None,
                    departure: None,
                    route: Route::Direct,
                    hosted: None,
                    membership: None,
                };
                return match wait_until_ready(&attachment, start_ms, limit_ms) {
                    Ok(()) => Ok(attachment),
                    Err(late @ Error::Timeout { .. }) => Err(late),
                    Err(error) => {
                        // The world is broken without our doing: we are not in it, and may end as we like.
                        let _ = attachment.leave();
                        Err(error)
                    }
                };
            }
            Some(FromAgent::Refused { why }) => return Err(Error::Refused(why)),
            // What was meant for an earlier attachment of this process.
            Some(_) => {}
            None => {
                let why = Some(channel.waiting()).filter(|why| !why.is_empty());
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                return Err(late(&format!("the world to begin{why}"), start_ms));
            }
        }
    }
}

/// Joins together with processes that no launcher of ours started.
fn meet(
    call: &strangers::Call,
    mut hosted: Hosted,
    origin: Origin,
    deadline_ms: Option<u64>,
) -> Result<Attachment> {
    let begun = Membership::begin(Door::Met(call.job));
    let begun = begun.and_then(|membership| Ok((membership, deadline_ms.map_or_else(usual_limit_ms, Ok)?)));
    let (membership, limit_ms) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            hosted.abandon();
            return Err(error);
        }
    };
    loop {
        let (channel, agent) = match strangers::meet(call, &mut hosted, limit_ms) {
            Ok(met) => met,
            Err(error) => {
                hosted.abandon();
                return Err(error);
            }
        };
        match join(channel, origin, Some(limit_ms)) {
            Ok(mut attachment) => {
                hosted.release();
                attachment.hosted = Some(hosted);
                attachment.route = call.route.clone();
                attachment.membership = Some(membership);
                return Ok(attachment);
            }
            // The agent belonged to a world that is just ending: meet again.
            Err(Error::Closed(_)) if time::now_ms() < limit_ms && !agent.has_ended() => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Err(Error::Closed(_)) if time::now_ms() < limit_ms => {
                hosted.abandon();
                let why = "the process that kept the agent of this node ended before everybody had come";
                return Err(Error::Refused(format!("{why}: start all ranks anew")));
            }
            Err(error) => {
                hosted.abandon();
                return Err(error);
            }
        }
    }
}

/// Until when those who meet wait for each other if nobody says so.
fn usual_limit_ms() -> Result<u64> {
    let limit = environment::duration("KUMIKI_INIT_TIMEOUT")?.map_or(120_000, |time| time.as_millis() as u64);
    Ok(time::now_ms().saturating_add(limit))
}

fn wait_until_ready(attachment: &Attachment, start_ms: u64, limit_ms: u64) -> Result<()> {
    let control = attachment.arena.control(attachment.local);
    let control = control.ok_or_else(|| Error::Refused("the agent gave a wrong index".into()))?;
    control.board.introduce(attachment.rank, attachment.origin);
    control.begin_wait(Activity::Init, NOBODY, start_ms);
    let done = wait_for_phase(attachment, start_ms, limit_ms);
    control.end_wait();
    done
}

fn wait_for_phase(attachment: &Attachment, start_ms: u64, limit_ms: u64) -> Result<()> {
    let shared = attachment.arena.shared();
    loop {
        match shared.phase() {
            Phase::Ready => return Ok(()),
            Phase::Aborting => return Err(Error::Refused(format!("the job is ending: {}", shared.reason()))),
            Phase::Gathering => {}
        }
        if let Some(lost) = shared.first_lost() {
            let cause = attachment.arena.place(lost).map_or(Cause::UNKNOWN, |place| place.load().cause);
            return Err(Error::PeerLost { rank: lost, why: cause.to_string() });
        }
        let left_ms = limit_ms.saturating_sub(time::now_ms());
        if left_ms == 0 {
            return Err(late(&missing(&attachment.arena), start_ms));
        }
        // The agent wakes us; looking at the line now and then notices an agent that is gone.
        futex::wait(shared.phase_word(), Phase::Gathering as u32, left_ms.min(200));
        if let Some(channel) = &attachment.channel {
            while channel.try_receive()?.is_some() {}
        }
    }
}

/// Who has not joined, for a message.
fn missing(arena: &Arena) -> String {
    let expected = |rank: &u32| arena.place(Rank(*rank)).is_some_and(|p| p.load().status == Status::Expected);
    let ranks: Vec<String> =
        (0..arena.config().ranks).filter(expected).take(8).map(|r| r.to_string()).collect();
    format!("ranks {} to join", ranks.join(", "))
}

fn late(what: &str, start_ms: u64) -> Error {
    Error::Timeout { what: format!("waiting for {what}"), after_ms: time::now_ms() - start_ms }
}

/// A world of one, in this process.
fn alone(starter_bytes: u64) -> Result<Attachment> {
    let mut bytes = [0; 40];
    os::random_bytes(&mut bytes)?;
    let (secret, job) = bytes.split_at(32);
    let job = u64::from_le_bytes(job.try_into().unwrap_or_default());
    let arena = Arena::create(Config {
        job,
        ranks: 1,
        nodes: 1,
        node: 0,
        local_ranks: 1,
        machine_ranks: 1,
        machine_cores: process::cores(),
        terms: Terms::from_environment(starter_bytes)?,
    })?;
    arena.prepare_rank(0)?;
    if let (Some(place), Some(control)) = (arena.place(Rank(0)), arena.control(0)) {
        let alive = Place { node: 0, local: 0, status: Status::Alive, cause: Cause::UNKNOWN };
        place.store(alive, arena.changes());
        control.pid.store(std::process::id(), Ordering::Relaxed);
    }
    arena.shared().set_phase(Phase::Ready);
    let secret = Secret::from_bytes(secret.try_into().unwrap_or_default());
    let attachment = Attachment::new(Arc::new(arena), Rank(0), None, JobId(job));
    Ok(Attachment { secret, origin: Origin::Alone, ..attachment })
}
