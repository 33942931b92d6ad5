//! Channels: messages from one rank to another, in order.

use super::buffers::{readable, writable, Promised};
use super::requests::{keep, prepare, Asked, Ended, KumikiMessageInfo, KumikiRequest};
use super::{edge, give, handle, KumikiWorld};
use crate::guard::misuse;
use crate::things::{self, Here};
use kumiki::comm::{Receiver, Receiving, Sender, Sending, Slots};
use kumiki::raw::{self, channels};
use kumiki::World;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

handle! {
    /// `struct kumiki_sender`.
    KumikiSender
}
handle! {
    /// `struct kumiki_receiver`.
    KumikiReceiver
}

type SenderThing = Sender<'static, u8>;
type ReceiverThing = Receiver<'static, u8>;
const SENDER: &str = "sender";
const RECEIVER: &str = "receiver";

/// Makes the end of a channel that sends to a rank.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `sender` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_sender_create(
    world: *const KumikiWorld,
    to: u32,
    sender: *mut *mut KumikiSender,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(sender, "the sender", std::ptr::null_mut()) }?;
        let make = |here: &Here<'_>| {
            // SAFETY: what borrows the world is kept.
            let made: SenderThing = unsafe { here.lasting() }.sender(to)?;
            // SAFETY: it was written before.
            unsafe { sender.write(here.keep(Arc::new(made))) };
            Ok(())
        };
        things::enter(world, make)
    })
}

/// Makes the end of a channel that receives from a rank, with so many slots of so many bytes; zeros are those of `Slots::default`.
///
/// # Safety
/// `world` must be a world, or NULL for that of `acp_init`; `receiver` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_receiver_create(
    world: *const KumikiWorld,
    from: u32,
    slots: usize,
    slot_bytes: usize,
    receiver: *mut *mut KumikiReceiver,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { give(receiver, "the receiver", std::ptr::null_mut()) }?;
        let slots = match (slots, slot_bytes) {
            (0, 0) => Slots::default(),
            (0, _) | (_, 0) => {
                return Err(misuse(format!("slots: {slots} of {slot_bytes} bytes; both are 0, or neither")))
            }
            _ => Slots::new(slots, slot_bytes),
        };
        let make = |here: &Here<'_>| {
            // SAFETY: what borrows the world is kept.
            let made: ReceiverThing = unsafe { here.lasting() }.receiver(from, slots)?;
            // SAFETY: it was written before.
            unsafe { receiver.write(here.keep(Arc::new(made))) };
            Ok(())
        };
        things::enter(world, make)
    })
}

/// Sends a message, and waits until the memory is free.
///
/// # Safety
/// `data` must be readable for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn kumiki_sender_send(
    sender: *const KumikiSender,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let message = unsafe { readable(data, bytes, "data") }?;
        things::share(sender, SENDER, |_, sender: &Arc<SenderThing>| sender.send(message))
    })
}

/// A message that is being sent, or a sender that is being freed.
struct Outgoing(Sending<'static>);

impl Asked for Outgoing {
    fn is_done(&mut self) -> bool {
        self.0.is_done()
    }

    fn finish(self: Box<Self>, _: &World) -> Ended {
        self.0.wait().map(|()| KumikiMessageInfo::of_bytes(0))
    }

    fn give_up(self: Box<Self>, world: &World) {
        // The memory is the program's again only when it was read.
        let _ = self.finish(world);
    }
}

/// Begins to send a message.
///
/// # Safety
/// `request` must be writable, or NULL; `data` must be readable for `bytes`, and stay as it is until the request has ended.
#[no_mangle]
pub unsafe extern "C" fn kumiki_sender_start_send(
    sender: *const KumikiSender,
    data: *const c_void,
    bytes: usize,
    request: *mut *mut KumikiRequest,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(request) }?;
        // SAFETY: as the caller promises.
        let message = unsafe { readable(data, bytes, "data") }?;
        things::share(sender, SENDER, |here, sender: &Arc<SenderThing>| {
            // SAFETY: the program leaves the memory as it is until the request has ended, or the world: then it is given back.
            let vouch = || unsafe { raw::memory(here.world).vouch(data.cast(), bytes) };
            let sending = channels::start_send_vouched(sender, message, vouch)?;
            // SAFETY: as the caller promises.
            unsafe { keep(here, request, Outgoing(sending)) };
            Ok(())
        })
    })
}

/// Begins to free a sender, behind everything that was sent.
///
/// # Safety
/// `request` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_sender_start_free(
    sender: *mut KumikiSender,
    request: *mut *mut KumikiRequest,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(request) }?;
        things::take_shared(sender, SENDER, |here, sender: SenderThing| {
            let sending = sender.start_free()?;
            // SAFETY: as the caller promises.
            unsafe { keep(here, request, Outgoing(sending)) };
            Ok(())
        })
    })
}

/// Frees a sender, when everything that was sent is with the receiver.
#[no_mangle]
pub extern "C" fn kumiki_sender_free(sender: *mut KumikiSender) -> c_int {
    edge(|| things::take_shared(sender, SENDER, |_, sender: SenderThing| sender.free()))
}

/// Waits for the next message.
///
/// # Safety
/// `into` must be writable for `room`; `bytes` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_receiver_receive(
    receiver: *const KumikiReceiver,
    into: *mut c_void,
    room: usize,
    bytes: *mut usize,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        let into = unsafe { writable(into, room, "into") }?;
        let got = things::share(receiver, RECEIVER, |_, receiver: &Arc<ReceiverThing>| {
            receiver.receive_into(into)
        })?;
        if !bytes.is_null() {
            // SAFETY: as the caller promises.
            unsafe { bytes.write(got) };
        }
        Ok(())
    })
}

/// A message that is waited for. It is copied when it is taken, so that nobody writes to memory of the program in between.
struct Incoming {
    receiving: Receiving<'static, u8>,
    into: Promised,
}

impl Asked for Incoming {
    fn is_done(&mut self) -> bool {
        self.receiving.is_done()
    }

    fn finish(self: Box<Self>, world: &World) -> Ended {
        let Incoming { receiving, into } = *self;
        let message = receiving.wait()?;
        let (bytes, room) = (message.len(), into.len());
        // SAFETY: the program leaves the memory alone until the request has ended, as `kumiki_receiver_start_receive` demands.
        unsafe { into.fill(&message[..bytes.min(room)]) };
        match bytes <= room {
            true => Ok(KumikiMessageInfo::of_bytes(bytes)),
            false => raw::note(
                world,
                Err(misuse(format!("a message of {bytes} bytes, and room for {room}: the rest is lost"))),
            ),
        }
    }

    fn give_up(self: Box<Self>, _: &World) {}
}

/// Begins to receive a message.
///
/// # Safety
/// `request` must be writable, or NULL; `into` must be writable for `room`, and left alone until the request has ended.
#[no_mangle]
pub unsafe extern "C" fn kumiki_receiver_start_receive(
    receiver: *const KumikiReceiver,
    into: *mut c_void,
    room: usize,
    request: *mut *mut KumikiRequest,
) -> c_int {
    edge(|| {
        // SAFETY: as the caller promises.
        unsafe { prepare(request) }?;
        let into = Promised::new(into, room, "into")?;
        things::share(receiver, RECEIVER, |here, receiver: &Arc<ReceiverThing>| {
            let receiving = receiver.start_receive()?;
            // SAFETY: as the caller promises.
            unsafe { keep(here, request, Incoming { receiving, into }) };
            Ok(())
        })
    })
}

/// Whether a message has begun to come.
///
/// # Safety
/// `has` must be writable, or NULL.
#[no_mangle]
pub unsafe extern "C" fn kumiki_receiver_has_mail(receiver: *const KumikiReceiver, has: *mut c_int) -> c_int {
    edge(|| {
        let found =
            things::share(receiver, RECEIVER, |_, receiver: &Arc<ReceiverThing>| receiver.has_mail())?;
        // SAFETY: as the caller promises.
        unsafe { give(has, "the answer", c_int::from(found)) }
    })
}

/// Frees a receiver, when the sender is freed, too.
#[no_mangle]
pub extern "C" fn kumiki_receiver_free(receiver: *mut KumikiReceiver) -> c_int {
    edge(|| things::take_shared(receiver, RECEIVER, |_, receiver: ReceiverThing| receiver.free()))
}
