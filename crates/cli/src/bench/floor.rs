//! The floor: bare code on the same machine. Nothing of Kumiki is on the path that is timed.

use super::comm::WINDOW;
use super::ours::expect;
use super::worker::{places, Draws, Measured, Places, Request, Sampler, FIRST_WORD, RANDOM_WORDS};
use kumiki::World;
use kumiki_run::system::{avoid_pacing, checksum, SharedWords};
use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Ends an exchange over the socket.
const END: u64 = u64::MAX;
/// A piece of a message that has a sum of its own, and the bytes of the sum.
const PIECE_BYTES: usize = 512 << 10;
const SUM_BYTES: usize = 4;
/// The word of starter memory behind those of `ours` with the port of rank 0.
const PORT_WORD: u64 = FIRST_WORD + 8;

/// Measures the bare machine between two processes.
pub(super) struct Floor<'a> {
    world: &'a World,
    sampler: Sampler,
    /// Between rank 0 and rank 1, opened when first needed.
    socket: Option<TcpStream>,
    buffers: Option<(SharedWords, SharedWords)>,
    /// The words of random accesses.
    field: Option<SharedWords>,
}

type Done<T> = Result<T, String>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl<'a> Floor<'a> {
    pub(super) fn new(world: &'a World) -> Floor<'a> {
        Floor { world, sampler: Sampler::default(), socket: None, buffers: None, field: None }
    }

    /// Every rank calls it; the answer of rank 0 counts. The first value is the unit.
    pub(super) fn measure(&mut self, request: &Request) -> (&'static str, Measured) {
        let parts = request.parts();
        let (unit, measured) = match parts[1..] {
            ["spin"] => ("ns", self.ping_pong(request, true)),
            ["block"] => ("ns", self.ping_pong(request, false)),
            // Of messages, which go one way.
            ["half", way @ ("spin" | "block")] => {
                let halves = |times: Vec<f64>| times.into_iter().map(|time| time / 2.0).collect();
                ("ns", self.ping_pong(request, way == "spin").map(halves))
            }
            ["memcpy", bytes] => ("MB/s", self.memcpy(bytes, request)),
            ["stream", bytes] => ("MB/s", self.stream(bytes, request, false)),
            ["acked", bytes] => ("MB/s", self.stream(bytes, request, true)),
            ["summed", bytes] => ("MB/s", self.summed(bytes, 1, request)),
            // Of messages, of which several have a place of their own.
            ["summed", "messages", bytes] => ("MB/s", self.summed(bytes, WINDOW, request)),
            [name @ ("randread" | "randupd")] => ("ns", self.random(name == "randupd", request)),
            [name @ ("update" | "read"), words] => ("ns", self.table(name == "update", words, request)),
            ["sixtyfour"] => ("ns", self.sixty_four(request)),
            [name] => ("ns", self.word(name, request)),
            _ => ("ns", Err(format!("{} is not a floor known here", request.metric))),
        };
        let met = self.world.sync().map_err(text);
        (unit, met.and(measured))
    }

    /// One instruction on a word of a shared mapping.
    fn word(&mut self, name: &str, request: &Request) -> Measured {
        if self.world.rank() != 0 {
            return Ok(Vec::new());
        }
        let memory = SharedWords::new(512).map_err(text)?;
        let word = &memory.words()[0];
        let mut kept = (0u64, 0u64);
        let mut work = |n: u64| -> Done<Duration> {
            let (mut count, mut wrong) = kept;
            let started = Instant::now();
            match name {
                "store" => (0..n).for_each(|i| black_box(word).store(i, Ordering::Release)),
                "load" => (0..n).for_each(|_| {
                    black_box(black_box(word).load(Ordering::Acquire));
                }),
                // Nothing is stored beside these: such an instruction waits for all stores before it.
                "xadd" => {
                    let word = black_box(word);
                    for _ in 0..n {
                        wrong |= word.fetch_add(1, Ordering::SeqCst) ^ count;
                        count += 1;
                    }
                }
                "cmpxchg" => {
                    let word = black_box(word);
                    for _ in 0..n {
                        let (old, new) = (count, count + 1);
                        let done = word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
                        wrong |= done.unwrap_or_else(|held| held) ^ count;
                        count += 1;
                    }
                }
                _ => return Err(format!("there is no floor {name}")),
            }
            let time = started.elapsed();
            kept = (count, wrong);
            expect(wrong, 0).map(|()| time)
        };
        let seconds = self.sampler.sample(&request.metric, request.reps, &mut work)?;
        Ok(seconds.into_iter().map(|s| s * 1e9).collect())
    }

    /// Words of a shared mapping, read or changed in random order.
    fn random(&mut self, changes: bool, request: &Request) -> Measured {
        if self.world.rank() != 0 {
            return Ok(Vec::new());
        }
        if self.field.is_none() {
            let field = SharedWords::new(RANDOM_WORDS).map_err(text)?;
            field.words().iter().for_each(|word| word.store(1, Ordering::Relaxed));
            self.field = Some(field);
        }
        let Some(field) = self.field.as_ref() else { return Err("no words".into()) };
        let words = &field.words()[..RANDOM_WORDS];
        let mut places = Places::default();
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let (mut sum, started) = (0u64, Instant::now());
            for _ in 0..n {
                let word = &words[places.next_place()];
                let value = word.load(Ordering::Relaxed);
                sum = sum.wrapping_add(value);
                if changes {
                    word.store(value ^ 2, Ordering::Relaxed);
                }
            }
            black_box(sum);
            Ok(started.elapsed())
        })?;
        Ok(seconds.into_iter().map(|s| s * 1e9).collect())
    }

    /// Words of one table that two processes have, read or added to in random order by both.
    fn table(&mut self, adds: bool, words: &str, request: &Request) -> Measured {
        let count: usize = words.parse().map_err(text)?;
        let (world, me) = (self.world, self.world.rank());
        // That of rank 0 is used; of the others no page is ever touched.
        let table = world.shared_array::<u64>(count).map_err(text)?;
        let view = world.view(table.at(0, 0), count).map_err(text)?;
        let words = view.words();
        // Both have seen all of it.
        words.iter().for_each(|word| word.store(1, Ordering::Relaxed));
        world.sync().map_err(text)?;
        let mut draws = Draws::new(me, words.len());
        let mut work = |n: u64| {
            let (mut sum, mut left, started) = (0u64, n, Instant::now());
            while left > 0 {
                let places = draws.some(left);
                match adds {
                    true => places.iter().for_each(|&place| _ = words[place].fetch_add(1, Ordering::Relaxed)),
                    false => {
                        let values = places.iter().map(|&place| words[place].load(Ordering::Relaxed));
                        sum = values.fold(sum, u64::wrapping_add);
                    }
                }
                left -= places.len() as u64;
            }
            black_box(sum);
            Ok(started.elapsed())
        };
        let Some(mut socket) = self.connect()? else { return Ok(Vec::new()) };
        socket.set_nonblocking(true).map_err(text)?;
        if self.world.rank() == 1 {
            // Until something comes.
            let mut byte = [0];
            while matches!(socket.read(&mut byte), Err(error) if error.kind() == ErrorKind::WouldBlock) {
                work(1_000)?;
            }
            return Ok(Vec::new());
        }
        let seconds = self.sampler.sample(&request.metric, request.reps, work);
        socket.write_all(&[0]).map_err(text)?;
        Ok(seconds?.into_iter().map(|s| s * 1e9).collect())
    }

    /// Requests of 24 bytes from rank 0 to rank 1, 64 in a write, and one answer for those.
    fn sixty_four(&mut self, request: &Request) -> Measured {
        const TOGETHER: usize = 64;
        const UNDERWAY: u64 = 4;
        let Some(mut socket) = self.connect()? else { return Ok(Vec::new()) };
        socket.set_nonblocking(false).map_err(text)?;
        let mut buffer = [1u8; 24 * TOGETHER];
        if self.world.rank() == 1 {
            loop {
                let count = receive(&mut socket)?;
                if count == END {
                    return Ok(Vec::new());
                }
                for i in 0..count {
                    socket.read_exact(&mut buffer).map_err(text)?;
                    send(&mut socket, i)?;
                }
            }
        }
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let started = Instant::now();
            let writes = n.div_ceil(TOGETHER as u64);
            send(&mut socket, writes)?;
            for i in 0..writes + UNDERWAY {
                if i < writes {
                    socket.write_all(black_box(&buffer)).map_err(text)?;
                }
                if (UNDERWAY..writes + UNDERWAY).contains(&i) {
                    receive(&mut socket)?;
                }
            }
            Ok(started.elapsed() * n as u32 / (writes as u32 * TOGETHER as u32).max(1))
        });
        send(&mut socket, END)?;
        Ok(seconds?.into_iter().map(|s| s * 1e9).collect())
    }

    /// A copy between two shared mappings.
    fn memcpy(&mut self, bytes: &str, request: &Request) -> Measured {
        let bytes: usize = bytes.parse().map_err(text)?;
        if self.world.rank() != 0 {
            return Ok(Vec::new());
        }
        let words = bytes.div_ceil(8);
        if self.buffers.as_ref().is_none_or(|(to, _)| to.words().len() != words) {
            self.buffers = None;
            let (to, from) = (SharedWords::new(words).map_err(text)?, SharedWords::new(words).map_err(text)?);
            from.words().iter().for_each(|word| word.store(1, Ordering::Relaxed));
            self.buffers = Some((to, from));
        }
        let Some((to, from)) = self.buffers.as_mut() else { return Err("no buffers".into()) };
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let started = Instant::now();
            (0..n).for_each(|_| black_box(&mut *to).copy_from(black_box(from), black_box(bytes)));
            let time = started.elapsed();
            let last = to.words()[words - 1].load(Ordering::Relaxed);
            if last == 1 {
                Ok(time)
            } else {
                Err("memcpy did not copy".into())
            }
        })?;
        Ok(seconds.into_iter().map(|s| bytes as f64 / s / 1e6).collect())
    }

    /// Eight bytes there and back over loopback TCP.
    fn ping_pong(&mut self, request: &Request, spins: bool) -> Measured {
        let Some(mut socket) = self.connect()? else { return Ok(Vec::new()) };
        socket.set_nonblocking(spins).map_err(text)?;
        if self.world.rank() == 1 {
            loop {
                let value = receive(&mut socket)?;
                send(&mut socket, value)?;
                if value == END {
                    return Ok(Vec::new());
                }
            }
        }
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let started = Instant::now();
            for i in 0..n {
                send(&mut socket, i)?;
                if receive(&mut socket)? != i {
                    return Err("the echo is wrong".into());
                }
            }
            Ok(started.elapsed())
        });
        send(&mut socket, END)?;
        receive(&mut socket)?;
        Ok(seconds?.into_iter().map(|s| s * 1e9).collect())
    }

    /// Messages from rank 0 to rank 1: one answer at the end, or one for each (`acked`).
    fn stream(&mut self, bytes: &str, request: &Request, acked: bool) -> Measured {
        let bytes: usize = bytes.parse().map_err(text)?;
        let Some(mut socket) = self.connect()? else { return Ok(Vec::new()) };
        socket.set_nonblocking(false).map_err(text)?;
        let mut buffer = vec![1u8; bytes];
        if self.world.rank() == 1 {
            loop {
                let count = receive(&mut socket)?;
                if count == END {
                    return Ok(Vec::new());
                }
                for i in 0..count {
                    socket.read_exact(&mut buffer).map_err(text)?;
                    if acked || i + 1 == count {
                        send(&mut socket, i)?;
                    }
                }
            }
        }
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let started = Instant::now();
            send(&mut socket, n)?;
            for i in 0..n {
                socket.write_all(&buffer).map_err(text)?;
                if acked || i + 1 == n {
                    receive(&mut socket)?;
                }
            }
            Ok(started.elapsed())
        });
        send(&mut socket, END)?;
        Ok(seconds?.into_iter().map(|s| bytes as f64 / s / 1e6).collect())
    }

    /// A stream of messages from rank 0 to rank 1 that promises that no damage goes unseen: each piece is summed up before it is
    /// sent, and again before it goes to its place. So many of them may be under way.
    fn summed(&mut self, bytes: &str, flying: u64, request: &Request) -> Measured {
        let bytes: usize = bytes.parse().map_err(text)?;
        let Some(mut socket) = self.connect()? else { return Ok(Vec::new()) };
        socket.set_nonblocking(false).map_err(text)?;
        let mut memory = vec![1u8; bytes * places(bytes as u64, flying)];
        if self.world.rank() == 1 {
            let mut piece = vec![0u8; SUM_BYTES + PIECE_BYTES];
            loop {
                let count = receive(&mut socket)?;
                if count == END {
                    return Ok(Vec::new());
                }
                let places = memory.len() / bytes;
                for message in 0..count as usize {
                    let at = message % places * bytes;
                    for place in memory[at..at + bytes].chunks_mut(PIECE_BYTES) {
                        let whole = &mut piece[..SUM_BYTES + place.len()];
                        socket.read_exact(whole).map_err(text)?;
                        let (sum, data) = whole.split_at(SUM_BYTES);
                        if sum != checksum(data).to_ne_bytes() {
                            return Err("the sum is wrong".into());
                        }
                        place.copy_from_slice(data);
                    }
                }
                send(&mut socket, 0)?;
            }
        }
        let seconds = self.sampler.sample(&request.metric, request.reps, |n| {
            let started = Instant::now();
            send(&mut socket, n)?;
            for message in black_box(&memory).chunks(bytes).cycle().take(n as usize) {
                for place in message.chunks(PIECE_BYTES) {
                    socket.write_all(&checksum(place).to_ne_bytes()).map_err(text)?;
                    socket.write_all(place).map_err(text)?;
                }
            }
            receive(&mut socket)?;
            Ok(started.elapsed())
        });
        send(&mut socket, END)?;
        Ok(seconds?.into_iter().map(|s| bytes as f64 / s / 1e6).collect())
    }

    /// The socket between ranks 0 and 1; `None` on other ranks. Every rank calls it.
    fn connect(&mut self) -> Done<Option<TcpStream>> {
        let world = self.world;
        if self.socket.is_none() {
            let word = world.starter::<u64>(1).map_err(text)?.add(PORT_WORD as usize);
            let listener = if world.rank() == 0 {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
                world.put(word, listener.local_addr().map_err(text)?.port() as u64).map_err(text)?;
                Some(listener)
            } else {
                None
            };
            world.sync().map_err(text)?;
            let socket = match (listener, world.rank()) {
                (Some(listener), _) => listener.accept().map_err(text)?.0,
                (None, 1) => {
                    let port = world.get(word).map_err(text)? as u16;
                    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(text)?
                }
                (None, _) => return Ok(None),
            };
            socket.set_nodelay(true).map_err(text)?;
            // As good as a bare socket can be: some machines pace every connection unless told otherwise.
            avoid_pacing(socket.as_fd());
            self.socket = Some(socket);
        }
        self.socket.as_ref().map(|socket| socket.try_clone().map_err(text)).transpose()
    }
}

fn send(socket: &mut TcpStream, value: u64) -> Done<()> {
    socket.write_all(&value.to_ne_bytes()).map_err(text)
}

/// Reads eight bytes; a socket that does not block is asked again at once.
fn receive(socket: &mut TcpStream) -> Done<u64> {
    let mut bytes = [0; 8];
    let mut got = 0;
    while got < bytes.len() {
        match socket.read(&mut bytes[got..]) {
            Ok(0) => return Err("the socket has ended".into()),
            Ok(count) => got += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(text(error)),
        }
    }
    Ok(u64::from_ne_bytes(bytes))
}
