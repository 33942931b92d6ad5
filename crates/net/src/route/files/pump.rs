//! The thread that carries the streams of a process through files.
//!
//! It sleeps between its rounds: shortly after something has moved, longer and longer while nothing does. Nobody can be told by a file system of
//! several machines that something has come, so it looks.

use super::pulse::{Pulse, Watch};
use super::stream::{self, Means, Side, Stream, PULSE_MS, RECORD_BYTES};
use super::track::{Cut, HEAD_BYTES};
use super::{folder_name, Target, LISTENER};
use crate::os::descriptor::{self, Event};
use crate::os::folder::{self, Folder};
use crate::os::{random_bytes, time};
use crate::Result;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The pause between two rounds, at first and at last; and while there is nothing to look at.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_millis(250);
/// How often a listener looks for callers, and for what others have left.
const SCAN_MS: u64 = 5;
const SWEEP_MS: u64 = 1_000;
/// Names of streams, and of such as are not ready.
const STREAM: &str = "c-";
const UNREADY: &str = "t-";
const PULSE: &str = "pulse";
/// A stream can leave so much unread in any case.
const LEAST_WINDOW: u64 = 256 << 10;
/// The most streams that a listener takes up.
const MOST_STREAMS: usize = 16 << 10;

/// What the pump is told to do.
pub(super) enum Order {
    /// Carry this socket to whoever listens at the address.
    Call(OwnedFd, SocketAddr),
    /// Listen in this folder of that name for callers.
    Listen(String, Folder, Target),
    /// No longer.
    Hush(String),
    /// Let go of streams that the program has ended.
    Part,
}

/// How far the pump is.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Progress {
    /// Orders that it has taken.
    pub(super) orders: u64,
    /// Streams that we have begun and the program has not ended, and such as others have begun and have not read to the end.
    pub(super) calling: usize,
    pub(super) called: usize,
}

struct Listener {
    folder: Folder,
    pulse: OwnedFd,
    count: u64,
    pulse_at_ms: u64,
    target: Target,
    is_open: bool,
    streams: BTreeMap<String, Stream>,
}

pub(super) struct Pump {
    root: Arc<Folder>,
    cut: Cut,
    most_bytes: u64,
    calls: Vec<Stream>,
    listeners: BTreeMap<String, Listener>,
    /// Listeners of others, and how they are heard of.
    others: BTreeMap<String, Watch>,
    scan_at_ms: u64,
    sweep_at_ms: u64,
    means: Means,
    progress: Progress,
}

impl Pump {
    pub(super) fn new(root: Arc<Folder>, most_bytes: u64) -> Result<Pump> {
        let cut = Cut::new((most_bytes / 16).clamp(64 << 10, 4 << 20));
        let cut = cut.ok_or_else(|| crate::Error::Misuse("segments of no good length".into()))?;
        let scratch = vec![0; HEAD_BYTES + RECORD_BYTES];
        let means = Means { scratch, window: LEAST_WINDOW, flushes: root.hesitates(), now_ms: 0 };
        Ok(Pump {
            root,
            cut,
            most_bytes,
            calls: Vec::new(),
            listeners: BTreeMap::new(),
            others: BTreeMap::new(),
            scan_at_ms: 0,
            sweep_at_ms: 0,
            means,
            progress: Progress::default(),
        })
    }

    /// Carries until it is told to stop. Every round takes what it is told, and tells how far it is.
    pub(super) fn run(
        mut self,
        wake: &Event,
        mut orders: impl FnMut() -> Option<Vec<Order>>,
        mut tell: impl FnMut(Progress),
    ) {
        let mut pause = SHORTEST;
        while let Some(orders) = orders() {
            let mut moved = orders.len();
            self.means.now_ms = time::now_ms();
            for order in orders {
                self.obey(order);
                self.progress.orders += 1;
            }
            moved += self.round();
            tell(self.progress);
            pause = if moved > 0 { SHORTEST } else { (pause * 2).min(LONGEST) };
            self.sleep(wake, pause);
        }
        self.finish();
    }

    fn obey(&mut self, order: Order) {
        let now_ms = self.means.now_ms;
        match order {
            // A socket that is dropped tells its other end.
            Order::Call(socket, address) => self.calls.extend(self.call(socket, &address).ok()),
            Order::Listen(name, folder, target) => {
                let Ok(pulse) = folder.create(PULSE) else { return };
                let streams = BTreeMap::new();
                let listener =
                    Listener { folder, pulse, count: 0, pulse_at_ms: now_ms, target, is_open: true, streams };
                self.listeners.insert(name, listener);
            }
            Order::Hush(name) => {
                if let Some(listener) = self.listeners.get_mut(&name) {
                    listener.is_open = false;
                }
            }
            Order::Part => self
                .calls
                .iter_mut()
                .filter(|stream| stream.has_ended())
                .for_each(|stream| stream.end(true, now_ms)),
        }
    }

    fn call(&self, socket: OwnedFd, address: &SocketAddr) -> Result<Stream> {
        let listener = self.root.open(&folder_name(address))?;
        let mut id = [0; 16];
        random_bytes(&mut id)?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let unready = format!("{UNREADY}{id}");
        // Whoever looks for streams finds it whole.
        let begun = listener
            .make(&unready)
            .and_then(|folder| Stream::call(folder, socket, self.cut, self.means.now_ms))
            .and_then(|stream| listener.rename(&unready, &format!("{STREAM}{id}")).map(|()| stream));
        if begun.is_err() {
            listener.remove_whole(&unready);
        }
        begun
    }

    /// Does what can be done now: how much that was.
    fn round(&mut self) -> usize {
        let now_ms = self.means.now_ms;
        let streams = self.calls.len() + self.listeners.values().map(|one| one.streams.len()).sum::<usize>();
        self.means.window = (self.most_bytes / streams.max(1) as u64).max(LEAST_WINDOW);
        let mut moved = 0;
        for stream in &mut self.calls {
            moved += stream.step(&mut self.means);
        }
        self.calls.retain(|stream| !stream.is_over());
        if now_ms >= self.scan_at_ms {
            self.scan_at_ms = now_ms + SCAN_MS;
            self.listeners.values_mut().for_each(|listener| moved += listener.scan(&self.means));
        }
        for listener in self.listeners.values_mut() {
            listener.beat(&self.means);
            for stream in listener.streams.values_mut() {
                moved += stream.step(&mut self.means);
            }
            listener.streams.retain(|name, stream| {
                let goes = stream.may_go(now_ms);
                !goes || !listener.folder.remove_whole(name)
            });
        }
        let root = &self.root;
        self.listeners.retain(|name, one| one.is_open || !one.streams.is_empty() || !root.remove_whole(name));
        if !self.listeners.is_empty() && now_ms >= self.sweep_at_ms {
            self.sweep_at_ms = now_ms + SWEEP_MS;
            self.sweep();
        }
        let called = self.listeners.values().flat_map(|one| one.streams.values());
        self.progress.called = called.filter(|stream| !stream.may_go(now_ms)).count();
        self.progress.calling = self.calls.iter().filter(|stream| !stream.has_ended()).count();
        moved
    }

    /// Removes what those have left who were killed.
    fn sweep(&mut self) {
        let now_ms = self.means.now_ms;
        let Ok(names) = self.root.names() else { return };
        let is_other = |name: &String| name.starts_with(LISTENER) && !self.listeners.contains_key(name);
        let names: Vec<String> = names.into_iter().filter(is_other).collect();
        self.others.retain(|name, _| names.contains(name));
        for name in names {
            let watch = self.others.entry(name.clone()).or_insert_with(|| Watch::new(now_ms));
            let folder = self.root.open(&name);
            let found = folder.and_then(|folder| stream::read_pulse(&folder, PULSE));
            watch.note(found.ok().and_then(stream::Look::pulse), now_ms);
            if watch.is_lost(now_ms) {
                self.root.remove_whole(&name);
            }
        }
    }

    /// Sleeps until a program has something to say, or it is time to look.
    fn sleep(&self, wake: &Event, pause: Duration) {
        let window = self.means.window;
        let streams = self.calls.iter().chain(self.listeners.values().flat_map(|one| one.streams.values()));
        let mut watched = vec![(wake.as_fd(), false)];
        watched.extend(streams.filter_map(|stream| stream.listens(window)).map(|socket| (socket, false)));
        let has_work = !self.calls.is_empty() || !self.listeners.is_empty();
        let _ = descriptor::poll_within(&watched, if has_work { pause } else { IDLE });
        wake.clear();
    }

    /// Nothing of this process is left when it ends.
    fn finish(&mut self) {
        self.means.now_ms = time::now_ms();
        let now_ms = self.means.now_ms;
        self.calls.iter_mut().for_each(|stream| stream.end(true, now_ms));
        for (name, mut listener) in std::mem::take(&mut self.listeners) {
            listener.streams.values_mut().for_each(|stream| stream.end(true, now_ms));
            drop(listener);
            self.root.remove_whole(&name);
        }
    }
}

impl Listener {
    /// Takes up the streams that others have begun.
    fn scan(&mut self, means: &Means) -> usize {
        if !self.is_open {
            return 0;
        }
        let Ok(names) = self.folder.names() else { return 0 };
        let mut found = 0;
        for name in names.into_iter().filter(|name| name.starts_with(STREAM)) {
            if self.streams.contains_key(&name) || self.streams.len() >= MOST_STREAMS {
                continue;
            }
            let Ok(folder) = self.folder.open(&name) else { continue };
            // Nobody may be there any more; the caller learns that.
            match Stream::answer(folder, self.target.dial(), means.now_ms) {
                Ok(stream) => {
                    debug_assert_eq!(stream.side, Side::Called);
                    self.streams.insert(name, stream);
                    found += 1;
                }
                Err(_) => drop(self.folder.remove_whole(&name)),
            }
        }
        found
    }

    fn beat(&mut self, means: &Means) {
        if means.now_ms < self.pulse_at_ms {
            return;
        }
        self.pulse_at_ms = means.now_ms + PULSE_MS;
        self.count += 1;
        let pulse = Pulse { count: self.count, ..Pulse::default() };
        let _ = folder::write_at(&self.pulse, &pulse.encode(), 0);
        if means.flushes {
            let _ = folder::flush(&self.pulse);
        }
    }
}
