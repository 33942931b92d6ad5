//! `kumiki info`: what this build is, what it can do, what it costs and which variables it reads.

use super::Outcome;
use kumiki_run::environment::{self, Variable};
use kumiki_run::{figures, Options};
use serde_json::{json, Value};

const EXAMPLES: &str = "\
Examples:
  kumiki info                                   version, transports, sizes, defaults, environment variables
  kumiki info --json | jq .sizes
  kumiki info --environment-markdown            the table of share/doc/kumiki/docs/environment.md";

/// Show what this build is, what it costs and which variables it reads.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// As one JSON object.
    #[arg(long, conflicts_with = "environment_markdown")]
    json: bool,
    /// The environment variables only, as the table of share/doc/kumiki/docs/environment.md.
    #[arg(long)]
    environment_markdown: bool,
}

/// A name, a number of bytes, and what is promised about it.
struct Size {
    name: &'static str,
    bytes: u64,
    /// The promise of the design; `None` where there is none.
    at_most: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    super::print(&if arguments.environment_markdown {
        environment::render_markdown()
    } else if arguments.json {
        format!("{:#}\n", as_json())
    } else {
        as_text()
    })
}

/// What there is to know about the build, by name.
fn build() -> Vec<(&'static str, String)> {
    let profile =
        if cfg!(debug_assertions) { "debug (with checks; not for measurements)" } else { "release" };
    vec![
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("build", profile.into()),
        ("machine", format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)),
        ("rust", format!("{} or newer", env!("CARGO_PKG_RUST_VERSION"))),
        ("wire protocol", format!("version {}", figures::WIRE_VERSION)),
    ]
}

/// The ways in which ranks reach each other, and whether this build has them.
const TRANSPORTS: &[(&str, bool, &str)] = &[
    ("arena", true, "ranks of one node: a shared mapping, plain loads, stores and CPU atomics"),
    ("tcp", true, "ranks of different nodes: connections at first use, authenticated"),
    ("ofi", false, "libfabric: not in this version"),
];

fn sizes() -> Vec<Size> {
    let size = |name, bytes, at_most| Size { name, bytes, at_most };
    let mut sizes = vec![
        size("private, for a peer never spoken to", 0, Some(0)),
        size("private, for a connected TCP peer", figures::CONNECTION_BYTES, Some(512)),
        size(
            "arena, for a rank beside starter memory and heap",
            figures::FIXED_BYTES_PER_RANK,
            Some(16 << 10),
        ),
        size("arena, once a node, for each rank of the world", figures::WORLD_BYTES_PER_RANK, Some(8)),
        size("arena, once a node, for each node of the world", figures::WORLD_BYTES_PER_NODE, Some(64)),
        size("arena, for an entry of a region table", figures::REGION_ENTRY_BYTES, None),
        size("frame before its payload", figures::FRAME_HEADER_BYTES, None),
        size("payload of a frame that is copied, at most", figures::PIECE_BYTES, None),
    ];
    if let Some(ledger) = own_ledger() {
        sizes.push(size("private, for an operation that is not complete", ledger.bytes_per_operation, None));
        sizes.push(size("private, fixed state of a rank by its ledger", ledger.private_bytes(), None));
    }
    sizes
}

/// The books of a world of one, made and left here; none if this process belongs to a job.
fn own_ledger() -> Option<kumiki::Ledger> {
    let in_job = ["KUMIKI_AGENT_FD", "KUMIKI_MASTER"].iter().any(|name| std::env::var_os(name).is_some());
    if in_job {
        return None;
    }
    let world = kumiki::World::init().ok()?;
    let ledger = world.ledger();
    world.finalize().ok()?;
    Some(ledger)
}

/// What `kumiki run` does when it is not told otherwise.
fn defaults() -> Vec<(&'static str, String)> {
    let options = Options::default();
    vec![
        ("--starter", format!("{} bytes", options.terms.starter_bytes)),
        ("--connections", options.terms.connection_cap.to_string()),
        ("--peer-timeout", format!("{} s", options.terms.peer_timeout_ms / 1000)),
        ("--on-loss", "abort".into()),
        ("--bind", "none".into()),
        ("--ssh", options.ssh),
        ("region table", format!("{} slots", figures::SLOTS)),
    ]
}

fn as_json() -> Value {
    let object = |pairs: Vec<(&str, String)>| -> Value {
        pairs.into_iter().map(|(name, value)| (name.replace(' ', "_"), Value::from(value))).collect()
    };
    let sizes: Vec<Value> = sizes()
        .iter()
        .map(|size| json!({"name": size.name, "bytes": size.bytes, "at_most": size.at_most}))
        .collect();
    let transports: Vec<Value> = TRANSPORTS
        .iter()
        .map(|(name, built, what)| json!({"name": name, "built": built, "what": what}))
        .collect();
    let variables: Vec<Value> = environment::VARIABLES
        .iter()
        .map(|Variable { name, default, meaning, reader }| {
            json!({"name": name, "default": default, "reader": reader.to_string(), "meaning": meaning,
                   "value": value_of(name)})
        })
        .collect();
    json!({"build": object(build()), "transports": transports, "sizes": sizes, "defaults": object(defaults()),
           "environment": variables})
}

fn value_of(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn as_text() -> String {
    let mut lines = Vec::new();
    lines.extend(build().iter().map(|(name, value)| format!("{name:<14} {value}")));
    lines.push("\nTransports".into());
    for (name, built, what) in TRANSPORTS {
        lines.push(format!("  {name:<6} {:<4} {what}", if *built { "yes" } else { "no" }));
    }
    lines.push("\nSizes in bytes (what asserts each: share/doc/kumiki/docs/memory.md)".into());
    for Size { name, bytes, at_most } in sizes() {
        let promise = at_most.map_or(String::new(), |most| format!("  (promised: at most {most})"));
        lines.push(format!("  {name:<50} {bytes:>7}{promise}"));
    }
    lines.push("\nDefaults of kumiki run".into());
    lines.extend(defaults().iter().map(|(name, value)| format!("  {name:<15} {value}")));
    lines.push("\nEnvironment variables (* is set now)".into());
    for Variable { name, default, meaning, .. } in environment::VARIABLES {
        let mark = if std::env::var_os(name).is_some() { '*' } else { ' ' };
        lines.push(format!("{mark} {name:<22} {} [{default}]", meaning.replace('`', "")));
    }
    lines.join("\n") + "\n"
}
