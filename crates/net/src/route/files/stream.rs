//! One stream in files: a socket on this side, and a folder in which the two sides write a track each.
//!
//! | file | what |
//! |---|---|
//! | `a.pulse`, `b.pulse` | what the caller and the one who was called say of themselves |
//! | `a.0`, `a.1`, … and `b.0`, … | the segments of what each has written and the other has not read |
//!
//! Whoever has read a segment removes it; the one who was called removes the folder.

use super::pulse::{Pulse, Stage, Watch, PULSE_BYTES, SILENT_MS};
use super::pump::LEAST_WINDOW;
use super::track::{Cut, Reading, Writing, HEAD_BYTES};
use crate::os::folder::{self, Folder};
use crate::os::socket;
use crate::{Error, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most bytes of a record.
pub(super) const RECORD_BYTES: usize = 256 << 10;
/// A quiet stream keeps no more memory than this.
const QUIET_BYTES: usize = 4 << 10;
/// How often a side says that it lives, and the other is looked for.
pub(super) const PULSE_MS: u64 = 500;
const LOOK_MS: u64 = 100;
/// How long the one who was called keeps what the caller has not read.
const KEEP_MS: u64 = 10_000;

/// Which side this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Caller,
    Called,
}

impl Side {
    fn letters(self) -> (char, char) {
        match self {
            Side::Caller => ('a', 'b'),
            Side::Called => ('b', 'a'),
        }
    }
}

/// What the streams of a process have together: memory for bytes on their way, and how much each may leave unread.
pub(super) struct Means {
    pub(super) scratch: Vec<u8>,
    pub(super) window: u64,
    /// Whether what is written must be flushed to be seen.
    pub(super) flushes: bool,
    pub(super) now_ms: u64,
    /// What was wrong with the folder first, until it is told.
    pub(super) trouble: Option<Error>,
}

impl Means {
    /// Keeps an error that is one of the folder. What is not there was removed by the other side, and is none.
    pub(super) fn note(&mut self, error: Error) {
        if matches!(error, Error::System { .. }) && !error.is_missing() {
            self.trouble.get_or_insert(error);
        }
    }
}

pub(super) struct Stream {
    pub(super) side: Side,
    folder: Folder,
    /// This side of the program, until nothing more goes there.
    socket: Option<OwnedFd>,
    writing: Writing,
    output: Option<(u64, OwnedFd)>,
    reading: Reading,
    input: Option<(u64, OwnedFd)>,
    /// What was read and the socket has not taken.
    landing: Vec<u8>,
    pulse: Pulse,
    pulse_file: OwnedFd,
    pulse_at_ms: u64,
    watch: Watch,
    look_at_ms: u64,
    /// Since when nothing comes of what the other side, which is gone, has written.
    stalled_ms: Option<u64>,
    /// Whether the program has said all, and knows that the other has.
    has_ended: bool,
    is_shut: bool,
    over_ms: Option<u64>,
}

impl Stream {
    /// Begins a stream in a folder that is not there for others yet.
    pub(super) fn call(folder: Folder, socket: OwnedFd, cut: Cut, now_ms: u64) -> Result<Stream> {
        Stream::new(Side::Caller, folder, Some(socket), cut, Watch::new(now_ms), now_ms)
    }

    /// Takes up a stream that somebody has begun; without a socket it is told that nobody is there.
    pub(super) fn answer(folder: Folder, socket: Option<OwnedFd>, now_ms: u64) -> Result<Stream> {
        let mut watch = Watch::new(now_ms);
        watch.note(look(&folder, 'a')?.pulse(), now_ms);
        let said = watch.last.and_then(|pulse| Cut::new(pulse.segment_bytes));
        let cut = said.ok_or_else(|| Error::Refused("a stream that does not begin as one".into()))?;
        Stream::new(Side::Called, folder, socket, cut, watch, now_ms)
    }

    fn new(
        side: Side,
        folder: Folder,
        socket: Option<OwnedFd>,
        cut: Cut,
        watch: Watch,
        now_ms: u64,
    ) -> Result<Stream> {
        let pulse_file = folder.create(&format!("{}.pulse", side.letters().0))?;
        let mut stream = Stream {
            side,
            folder,
            socket,
            writing: Writing::new(cut),
            output: None,
            reading: Reading::new(cut),
            input: None,
            landing: Vec::new(),
            pulse: Pulse { segment_bytes: cut.bytes(), ..Pulse::default() },
            pulse_file,
            pulse_at_ms: 0,
            watch,
            look_at_ms: 0,
            stalled_ms: None,
            has_ended: false,
            is_shut: false,
            over_ms: None,
        };
        match stream.socket.is_some() {
            true => stream.beat(true, now_ms)?,
            false => stream.end(true, now_ms),
        }
        Ok(stream)
    }

    /// Whether nothing more is done here for the program. What the other has not read yet may still lie there.
    pub(super) fn is_over(&self) -> bool {
        self.over_ms.is_some()
    }

    /// Whether the program has ended its direction, and all that it has sent lies in files.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the folder may be removed: the other has read all, or will not.
    pub(super) fn may_go(&self, now_ms: u64) -> bool {
        let is_read = || self.watch.stage() == Stage::Gone || self.watch.taken() >= self.writing.position();
        self.over_ms
            .is_some_and(|over_ms| is_read() || self.watch.is_lost(now_ms) || now_ms >= over_ms + KEEP_MS)
    }

    /// The socket, if what it has to say could be written now.
    pub(super) fn listens(&self, window: u64) -> Option<BorrowedFd<'_>> {
        let has_room = self.room(window) > 0;
        self.socket.as_ref().filter(|_| !self.has_ended && has_room).map(AsFd::as_fd)
    }

    /// How many bytes may be written now.
    fn room(&self, window: u64) -> usize {
        if self.watch.stage() == Stage::Gone {
            return 0;
        }
        let unread = self.writing.position().saturating_sub(self.watch.taken());
        window.saturating_sub(unread + HEAD_BYTES as u64) as usize
    }

    /// Carries what can be carried now: how many bytes. An end of any kind is kept to itself.
    pub(super) fn step(&mut self, means: &mut Means) -> usize {
        let now_ms = means.now_ms;
        match self.carry(means) {
            Ok(moved) => moved,
            Err(error) => {
                means.note(error);
                self.end(false, now_ms);
                0
            }
        }
    }

    fn carry(&mut self, means: &mut Means) -> Result<usize> {
        let now_ms = means.now_ms;
        let waits = self.room(means.window) == 0 || !self.has_ended && self.watch.written().is_some();
        if now_ms >= self.look_at_ms || waits && !self.is_over() {
            self.look_at_ms = now_ms + LOOK_MS;
            match self.watch_other(now_ms) {
                Ok(true) => {}
                Ok(false) => {
                    // Who was called has removed it all, because all was read or it ended.
                    self.end(true, now_ms);
                    return Ok(0);
                }
                // Whoever could not look cannot say that the other was silent.
                Err(error) if error.is_out_of_descriptors() => {}
                Err(error) => return Err(error),
            }
        }
        if self.is_over() {
            return Ok(0);
        }
        let put = self.put(means)?;
        let fetched = self.fetch(means)?;
        if fetched == 0 && self.landing.is_empty() && self.landing.capacity() > QUIET_BYTES {
            self.landing = Vec::new();
        }
        let all_came = self.landing.is_empty()
            && self.watch.written().is_some_and(|written| self.reading.position() >= written);
        if all_came && !self.is_shut {
            self.is_shut = true;
            if let Some(socket) = &self.socket {
                let _ = socket::end_output(socket.as_fd());
            }
        }
        let is_gone = self.watch.stage() == Stage::Gone;
        let over = all_came && (self.has_ended || is_gone);
        let stalls = is_gone && fetched == 0 && self.landing.is_empty();
        self.stalled_ms = stalls.then(|| self.stalled_ms.unwrap_or(now_ms));
        if over {
            self.end(true, now_ms);
        } else if self.stalled_ms.is_some_and(|since_ms| now_ms >= since_ms + SILENT_MS) {
            return Err(Error::Closed(
                "the other side is gone, and what it has written does not come".into(),
            ));
        } else {
            // How large the window of the other side is nobody knows here: it must not have to wait for the next pulse.
            let unsaid = self.reading.position() - self.pulse.taken;
            let is_due = unsaid >= LEAST_WINDOW / 4 && self.landing.is_empty();
            self.beat(means.flushes, now_ms).and_then(|()| self.tell_taken(is_due, means.flushes, now_ms))?;
        }
        Ok(put + fetched)
    }

    /// Looks at what the other side says of itself. False if it is not there any more.
    fn watch_other(&mut self, now_ms: u64) -> Result<bool> {
        let (own, other) = self.side.letters();
        let found = look(&self.folder, other)?;
        if found == Look::Missing && (self.watch.last.is_some() || look(&self.folder, own)? == Look::Missing)
        {
            return Ok(false);
        }
        self.watch.note(found.pulse(), now_ms);
        match self.watch.is_lost(now_ms) {
            true => Err(Error::Closed("the other side is silent".into())),
            false => Ok(true),
        }
    }

    /// Opens the segment in which the next record is to lie, if the socket has something to say. False if that cannot be now.
    fn open_output(&mut self, segment: u64) -> Result<bool> {
        if self.output.as_ref().is_some_and(|(open, _)| *open == segment) {
            return Ok(true);
        }
        let Some(socket) = &self.socket else { return Ok(false) };
        // Nothing is taken from the socket that there is no place for.
        match socket::receive(socket.as_fd(), &mut [0], true) {
            Ok(0) => return Ok(true),
            Ok(_) => {}
            Err(error) if error.would_block() => return Ok(false),
            Err(error) => return Err(broken(&error)),
        }
        match self.folder.create(&format!("{}.{segment}", self.side.letters().0)) {
            Ok(file) => self.output = Some((segment, file)),
            Err(error) if error.is_out_of_descriptors() => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// From the socket to the track.
    fn put(&mut self, means: &mut Means) -> Result<usize> {
        let mut moved = 0;
        loop {
            let (place, most) = self.writing.next();
            if self.listens(means.window).is_none() || !self.open_output(place.segment)? {
                break;
            }
            let Some(socket) = &self.socket else { break };
            let most = most.min(RECORD_BYTES).min(self.room(means.window));
            let scratch = &mut means.scratch[..HEAD_BYTES + most];
            let got = match socket::receive(socket.as_fd(), &mut scratch[HEAD_BYTES..], false) {
                Ok(got) => got,
                Err(error) if error.would_block() => break,
                Err(error) => return Err(broken(&error)),
            };
            if got == 0 {
                self.has_ended = true;
                (self.pulse.stage, self.pulse.written) = (Stage::Ended, self.writing.position());
                self.pulse_at_ms = 0;
                break;
            }
            let mut written = self.writing;
            let head = written.seal(&scratch[HEAD_BYTES..HEAD_BYTES + got]);
            scratch[..HEAD_BYTES].copy_from_slice(&head);
            if let Some((_, file)) = &self.output {
                folder::write_at(file, &scratch[..HEAD_BYTES + got], place.at)?;
                if means.flushes {
                    folder::flush(file)?;
                }
                // What could not be written is not said to be there.
                self.writing = written;
            }
            moved += got;
            if moved >= RECORD_BYTES * 4 {
                break;
            }
        }
        Ok(moved)
    }

    /// From the track of the other to the socket.
    fn fetch(&mut self, means: &mut Means) -> Result<usize> {
        let mut moved = 0;
        while self.socket.is_some() && moved < RECORD_BYTES * 4 {
            if !self.land()? {
                break;
            }
            let place = self.reading.next();
            let name = |segment: u64| format!("{}.{segment}", self.side.letters().1);
            if let Some((read, _)) = self.input.take_if(|(segment, _)| *segment != place.segment) {
                self.folder.remove(&name(read));
            }
            let file = match &mut self.input {
                Some((_, file)) => file,
                None => match self.folder.read(&name(place.segment)) {
                    Ok(Some(file)) => &mut self.input.insert((place.segment, file)).1,
                    Ok(None) => break,
                    Err(error) if error.is_out_of_descriptors() => break,
                    Err(error) => return Err(error),
                },
            };
            let got = folder::read_at(file, &mut means.scratch, place.at)?;
            let mut found = &means.scratch[..got];
            let before = moved;
            while let Some(bytes) = self.reading.open(found) {
                self.landing.extend_from_slice(bytes);
                moved += bytes.len();
                found = &found[HEAD_BYTES + bytes.len()..];
                if self.reading.next().segment != place.segment {
                    break;
                }
            }
            if moved == before {
                if means.flushes {
                    // A client that remembers what it has read looks again when the file is opened anew.
                    self.input = None;
                }
                break;
            }
        }
        self.land()?;
        Ok(moved)
    }

    /// Gives the socket what was read. Whether it took all.
    fn land(&mut self) -> Result<bool> {
        let Some(socket) = &self.socket else { return Ok(self.landing.is_empty()) };
        let mut sent = 0;
        while sent < self.landing.len() {
            match socket::send(socket.as_fd(), &self.landing[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.would_block() => break,
                Err(error) => return Err(broken(&error)),
            }
        }
        self.landing.drain(..sent);
        Ok(self.landing.is_empty())
    }

    /// Says now and then that this side lives.
    fn beat(&mut self, flushes: bool, now_ms: u64) -> Result<()> {
        self.tell_taken(now_ms >= self.pulse_at_ms, flushes, now_ms)
    }

    fn tell_taken(&mut self, is_due: bool, flushes: bool, now_ms: u64) -> Result<()> {
        if !is_due {
            return Ok(());
        }
        self.pulse_at_ms = now_ms + PULSE_MS;
        self.pulse.count += 1;
        if self.landing.is_empty() {
            self.pulse.taken = self.reading.position();
        }
        folder::write_at(&self.pulse_file, &self.pulse.encode(), 0)?;
        if flushes {
            folder::flush(&self.pulse_file)?;
        }
        Ok(())
    }

    /// Ends this side; if not in good order, the program sees a connection that broke.
    pub(super) fn end(&mut self, in_good_order: bool, now_ms: u64) {
        if self.over_ms.is_some() {
            return;
        }
        self.over_ms = Some(now_ms);
        (self.pulse.stage, self.pulse.written) = (Stage::Gone, self.writing.position());
        let _ = self.tell_taken(true, true, now_ms);
        if let Some(socket) = self.socket.take().filter(|_| !in_good_order) {
            let _ = socket::reset_on_close(socket.as_fd());
        }
        (self.input, self.output, self.landing) = (None, None, Vec::new());
    }
}

/// An error of the program's socket, which is none of the folder.
fn broken(error: &Error) -> Error {
    Error::Closed(error.to_string())
}

/// What is found of a pulse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    Missing,
    /// It is just being written.
    Unreadable,
    Found(Pulse),
}

impl Look {
    pub(super) fn pulse(self) -> Option<Pulse> {
        match self {
            Look::Found(pulse) => Some(pulse),
            Look::Missing | Look::Unreadable => None,
        }
    }
}

/// What a side says of itself.
fn look(folder: &Folder, letter: char) -> Result<Look> {
    read_pulse(folder, &format!("{letter}.pulse"))
}

pub(super) fn read_pulse(folder: &Folder, name: &str) -> Result<Look> {
    let Some(file) = folder.read(name)? else { return Ok(Look::Missing) };
    let mut bytes = [0; PULSE_BYTES];
    let got = folder::read_at(&file, &mut bytes, 0)?;
    Ok(Pulse::decode(&bytes[..got]).map_or(Look::Unreadable, Look::Found))
}
