//! Clients of a Redis server on loopback, one for each rank: one request at a time, and pipelined.

use super::super::worker::{Measured, Request, Sampler, FIRST_WORD};
use super::super::workshop::{self, Workshop};
use super::ours::together;
use super::{key, BATCH, KEYS, VALUE_BYTES};
use kumiki::World;
use kumiki_run::report;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const SERVER: &str = "redis-server";
/// How long the server may take to start, and to answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Where rank 0 tells the port of the server, and its password.
const PORT_WORD: u64 = FIRST_WORD + 5;
const PASSWORD_WORD: u64 = FIRST_WORD + 32;

/// The password of the server. Without one, every user of this machine could have it write files of ours.
type Password = [u64; 4];

fn text_of(password: &Password) -> String {
    password.iter().map(|word| format!("{word:016x}")).collect()
}

/// Whether there is a server to compare with.
pub(super) fn is_installed() -> bool {
    workshop::tool(SERVER).is_ok()
}

/// A client, and on rank 0 the server.
pub(in crate::bench) struct Redis<'a> {
    world: &'a World,
    sampler: Sampler,
    server: Option<Child>,
    client: Option<Client>,
}

impl Drop for Redis<'_> {
    fn drop(&mut self) {
        self.client = None;
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl<'a> Redis<'a> {
    pub(in crate::bench) fn new(world: &'a World) -> Redis<'a> {
        Redis { world, sampler: Sampler::default(), server: None, client: None }
    }

    /// Every rank calls it; the answer of rank 0 counts. The first value is the unit.
    pub(in crate::bench) fn measure(&mut self, request: &Request) -> (&'static str, Measured) {
        let measured = self.connect().and_then(|()| self.ask(request));
        let met = self.world.sync().map_err(|error| error.to_string());
        ("ns", met.and(measured))
    }

    /// Starts the server and connects to it, unless that has been done. Every rank calls it.
    fn connect(&mut self) -> Result<(), String> {
        if self.client.is_some() {
            return Ok(());
        }
        let text = |error: kumiki::Error| error.to_string();
        let starter = self.world.starter::<u64>(0).map_err(text)?;
        let (place, secret) = (starter.add(PORT_WORD as usize), starter.add(PASSWORD_WORD as usize));
        let mut password = Password::default();
        if self.world.rank() == 0 {
            password = random_password()?;
            let port = self.start(&password).unwrap_or_else(|why| {
                report(&format!("{SERVER} cannot be started: {why}"));
                0
            });
            self.world.put_slice(secret, &password).map_err(text)?;
            self.world.put(place, u64::from(port)).map_err(text)?;
        }
        self.world.sync().map_err(text)?;
        let port = self.world.get(place).map_err(text)? as u16;
        if port == 0 {
            return Err(format!("{SERVER} could not be started"));
        }
        self.world.get_slice(secret, &mut password).map_err(text)?;
        let mut client = Client::connect(port, &password)?;
        if self.world.rank() == 0 {
            let indices: Vec<u64> = (0..KEYS).collect();
            indices.chunks(BATCH as usize).try_for_each(|chunk| client.set(chunk))?;
        }
        self.client = Some(client);
        self.world.sync().map_err(text)
    }

    fn start(&mut self, password: &Password) -> Result<u16, String> {
        let wrong = |error: std::io::Error| error.to_string();
        // A port that was free a moment ago: the server cannot be given a socket.
        let port = kumiki_run::free_port().map_err(|error| error.to_string())?;
        let folder = Workshop::open()?.scratch()?;
        let mut command = workshop::tool(SERVER)?;
        // It would load a file of the folder that it runs in; and arguments can be read by everybody.
        command.arg("-").current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = self.server.insert(command.spawn().map_err(wrong)?);
        let settings = format!(
            "bind 127.0.0.1\nport {port}\nsave \"\"\nappendonly no\nrequirepass {}\n",
            text_of(password)
        );
        // It begins when its input ends.
        let mut input = server.stdin.take().ok_or("it has no input")?;
        input.write_all(settings.as_bytes()).map_err(wrong)?;
        drop(input);
        Ok(port)
    }

    fn ask(&mut self, request: &Request) -> Measured {
        let Some(client) = &mut self.client else { return Err("there is no client".into()) };
        let (writes, batch) = match request.metric.as_str() {
            "redis.get" => (false, 1),
            "redis.set" => (true, 1),
            "redis.get_many" => (false, BATCH),
            "redis.set_many" => (true, BATCH),
            other => return Err(format!("{other} is not a metric known here")),
        };
        let mut next = 0;
        together(self.world, &mut self.sampler, request, |count| {
            let began = Instant::now();
            let mut left = count;
            while left > 0 {
                let now = left.min(batch);
                let indices: Vec<u64> = (next..next + now).collect();
                if writes {
                    client.set(&indices)?;
                } else {
                    client.get(&indices)?;
                }
                (left, next) = (left - now, next + now);
            }
            Ok(began.elapsed())
        })
    }
}

fn random_password() -> Result<Password, String> {
    let mut bytes = [[0; 8]; 4];
    for bytes in &mut bytes {
        kumiki_run::system::random_bytes(bytes).map_err(|error| error.to_string())?;
    }
    Ok(bytes.map(u64::from_ne_bytes))
}

/// A connection, and room for what goes over it.
struct Client {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
    line: String,
    out: Vec<u8>,
}

impl Client {
    fn connect(port: u16, password: &Password) -> Result<Client, String> {
        let until = Instant::now() + LIMIT;
        let stream = loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > until => {
                    return Err(format!("{SERVER} does not answer: {error}"))
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let wrong = |error: std::io::Error| error.to_string();
        stream.set_nodelay(true).map_err(wrong)?;
        stream.set_read_timeout(Some(LIMIT)).map_err(wrong)?;
        let answers = BufReader::with_capacity(256 << 10, stream.try_clone().map_err(wrong)?);
        let mut client = Client { stream, answers, line: String::new(), out: Vec::new() };
        client.out.extend_from_slice(b"*2\r\n$4\r\nAUTH\r\n");
        client.string(text_of(password).as_bytes());
        client.flush()?;
        client.agreed()?;
        Ok(client)
    }

    /// Reads an answer that must be `OK`.
    fn agreed(&mut self) -> Result<(), String> {
        match self.line()? {
            "+OK" => Ok(()),
            answer => Err(format!("{SERVER} answered {answer}")),
        }
    }

    /// Sends the requests that were gathered.
    fn flush(&mut self) -> Result<(), String> {
        self.stream.write_all(&self.out).map_err(|error| error.to_string())?;
        self.out.clear();
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    fn line(&mut self) -> Result<&str, String> {
        self.line.clear();
        self.answers.read_line(&mut self.line).map_err(|error| error.to_string())?;
        Ok(self.line.trim_end())
    }

    fn get(&mut self, indices: &[u64]) -> Result<(), String> {
        for &index in indices {
            self.out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
            self.string(&key(index));
        }
        self.flush()?;
        let mut value = [0u8; VALUE_BYTES + 2];
        for _ in indices {
            let head = self.line()?;
            if head != format!("${VALUE_BYTES}") {
                return Err(format!("{SERVER} answered {head}"));
            }
            self.answers.read_exact(&mut value).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn set(&mut self, indices: &[u64]) -> Result<(), String> {
        for &index in indices {
            self.out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
            self.string(&key(index));
            self.string(&[index as u8; VALUE_BYTES]);
        }
        self.flush()?;
        indices.iter().try_for_each(|_| self.agreed())
    }
}
