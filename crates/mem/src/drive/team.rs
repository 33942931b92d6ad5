//! Teams: ordered subsets of ranks with a barrier of their own.
//!
//! A team is made by ranks that have another way to meet (all of them, or a larger team): each [prepares](World::prepare_team)
//! it, they meet, each [joins](Team::join) it, and they meet again. After that the members meet by themselves: those of a node
//! in a block of the arena, which the first of them has taken from its heap, and the first ones of the nodes by signals.
//!
//! A member leaves by dropping the team, by finalizing, or by dying: then the others cannot meet any more, and everybody who
//! tries is told who left. [`free`](Team::free) is how all leave together.

use crate::drive::accounts::Booking;
use crate::drive::barrier::{open, Gate};
use crate::drive::world::{deadline_after, World};
use crate::drive::Drive;
use crate::engine::barrier::Passage;
use crate::engine::frames::{self, Signal};
use crate::engine::teams::{Hall, Members, Roster};
use crate::error::Fate;
use crate::node::ledger::Purpose;
use crate::node::region::Granted;
use crate::{Error, Result};
use kumiki_net::os::{futex, process, time};
use kumiki_net::shm::barrier::{Discord, Intent, NodeBarrier};
use kumiki_net::shm::control::Activity;
use kumiki_net::shm::team::TeamBlock;
use kumiki_net::shm::world::Status;
use kumiki_net::Rank;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// The teams of a rank.
#[derive(Debug, Default)]
pub(crate) struct Teams {
    all: Vec<Arc<State>>,
    /// Blocks of teams that this rank has left, while others may use them.
    retired: Vec<Granted>,
}

/// A team, as what serves this rank sees it.
#[derive(Debug)]
struct State {
    team: u64,
    roster: Roster,
    /// Where the members of this node meet.
    block: OnceLock<Block>,
    /// How many barriers this rank has entered.
    epoch: AtomicU64,
    /// A barrier that was entered and given up because of a deadline.
    passage: Mutex<Option<Passage>>,
    /// How many losses the world had when none of the members was missing.
    losses: AtomicU32,
    /// Whether the others know, or need not know, that this rank comes no more.
    parted: AtomicBool,
}

#[derive(Debug)]
enum Block {
    /// Nobody else of the node is in the team.
    Own(Box<TeamBlock>),
    /// At this place in the heap of a rank of this node.
    Shared { local: u32, place: u64 },
}

/// A team that this rank is a member of.
///
/// Dropping it is leaving it: see [`free`](Self::free).
pub struct Team {
    core: Arc<Drive>,
    state: Arc<State>,
    /// The block, if it is in the heap of this rank.
    granted: Option<Granted>,
    /// Whether nobody is in it, nor will be.
    abandoned: bool,
    booked: Booking,
}

impl std::fmt::Debug for Team {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Team(rank {} of {})", self.rank(), self.ranks())
    }
}

impl World {
    /// Takes what this rank needs to be in a team; `None` if it is not among the members. Every member does this with the same
    /// number, which is not 0 and that of no other team of any of them; then they meet, and then each [joins](Team::join).
    pub fn prepare_team(&self, team: u64, members: Members) -> Result<Option<Team>> {
        let core = self.core();
        core.check_usable()?;
        members.check(self.ranks())?;
        core.sweep_teams();
        if team == 0 || core.teams().all.iter().any(|state| state.team == team) {
            return Err(Error::Refused(format!("a team of the number {team:#x} cannot be made")));
        }
        let Some(roster) = Roster::new(core, members) else { return Ok(None) };
        let booked = Booking::new(core, Purpose::Team, bytes_of(&roster))?;
        let (here, leads_here) = (roster.here, roster.leader == core.rank);
        let state = Arc::new(State {
            team,
            roster,
            block: OnceLock::new(),
            epoch: AtomicU64::new(0),
            passage: Mutex::new(None),
            losses: AtomicU32::new(0),
            parted: AtomicBool::new(false),
        });
        let mut made = Team { core: core.clone(), state, granted: None, abandoned: false, booked };
        match (here, leads_here) {
            (1, _) => made.settle_in(Block::Own(Box::default())),
            (_, true) => made.take_block()?,
            (_, false) => {}
        }
        made.take_part();
        Ok(Some(made))
    }
}

impl Team {
    /// Finds what the members of this node share; after all have [prepared](World::prepare_team). No member may call
    /// [`sync`](Self::sync) before all have joined.
    pub fn join(&self) -> Result<()> {
        let (core, state) = (&self.core, &self.state);
        if state.block.get().is_none() {
            let place = core.arena.place(state.roster.leader).map(|word| word.load());
            let local = place.map_or(u32::MAX, |place| place.local);
            let noted = core.arena.control(local).and_then(|control| control.teams.find(state.team));
            // What a neighbour says is believed if it can be.
            let place = noted.filter(|place| core.arena.team_block(local, *place).is_some());
            let place = place.ok_or_else(|| {
                let leader = state.roster.leader;
                Error::Refused(format!("{leader} has not said where the members of its node meet"))
            })?;
            self.settle_in(Block::Shared { local, place });
        }
        Ok(())
    }

    /// Gives up a team that nobody joins, because not all have prepared it. Whoever is not sure of that drops it.
    pub fn abandon(mut self) {
        self.state.parted.store(true, Ordering::Relaxed);
        self.abandoned = true;
    }

    /// After all have joined: nobody looks any more where the members of this node meet.
    pub fn joined(&self) {
        if self.granted.is_some() {
            self.core.control().teams.erase(self.state.team);
        }
    }

    /// This rank's number in the team.
    pub fn rank(&self) -> u32 {
        self.state.roster.own
    }

    /// How many members there are.
    pub fn ranks(&self) -> u32 {
        self.state.roster.members.len()
    }

    /// Who they are.
    pub fn members(&self) -> &Members {
        &self.state.roster.members
    }

    /// The number that all members know the team by.
    pub fn number(&self) -> u64 {
        self.state.team
    }

    /// Private bytes that the team takes on this rank, as they are booked.
    pub fn bytes(&self) -> u64 {
        self.booked.bytes()
    }

    /// Whether it is a team of this world.
    pub fn is_in(&self, world: &World) -> bool {
        Arc::ptr_eq(&self.core, world.core())
    }

    /// Waits until every member has come here: as [`World::sync`], for the members alone. After an error the rank is still in
    /// the barrier, and the next call goes on with it.
    pub fn sync(&self) -> Result<()> {
        self.core.note(self.meet(None))
    }

    /// As [`sync`](Self::sync), for at most this long.
    pub fn sync_for(&self, limit: Duration) -> Result<()> {
        self.core.note(self.meet(Some(deadline_after(limit))))
    }

    /// As [`sync_for`](Self::sync_for), for whoever goes on after an error: it does not count as one that this world has returned.
    pub fn meet_for(&self, limit: Duration) -> Result<()> {
        self.meet(Some(deadline_after(limit)))
    }

    /// Waits for the other members, and leaves the team. The others have come here; if one of them came for another barrier, its
    /// next one says who left.
    pub fn free(self) -> Result<()> {
        self.sync()
    }

    /// From now on this rank hears of the team: who leaves it may do so as soon as all have prepared.
    fn take_part(&self) {
        let (core, state) = (&self.core, &self.state);
        if state.roster.leads() {
            core.machine().engine.barriers.teams.add(Hall::new(state.team, &state.roster));
        }
        core.teams().all.push(state.clone());
    }

    /// Takes memory for the barrier of this node, and notes where it is.
    fn take_block(&mut self) -> Result<()> {
        let bytes = std::mem::size_of::<TeamBlock>() as u64;
        let granted = self.core.allocate(bytes, 0)?;
        let (local, place) = (self.core.local, granted.base);
        if let Some(block) = self.core.arena.team_block(local, place) {
            block.expect(self.state.roster.here);
        }
        if !self.core.control().teams.write(self.state.team, place) {
            let what = "notes of teams that are being made";
            self.core.give_back_block(granted);
            return Err(Error::OutOfMemory { asked: bytes, left: 0, what });
        }
        self.granted = Some(granted);
        self.settle_in(Block::Shared { local, place });
        Ok(())
    }

    fn settle_in(&self, block: Block) {
        let _ = self.state.block.set(block);
    }

    fn meet(&self, deadline_ms: Option<u64>) -> Result<()> {
        self.core.check_usable()?;
        let mut place = self.state.passage.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut passage = match *place {
            Some(passage) => passage,
            None => match self.enter()? {
                Some(passage) => passage,
                None => return Ok(()),
            },
        };
        let barrier = self.state.barrier(&self.core)?;
        let gate = Room { core: &self.core, state: &self.state, barrier };
        let passed = self.core.pass(&gate, &mut passage, Activity::Team, deadline_ms);
        if passed.is_err() {
            self.tell_who_left(passage.epoch);
        }
        *place = passed.is_err().then_some(passage);
        passed
    }

    /// Arrives at the next barrier. `None` if that opened it.
    fn enter(&self) -> Result<Option<Passage>> {
        let (state, barrier) = (&*self.state, self.state.barrier(&self.core)?);
        let epoch = state.epoch.load(Ordering::Relaxed) + 1;
        let gate = Room { core: &self.core, state, barrier };
        if let Err(error) = gate.check(&mut None) {
            self.tell_who_left(epoch);
            return Err(error);
        }
        state.epoch.store(epoch, Ordering::SeqCst);
        let ticket = barrier.arrive(state.roster.here, Intent::Sync);
        if ticket.last && state.roster.nodes == 1 {
            open(barrier, ticket);
            return Ok(None);
        }
        let leads = state.roster.leads();
        if ticket.last {
            barrier.gather(ticket);
            // Only who leads waits for that.
            if !leads {
                futex::wake_all(barrier.gathered_word());
            }
        }
        if leads {
            // Another node may have said before that somebody left.
            let mut machine = self.core.machine();
            let heard = machine.engine.barriers.teams.get(state.team).and_then(|hall| hall.enter(epoch));
            drop(machine);
            heard.into_iter().for_each(|discord| break_up(barrier, discord));
        }
        Ok(Some(Passage::new(ticket, epoch, Intent::Sync, self.core.rank, state.roster.nodes, leads)))
    }

    /// After an error: if a member of this node has left, the leaders of the others learn it from this one.
    #[cold]
    fn tell_who_left(&self, epoch: u64) {
        let broken = self.state.barrier(&self.core).ok().and_then(|barrier| barrier.broken());
        if let Some(discord) = broken {
            self.core.spread(&self.state, epoch, discord);
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        // What a closed world had of it is gone, and a forked child has none of it.
        if process::is_forked_child() || self.core.closed.load(Ordering::Acquire) {
            return;
        }
        self.joined();
        let state = &self.state;
        self.core.teams().all.retain(|other| !Arc::ptr_eq(other, state));
        self.core.part(state);
        self.core.machine().engine.barriers.teams.remove(state.team);
        let granted = self.granted.take();
        if self.abandoned {
            granted.into_iter().for_each(|granted| self.core.give_back_block(granted));
            return;
        }
        if let Some(Block::Shared { local, place }) = state.block.get() {
            self.core.arena.team_block(*local, *place).into_iter().for_each(TeamBlock::leave);
        }
        // Others may have found the block, whatever this rank knows of them: it is theirs until they have left, too.
        self.core.teams().retired.extend(granted);
        self.core.sweep_teams();
    }
}

impl State {
    /// Where the members of this node meet.
    fn barrier<'a>(&'a self, core: &'a Drive) -> Result<&'a NodeBarrier> {
        let block = match self.block.get() {
            Some(Block::Own(block)) => Some(&**block),
            Some(Block::Shared { local, place }) => core.arena.team_block(*local, *place),
            None => None,
        };
        block.map(|block| &block.barrier).ok_or_else(|| Error::misuse("a team that was not joined"))
    }
}

impl Drive {
    fn teams(&self) -> MutexGuard<'_, Teams> {
        self.teams.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// This rank finalizes, or starts over: no team of it meets again.
    pub(crate) fn leave_teams(&self) {
        let all = self.teams().all.clone();
        all.iter().for_each(|state| self.part(state));
    }

    /// Another node says that a member has left. Whoever has not come to that barrier yet looks when it does.
    #[cold]
    pub(crate) fn break_up_team(&self, team: u64, epoch: u64, discord: Discord) {
        let state = self.teams().all.iter().find(|state| state.team == team).cloned();
        let come = state.filter(|state| epoch <= state.epoch.load(Ordering::SeqCst));
        if let Some(barrier) = come.as_ref().and_then(|state| state.barrier(self).ok()) {
            break_up(barrier, discord);
        }
    }

    /// The members learn that this rank comes no more: those of the node now, the others from the leader.
    fn part(&self, state: &State) {
        let discord = Discord { rank: self.rank, intent: Intent::Finalize };
        {
            // Whoever finds this done may leave the block at once, and it is not touched after that.
            let _teams = self.teams();
            if state.parted.swap(true, Ordering::Relaxed) {
                return;
            }
            if let Ok(barrier) = state.barrier(self) {
                break_up(barrier, discord);
            }
        }
        // Whoever has passed the last barrier misses the next; whoever has given one up misses that.
        let passed = state.passage.try_lock().map_or(0, |passage| u64::from(passage.is_none()));
        self.spread(state, state.epoch.load(Ordering::SeqCst) + passed, discord);
    }

    /// A leader tells others that somebody has left.
    fn spread(&self, state: &State, epoch: u64, discord: Discord) {
        if !state.roster.leads() {
            return;
        }
        let mut machine = self.machine();
        let hall = machine.engine.barriers.teams.get(state.team);
        for (to, message) in hall.map(|hall| hall.spread(epoch, discord)).unwrap_or_default() {
            // Whoever is gone need not know; what cannot be sent for another reason is trouble of this rank.
            let _ = machine.send(self, to, message);
        }
    }

    /// Gives back the blocks that nobody uses any more.
    fn sweep_teams(&self) {
        let is_used = |granted: &Granted| {
            self.arena.team_block(self.local, granted.base).is_some_and(TeamBlock::is_used)
        };
        let unused: Vec<Granted> = {
            let mut teams = self.teams();
            let (used, unused) = std::mem::take(&mut teams.retired).into_iter().partition(is_used);
            teams.retired = used;
            unused
        };
        unused.into_iter().for_each(|granted| self.give_back_block(granted));
    }

    fn give_back_block(&self, granted: Granted) {
        if self.check_usable().is_ok() {
            let _ = self.unregister(granted.slot, granted.generation);
        }
    }
}

/// The barrier of a team on this node.
struct Room<'a> {
    core: &'a Drive,
    state: &'a State,
    barrier: &'a NodeBarrier,
}

impl Gate for Room<'_> {
    fn barrier(&self) -> &NodeBarrier {
        self.barrier
    }

    fn check(&self, left_since: &mut Option<u64>) -> Result<()> {
        if let Some(discord) = self.barrier.broken() {
            return Err(who_left(discord));
        }
        let losses = self.core.arena.shared().losses();
        // The members are looked through once after each loss.
        if losses == 0 || losses == self.state.losses.load(Ordering::Relaxed) {
            return Ok(());
        }
        let place = |rank: u32| self.core.arena.place(Rank(rank)).map(|word| (rank, word.load()));
        let missing = self.state.roster.members.iter().filter_map(place);
        let (mut lost, mut left) = (None, None);
        for (rank, place) in missing {
            match place.status {
                Status::Lost => lost = lost.or(Some((rank, place.cause))),
                Status::Left => left = left.or(Some(rank)),
                _ => {}
            }
        }
        if let Some((rank, cause)) = lost {
            return Err(Error::PeerLost { rank, fate: Fate::NotDone, why: cause.to_string() });
        }
        let Some(rank) = left else {
            self.state.losses.store(losses, Ordering::Relaxed);
            return Ok(());
        };
        // It may have left behind this very barrier, which then opens as soon as all signals are there.
        let now_ms = time::now_ms();
        if now_ms - *left_since.get_or_insert(now_ms) > self.core.left_grace_ms() {
            return Err(who_left(Discord { rank: Rank(rank), intent: Intent::Finalize }));
        }
        Ok(())
    }

    fn absent(&self) -> String {
        let (came, here) = (self.barrier.arrivals(), self.state.roster.here);
        if came >= here {
            return "members on other nodes have not come".into();
        }
        format!("{came} of the {here} members on this node have come to the barrier of their team")
    }

    fn signal(&self, round: u32, signal: Signal) -> Result<()> {
        let way = self.state.roster.ways.get(round as usize);
        let to = way.map(|way| way.to).ok_or_else(|| Error::Closed("a round too many".into()))?;
        let message = frames::notice(signal.header(self.state.team, round));
        self.core.machine().send(self.core, to, message)
    }

    fn wait_for_signal(
        &self,
        activity: Activity,
        passage: &Passage,
        deadline_ms: Option<u64>,
        round: u32,
    ) -> Result<Signal> {
        let (core, team) = (self.core, self.state.team);
        let from = self.state.roster.ways.get(round as usize).map(|way| way.from);
        let mut left_since = None;
        let awaits = |whom: Option<Rank>| {
            if let Some(hall) = core.machine().engine.barriers.teams.get(team) {
                hall.heard.awaited = whom;
            }
        };
        awaits(from);
        let result = core.wait_until(activity, deadline_ms, |engine| {
            let Some(hall) = engine.barriers.teams.get(team) else {
                return Some(Err(Error::misuse("a team that this rank has left")));
            };
            let heard = hall.heard.signal(round);
            if heard.epoch >= passage.epoch {
                return Some(Ok(heard));
            }
            self.check(&mut left_since).err().map(Err)
        });
        awaits(None);
        match result {
            Err(Error::Timeout { after_ms, .. }) => {
                let whom = from.map_or(String::new(), |from| from.to_string());
                let what = format!("({activity}): {whom}, or another member of its node, has not come");
                Err(Error::Timeout { what, after_ms })
            }
            other => other?,
        }
    }

    fn heard_of_discord(&self, discord: Discord) -> Error {
        who_left(discord)
    }
}

fn break_up(barrier: &NodeBarrier, discord: Discord) {
    barrier.break_up(discord);
    futex::wake_all(barrier.sleep_word());
    futex::wake_all(barrier.gathered_word());
}

fn who_left(discord: Discord) -> Error {
    let why = "it has left the team, or finalized, while others went on".to_string();
    Error::PeerLost { rank: discord.rank.0, fate: Fate::NotDone, why }
}

/// Private bytes of a team: its state here, and that in the engine.
fn bytes_of(roster: &Roster) -> u64 {
    let own = std::mem::size_of::<State>() + 2 * std::mem::size_of::<usize>() + std::mem::size_of::<Team>();
    let block = if roster.here == 1 { std::mem::size_of::<TeamBlock>() } else { 0 };
    let hall = if roster.leads() { Hall::bytes(2 * roster.ways.len()) } else { 0 };
    (own + block) as u64 + hall + roster.members.bytes()
}
