//! The thread that carries the streams of a process through files.
//!
//! It sleeps between its rounds: shortly after something has moved, longer and longer while nothing does. Nobody can be told by a file system of
//! several machines that something has come, so it looks.

use super::pulse::{Pulse, Watch, SILENT_MS};
use super::stream::{self, Means, Side, Stream, PULSE_MS, RECORD_BYTES};
use super::track::{Cut, HEAD_BYTES};
use super::{folder_name, Target, LISTENER};
use crate::agent::report;
use crate::os::descriptor::{self, Event};
use crate::os::folder::{self, Folder};
use crate::os::{random_bytes, time};
use crate::Result;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The pause between two rounds, at first and at last; and while there is nothing to look at.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_millis(250);
/// How often a listener looks for callers, and for what others have left.
const SCAN_MS: u64 = 5;
const SWEEP_MS: u64 = 1_000;
/// A listener of others that was silent for so long is removed, while there are others: it may only have been stopped for a while.
const LEFT_MS: u64 = 12 * SILENT_MS;
/// Names of streams, and of such as are not ready.
const STREAM: &str = "c-";
const UNREADY: &str = "t-";
const PULSE: &str = "pulse";
/// A stream can leave so much unread in any case.
pub(super) const LEAST_WINDOW: u64 = 256 << 10;
/// The most streams that a listener takes up.
const MOST_STREAMS: usize = 16 << 10;

/// What the pump is told to do.
pub(super) enum Order {
    /// Carry this socket to whoever listens at the address, below this folder.
    Call(OwnedFd, SocketAddr, Arc<Folder>),
    /// Listen for callers in a folder of that name, below the other.
    Listen(String, Folder, Target, Arc<Folder>),
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
    /// Folders of listeners that are to be removed.
    pub(super) leaving: usize,
}

struct Listener {
    folder: Folder,
    pulse: OwnedFd,
    count: u64,
    pulse_at_ms: u64,
    target: Target,
    is_open: bool,
    streams: HashMap<String, Stream>,
    /// Folders of streams that are to be removed.
    leaving: Vec<String>,
}

pub(super) struct Pump {
    path: PathBuf,
    root: Arc<Folder>,
    cut: Cut,
    most_bytes: u64,
    calls: Vec<Stream>,
    listeners: HashMap<String, Listener>,
    /// Folders of listeners that are to be removed.
    leaving: Vec<String>,
    /// Listeners of others, and how they are heard of.
    others: BTreeMap<String, (Watch, u64)>,
    scan_at_ms: u64,
    sweep_at_ms: u64,
    means: Means,
    /// Whether it was told that the folder makes trouble.
    has_told: bool,
    progress: Progress,
}

impl Pump {
    pub(super) fn new(path: PathBuf, root: Arc<Folder>, most_bytes: u64) -> Result<Pump> {
        let cut = Cut::new((most_bytes / 16).clamp(64 << 10, 4 << 20));
        let cut = cut.ok_or_else(|| crate::Error::Misuse("segments of no good length".into()))?;
        let scratch = vec![0; HEAD_BYTES + RECORD_BYTES];
        let flushes = root.hesitates();
        let means = Means { scratch, window: LEAST_WINDOW, flushes, now_ms: 0, trouble: None };
        Ok(Pump {
            path,
            root,
            cut,
            most_bytes,
            calls: Vec::new(),
            listeners: HashMap::new(),
            leaving: Vec::new(),
            others: BTreeMap::new(),
            scan_at_ms: 0,
            sweep_at_ms: 0,
            means,
            has_told: false,
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
            self.tell_trouble();
            pause = if moved > 0 { SHORTEST } else { (pause * 2).min(LONGEST) };
            self.sleep(wake, pause);
        }
        self.finish();
    }

    /// Says once what is wrong with the folder: those who use it see only that a stream has ended.
    fn tell_trouble(&mut self) {
        let Some(error) = self.means.trouble.take().filter(|_| !self.has_told) else { return };
        self.has_told = true;
        report::print(&format!("streams through {} break: {error}", self.path.display()));
    }

    fn obey(&mut self, order: Order) {
        let now_ms = self.means.now_ms;
        match order {
            // A socket that is dropped tells its other end.
            Order::Call(socket, address, root) => {
                self.move_to(root);
                match self.call(socket, &address) {
                    Ok(stream) => self.calls.push(stream),
                    Err(error) => self.means.note(error),
                }
            }
            Order::Listen(name, folder, target, root) => {
                self.move_to(root);
                // It is there anew.
                self.leaving.retain(|left| *left != name);
                let pulse = match folder.create(PULSE) {
                    Ok(pulse) => pulse,
                    Err(error) => return self.means.note(error),
                };
                let listener = Listener {
                    folder,
                    pulse,
                    count: 0,
                    pulse_at_ms: now_ms,
                    target,
                    is_open: true,
                    streams: HashMap::new(),
                    leaving: Vec::new(),
                };
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

    /// Whoever gives an order may not know that the folder was made anew here.
    fn move_to(&mut self, root: Arc<Folder>) {
        if !root.is_gone() {
            self.root = root;
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
        self.renew();
        for listener in self.listeners.values_mut() {
            listener.beat(&self.means);
            for stream in listener.streams.values_mut() {
                moved += stream.step(&mut self.means);
            }
            listener.clear(now_ms);
        }
        let is_over = |one: &mut Listener| !one.is_open && one.streams.is_empty();
        let over = self.listeners.extract_if(|_, one| is_over(one));
        // What is open cannot always be removed: the listener is dropped first.
        self.leaving.extend(over.map(|(name, _)| name));
        let root = &self.root;
        self.leaving.retain(|name| !root.remove_whole(name));
        if !self.listeners.is_empty() && now_ms >= self.sweep_at_ms {
            self.sweep_at_ms = now_ms + SWEEP_MS;
            self.sweep();
        }
        let called = self.listeners.values().flat_map(|one| one.streams.values());
        self.progress.called = called.filter(|stream| !stream.may_go(now_ms)).count();
        self.progress.leaving = self.leaving.len();
        self.progress.calling = self.calls.iter().filter(|stream| !stream.has_ended()).count();
        moved
    }

    /// Makes our listeners anew that others have removed: whoever is stopped for long is taken for dead.
    fn renew(&mut self) {
        let now_ms = self.means.now_ms;
        for (name, listener) in &mut self.listeners {
            if now_ms < listener.pulse_at_ms || !listener.is_removed() {
                continue;
            }
            // Where that lies was removed on purpose.
            if !self.path.parent().is_some_and(|above| above.exists()) {
                continue;
            }
            let renewed = match self.root.is_gone() {
                true => Folder::private(&self.path).map(|root| self.root = Arc::new(root)),
                false => Ok(()),
            };
            if let Err(error) = renewed.and_then(|()| listener.renew(name, &self.root)) {
                self.means.note(error);
            }
        }
    }

    /// Removes what those have left who were killed.
    fn sweep(&mut self) {
        let is_ours = |name: &str| self.listeners.contains_key(name);
        sweep(&self.root, &mut self.others, is_ours, self.means.now_ms, LEFT_MS);
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
            self.leaving.push(name);
        }
        let root = &self.root;
        self.leaving.retain(|name| !root.remove_whole(name));
    }
}

/// Looks at the listeners of others, and removes what those have left who were killed: they have been silent for so long. Whether somebody is there of whom it is not known yet whether he lives.
pub(super) fn sweep(
    root: &Folder,
    others: &mut BTreeMap<String, (Watch, u64)>,
    is_ours: impl Fn(&str) -> bool,
    now_ms: u64,
    silent_ms: u64,
) -> bool {
    let Ok(names) = root.names() else { return false };
    let listeners: Vec<&String> =
        names.iter().filter(|name| name.starts_with(LISTENER) && !is_ours(name)).collect();
    others.retain(|name, _| listeners.contains(&name));
    let mut is_open = false;
    for name in listeners {
        let found = root.open(name).and_then(|folder| stream::read_pulse(&folder, PULSE));
        let found = match found {
            Ok(found) => found.pulse(),
            Err(error) if error.is_missing() => None,
            // Whoever cannot look does not know.
            Err(_) => continue,
        };
        let count = found.map_or(0, |pulse| pulse.count);
        let (watch, first) = others.entry(name.clone()).or_insert_with(|| (Watch::new(now_ms), count));
        watch.note(found, now_ms);
        if watch.is_silent(now_ms, silent_ms) {
            root.remove_whole(name);
        } else {
            is_open |= *first == count;
        }
    }
    // Who was killed before all was said, or could take it back, has left no more than a name.
    for name in names.iter().filter(|name| name.starts_with(super::MASTER)) {
        let said = name.strip_prefix("master.").map(str::to_owned);
        let said = said.or_else(|| super::read_master(root).ok().flatten().map(|(at, _)| folder_name(&at)));
        // A listener is there before its name is.
        if said.is_some_and(|said| root.open(&said).is_err_and(|error| error.is_missing())) {
            root.remove(name);
        }
    }
    is_open
}

impl Listener {
    /// Removes the folders of streams that nobody needs any more. What is open cannot always be removed: the stream is dropped first.
    fn clear(&mut self, now_ms: u64) {
        let over = self.streams.extract_if(|_, stream| stream.may_go(now_ms));
        self.leaving.extend(over.map(|(name, _)| name));
        let folder = &self.folder;
        self.leaving.retain(|name| !folder.remove_whole(name));
    }

    /// Takes up the streams that others have begun.
    fn scan(&mut self, means: &Means) -> usize {
        if !self.is_open {
            return 0;
        }
        let Ok(names) = self.folder.names() else { return 0 };
        let mut found = 0;
        for name in names.into_iter().filter(|name| name.starts_with(STREAM)) {
            let is_known = self.streams.contains_key(&name) || self.leaving.contains(&name);
            if is_known || self.streams.len() >= MOST_STREAMS {
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
                // It waits until there is room.
                Err(error) if error.is_out_of_descriptors() => {}
                Err(_) => drop(self.folder.remove_whole(&name)),
            }
        }
        found
    }

    /// Whether others have removed it, or a part of it.
    fn is_removed(&self) -> bool {
        self.is_open && (self.folder.is_gone() || folder::is_removed(&self.pulse))
    }

    fn renew(&mut self, name: &str, root: &Folder) -> Result<()> {
        if self.folder.is_gone() {
            // An attempt that failed may have left it.
            self.folder = root.make(name).or_else(|_| root.open(name))?;
        }
        // What is there is not ours, though it may be of an attempt that failed.
        self.folder.remove(PULSE);
        self.pulse = self.folder.create(PULSE)?;
        Ok(())
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
