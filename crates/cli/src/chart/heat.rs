//! A field of numbers as colours, with a bar that says which colour is which number.

use super::canvas::{At, Canvas, INK, MUTED, PAPER, SMALL};
use plotters::style::RGBColor;
use std::path::Path;

const WIDTH: u32 = 1400;
const LEFT: u32 = 60;
const TOP: u32 = 150;
/// The longer side of the field.
const SIDE: u32 = 1100;

/// Dark to bright, evenly for the eye (after matplotlib's *inferno*).
const COLOURS: [[u8; 3]; 9] = [
    [0, 0, 4],
    [31, 12, 72],
    [85, 15, 109],
    [136, 34, 106],
    [186, 54, 85],
    [227, 89, 51],
    [249, 140, 10],
    [249, 201, 50],
    [252, 255, 164],
];

/// A picture of a field.
#[derive(Debug)]
pub(crate) struct HeatMap<'a> {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Columns of the field.
    pub(crate) width: usize,
    /// Rows of the field.
    pub(crate) height: usize,
    /// The field, row by row.
    pub(crate) values: &'a [f64],
    /// The numbers of the darkest and the brightest colour.
    pub(crate) range: (f64, f64),
    pub(crate) unit: &'static str,
    /// Rows at which another rank begins: marked at the right edge.
    pub(crate) rows_of_ranks: &'a [usize],
}

impl HeatMap<'_> {
    /// Draws the field into a file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        let scale = SIDE as f64 / self.width.max(self.height).max(1) as f64;
        let (wide, high) = ((self.width as f64 * scale) as u32, (self.height as f64 * scale) as u32);
        let mut canvas = Canvas::new(WIDTH, TOP + high.max(300) + 60);
        canvas.heading(LEFT as i32, &self.title, &self.subtitle);
        for y in 0..high {
            for x in 0..wide {
                let value = self.sample((x as f64 + 0.5) / scale - 0.5, (y as f64 + 0.5) / scale - 0.5);
                let (low, top) = self.range;
                canvas.pixel(LEFT + x, TOP + y, colour((value - low) / (top - low)));
            }
        }
        self.draw_ranks(&mut canvas, scale, wide);
        self.draw_key(&mut canvas, wide, high.max(300));
        canvas.save(path)
    }

    /// The field between its points.
    fn sample(&self, x: f64, y: f64) -> f64 {
        let (x, y) = (x.clamp(0.0, self.width as f64 - 1.0), y.clamp(0.0, self.height as f64 - 1.0));
        let (left, top) = (x as usize, y as usize);
        let (right, bottom) = ((left + 1).min(self.width - 1), (top + 1).min(self.height - 1));
        let (across, down) = (x - left as f64, y - top as f64);
        let at =
            |row: usize, column: usize| self.values.get(row * self.width + column).copied().unwrap_or(0.0);
        let above = at(top, left) * (1.0 - across) + at(top, right) * across;
        let below = at(bottom, left) * (1.0 - across) + at(bottom, right) * across;
        above * (1.0 - down) + below * down
    }

    fn draw_ranks(&self, canvas: &mut Canvas, scale: f64, wide: u32) {
        for &row in self.rows_of_ranks {
            let y = (TOP as f64 + row as f64 * scale) as i32;
            let right = (LEFT + wide) as i32;
            canvas.dashes((LEFT as i32, y), (right, y), RGBColor(150, 150, 150));
        }
    }

    fn draw_key(&self, canvas: &mut Canvas, wide: u32, high: u32) {
        let (left, right) = (LEFT + wide + 40, LEFT + wide + 80);
        for y in 0..high {
            let colour = colour(1.0 - y as f64 / high as f64);
            (left..right).for_each(|x| canvas.pixel(x, TOP + y, colour));
        }
        let (low, top) = self.range;
        for step in 0..=5 {
            let part = step as f64 / 5.0;
            let y = (TOP as f64 + (1.0 - part) * (high as f64 - 1.0)) as i32;
            let value = low + part * (top - low);
            canvas.line((right as i32, y), (right as i32 + 10, y), MUTED, 2);
            canvas.text((right as i32 + 20, y), &format!("{value:.0} {}", self.unit), SMALL, INK, At::Left);
        }
        canvas.line((left as i32 - 1, TOP as i32), (left as i32 - 1, (TOP + high) as i32), PAPER, 1);
    }
}

/// The colour of a number from 0 to 1.
fn colour(part: f64) -> RGBColor {
    let place = part.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f64;
    let first = (place as usize).min(COLOURS.len() - 2);
    let between = place - first as f64;
    let mix = |channel: usize| {
        let (a, b) = (COLOURS[first][channel] as f64, COLOURS[first + 1][channel] as f64);
        (a + (b - a) * between).round() as u8
    };
    RGBColor(mix(0), mix(1), mix(2))
}
