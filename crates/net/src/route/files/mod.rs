//! Streams through files: a folder that all machines see is the only link between them.
//!
//! Whoever opens a stream gets a socket, as on every other way; a thread of its process carries what goes over it through files that are
//! only ever appended to, and a thread of the process that listens carries it on to a connection there. So nothing above knows of files.
//!
//! ```text
//! SCRATCH/waitio-files.USER.JOB/     mode 0700
//!     master                         who calls the roll, and a key for those who can read it
//!     l-ADDRESS/                     one who listens; its pulse
//!         c-NUMBER/                  a stream: pulses and segments of both sides
//! ```
//!
//! Every run, listener and stream has a random name of its own: what somebody who was killed has left means nothing to later runs, and is removed when
//! its pulse has stood still for 60 s, or for 5 s when a job ends. Whoever was only stopped for so long makes what was removed anew.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the folder of a job; opening and listening |
//! | `pump.rs` | the thread that carries |
//! | `stream.rs` | one stream: a socket and a folder |
//! | `track.rs` | one direction of it: records and segments, as a value |
//! | `pulse.rs` | who lives, and how far it is, as a value |

pub mod pulse;
mod pump;
mod stream;
#[cfg(test)]
mod tests;
pub mod track;

use crate::os::descriptor::{self, Event};
use crate::os::folder::{self, Folder};
use crate::os::{process, random_bytes, socket, time};
use crate::{environment, Error, Result};
use pump::{Order, Progress, Pump};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Names of listeners.
const LISTENER: &str = "l-";
const MASTER: &str = "master";
/// What of a process may lie unread in files, if nobody says, and at least.
const MOST_BYTES: u64 = 64 << 20;
const LEAST_BYTES: u64 = 1 << 20;
const STACK_BYTES: usize = 128 << 10;
/// How long it is looked whether somebody else calls the roll in the same folder.
const OTHER_MS: u64 = 1_500;
/// How often it is looked for what others have left, before a process ends.
const SWEEP_MS: u64 = 250;
/// How long it may take to let go of streams.
const PART_MS: u64 = 1_000;
/// Where addresses of listeners come from: those of groups, which nobody who is called over a network can have.
const PREFIX: u8 = 0xff;

/// To whom a listener's callers are carried.
#[derive(Clone, Debug)]
pub enum Target {
    /// A port of this machine.
    Port(SocketAddr),
    /// A socket of this machine.
    Machine(UnixAddr),
}

impl Target {
    fn dial(&self) -> Option<OwnedFd> {
        let socket: OwnedFd = match self {
            Target::Port(address) => {
                let stream = TcpStream::connect_timeout(address, Duration::from_millis(200)).ok()?;
                let _ = stream.set_nodelay(true);
                stream.into()
            }
            Target::Machine(address) => UnixStream::connect_addr(address).ok()?.into(),
        };
        descriptor::set_nonblocking(socket.as_fd(), true).ok()?;
        Some(socket)
    }
}

/// The folder of a job, and the streams of this process in it.
pub struct Files {
    path: PathBuf,
    most_bytes: u64,
    root: Mutex<Arc<Folder>>,
    desk: Arc<Desk>,
    pump: Mutex<Option<JoinHandle<()>>>,
}

/// What the pump and those who use it share.
struct Desk {
    wake: Event,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    orders: Vec<Order>,
    given: u64,
    progress: Progress,
    stops: bool,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, order: Order) {
        let mut state = self.state();
        state.orders.push(order);
        state.given += 1;
        drop(state);
        self.wake.raise();
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Files({})", self.path.display())
    }
}

impl std::fmt::Display for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.display().fmt(f)
    }
}

/// That callers are carried to somebody of this process; until it is dropped.
pub struct Listening {
    desk: Arc<Desk>,
    name: String,
    /// Where others find it.
    pub address: SocketAddr,
    /// Whether the folder says that the roll is called here.
    master: Option<Arc<Folder>>,
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Listening({})", self.name)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(root) = &self.master {
            if read_master(root).is_ok_and(|said| said.is_some_and(|(address, _)| address == self.address)) {
                root.remove(MASTER);
            }
        }
        self.desk.order(Order::Hush(std::mem::take(&mut self.name)));
    }
}

impl Files {
    /// The folder of the job that the environment names.
    pub fn from_environment() -> Result<Files> {
        let path = environment::job_place("waitio-files")?;
        let most = environment::waitio_size("WAITIO_MAXFILE_SIZE_PER_PROC")?;
        Files::at(&path, most.unwrap_or(MOST_BYTES))
    }

    /// This folder. It is made if it is not there.
    pub fn at(path: &Path, most_bytes: u64) -> Result<Files> {
        let root = Mutex::new(Arc::new(Folder::private(path)?));
        let (wake, state, changed) = (Event::new()?, Mutex::default(), Condvar::new());
        let desk = Arc::new(Desk { wake, state, changed });
        let most_bytes = most_bytes.max(LEAST_BYTES);
        Ok(Files { path: path.into(), most_bytes, root, desk, pump: Mutex::new(None) })
    }

    /// The folder. An earlier run may have been about to remove it when we came: then there is another by now, or it is made anew.
    fn root(&self) -> Result<Arc<Folder>> {
        let mut root = self.root.lock().unwrap_or_else(PoisonError::into_inner);
        if root.is_gone() {
            *root = Arc::new(Folder::private(&self.path)?);
        }
        Ok(root.clone())
    }

    /// The folder as it was last seen, for those who need nothing new in it.
    fn known_root(&self) -> Arc<Folder> {
        self.root.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same; or the one that somebody has made in its place, if somebody has.
    fn present_root(&self) -> Arc<Folder> {
        let mut root = self.root.lock().unwrap_or_else(PoisonError::into_inner);
        if root.is_gone() {
            if let Ok(other) = Folder::existing(&self.path) {
                *root = Arc::new(other);
            }
        }
        root.clone()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Whether an address is one of a listener in files.
    pub fn is_listener(address: &SocketAddr) -> bool {
        matches!(address.ip(), IpAddr::V6(v6) if v6.octets()[0] == PREFIX)
    }

    /// An address that nobody else has, and its neighbour.
    pub fn fresh_address() -> Result<IpAddr> {
        let mut bytes = [0; 16];
        random_bytes(&mut bytes)?;
        (bytes[0], bytes[15]) = (PREFIX, bytes[15] & !1);
        Ok(IpAddr::V6(Ipv6Addr::from(bytes)))
    }

    /// Where the hub listens, if the roll is called there.
    pub fn beside(address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() | 1)),
            other => other,
        }
    }

    /// Opens a stream to whoever listens at an address. If nobody does it ends at once.
    pub fn open(&self, address: &SocketAddr) -> Result<OwnedFd> {
        self.start()?;
        let (ours, theirs) = socket::stream_pair()?;
        descriptor::set_nonblocking(ours.as_fd(), true)?;
        self.desk.order(Order::Call(ours, *address, self.present_root()));
        Ok(theirs)
    }

    /// Listens at an address for others, and carries them to somebody of this machine.
    pub fn listen(&self, address: SocketAddr, target: Target) -> Result<Listening> {
        self.start()?;
        let name = folder_name(&address);
        let make = || self.root().and_then(|root| Ok((root.make(&name)?, root)));
        let again = |error: Error| {
            // A run that was killed may have left it: nobody else listens there, for the port is ours.
            if matches!(error, Error::System { errno: libc::EEXIST, .. }) {
                self.root()?.remove_whole(&name);
            }
            make()
        };
        let (folder, root) = make().or_else(again)?;
        self.desk.order(Order::Listen(name.clone(), folder, target, root));
        Ok(Listening { desk: self.desk.clone(), name, address, master: None })
    }

    /// Says in the folder that the roll is called at a listener, and gives the key for those who can read that.
    pub fn publish(&self, listening: &mut Listening) -> Result<[u8; 32]> {
        let root = self.root()?;
        if let Some((other, _)) = read_master(&root)? {
            self.refuse_if_alive(&root, &other)?;
        }
        let mut key = [0; 32];
        random_bytes(&mut key)?;
        let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let fresh = format!("{MASTER}.{}", listening.name);
        let file = root.create(&fresh)?;
        folder::write_at(&file, format!("{} {digits}\n", listening.address).as_bytes(), 0)?;
        folder::flush(&file)?;
        root.rename(&fresh, MASTER)?;
        listening.master = Some(root);
        Ok(key)
    }

    /// An error if somebody calls the roll here already.
    fn refuse_if_alive(&self, root: &Folder, other: &SocketAddr) -> Result<()> {
        let pulse = || {
            let folder = root.open(&folder_name(other)).ok()?;
            stream::read_pulse(&folder, "pulse").ok()?.pulse()
        };
        let before = pulse();
        let until_ms = time::now_ms() + OTHER_MS;
        while before.is_some() && time::now_ms() < until_ms {
            if pulse().is_some_and(|now| Some(now) != before) {
                return Err(Error::Refused(format!(
                    "another job calls the roll in {}: give each its own COUPLER_JOB_ID, or WAITIO_SCRATCH_DIR",
                    self.path.display()
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Who calls the roll here, and the key; `None` if nobody does yet.
    pub fn master(&self) -> Result<Option<(SocketAddr, [u8; 32])>> {
        read_master(&*self.root()?)
    }

    fn start(&self) -> Result<()> {
        let mut pump = self.pump.lock().unwrap_or_else(PoisonError::into_inner);
        if pump.is_some() {
            return Ok(());
        }
        // A stream costs several descriptors; what there is then is bounded by what may be.
        let _ = descriptor::raise_limit();
        let carrier = Pump::new(self.path.clone(), self.known_root(), self.most_bytes)?;
        let desk = self.desk.clone();
        let body = move || {
            let orders = || {
                let mut state = desk.state();
                (!state.stops).then(|| std::mem::take(&mut state.orders))
            };
            let tell = |progress: Progress| {
                desk.state().progress = progress;
                desk.changed.notify_all();
            };
            carrier.run(&desk.wake, orders, tell);
        };
        let builder = std::thread::Builder::new().name("kumiki-files".into()).stack_size(STACK_BYTES);
        *pump = Some(builder.spawn(body).map_err(|error| Error::from_io("clone(thread)", &error))?);
        Ok(())
    }

    /// Waits until all that the program has sent and ended lies in files: on streams that we have opened, and, if it is so wanted, until others have
    /// read what lies on theirs.
    pub fn settle(&self, with_callers: bool, longest: Duration) {
        let mut state = self.desk.state();
        let until_ms = time::now_ms() + longest.as_millis() as u64;
        let is_obeyed = |state: &State| state.progress.orders >= state.given;
        let is_done = |state: &State| {
            let Progress { calling, called, leaving, .. } = state.progress;
            is_obeyed(state) && calling == 0 && !(with_callers && called + leaving > 0)
        };
        let wait = |state| {
            let waited = self.desk.changed.wait_timeout(state, Duration::from_millis(20));
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        while state.given > 0 && !is_done(&state) && time::now_ms() < until_ms {
            state = wait(state);
        }
        if state.given == 0 {
            return;
        }
        drop(state);
        self.desk.order(Order::Part);
        let mut state = self.desk.state();
        while !is_obeyed(&state) && time::now_ms() < until_ms + PART_MS {
            state = wait(state);
        }
        if with_callers {
            // The last one takes it along.
            let _ = std::fs::remove_dir(&self.path);
        }
    }

    /// For a process that ends and for which nobody waits: removes what those have left who were killed, and looks long enough to know.
    pub fn sweep(&self) {
        let mut others = BTreeMap::new();
        let until_ms = time::now_ms() + 2 * pulse::SILENT_MS;
        let root = self.known_root();
        while !root.is_gone() {
            let now_ms = time::now_ms();
            let waits = pump::sweep(&root, &mut others, |_| false, now_ms, pulse::SILENT_MS);
            if !waits || now_ms >= until_ms {
                break;
            }
            std::thread::sleep(Duration::from_millis(SWEEP_MS));
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if process::is_forked_child() {
            return;
        }
        self.desk.state().stops = true;
        self.desk.wake.raise();
        if let Some(pump) = self.pump.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = pump.join();
        }
        // The last one takes it along.
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// The folder of whoever listens at an address.
fn folder_name(address: &SocketAddr) -> String {
    match address.ip() {
        IpAddr::V6(v6) if Files::is_listener(address) => {
            format!("{LISTENER}{:032x}-{}", v6.to_bits(), address.port())
        }
        _ => format!("{LISTENER}{address}"),
    }
}

fn read_master(root: &Folder) -> Result<Option<(SocketAddr, [u8; 32])>> {
    let Some(file) = root.read(MASTER)? else { return Ok(None) };
    let mut bytes = [0; 256];
    let got = folder::read_at(&file, &mut bytes, 0)?;
    Ok(std::str::from_utf8(&bytes[..got]).ok().and_then(parse_master))
}

fn parse_master(text: &str) -> Option<(SocketAddr, [u8; 32])> {
    let (address, digits) = text.strip_suffix('\n')?.split_once(' ')?;
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    let mut key = [0; 32];
    for (place, at) in key.iter_mut().zip((0..64).step_by(2)) {
        *place = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some((address.parse().ok()?, key))
}
