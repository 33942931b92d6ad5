//! A field of numbers as colours, with rulers at its sides and a bar that says which colour is which number.

use super::axis::{Axis, Scale, Unit};
use super::canvas::{At, Canvas, INK, MUTED, PAPER, SMALL, TEXT};
use plotters::style::RGBColor;
use std::path::Path;

const WIDTH: u32 = 1480;
const LEFT: u32 = 140;
const TOP: u32 = 200;
/// The longer side of the field.
const SIDE: u32 = 1100;
/// The bar of colours is at least so high.
const KEY_HIGH: u32 = 300;
/// Cells of so many pixels have a line between them.
const LARGE_CELL: f64 = 12.0;
/// Marks of a ruler, at most.
const MARKS: usize = 9;

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

/// What a field is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grain {
    /// Points of something that has values between them, too.
    Points,
    /// Things of their own: each is a square of one colour.
    Cells,
}

/// What is written along a side of the field.
#[derive(Debug)]
pub(crate) struct Ruler {
    pub(crate) name: String,
    /// What one row or column more adds to the number at it.
    pub(crate) step: usize,
}

/// A picture of a field.
#[derive(Debug)]
pub(crate) struct HeatMap {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Columns of the field.
    pub(crate) width: usize,
    /// Rows of the field.
    pub(crate) height: usize,
    /// The field, row by row. Where it is not a number, there is nothing.
    pub(crate) values: Vec<f64>,
    pub(crate) grain: Grain,
    /// The largest number that must have a colour; the smallest is 0.
    pub(crate) top: f64,
    pub(crate) unit: &'static str,
    pub(crate) columns: Ruler,
    pub(crate) rows: Ruler,
    /// Rows at which another rank begins.
    pub(crate) rows_of_ranks: Vec<usize>,
}

impl HeatMap {
    /// Draws the field into a file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        let scale = SIDE as f64 / self.width.max(self.height).max(1) as f64;
        let (wide, high) = ((self.width as f64 * scale) as u32, (self.height as f64 * scale) as u32);
        let mut canvas = Canvas::new(WIDTH, TOP + (high + 110).max(KEY_HIGH + 60));
        canvas.heading(60, &self.title, &self.subtitle);
        let key = self.key();
        for y in 0..high {
            for x in 0..wide {
                let value = self.sample((x as f64 + 0.5) / scale, (y as f64 + 0.5) / scale);
                let nothing = value.is_nan() || self.is_between(x, y, scale);
                let shown = if nothing { PAPER } else { colour(key.place(value)) };
                canvas.pixel(LEFT + x, TOP + y, shown);
            }
        }
        self.draw_ranks(&mut canvas, scale, wide);
        self.draw_rulers(&mut canvas, scale, (wide, high));
        self.draw_key(&mut canvas, &key, wide, high.max(KEY_HIGH));
        canvas.save(path)
    }

    /// Which number has which colour.
    fn key(&self) -> Axis {
        Axis::new(Scale::Linear, Unit::Number(self.unit), std::iter::once(self.top))
    }

    /// Whether a pixel lies between two cells that are large enough to be told apart.
    fn is_between(&self, x: u32, y: u32, scale: f64) -> bool {
        let starts = |at: u32| at > 0 && (at as f64 / scale) as u32 != ((at - 1) as f64 / scale) as u32;
        self.grain == Grain::Cells && scale >= LARGE_CELL && (starts(x) || starts(y))
    }

    /// The field at a place, from 0 to its width and height.
    fn sample(&self, x: f64, y: f64) -> f64 {
        let at = |row: usize, column: usize| {
            self.values.get(row * self.width + column).copied().unwrap_or(f64::NAN)
        };
        if self.grain == Grain::Cells {
            return at(y as usize, x as usize);
        }
        let (x, y) =
            ((x - 0.5).clamp(0.0, self.width as f64 - 1.0), (y - 0.5).clamp(0.0, self.height as f64 - 1.0));
        let (left, top) = (x as usize, y as usize);
        let (right, bottom) = ((left + 1).min(self.width - 1), (top + 1).min(self.height - 1));
        let (across, down) = (x - left as f64, y - top as f64);
        let above = at(top, left) * (1.0 - across) + at(top, right) * across;
        let below = at(bottom, left) * (1.0 - across) + at(bottom, right) * across;
        above * (1.0 - down) + below * down
    }

    fn draw_ranks(&self, canvas: &mut Canvas, scale: f64, wide: u32) {
        for &row in &self.rows_of_ranks {
            let y = (TOP as f64 + row as f64 * scale) as i32;
            let right = (LEFT + wide) as i32;
            canvas.dashes((LEFT as i32, y), (right, y), RGBColor(150, 150, 150));
        }
    }

    /// Numbers stand at the middle of their row or column.
    fn draw_rulers(&self, canvas: &mut Canvas, scale: f64, (wide, high): (u32, u32)) {
        let (left, top, bottom) = (LEFT as i32, TOP as i32, (TOP + high) as i32);
        for column in marks(self.width) {
            let x = left + ((column as f64 + 0.5) * scale) as i32;
            canvas.line((x, bottom), (x, bottom + 8), MUTED, 2);
            let text = (column * self.columns.step).to_string();
            canvas.text((x, bottom + 26), &text, SMALL, MUTED, At::Centre);
        }
        for row in marks(self.height) {
            let y = top + ((row as f64 + 0.5) * scale) as i32;
            canvas.line((left - 8, y), (left, y), MUTED, 2);
            canvas.text((left - 16, y), &(row * self.rows.step).to_string(), SMALL, MUTED, At::Right);
        }
        canvas.text((left + wide as i32 / 2, bottom + 70), &self.columns.name, TEXT, MUTED, At::Centre);
        canvas.text((60, top - 30), &self.rows.name, TEXT, MUTED, At::Left);
    }

    fn draw_key(&self, canvas: &mut Canvas, key: &Axis, wide: u32, high: u32) {
        let (left, right) = (LEFT + wide + 40, LEFT + wide + 80);
        for y in 0..high {
            let colour = colour(1.0 - y as f64 / high as f64);
            (left..right).for_each(|x| canvas.pixel(x, TOP + y, colour));
        }
        for &mark in &key.marks {
            let y = (TOP as f64 + (1.0 - key.place(mark)) * (high as f64 - 1.0)) as i32;
            canvas.line((right as i32, y), (right as i32 + 10, y), MUTED, 2);
            let text = Unit::Number(self.unit).text(mark);
            canvas.text((right as i32 + 20, y), &text, SMALL, INK, At::Left);
        }
    }
}

/// Which of so many rows or columns have a number: the first, and every so many from there.
fn marks(count: usize) -> impl Iterator<Item = usize> {
    let decades = (0..).map(|power| 10usize.pow(power));
    let mut strides = decades.flat_map(|decade| [1, 2, 5].map(|factor| factor * decade));
    let stride = strides.find(|stride| count.div_ceil(*stride) <= MARKS).unwrap_or(count.max(1));
    (0..count).step_by(stride)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn map(grain: Grain, values: Vec<f64>, top: f64) -> HeatMap {
        let ruler = |name: &str| Ruler { name: name.into(), step: 1 };
        HeatMap {
            title: String::new(),
            subtitle: String::new(),
            width: 2,
            height: values.len().div_ceil(2),
            values,
            grain,
            top,
            unit: "%",
            columns: ruler("column"),
            rows: ruler("row"),
            rows_of_ranks: Vec::new(),
        }
    }

    #[test]
    fn a_cell_has_one_colour_and_there_is_none_where_nothing_is() {
        let cells = map(Grain::Cells, vec![1.0, 2.0, 3.0], 3.0);
        assert_eq!((cells.sample(0.1, 0.1), cells.sample(0.9, 0.9), cells.sample(1.1, 0.5)), (1.0, 1.0, 2.0));
        assert!(cells.sample(1.5, 1.5).is_nan(), "nothing is there");
        let points = map(Grain::Points, vec![1.0, 2.0, 3.0, 4.0], 4.0);
        assert_eq!(points.sample(1.0, 1.0), 2.5);
    }

    #[test]
    fn the_key_reaches_as_far_as_the_numbers_do() {
        for (top, end) in [(0.8, 0.8), (3.0, 3.0), (41.0, 50.0), (100.0, 100.0)] {
            let key = map(Grain::Cells, vec![0.0; 4], top).key();
            assert!((key.place(end) - 1.0).abs() < 1e-9, "{top}: {key:?}");
            assert!(key.marks.len() >= 4, "{key:?}");
        }
    }

    #[test]
    fn rulers_have_a_few_round_numbers() {
        let shown = |count| marks(count).collect::<Vec<_>>();
        assert_eq!(shown(4), [0, 1, 2, 3]);
        assert_eq!(shown(32), [0, 5, 10, 15, 20, 25, 30]);
        assert_eq!(shown(256), [0, 50, 100, 150, 200, 250]);
        assert_eq!(shown(0), [0usize; 0]);
    }
}
