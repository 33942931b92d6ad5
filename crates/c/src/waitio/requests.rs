//! What was started and is not waited for. The caller has the memory of a request, 88 bytes that nobody has cleared; three words of it say which
//! request it is, and that it is one.

use super::arguments::{face, IndexOut, Number, Out, Requests};
use super::collectives::Underway;
use super::groups;
use super::session::{self, Here};
use crate::guard::misuse;
use kumiki::comm::{MessageLanding, MessageSending};
use kumiki::raw::messages::{self, Name};
use kumiki::{Error, Result};
use std::ffi::c_ulong;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `waitio_req_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WaitioReq {
    /// Which request it is.
    pub words: [c_ulong; 11],
}

const _: () = assert!(size_of::<WaitioReq>() == 88);

/// The first word of a request that was started, of one that was waited for, and of one that could not be started.
const STARTED: u64 = 0x6b75_6d69_6b69_a001;
const DONE: u64 = 0x6b75_6d69_6b69_a002;
const FAILED: u64 = 0x6b75_6d69_6b69_a003;

/// How often requests of several kinds are looked at before whoever waits sleeps in between, and how long.
const LOOKS: u32 = 200;
const NAP: Duration = Duration::from_micros(50);

/// Something that was started.
pub(super) enum Asked {
    Sending(MessageSending<'static>),
    Receiving(MessageLanding<'static>),
    Underway(Box<Underway>),
}

impl Asked {
    fn is_done(&self) -> bool {
        match self {
            Asked::Sending(sending) => sending.is_done(),
            Asked::Receiving(receiving) => receiving.is_done(),
            Asked::Underway(underway) => underway.is_done(),
        }
    }

    /// What it is known by, if it is a message.
    fn name(&self) -> Option<Name> {
        match self {
            Asked::Sending(sending) => Some(messages::name_of(sending)),
            Asked::Receiving(receiving) => Some(messages::name_of(receiving)),
            Asked::Underway(_) => None,
        }
    }

    /// Waits for it; its memory is the program's again.
    fn finish(self, here: &Here<'_>) -> Result<()> {
        match self {
            Asked::Sending(sending) => messages::end_sending(here.join.world(), sending),
            Asked::Receiving(receiving) => receiving.wait().map(drop),
            Asked::Underway(underway) => underway.finish(),
        }
    }
}

/// A place of the table. Who comes after gets another generation, so that old requests are found out.
struct Entry {
    generation: u32,
    asked: Option<Asked>,
}

struct Table {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

/// How many collectives are under way.
static UNDERWAY: AtomicUsize = AtomicUsize::new(0);
static TABLE: Mutex<Table> = Mutex::new(Table { entries: Vec::new(), free: Vec::new() });

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    fn keep(&mut self, asked: Asked) -> u64 {
        UNDERWAY.fetch_add(usize::from(matches!(asked, Asked::Underway(_))), Ordering::Relaxed);
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, asked: None });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[at as usize];
        entry.asked = Some(asked);
        u64::from(entry.generation) << 32 | u64::from(at)
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(number as u32 as usize)?;
        (u64::from(entry.generation) == number >> 32).then_some(entry)
    }

    /// Takes what a number stands for; it is of no use any more.
    fn take(&mut self, number: u64) -> Option<Asked> {
        let entry = self.entry(number)?;
        let asked = entry.asked.take()?;
        UNDERWAY.fetch_sub(usize::from(matches!(asked, Asked::Underway(_))), Ordering::Relaxed);
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(number as u32);
        Some(asked)
    }
}

/// All requests are given up: nobody touches memory of the program for them any more. Long messages that are being sent may be fetched for so long; whoever
/// comes later gets an error.
pub(super) fn end_all(join: &kumiki::join::Join, until: Instant) {
    let asked: Vec<Asked> = {
        let mut table = table();
        let numbers = 0..table.entries.len() as u32;
        let of = |entry: &Entry, at: u32| u64::from(entry.generation) << 32 | u64::from(at);
        let numbers: Vec<u64> = numbers.map(|at| of(&table.entries[at as usize], at)).collect();
        numbers.into_iter().filter_map(|number| table.take(number)).collect()
    };
    for asked in asked {
        while matches!(asked, Asked::Sending(_)) && !asked.is_done() && Instant::now() < until {
            // Who waits for this process may do the same.
            messages::fetch_early(join.world());
            std::thread::sleep(NAP);
        }
        match asked {
            Asked::Sending(sending) => messages::abandon_sending(join.world(), sending),
            other => drop(other),
        }
    }
}

/// Whether the program has started collectives that it has not waited for: they go on only when somebody looks at them.
pub(super) fn any_underway() -> bool {
    UNDERWAY.load(Ordering::Relaxed) > 0
}

/// Makes collectives that are under way go on, and lets others have a turn. False if there are none, or nothing goes on any more: then whoever waits need not look.
pub(super) fn move_on(here: &Here<'_>, looks: &mut u32) -> bool {
    if !any_underway() || !groups::look_after_all() || here.join.world().progress().is_err() {
        return false;
    }
    *looks += 1;
    match *looks < LOOKS {
        true => std::thread::yield_now(),
        false => {
            // Who waits for this process may do the same.
            messages::fetch_early(here.join.world());
            std::thread::sleep(NAP);
        }
    }
    true
}

/// The same for whoever only looks.
pub(super) fn glance() {
    if any_underway() {
        groups::look_after_all();
    }
}

/// What the memory of a request says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Started(u64),
    Done,
    Failed,
}

impl Requests {
    fn at(self, index: usize) -> Requests {
        Requests(self.0.wrapping_add(index))
    }

    /// # Safety
    /// It must be writable, or NULL.
    unsafe fn write(self, first: u64, number: u64) {
        let at = self.0.cast::<u64>();
        for (word, value) in [first, number, first ^ number.rotate_left(17)].into_iter().enumerate() {
            // SAFETY: as the caller promises; three of eleven words. Fortran aligns it for integers of four bytes.
            unsafe { at.wrapping_add(word).write_unaligned(value) };
        }
    }

    /// # Safety
    /// It must be readable, or NULL.
    unsafe fn state(self) -> Result<State> {
        if self.0.is_null() {
            return Err(misuse("the request is NULL"));
        }
        let at = self.0.cast::<u64>();
        // SAFETY: as the caller promises.
        let [first, number, check] = [0, 1, 2].map(|word| unsafe { at.wrapping_add(word).read_unaligned() });
        match first {
            _ if check != first ^ number.rotate_left(17) => {}
            STARTED => return Ok(State::Started(number)),
            DONE => return Ok(State::Done),
            FAILED => return Ok(State::Failed),
            _ => {}
        }
        Err(misuse("the request was never started: give it to a function that starts something first"))
    }

    /// Starts something, and makes this its request.
    ///
    /// # Safety
    /// It must be writable, or NULL.
    pub(super) unsafe fn start(self, begin: impl FnOnce() -> Result<Asked>) -> Result<()> {
        if self.0.is_null() {
            return Err(misuse("the request is NULL"));
        }
        // SAFETY: as the caller promises. Whoever waits for it all the same learns that nothing was started.
        unsafe { self.write(FAILED, 0) };
        // The table is free meanwhile: to begin may take long. Whoever leaves waits until it is there, and ends it with the others.
        let number = session::with(|_| {
            let asked = begin()?;
            Ok(table().keep(asked))
        })?;
        // SAFETY: as the caller promises.
        unsafe { self.write(STARTED, number) };
        Ok(())
    }

    /// Waits for it. What was waited for is done.
    ///
    /// # Safety
    /// It must be writable, or NULL; the memory that was given for it must be there.
    pub(super) unsafe fn wait(self) -> Result<()> {
        // SAFETY: as the caller promises.
        match unsafe { self.state() }? {
            State::Done => Ok(()),
            State::Failed => Err(misuse("the request could not be started, as was told then")),
            State::Started(number) => session::with(|here| {
                let asked = table().take(number).ok_or_else(gone)?;
                // SAFETY: as the caller promises.
                unsafe { self.write(DONE, 0) };
                let mut looks = 0;
                while any_underway() && !asked.is_done() && move_on(here, &mut looks) {}
                asked.finish(here)
            }),
        }
    }

    /// The same for whoever looks for the next one that is done: what could not be started is told once.
    ///
    /// # Safety
    /// As [`wait`](Self::wait).
    unsafe fn wait_once(self) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe {
            let ended = self.wait();
            if matches!(self.state(), Ok(State::Failed)) {
                self.write(DONE, 0);
            }
            ended
        }
    }

    /// Whether waiting would not wait.
    ///
    /// # Safety
    /// It must be readable, or NULL.
    unsafe fn is_done(self) -> Result<bool> {
        // SAFETY: as the caller promises.
        match unsafe { self.state() }? {
            State::Started(number) => session::with(|_| {
                // Out of the table meanwhile: looking may take long, and others look at theirs.
                let mut asked = borrow(number)?;
                Ok(asked.get().is_done())
            }),
            State::Done | State::Failed => Ok(true),
        }
    }
}

/// Starts something, and waits for it.
///
/// # Safety
/// `start` makes of what it is given a request, or says why not.
pub(super) unsafe fn at_once(start: impl FnOnce(Requests) -> Result<()>) -> Result<()> {
    let mut memory = WaitioReq { words: [0; 11] };
    let request = Requests(&raw mut memory);
    start(request)?;
    // SAFETY: as the caller promises.
    unsafe { request.wait() }
}

fn gone() -> Error {
    misuse("there is no such request: it was waited for, another thread waits for it, or waitio_finalize was called")
}

/// A request that somebody looks at. It goes back to its place.
struct Borrowed {
    number: u64,
    asked: Option<Asked>,
}

impl Borrowed {
    fn get(&mut self) -> &Asked {
        // There is one until this is dropped.
        self.asked.as_ref().expect("a request that is looked at")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(entry) = table().entry(self.number) {
            entry.asked = self.asked.take();
        }
    }
}

fn borrow(number: u64) -> Result<Borrowed> {
    let asked = table().entry(number).and_then(|entry| entry.asked.take()).ok_or_else(gone)?;
    Ok(Borrowed { number, asked: Some(asked) })
}

/// So many requests.
///
/// # Safety
/// There must be so many, or NULL.
fn count_of(count: Number, requests: Requests) -> Result<usize> {
    let count = usize::try_from(count.0).map_err(|_| misuse(format!("there are no {} requests", count.0)))?;
    match count > 0 && requests.0.is_null() {
        true => Err(misuse(format!("{count} requests at NULL"))),
        false => Ok(count),
    }
}

/// Waits for all, whatever becomes of any; tells each, and the first failure.
///
/// # Safety
/// There must be so many.
pub(super) unsafe fn wait_all(
    count: Number,
    requests: Requests,
    mut tell: impl FnMut(usize, bool),
) -> Result<()> {
    let mut first: Option<Error> = None;
    for index in 0..count_of(count, requests)? {
        // SAFETY: as the caller promises.
        let ended = unsafe { requests.at(index).wait() };
        tell(index, ended.is_err());
        if let Err(error) = ended {
            first.get_or_insert(error);
        }
    }
    first.map_or(Ok(()), Err)
}

/// Which of those that were not waited for are there, and their numbers.
///
/// # Safety
/// There must be so many.
unsafe fn open(count: Number, requests: Requests) -> Result<Vec<usize>> {
    let mut open = Vec::new();
    for index in 0..count_of(count, requests)? {
        // SAFETY: as the caller promises.
        if unsafe { requests.at(index).state() }? != State::Done {
            open.push(index);
        }
    }
    Ok(open)
}

/// Looks for one that is done among several.
///
/// # Safety
/// They must be requests.
unsafe fn find_done(open: &[usize], requests: Requests) -> Result<Option<usize>> {
    for &index in open {
        // SAFETY: as the caller promises.
        if unsafe { requests.at(index).is_done() }? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Waits for one of several: which one, and what became of it.
///
/// # Safety
/// There must be so many.
pub(super) unsafe fn wait_any(count: Number, requests: Requests, index: IndexOut) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { index.give(None) }?;
    // SAFETY: as the caller promises.
    let open = unsafe { open(count, requests) }?;
    if open.is_empty() {
        return Ok(());
    }
    let mut looks = 0;
    let done = loop {
        // SAFETY: as the caller promises.
        if let Some(done) = unsafe { find_done(&open, requests) }? {
            break done;
        }
        // SAFETY: as the caller promises.
        match unsafe { names_of(&open, requests) }? {
            Some(names) if !any_underway() => {
                break open[session::with(|here| messages::wait_any(here.join.world(), &names))?]
            }
            // Those of groups go on when somebody looks.
            Some(_) => {}
            // One that has ended, or never will go on, is found at the next look.
            None if moves(&mut looks)? => {}
            None => std::thread::sleep(NAP),
        }
    };
    // SAFETY: as the caller promises.
    unsafe {
        index.give(Some(done))?;
        requests.at(done).wait_once()
    }
}

/// As [`glance`], for whoever is in no call.
fn look() -> Result<()> {
    session::with(|_| {
        glance();
        Ok(())
    })
}

/// As [`move_on`], for whoever is in no call.
fn moves(looks: &mut u32) -> Result<bool> {
    session::with(|here| Ok(move_on(here, looks)))
}

/// What requests are known by, if all are messages.
///
/// # Safety
/// They must be requests.
unsafe fn names_of(open: &[usize], requests: Requests) -> Result<Option<Vec<Name>>> {
    let mut names = Vec::with_capacity(open.len());
    for &index in open {
        // SAFETY: as the caller promises.
        let State::Started(number) = unsafe { requests.at(index).state() }? else { return Ok(None) };
        let name = session::with(|_| Ok(borrow(number)?.get().name()))?;
        names.extend(name);
    }
    Ok((names.len() == open.len()).then_some(names))
}

/// Whether one of several is done: if so, which one, and what became of it. If there are none, that is so, too.
///
/// # Safety
/// There must be so many.
pub(super) unsafe fn test_any(count: Number, requests: Requests, index: IndexOut, done: Out) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        index.give(None)?;
        done.give("the answer", 0)?;
        let open = open(count, requests)?;
        let found = find_done(&open, requests)?;
        if found.is_none() {
            look()?;
        }
        if open.is_empty() || found.is_some() {
            done.give("the answer", 1)?;
        }
        index.give(found)?;
        found.map_or(Ok(()), |found| requests.at(found).wait_once())
    }
}

/// # Safety
/// Both must be writable, or NULL.
pub(super) unsafe fn test(request: Requests, done: Out) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        done.give("the answer", 0)?;
        if request.is_done()? {
            done.give("the answer", 1)?;
            request.wait()?;
        } else {
            look()?;
        }
    }
    Ok(())
}

/// # Safety
/// It must be writable, or NULL.
pub(super) unsafe fn wait(request: Requests) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { request.wait() }
}

/// # Safety
/// It must be writable, or NULL.
pub(super) unsafe fn cancel(request: Requests) -> Result<()> {
    // SAFETY: as the caller promises.
    let State::Started(number) = unsafe { request.state() }? else { return Ok(()) };
    session::with(|_| {
        if !matches!(borrow(number)?.get(), Asked::Receiving(_)) {
            return Err(misuse("the request cannot be cancelled: only a receive can"));
        }
        let asked = table().take(number).ok_or_else(gone)?;
        // SAFETY: as the caller promises.
        unsafe { request.write(DONE, 0) };
        match asked {
            Asked::Receiving(receiving) => receiving.cancel().map(drop),
            Asked::Sending(_) | Asked::Underway(_) => Ok(()),
        }
    })
}

unsafe fn waitall(count: Number, requests: Requests) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { wait_all(count, requests, |_, _| {}) }
}

face! {
    /// Waits for a request.
    waitio_wait, waitio_wait_ waitio_wait_f_ = wait(req: Requests);
    /// Whether a request is done; then it has been waited for.
    waitio_test, waitio_test_ waitio_test_f_ = test(req: Requests, done: Out);
    /// Waits for all requests of a list.
    waitio_waitall, waitio_waitall_ waitio_waitall_f_ = waitall(n: Number, req: Requests);
    /// Waits for one request of a list.
    waitio_waitany, waitio_waitany_ waitio_waitany_f_ = wait_any(n: Number, req: Requests, index: IndexOut);
    /// Whether a request of a list is done; then it has been waited for.
    waitio_testany, waitio_testany_ waitio_testany_f_ = test_any(n: Number, req: Requests, index: IndexOut, done: Out);
    /// Gives a receive up, or takes what it has got.
    waitio_cancel, waitio_cancel_ waitio_cancel_f_ = cancel(req: Requests);
}
