//! Horizontal bars in groups, with their values written behind them and labelled lines to compare with.

use super::axis::{Axis, Scale, Unit};
use super::canvas::{At, Canvas, ACCENT, GRID, INK, MUTED, PALETTE, PAPER, SMALL, TEXT};
use std::path::Path;

const WIDTH: u32 = 1600;
const BAR: i32 = 34;
const GAP: i32 = 6;
const GROUP_GAP: i32 = 26;

/// A group of bars with one name.
#[derive(Debug)]
pub(crate) struct Group {
    /// What is written to the left.
    pub(crate) name: String,
    /// One value for each series; `None` leaves its bar out, and closes the gap.
    pub(crate) values: Vec<Option<f64>>,
}

/// A chart of bars.
#[derive(Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Names of the series, in the order of the values; with one series there is no legend.
    pub(crate) series: Vec<String>,
    pub(crate) groups: Vec<Group>,
    pub(crate) unit: Unit,
    pub(crate) scale: Scale,
    /// Lines to compare with: what is written at them, and where they are.
    pub(crate) references: Vec<(String, f64)>,
}

/// Where things are.
struct Layout {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Bars {
    /// Draws the chart into a file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        let bars: usize = self.groups.iter().map(|group| group.values.iter().flatten().count()).sum();
        let rows = bars as i32 * (BAR + GAP) + self.groups.len() as i32 * GROUP_GAP + GROUP_GAP;
        let legend = if self.series.len() > 1 { 60 } else { 0 };
        let notes = self.references.len() as i32 * 36;
        let top = 150 + legend + notes;
        let mut canvas = Canvas::new(WIDTH, (top + rows + 90) as u32);
        canvas.heading(60, &self.title, &self.subtitle);
        if legend > 0 {
            canvas.legend((60, 168), &self.series);
        }
        let widest = self.groups.iter().map(|group| canvas.text_width(&group.name, TEXT)).max().unwrap_or(0);
        let layout =
            Layout { left: 60 + widest + 24, right: WIDTH as i32 - 190, top, bottom: top + rows.max(60) };
        let values = self.groups.iter().flat_map(|group| group.values.iter().flatten().copied());
        let references = self.references.iter().map(|(_, value)| *value);
        let mut shown: Vec<f64> = values.chain(references).collect();
        if self.scale == Scale::Logarithmic {
            // Room below the smallest, so that its bar has a length.
            let least = shown.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
            shown.push(least * 0.6);
        }
        let axis = Axis::new(self.scale, self.unit, shown.into_iter());
        self.draw_grid(&mut canvas, &layout, &axis);
        self.draw_references(&mut canvas, &layout, &axis);
        self.draw_bars(&mut canvas, &layout, &axis);
        canvas.save(path)
    }

    fn draw_grid(&self, canvas: &mut Canvas, layout: &Layout, axis: &Axis) {
        for &mark in &axis.marks {
            let x = layout.x(axis, mark);
            canvas.line((x, layout.top), (x, layout.bottom), GRID, 2);
            canvas.text((x, layout.bottom + 30), &self.unit.text(mark), SMALL, MUTED, At::Centre);
        }
    }

    fn draw_bars(&self, canvas: &mut Canvas, layout: &Layout, axis: &Axis) {
        let mut y = layout.top + GROUP_GAP;
        for group in &self.groups {
            let shown = group.values.iter().flatten().count() as i32;
            let middle = y + (shown * (BAR + GAP) - GAP) / 2;
            canvas.text((layout.left - 20, middle), &group.name, TEXT, INK, At::Right);
            for (index, value) in group.values.iter().enumerate() {
                let Some(value) = *value else { continue };
                // A value that is there shows, however small.
                let end = layout.x(axis, value).max(layout.left + 3);
                canvas.rectangle((layout.left, y), (end, y + BAR), PALETTE[index % PALETTE.len()]);
                let text = self.unit.text(value);
                let width = canvas.text_width(&text, SMALL);
                canvas.rectangle((end + 6, y), (end + 18 + width, y + BAR), PAPER);
                canvas.text((end + 12, y + BAR / 2), &text, SMALL, INK, At::Left);
                y += BAR + GAP;
            }
            y += GROUP_GAP;
        }
        canvas.line((layout.left, layout.top), (layout.left, layout.bottom), MUTED, 2);
    }

    fn draw_references(&self, canvas: &mut Canvas, layout: &Layout, axis: &Axis) {
        let lines = self.references.len() as i32;
        let place =
            |index: usize, value: f64| (layout.x(axis, value), layout.top - (lines - index as i32) * 36 + 10);
        for (index, (_, value)) in self.references.iter().enumerate() {
            let (x, y) = place(index, *value);
            canvas.dashes((x, y + 18), (x, layout.bottom), ACCENT);
        }
        // The names come last, so that no line of another goes through them.
        for (index, (name, value)) in self.references.iter().enumerate() {
            let (x, y) = place(index, *value);
            let width = canvas.text_width(name, SMALL);
            let fits_right = x + width < WIDTH as i32 - 20;
            let left = if fits_right { x } else { x - width };
            canvas.rectangle((left, y - 17), (left + width, y + 17), PAPER);
            canvas.text((left, y), name, SMALL, ACCENT, At::Left);
        }
    }
}

impl Layout {
    fn x(&self, axis: &Axis, value: f64) -> i32 {
        self.left + (axis.place(value) * (self.right - self.left) as f64).round() as i32
    }
}
