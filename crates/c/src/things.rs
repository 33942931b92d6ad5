//! What a program has of the patterns of communication: groups, halos, requests and so on, each behind a handle.
//!
//! A handle looks like a pointer to C, and is a number that was never given before: one that was freed, or that is a handle of something else,
//! is found out. What it stands for borrows the world, which stays where it is until its place gives it up; then everything that
//! was made in it is dropped first. So a thing is touched only while its place lets somebody be in the world.

use crate::guard::misuse;
use crate::place::Place;
use crate::worlds;
use kumiki::join::Join;
use kumiki::{Error, Result, World};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError, Weak};

/// Somebody who is in the world of a handle.
pub(crate) struct Here<'a> {
    pub(crate) world: &'a World,
    join: Option<&'a Join>,
    home: &'static Place,
}

impl Here<'_> {
    /// The world, for something that is made in it.
    ///
    /// # Safety
    /// Whatever borrows it must be [kept](Self::keep), or dropped before this is.
    pub(crate) unsafe fn lasting(&self) -> &'static World {
        // SAFETY: the world is in a box, which its place does not touch while somebody is here, and gives up only when it has dropped
        // everything that is kept.
        unsafe { &*std::ptr::from_ref(self.world) }
    }

    /// The joined programs, for something that is made in them.
    ///
    /// # Safety
    /// As [`lasting`](Self::lasting).
    pub(crate) unsafe fn lasting_join(&self) -> Result<&'static Join> {
        // SAFETY: it is in the same box as the world.
        self.joined().map(|join| unsafe { &*std::ptr::from_ref(join) })
    }

    /// The joined programs; an error if the world is of one launch.
    pub(crate) fn joined(&self) -> Result<&Join> {
        self.join.ok_or_else(|| misuse("the world is not one of joined programs (kumiki_join_init)"))
    }

    /// Where the world is.
    pub(crate) fn place(&self) -> &'static Place {
        self.home
    }

    /// Keeps something for the program: its handle.
    pub(crate) fn keep<T: Send + 'static, H>(&self, thing: T) -> *mut H {
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        table.last += 16;
        let number = table.last;
        let slot = Box::new(Slot(Mutex::new(Some(thing))));
        table.things.insert(number, Arc::new(Entry { slot, home: self.home }));
        number as *mut H
    }
}

/// A thing, until it is taken or its world ends.
struct Slot<T>(Mutex<Option<T>>);

impl<T> Slot<T> {
    /// Whoever calls the library from within a call must not wait for himself; and two threads cannot mean the same by it.
    fn lock(&self, name: &str) -> Result<MutexGuard<'_, Option<T>>> {
        match self.0.try_lock() {
            Ok(thing) => Ok(thing),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(misuse(format!("the {name} is in use by another call"))),
        }
    }
}

trait Ending: Any + Send + Sync {
    /// The world ends.
    fn end(&self);
}

impl<T: Send + 'static> Ending for Slot<T> {
    fn end(&self) {
        let thing = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(thing);
    }
}

struct Entry {
    slot: Box<dyn Ending>,
    home: &'static Place,
}

impl Entry {
    /// The slot, if it is for such a thing.
    fn slot<T: Send + 'static>(&self, name: &str) -> Result<&Slot<T>> {
        let slot: &dyn Any = &*self.slot;
        slot.downcast_ref().ok_or_else(|| misuse(format!("the {name} is a handle of something else")))
    }

    /// Lets somebody be in the world.
    fn enter<R>(&self, work: impl FnOnce(&Here<'_>) -> Result<R>) -> Result<R> {
        enter_place(self.home, work)
    }
}

struct Table {
    things: BTreeMap<usize, Arc<Entry>>,
    last: usize,
}

static TABLE: RwLock<Table> = RwLock::new(Table { things: BTreeMap::new(), last: 0 });

fn gone(name: &str) -> Error {
    misuse(format!("there is no such {name}: it was freed, its world has ended, or it was never given"))
}

fn find<H>(handle: *const H, name: &str) -> Result<Arc<Entry>> {
    if handle.is_null() {
        return Err(misuse(format!("the {name} is NULL")));
    }
    let number = handle as usize;
    if let Some(entry) = LAST.try_with(|last| last.borrow().recall(number)).ok().flatten() {
        return Ok(entry);
    }
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let entry = table.things.get(&number).cloned().ok_or_else(|| gone(name))?;
    // A thread that is ending remembers nothing.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Last(number, Arc::downgrade(&entry)));
    Ok(entry)
}

/// What a thread has used last: whoever streams words uses nothing else.
struct Last(usize, Weak<Entry>);

impl Last {
    fn recall(&self, number: usize) -> Option<Arc<Entry>> {
        (self.0 == number).then(|| self.1.upgrade()).flatten()
    }
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last(0, Weak::new())) };
}

/// Does something in a world; NULL is that of `acp_init`.
pub(crate) fn enter<R>(
    world: *const crate::api::KumikiWorld,
    work: impl FnOnce(&Here<'_>) -> Result<R>,
) -> Result<R> {
    enter_place(worlds::find(world)?, work)
}

fn enter_place<R>(home: &'static Place, work: impl FnOnce(&Here<'_>) -> Result<R>) -> Result<R> {
    home.with_inside(|inside| work(&Here { world: inside.world(), join: inside.join(), home }))
}

/// Does something with a thing, which nobody else uses meanwhile.
pub(crate) fn with<T: Send + 'static, H, R>(
    handle: *const H,
    name: &str,
    work: impl FnOnce(&Here<'_>, &mut T) -> Result<R>,
) -> Result<R> {
    let entry = find(handle, name)?;
    let slot = entry.slot::<T>(name)?;
    entry.enter(|here| match slot.lock(name)?.as_mut() {
        Some(thing) => work(here, thing),
        None => Err(gone(name)),
    })
}

/// Does something with a thing that several threads may use at a time.
pub(crate) fn share<T: Send + Sync + 'static, H, R>(
    handle: *const H,
    name: &str,
    work: impl FnOnce(&Here<'_>, &Arc<T>) -> Result<R>,
) -> Result<R> {
    let entry = find(handle, name)?;
    let slot = entry.slot::<Arc<T>>(name)?;
    entry.enter(|here| {
        let shared = slot.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        work(here, &shared.ok_or_else(|| gone(name))?)
    })
}

/// Does something in the world of a thing, which others may use meanwhile.
pub(crate) fn in_world_of<H, R>(
    handle: *const H,
    name: &str,
    work: impl FnOnce(&Here<'_>) -> Result<R>,
) -> Result<R> {
    find(handle, name)?.enter(work)
}

/// Takes a thing: its handle is of no use any more.
pub(crate) fn take<T: Send + 'static, H, R>(
    handle: *const H,
    name: &str,
    work: impl FnOnce(&Here<'_>, T) -> Result<R>,
) -> Result<R> {
    take_if(handle, name, |_| Ok(()), work)
}

/// Takes a thing that several threads may use at a time, when none of them does.
pub(crate) fn take_shared<T: Send + Sync + 'static, H, R>(
    handle: *const H,
    name: &str,
    work: impl FnOnce(&Here<'_>, T) -> Result<R>,
) -> Result<R> {
    let in_use =
        || misuse(format!("the {name} is in use: by another call, or by something that was made of it"));
    let is_free = |thing: &Arc<T>| match Arc::strong_count(thing) {
        1 => Ok(()),
        _ => Err(in_use()),
    };
    take_if(handle, name, is_free, |here, thing| work(here, Arc::into_inner(thing).ok_or_else(in_use)?))
}

fn take_if<T: Send + 'static, H, R>(
    handle: *const H,
    name: &str,
    may: impl FnOnce(&T) -> Result<()>,
    work: impl FnOnce(&Here<'_>, T) -> Result<R>,
) -> Result<R> {
    let entry = find(handle, name)?;
    let slot = entry.slot::<T>(name)?;
    entry.enter(|here| {
        let mut kept = slot.lock(name)?;
        may(kept.as_ref().ok_or_else(|| gone(name))?)?;
        let thing = kept.take().ok_or_else(|| gone(name))?;
        drop(kept);
        TABLE.write().unwrap_or_else(PoisonError::into_inner).things.remove(&(handle as usize));
        work(here, thing)
    })
}

/// A world ends: everything that was made in it is dropped. Nobody is in it.
pub(crate) fn end_all(place: &Place) {
    if std::ptr::eq(place, &raw const crate::xmp::WORLD) {
        crate::xmp::end_all();
    }
    let ended: Vec<Arc<Entry>> = {
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        let is_its = |entry: &Arc<Entry>| std::ptr::eq(entry.home, place);
        let numbers: Vec<usize> =
            table.things.iter().filter(|(_, entry)| is_its(entry)).map(|(number, _)| *number).collect();
        numbers.iter().filter_map(|number| table.things.remove(number)).collect()
    };
    // Those that were made last first: requests before what they were made of.
    ended.iter().rev().for_each(|entry| entry.slot.end());
}
