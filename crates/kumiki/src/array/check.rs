//! The checked mode (`KUMIKI_CHECK=1`): before each collective call of arrays all nodes compare what they call, and with what. The first difference is an error on all of them,
//! which says where both calls are in the program.

use super::space::{misuse, Nodes};
use crate::{Error, Result, World};
use std::fmt::Display;
use std::panic::Location;
use std::sync::atomic::{AtomicU8, Ordering};

/// The messages of those who compare: no program has this number.
const CONTEXT: u32 = 0x8000_0005;

/// Whether calls are checked: not known yet, no, yes.
#[derive(Default, Debug)]
pub(super) struct Checked(AtomicU8);

impl Checked {
    fn is_on(&self) -> Result<bool> {
        match self.0.load(Ordering::Relaxed) {
            1 => Ok(false),
            2 => Ok(true),
            _ => {
                let is_on = match kumiki_mem::variable("KUMIKI_CHECK")?.as_deref() {
                    None | Some("" | "0" | "no") => false,
                    Some("1" | "yes") => true,
                    Some(other) => {
                        return Err(misuse(format!("KUMIKI_CHECK={other} cannot be; it should be 1 or 0")))
                    }
                };
                self.set(is_on);
                Ok(is_on)
            }
        }
    }

    fn set(&self, is_on: bool) {
        self.0.store(if is_on { 2 } else { 1 }, Ordering::Relaxed);
    }
}

/// Has collective calls of arrays checked from now on, or not, whatever `KUMIKI_CHECK` says: all nodes compare what they call, and with what, and a difference is
/// an error on all of them that says where both calls are. All ranks say the same.
pub fn set_check(world: &World, is_on: bool) {
    world.arrays().checked.set(is_on);
}

/// Compares a call with those of the other nodes.
#[track_caller]
pub(super) fn alike(world: &World, nodes: &Nodes, what: &str, detail: impl FnOnce() -> String) -> Result<()> {
    let checked = world.note(world.arrays().checked.is_on())?;
    if !checked || !nodes.contains(world.rank()) {
        return Ok(());
    }
    let call = format!("{what}({})", detail());
    world.note(compare(world, nodes, &call, Location::caller()))
}

/// Whether calls are compared: what the environment says, or [`set_check`].
pub fn is_checked(world: &World) -> Result<bool> {
    world.note(world.arrays().checked.is_on())
}

/// The same for a call of a program in another language, which says itself where it is.
pub fn check_alike(
    world: &World,
    nodes: &Nodes,
    call: impl FnOnce() -> String,
    place: impl FnOnce() -> String,
) -> Result<()> {
    let checked = world.note(world.arrays().checked.is_on())?;
    match checked && nodes.contains(world.rank()) {
        true => world.note(compare(world, nodes, &call(), &place())),
        false => Ok(()),
    }
}

fn compare(world: &World, nodes: &Nodes, call: &str, at: &dyn Display) -> Result<()> {
    let messages = world.messages().context(CONTEXT);
    let me = world.rank();
    let Some(first) = nodes.first() else { return Ok(()) };
    let own = format!("{call}\n{at}");
    if me != first {
        messages.send(first, 0, own.as_bytes())?;
        let answer = messages.receive::<u8>(first, 1)?.elements;
        return match answer.is_empty() {
            true => Ok(()),
            false => Err(Error::Misuse(String::from_utf8_lossy(&answer).into_owned())),
        };
    }
    let mut difference = String::new();
    for rank in nodes.ranks().filter(|rank| *rank != me) {
        let theirs = messages.receive::<u8>(rank, 0)?.elements;
        let theirs = String::from_utf8_lossy(&theirs);
        let (their_call, place) = theirs.split_once('\n').unwrap_or((&theirs, "somewhere"));
        if difference.is_empty() && their_call != call {
            difference =
                format!("rank {me} calls {call} at {at}, and rank {rank} calls {their_call} at {place}");
        }
    }
    for rank in nodes.ranks().filter(|rank| *rank != me) {
        messages.send(rank, 1, difference.as_bytes())?;
    }
    match difference.is_empty() {
        true => Ok(()),
        false => Err(Error::Misuse(difference)),
    }
}
