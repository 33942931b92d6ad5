//! The look from outside: what stands in an arena that other processes use.
//!
//! Nothing is mapped: a page that nobody has touched would be taken by a look at it, and memory that its owner gives back would end whoever looks. The
//! words are copied out of the file instead, each once, and then checked. Whoever runs may write anything there, or be in the middle of
//! it: what cannot be is left out, no place is looked at that is not inside of the arena, and how much is read has a bound.

use super::arena::{Config, Head, Phase, Shared, HEAD_BYTES, MAGIC};
use super::board::{Board, Origin, Traffic};
use super::control::{Activity, Control, NOBODY};
use super::layout::Layout;
use super::world::{NodeWord, Place, Status};
use crate::os::holders::Held;
use crate::terms::Terms;
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::net::SocketAddr;

/// The most ranks of a node that are looked at.
pub const MOST_MEMBERS_SEEN: u32 = 4096;

/// What is looked at in a control block: everything up to the end of the board.
const SEEN_BYTES: usize = offset_of!(Control, board) + size_of::<Board>();
const _: () = assert!(SEEN_BYTES == 128);

/// Where the bytes of an arena come from.
pub trait Source {
    /// How many there are.
    fn bytes(&self) -> u64;

    /// Copies bytes from a place. False if they are not all there.
    fn read(&self, place: u64, into: &mut [u8]) -> bool;
}

impl Source for Held {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, place: u64, into: &mut [u8]) -> bool {
        Held::read(self, place, into)
    }
}

/// Why nothing is known of what should be an arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strange {
    /// It is none.
    NoArena,
    /// It is one of another version of Kumiki.
    OtherVersion(u8),
    /// What stands at its head cannot be.
    Contradiction,
}

/// What stands in an arena.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Glance {
    /// The job: the same in the arenas of all its nodes.
    pub job: u64,
    /// Ranks of the world.
    pub ranks: u32,
    /// Nodes of the world.
    pub nodes: u32,
    /// Which of them this is.
    pub node: u32,
    /// Ranks on this node.
    pub local_ranks: u32,
    /// What the world does.
    pub phase: Phase,
    /// What the library may take for each rank, if that was said.
    pub budget_bytes: Option<u64>,
    /// Those of this node that have come, as far as they are looked at.
    pub members: Vec<Member>,
    /// What is known of ranks that members wait for: also of those of other nodes.
    pub awaited: BTreeMap<u32, Whereabouts>,
}

/// A rank of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its number in the world.
    pub rank: u32,
    /// How it came there.
    pub origin: Origin,
    /// Its process.
    pub pid: u32,
    /// How it stands.
    pub status: Status,
    /// Bytes in its ledger.
    pub booked_bytes: u64,
    /// What it waits for.
    pub activity: Activity,
    /// The rank that it waits for, if it is one.
    pub waits_for: Option<u32>,
    /// Since when, by the clock of the machine.
    pub since_ms: u64,
    /// Barriers of the world that it has come to.
    pub barriers: u32,
    /// Its messages.
    pub traffic: Traffic,
    /// Its operations that are not complete.
    pub operations: u32,
}

/// What this node knows of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whereabouts {
    /// Its node.
    pub node: u32,
    /// The port of that node.
    pub address: Option<SocketAddr>,
    /// How it stands.
    pub status: Status,
}

impl Glance {
    /// Looks at an arena.
    pub fn at(source: &impl Source) -> Result<Glance, Strange> {
        let bytes = source.bytes();
        let head = Words::<{ size_of::<Head>() }>::read(source, 0).ok_or(Strange::NoArena)?;
        let magic = head.long(offset_of!(Head, magic));
        if magic != MAGIC {
            let is_other = magic << 8 == MAGIC << 8;
            return Err(if is_other { Strange::OtherVersion((magic >> 56) as u8) } else { Strange::NoArena });
        }
        let config = config(&head);
        let (stride, total) =
            (head.long(offset_of!(Head, slice_stride)), head.long(offset_of!(Head, arena_bytes)));
        let layout = Layout::new(&config, HEAD_BYTES, stride).map_err(|_| Strange::Contradiction)?;
        if layout.total != total || total != bytes {
            return Err(Strange::Contradiction);
        }
        let phase = Phase::from_word(head.word(offset_of!(Head, shared) + offset_of!(Shared, phase)));
        let seen = 0..config.local_ranks.min(MOST_MEMBERS_SEEN);
        let mut members: Vec<Member> =
            seen.filter_map(|local| member(source, &config, &layout, local)).collect();
        members.sort_by_key(|member| member.rank);
        // Two that say the same are both there, or not: the first is believed.
        members.dedup_by_key(|member| member.rank);
        let mut awaited: Vec<u32> = members.iter().filter_map(|member| member.waits_for).collect();
        awaited.sort_unstable();
        awaited.dedup();
        let known = |rank: u32| Some((rank, whereabouts(source, &config, &layout, rank)?));
        Ok(Glance {
            job: config.job,
            ranks: config.ranks,
            nodes: config.nodes,
            node: config.node,
            local_ranks: config.local_ranks,
            phase,
            budget_bytes: Some(config.budget_bytes).filter(|bytes| *bytes != u64::MAX),
            members,
            awaited: awaited.into_iter().filter_map(known).collect(),
        })
    }
}

/// What the head says that is needed here; the rest of it is as usual.
fn config(head: &Words<{ size_of::<Head>() }>) -> Config {
    let start = offset_of!(Head, config);
    let terms = start + offset_of!(Config, terms);
    Config {
        job: head.long(start + offset_of!(Config, job)),
        ranks: head.word(start + offset_of!(Config, ranks)),
        nodes: head.word(start + offset_of!(Config, nodes)),
        node: head.word(start + offset_of!(Config, node)),
        local_ranks: head.word(start + offset_of!(Config, local_ranks)),
        machine_ranks: head.word(start + offset_of!(Config, machine_ranks)),
        machine_cores: head.word(start + offset_of!(Config, machine_cores)),
        terms: Terms {
            starter_bytes: head.long(terms + offset_of!(Terms, starter_bytes)),
            budget_bytes: head.long(terms + offset_of!(Terms, budget_bytes)),
            ..Terms::default()
        },
    }
}

/// The `local`-th rank of the node, if it has come.
fn member(source: &impl Source, config: &Config, layout: &Layout, local: u32) -> Option<Member> {
    let words = Words::<SEEN_BYTES>::read(source, layout.control(local))?;
    let board = offset_of!(Control, board);
    let rank = words.word(board + offset_of!(Board, rank)).checked_sub(1)?;
    let place = place(source, config, layout, rank)?;
    let origin = board + offset_of!(Board, origin);
    let waits_for = words.word(offset_of!(Control, waits_for));
    let count = |at: usize| words.long(board + at);
    let queue = |at: usize| words.word(board + at);
    Some(Member {
        rank,
        origin: Origin::from_words([0, 4, 8].map(|at| words.word(origin + at))),
        pid: words.word(offset_of!(Control, pid)),
        status: place.status,
        booked_bytes: words.long(offset_of!(Control, booked)),
        activity: Activity::from_word(words.word(offset_of!(Control, activity))),
        waits_for: Some(waits_for).filter(|&rank| rank != NOBODY && rank < config.ranks),
        since_ms: words.long(offset_of!(Control, since_ms)),
        barriers: words.word(offset_of!(Control, barriers)),
        traffic: Traffic {
            sent: count(offset_of!(Board, sent)),
            sent_bytes: count(offset_of!(Board, sent_bytes)),
            received: count(offset_of!(Board, received)),
            received_bytes: count(offset_of!(Board, received_bytes)),
            unexpected: queue(offset_of!(Board, unexpected)),
            receives: queue(offset_of!(Board, receives)),
            sends: queue(offset_of!(Board, sends)),
        },
        operations: queue(offset_of!(Board, operations)),
    })
}

/// The word of a rank; `None` if there is no such rank.
fn place(source: &impl Source, config: &Config, layout: &Layout, rank: u32) -> Option<Place> {
    if rank >= config.ranks {
        return None;
    }
    Words::<8>::read(source, layout.world + 8 * u64::from(rank)).map(|word| Place::from_word(word.long(0)))
}

fn whereabouts(source: &impl Source, config: &Config, layout: &Layout, rank: u32) -> Option<Whereabouts> {
    let Place { node, status, .. } = place(source, config, layout, rank)?;
    let words = match node < config.nodes {
        true => Words::<24>::read(source, layout.nodes + 64 * u64::from(node)),
        false => None,
    };
    let address = words.and_then(|words| NodeWord::address_of([0, 8, 16].map(|at| words.long(at))));
    Some(Whereabouts { node, address, status })
}

/// Bytes that were copied out of an arena.
struct Words<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Words<BYTES> {
    fn read(source: &impl Source, place: u64) -> Option<Self> {
        let mut bytes = [0; BYTES];
        source.read(place, &mut bytes).then_some(Words(bytes))
    }

    /// The four bytes there, which are inside.
    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }

    /// The eight bytes there, which are inside.
    fn long(&self, at: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }
}

impl std::fmt::Display for Strange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Strange::NoArena => f.write_str("it is no memory of a world"),
            Strange::OtherVersion(version) => {
                let own = (MAGIC >> 56) as u8;
                write!(
                    f,
                    "its world is of another release of Kumiki (layout {version}, this command knows {own})"
                )
            }
            Strange::Contradiction => f.write_str("what stands at the head of its memory cannot be"),
        }
    }
}

#[cfg(test)]
mod tests;
