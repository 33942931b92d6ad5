//! What runs on a network: a [`Workload`] gives every rank a [`Script`], and a script is asked for its next [`Op`] whenever its rank has nothing
//! left to do. Operations are made one at a time, so that an all-to-all of thousands of ranks is never expanded in memory, and a script sees the
//! simulated clock and what has completed, so that a program may decide by it.
//!
//! The language, the trace replay and the importers make workloads; the named patterns are workloads too.

use crate::engine::RankState;
use crate::Time;

/// A parallel program: so many ranks, and a script for each.
pub trait Workload: Send + Sync {
    /// What reports call it.
    fn name(&self) -> String;

    /// How many ranks it has.
    fn ranks(&self) -> u32;

    /// The script of one rank, from its beginning.
    fn start(&self, rank: u32) -> Box<dyn Script + '_>;

    /// How many steps the whole program has, when it knows: for the progress report.
    fn steps(&self) -> Option<u32> {
        None
    }

    /// Calls `message(from, to, bytes)` for every message of a step (numbered as its ranks pass [`Op::Step`]), when the program knows them
    /// beforehand, and returns whether it does. Pacing by link overlap needs it.
    fn messages_of_step(&self, _step: u32, _message: &mut dyn FnMut(u32, u32, u64)) -> bool {
        false
    }
}

/// What one rank does, as a generator of operations.
pub trait Script: Send {
    /// The next operation. Asked again as soon as the rank is free: at once after an operation that does not block.
    /// After [`Op::End`] it is not asked again.
    fn next(&mut self, view: &View<'_>) -> Op;
}

/// What a script may look at when it decides on its next operation.
pub struct View<'a> {
    pub(crate) rank: u32,
    pub(crate) now: Time,
    pub(crate) state: &'a RankState,
}

impl View<'_> {
    /// The rank whose script is asked.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The simulated time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The handle of the latest operation of this rank that made one.
    pub fn last_handle(&self) -> Option<Handle> {
        self.state.last_handle()
    }

    /// Whether an operation of this rank has completed.
    pub fn is_complete(&self, handle: Handle) -> bool {
        self.state.is_complete(handle)
    }

    /// How many operations of this rank have not completed.
    pub fn outstanding(&self) -> u32 {
        self.state.outstanding()
    }

    /// How often a flag of this rank has been raised and not yet waited for.
    pub fn flag(&self, flag: u64) -> u64 {
        self.state.flag(flag)
    }
}

/// An operation of a rank, as a number that counts up: the first send, receive, put, get, copy or atomic of a rank has handle 0, the next one 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// What must have completed before an operation starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    #[default]
    None,
    /// One earlier operation of this rank.
    Handle(Handle),
    /// All earlier operations of this rank.
    All,
    /// The operation before this one, kept in order as near the target as possible: a chain to one target pipelines.
    Continue,
}

/// The idle time between two packets of a message, beyond the time of the packet itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// As [`Options::pacing`](crate::Options) says.
    #[default]
    Default,
    /// This time, whatever the options say.
    Fixed(Time),
}

/// From whom a receive takes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From whoever sends first.
    Any,
    /// From this rank.
    Rank(u32),
}

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// One operation.
    Handle(Handle),
    /// An operation and every one before it.
    UpTo(Handle),
    /// Every operation so far.
    All,
    /// Until at most so many operations are outstanding: a window.
    Outstanding(u32),
}

/// One operation of a rank. Those that make a handle do not block; [`Op::Wait`] waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A message for the receive that matches it. Completes when its last byte has left the node.
    Send {
        /// The receiving rank.
        to: u32,
        /// The size of the message.
        bytes: u64,
        /// What the receive must name.
        tag: u64,
        /// Pacing of this message.
        gap: Gap,
        /// What must be complete before it starts.
        order: Order,
    },
    /// Takes the first message that matches. Completes when the message is there, plus the receive overhead.
    Recv {
        /// From whom.
        from: Source,
        /// How much room there is: a longer message is an error of the program.
        bytes: u64,
        /// The tag that the send must have; `None` takes any.
        tag: Option<u64>,
    },
    /// Writes to the memory of another rank. Completes when the acknowledgement is back.
    Put {
        /// The rank that owns the memory.
        to: u32,
        /// How much is written.
        bytes: u64,
        /// The flag of the target that is raised by one when the data is there.
        flag: Option<u64>,
        /// Pacing of this message.
        gap: Gap,
        /// What must be complete before it starts.
        order: Order,
    },
    /// Reads from the memory of another rank. Completes when the data is here.
    Get {
        /// The rank that owns the memory.
        from: u32,
        /// How much is read.
        bytes: u64,
        /// Pacing of the answer.
        gap: Gap,
        /// What must be complete before it starts.
        order: Order,
    },
    /// Copies between the memories of two ranks, of which the caller may be neither. Completes when word of it is back.
    Copy {
        /// The rank that owns the destination.
        to: u32,
        /// The rank that owns the source.
        from: u32,
        /// How much is copied.
        bytes: u64,
        /// The flag of the destination's rank that is raised by one when the data is there.
        flag: Option<u64>,
        /// Pacing of this message.
        gap: Gap,
        /// What must be complete before it starts.
        order: Order,
    },
    /// An atomic operation on a word of another rank; completes when the old value is back.
    Atomic {
        /// The rank that owns the word.
        to: u32,
        /// What must be complete before it starts.
        order: Order,
    },
    /// Blocks until operations have completed.
    Wait(Wait),
    /// Blocks until a flag of this rank has been raised `count` times, and lowers it by as much.
    WaitFlag {
        /// Which flag.
        flag: u64,
        /// How often.
        count: u64,
    },
    /// Computes for a time.
    Compute(Time),
    /// Blocks until every rank is at its barrier (ranks that have ended are not waited for); takes the network's barrier time.
    Barrier,
    /// The end of a step. Without [`Options::sync_steps`](crate::Options) it costs nothing; with it, it blocks until every rank
    /// is here and everything sent has been delivered.
    Step,
    /// The rank is done.
    End,
}
