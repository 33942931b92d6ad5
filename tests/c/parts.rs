//! `macprun`: programs under Open MPI, MPICH and `acprun` as one world; and `macpcc`, which compiles those that use MPI.

use crate::stage::{fail, succeed, Language, Stage};
use crate::{test, Test};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("macprun::three_launchers_one_world", one_world),
        test("macprun::a_part_by_hand", by_hand),
        test("macprun::failures_are_told", failures),
        test("macprun::every_wait_ends", endless),
        test("macprun::signals_reach_every_part", signals),
        test("macprun::mistakes", mistakes),
        test("macprun::a_program_of_another_mpi_was_started_without_a_word", another_mpi),
        test("wrappers::for_mpi", wrappers),
    ]
}

/// The programs: with Open MPI, with MPICH, and without MPI.
struct Programs {
    open_mpi: PathBuf,
    mpich: PathBuf,
    plain: PathBuf,
}

impl Programs {
    /// A part under each launcher, with what its processes do.
    fn parts(&self, what: [&'static str; 3]) -> [Part<'_>; 3] {
        [
            (OPEN_MPI, 2, &self.open_mpi, what[0]),
            (MPICH, 1, &self.mpich, what[1]),
            ("acprun", 2, &self.plain, what[2]),
        ]
    }
}

const OPEN_MPI: &str = "mpirun.openmpi --oversubscribe";
const MPICH: &str = "mpiexec.hydra";

/// Compiled once: a program that somebody runs cannot be written.
fn programs(stage: &Stage) -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| compiled(stage))
}

fn compiled(stage: &Stage) -> Programs {
    let built = |wrapper: &str| {
        let program = stage.path("built").join(format!("part-{wrapper}"));
        let mut command = stage.command("macpcc");
        command.env("MPICC", wrapper).args(["-Wall", "-Wextra", "-Werror", "-g", "-O1", "-DUSE_MPI"]);
        succeed(command.arg(crate::stage::program_source("part")).arg("-o").arg(&program));
        program
    };
    Programs {
        open_mpi: built("mpicc.openmpi"),
        mpich: built("mpicc.mpich"),
        plain: stage.compile("part", Language::C, &[]),
    }
}

/// A part: its launcher, how many processes it has, its program, and what that does.
type Part<'a> = (&'a str, u32, &'a Path, &'a str);

/// The file of a job, as `macprun` reads it.
fn job(parts: &[Part]) -> String {
    let all: u32 = parts.iter().map(|part| part.1).sum();
    let mut text = format!("# a job in parts\n{}\n\n", parts.len());
    parts.iter().for_each(|(launcher, ..)| text += &format!("{launcher} # a launcher\n"));
    parts.iter().for_each(|(_, ranks, ..)| text += &format!("{ranks}\n"));
    let mut first = 0;
    for (_, ranks, program, what) in parts {
        text += &format!("{} {first} {ranks} {all} '{what}'\n", program.display());
        first += ranks;
    }
    text
}

/// `macprun` for this job, which it reads from a file.
fn macprun(stage: &Stage, name: &str, parts: &[Part]) -> Command {
    let file = stage.path(name);
    std::fs::write(&file, job(parts)).expect("a file");
    // Whoever runs the tests may have the signals ignored that some of them send.
    let macprun = stage.command("macprun");
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,TERM,HUP").arg(macprun.get_program());
    for (name, value) in macprun.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .stdin(Stdio::null())
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.arg(file);
    command
}

fn one_world(stage: &Stage) {
    let Programs { open_mpi, mpich, plain } = programs(stage);
    let apart = format!("env KUMIKI_NODE=b {MPICH}");
    for (name, parts) in [
        (
            "all",
            &[
                (OPEN_MPI, 2, open_mpi.as_path(), ""),
                (MPICH, 2, mpich.as_path(), "acp first"),
                ("acprun", 2, plain.as_path(), ""),
            ][..],
        ),
        (
            "tcp",
            &[
                ("acprun", 1, plain.as_path(), ""),
                (OPEN_MPI, 2, open_mpi.as_path(), "acp first"),
                (&*apart, 2, mpich.as_path(), ""),
            ][..],
        ),
        ("one", &[("acprun -np 1", 1, plain.as_path(), "")][..]),
    ] {
        let said = succeed(&mut macprun(stage, name, parts));
        let ranks: u32 = parts.iter().map(|part| part.1).sum();
        assert_eq!(said.matches("is done").count(), ranks as usize, "{said}");
    }
    // The job from standard input, and the portfile in a file, which is taken away.
    let file = stage.path("a portfile");
    let text = job(&[("acprun", 1, plain, ""), ("acprun -smemsize 2K", 2, plain, "")]);
    let mut command = stage.command("macprun");
    command.arg("-portfile").arg(&file).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("macprun");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "{output:?}");
    assert!(!file.exists());
}

/// Parts that nobody starts together: a portfile that the user wrote, and rank 0 holds the world together.
fn by_hand(stage: &Stage) {
    use std::os::unix::fs::PermissionsExt;
    let Programs { open_mpi, plain, .. } = programs(stage);
    let master = crate::loopback::address();
    let file = stage.path("portfile by hand");
    let secret = "0123456789abcdef".repeat(4);
    std::fs::write(&file, format!("ranks 5\nmaster {master}\nsecret {secret}\n")).expect("a file");
    let part = |offset: &str, ranks: &str| {
        let mut command = stage.command("acprun");
        command.args(["-np", ranks, "-multirun", "-offsetrank", offset, "-portfile"]).arg(&file);
        command.arg(plain).args([offset, ranks, "5"]).stdout(Stdio::null());
        command
    };
    fail(&mut part("0", "2"), 2, "chmod 600");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    fail(&mut part("4", "2"), 2, "do not fit");
    let first = part("0", "2").spawn().expect("acprun");
    let mut mpi = Command::new("mpirun.openmpi");
    mpi.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").stdin(Stdio::null());
    mpi.args(["--oversubscribe", "-np", "2"]).arg(open_mpi).args([
        "2",
        "2",
        "5",
        "",
        "--acp-offsetrank",
        "2",
    ]);
    let second = mpi.arg("--acp-portfile").arg(&file).stdout(Stdio::null()).spawn().expect("mpirun");
    // The last is the only one of its part, and no launcher has counted it.
    let mut third = Command::new(plain);
    third.args(["4", "1", "5"]).env("KUMIKI_PORTFILE", &file).env("KUMIKI_OFFSET_RANK", "4");
    succeed(&mut third);
    for mut child in [first, second] {
        assert!(child.wait().expect("an end").success());
    }
}

fn failures(stage: &Stage) {
    let parts = |what| programs(stage).parts(what);
    // A rank that exits in the middle, under each launcher: its code, however the others take it.
    fail(&mut macprun(stage, "exit-0", &parts(["exit", "", ""])), 42, "part 1 (line 4");
    fail(&mut macprun(stage, "exit-1", &parts(["", "exit", ""])), 42, "part 2 (line 5");
    let said = fail(&mut macprun(stage, "exit-2", &parts(["wait", "", "exit"])), 42, "part 3 (line 6");
    // The launcher of the part and the world call the rank the same.
    assert!(said.contains("rank 4 ") && !said.contains("rank 1 exited"), "{said}");
    fail(&mut macprun(stage, "abort", &parts(["", "", "abort"])), 255, "the sky is falling");
    let said = fail(&mut macprun(stage, "never", &parts(["", "", "never"])), 1, "never joined the world");
    assert!(said.contains("part 3 (line 6"), "{said}");
}

/// A program under the launcher of another MPI: its processes are alone there.
fn another_mpi(stage: &Stage) {
    let Programs { open_mpi, mpich, plain } = programs(stage);
    for (launcher, program, linked, right) in
        [(OPEN_MPI, mpich, "MPICH", "mpiexec.hydra"), (MPICH, open_mpi, "Open MPI", "mpirun.openmpi")]
    {
        let mut job = macprun(stage, "another", &[(launcher, 2, program, ""), ("acprun", 1, plain, "")]);
        let output = job.env("KUMIKI_TIMEOUT", "60s").output().expect("macprun");
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = format!("{} is linked with {linked}", program.display());
        assert!(!output.status.success() && said.contains(&expected), "{said}");
        assert!(
            said.contains("part 1 (line 4 of") && said.contains(&format!("start it with {right}")),
            "{said}"
        );
    }
}

fn endless(stage: &Stage) {
    let parts = |what| programs(stage).parts(what);
    let mut late = macprun(stage, "late", &parts(["", "", "late"]));
    let said = fail(late.env("KUMIKI_INIT_TIMEOUT", "6s"), 1, "did not join within");
    assert!(said.contains("ranks 3, 4 of part 3 (line 6"), "{said}");
    let mut long = macprun(stage, "long", &parts(["wait", "wait", "wait"]));
    fail(long.env("KUMIKI_TIMEOUT", "2s"), 124, "did not end within 2 s");
}

fn signals(stage: &Stage) {
    let parts = programs(stage).parts(["wait"; 3]);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        // A word that tells the processes of this job from all others.
        let mark = format!("MACPRUN_TEST_MARK={}-{signal}", std::process::id());
        let (name, value) = mark.split_once('=').expect("a name");
        let mut command = macprun(stage, &format!("signal-{signal}"), &parts);
        command.env(name, value).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().expect("macprun");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert_eq!(line, "all are there\n");
        assert!(marked(&mark).len() >= 8, "launchers and ranks: {:?}", marked(&mark));
        kumiki_net::os::process::signal(child.id() as i32, signal).expect("a signal");
        let status = child.wait().expect("an end");
        if signal != libc::SIGKILL {
            assert_eq!(status.code(), Some(128 + signal));
            assert_eq!(marked(&mark), [0; 0], "after signal {signal}");
        }
        let limit = Instant::now() + Duration::from_secs(10);
        while !marked(&mark).is_empty() {
            assert!(Instant::now() < limit, "left after signal {signal}: {:?}", marked(&mark));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The processes that have this word in their environment.
pub(crate) fn marked(mark: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        words.split(|&byte| byte == 0).any(|word| word == mark.as_bytes())
    };
    numbers.filter(has).collect()
}

fn mistakes(stage: &Stage) {
    let here = Path::new("./a");
    let with = |text: &str| {
        let file = stage.path("mistake");
        std::fs::write(&file, text).expect("a file");
        let mut command = stage.command("macprun");
        command.arg(file);
        command
    };
    fail(&mut with("1\nno-such-launcher -x\n2\n./a\n"), 1, "line 2 of");
    fail(&mut with("1\nno-such-launcher -x\n2\n./a\n"), 1, "there is no launcher no-such-launcher in PATH");
    let advice = "install its MPI (Debian: openmpi-bin or mpich), load its module, or write where it is";
    let said = fail(&mut with("1\nno-such-launcher\n2\n./a\n"), 1, advice);
    assert!(said.contains("there is mpirun, mpiexec, mpirun.openmpi, mpiexec.hydra"), "{said}");
    fail(&mut with("1\nacprun\n2 # processes\n"), 1, "there should be 1 programs, and there are 0");
    fail(&mut with("1\nacprun\nmany\n./a\n"), 1, "line 3 of");
    fail(&mut with(&job(&[("acprun", 1, here, "")])), 127, "there is no program ./a");
    fail(stage.command("macprun").arg("/nowhere/at/all"), 1, "cannot read /nowhere/at/all");
    fail(&mut stage.command("macprun"), 1, "no FILE was given");
    fail(stage.command("macprun").args(["-offsetrank", "2", "x"]), 1, "leave -multirun and -offsetrank out");
    // What the whole job is told: a number that is compared, and hosts that acprun gets.
    let whole = |count: &str| {
        let file = stage.path("whole");
        std::fs::write(&file, job(&[("acprun", 1, here, "")])).expect("a file");
        let mut command = stage.command("macprun");
        command.args(["-np", count, "-host", "localhost"]).arg(file);
        command
    };
    assert!(!fail(&mut whole("1"), 127, "there is no program").contains("no effect"));
    fail(&mut whole("2"), 127, "-np 2 has no effect");
    let help = succeed(stage.command("macprun").arg("-h"));
    assert!(help.contains("usage: macprun") && help.contains("-portfile"), "{help}");
    assert!(succeed(stage.command("macprun").arg("-v")).contains("macprun (Kumiki"));
}

fn wrappers(stage: &Stage) {
    for (wrapper, expected) in [("macpcc", "mpicc -I "), ("macpc++", "mpicxx -I ")] {
        let mut command = stage.command(wrapper);
        command.env_remove("MPICC").env_remove("MPICXX").args(["--show", "a.c", "-o", "a"]);
        let shown = succeed(&mut command);
        assert!(shown.starts_with(expected) && shown.contains("-lkumiki"), "{shown}");
    }
    let mut none = stage.command("macpcc");
    fail(none.env("MPICC", "no-such-mpicc").arg("a.c"), 2, "install an MPI");
}
