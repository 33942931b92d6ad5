//! A relay and those who use it, on this machine.

use super::gate::{key, Gate};
use super::relay::{Counts, Relay, Settings};
use crate::os::descriptor::Event;
use crate::os::time;
use crate::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const SECRET: &[u8] = b"a secret of all blocks";
const LOOPBACK: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::LOCALHOST), 32);

/// A relay that runs in a thread, until it is dropped.
struct Running {
    address: SocketAddr,
    stop: Arc<Event>,
    said: Arc<Mutex<String>>,
    thread: Option<JoinHandle<Counts>>,
}

fn settings() -> Settings {
    Settings {
        listen: vec!["127.0.0.1:0".into()],
        key: key(SECRET),
        allowed: vec![LOOPBACK],
        connections: 3,
        idle: None,
        is_verbose: true,
    }
}

impl Running {
    fn start(settings: Settings) -> Running {
        let (stop, said) = (Arc::new(Event::new().unwrap()), Arc::new(Mutex::new(String::new())));
        let (tell, told) = std::sync::mpsc::channel();
        let (stopped, heard) = (stop.clone(), said.clone());
        let thread = std::thread::spawn(move || {
            let mut say = |text: &str| heard.lock().unwrap().push_str(&format!("{text}\n"));
            let relay = Relay::new(settings, &mut say).unwrap();
            tell.send(relay.addresses().unwrap()[0]).unwrap();
            relay.run(stopped.as_fd()).unwrap()
        });
        Running { address: told.recv().unwrap(), stop, said, thread: Some(thread) }
    }

    fn gate(&self, secret: &[u8]) -> Arc<Gate> {
        Arc::new(Gate::new(&self.address.to_string(), key(secret)).unwrap())
    }

    fn end(mut self) -> (Counts, String) {
        self.stop.raise();
        let counts = self.thread.take().unwrap().join().unwrap();
        let said = self.said.lock().unwrap().clone();
        (counts, said)
    }
}

/// Somebody who sends back what comes until it has ended, and then ends.
fn echo() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = stream.try_clone().unwrap();
        let _ = std::io::copy(&mut reader, &mut stream);
        let _ = stream.shutdown(Shutdown::Write);
    });
    (address, thread)
}

#[test]
fn bytes_go_both_ways_and_an_end_of_one_side_is_not_the_end_of_the_other() {
    let relay = Running::start(settings());
    let (address, thread) = echo();
    let mut stream = TcpStream::from(relay.gate(SECRET).connect(&address).unwrap());
    let mut writer = stream.try_clone().unwrap();
    let bytes: Vec<u8> = (0..8 << 20).map(|at: u32| (at ^ at >> 8) as u8).collect();
    let sent = bytes.clone();
    let sending = std::thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == bytes, "{} bytes came back", back.len());
    sending.join().unwrap();
    thread.join().unwrap();
    let (counts, said) = relay.end();
    assert_eq!((counts.made, counts.refused, counts.failed), (1, 0, 0), "{said}");
    assert!(said.contains("begins (1 open)") && said.contains("has ended (0 open)"), "{said}");
}

#[test]
fn who_does_not_know_the_secret_reaches_nobody() {
    let relay = Running::start(settings());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let refused = relay.gate(b"a secret of somebody else").connect(&address).unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("does not take us"), "{refused}");
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 700], b"KMKI\x07\x00\x01\x00"] {
        let mut stranger = TcpStream::connect(relay.address).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stranger.write_all(garbage).unwrap();
        let _ = stranger.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        // It may be told why; then it is over.
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.len() < 100, "{answer:?}");
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody was called");
    let (counts, said) = relay.end();
    assert!(counts.made == 0 && counts.refused >= 3 && said.contains("relay: refused 127.0.0.1"), "{said}");
}

#[test]
fn strangers_who_say_nothing_do_not_keep_others_out() {
    let relay = Running::start(settings());
    let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(relay.address).unwrap()).collect();
    let (address, thread) = echo();
    let stream = relay.gate(SECRET).connect(&address).unwrap();
    drop((stream, silent));
    thread.join().unwrap();
    assert!(relay.end().1.contains("others wait"));
}

#[test]
fn a_call_that_comes_to_nothing_is_told_with_its_reason() {
    let relay = Running::start(settings());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = relay.gate(SECRET).connect(&nobody).unwrap_err().to_string();
    let at = relay.address;
    assert_eq!(error, format!("closed: relay {at}: connection to {nobody} refused"));
    let error = relay.gate(SECRET).connect(&"192.0.2.1:9".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("it may not call 192.0.2.1:9"), "{error}");
    // As many as there may be, and one more.
    let kept: Vec<_> = (0..3)
        .map(|_| {
            let (address, _) = echo();
            relay.gate(SECRET).connect(&address).unwrap()
        })
        .collect();
    let error = relay.gate(SECRET).connect(&echo().0).unwrap_err().to_string();
    assert!(error.contains("no room"), "{error}");
    drop(kept);
    assert_eq!(relay.end().0.made, 3);
    let error = Gate::new(&at.to_string(), key(SECRET)).map(Arc::new).unwrap().connect(&nobody).unwrap_err();
    assert!(error.to_string().contains(&format!("relay {at}: ")), "{error}");
}

#[test]
fn calls_that_nobody_had_answered_yet_did_not_count() {
    let relay = Running::start(settings());
    // Somebody who takes nobody in.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = deaf.local_addr().unwrap();
    crate::os::socket::set_backlog(deaf.as_fd(), 0).unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&nowhere, Duration::from_millis(200)) {
        queue.push(stream);
    }
    // …and nobody at all, so that no call comes to a connection.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::thread::scope(|scope| {
        // Each as soon as there is room: the caller below may be in the way for a moment.
        let call = || loop {
            match relay.gate(SECRET).connect(&nowhere) {
                Err(error) if error.to_string().contains("no room") => {}
                _ => return,
            }
        };
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(call)).collect();
        let mut told = String::new();
        while !told.contains("no room") && !calls.iter().all(|call| call.is_finished()) {
            told = relay.gate(SECRET).connect(&nobody).unwrap_err().to_string();
        }
        assert!(told.contains("no room"), "three calls are under way, and that is all there may be: {told}");
    });
}

#[test]
fn it_calls_nobody_on_its_own_machine_who_is_not_named() {
    // A network that holds it is not its name.
    for allowed in [Vec::new(), vec![(LOOPBACK.0, 8)], vec![(LOOPBACK.0, 0)]] {
        let relay = Running::start(Settings { allowed, ..settings() });
        let error = relay.gate(SECRET).connect(&echo().0).unwrap_err().to_string();
        assert!(error.contains("it may not call 127.0.0.1"), "{error}");
    }
}

#[test]
fn a_connection_over_which_nothing_goes_is_closed_if_that_is_wanted() {
    let relay = Running::start(Settings { idle: Some(Duration::from_millis(100)), ..settings() });
    let (address, thread) = echo();
    let mut stream = TcpStream::from(relay.gate(SECRET).connect(&address).unwrap());
    let begun_ms = time::now_ms();
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    assert!(time::now_ms() - begun_ms < 20_000);
    thread.join().unwrap();
    assert!(relay.end().1.contains("nothing went over it"));
}
