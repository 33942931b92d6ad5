//! A molecule in pieces, as programs of fragment molecular orbitals compute it. Each fragment is a small problem of quantum mechanics in the
//! field of all the others: they are computed again and again until their charges have settled. Then each pair of fragments is, and what
//! pairs add to the energies of single fragments makes the energy of the whole.
//!
//! Ranks work in groups. A counter in global memory deals out fragments to whichever group is free, and then pairs; the densities of the
//! fragments lie in global memory, too. Between the two the groups are made anew: there are more pairs than fragments, so more groups can
//! work at once. Within a group, each rank has some rows of the matrices.
//!
//! `kumiki run -n 8 target/release/examples/fmo [--groups 4,2] [--picture fmo.svg]`: so many ranks in a group for fragments, and for pairs.

#[path = "fmo/picture.rs"]
mod picture;

use kumiki::comm::{Group, Max, Sum};
use kumiki::data::SharedArray;
use kumiki::prelude::*;
use picture::Picture;
use std::f64::consts::{PI, TAU};
use std::time::{SystemTime, UNIX_EPOCH};

/// How many atoms each fragment has: they are rings.
const SIZES: [usize; 10] = [6, 4, 8, 6, 6, 4, 8, 4, 6, 8];
const FRAGMENTS: usize = SIZES.len();
const PAIRS: usize = FRAGMENTS * (FRAGMENTS - 1) / 2;
/// Numbers of the density of the largest fragment.
const ROOM: usize = 64;
/// The charges have settled when no number of a density changes by more; the rounds that this may take.
const SETTLED: f64 = 1e-9;
const MOST_ROUNDS: usize = 40;
/// The same for the steps in which one piece is solved.
const SOLVED: f64 = 1e-11;
const MOST_STEPS: usize = 300;

#[derive(Clone, Copy, Debug)]
struct Atom {
    place: [f64; 3],
    /// Its energy for an electron, in electronvolts, and how closely the electron is bound.
    level: f64,
    closeness: f64,
}

/// What one piece came to: a symmetric matrix, and the energy without that of the field around it.
struct Solved {
    density: Vec<f64>,
    energy: f64,
}

/// A piece that a group has computed, and when: for the picture.
#[derive(Clone, Copy, kumiki::Pod, kumiki::Zeroable)]
#[repr(C)]
struct Work {
    began_us: u64,
    ended_us: u64,
    first_rank: u32,
    ranks: u32,
}

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let all = world.group()?;
    let sizes = group_sizes(world.ranks())?;
    let shared = Shared::new(&world)?;

    let group = all.split(world.rank() / sizes[0], 0)?.expect("all have a colour");
    let mut rounds = 0;
    let mut change = f64::INFINITY;
    while change > SETTLED && rounds < MOST_ROUNDS {
        let mut most = [shared.round(&group, rounds)?];
        // Nobody goes on before all densities of this round are where they belong.
        all.allreduce(&mut most, Max)?;
        (rounds, change) = (rounds + 1, most[0]);
    }
    group.free()?;

    // Groups of another size.
    let group = all.split(world.rank() / sizes[1], 0)?.expect("all have a colour");
    shared.pairs(&group, rounds)?;
    group.free()?;
    all.free()?;
    world.sync()?;
    if world.rank() == 0 {
        report(&shared, sizes, rounds)?;
    }
    world.finalize()
}

/// How many ranks are in a group: for fragments, and for pairs.
fn group_sizes(ranks: u32) -> kumiki::Result<[u32; 2]> {
    let asked = argument("--groups").map(|text| {
        let sizes: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
        match sizes.as_deref() {
            Ok(&[fragments, pairs]) => Ok([fragments, pairs]),
            _ => Err(Error::Misuse(format!(
                "--groups {text}: not two numbers of ranks, for fragments and for pairs, as in --groups 4,2"
            ))),
        }
    });
    Ok(asked.transpose()?.unwrap_or([ranks.div_ceil(2), ranks.div_ceil(4)]).map(|size| size.clamp(1, ranks)))
}

/// What lies in global memory.
struct Shared<'w> {
    world: &'w World,
    /// Which piece is next: a counter for each round, and one for the pairs.
    next: SharedArray<u64>,
    /// The densities of the fragments, after the last round and after the one before, each fragment's on some rank.
    densities: [SharedArray<f64>; 2],
    /// On rank 0: the energies of fragments and pairs, and who computed what when.
    energies: SharedArray<f64>,
    works: SharedArray<Work>,
}

impl<'w> Shared<'w> {
    fn new(world: &'w World) -> kumiki::Result<Shared<'w>> {
        let share = FRAGMENTS.div_ceil(world.ranks() as usize) * ROOM;
        let shared = Shared {
            world,
            next: world.shared_array(MOST_ROUNDS + 1)?,
            densities: [world.shared_array(share)?, world.shared_array(share)?],
            energies: world.shared_array(FRAGMENTS + PAIRS)?,
            works: world.shared_array(MOST_ROUNDS * FRAGMENTS + PAIRS)?,
        };
        if world.rank() == 0 {
            for (fragment, size) in SIZES.iter().enumerate() {
                shared.put_density(0, fragment, &identity(*size))?;
            }
        }
        world.sync()?;
        Ok(shared)
    }

    fn density_at(&self, round: usize, fragment: usize) -> GlobalPtr<f64> {
        let ranks = self.world.ranks() as usize;
        self.densities[round % 2].at((fragment % ranks) as u32, fragment / ranks * ROOM)
    }

    fn put_density(&self, round: usize, fragment: usize, density: &[f64]) -> kumiki::Result<()> {
        self.world.put_slice(self.density_at(round, fragment), density)
    }

    fn density(&self, round: usize, fragment: usize) -> kumiki::Result<Vec<f64>> {
        self.world.get_vec(self.density_at(round, fragment), SIZES[fragment].pow(2))
    }

    /// The next piece of a phase, the same for all of a group: the first of them asks, and tells the others.
    fn deal(&self, group: &Group<'_>, phase: usize) -> kumiki::Result<usize> {
        let mut next = [0];
        if group.rank() == 0 {
            next[0] = self.world.fetch_add(self.next.at(0, phase), 1)?;
        }
        group.broadcast(0, &mut next)?;
        Ok(next[0] as usize)
    }

    /// Computes fragments in the field of the densities of a round, as long as there are any. Returns by how much densities have changed.
    fn round(&self, group: &Group<'_>, round: usize) -> kumiki::Result<f64> {
        let order = largest_first((0..FRAGMENTS).map(|fragment| vec![fragment]).collect());
        let (crew, known) = (Crew(Some(group)), |fragment| self.density(round, fragment));
        let mut most = 0.0;
        loop {
            let dealt = self.deal(group, round)?;
            let Some(piece) = order.get(dealt) else { return Ok(most) };
            let began_us = now_us();
            let (solved, _) = compute(piece, &known, crew)?;
            most = difference(&solved.density, &known(piece[0])?).max(most);
            if group.rank() == 0 {
                self.put_density(round + 1, piece[0], &solved.density)?;
                self.world.put(self.energies.at(0, piece[0]), solved.energy)?;
                self.book(group, round * FRAGMENTS + piece[0], began_us)?;
            }
        }
    }

    /// Computes pairs, as long as there are any.
    fn pairs(&self, group: &Group<'_>, rounds: usize) -> kumiki::Result<()> {
        let order = largest_first(all_pairs());
        let (crew, known) = (Crew(Some(group)), |fragment| self.density(rounds, fragment));
        loop {
            let dealt = self.deal(group, MOST_ROUNDS)?;
            let Some(piece) = order.get(dealt) else { return Ok(()) };
            let began_us = now_us();
            let (solved, polarisation) = compute(piece, &known, crew)?;
            if group.rank() == 0 {
                let place = pair_number(piece[0], piece[1]);
                self.world.put(self.energies.at(0, FRAGMENTS + place), solved.energy + polarisation)?;
                self.book(group, MOST_ROUNDS * FRAGMENTS + place, began_us)?;
            }
        }
    }

    fn book(&self, group: &Group<'_>, place: usize, began_us: u64) -> kumiki::Result<()> {
        let first_rank = self.world.rank();
        let work = Work { began_us, ended_us: now_us(), first_rank, ranks: group.ranks() };
        self.world.put(self.works.at(0, place), work)
    }
}

/// Those who compute a piece: a group, or one rank by itself.
#[derive(Clone, Copy)]
struct Crew<'a, 'w>(Option<&'a Group<'w>>);

impl Crew<'_, '_> {
    /// A matrix of which each member makes some rows. All have the whole of it then.
    fn rows(self, rows: usize, width: usize, row: impl Fn(usize) -> Vec<f64>) -> kumiki::Result<Vec<f64>> {
        let (me, ranks) = self.0.map_or((0, 1), |group| (group.rank() as usize, group.ranks() as usize));
        let mut matrix = vec![0.0; rows * width];
        for number in (me..rows).step_by(ranks) {
            matrix[number * width..][..width].copy_from_slice(&row(number));
        }
        self.0.map_or(Ok(()), |group| group.allreduce(&mut matrix, Sum))?;
        Ok(matrix)
    }

    /// Numbers that the first member makes. All have them then.
    fn tell(self, count: usize, make: impl FnOnce() -> Vec<f64>) -> kumiki::Result<Vec<f64>> {
        let is_first = self.0.is_none_or(|group| group.rank() == 0);
        let mut numbers = if is_first { make() } else { vec![0.0; count] };
        self.0.map_or(Ok(()), |group| group.broadcast(0, &mut numbers))?;
        Ok(numbers)
    }
}

/// A fragment or a pair in the field of the others, whose densities are known; and what the field has to do with how the density has
/// changed.
fn compute(
    piece: &[usize],
    known: &dyn Fn(usize) -> kumiki::Result<Vec<f64>>,
    crew: Crew<'_, '_>,
) -> kumiki::Result<(Solved, f64)> {
    let atoms: Vec<Atom> = piece.iter().flat_map(|fragment| fragment_atoms(*fragment)).collect();
    let count = atoms.len();
    // Fragments that do not know of each other are what it begins with.
    let mut start = vec![0.0; count * count];
    let mut first = 0;
    for &fragment in piece {
        let (density, size) = (known(fragment)?, SIZES[fragment]);
        for row in 0..size {
            start[(first + row) * count + first..][..size].copy_from_slice(&density[row * size..][..size]);
        }
        first += size;
    }
    let mut charges = Vec::new();
    for other in (0..FRAGMENTS).filter(|other| !piece.contains(other)) {
        let density = known(other)?;
        let size = SIZES[other];
        charges.extend(
            fragment_atoms(other)
                .into_iter()
                .enumerate()
                .map(|(at, atom)| (atom, density[at * size + at] - 1.0)),
        );
    }
    let field = crew.rows(count, 1, |row| {
        vec![charges.iter().map(|(atom, charge)| charge * repulsion(&atoms[row], atom)).sum()]
    })?;
    let solved = solve(&atoms, &field, start.clone(), crew)?;
    let shift = |at: usize| (solved.density[at * count + at] - start[at * count + at]) * field[at];
    let polarisation = (0..count).map(shift).sum();
    Ok((solved, polarisation))
}

/// Hartree's and Fock's method, with one electron for each atom: from a density the energies of electrons, from those the density, until
/// both fit.
fn solve(atoms: &[Atom], field: &[f64], start: Vec<f64>, crew: Crew<'_, '_>) -> kumiki::Result<Solved> {
    let count = atoms.len();
    let mut solved = Solved { density: start, energy: 0.0 };
    for _ in 0..MOST_STEPS {
        // The last column is a part of the energy.
        let rows = crew.rows(count, count + 1, |row| fock_row(atoms, &solved.density, row))?;
        solved.energy = rows.iter().skip(count).step_by(count + 1).sum();
        let next = crew.tell(count * count, || {
            let mut fock: Vec<f64> =
                rows.chunks(count + 1).flat_map(|row| row[..count].iter().copied()).collect();
            (0..count).for_each(|at| fock[at * count + at] += field[at]);
            occupied(fock, count)
        })?;
        let change = difference(&next, &solved.density);
        // Half of the way, so that it does not swing.
        solved.density.iter_mut().zip(next).for_each(|(old, new)| *old = 0.4 * *old + 0.6 * new);
        if change < SOLVED {
            break;
        }
    }
    Ok(solved)
}

/// A row of the energies of electrons, each in the field of all others; and its part of the energy.
fn fock_row(atoms: &[Atom], density: &[f64], row: usize) -> Vec<f64> {
    let count = atoms.len();
    let own = density[row * count + row];
    let mut values = vec![0.0; count + 1];
    for (column, atom) in atoms.iter().enumerate() {
        let push = repulsion(&atoms[row], atom);
        if column == row {
            values[row] += atom.level + 0.5 * push * own;
            values[count] += own * (atom.level + 0.25 * push * own);
            continue;
        }
        let (shared, other) = (density[row * count + column], density[column * count + column]);
        let hop = -2.4 * (-(distance(&atoms[row], atom) - 1.4) / 0.5).exp();
        values[row] += push * (other - 1.0);
        values[column] = hop - 0.5 * push * shared;
        values[count] += 0.5 * push * (own * (other - 2.0) + 1.0) + shared * (hop - 0.25 * push * shared);
    }
    values
}

fn distance(one: &Atom, other: &Atom) -> f64 {
    (0..3).map(|axis| (one.place[axis] - other.place[axis]).powi(2)).sum::<f64>().sqrt()
}

/// How two clouds of charge repel each other: Boys' integral, summed up as Simpson does.
fn repulsion(one: &Atom, other: &Atom) -> f64 {
    const PARTS: usize = 40;
    let close = one.closeness * other.closeness / (one.closeness + other.closeness);
    let reach = close * distance(one, other).powi(2);
    let integral = if reach > 30.0 {
        0.5 * (PI / reach).sqrt()
    } else {
        let value = |part: usize| (-reach * (part as f64 / PARTS as f64).powi(2)).exp();
        let weight = |part: usize| if part.is_multiple_of(2) { 2.0 } else { 4.0 };
        let inner: f64 = (1..PARTS).map(|part| weight(part) * value(part)).sum();
        (value(0) + inner + value(PARTS)) / (3 * PARTS) as f64
    };
    // Electronvolts times angstroms.
    14.4 * 2.0 * (close / PI).sqrt() * integral
}

/// The density of electrons in the lower half of the orbitals of a symmetric matrix. Those come by Jacobi's rotations.
fn occupied(mut matrix: Vec<f64>, count: usize) -> Vec<f64> {
    let mut orbitals = identity(count);
    for _ in 0..60 {
        let mut rest = 0.0f64;
        for (p, q) in (0..count).flat_map(|p| (p + 1..count).map(move |q| (p, q))) {
            let off = matrix[p * count + q];
            rest = rest.max(off.abs());
            if off.abs() < 1e-14 {
                continue;
            }
            let slope = (matrix[q * count + q] - matrix[p * count + p]) / (2.0 * off);
            let tangent = slope.signum() / (slope.abs() + (slope * slope + 1.0).sqrt());
            let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
            let sine = tangent * cosine;
            let turn = |of: &mut [f64], one: usize, other: usize| {
                let (a, b) = (of[one], of[other]);
                (of[one], of[other]) = (cosine * a - sine * b, sine * a + cosine * b);
            };
            for at in 0..count {
                turn(&mut matrix, at * count + p, at * count + q);
            }
            for at in 0..count {
                turn(&mut matrix, p * count + at, q * count + at);
                turn(&mut orbitals, p * count + at, q * count + at);
            }
        }
        if rest < 1e-13 {
            break;
        }
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| matrix[a * count + a].total_cmp(&matrix[b * count + b]));
    let mut density = vec![0.0; count * count];
    for orbital in order[..count / 2].iter().map(|orbital| &orbitals[orbital * count..][..count]) {
        for (at, number) in density.iter_mut().enumerate() {
            *number += 2.0 * orbital[at / count] * orbital[at % count];
        }
    }
    density
}

fn identity(count: usize) -> Vec<f64> {
    (0..count * count).map(|at| f64::from(u8::from(at / count == at % count))).collect()
}

fn difference(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).fold(0.0, |most, (one, other)| (one - other).abs().max(most))
}

/// Where the middle of a fragment is: they stand in a circle, higher and lower by turns.
fn middle(fragment: usize) -> [f64; 3] {
    let angle = TAU * fragment as f64 / FRAGMENTS as f64;
    [8.4 * angle.cos(), 8.4 * angle.sin(), if fragment.is_multiple_of(2) { 0.7 } else { -0.7 }]
}

/// A ring of atoms of two kinds, one of which draws electrons more than all the others.
fn fragment_atoms(fragment: usize) -> Vec<Atom> {
    let (size, [x, y, z]) = (SIZES[fragment], middle(fragment));
    let radius = 0.7 / (PI / size as f64).sin();
    let atom = |at: usize| {
        let angle = TAU * (at as f64 / size as f64 + 0.37 * fragment as f64);
        let level = [-0.8, 0.8][at % 2] - if at == 0 { 1.5 } else { 0.0 };
        let closeness = if at == 0 { 1.1 } else { 0.9 };
        Atom { place: [x + radius * angle.cos(), y + radius * angle.sin(), z], level, closeness }
    };
    (0..size).map(atom).collect()
}

fn all_pairs() -> Vec<Vec<usize>> {
    (0..FRAGMENTS).flat_map(|one| (one + 1..FRAGMENTS).map(move |other| vec![one, other])).collect()
}

fn pair_number(one: usize, other: usize) -> usize {
    all_pairs().iter().position(|pair| pair[..] == [one, other]).expect("a pair")
}

/// Pieces that take long come first, so that at the end nobody waits long for one.
fn largest_first(mut pieces: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let size = |piece: &Vec<usize>| piece.iter().map(|fragment| SIZES[*fragment]).sum::<usize>();
    pieces.sort_by_key(|piece| std::cmp::Reverse(size(piece)));
    pieces
}

/// What the pairs add to the sum of the fragments, one by one.
fn additions(energies: &[f64]) -> Vec<f64> {
    let one = |(pair, piece): (usize, Vec<usize>)| {
        energies[FRAGMENTS + pair] - energies[piece[0]] - energies[piece[1]]
    };
    all_pairs().into_iter().enumerate().map(one).collect()
}

/// The energies of all fragments and pairs by one rank, in the same way but without global memory; and after how many rounds.
fn serial() -> kumiki::Result<(Vec<f64>, usize)> {
    let mut densities: Vec<Vec<f64>> = SIZES.iter().map(|size| identity(*size)).collect();
    let mut energies = vec![0.0; FRAGMENTS + PAIRS];
    let mut rounds = 0;
    let mut change = f64::INFINITY;
    while change > SETTLED && rounds < MOST_ROUNDS {
        let known = |fragment: usize| Ok(densities[fragment].clone());
        let mut next = Vec::new();
        for (fragment, energy) in energies.iter_mut().take(FRAGMENTS).enumerate() {
            let (solved, _) = compute(&[fragment], &known, Crew(None))?;
            *energy = solved.energy;
            next.push(solved.density);
        }
        let changes = next.iter().zip(&densities).map(|(new, old)| difference(new, old));
        (rounds, change) = (rounds + 1, changes.fold(0.0, f64::max));
        densities = next;
    }
    let known = |fragment: usize| Ok(densities[fragment].clone());
    for (pair, piece) in all_pairs().iter().enumerate() {
        let (solved, polarisation) = compute(piece, &known, Crew(None))?;
        energies[FRAGMENTS + pair] = solved.energy + polarisation;
    }
    Ok((energies, rounds))
}

fn report(shared: &Shared<'_>, sizes: [u32; 2], rounds: usize) -> kumiki::Result<()> {
    let energies = shared.energies.to_vec()?;
    let atoms: Vec<Atom> = (0..FRAGMENTS).flat_map(fragment_atoms).collect();
    println!("{} atoms in {FRAGMENTS} fragments, {PAIRS} pairs", atoms.len());
    println!("groups of {} for the fragments, of {} for the pairs", sizes[0], sizes[1]);
    println!("the charges have settled after {rounds} rounds");
    let fragments: f64 = energies[..FRAGMENTS].iter().sum();
    let pairs: f64 = additions(&energies).iter().sum();
    println!("fragments {fragments:.6} eV, pairs {pairs:.6} eV, together {:.6} eV", fragments + pairs);
    let whole = solve(&atoms, &vec![0.0; atoms.len()], identity(atoms.len()), Crew(None))?;
    println!("all in one piece, without fragments: {:.6} eV", whole.energy);
    let (alone, alone_rounds) = serial()?;
    let is_same = rounds == alone_rounds && difference(&energies, &alone) < 1e-10;
    println!("a serial run gives {}", if is_same { "the same" } else { "something else" });
    if let Some(file) = argument("--picture") {
        let picture = Picture::new(shared, &energies, rounds)?;
        std::fs::write(file, picture.draw()).expect("the picture can be written");
    }
    Ok(())
}

/// What follows a word of the command line.
fn argument(name: &str) -> Option<String> {
    let arguments: Vec<String> = std::env::args().collect();
    arguments.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone())
}

/// The time of day, which all processes of a machine have alike.
fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
