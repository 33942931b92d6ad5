//! The readers of the simulator: MGEN, GOAL, traces, graphs, routing tables and network files. The first byte chooses.
//!
//! What must hold: nothing panics; what MGEN reads, its formatter writes in a form that reads and stays the same.
#![no_main]

mod unseeded;

use kumiki_sim::description::{parse, parse_graph, parse_table};
use kumiki_sim::source::{Mistake, Source};
use kumiki_sim::{goal, mgen, replay, Network};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Some((which, text)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let source = Source::new("input", text);
    let shown = |mistake: Mistake| drop(mistake.to_string());
    match which % 8 {
        0 => drop(goal::Schedule::parse(&source).map_err(shown)),
        1 => drop(parse_graph(&source).map_err(shown)),
        2 => drop(parse_table(&source, &Network::torus(&[3, 3])).map_err(shown)),
        // Other files are not read: there is no such folder.
        3 => drop(parse(&source, Path::new("/nowhere")).map_err(shown)),
        4 => drop(replay::Replay::parse(&source, 1.0).map_err(shown)),
        _ => program(&source),
    }
});

fn program(source: &Source) {
    if let Err(mistake) = mgen::Program::new(source, 8, &[], 1) {
        drop(mistake.to_string());
    }
    if let Ok(once) = mgen::format(source) {
        let again = mgen::format(&Source::new("formatted", &once)).expect("what was formatted can be read");
        assert_eq!(once, again);
    }
}
