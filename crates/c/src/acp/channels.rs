//! Channels: messages from one process to another, in order.
//!
//! A channel and a request are numbers that look like pointers to C. A program has at most eight requests of a channel that it has not
//! waited for; the ninth is refused.

use super::alone::Use;
use super::freed::Freed;
use super::types::rank_of;
use super::{complain, edge, WORLD};
use crate::buffer::Buffer;
use crate::guard::{about, misuse};
use kumiki::raw::channels::{self, ChannelEnd, Received, Request};
use kumiki::{Error, GlobalAddress, Result, World};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests of a channel, and end, that nobody has waited for.
const MOST_REQUESTS: usize = 8;
/// Slots of a channel, and bytes of one.
const SLOTS: usize = 16;
const SLOT_BYTES: usize = 1024;
/// Messages of so many bytes and more are read by the receiver where they are.
const FETCHED_BYTES: usize = 32 << 10;
/// How often a barrier looks after channels that have something to send.
const SENDING: Duration = Duration::from_millis(2);
/// How long the end of a world waits for the other end of a channel.
const ENDING: Duration = Duration::from_secs(30);
/// What waiting gives when it fails.
const FAILED: usize = usize::MAX;

/// `struct chitem`: what an `acp_ch_t` points to, as far as programs know.
#[repr(C)]
#[derive(Debug)]
pub struct Channel {
    _private: [u8; 0],
}

/// `struct chreqitem`.
#[repr(C)]
#[derive(Debug)]
pub struct ChannelRequest {
    _private: [u8; 0],
}

/// The ends of a channel that this process has.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) sender: Option<ChannelEnd>,
    pub(super) receiver: Option<ChannelEnd>,
    /// Requests that nobody has waited for.
    sends: usize,
    receives: usize,
    between: Between,
    pub(super) used: Use,
}

/// Which channel it is: what messages name it by, made only when there is one to write.
#[derive(Clone, Copy)]
struct Between {
    /// The ranks of its sender and its receiver.
    ranks: (u32, u32),
    /// Whether this process is its sender.
    sends: bool,
}

impl Between {
    fn name(self) -> String {
        match (self.ranks, self.sends) {
            ((from, to), _) if from == to => format!("channel of rank {from} with itself"),
            ((_, to), true) => format!("channel with rank {to}, to which it sends"),
            ((from, _), false) => format!("channel with rank {from}, from which it receives"),
        }
    }
}

/// What a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Send,
    Receive,
    Free,
}

struct Asked {
    channel: usize,
    /// Which the channel is: it may be gone by then.
    between: Between,
    kind: Kind,
    /// What the library knows it by; several for a channel of a process with itself.
    requests: Vec<Request>,
    /// Memory that is registered for as long as the request takes.
    registered: Option<GlobalAddress>,
    /// Bytes of the buffer.
    size: usize,
}

/// All channels and requests of this process.
pub(super) struct Tables {
    pub(super) channels: BTreeMap<usize, Ends>,
    asked: BTreeMap<usize, Asked>,
    freed: Freed,
    last: usize,
    /// What was sent on a channel of this process with itself that has been freed, for another one that may meet it.
    pub(super) left: BTreeMap<usize, ChannelEnd>,
    /// Ends that receive, and that nobody has any more: to be freed.
    pub(super) spare: Vec<ChannelEnd>,
}

static TABLES: Mutex<Tables> = Mutex::new(Tables {
    channels: BTreeMap::new(),
    asked: BTreeMap::new(),
    freed: Freed::new(),
    last: 0,
    left: BTreeMap::new(),
    spare: Vec::new(),
});

/// Whether something was begun that may have to go on.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);

fn tables() -> MutexGuard<'static, Tables> {
    TABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tables {
    /// A number that looks like a pointer, and was never given before.
    fn next(&mut self) -> usize {
        self.last += 16;
        self.last
    }

    pub(super) fn ends(&mut self, channel: usize) -> Result<&mut Ends> {
        let freed = &self.freed;
        self.channels.get_mut(&channel).ok_or_else(|| match freed.find(channel) {
            Some(name) => misuse(format!("the {name}, has been freed")),
            None => misuse("there is no such channel: it has been freed, or acp_create_ch never gave it"),
        })
    }
}

/// The world has ended, and its channels with it.
pub(super) fn forget_all() {
    let mut tables = tables();
    tables.channels.clear();
    tables.asked.clear();
    tables.freed.clear();
    tables.left.clear();
    tables.spare.clear();
}

/// Lets channels go on while the program waits for something else, if something of them is not done.
pub(super) fn go_on(world: &World) {
    if UNDER_WAY.load(Ordering::Relaxed) {
        // Before the look: what another thread begins meanwhile is not missed.
        UNDER_WAY.store(false, Ordering::Relaxed);
        if channels::look_after(world) {
            UNDER_WAY.store(true, Ordering::Relaxed);
        }
    }
}

/// Frees the ends that nobody has any more, and nobody hears of.
fn free_spare(world: &World) {
    let spare = tables().take_spare();
    spare.into_iter().for_each(|receiver| drop(free_receiver(world, receiver)));
}

/// Frees an end that receives, without waiting for its sender: it goes on by itself.
fn free_receiver(world: &World, receiver: ChannelEnd) -> Result<()> {
    channels::forget(world, channels::start_free(world, receiver)?);
    Ok(())
}

/// Waits until all processes have come here. What one has begun to send or receive another may need before it comes: so channels go on
/// meanwhile.
pub(super) fn sync(world: &World) -> Result<()> {
    while channels::look_after(world) {
        match world.sync_for(SENDING) {
            Err(Error::Timeout { .. }) => {}
            synced => return synced,
        }
    }
    world.sync()
}

/// Ends the channels of this process, before it leaves the world: what was begun is finished, as far as both sides have begun it.
pub(super) fn finish(world: &World) {
    match channels::end_all(world, ENDING) {
        // One that is late is waited for until all have come to the end.
        Ok(()) | Err(Error::Timeout { .. }) => {}
        Err(error) => complain(&format!("the end of a channel: {error}")),
    }
}

fn check_buffer(ch: *mut Channel, buf: *const c_void, size: usize) -> Result<()> {
    match buf.is_null() && size > 0 || size > isize::MAX as usize {
        true => {
            let name = tables().ends(ch as usize)?.between.name();
            Err(misuse(format!("a buffer of {size} bytes at {buf:p} ({name})")))
        }
        false => Ok(()),
    }
}

/// Makes this process's end of a channel. Neither end waits for the other.
#[no_mangle]
pub extern "C" fn acp_create_ch(sender: c_int, receiver: c_int) -> *mut Channel {
    edge("acp_create_ch", std::ptr::null_mut(), || {
        let (sender, receiver) = (rank_of(sender)?, rank_of(receiver)?);
        WORLD.with(|world| {
            let me = world.rank();
            if me != sender && me != receiver {
                return Err(misuse(format!(
                    "a channel from rank {sender} to rank {receiver}: only these two make it, and this is rank {me}"
                )));
            }
            let from =
                (me == receiver).then(|| channels::open_receiver(world, sender, SLOTS, SLOT_BYTES)).transpose()?;
            let to = (me == sender).then(|| channels::open_sender(world, receiver)).transpose()?;
            let mut tables = tables();
            let number = tables.next();
            let between = Between { ranks: (sender, receiver), sends: me == sender };
            let used = if sender == receiver { Use::Unknown } else { Use::Settled };
            let ends = Ends { sender: to, receiver: from, sends: 0, receives: 0, between, used };
            tables.channels.insert(number, ends);
            Ok(number as *mut Channel)
        })
    })
}

fn ask(
    channel: usize,
    kind: Kind,
    size: usize,
    begin: impl FnOnce(&World, Ends) -> Result<(Vec<Request>, Option<GlobalAddress>)>,
) -> Result<*mut ChannelRequest> {
    let ends = tables().ends_for(channel, kind)?;
    let open = if kind == Kind::Send { ends.sends } else { ends.receives };
    if kind != Kind::Free && open >= MOST_REQUESTS {
        // What programs that send as fast as they can expect: no error.
        return Ok(std::ptr::null_mut());
    }
    WORLD.with(|world| {
        let between = ends.between;
        let begun = begin(world, ends);
        let (requests, registered) = begun.map_err(|error| about(error, &between.name()))?;
        UNDER_WAY.store(true, Ordering::Relaxed);
        let mut tables = tables();
        let number = tables.next();
        if kind == Kind::Free {
            tables.freed.note(channel, between.name());
        }
        tables.asked.insert(number, Asked { channel, between, kind, requests, registered, size });
        if let Ok(ends) = tables.ends(channel) {
            match kind {
                Kind::Send => ends.sends += 1,
                Kind::Receive => ends.receives += 1,
                Kind::Free => drop(tables.channels.remove(&channel)),
            }
        }
        drop(tables);
        free_spare(world);
        Ok(number as *mut ChannelRequest)
    })
}

/// Begins to send `size` bytes. NULL if eight requests are open, or something is wrong.
///
/// # Safety
/// The memory must stay as it is until the request has been waited for.
#[no_mangle]
pub unsafe extern "C" fn acp_nbsend_ch(
    ch: *mut Channel,
    buf: *mut c_void,
    size: usize,
) -> *mut ChannelRequest {
    edge("acp_nbsend_ch", std::ptr::null_mut(), || {
        check_buffer(ch, buf, size)?;
        // SAFETY: as the caller promises.
        unsafe { start_send(ch as usize, buf, size) }
    })
}

/// # Safety
/// As [`acp_nbsend_ch`], whose checks have been made.
unsafe fn start_send(channel: usize, buf: *mut c_void, size: usize) -> Result<*mut ChannelRequest> {
    ask(channel, Kind::Send, size, |world, ends| {
        let end = ends
            .sender
            .ok_or_else(|| misuse("this process cannot send: it is the receiver of the channel"))?;
        if size < FETCHED_BYTES {
            let bytes = match size {
                0 => &[],
                // SAFETY: memory of the program, as the caller promises.
                _ => unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), size) },
            };
            return Ok((vec![channels::start_send(world, end, bytes)?], None));
        }
        // SAFETY: as the caller promises, until it is taken back in `take_back`.
        let address = unsafe { WORLD.register(buf.cast(), size, 0) }?;
        let started = channels::start_send_from(world, end, address, size);
        if started.is_err() {
            let _ = WORLD.unregister(address.bits());
        }
        Ok((vec![started?], Some(address)))
    })
}

/// Begins to receive a message of at most `size` bytes. NULL if eight requests are open, or something is wrong.
///
/// # Safety
/// Nobody may touch the memory until the request has been waited for.
#[no_mangle]
pub unsafe extern "C" fn acp_nbrecv_ch(
    ch: *mut Channel,
    buf: *mut c_void,
    size: usize,
) -> *mut ChannelRequest {
    edge("acp_nbrecv_ch", std::ptr::null_mut(), || {
        check_buffer(ch, buf, size)?;
        // SAFETY: as the caller promises.
        unsafe { start_receive(ch as usize, buf, size) }
    })
}

/// # Safety
/// As [`acp_nbrecv_ch`], whose checks have been made.
unsafe fn start_receive(channel: usize, buf: *mut c_void, size: usize) -> Result<*mut ChannelRequest> {
    ask(channel, Kind::Receive, size, |world, ends| {
        let end = ends.receiver;
        let end =
            end.ok_or_else(|| misuse("this process cannot receive: it is the sender of the channel"))?;
        // SAFETY: memory of the program, as the caller promises; nobody else touches it meanwhile.
        let room = Box::new(unsafe { Buffer::new(buf.cast(), size) });
        Ok((vec![channels::start_receive(world, end, room)?], None))
    })
}

/// Begins to free a channel, behind everything that was sent. Both ends are freed, in any order.
#[no_mangle]
pub extern "C" fn acp_nbfree_ch(ch: *mut Channel) -> *mut ChannelRequest {
    edge("acp_nbfree_ch", std::ptr::null_mut(), || free(ch as usize))
}

fn free(channel: usize) -> Result<*mut ChannelRequest> {
    ask(channel, Kind::Free, 0, |world, ends| {
        // The receiver need not wait for the sender: two processes may free what they receive first.
        let receiver = ends.receiver.filter(|receiver| !tables().leave(channel, *receiver));
        receiver.map_or(Ok(()), |receiver| free_receiver(world, receiver))?;
        let freed = ends.sender.map(|sender| channels::start_free(world, sender)).transpose()?;
        Ok((freed.into_iter().collect(), None))
    })
}

/// Waits for a request: bytes of a message that was received, and 0 for what was sent or freed.
fn wait(request: usize) -> Result<usize> {
    let asked = tables().asked.remove(&request);
    let Asked { channel, between, kind, requests, registered, size } = asked
        .ok_or_else(|| misuse("there is no such request: it has been waited for, or was never given"))?;
    let waited = WORLD.with(|world| {
        let mut last: Option<Received> = None;
        for request in requests {
            last = Some(channels::wait(world, request)?);
        }
        Ok(last)
    });
    // The receiver has read it, or never will.
    let taken_back = registered.map_or(Ok(()), |address| WORLD.unregister(address.bits()));
    if let Ok(ends) = tables().ends(channel) {
        match kind {
            Kind::Send => ends.sends -= 1,
            Kind::Receive => ends.receives -= 1,
            Kind::Free => {}
        }
    }
    let received = waited.map_err(|error| about(error, &between.name()))?;
    taken_back?;
    match (kind, received) {
        (Kind::Receive, Some(received)) => {
            if received.sent > received.bytes {
                complain(&format!(
                    "acp_wait_ch: a message of {} bytes came into a buffer of {size}: the rest is lost ({})",
                    received.sent,
                    between.name()
                ));
            }
            Ok(received.bytes)
        }
        _ => Ok(0),
    }
}

/// Waits for a request, and ends it: bytes that were received; 0 for what was sent or freed; `SIZE_MAX` if it failed.
#[no_mangle]
pub extern "C" fn acp_wait_ch(request: *mut ChannelRequest) -> usize {
    edge("acp_wait_ch", FAILED, || wait(request as usize))
}

/// Waits for all requests of a list; those that are NULL are none. What each gives goes to `sizes`, which may be NULL: 0, or -1 if
/// one of them failed.
///
/// # Safety
/// There must be `count` requests, and as many sizes.
#[no_mangle]
pub unsafe extern "C" fn acp_waitall_ch(
    requests: *mut *mut ChannelRequest,
    count: c_int,
    sizes: *mut usize,
) -> c_int {
    edge("acp_waitall_ch", -1, || {
        let count = usize::try_from(count).map_err(|_| misuse(format!("{count} requests cannot be")))?;
        if count > 0 && requests.is_null() {
            return Err(misuse("the requests are at NULL"));
        }
        let mut failed: Option<Error> = None;
        for index in 0..count {
            // SAFETY: there are so many, as the caller promises.
            let request = unsafe { *requests.add(index) };
            let waited = if request.is_null() { Ok(0) } else { wait(request as usize) };
            let size = waited.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                FAILED
            });
            if !sizes.is_null() {
                // SAFETY: as above.
                unsafe { *sizes.add(index) = size };
            }
        }
        failed.map_or(Ok(0), Err)
    })
}

/// Frees a channel: 0 when everything that was sent is on its way, or -1.
#[no_mangle]
pub extern "C" fn acp_free_ch(ch: *mut Channel) -> c_int {
    edge("acp_free_ch", -1, || free(ch as usize).and_then(|request| wait(request as usize)).map(|_| 0))
}

/// Sends, and waits until the memory is free: 0, or -1.
///
/// # Safety
/// As [`acp_nbsend_ch`].
#[no_mangle]
pub unsafe extern "C" fn acp_send_ch(ch: *mut Channel, buf: *mut c_void, size: usize) -> c_int {
    edge("acp_send_ch", -1, || {
        check_buffer(ch, buf, size)?;
        // SAFETY: as the caller promises.
        let request = unsafe { start_send(ch as usize, buf, size) }?;
        wait_some(ch, request).map(|_| 0)
    })
}

/// Receives a message: its bytes, or -1.
///
/// # Safety
/// As [`acp_nbrecv_ch`].
#[no_mangle]
pub unsafe extern "C" fn acp_recv_ch(ch: *mut Channel, buf: *mut c_void, size: usize) -> c_int {
    edge("acp_recv_ch", -1, || {
        check_buffer(ch, buf, size)?;
        // SAFETY: as the caller promises.
        let request = unsafe { start_receive(ch as usize, buf, size) }?;
        wait_some(ch, request).map(|bytes| c_int::try_from(bytes).unwrap_or(c_int::MAX))
    })
}

fn wait_some(ch: *mut Channel, request: *mut ChannelRequest) -> Result<usize> {
    match request.is_null() {
        true => {
            let name = tables().ends(ch as usize)?.between.name();
            Err(misuse(format!("it has eight requests that nobody has waited for ({name})")))
        }
        false => wait(request as usize),
    }
}
