//! Work on the elements of many ranks at the same time: making them, freeing them, changing their links.

use super::chain::{self, Task, Write, COUNT, MOVING, PAYLOAD, STATE, WHOLE};
use super::List;
use crate::data::LIST;
use crate::{GlobalAddress, GlobalPtr, Result, World};
use std::collections::BTreeMap;

/// Words that go in one request.
const WRITES: usize = 2048;
/// Bytes of new elements that go in one request.
pub(super) const MAKE_BYTES: usize = 256 << 10;

impl List<'_> {
    /// Makes elements that are not linked yet, on all ranks at the same time: all, or none.
    pub(super) fn make(&self, items: &[(&[u8], u32)]) -> Result<Vec<GlobalAddress>> {
        let (world, local) = (self.world, self.world.local());
        let mut elements = vec![GlobalAddress::NULL; items.len()];
        let mut by_rank: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, &(_, rank)) in items.iter().enumerate() {
            by_rank.entry(rank).or_default().push(index);
        }
        let mut made = Ok(());
        let mut calls = Vec::new();
        for (&rank, indices) in &by_rank {
            for piece in pieces(indices, |&index| items[index].0.len()) {
                let data: Vec<&[u8]> = piece.iter().map(|&index| items[index].0).collect();
                let far = !local.is_near(rank);
                // What is too long for a request gets its payload after it was made.
                if far && data.iter().any(|item| item.len() > MAKE_BYTES) {
                    made = made
                        .and_then(|()| self.make_long(rank, data[0]).map(|long| elements[piece[0]] = long));
                } else if far {
                    match world.start_call(rank, LIST, Task::Make(data).encode()) {
                        Ok(call) => calls.push((piece, call)),
                        Err(error) => made = Err(error),
                    }
                } else if made.is_ok() {
                    made =
                        local.check_alive(rank).and_then(|()| chain::make(local, rank, &data)).map(|new| {
                            piece.iter().zip(new).for_each(|(&index, element)| elements[index] = element);
                        });
                }
            }
        }
        for (piece, call) in calls {
            match call.wait().and_then(|reply| chain::decode_addresses(&reply)) {
                Ok(new) => piece.iter().zip(new).for_each(|(&index, element)| elements[index] = element),
                Err(error) => made = Err(error),
            }
        }
        if let Err(error) = made {
            elements.retain(|element| !element.is_null());
            let _ = self.free(elements);
            return world.note(Err(error));
        }
        Ok(elements)
    }

    /// Changes many words of this list and, perhaps, of another one. Their headers are marked meanwhile: if this rank dies in
    /// the middle, every operation on them fails, until they are cleared or destroyed.
    pub(super) fn change(
        &self,
        other: Option<GlobalAddress>,
        work: impl FnOnce(&mut Batch<'_>) -> Result<()>,
    ) -> Result<()> {
        let lists = [Some(self.address), other.filter(|&other| other != self.address)];
        let mark = |state: u64| -> Result<()> {
            let mut batch = Batch::new(self.world);
            lists.into_iter().flatten().try_for_each(|list| batch.put(list.add(STATE), state))?;
            batch.finish()
        };
        mark(MOVING)?;
        let mut batch = Batch::new(self.world);
        work(&mut batch)?;
        batch.finish()?;
        mark(WHOLE)
    }

    /// Makes an element that is too long for a request.
    fn make_long(&self, rank: u32, data: &[u8]) -> Result<GlobalAddress> {
        let element = self.world.malloc((PAYLOAD + data.len() as u64) as usize, rank)?;
        let words = [0u64, 0, data.len() as u64];
        let written = self
            .world
            .put_slice(GlobalPtr::from_address(element), &words)
            .and_then(|()| self.world.put_slice(GlobalPtr::from_address(element.add(PAYLOAD)), data));
        if let Err(error) = written {
            let _ = self.world.free(element);
            return Err(error);
        }
        Ok(element)
    }

    /// Frees elements, on all ranks at the same time.
    pub(super) fn free(&self, elements: Vec<GlobalAddress>) -> Result<()> {
        let (world, local) = (self.world, self.world.local());
        let mut by_rank: BTreeMap<u32, Vec<GlobalAddress>> = BTreeMap::new();
        for element in elements {
            by_rank.entry(local.rank_of(element)).or_default().push(element);
        }
        let mut calls = Vec::new();
        let mut freed = Ok(());
        for (rank, blocks) in by_rank {
            if local.is_near(rank) {
                freed = world.note(chain::free(local, rank, &blocks)).and(freed);
                continue;
            }
            for piece in blocks.chunks(WRITES) {
                match world.start_call(rank, LIST, Task::Free(piece.to_vec()).encode()) {
                    Ok(call) => calls.push(call),
                    Err(error) => freed = Err(error),
                }
            }
        }
        calls.into_iter().fold(freed, |freed, call| call.wait().map(drop).and(freed))
    }
}

/// Indices in pieces whose data goes in one request; what is too long is alone.
fn pieces(indices: &[usize], bytes: impl Fn(&usize) -> usize) -> Vec<&[usize]> {
    let mut pieces = Vec::new();
    let (mut start, mut held) = (0, 0);
    for (index, item) in indices.iter().enumerate() {
        let more = bytes(item) + 8;
        if index > start && held + more > MAKE_BYTES {
            pieces.push(&indices[start..index]);
            (start, held) = (index, 0);
        }
        held += more;
    }
    pieces.push(&indices[start..]);
    pieces
}

/// Words to be written on many ranks: here at once, elsewhere together, in one request a rank.
pub(super) struct Batch<'w> {
    world: &'w World,
    far: BTreeMap<u32, Vec<Write>>,
}

impl<'w> Batch<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        Batch { world, far: BTreeMap::new() }
    }

    pub(super) fn set(&mut self, node: GlobalAddress, word: u64, value: GlobalAddress) -> Result<()> {
        self.put(node.add(word), value.bits())
    }

    pub(super) fn put(&mut self, at: GlobalAddress, value: u64) -> Result<()> {
        self.write(Write { at, value, add: false })
    }

    /// Adds to the count of a list.
    pub(super) fn count(&mut self, list: GlobalAddress, by: u64) -> Result<()> {
        self.write(Write { at: list.add(COUNT), value: by, add: true })
    }

    fn write(&mut self, write: Write) -> Result<()> {
        let local = self.world.local();
        let rank = local.rank_of(write.at);
        if local.is_near(rank) {
            return self.world.note(chain::write(local, &[write]));
        }
        self.far.entry(rank).or_default().push(write);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<()> {
        let mut calls = Vec::new();
        let mut written = Ok(());
        for (rank, writes) in self.far {
            for piece in writes.chunks(WRITES) {
                match self.world.start_call(rank, LIST, Task::Write(piece.to_vec()).encode()) {
                    Ok(call) => calls.push(call),
                    Err(error) => written = Err(error),
                }
            }
        }
        calls.into_iter().fold(written, |written, call| call.wait().map(drop).and(written))
    }
}
