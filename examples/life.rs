//! Conway's game of life on a torus, on blocks in two dimensions: a shadow that closes to a ring, with its corners.
//!
//! `kumiki run -n 4 target/release/examples/life [FOLDER]` also writes a picture of the first and of the last generation, with the blocks.

use kumiki::array::{Align, Array, Mapping, Nodes, Shadow, Template, Width};
use kumiki::prelude::*;
use std::fmt::Write as _;

const SIDE: i64 = 48;
const GENERATIONS: usize = 50;

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let ranks = world.ranks();
    let columns = (1..=ranks).rfind(|n| n * n <= ranks && ranks.is_multiple_of(*n)).unwrap_or(1);
    let nodes = Nodes::grid(&[ranks / columns, columns])?;
    let template = Template::block(&[SIDE as u64; 2], &nodes)?;
    let aligns = [Align::with(0, 0), Align::with(1, 0)];
    let mapping = Mapping::new(&template, &[SIDE as u64; 2], &aligns, &[Shadow::both(1); 2])?;
    let mut cells = Array::<u8, 2>::new(&world, &mapping)?;
    let mut next = cells.like()?;
    cells.update(|[i, j], cell| *cell = start(i, j));
    let first = cells.to_vec()?;

    let ring = [Width { low: 1, high: 1, periodic: true }; 2];
    for _ in 0..GENERATIONS {
        let around = cells.reflect_with(&ring, true)?;
        next.zip_rows(around, |_, row, around| {
            // The row, those above and below, and each of them one to the left and one to the right.
            let rows = [-1, 0, 1].map(|di| [-1, 0, 1].map(|dj| around.row([di, dj])));
            for (at, cell) in row.iter_mut().enumerate() {
                let own = rows[1][1][at];
                let neighbours = rows.iter().flatten().map(|row| row[at]).sum::<u8>() - own;
                *cell = u8::from(neighbours == 3 || neighbours == 2 && own == 1);
            }
        });
        std::mem::swap(&mut cells, &mut next);
    }

    let last = cells.to_vec()?;
    if world.rank() == 0 {
        let living = last.iter().filter(|cell| **cell == 1).count();
        println!("after {GENERATIONS} generations {living} cells live");
        println!("a serial run gives {}", if last == serial() { "the same" } else { "something else" });
        if let Some(folder) = std::env::args().nth(1) {
            let picture = draw(&[first, last], &mapping);
            std::fs::write(format!("{folder}/life.svg"), picture).expect("a picture");
        }
    }
    drop((cells, next));
    world.finalize()
}

/// Some that glide, one that grows for long.
fn start(i: i64, j: i64) -> u8 {
    const GLIDER: [(i64, i64); 5] = [(0, 1), (1, 2), (2, 0), (2, 1), (2, 2)];
    const ACORN: [(i64, i64); 7] = [(0, 1), (1, 3), (2, 0), (2, 1), (2, 4), (2, 5), (2, 6)];
    let gliders = [(3, 3), (10, 30), (38, 8)];
    let is_glider = gliders.iter().any(|(x, y)| GLIDER.contains(&(i - x, j - y)));
    u8::from(is_glider || ACORN.contains(&(i - 24, j - 20)))
}

fn serial() -> Vec<u8> {
    let wrap = |at: i64| at.rem_euclid(SIDE);
    let mut cells: Vec<u8> = (0..SIDE * SIDE).map(|at| start(at / SIDE, at % SIDE)).collect();
    for _ in 0..GENERATIONS {
        let at = |i: i64, j: i64| cells[(wrap(i) * SIDE + wrap(j)) as usize];
        let step = |place: i64| {
            let (i, j) = (place / SIDE, place % SIDE);
            let all: u8 = (-1..=1).flat_map(|di| (-1..=1).map(move |dj| at(i + di, j + dj))).sum();
            let neighbours = all - at(i, j);
            u8::from(neighbours == 3 || neighbours == 2 && at(i, j) == 1)
        };
        cells = (0..SIDE * SIDE).map(step).collect();
    }
    cells
}

/// Both generations side by side; each block has its shade.
fn draw(generations: &[Vec<u8>; 2], mapping: &Mapping) -> String {
    const CELL: i64 = 9;
    let (wide, high) = (2 * SIDE * CELL + 60, SIDE * CELL + 60);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" height=\"{high}\" font-family=\"sans-serif\" \
         font-size=\"14\" fill=\"#333\">\n<rect width=\"{wide}\" height=\"{high}\" fill=\"white\"/>\n"
    );
    let shades = ["#eef3f8", "#f8f1e7", "#eaf5ef", "#f5ebf1"];
    for (which, cells) in generations.iter().enumerate() {
        let left = 20 + which as i64 * (SIDE * CELL + 20);
        let name =
            if which == 0 { "at the start".into() } else { format!("after {GENERATIONS} generations") };
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"26\">{name}</text>");
        for rank in mapping.nodes().ranks() {
            let part = mapping.part(rank);
            let (Some((top, bottom)), Some((from, to))) = (part.ends(0), part.ends(1)) else { continue };
            let shade = shades[(part.coordinates().map_or(0, |at| at[0] + 2 * at[1]) % 4) as usize];
            let (x, y) = (left + from * CELL, 40 + top * CELL);
            let (width, height) = ((to - from + 1) * CELL, (bottom - top + 1) * CELL);
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{shade}\"/>"
            );
        }
        for (place, _) in cells.iter().enumerate().filter(|(_, cell)| **cell == 1) {
            let (x, y) = (left + place as i64 % SIDE * CELL, 40 + place as i64 / SIDE * CELL);
            let side = CELL - 1;
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"#0f69a0\"/>"
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
