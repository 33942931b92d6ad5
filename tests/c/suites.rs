//! The programs, each compiled as C and as C++ without a warning, on 1 to 4 ranks, in shared memory and over TCP.

use crate::headers::declared;
use crate::stage::{program_source, succeed, Language, Stage};
use crate::{test, Test};
use std::collections::BTreeSet;

/// A program, and the arguments it gets.
pub(crate) const PROGRAMS: &[(&str, &[&str])] = &[
    ("infrastructure", &["--acp-size-smem", "10240", "one", "-x", "--acp-taskid", "7", "two"]),
    ("memory", &[]),
    ("copy", &[]),
    ("atomics", &[]),
    ("heap", &[]),
    ("vector", &[]),
    ("deque", &[]),
    ("list", &[]),
    ("map", &[]),
    ("set", &[]),
    ("multiset", &[]),
    ("workspace", &[]),
    ("channels", &[]),
    ("segbuf", &[]),
    ("edges", &[]),
    ("habits", &[]),
    ("wrong", &[]),
    ("kumiki_api", &[]),
    ("kumiki_words", &[]),
    ("kumiki_messages", &[]),
    ("kumiki_groups", &[]),
    ("kumiki_patterns", &[]),
];

/// Whether a program is one of `kumiki.h`.
pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with("kumiki_")
}

pub(crate) fn tests() -> Vec<Test> {
    let programs = PROGRAMS.iter().flat_map(|program| Language::BOTH.map(|language| (program, language)));
    let mut tests: Vec<Test> = programs
        .map(|(&(name, words), language)| {
            test(format!("{}::{name}", language.name()), move |stage: &Stage| {
                everywhere(stage, name, language, words)
            })
        })
        .collect();
    tests.push(test("c::statically_linked", statically_linked));
    tests.push(test("c::every_function_in_one_program", every_function));
    tests.push(test("c::every_function_of_kumiki", every_function_of_kumiki));
    tests
}

fn everywhere(stage: &Stage, name: &str, language: Language, words: &[&str]) {
    let program = stage.compile(name, language, &[]);
    for ranks in 1..=4 {
        // All on one node, one node a rank, and two nodes; and private memory that neighbours may not touch.
        let mut ways = vec![(1, "auto"), (1, "off"), (ranks, "auto"), (2.min(ranks), "auto")];
        ways.sort_unstable();
        ways.dedup();
        for (nodes, process_vm) in ways {
            let count = ranks.to_string();
            succeed(
                stage
                    .acprun(&["-np", &count, "-smemsize", "10240"], &program, words)
                    .env("KUMIKI_VIRTUAL_NODES", nodes.to_string())
                    .env("KUMIKI_PROCESS_VM", process_vm)
                    .env("EXPECTED_PROCS", &count),
            );
        }
    }
    // Without a launcher: one process, with 10240 bytes of starter memory.
    let mut alone = std::process::Command::new(&program);
    succeed(alone.args(words).env("EXPECTED_PROCS", "1"));
}

/// The library inside the program, and the rest dynamic.
fn statically_linked(stage: &Stage) {
    let archive = stage.path("lib/libkumiki.a");
    let libraries = [archive.to_str().expect("a path"), "-lpthread", "-lm", "-ldl", "-lrt"];
    let program = stage.compile("copy", Language::C, &libraries);
    succeed(&mut stage.acprun(&["-np", "2"], &program, &[]));
}

/// All programs in one, which starts and ends a world for each.
pub(crate) fn all_in_one(stage: &Stage, name: &str) -> std::path::PathBuf {
    let program = stage.path("built").join(name);
    let mut link = stage.command("acpcc");
    link.args(["-g", "-O1"]).arg(program_source("every"));
    let names = PROGRAMS.iter().map(|(name, _)| *name).filter(|name| !is_ours(name));
    for part in names.chain(["failures"]) {
        let object = stage.path("built").join(format!("{name}-{part}.o"));
        let mut compile = stage.command("acpcc");
        compile.args(["-Wall", "-Wextra", "-Werror", "-g", "-O1", "-c"]).arg(format!("-Dmain={part}_main"));
        succeed(compile.arg(program_source(part)).arg("-o").arg(&object));
        link.arg(object);
    }
    succeed(link.arg("-o").arg(&program));
    program
}

/// What a program calls of libraries.
fn called_by(program: &std::path::Path) -> BTreeSet<String> {
    let called = succeed(std::process::Command::new("nm").args(["-u", "-f", "posix"]).arg(program));
    called.lines().filter_map(|line| line.split([' ', '@']).next()).map(str::to_owned).collect()
}

/// Together those of `kumiki.h` call every function of it.
fn every_function_of_kumiki(stage: &Stage) {
    // One of them is no job of one launcher: `joined.rs` starts it.
    let ours = PROGRAMS.iter().map(|(name, _)| *name).filter(|name| is_ours(name)).chain(["kumiki_join"]);
    let called: BTreeSet<String> =
        ours.flat_map(|name| called_by(&stage.compile(name, Language::C, &["-DCALLED"]))).collect();
    let never: Vec<String> = declared("kumiki.h").into_iter().filter(|name| !called.contains(name)).collect();
    assert!(never.is_empty(), "never called: {never:?}");
}

/// Together the programs call every function that there is.
fn every_function(stage: &Stage) {
    let program = all_in_one(stage, "every");
    let called = called_by(&program);
    let never: Vec<String> = declared("acp.h").into_iter().filter(|name| !called.contains(name)).collect();
    assert!(never.is_empty(), "never called: {never:?}");
    for nodes in ["1", "2"] {
        let mut job = stage.acprun(&["-np", "3", "-smemsize", "10240"], &program, &[]);
        succeed(job.env("KUMIKI_VIRTUAL_NODES", nodes));
    }
}
