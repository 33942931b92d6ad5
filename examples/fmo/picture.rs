//! The molecule with its charges, what each pair of fragments adds, and who computed what when.

use super::{additions, all_pairs, fragment_atoms, middle, Shared, Work, FRAGMENTS, MOST_ROUNDS, SIZES};
use std::fmt::Write as _;

const WIDTH: f64 = 1000.0;
/// Where the chart begins, below the other two.
const CHART: f64 = 560.0;
/// The height of a rank in the chart, and where time begins and ends.
const ROW: f64 = 30.0;
const FROM: f64 = 70.0;
const TO: f64 = 980.0;

pub(super) struct Picture {
    /// What each atom has too much or too little of electrons, by fragment.
    charges: Vec<Vec<f64>>,
    additions: Vec<f64>,
    rounds: usize,
    ranks: u32,
    works: Vec<Work>,
    svg: String,
}

impl Picture {
    pub(super) fn new(shared: &Shared<'_>, energies: &[f64], rounds: usize) -> kumiki::Result<Picture> {
        let mut charges = Vec::new();
        for (fragment, size) in SIZES.into_iter().enumerate() {
            let density = shared.density(rounds, fragment)?;
            charges.push((0..size).map(|at| density[at * size + at] - 1.0).collect());
        }
        let (ranks, works) = (shared.world.ranks(), shared.works.to_vec()?);
        Ok(Picture { charges, additions: additions(energies), rounds, ranks, works, svg: String::new() })
    }

    pub(super) fn draw(mut self) -> String {
        let height = CHART + ROW * f64::from(self.ranks) + 55.0;
        let _ = writeln!(
            self.svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"13\" fill=\"#333\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>"
        );
        self.molecule();
        self.matrix();
        self.chart();
        self.svg.push_str("</svg>\n");
        self.svg
    }

    fn text(&mut self, [x, y]: [f64; 2], anchor: &str, words: &str) {
        let _ = writeln!(self.svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
    }

    /// The rings from above: atoms that have drawn electrons are red, those that have given some are blue.
    fn molecule(&mut self) {
        self.text(
            [30.0, 30.0],
            "start",
            "charges of the atoms: red have drawn electrons, blue have given some",
        );
        let place = |[x, y, _]: [f64; 3]| [245.0 + 18.5 * x, 265.0 - 18.5 * y];
        for fragment in 0..FRAGMENTS {
            let atoms: Vec<[f64; 2]> =
                fragment_atoms(fragment).iter().map(|atom| place(atom.place)).collect();
            let corners: String = atoms.iter().map(|[x, y]| format!("{x:.1},{y:.1} ")).collect();
            let _ = writeln!(
                self.svg,
                "<polygon points=\"{corners}\" fill=\"#f2f2ee\" stroke=\"#777\" stroke-width=\"3\" stroke-linejoin=\"round\"/>"
            );
            let charges = self.charges[fragment].clone();
            for ([x, y], charge) in atoms.into_iter().zip(charges) {
                let colour = shade(charge / 0.6);
                let _ = writeln!(
                    self.svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"{colour}\" stroke=\"#555\"/>"
                );
            }
            let [x, y] = place(middle(fragment));
            self.text([x, y + 5.0], "middle", &(fragment + 1).to_string());
        }
    }

    /// A square for each pair, in its colour by powers of ten.
    fn matrix(&mut self) {
        self.text([553.0, 30.0], "start", "what each pair of fragments adds to the energy, in meV");
        let (left, top, side) = (565.0, 68.0, 40.0);
        for fragment in 0..FRAGMENTS {
            let (along, name) = (side * (fragment as f64 + 0.5), (fragment + 1).to_string());
            self.text([left - 12.0, top + along + 5.0], "middle", &name);
            self.text([left + along, top - 8.0], "middle", &name);
        }
        for (pair, adds) in all_pairs().into_iter().zip(self.additions.clone()) {
            let thousandths = 1000.0 * adds;
            let strength = (1.0 + thousandths.abs()).log10() / 2.5;
            let colour = shade(if thousandths < 0.0 { strength } else { -strength });
            let words = if thousandths.abs() < 0.5 { "0".into() } else { format!("{thousandths:.0}") };
            for (row, column) in [(pair[0], pair[1]), (pair[1], pair[0])] {
                let (x, y) = (left + side * column as f64, top + side * row as f64);
                let _ = writeln!(
                    self.svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{side}\" height=\"{side}\" fill=\"{colour}\" stroke=\"white\" stroke-width=\"2\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">{words}</text>",
                    x + side / 2.0,
                    y + side / 2.0 + 4.0
                );
            }
        }
    }

    /// A bar for each piece, as high as the ranks that computed it.
    fn chart(&mut self) {
        let top = CHART;
        let done = |work: &Work| work.ended_us > 0;
        let began = self.works.iter().filter(|work| done(work)).map(|work| work.began_us).min().unwrap_or(0);
        let ended = self.works.iter().map(|work| work.ended_us).max().unwrap_or(1).max(began + 1);
        let across = |at_us: u64| FROM + (TO - FROM) * (at_us - began) as f64 / (ended - began) as f64;
        self.text(
            [30.0, CHART - 42.0],
            "start",
            "who computed what when: fragments in rounds (green), then pairs (orange); the larger, the darker",
        );
        for rank in 0..self.ranks {
            let y = top + ROW * f64::from(rank);
            self.text([FROM - 10.0, y + ROW / 2.0 + 5.0], "end", &format!("rank {rank}"));
            let _ = writeln!(
                self.svg,
                "<rect x=\"{FROM}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#f4f4f4\"/>",
                y + 1.0,
                TO - FROM,
                ROW - 2.0
            );
        }
        for (place, work) in self.works.clone().into_iter().enumerate().filter(|(_, work)| done(work)) {
            let (piece, is_pair) = match place.checked_sub(MOST_ROUNDS * FRAGMENTS) {
                Some(pair) => (all_pairs()[pair].clone(), true),
                None => (vec![place % FRAGMENTS], false),
            };
            let (left, right) = (across(work.began_us), across(work.ended_us));
            self.bar(&piece, is_pair, [left, right], &work);
        }
        let bottom = top + ROW * f64::from(self.ranks);
        for round in 1..=self.rounds {
            let works = &self.works[(round - 1) * FRAGMENTS..round * FRAGMENTS];
            let x = across(works.iter().map(|work| work.ended_us).max().unwrap_or(began));
            let _ = writeln!(
                self.svg,
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#333\" stroke-dasharray=\"3 3\"/>",
                top - 6.0
            );
        }
        self.phases(across);
        self.axis((ended - began) as f64 / 1000.0, bottom);
    }

    /// What the groups were like, above each phase.
    fn phases(&mut self, across: impl Fn(u64) -> f64) {
        let (fragments, pairs) = self.works.split_at(MOST_ROUNDS * FRAGMENTS);
        let phases = [(format!("{} rounds of fragments", self.rounds), fragments), ("pairs".into(), pairs)];
        let label = |(name, works): (String, &[Work])| {
            let done = || works.iter().filter(|work| work.ended_us > 0);
            let from = done().map(|work| across(work.began_us)).fold(TO, f64::min);
            let to = done().map(|work| across(work.ended_us)).fold(FROM, f64::max);
            let ranks = done().map(|work| work.ranks).max().unwrap_or(0);
            ((from + to) / 2.0, format!("{name}, groups of {ranks}"))
        };
        for (x, words) in phases.map(label) {
            self.text([x, CHART - 12.0], "middle", &words);
        }
    }

    fn bar(&mut self, piece: &[usize], is_pair: bool, [left, right]: [f64; 2], work: &Work) {
        let atoms: usize = piece.iter().map(|fragment| SIZES[*fragment]).sum();
        let (least, most) = if is_pair { (8, 16) } else { (4, 8) };
        let depth = (atoms - least) as f64 / (most - least) as f64;
        let [pale, deep] =
            if is_pair { [[253, 208, 150], [226, 122, 40]] } else { [[190, 226, 178], [60, 150, 90]] };
        let mix =
            |at: usize| (f64::from(pale[at]) + depth * (f64::from(deep[at]) - f64::from(pale[at]))) as u8;
        let y = CHART + ROW * f64::from(work.first_rank);
        let height = ROW * f64::from(work.ranks);
        let _ = writeln!(
            self.svg,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" fill=\"rgb({},{},{})\" stroke=\"white\" \
             stroke-width=\"0.7\"/>",
            y + 1.5,
            (right - left).max(0.5),
            height - 3.0,
            mix(0),
            mix(1),
            mix(2)
        );
        let names: Vec<String> = piece.iter().map(|fragment| (fragment + 1).to_string()).collect();
        let name = names.join("+");
        if right - left > 6.0 * name.len() as f64 + 4.0 {
            let _ = writeln!(
                self.svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10\">{name}</text>",
                (left + right) / 2.0,
                y + height / 2.0 + 3.5
            );
        }
    }

    fn axis(&mut self, total_ms: f64, bottom: f64) {
        // 1, 2 or 5 times a power of ten, and at most ten of them.
        let power = 10f64.powf((total_ms / 10.0).log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| total_ms / step <= 10.0);
        let step = step.unwrap_or(total_ms);
        for tick in 0..=(total_ms / step) as usize {
            let x = FROM + (TO - FROM) * tick as f64 * step / total_ms;
            let _ = writeln!(
                self.svg,
                "<line x1=\"{x:.1}\" y1=\"{bottom:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#333\"/>",
                bottom + 6.0
            );
            let words = format!("{}", (tick as f64 * step * 1000.0).round() / 1000.0);
            self.text([x, bottom + 22.0], "middle", &words);
        }
        self.text([(FROM + TO) / 2.0, bottom + 42.0], "middle", "milliseconds");
    }
}

/// From blue through white to red, for -1 to 1.
fn shade(value: f64) -> String {
    let value = value.clamp(-1.0, 1.0);
    let fade = |full: f64| (255.0 - value.abs() * (255.0 - full)) as u8;
    let [red, green, blue] = if value > 0.0 { [214.0, 72.0, 66.0] } else { [66.0, 116.0, 200.0] };
    format!("rgb({},{},{})", fade(red), fade(green), fade(blue))
}
