//! The examples in C give what is written beside them, whatever the number of ranks and wherever they are.

use crate::stage::{succeed, Language, Stage};
use crate::{test, Test};

#[path = "../../examples/kmer.rs"]
#[allow(dead_code, unreachable_pub)]
mod kmer_example;

const EXPECTED: &str = include_str!("../../examples/kmer.expected");

pub(crate) fn tests() -> Vec<Test> {
    Language::BOTH
        .map(|language| {
            test(format!("{}::example_kmer", language.name()), move |stage| kmer(stage, language))
        })
        .into()
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
