//! What an exchange of shadows or a move of a section would send: the cost of each node's plan.

use super::{List, Plan};
use crate::chart::bytes_text;
use kumiki::array::{Cost, Mapping, Nodes, Plan as Schedule, Shadow, Width};
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;

/// Nodes that have a line in a table.
const LINES: usize = 256;

/// What every node would do.
pub(super) struct Moves {
    title: String,
    costs: Vec<(u32, Cost)>,
}

impl Plan {
    /// What was asked for beside the layout, if anything was.
    pub(super) fn moves(&self, mapping: &Arc<Mapping>) -> Result<Option<Moves>, String> {
        if self.reflect {
            return self.reflected(mapping).map(Some);
        }
        self.to.as_ref().map(|to| self.moved(mapping, to)).transpose()
    }

    fn reflected(&self, mapping: &Mapping) -> Result<Moves, String> {
        let mut widths = Width::all(mapping);
        for at in &self.periodic {
            let dimensions = widths.len();
            let width = widths.get_mut(*at);
            width.ok_or(format!("--periodic {at}: there are dimensions 0 to {}", dimensions - 1))?.periodic =
                true;
        }
        let element = self.element as usize;
        let cost = |rank| {
            let plan = Schedule::reflect_of(rank, element, mapping, &widths, !self.orthogonal);
            Ok((rank, plan.map_err(|error| error.to_string())?.cost()))
        };
        let costs: Result<Vec<_>, String> = mapping.nodes().ranks().map(cost).collect();
        let corners = if self.orthogonal { "without corners" } else { "with corners" };
        Ok(Moves { title: format!("a reflect of the whole shadow, {corners}"), costs: costs? })
    }

    fn moved(&self, mapping: &Arc<Mapping>, to: &List<kumiki::array::Format>) -> Result<Moves, String> {
        let text = |error: kumiki::Error| error.to_string();
        let (sizes, nodes) = (self.to_sizes.as_ref(), self.to_nodes.as_ref());
        let (sizes, nodes) = (sizes.unwrap_or(&self.sizes), nodes.unwrap_or(&self.nodes));
        let none = List(vec![Shadow::NONE; sizes.0.len()]);
        let other = super::mapping(&sizes.0, &nodes.0, Some(to), Some(&none))?;
        let section = |mapping: &Mapping, subscripts: &Option<List<_>>| match subscripts {
            Some(List(subscripts)) => mapping.section(subscripts).map_err(text),
            None => Ok(mapping.whole()),
        };
        let (from, into) = (section(mapping, &self.from)?, section(&other, &self.into)?);
        let all = Nodes::line(mapping.nodes().len().max(other.nodes().len()));
        let element = self.element as usize;
        let cost = |rank| {
            let plan = Schedule::copy_of(rank, &all, element, (&other, &into), (mapping, &from));
            Ok((rank, plan.map_err(text)?.cost()))
        };
        let costs: Result<Vec<_>, String> = all.ranks().map(cost).collect();
        let formats: Vec<String> = to.0.iter().map(super::words::shown).collect();
        Ok(Moves { title: format!("a move to {}", formats.join(", ")), costs: costs? })
    }
}

impl Moves {
    /// A line for each node, and what it is in all.
    pub(super) fn table(&self) -> String {
        let mut text = format!("\n{}:\n\n", self.title);
        let _ = writeln!(
            text,
            "{:>6}  {:>12}  {:>9}  {:>12}  {:>9}  {:>12}  {:>9}",
            "rank", "sends", "to nodes", "gets", "from", "copies", "pieces"
        );
        let bytes = |count: u64| bytes_text(count as f64);
        for (rank, cost) in self.costs.iter().take(LINES) {
            let (sent, received, kept) = (bytes(cost.sent), bytes(cost.received), bytes(cost.kept));
            let _ = writeln!(
                text,
                "{rank:>6}  {sent:>12}  {:>9}  {received:>12}  {:>9}  {kept:>12}  {:>9}",
                cost.receivers, cost.senders, cost.pieces
            );
        }
        if self.costs.len() > LINES {
            let _ = writeln!(text, "   … and {} more", self.costs.len() - LINES);
        }
        let sum = |of: fn(&Cost) -> u64| self.costs.iter().map(|(_, cost)| of(cost)).sum::<u64>();
        let (sent, messages, kept) =
            (sum(|cost| cost.sent), sum(|cost| u64::from(cost.receivers)), sum(|cost| cost.kept));
        let (sent, kept) = (bytes(sent), bytes(kept));
        let _ = writeln!(
            text,
            "\nin all {sent} between nodes in {messages} messages, and {kept} copied where they are"
        );
        text
    }

    /// One object a node.
    pub(super) fn json(&self) -> String {
        let line = |(rank, cost): &(u32, Cost)| {
            let line = json!({
                "rank": rank,
                "sent_bytes": cost.sent,
                "received_bytes": cost.received,
                "copied_bytes": cost.kept,
                "receivers": cost.receivers,
                "senders": cost.senders,
                "pieces": cost.pieces,
            });
            format!("{line}\n")
        };
        self.costs.iter().map(line).collect()
    }
}
