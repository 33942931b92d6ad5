//! Networks in TOML files, and the presets that come with the simulator.
//!
//! ```toml
//! name = "our cluster"
//! preset = "infiniband"          # where to begin; may be left out
//! topology = "torus:8x8x8"       # a short form, or a table as below
//!
//! [parameters]
//! link_bandwidth = "5GB/s"
//! buffer_packets = 2
//!
//! [topology]                     # instead of the short form
//! kind = "graph"                 # torus, mesh, grid, fattree, dragonfly or graph
//! file = "ours.graph"            # beside this file
//!
//! [routing]
//! table = "ours.routes"
//! ```
//!
//! An unknown key is answered with the nearest one, and every mistake has its place.

mod graph;
mod table;

pub use graph::parse_graph;
pub use table::parse_table;

use crate::source::{Mistake, Source, Span};
use crate::{Dimension, Network, Routing, Topology};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// Networks that can be named instead of described: name and file.
pub const PRESETS: &[(&str, &str)] = &[
    ("k", include_str!("../../networks/k.toml")),
    ("k-rack", include_str!("../../networks/k-rack.toml")),
    ("fx10", include_str!("../../networks/fx10.toml")),
    ("infiniband", include_str!("../../networks/infiniband.toml")),
    ("infiniband-tapered", include_str!("../../networks/infiniband-tapered.toml")),
];

/// A network by whatever the user calls it: a file, a preset or a short form.
///
/// ```
/// assert_eq!(kumiki_sim::description::network("torus:4x4").unwrap().nodes(), 16);
/// assert!(kumiki_sim::description::network("infiniband").unwrap().nodes() > 500);
/// ```
pub fn network(text: &str) -> Result<Network, String> {
    if text.ends_with(".toml") || Path::new(text).is_file() {
        let source = Source::read(Path::new(text))?;
        let folder = Path::new(text).parent().unwrap_or(Path::new(""));
        return Ok(parse(&source, folder)?);
    }
    if let Some((name, file)) = PRESETS.iter().find(|(name, _)| *name == text) {
        return Ok(parse(&Source::new(&format!("preset {name}"), file), Path::new(""))?);
    }
    Network::parse_short(text).map_err(|error| {
        let presets: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
        let near = match crate::source::nearest(text, presets.iter().copied()) {
            Some(near) if !text.contains(':') => format!("; maybe you meant `{near}`"),
            _ => String::new(),
        };
        format!(
            "{error}\n  a network is a file NAME.toml, a preset ({}) or a short form{near}",
            presets.join(", ")
        )
    })
}

/// Reads a network file; other files that it names are looked for in `folder`.
pub fn parse(source: &Source, folder: &Path) -> Result<Network, Mistake> {
    let document = DeTable::parse(&source.text).map_err(|error| {
        let at = error.span().map_or(Span::default(), |span| Span::new(span.start, span.end));
        source.mistake(at, error.message().to_string())
    })?;
    Reader { source, folder }.network(document.get_ref())
}

type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;
type Field<'a> = Spanned<DeValue<'a>>;

struct Reader<'a> {
    source: &'a Source,
    folder: &'a Path,
}

const KEYS: &[&str] = &["name", "preset", "topology", "parameters", "routing"];
const KINDS: &[&str] = &["torus", "mesh", "grid", "fattree", "dragonfly", "graph"];

impl Reader<'_> {
    fn network(&self, document: &DeTable<'_>) -> Result<Network, Mistake> {
        self.known(document, KEYS, "a network")?;
        let mut network = match (document.get("preset"), document.get("topology")) {
            (Some(preset), _) => self.preset(preset)?,
            (None, Some(_)) => {
                Network::new("", Topology::Grid(vec![Dimension { size: 1, wraps: false, links: 1 }]))
            }
            (None, None) => {
                let message = "expected `topology` (such as \"torus:8x8x8\") or `preset`, found neither";
                return Err(self.source.mistake(Span::default(), message));
            }
        };
        if let Some(topology) = document.get("topology") {
            let described = self.topology(topology)?;
            network.topology = described.topology;
            network.name = described.name;
            network.parameters =
                if document.get("preset").is_some() { network.parameters } else { described.parameters };
        }
        if let Some(parameters) = document.get("parameters") {
            self.parameters(parameters, &mut network)?;
        }
        if let Some(routing) = document.get("routing") {
            self.routing(routing, &mut network)?;
        }
        if let Some(name) = document.get("name") {
            network.name = self.text(name)?.to_string();
        }
        self.check(document, &network)?;
        Ok(network)
    }

    /// What the short form checks too: sizes and parameters that can be built.
    fn check(&self, document: &DeTable<'_>, network: &Network) -> Result<(), Mistake> {
        let at = document.get("parameters").or(document.get("topology")).map_or(Span::default(), span);
        crate::short::check(network).map_err(|error| self.source.mistake(at, error.to_string()))
    }

    fn preset(&self, name: &Field<'_>) -> Result<Network, Mistake> {
        let wanted = self.text(name)?;
        let names = || PRESETS.iter().map(|(name, _)| *name);
        match PRESETS.iter().find(|(known, _)| *known == wanted) {
            Some((known, file)) => parse(&Source::new(&format!("preset {known}"), file), Path::new("")),
            None => {
                let message = format!(
                    "there is no preset `{wanted}`; there are {}",
                    names().collect::<Vec<_>>().join(", ")
                );
                Err(self.source.mistake(span(name), message).with_nearest(wanted, names()))
            }
        }
    }

    fn topology(&self, field: &Field<'_>) -> Result<Network, Mistake> {
        let here = |error: crate::Error| self.source.mistake(span(field), error.to_string());
        if let Some(short) = field.get_ref().as_str() {
            return Network::parse_short(short).map_err(here);
        }
        let Some(table) = field.get_ref().as_table() else {
            return Err(self
                .source
                .mistake(span(field), "expected a short form such as \"torus:8x8x8\", or a table"));
        };
        let Some(kind) = table.get("kind") else {
            let message = format!("expected `kind`, one of {}", KINDS.join(", "));
            return Err(self.source.mistake(span(field), message));
        };
        let (kind_at, kind) = (span(kind), self.text(kind)?);
        match kind {
            "torus" | "mesh" | "grid" => self.grid(table, kind),
            "fattree" => {
                self.short(table, kind, &["levels", "arity", "taper", "slow", "down", "up"]).map_err(here)
            }
            "dragonfly" => self.short(table, kind, &["groups", "routers", "nodes", "globals"]).map_err(here),
            "graph" => self.graph(table),
            _ => {
                let message = format!("there is no topology `{kind}`; there are {}", KINDS.join(", "));
                Err(self.source.mistake(kind_at, message).with_nearest(kind, KINDS.iter().copied()))
            }
        }
    }

    fn grid(&self, table: &DeTable<'_>, kind: &str) -> Result<Network, Mistake> {
        self.known(table, &["kind", "sizes", "wraps", "links"], kind)?;
        let Some(sizes) = table.get("sizes") else {
            let at = table.get("kind").map_or(Span::default(), span);
            return Err(self.source.mistake(at, format!("a {kind} needs `sizes`, such as [8, 8, 8]")));
        };
        let numbers = self.numbers(sizes)?;
        let wraps = match table.get("wraps") {
            Some(wraps) => self.flags(wraps, numbers.len())?,
            None => vec![kind != "mesh"; numbers.len()],
        };
        let links = table.get("links").map_or(Ok(1), |links| self.number(links))?;
        // The short form knows what can be built.
        let dimension = |(size, wraps): (&u32, &bool)| format!("{size}{}", if *wraps { "" } else { "m" });
        let text: Vec<String> = numbers.iter().zip(&wraps).map(dimension).collect();
        let mut network = Network::parse_short(&format!("grid:{},links={links}", text.join("x")))
            .map_err(|error| self.source.mistake(span(sizes), error.to_string()))?;
        network.name = format!("{kind}:{}", text.join("x"));
        Ok(network)
    }

    /// A table whose keys are those of the short form.
    fn short(&self, table: &DeTable<'_>, kind: &str, keys: &[&str]) -> Result<Network, crate::Error> {
        let wrong = |mistake: Mistake| crate::Error::Network(mistake.to_string());
        let all: Vec<&str> = std::iter::once("kind").chain(keys.iter().copied()).collect();
        self.known(table, &all, kind).map_err(wrong)?;
        let mut settings = Vec::new();
        for (key, value) in table.iter().filter(|(key, _)| key.get_ref() != "kind") {
            let value = match value.get_ref().as_array() {
                Some(_) => self
                    .numbers(value)
                    .map_err(wrong)?
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join("x"),
                None => self.number(value).map_err(wrong)?.to_string(),
            };
            settings.push(format!("{}={value}", key.get_ref()));
        }
        Network::parse_short(&format!("{kind}:{}", settings.join(",")))
    }

    fn graph(&self, table: &DeTable<'_>) -> Result<Network, Mistake> {
        self.known(table, &["kind", "file"], "a graph")?;
        let Some(file) = table.get("file") else {
            let at = table.get("kind").map_or(Span::default(), span);
            return Err(self.source.mistake(at, "a graph needs `file`, the name of its file"));
        };
        let graph_source = self.file(file)?;
        let graph = parse_graph(&graph_source)?;
        Ok(Network::new(&format!("graph:{}", self.text(file)?), Topology::Graph(Arc::new(graph))))
    }

    fn parameters(&self, field: &Field<'_>, network: &mut Network) -> Result<(), Mistake> {
        let table = self.table(field, "parameters")?;
        let known: Vec<&str> = network.parameters.list().iter().map(|(name, _)| *name).collect();
        self.known(table, &known, "parameters")?;
        // Interfaces are as fast as the links unless something else is said, as in short forms.
        let own_interfaces = table.get("nic_bandwidth").is_some() || table.get("link_bandwidth").is_none();
        for (key, value) in table {
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.as_str().replace('_', ""),
                _ => {
                    return Err(self
                        .source
                        .mistake(span(value), "expected a number, or a text such as \"5GB/s\""))
                }
            };
            crate::set_parameter(&mut network.parameters, key.get_ref(), &text).map_err(|error| {
                let message = error.to_string();
                self.source.mistake(span(value), message.trim_start_matches("network: ").to_string())
            })?;
        }
        if !own_interfaces {
            network.parameters.nic_bandwidth = Some(network.parameters.link_bandwidth);
        }
        Ok(())
    }

    fn routing(&self, field: &Field<'_>, network: &mut Network) -> Result<(), Mistake> {
        if let Some(text) = field.get_ref().as_str() {
            network.parameters.routing = text.parse().map_err(|error: String| {
                self.source.mistake(span(field), error).with_nearest(text, Routing::NAMES.iter().copied())
            })?;
            return Ok(());
        }
        let table = self.table(field, "routing")?;
        self.known(table, &["table"], "routing")?;
        if let Some(file) = table.get("table") {
            let routes = self.file(file)?;
            network.parameters.routing = Routing::Table(Arc::new(parse_table(&routes, network)?));
        }
        Ok(())
    }

    // ---- values ----

    fn known(&self, table: &DeTable<'_>, known: &[&str], of: &str) -> Result<(), Mistake> {
        let unknown = table.iter().find(|(key, _)| !known.contains(&&**key.get_ref()));
        let Some((key, _)) = unknown else { return Ok(()) };
        let name: &str = key.get_ref();
        let message = format!("there is no key `{name}` in {of}; there are {}", known.join(", "));
        Err(self.source.mistake(key_span(key), message).with_nearest(name, known.iter().copied()))
    }

    fn table<'t, 'i>(&self, field: &'t Field<'i>, name: &str) -> Result<&'t DeTable<'i>, Mistake> {
        let mistake = || self.source.mistake(span(field), format!("expected a table [{name}]"));
        field.get_ref().as_table().ok_or_else(mistake)
    }

    fn text<'t>(&self, field: &'t Field<'_>) -> Result<&'t str, Mistake> {
        field.get_ref().as_str().ok_or_else(|| self.source.mistake(span(field), "expected a text in quotes"))
    }

    fn number(&self, field: &Field<'_>) -> Result<u32, Mistake> {
        let number =
            field.get_ref().as_integer().and_then(|number| number.as_str().replace('_', "").parse().ok());
        number.ok_or_else(|| self.source.mistake(span(field), "expected a whole number, 0 or more"))
    }

    fn numbers(&self, field: &Field<'_>) -> Result<Vec<u32>, Mistake> {
        let Some(array) = field.get_ref().as_array() else {
            return Err(self.source.mistake(span(field), "expected a list of numbers such as [8, 8, 8]"));
        };
        array.iter().map(|number| self.number(number)).collect()
    }

    fn flags(&self, field: &Field<'_>, count: usize) -> Result<Vec<bool>, Mistake> {
        let wrong =
            || self.source.mistake(span(field), format!("expected a list of {count} times true or false"));
        let array = field.get_ref().as_array().filter(|array| array.len() == count).ok_or_else(wrong)?;
        array.iter().map(|flag| flag.get_ref().as_bool().ok_or_else(wrong)).collect()
    }

    /// The text of a file that this one names.
    fn file(&self, field: &Field<'_>) -> Result<Source, Mistake> {
        let path: PathBuf = self.folder.join(self.text(field)?);
        Source::read(&path).map_err(|error| self.source.mistake(span(field), error))
    }
}

fn span(field: &Field<'_>) -> Span {
    Span::new(field.span().start, field.span().end)
}

fn key_span(key: &Key<'_>) -> Span {
    Span::new(key.span().start, key.span().end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Network, Mistake> {
        parse(&Source::new("n.toml", text), Path::new("/nowhere"))
    }

    #[test]
    fn every_preset_can_be_built() {
        for (name, _) in PRESETS {
            let network = network(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(network.nodes() >= 96, "{name} has {} nodes", network.nodes());
        }
    }

    #[test]
    fn a_file_starts_from_a_preset_and_changes_it() {
        let network =
            parse_text("preset = \"k-rack\"\n[parameters]\nbuffer_packets = 2\nlink_latency = \"50ns\"\n")
                .unwrap();
        assert_eq!((network.parameters.buffer_packets, network.parameters.link_latency.as_ns()), (2, 50.0));
        let network =
            parse_text("name = \"x\"\n[topology]\nkind = \"grid\"\nsizes = [4, 3]\nwraps = [true, false]\n")
                .unwrap();
        assert_eq!((network.name.as_str(), network.nodes()), ("x", 12));
        let network = parse_text("[topology]\nkind = \"fattree\"\ndown = [4, 4]\nup = [2]\n").unwrap();
        assert_eq!(network.nodes(), 16);
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_place() {
        for (text, place, part) in [
            ("topologie = \"torus:4x4\"\n", (1, 1), "maybe you meant `topology`"),
            (
                "topology = \"torus:4x4\"\n[parameters]\nlink_bandwith = \"5GB/s\"\n",
                (3, 1),
                "maybe you meant `link_bandwidth`",
            ),
            (
                "topology = \"torus:4x4\"\n[parameters]\nlink_bandwidth = \"fast\"\n",
                (3, 18),
                "does not begin with a number",
            ),
            ("topology = \"tours:4x4\"\n", (1, 12), "unknown topology"),
            ("[topology]\nkind = \"grpah\"\n", (2, 8), "maybe you meant `graph`"),
            ("[topology]\nkind = \"graph\"\nfile = \"a.graph\"\n", (3, 8), "cannot read"),
            ("[topology]\nkind = \"torus\"\nsizes = [4, -1]\n", (3, 13), "whole number"),
            ("preset = \"kk\"\n", (1, 10), "maybe you meant `k`"),
            ("topology = \"torus:4x4\"\nrouting = \"adaptiv\"\n", (2, 11), "maybe you meant `adaptive`"),
            ("topology = torus\n", (1, 12), ""),
            ("name = \"x\"\n", (1, 1), "`preset`"),
        ] {
            let mistake = parse_text(text).unwrap_err();
            assert!(mistake.to_string().contains(part), "{text}: {mistake}");
            assert_eq!((mistake.line, mistake.column), place, "{text}: {mistake}");
        }
    }
}
