//! The examples give what is written beside them, whatever the number of ranks and wherever they are.

use crate::job::Job;
use crate::way::{Way, NODES};
use libtest_mimic::{Failed, Trial};

#[path = "../../examples/kmer.rs"]
#[allow(dead_code, unreachable_pub)]
mod kmer_example;

/// The file with the reads, for the ranks.
const READS: &str = "KMER_READS";
const EXPECTED: &str = include_str!("../../examples/kmer.expected");

/// What a rank of the k-mer example does.
pub(crate) fn kmer(_: &'static Way) {
    let reads = std::env::var(READS).expect("the test says where the reads are");
    kmer_example::run(vec![reads, "--check".into()]).expect("the example");
}

fn check_kmer(way: &Way, ranks: u32) -> Result<(), Failed> {
    let name = format!("kumiki-kmer-{}-{}-{ranks}.fasta", std::process::id(), way.name);
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, kmer_example::generate(7)).map_err(|error| error.to_string())?;
    let text = path.to_str().expect("a path in UTF-8");
    let ended = Job::new(way, "example_kmer", ranks).env(READS, text).run();
    let _ = std::fs::remove_file(&path);
    let ended = ended.code(0)?;
    // Each line has the tag of its rank before it.
    let lines = ended.output.lines().map(|line| line.split_once("] ").map_or(line, |(_, rest)| rest));
    let found: String = lines.map(|line| format!("{line}\n")).collect();
    ended.expect(found == EXPECTED, "the output should be that of examples/kmer.expected")
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |way: &'static Way, ranks: u32| {
        Trial::test(format!("{}::example_kmer_{ranks}", way.name), move || check_kmer(way, ranks))
    };
    NODES.iter().flat_map(|way| [1.max(way.nodes), 3, 4].map(|ranks| trial(way, ranks))).collect()
}
