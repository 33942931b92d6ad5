//! What each node has of an index space.

use super::words::shown;
use crate::chart::{bytes_text, Owners};
use kumiki::array::{Format, Mapping, Part};
use serde_json::json;
use std::fmt::Write;
use std::path::Path;

/// Cells of a map in text.
const MAP: [u64; 2] = [24, 64];
/// Cells of a map in a picture.
const PICTURE: u64 = 64;
/// Nodes that have a letter in a map in text.
const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// Nodes that have a line in a table.
const LINES: u32 = 256;

/// An array that nobody has made.
pub(super) struct Space<'a> {
    pub(super) mapping: &'a Mapping,
    pub(super) element: u64,
    pub(super) formats: Vec<Format>,
}

impl Space<'_> {
    fn title(&self) -> String {
        let join = |list: Vec<String>, between: &str| list.join(between);
        let sizes = join(self.mapping.sizes().iter().map(u64::to_string).collect(), " × ");
        let grid = join(self.mapping.nodes().sizes().iter().map(u32::to_string).collect(), " × ");
        let formats = join(self.formats.iter().map(shown).collect(), ", ");
        let (element, nodes) = (self.element, self.mapping.nodes().len());
        format!("{sizes} elements of {element} bytes on {nodes} nodes ({grid}): {formats}")
    }

    /// A line for each node, and a map.
    pub(super) fn table(&self) -> String {
        let dimensions = self.mapping.dimensions().len();
        let mut text = format!("{}\n\n{:>6}  {:<8}", self.title(), "rank", "node");
        (0..dimensions).for_each(|at| _ = write!(text, "  {:<24}", format!("dimension {at}")));
        let _ = writeln!(text, "  {:>14}  {:>14}  {:>10}", "elements", "with shadow", "memory");
        let mut most = 0;
        for rank in self.mapping.nodes().ranks() {
            let part = self.mapping.part(rank);
            most = most.max(elements(&part));
            if rank >= LINES {
                continue;
            }
            let place = part.coordinates().unwrap_or_default();
            let place: Vec<String> = place.iter().map(u32::to_string).collect();
            let _ = write!(text, "{rank:>6}  {:<8}", place.join(","));
            (0..dimensions).for_each(|at| _ = write!(text, "  {:<24}", indices(&part, at)));
            let memory = bytes_text(part.len() as f64 * self.element as f64);
            let _ = writeln!(text, "  {:>14}  {:>14}  {memory:>10}", elements(&part), part.len());
        }
        let nodes = self.mapping.nodes().len();
        if nodes > LINES {
            let _ = writeln!(text, "   … and {} more", nodes - LINES);
        }
        let mean = self.mapping.len() as f64 / f64::from(nodes);
        let _ =
            writeln!(text, "\nthe node with most has {most} elements: {:.2} × the mean", most as f64 / mean);
        text + &self.map()
    }

    /// One object a node.
    pub(super) fn json(&self) -> String {
        let line = |rank| {
            let part = self.mapping.part(rank);
            let ranges = |at| {
                let list =
                    all(&part, at).into_iter().map(|range| json!([range.first, range.last, range.step]));
                list.collect::<Vec<_>>()
            };
            let dimensions: Vec<_> = (0..self.mapping.dimensions().len()).map(ranges).collect();
            let line = json!({
                "rank": rank,
                "node": part.coordinates().unwrap_or_default(),
                "indices": dimensions,
                "elements": elements(&part),
                "with_shadow": part.len(),
                "bytes": part.len().saturating_mul(self.element),
            });
            format!("{line}\n")
        };
        self.mapping.nodes().ranks().map(line).collect()
    }

    /// The first two dimensions as letters, each for who has the element in the middle of it.
    fn map(&self) -> String {
        if self.mapping.nodes().len() as usize > LETTERS.len() || self.mapping.sizes().is_empty() {
            return String::new();
        }
        let [rows, columns] = self.cells(MAP);
        let mut text = String::from("\n");
        for row in 0..rows {
            let line: String = (0..columns)
                .map(|column| self.owner([row, column], [rows, columns]))
                .map(|owner| owner.map_or('.', |rank| LETTERS[rank as usize] as char))
                .collect();
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    /// A picture of the same.
    pub(super) fn draw(&self, path: &Path) -> Result<(), String> {
        let [rows, columns] = self.cells([PICTURE; 2]);
        let owners =
            (0..rows * columns).map(|at| self.owner([at / columns, at % columns], [rows, columns])).collect();
        let sizes = self.mapping.sizes();
        let size = |at: usize| sizes.get(at).copied().unwrap_or(1);
        let [tall, wide] = if sizes.len() == 1 { [1, size(0)] } else { [size(0), size(1)] };
        Owners {
            title: "Who has what".into(),
            subtitle: self.title(),
            columns: columns as usize,
            owners,
            extents: [tall, wide],
        }
        .save(path)
    }

    /// How many cells the first two dimensions have: rows and columns. One dimension is a row.
    fn cells(&self, most: [u64; 2]) -> [u64; 2] {
        let sizes = self.mapping.sizes();
        match sizes[..] {
            [] => [1, 1],
            [only] => [1, only.min(most[1])],
            [tall, wide, ..] => [tall.min(most[0]), wide.min(most[1])],
        }
    }

    /// The first rank that has the element in the middle of a cell.
    fn owner(&self, at: [u64; 2], of: [u64; 2]) -> Option<u32> {
        let sizes = self.mapping.sizes();
        let middle = |cell: u64, cells: u64, size: u64| {
            ((u128::from(cell) * 2 + 1) * u128::from(size) / (2 * u128::from(cells))) as i64
        };
        let mut index = vec![0; sizes.len()];
        match index.len() {
            0 => {}
            1 => index[0] = middle(at[1], of[1], sizes[0]),
            _ => {
                index[0] = middle(at[0], of[0], sizes[0]);
                index[1] = middle(at[1], of[1], sizes[1]);
            }
        }
        self.mapping.owners(&index).ok()?.first()
    }
}

fn all(part: &Part<'_>, dimension: usize) -> Vec<kumiki::array::Progression> {
    let size = part.mapping().dimensions()[dimension].size() as i64;
    part.ranges(dimension, 0, size - 1, 1)
}

fn elements(part: &Part<'_>) -> u64 {
    (0..part.mapping().dimensions().len()).map(|at| part.count(at)).product()
}

/// The indices of one dimension that a node has.
fn indices(part: &Part<'_>, dimension: usize) -> String {
    let ranges = all(part, dimension);
    let first = ranges.iter().map(|range| range.first).min();
    let last = ranges.iter().map(|range| range.last).max();
    match (&ranges[..], first, last) {
        ([one], Some(first), _) if one.first == one.last => first.to_string(),
        ([one], Some(first), Some(last)) if one.step == 1 => format!("{first}..={last}"),
        ([one], Some(first), Some(last)) => format!("{first}..={last} by {}", one.step),
        // Blocks in turn are as many progressions as a block has indices.
        ([one, ..], Some(first), Some(last)) => {
            let block = first + ranges.len() as i64 - 1;
            format!("{first}..={block} by {} to {last}", one.step)
        }
        _ => "nothing".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{mapping, words, List};
    use super::*;

    fn space(sizes: &[u64], nodes: &[u32], formats: &str) -> (std::sync::Arc<Mapping>, Vec<Format>) {
        let formats = words::formats(formats).unwrap();
        (mapping(sizes, nodes, Some(&List(formats.clone())), None).unwrap(), formats)
    }

    #[test]
    fn a_table_says_who_has_what() {
        let (mapping, formats) = space(&[5, 7], &[4], "block,*");
        let space = Space { mapping: &mapping, element: 8, formats };
        let text = space.table();
        assert!(text.contains("5 × 7 elements of 8 bytes on 4 nodes (4): block, *"), "{text}");
        assert!(
            text.contains("0..=1") && text.contains("nothing") && text.contains("1.60 × the mean"),
            "{text}"
        );
        assert!(text.ends_with("  0000000\n  0000000\n  1111111\n  1111111\n  2222222\n"), "{text}");
        assert_eq!(space.json().lines().count(), 4);
    }

    #[test]
    fn what_is_dealt_out_in_turn_is_shown_by_its_pieces() {
        let (mapping, formats) = space(&[24], &[2], "cyclic(3)");
        let space = Space { mapping: &mapping, element: 8, formats };
        assert_eq!(indices(&mapping.part(0), 0), "0..=2 by 6 to 20");
        assert!(space.table().contains("  000111000111000111000111\n"));
        let (mapping, _) = super::tests::space(&[10], &[3], "cyclic");
        assert_eq!(indices(&mapping.part(1), 0), "1..=7 by 3");
    }
}
