//! What the ranks of these tests do: this very test program, started as a rank with an action to carry out.

use kumiki_net::agent::bootstrap;
use kumiki_net::agent::channel::{FromAgent, ToAgent};
use kumiki_net::shm::world::Cause;
use kumiki_net::Rank;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The variable that names the action; without it this is not a rank.
pub(crate) const ACTION: &str = "E2E_ACTION";

/// How long a rank waits for the others before it says that they did not come.
const PATIENCE: Duration = Duration::from_secs(150);

/// The body of a rank. In a normal test run it does nothing.
#[test]
fn rank_body() {
    let Ok(action) = std::env::var(ACTION) else { return };
    let rank: u32 = std::env::var("KUMIKI_RANK").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    for step in action.split(' ') {
        // `1:exit=3` is for rank 1 only.
        let step = match step.split_once(':') {
            Some((who, step)) if who.parse() == Ok(rank) => step,
            Some(_) => continue,
            None => step,
        };
        carry_out(step);
    }
    std::process::exit(0);
}

fn carry_out(step: &str) {
    use std::sync::Mutex;
    static ATTACHED: Mutex<Option<bootstrap::Attachment>> = Mutex::new(None);
    let (verb, value) = step.split_once('=').unwrap_or((step, ""));
    let number = || value.parse::<i32>().unwrap();
    let mut attached = ATTACHED.lock().unwrap();
    match verb {
        "attach" => match bootstrap::attach(None, bootstrap::STARTER_BYTES) {
            Ok(attachment) => {
                let ranks = attachment.arena.config().ranks;
                say(&format!("attached {} of {ranks}", attachment.rank));
                *attached = Some(attachment);
            }
            Err(error) => {
                say(&format!("attach failed: {error}"));
                std::process::exit(9);
            }
        },
        "leave" => attached.take().unwrap().leave().unwrap(),
        "cycles" => {
            for cycle in 0..number() {
                if let Err(error) = bootstrap::attach(None, bootstrap::STARTER_BYTES)
                    .and_then(|mut attachment| attachment.leave())
                {
                    say(&format!("cycle {cycle} failed: {error}"));
                    std::process::exit(9);
                }
            }
        }
        "end" => {
            let message = ToAgent::Abort { code: 1, message: value.into() };
            attached.as_ref().unwrap().channel.as_ref().unwrap().send(&message).unwrap();
        }
        "blame" => {
            let message = ToAgent::ReportLost { rank: Rank(number() as u32), cause: Cause::DISCONNECTED };
            attached.as_ref().unwrap().channel.as_ref().unwrap().send(&message).unwrap();
        }
        "reset" => reset(attached.as_ref().unwrap(), number() as u32),
        "lost" => {
            let attachment = attached.as_ref().unwrap();
            let shared = attachment.arena.shared();
            let began = Instant::now();
            while shared.first_lost().is_none() {
                assert!(began.elapsed() < PATIENCE, "nobody was lost");
                // Where no launcher is, the agent is in one of the ranks, and may be what was lost.
                if attachment.channel.as_ref().unwrap().try_receive().is_err() {
                    say("lost the agent");
                    std::process::exit(0);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            say(&format!("lost {}", shared.first_lost().unwrap()));
        }
        "meet" => meet(std::path::Path::new(value), attached.as_ref().unwrap()),
        "until" => {
            let began = Instant::now();
            while !std::path::Path::new(value).exists() {
                assert!(began.elapsed() < PATIENCE, "nobody has made {value}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        "pester" => pester(attached.as_ref().unwrap().arena.node(0).unwrap().load().unwrap()),
        "exit" => std::process::exit(number()),
        "abort" => std::process::abort(),
        "sleep_ms" => std::thread::sleep(Duration::from_millis(number() as u64)),
        "say" => say(value),
        other => panic!("unknown step {other}"),
    }
}

/// Waits until every rank has come this far: each leaves a file in the folder.
fn meet(folder: &std::path::Path, attachment: &bootstrap::Attachment) {
    std::fs::write(folder.join(attachment.rank.0.to_string()), "").unwrap();
    let ranks = attachment.arena.config().ranks;
    let began = Instant::now();
    while let Some(absent) = (0..ranks).find(|rank| !folder.join(rank.to_string()).exists()) {
        assert!(began.elapsed() < PATIENCE, "rank {absent} never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn reset(attachment: &bootstrap::Attachment, new_rank: u32) {
    let channel = attachment.channel.as_ref().unwrap();
    channel.send(&ToAgent::Reset { new_rank }).unwrap();
    loop {
        match channel.receive(u64::MAX).unwrap().unwrap() {
            FromAgent::ResetDone { rank } => return say(&format!("reset to {rank}")),
            FromAgent::ResetRefused { why } => return say(&format!("reset refused: {why}")),
            _ => {}
        }
    }
}

/// Everything that a port scanner, a browser or a bored student might do to the node's port.
fn pester(address: SocketAddr) {
    (0..1000).for_each(|_| drop(TcpStream::connect(address)));
    let silent: Vec<TcpStream> = (0..200).filter_map(|_| TcpStream::connect(address).ok()).collect();
    let long = vec![b'x'; 100_000];
    for bytes in [&b"GET / HTTP/1.1\r\nHost: kumiki\r\n\r\n"[..], b"\x16\x03\x01", b"KMKI", &[0; 76], &long] {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(bytes);
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer);
        let timed_out = end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!timed_out, "the port does not close what it refuses");
        assert!(answer.len() <= 8, "the port tells strangers too much");
    }
    drop(silent);
    say("pestered");
}

/// One line, whole, whatever the test harness does with `println!`.
pub(crate) fn say(text: &str) {
    std::io::stdout().write_all(format!("{text}\n").as_bytes()).unwrap();
}
