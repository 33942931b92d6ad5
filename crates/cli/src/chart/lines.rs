//! Lines over two logarithmic axes, one colour a series, names at the end of the lines.

use super::axis::{Axis, Scale, Unit};
use super::canvas::{At, Canvas, GRID, MUTED, PALETTE, SMALL, TEXT};
use std::path::Path;

const WIDTH: u32 = 1600;
const HEIGHT: u32 = 980;
const LEFT: i32 = 170;
const RIGHT: i32 = 1540;
const TOP: i32 = 220;
const BOTTOM: i32 = 850;

/// The points of one line.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) x_unit: Unit,
    pub(crate) y_unit: Unit,
    pub(crate) series: Vec<Series>,
}

impl Lines {
    /// Draws the chart into a file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        canvas.heading(60, &self.title, &self.subtitle);
        let names: Vec<String> = self.series.iter().map(|series| series.name.clone()).collect();
        canvas.legend((60, 168), &names);
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let x_axis = Axis::new(Scale::Logarithmic, self.x_unit, points().map(|point| point.0));
        let y_axis = Axis::new(Scale::Logarithmic, self.y_unit, points().map(|point| point.1));
        self.draw_grid(&mut canvas, &x_axis, &y_axis);
        for (index, series) in self.series.iter().enumerate() {
            let colour = PALETTE[index % PALETTE.len()];
            let path: Vec<(i32, i32)> =
                series.points.iter().map(|&(x, y)| (at_x(&x_axis, x), at_y(&y_axis, y))).collect();
            canvas.path(&path, colour, 4);
            path.iter().for_each(|&point| canvas.dot(point, 7, colour));
        }
        canvas.save(path)
    }

    fn draw_grid(&self, canvas: &mut Canvas, x_axis: &Axis, y_axis: &Axis) {
        for &mark in &x_axis.marks {
            let x = at_x(x_axis, mark);
            canvas.line((x, TOP), (x, BOTTOM), GRID, 2);
            canvas.text((x, BOTTOM + 32), &self.x_unit.text(mark), SMALL, MUTED, At::Centre);
        }
        for &mark in &y_axis.marks {
            let y = at_y(y_axis, mark);
            canvas.line((LEFT, y), (RIGHT, y), GRID, 2);
            canvas.text((LEFT - 18, y), &self.y_unit.text(mark), SMALL, MUTED, At::Right);
        }
        canvas.text(((LEFT + RIGHT) / 2, BOTTOM + 84), &self.x_label, TEXT, MUTED, At::Centre);
        canvas.text((LEFT + 14, TOP + 24), &self.y_label, TEXT, MUTED, At::Left);
    }
}

fn at_x(axis: &Axis, value: f64) -> i32 {
    LEFT + (axis.place(value) * (RIGHT - LEFT) as f64).round() as i32
}

fn at_y(axis: &Axis, value: f64) -> i32 {
    BOTTOM - (axis.place(value) * (BOTTOM - TOP) as f64).round() as i32
}
