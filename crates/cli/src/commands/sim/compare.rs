//! `kumiki sim compare`: several programs, networks, pacing values and buffer depths side by side.

use super::input::{self, Settings};
use super::{progress, report};
use crate::chart::{Bars, Group, Scale, Unit};
use crate::commands::Outcome;
use kumiki_sim::{mgen, Pacing, Report};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

const EXAMPLES: &str = "\
Examples:
  kumiki sim compare shift-pairwise xor-pairwise --net torus:8x8x8
  kumiki sim compare halo --net torus:8x8x8 --net infiniband --ranks 512 --png halo.png
  kumiki sim compare shift-pairwise --net torus:32x32 --sync-steps --steps sample:17:1 --pacings off,overlap --depths 2,4,8
  kumiki sim compare examples/sim/programs/allreduce.mgen --net k-rack --vary algorithm=0,1,2 --json

Every combination of program, network and value is simulated, on all cores. `ratio` is the time in parts of the bound;
`beside` the time in parts of the first row.";

/// Simulate several programs, networks or settings side by side.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Patterns or files, as for `kumiki sim run`.
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<String>,
    /// A network; may be repeated.
    #[arg(long = "net", value_name = "NET", required = true)]
    nets: Vec<String>,
    /// Values for --pacing, separated by commas.
    #[arg(long, value_name = "GAPS", value_delimiter = ',')]
    pacings: Vec<Pacing>,
    /// Values for --buffers, separated by commas.
    #[arg(long, value_name = "PACKETS", value_delimiter = ',')]
    depths: Vec<u32>,
    /// Values of a parameter of an MGEN program: k=1,2,4. May be repeated.
    #[arg(long, value_name = "NAME=VALUES")]
    vary: Vec<String>,
    #[command(flatten)]
    settings: Settings,
    /// Draw the times into this file.
    #[arg(long, value_name = "FILE.png")]
    png: Option<PathBuf>,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

/// One run of the comparison.
pub(super) struct Case {
    pub(super) program: String,
    pub(super) net: String,
    pub(super) settings: Settings,
    /// What distinguishes it beside program and network.
    pub(super) differs: String,
}

/// What became of it.
pub(super) struct Outcomes {
    pub(super) report: Report,
    parameters: Vec<(String, String)>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    input::check_parameters(&arguments.settings, arguments.programs.iter())?;
    let cases = cases(arguments)?;
    let results = run_all(&cases);
    let mut rows = Vec::new();
    for (case, result) in cases.iter().zip(results) {
        let name = [&case.program, &case.net, &case.differs].map(|part| part.as_str()).join(" ");
        rows.push((case, result.map_err(|error| format!("{}: {error}", name.trim_end()))?));
    }
    if let Some(path) = &arguments.png {
        draw(&rows, path)?;
    }
    if !arguments.json {
        return super::super::print(&table(&rows));
    }
    let lines: Vec<Value> =
        rows.iter().map(|(_, made)| report::json(&made.report, &made.parameters)).collect();
    super::super::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

fn cases(arguments: &Arguments) -> Result<Vec<Case>, String> {
    let mut variants: Vec<(Settings, Vec<String>)> = vec![(arguments.settings.clone(), Vec::new())];
    // Every list multiplies what there is.
    fn multiply<T>(
        variants: &mut Vec<(Settings, Vec<String>)>,
        values: &[T],
        set: impl Fn(&mut Settings, &T) -> String,
    ) {
        if values.is_empty() {
            return;
        }
        let before = std::mem::take(variants);
        for (settings, words) in before {
            for value in values {
                let (mut settings, mut words) = (settings.clone(), words.clone());
                words.push(set(&mut settings, value));
                variants.push((settings, words));
            }
        }
    }
    multiply(&mut variants, &arguments.pacings, |settings, pacing| {
        settings.pacing = *pacing;
        format!("pacing {pacing}")
    });
    multiply(&mut variants, &arguments.depths, |settings, depth| {
        settings.buffers = Some(*depth);
        format!("buffers {depth}")
    });
    for vary in &arguments.vary {
        let wrong = || format!("--vary {vary}: expected NAME=VALUE,VALUE, such as k=1,2,4");
        let (name, values) = vary.split_once('=').ok_or_else(wrong)?;
        let values = values.split(',').map(|value| mgen::parameter(&format!("{name}={value}")));
        let values =
            values.collect::<Result<Vec<_>, _>>().map_err(|error| format!("--vary {vary}: {error}"))?;
        let texts: Vec<String> = vary[name.len() + 1..].split(',').map(str::to_string).collect();
        let pairs: Vec<_> = values.into_iter().zip(texts).collect();
        multiply(&mut variants, &pairs, |settings, ((name, value), text)| {
            settings.parameters.push((name.clone(), *value));
            format!("{name} {text}")
        });
    }
    let mut cases = Vec::new();
    for program in &arguments.programs {
        for net in &arguments.nets {
            for (settings, words) in &variants {
                let (program, net, settings) = (program.clone(), net.clone(), settings.clone());
                cases.push(Case { program, net, settings, differs: words.join(", ") });
            }
        }
    }
    Ok(cases)
}

/// Runs all cases, as many at a time as there are cores.
pub(super) fn run_all(cases: &[Case]) -> Vec<Result<Outcomes, String>> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<Outcomes, String>>>> =
        Mutex::new(cases.iter().map(|_| None).collect());
    let shown = progress::Count::new(cases.len());
    std::thread::scope(|scope| {
        for _ in 0..cores.min(cases.len()) {
            scope.spawn(|| loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(number) else { return };
                let threads = if cases.len() >= cores { 1 } else { cores.div_ceil(cases.len()) };
                let done = run_one(case, threads);
                shown.one_more();
                let mut results = results.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                results[number] = Some(done);
            });
        }
    });
    shown.clear();
    let results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.into_iter().map(|result| result.unwrap_or_else(|| Err("it was not run".into()))).collect()
}

fn run_one(case: &Case, threads: usize) -> Result<Outcomes, String> {
    let network = input::network(&case.net, &case.settings)?;
    let program = input::program(&case.program, &network, &case.settings)?;
    let mut options = input::options(&case.settings);
    options.threads = threads;
    let made = program.run(&network, &options)?;
    let parameters = report::parameters(&made, program.parameters(&case.settings));
    Ok(Outcomes { report: made, parameters })
}

fn table(rows: &[(&Case, Outcomes)]) -> String {
    let head = ["program", "network", "with", "ranks", "time", "bound", "ratio", "beside"].map(String::from);
    let mut lines = vec![head.to_vec()];
    let first = rows.first().map_or(0.0, |(_, made)| made.report.time.as_us());
    for (case, made) in rows {
        let report = &made.report;
        lines.push(vec![
            case.program.clone(),
            case.net.clone(),
            case.differs.clone(),
            report.ranks.to_string(),
            report.time.to_string(),
            report.bound.to_string(),
            report.ratio().map_or("-".into(), |ratio| format!("{ratio:.3}")),
            if first > 0.0 { format!("{:.3}", report.time.as_us() / first) } else { "-".into() },
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            match (column, width) {
                (_, 0) => {}
                (0..3, width) => text.push_str(&format!("{cell:<width$}  ")),
                (_, width) => text.push_str(&format!("{cell:>width$}  ")),
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// Bars are drawn on an even axis while the shortest is at least so much of the longest.
const STILL_SEEN: f64 = 0.05;

fn draw(rows: &[(&Case, Outcomes)], path: &std::path::Path) -> Result<(), String> {
    let group = |(case, made): &(&Case, Outcomes)| Group {
        name: [&case.program, &case.net, &case.differs]
            .map(|part| part.as_str())
            .join(" ")
            .trim_end()
            .to_string(),
        values: vec![Some(made.report.time.as_us()), Some(made.report.bound.as_us())],
    };
    chart(rows.iter().map(group).collect()).save(path)
}

fn chart(groups: Vec<Group>) -> Bars {
    let values = || groups.iter().flat_map(|group| group.values.iter().flatten().copied());
    let shortest = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let longest = values().fold(0.0, f64::max);
    let (scale, subtitle) = if shortest < STILL_SEEN * longest {
        (Scale::Logarithmic, "simulated; shorter is better; the axis is logarithmic")
    } else {
        (Scale::Linear, "simulated; shorter is better")
    };
    Bars {
        title: "Predicted times".into(),
        subtitle: subtitle.into(),
        series: vec!["time".into(), "link-load bound".into()],
        groups,
        unit: Unit::Number("µs"),
        scale,
        references: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_an_even_axis_would_hide_get_a_logarithmic_one() {
        let group = |time, bound| Group { name: String::new(), values: vec![Some(time), Some(bound)] };
        let even = chart(vec![group(30.0, 20.0), group(4.0, 2.0)]);
        assert_eq!(even.scale, Scale::Linear);
        let wide = chart(vec![group(30.0, 20.0), group(0.4, 0.2)]);
        assert_eq!(wide.scale, Scale::Logarithmic);
        assert!(wide.subtitle.ends_with("the axis is logarithmic"));
        // Without traffic a bound is 0: it has no bar on either axis.
        assert_eq!(chart(vec![group(30.0, 0.0)]).scale, Scale::Linear);
    }
}
