//! Parallel in time: oscillators over a span of time that is cut into as many slices as there are ranks. Each rank goes through its slice
//! in fine steps, all at once, from a guess of where it begins. The guesses are mended from slice to slice, by steps that are coarse and
//! quick (the parareal method): that goes along the line of the ranks, in buckets of some oscillators each, so that a rank works on one
//! bucket while the next one comes. That is a relay.
//!
//! `kumiki run -n 4 target/release/examples/parareal [--picture parareal.svg]`

use kumiki::comm::{Relay, RelayOptions};
use kumiki::prelude::*;
use std::fmt::Write as _;

const OSCILLATORS: usize = 256;
/// Oscillators of a bucket.
const BUCKET: usize = 32;
const END: f64 = 8.0;
/// Steps through the whole span of time: they are dealt out to the slices.
const FINE: usize = 24_000;
const COARSE: usize = 48;

/// Where an oscillator is, and how fast.
type State = [f64; 2];

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let ranks = world.ranks() as usize;
    let mut relay = world.relay::<State>(RelayOptions::new(BUCKET, 2))?;
    // What the ends of all slices came to with each mending, on rank 0.
    let history = world.shared_array::<State>((ranks + 1) * ranks * OSCILLATORS)?;
    let keep = |mending: usize, states: &[State]| {
        let slice = mending * ranks + world.rank() as usize;
        world.put_slice(history.at(0, slice * OSCILLATORS), states)
    };

    let mut slice = Slice::new(world.rank() as usize, ranks);
    slice.guess(&mut relay)?;
    keep(0, &slice.end)?;
    // With as many mendings as slices, it is what one rank alone computes. Far fewer will often do.
    for mending in 1..=ranks {
        slice.refine();
        slice.mend(&mut relay)?;
        keep(mending, &slice.end)?;
    }
    relay.close()?;

    world.sync()?;
    if world.rank() == 0 {
        report(&history.to_vec()?, ranks);
    }
    history.free(&world)?;
    world.finalize()
}

/// A slice of the time, with the oscillators at its beginning and its end.
struct Slice {
    fine_steps: usize,
    coarse_steps: usize,
    span: f64,
    begin: Vec<State>,
    /// What coarse steps make of the beginning.
    coarse: Vec<State>,
    /// What fine steps make of the beginning.
    fine: Vec<State>,
    end: Vec<State>,
}

impl Slice {
    fn new(index: usize, count: usize) -> Slice {
        let share = |steps: usize| steps * (index + 1) / count - steps * index / count;
        let begin = if index == 0 { beginning() } else { vec![[0.0; 2]; OSCILLATORS] };
        let nothing = vec![[0.0; 2]; OSCILLATORS];
        Slice {
            fine_steps: share(FINE),
            coarse_steps: share(COARSE).max(1),
            span: END / count as f64,
            begin,
            coarse: nothing.clone(),
            fine: nothing.clone(),
            end: nothing,
        }
    }

    /// Takes the beginning from the slice before this one, and gives the next one what coarse steps make of it: bucket by bucket.
    fn guess(&mut self, relay: &mut Relay<'_, State>) -> kumiki::Result<()> {
        for first in (0..OSCILLATORS).step_by(BUCKET) {
            let bucket = first..first + BUCKET;
            take(relay, &mut self.begin[bucket.clone()])?;
            for index in bucket.clone() {
                self.coarse[index] = advance(self.begin[index], self.span, self.coarse_steps);
                self.end[index] = self.coarse[index];
            }
            give(relay, &self.end[bucket])?;
        }
        Ok(())
    }

    /// Goes through the slice in fine steps: the long work, which all ranks do at once.
    fn refine(&mut self) {
        for (fine, begin) in self.fine.iter_mut().zip(&self.begin) {
            *fine = advance(*begin, self.span, self.fine_steps);
        }
    }

    /// Takes a better beginning from the slice before this one; its end is what fine steps made of the old one, and what coarse steps say
    /// has changed.
    fn mend(&mut self, relay: &mut Relay<'_, State>) -> kumiki::Result<()> {
        for first in (0..OSCILLATORS).step_by(BUCKET) {
            let bucket = first..first + BUCKET;
            take(relay, &mut self.begin[bucket.clone()])?;
            for index in bucket.clone() {
                let coarse = advance(self.begin[index], self.span, self.coarse_steps);
                let (fine, old) = (self.fine[index], self.coarse[index]);
                self.end[index] = [fine[0] + (coarse[0] - old[0]), fine[1] + (coarse[1] - old[1])];
                self.coarse[index] = coarse;
            }
            give(relay, &self.end[bucket])?;
        }
        Ok(())
    }
}

/// The first slice begins where everything begins.
fn take(relay: &mut Relay<'_, State>, into: &mut [State]) -> kumiki::Result<()> {
    if relay.is_first() {
        return Ok(());
    }
    relay.receive_into(into)
}

fn give(relay: &mut Relay<'_, State>, states: &[State]) -> kumiki::Result<()> {
    if relay.is_last() {
        return Ok(());
    }
    relay.send(states)
}

fn beginning() -> Vec<State> {
    (0..OSCILLATORS).map(|index| [0.2 + 1.6 * index as f64 / OSCILLATORS as f64, 0.0]).collect()
}

/// A spring with two places of rest: Runge and Kutta's method of the fourth order.
fn advance(state: State, span: f64, steps: usize) -> State {
    let slope = |[place, speed]: State| [speed, place - place * place * place - 0.1 * speed];
    let along = |[a, b]: State, [c, d]: State, time: f64| [a + time * c, b + time * d];
    let step = span / steps as f64;
    (0..steps).fold(state, |now, _| {
        let one = slope(now);
        let two = slope(along(now, one, step / 2.0));
        let three = slope(along(now, two, step / 2.0));
        let four = slope(along(now, three, step));
        [0, 1].map(|axis| {
            now[axis] + step / 6.0 * (one[axis] + 2.0 * two[axis] + 2.0 * three[axis] + four[axis])
        })
    })
}

/// The largest difference between two.
fn distance(one: &[State], other: &[State]) -> f64 {
    let each = one.iter().zip(other).flat_map(|(one, other)| [one[0] - other[0], one[1] - other[1]]);
    each.fold(0.0, |most, difference| most.max(difference.abs()))
}

fn report(history: &[State], ranks: usize) {
    // The same by one rank that goes through all slices, one after the other.
    let mut serial = vec![beginning()];
    for index in 0..ranks {
        let mut slice = Slice::new(index, ranks);
        slice.begin.clone_from(&serial[index]);
        slice.refine();
        serial.push(slice.fine);
    }
    let ends = |mending: usize, slice: usize| {
        let first = (mending * ranks + slice) * OSCILLATORS;
        &history[first..first + OSCILLATORS]
    };
    println!("{OSCILLATORS} oscillators, {ranks} slices of time");
    for mending in 0..=ranks {
        let error = distance(ends(mending, ranks - 1), &serial[ranks]);
        println!("mended {mending} times: {error:.0e} from the right end");
    }
    let same = (0..ranks).all(|slice| ends(ranks, slice) == serial[slice + 1]);
    println!("a serial run gives {}", if same { "the same" } else { "something else" });
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(pair) = arguments.windows(2).find(|pair| pair[0] == "--picture") {
        std::fs::write(&pair[1], picture(history, ranks, &serial)).expect("the picture can be written");
    }
}

/// How far each slice's end was from the right one, with each mending: a line for each mending, on a scale of powers of ten.
fn picture(history: &[State], ranks: usize, serial: &[Vec<State>]) -> String {
    let across = |slice: usize| 70.0 + 450.0 * (slice as f64 + 0.5) / ranks as f64;
    // What is right to the last bit has no power of ten: it stands below them.
    let up = |error: f64| 50.0 + 19.0 * if error == 0.0 { 18.0 } else { -error.max(1e-17).log10() };
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 620 440\" width=\"620\" height=\"440\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"620\" height=\"440\" fill=\"white\"/>\n\
         <text x=\"70\" y=\"25\">error at the end of each slice of time</text>\n\
         <text x=\"610\" y=\"25\" text-anchor=\"end\">mended</text>\n",
    );
    let powers = (0..=16).step_by(4).map(|power| (10f64.powi(-power), format!("1e-{power}")));
    for (error, name) in powers.chain([(0.0, "none".into())]) {
        let name = if error == 1.0 { "1" } else { &name };
        let y = up(error);
        let _ = writeln!(
            svg,
            "<line x1=\"70\" y1=\"{y:.1}\" x2=\"520\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"60\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            y + 4.0
        );
    }
    for slice in 0..ranks {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"425\" text-anchor=\"middle\">rank {slice}</text>",
            across(slice)
        );
    }
    for mending in 0..=ranks {
        let shade = 40 + 160 * mending / ranks.max(1);
        let colour = format!("rgb({},{},{})", 230 - shade, 90, shade);
        let points: Vec<(f64, f64)> = (0..ranks)
            .map(|slice| {
                let first = (mending * ranks + slice) * OSCILLATORS;
                let error = distance(&history[first..first + OSCILLATORS], &serial[slice + 1]);
                (across(slice), up(error))
            })
            .collect();
        let line: String = points.iter().map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
        for (x, y) in &points {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        if let Some((_, y)) = points.last() {
            let times = match mending {
                0 => "never".into(),
                1 => "once".into(),
                more => format!("{more} times"),
            };
            let _ = writeln!(
                svg,
                "<text x=\"610\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{colour}\">{times}</text>",
                y + 4.0
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
