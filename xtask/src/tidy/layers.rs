//! The layers inside crates. In `kumiki` the data structures and the communication stand below arrays, joining and coupling;
//! in `kumiki-mem` the memory of the node stands below the engine, and that below the drive; the rooms of the agent stand on what
//! is said between them. What stands below may not reach up.

use proc_macro2::{Delimiter, TokenTree};

use super::source::{as_group, is_mark, is_word, line_of};
use super::tree::Tree;
use super::Violation;

/// A module, and those beside it that it may not use.
struct Layer {
    sources: &'static str,
    /// The module that all of them are in; none if that is the root of the crate.
    inside: Option<&'static str>,
    lower: &'static str,
    upper: &'static [&'static str],
}

const LAYERS: [Layer; 8] = [
    in_crate("crates/kumiki/src/", "data", &["array", "join", "couple"]),
    in_crate("crates/kumiki/src/", "comm", &["array", "join", "couple"]),
    in_crate("crates/mem/src/", "node", &["engine", "drive"]),
    in_crate("crates/mem/src/", "engine", &["drive"]),
    in_agent("talk", &["hub", "node", "process", "strangers", "meeting", "portfile", "rank", "bootstrap"]),
    in_agent("hub", &["node", "process", "strangers", "meeting", "portfile", "rank", "bootstrap"]),
    in_agent("node", &["hub", "strangers", "meeting", "portfile", "rank", "bootstrap"]),
    in_agent("strangers", &["rank", "bootstrap"]),
];

const fn in_crate(sources: &'static str, lower: &'static str, upper: &'static [&'static str]) -> Layer {
    Layer { sources, inside: None, lower, upper }
}

/// A room of the agent. Some of their modules go by a shorter name, too.
const fn in_agent(lower: &'static str, upper: &'static [&'static str]) -> Layer {
    Layer { sources: "crates/net/src/agent/", inside: Some("agent"), lower, upper }
}

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, source) in tree.sources() {
        for layer in &LAYERS {
            let module = path.strip_prefix(layer.sources).and_then(|path| path.strip_suffix(".rs"));
            let Some(module) = module else { continue };
            let parts: Vec<&str> = module.split('/').filter(|part| *part != "mod").collect();
            if parts.first() != Some(&layer.lower) {
                continue;
            }
            source.each_level(&mut |level| {
                for (line, upper) in (0..level.len()).flat_map(|at| reaches_up(level, at, parts.len(), layer))
                {
                    let lower = layer.lower;
                    found.push(Violation::new(
                        path,
                        line,
                        format!("{lower} uses {upper}"),
                        format!("move what both need into {lower}, or this code into {upper}"),
                    ));
                }
            });
        }
    }
    found
}

/// The upper modules that the path which starts at `at` names, in a module `depth` below the one that they are in.
fn reaches_up(level: &[TokenTree], at: usize, depth: usize, layer: &Layer) -> Vec<(usize, &'static str)> {
    let above = layer.upper;
    let Some(rest) = after_root(&level[at..], depth, layer.inside) else { return Vec::new() };
    if let Some(group) = as_group(rest.first(), Delimiter::Brace) {
        let inside: Vec<TokenTree> = group.stream().into_iter().collect();
        let parts = inside.split(|token| is_mark(Some(token), ','));
        return parts.filter_map(|part| upper(part.first(), above)).collect();
    }
    upper(rest.first(), above).into_iter().collect()
}

/// What follows `crate::`, or as many `super::` as lead to where the modules are.
fn after_root<'a>(path: &'a [TokenTree], depth: usize, inside: Option<&str>) -> Option<&'a [TokenTree]> {
    let named = after(path, "crate").and_then(|rest| inside.map_or(Some(rest), |module| after(rest, module)));
    named.or_else(|| (0..depth).try_fold(path, |rest, _| after(rest, "super")))
}

/// What follows `word::`.
fn after<'a>(path: &'a [TokenTree], word: &str) -> Option<&'a [TokenTree]> {
    let follows = is_word(path.first(), word) && is_mark(path.get(1), ':') && is_mark(path.get(2), ':');
    follows.then(|| &path[3..])
}

fn upper(token: Option<&TokenTree>, above: &[&'static str]) -> Option<(usize, &'static str)> {
    let name = above.iter().find(|name| is_word(token, name))?;
    Some((line_of(token?), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        check(&Tree::of(&[(path, text)]))
            .into_iter()
            .map(|violation| (violation.line, violation.what))
            .collect()
    }

    #[test]
    fn reaching_down_and_sideways_passes() {
        let text =
            "use crate::comm::{join, Channel};\nuse super::array;\nuse std::array;\n// use crate::array;\n";
        assert_eq!(found("crates/kumiki/src/data/vector.rs", text), []);
        assert_eq!(found("crates/kumiki/src/array/mod.rs", "use crate::{array, join};\n"), []);
        assert_eq!(found("crates/cli/src/data/mod.rs", "use crate::array;\n"), []);
    }

    #[test]
    fn reaching_up_is_found() {
        for path in ["crates/kumiki/src/data/vector.rs", "crates/kumiki/src/data.rs"] {
            assert_eq!(found(path, "use crate::array::Array;\n"), [(1, "data uses array".to_owned())]);
        }
        let text = "use crate::{\n    comm,\n    join::Join,\n};\nfn f() { crate::couple::g() }\n";
        let both = [(3, "comm uses join".to_owned()), (5, "comm uses couple".to_owned())];
        assert_eq!(found("crates/kumiki/src/comm/mod.rs", text), both);
    }

    #[test]
    fn the_rooms_of_memory_use_each_other_one_way_only() {
        let upwards = [("node", "engine"), ("node", "drive"), ("engine", "drive")];
        for (lower, upper) in upwards {
            let path = format!("crates/mem/src/{lower}/copy.rs");
            let says = [(1, format!("{lower} uses {upper}"))];
            assert_eq!(found(&path, &format!("use crate::{upper}::Thing;\n")), says);
            assert_eq!(found(&path, &format!("use crate::{{{upper}::Thing, Error}};\n")), says);
            let path = format!("crates/mem/src/{upper}/copy.rs");
            assert_eq!(found(&path, &format!("use crate::{lower}::Thing;\n")), []);
        }
    }

    #[test]
    fn the_rooms_of_the_agent_use_each_other_one_way_only() {
        let order = ["talk", "hub", "strangers", "rank"];
        let room = |name: &str| format!("crates/net/src/agent/{name}/mod.rs");
        for (at, lower) in order.iter().enumerate() {
            for upper in &order[at + 1..] {
                let says = [(1, format!("{lower} uses {upper}"))];
                for path in [format!("crate::agent::{upper}"), format!("super::{{{upper}, report}}")] {
                    assert_eq!(found(&room(lower), &format!("use {path};\n")), says);
                }
                assert_eq!(found(&room(upper), &format!("use crate::agent::{lower};\n")), []);
            }
        }
        assert_eq!(found(&room("node"), "use crate::agent::{hub::Hub, report};\n").len(), 1);
        assert_eq!(found(&room("hub"), "use crate::agent::process;\nuse crate::os::process;\n").len(), 1);
    }

    #[test]
    fn reaching_up_through_super_is_found() {
        assert_eq!(found("crates/kumiki/src/data/mod.rs", "use super::array;\n").len(), 1);
        assert_eq!(found("crates/kumiki/src/data/vector.rs", "use super::super::{array, join};\n").len(), 2);
    }
}
