//! Separate programs that join: real processes of several blocks, on one machine and as if on several.

use crate::job::rank_command;
use crate::loopback;
use kumiki::comm::Sum;
use kumiki::join::Join;
use kumiki::{Error, Result};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a process of a block does.
const ROLE: &str = "E2E_JOIN";

/// The body of a process of a block. In a normal test run it does nothing.
#[test]
fn join_body() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let join = match Join::from_env() {
        Ok(join) => join,
        Err(error) => {
            println!("not joined: {error}");
            std::process::exit(9);
        }
    };
    let done = match role.as_str() {
        "ring" => ring(&join),
        "sizes" => sizes(&join),
        "gibibyte" => gibibyte(&join),
        "steady" => steady(&join),
        "early" => early(&join),
        "killed" => killed(&join),
        "collective" => collective(&join),
        "transfer" => transfer(&join),
        "chain" => chain(&join),
        "circle" => circle(&join),
        "barrier circle" => barrier_circle(&join),
        "fails" if join.block() == 1 => std::process::exit(7),
        "fails" => killed(&join).map(|()| std::thread::sleep(Duration::from_secs(100))),
        role => panic!("{role}"),
    };
    match done.and_then(|()| join.leave()) {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            println!("failed: {error}");
            std::process::exit(9);
        }
    }
}

/// Everybody sends to the next, in several sizes at once, and all add up what they got.
fn ring(join: &Join) -> Result<()> {
    let all = join.universe()?;
    let (me, size) = (all.rank().expect("a member"), all.size());
    let lengths = [1usize, 100, 1_000, 100_000, 500_000];
    for turn in 0..3u64 {
        let sendings: Vec<_> = lengths
            .iter()
            .map(|&length| all.start_send((me + 1) % size, turn, vec![u64::from(me) + turn; length]))
            .collect::<Result<_>>()?;
        for &length in &lengths {
            let from = (me + size - 1) % size;
            assert_eq!(all.receive::<u64>(from, turn)?, vec![u64::from(from) + turn; length]);
        }
        sendings.into_iter().try_for_each(|sending| sending.wait())?;
    }
    let mut sum = [u64::from(me)];
    all.collectives()?.allreduce(&mut sum, Sum)?;
    let mut mine = [1u32];
    join.of_block(join.block())?.collectives()?.allreduce(&mut mine, Sum)?;
    println!("block {} rank {}: {} in all, {} here", join.block(), join.rank(), sum[0], mine[0]);
    Ok(())
}

/// Messages of 4 bytes to 8 MiB both ways at once between the first two, and a collective of all.
fn sizes(join: &Join) -> Result<()> {
    let all = join.universe()?;
    let me = all.rank().expect("a member");
    if me < 2 {
        for (tag, power) in (2..=23).enumerate() {
            let bytes = |rank: u32| (0..1u32 << power).map(|at| (at ^ rank) as u8).collect::<Vec<u8>>();
            let sending = all.start_send(1 - me, tag as u64, bytes(me))?;
            assert!(all.receive::<u8>(1 - me, tag as u64)? == bytes(1 - me), "{power}");
            sending.wait()?;
        }
    }
    let mut sum = [u64::from(me) + 1];
    all.collectives()?.allreduce(&mut sum, Sum)?;
    println!("block {} rank {}: all came, {}", join.block(), join.rank(), sum[0]);
    Ok(())
}

/// Block 0 sends a gibibyte to block 1, which answers each part with its sum.
fn gibibyte(join: &Join) -> Result<()> {
    let all = join.universe()?;
    let me = all.rank().expect("a member");
    let part = |number: u64| -> Vec<u64> {
        let word = |at: u64| (at ^ number << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..2 << 20).map(word).collect()
    };
    let sum = |words: &[u64]| words.iter().fold(0u64, |sum, word| sum.rotate_left(5) ^ word);
    let parts = 64;
    for number in 0..parts {
        if me == 0 {
            let words = part(number);
            let expected = sum(&words);
            // Small ones go beside it, in both directions.
            let sending = all.start_send(1, 1, words)?;
            (0..100u64).try_for_each(|small| all.send(1, 2, &[small]))?;
            sending.wait()?;
            assert_eq!(all.receive::<u64>(1, 3)?, [expected]);
        } else {
            for small in 0..100u64 {
                assert_eq!(all.receive::<u64>(0, 2)?, [small]);
            }
            let words = all.receive::<u64>(0, 1)?;
            assert!(words == part(number), "part {number} is not what was sent");
            all.send(0, 3, &[sum(&words)])?;
        }
    }
    let mut sums = [1u64];
    all.collectives()?.allreduce(&mut sums, Sum)?;
    println!("{parts} parts, {}", sums[0]);
    Ok(())
}

/// The first two talk to each other until that is not possible any more.
fn steady(join: &Join) -> Result<()> {
    let all = join.universe()?;
    let me = all.rank().expect("a member");
    all.send(1 - me, 0, &[0u64])?;
    all.receive::<u64>(1 - me, 0)?;
    println!("talks");
    let talk = || -> Result<()> {
        loop {
            let sending = all.start_send(1 - me, 1, vec![1u64; 10_000])?;
            all.receive::<u64>(1 - me, 1)?;
            sending.wait()?;
        }
    };
    let gone = talk().expect_err("it cannot go on");
    println!("then: {}", join.explain(&gone));
    // In good order or not: nobody is there to say goodbye to.
    std::process::exit(0)
}

/// Block 1 sends and leaves; block 0 comes later for what was sent, and finds that there is no more.
fn early(join: &Join) -> Result<()> {
    let all = join.universe()?;
    if join.block() == 1 {
        return (0..100u64).try_for_each(|number| all.send(0, number % 3, &[number; 20]));
    }
    for number in (0..100u64).filter(|number| number % 3 == 1) {
        assert_eq!(all.receive::<u64>(1, 1)?, [number; 20]);
        // It may have to wait for credit.
        std::thread::sleep(Duration::from_millis(1));
    }
    for tag in [0, 2] {
        for number in (0..100u64).filter(|number| number % 3 == tag) {
            assert_eq!(all.receive::<u64>(1, tag)?, [number; 20]);
        }
    }
    let gone = all.receive::<u64>(1, 0).expect_err("it has left");
    println!("then: {}", join.explain(&gone));
    Ok(())
}

/// Block 1 is killed while block 0 waits for it.
fn killed(join: &Join) -> Result<()> {
    let all = join.universe()?;
    if join.block() == 0 {
        println!("waits");
        let gone = all.receive::<u64>(1, 0).expect_err("it is killed");
        println!("then: {}", join.explain(&gone));
        assert!(matches!(all.send(1, 0, &[1]), Err(Error::PeerLost { rank: 1, .. })));
        return Ok(());
    }
    println!("waits");
    std::thread::sleep(Duration::from_secs(100));
    Ok(())
}

fn collective(join: &Join) -> Result<()> {
    let all = join.universe()?;
    let group = all.collectives()?;
    group.barrier()?;
    println!("waits");
    if join.block() == 1 {
        std::thread::sleep(Duration::from_secs(100));
    }
    let gone = group.allreduce(&mut [1], Sum).expect_err("it is killed");
    println!("then: {}", join.explain(&gone));
    Ok(())
}

/// Both send and receive long messages all the time, until one is killed in the middle of that.
fn transfer(join: &Join) -> Result<()> {
    let all = join.universe()?;
    let other = 1 - all.rank().expect("a member");
    let exchange = |turn: u64| {
        let sending = all.start_send(other, 0, vec![turn; 1 << 19])?;
        let got = all.receive::<u64>(other, 0)?;
        assert!(got.iter().all(|word| *word == turn), "turn {turn}");
        sending.wait()
    };
    (0..3).try_for_each(exchange)?;
    println!("waits");
    let gone = (3..).find_map(|turn| exchange(turn).err()).expect("it is killed");
    println!("then: {}", join.explain(&gone));
    Ok(())
}

/// Each block waits for a message of the next; the last one for a line on its standard input.
fn chain(join: &Join) -> Result<()> {
    let all = join.universe()?;
    let me = all.rank().expect("a member");
    if me + 1 == all.size() {
        all.send(me - 1, 9, &[0u8; 100])?;
        std::io::stdin().read_line(&mut String::new()).expect("a line");
    } else {
        all.receive::<u64>(me + 1, 1)?;
    }
    if me > 0 {
        all.send(me - 1, 1, &[7u64; 3])?;
    }
    Ok(())
}

/// Each block waits for a message of the next, the last one for one of the first.
fn circle(join: &Join) -> Result<()> {
    let all = join.universe()?;
    let me = all.rank().expect("a member");
    all.receive::<u64>((me + 1) % all.size(), 1).map(drop)
}

/// The first block is in a barrier, with a receive that makes it look after its messages there; the others wait for a message of it before they come.
fn barrier_circle(join: &Join) -> Result<()> {
    let all = join.universe()?;
    if all.rank() != Some(0) {
        return all.receive::<u64>(0, 1).map(drop);
    }
    let _posted = all.start_receive::<u64>(1, 1)?;
    join.world().sync()
}

/// How the blocks of a test reach each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// On one machine, of one user.
    Machine,
    /// The same, with a secret.
    Secret,
    /// As if each block were on a machine of its own.
    Apart,
}

const WAYS: [Way; 3] = [Way::Machine, Way::Secret, Way::Apart];

pub(crate) fn process(
    role: &str,
    way: Way,
    master: SocketAddr,
    (block, blocks): (usize, usize),
    (rank, ranks): (u32, u32),
) -> Command {
    let body: Vec<String> =
        rank_command().iter().map(|word| word.replace("rank::rank_body", "join::join_body")).collect();
    let mut command = Command::new(&body[0]);
    command.args(&body[1..]).env(ROLE, role).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
        .env("WAITIO_MASTER_HOST", master.ip().to_string())
        .env("WAITIO_MASTER_PORT", master.port().to_string());
    command
        .env("WAITIO_PBID", block.to_string())
        .env("WAITIO_NPB", blocks.to_string())
        .env("WAITIO_TIMEOUT", "40s");
    command.env("KUMIKI_RANK", rank.to_string()).env("KUMIKI_RANKS", ranks.to_string());
    if !matches!(way, Way::Machine) {
        command.env("WAITIO_SECRET", "a secret of all blocks");
    }
    if matches!(way, Way::Apart) {
        command.env("KUMIKI_NODE", format!("block {block}"));
    }
    command
}

fn start(role: &str, way: Way, sizes: &[u32]) -> Vec<Vec<Child>> {
    let master = loopback::address();
    let block = |(block, &ranks): (usize, &u32)| {
        let start = |rank| {
            process(role, way, master, (block, sizes.len()), (rank, ranks)).spawn().expect("a process")
        };
        (0..ranks).map(start).collect()
    };
    sizes.iter().enumerate().map(block).collect()
}

/// What a process said, and its code.
pub(crate) fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("its output");
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn processes_of_several_blocks_exchange_messages_and_have_collectives() {
    for way in WAYS {
        let sizes = [2, 1, 2];
        for (block, children) in start("ring", way, &sizes).into_iter().enumerate() {
            for (rank, child) in children.into_iter().enumerate() {
                let (code, text) = ended(child);
                let line = format!("block {block} rank {rank}: 10 in all, {} here", sizes[block]);
                assert!(
                    code == Some(0) && text.contains(&line),
                    "{way:?}, block {block}, rank {rank}: {text}"
                );
            }
        }
    }
}

#[test]
fn what_a_block_sent_before_it_left_is_received_and_then_it_is_gone() {
    for way in WAYS {
        let texts: Vec<_> = start("early", way, &[1, 1]).into_iter().flatten().map(ended).collect();
        for (code, text) in &texts {
            assert_eq!(*code, Some(0), "{way:?}: {text}");
        }
        assert!(texts[0].1.contains("then: rank 0 of block 1 is lost"), "{way:?}: {}", texts[0].1);
    }
}

#[test]
fn a_block_that_is_killed_is_an_error_with_its_name() {
    for role in ["killed", "collective", "transfer"] {
        for way in WAYS {
            let mut children: Vec<Child> = start(role, way, &[1, 1]).into_iter().flatten().collect();
            let mut victim = children.pop().expect("block 1");
            await_line(&mut victim, "waits");
            // Block 0 may just be about to wait.
            std::thread::sleep(Duration::from_millis(50));
            let killed = Instant::now();
            victim.kill().expect("it runs");
            victim.wait().expect("its end");
            let (code, text) = ended(children.pop().expect("block 0"));
            assert!(
                code == Some(0) && text.contains("then: rank 0 of block 1 is lost"),
                "{role}, {way:?}: {text}"
            );
            // The promise is a second; the machine may be busy.
            assert!(killed.elapsed() < Duration::from_secs(20), "{role}, {way:?}: {:?}", killed.elapsed());
        }
    }
}

/// A block is killed while others wait for one that has not come: then it is missing, too, and whoever waits says so in time. Another process can come in
/// its place.
#[test]
fn a_block_that_is_killed_at_init_is_missing_until_another_comes() {
    for way in [Way::Machine, Way::Secret] {
        let master = loopback::address();
        let block = |block, timeout: &str| {
            let mut command = process("ring", way, master, (block, 3), (0, 1));
            command.env("WAITIO_TIMEOUT", timeout).spawn().expect("a process")
        };
        // Nobody takes its place: the others give up, and say for whom they have waited.
        let (mut first, mut victim) = (block(0, "9s"), block(1, "40s"));
        // It says so when it has waited for three seconds: both have come by then.
        await_error(&mut first, "block 0 waits: block 2 not here yet");
        victim.kill().expect("it runs");
        victim.wait().expect("its end");
        let last = block(2, "6s");
        for (child, name) in [(first, "block 0"), (last, "block 2")] {
            let (code, text) = ended(child);
            assert!(code == Some(9) && text.contains("not joined"), "{way:?}, {name}: {text}");
            assert!(text.contains("block 1 not here yet"), "{way:?}, {name}: {text}");
        }
    }
    let master = loopback::address();
    let block = |block| process("ring", Way::Machine, master, (block, 3), (0, 1)).spawn().expect("a process");
    let (mut first, mut victim) = (block(0), block(1));
    await_error(&mut first, "block 0 waits: block 2 not here yet");
    victim.kill().expect("it runs");
    victim.wait().expect("its end");
    for (name, child) in [("2", block(2)), ("1", block(1)), ("0", first)] {
        let (code, text) = ended(child);
        assert_eq!(code, Some(0), "block {name}: {text}");
    }
}

/// What `kumiki run --join` makes of a file.
fn run_joined(role: &str, file: &str) -> (Option<i32>, String) {
    let folder = crate::strangers::Folder::new(&format!("join-{role}"));
    let path = folder.0.join("blocks");
    std::fs::write(&path, file).expect("a file");
    let mut command = Command::new(crate::job::kumiki());
    command.args(["run", "--timeout", "60s", "--join"]).arg(&path).env(ROLE, role);
    ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kumiki"))
}

fn body() -> String {
    let words = rank_command().into_iter().map(|word| word.replace("rank::rank_body", "join::join_body"));
    words.map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

#[test]
fn one_command_starts_all_blocks_and_tells_their_lines_apart() {
    let body = body();
    let (code, text) = run_joined("ring", &format!("# two blocks\n2\nnone\nnone\n2\n1\n{body}\n{body}\n"));
    assert_eq!(code, Some(0), "{text}");
    for line in [
        "[0] block 0 rank 0: 3 in all, 2 here",
        "[0] block 0 rank 1: 3 in all, 2 here",
        "[1] block 1 rank 0: 3 in all, 1 here",
    ] {
        assert!(text.lines().any(|said| said == line), "{line}: {text}");
    }
    let (code, text) = run_joined("fails", &format!("2\nnone\nnone\n1\n1\n{body}\n{body}\n"));
    assert_eq!(code, Some(7), "{text}");
    assert!(text.contains("block 1 (line 3 of") && text.contains("ended with code 7"), "{text}");
    let (code, text) = run_joined("ring", "2\nnone\n");
    assert!(code == Some(2) && text.contains("ends too early"), "{code:?} {text}");
}

/// Reads what a process says until it has said a line.
pub(crate) fn await_line(child: &mut Child, line: &str) {
    use std::io::{BufRead, BufReader};
    let output = child.stdout.take().expect("its output");
    let found =
        BufReader::new(output).lines().map_while(std::result::Result::ok).any(|said| said.contains(line));
    assert!(found, "it ended without {line:?}");
}

/// The same of its standard error, of which the rest stays to be read.
fn await_error(child: &mut Child, words: &str) {
    use std::io::Read;
    let errors = child.stderr.as_mut().expect("its errors");
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&said).contains(words) {
        assert_eq!(errors.read(&mut byte).expect("a byte"), 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
}

#[test]
fn blocks_that_do_not_fit_are_told_why() {
    let master = loopback::address();
    let alone = |pairs: &[(&str, &str)]| {
        let mut command = process("ring", Way::Machine, master, (1, 2), (0, 1));
        let (code, text) = ended(command.envs(pairs.iter().copied()).spawn().expect("a process"));
        assert_eq!(code, Some(9), "{text}");
        text
    };
    let late = alone(&[("WAITIO_TIMEOUT", "300ms")]);
    assert!(late.contains("nobody answers") && late.contains("rank 0 of block 0"), "{late}");
    assert!(alone(&[("WAITIO_PBID", "2")]).contains("block 2 of 2 cannot be"));
    assert!(alone(&[("WAITIO_NPB", "")]).contains("WAITIO_NPB"));
    assert!(alone(&[("WAITIO_MASTER_HOST", "192.0.2.1")]).contains("WAITIO_SECRET_FILE"));
    assert!(alone(&[("WAITIO_SECRET", "short")]).contains("can be guessed"));
    assert!(alone(&[("WAITIO_MASTER_PORT", "none")]).contains("a port such as 7100"));
    assert!(alone(&[("WAITIO_TIMEOUT", "soon")]).contains("a time such as"));
}
