//! Where the parts of arrays are: each node has a directory, at a place that all know, of the arrays that all nodes make together. Nodes make and
//! drop them in the same order, so that a number means the same one on all nodes. Where a program does not keep to that, the mark of an entry, which
//! says what the array is and which of its kind, tells that another is found.

use super::{sets, tasks};
use crate::guard::misuse;
use kumiki::data::SharedArray;
use kumiki::{GlobalAddress, GlobalPtr, Pod, Rank, Region, Result, World};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An entry: address and registration, as a pointer has them, and the mark of what is there; zeros if there is none.
type Entry = [u64; 3];

/// Entries of the first piece; each piece has twice as many as the one before.
const FIRST: u64 = 64;
/// Pieces that there can be.
const PIECES: usize = 24;

/// The directory of this node.
struct Directory {
    /// Where the pieces of each node are.
    heads: SharedArray<Entry>,
    pieces: Vec<Region<Entry>>,
    /// The marks of the arrays by their numbers; none where the array is gone.
    marks: Vec<Option<u64>>,
    /// The numbers of those that are gone: the last comes first again.
    free: Vec<u64>,
    /// The numbers of the arrays that there are, by where they begin.
    numbers: HashMap<usize, u64>,
    /// How many arrays of each kind there have been.
    made: HashMap<u64, u64>,
}

static DIRECTORY: Mutex<Option<Directory>> = Mutex::new(None);

fn directory() -> MutexGuard<'static, Option<Directory>> {
    DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the directory: all nodes do so together.
pub(super) fn begin(world: &World) -> Result<()> {
    let heads = world.shared_array::<Entry>(PIECES)?;
    *directory() = Some(Directory {
        heads,
        pieces: Vec::new(),
        marks: Vec::new(),
        free: Vec::new(),
        numbers: HashMap::new(),
        made: HashMap::new(),
    });
    Ok(())
}

/// The world ends.
pub(super) fn end_all() {
    drop(directory().take());
}

/// The piece that an entry is in, and its place there.
fn place(number: u64) -> (usize, usize) {
    let piece = (number / FIRST + 1).ilog2();
    (piece as usize, (number - FIRST * ((1 << piece) - 1)) as usize)
}

fn entry_of<T: Pod>(there: GlobalPtr<T>, mark: u64) -> Entry {
    let (address, registration) = there.parts();
    [address.bits(), registration, mark]
}

fn hash_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Enters memory of an array, if all nodes execute: its number. It begins `there`, which is `here` for this process; `what` is the same for this array on
/// all nodes.
pub(super) fn enter(
    world: &World,
    there: GlobalPtr<u8>,
    here: usize,
    what: impl Hash,
) -> Result<Option<u64>> {
    if sets::executing()?.members.len() != world.ranks() || tasks::is_in_plain() {
        return Ok(None);
    }
    let mut kept = directory();
    let Some(directory) = kept.as_mut() else { return Ok(None) };
    let kind = hash_of(what);
    let before = directory.made.entry(kind).or_default();
    let mark = hash_of((kind, *before));
    *before += 1;
    let number = directory.free.pop().unwrap_or(directory.marks.len() as u64);
    let (piece, at) = place(number);
    while directory.pieces.len() <= piece {
        let next = world.alloc::<Entry>((FIRST as usize) << directory.pieces.len())?;
        directory.heads.set(directory.pieces.len(), entry_of(next.ptr(), 0))?;
        directory.pieces.push(next);
    }
    directory.pieces[piece].write(at, &[entry_of(there, mark)])?;
    directory.numbers.insert(here, number);
    match directory.marks.get_mut(number as usize) {
        Some(known) => *known = Some(mark),
        None => directory.marks.push(Some(mark)),
    }
    Ok(Some(number))
}

/// Takes an array out.
pub(super) fn leave(_world: &World, number: Option<u64>) -> Result<()> {
    let (Some(number), mut kept) = (number, directory()) else { return Ok(()) };
    let Some(directory) = kept.as_mut() else { return Ok(()) };
    directory.numbers.retain(|_, known| *known != number);
    if directory.marks.get_mut(number as usize).and_then(Option::take).is_some() {
        directory.free.push(number);
    }
    let (piece, at) = place(number);
    match directory.pieces.get(piece) {
        Some(piece) => piece.write(at, &[[0; 3]]),
        None => Ok(()),
    }
}

/// The number of the array that begins at a place of this node's memory.
pub(super) fn number_of(start: usize) -> Option<u64> {
    directory().as_ref()?.numbers.get(&start).copied()
}

/// Where the part of a node is of an array; none if it has none, or has none any more.
pub(super) fn find(world: &World, rank: Rank, number: u64) -> Result<Option<GlobalPtr<u8>>> {
    let (piece, at) = place(number);
    let (head, wanted) = match directory().as_ref() {
        Some(directory) => {
            (directory.heads.at(rank, piece), directory.marks.get(number as usize).copied().flatten())
        }
        None => return Ok(None),
    };
    let [address, registration, _] = world.get(head)?;
    if address == 0 {
        return Ok(None);
    }
    let piece: GlobalPtr<Entry> = GlobalPtr::from_parts(GlobalAddress::from_bits(address), registration);
    let [address, registration, mark] = world.get(piece + at)?;
    if address == 0 {
        return Ok(None);
    }
    if Some(mark) != wanted {
        return Err(misuse(format!(
            "rank {rank} has another array in its place: arrays that others reach are made and dropped by all nodes in the same order, \
             not under a condition that only some meet"
        )));
    }
    Ok(Some(GlobalPtr::from_parts(GlobalAddress::from_bits(address), registration)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        assert_eq!(
            (place(0), place(63), place(64), place(191), place(192)),
            ((0, 0), (0, 63), (1, 0), (1, 127), (2, 0))
        );
    }
}
