//! From a global address to memory: who owns it, whether it may be touched, and how it can be reached.
//!
//! Every access of every path goes through [`Node::reach`], at the side that can see the owner's region table: the
//! caller on the same node, the owner's side otherwise.

use crate::error::{Fate, PROCESS_GONE, READ_ONLY};
use crate::node::address::{GlobalAddress, Registration, FAR_POOL_SLOT};
use crate::node::haul::copy_whole;
use crate::node::neighbours::SHORT_BYTES;
use crate::node::Node;
use crate::{Error, Result};
use kumiki_net::os::memory::{self, Direction};
use kumiki_net::os::process;
use kumiki_net::shm::hazard::{self, FIRST_WORDS, HAZARD_WORDS};
use kumiki_net::shm::region::Kind;
use kumiki_net::shm::world::{Place, Status};
use kumiki_net::Rank;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// How memory can be reached from this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Mapped here: the address of the first byte. Valid for the length that was asked for.
    Direct(*mut u8),
    /// Private memory of a process of this node, which may be this one.
    Private(Private),
    /// Only by asking this rank.
    Remote(Rank),
}

/// Private memory of a process of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Private {
    rank: Rank,
    local: u32,
    slot: u16,
    generation: u16,
    /// An address in the owner's process.
    place: u64,
    /// The same for everybody, for messages.
    address: GlobalAddress,
    /// Whether it may be written.
    writable: bool,
}

/// What memory is reached for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Reach {
    /// Whether it lies behind `other` in the same process, so that a copy of both that overlap must go backwards.
    pub(crate) fn follows(self, other: Reach) -> bool {
        matches!((self, other), (Reach::Private(to), Reach::Private(from)) if to.follows(from))
    }

    /// Refuses memory that may only be read. Memory elsewhere is for its owner to refuse.
    #[inline]
    pub(crate) fn check_writable(self, bytes: u64) -> Result<Reach> {
        match self {
            Reach::Private(private) if !private.writable => Err(Error::Bounds {
                what: READ_ONLY,
                address: private.address.bits(),
                rank: private.rank.0,
                bytes,
            }),
            reach => Ok(reach),
        }
    }
}

/// Keeps private memory from being given back to the program while it is touched.
pub(crate) struct Pin<'a> {
    node: &'a Node,
    word: usize,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.node.control().hazards.withdraw(self.word);
    }
}

impl Private {
    pub(crate) fn rank(self) -> Rank {
        self.rank
    }

    /// The place of its owner on the node.
    pub(crate) fn local(self) -> u32 {
        self.local
    }

    /// The address of its first byte, as everybody has it.
    pub(crate) fn address(self) -> GlobalAddress {
        self.address
    }

    pub(crate) fn is_writable(self) -> bool {
        self.writable
    }

    /// The registration it belongs to.
    pub(crate) fn generation(self) -> u16 {
        self.generation
    }

    /// Reads a byte of it as a process has it: how many there are.
    pub(crate) fn probe(self, pid: i32) -> kumiki_net::Result<usize> {
        let mut byte = 0u8;
        // SAFETY: the byte is ours to write.
        unsafe { memory::copy_process(pid, Direction::Read, &mut byte, self.place, 1) }
    }

    /// The address in this process, for memory that is its own. Valid while it is pinned, or while the engine is held:
    /// unregistering waits for both.
    pub(crate) fn pointer(self) -> *mut u8 {
        self.place as usize as *mut u8
    }

    /// The memory `bytes` further on.
    pub(crate) fn add(self, bytes: u64) -> Private {
        Private { place: self.place + bytes, address: self.address.add(bytes), ..self }
    }

    fn follows(self, other: Private) -> bool {
        self.local == other.local && self.place > other.place
    }
}

impl Node {
    /// The pointer for an access within this node's arena, or `None` for the long way round (which then finds the error, if
    /// it is one). This is the path of nearly every same-node access, so it is short.
    #[inline(always)]
    pub(crate) fn here(
        &self,
        address: GlobalAddress,
        registration: Registration,
        bytes: u64,
    ) -> Option<*mut u8> {
        match self.recent(self.glance(), address, registration, bytes) {
            Some(pointer) => Some(pointer),
            None => self.meet(address, registration, bytes).map(NonNull::as_ptr),
        }
    }

    /// As [`here`](Self::here), for an address that may belong to any region.
    #[inline(always)]
    pub(crate) fn here_any(&self, address: GlobalAddress, bytes: u64) -> Option<*mut u8> {
        match self.recent_any(self.glance(), address, bytes) {
            Some(pointer) => Some(pointer),
            None => self.meet(address, Registration::ANY, bytes).map(NonNull::as_ptr),
        }
    }

    /// As [`here`](Self::here), also for what is rare: regions with a colour, lengths of 0.
    #[inline(never)]
    pub(crate) fn direct(
        &self,
        address: GlobalAddress,
        registration: Registration,
        bytes: u64,
    ) -> Option<*mut u8> {
        if process::is_forked_child() {
            return None;
        }
        let (rank, slot, offset) = self.format.find(address, registration);
        let local = self.arena.place(rank)?.local_on(self.node)?;
        let entry = self.arena.region(local, slot as usize)?;
        // What the table says is read once and checked against the mapping, whoever wrote it.
        let place = entry.in_arena(registration.generation(), offset, bytes)?;
        if place + bytes > self.arena.bytes() {
            return None;
        }
        Some(self.arena.pointer(place))
    }

    /// Memory of this node, or `None` for the long way round, as in [`direct`](Self::direct).
    #[inline]
    pub(crate) fn near(&self, address: GlobalAddress, bytes: u64) -> Option<Reach> {
        if process::is_forked_child() {
            return None;
        }
        let (rank, slot) = (self.format.rank(address), self.format.slot(address));
        let local = self.arena.place(rank)?.local_on(self.node)?;
        let entry = self.arena.region(local, slot as usize)?;
        let (kind, place, generation) = entry.locate(self.format.offset(address), bytes)?;
        match kind {
            Kind::Private | Kind::ReadOnly => {
                let writable = kind == Kind::Private;
                Some(Reach::Private(Private { rank, local, slot, generation, place, address, writable }))
            }
            Kind::Arena if place + bytes > self.arena.bytes() => None,
            Kind::Arena => Some(Reach::Direct(self.arena.pointer(place))),
        }
    }

    /// How `bytes` at `address` can be reached, after all checks that can be made here.
    pub(crate) fn reach(
        &self,
        address: GlobalAddress,
        registration: Registration,
        bytes: u64,
    ) -> Result<Reach> {
        self.check_usable()?;
        let (rank, slot, offset) = self.format.find(address, registration);
        let named = self.format.rank(address);
        let refuse = |what| Err(Error::Bounds { what, address: address.bits(), rank: named.0, bytes });
        let Some(place) = self.arena.place(rank).map(|word| word.load()) else {
            return refuse("there is no such rank");
        };
        self.check_alive(rank, place)?;
        if slot == 0 {
            return refuse(if address.is_null() { "the null address" } else { "no region" });
        }
        if place.node != self.node {
            // The owner knows how long the region is; but it must be asked.
            return match named == rank {
                true => Ok(Reach::Remote(rank)),
                false => refuse("past the end of the region"),
            };
        }
        if let Some(pointer) = self.direct(address, registration, bytes) {
            return Ok(Reach::Direct(pointer));
        }
        let generation = registration.generation();
        let entry = self.arena.region(place.local, slot as usize);
        let Some(view) = entry.and_then(|entry| entry.view()) else {
            return refuse("no region, or one that was unregistered");
        };
        if generation != 0 && generation != view.generation {
            return refuse("a region that was unregistered; another one has taken its slot");
        }
        if offset.checked_add(bytes).is_none_or(|end| end > view.bytes) {
            return refuse("past the end of the region");
        }
        match view.kind {
            Kind::Arena => refuse("a region table entry that leads out of the arena"),
            Kind::Private | Kind::ReadOnly => Ok(Reach::Private(Private {
                rank,
                local: place.local,
                slot,
                generation: view.generation,
                place: view.base + offset,
                address,
                writable: view.kind == Kind::Private,
            })),
        }
    }

    /// Refuses a word that is known here not to be aligned. Of a region on another node only the owner knows: private memory
    /// begins where its program has it. But starter memory and the pool are aligned as their addresses are.
    pub(crate) fn check_aligned(&self, address: GlobalAddress, bytes: u64) -> Result<()> {
        let place = match self.reach(address, Registration::ANY, bytes)? {
            Reach::Direct(pointer) => pointer as usize as u64,
            Reach::Private(private) => private.place,
            Reach::Remote(_) if self.format.slot(address) <= FAR_POOL_SLOT => address.bits(),
            Reach::Remote(_) => return Ok(()),
        };
        match place % bytes {
            0 => Ok(()),
            _ => Err(crate::node::atomic::misaligned(address, bytes)),
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
        Err(Error::PeerLost { rank: rank.0, fate: Fate::NotDone, why })
    }

    /// Whether a rank is alive.
    pub(crate) fn is_alive(&self, rank: Rank) -> bool {
        self.arena.place(rank).is_some_and(|word| word.load().status == Status::Alive)
    }

    /// Announces that private memory is about to be touched, in one of so many words. Fails when it was unregistered
    /// meanwhile.
    #[inline]
    fn pin(&self, private: Private, among: usize) -> Result<Pin<'_>> {
        let name = hazard::name(private.local, private.slot, private.generation);
        let word = loop {
            match self.control().hazards.announce(name, among) {
                Some(word) => break word,
                // Every word is taken by another thread of this process: they are short.
                None => process::yield_now(),
            }
        };
        self.pin_at(private, word)
    }

    /// Looks whether what a word announces is still registered.
    #[inline]
    fn pin_at(&self, private: Private, word: usize) -> Result<Pin<'_>> {
        let pin = Pin { node: self, word };
        let entry = self.arena.region(private.local, private.slot as usize);
        let still = entry.and_then(|entry| entry.view_announced());
        if still.is_some_and(|view| view.generation == private.generation) {
            return Ok(pin);
        }
        Err(Error::Bounds {
            what: "a region that was unregistered",
            address: private.address.bits(),
            rank: private.rank.0,
            bytes: 0,
        })
    }

    /// Pins private memory of this process, if there is a word for that: for whoever keeps others waiting.
    pub(crate) fn try_pin_own(&self, reach: Reach) -> Result<(Reach, Option<Pin<'_>>)> {
        match reach {
            Reach::Private(private) if private.local == self.local => {
                let name = hazard::name(private.local, private.slot, private.generation);
                let word = self.control().hazards.announce(name, HAZARD_WORDS);
                let pin = word.map(|word| self.pin_at(private, word)).transpose()?;
                Ok((Reach::Direct(private.pointer()), pin))
            }
            other => Ok((other, None)),
        }
    }

    /// Pins private memory of this process, so that it can be touched directly; leaves everything else as it is. What the
    /// caller pins beside it, it pins afterwards.
    pub(crate) fn pin_own(&self, reach: Reach) -> Result<(Reach, Option<Pin<'_>>)> {
        self.pin_own_among(reach, FIRST_WORDS)
    }

    /// The same beside memory that is pinned already.
    pub(crate) fn pin_own_too(&self, reach: Reach) -> Result<(Reach, Option<Pin<'_>>)> {
        self.pin_own_among(reach, HAZARD_WORDS)
    }

    #[inline]
    fn pin_own_among(&self, reach: Reach, among: usize) -> Result<(Reach, Option<Pin<'_>>)> {
        match reach {
            Reach::Private(private) if private.local == self.local => {
                let pin = self.pin(private, among)?;
                Ok((Reach::Direct(private.pointer()), Some(pin)))
            }
            other => Ok((other, None)),
        }
    }

    /// Whether this process may copy memory of others, as far as is known.
    pub(crate) fn may_copy(&self) -> bool {
        self.process_vm.load(Ordering::Relaxed)
    }

    /// Whether private memory of a neighbour can be copied directly. What the system allows is found out by doing it
    /// once, before anybody counts on it.
    pub(crate) fn may_touch(&self, neighbour: Private) -> bool {
        if self.process_vm.load(Ordering::Relaxed) && !self.process_vm_tried.load(Ordering::Relaxed) {
            let mut byte = 0u8;
            // SAFETY: the byte is ours to write.
            let _ = unsafe { self.copy_neighbour(neighbour, Direction::Read, &mut byte, 1, false) };
        }
        self.process_vm.load(Ordering::Relaxed)
    }

    /// Copies between memory of this process and private memory of another one on this node; its owner may take a share of it if that
    /// waits for it (see `haul.rs`). `Ok(false)` when the system does not allow it: ask the owner instead.
    ///
    /// # Safety
    /// `local` must be valid for `bytes` of reading (when writing to the neighbour) or writing.
    pub(crate) unsafe fn copy_neighbour(
        &self,
        neighbour: Private,
        direction: Direction,
        local: *mut u8,
        bytes: u64,
        is_awaited: bool,
    ) -> Result<bool> {
        if !self.process_vm.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let _pin = self.pin(neighbour, HAZARD_WORDS)?;
        // SAFETY: the caller vouches for `local`; the pin keeps the owner from taking the region back.
        let moved = unsafe {
            match is_awaited {
                true => self.copy_together(neighbour, direction, local, bytes),
                false => self.copy_pinned(neighbour, direction, local, bytes),
            }
        }?;
        if direction == Direction::Write && self.finder.anybody_listens() {
            self.ring(neighbour.local);
        }
        Ok(moved)
    }

    /// # Safety
    /// As [`copy_neighbour`](Self::copy_neighbour), with the region pinned.
    pub(super) unsafe fn copy_pinned(
        &self,
        neighbour: Private,
        direction: Direction,
        local: *mut u8,
        bytes: u64,
    ) -> Result<bool> {
        let control = self.arena.control(neighbour.local);
        let pid = control.map_or(0, |control| control.pid.load(Ordering::Relaxed)) as i32;
        if bytes <= SHORT_BYTES && self.process_vm_tried.load(Ordering::Relaxed) {
            if let Some(file) = self.neighbours.file(neighbour.local, pid) {
                // SAFETY: the caller vouches for `local` and the region.
                if unsafe { file.copy(direction, local, neighbour.place, bytes as usize) } {
                    return Ok(true);
                }
            }
        }
        // SAFETY: `local` is valid for `bytes`, and so is the region, which is pinned.
        match unsafe { copy_whole(pid, direction, local, neighbour.place, bytes) } {
            Ok(moved) if moved == bytes => {
                // Of nothing the system was not asked.
                if moved > 0 {
                    self.process_vm_tried.store(true, Ordering::Relaxed);
                }
                return Ok(true);
            }
            Ok(_) => {}
            Err(kumiki_net::Error::System { errno, .. }) => match errno {
                libc_errno::ESRCH => {
                    let (rank, fate, why) = (neighbour.rank.0, Fate::Unknown, PROCESS_GONE.to_string());
                    return Err(Error::PeerLost { rank, fate, why });
                }
                libc_errno::EFAULT => {}
                _ => {
                    // Not allowed here, now or ever: the owner serves its memory itself from now on.
                    self.process_vm.store(false, Ordering::Relaxed);
                    return Ok(false);
                }
            },
            Err(error) => return Err(error.into()),
        }
        Err(Error::Bounds {
            what: "registered memory that its owner has unmapped",
            address: neighbour.address.bits(),
            rank: neighbour.rank.0,
            bytes,
        })
    }
}

/// The two error numbers that mean something special to a same-node copy.
pub(super) mod libc_errno {
    pub(crate) const ESRCH: i32 = 3;
    pub(super) const EFAULT: i32 = 14;
}
