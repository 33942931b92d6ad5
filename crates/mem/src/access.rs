//! From a global address to memory: who owns it, whether it may be touched, and how it can be reached.
//!
//! Every access of every path goes through [`Core::reach`], at the side that can see the owner's region table: the
//! caller on the same node, the owner's side otherwise.

use crate::address::GlobalAddress;
use crate::core::Core;
use crate::error::Fate;
use crate::{Error, Result};
use kumiki_net::os::memory::{self, Direction};
use kumiki_net::shm::hazard;
use kumiki_net::shm::region::Kind;
use kumiki_net::shm::world::{Place, Status};
use kumiki_net::Rank;
use std::sync::atomic::Ordering;

/// How memory can be reached from this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Mapped here: the address of the first byte. Valid for the length that was asked for.
    Direct(*mut u8),
    /// Private memory of another process of this node.
    Neighbour(Neighbour),
    /// Only by asking this rank.
    Remote(Rank),
}

/// Private memory of another process of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Neighbour {
    rank: Rank,
    local: u32,
    slot: u16,
    generation: u16,
    remote: u64,
}

impl Neighbour {
    pub(crate) fn rank(self) -> Rank {
        self.rank
    }

    /// The memory `bytes` further on.
    pub(crate) fn add(self, bytes: u64) -> Neighbour {
        Neighbour { remote: self.remote + bytes, ..self }
    }

    /// Whether it lies behind `other` in the same process, so that an overlapping copy must go backwards.
    pub(crate) fn follows(self, other: Neighbour) -> bool {
        self.local == other.local && self.remote > other.remote
    }
}

impl Core {
    /// The pointer for an access within this node's arena, or `None` for the long way round (which then finds the
    /// error, if it is one). This is the path of every same-node access, so it is short.
    #[inline]
    pub(crate) fn direct(&self, address: GlobalAddress, generation: u16, bytes: u64) -> Option<*mut u8> {
        if kumiki_net::os::process::is_forked_child() {
            return None;
        }
        let place = self.arena.place(self.format.rank(address))?.load();
        if place.node != self.node || place.status != Status::Alive {
            return None;
        }
        let view = self.arena.region(place.local, self.format.slot(address) as usize)?.view()?;
        let offset = self.format.offset(address);
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= view.bytes);
        if !fits || view.kind != Kind::Arena || (generation != 0 && generation != view.generation) {
            return None;
        }
        // What the table says is read once and checked against the slice, whoever wrote it.
        let start = view.base + offset;
        if start.checked_add(bytes)? > self.arena.slice_bytes() {
            return None;
        }
        // SAFETY: the range lies inside the slice of an existing local rank, which is inside the mapping.
        Some(unsafe { self.arena.slice(place.local).add(start as usize) })
    }

    /// How `bytes` at `address` can be reached, after all checks that can be made here.
    pub(crate) fn reach(&self, address: GlobalAddress, generation: u16, bytes: u64) -> Result<Reach> {
        self.check_usable()?;
        if let Some(pointer) = self.direct(address, generation, bytes) {
            return Ok(Reach::Direct(pointer));
        }
        let rank = self.format.rank(address);
        let slot = self.format.slot(address);
        let refuse = |what| Err(Error::Bounds { what, address: address.bits(), rank, bytes });
        let Some(place) = self.arena.place(rank).map(|word| word.load()) else {
            return refuse("there is no such rank");
        };
        self.check_alive(rank, place)?;
        if slot == 0 {
            return refuse(if address.is_null() { "the null address" } else { "no region" });
        }
        if place.node != self.node {
            return Ok(Reach::Remote(rank));
        }
        let entry = self.arena.region(place.local, slot as usize);
        let Some(view) = entry.and_then(|entry| entry.view()) else {
            return refuse("no region, or one that was unregistered");
        };
        if generation != 0 && generation != view.generation {
            return refuse("a region that was unregistered; another one has taken its slot");
        }
        let offset = self.format.offset(address);
        if offset.checked_add(bytes).is_none_or(|end| end > view.bytes) {
            return refuse("past the end of the region");
        }
        match view.kind {
            Kind::Arena => refuse("a region table entry that contradicts its slice"),
            Kind::Private if place.local == self.local => {
                Ok(Reach::Direct((view.base + offset) as usize as *mut u8))
            }
            Kind::Private => Ok(Reach::Neighbour(Neighbour {
                rank,
                local: place.local,
                slot,
                generation: view.generation,
                remote: view.base + offset,
            })),
        }
    }

    /// Fails if a rank is gone.
    pub(crate) fn check_alive(&self, rank: Rank, place: Place) -> Result<()> {
        let why = match place.status {
            Status::Alive => return Ok(()),
            Status::Lost => place.cause.to_string(),
            Status::Left => "it has finalized".to_string(),
            Status::Expected => "it is starting over".to_string(),
        };
        Err(Error::PeerLost { rank, fate: Fate::NotDone, why })
    }

    /// Copies between memory of this process and private memory of another one on this node. `Ok(false)` when the
    /// system does not allow it: ask the owner instead.
    ///
    /// # Safety
    /// `local` must be valid for `bytes` of reading (when writing to the neighbour) or writing.
    pub(crate) unsafe fn copy_neighbour(
        &self,
        neighbour: Neighbour,
        direction: Direction,
        local: *mut u8,
        bytes: u64,
    ) -> Result<bool> {
        if !self.process_vm.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let name = hazard::name(neighbour.local, neighbour.slot, neighbour.generation);
        let mine = &self.control().hazards;
        let Some(word) = mine.announce(name) else { return Ok(false) };
        let entry = self.arena.region(neighbour.local, neighbour.slot as usize);
        let still = entry.and_then(|entry| entry.view_announced());
        let result = if still.is_some_and(|view| view.generation == neighbour.generation) {
            // SAFETY: the caller vouches for `local`; the announcement keeps the owner from taking the region back.
            unsafe { self.copy_announced(neighbour, direction, local, bytes) }
        } else {
            Err(Error::Bounds {
                what: "a region that was unregistered",
                address: 0,
                rank: neighbour.rank,
                bytes,
            })
        };
        mine.withdraw(word);
        result
    }

    /// # Safety
    /// As [`copy_neighbour`](Self::copy_neighbour), with the region announced.
    unsafe fn copy_announced(
        &self,
        neighbour: Neighbour,
        direction: Direction,
        local: *mut u8,
        bytes: u64,
    ) -> Result<bool> {
        let control = self.arena.control(neighbour.local);
        let pid = control.map_or(0, |control| control.pid.load(Ordering::Relaxed)) as i32;
        let mut done = 0;
        while done < bytes {
            let piece = (bytes - done).min(1 << 30) as usize;
            // SAFETY: `local` is valid for `bytes`, of which `done` are behind us.
            let moved = unsafe {
                memory::copy_process(pid, direction, local.add(done as usize), neighbour.remote + done, piece)
            };
            match moved {
                Ok(0) => break,
                Ok(moved) => done += moved as u64,
                Err(kumiki_net::Error::System { errno, .. }) => match errno {
                    libc_errno::ESRCH => {
                        let why = "its process is gone".to_string();
                        return Err(Error::PeerLost { rank: neighbour.rank, fate: Fate::Unknown, why });
                    }
                    libc_errno::EFAULT => break,
                    _ => {
                        // Not allowed here, now or ever: the owner serves its memory itself from now on.
                        self.process_vm.store(false, Ordering::Relaxed);
                        return Ok(false);
                    }
                },
                Err(error) => return Err(error.into()),
            }
        }
        if done == bytes {
            return Ok(true);
        }
        Err(Error::Bounds {
            what: "registered memory that its owner has unmapped",
            address: 0,
            rank: neighbour.rank,
            bytes,
        })
    }
}

/// The two error numbers that mean something special to a same-node copy.
mod libc_errno {
    pub(super) const ESRCH: i32 = 3;
    pub(super) const EFAULT: i32 = 14;
}
