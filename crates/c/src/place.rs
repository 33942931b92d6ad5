//! Where a world is kept between the calls of a C program, with the memory that it holds for the program.

use crate::guard::misuse;
use crate::things;
use kumiki::join::Join;
use kumiki::raw::{self, RegionKey};
use kumiki::{Error, GlobalAddress, Region, Result, World};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// How long ending a world waits for other threads that are inside a call.
const OTHERS: Duration = Duration::from_secs(10);
/// How long whoever ends the job waits for another thread that ends the world, or makes one.
const MOMENT: Duration = Duration::from_millis(200);

/// A world, while there is one. Calls share it; joining, leaving and renumbering need it alone.
pub(crate) struct Place {
    /// In a box: what the program has made in it borrows it.
    world: RwLock<Option<Box<Inside>>>,
    held: Mutex<BTreeMap<u64, Held>>,
}

/// What a program has joined.
pub(crate) enum Inside {
    /// A world of one launch.
    World(World),
    /// Programs that have joined, which are a world, too.
    Join(Join),
}

impl Inside {
    pub(crate) fn world(&self) -> &World {
        match self {
            Inside::World(world) => world,
            Inside::Join(join) => join.world(),
        }
    }

    /// The joined programs, if it is these.
    pub(crate) fn join(&self) -> Option<&Join> {
        match self {
            Inside::World(_) => None,
            Inside::Join(join) => Some(join),
        }
    }

    /// An error with block and rank, where programs have joined: they do not know each other by ranks of the world.
    fn explain(&self, error: Error) -> Error {
        match (self.join(), error) {
            (Some(join), Error::PeerLost { rank, fate, why }) => {
                let why = match join.place_of(rank) {
                    Some((block, rank)) => format!("rank {rank} of block {block}: {why}"),
                    None => why,
                };
                Error::PeerLost { rank, fate, why }
            }
            (_, error) => error,
        }
    }
}

/// Memory of this rank that the program has, by its first address.
pub(crate) enum Held {
    /// Memory of the program, which it has vouched for.
    Registered {
        /// What the library knows it by.
        key: RegionKey,
        /// Where it begins.
        start: usize,
        /// How long it is.
        bytes: usize,
    },
    /// Memory of the arena; it is given back when this is dropped.
    Allocated(#[allow(dead_code)] Region<u8>),
}

fn no_world() -> Error {
    Error::Closed("there is no world: init has not been called, or finalize has".into())
}

impl Place {
    /// A place without a world.
    pub(crate) const fn new() -> Place {
        Place { world: RwLock::new(None), held: Mutex::new(BTreeMap::new()) }
    }

    /// Does something in the world.
    pub(crate) fn with<T>(&self, body: impl FnOnce(&World) -> Result<T>) -> Result<T> {
        self.with_inside(|inside| body(inside.world()))
    }

    /// The same for whoever cannot wait for another thread that ends the world, or makes one: `None` if there is such a thread.
    pub(crate) fn with_at_once<T>(&self, body: impl FnOnce(&World) -> Result<T>) -> Option<Result<T>> {
        let until = Instant::now() + MOMENT;
        loop {
            let world = match self.world.try_read() {
                Ok(world) => world,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(MOMENT / 20);
                    continue;
                }
            };
            return Some(match world.as_ref() {
                Some(inside) => body(inside.world()).map_err(|error| inside.explain(error)),
                None => Err(no_world()),
            });
        }
    }

    /// The same for whoever must know whether programs have joined.
    pub(crate) fn with_inside<T>(&self, body: impl FnOnce(&Inside) -> Result<T>) -> Result<T> {
        let world = self.world.read().unwrap_or_else(PoisonError::into_inner);
        match world.as_ref() {
            Some(inside) => body(inside).map_err(|error| inside.explain(error)),
            None => Err(no_world()),
        }
    }

    /// Makes a world.
    pub(crate) fn enter(&self, join: impl FnOnce() -> Result<World>) -> Result<()> {
        self.enter_inside(|| join().map(Inside::World))
    }

    /// Makes a world, or joins other programs.
    pub(crate) fn enter_inside(&self, join: impl FnOnce() -> Result<Inside>) -> Result<()> {
        let mut world = self.exclusive()?;
        if world.is_some() {
            return Err(misuse("init was called twice without finalize"));
        }
        *world = Some(Box::new(join()?));
        Ok(())
    }

    /// Ends the world: what `end` gives is the next one.
    pub(crate) fn replace(&self, end: impl FnOnce(World) -> Result<Option<World>>) -> Result<()> {
        self.end_if(
            |inside| match inside {
                Inside::World(_) => Ok(()),
                Inside::Join(_) => Err(misuse("a world of joined programs ends with kumiki_join_leave")),
            },
            |inside| match inside {
                Inside::World(world) => end(world),
                Inside::Join(join) => join.leave().map(|()| None),
            },
        )
    }

    /// Leaves joined programs, who go on: what is registered is taken back first, so that none of them touches it afterwards.
    pub(crate) fn leave(&self, end: impl FnOnce(Join) -> Result<()>) -> Result<()> {
        self.end_if(
            |inside| match inside {
                Inside::Join(_) => Ok(()),
                Inside::World(_) => Err(misuse("a world of kumiki_init ends with kumiki_finalize")),
            },
            |inside| match inside {
                Inside::Join(join) => {
                    let retired = self.retire(join.world(), &(0..usize::MAX));
                    end(join).and(retired).map(|()| None)
                }
                Inside::World(world) => Ok(Some(world)),
            },
        )
    }

    fn end_if(
        &self,
        may: impl FnOnce(&Inside) -> Result<()>,
        end: impl FnOnce(Inside) -> Result<Option<World>>,
    ) -> Result<()> {
        let mut place = self.exclusive()?;
        if let Some(inside) = place.as_deref() {
            may(inside)?;
            things::end_all(self);
        }
        let Some(inside) = place.take() else {
            return Err(no_world());
        };
        let next = end(*inside);
        // Of a world of one launch the others have come to the end, too, or this rank counts as lost; joined programs go on, but nothing is
        // registered with them any more. Memory of the arena stays for those who have it in view.
        self.held().clear();
        *place = next?.map(|world| Box::new(Inside::World(world)));
        Ok(())
    }

    /// Whether there is a world, or somebody is in a call.
    pub(crate) fn is_taken(&self) -> bool {
        match self.world.try_read() {
            Ok(world) => world.is_some(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().is_some(),
            Err(TryLockError::WouldBlock) => true,
        }
    }

    /// The world alone. Other threads of the program may be inside a call, but not for ever.
    fn exclusive(&self) -> Result<RwLockWriteGuard<'_, Option<Box<Inside>>>> {
        let until = Instant::now() + OTHERS;
        loop {
            // Never queues: a call that is made from within a call (a comparison, say) would wait for us, and we for it.
            match self.world.try_write() {
                Ok(world) => return Ok(world),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(misuse("another thread is inside a call of the library; let it return first"))
                }
            }
        }
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, BTreeMap<u64, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers memory of the program; gives its first address.
    ///
    /// # Safety
    /// As [`World::register_raw`].
    pub(crate) unsafe fn register(
        &self,
        pointer: *mut u8,
        bytes: usize,
        colour: u32,
    ) -> Result<GlobalAddress> {
        if pointer.is_null() {
            return Err(misuse("the memory to register is at NULL"));
        }
        self.with(|world| {
            // SAFETY: as the caller promises.
            let key = unsafe { raw::memory(world).register_raw(pointer, bytes, colour) }?;
            let held = Held::Registered { key, start: pointer as usize, bytes };
            self.held().insert(key.address.bits(), held);
            Ok(key.address)
        })
    }

    /// Takes registered memory back.
    pub(crate) fn unregister(&self, address: u64) -> Result<()> {
        self.with(|world| {
            let key = match self.held().get(&address) {
                Some(Held::Registered { key, .. }) => *key,
                _ => return Err(misuse(format!("{address:#x} is no registration of this process"))),
            };
            raw::memory(world).unregister_raw(key)?;
            self.held().remove(&address);
            Ok(())
        })
    }

    /// Takes back what is registered of a range of memory, because that is about to become something else.
    pub(crate) fn retire(&self, world: &World, range: &Range<usize>) -> Result<()> {
        let mut held = self.held();
        let lies_there = |entry: &Held| match entry {
            Held::Registered { key, start, bytes } => {
                Some(*key).filter(|_| *start < range.end && range.start < start.saturating_add(*bytes))
            }
            Held::Allocated(_) => None,
        };
        let keys: Vec<RegionKey> = held.values().filter_map(lies_there).collect();
        for key in keys {
            raw::memory(world).unregister_raw(key)?;
            held.remove(&key.address.bits());
        }
        Ok(())
    }

    /// The address of a byte of registered memory.
    pub(crate) fn address_in(&self, registration: u64, pointer: usize) -> Result<GlobalAddress> {
        match self.held().get(&registration) {
            Some(Held::Registered { key, start, bytes }) => {
                let offset = pointer.checked_sub(*start).filter(|offset| offset < bytes || pointer == *start);
                offset.map(|offset| key.address.add(offset as u64)).ok_or_else(|| {
                    misuse(format!("{pointer:#x} is not in the {bytes} bytes registered at {start:#x}"))
                })
            }
            _ => Err(misuse(format!("{registration:#x} is no registration of this process"))),
        }
    }
}
