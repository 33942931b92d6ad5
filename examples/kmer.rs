//! K-mer counting and greedy assembly: the first steps of de novo sequencing, on a table that is spread over all ranks.
//!
//! All ranks count the k-mers of the reads of a FASTA file into one multiset; each takes the next reads when it is done with
//! its last. Then contigs are assembled as the Inchworm step of Trinity does it: the most abundant k-mer that is left is the
//! seed, it is extended both ways by the most abundant neighbour, and what was used is taken out.
//!
//! ```text
//! kmer --generate 7 > reads.fasta                  reads of a random genome
//! kumiki run -n 4 kmer reads.fasta --check         contigs, compared with a serial run
//! ```

use kumiki::data::{Counter, Multiset, Spread};
use kumiki::World;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Bases of a k-mer, which is kept in a word: two bits a base.
const K: usize = 21;
const MASK: u64 = (1 << (2 * K)) - 1;
/// K-mers that are rarer are taken for errors of the sequencer.
const RARE: u64 = 3;
/// Shorter contigs are not printed.
const SHORTEST: usize = 3 * K;
/// Reads that a rank takes at a time.
const READS: u64 = 64;
/// Steps that are looked ahead in one request for counts.
const AHEAD: u32 = 3;
/// Slots of the table on each rank.
const SLOTS: usize = 1 << 14;

#[allow(dead_code)]
fn main() -> kumiki::Result<()> {
    run(std::env::args().skip(1).collect())
}

/// The program, by its arguments.
pub fn run(arguments: Vec<String>) -> kumiki::Result<()> {
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--generate", seed] => {
            let wrong = |_| kumiki::Error::Misuse(format!("--generate {seed}: the seed is a number"));
            print!("{}", generate(seed.parse().map_err(wrong)?));
            Ok(())
        }
        [file] => assemble(file, false),
        [file, "--check"] => assemble(file, true),
        _ => Err(kumiki::Error::Misuse("usage: kmer READS.fasta [--check], or kmer --generate SEED".into())),
    }
}

/// Counts the k-mers of a file on all ranks; rank 0 assembles them and prints the contigs.
fn assemble(file: &str, check: bool) -> kumiki::Result<()> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| kumiki::Error::Misuse(format!("{file}: {error}")))?;
    let reads = fasta(&text);
    let world = World::init()?;
    let table = Multiset::shared(&world, Spread::everywhere().slots(SLOTS))?;
    let work = Counter::shared(&world, 0)?;
    loop {
        let block = work.next_block(READS)?;
        let end = block.end.min(reads.len() as u64);
        if block.start >= end {
            break;
        }
        let taken = &reads[block.start as usize..end as usize];
        let kmers: Vec<[u8; 8]> = taken.iter().flat_map(|read| kmers(read)).map(u64::to_le_bytes).collect();
        table.insert_many(&kmers)?;
    }
    world.sync()?;
    if world.rank() == 0 {
        let total: usize = reads.iter().map(|read| kmers(read).count()).sum();
        println!("{} reads, {total} k-mers, {} of them different", reads.len(), table.len()?);
        let contigs = Assembly::new(&table)?.contigs()?;
        print!("{}", report(&contigs));
        if check {
            let same = contigs == serial(&reads);
            println!("a serial run gives {}", if same { "the same" } else { "something else" });
            assert!(same, "a serial run gives something else");
        }
        table.destroy()?;
        work.destroy()?;
    }
    world.finalize()
}

/// The sequences of a FASTA text.
fn fasta(text: &str) -> Vec<String> {
    let records = text.split('>').skip(1);
    records.map(|record| record.lines().skip(1).map(str::trim).collect()).collect()
}

/// The k-mers of a read; those with an unknown base are left out.
fn kmers(read: &str) -> impl Iterator<Item = u64> + '_ {
    let (mut word, mut known) = (0, 0);
    read.bytes().filter_map(move |letter| {
        let base = b"ACGT".iter().position(|&base| base == letter.to_ascii_uppercase());
        known = if base.is_some() { known + 1 } else { 0 };
        word = (word << 2 | base.unwrap_or(0) as u64) & MASK;
        (known >= K).then_some(word)
    })
}

/// A way along the sequence.
#[derive(Clone, Copy)]
enum Way {
    Right,
    Left,
}

impl Way {
    /// The k-mer that follows when this base is added.
    fn step(self, kmer: u64, base: u64) -> u64 {
        match self {
            Way::Right => (kmer << 2 | base) & MASK,
            Way::Left => kmer >> 2 | base << (2 * (K - 1)),
        }
    }
}

/// The table while it is assembled. What a contig has used is taken out when it is complete.
struct Assembly<'t> {
    table: &'t Multiset<'t>,
    seeds: Vec<(u64, u64)>,
}

impl<'t> Assembly<'t> {
    /// Fetches all k-mers, the most abundant first.
    fn new(table: &'t Multiset<'t>) -> kumiki::Result<Self> {
        let mut seeds = Vec::new();
        for entry in table.iter()? {
            let (key, count) = entry?;
            let kmer = key.try_into().map(u64::from_le_bytes);
            let kmer = kmer.map_err(|_| kumiki::Error::Misuse("a key is no k-mer".into()))?;
            if count >= RARE {
                seeds.push((count, kmer));
            }
        }
        seeds.sort_by_key(|&(count, kmer)| (std::cmp::Reverse(count), kmer));
        Ok(Assembly { table, seeds })
    }

    fn contigs(self) -> kumiki::Result<Vec<String>> {
        let mut contigs = Vec::new();
        let mut gone: HashSet<u64> = HashSet::new();
        for &(_, seed) in &self.seeds {
            if gone.contains(&seed) {
                continue;
            }
            let mut used = vec![seed];
            let right = self.extend(seed, Way::Right, &mut used)?;
            let left = self.extend(seed, Way::Left, &mut used)?;
            let keys: Vec<[u8; 8]> = used.iter().map(|kmer| kmer.to_le_bytes()).collect();
            self.table.remove_many(&keys)?;
            gone.extend(used);
            contigs.push(contig(seed, &left, &right));
        }
        Ok(contigs)
    }

    /// The bases that follow a seed. Counts are asked for several steps at a time.
    fn extend(&self, seed: u64, way: Way, used: &mut Vec<u64>) -> kumiki::Result<Vec<u64>> {
        let (mut bases, mut kmer) = (Vec::new(), seed);
        let mut seen: HashSet<u64> = used.iter().copied().collect();
        loop {
            let counts = self.look_ahead(kmer, way)?;
            for _ in 0..AHEAD {
                let best = best(kmer, way, |kmer| if seen.contains(&kmer) { 0 } else { counts[&kmer] });
                let Some(base) = best else { return Ok(bases) };
                kmer = way.step(kmer, base);
                bases.push(base);
                used.push(kmer);
                seen.insert(kmer);
            }
        }
    }

    /// The counts of everything that can follow a k-mer within some steps.
    fn look_ahead(&self, kmer: u64, way: Way) -> kumiki::Result<HashMap<u64, u64>> {
        let (mut all, mut last) = (Vec::new(), vec![kmer]);
        for _ in 0..AHEAD {
            last = last.iter().flat_map(|&kmer| (0..4).map(move |base| way.step(kmer, base))).collect();
            all.extend_from_slice(&last);
        }
        let keys: Vec<[u8; 8]> = all.iter().map(|kmer| kmer.to_le_bytes()).collect();
        Ok(all.into_iter().zip(self.table.count_many(&keys)?).collect())
    }
}

/// The base that leads to the most abundant k-mer; of equals the first in the alphabet; none if all are rare.
fn best(kmer: u64, way: Way, count: impl Fn(u64) -> u64) -> Option<u64> {
    let counted = (0..4).map(|base| (count(way.step(kmer, base)), std::cmp::Reverse(base)));
    counted.max().filter(|&(count, _)| count >= RARE).map(|(_, base)| base.0)
}

/// The letters of a seed with what was found on both sides.
fn contig(seed: u64, left: &[u64], right: &[u64]) -> String {
    let middle = (0..K).rev().map(|place| seed >> (2 * place) & 3);
    let bases = left.iter().rev().copied().chain(middle).chain(right.iter().copied());
    bases.map(|base| char::from(b"ACGT"[base as usize])).collect()
}

fn report(contigs: &[String]) -> String {
    let long: Vec<&String> = contigs.iter().filter(|contig| contig.len() >= SHORTEST).collect();
    let bases: usize = long.iter().map(|contig| contig.len()).sum();
    let mut text = format!("{} contigs, {} of them long, with {bases} bases\n", contigs.len(), long.len());
    for (index, contig) in long.iter().enumerate() {
        let _ = writeln!(text, ">contig_{} {} bases\n{contig}", index + 1, contig.len());
    }
    text
}

/// The same in one process, one step at a time.
fn serial(reads: &[String]) -> Vec<String> {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    reads.iter().flat_map(|read| kmers(read)).for_each(|kmer| *counts.entry(kmer).or_default() += 1);
    let mut seeds: Vec<(u64, u64)> = counts.iter().map(|(&kmer, &count)| (count, kmer)).collect();
    seeds.retain(|&(count, _)| count >= RARE);
    seeds.sort_by_key(|&(count, kmer)| (std::cmp::Reverse(count), kmer));
    let mut contigs = Vec::new();
    for (_, seed) in seeds {
        if counts.remove(&seed).is_none() {
            continue;
        }
        let mut sides = [Vec::new(), Vec::new()];
        for (side, way) in sides.iter_mut().zip([Way::Right, Way::Left]) {
            let mut kmer = seed;
            while let Some(base) = best(kmer, way, |kmer| counts.get(&kmer).copied().unwrap_or(0)) {
                kmer = way.step(kmer, base);
                counts.remove(&kmer);
                side.push(base);
            }
        }
        contigs.push(contig(seed, &sides[1], &sides[0]));
    }
    contigs
}

/// Reads of a random genome with a repeat, with a wrong base here and there, as FASTA.
pub fn generate(seed: u64) -> String {
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let base = |random: &mut dyn FnMut(u64) -> u64| b"ACGT"[random(4) as usize];
    let mut genome: Vec<u8> = (0..4000).map(|_| base(&mut random)).collect();
    // A stretch that is there three times: an assembler cannot know what follows it.
    let repeat = genome[500..650].to_vec();
    for place in [1700, 3100] {
        genome[place..place + repeat.len()].copy_from_slice(&repeat);
    }
    let mut text = String::new();
    for read in 0..600 {
        let start = random(genome.len() as u64 - 99) as usize;
        let mut letters = genome[start..start + 100].to_vec();
        if random(5) == 0 {
            letters[random(100) as usize] = base(&mut random);
        }
        let _ = writeln!(text, ">read_{}\n{}", read + 1, String::from_utf8_lossy(&letters));
    }
    text
}
