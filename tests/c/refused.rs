//! Blocks of WaitIO that cannot join, and what both sides say of it.

use crate::stage::{succeed, Stage};
use crate::waitio::{compiled, port, C};
use crate::{test, Test};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("waitio::values_that_cannot_be_were_ignored", wrong_values),
        test("waitio::block_0_did_not_say_whom_it_refused", refused_blocks),
        test("waitio::a_port_that_is_taken_is_told_with_its_holder", taken_ports),
    ]
}

/// A program that expects that it cannot join.
fn program(stage: &Stage) -> std::path::PathBuf {
    compiled(stage, "gcc", "behaviours.c", C)
}

/// One process of a block, with these variables beside what all blocks know.
fn lonely(stage: &Stage, program: &Path, port: u16, more: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in stage.command("kumiki").get_envs().filter(|(_, value)| value.is_none()) {
        command.env_remove(name);
    }
    command.arg("failed_init").env("WAITIO_MASTER_HOST", "127.0.0.1");
    command.env("WAITIO_MASTER_PORT", port.to_string()).env("WAITIO_NPB", "2").env("WAITIO_PBID", "0");
    command.envs(more.iter().copied());
    command
}

fn wrong_values(stage: &Stage) {
    let program = program(stage);
    for (name, value, right) in [
        ("WAITIO_PROGRESS", "thraed", "thread or calls"),
        ("WAITIO_RELAY", "gate:port", "host:port such as 10.1.0.1:7200"),
        ("WAITIO_RELAY", "http://gate:7200", "host:port such as 10.1.0.1:7200"),
        ("WAITIO_HYBRID_THRESHOULD", "many", "a size such as 65536"),
        ("WAITIO_HYBRID_THRESHOLD", "-2", "a size such as 65536"),
        ("WAITIO_MAXFILE_SIZE_PER_PROC", "1 X", "a size such as 65536"),
        ("WAITIO_PORT_RANGE", "9-1", "a range such as 30000-30100"),
        ("WAITIO_MASTER_PORT", "0", "a port such as 7100"),
        ("WAITIO_NPB", "two", "a whole number such as 4"),
        ("WAITIO_PBID", "-1", "a whole number such as 4"),
        ("WAITIO_TIMEOUT", "soon", "a time such as 90s"),
        ("KUMIKI_HOSTING", "nobody", "auto or thread"),
    ] {
        let said = succeed(&mut lonely(stage, &program, port(), &[(name, value)]));
        let expected = format!("waitio: waitio_init: misuse: {name}={value} cannot be; it should be {right}");
        assert!(said.contains(&expected), "{name}={value}: {said}");
    }
    // Scripts of the field ask for what is not here: that is no reason to fail, but is told.
    let said = succeed(&mut lonely(stage, &program, port(), &[("WAITIO_COMM_TYPE", "carrier")]));
    assert!(
        said.contains("WAITIO_COMM_TYPE=carrier is not known (socket, file, hybrid, verbs are)"),
        "{said}"
    );
    let said = succeed(&mut lonely(stage, &program, port(), &[("WAITIO_RELAY", "gate:7200")]));
    assert!(said.contains("WAITIO_RELAY=gate:7200 is ignored: without a secret"), "{said}");
    for (name, value) in [("WAITIO_HYBRID_THRESHOLD", "-1"), ("WAITIO_MAXFILE_SIZE_PER_PROC", "unlimited")] {
        let said = succeed(&mut lonely(stage, &program, port(), &[(name, value)]));
        assert!(said.contains(&format!("{name}={value} is no size: it is ignored")), "{said}");
        assert!(!said.contains("cannot be"), "{said}");
    }
    let said = succeed(&mut lonely(stage, &program, port(), &[("WAITIO_PROGRESS", "in calls")]));
    assert!(!said.contains("WAITIO_PROGRESS"), "{said}");
}

/// Block 0, which waits for the others until it is taken.
struct Waiting {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Waiting {
    fn start(stage: &Stage, program: &Path, port: u16, more: &[(&str, &str)]) -> Waiting {
        let mut command = lonely(stage, program, port, more);
        command.env("WAITIO_TIMEOUT", "60s").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("block 0");
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        Waiting { child, errors }
    }

    /// What it says next that has this in it.
    fn says(&mut self, part: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert!(self.errors.read_line(&mut line).expect("a line") > 0, "it should say `{part}`: {all}");
            if line.contains(part) {
                return line;
            }
            all += &line;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.errors.read_to_string(&mut String::new());
        let _ = self.child.wait();
    }
}

fn refused_blocks(stage: &Stage) {
    let program = program(stage);
    let secret = ("WAITIO_SECRET", "a secret of all blocks");
    let port = port();
    let mut zero = Waiting::start(stage, &program, port, &[secret]);
    // A second block 0 calls the roll itself if its rank 0 comes: this is another rank of it.
    let other_rank = [("WAITIO_PBID", "0"), ("KUMIKI_RANK", "1"), ("KUMIKI_RANKS", "2")];
    for (more, why) in [
        (&[("WAITIO_PBID", "2"), ("WAITIO_NPB", "3")][..], "set WAITIO_NPB to the same number everywhere"),
        (
            &other_rank,
            "this one says 2: two programs have WAITIO_PBID=0; give each its own number, from 0 to 1",
        ),
    ] {
        let mut guest = lonely(stage, &program, port, more);
        let said = succeed(guest.env(secret.0, secret.1).env("WAITIO_TIMEOUT", "30s"));
        let block = more[0].1;
        assert!(
            said.contains(&format!("of block {block} is not taken in: ")) && said.contains(why),
            "{said}"
        );
        let told = zero.says(&format!("of block {block} ("));
        assert!(told.contains("block 0 does not take in rank ") && told.contains("process "), "{told}");
        assert!(told.contains(why), "{told}");
    }
    let said = succeed(
        lonely(stage, &program, port, &[("WAITIO_PBID", "1")])
            .env("WAITIO_SECRET", "another secret of others")
            .env("WAITIO_TIMEOUT", "1s"),
    );
    let remedy = "the same WAITIO_SECRET or WAITIO_SECRET_FILE, and the same release of the library";
    assert!(
        said.contains("as block 1") && said.contains("does not take us") && said.contains(remedy),
        "{said}"
    );
    let told = zero.says("does not take in somebody who called from 127.0.0.1");
    assert!(told.contains(remedy), "{told}");
    let mut none = lonely(stage, &program, port, &[("WAITIO_PBID", "1"), ("WAITIO_TIMEOUT", "1s")]);
    let said = succeed(&mut none);
    assert!(said.contains("this block has no secret: where block 0 has one"), "{said}");
}

fn taken_ports(stage: &Stage) {
    let program = program(stage);
    let ear = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (taken, us) =
        (ear.local_addr().expect("an address").port(), format!("process {} (", std::process::id()));
    let secret = ("WAITIO_SECRET", "a secret of all blocks");
    let said = succeed(&mut lonely(stage, &program, taken, &[secret]));
    assert!(said.contains(&format!("cannot listen at 127.0.0.1:{taken}")) && said.contains(&us), "{said}");
    let remedy = format!("set WAITIO_MASTER_PORT to another port than {taken} in every block");
    assert!(said.contains(&remedy), "{said}");
    let range = format!("{taken}-{taken}");
    let said = succeed(&mut lonely(stage, &program, port(), &[("WAITIO_PORT_RANGE", &range)]));
    assert!(said.contains(&format!("no port of WAITIO_PORT_RANGE={range} is free")), "{said}");
    assert!(said.contains(&us) && said.contains("widen the range"), "{said}");
    let free = port();
    let _zero = {
        let mut zero = Waiting::start(stage, &program, free, &[]);
        zero.says("block 0 waits: block 1 not here yet");
        zero
    };
    let said = succeed(&mut lonely(stage, &program, free, &[]));
    assert!(said.contains("another program of yours calls the roll there"), "{said}");
}
