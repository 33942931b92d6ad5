//! Blocks on machines that have no direct connection: each is a network namespace, and what joins them is a relay.

use crate::job::kumiki;
use crate::join::{ended, process, Way};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// A machine: a network namespace, which lasts for as long as a process that waits for the end of its input.
struct Machine {
    keeper: Child,
    _input: ChildStdin,
}

impl Machine {
    /// `None` where nobody may make namespaces.
    fn new() -> Option<Machine> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward; echo there; exec cat"]);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut keeper = started.ok()?;
        let (input, output) = (keeper.stdin.take()?, keeper.stdout.take()?);
        let mut line = String::new();
        let there = BufReader::new(output).read_line(&mut line).is_ok() && line == "there\n";
        let machine = Machine { keeper, _input: input };
        let up = there && machine.does(&["ip", "link", "set", "lo", "up"]);
        if !up {
            println!("skipped: no network namespaces can be made here");
        }
        up.then_some(machine)
    }

    /// A cable to another machine, and the addresses of its ends.
    fn plug(&self, name: &str, address: &str, other: &Machine, other_address: &str) -> bool {
        let pid = other.keeper.id().to_string();
        self.does(&["ip", "link", "add", "name", name, "type", "veth", "peer", "name", name, "netns", &pid])
            && self.does(&["ip", "address", "add", address, "dev", name])
            && self.does(&["ip", "link", "set", name, "up"])
            && other.does(&["ip", "address", "add", other_address, "dev", name])
            && other.does(&["ip", "link", "set", name, "up"])
    }

    fn does(&self, words: &[&str]) -> bool {
        let mut command = self.command(words[0]);
        command.args(&words[1..]).status().is_ok_and(|status| status.success())
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.keeper.id().to_string()).args(["--net", "--"]).arg(program);
        command
    }

    /// The same command, on this machine.
    fn runs(&self, command: &Command) -> Command {
        let mut here = self.command(command.get_program());
        here.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => here.env(name, value),
                None => here.env_remove(name),
            };
        }
        here.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        here
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

const SECRET: &str = "a secret of all blocks";
const MASTER: &str = "10.77.1.2:7100";

/// Two machines that have no way to each other, and one between them that forwards nothing.
struct Valley {
    left: Machine,
    right: Machine,
    gateway: Machine,
}

impl Valley {
    fn new() -> Option<Valley> {
        let (left, gateway, right) = (Machine::new()?, Machine::new()?, Machine::new()?);
        let plugged = left.plug("left0", "10.77.1.2/24", &gateway, "10.77.1.1/24")
            && right.plug("right0", "10.77.2.2/24", &gateway, "10.77.2.1/24")
            // The way is known, and leads nowhere: who calls hears nothing.
            && left.does(&["ip", "route", "add", "default", "via", "10.77.1.1"])
            && right.does(&["ip", "route", "add", "default", "via", "10.77.2.1"]);
        if !plugged {
            println!("skipped: no cables can be laid here");
        }
        plugged.then_some(Valley { left, right, gateway })
    }

    fn relay(&self, secret: &str) -> Relay {
        let mut command = Command::new(kumiki());
        command.args(["relay", "--listen", "10.77.1.1:7200", "--listen", "10.77.2.1:7200", "--verbose"]);
        let mut child = self.gateway.runs(command.env("WAITIO_SECRET", secret)).spawn().expect("a relay");
        let mut errors = BufReader::new(child.stderr.take().expect("its errors"));
        let mut line = String::new();
        while !line.contains("listening at 10.77.2.1:7200") {
            line.clear();
            assert!(errors.read_line(&mut line).expect("a line") > 0, "no relay");
        }
        Relay { child, errors }
    }

    /// A process of one of two blocks: one on the left, one on the right.
    fn block(&self, role: &str, block: usize, rank: (u32, u32)) -> Command {
        let machine = if block == 0 { &self.left } else { &self.right };
        let mut command = process(role, Way::Secret, MASTER.parse().expect("an address"), (block, 2), rank);
        command.env("WAITIO_RELAY", if block == 0 { "10.77.1.1:7200" } else { "10.77.2.1:7200" });
        machine.runs(&command)
    }
}

struct Relay {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Relay {
    fn signal(&mut self, signal: i32) -> (Option<i32>, String) {
        kumiki_run::system::signal(self.child.id() as i32, signal).expect("it runs");
        let mut text = String::new();
        self.errors.read_to_string(&mut text).expect("its errors");
        (self.child.wait().expect("its end").code(), text)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn blocks_that_only_a_relay_joins_exchange_messages_of_all_sizes() {
    let Some(valley) = Valley::new() else { return };
    let mut relay = valley.relay(SECRET);
    for hosting in ["auto", "thread"] {
        let start = |(block, rank)| {
            let ranks = if block == 0 { 1 } else { 2 };
            let mut command = valley.block("sizes", block, (rank, ranks));
            command.env("KUMIKI_HOSTING", hosting).spawn().expect("a process")
        };
        let children: Vec<Child> = [(0, 0), (1, 0), (1, 1)].into_iter().map(start).collect();
        for child in children {
            let (code, text) = ended(child);
            assert!(code == Some(0) && text.contains("all came, 6"), "{hosting}: {text}");
        }
    }
    let (code, text) = relay.signal(libc::SIGTERM);
    assert!(code == Some(0) && text.contains("relay: ends"), "{code:?} {text}");
}

#[test]
fn a_relay_that_is_killed_is_an_error_that_names_the_peer() {
    let Some(valley) = Valley::new() else { return };
    let mut relay = valley.relay(SECRET);
    let start = |block| valley.block("steady", block, (0, 1)).spawn().expect("a process");
    let mut children: Vec<Child> = (0..2).map(start).collect();
    let mut outputs = Vec::new();
    for child in &mut children {
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        while !line.contains("talks") {
            line.clear();
            assert!(output.read_line(&mut line).expect("a line") > 0, "it ended");
        }
        outputs.push(output);
    }
    let killed = Instant::now();
    relay.signal(libc::SIGKILL);
    for (block, (mut child, mut output)) in children.into_iter().zip(outputs).enumerate() {
        let mut text = String::new();
        output.read_to_string(&mut text).expect("its output");
        child.wait().expect("its end");
        let lost = format!("then: rank 0 of block {} is lost", 1 - block);
        assert!(text.contains(&lost), "block {block}: {text}");
    }
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
}

#[test]
fn a_relay_serves_only_those_who_know_its_secret() {
    let Some(valley) = Valley::new() else { return };
    let mut relay = valley.relay("a secret of somebody else");
    let mut command = valley.block("sizes", 1, (0, 1));
    let (code, text) = ended(command.env("WAITIO_TIMEOUT", "1s").spawn().expect("a process"));
    assert!(code == Some(9) && text.contains("relay 10.77.2.1:7200 does not take us"), "{code:?} {text}");
    // What is no caller at all is heard no further, and the relay goes on.
    let garbage = "exec 3<>/dev/tcp/10.77.2.1/7200; printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3 | wc -c";
    let mut shell = Command::new("bash");
    let (_, text) = ended(valley.right.runs(shell.args(["-c", garbage])).spawn().expect("a shell"));
    assert_eq!(text.trim(), "0");
    let (code, text) = relay.signal(libc::SIGTERM);
    assert!(
        code == Some(0) && text.contains("0 connections made") && text.contains("refused 10.77.2.2"),
        "{text}"
    );
    // Without a relay there is no way.
    let mut command = valley.block("sizes", 1, (0, 1));
    let (code, text) = ended(command.env("WAITIO_TIMEOUT", "1s").spawn().expect("a process"));
    assert!(code == Some(9) && text.contains("relay 10.77.2.1:7200: "), "{code:?} {text}");
}

#[test]
fn a_relay_says_what_it_lacks() {
    let run = |words: &[&str], secret: &str| {
        let mut command = Command::new(kumiki());
        command.arg("relay").args(words).env("WAITIO_SECRET", secret).env_remove("WAITIO_SECRET_FILE");
        ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kumiki"))
    };
    for (words, secret, said) in [
        (&[][..], SECRET, "--listen HOST:PORT"),
        (&["--listen", "127.0.0.1:0"], "", "needs the secret"),
        (&["--listen", "127.0.0.1:0"], "short", "can be guessed"),
        (&["--listen", "0.0.0.0:7200"], SECRET, "no address of its own"),
        (&["--listen", "192.0.2.1:7200"], SECRET, "cannot listen at 192.0.2.1:7200"),
        (&["--allow", "ten"], SECRET, "a network such as"),
    ] {
        let (code, text) = run(words, secret);
        assert!(code == Some(2) && text.contains(said), "{words:?}: {code:?} {text}");
    }
}
