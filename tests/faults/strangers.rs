//! What comes in through the port: bytes of strangers, and of a rank that does not keep to the rules.

use crate::job::{Job, Setup};
use crate::litter;
use crate::runner::{note, tests};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

tests![
    strangers_do_not_disturb_a_job,
    who_hangs_up_without_a_word_is_not_reported,
    a_rank_that_breaks_the_rules_is_refused,
    jobs_of_the_same_second_do_not_mix,
];

/// The port of an agent, found by the inodes of its descriptors.
fn port_of(agent: i32) -> SocketAddr {
    let links = std::fs::read_dir(format!("/proc/{agent}/fd")).unwrap().flatten();
    let targets: Vec<String> = links
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .collect();
    let own = |inode: u64| targets.contains(&format!("socket:[{inode}]"));
    let found = litter::listening().into_iter().find(|(_, inode)| own(*inode));
    let (address, _) = found.expect("the agent listens");
    let port = address.split(':').nth(1).and_then(|text| u16::from_str_radix(text, 16).ok()).unwrap();
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn strangers_do_not_disturb_a_job() {
    // One connection a rank, three nodes: the ranks connect again and again while the strangers are at the port.
    let mut job = Setup::new("steady").ranks(3).nodes(3).variable("KUMIKI_CONNECTIONS", "1").start();
    job.expect_all("ready", 3);
    let ports: Vec<SocketAddr> = job.agents().into_iter().map(port_of).collect();
    assert_eq!(ports.len(), 3);
    let target = ports[1];
    // At another port, where no crowd drives it away.
    let quiet = ports[0];
    let loris = std::thread::spawn(move || slow_loris(quiet));
    shout(target, b"GET / HTTP/1.1\r\nHost: kumiki\r\nUser-Agent: curl/8\r\n\r\n");
    shout(target, TLS_HELLO);
    shout(target, b"SSH-2.0-OpenSSH_9.2\r\n");
    shout(target, b"KUMIKI-AGENT-1\r\n");
    shout(target, &[0; 1]);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let garbage: Vec<u8> = (0..100_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    (1..50).for_each(|index| shout(target, &garbage[index..index * 1000]));
    many_connections(&job, target);
    let held = loris.join().unwrap();
    job.tell("stop");
    let ended = job.finish();
    ended.expect_code(0);
    let rounds: Vec<u64> = ended.said("rounds").iter().map(|word| word.parse().unwrap()).collect();
    assert!(rounds.len() == 3 && rounds.iter().all(|&rounds| rounds > 0), "{}", ended.show());
    // A line in ten seconds and node, not one for each of a thousand connections.
    let refused = ended.reports().iter().filter(|line| line.contains("refused a connection")).count();
    assert!((1..20).contains(&refused), "{}", ended.show());
    note(&format!("rounds meanwhile: {rounds:?}; a slow stranger was held for {} ms", held.as_millis()));
}

/// A rank that dies while it connects looks the same, and the death has its own report.
fn who_hangs_up_without_a_word_is_not_reported() {
    let mut job = Setup::new("steady").ranks(2).nodes(2).start();
    job.expect_all("ready", 2);
    for port in job.agents().into_iter().map(port_of) {
        (0..10).for_each(|_| drop(TcpStream::connect(port).unwrap()));
    }
    job.tell("stop");
    let ended = job.finish();
    ended.expect_code(0);
    assert!(ended.reports().is_empty(), "{}", ended.show());
}

/// A TLS 1.2 client hello, as far as a scanner sends it.
const TLS_HELLO: &[u8] = &[
    0x16, 3, 1, 0, 47, 1, 0, 0, 43, 3, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
    20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 0, 0, 4, 0x13, 1, 0x13, 2, 1, 0,
];

/// Says something and hears whatever comes back; the other side may hang up at any time.
fn shout(to: SocketAddr, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(to) else { return };
    let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
    let _ = stream.write_all(bytes);
    let _ = stream.read(&mut [0; 64]);
}

/// One byte a second. Gives how long it was listened to: at most the 5 s of the promise, for a busy machine four times.
fn slow_loris(to: SocketAddr) -> Duration {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let began = Instant::now();
    loop {
        let hung_up = stream.write_all(b"K").is_err() || matches!(stream.read(&mut [0; 64]), Ok(0));
        if hung_up {
            return began.elapsed();
        }
        assert!(began.elapsed() < Duration::from_secs(20), "a stranger that says nothing is not sent away");
    }
}

/// A thousand connections, of which as many as possible stay open.
fn many_connections(job: &Job, to: SocketAddr) {
    let mut open = std::collections::VecDeque::new();
    for _ in 0..1000 {
        if let Ok(stream) = TcpStream::connect(to) {
            open.push_back(stream);
        }
        if open.len() > 400 {
            open.pop_front();
        }
        job.watch("being connected to");
    }
}

fn a_rank_that_breaks_the_rules_is_refused() {
    let ended = Setup::new("hostile").ranks(2).nodes(2).finish();
    ended.expect_code(0);
    let frames = ended.said("frame");
    assert_eq!(frames.len(), 20, "{}", ended.show());
    for line in &frames {
        let refused = ["bounds", "misuse"].iter().any(|word| line.ends_with(word));
        assert!(refused, "{line}: {}", ended.show());
    }
    assert_eq!(ended.said("intact").len(), 2, "{}", ended.show());
    assert!(ended.said("honest").iter().all(|line| line.starts_with("served")), "{}", ended.show());
}

fn jobs_of_the_same_second_do_not_mix() {
    let start = |number: u32| {
        Setup::new("crosstalk").ranks(2).nodes(number % 2 + 1).variable("FAULTS_NUMBER", number).start()
    };
    let mut jobs: Vec<Job> = (1..=4).map(start).collect();
    let ended: Vec<_> = jobs.iter_mut().map(Job::end).collect();
    jobs.iter_mut().for_each(Job::check_litter);
    for ended in ended {
        ended.expect_code(0);
        assert_eq!(ended.said("clean").len(), 2, "{}", ended.show());
    }
}
