//! Where the parts of arrays are: each node has a directory, at a place that all know, of the arrays that all nodes make together. The n-th of
//! them is the same one on all nodes.

use super::sets;
use kumiki::data::SharedArray;
use kumiki::{GlobalAddress, GlobalPtr, Rank, Region, Result, World};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An entry: address and registration, as a pointer has them; zeros if there is none.
type Entry = [u64; 2];

/// Entries of the first piece; each piece has twice as many as the one before.
const FIRST: u64 = 64;
/// Pieces that there can be.
const PIECES: usize = 24;

/// The directory of this node.
struct Directory {
    /// Where the pieces of each node are.
    heads: SharedArray<Entry>,
    pieces: Vec<Region<Entry>>,
    /// How many arrays there have been.
    count: u64,
    /// The numbers of the arrays that there are, by where they begin.
    numbers: HashMap<usize, u64>,
}

static DIRECTORY: Mutex<Option<Directory>> = Mutex::new(None);

fn directory() -> MutexGuard<'static, Option<Directory>> {
    DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the directory: all nodes do so together.
pub(super) fn begin(world: &World) -> Result<()> {
    let heads = world.shared_array::<Entry>(PIECES)?;
    *directory() = Some(Directory { heads, pieces: Vec::new(), count: 0, numbers: HashMap::new() });
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

fn entry_of(region: &Region<u8>) -> Entry {
    let (address, registration) = region.ptr().parts();
    [address.bits(), registration]
}

/// Enters memory of an array, if all nodes execute: its number.
pub(super) fn enter(world: &World, region: &Region<u8>) -> Result<Option<u64>> {
    if sets::executing()?.members.len() != world.ranks() {
        return Ok(None);
    }
    let mut kept = directory();
    let Some(directory) = kept.as_mut() else { return Ok(None) };
    let number = directory.count;
    let (piece, at) = place(number);
    while directory.pieces.len() <= piece {
        let next = world.alloc::<Entry>((FIRST as usize) << directory.pieces.len())?;
        let (address, registration) = next.ptr().parts();
        directory.heads.set(directory.pieces.len(), [address.bits(), registration])?;
        directory.pieces.push(next);
    }
    directory.pieces[piece].write(at, &[entry_of(region)])?;
    directory.numbers.insert(region.as_mut_ptr() as usize, number);
    directory.count += 1;
    Ok(Some(number))
}

/// Takes an array out.
pub(super) fn leave(_world: &World, number: Option<u64>) -> Result<()> {
    let (Some(number), mut kept) = (number, directory()) else { return Ok(()) };
    let Some(directory) = kept.as_mut() else { return Ok(()) };
    directory.numbers.retain(|_, known| *known != number);
    let (piece, at) = place(number);
    match directory.pieces.get(piece) {
        Some(piece) => piece.write(at, &[[0; 2]]),
        None => Ok(()),
    }
}

/// The number of the array that begins at a place of this node's memory.
pub(super) fn number_of(start: usize) -> Option<u64> {
    directory().as_ref()?.numbers.get(&start).copied()
}

/// Where the part of a node is of an array.
pub(super) fn find(world: &World, rank: Rank, number: u64) -> Result<Option<GlobalPtr<u8>>> {
    let (piece, at) = place(number);
    let head = match directory().as_ref() {
        Some(directory) => directory.heads.at(rank, piece),
        None => return Ok(None),
    };
    let [address, registration] = world.get(head)?;
    if address == 0 {
        return Ok(None);
    }
    let piece: GlobalPtr<Entry> = GlobalPtr::from_parts(GlobalAddress::from_bits(address), registration);
    let [address, registration] = world.get(piece + at)?;
    Ok((address != 0).then(|| GlobalPtr::from_parts(GlobalAddress::from_bits(address), registration)))
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
