//! Messages between any two ranks, told apart by tags.

use super::buffers::{check, readable, writable};
use super::requests::{keep, prepare, tell, Asked, Ended, KumikiMessageInfo, KumikiRequest};
use super::{edge, give, KumikiWorld};
use crate::buffer::Buffer;
use crate::guard::misuse;
use crate::things::{self, Here};
use kumiki::comm::{MessageInfo, MessageLanding, MessageOptions, MessageSending, MessageWay, Messages, Tag};
use kumiki::raw::{self, messages};
use kumiki::{Rank, Result, World};
use std::ffi::{c_int, c_void};

/// Any rank, and any tag, as `kumiki.h` has them.
const ANY_RANK: u32 = u32::MAX;
const ANY_TAG: u64 = u64::MAX;

impl From<MessageInfo> for KumikiMessageInfo {
    fn from(info: MessageInfo) -> KumikiMessageInfo {
        KumikiMessageInfo { from: info.from, tag: info.tag, bytes: info.bytes }
    }
}

/// `kumiki_message_options`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KumikiMessageOptions {
    /// `enum kumiki_message_way`.
    pub way: c_int,
    /// The most senders that have a lane at a time.
    pub fast_pairs: usize,
    /// Bytes of a lane.
    pub lane_bytes: usize,
    /// Bytes that are kept for a receive.
    pub kept_bytes: usize,
}

/// Whom and what a receive wants.
#[derive(Clone, Copy)]
struct Wanted {
    from: Option<Rank>,
    tag: Option<Tag>,
}

impl Wanted {
    fn new(from: u32, tag: u64) -> Wanted {
        Wanted { from: (from != ANY_RANK).then_some(from), tag: (tag != ANY_TAG).then_some(tag) }
    }
}

fn check_tag(tag: u64) -> Result<()> {
    match tag == ANY_TAG {
        true => Err(misuse("the tag of a message is KUMIKI_ANY_TAG: only a receive can take any")),
        false => Ok(()),
    }
}

/// The messages of a context, for a request.
///
/// # Safety
/// As [`Here::lasting`].
unsafe fn lasting(here: &Here<'_>, context: u32) -> Messages<'static> {
    // SAFETY: as the caller promises.
    unsafe { here.lasting() }.messages().context(context)
}

/// Sends a message, and waits until the memory is free.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `data` must be readable for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_message_send(
    world: *const KumikiWorld,
    context: u32,
    to: u32,
    tag: u64,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    edge(|| {
        check_tag(tag)?;
        // SAFETY: as the caller promises.
        let message = unsafe { readable(data, bytes, "data") }?;
        things::enter(world, |here| here.world.messages().context(context).send(to, tag, message))
    })
}

/// Waits for a message.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `into` must be writable for `room`, and `info`, or it is NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_message_receive(
    world: *const KumikiWorld,
    context: u32,
    from: u32,
    tag: u64,
    into: *mut c_void,
    room: usize,
    info: *mut KumikiMessageInfo,
) -> c_int {
    edge(|| {
        let wanted = Wanted::new(from, tag);
        // SAFETY: as the caller promises.
        let into = unsafe { writable(into, room, "into") }?;
        let got = things::enter(world, |here| {
            here.world.messages().context(context).receive_into(into, wanted.from, wanted.tag)
        })?;
        // SAFETY: as the caller promises.
        unsafe { tell(info, got.into()) };
        Ok(())
    })
}

/// A message that is being sent. What of it is long lies in memory of the program.
struct Sending(MessageSending<'static>);

impl Asked for Sending {
    fn is_done(&mut self) -> bool {
        self.0.is_done()
    }

    fn name(&self) -> Option<messages::Name> {
        Some(messages::name_of(&self.0))
    }

    fn finish(self: Box<Self>, world: &World) -> Ended {
        messages::end_sending(world, self.0).map(|()| KumikiMessageInfo::of_bytes(0))
    }

    fn give_up(self: Box<Self>, world: &World) {
        // The memory is the program's again only when it was read.
        let _ = self.finish(world);
    }
}

/// Begins to send a message.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `request` must be writable, or NULL; `data` must be readable for `bytes`, and
/// stay as it is until the request has ended.
#[no_mangle]
pub unsafe extern "C" fn kumiki_message_start_send(
    world: *const KumikiWorld,
    context: u32,
    to: u32,
    tag: u64,
    data: *const c_void,
    bytes: usize,
    request: *mut *mut KumikiRequest,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(request) }?;
        check_tag(tag)?;
        // SAFETY: as the caller promises.
        let message = unsafe { readable(data, bytes, "data") }?;
        let start = |here: &Here<'_>| {
            // SAFETY: the program leaves the memory as it is until the request has ended, or the world: then it is given back.
            let vouch = || unsafe { raw::memory(here.world).vouch(data.cast(), bytes) };
            // SAFETY: what borrows the world is kept.
            let sending = messages::start_send(unsafe { lasting(here, context) }, to, tag, message, vouch)?;
            // SAFETY: as the caller promises.
            unsafe { keep(here, request, Sending(sending)) };
            Ok(())
        };
        things::enter(world, start)
    })
}

/// A message that is waited for, and is written to memory of the program when it comes.
struct Receiving(MessageLanding<'static>);

impl Asked for Receiving {
    fn is_done(&mut self) -> bool {
        self.0.is_done()
    }

    fn name(&self) -> Option<messages::Name> {
        Some(messages::name_of(&self.0))
    }

    fn finish(self: Box<Self>, _: &World) -> Ended {
        self.0.wait().map(KumikiMessageInfo::from)
    }

    fn can_cancel(&self) -> bool {
        true
    }

    fn cancel(self: Box<Self>, _: &World) -> Result<Option<KumikiMessageInfo>> {
        Ok(self.0.cancel()?.map(KumikiMessageInfo::from))
    }

    fn give_up(self: Box<Self>, _: &World) {
        // Dropping it has nothing go on, and waits where the message is just being written.
    }
}

/// Begins to receive a message.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `request` must be writable, or NULL; `into` must be writable for `room`, and left
/// alone until the request has ended.
#[no_mangle]
pub unsafe extern "C" fn kumiki_message_start_receive(
    world: *const KumikiWorld,
    context: u32,
    from: u32,
    tag: u64,
    into: *mut c_void,
    room: usize,
    request: *mut *mut KumikiRequest,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(request) }?;
        let wanted = Wanted::new(from, tag);
        check(into, room, "into")?;
        let start = |here: &Here<'_>| {
            // SAFETY: the program leaves the memory alone until the request has ended, or the world.
            let room = Box::new(unsafe { Buffer::new(into.cast(), room) });
            // SAFETY: what borrows the world is kept.
            let messages = unsafe { lasting(here, context) };
            let receiving = messages::start_receive(messages, wanted.from, wanted.tag, room)?;
            // SAFETY: as the caller promises.
            unsafe { keep(here, request, Receiving(receiving)) };
            Ok(())
        };
        things::enter(world, start)
    })
}

/// Waits until a message has come, and leaves it where it is.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `info` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_message_probe(
    world: *const KumikiWorld,
    context: u32,
    from: u32,
    tag: u64,
    info: *mut KumikiMessageInfo,
) -> c_int {
    edge(|| {
        let Wanted { from, tag } = Wanted::new(from, tag);
        let probe = |here: &Here<'_>| here.world.messages().context(context).probe(from, tag);
        let found = things::enter(world, probe)?;
        // SAFETY: as the caller promises.
        unsafe { tell(info, found.into()) };
        Ok(())
    })
}

/// Whether a message has come.
///
/// # Safety
/// As [`kumiki_message_probe`]; `found` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_message_try_probe(
    world: *const KumikiWorld,
    context: u32,
    from: u32,
    tag: u64,
    found: *mut c_int,
    info: *mut KumikiMessageInfo,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(found, "the answer", 0) }?;
        let Wanted { from, tag } = Wanted::new(from, tag);
        let probe = |here: &Here<'_>| here.world.messages().context(context).try_probe(from, tag);
        if let Some(came) = things::enter(world, probe)? {
            // SAFETY: it was written before.
            unsafe { found.write(1) };
            // SAFETY: as the caller promises.
            unsafe { tell(info, came.into()) };
        }
        Ok(())
    })
}

fn way(number: c_int) -> Result<MessageWay> {
    match number {
        0 => Ok(MessageWay::Automatic),
        1 => Ok(MessageWay::Mailbox),
        2 => Ok(MessageWay::Lane),
        _ => Err(misuse(format!("way: {number} is none; see enum kumiki_message_way"))),
    }
}

/// The options that hold if nothing is said.
///
/// # Safety
/// `options` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_message_default_options(options: *mut KumikiMessageOptions) -> c_int {
    edge(|| {
        let MessageOptions { fast_pairs, lane_bytes, kept_bytes, .. } = MessageOptions::default();
        let default = KumikiMessageOptions { way: 0, fast_pairs, lane_bytes, kept_bytes };
        // SAFETY: as the caller promises.
        unsafe { give(options, "the options", default) }
    })
}

/// Says how this rank receives messages from now on.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `options` must be readable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_message_set_options(
    world: *const KumikiWorld,
    options: *const KumikiMessageOptions,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let wanted = *unsafe { options.as_ref() }.ok_or_else(|| misuse("the options are NULL"))?;
        let KumikiMessageOptions { fast_pairs, lane_bytes, kept_bytes, .. } = wanted;
        let (way, default) = (way(wanted.way)?, MessageOptions::default());
        let wanted = MessageOptions { way, fast_pairs, lane_bytes, kept_bytes, ..default };
        things::enter(world, |here| here.world.messages().set_options(wanted))
    })
}
