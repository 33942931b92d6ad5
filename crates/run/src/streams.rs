//! Standard input to rank 0, and the output of ranks that comes through the hub.
//!
//! Neither a slow reader of our output nor a terminal that says nothing may hold up the launcher: output is
//! written by a thread of its own, input is read only when it is there.

use kumiki_net::os::{descriptor, process};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes that may wait to be printed before the agents are no longer listened to.
const MAX_PRINT_BYTES: usize = 8 << 20;
/// Bytes of input that rank 0 has not taken yet.
const MAX_INPUT_BYTES: usize = 256 << 10;

/// Prints in the background, in order.
#[derive(Debug)]
pub(crate) struct Printer {
    shared: Arc<Shared>,
    tag: bool,
    /// What rank 0 is called.
    first_rank: u32,
}

/// Whose words they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Speaker {
    /// Standard output of a rank.
    Output,
    /// Standard error of a rank.
    Error,
    /// Our own. When they cannot be printed, nobody's work is lost.
    Launcher,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    parts: VecDeque<(Speaker, Vec<u8>)>,
    bytes: usize,
    broken: bool,
    running: bool,
}

impl Queue {
    /// Writes the next part here and now.
    fn write_next(&mut self) {
        if let Some((from, bytes)) = self.parts.pop_front() {
            let written = write(from, &bytes);
            self.done(from, bytes.len(), written);
        }
    }

    /// A part is written, or cannot be.
    fn done(&mut self, from: Speaker, bytes: usize, written: kumiki_net::Result<()>) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if written.is_err() && from != Speaker::Launcher {
            self.broken = true;
            self.parts.retain(|(from, _)| *from == Speaker::Launcher);
            self.bytes = self.parts.iter().map(|(_, bytes)| bytes.len()).sum();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Printer {
    pub(crate) fn new(tag: bool, first_rank: u32) -> Printer {
        Printer { shared: Arc::default(), tag, first_rank }
    }

    /// Prints what a rank has written.
    pub(crate) fn print(&self, rank: u32, is_error: bool, bytes: Vec<u8>) {
        let bytes = if self.tag { tagged(self.first_rank.saturating_add(rank), &bytes) } else { bytes };
        self.queue(if is_error { Speaker::Error } else { Speaker::Output }, bytes);
    }

    /// Prints a report of ours.
    pub(crate) fn report(&self, text: &str) {
        self.queue(Speaker::Launcher, format!("kumiki: {text}\n").into_bytes());
    }

    fn queue(&self, from: Speaker, bytes: Vec<u8>) {
        let mut queue = self.shared.lock();
        if queue.broken && from != Speaker::Launcher {
            return;
        }
        queue.bytes += bytes.len();
        queue.parts.push_back((from, bytes));
        if !queue.running {
            let shared = self.shared.clone();
            queue.running = std::thread::Builder::new().spawn(move || write_all(&shared)).is_ok();
        }
        if !queue.running {
            // The machine is out of threads: better late than never.
            queue.write_next();
        }
        self.shared.changed.notify_all();
    }

    /// Whether so much waits to be printed that no more should come.
    pub(crate) fn is_behind(&self) -> bool {
        self.shared.lock().bytes > MAX_PRINT_BYTES
    }

    /// Whether everything is printed that can be.
    pub(crate) fn is_done(&self) -> bool {
        self.shared.lock().bytes == 0
    }

    /// Whether nobody reads our output any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.shared.lock().broken
    }
}

fn write_all(shared: &Shared) {
    loop {
        let mut queue = shared.lock();
        while queue.parts.is_empty() {
            queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let Some((from, bytes)) = queue.parts.pop_front() else { continue };
        drop(queue);
        let written = write(from, &bytes);
        shared.lock().done(from, bytes.len(), written);
    }
}

/// Writes the whole of it, also where whoever shares the terminal with us has made it one that does not wait.
fn write(from: Speaker, mut bytes: &[u8]) -> kumiki_net::Result<()> {
    let (output, error) = (std::io::stdout(), std::io::stderr());
    let place = if from == Speaker::Output { output.as_fd() } else { error.as_fd() };
    while !bytes.is_empty() {
        match descriptor::write(place, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.would_block() => drop(descriptor::poll(&[(place, true)], 1_000)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Puts the rank before every line, and ends the last line.
fn tagged(rank: u32, bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() + 16);
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        text.extend_from_slice(format!("[{rank}] ").as_bytes());
        text.extend_from_slice(line);
    }
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text
}

/// What the standard input has for rank 0.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Nothing now.
    Nothing,
    /// These bytes.
    Bytes(Vec<u8>),
    /// It has ended.
    End,
}

/// Our standard input, on its way to rank 0.
#[derive(Debug, Default)]
pub(crate) struct Source {
    open: bool,
    untaken_bytes: usize,
}

impl Source {
    /// From now on rank 0 can take input.
    pub(crate) fn open(&mut self) {
        self.open = true;
    }

    /// No more will be read.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    /// Rank 0 has taken bytes.
    pub(crate) fn taken(&mut self, bytes: u32) {
        self.untaken_bytes = self.untaken_bytes.saturating_sub(bytes as usize);
    }

    /// Whether reading makes sense now. A terminal is only read in the foreground: elsewhere it would stop us.
    pub(crate) fn wants(&self) -> bool {
        self.open
            && self.untaken_bytes < MAX_INPUT_BYTES
            && process::in_foreground(self.as_fd()) != Some(false)
    }

    /// Reads what is there; called when the descriptor is readable.
    pub(crate) fn read(&mut self) -> Read {
        let mut buffer = vec![0; 16 << 10];
        match descriptor::read(self.as_fd(), &mut buffer) {
            Ok(count @ 1..) => {
                buffer.truncate(count);
                self.untaken_bytes += count;
                Read::Bytes(buffer)
            }
            Err(error) if error.would_block() => Read::Nothing,
            _ => {
                self.open = false;
                Read::End
            }
        }
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        use std::sync::OnceLock;
        static INPUT: OnceLock<std::io::Stdin> = OnceLock::new();
        INPUT.get_or_init(std::io::stdin).as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_gets_its_tag_and_the_last_one_an_end() {
        assert_eq!(tagged(3, b"a\nb\n"), b"[3] a\n[3] b\n");
        assert_eq!(tagged(0, b"a\n\nb"), b"[0] a\n[0] \n[0] b\n");
    }
}
