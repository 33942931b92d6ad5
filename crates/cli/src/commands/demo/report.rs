//! What the demonstration prints and draws.

use super::heat::{rows_of, HOTTEST};
use super::{Problem, FIELD_PICTURE, LEDGER_PICTURE};
use crate::chart::{bytes_text, Bars, Grain, Group, HeatMap, Ruler, Scale, Unit};
use crate::commands::{mem, print_of_rank};
use kumiki::Ledger;
use serde_json::json;
use std::path::Path;

/// Figures of one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    moved_bytes: u64,
    private_bytes: u64,
    ledger_private_bytes: u64,
    arena_bytes: u64,
}

impl Figures {
    pub(super) fn from_words(words: &[u64]) -> Figures {
        let at = |index: usize| words.get(index).copied().unwrap_or(0);
        Figures { moved_bytes: at(0), private_bytes: at(1), ledger_private_bytes: at(2), arena_bytes: at(3) }
    }
}

/// What came out.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) ranks: u32,
    pub(super) nodes: u32,
    pub(super) seconds: f64,
    pub(super) serial_seconds: f64,
    /// The largest difference to one process that did it all.
    pub(super) difference: f64,
    pub(super) figures: Vec<Figures>,
    pub(super) field: Vec<f64>,
    /// The ledger of rank 0.
    pub(super) ledger: Ledger,
}

impl Report {
    /// Draws and prints. Whether the result was right.
    pub(super) fn publish(&self, problem: &Problem) -> Result<bool, String> {
        let (heat, ledger) = (problem.out.join(FIELD_PICTURE), problem.out.join(LEDGER_PICTURE));
        self.draw_field(problem, &heat)?;
        self.draw_ledger().save(&ledger)?;
        if problem.json {
            let pictures = [heat.display().to_string(), ledger.display().to_string()];
            let figures = json!({
                    "ranks": self.ranks, "nodes": self.nodes, "size": problem.size, "steps": problem.steps,
                    "seconds": self.seconds, "serial_seconds": self.serial_seconds,
                    "bytes_moved": self.moved_bytes(), "private_bytes_per_rank": self.private_bytes(),
                    "ledger_private_bytes_per_rank": self.ledger_private_bytes(),
                    "arena_bytes": self.arena_bytes(), "max_difference": self.difference, "pictures": pictures,
            });
            print_of_rank(&format!("{figures}\n"))?;
        } else {
            let pictures = format!("{}\n{}\n", mem::picture_line(&heat), mem::picture_line(&ledger));
            print_of_rank(&(self.table(problem) + &pictures))?;
        }
        let right = self.is_right();
        if !right {
            let difference = self.difference;
            kumiki_run::report(&format!("the result differs from that of one process by {difference}"));
        }
        Ok(right)
    }

    fn table(&self, problem: &Problem) -> String {
        let Problem { size, steps, .. } = problem;
        let bytes = |bytes: u64| bytes_text(bytes as f64);
        let rows = [
            ("ranks", self.ranks.to_string()),
            ("nodes", self.nodes.to_string()),
            ("grid", format!("{size} × {size}, {steps} steps")),
            ("time", format!("{:.2} s (one process: {:.2} s)", self.seconds, self.serial_seconds)),
            ("bytes moved by puts", bytes(self.moved_bytes())),
            (
                "private bytes per rank",
                format!(
                    "{} added by Kumiki, {} in the ledger",
                    bytes(self.private_bytes()),
                    bytes(self.ledger_private_bytes())
                ),
            ),
            ("arena bytes, all ranks", bytes(self.arena_bytes())),
        ];
        let rows: String = rows.iter().map(|(name, value)| format!("{name:<24}{value}\n")).collect();
        format!("{rows}checked against a serial run: max difference {}\n", self.difference)
    }

    fn is_right(&self) -> bool {
        self.difference <= 1e-9
    }

    fn moved_bytes(&self) -> u64 {
        self.figures.iter().map(|figures| figures.moved_bytes).sum()
    }

    /// That of the rank that has the most.
    fn private_bytes(&self) -> u64 {
        self.figures.iter().map(|figures| figures.private_bytes).max().unwrap_or(0)
    }

    fn ledger_private_bytes(&self) -> u64 {
        self.figures.iter().map(|figures| figures.ledger_private_bytes).max().unwrap_or(0)
    }

    fn arena_bytes(&self) -> u64 {
        self.figures.iter().map(|figures| figures.arena_bytes).sum()
    }

    fn draw_field(&self, problem: &Problem, path: &Path) -> Result<(), String> {
        let size = problem.size as usize;
        let starts = (1..self.ranks as usize).map(|rank| rows_of(size, rank, self.ranks as usize).start);
        HeatMap {
            title: format!("Heat in a plate after {} steps", problem.steps),
            subtitle: format!(
                "{} ranks on {} node{}, {size} × {size} points; dashes: where one rank's rows end",
                self.ranks,
                self.nodes,
                if self.nodes == 1 { "" } else { "s" },
            ),
            width: size,
            height: size,
            values: self.field.clone(),
            grain: Grain::Points,
            top: HOTTEST,
            unit: "°C",
            columns: Ruler { name: "column of the grid".into(), step: 1 },
            rows: Ruler { name: "row of the grid".into(), step: 1 },
            rows_of_ranks: starts.collect(),
        }
        .save(path)
    }

    fn draw_ledger(&self) -> Bars {
        let entries = self.ledger.entries.iter().filter(|entry| entry.bytes > 0);
        let mut groups: Vec<Group> = entries
            .map(|entry| {
                let mut values = vec![None; 3];
                values[entry.purpose.is_arena() as usize] = Some(entry.bytes as f64);
                Group { name: entry.purpose.name().into(), values }
            })
            .collect();
        let total = |name: &str, series: usize, bytes: u64| {
            let mut values = vec![None; 3];
            values[series] = Some(bytes as f64);
            Group { name: name.into(), values }
        };
        groups.push(total("page tables", 2, self.ledger.page_table_bytes));
        groups.push(total("all private, in the ledger", 0, self.ledger.private_bytes()));
        groups.push(total("all private, measured after init", 0, self.private_bytes()));
        Bars {
            title: "The memory ledger of rank 0".into(),
            subtitle: format!(
                "one of {} ranks, at the end of the run; its heap holds the whole field for the picture",
                self.ranks
            ),
            series: vec!["private".into(), "arena, shared by the node".into(), "kernel".into()],
            groups,
            unit: Unit::Bytes,
            scale: Scale::Logarithmic,
            references: mem::references(),
        }
    }
}
