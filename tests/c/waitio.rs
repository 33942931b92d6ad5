//! Programs of WaitIO: several programs, each a block of its own, under different MPI libraries and none, in C, C++, Fortran and Python.

use crate::parts::marked;
use crate::stage::{repository, succeed, Stage};
use crate::{test, Test};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a conversation may take on a busy machine, and how long something of it may be left.
const LONGEST: Duration = Duration::from_secs(60);
const CLEAN: Duration = Duration::from_secs(10);

/// What programs rely on, by the numbers of the interface; who has a code of its own at the end.
const BEHAVIOURS: &[(&str, &str)] = &[
    ("behaviour_1_groups_are_numbered_by_order_and_rank", "numbering"),
    ("behaviour_2_messages_come_in_their_order_and_groups_never_meet", "order"),
    ("behaviour_3_a_wait_progresses_everything", "progress"),
    ("behaviour_4_what_was_sent_survives_its_sender", "survival"),
    ("behaviour_5_a_killed_peer_is_an_error", "kill"),
    ("behaviour_5_a_peer_that_exits_with_a_code_is_an_error", "exit"),
    ("behaviour_8_thousands_of_requests", "many"),
    ("behaviour_8_messages_are_received_in_any_order", "backwards"),
    ("beyond_probe_and_cancel", "beyond"),
    ("misuse_is_an_error_and_nothing_else", "misuse"),
];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = BEHAVIOURS
        .iter()
        .map(|&(name, what)| test(format!("waitio::{name}"), move |stage: &Stage| behaviour(stage, what)))
        .collect();
    tests.push(test("waitio::behaviour_6_a_failed_init_makes_no_groups", failed_init));
    tests.push(test("waitio::behaviour_7_rank_and_size_are_those_of_the_loaded_mpi", by_mpi));
    tests.push(test("waitio::collectives_of_every_type_and_by_threads", collectives));
    tests.push(test("waitio::open_mpi_and_open_mpi", |stage| same_mpi(stage, Way::OpenMpi)));
    tests.push(test("waitio::mpich_and_mpich", |stage| same_mpi(stage, Way::Mpich)));
    tests.push(test("waitio::every_mpi_and_every_language", everybody));
    tests.push(test("waitio::blocks_that_only_a_folder_joins", by_folder));
    tests.push(test("waitio::one_to_four_ranks_of_every_mpi_and_of_rust_python_and_fortran", one_to_four));
    tests.push(test("waitio::serv_publishes_the_host_of_block_0", serv));
    tests
}

/// Who starts the processes of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Nobody: each is told its rank.
    Plain,
    /// The same, each on a machine of its own that has no network at all.
    Island,
    OpenMpi,
    Mpich,
}

/// A block: who starts it, how many processes it has, and what each runs.
pub(crate) struct Block {
    way: Way,
    ranks: u32,
    words: Vec<String>,
}

pub(crate) fn block(way: Way, ranks: u32, program: &Path, words: &[&str]) -> Block {
    let program = program.display().to_string();
    let words = std::iter::once(program).chain(words.iter().map(ToString::to_string));
    Block { way, ranks, words: words.collect() }
}

impl Block {
    /// The commands that start its processes.
    fn commands(&self) -> Vec<Command> {
        let under = |launcher: &str, options: &[&str]| {
            let mut command = Command::new(launcher);
            command.args(options).args(["-n", &self.ranks.to_string()]).args(&self.words);
            // What a launcher of ours would say means nothing where there is an MPI.
            command.env("KUMIKI_RANK", "0").env("KUMIKI_RANKS", "1");
            command
        };
        match self.way {
            Way::OpenMpi => vec![under("mpirun.openmpi", &["--oversubscribe"])],
            Way::Mpich => vec![under("mpirun.mpich", &[])],
            Way::Plain | Way::Island => (0..self.ranks)
                .map(|rank| {
                    let mut command = Command::new(&self.words[0]);
                    if self.way == Way::Island {
                        command = Command::new(ISLAND[0]);
                        command.args(&ISLAND[1..]).arg(&self.words[0]);
                    }
                    command.args(&self.words[1..]);
                    if self.ranks > 1 {
                        command
                            .env("KUMIKI_RANK", rank.to_string())
                            .env("KUMIKI_RANKS", self.ranks.to_string());
                    }
                    command
                })
                .collect(),
        }
    }
}

/// What became of a process: its exit code, and what it printed.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

/// A port that nobody has.
pub(crate) fn port() -> u16 {
    kumiki_net::os::socket::free_port().expect("a port")
}

/// Runs blocks to their ends. Nothing is left of them then.
pub(crate) fn converse(stage: &Stage, blocks: &[Block], more: &[(&str, &str)]) -> Vec<Ended> {
    let port = port().to_string();
    let mark = format!("WAITIO_TEST_MARK={}-{port}", std::process::id());
    let (mark_name, mark_value) = mark.split_once('=').expect("a name");
    let clean = stage.command("kumiki");
    let mut children: Vec<Child> = Vec::new();
    // Of two of Open MPI's launchers that begin at the same time one may find that it cannot make the folder that both want. By a short name: there are sockets in it.
    let folder = std::env::temp_dir().join(format!("kumiki-{}-{port}", std::process::id()));
    for (id, block) in blocks.iter().enumerate() {
        for mut command in block.commands() {
            for (name, value) in clean.get_envs() {
                if value.is_none() && command.get_envs().all(|(own, _)| own != name) {
                    command.env_remove(name);
                }
            }
            let own = folder.join(id.to_string());
            std::fs::create_dir_all(&own).expect("a folder");
            command
                .env("OMPI_MCA_orte_tmpdir_base", own)
                .env("WAITIO_MASTER_HOST", "localhost")
                .env("WAITIO_MASTER_PORT", &port)
                .env("WAITIO_PBID", id.to_string())
                .env("WAITIO_NPB", blocks.len().to_string())
                .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
                .env(mark_name, mark_value)
                .envs(more.iter().copied())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .process_group(0);
            children.push(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")));
        }
    }
    let until = Instant::now() + LONGEST;
    let ended: Vec<Ended> = children.into_iter().map(|child| finish(child, until)).collect();
    let _ = std::fs::remove_dir_all(&folder);
    let until = Instant::now() + CLEAN;
    while !marked(&mark).is_empty() {
        assert!(Instant::now() < until, "left behind: {:?}", marked(&mark));
        std::thread::sleep(Duration::from_millis(10));
    }
    ended
}

/// Waits for a process, and ends it when its time is over.
fn finish(mut child: Child, until: Instant) -> Ended {
    fn read(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }
    let pipes = (child.stdout.take().map(read), child.stderr.take().map(read));
    let status = loop {
        match child.try_wait().expect("a status") {
            Some(status) => break status,
            None if Instant::now() > until => {
                let _ = kumiki_net::os::process::signal_group(child.id() as i32, libc::SIGKILL);
                break child.wait().expect("an end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let said = [pipes.0, pipes.1].into_iter().flatten().map(|pipe| pipe.join().unwrap_or_default());
    Ended { code: status.code(), said: said.collect() }
}

/// Runs blocks that all must end well, and say so as often as they have processes.
#[track_caller]
fn agree(stage: &Stage, blocks: &[Block], more: &[(&str, &str)]) -> String {
    let ended = converse(stage, blocks, more);
    let said: String = ended.iter().map(|one| one.said.as_str()).collect();
    assert!(ended.iter().all(|one| one.code == Some(0)), "{:?}\n{said}", codes(&ended));
    let ranks: u32 = blocks.iter().map(|block| block.ranks).sum();
    assert_eq!(said.lines().filter(|line| line.starts_with("ok")).count(), ranks as usize, "{said}");
    said
}

fn codes(ended: &[Ended]) -> Vec<Option<i32>> {
    ended.iter().map(|one| one.code).collect()
}

/// A program of `waitio/`, compiled once, by a compiler and with options.
pub(crate) fn compiled(stage: &Stage, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
    static BUILT: OnceLock<std::sync::Mutex<BTreeMap<String, PathBuf>>> = OnceLock::new();
    let mut built =
        BUILT.get_or_init(Default::default).lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let name = format!("waitio-{compiler}-{source}-{}", options.concat());
    if let Some(program) = built.get(&name) {
        return program.clone();
    }
    let program = stage.path("built").join(format!("waitio-{}", built.len()));
    let (include, lib) = (stage.path("include"), stage.path("lib"));
    let mut command = Command::new(compiler);
    // The library before the program's own objects, as those who use it have it.
    command.arg("-I").arg(include).arg("-L").arg(&lib).arg(format!("-Wl,-rpath,{}", lib.display()));
    command.args(["-g", "-O1", "-Wl,--no-as-needed", "-lwaitio_mpi", "-lwaitio"]).args(options);
    command
        .arg(repository().join("tests/c/waitio").join(source))
        .args(["-x", "none", "-lpthread", "-o"])
        .arg(&program);
    succeed(&mut command);
    built.insert(name, program.clone());
    program
}

pub(crate) const C: &[&str] = &["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-x", "c"];
const CXX: &[&str] = &["-std=c++11", "-Wall", "-Wextra", "-Werror", "-x", "c++"];

fn behaviour(stage: &Stage, what: &str) {
    for (compiler, options) in [("gcc", C), ("g++", CXX)] {
        let program = compiled(stage, compiler, "behaviours.c", options);
        let blocks = [block(Way::Plain, 2, &program, &[what]), block(Way::Plain, 1, &program, &[what])];
        let ended = converse(stage, &blocks, &[]);
        let said: String = ended.iter().map(|one| one.said.as_str()).collect();
        let last = match what {
            "kill" => None,
            "exit" => Some(7),
            _ => Some(0),
        };
        assert_eq!(codes(&ended), [Some(0), Some(0), last], "{said}");
        if compiler == "g++" {
            continue;
        }
        // The agent and the hub in processes of the program: what these promise must hold there, too.
        if ["order", "survival", "misuse"].contains(&what) {
            let ended = converse(stage, &blocks, &[("KUMIKI_HOSTING", "thread")]);
            let said: String = ended.iter().map(|one| one.said.as_str()).collect();
            assert_eq!(codes(&ended), [Some(0); 3], "{said}");
        }
    }
}

/// Runs what follows in a network namespace of its own.
const ISLAND: &[&str] = &["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"];

/// A shared folder is all that the machines of the processes have in common.
fn by_folder(stage: &Stage) {
    let may = Command::new(ISLAND[0]).args(&ISLAND[1..]).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        return println!("  skipped: no network namespaces can be made here");
    }
    let folder = std::env::temp_dir().join(format!("kumiki-scratch-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let scratch = folder.display().to_string();
    let variables = [("WAITIO_COMM_TYPE", "file"), ("WAITIO_SCRATCH_DIR", &scratch), ("COUPLER_JOB_ID", "7")];
    let program = compiled(stage, "gcc", "behaviours.c", C);
    for what in ["order", "progress", "survival", "kill", "exit", "many", "beyond"] {
        let blocks = [block(Way::Island, 2, &program, &[what]), block(Way::Island, 1, &program, &[what])];
        let ended = converse(stage, &blocks, &variables);
        let said: String = ended.iter().map(|one| one.said.as_str()).collect();
        let last = match what {
            "kill" => None,
            "exit" => Some(7),
            _ => Some(0),
        };
        assert_eq!(codes(&ended), [Some(0), Some(0), last], "{what}: {said}");
        let left: Vec<_> = std::fs::read_dir(&folder).expect("the folder").collect();
        assert!(left.is_empty(), "{what}: {left:?}");
    }
    let program = compiled(stage, "gcc", "collectives.c", C);
    agree(stage, &[block(Way::Island, 2, &program, &[]), block(Way::Island, 2, &program, &[])], &variables);
    std::fs::remove_dir(&folder).expect("nothing is left");
}

/// Block 0 never comes: whoever waits for it says so, and goes on to its own end.
fn failed_init(stage: &Stage) {
    let program = compiled(stage, "gcc", "behaviours.c", C);
    let mut lonely = Command::new(program);
    lonely.arg("failed_init").env("WAITIO_PBID", "1").env("WAITIO_NPB", "2");
    let said = succeed(lonely.env("WAITIO_MASTER_PORT", port().to_string()));
    assert!(said.contains("waitio: waitio_init: timed out") && said.contains("rank 0 of block 0"), "{said}");
}

fn collectives(stage: &Stage) {
    for (compiler, options) in [("gcc", C), ("g++", CXX)] {
        let program = compiled(stage, compiler, "collectives.c", options);
        agree(stage, &[block(Way::Plain, 2, &program, &[]), block(Way::Plain, 2, &program, &[])], &[]);
        agree(stage, &[block(Way::Plain, 1, &program, &[])], &[]);
    }
    let program = compiled(stage, "gcc", "collectives.c", C);
    agree(
        stage,
        &[block(Way::Plain, 3, &program, &[]), block(Way::Plain, 1, &program, &[])],
        &[("KUMIKI_HOSTING", "thread")],
    );
}

const MPI: &[&str] = &["-DWITH_MPI", "-std=gnu99", "-Wall", "-x", "c"];

fn ring_of(stage: &Stage, way: Way) -> PathBuf {
    match way {
        Way::Plain | Way::Island => compiled(stage, "gcc", "ring.c", C),
        Way::OpenMpi => compiled(stage, "mpicc.openmpi", "ring.c", MPI),
        Way::Mpich => compiled(stage, "mpicc.mpich", "ring.c", MPI),
    }
}

fn same_mpi(stage: &Stage, way: Way) {
    let program = ring_of(stage, way);
    for ranks in [(1, 3), (2, 2), (4, 1)] {
        agree(stage, &[block(way, ranks.0, &program, &[]), block(way, ranks.1, &program, &[])], &[]);
    }
}

/// The programs compare what they are told with what their MPI says. That of Python is loaded for Python alone.
fn by_mpi(stage: &Stage) {
    let library = stage.path("lib/libwaitio_mpi.so").display().to_string();
    let script = repository().join("tests/c/waitio/ring.py").display().to_string();
    for (way, mpi) in [(Way::OpenMpi, "libmpi.so.40"), (Way::Mpich, "libmpich.so.12")] {
        let python = block(way, 2, Path::new("python3"), &[&script, &library, mpi]);
        let said =
            agree(stage, &[python, block(way, 2, &ring_of(stage, way), &[])], &[("WANT", "0 of 2,1 of 2")]);
        assert!(said.contains("ok 0 1 of 2"), "{said}");
    }
}

fn everybody(stage: &Stage) {
    let library = stage.path("lib/libwaitio.so").display().to_string();
    let script = repository().join("tests/c/waitio/ring.py").display().to_string();
    // Fortran 77 passes what it likes to what it does not know.
    let fixed = compiled(stage, "gfortran", "ring.f", &["-std=legacy", "-w"]);
    let free = compiled(stage, "gfortran", "ring.f90", &["-cpp", "-Wall", "-Werror"]);
    let with_mpi = compiled(stage, "mpif90.openmpi", "ring.f90", &["-cpp", "-DWITH_MPI"]);
    let own = compiled(
        stage,
        "g++",
        "ring.c",
        &["-DOWN_TRUEF", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-x", "c++"],
    );
    let blocks = || {
        [
            block(Way::OpenMpi, 2, &ring_of(stage, Way::OpenMpi), &[]),
            block(Way::Mpich, 2, &ring_of(stage, Way::Mpich), &[]),
            block(Way::Plain, 2, &own, &[]),
            block(Way::Plain, 1, Path::new("python3"), &[&script, &library]),
            block(Way::Plain, 2, &fixed, &[]),
            block(Way::OpenMpi, 2, &with_mpi, &[]),
            block(Way::Plain, 1, &free, &[]),
        ]
    };
    agree(stage, &blocks(), &[]);
    // Over TCP, with a secret.
    agree(stage, &blocks(), &[("WAITIO_SECRET", "known to all of these blocks")]);
}

/// This test program as a block in Rust: see `main`.
pub(crate) const RUST_RING: &str = "ring-in-rust";

/// What `ring.c` does, in Rust.
pub(crate) fn ring_in_rust() -> kumiki::Result<()> {
    use kumiki::comm::{Max, Sum};
    const LONG: usize = 100_000;
    let join = kumiki::join::Join::from_env()?;
    let all = join.universe()?;
    let (me, size) = (all.rank().expect("a member"), all.size());
    let (before, behind) = ((me + size - 1) % size, (me + 1) % size);
    let short = all.start_send(behind, -7i64 as u64, vec![me, join.block(), me * me])?;
    let long =
        all.start_send(behind, 8, (0..LONG).map(|at| (me as usize + at) as f64).collect::<Vec<_>>())?;
    let got = all.receive::<u32>(before, -7i64 as u64)?;
    assert_eq!((got[0], got[2]), (before, before * before));
    let into = all.receive::<f64>(before, 8)?;
    assert_eq!((into.len(), into[LONG - 1]), (LONG, (before as usize + LONG - 1) as f64));
    short.wait()?;
    long.wait()?;
    let group = all.collectives()?;
    let mut sum = [1i32];
    group.allreduce(&mut sum, Sum)?;
    let mut most = [f64::from(me)];
    group.allreduce(&mut most, Max)?;
    assert_eq!((sum[0], most[0]), (size as i32, f64::from(size - 1)));
    // What moves is bytes to those who call from C.
    let mut code = if me == size - 1 { 4242i32 } else { 0 }.to_le_bytes();
    group.broadcast(size - 1, &mut code)?;
    assert_eq!(i32::from_le_bytes(code), 4242);
    let mut gathered = vec![0; if me == 0 { 4 * size as usize } else { 0 }];
    group.gather(0, &me.to_le_bytes(), &mut gathered)?;
    let heads = join.heads()?;
    if heads.rank().is_some() {
        let mut blocks = vec![0; 4 * join.blocks().len()];
        heads.collectives()?.allgather(&join.block().to_le_bytes(), &mut blocks)?;
        assert!((0u32..).zip(blocks.chunks(4)).all(|(block, bytes)| bytes == block.to_le_bytes()));
    }
    group.barrier()?;
    println!("ok {} {} of {}", join.block(), join.rank(), join.blocks()[join.block() as usize]);
    drop((all, heads));
    join.leave()
}

/// As many as the machine can be asked for: who is many, and who is alone, changes.
fn one_to_four(stage: &Stage) {
    let library = stage.path("lib/libwaitio.so").display().to_string();
    let script = repository().join("tests/c/waitio/ring.py").display().to_string();
    let fortran = compiled(stage, "gfortran", "ring.f90", &["-cpp", "-Wall", "-Werror"]);
    let own = std::env::current_exe().expect("this program");
    for [open_mpi, mpich, rust, python, fortran_ranks] in [[4, 3, 3, 1, 2], [1, 2, 4, 3, 4]] {
        let blocks = [
            block(Way::OpenMpi, open_mpi, &ring_of(stage, Way::OpenMpi), &[]),
            block(Way::Mpich, mpich, &ring_of(stage, Way::Mpich), &[]),
            block(Way::Plain, rust, &own, &[RUST_RING]),
            block(Way::Plain, python, Path::new("python3"), &[&script, &library]),
            block(Way::Plain, fortran_ranks, &fortran, &[]),
        ];
        // So many may take a while to come.
        agree(stage, &blocks, &[("WAITIO_TIMEOUT", "50s")]);
    }
}

fn serv(stage: &Stage) {
    let folder = stage.path("scratch");
    let serv = |words: &[&str]| {
        let mut command = stage.command("waitio-serv");
        command.env("WAITIO_SCRATCH_DIR", &folder).env("COUPLER_JOB_ID", "a/job 7").args(words);
        command
    };
    let waits = serv(&["-c", "-t", "30"]).stdout(Stdio::piped()).spawn().expect("waitio-serv");
    std::thread::sleep(Duration::from_millis(300));
    succeed(&mut serv(&["-d", "-m", "node17"]));
    let output = waits.wait_with_output().expect("an end");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"node17\n"[..]));
    // Again: it replaces what was there.
    succeed(&mut serv(&["-m", "node18"]));
    assert_eq!(succeed(&mut serv(&["-c"])), "node18\n");
    // Another job has another.
    let mut other = serv(&["-c", "-t", "0"]);
    crate::stage::fail(other.env("COUPLER_JOB_ID", "b"), 1, "block 0 has not published its host within 0 s");
    // What others may read is not believed.
    let file = std::fs::read_dir(&folder).expect("a folder").next().expect("a file").expect("a file").path();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("a mode");
    crate::stage::fail(&mut serv(&["-c"]), 1, "chmod 600");
    succeed(&mut serv(&["-r"]));
    assert!(!file.exists());
    crate::stage::fail(&mut serv(&["-m", "two words"]), 1, "is not the name of a host");
    assert!(succeed(stage.command("kumiki").args(["waitio-serv", "-h"])).contains("usage: waitio-serv"));
}
