//! Ranks that no launcher of ours started.

use crate::job::rank_command;
use crate::loopback;
use crate::rank::ACTION;
use kumiki_net::os::process;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder that goes with its owner.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kumiki-e2e-{name}-{}", std::process::id()));
        // Whatever the umask is: some tests need one that is not open to the group.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn secret_file(folder: &Folder, name: &str, contents: &[u8], mode: u32) -> PathBuf {
    let path = folder.0.join(name);
    std::fs::write(&path, contents).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn command(action: &str, secret: Option<&Path>, master: SocketAddr) -> Command {
    let rank = rank_command();
    let mut command = Command::new(&rank[0]);
    command.args(&rank[1..]).env(ACTION, action).env("KUMIKI_MASTER", master.to_string());
    command.env("KUMIKI_INIT_TIMEOUT", "20s").stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(secret) = secret {
        command.env("KUMIKI_SECRET_FILE", secret);
    }
    command
}

/// Starts `ranks` strangers on `nodes` nodes and waits for them all.
fn strangers(ranks: u32, nodes: u32, action: &str, secret: &Path) -> Vec<(Option<i32>, String)> {
    let master = loopback::address();
    let start = |rank: u32| {
        command(action, Some(secret), master)
            .env("KUMIKI_RANK", rank.to_string())
            .env("KUMIKI_RANKS", ranks.to_string())
            .env("KUMIKI_NODE", format!("node {}", rank % nodes))
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..ranks).map(start).collect();
    children.into_iter().map(|child| said(&child.wait_with_output().unwrap())).collect()
}

fn said(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn strangers_find_each_other_on_one_node_and_on_several() {
    let folder = Folder::new("strangers");
    let secret = secret_file(&folder, "secret", &[7; 32], 0o600);
    for (ranks, nodes) in [(1, 1), (4, 1), (4, 2), (3, 3)] {
        for (rank, (code, text)) in strangers(ranks, nodes, "attach leave", &secret).into_iter().enumerate() {
            assert_eq!(code, Some(0), "{text}");
            assert!(text.contains(&format!("attached rank {rank} of {ranks}")), "{text}");
        }
    }
}

#[test]
fn the_loop_by_hand_works_as_the_document_has_it() {
    let page = include_str!("../../docs/launchers.md");
    let section = page.split_once("## By hand").expect("the section").1;
    let block =
        section.split("```").nth(1).and_then(|block| block.strip_prefix("sh\n")).expect("its commands");
    assert!(block.contains("./program") && block.contains("127.0.0.1:7711"), "{block}");
    let program = rank_command().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let block =
        block.replace("./program", &program).replace("127.0.0.1:7711", &loopback::address().to_string());
    let folder = Folder::new("by-hand");
    let mut shell = Command::new("sh");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KUMIKI_")) {
        shell.env_remove(name);
    }
    let output =
        shell.arg("-c").arg(block).current_dir(&folder.0).env(ACTION, "attach leave").output().unwrap();
    let (_, text) = said(&output);
    for rank in 0..3 {
        assert!(text.contains(&format!("attached rank {rank} of 3")), "{text}");
    }
}

#[test]
fn strangers_can_meet_again_and_again() {
    let folder = Folder::new("again");
    let secret = secret_file(&folder, "secret", "0123456789abcdef".repeat(4).as_bytes(), 0o600);
    for (code, text) in strangers(4, 2, "cycles=20", &secret) {
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn a_stranger_that_dies_is_noticed() {
    let folder = Folder::new("dies");
    let secret = secret_file(&folder, "secret", &[7; 40], 0o600);
    for nodes in [1, 3] {
        // It dies once everybody is in: whoever is still on the way would only be told that the job is ending.
        let meeting = Folder::new(&format!("dies-{nodes}"));
        let action = format!("attach meet={} 2:exit=3 lost leave", meeting.0.display());
        let ends = strangers(3, nodes, &action, &secret);
        assert_eq!(ends[2].0, Some(3));
        for (code, text) in &ends[..2] {
            assert_eq!(*code, Some(0), "{text}");
            // Whoever comes first hosts the agent of the node: the one that dies, perhaps.
            let agent = nodes == 1 && text.contains("lost the agent");
            assert!(agent || text.contains("lost rank 2"), "{text}");
        }
    }
}

/// What the kernel says that a process does: a letter.
fn state(pid: u32) -> char {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn hosts_an_agent(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|name| name.trim() == "kumiki-agent")
}

fn until(what: &str, happened: impl Fn() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process that does not outlive a test that fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_stranger_that_is_given_up_is_gone_before_the_others_know_it() {
    let folder = Folder::new("given-up");
    let secret = secret_file(&folder, "secret", &[7; 32], 0o600);
    // Somebody cannot reach it, though it is well; or it is stopped for too long, and then continued.
    for stopped in [false, true] {
        let (meeting, master) = (Folder::new(&format!("given-up-{stopped}")), loopback::address());
        let blame = if stopped { "" } else { "0:blame=2 " };
        let action = format!("attach meet={} 2:sleep_ms=600000 {blame}lost leave", meeting.0.display());
        let start = |rank: u32| {
            let mut command = command(&action, Some(&secret), master);
            command.env("KUMIKI_RANK", rank.to_string()).env("KUMIKI_RANKS", "3");
            command.env("KUMIKI_NODE", if rank == 0 { "a" } else { "b" });
            command.env("KUMIKI_ON_LOSS", "continue").env("KUMIKI_PEER_TIMEOUT", "10s");
            Ended(command.spawn().unwrap())
        };
        let mut others = [start(0), start(1)];
        until("rank 1 hosts no agent", || hosts_an_agent(others[1].0.id()));
        let mut given_up = start(2);
        let pid = given_up.0.id();
        until("not everybody has come", || (0..3).all(|rank| meeting.0.join(rank.to_string()).exists()));
        if stopped {
            process::signal(pid as i32, libc::SIGSTOP).unwrap();
        }
        let mut said = BufReader::new(others[1].0.stdout.take().unwrap()).lines();
        let lost = said.by_ref().map_while(Result::ok).find(|line| line.contains("lost"));
        assert_eq!((lost.as_deref(), state(pid)), (Some("lost rank 2"), 'Z'), "it is known, and it lives");
        process::signal(pid as i32, libc::SIGCONT).unwrap();
        assert_eq!(given_up.0.wait().unwrap().signal(), Some(libc::SIGKILL));
        for mut other in others {
            assert!(other.0.wait().unwrap().success(), "the others go on");
        }
    }
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    let folder = Folder::new("wrong");
    let good = secret_file(&folder, "good", &[7; 32], 0o600);
    let open = secret_file(&folder, "open", &[7; 32], 0o644);
    let short = secret_file(&folder, "short", b"0123456789abcdef0123456789abcdef", 0o600);
    let none = folder.0.join("none");
    let with_rank = |secret: Option<&Path>| {
        let mut command = command("attach", secret, loopback::address());
        command.env("KUMIKI_RANK", "0").env("KUMIKI_RANKS", "2").env("KUMIKI_INIT_TIMEOUT", "300ms");
        command
    };
    let mut no_master = command("attach", None, loopback::address());
    no_master.env_remove("KUMIKI_MASTER").env("OMPI_COMM_WORLD_RANK", "0").env("OMPI_COMM_WORLD_SIZE", "2");
    let mut wrong_rank = with_rank(Some(&good));
    wrong_rank.env("KUMIKI_RANK", "2");
    let mut alone = with_rank(Some(&good));
    alone.env("KUMIKI_RANK", "1");
    let mut bad_master = with_rank(Some(&good));
    bad_master.env("KUMIKI_MASTER", "nonsense");
    for (mut command, expected) in [
        (with_rank(None), "KUMIKI_SECRET_FILE"),
        (with_rank(Some(&open)), "chmod 600"),
        (with_rank(Some(&short)), "too short"),
        (with_rank(Some(&none)), "No such file"),
        (with_rank(Some(&good)), "waiting for the world to begin: rank 1 has not come"),
        (alone, "nobody answers at"),
        (command("attach", Some(&good), loopback::address()), "set KUMIKI_RANK and KUMIKI_RANKS"),
        (no_master, "set KUMIKI_MASTER=host:port"),
        (wrong_rank, "rank 2 of 2 cannot be"),
        (bad_master, "it should be host:port"),
    ] {
        let (code, text) = said(&command.output().unwrap());
        assert_eq!(code, Some(9), "{text}");
        assert!(text.contains(expected), "`{expected}` is not in: {text}");
    }
}

#[test]
fn strangers_with_different_secrets_are_told_that_they_are_not_taken() {
    let folder = Folder::new("secrets");
    let secrets = [7, 8].map(|byte| secret_file(&folder, &byte.to_string(), &[byte; 32], 0o600));
    let master = loopback::address();
    for nodes in [["a", "a"], ["a", "b"]] {
        let start = |rank: usize| {
            let mut command = command("attach", Some(&secrets[rank]), master);
            command
                .env("KUMIKI_RANK", rank.to_string())
                .env("KUMIKI_RANKS", "2")
                .env("KUMIKI_NODE", nodes[rank]);
            // Rank 0 stays until rank 1 has been told.
            command.env("KUMIKI_INIT_TIMEOUT", ["20s", "2s"][rank]).spawn().unwrap()
        };
        let mut children = [0, 1].map(start);
        let status = children[1].wait().unwrap();
        children[0].kill().unwrap();
        let [_, told] = children.map(|child| said(&child.wait_with_output().unwrap()).1);
        assert_eq!(status.code(), Some(9), "{told}");
        assert!(told.contains("does not take us") && told.contains("the same KUMIKI_SECRET_FILE"), "{told}");
    }
}

#[test]
fn variables_of_mpirun_give_rank_and_size() {
    let folder = Folder::new("mpirun");
    let secret = secret_file(&folder, "secret", &[9; 32], 0o600);
    let master = loopback::address();
    let start = |rank: u32| {
        let mut command = command("attach leave", Some(&secret), master);
        command.env("OMPI_COMM_WORLD_RANK", rank.to_string()).env("OMPI_COMM_WORLD_SIZE", "2");
        command.spawn().unwrap()
    };
    for child in [start(0), start(1)] {
        let (code, text) = said(&child.wait_with_output().unwrap());
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn a_process_alone_is_a_world_of_one() {
    let rank = rank_command();
    let output =
        Command::new(&rank[0]).args(&rank[1..]).env(ACTION, "attach leave cycles=50").output().unwrap();
    let (code, text) = said(&output);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("attached rank 0 of 1"), "{text}");
}
