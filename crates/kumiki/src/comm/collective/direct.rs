//! From everyone to everyone, straight: each member lends the memory that it receives into, and the others put theirs there.

use super::lanes::differs;
use super::{Talk, Web};
use crate::{GlobalAddress, GlobalPtr, Purpose, Result};
use std::ops::Range;

/// What a member tells each other one: where its memory is, and which part of that is for it.
type Note = [u64; 4];

impl Talk<'_, '_> {
    /// Parts of each for each, of any lengths. Takes memory for two notes a member for a while.
    pub(super) fn direct_alltoall(
        &mut self,
        web: Web,
        data: &[u8],
        out: &[Range<usize>],
        into: &mut [u8],
        places: &[Range<usize>],
    ) -> Result<()> {
        let count = web.count as usize;
        let _booked = self.group.world.book(Purpose::Comm, 2 * (count * size_of::<Note>()) as u64)?;
        let own = web.me as usize;
        if out[own].len() != places[own].len() {
            return Err(differs("a member sends itself another number of elements than it takes".into()));
        }
        into[places[own].clone()].copy_from_slice(&data[out[own].clone()]);
        if into.is_empty() {
            // Nothing can be lent, and the others still want to know it.
            return self.put_parts(web, data, out, places, [0; 2]);
        }
        let world = self.group.world;
        world.lend(into, |lent| {
            let (address, registration) = lent.ptr().parts();
            self.put_parts(web, data, out, places, [address.bits(), registration])
        })?
    }

    fn put_parts(
        &mut self,
        web: Web,
        data: &[u8],
        out: &[Range<usize>],
        places: &[Range<usize>],
        lent: [u64; 2],
    ) -> Result<()> {
        let notes: Vec<Note> =
            places.iter().map(|place| [lent[0], lent[1], place.start as u64, place.len() as u64]).collect();
        let mut told: Vec<Note> = vec![[0; 4]; notes.len()];
        self.doubling_alltoall(web, bytemuck::cast_slice(&notes), bytemuck::cast_slice_mut(&mut told))?;
        let count = web.count as usize;
        let others = (1..count).map(|step| (web.me as usize + step) % count);
        for other in others.clone() {
            let [sends, takes] = [out[other].len() as u64, told[other][3]];
            if sends != takes {
                return Err(differs(format!("member {other} takes {takes} bytes of the {sends} for it")));
            }
        }
        self.group.world.scope(|scope| {
            for other in others.filter(|other| !out[*other].is_empty()) {
                let [address, registration, start, _] = told[other];
                let memory = GlobalPtr::<u8>::from_parts(GlobalAddress::from_bits(address), registration);
                scope.put(memory + start as usize, &data[out[other].clone()])?;
            }
            Ok(())
        })?;
        // When all have put, all is there.
        self.doubling_barrier(web)
    }
}
