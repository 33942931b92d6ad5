//! The examples in C give what is written beside them, whatever the number of ranks and wherever they are.

use crate::stage::{repository, succeed, Language, Stage};
use crate::{test, Test};

#[path = "../../examples/kmer.rs"]
#[allow(dead_code, unreachable_pub)]
mod kmer_example;

const EXPECTED: &str = include_str!("../../examples/kmer.expected");

pub(crate) fn tests() -> Vec<Test> {
    let kmers = Language::BOTH.map(|language| {
        test(format!("{}::example_kmer", language.name()), move |stage| kmer(stage, language))
    });
    let others =
        [test("c::example_cg", conjugate_gradients), test("c::programs_of_the_documentation", documented)];
    kmers.into_iter().chain(others).collect()
}

/// What the programs of `docs/c.md` print. Those behind the first lines of the third one need these before them.
const DOCUMENTED: [&str; 11] = [
    "0: 100\n1: 101\n2: 102\n",
    "sum 6\n",
    "rank 0 has got 200\nrank 1 has got 0\nrank 2 has got 100\n",
    "8000 bytes of rank 2\n",
    "segments come to 45\n",
    "a signal of rank 2\n",
    "1500 of each rank\n",
    "sum 3, smallest at 1, longest -2, even 2\n",
    "below 2, above 1\n",
    "5 particles of rank 2\n",
    "1000 numbers have come\n",
];
const PREAMBLE_AT: usize = 2;

/// The programs in `docs/c.md`, as they stand there.
fn documented(stage: &Stage) {
    let text = std::fs::read_to_string(repository().join("docs/c.md")).expect("the documentation");
    let mut programs: Vec<&str> =
        text.split("\n```c\n").skip(1).filter_map(|rest| rest.split("\n```").next()).collect();
    let preamble = programs.remove(PREAMBLE_AT);
    assert_eq!(programs.len(), DOCUMENTED.len());
    for (index, (program, expected)) in programs.into_iter().zip(DOCUMENTED).enumerate() {
        let (source, built) = (stage.path("built/documented.c"), stage.path("built/documented"));
        let before = if index < PREAMBLE_AT { "" } else { preamble };
        std::fs::write(&source, format!("{before}\n{program}")).expect("a file");
        let mut compile = stage.command("acpcc");
        succeed(compile.args(["-Wall", "-Wextra", "-Werror"]).arg(&source).arg("-o").arg(&built));
        for nodes in ["1", "2"] {
            let mut job = stage.acprun(&["-np", "3"], &built, &[]);
            assert_eq!(succeed(job.env("KUMIKI_VIRTUAL_NODES", nodes)), expected, "{program}");
        }
    }
}

/// The same numbers, however the field is cut.
fn conjugate_gradients(stage: &Stage) {
    let program = stage.compile("examples/cg", Language::C, &["-lm"]);
    for (ranks, nodes) in [("1", "1"), ("4", "1"), ("3", "3"), ("4", "2")] {
        let mut job = stage.acprun(&["-np", ranks], &program, &[]);
        let found = succeed(job.env("KUMIKI_VIRTUAL_NODES", nodes));
        assert_eq!(found, include_str!("../../examples/cg.expected"), "{ranks} ranks on {nodes} nodes");
    }
}

fn kmer(stage: &Stage, language: Language) {
    let program = stage.compile("examples/kmer", language, &[]);
    let reads = stage.path("built").join(format!("reads-{}.fasta", language.name()));
    std::fs::write(&reads, kmer_example::generate(7)).expect("a file");
    let words = [reads.to_str().expect("a path in UTF-8")];
    for (ranks, nodes) in [(1, 1), (4, 1), (3, 3), (4, 2)] {
        let mut command = stage.acprun(&["-np", &ranks.to_string()], &program, &words);
        let found = succeed(command.env("KUMIKI_VIRTUAL_NODES", nodes.to_string()));
        assert!(
            found == EXPECTED,
            "{ranks} ranks on {nodes} nodes give:\n{found}\nand should give:\n{EXPECTED}"
        );
    }
}
