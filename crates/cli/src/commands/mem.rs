//! `kumiki mem`: what joining a world costs each rank, as the kernel counts it.
//!
//! Each rank writes a line with its figures to a descriptor that it inherits. That is a file in memory, not a pipe:
//! it has a place for the line of each rank, however many, and nobody needs to read meanwhile.

use super::job::Job;
use super::objects::Objects;
use super::touch::{self, Touched};
use super::Outcome;
use crate::chart::{bytes_text, Bars, Group, Scale, Unit};
use kumiki_run::{report, system};
use serde_json::{json, Value};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The budget for private memory that Kumiki adds to a rank of a world on one node. With several nodes the transport and its thread
/// come to it, which have no budget of their own.
pub(crate) const PRIVATE_BUDGET_BYTES: u64 = 16 << 10;
/// The budget for arena memory of a rank beside starter memory and heap.
const CONTROL_BUDGET_BYTES: u64 = 16 << 10;
/// Private memory of a rank of the leanest MPI that we know, counted as ours is: MPICH 4.0.2 on UCX, as Debian has it, after
/// `MPI_Init` and a barrier of 2 to 33 ranks, the bare program included.
const LEANEST_MPI_BYTES: u64 = 2140 << 10;
/// Room for the line of a rank.
const LINE_BYTES: u64 = 512;

const EXAMPLES: &str = "\
Examples:
  kumiki mem -n 64                    what 64 ranks take that only join and meet
  kumiki mem -n 4 --virtual-nodes 2   the same with TCP between two nodes
  kumiki mem -n 4 -- ./heat --size 512
  kumiki mem -n 1024 --json --png mem.png
  kumiki mem -n 1024 --touch all      and what page tables a rank has that uses the memory of all others

Private memory is what smaps_rollup calls Anonymous: heap, stacks and changed data, not the arena and not pages of files. \
What an object of global memory takes beyond what the program keeps in it is measured here: some are made, and divided by. \
The node's total is the sum of the proportional set sizes (PSS) of its ranks; with several nodes, that of the largest.";

/// Measure the memory that joining a world adds to each rank.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Number of ranks.
    #[arg(short = 'n', long, value_name = "N", value_parser = super::run::ranks, default_value_t = 2, env = "KUMIKI_RANKS", hide_env = true)]
    ranks: u32,
    /// Make this many nodes of this one machine, with TCP between them.
    #[arg(long, value_name = "K", value_parser = super::run::count, env = "KUMIKI_VIRTUAL_NODES", hide_env = true)]
    virtual_nodes: Option<u32>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Write a chart, too.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Let a rank of each node use the memory of so many neighbours, or of all, and measure its page tables.
    #[arg(long, value_name = "N", value_parser = touch::count, conflicts_with = "command")]
    touch: Option<u32>,
    /// A program and its arguments; without it the ranks only join, meet and leave.
    #[arg(last = true, value_name = "PROG")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let file = Lines::new(c"kumiki-measure", LINE_BYTES, arguments.ranks)?;
    let touched = Lines::new(c"kumiki-touched", touch::LINE_BYTES, arguments.ranks)?;
    let (program, words) = match (arguments.command.split_first(), arguments.touch) {
        (Some((program, words)), _) => (Some(program.clone()), words.to_vec()),
        (None, None) => (None, super::rank::words("probe")),
        (None, Some(count)) => (None, touch::words(count, touched.descriptor())),
    };
    let job = Job {
        ranks: arguments.ranks,
        virtual_nodes: arguments.virtual_nodes,
        environment: vec![format!("KUMIKI_MEASURE_FD={}", file.descriptor())],
        program,
        arguments: words,
    };
    let code = job.run()?;
    if code != 0 {
        return Ok(code);
    }
    let mut summary = Summary::new(&file.read()?, arguments.ranks)?;
    if arguments.touch.is_some() {
        summary.touched = Some(Touched::new(&touched.read()?)?);
    }
    summary.objects =
        Objects::measure().inspect_err(|why| report(&format!("objects are left out: {why}"))).ok();
    if let Some(path) = &arguments.png {
        summary.chart().save(path)?;
    }
    if arguments.json {
        return super::print(&format!("{}\n", summary.json()));
    }
    let picture = arguments.png.as_ref().map(|path| format!("{}\n", picture_line(path)));
    super::print(&format!("{}{}", summary.table(), picture.unwrap_or_default()))
}

/// Says where a picture is.
pub(crate) fn picture_line(path: &Path) -> String {
    format!("picture: {}", path.display())
}

/// A file in memory with a place for the line of each rank, which they inherit.
pub(crate) struct Lines {
    file: File,
    bytes: u64,
}

impl Lines {
    pub(crate) fn new(name: &std::ffi::CStr, line_bytes: u64, ranks: u32) -> Result<Lines, String> {
        let bytes = line_bytes * ranks.max(1) as u64;
        let file = system::create_sealed(name, bytes).map_err(|error| error.to_string())?;
        system::set_close_on_exec(file.as_fd(), false).map_err(|error| error.to_string())?;
        Ok(Lines { file: File::from(file), bytes })
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// What the ranks have written.
    pub(crate) fn read(&self) -> Result<Vec<Value>, String> {
        let mut text = vec![0; self.bytes as usize];
        let read = self.file.read_exact_at(&mut text, 0);
        read.map_err(|error| format!("cannot read the measurements: {error}"))?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.split(['\0', '\n']).filter(|line| !line.is_empty());
        let wrong = |error, line| format!("a measurement is damaged: {error}: {line}");
        lines.map(|line| serde_json::from_str(line).map_err(|error| wrong(error, line))).collect()
    }
}

/// The least, the middle and the most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spread {
    pub(crate) min: u64,
    pub(crate) median: u64,
    pub(crate) max: u64,
}

impl Spread {
    pub(crate) fn new(mut values: Vec<u64>) -> Spread {
        values.sort_unstable();
        let at = |index: usize| values.get(index).copied().unwrap_or(0);
        Spread { min: at(0), median: at(values.len() / 2), max: at(values.len().saturating_sub(1)) }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"min": self.min, "median": self.median, "max": self.max})
    }

    fn row(&self, name: &str, budget: Option<u64>) -> String {
        let text = |bytes: u64| bytes_text(bytes as f64);
        let verdict = match budget {
            None => String::new(),
            Some(budget) if self.max <= budget => format!("{:>10}  OK", text(budget)),
            Some(budget) => format!("{:>10}  over", text(budget)),
        };
        let row = format!(
            "{name:<34}{:>10}{:>10}{:>10}{verdict}",
            text(self.min),
            text(self.median),
            text(self.max)
        );
        row.trim_end().to_string() + "\n"
    }
}

/// The figures of all ranks.
#[derive(Debug)]
struct Summary {
    ranks: u32,
    nodes: u64,
    added: Spread,
    before: Spread,
    after: Spread,
    ledger_private: Spread,
    arena: Spread,
    control: Spread,
    page_tables: Spread,
    node_pss_bytes: u64,
    init_seconds: f64,
    objects: Option<Objects>,
    touched: Option<Touched>,
}

impl Summary {
    fn new(lines: &[Value], ranks: u32) -> Result<Summary, String> {
        let figure = |line: &Value, name: &str| line[name].as_u64().unwrap_or(0);
        if lines.len() < ranks as usize {
            return Err(format!(
                "only {} of {ranks} ranks have reported; the program must call World::init, on this machine",
                lines.len()
            ));
        }
        let all = |name: &str| Spread::new(lines.iter().map(|line| figure(line, name)).collect());
        let added = |before: &str, after: &str| {
            let added = lines.iter().map(|line| figure(line, after).saturating_sub(figure(line, before)));
            Spread::new(added.collect())
        };
        let nodes = lines.iter().map(|line| figure(line, "node")).max().unwrap_or(0) + 1;
        let pss = |node| -> u64 {
            lines.iter().filter(|line| figure(line, "node") == node).map(|line| figure(line, "pss")).sum()
        };
        Ok(Summary {
            ranks,
            nodes,
            added: added("private_before", "private_after"),
            before: all("private_before"),
            after: all("private_after"),
            ledger_private: all("ledger_private"),
            arena: all("ledger_arena"),
            control: all("ledger_control"),
            page_tables: added("page_tables_before", "page_tables_after"),
            node_pss_bytes: (0..nodes).map(pss).max().unwrap_or(0),
            init_seconds: all("init_ns").max as f64 / 1e9,
            objects: None,
            touched: None,
        })
    }

    fn json(&self) -> Value {
        let mut report = json!({
            "ranks": self.ranks,
            "added_private_bytes": self.added.json(),
            "arena_bytes_per_rank": self.arena.median,
            "page_table_bytes_per_rank": self.page_tables.median,
            "node_pss_bytes": self.node_pss_bytes,
            "init_seconds": self.init_seconds,
        });
        if let Some(objects) = &self.objects {
            report["object_bytes"] = objects.json();
        }
        if let Some(touched) = &self.touched {
            report["touched"] = touched.json();
        }
        report
    }

    fn table(&self) -> String {
        let Summary { ranks, nodes, init_seconds, .. } = self;
        let mut text = format!(
            "{ranks} ranks on {nodes} node{}, init {init_seconds:.3} s, the ranks of a node take {} (PSS)\n\n",
            if *nodes == 1 { "" } else { "s" },
            bytes_text(self.node_pss_bytes as f64),
        );
        text +=
            &format!("{:<34}{:>10}{:>10}{:>10}{:>10}\n", "bytes per rank", "min", "median", "max", "budget");
        let budget = (*nodes == 1).then_some(PRIVATE_BUDGET_BYTES);
        text += &self.added.row("private memory added by init", budget);
        text += &self.before.row("  before init", None);
        text += &self.after.row("  after init", None);
        text += &self.ledger_private.row("  in the ledger", None);
        text += &self.arena.row("arena", None);
        text += &self.control.row("  beside starter memory and heap", Some(CONTROL_BUDGET_BYTES));
        text += &self.page_tables.row("page tables added by init", None);
        if let Some(touched) = &self.touched {
            text += "\n";
            text += &touched.table();
        }
        if let Some(objects) = &self.objects {
            text += "\n";
            text += &objects.table();
        }
        text
    }

    fn chart(&self) -> Bars {
        let group = |name: &str, series: usize, bytes: u64| {
            let mut values = vec![None; 3];
            values[series] = Some(bytes as f64);
            Group { name: name.into(), values }
        };
        Bars {
            title: format!("What joining a world of {} ranks costs each of them", self.ranks),
            subtitle: "median over the ranks; private memory from smaps_rollup, after init less before"
                .into(),
            series: vec!["private".into(), "arena, shared by the node".into(), "kernel".into()],
            groups: vec![
                group("private memory added", 0, self.added.median),
                group("arena: control, region table", 1, self.control.median),
                group(
                    "arena: starter memory, heap",
                    1,
                    self.arena.median.saturating_sub(self.control.median),
                ),
                group("page tables added", 2, self.page_tables.median),
            ],
            unit: Unit::Bytes,
            scale: Scale::Logarithmic,
            references: references(),
        }
    }
}

/// What private memory is compared with.
pub(crate) fn references() -> Vec<(String, f64)> {
    vec![
        (
            format!("leanest MPI: {} private a rank, bare program included", leanest()),
            LEANEST_MPI_BYTES as f64,
        ),
        ("budget for private memory, on one node: 16 KiB".into(), PRIVATE_BUDGET_BYTES as f64),
    ]
}

/// Private memory of the leanest MPI as the documents write it.
fn leanest() -> String {
    format!("{:.1} MB", LEANEST_MPI_BYTES as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rank: u64, node: u64, after: u64) -> Value {
        json!({
            "rank": rank, "node": node, "private_before": 100, "private_after": after, "pss": 1000,
            "ledger_private": 7, "ledger_arena": 12288, "ledger_control": 8192, "page_tables_before": 0,
            "page_tables_after": 4096, "init_ns": 2_000_000_000u64,
        })
    }

    #[test]
    fn the_leanest_mpi_has_one_figure_in_pictures_and_documents() {
        assert_eq!(leanest(), "2.2 MB");
        assert!(references()[0].0.contains(&leanest()));
        let named: Vec<&str> =
            include_str!("../../../../README.md").lines().filter(|line| line.contains("leanest")).collect();
        assert!(!named.is_empty());
        for line in named {
            assert!(line.contains(&leanest()), "{line}");
        }
    }

    #[test]
    fn figures_of_all_ranks_become_one_object() {
        let lines = [line(1, 0, 400), line(0, 0, 200), line(2, 1, 300)];
        let summary = Summary::new(&lines, 3).unwrap();
        assert_eq!(summary.added, Spread { min: 100, median: 200, max: 300 });
        assert_eq!((summary.nodes, summary.node_pss_bytes), (2, 2000));
        let json = summary.json();
        assert_eq!(json["arena_bytes_per_rank"], 12288);
        assert_eq!(json["init_seconds"], 2.0);
        assert!(summary.table().contains("OK"));
        assert!(Summary::new(&lines, 4).unwrap_err().contains("3 of 4"));
    }
}
