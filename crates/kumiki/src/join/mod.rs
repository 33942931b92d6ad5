//! Join: separate programs, each under its own launcher and its own MPI library or none, in one conversation.
//!
//! Each program is a *block*. All processes of all blocks become one [`World`], in which they are numbered by block and by rank within it, and
//! talk in [groups](JoinGroup) that pick members from several blocks. `docs/join.md` says how blocks find each other, and which of
//! joined programs and one world of several jobs (`macprun`) to choose.
//!
//! ```
//! # fn main() -> kumiki::Result<()> {
//! use kumiki::join::Join;
//! // WAITIO_PBID, WAITIO_NPB and WAITIO_MASTER_HOST say who else there is; without them this process is alone.
//! let join = Join::from_env()?;
//! let all = join.universe()?;
//! let me = all.rank().expect("everybody is in it");
//! let next = (me + 1) % all.size();
//! let sending = all.start_send(next, 7, vec![f64::from(me); 1000])?;
//! let field = all.receive::<f64>((me + all.size() - 1) % all.size(), 7)?;
//! assert_eq!(field.len(), 1000);
//! sending.wait()?;
//! let mut largest = [field[0]];
//! all.collectives()?.allreduce(&mut largest, kumiki::comm::Max)?;
//! # drop(all);
//! join.leave()
//! # }
//! ```
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | joining and leaving, who is who |
//! | `group.rs` | messages and collectives of some processes |
//! | `closing.rs` | how those who leave find out that nobody is in a collective with them |

mod closing;
mod group;

pub use group::JoinGroup;

use crate::comm::Remains;
use crate::services::SERVICES;
use crate::{Error, Members, Rank, Result, Team, World};
use kumiki_mem::{Attachment, Hosting, Summons};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long whoever leaves waits for those who do not take what it has sent them.
const LEAVING: Duration = Duration::from_secs(15);

/// This process's place in the conversation of several programs.
#[derive(Debug)]
pub struct Join {
    world: World,
    /// The world rank of the first process of each block, and behind them how many ranks there are.
    firsts: Vec<Rank>,
    ranks: Vec<u32>,
    block: u32,
    /// What is left of groups that were dropped: this process leaves them when it leaves.
    kept: Mutex<Vec<(Team, Remains)>>,
}

/// How this process joins: from [`Join::options`]. What is not said the environment says.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct JoinOptions {
    timeout: Option<Duration>,
    block: Option<(u32, u32)>,
    rank: Option<(u32, u32)>,
    master: Option<(String, u16)>,
    secret: Option<Vec<u8>>,
    relay: Option<String>,
}

impl JoinOptions {
    /// How long to wait for the other blocks. (`WAITIO_TIMEOUT` goes before it; 120 s if nobody says anything.)
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The number of this program's block, and how many there are: `WAITIO_PBID`, `WAITIO_NPB`.
    pub fn block(mut self, block: u32, blocks: u32) -> Self {
        self.block = Some((block, blocks));
        self
    }

    /// The rank of this process in its block, and how many processes that has: otherwise as the MPI library of the process or its launcher says.
    pub fn rank(mut self, rank: u32, ranks: u32) -> Self {
        self.rank = Some((rank, ranks));
        self
    }

    /// Where rank 0 of block 0 listens: `WAITIO_MASTER_HOST`, `WAITIO_MASTER_PORT`.
    pub fn master(mut self, host: &str, port: u16) -> Self {
        self.master = Some((host.to_string(), port));
        self
    }

    /// What all blocks know, and nobody else: `WAITIO_SECRET_FILE`, `WAITIO_SECRET`. Without it all are on one machine and of one user.
    pub fn secret(mut self, secret: &[u8]) -> Self {
        self.secret = Some(secret.to_vec());
        self
    }

    /// `host:port` of a relay (`kumiki relay`) through which machines are reached that are in none of the networks of this one: `WAITIO_RELAY`. It
    /// knows the same secret.
    pub fn relay(mut self, relay: &str) -> Self {
        self.relay = Some(relay.to_string());
        self
    }

    /// Joins. Returns when every process of every block has come.
    pub fn init(self) -> Result<Join> {
        let JoinOptions { timeout, block, rank, master, secret, relay } = self;
        let rank = rank.map_or_else(kumiki_mem::place_in_job, Ok)?;
        let mut summons = Summons::from_environment(rank, block)?;
        summons.master = master.unwrap_or(summons.master);
        summons.secret = secret.or(summons.secret);
        summons.relay = relay.or(summons.relay);
        let said = kumiki_mem::variable("WAITIO_TIMEOUT")?;
        let timeout = match said {
            Some(text) => Some(kumiki_mem::parse_duration(&text).ok_or_else(|| {
                Error::Misuse(format!(
                    "WAITIO_TIMEOUT={text} cannot be; it should be a time such as 90s or 2m"
                ))
            })?),
            None => timeout,
        };
        let (memory, ranks) = kumiki_mem::World::init_block(&summons, timeout, SERVICES)?;
        Ok(Join::over(World::over(memory), ranks))
    }
}

impl Join {
    /// Joins as the environment says: see [`JoinOptions`].
    pub fn from_env() -> Result<Join> {
        Join::options().init()
    }

    /// Options for joining.
    pub fn options() -> JoinOptions {
        JoinOptions::default()
    }

    /// The joined programs of an attachment that somebody else made, in blocks of so many processes: for the simulator.
    pub fn attach(attachment: Attachment, ranks: &[u32]) -> Result<Join> {
        let world = World::attach(attachment)?;
        match ranks.iter().try_fold(0u32, |sum, &ranks| sum.checked_add(ranks)) == Some(world.ranks()) {
            true => Ok(Join::over(world, ranks.to_vec())),
            false => Err(Error::Misuse(format!(
                "blocks of {ranks:?} processes: there are {} ranks",
                world.ranks()
            ))),
        }
    }

    fn over(world: World, ranks: Vec<u32>) -> Join {
        let mut firsts = vec![0];
        firsts.extend(ranks.iter().scan(0, |sum, ranks| {
            *sum += ranks;
            Some(*sum)
        }));
        let block = firsts.partition_point(|&first| first <= world.rank()) as u32 - 1;
        Join { world, firsts, ranks, block, kept: Mutex::default() }
    }

    /// How many processes each block has.
    pub fn blocks(&self) -> &[u32] {
        &self.ranks
    }

    /// The number of this process's block.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// The rank of this process in its block.
    pub fn rank(&self) -> Rank {
        self.world.rank() - self.firsts[self.block as usize]
    }

    /// The world of all processes: global memory, and everything that is built on it, goes over all blocks. A process that has
    /// [left](Self::leave) is lost to it.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The number in the world of a process; `None` if there is none.
    pub fn world_rank(&self, block: u32, rank: Rank) -> Option<Rank> {
        (rank < *self.ranks.get(block as usize)?).then(|| self.firsts[block as usize] + rank)
    }

    /// The block of a rank of the world, and its rank there; `None` if there is no such rank.
    pub fn place_of(&self, rank: Rank) -> Option<(u32, Rank)> {
        if rank >= self.world.ranks() {
            return None;
        }
        let block = self.firsts.partition_point(|&first| first <= rank) - 1;
        Some((block as u32, rank - self.firsts[block]))
    }

    /// An error for people: with block and rank, where there is a rank of the world in it.
    pub fn explain(&self, error: &Error) -> String {
        match error {
            Error::PeerLost { rank, why, .. } => match self.place_of(*rank) {
                Some((block, rank)) => format!("rank {rank} of block {block} is lost: {why}"),
                None => error.to_string(),
            },
            error => error.to_string(),
        }
    }

    /// Sends what waits to be sent, and leaves; the others go on without this process. Those with whom it has had collectives it waits for until they leave,
    /// too, but not for longer than 15 s: one of them may still be in the last one. And where it keeps the agent of its machine or the hub of all (`KUMIKI_HOSTING`)
    /// it waits until nobody needs them. A process that ends without this is lost to the others.
    pub fn leave(self) -> Result<()> {
        let (left, hosting) = self.depart();
        hosting.wait();
        left
    }

    /// As [`leave`](Self::leave), but what this process does for others is to be waited for by itself, before the process ends.
    pub fn depart(self) -> (Result<()>, Hosting) {
        self.depart_within(LEAVING)
    }

    /// The same for a process that has no time.
    pub fn depart_within(self, limit: Duration) -> (Result<()>, Hosting) {
        self.go(limit)
    }

    fn go(&self, limit: Duration) -> (Result<()>, Hosting) {
        if self.world.memory.sleeps_at_once() {
            // On simulated ranks, whose time is not ours, all leave together.
            let left = self.world.memory.finalize_in_place(|| self.world.end_all());
            return (left, Hosting::default());
        }
        let until = Instant::now() + limit;
        self.close(until);
        for (team, remains) in std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
        {
            remains.end(&self.world);
            drop(team);
        }
        self.world.depart(until.saturating_duration_since(Instant::now()))
    }

    /// Keeps what is left of a group until this process leaves.
    fn keep(&self, team: Team, remains: Remains) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push((team, remains));
    }

    /// A group has ended for all its members.
    fn forget(&self, context: u32, members: &Members) {
        self.world.met().retain(|(name, known)| *name != u64::from(context) || known != members);
    }
}

impl Drop for Join {
    /// As [`leave`](Join::leave), if that was not called and the program goes on.
    fn drop(&mut self) {
        if !std::thread::panicking() && self.world.is_in() {
            self.go(LEAVING).1.wait();
        }
    }
}

#[cfg(test)]
mod tests;
