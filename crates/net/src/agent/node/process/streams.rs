//! Standard input to rank 0, standard output and error from every rank, without ever blocking the agent.

use super::Agent;
use crate::agent::node::token;
use crate::agent::protocol::ToHub;
use crate::os::descriptor::{self, Epoll};
use crate::Result;
use std::os::fd::{AsFd, OwnedFd};

/// Bytes that may wait for the launcher before ranks are no longer read: then they feel the back-pressure.
const MAX_BACKLOG_BYTES: usize = 1 << 20;
/// A line longer than this is sent in parts.
const MAX_LINE_BYTES: usize = 64 << 10;

/// The pipes from the ranks.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    /// Two a rank: its output and its error.
    pipes: Vec<[Pipe; 2]>,
    paused: bool,
}

#[derive(Debug)]
struct Pipe {
    fd: Option<OwnedFd>,
    /// The line that has not ended yet.
    partial: Vec<u8>,
}

impl Outputs {
    /// Adds the pipes of a rank.
    pub(super) fn add(&mut self, epoll: &Epoll, local: u32, output: OwnedFd, error: OwnedFd) -> Result<()> {
        for (fd, token) in [(&output, token::OUTPUT), (&error, token::ERROR)] {
            descriptor::set_nonblocking(fd.as_fd(), true)?;
            epoll.add(fd.as_fd(), token + local as u64, false)?;
        }
        self.pipes.push([output, error].map(|fd| Pipe { fd: Some(fd), partial: Vec::new() }));
        Ok(())
    }

    /// Reads what a rank has written to both pipes.
    pub(super) fn read(&mut self, epoll: &Epoll, local: u32, outbox: &mut Vec<ToHub>) {
        for is_error in [false, true] {
            self.read_one(epoll, local, is_error, outbox);
        }
    }

    /// Reads what a rank has written to one pipe, and passes on the whole lines.
    pub(super) fn read_one(&mut self, epoll: &Epoll, local: u32, is_error: bool, outbox: &mut Vec<ToHub>) {
        let Some(pipes) = self.pipes.get_mut(local as usize) else { return };
        let pipe = &mut pipes[is_error as usize];
        let mut buffer = [0; 16 << 10];
        for _ in 0..16 {
            let Some(fd) = &pipe.fd else { break };
            match descriptor::read(fd.as_fd(), &mut buffer) {
                Err(error) if error.would_block() => break,
                Ok(count) if count > 0 => pipe.partial.extend_from_slice(&buffer[..count]),
                _ => {
                    let _ = epoll.remove(fd.as_fd());
                    pipe.fd = None;
                }
            }
        }
        let lines = pipe.partial.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        // However much comes at once, the last line waits for its end, unless it is long by itself.
        let is_long = pipe.partial.len() - lines > MAX_LINE_BYTES;
        let ready = if pipe.fd.is_none() || is_long { pipe.partial.len() } else { lines };
        if ready > 0 {
            let bytes = pipe.partial.drain(..ready).collect();
            outbox.push(ToHub::Output { local, is_error, bytes });
        }
    }

    /// Passes on everything that is left, the last unfinished lines included.
    pub(super) fn drain(&mut self, outbox: &mut Vec<ToHub>) {
        let mut buffer = [0; 16 << 10];
        for (local, pipes) in self.pipes.iter_mut().enumerate() {
            for (is_error, pipe) in pipes.iter_mut().enumerate() {
                while let Some(Ok(count @ 1..)) =
                    pipe.fd.as_ref().map(|fd| descriptor::read(fd.as_fd(), &mut buffer))
                {
                    pipe.partial.extend_from_slice(&buffer[..count]);
                }
                if !pipe.partial.is_empty() {
                    let bytes = std::mem::take(&mut pipe.partial);
                    outbox.push(ToHub::Output { local: local as u32, is_error: is_error == 1, bytes });
                }
            }
        }
    }

    /// Stops to read while the launcher is behind, and starts again when it has caught up.
    pub(super) fn throttle(&mut self, epoll: &Epoll, backlog_bytes: usize) {
        let pause = backlog_bytes > if self.paused { MAX_BACKLOG_BYTES / 2 } else { MAX_BACKLOG_BYTES };
        if pause == self.paused {
            return;
        }
        self.paused = pause;
        for (local, pipes) in self.pipes.iter().enumerate() {
            for (pipe, token) in pipes.iter().zip([token::OUTPUT, token::ERROR]) {
                let Some(fd) = &pipe.fd else { continue };
                let _ = if pause {
                    epoll.remove(fd.as_fd())
                } else {
                    epoll.add(fd.as_fd(), token + local as u64, false)
                };
            }
        }
    }
}

/// The pipe to the standard input of rank 0.
#[derive(Debug, Default)]
pub(super) struct Input {
    pipe: Option<OwnedFd>,
    queued: Vec<u8>,
    /// No more bytes will come.
    ended: bool,
    watched: bool,
}

impl Input {
    pub(super) fn open(&mut self, pipe: OwnedFd) -> Result<()> {
        descriptor::set_nonblocking(pipe.as_fd(), true)?;
        self.pipe = Some(pipe);
        Ok(())
    }

    /// Takes bytes for rank 0; none is the end.
    pub(super) fn queue(&mut self, bytes: Vec<u8>) {
        self.ended |= bytes.is_empty();
        self.queued.extend(bytes);
    }
}

impl Agent {
    pub(super) fn read_output(&mut self, local: u32, is_error: bool) {
        if let Some(node) = &mut self.desk.node {
            self.outputs.read_one(&node.epoll, local, is_error, &mut node.outbox);
        }
    }

    /// Writes to rank 0 what fits.
    pub(super) fn push_input(&mut self) {
        let Some(node) = &mut self.desk.node else { return };
        let input = &mut self.input;
        let mut taken = 0;
        let mut closed = input.pipe.is_none();
        while let (Some(pipe), false) = (&input.pipe, input.queued.is_empty()) {
            match descriptor::write(pipe.as_fd(), &input.queued) {
                Ok(count) => {
                    taken += count as u32;
                    input.queued.drain(..count);
                }
                Err(error) if error.would_block() => break,
                Err(_) => {
                    closed = true;
                    break;
                }
            }
        }
        let wants_room = !closed && !input.queued.is_empty();
        if let Some(pipe) = input.pipe.as_ref().filter(|_| wants_room != input.watched) {
            input.watched = wants_room;
            let _ = match wants_room {
                true => node.epoll.add(pipe.as_fd(), token::INPUT, true),
                false => node.epoll.remove(pipe.as_fd()),
            };
        }
        if closed || (input.ended && input.queued.is_empty()) {
            input.pipe = None;
            input.queued.clear();
        }
        if taken > 0 || closed {
            node.outbox.push(ToHub::InputTaken { bytes: taken, closed });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn much_output_at_once_cut_its_last_line() {
        let (epoll, mut outputs) = (Epoll::new().unwrap(), Outputs::default());
        let (mut rank, output) = UnixStream::pair().unwrap();
        let (_other, error) = UnixStream::pair().unwrap();
        outputs.add(&epoll, 0, output.into(), error.into()).unwrap();
        let read = |outputs: &mut Outputs| {
            let mut outbox = Vec::new();
            outputs.read(&epoll, 0, &mut outbox);
            let pieces = outbox.into_iter().map(|message| match message {
                ToHub::Output { bytes, .. } => bytes,
                other => panic!("{other:?}"),
            });
            pieces.collect::<Vec<_>>()
        };
        let lines = "a line of a rank\n".repeat(MAX_LINE_BYTES / 16);
        rank.write_all(lines.as_bytes()).unwrap();
        rank.write_all(b"half of").unwrap();
        assert_eq!(read(&mut outputs), [lines.as_bytes()]);
        rank.write_all(b" a line\nthe last").unwrap();
        assert_eq!(read(&mut outputs), [b"half of a line\n"]);
        drop(rank);
        assert_eq!(read(&mut outputs), [b"the last"]);
    }

    #[test]
    fn a_line_that_does_not_end_is_passed_on_in_pieces() {
        let (epoll, mut outputs) = (Epoll::new().unwrap(), Outputs::default());
        let (mut rank, output) = UnixStream::pair().unwrap();
        let (_other, error) = UnixStream::pair().unwrap();
        outputs.add(&epoll, 0, output.into(), error.into()).unwrap();
        rank.write_all(&vec![b'x'; MAX_LINE_BYTES + 1]).unwrap();
        let mut outbox = Vec::new();
        outputs.read(&epoll, 0, &mut outbox);
        assert_eq!(outbox.len(), 1);
    }
}
