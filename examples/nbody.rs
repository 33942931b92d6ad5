//! Particles that push each other away when they are near, in a square that goes on at its other side. Each rank has a part of the square
//! and the particles in it. In each step it sends copies of those near its border to whoever needs them, and those that have crossed it
//! to whoever has them now: it knows to whom, and nobody knows from whom something comes. Both are sparse exchanges.
//!
//! `kumiki run -n 4 target/release/examples/nbody [--picture nbody.svg]`

use kumiki::comm::{Arrivals, SparseExchange, SparseOptions};
use kumiki::prelude::*;
use std::fmt::Write as _;

const PARTICLES: u32 = 600;
const STEPS: u32 = 300;
const TIME_STEP: f64 = 0.002;
/// Particles that are farther from each other do not feel each other.
const REACH: f64 = 0.08;
/// The paths of the first few are drawn, with a point every few steps.
const DRAWN: u32 = 14;
const POINT_EVERY: u32 = 4;

#[derive(Clone, Copy, PartialEq, Debug, kumiki::Pod, kumiki::Zeroable)]
#[repr(C)]
struct Particle {
    place: [f64; 2],
    speed: [f64; 2],
    number: u32,
    /// Who has it.
    owner: u32,
}

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let me = world.rank();
    let parts = Parts::new(world.ranks());
    let mut exchange = world.sparse_exchange::<Particle>(SparseOptions::default().room(200))?;
    let mut own: Vec<Particle> =
        everything().into_iter().filter(|one| parts.owner(one.place) == me).collect();
    own.iter_mut().for_each(|one| one.owner = me);
    let (mut path, mut crossed) = (Vec::new(), 0);
    for step in 0..STEPS {
        if step % POINT_EVERY == 0 {
            path.extend(own.iter().filter(|one| one.number < DRAWN).copied());
        }
        // Copies of particles go to those who have something near them.
        for one in &own {
            for rank in (0..world.ranks()).filter(|rank| *rank != me && parts.is_near(*rank, one.place)) {
                exchange.push(rank, *one)?;
            }
        }
        let mut seen = own.clone();
        seen.extend_from_slice(exchange.finish()?.elements());
        // In the order of their numbers, so that sums are the same wherever they are made.
        seen.sort_unstable_by_key(|one| one.number);
        own.iter_mut().for_each(|one| one.advance(&seen));
        crossed += migrate(&mut exchange, &parts, &mut own, me)?;
    }

    let crossed = total(&world, crossed)?;
    exchange.send(0, &own)?;
    let mut found = sorted(exchange.finish()?);
    exchange.send(0, &path)?;
    let paths = exchange.finish()?.elements().to_vec();
    if me == 0 {
        found.iter_mut().for_each(|one| one.owner = 0);
        report(&found, crossed);
        if let Some(file) = picture_file() {
            std::fs::write(file, picture(&parts, &found, &paths)).expect("the picture can be written");
        }
    }
    exchange.free()?;
    world.finalize()
}

/// Sends particles that have left this rank's part to those that have them now, and takes those that have come: how many have left.
fn migrate(
    exchange: &mut SparseExchange<'_, Particle>,
    parts: &Parts,
    own: &mut Vec<Particle>,
    me: Rank,
) -> kumiki::Result<u64> {
    let mut left = 0;
    for mut one in own.extract_if(.., |one| parts.owner(one.place) != me) {
        one.owner = parts.owner(one.place);
        exchange.push(one.owner, one)?;
        left += 1;
    }
    own.extend_from_slice(exchange.finish()?.elements());
    Ok(left)
}

/// The square, cut into equal parts: as many across as the ranks allow.
struct Parts {
    across: u32,
    down: u32,
}

impl Parts {
    fn new(ranks: u32) -> Parts {
        let across = (1..=ranks).rfind(|&n| ranks.is_multiple_of(n) && n * n <= ranks).expect("1 will do");
        Parts { across, down: ranks / across }
    }

    fn owner(&self, [x, y]: [f64; 2]) -> Rank {
        let part = |at: f64, count: u32| ((at * f64::from(count)) as u32).min(count - 1);
        part(y, self.down) * self.across + part(x, self.across)
    }

    /// The corners of a part.
    fn corners(&self, rank: Rank) -> [[f64; 2]; 2] {
        let (width, height) = (1.0 / f64::from(self.across), 1.0 / f64::from(self.down));
        let [left, top] = [f64::from(rank % self.across) * width, f64::from(rank / self.across) * height];
        [[left, top], [left + width, top + height]]
    }

    /// Whether a part is within reach of a place.
    fn is_near(&self, rank: Rank, place: [f64; 2]) -> bool {
        let [from, to] = self.corners(rank);
        let away = |axis: usize| {
            let around = |shift: f64| {
                let at = place[axis] + shift;
                (from[axis] - at).max(at - to[axis]).max(0.0)
            };
            around(0.0).min(around(1.0)).min(around(-1.0))
        };
        away(0).powi(2) + away(1).powi(2) <= REACH * REACH
    }
}

impl Particle {
    fn advance(&mut self, all: &[Particle]) {
        let mut push = [0.0; 2];
        for other in all.iter().filter(|other| other.number != self.number) {
            let [x, y] = [0, 1].map(|axis| {
                let way = self.place[axis] - other.place[axis];
                way - way.round()
            });
            let square = x * x + y * y;
            if square < REACH * REACH {
                let strength = 40.0 * (REACH * REACH - square);
                push[0] += strength * x / REACH;
                push[1] += strength * y / REACH;
            }
        }
        for (axis, push) in push.into_iter().enumerate() {
            self.speed[axis] += TIME_STEP * 200.0 * push;
            let place = self.place[axis] + TIME_STEP * self.speed[axis];
            self.place[axis] = place - place.floor();
        }
    }
}

/// All particles in the beginning: two streams that meet.
fn everything() -> Vec<Particle> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let particle = |number: u32| {
        let place = [next(), next()];
        let way = if number.is_multiple_of(2) { 1.0 } else { -1.0 };
        Particle { place, speed: [way * (0.5 + next()), 0.6 * next() - 0.3], number, owner: 0 }
    };
    (0..PARTICLES).map(particle).collect()
}

fn sorted(arrivals: Arrivals<'_, Particle>) -> Vec<Particle> {
    let mut all = arrivals.elements().to_vec();
    all.sort_unstable_by_key(|one| one.number);
    all
}

fn total(world: &World, count: u64) -> kumiki::Result<u64> {
    let group = world.group()?;
    let mut sum = [count];
    group.allreduce(&mut sum, kumiki::comm::Sum)?;
    group.free()?;
    Ok(sum[0])
}

fn report(found: &[Particle], crossed: u64) {
    let energy: f64 = found.iter().map(|one| 0.5 * (one.speed[0].powi(2) + one.speed[1].powi(2))).sum();
    println!("{} particles, {STEPS} steps, {crossed} times from one rank to another", found.len());
    println!("energy of motion {energy:.6}");
    // The same by one that has them all.
    let mut whole = everything();
    for _ in 0..STEPS {
        let before = whole.clone();
        whole.iter_mut().for_each(|one| one.advance(&before));
    }
    println!("a serial run gives {}", if whole == found { "the same" } else { "something else" });
}

fn picture_file() -> Option<String> {
    let arguments: Vec<String> = std::env::args().collect();
    arguments.windows(2).find(|pair| pair[0] == "--picture").map(|pair| pair[1].clone())
}

const COLOURS: [&str; 8] =
    ["#3b6fb6", "#d9822b", "#4a9d5b", "#b5485d", "#7d5ba6", "#8c6d46", "#c26aa8", "#5f6b73"];

/// The parts, where the particles are, and the paths of some of them in the colours of the ranks that had them.
fn picture(parts: &Parts, found: &[Particle], paths: &[Particle]) -> String {
    let colour = |rank: Rank| COLOURS[rank as usize % COLOURS.len()];
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-10 -40 620 650\" width=\"620\" height=\"650\" font-family=\"sans-serif\" \
         font-size=\"14\">\n<rect x=\"-10\" y=\"-40\" width=\"620\" height=\"650\" fill=\"white\"/>\n\
         <text x=\"0\" y=\"-14\" fill=\"#333\">{PARTICLES} particles after {STEPS} steps, and the paths of {DRAWN} of them</text>\n"
    );
    for rank in 0..parts.across * parts.down {
        let [[left, top], [right, bottom]] = parts.corners(rank).map(|corner| corner.map(|at| 600.0 * at));
        let (width, height, colour) = (right - left, bottom - top, colour(rank));
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\" fill-opacity=\"0.08\" \
             stroke=\"#555\"/>"
        );
    }
    for one in paths {
        let ([x, y], colour) = (one.place.map(|at| 600.0 * at), colour(one.owner));
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.7\" fill=\"{colour}\"/>");
    }
    for one in found {
        let ([x, y], colour) = (one.place.map(|at| 600.0 * at), colour(parts.owner(one.place)));
        let look = match one.number < DRAWN {
            true => "r=\"5\" stroke=\"#222\" stroke-width=\"1.5\"",
            false => "r=\"2.6\" fill-opacity=\"0.45\"",
        };
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" fill=\"{colour}\" {look}/>");
    }
    // Above the particles, so that it can be read.
    for rank in 0..parts.across * parts.down {
        let ([[left, top], _], colour) = (parts.corners(rank), colour(rank));
        let (x, y) = (600.0 * left + 6.0, 600.0 * top + 6.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"58\" height=\"20\" rx=\"3\" fill=\"white\" fill-opacity=\"0.85\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{colour}\">rank {rank}</text>",
            x + 29.0,
            y + 15.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}
