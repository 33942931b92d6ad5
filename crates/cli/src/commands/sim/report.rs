//! What is said about a simulation: for people, and as JSON.

use kumiki_sim::{Histogram, LinkUse, Network, Report, Topology};
use serde_json::{json, Map, Value};
use std::fmt::Write;

/// Links that are listed.
const LISTED_LINKS: usize = 5;
/// Width of the bars of the histogram.
const BAR: usize = 30;

/// Everything that can change the result: of the simulator, and of the program.
pub(crate) fn parameters(report: &Report, program: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut all = program;
    for (name, value) in &report.parameters {
        if all.iter().all(|(known, _)| known != name) {
            all.push((name.to_string(), value.clone()));
        }
    }
    all
}

/// The most memory that this process has used, in bytes.
pub(crate) fn peak_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The report as one object.
pub(crate) fn json(report: &Report, parameters: &[(String, String)]) -> Value {
    let parameters: Map<String, Value> =
        parameters.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    json!({
        "pattern": report.workload,
        "net": report.network,
        "ranks": report.ranks,
        "time_us": report.time.as_us(),
        "bound_us": report.bound.as_us(),
        "packets": report.packets,
        "packet_hops": report.packet_hops,
        "cpu_seconds": report.cpu_seconds,
        "peak_rss_bytes": peak_memory(),
        "parameters": parameters,
    })
}

/// The report for people.
pub(crate) fn text(report: &Report, network: &Network, parameters: &[(String, String)]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_summary(&mut text, report);
    let _ = write_links(&mut text, report, network);
    let _ = write_queueing(&mut text, &report.queueing);
    let _ = write_parameters(&mut text, parameters);
    text
}

fn write_summary(text: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(text, "{} on {}, {} ranks\n", report.workload, report.network, report.ranks)?;
    writeln!(text, "  predicted time   {}", report.time)?;
    match report.ratio() {
        Some(ratio) => {
            writeln!(
                text,
                "  link-load bound  {}  (the time is {:.1} % of it)",
                report.bound,
                100.0 * ratio
            )?;
        }
        None => writeln!(text, "  link-load bound  none: nothing went over a link")?,
    }
    for cause in &report.causes {
        writeln!(text, "    {:>12}: {}", cause.time.to_string(), cause.text)?;
    }
    if let Some(sampling) = &report.sampling {
        writeln!(
            text,
            "  all {} steps      {} ± {}, from {} of them (bound {}, by the sample {})",
            sampling.steps_total,
            sampling.estimate,
            sampling.standard_error,
            sampling.steps_run,
            sampling.bound_total,
            sampling.bound_estimate
        )?;
    }
    let (first, last) = (report.rank_times.iter().min(), report.rank_times.iter().max());
    if let (Some(first), Some(last)) = (first, last) {
        writeln!(text, "  ranks ended      {first} to {last}")?;
    }
    let rate = report.packet_hops as f64 / report.cpu_seconds.max(1e-9) / 1e6;
    writeln!(
        text,
        "  traffic          {} messages, {} packets, {} packet-hops, at most {} packets at once",
        report.messages, report.packets, report.packet_hops, report.packets_in_flight
    )?;
    writeln!(
        text,
        "  simulated in     {:.3} s of CPU ({rate:.1} million packet-hops/s), {:.1} MiB",
        report.cpu_seconds,
        peak_memory() as f64 / (1 << 20) as f64
    )
}

fn write_links(text: &mut String, report: &Report, network: &Network) -> std::fmt::Result {
    let hottest = report.hottest_links(LISTED_LINKS);
    if hottest.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n  hottest links")?;
    for link in hottest {
        writeln!(
            text,
            "    {:<28} {:>5.1} % busy, {} bytes",
            link_name(link, network),
            100.0 * report.utilisation(link),
            link.bytes
        )?;
    }
    Ok(())
}

/// A link as its ends, on grids with their coordinates.
fn link_name(link: &LinkUse, network: &Network) -> String {
    let end = |router: u32| match &network.topology {
        Topology::Grid(dimensions) => {
            let mut left = router;
            let coordinates = dimensions.iter().map(|dimension| {
                let at = left % dimension.size;
                left /= dimension.size;
                at.to_string()
            });
            format!("({})", coordinates.collect::<Vec<_>>().join(","))
        }
        _ => router.to_string(),
    };
    let lane = if link.lane > 0 { format!(" #{}", link.lane) } else { String::new() };
    format!("{} → {}{lane}", end(link.from), end(link.to))
}

fn write_queueing(text: &mut String, queueing: &Histogram) -> std::fmt::Result {
    let total = queueing.total();
    if total == 0 {
        return Ok(());
    }
    writeln!(text, "\n  waiting of packets at each hop")?;
    let most = queueing.counts.iter().copied().max().unwrap_or(1).max(1);
    for (bucket, count) in queueing.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let name = match bucket {
            0 => "none".to_string(),
            1 => "up to 1 ns".to_string(),
            _ => format!("up to {}", kumiki_sim::Time::from_ns(1 << (bucket - 1))),
        };
        let bar = "#".repeat((count * BAR as u64).div_ceil(most) as usize);
        writeln!(text, "    {name:<16} {:>6.2} %  {bar}", 100.0 * *count as f64 / total as f64)?;
    }
    Ok(())
}

fn write_parameters(text: &mut String, parameters: &[(String, String)]) -> std::fmt::Result {
    writeln!(text, "\n  with")?;
    let width = parameters.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for pair in parameters.chunks(2) {
        let cells: Vec<String> =
            pair.iter().map(|(name, value)| format!("{name:<width$}  {value:<18}")).collect();
        writeln!(text, "    {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
