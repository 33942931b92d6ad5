//! The one join of the process.
//!
//! Calls share it; joining and leaving need it alone. What the program has made in it, groups and requests, borrows it, and is dropped before it is
//! left.

use super::{ending, groups, requests};
use crate::complaints::complain;
use crate::guard::misuse;
use kumiki::comm::MessageOptions;
use kumiki::join::Join;
use kumiki::raw::Hosting;
use kumiki::{Error, Result};
use std::sync::{
    mpsc, Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockWriteGuard, TryLockError,
};
use std::time::{Duration, Instant};

/// How often the thread that makes progress looks, if something is under way, and if nothing is.
const BUSY: Duration = Duration::from_micros(50);
const IDLE: Duration = Duration::from_millis(1);
/// How long leaving waits for other threads that are inside a call.
const OTHERS: Duration = Duration::from_secs(10);

/// What became of joining.
enum Stage {
    Before,
    /// In a box: what the program has made in it borrows it.
    Joined(Box<Join>),
    /// Why not.
    Failed(String),
    Left,
}

static STAGE: RwLock<Stage> = RwLock::new(Stage::Before);
/// Whoever joins or leaves; the others wait for their turn.
static TURN: Mutex<()> = Mutex::new(());
/// What this process does for others, who may go on when it has left.
static HOSTING: Mutex<Vec<Hosting>> = Mutex::new(Vec::new());
/// Who tells that this process has left.
static DEPARTING: Mutex<Option<mpsc::Receiver<Result<()>>>> = Mutex::new(None);
/// Which block and rank this is, for messages.
static NAME: OnceLock<String> = OnceLock::new();

/// Somebody who is in the join.
pub(super) struct Here<'a> {
    pub(super) join: &'a Join,
}

impl Here<'_> {
    /// The join, for something that is made in it.
    ///
    /// # Safety
    /// Whatever borrows it must be kept by [`groups`] or [`requests`], or dropped before this is.
    pub(super) unsafe fn lasting(&self) -> &'static Join {
        // SAFETY: it is in a box, which is not touched while somebody is here, and given up only when everything that is kept was dropped.
        unsafe { &*std::ptr::from_ref(self.join) }
    }
}

/// Does something in the join.
pub(super) fn with<R>(work: impl FnOnce(&Here<'_>) -> Result<R>) -> Result<R> {
    match &*STAGE.read().unwrap_or_else(PoisonError::into_inner) {
        Stage::Joined(join) => work(&Here { join }),
        Stage::Before => Err(Error::Closed("waitio_init has not been called: call it first".into())),
        Stage::Failed(why) => Err(Error::Closed(format!("waitio_init has failed: {why}"))),
        Stage::Left => {
            Err(Error::Closed("waitio_finalize has been called: nothing can be done any more".into()))
        }
    }
}

/// Joins, unless that has been done. The limit is the program's.
pub(super) fn join(limit: Option<Duration>) -> Result<()> {
    join_unless(|stage| matches!(stage, Stage::Joined(_)), limit)
}

/// The same for functions that join by themselves: what has failed is not tried again.
pub(super) fn join_by_itself() -> Result<()> {
    join_unless(|stage| !matches!(stage, Stage::Before), None)?;
    with(|_| Ok(()))
}

fn join_unless(is_done: impl Fn(&Stage) -> bool, limit: Option<Duration>) -> Result<()> {
    if is_done(&STAGE.read().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(());
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stage = exclusive()?;
    if is_done(&stage) {
        return Ok(());
    }
    if let Stage::Left = *stage {
        return Err(Error::Closed("waitio_finalize has been called: a process joins once".into()));
    }
    let mut options = Join::options();
    if let Some(limit) = limit {
        options = options.timeout(limit);
    }
    match options.init().and_then(keeps_all) {
        Ok(join) => {
            let _ = NAME.set(format!("block {} rank {}: ", join.block(), join.rank()));
            *stage = Stage::Joined(Box::new(join));
            ending::watch();
            drop(stage);
            // It has joined all the same.
            if let Err(error) = make_progress() {
                complain(&format!("waitio: {}{error}", name()));
            }
            Ok(())
        }
        Err(error) => {
            *stage = Stage::Failed(error.to_string());
            Err(error)
        }
    }
}

/// Programs of WaitIO receive in any order, as with an MPI: what stands before a message that is waited for is kept, however much it is. (A budget bounds it,
/// where there is one.)
fn keeps_all(join: Join) -> Result<Join> {
    let options = MessageOptions { kept_bytes: usize::MAX, ..MessageOptions::default() };
    join.world().messages().set_options(options)?;
    Ok(join)
}

/// Starts a thread that makes messages go on while the program computes, if it wants one (`WAITIO_PROGRESS=thread`).
fn make_progress() -> Result<()> {
    let wanted = kumiki::raw::variable("WAITIO_PROGRESS")?.unwrap_or_default();
    if !wanted.trim().eq_ignore_ascii_case("thread") {
        return Ok(());
    }
    // Until this process has left. A call that needs the join alone comes in between.
    let work = || {
        while let Ok(is_busy) = with(|here| Ok(kumiki::raw::channels::look_after(here.join.world()))) {
            std::thread::sleep(if is_busy { BUSY } else { IDLE });
        }
    };
    let started = std::thread::Builder::new().name("waitio-progress".into()).spawn(work);
    started.map(drop).map_err(|error| {
        Error::Refused(format!("WAITIO_PROGRESS=thread: there cannot be another thread ({error})"))
    })
}

/// Leaves: what was sent arrives. Others are waited for, who may be in a collective with this process, for `limit` at most; what takes longer
/// goes on behind the program's back. Whoever has left is there.
pub(super) fn leave(limit: Duration) -> Result<()> {
    let _turn = turn()?;
    let mut stage = exclusive()?;
    match std::mem::replace(&mut *stage, Stage::Left) {
        Stage::Joined(join) => {
            // Those that were made of others first.
            requests::end_all(&join, Instant::now() + limit);
            groups::end_all();
            kumiki::raw::channels::abandon_receives(join.world());
            drop(stage);
            depart(join);
        }
        Stage::Left => {}
        before => {
            *stage = before;
            return Err(Error::Closed(
                "there is nothing to finalize: waitio_init has not been called, or has failed".into(),
            ));
        }
    }
    departed(limit)
}

/// Leaves in a thread, if there can be one.
fn depart(join: Box<Join>) {
    let (told, end) = mpsc::channel();
    *DEPARTING.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    let join = Arc::new(Mutex::new(Some(join)));
    let work = {
        let join = join.clone();
        move || {
            let Some(join) = join.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
            let (left, hosting) = join.depart();
            HOSTING.lock().unwrap_or_else(PoisonError::into_inner).push(hosting);
            // Nobody may want to know.
            let _ = told.send(left);
        }
    };
    if std::thread::Builder::new().name("waitio".into()).spawn(work.clone()).is_err() {
        work();
    }
}

/// Waits until this process has left: what became of it, if that is known by then.
fn departed(limit: Duration) -> Result<()> {
    let mut departing = DEPARTING.lock().unwrap_or_else(PoisonError::into_inner);
    match departing.as_ref().map(|end| end.recv_timeout(limit)) {
        Some(Ok(left)) => {
            *departing = None;
            left
        }
        _ => Ok(()),
    }
}

/// Whether there is something to leave, or to do for others.
pub(super) fn is_needed() -> bool {
    let is_in = match STAGE.try_read() {
        Ok(stage) => matches!(&*stage, Stage::Joined(_)),
        Err(TryLockError::Poisoned(poisoned)) => matches!(&**poisoned.get_ref(), Stage::Joined(_)),
        Err(TryLockError::WouldBlock) => true,
    };
    // A handler of a signal may have come in the middle of leaving: it does not wait for what it has interrupted.
    let is_leaving = DEPARTING.try_lock().is_ok_and(|departing| departing.is_some());
    is_in || is_leaving || HOSTING.try_lock().is_ok_and(|hosting| !hosting.is_empty())
}

/// Waits until nobody needs this process.
pub(super) fn host() {
    let hosting = std::mem::take(&mut *HOSTING.lock().unwrap_or_else(PoisonError::into_inner));
    hosting.into_iter().for_each(|hosting| hosting.wait());
}

/// What an error says, with blocks and their ranks in the place of ranks of the world.
pub(super) fn explain(error: &Error) -> String {
    match STAGE.try_read().as_deref() {
        Ok(Stage::Joined(join)) => join.explain(error),
        _ => error.to_string(),
    }
}

/// Which block and rank this is, if that is known.
pub(super) fn name() -> &'static str {
    NAME.get().map_or("", String::as_str)
}

/// The turn to leave. A handler of a signal that calls `exit` may have interrupted the very thread that has it.
fn turn() -> Result<MutexGuard<'static, ()>> {
    let until = Instant::now() + OTHERS;
    loop {
        match TURN.try_lock() {
            Ok(turn) => return Ok(turn),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(misuse(
                    "another thread begins or ends WaitIO, or this one does; let it return first",
                ))
            }
        }
    }
}

/// The join alone. Other threads of the program may be inside a call, but not for ever.
fn exclusive() -> Result<RwLockWriteGuard<'static, Stage>> {
    let until = Instant::now() + OTHERS;
    loop {
        // Never queues: a call that is made from within a call (a filter of a group, say) would wait for us, and we for it.
        match STAGE.try_write() {
            Ok(stage) => return Ok(stage),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(misuse("another thread is inside a call of WaitIO; let it return first"))
            }
        }
    }
}
