//! `kumiki sim pacing`: what packet pacing does to an all-to-all, as the page docs/pacing.md with its chart.

use super::compare::{self, Case};
use super::input::Settings;
use crate::chart::{Lines, Series, Unit};
use crate::commands::{save, Outcome};
use kumiki_sim::{Pacing, Steps, Time};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  kumiki sim pacing                                  print the page
  kumiki sim pacing --quick                          small networks only, in seconds
  kumiki sim pacing --out pacing.md --png pacing.png";

/// Show what packet pacing does to an all-to-all: the tables and the chart of share/doc/kumiki/docs/pacing.md.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Write the page into this file instead of printing it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draw the chart into this file.
    #[arg(long, value_name = "FILE.png")]
    png: Option<PathBuf>,
    /// Networks of up to 1,024 nodes only.
    #[arg(long)]
    quick: bool,
}

/// Bytes of each message.
const BYTES: u64 = 16 << 10;
/// Sampled steps.
const STEPS: u32 = 17;
const SEED: u64 = 1;
const QUICK_NODES: u64 = 1024;

/// One network and pattern, unpaced and paced.
#[derive(Clone, PartialEq)]
struct Pair {
    pattern: &'static str,
    net: &'static str,
    /// Set-up that differs from the usual, behind a comma.
    setup: &'static str,
    bytes: u64,
    buffers: u32,
    imbalance: Time,
    /// What the gaps of the paced run come from.
    pacing: Pacing,
}

/// What the two runs gave.
struct Gain {
    pair: Pair,
    nodes: u64,
    unpaced: Time,
    paced: Time,
    bound: Time,
}

impl Gain {
    fn gain(&self) -> f64 {
        self.unpaced.as_us() / self.paced.as_us().max(1e-9)
    }
}

/// Networks of one shape each: what a gain depends on beside the number of nodes.
const GROWTH_2D: &[&str] = &["torus:16x8", "torus:32x16", "torus:64x32", "torus:128x64"];
const GROWTH_3D: &[&str] = &["torus:8x4x4", "torus:16x8x8", "torus:32x16x16"];
const DEPTHS: &[u32] = &[2, 4, 8];
/// What else the gain on the deepest network is asked for, and bytes of a message.
const SETUPS: &[(&str, u64)] = &[
    ("", 4 << 10),
    ("", 64 << 10),
    (",lanes=2", BYTES),
    (",lanes=4", BYTES),
    (",routing=adaptive", BYTES),
    (",crossbar=free", BYTES),
    (",injection_room=1", BYTES),
    (",slots=4", BYTES),
    (",channels=dateline", BYTES),
    (",ties=random", BYTES),
];

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let started = Instant::now();
    let pair = |pattern, net, buffers, imbalance| Pair {
        pattern,
        net,
        setup: "",
        bytes: BYTES,
        buffers,
        imbalance,
        pacing: Pacing::Overlap,
    };
    let shown @ (flat, middle, deep) = match arguments.quick {
        true => ("torus:32x16", "torus:32x16", "torus:16x8x8"),
        false => ("torus:128x64", "torus:64x32", "torus:32x16x16"),
    };
    let mut pairs = Vec::new();
    for net in GROWTH_2D.iter().chain(GROWTH_3D) {
        // Deep buffers are of interest where there is most to gain.
        for depth in DEPTHS.iter().filter(|depth| **depth < 8 || *net == flat || *net == deep) {
            pairs.push(pair("shift-pairwise", *net, *depth, Time::ZERO));
        }
    }
    for microseconds in [1, 5, 20, 50] {
        pairs.push(pair("shift-pairwise", middle, 2, Time::from_us(microseconds)));
    }
    for net in [flat, deep] {
        pairs.push(pair("xor-pairwise", net, 2, Time::ZERO));
        pairs.push(Pair { pacing: Pacing::Hops, ..pair("xor-pairwise", net, 2, Time::ZERO) });
        pairs.push(pair("random-ring", net, 2, Time::ZERO));
    }
    for &(setup, bytes) in SETUPS {
        pairs.push(Pair { setup, bytes, ..pair("shift-pairwise", deep, 2, Time::ZERO) });
    }
    if arguments.quick {
        pairs.retain(|pair| nodes(pair.net) <= QUICK_NODES);
    }
    let gains = measure(&pairs)?;
    let page = page(&gains, shown, arguments.png.is_some());
    if let Some(path) = &arguments.png {
        draw(&gains, path)?;
    }
    match &arguments.out {
        Some(path) => {
            kumiki_run::report(&format!("made in {:.0} s", started.elapsed().as_secs_f64()));
            save(path, &page).map(|()| 0)
        }
        None => super::super::print(&page),
    }
}

fn nodes(net: &str) -> u64 {
    kumiki_sim::Network::parse_short(net).map_or(u64::MAX, |network| network.nodes())
}

fn measure(pairs: &[Pair]) -> Result<Vec<Gain>, String> {
    let case = |pair: &Pair, pacing: Pacing| Case {
        program: pair.pattern.into(),
        net: format!("{}{}", pair.net, pair.setup),
        settings: Settings {
            bytes: pair.bytes,
            // A random ring has one step that is repeated with other rings.
            steps: Steps::Sample { count: STEPS, seed: SEED },
            sync_steps: true,
            pacing,
            buffers: Some(pair.buffers),
            imbalance: pair.imbalance,
            ..Settings::default()
        },
        differs: format!("pacing {pacing}"),
    };
    // Unpaced runs are shared by pairs that differ in their pacing only.
    let mut wanted: Vec<Pair> = Vec::new();
    for pair in pairs {
        for pacing in [Pacing::Off, pair.pacing] {
            let one = Pair { pacing, ..pair.clone() };
            if !wanted.contains(&one) {
                wanted.push(one);
            }
        }
    }
    let cases: Vec<Case> = wanted.iter().map(|pair| case(pair, pair.pacing)).collect();
    let results: Vec<(Time, Time)> = compare::run_all(&cases)
        .into_iter()
        .zip(&wanted)
        .map(|(made, pair)| match made {
            Ok(made) => Ok((made.report.time, made.report.bound)),
            Err(error) => Err(format!("{} on {}: {error}", pair.pattern, pair.net)),
        })
        .collect::<Result<_, _>>()?;
    let find = |pair: &Pair, pacing: Pacing| {
        let one = Pair { pacing, ..pair.clone() };
        wanted.iter().position(|other| *other == one).map_or((Time::ZERO, Time::ZERO), |at| results[at])
    };
    Ok(pairs
        .iter()
        .map(|pair| {
            let (unpaced, _) = find(pair, Pacing::Off);
            let (paced, bound) = find(pair, pair.pacing);
            Gain { pair: pair.clone(), nodes: nodes(pair.net), unpaced, paced, bound }
        })
        .collect())
}

const ABOUT_THE_LARGEST: &str = "\
The gain is a property of shallow buffers: with deep ones packets wait there without being in anybody's way.

All messages of a step have the same gap. A shift by 1157 on 128×64 moves most ranks by 9 rows and those at the end of their row by 10;
with a gap for each way the two kinds would keep different periods, and their beat fills buffers of 2 packets: that step takes 2.2 times its
bound, and the 17 steps together 114 % of theirs. With the larger gap for both it takes 1.08 times its bound. What is then above the bound is
mostly latency: the last packet still has its hops to go, at full load one packet time each.
";

const ABOUT_THE_SETUP: &str = "\
What moves the gain is the time without pacing: with it messages of 16 KiB and more come to 103 to 116 % of the bound in every set-up (short ones are
mostly latency). That time depends on how many packets stand in each other's way, so the length of messages and the number of channels count most,
then the depth of their buffers. A gain of 1.3 on 32×16×16, which simpler models give, is one of routers with four channels for each class: buffers of
2 packets each, but eight of them; or one of buffers of 8 packets. What hardly matters: ties, the rule that keeps rings free of deadlock, the number of injection slots.
";

const ABOUT_OTHERS: &str = "\
What the gaps do depends on the schedule. In an exchange by XOR the ranks of one step go over very different distances: gaps by the
counted overlap help, gaps by distance slow those down whose links nobody else wants, and lose. A random ring loads a few links much more than
the others; everyone waits for these with or without gaps.
";

fn page(gains: &[Gain], shown: (&str, &str, &str), with_chart: bool) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_page(&mut text, gains, shown, with_chart);
    text
}

fn write_page(
    text: &mut String,
    gains: &[Gain],
    (flat, middle, deep): (&str, &str, &str),
    with_chart: bool,
) -> std::fmt::Result {
    writeln!(text, "# Packet pacing\n")?;
    writeln!(
        text,
        "<!-- Made by `kumiki sim pacing --out docs/pacing.md --png docs/images/pacing.png`; do not edit. -->\n\n\
         A sender that leaves a gap between the packets of a message keeps the buffers on its way free for others. The gap is\n\
         (overlap − 1) packet times, where overlap is the largest number of messages of the step on any link, counted from their ways. All\n\
         numbers are simulated: messages of {} KiB, {STEPS} steps drawn by seed {SEED}, all ranks in step, ties split, packets of 2 KiB,\n\
         5 GB/s links, 100 ns a hop, four interfaces a node with two injection slots each. *Bound* is the link-load bound of the same steps:\n\
         no schedule is faster.\n",
        BYTES >> 10
    )?;
    if with_chart {
        writeln!(text, "![gain against the number of nodes](images/pacing.png)\n")?;
    }
    let rows = |text: &mut String, wanted: &dyn Fn(&Pair) -> bool| -> std::fmt::Result {
        writeln!(
            text,
            "| network | nodes | buffers | bound µs | unpaced µs | paced µs | gain | paced / bound |"
        )?;
        writeln!(text, "|---|---|---|---|---|---|---|---|")?;
        for gain in gains.iter().filter(|gain| wanted(&gain.pair)) {
            writeln!(
                text,
                "| {} | {} | {} | {:.0} | {:.0} | {:.0} | **{:.2}** | {:.2} |",
                gain.pair.net,
                gain.nodes,
                gain.pair.buffers,
                gain.bound.as_us(),
                gain.unpaced.as_us(),
                gain.paced.as_us(),
                gain.gain(),
                gain.paced.as_us() / gain.bound.as_us().max(1e-9)
            )?;
        }
        writeln!(text)
    };
    let usual = |pair: &Pair| pair.setup.is_empty() && pair.bytes == BYTES;
    let plain = |pair: &Pair| pair.pattern == "shift-pairwise" && pair.imbalance == Time::ZERO && usual(pair);
    writeln!(text, "## Pairwise exchange on the largest tori\n")?;
    rows(text, &|pair| plain(pair) && (pair.net == flat || pair.net == deep))?;
    writeln!(text, "{}", ABOUT_THE_LARGEST)?;
    writeln!(text, "## What else it depends on\n\nOn {deep} with buffers of 2 packets:\n")?;
    writeln!(text, "| set-up | KiB | unpaced / bound | paced / bound | gain |\n|---|---|---|---|---|")?;
    for gain in gains.iter().filter(|gain| gain.pair.net == deep && !usual(&gain.pair)) {
        let bound = gain.bound.as_us().max(1e-9);
        writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | **{:.2}** |",
            if gain.pair.setup.is_empty() { "as above" } else { &gain.pair.setup[1..] },
            gain.pair.bytes >> 10,
            gain.unpaced.as_us() / bound,
            gain.paced.as_us() / bound,
            gain.gain()
        )?;
    }
    writeln!(text, "\n{}", ABOUT_THE_SETUP)?;
    writeln!(text, "## Growth with the number of nodes\n")?;
    rows(text, &|pair| plain(pair) && pair.buffers == 2)?;
    writeln!(text, "## Imbalance\n\nEach rank computes for a random time up to this before each step, on {middle} with buffers of 2 packets.\n")?;
    writeln!(text, "| imbalance | unpaced µs | paced µs | gain |\n|---|---|---|---|")?;
    for gain in gains.iter().filter(|gain| {
        gain.pair.pattern == "shift-pairwise" && gain.pair.net == middle && gain.pair.buffers == 2
    }) {
        let (unpaced, paced) = (gain.unpaced.as_us(), gain.paced.as_us());
        writeln!(text, "| {} | {unpaced:.0} | {paced:.0} | **{:.2}** |", gain.pair.imbalance, gain.gain())?;
    }
    writeln!(text, "\n## Other schedules\n\n{ABOUT_OTHERS}")?;
    for (pattern, pacing, what) in [
        ("xor-pairwise", Pacing::Overlap, "gaps by the counted overlap"),
        ("xor-pairwise", Pacing::Hops, "gaps by distance, (hops − 1) packet times"),
        ("random-ring", Pacing::Overlap, "gaps by the counted overlap"),
    ] {
        writeln!(text, "{pattern}, {what}:\n")?;
        rows(text, &|pair| pair.pattern == pattern && pair.pacing == pacing)?;
    }
    writeln!(text, "Again by hand: `kumiki sim run shift-pairwise --net {flat} --bytes 16K --steps sample:{STEPS}:{SEED} --sync-steps --buffers 2 --pacing overlap`.")
}

fn draw(gains: &[Gain], path: &std::path::Path) -> Result<(), String> {
    let series = |name: &str, nets: &[&str], buffers: u32| Series {
        name: format!("{name}, buffers of {buffers}"),
        points: gains
            .iter()
            .filter(|gain| gain.pair.pattern == "shift-pairwise" && gain.pair.imbalance == Time::ZERO)
            .filter(|gain| gain.pair.setup.is_empty() && gain.pair.bytes == BYTES)
            .filter(|gain| gain.pair.buffers == buffers && nets.contains(&gain.pair.net))
            .map(|gain| (gain.nodes as f64, gain.gain()))
            .collect(),
    };
    let mut all = Vec::new();
    for buffers in [2, 4] {
        all.push(series("2-D torus", GROWTH_2D, buffers));
        all.push(series("3-D torus", GROWTH_3D, buffers));
    }
    Lines {
        title: "Packet pacing: pairwise exchange, 16 KiB".into(),
        subtitle: "time without pacing / time with it, simulated; more is better".into(),
        x_label: "nodes".into(),
        y_label: "gain".into(),
        x_unit: Unit::Number(""),
        y_unit: Unit::Number("×"),
        series: all,
    }
    .save(path)
}
