//! `acprun` and its options, the wrappers, and how failures are told.

use crate::stage::{fail, succeed, Language, Stage};
use crate::{test, Test};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("acprun::failures_are_told", failures_are_told),
        test("acprun::an_abort_lost_what_was_printed", abort_keeps_output),
        test("acprun::a_failing_loop_filled_the_disk", failing_loop),
        test("acprun::a_reset_to_no_rank_hung", reset_to_no_rank),
        test("acprun::messages_named_wrong_places", places_in_messages),
        test("acprun::a_refused_reset_said_not_what_to_do", reset_is_refused),
        test("acprun::misuse_of_a_channel_named_no_peer", channels_are_named),
        test("wrappers::names_and_options_of_acp", names_and_options),
        test("acprun::a_program_without_finalize_loses_nothing", a_program_without_finalize_loses_nothing),
        test(
            "acprun::memory_of_main_stayed_registered_when_it_had_returned",
            the_stack_of_a_process_at_its_end,
        ),
        test("wrappers::tools_of_the_current_folder_were_run", tools_of_the_current_folder),
        test("wrappers::a_wrapper_asked_itself_for_ever", a_wrapper_that_is_its_own_compiler),
        test("acprun::starter_memory", starter_memory),
        test("c::a_lost_rank_is_told_in_every_pattern", a_lost_rank_is_told_in_every_pattern),
        test("acprun::options", options),
        test("acprun::arguments_of_acp_init", arguments),
        test("wrappers::from_any_folder", from_any_folder),
    ]
}

fn failures_are_told(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    let run = |ranks: &str, what: &str| stage.acprun(&["-np", ranks], &program, &[what]);
    fail(&mut run("3", "abort"), 255, "the sky is falling");
    fail(&mut run("3", "exit"), 42, "rank 2");
    fail(&mut run("2", "signal"), 128 + 11, "rank 0");
    for nodes in ["1", "2"] {
        let said = fail(run("2", "bounds").env("KUMIKI_VIRTUAL_NODES", nodes), 0, "out of bounds");
        assert!(said.contains("acp: rank 1: acp_co"), "{said}");
    }
    fail(&mut run("1", "twice"), 0, "acp_init: misuse: init was called twice");
    fail(&mut stage.acprun(&["-np", "2"], &stage.path("built/no-such-program"), &[]), 127, "no-such-program");
}

/// The code is ACP's. A stream that another thread holds for ever holds nobody up.
fn abort_keeps_output(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    let run = |ranks: &str, what: &str| stage.acprun(&["-np", ranks], &program, &[what]);
    for nodes in ["1", "2"] {
        fail(run("2", "abort").env("KUMIKI_VIRTUAL_NODES", nodes), 255, "printed before the end");
    }
    let said = fail(std::process::Command::new(&program).arg("abort"), 255, "printed before the end");
    assert!(said.contains("the sky is falling"), "{said}");
    fail(&mut run("1", "held"), 255, "a stream is held");
    fail(&mut run("2", "finalizing"), 255, "it takes too long");
}

fn failing_loop(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    let said = fail(&mut stage.acprun(&["-np", "1"], &program, &["loop"]), 0, "(the 1000th like it;");
    let lines = said.lines().filter(|line| line.contains("acp_copy"));
    // Numbers 1, 10, 100, 1000 and 10000; how many there were; and one that is of another kind.
    assert_eq!(lines.count(), 7, "{said}");
    assert!(said.contains("(12345 like it in all)") && said.contains("the null address"), "{said}");
}

fn reset_to_no_rank(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    for (ranks, nodes) in [("1", "1"), ("3", "1"), ("2", "2")] {
        let mut job = stage.acprun(&["-np", ranks], &program, &["reset"]);
        let there = format!("acp_reset: misuse: there is no rank {ranks}: ranks go from 0 to ");
        let said = fail(job.env("KUMIKI_VIRTUAL_NODES", nodes).env("KUMIKI_TIMEOUT", "30s"), 0, &there);
        assert!(said.contains("(2 like it in all)"), "{said}");
    }
}

/// It said why, and not what to do; and named no rank.
fn reset_is_refused(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    for nodes in ["1", "2"] {
        let mut job = stage.acprun(&["-np", "3"], &program, &["reset_same"]);
        let advice = "acp_reset: this process is in no world any more, as after acp_finalize: end, or begin again with acp_init";
        let said = fail(job.env("KUMIKI_VIRTUAL_NODES", nodes).env("KUMIKI_TIMEOUT", "30s"), 0, advice);
        assert!(
            said.contains(
                "acp_reset: misuse: ranks 0 and 1 both want to be rank 0: give each its own number"
            ),
            "{said}"
        );
    }
    let advice = "acp_reset: nothing has changed: give each rank another number";
    fail(&mut stage.acprun(&["-np", "2"], &program, &["reset"]), 0, advice);
}

fn channels_are_named(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    for nodes in ["1", "2"] {
        let mut job = stage.acprun(&["-np", "2"], &program, &["channels"]);
        let said = fail(job.env("KUMIKI_VIRTUAL_NODES", nodes), 0, "");
        for expected in [
            "acp: rank 0: acp_isready_segbuf: misuse: the segment buffer is not connected: call acp_connect_segbuf at both ends first (segment buffer with rank 1)",
            "acp: rank 0: acp_isacked_segbuf: misuse: only the destination of a segment buffer can do that, and this is the other end (segment buffer with rank 1)",
            "acp: rank 0: acp_nbrecv_ch: misuse: this process cannot receive: it is the sender of the channel (channel with rank 1, to which it sends)",
            "acp: rank 1: acp_nbsend_ch: misuse: this process cannot send: it is the receiver of the channel (channel with rank 0, from which it receives)",
            "acp: rank 1: acp_wait_ch: a message of 16 bytes came into a buffer of 4: the rest is lost (channel with rank 0, from which it receives)",
            "acp: rank 1: acp_recv_ch: misuse: it has eight requests that nobody has waited for (channel with rank 0, from which it receives)",
            "acp: rank 1: acp_create_src_segbuf: misuse: a segment buffer with rank 0, of 4 segments of 0 bytes, cannot be",
            "acp: rank 1: acp_create_src_segbuf: misuse: rank 2: there are 2 ranks, numbered from 0 (segment buffer with rank 2)",
            "acp: rank 1: acp_create_dst_segbuf: misuse: rank -1: there are 2 ranks, numbered from 0",
            "acp: rank 1: acp_create_ch: misuse: rank 2: there are 2 ranks, numbered from 0",
            "acp: rank 0: acp_free_segbuf: misuse: the segment buffer with rank 1 has been freed",
            "acp: rank 0: acp_free_ch: misuse: the channel with rank 1, to which it sends, has been freed",
        ] {
            assert!(said.contains(expected), "{expected}:\n{said}");
        }
        assert!(said.contains(" bytes at 0x0 (channel with rank 1, to which it sends)"), "{said}");
    }
}

fn places_in_messages(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    let run = |what: &str| stage.acprun(&["-np", "2"], &program, &[what]);
    let said = fail(&mut run("unmapped"), 0, "unmapped at 0x");
    let place = said.lines().find_map(|line| line.strip_prefix("unmapped at ")).expect("a line");
    let complaint = said.lines().find(|line| line.starts_with("acp: rank 0: acp_")).expect("a complaint");
    assert!(complaint.contains(&format!(" at {place} (rank 1), 8 bytes")), "{said}");
    let said = fail(&mut run("misaligned"), 0, "is not the start of a block");
    assert!(!said.contains("outside the heap"), "{said}");
}

fn names_and_options(stage: &Stage) {
    let show = |name: &str, words: &[&str]| succeed(stage.command(name).args(words));
    assert!(show("acpgcc", &["--showme", "a.c"]).starts_with("gcc -I "));
    assert!(show("acpg++", &["--showme", "a.cc"]).starts_with("g++ -I "));
    assert!(show("acpcxx", &["--showme", "a.cc"]).starts_with("c++ -I "));
    assert!(show("macpgcc", &["--showme:command"]).starts_with("mpicc"));
    assert!(show("acpfc", &["--showme:link"]).contains("-lkumiki"));
    for mpi in ["mpicc.openmpi", "mpicc.mpich"] {
        let ask = |piece: &str| succeed(stage.command("macpcc").env("MPICC", mpi).arg(piece));
        assert!(ask("--showme:compile").matches("-I").count() > 1, "{}", ask("--showme:compile"));
        assert!(ask("--showme:libs").contains("kumiki mp"), "{}", ask("--showme:libs"));
    }
    // What is shown is enough for a compiler without us; and the device is not given to it.
    let source = crate::stage::program_source("failures");
    let program = stage.path("built/by-showme");
    let mut gcc = std::process::Command::new("gcc");
    let flags = show("acpcc", &["-ndev", "UDP", "--showme:compile"]) + &show("acpcc", &["--showme:link"]);
    succeed(gcc.arg(source).args(flags.split_whitespace()).arg("-o").arg(&program));
    succeed(&mut stage.acprun(&["--acp-np=2", "--acp-smemsize=2K"], &program, &["starter", "2048"]));
    let told = show("acpcc", &["-ndev", "tofu", "--showme:libs"]);
    assert!(told.contains("-ndev tofu has no effect"), "{told}");
    fail(stage.command("acpfc").env("FC", "no-such-fc").arg("a.f90"), 2, "set FC to yours");
}

/// A process that ends with 0 is finalized at its end, whether the others do the same or say so; any other end is a loss.
fn a_program_without_finalize_loses_nothing(stage: &Stage) {
    let program = stage.compile("unfinalized", Language::C, &[]);
    let notice = "the process ends without acp_finalize";
    for nodes in ["1", "3"] {
        let run = |what: &str| {
            let mut job = stage.acprun(&["-np", "8"], &program, &[what]);
            job.env("KUMIKI_VIRTUAL_NODES", nodes);
            job
        };
        for (way, notices) in [("all", 8), ("one", 1), ("fork", 0)] {
            let said = succeed(&mut run(way));
            assert_eq!(said.matches("is done").count(), 8, "{way}, {nodes} nodes: {said}");
            assert_eq!(said.matches(notice).count(), notices, "{way}, {nodes} nodes: {said}");
        }
        fail(&mut run("code"), 7, "rank 7");
        fail(&mut run("_exit"), 1, "exited with code 0 without finalizing");
        // It is gone for those who go on: nobody passes their barrier.
        let said = fail(&mut run("sync"), 1, "rank 7");
        assert!(!said.contains("came to a barrier: 0"), "{said}");
        assert!(said.contains("is lost: it finalized, or dropped its world, while others went on"), "{said}");
    }
    // Alone, there is nobody to wait for.
    fail(&mut std::process::Command::new(&program), 0, notice);
}

fn a_lost_rank_is_told_in_every_pattern(stage: &Stage) {
    let program = stage.compile("kumiki_loss", Language::C, &["-fsanitize=address"]);
    for (ranks, nodes) in [("2", "1"), ("3", "1"), ("3", "3"), ("4", "2")] {
        let mut job = stage.acprun(&["-np", ranks], &program, &[]);
        job.env("KUMIKI_VIRTUAL_NODES", nodes)
            .env("KUMIKI_ON_LOSS", "continue")
            .env("ASAN_OPTIONS", "detect_leaks=0");
        let said = fail(&mut job, 7, "rank 0 was told");
        assert!(!said.contains("this should be") && !said.contains("Sanitizer"), "{said}");
    }
}

fn the_stack_of_a_process_at_its_end(stage: &Stage) {
    let program = stage.compile("unfinalized", Language::C, &[]);
    for nodes in ["1", "2"] {
        let mut job = stage.acprun(&["-np", "2"], &program, &["stack"]);
        fail(job.env("KUMIKI_VIRTUAL_NODES", nodes).env("KUMIKI_TIMEOUT", "30s"), 0, "out of bounds");
    }
}

/// A compiler starts others by their names; and so do we to ask the wrapper of an MPI.
fn tools_of_the_current_folder(stage: &Stage) {
    let folder = stage.path("planted");
    std::fs::create_dir_all(&folder).expect("a folder");
    let witness = folder.join("witness");
    for name in ["cc", "gcc", "mpicc", "as", "ld"] {
        let program = folder.join(name);
        let script = format!("#!/bin/sh\necho $0 >> {}\nexit 1\n", witness.display());
        std::fs::write(&program, script).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("a mode");
    }
    // An entry without a name is the current folder, and so is a dot.
    let path = format!(":.:{}", std::env::var("PATH").expect("a PATH"));
    let run = |name: &str, words: &[&str]| {
        succeed(stage.command(name).args(words).env("PATH", &path).env_remove("MPICC").current_dir(&folder))
    };
    let source = crate::stage::program_source("failures");
    run("acpcc", &[source.to_str().expect("UTF-8"), "-o", "program"]);
    run("macpcc", &["--showme:compile"]);
    assert!(!witness.exists(), "{}", std::fs::read_to_string(&witness).unwrap_or_default());
}

fn a_wrapper_that_is_its_own_compiler(stage: &Stage) {
    let mut command = stage.command("macpcc");
    let said = succeed(command.env("MPICC", stage.path("bin/macpcc")).arg("--showme:compile"));
    assert!(said.matches("-I").count() > 1, "{said}");
}

fn starter_memory(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    succeed(&mut stage.acprun(&["-np", "2"], &program, &["starter", "1024"]));
    succeed(&mut stage.acprun(&["-np", "2", "-smemsize", "70000"], &program, &["starter", "70000"]));
    succeed(&mut stage.acprun(
        &["--acp-nprocs=2", "--acp-startermemsize=4M"],
        &program,
        &["starter", "4194304"],
    ));
    succeed(std::process::Command::new(&program).args(["starter", "10240"]));
    succeed(std::process::Command::new(&program).args(["starter", "512", "--acp-size-smem", "512"]));
}

fn options(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    let hosts = stage.path("hosts");
    std::fs::write(&hosts, "localhost\n127.0.0.1 # the same\n\n").expect("a file");
    let hosts = hosts.to_str().expect("a path");
    let said = succeed(&mut stage.acprun(&["-n", "3", "-nodefile", hosts, "-ndev", "udp"], &program, &[]));
    assert_eq!(said.matches("-ndev udp has no effect").count(), 1, "{said}");
    // A file with slots, and no `-np`: as many as it has. No shell is needed, nor may be: there is none in this PATH.
    std::fs::write(hosts, "# here\r\nlocalhost slots=2\r\n\r\n127.0.0.1:1\r\n[::1]:1\r\n").expect("a file");
    let mut job = stage.acprun(&["-machinefile", hosts], &program, &["starter", "1024"]);
    succeed(job.env("PATH", "/nowhere"));
    // What a variable says of it goes before the file.
    for (variable, value, ranks) in [("KUMIKI_PPN", "3", "3"), ("KUMIKI_VIRTUAL_NODES", "4", "4")] {
        let mut job = stage.acprun(&["-host", "localhost"], &program, &["procs", ranks]);
        succeed(job.env(variable, value));
    }
    std::fs::write(hosts, "localhost\nlocalhost four\n").expect("a file");
    let wrong = format!("line 2 of {hosts}: `four` should be slots=N");
    fail(&mut stage.acprun(&["-machinefile", hosts], &program, &[]), 1, &wrong);
    // 70 MiB do not fit into 64; a small limit is none.
    for (limit, code) in [("64M", 3), ("4096", 0)] {
        let mut job = stage.acprun(&["-np", "2", "-smemsize-dl", limit], &program, &["heap", "73400320"]);
        fail(&mut job, code, "");
    }
    let said = fail(
        &mut stage.acprun(&["-np", "2", "-smemsize-dl", "64M"], &program, &["fill"]),
        0,
        "out of memory",
    );
    assert!(!said.contains("damaged"), "{said}");
    // A variable for all jobs: one that is smaller has a node for each process.
    succeed(stage.acprun(&["-np", "1"], &program, &[]).env("KUMIKI_VIRTUAL_NODES", "2"));
    fail(&mut stage.acprun(&["-np", "2", "-nonsense"], &program, &[]), 1, "there is no option -nonsense");
    let help = succeed(stage.command("acprun").arg("-h"));
    assert!(help.contains("-machinefile") && help.contains("usage: acprun"), "{help}");
    assert!(succeed(stage.command("acprun").arg("-v")).contains("ACP 3.0.0"));
    fail(&mut stage.command("acprun"), 1, "no program was given");
}

fn arguments(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    let alone = |words: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.args(words);
        command
    };
    let said = fail(&mut alone(&["--acp-nonsense", "1"]), 1, "there is no option --acp-nonsense");
    assert!(said.contains("usage:") && said.contains("--acp-size-smem"), "{said}");
    fail(&mut alone(&["--acp-size-smem"]), 1, "--acp-size-smem needs a value");
    for value in ["-1", "7x", "99999999999999999999999", "1000000G"] {
        let expected = format!("--acp-size-smem {value}: it should be a size from 0 to");
        fail(&mut alone(&["--acp-size-smem", value, "64"]), 1, &expected);
        let expected = format!("-smemsize {value}: it should be a size ");
        fail(&mut stage.acprun(&["-smemsize", value], &program, &[]), 1, &expected);
    }
    // The check of acp_init fails, for there is no launcher that would start four.
    fail(&mut alone(&["--acp-nprocs", "4"]), 3, "start it with acprun -np 4");
}

/// Compiling and starting in another folder, by relative names, with nothing set in the environment.
fn from_any_folder(stage: &Stage) {
    let folder = stage.path("any folder");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::copy(crate::stage::program_source("atomics"), folder.join("prog.c")).expect("a copy");
    let check = crate::stage::repository().join("tests/c/programs/check.h");
    std::fs::copy(check, folder.join("check.h")).expect("a copy");
    let shell = |line: &str| {
        let mut command = std::process::Command::new("sh");
        command.current_dir(&folder).env_clear().env("PATH", "/usr/bin:/bin").env("P", stage.path(""));
        command.arg("-c").arg(line);
        command
    };
    succeed(&mut shell(
        "\"$P/bin/acpcc\" prog.c -o prog && \"$P/bin/acprun\" -np 4 ./prog && \"$P/bin/acprun\" -np 2 prog",
    ));
    succeed(&mut shell(
        "\"$P/bin/kumiki\" cc -c prog.c -o prog.o && \"$P/bin/acpcc\" prog.o -o prog && ./prog",
    ));
    // As `make CC=acpcc` has it; and from standard input.
    succeed(&mut shell("CC=\"$P/bin/acpcc\" timeout 60 \"$P/bin/acpcc\" prog.c -o prog && ./prog"));
    succeed(&mut shell("\"$P/bin/acpcc\" -I. -xc - <prog.c && ./a.out"));
    let shown = succeed(&mut shell("\"$P/bin/kumiki\" cc --show prog.c -o prog"));
    assert!(shown.starts_with("cc -I ") && shown.contains("-lkumiki"), "{shown}");
    let unset = succeed(&mut shell("LD_LIBRARY_PATH= ldd ./prog"));
    assert!(!unset.contains("not found"), "{unset}");
}
