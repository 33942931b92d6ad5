//! The decorator itself: a transport that shows everything that goes through it to a hook.

use crate::contract::{
    Capabilities, Closing, Fault, Filled, Footprint, Key, Leeway, Memory, Message, OneSided, Outbox, Payload,
    Server, Sink, Sleeper, Source, Transport,
};
use crate::os::socket::{Lent, Place};
use crate::wire::Header;
use crate::{Error, Rank, Result};
use std::sync::{Arc, Weak};

/// What looks at the traffic. Every method has a default that does nothing.
pub(super) trait Hook: Send {
    /// A message is about to be sent. False: the hook keeps it back, and gives it in [`due`](Self::due) later.
    fn sending(&mut self, _to: Rank, _message: &Message) -> bool {
        true
    }
    /// A letter is about to be sent. False: it may not, and what is to be said goes as a message.
    fn may_write(&mut self, _to: Rank) -> bool {
        true
    }
    /// A letter of so many bytes has gone.
    fn written(&mut self, _to: Rank, _header: &Header, _bytes: u64) {}
    /// A frame has come.
    fn received(&mut self, _from: Rank, _header: &Header) {}
    /// A peer is lost.
    fn lost(&mut self, _peer: Rank) {}
    /// Somebody has looked for traffic, and found so much.
    fn polled(&mut self, _happened: usize) {}
    /// The next message that was kept back and must go now.
    fn due(&mut self) -> Option<(Rank, Message)> {
        None
    }
    /// The next thing to do to a connection.
    fn fault(&mut self) -> Option<(Rank, Fault)> {
        None
    }
    /// When [`due`](Self::due) will have something.
    fn wake_up_at(&self) -> Option<u64> {
        None
    }
    /// The transport of this name ends.
    fn ended(&mut self, _transport: &'static str) {}
}

/// The payload bytes of a message.
pub(super) fn payload_bytes(message: &Message) -> u64 {
    match message.payload {
        Payload::None => 0,
        Payload::Lazy(_, bytes) => bytes,
    }
}

/// A transport with a hook on it.
pub(super) struct Tap<H: Hook> {
    inner: Box<dyn Transport>,
    hook: H,
}

impl<H: Hook> Tap<H> {
    pub(super) fn new(inner: Box<dyn Transport>, hook: H) -> Tap<H> {
        Tap { inner, hook }
    }

    fn break_connections(&mut self) {
        while let Some((peer, fault)) = self.hook.fault() {
            self.inner.inject(peer, fault);
        }
    }
}

struct TapSink<'a, H: Hook> {
    sink: &'a mut dyn Sink,
    hook: &'a mut H,
}

impl<H: Hook> TapSink<'_, H> {
    /// Shows the hook what the sink wants sent after `taking` a frame.
    fn show_answers(
        &mut self,
        out: &mut Outbox,
        taking: impl FnOnce(&mut dyn Sink, &mut Outbox) -> bool,
    ) -> bool {
        let before = out.messages.len();
        let answer = taking(self.sink, out);
        let new = out.messages.split_off(before.min(out.messages.len()));
        out.messages.extend(new.into_iter().filter(|(to, message)| self.hook.sending(*to, message)));
        answer
    }
}

impl<H: Hook> Sink for TapSink<'_, H> {
    fn part(&mut self, from: Rank, header: &Header, at: u32, bytes: &[u8]) {
        self.sink.part(from, header, at, bytes);
    }

    fn place(&mut self, from: Rank, header: &Header, at: u32, bytes: usize) -> Option<Place<'_>> {
        self.sink.place(from, header, at, bytes)
    }

    fn room(&mut self, from: Rank, header: &Header, at: u32, bytes: usize) -> Option<Place<'_>> {
        self.sink.room(from, header, at, bytes)
    }

    fn share(&mut self, source: Source) -> Option<Arc<Vec<u8>>> {
        self.sink.share(source)
    }

    fn frame(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        self.hook.received(from, header);
        self.show_answers(out, |sink, out| sink.frame(from, path, header, out))
    }

    fn torn(&mut self, from: Rank, path: u32, header: &Header, out: &mut Outbox) -> bool {
        self.hook.received(from, header);
        self.show_answers(out, |sink, out| sink.torn(from, path, header, out))
    }

    fn lend(&mut self, source: Source, offset: u64, bytes: usize) -> Option<Lent<'_>> {
        self.sink.lend(source, offset, bytes)
    }

    fn fill(&mut self, source: Source, offset: u64, place: &mut [u8]) -> Filled {
        self.sink.fill(source, offset, place)
    }

    fn withdrawn(&mut self, to: Rank, header: &Header, out: &mut Outbox) {
        self.sink.withdrawn(to, header, out);
    }

    fn lost(&mut self, peer: Rank, error: Error, out: &mut Outbox) {
        self.hook.lost(peer);
        self.sink.lost(peer, error, out);
    }

    fn unsent(&mut self, peer: Rank, error: Error, silent: bool, out: &mut Outbox) {
        self.sink.unsent(peer, error, silent, out);
    }

    fn performed(&mut self, op: u64, result: Result<Option<u64>>, out: &mut Outbox) {
        self.sink.performed(op, result, out);
    }

    fn agent(&mut self, out: &mut Outbox) {
        self.sink.agent(out);
    }
}

impl<H: Hook> Transport for Tap<H> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn send(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<()> {
        if !self.hook.sending(to, &message) {
            return Ok(());
        }
        self.break_connections();
        self.inner.send(to, message, &mut TapSink { sink, hook: &mut self.hook })
    }

    fn post(&mut self, to: Rank, message: Message, sink: &mut dyn Sink) -> Result<bool> {
        if !self.hook.sending(to, &message) {
            // What is said to be kept nowhere is kept nowhere.
            self.inner.flush(&mut TapSink { sink, hook: &mut self.hook });
            return Ok(false);
        }
        self.break_connections();
        self.inner.post(to, message, &mut TapSink { sink, hook: &mut self.hook })
    }

    fn letter(&mut self, to: Rank, header: Header, payload: &[u8], sink: &mut dyn Sink) -> Result<bool> {
        if !self.hook.may_write(to) {
            return Ok(false);
        }
        self.break_connections();
        let sent = self.inner.letter(to, header, payload, &mut TapSink { sink, hook: &mut self.hook })?;
        if sent {
            self.hook.written(to, &header, payload.len() as u64);
        }
        Ok(sent)
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        self.inner.flush(&mut TapSink { sink, hook: &mut self.hook });
    }

    fn keeps(&self) -> Option<Leeway> {
        self.inner.keeps()
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        while let Some((to, message)) = self.hook.due() {
            self.inner.send(to, message, &mut TapSink { sink, hook: &mut self.hook })?;
        }
        let happened = self.inner.poll(&mut TapSink { sink, hook: &mut self.hook })?;
        self.hook.polled(happened);
        self.break_connections();
        Ok(happened)
    }

    fn sleeper(&self) -> Option<Arc<dyn Sleeper>> {
        self.inner.sleeper()
    }

    fn register(&mut self, memory: Arc<dyn Memory>) -> Result<Key> {
        self.inner.register(memory)
    }

    fn unregister(&mut self, key: Key) -> Result<()> {
        self.inner.unregister(key)
    }

    fn perform(&mut self, to: Rank, op: u64, operation: OneSided, sink: &mut dyn Sink) -> Result<()> {
        self.inner.perform(to, op, operation, &mut TapSink { sink, hook: &mut self.hook })
    }

    fn wake_up_at(&self) -> Option<u64> {
        [self.hook.wake_up_at(), self.inner.wake_up_at()].into_iter().flatten().min()
    }

    fn close(&mut self, sink: &mut dyn Sink) -> Closing {
        if self.hook.wake_up_at().is_some() {
            return Closing::Sending;
        }
        self.inner.close(sink)
    }

    fn footprint(&self) -> Footprint {
        self.inner.footprint()
    }

    fn inject(&mut self, peer: Rank, fault: Fault) {
        self.inner.inject(peer, fault);
    }

    fn hush(&mut self) {
        self.inner.hush();
    }

    fn watch(&mut self) {
        self.inner.watch();
    }

    fn serve_with(&mut self, server: Weak<dyn Server>) {
        self.inner.serve_with(server);
    }
}

impl<H: Hook> Drop for Tap<H> {
    fn drop(&mut self) {
        self.hook.ended(self.inner.name());
    }
}
