//! Blocks on machines that have no direct connection: each is a network namespace, and what joins them is a relay, or a folder.

use crate::job::kumiki;
use crate::join::{await_line, ended, process, Way};
use crate::strangers::Folder;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
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

impl Machine {
    /// Kills all that runs there, but for what keeps it.
    fn kill_all(&self) {
        let space = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let keeper = self.keeper.id().to_string();
        let own = space(&keeper).expect("a namespace");
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let pid = name.parse::<i32>().ok().filter(|_| name != keeper);
            if let Some(pid) = pid.filter(|_| space(&name).as_ref() == Some(&own)) {
                let _ = kumiki_run::system::signal(pid, libc::SIGKILL);
            }
        }
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

/// Starts the proxy that cuts everything after so many bytes, so many times, between the blocks and their relay.
fn cutting_proxy(valley: &Valley, every: u64, times: u32) -> (Child, BufReader<ChildStdout>) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/cutting_proxy.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(every.to_string()).arg(times.to_string());
    command.args(["10.77.1.1:7300:7200", "10.77.2.1:7300:7200"]);
    let mut proxy = valley.gateway.runs(&command).spawn().expect("python3");
    let mut said = BufReader::new(proxy.stdout.take().expect("its output"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, "listening\n");
    (proxy, said)
}

#[test]
fn a_link_that_is_cut_twenty_times_in_a_gibibyte_loses_nothing() {
    let Some(valley) = Valley::new() else { return };
    let _relay = valley.relay(SECRET);
    let (mut proxy, mut said) = cutting_proxy(&valley, 45 << 20, 20);
    let start = |block: usize| {
        let mut command = valley.block("gibibyte", block, (0, 1));
        command.env("WAITIO_RELAY", if block == 0 { "10.77.1.1:7300" } else { "10.77.2.1:7300" });
        command.spawn().expect("a process")
    };
    let children: Vec<Child> = (0..2).map(start).collect();
    for child in children {
        let (code, text) = ended(child);
        assert!(code == Some(0) && text.contains("64 parts, 2"), "{code:?} {text}");
    }
    proxy.kill().expect("it runs");
    proxy.wait().expect("its end");
    let mut cuts = String::new();
    said.read_to_string(&mut cuts).expect("its output");
    assert!(cuts.contains("cut 20\n"), "{cuts}");
}

#[test]
fn a_relay_that_is_killed_is_an_error_that_names_the_peer() {
    let Some(valley) = Valley::new() else { return };
    let mut relay = valley.relay(SECRET);
    let start = |block| {
        let mut command = valley.block("steady", block, (0, 1));
        // A relay that comes back in time is no loss.
        command.env("KUMIKI_PEER_TIMEOUT", "3s").spawn().expect("a process")
    };
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
        // Block 1 has lost the hub, too, and may hear of that first.
        let hub = "the process of rank 0, which holds the job together, or the relay 10.77.2.1:7200";
        assert!(text.contains(&lost) || block == 1 && text.contains(hub), "block {block}: {text}");
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

/// Two machines that have nothing in common but a folder.
struct Islands {
    machines: Vec<Machine>,
    folder: Folder,
}

impl Islands {
    fn new(name: &str) -> Option<Islands> {
        let machines = (0..2).map(|_| Machine::new()).collect::<Option<Vec<_>>>()?;
        Some(Islands { machines, folder: Folder::new(&format!("islands-{name}")) })
    }

    /// A process of one of two blocks; where the roll is called need not be said.
    fn block(&self, role: &str, block: usize, rank: (u32, u32)) -> Command {
        let nowhere = "192.0.2.1:7100".parse().expect("an address");
        let mut command = process(role, Way::Machine, nowhere, (block, 2), rank);
        command.env_remove("WAITIO_MASTER_HOST").env_remove("WAITIO_MASTER_PORT");
        command.env("WAITIO_COMM_TYPE", "file").env("WAITIO_SCRATCH_DIR", &self.folder.0);
        command.env("COUPLER_JOB_ID", "7.host").env("WAITIO_MAXFILE_SIZE_PER_PROC", "2M");
        self.machines[block].runs(&command)
    }

    /// What lies in the folder; nothing soon after the end.
    fn expect_empty(&self, what: &str) {
        let names = || -> Vec<_> {
            let entries = std::fs::read_dir(&self.folder.0).expect("the folder");
            entries.map(|entry| entry.expect("an entry").file_name()).collect()
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !names().is_empty() {
            assert!(Instant::now() < until, "{what}: {:?} is left", names());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn blocks_that_only_a_folder_joins_exchange_messages_of_all_sizes() {
    let Some(islands) = Islands::new("sizes") else { return };
    for (hosting, secret) in [("auto", None), ("thread", None), ("auto", Some(SECRET))] {
        let start = |(block, rank)| {
            let ranks = if block == 0 { 1 } else { 2 };
            let mut command = islands.block("sizes", block, (rank, ranks));
            command.env("KUMIKI_HOSTING", hosting).envs(secret.map(|secret| ("WAITIO_SECRET", secret)));
            command.spawn().expect("a process")
        };
        let children: Vec<Child> = [(0, 0), (1, 0), (1, 1)].into_iter().map(start).collect();
        for child in children {
            let (code, text) = ended(child);
            assert!(code == Some(0) && text.contains("all came, 6"), "{hosting}: {text}");
        }
        islands.expect_empty(hosting);
    }
}

#[test]
fn what_was_sent_through_files_survives_and_who_left_is_gone() {
    let Some(islands) = Islands::new("early") else { return };
    let start = |block| islands.block("early", block, (0, 1)).spawn().expect("a process");
    let texts: Vec<_> = (0..2).map(start).collect::<Vec<_>>().into_iter().map(ended).collect();
    assert!(texts.iter().all(|(code, _)| *code == Some(0)), "{texts:?}");
    assert!(texts[0].1.contains("then: rank 0 of block 1 is lost"), "{texts:?}");
    islands.expect_empty("early");
}

#[test]
fn a_block_that_is_killed_is_an_error_with_its_name_through_files_too() {
    let Some(islands) = Islands::new("killed") else { return };
    for role in ["killed", "collective"] {
        let start = |block| islands.block(role, block, (0, 1)).spawn().expect("a process");
        let mut children: Vec<Child> = (0..2).map(start).collect();
        let mut victim = children.pop().expect("block 1");
        await_line(&mut victim, "waits");
        std::thread::sleep(Duration::from_millis(50));
        let killed = Instant::now();
        victim.kill().expect("it runs");
        victim.wait().expect("its end");
        let (code, text) = ended(children.pop().expect("block 0"));
        let elapsed = killed.elapsed();
        assert!(code == Some(0) && text.contains("then: rank 0 of block 1 is lost"), "{role}: {text}");
        assert!(elapsed < Duration::from_secs(20), "{role}: {elapsed:?}");
        islands.expect_empty(role);
    }
}

#[test]
fn what_a_run_that_was_killed_has_left_is_no_hindrance_and_is_removed() {
    let Some(islands) = Islands::new("again") else { return };
    for (role, ready) in [("steady", "talks"), ("absent", "waits")] {
        let blocks = if role == "absent" { 0..1 } else { 0..2 };
        let start = |block| {
            let role = if role == "absent" { "steady" } else { role };
            islands.block(role, block, (0, 1)).spawn().expect("a process")
        };
        let mut children: Vec<Child> = blocks.map(start).collect();
        match role {
            "absent" => std::thread::sleep(Duration::from_millis(300)),
            _ => await_line(&mut children[0], ready),
        }
        islands.machines.iter().for_each(Machine::kill_all);
        children.into_iter().for_each(|mut child| drop(child.wait()));
        let left = std::fs::read_dir(&islands.folder.0).expect("the folder").count();
        assert_eq!(left, 1, "the folder of the job is left");
        let again = |block| islands.block("sizes", block, (0, 1)).spawn().expect("a process");
        for child in (0..2).map(again).collect::<Vec<_>>() {
            let (code, text) = ended(child);
            assert!(code == Some(0) && text.contains("all came, 3"), "after {role}: {text}");
        }
        islands.expect_empty(role);
    }
}

#[test]
fn sockets_are_used_where_they_reach_and_files_where_they_do_not() {
    let Some(valley) = Valley::new() else { return };
    let folder = Folder::new("hybrid");
    // Without a relay: block 0 and a part of block 1 are on one side, the other part is beyond.
    let start = |(block, rank, machine): (usize, u32, &Machine)| {
        let ranks = if block == 0 { 1 } else { 2 };
        let master = MASTER.parse().expect("an address");
        let mut command = process("sizes", Way::Secret, master, (block, 2), (rank, ranks));
        command.env("WAITIO_COMM_TYPE", "hybrid").env("WAITIO_SCRATCH_DIR", &folder.0);
        machine.runs(&command).spawn().expect("a process")
    };
    let places = [(0, 0, &valley.left), (1, 0, &valley.right), (1, 1, &valley.gateway)];
    let children: Vec<Child> = places.into_iter().map(start).collect();
    for child in children {
        let (code, text) = ended(child);
        assert!(code == Some(0) && text.contains("all came, 6"), "{text}");
    }
}
