//! Rows, ratios and verdicts, as tables, JSON and a chart.

use super::catalogue::{Against, Bound, Metric};
use super::harness::Rival;
use super::ours::WINDOW;
use super::statistics::Samples;
use crate::chart::{Bars, Group, Lines, Scale, Series, Unit};
use crate::commands::{print, Outcome};
use serde_json::{json, Map, Value};
use std::path::Path;

/// What a peer measured for a row.
#[derive(Clone, Debug)]
pub(super) struct PeerColumn {
    pub(super) name: String,
    pub(super) samples: Samples,
    /// How often it reported an operation complete that was not: then its time is not that of a complete one.
    pub(super) incomplete: u64,
    /// Whether it is ours by another interface.
    is_ours: bool,
    pub(super) error: Option<String>,
}

impl PeerColumn {
    fn new(name: &str) -> PeerColumn {
        let samples = Samples::default();
        PeerColumn { name: name.into(), samples, incomplete: 0, is_ours: false, error: None }
    }

    pub(super) fn of(peer: &dyn Rival) -> PeerColumn {
        PeerColumn { is_ours: peer.is_ours(), ..PeerColumn::new(peer.name()) }
    }

    pub(super) fn failed(peer: &dyn Rival, error: &str) -> PeerColumn {
        PeerColumn { error: Some(error.into()), ..PeerColumn::of(peer) }
    }

    /// The median, if it may be compared with.
    fn value(&self) -> Option<f64> {
        self.samples.median().filter(|_| self.incomplete == 0 && !self.is_ours)
    }
}

/// Everything measured for one metric.
#[derive(Clone, Debug)]
pub(super) struct Row {
    metric: Metric,
    pub(super) ours: Samples,
    /// The first is the floor of the row.
    pub(super) floors: Vec<(&'static str, Samples)>,
    pub(super) peers: Vec<PeerColumn>,
    pub(super) error: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Pass,
    Miss,
    /// There is nothing to compare with.
    Open,
}

impl Row {
    pub(super) fn new(metric: &Metric) -> Row {
        Row {
            metric: metric.clone(),
            ours: Samples::default(),
            floors: Vec::new(),
            peers: Vec::new(),
            error: None,
        }
    }

    fn floor(&self) -> Option<f64> {
        self.floors.first().and_then(|(_, samples)| samples.median())
    }

    fn best_peer(&self) -> Option<(&PeerColumn, f64)> {
        let better = |a: f64, b: f64| if self.metric.is_rate() { b.total_cmp(&a) } else { a.total_cmp(&b) };
        let known = self.peers.iter().filter_map(|peer| Some((peer, peer.value()?)));
        known.min_by(|(_, a), (_, b)| better(*a, *b))
    }

    /// Ours beside another; under 1 is better.
    fn ratio(&self, other: &Samples) -> Option<f64> {
        match self.metric.is_rate() {
            true => other.times(&self.ours),
            false => self.ours.times(other),
        }
    }

    fn ratio_floor(&self) -> Option<f64> {
        self.floors.first().and_then(|(_, floor)| self.ratio(floor))
    }

    fn ratio_peer(&self) -> Option<f64> {
        self.best_peer().and_then(|(best, _)| self.ratio(&best.samples))
    }

    /// What a bound looks at: a ratio, or the value itself.
    fn measured(&self, bound: Bound) -> Option<f64> {
        match bound.against {
            Against::Floor => self.ratio_floor(),
            Against::Peer => self.ratio_peer(),
            Against::Value => self.ours.median(),
        }
    }

    fn verdict(&self, bound: Bound) -> Verdict {
        match self.measured(bound) {
            _ if self.error.is_some() => Verdict::Miss,
            None => Verdict::Open,
            Some(value) if value <= bound.limit => Verdict::Pass,
            Some(_) => Verdict::Miss,
        }
    }

    fn json(&self) -> Value {
        let medians = |list: &[(&str, &Samples)]| -> Map<String, Value> {
            list.iter().map(|(name, samples)| (name.to_string(), json!(samples.median()))).collect()
        };
        let floors: Vec<(&str, &Samples)> =
            self.floors.iter().map(|(name, samples)| (*name, samples)).collect();
        let peers: Vec<(&str, &Samples)> =
            self.peers.iter().map(|peer| (peer.name.as_str(), &peer.samples)).collect();
        let mut value = json!({
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "kumiki": self.ours.median(),
            "floor": self.floor(),
            "peers": medians(&peers),
            "best_peer": self.best_peer().map(|(peer, _)| peer.name.as_str()),
            "ratio_peer": self.ratio_peer(),
            "ratio_floor": self.ratio_floor(),
            "spread": self.ours.spread(),
            "floors": medians(&floors),
            "bounds": self.metric.bounds.iter().map(|bound| self.bound_json(*bound)).collect::<Vec<_>>(),
        });
        let incomplete: Vec<&str> =
            self.peers.iter().filter(|peer| peer.incomplete > 0).map(|peer| peer.name.as_str()).collect();
        if !incomplete.is_empty() {
            value["incomplete_peers"] = json!(incomplete);
        }
        if let Some(error) = &self.error {
            value["error"] = json!(error);
        }
        value
    }

    fn bound_json(&self, bound: Bound) -> Value {
        let verdict = match self.verdict(bound) {
            Verdict::Pass => json!(true),
            Verdict::Miss => json!(false),
            Verdict::Open => Value::Null,
        };
        json!({"against": against(bound), "limit": bound.limit, "value": self.measured(bound), "holds": verdict})
    }
}

fn against(bound: Bound) -> &'static str {
    match bound.against {
        Against::Floor => "floor",
        Against::Peer => "best peer",
        Against::Value => "value",
    }
}

/// The rows so far, printed table by table or line by line.
pub(super) struct Report {
    json: bool,
    rows: Vec<Row>,
    printed: usize,
}

impl Report {
    pub(super) fn new(json: bool) -> Report {
        Report { json, rows: Vec::new(), printed: 0 }
    }

    pub(super) fn add(&mut self, row: Row) -> Result<(), String> {
        if self.json {
            print(&format!("{}\n", row.json()))?;
        }
        self.rows.push(row);
        Ok(())
    }

    /// The value of an earlier row.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.rows.iter().find(|row| row.metric.name == name)?.ours.median()
    }

    /// Prints the table of the rows since the last one.
    pub(super) fn end_section(&mut self) -> Result<(), String> {
        let rows = &self.rows[std::mem::replace(&mut self.printed, self.rows.len())..];
        if !self.json && !rows.is_empty() {
            print(&format!("{}\n", table(rows)))?;
        }
        Ok(())
    }

    /// Says how many bounds hold.
    pub(super) fn finish(&self) -> Result<(), String> {
        let verdicts = || self.rows.iter().flat_map(|row| row.metric.bounds.iter().map(|b| row.verdict(*b)));
        let count = |wanted: Verdict| verdicts().filter(|verdict| *verdict == wanted).count();
        let (pass, miss, open) = (count(Verdict::Pass), count(Verdict::Miss), count(Verdict::Open));
        if self.json || pass + miss + open == 0 {
            return Ok(());
        }
        let open = if open > 0 { format!(" {open} had nothing to be compared with.") } else { String::new() };
        let mut text = format!("{pass} of {} bounds hold.{open}\n", pass + miss);
        let missed = self.rows.iter().flat_map(|row| {
            let missed = row.metric.bounds.iter().filter(|bound| row.verdict(**bound) == Verdict::Miss);
            missed.map(move |bound| (row, bound))
        });
        for (row, bound) in missed {
            let value = row.measured(*bound).map_or("no value".into(), number);
            text += &format!(
                "  MISS {}: {value}, at most {} ({})\n",
                row.metric.name,
                number(bound.limit),
                against(*bound)
            );
        }
        print(&text).map(drop)
    }

    /// Draws the ratios into a file, and the bandwidth over the size into two more beside it.
    pub(super) fn draw(&self, path: &Path) -> Result<(), String> {
        self.ratios().save(path)?;
        for place in ["shm", "tcp"] {
            let lines = self.bandwidth(place);
            if lines.series.iter().any(|series| series.points.len() > 1) {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                lines.save(&path.with_file_name(format!("{name}-bandwidth-{place}.png")))?;
            }
        }
        Ok(())
    }

    fn ratios(&self) -> Bars {
        let shown = |row: &&Row| !row.metric.bounds.is_empty();
        let group = |row: &Row| Group {
            name: row.metric.name.clone(),
            values: vec![row.ratio_peer(), row.ratio_floor()],
        };
        let has_values = |group: &Group| group.values.iter().any(Option::is_some);
        Bars {
            title: "Kumiki beside the best peer and the bare machine".into(),
            subtitle: "median of the ratios, under 1 is better; metrics that have a bound".into(),
            series: vec!["to the best peer".into(), "to the floor".into()],
            groups: self.rows.iter().filter(shown).map(group).filter(has_values).collect(),
            unit: Unit::Number(""),
            scale: Scale::Logarithmic,
            references: vec![("the same".into(), 1.0)],
        }
    }

    fn bandwidth(&self, place: &str) -> Lines {
        let mut series: Vec<Series> = Vec::new();
        for (bytes, row) in self.rows.iter().filter_map(|row| Some((row.metric.put_bytes(place)?, row))) {
            let floor = row.floors.first().map(|(name, samples)| (*name, samples.median()));
            let peers = row.peers.iter().map(|peer| (peer.name.as_str(), peer.value()));
            let all = [("kumiki", row.ours.median())].into_iter().chain(floor).chain(peers);
            for (name, value) in all.filter_map(|(name, value)| Some((name, value?))) {
                let point = (bytes as f64, value);
                match series.iter_mut().find(|series| series.name == name) {
                    Some(series) => series.points.push(point),
                    None => series.push(Series { name: name.into(), points: vec![point] }),
                }
            }
        }
        let place = if place == "shm" { "on one node" } else { "over TCP" };
        Lines {
            title: format!("Put {place}"),
            subtitle: format!("{WINDOW} copies in flight; medians"),
            x_label: "size".into(),
            y_label: "MB/s".into(),
            x_unit: Unit::Bytes,
            y_unit: Unit::Number(""),
            series,
        }
    }
}

/// Prints the metrics with their units and bounds.
pub(super) fn list(metrics: &[Metric]) -> Outcome {
    let bounds = |metric: &Metric| -> String {
        let bound = |bound: &Bound| match bound.against {
            Against::Value => format!("at most {} {}", number(bound.limit), metric.unit),
            _ => format!("at most {} of the {}", number(bound.limit), against(*bound)),
        };
        metric.bounds.iter().map(bound).collect::<Vec<_>>().join(", ")
    };
    let rows: Vec<Vec<String>> = metrics
        .iter()
        .map(|metric| vec![metric.name.clone(), metric.unit.to_string(), bounds(metric)])
        .collect();
    print(&format!("{}\n", aligned(&["metric", "unit", "bounds"].map(String::from), &rows, 3)))
}

fn table(rows: &[Row]) -> String {
    let mut peers: Vec<&str> = Vec::new();
    for peer in rows.iter().flat_map(|row| &row.peers) {
        if !peers.contains(&peer.name.as_str()) {
            peers.push(&peer.name);
        }
    }
    let mut heads: Vec<String> = ["metric", "unit", "kumiki", "floor"].map(String::from).into();
    heads.extend(peers.iter().map(|name| name.to_string()));
    heads.extend(["/floor", "/peer", "spread", "bound"].map(String::from));
    let lines: Vec<Vec<String>> = rows.iter().map(|row| cells(row, &peers)).collect();
    let mut text = aligned(&heads, &lines, 2);
    if rows.iter().any(|row| row.peers.iter().any(|peer| peer.incomplete > 0)) {
        text.push_str("* reported complete before it was; not compared with.\n");
    }
    let ours = rows.iter().flat_map(|row| &row.peers).find(|peer| peer.is_ours);
    if let Some(peer) = ours {
        text.push_str(&format!("{} is Kumiki by another interface; not compared with.\n", peer.name));
    }
    for row in rows {
        if let Some(error) = &row.error {
            text.push_str(&format!("{}: {error}\n", row.metric.name));
        }
        for (peer, error) in row.peers.iter().filter_map(|peer| Some((&peer.name, peer.error.as_ref()?))) {
            text.push_str(&format!("{}, {peer}: {error}\n", row.metric.name));
        }
    }
    text
}

fn cells(row: &Row, peers: &[&str]) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or("-".to_string(), number);
    let mut cells = vec![
        row.metric.name.clone(),
        row.metric.unit.to_string(),
        shown(row.ours.median()),
        shown(row.floor()),
    ];
    for name in peers {
        let peer = row.peers.iter().find(|peer| peer.name == *name);
        let mark = if peer.is_some_and(|peer| peer.incomplete > 0) { "*" } else { "" };
        cells.push(shown(peer.and_then(|peer| peer.samples.median())) + mark);
    }
    let ratio = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.2}"));
    cells.push(ratio(row.ratio_floor()));
    cells.push(ratio(row.ratio_peer()));
    cells.push(row.ours.spread().map_or("-".to_string(), |spread| format!("{spread:.0}%")));
    let verdict = |bound: &Bound| match row.verdict(*bound) {
        Verdict::Pass => "PASS",
        Verdict::Miss => "MISS",
        Verdict::Open => "open",
    };
    let bound = |bound: &Bound| format!("{} ≤{} {}", verdict(bound), number(bound.limit), against(*bound));
    cells.push(row.metric.bounds.iter().map(bound).collect::<Vec<_>>().join(", "));
    cells
}

/// Columns of equal width: the first `left` and the last to the left, the others to the right.
fn aligned(heads: &[String], rows: &[Vec<String>], left: usize) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    for row in std::iter::once(heads).chain(rows.iter().map(Vec::as_slice)) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = if column < left || column + 1 == row.len() {
                format!("{cell:<width$}  ")
            } else {
                format!("{cell:>width$}  ")
            };
            line.push_str(&cell);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number with three digits that mean something.
fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::*;

    fn row(name: &str, ours: f64, floor: f64, peers: &[(&str, f64, u64)]) -> Row {
        let metric = catalogue::select(Some(name), false).unwrap().remove(0);
        let samples = |value: f64| {
            let mut samples = Samples::default();
            samples.push(value);
            samples
        };
        let mut row = Row::new(&metric);
        row.ours = samples(ours);
        row.floors = vec![("floor", samples(floor))];
        row.peers = peers
            .iter()
            .map(|(name, value, incomplete)| PeerColumn {
                samples: samples(*value),
                incomplete: *incomplete,
                ..PeerColumn::new(name)
            })
            .collect();
        row
    }

    fn best(row: &Row) -> Option<(&str, f64)> {
        row.best_peer().map(|(peer, value)| (peer.name.as_str(), value))
    }

    #[test]
    fn under_one_is_better_for_times_and_for_rates() {
        let time = row("put8.tcp.typed", 12.0, 10.0, &[("a", 24.0, 0), ("b", 48.0, 0)]);
        assert_eq!((time.ratio_floor(), time.ratio_peer()), (Some(1.2), Some(0.5)));
        let rate = row("putbw.shm.arena.1M", 20.0, 10.0, &[("a", 5.0, 0), ("b", 40.0, 0)]);
        assert_eq!((rate.ratio_floor(), rate.ratio_peer()), (Some(0.5), Some(2.0)));
        assert_eq!(best(&rate), Some(("b", 40.0)));
    }

    #[test]
    fn a_peer_that_reports_completions_too_early_is_not_the_best() {
        let row = row("put8.tcp.typed", 12.0, 10.0, &[("early", 4.0, 7), ("right", 16.0, 0)]);
        assert_eq!(best(&row), Some(("right", 16.0)));
        assert_eq!(row.json()["incomplete_peers"], json!(["early"]));
    }

    #[test]
    fn ours_by_another_interface_is_not_the_best_peer() {
        let mut row = row("put8.tcp.typed", 12.0, 10.0, &[("other", 4.0, 0), ("peer", 16.0, 0)]);
        row.peers[0].is_ours = true;
        assert_eq!((best(&row), &row.json()["peers"]["other"]), (Some(("peer", 16.0)), &json!(4.0)));
    }

    #[test]
    fn bounds_hold_miss_or_stay_open() {
        let verdicts = |row: &Row| -> Vec<Verdict> {
            row.metric.bounds.iter().map(|bound| row.verdict(*bound)).collect()
        };
        let slow = row("put8.tcp.typed", 13.0, 10.0, &[("a", 14.0, 0)]);
        assert_eq!(verdicts(&slow), [Verdict::Miss, Verdict::Pass]);
        let alone = row("put8.tcp.typed", 11.0, 10.0, &[]);
        assert_eq!(verdicts(&alone), [Verdict::Pass, Verdict::Open]);
    }

    #[test]
    fn the_chart_of_bandwidth_says_how_many_copies_are_in_flight() {
        let mut report = Report::new(false);
        for (name, value) in [("putbw.tcp.arena.1M", 6500.0), ("putone.tcp.arena.1M", 3000.0)] {
            report.add(row(name, value, value, &[])).expect("a row");
        }
        let lines = report.bandwidth("tcp");
        assert_eq!(lines.series[0].points, [(f64::from(1 << 20), 6500.0)], "those in flight are drawn");
        assert!(lines.subtitle.starts_with("8 copies in flight"), "{}", lines.subtitle);
    }

    #[test]
    fn a_row_has_the_fields_that_others_read() {
        let value = row("put8.shm.typed", 3.0, 6.0, &[("a", 30.0, 0)]).json();
        for key in ["metric", "unit", "kumiki", "floor", "peers", "best_peer", "ratio_peer", "ratio_floor"] {
            assert!(value.get(key).is_some(), "{key}");
        }
        assert_eq!(value["peers"]["a"], 30.0);
        assert_eq!(value["ratio_floor"], 0.5);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [12345.6, 45.67, 4.567, 0.1234, 0.00123].map(number);
        assert_eq!(texts, ["12346", "45.7", "4.57", "0.12", "1.23e-3"]);
    }
}
