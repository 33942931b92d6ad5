//! The run time of XcalableMP: programs as the translator writes them, on 1 to 9 nodes, in shared memory and over TCP; and how they end.

use crate::headers::declared;
use crate::stage::{fail, repository, succeed, Stage};
use crate::{test, Test};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// The programs.
const PROGRAMS: &[&str] = &["nodes", "coarrays", "arrays", "transforms", "inquiry"];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = PROGRAMS
        .iter()
        .map(|&name| test(format!("xmp::{name}"), move |stage: &Stage| everywhere(stage, name)))
        .collect();
    tests.push(test("xmp::the_status_comes_through", ends));
    tests.push(test("xmp::what_is_wrong_is_told_with_its_place", wrong));
    tests.push(test("xmp::sizes_of_nodes_from_the_environment", sizes));
    tests.push(test("xmp::every_function", every_function));
    tests.push(test("xmp::beside_mpi", beside_mpi));
    tests
}

fn compile(stage: &Stage, name: &str) -> PathBuf {
    let program = stage.path("built").join(format!("xmp-{name}"));
    let mut compiler = Command::new("gcc");
    compiler
        .args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-I"])
        .arg(stage.path("include"));
    compiler.arg(repository().join(format!("tests/c/xmp/{name}.c"))).arg("-L").arg(stage.path("lib"));
    let rpath = format!("-Wl,-rpath,{}", stage.path("lib").display());
    succeed(compiler.args([rpath.as_str(), "-lkumiki", "-lm", "-o"]).arg(&program));
    program
}

fn job(stage: &Stage, program: &PathBuf, ranks: usize, nodes: usize, words: &[&str]) -> Command {
    let mut job = stage.command("kumiki");
    job.args(["run", "-n", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]);
    job.arg(program).args(words);
    job
}

fn everywhere(stage: &Stage, name: &str) {
    let program = compile(stage, name);
    for (ranks, nodes) in [(1, 1), (2, 1), (2, 2), (3, 1), (4, 2), (5, 3), (6, 1), (9, 2)] {
        let said = succeed(&mut job(stage, &program, ranks, nodes, &[]));
        assert!(said.contains(&format!("{name}: ok")), "{said}");
    }
    // Without a launcher: one node.
    succeed(&mut Command::new(&program));
}

/// A program ends well when all nodes do; otherwise the job ends with the status of the one that does not.
fn ends(stage: &Stage) {
    let program = compile(stage, "ends");
    for nodes in [1, 2] {
        let run = |word: &str| job(stage, &program, 4, nodes, &[word]);
        assert!(succeed(&mut run("well")).contains("printed before the end"));
        fail(&mut run("return"), 3, "printed before the end");
        fail(&mut run("exit-in-task"), 5, "status 5");
        fail(&mut run("xmp_exit"), 7, "status 7");
        succeed(&mut run("xmp_exit-well"));
        // Others see the last eight bits: that is 0.
        succeed(&mut run("exit-256"));
    }
    // Without a launcher, too, and the reason is told once.
    let said = fail(Command::new(&program).arg("return"), 3, "status 3");
    assert_eq!(said.matches("status 3").count(), 1, "{said}");
}

/// Each mistake with the line of the program, and what to do.
fn wrong(stage: &Stage) {
    let program = compile(stage, "wrong");
    let mistakes = [
        ("nodes", "wrong.c:10: nodes: misuse: nodes p: 3 x 5 (the fastest first) are not 2 nodes; start it with as many"),
        ("subscript", "wrong.c:11: barrier: misuse: p: 7 is not in dimension 1"),
        ("template", "wrong.c:12: loop: misuse: template t has no bounds yet: execute template_fix first"),
        ("width", "wrong.c:13: reflect: misuse: a: the width 2:2 of dimension 1 is larger than its shadow, 1:1"),
        ("ranges", "wrong.c:14: gmove: misuse: a has 1 ranges and the right side has 2"),
        ("lengths", "wrong.c:15: gmove: misuse: a has [4] elements and a has [3]"),
        ("task", "wrong.c:21: reflect: misuse: a: the node of rank 1 has a neighbouring part, and does not execute this task"),
        ("kind", "xmp_array_ndims: misuse: the descriptor is of nodes or of a template, and not of an array"),
        ("type", "wrong.c:16: reduction: misuse: reduction &: there is none for double"),
        ("image", "wrong.c:17: assignment to a coarray: misuse: x: there is no image 2"),
        ("section", "wrong.c:18: assignment to a coarray: misuse: x: the section 8:5:1 leaves the array"),
        ("align", "wrong.c:19: align b"),
        ("memory", "wrong.c:22: loop: misuse: array later has no memory yet: call xmp_malloc first"),
        ("unmade", "wrong.c:23: loop: misuse: the nodes or the template were not made: their directive was not executed"),
        ("unlock", "wrong.c:20: unlock: misuse: the lock is not locked"),
    ];
    for (word, message) in mistakes {
        fail(&mut job(stage, &program, 2, 1, &[word]), 1, message);
    }
}

fn sizes(stage: &Stage) {
    let program = compile(stage, "sizes");
    let run = |sizes: [&str; 2]| {
        let mut job = job(stage, &program, 6, 1, &[]);
        job.env("XMP_NODE_SIZE0", sizes[0]).env("XMP_NODE_SIZE1", sizes[1]);
        job
    };
    assert!(succeed(&mut run(["6", "1"])).contains("6 x 1"));
    assert!(succeed(&mut run(["3", ""])).contains("3 x 2"));
    assert!(succeed(&mut run(["", ""])).contains("2 x 3"));
    fail(&mut run(["4", "1"]), 1, "are not 6 nodes");
}

/// Together the programs call every function of both headers.
fn every_function(stage: &Stage) {
    let names = PROGRAMS.iter().chain(&["ends", "wrong", "sizes", "interoperation"]);
    let called_by = |name: &&str| {
        let program = compile(stage, name);
        let called = succeed(Command::new("nm").args(["-u", "-f", "posix"]).arg(&program));
        called.lines().filter_map(|line| line.split([' ', '@']).next().map(str::to_owned)).collect::<Vec<_>>()
    };
    let called: BTreeSet<String> = names.flat_map(called_by).collect();
    let all = declared("xmp.h").into_iter().chain(declared("kumiki_xmp.h"));
    let never: Vec<String> = all.filter(|name| !called.contains(name)).collect();
    assert!(never.is_empty(), "never called: {never:?}");
}

/// A program that uses both, and one of MPI that calls an XMP library, under the launchers of MPI: nothing else says how the processes meet.
fn beside_mpi(stage: &Stage) {
    for (mpi, options) in [("openmpi", &["--oversubscribe"][..]), ("mpich", &[][..])] {
        for (define, said) in [("-DWITH_MPI", "interoperation: ok"), ("-DWITH_MPI -DLIBRARY", "library: ok")]
        {
            let program = stage.path("built").join(format!("xmp-{mpi}-{}", define.len()));
            let mut compiler = Command::new(format!("mpicc.{mpi}"));
            compiler.args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-I"]).arg(stage.path("include"));
            compiler.args(define.split(' ')).arg(repository().join("tests/c/xmp/interoperation.c"));
            let rpath = format!("-Wl,-rpath,{}", stage.path("lib").display());
            compiler.arg("-L").arg(stage.path("lib")).args([rpath.as_str(), "-lkumiki", "-o"]);
            succeed(compiler.arg(&program));
            let mut job = Command::new(format!("mpirun.{mpi}"));
            job.args(options).args(["-n", "3"]).arg(&program);
            job.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            let printed = succeed(&mut job);
            assert!(printed.contains(said), "{printed}");
        }
    }
}
