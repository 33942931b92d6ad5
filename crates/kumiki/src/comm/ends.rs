//! The two ends of a channel, as their ranks have them: what is to be sent, what is waited for, and how far both are.
//!
//! An end goes on when somebody of its process makes it ([`advance`](SendEnd::advance)): whoever waits for anything makes all ends go on. Nothing
//! here waits.

mod receiving;
mod sending;

pub(super) use receiving::Now;
pub(crate) use receiving::{Fetch, ReceiveEnd};
pub(crate) use sending::{Load, SendEnd};

use super::spares::Spares;
use crate::data::heap;
use crate::{Error, GlobalAddress, Rank, Result, World};
use kumiki_mem::Posted;
use std::collections::{HashMap, VecDeque};

/// Bytes of the tables for an end, and for a request.
const END_BYTES: u64 = 512;
/// Requests to another node that may be under way at once for an end.
const MOST_POSTED: usize = 16;
/// Buffers of long ones that an end keeps.
const MOST_SPARES: usize = 4;

/// The request of an end that is closed because all are.
const NOBODY: u64 = 0;

/// Memory of the program that a message is written to.
pub trait Room: Send {
    /// All of it.
    fn bytes(&mut self) -> &mut [u8];
}

/// Where a message goes.
pub(crate) enum Basket {
    /// Into as much as it takes.
    Growing(Vec<u8>),
    /// Into memory of the program.
    Room(Box<dyn Room>),
}

impl Basket {
    /// Room for a piece of a message behind what is there: less than that, where the program has given less.
    fn piece(&mut self, at: u64, bytes: u64) -> &mut [u8] {
        let (at, end) = (at as usize, (at + bytes) as usize);
        match self {
            Basket::Growing(memory) => {
                memory.resize(end, 0);
                &mut memory[at..]
            }
            Basket::Room(room) => {
                let room = room.bytes();
                let length = room.len();
                &mut room[at.min(length)..end.min(length)]
            }
        }
    }

    /// How many bytes of a message go into it.
    fn takes(&mut self, whole: u64) -> u64 {
        match self {
            Basket::Growing(_) => whole,
            Basket::Room(room) => whole.min(room.bytes().len() as u64),
        }
    }
}

/// What became of a request.
pub(crate) struct Done {
    /// Bytes of the message that are in the basket, or what went wrong.
    pub(crate) result: Result<u64>,
    /// Bytes of the message as it was sent.
    pub(crate) whole: u64,
    pub(crate) basket: Option<Basket>,
}

impl Done {
    fn empty(result: Result<u64>) -> Done {
        Done { result, whole: 0, basket: None }
    }
}

/// What became of requests that nobody has asked for yet.
pub(crate) type Results = HashMap<u64, Done>;

/// Makes a block of this rank into the memory of an end, which takes its number: the block is given back if that fails.
fn settle(
    world: &World,
    bytes: u64,
    lay_out: impl FnOnce(GlobalAddress) -> Result<()>,
    number: impl FnOnce() -> Result<u64>,
) -> Result<(GlobalAddress, u64)> {
    let block = world.note(heap::allocate_lines(world.local(), bytes))?;
    match lay_out(block).and_then(|()| number()) {
        Ok(number) => Ok((block, number)),
        Err(error) => {
            let _ = heap::release_lines(world.local(), block);
            Err(error)
        }
    }
}

/// Why an end will not meet the other one.
pub(super) fn never_made(peer: Rank) -> Error {
    Error::Closed(format!("rank {peer} ends, and has never made its end"))
}

/// Takes the answers to requests that are there; fails with the first that says so.
fn reap(world: &World, posted: &mut VecDeque<Posted>, spares: &mut Spares) -> Result<()> {
    while let Some((answer, request)) =
        posted.front().and_then(|first| world.memory.answer_and_request_of(*first))
    {
        posted.pop_front();
        answer?;
        spares.keep(world, request, MOST_SPARES);
    }
    Ok(())
}
