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
    kmers.into_iter().chain([test("c::programs_of_the_documentation", documented)]).collect()
}

/// The programs in `docs/c.md`, as they stand there.
fn documented(stage: &Stage) {
    let text = std::fs::read_to_string(repository().join("docs/c.md")).expect("the documentation");
    let programs = text.split("\n```c\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let expected = ["0: 100\n1: 101\n2: 102\n", "sum 6\n"];
    let mut count = 0;
    for (program, expected) in programs.zip(expected) {
        let (source, built) = (stage.path("built/documented.c"), stage.path("built/documented"));
        std::fs::write(&source, program).expect("a file");
        let mut compile = stage.command("acpcc");
        succeed(compile.args(["-Wall", "-Wextra", "-Werror"]).arg(&source).arg("-o").arg(&built));
        for nodes in ["1", "2"] {
            let mut job = stage.acprun(&["-np", "3"], &built, &[]);
            assert_eq!(succeed(job.env("KUMIKI_VIRTUAL_NODES", nodes)), expected);
        }
        count += 1;
    }
    assert_eq!(count, expected.len());
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
