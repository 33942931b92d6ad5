//! The words of a text, counted in a multiset and numbered in a map: both are spread over all ranks.
//!
//! `kumiki run -n 4 target/release/examples/word_count`

use kumiki::prelude::*;

const TEXT: [&str; 6] = [
    "wood is joined to wood without a nail",
    "a joint is cut so that it holds by itself",
    "a beam that is cut too short is firewood",
    "so measure twice and cut once",
    "a nail is for those who cannot wait",
    "wood that is left to dry holds best",
];

fn main() -> kumiki::Result<()> {
    let world = World::init()?;
    let counts = Multiset::shared(&world, Spread::everywhere().slots(64))?;
    let numbers = TypedMap::<[u8; 16], u64>::shared(&world, Spread::everywhere().slots(64))?;
    let next = Counter::shared(&world, 0)?;

    for line in TEXT.iter().skip(world.rank() as usize).step_by(world.ranks() as usize) {
        let words: Vec<&str> = line.split(' ').collect();
        counts.insert_many(&words)?;
        for word in words {
            // Of ranks that meet a word at the same time one gives it its number.
            if numbers.get(key(word))?.is_none() {
                numbers.insert(key(word), next.next()?)?;
            }
        }
    }
    world.sync()?;

    if world.rank() == 0 {
        let mut all: Vec<(Vec<u8>, u64)> = counts.iter()?.collect::<kumiki::Result<_>>()?;
        all.sort_by(|one, two| (two.1, &one.0).cmp(&(one.1, &two.0)));
        let mut given: Vec<u64> =
            all.iter().filter_map(|(word, _)| numbers.get(key_of(word)).ok().flatten()).collect();
        given.sort_unstable();
        given.dedup();
        println!("{} different words with {} different numbers", counts.len()?, given.len());
        for (word, count) in all.iter().take(5) {
            println!("{count} {}", String::from_utf8_lossy(word));
        }
    }
    world.finalize()
}

/// A word as a key: plain data of one length.
fn key(word: &str) -> [u8; 16] {
    key_of(word.as_bytes())
}

fn key_of(word: &[u8]) -> [u8; 16] {
    let mut key = [0; 16];
    key[..word.len()].copy_from_slice(word);
    key
}
