//! A map of who has what: cells in the colour and with the number of their owner.

use super::canvas::{At, Canvas, GRID, INK, MUTED, PALETTE, PAPER, SMALL, TEXT};
use plotters::style::RGBColor;
use std::path::Path;

const WIDTH: u32 = 1480;
const LEFT: u32 = 140;
const TOP: u32 = 200;
/// The longer side of the map.
const SIDE: u32 = 1200;
/// Cells of so many pixels have a number.
const LEAST_NUMBER: f64 = 30.0;
/// A map of one row is so high.
const ROW: u32 = 120;

/// A map of the first two dimensions of something.
pub(crate) struct Owners {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Cells in a row.
    pub(crate) columns: usize,
    /// The owner of each cell, row by row.
    pub(crate) owners: Vec<Option<u32>>,
    /// How many elements the rows and the columns stand for.
    pub(crate) extents: [u64; 2],
}

impl Owners {
    /// Draws the map into a file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        let rows = self.owners.len() / self.columns.max(1);
        let scale = f64::from(SIDE) / self.columns.max(rows).max(1) as f64;
        let wide = (self.columns as f64 * scale) as u32;
        let high = if rows == 1 { ROW } else { (rows as f64 * scale) as u32 };
        let mut canvas = Canvas::new(WIDTH, TOP + high + 130);
        canvas.heading(60, &self.title, &self.subtitle);
        let (across, down) = (f64::from(wide) / self.columns as f64, f64::from(high) / rows.max(1) as f64);
        for (at, owner) in self.owners.iter().enumerate() {
            let (row, column) = (at / self.columns, at % self.columns);
            let corner = |row: usize, column: usize| {
                let (x, y) = (column as f64 * across, row as f64 * down);
                ((f64::from(LEFT) + x) as i32, (f64::from(TOP) + y) as i32)
            };
            let (from, to) = (corner(row, column), corner(row + 1, column + 1));
            let colour = owner.map_or(PAPER, colour);
            canvas.rectangle(from, (to.0 - 1, to.1 - 1), colour);
            if across.min(down) >= LEAST_NUMBER {
                if let Some(owner) = owner {
                    let middle = ((from.0 + to.0) / 2, (from.1 + to.1) / 2);
                    canvas.text(middle, &owner.to_string(), SMALL, PAPER, At::Centre);
                }
            }
        }
        let (left, top) = (LEFT as i32, TOP as i32);
        let (right, bottom) = (left + wide as i32, top + high as i32);
        canvas.line((left, bottom), (right, bottom), GRID, 2);
        let [tall, width] = self.extents;
        canvas.text((left, bottom + 26), "0", SMALL, MUTED, At::Left);
        canvas.text((right, bottom + 26), &(width - 1).to_string(), SMALL, MUTED, At::Right);
        if rows > 1 {
            canvas.text((left - 12, top + 10), "0", SMALL, MUTED, At::Right);
            canvas.text((left - 12, bottom - 10), &(tall - 1).to_string(), SMALL, MUTED, At::Right);
            canvas.text((60, top - 30), "dimension 0", TEXT, MUTED, At::Left);
        }
        let name = if rows > 1 { "dimension 1" } else { "dimension 0" };
        canvas.text(((left + right) / 2, bottom + 70), name, TEXT, INK, At::Centre);
        canvas.save(path)
    }
}

/// Neighbours differ: six colours, and behind them the same a little darker, and so on.
fn colour(owner: u32) -> RGBColor {
    let RGBColor(red, green, blue) = PALETTE[owner as usize % PALETTE.len()];
    let dark = 1.0 - 0.18 * f64::from(owner / PALETTE.len() as u32 % 4);
    let shade = |value: u8| (f64::from(value) * dark) as u8;
    RGBColor(shade(red), shade(green), shade(blue))
}
