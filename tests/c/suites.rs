//! The programs, each compiled as C and as C++ without a warning, on 1 to 4 ranks, in shared memory and over TCP.

use crate::stage::{succeed, Language, Stage};
use crate::{test, Test};

/// A program, and the arguments it gets.
pub(crate) const PROGRAMS: &[(&str, &[&str])] = &[
    ("infrastructure", &["--acp-size-smem", "10240", "one", "-x", "--acp-taskid", "7", "two"]),
    ("memory", &[]),
    ("copy", &[]),
    ("atomics", &[]),
    ("heap", &[]),
    ("vector", &[]),
    ("deque", &[]),
    ("map", &[]),
    ("set", &[]),
    ("multiset", &[]),
    ("kumiki_api", &[]),
];

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
