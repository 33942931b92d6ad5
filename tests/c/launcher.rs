//! `acprun` and its options, the wrappers, and how failures are told.

use crate::stage::{fail, succeed, Language, Stage};
use crate::{test, Test};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("acprun::failures_are_told", failures_are_told),
        test("acprun::a_program_without_finalize_loses_nothing", a_program_without_finalize_loses_nothing),
        test("acprun::starter_memory", starter_memory),
        test("acprun::options", options),
        test("acprun::arguments_of_acp_init", arguments),
        test("wrappers::from_any_folder", from_any_folder),
    ]
}

fn failures_are_told(stage: &Stage) {
    let program = stage.compile("failures", Language::C, &[]);
    let run = |ranks: &str, what: &str| stage.acprun(&["-np", ranks], &program, &[what]);
    fail(&mut run("3", "abort"), 1, "the sky is falling");
    fail(&mut run("3", "exit"), 42, "rank 2");
    fail(&mut run("2", "signal"), 128 + 11, "rank 0");
    for nodes in ["1", "2"] {
        let said = fail(run("2", "bounds").env("KUMIKI_VIRTUAL_NODES", nodes), 0, "out of bounds");
        assert!(said.contains("acp: rank 1: acp_co"), "{said}");
    }
    fail(&mut run("1", "twice"), 0, "acp_init: misuse: init was called twice");
    fail(&mut stage.acprun(&["-np", "2"], &stage.path("built/no-such-program"), &[]), 127, "no-such-program");
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
