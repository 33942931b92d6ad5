//! What was started and is not waited for: messages, channels and collectives alike.

use super::buffers::{list, list_mut};
use super::{edge, give, handle};
use crate::guard::misuse;
use crate::things::{self, Here};
use kumiki::raw::messages::{self, Name};
use kumiki::{Error, Result, World};
use std::ffi::c_int;
use std::time::Duration;

handle! {
    /// `struct kumiki_request`.
    KumikiRequest
}

/// What is known of a message: `kumiki_message_info`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KumikiMessageInfo {
    /// Who sent it.
    pub from: u32,
    /// Its tag.
    pub tag: u64,
    /// Its bytes.
    pub bytes: usize,
}

impl KumikiMessageInfo {
    /// Of what is no message by tag.
    pub(super) const fn of_bytes(bytes: usize) -> KumikiMessageInfo {
        KumikiMessageInfo { from: u32::MAX, tag: u64::MAX, bytes }
    }
}

/// What became of a request.
pub(super) type Ended = Result<KumikiMessageInfo>;

/// Something that was started. Dropping it, when the world ends, leaves memory of the program alone.
pub(super) trait Asked: Send {
    /// Whether waiting for it would not wait.
    fn is_done(&mut self) -> bool;

    /// What it is known by, if it is a message.
    fn name(&self) -> Option<Name> {
        None
    }

    /// Waits for it.
    fn finish(self: Box<Self>, world: &World) -> Ended;

    /// Whether it can be given up before it is done.
    fn can_cancel(&self) -> bool {
        false
    }

    /// Gives it up: nothing, or what became of it if it was done.
    fn cancel(self: Box<Self>, world: &World) -> Result<Option<KumikiMessageInfo>> {
        self.finish(world).map(Some)
    }

    /// Nobody wants to know: memory of the program is not touched any more when this returns.
    fn give_up(self: Box<Self>, world: &World);
}

type Request = Box<dyn Asked>;
const NAME: &str = "request";
/// How often requests of several kinds are looked at before whoever waits sleeps in between, and how long.
const LOOKS: u32 = 200;
const NAP: Duration = Duration::from_micros(50);

/// Keeps a request for the program.
///
/// # Safety
/// `to` must be writable.
pub(super) unsafe fn keep(here: &Here<'_>, to: *mut *mut KumikiRequest, asked: impl Asked + 'static) {
    let asked: Request = Box::new(asked);
    // SAFETY: as the caller promises.
    unsafe { to.write(here.keep(asked)) };
}

/// Makes the place of a request NULL, before anything is started.
///
/// # Safety
/// `to` must be writable, or NULL.
pub(super) unsafe fn prepare(to: *mut *mut KumikiRequest) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { give(to, "the request", std::ptr::null_mut()) }
}

/// Gives what became of a request to whoever wants it.
///
/// # Safety
/// `to` must be writable, or NULL.
pub(super) unsafe fn tell(to: *mut KumikiMessageInfo, info: KumikiMessageInfo) {
    if !to.is_null() {
        // SAFETY: as the caller promises.
        unsafe { to.write(info) };
    }
}

/// The request at a place; NULL if there is none.
///
/// # Safety
/// `at` must be readable, or NULL.
unsafe fn request_at(at: *mut *mut KumikiRequest) -> Result<*mut KumikiRequest> {
    match at.is_null() {
        true => Err(misuse("the place of the request is NULL")),
        // SAFETY: as the caller promises.
        false => Ok(unsafe { at.read() }),
    }
}

/// Ends a request, and makes its place NULL.
///
/// # Safety
/// `at` must be writable, and hold `request`.
unsafe fn end<R>(
    at: *mut *mut KumikiRequest,
    request: *mut KumikiRequest,
    work: impl FnOnce(&Here<'_>, Request) -> Result<R>,
) -> Result<R> {
    things::take(request, NAME, |here, asked: Request| {
        // SAFETY: as the caller promises.
        unsafe { at.write(std::ptr::null_mut()) };
        work(here, asked)
    })
}

/// Waits for the request at a place.
///
/// # Safety
/// As [`kumiki_request_wait`].
unsafe fn wait(at: *mut *mut KumikiRequest, info: *mut KumikiMessageInfo) -> Result<()> {
    // SAFETY: as the caller promises.
    let request = unsafe { request_at(at) }?;
    let ended = match request.is_null() {
        true => KumikiMessageInfo::of_bytes(0),
        // SAFETY: as the caller promises.
        false => unsafe { end(at, request, |here, asked| asked.finish(here.world)) }?,
    };
    // SAFETY: as the caller promises.
    unsafe { tell(info, ended) };
    Ok(())
}

/// Waits for a request, and ends it.
///
/// # Safety
/// `request` must be writable, or NULL; so must `info`. The memory that the request was given must be there.
#[no_mangle]
pub unsafe extern "C" fn kumiki_request_wait(
    request: *mut *mut KumikiRequest,
    info: *mut KumikiMessageInfo,
) -> c_int {
    // SAFETY: as the caller promises.
    edge(|| unsafe { wait(request, info) })
}

fn is_done(request: *const KumikiRequest) -> Result<bool> {
    things::with(request, NAME, |_, asked: &mut Request| Ok(asked.is_done()))
}

/// Ends a request if it is done.
///
/// # Safety
/// As [`kumiki_request_wait`]; `done` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_request_test(
    request: *mut *mut KumikiRequest,
    done: *mut c_int,
    info: *mut KumikiMessageInfo,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(done, "the answer", 0) }?;
        // SAFETY: as the caller promises.
        let asked = unsafe { request_at(request) }?;
        if asked.is_null() || is_done(asked)? {
            // SAFETY: as the caller promises.
            unsafe { done.write(1) };
            // SAFETY: as the caller promises.
            unsafe { wait(request, info) }?;
        }
        Ok(())
    })
}

/// Waits for all requests of a list; tells the first failure among them.
///
/// # Safety
/// There must be `count` requests, and as many infos unless they are NULL; all as in [`kumiki_request_wait`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_request_wait_all(
    requests: *mut *mut KumikiRequest,
    count: usize,
    infos: *mut KumikiMessageInfo,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises; only checked here.
        unsafe { list_mut(requests, count, "requests") }?;
        let mut first: Option<Error> = None;
        for index in 0..count {
            let info = if infos.is_null() { infos } else { infos.wrapping_add(index) };
            // SAFETY: as the caller promises.
            if let Err(error) = unsafe { wait(requests.wrapping_add(index), info) } {
                first.get_or_insert(error);
            }
        }
        first.map_or(Ok(()), Err)
    })
}

/// Waits until one request of a list is done, and ends it.
///
/// # Safety
/// There must be `count` requests; `index` must be writable, or NULL; all as in [`kumiki_request_wait`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_request_wait_any(
    requests: *mut *mut KumikiRequest,
    count: usize,
    index: *mut usize,
    info: *mut KumikiMessageInfo,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(index, "the index", count) }?;
        // SAFETY: as the caller promises; it is read before anything is written.
        let open: Vec<_> = unsafe { list(requests, count, "requests") }?
            .iter()
            .enumerate()
            .filter(|(_, request)| !request.is_null())
            .map(|(at, request)| (at, request.cast_const()))
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let at = open[first_done(&open)?].0;
        // SAFETY: as the caller promises.
        unsafe { index.write(at) };
        // SAFETY: as the caller promises.
        unsafe { wait(requests.wrapping_add(at), info) }
    })
}

/// Waits until one of several requests is done: which one.
fn first_done(open: &[(usize, *const KumikiRequest)]) -> Result<usize> {
    let mut looks = 0;
    loop {
        for (position, (_, request)) in open.iter().enumerate() {
            if is_done(*request)? {
                return Ok(position);
            }
        }
        match names_of(open)? {
            Some(names) => return wait_for_messages(open[0].1, &names),
            // Those of groups go on when somebody looks.
            None if looks < LOOKS => {
                looks += 1;
                std::thread::yield_now();
            }
            None => std::thread::sleep(NAP),
        }
    }
}

/// What requests are known by, if all are messages of one world.
fn names_of(open: &[(usize, *const KumikiRequest)]) -> Result<Option<Vec<Name>>> {
    let (mut names, mut worlds) = (Vec::with_capacity(open.len()), Vec::with_capacity(open.len()));
    for (_, request) in open {
        let (name, world) = things::with(*request, NAME, |here, asked: &mut Request| {
            Ok((asked.name(), std::ptr::from_ref(here.place()) as usize))
        })?;
        names.extend(name);
        worlds.push(world);
    }
    let is_one = worlds.iter().all(|world| *world == worlds[0]);
    Ok((is_one && names.len() == open.len()).then_some(names))
}

fn wait_for_messages(first: *const KumikiRequest, names: &[Name]) -> Result<usize> {
    things::in_world_of(first, NAME, |here| messages::wait_any(here.world, names))
}

/// Gives a receive up, or takes what it has got. `cancelled` says which.
///
/// # Safety
/// As [`kumiki_request_wait`]; `cancelled` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_request_cancel(
    request: *mut *mut KumikiRequest,
    cancelled: *mut c_int,
    info: *mut KumikiMessageInfo,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(cancelled, "the answer", 0) }?;
        // SAFETY: as the caller promises.
        let asked = unsafe { request_at(request) }?;
        let can = things::with(asked, NAME, |_, asked: &mut Request| Ok(asked.can_cancel()))?;
        if !can {
            return Err(misuse("the request cannot be cancelled: only a receive of a message can"));
        }
        // SAFETY: as the caller promises.
        match unsafe { end(request, asked, |here, asked| asked.cancel(here.world)) }? {
            // SAFETY: as the caller promises.
            Some(got) => unsafe { tell(info, got) },
            // SAFETY: it was written before.
            None => unsafe { cancelled.write(1) },
        }
        Ok(())
    })
}

/// Ends a request without asking what becomes of it.
///
/// # Safety
/// As [`kumiki_request_wait`].
#[no_mangle]
pub unsafe extern "C" fn kumiki_request_free(request: *mut *mut KumikiRequest) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let asked = unsafe { request_at(request) }?;
        if asked.is_null() {
            return Ok(());
        }
        // SAFETY: as the caller promises.
        unsafe {
            end(request, asked, |here, asked| {
                asked.give_up(here.world);
                Ok(())
            })
        }
    })
}
