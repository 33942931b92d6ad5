//! Who is where, and who is gone: one word a rank and 64 bytes a node, once a node, in the arena.
//!
//! The agent writes it; ranks read it. Every word is written whole, so a SIGKILL of the agent leaves old or new.

use super::changes::Changes;
use super::sync::{AtomicU64, Ordering};
use crate::Rank;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How a rank stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// Expected, not attached yet.
    Expected = 0,
    /// Attached and, as far as is known, alive.
    Alive = 1,
    /// Has finalized in an orderly way.
    Left = 2,
    /// Is gone without finalizing.
    Lost = 3,
}

/// Why a rank is lost, in one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cause(pub u8);

impl Cause {
    /// Nobody knows.
    pub const UNKNOWN: Cause = Cause(0);
    /// It exited, or returned from main, without finalizing.
    pub const EXITED: Cause = Cause(100);
    /// It was stopped (SIGSTOP or a debugger) for longer than the peer timeout.
    pub const STOPPED: Cause = Cause(101);
    /// Its node stopped answering.
    pub const UNREACHABLE: Cause = Cause(102);
    /// Its connection broke.
    pub const DISCONNECTED: Cause = Cause(103);
    /// Its node agent ended.
    pub const AGENT: Cause = Cause(104);
    /// It had its seat, but could not join the others.
    pub const NOT_JOINED: Cause = Cause(106);
    /// It came to a barrier of the others to leave the world.
    pub const LEFT: Cause = Cause(107);

    /// Of a rank that has left, and so no cause of a loss: how many barriers it had come to.
    pub fn left_after(barriers: u32) -> Cause {
        Cause(1 + (barriers % 255) as u8)
    }

    /// It was killed by a signal.
    pub fn signal(number: i32) -> Cause {
        Cause(number.clamp(1, 64) as u8)
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Cause(number @ 1..=64) => write!(f, "it was killed by signal {number} ({})", signal_name(number)),
            Cause::EXITED => f.write_str("it exited without finalizing"),
            Cause::STOPPED => f.write_str("it was stopped for longer than the peer timeout"),
            Cause::UNREACHABLE => f.write_str("its node stopped answering"),
            Cause::DISCONNECTED => f.write_str("its connection broke"),
            Cause::AGENT => f.write_str("its node agent ended"),
            Cause::NOT_JOINED => f.write_str("it could not join the world"),
            Cause::LEFT => f.write_str("it finalized, or dropped its world, while others went on"),
            _ => f.write_str("it is gone, nobody knows why"),
        }
    }
}

/// The usual name of a signal.
pub fn signal_name(number: u8) -> &'static str {
    match number as i32 {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => "signal",
    }
}

/// Where a rank is and how it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The index of its node.
    pub node: u32,
    /// Its index among the ranks of its node.
    pub local: u32,
    /// How it stands.
    pub status: Status,
    /// Why it is lost, if it is; how many barriers it had come to, if it has left ([`Cause::left_after`]).
    pub cause: Cause,
}

impl Place {
    /// Whether a rank that has left may have come to the barrier of this number before: where nobody has counted its
    /// barriers it may.
    pub fn may_have_come_to(&self, barrier: u32) -> bool {
        self.cause == Cause::UNKNOWN || self.cause == Cause::left_after(barrier)
    }
}

impl Place {
    #[inline]
    pub(super) fn from_word(word: u64) -> Place {
        Place {
            node: (word >> LOCAL_BITS & MASK) as u32,
            local: (word & MASK) as u32,
            status: match (word >> 48) as u8 {
                1 => Status::Alive,
                2 => Status::Left,
                3 => Status::Lost,
                _ => Status::Expected,
            },
            cause: Cause((word >> 56) as u8),
        }
    }
}

const LOCAL_BITS: u32 = 24;
const MASK: u64 = (1 << LOCAL_BITS) - 1;
/// The most nodes, and the most ranks on a node, that a world can have.
pub const MAX_PER_WORLD: u32 = 1 << LOCAL_BITS;

/// The word of one rank.
#[repr(transparent)]
#[derive(Debug)]
pub struct PlaceWord(AtomicU64);

impl PlaceWord {
    /// Writes the whole word. Only the agent of the node does this.
    pub fn store(&self, place: Place, changes: &Changes) {
        let word = place.local as u64
            | (place.node as u64) << LOCAL_BITS
            | (place.status as u64) << 48
            | (place.cause.0 as u64) << 56;
        let before = self.load();
        self.0.store(word, Ordering::Release);
        if before.status == Status::Alive && before != place {
            changes.note();
        }
    }

    /// Reads the whole word.
    #[inline]
    pub fn load(&self) -> Place {
        Place::from_word(self.0.load(Ordering::Acquire))
    }

    /// The index of the rank among those of `node`, if it is there and alive.
    #[inline]
    pub fn local_on(&self, node: u32) -> Option<u32> {
        let word = self.0.load(Ordering::Acquire);
        let wanted = (Status::Alive as u64) << LOCAL_BITS | node as u64;
        // The cause, in the bits above the status, is only set on ranks that are gone.
        (word >> LOCAL_BITS == wanted).then_some((word & MASK) as u32)
    }

    /// What the word of the first rank of a node holds while that is alive.
    pub(super) fn first_alive_on(node: u32) -> u64 {
        (Status::Alive as u64) << 48 | (node as u64) << LOCAL_BITS
    }

    /// How far the word is beyond [that of the first rank](Self::first_alive_on) of a node.
    #[inline(always)]
    pub(super) fn beyond(&self, first: u64) -> u64 {
        self.0.load(Ordering::Acquire).wrapping_sub(first)
    }

    /// Changes status and cause, keeps the place. Only the agent of the node does this.
    pub fn set_status(&self, status: Status, cause: Cause, changes: &Changes) {
        self.store(Place { status, cause, ..self.load() }, changes);
    }
}

/// What the world knows of a node: the address of its agent's port, and its first rank.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct NodeWord {
    words: [AtomicU64; 8],
}

const _: () = assert!(cfg!(loom) || std::mem::size_of::<NodeWord>() == 64);
const _: () = assert!(cfg!(loom) || std::mem::size_of::<PlaceWord>() == 8);

impl NodeWord {
    /// Writes the address; before the world is ready.
    pub fn store(&self, address: SocketAddr) {
        let (family, octets) = match address.ip() {
            IpAddr::V4(v4) => (4u64, v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => (6u64, v6.octets()),
        };
        let value = u128::from_be_bytes(octets);
        self.words[1].store(value as u64, Ordering::Relaxed);
        self.words[2].store((value >> 64) as u64, Ordering::Relaxed);
        self.words[0].store(family << 32 | address.port() as u64, Ordering::Release);
    }

    /// Writes which rank is the first of the node; as [`store`](Self::store), and when the world starts over.
    pub fn set_leader(&self, rank: Rank) {
        self.words[3].store(rank.0 as u64 + 1, Ordering::Release);
    }

    /// The first rank of the node, if it has one.
    pub fn leader(&self) -> Option<Rank> {
        let word = self.words[3].load(Ordering::Acquire);
        word.checked_sub(1).map(|rank| Rank(rank as u32))
    }

    /// The address of the node's port, if it has one.
    pub fn load(&self) -> Option<SocketAddr> {
        let first = self.words[0].load(Ordering::Acquire);
        let [low, high] = [1, 2].map(|at: usize| self.words[at].load(Ordering::Relaxed));
        NodeWord::address_of([first, low, high])
    }

    /// What the first words say.
    pub(super) fn address_of([first, low, high]: [u64; 3]) -> Option<SocketAddr> {
        let v6 = Ipv6Addr::from((u128::from(high) << 64 | u128::from(low)).to_be_bytes());
        match first >> 32 {
            4 => Some(SocketAddr::new(
                IpAddr::V4(v6.to_ipv4_mapped().unwrap_or(Ipv4Addr::LOCALHOST)),
                first as u16,
            )),
            6 => Some(SocketAddr::new(IpAddr::V6(v6), first as u16)),
            _ => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_and_an_address_survive_their_words() {
        let word = PlaceWord(AtomicU64::new(0));
        let place = Place { node: 77, local: 123_456, status: Status::Lost, cause: Cause::signal(9) };
        word.store(place, &Changes::new());
        assert_eq!(word.load(), place);
        assert_eq!(place.cause.to_string(), "it was killed by signal 9 (SIGKILL)");
        let node = NodeWord { words: Default::default() };
        assert_eq!((node.load(), node.leader()), (None, None));
        node.set_leader(Rank(0));
        assert_eq!((node.load(), node.leader()), (None, Some(Rank(0))));
        for text in ["127.0.0.1:80", "[::1]:65535", "[fe80::1]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            node.store(address);
            assert_eq!(node.load(), Some(address));
        }
    }
}
