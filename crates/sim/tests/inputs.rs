//! Everything that is shipped or shown can be read, and the tables of the reference page are those of the code.

use kumiki_sim::mgen::{self, verbs, Program};
use kumiki_sim::source::Source;
use kumiki_sim::{description, goal};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "there is no .{ending} in {folder}");
    found
}

fn reference() -> String {
    std::fs::read_to_string(root().join("docs/mgen.md")).unwrap()
}

/// The programs of the reference page.
fn shown() -> Vec<Source> {
    let text = reference();
    let blocks = text.split("```mgen\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let sources: Vec<Source> = blocks
        .enumerate()
        .map(|(i, block)| Source::new(&format!("docs/mgen.md, example {}", i + 1), block))
        .collect();
    assert!(sources.len() >= 5);
    sources
}

fn shipped() -> Vec<Source> {
    files("examples/sim/programs", "mgen").iter().map(|path| Source::read(path).unwrap()).collect()
}

#[test]
fn every_program_is_read_and_formatted() {
    for source in shipped().iter().chain(&shown()) {
        let program = Program::new(source, 16, &[], 0).unwrap_or_else(|mistake| panic!("{mistake}"));
        drop(program);
        assert_eq!(mgen::format(source).unwrap(), *source.text, "{} is not formatted", source.name);
    }
}

#[test]
fn every_network_and_schedule_is_read() {
    for path in files("examples/sim/networks", "toml") {
        description::network(path.to_str().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    }
    for path in files("examples/sim/programs", "goal") {
        goal::Schedule::parse(&Source::read(&path).unwrap()).unwrap_or_else(|mistake| panic!("{mistake}"));
    }
}

/// A table of the reference page: its rows, without the head.
fn table(mark: &str) -> Vec<String> {
    let text = reference();
    let start = text.find(&format!("<!-- {mark} -->")).unwrap();
    text[start..].lines().skip(3).take_while(|line| line.starts_with('|')).map(String::from).collect()
}

#[test]
fn the_reference_lists_what_the_language_has() {
    let arguments = |count: Option<usize>| match count {
        None => "…",
        Some(0) => "",
        Some(1) => "a",
        Some(_) => "a, b",
    };
    let functions: Vec<String> = mgen::BUILTINS
        .iter()
        .map(|(name, _, count, meaning)| format!("| `{name}({})` | {meaning} |", arguments(*count)))
        .collect();
    assert_eq!(table("functions"), functions);

    let words = |list: &[&str]| list.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let amount = |verb: &verbs::Verb| match verb.amount {
        verbs::Amount::Nothing => "",
        verbs::Amount::Bytes => " BYTES",
        verbs::Amount::Time => " TIME",
        verbs::Amount::Handle => " HANDLE",
        verbs::Amount::Flag => " FLAG",
    };
    let (collectives, simple): (Vec<_>, Vec<_>) = verbs::VERBS.iter().partition(|verb| verb.is_collective());
    let rows: Vec<String> = simple
        .iter()
        .map(|verb| {
            let (must, may) = (words(verb.must), words(verb.may));
            format!("| `{}{}` | {must} | {may} | {} |", verb.name, amount(verb), verb.meaning)
        })
        .collect();
    assert_eq!(table("operations"), rows);
    let rows: Vec<String> = collectives
        .iter()
        .map(|verb| {
            let root = verb.must.first().map_or(String::new(), |key| format!(" {key} ROOT"));
            format!(
                "| `{}{}{root}` | {} | {} |",
                verb.name,
                amount(verb),
                words(verb.algorithms),
                verb.meaning
            )
        })
        .collect();
    assert_eq!(table("collectives"), rows);
}
