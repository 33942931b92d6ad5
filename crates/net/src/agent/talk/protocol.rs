//! Messages between the hub of a job and its node agents.
//!
//! An agent names its own ranks by their index on the node, which never changes; the hub names ranks by their
//! number in the world, which a reset changes. Both directions are ordered streams, so both sides agree on which
//! numbering a message belongs to.

use crate::codec::{bad, Reader, Writer};
use crate::shm::world::{Cause, MAX_PER_WORLD};
use crate::terms::Terms;
use crate::{Rank, Result};
use std::net::SocketAddr;

/// The first bytes that an agent writes, so that what a login script prints before them is passed over.
pub const GREETING: &[u8; 16] = b"KUMIKI-AGENT-3\r\n";
/// The most bytes of one message.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

impl Ending {
    /// The exit code, as a shell has it.
    pub fn code(self) -> i32 {
        match self {
            Ending::Code(code) => code,
            Ending::Signal(signal) => 128 + signal,
        }
    }

    /// Why a rank is lost that ended like this before it had left.
    pub fn cause(self) -> Cause {
        match self {
            Ending::Code(_) => Cause::EXITED,
            Ending::Signal(signal) => Cause::signal(signal),
        }
    }
}

/// What a rank is waiting for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Who waits, by its index on the node.
    pub local: u32,
    /// What it does, as the end of a sentence ("waits in a barrier").
    pub doing: String,
    /// For whom, if for somebody in particular.
    pub peer: Option<Rank>,
    /// For how long.
    pub for_ms: u64,
}

/// Where the ranks of the world are and how to reach their nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// For each rank: its node and its index there.
    pub places: Vec<(u32, u32)>,
    /// For each node: the address of its port.
    pub addresses: Vec<SocketAddr>,
}

/// Ranks that have finalized, in runs: at the end of a job all of them do, in the same way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Leaves(Vec<Run>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    first: u32,
    count: u32,
    barriers: u32,
}

impl Leaves {
    /// Takes ranks, each with the number of barriers that it had come to.
    pub fn new(mut ranks: Vec<(u32, u32)>) -> Leaves {
        ranks.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        for (rank, barriers) in ranks {
            match runs.last_mut() {
                Some(run) if run.first + run.count == rank && run.barriers == barriers => run.count += 1,
                _ => runs.push(Run { first: rank, count: 1, barriers }),
            }
        }
        Leaves(runs)
    }

    /// The ranks, each with its barriers; of those below `ranks`.
    pub fn iter(&self, ranks: u32) -> impl Iterator<Item = (Rank, u32)> + '_ {
        let each = move |run: &Run| {
            let (end, barriers) = (run.first.saturating_add(run.count).min(ranks), run.barriers);
            (run.first..end).map(move |rank| (Rank(rank), barriers))
        };
        self.0.iter().flat_map(each)
    }
}

/// Which address an agent listens on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// The loopback address: all nodes are on this machine.
    Loopback,
    /// The address by which the launcher reached this machine, or the one `KUMIKI_NET` chooses.
    Reached,
    /// This address, which the launcher has set up.
    Address(SocketAddr),
}

/// Everything an agent needs to know to start its ranks, except the job's secret: that is in no message, because messages
/// travel over sockets, and not all of those are encrypted. An agent has it before the first message comes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The job.
    pub job: u64,
    /// The index of this node, and how many there are.
    pub node: u32,
    /// How many nodes there are.
    pub nodes: u32,
    /// How many ranks there are in the world.
    pub ranks: u32,
    /// The ranks of this node.
    pub here: Vec<u32>,
    /// Ranks on this machine, and how many of them are on nodes before this one.
    pub machine_ranks: u32,
    /// Ranks of the machine that are on nodes before this one; for binding to cores.
    pub machine_before: u32,
    /// What all hold to.
    pub terms: Terms,
    /// Where to listen.
    pub listen: Listen,
    /// Whether ranks are bound to one core each.
    pub bind_cores: bool,
    /// Whether the standard output and error of ranks go through the hub instead of being inherited.
    pub pipe_output: bool,
    /// Whether the control stream runs over a network, so that silence of the hub counts.
    pub remote: bool,
    /// Whether rank 0, if it is here, gets the launcher's standard input.
    pub forward_input: bool,
    /// Where to run; empty for the directory the agent is in.
    pub directory: Vec<u8>,
    /// Environment to add: name and value.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// The program and its arguments.
    pub command: Vec<Vec<u8>>,
}

impl Launch {
    /// What agents of ranks that came by themselves are told alike; who is where is still to be said.
    pub fn of_strangers(job: u64, terms: Terms) -> Launch {
        Launch {
            job,
            node: 0,
            nodes: 0,
            ranks: 0,
            here: Vec::new(),
            machine_ranks: 0,
            machine_before: 0,
            terms,
            listen: Listen::Reached,
            bind_cores: false,
            pipe_output: false,
            remote: true,
            forward_input: false,
            directory: Vec::new(),
            environment: Vec::new(),
            command: Vec::new(),
        }
    }
}

/// What an agent tells the hub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToHub {
    /// A rank that nobody planned has come to this agent; its index is how many came before.
    Arrived {
        /// The rank it says it is.
        rank: u32,
        /// The size of the world, as it knows it.
        ranks: u32,
    },
    /// The agent can start its ranks: the program is there, the port is open.
    Prepared {
        /// The port of the node.
        address: SocketAddr,
    },
    /// The agent cannot do its part.
    Failed {
        /// The exit code that the job should have.
        code: i32,
        /// What the user should read.
        message: String,
    },
    /// A rank joins the world.
    Attached {
        /// Which.
        local: u32,
    },
    /// A rank has finalized.
    Left {
        /// Which.
        local: u32,
        /// How many barriers it had come to.
        barriers: u32,
    },
    /// A rank that was in the world is gone.
    Lost {
        /// Which.
        local: u32,
        /// Why.
        cause: Cause,
    },
    /// A rank was given up, and may live on: its process cannot be ended.
    Unfenced {
        /// Which.
        local: u32,
        /// Why not.
        why: String,
    },
    /// The process of a rank has ended.
    Ended {
        /// Which.
        local: u32,
        /// How.
        ending: Ending,
    },
    /// A rank cannot reach another.
    Unreachable {
        /// Who says so.
        local: u32,
        /// Who is out of reach.
        rank: Rank,
        /// Why.
        cause: Cause,
    },
    /// A rank wants the job to end.
    Abort {
        /// Which.
        local: u32,
        /// The exit code of the job.
        code: u8,
        /// What the user should read.
        message: String,
    },
    /// A rank wants the world to start over.
    Reset {
        /// Which.
        local: u32,
        /// The rank it wants to be.
        new_rank: u32,
    },
    /// The node is ready for the world to start over.
    ResetPrepared,
    /// What a rank wrote.
    Output {
        /// Which.
        local: u32,
        /// Whether it is its standard error.
        is_error: bool,
        /// The bytes; whole lines, except at the end.
        bytes: Vec<u8>,
    },
    /// Bytes of the standard input that rank 0 has taken; `closed` if it will take no more.
    InputTaken {
        /// How many.
        bytes: u32,
        /// Whether rank 0 has closed its standard input.
        closed: bool,
    },
    /// What the ranks of the node wait for.
    Waits {
        /// One entry a rank.
        waits: Vec<Wait>,
    },
    /// The agent has told all that it knew of a rank before this: the answer to [`ToNode::Probe`].
    Probed {
        /// Which.
        rank: Rank,
    },
    /// The agent is alive.
    Heartbeat,
    /// Every process of the node has ended; the agent ends now.
    Done,
}

/// What the hub tells an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToNode {
    /// Get ready to start these ranks.
    Launch(Box<Launch>),
    /// Start them.
    Start,
    /// A world begins: make its arena.
    Begin(Table),
    /// Every rank has joined.
    Ready,
    /// No world can begin any more; whoever asked to join is told why.
    Refuse {
        /// What the user should read.
        why: String,
    },
    /// The world cannot begin yet, and why; nothing if it is not known.
    Waiting {
        /// What the user should read if it never begins.
        why: String,
    },
    /// A rank of another node is lost.
    Loss {
        /// Which.
        rank: Rank,
        /// Why.
        cause: Cause,
    },
    /// Ranks have finalized, of other nodes or of this one.
    Leave(Leaves),
    /// The world starts over with these places: clear everything, and say when it is done.
    ResetPrepare(Table),
    /// Every node is ready: the world has started over.
    ResetGo,
    /// The world cannot start over.
    ResetRefused {
        /// What the user should read.
        why: String,
    },
    /// Say what the ranks wait for.
    Describe,
    /// Somebody cannot reach this rank: say so when everything that has happened to it is told.
    Probe {
        /// Which.
        rank: Rank,
    },
    /// The world gives this rank up: end its process, if it still runs, so that it cannot come back. Nobody takes over what it
    /// held before its end has been told.
    Fence {
        /// Which.
        rank: Rank,
    },
    /// Send a signal to the ranks.
    Signal {
        /// Which.
        signal: i32,
    },
    /// End the job: tell the ranks why, send them `signal`, and kill what is left after the grace.
    Terminate {
        /// The first signal.
        signal: i32,
        /// How long the ranks have to end.
        grace_ms: u32,
        /// What the ranks should read.
        reason: String,
    },
    /// Stop the ranks, for the user has suspended the job; or let them go on.
    Suspend(bool),
    /// Bytes for the standard input of rank 0; none is the end of it.
    Input(Vec<u8>),
    /// The hub is alive.
    Heartbeat,
}

impl ToHub {
    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToHub::Prepared { address } => Writer::new(1).address(address),
            ToHub::Failed { code, message } => Writer::new(2).word(*code as u32).text(message),
            ToHub::Attached { local } => Writer::new(3).word(*local),
            ToHub::Left { local, barriers } => Writer::new(4).word(*local).word(*barriers),
            ToHub::Lost { local, cause } => Writer::new(5).word(*local).byte(cause.0),
            ToHub::Ended { local, ending } => {
                let (signal, number) = match ending {
                    Ending::Code(code) => (false, *code),
                    Ending::Signal(signal) => (true, *signal),
                };
                Writer::new(6).word(*local).flag(signal).word(number as u32)
            }
            ToHub::Unreachable { local, rank, cause } => {
                Writer::new(7).word(*local).word(rank.0).byte(cause.0)
            }
            ToHub::Abort { local, code, message } => Writer::new(8).word(*local).byte(*code).text(message),
            ToHub::Reset { local, new_rank } => Writer::new(9).word(*local).word(*new_rank),
            ToHub::ResetPrepared => Writer::new(10),
            ToHub::Output { local, is_error, bytes } => {
                Writer::new(11).word(*local).flag(*is_error).bytes(bytes)
            }
            ToHub::InputTaken { bytes, closed } => Writer::new(12).word(*bytes).flag(*closed),
            ToHub::Waits { waits } => Writer::new(13).list(waits, write_wait),
            ToHub::Heartbeat => Writer::new(14),
            ToHub::Done => Writer::new(15),
            ToHub::Arrived { rank, ranks } => Writer::new(16).word(*rank).word(*ranks),
            ToHub::Probed { rank } => Writer::new(17).word(rank.0),
            ToHub::Unfenced { local, why } => Writer::new(18).word(*local).text(why),
        }
        .finish()
    }

    /// The message of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<ToHub> {
        let mut r = Reader::new(bytes);
        let message = match r.byte()? {
            1 => ToHub::Prepared { address: r.address()? },
            2 => ToHub::Failed { code: r.word()? as i32, message: r.text()? },
            3 => ToHub::Attached { local: r.word()? },
            4 => ToHub::Left { local: r.word()?, barriers: r.word()? },
            5 => ToHub::Lost { local: r.word()?, cause: Cause(r.byte()?) },
            6 => ToHub::Ended {
                local: r.word()?,
                ending: match r.flag()? {
                    false => Ending::Code(r.word()? as i32),
                    true => Ending::Signal(r.word()? as i32),
                },
            },
            7 => ToHub::Unreachable { local: r.word()?, rank: Rank(r.word()?), cause: Cause(r.byte()?) },
            8 => ToHub::Abort { local: r.word()?, code: r.byte()?, message: r.text()? },
            9 => ToHub::Reset { local: r.word()?, new_rank: r.word()? },
            10 => ToHub::ResetPrepared,
            11 => ToHub::Output { local: r.word()?, is_error: r.flag()?, bytes: r.bytes()?.to_vec() },
            12 => ToHub::InputTaken { bytes: r.word()?, closed: r.flag()? },
            13 => ToHub::Waits { waits: r.list(read_wait)? },
            14 => ToHub::Heartbeat,
            15 => ToHub::Done,
            16 => ToHub::Arrived { rank: r.word()?, ranks: r.word()? },
            17 => ToHub::Probed { rank: Rank(r.word()?) },
            18 => ToHub::Unfenced { local: r.word()?, why: r.text()? },
            _ => return Err(bad("its kind is unknown")),
        };
        r.end()?;
        Ok(message)
    }
}

impl ToNode {
    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToNode::Launch(launch) => write_launch(Writer::new(1), launch),
            ToNode::Start => Writer::new(2),
            ToNode::Begin(table) => write_table(Writer::new(3), table),
            ToNode::Ready => Writer::new(4),
            ToNode::Refuse { why } => Writer::new(5).text(why),
            ToNode::Loss { rank, cause } => Writer::new(6).word(rank.0).byte(cause.0),
            ToNode::Leave(Leaves(runs)) => {
                Writer::new(7).list(runs, |w, run| w.word(run.first).word(run.count).word(run.barriers))
            }
            ToNode::ResetPrepare(table) => write_table(Writer::new(8), table),
            ToNode::ResetGo => Writer::new(9),
            ToNode::ResetRefused { why } => Writer::new(10).text(why),
            ToNode::Describe => Writer::new(11),
            ToNode::Signal { signal } => Writer::new(12).word(*signal as u32),
            ToNode::Terminate { signal, grace_ms, reason } => {
                Writer::new(13).word(*signal as u32).word(*grace_ms).text(reason)
            }
            ToNode::Suspend(on) => Writer::new(14).flag(*on),
            ToNode::Input(bytes) => Writer::new(15).bytes(bytes),
            ToNode::Heartbeat => Writer::new(16),
            ToNode::Probe { rank } => Writer::new(17).word(rank.0),
            ToNode::Waiting { why } => Writer::new(18).text(why),
            ToNode::Fence { rank } => Writer::new(19).word(rank.0),
        }
        .finish()
    }

    /// The message of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<ToNode> {
        let mut r = Reader::new(bytes);
        let message = match r.byte()? {
            1 => ToNode::Launch(Box::new(read_launch(&mut r)?)),
            2 => ToNode::Start,
            3 => ToNode::Begin(read_table(&mut r)?),
            4 => ToNode::Ready,
            5 => ToNode::Refuse { why: r.text()? },
            6 => ToNode::Loss { rank: Rank(r.word()?), cause: Cause(r.byte()?) },
            7 => ToNode::Leave(Leaves(
                r.list(|r| Ok(Run { first: r.word()?, count: r.word()?, barriers: r.word()? }))?,
            )),
            8 => ToNode::ResetPrepare(read_table(&mut r)?),
            9 => ToNode::ResetGo,
            10 => ToNode::ResetRefused { why: r.text()? },
            11 => ToNode::Describe,
            12 => ToNode::Signal { signal: r.word()? as i32 },
            13 => ToNode::Terminate { signal: r.word()? as i32, grace_ms: r.word()?, reason: r.text()? },
            14 => ToNode::Suspend(r.flag()?),
            15 => ToNode::Input(r.bytes()?.to_vec()),
            16 => ToNode::Heartbeat,
            17 => ToNode::Probe { rank: Rank(r.word()?) },
            18 => ToNode::Waiting { why: r.text()? },
            19 => ToNode::Fence { rank: Rank(r.word()?) },
            _ => return Err(bad("its kind is unknown")),
        };
        r.end()?;
        Ok(message)
    }
}

fn write_wait(w: Writer, wait: &Wait) -> Writer {
    let peer = wait.peer.map_or(u32::MAX, |rank| rank.0);
    w.word(wait.local).text(&wait.doing).word(peer).long(wait.for_ms)
}

fn read_wait(r: &mut Reader<'_>) -> Result<Wait> {
    let (local, doing, peer, for_ms) = (r.word()?, r.text()?, r.word()?, r.long()?);
    Ok(Wait { local, doing, peer: (peer != u32::MAX).then_some(Rank(peer)), for_ms })
}

/// Consecutive ranks at consecutive places: of one node, or at one index of consecutive nodes. Every node gets the whole table,
/// and jobs are laid out in one of these two ways.
#[derive(Clone, Copy)]
struct Stretch {
    first: (u32, u32),
    count: u32,
    over_nodes: bool,
}

impl Stretch {
    fn place(&self, index: u32) -> Option<(u32, u32)> {
        let (node, local) = self.first;
        match self.over_nodes {
            true => Some((node.checked_add(index)?, local)),
            false => Some((node, local.checked_add(index)?)),
        }
    }

    /// Takes one more place, if it goes on like that.
    fn extend(&mut self, place: (u32, u32)) -> bool {
        let either = [self.over_nodes, !self.over_nodes];
        for over_nodes in either.into_iter().take(if self.count == 1 { 2 } else { 1 }) {
            let longer = Stretch { count: self.count + 1, over_nodes, ..*self };
            if longer.place(self.count) == Some(place) {
                *self = longer;
                return true;
            }
        }
        false
    }
}

fn write_table(w: Writer, table: &Table) -> Writer {
    let mut stretches: Vec<Stretch> = Vec::new();
    for &place in &table.places {
        if !stretches.last_mut().is_some_and(|last| last.extend(place)) {
            stretches.push(Stretch { first: place, count: 1, over_nodes: false });
        }
    }
    w.list(&stretches, |w, Stretch { first: (node, local), count, over_nodes }| {
        w.word(*node).word(*local).word(*count).flag(*over_nodes)
    })
    .list(&table.addresses, |w, address| w.address(address))
}

fn read_table(r: &mut Reader<'_>) -> Result<Table> {
    let stretch = |r: &mut Reader<'_>| {
        Ok(Stretch { first: (r.word()?, r.word()?), count: r.word()?, over_nodes: r.flag()? })
    };
    let stretches = r.list(stretch)?;
    let ranks: u64 = stretches.iter().map(|stretch| stretch.count as u64).sum();
    if ranks > MAX_PER_WORLD as u64 {
        return Err(bad("its world has too many ranks"));
    }
    let mut places = Vec::with_capacity(ranks as usize);
    for stretch in stretches {
        for index in 0..stretch.count {
            places.push(stretch.place(index).ok_or_else(|| bad("a rank is at no place"))?);
        }
    }
    Ok(Table { places, addresses: r.list(Reader::address)? })
}

fn write_launch(w: Writer, launch: &Launch) -> Writer {
    let w = w
        .long(launch.job)
        .word(launch.node)
        .word(launch.nodes)
        .word(launch.ranks)
        .list(&launch.here, |w, rank| w.word(*rank))
        .word(launch.machine_ranks)
        .word(launch.machine_before);
    let w = launch.terms.write(w);
    let w = match &launch.listen {
        Listen::Loopback => w.byte(0),
        Listen::Reached => w.byte(1),
        Listen::Address(address) => w.byte(2).address(address),
    };
    w.flag(launch.bind_cores)
        .flag(launch.pipe_output)
        .flag(launch.remote)
        .flag(launch.forward_input)
        .bytes(&launch.directory)
        .list(&launch.environment, |w, (name, value)| w.bytes(name).bytes(value))
        .list(&launch.command, |w, word| w.bytes(word))
}

fn read_launch(r: &mut Reader<'_>) -> Result<Launch> {
    Ok(Launch {
        job: r.long()?,
        node: r.word()?,
        nodes: r.word()?,
        ranks: r.word()?,
        here: r.list(Reader::word)?,
        machine_ranks: r.word()?,
        machine_before: r.word()?,
        terms: Terms::read(r)?,
        listen: match r.byte()? {
            0 => Listen::Loopback,
            1 => Listen::Reached,
            2 => Listen::Address(r.address()?),
            _ => return Err(bad("it listens nowhere known")),
        },
        bind_cores: r.flag()?,
        pipe_output: r.flag()?,
        remote: r.flag()?,
        forward_input: r.flag()?,
        directory: r.bytes()?.to_vec(),
        environment: r.list(|r| Ok((r.bytes()?.to_vec(), r.bytes()?.to_vec())))?,
        command: r.list(|r| Ok(r.bytes()?.to_vec()))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::tests::terms;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn address() -> impl Strategy<Value = SocketAddr> {
        prop_oneof![
            (any::<[u8; 4]>(), any::<u16>()).prop_map(SocketAddr::from),
            (any::<[u8; 16]>(), any::<u16>()).prop_map(SocketAddr::from),
        ]
    }

    fn table() -> impl Strategy<Value = Table> {
        (vec(any::<(u32, u32)>(), 0..20), vec(address(), 0..5))
            .prop_map(|(places, addresses)| Table { places, addresses })
    }

    fn wait() -> impl Strategy<Value = Wait> {
        (any::<u32>(), ".{0,20}", proptest::option::of(0..u32::MAX), any::<u64>())
            .prop_map(|(local, doing, peer, for_ms)| Wait { local, doing, peer: peer.map(Rank), for_ms })
    }

    fn launch() -> impl Strategy<Value = Launch> {
        let listen =
            prop_oneof![Just(Listen::Loopback), Just(Listen::Reached), address().prop_map(Listen::Address)];
        let bytes = || vec(any::<u8>(), 0..20);
        let numbers = (any::<[u32; 5]>(), any::<u64>(), any::<[bool; 4]>());
        let lists = (vec(any::<u32>(), 0..9), bytes(), vec((bytes(), bytes()), 0..4), vec(bytes(), 0..4));
        (numbers, terms(), lists, listen).prop_map(|((words, job, flags), terms, lists, listen)| Launch {
            job,
            node: words[0],
            nodes: words[1],
            ranks: words[2],
            here: lists.0,
            machine_ranks: words[3],
            machine_before: words[4],
            terms,
            listen,
            bind_cores: flags[0],
            pipe_output: flags[1],
            remote: flags[2],
            forward_input: flags[3],
            directory: lists.1,
            environment: lists.2,
            command: lists.3,
        })
    }

    fn to_hub() -> impl Strategy<Value = ToHub> {
        let ending = prop_oneof![any::<i32>().prop_map(Ending::Code), any::<i32>().prop_map(Ending::Signal)];
        let cause = || any::<u8>().prop_map(Cause);
        prop_oneof![
            any::<(u32, u32)>().prop_map(|(rank, ranks)| ToHub::Arrived { rank, ranks }),
            address().prop_map(|address| ToHub::Prepared { address }),
            (any::<i32>(), ".{0,30}").prop_map(|(code, message)| ToHub::Failed { code, message }),
            any::<u32>().prop_map(|local| ToHub::Attached { local }),
            (any::<u32>(), any::<u32>()).prop_map(|(local, barriers)| ToHub::Left { local, barriers }),
            (any::<u32>(), cause()).prop_map(|(local, cause)| ToHub::Lost { local, cause }),
            (any::<u32>(), ending).prop_map(|(local, ending)| ToHub::Ended { local, ending }),
            (any::<u32>(), any::<u32>(), cause()).prop_map(|(local, rank, cause)| ToHub::Unreachable {
                local,
                rank: Rank(rank),
                cause
            }),
            (any::<u32>(), any::<u8>(), ".{0,30}").prop_map(|(local, code, message)| ToHub::Abort {
                local,
                code,
                message
            }),
            any::<(u32, u32)>().prop_map(|(local, new_rank)| ToHub::Reset { local, new_rank }),
            Just(ToHub::ResetPrepared),
            (any::<u32>(), any::<bool>(), vec(any::<u8>(), 0..50))
                .prop_map(|(local, is_error, bytes)| ToHub::Output { local, is_error, bytes }),
            any::<(u32, bool)>().prop_map(|(bytes, closed)| ToHub::InputTaken { bytes, closed }),
            vec(wait(), 0..5).prop_map(|waits| ToHub::Waits { waits }),
            any::<u32>().prop_map(|rank| ToHub::Probed { rank: Rank(rank) }),
            (any::<u32>(), ".{0,30}").prop_map(|(local, why)| ToHub::Unfenced { local, why }),
            Just(ToHub::Heartbeat),
            Just(ToHub::Done),
        ]
    }

    fn to_node() -> impl Strategy<Value = ToNode> {
        prop_oneof![
            launch().prop_map(|launch| ToNode::Launch(Box::new(launch))),
            Just(ToNode::Start),
            table().prop_map(ToNode::Begin),
            Just(ToNode::Ready),
            ".{0,30}".prop_map(|why| ToNode::Refuse { why }),
            ".{0,30}".prop_map(|why| ToNode::Waiting { why }),
            any::<(u32, u8)>()
                .prop_map(|(rank, cause)| ToNode::Loss { rank: Rank(rank), cause: Cause(cause) }),
            vec((0..20u32, 0..3u32), 0..9).prop_map(|ranks| ToNode::Leave(Leaves::new(ranks))),
            table().prop_map(ToNode::ResetPrepare),
            Just(ToNode::ResetGo),
            ".{0,30}".prop_map(|why| ToNode::ResetRefused { why }),
            Just(ToNode::Describe),
            any::<u32>().prop_map(|rank| ToNode::Probe { rank: Rank(rank) }),
            any::<u32>().prop_map(|rank| ToNode::Fence { rank: Rank(rank) }),
            any::<i32>().prop_map(|signal| ToNode::Signal { signal }),
            (any::<i32>(), any::<u32>(), ".{0,30}")
                .prop_map(|(signal, grace_ms, reason)| { ToNode::Terminate { signal, grace_ms, reason } }),
            any::<bool>().prop_map(ToNode::Suspend),
            vec(any::<u8>(), 0..50).prop_map(ToNode::Input),
            Just(ToNode::Heartbeat),
        ]
    }

    #[test]
    fn a_table_of_many_ranks_is_short_however_they_are_laid_out() {
        let addresses = vec![SocketAddr::from(([10, 0, 0, 1], 1000)); 64];
        let in_blocks: Vec<_> = (0..4096).map(|rank| (rank / 64, rank % 64)).collect();
        let in_turn: Vec<_> = (0..4096).map(|rank| (rank % 64, rank / 64)).collect();
        for places in [in_blocks, in_turn] {
            let message = ToNode::Begin(Table { places, addresses: addresses.clone() });
            assert!(message.encode().len() <= 2048, "{} bytes", message.encode().len());
            assert_eq!(ToNode::decode(&message.encode()).unwrap(), message);
        }
        let many = Writer::new(3).word(1).word(0).word(0).word(u32::MAX).flag(false).word(0).finish();
        assert!(ToNode::decode(&many).is_err(), "a few bytes do not make a world of billions");
    }

    #[test]
    fn ranks_that_left_in_the_same_way_are_one_run() {
        let leaves = Leaves::new(vec![(3, 7), (1, 7), (2, 7), (9, 7), (4, 8)]);
        assert_eq!(leaves.0.len(), 3);
        let all: Vec<_> = leaves.iter(9).map(|(rank, barriers)| (rank.0, barriers)).collect();
        assert_eq!(all, [(1, 7), (2, 7), (3, 7), (4, 8)], "and nobody who is not there");
        let hostile = Leaves(vec![Run { first: u32::MAX - 1, count: u32::MAX, barriers: 0 }]);
        assert_eq!(hostile.iter(4).count(), 0);
    }

    proptest! {
        #[test]
        fn messages_to_the_hub_survive_the_bytes(message in to_hub()) {
            prop_assert_eq!(ToHub::decode(&message.encode()).unwrap(), message);
        }

        #[test]
        fn messages_to_a_node_survive_the_bytes(message in to_node()) {
            prop_assert_eq!(ToNode::decode(&message.encode()).unwrap(), message);
        }

        #[test]
        fn a_message_cut_short_or_made_longer_is_refused(message in to_node(), cut in any::<prop::sample::Index>()) {
            let bytes = message.encode();
            prop_assert!(ToNode::decode(&bytes[..cut.index(bytes.len())]).is_err());
            prop_assert!(ToNode::decode(&[&bytes[..], &[0]].concat()).is_err());
        }

        #[test]
        fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..300)) {
            let _ = ToHub::decode(&bytes);
            let _ = ToNode::decode(&bytes);
        }
    }
}
