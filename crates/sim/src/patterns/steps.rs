//! Which steps of a schedule are run. A full all-to-all of thousands of ranks takes hours; a sample of its steps stands for it, if the sample does
//! not keep time with the dimensions of the network.

use std::fmt;
use std::str::FromStr;

use crate::random::Random;

/// A choice of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steps {
    /// All of them; of a pattern whose step can be repeated, one.
    #[default]
    All,
    /// So many, spread over the schedule with a prime stride; of a pattern whose step can be repeated, so many times; of one whose steps
    /// depend on each other, the first so many.
    Some(u32),
    /// So many, drawn by a seed.
    Sample {
        /// How many.
        count: u32,
        /// By which seed.
        seed: u64,
    },
}

impl Steps {
    /// How many are run of a schedule of so many.
    pub(crate) fn count(self, all: u32) -> u32 {
        match self {
            Steps::All => all,
            Steps::Some(count) | Steps::Sample { count, .. } => count,
        }
    }

    /// The steps of a schedule that are run, in rising order.
    pub(crate) fn choose(self, total: u32) -> Vec<u32> {
        match self {
            Steps::Some(count) if count < total => {
                let stride = prime_up_to(total / count.max(1));
                (0..count).map(|index| stride / 2 + index * stride).collect()
            }
            Steps::Sample { count, seed } if count < total => {
                let mut drawn = Random::of(seed, 0x57e9, u64::from(total)).permutation(total);
                drawn.truncate(count as usize);
                drawn.sort_unstable();
                drawn
            }
            _ => (0..total).collect(),
        }
    }
}

/// The largest prime that is not greater than a number; 1 if there is none.
fn prime_up_to(number: u32) -> u32 {
    let is_prime = |n: u32| n > 1 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    (1..=number.max(1)).rev().find(|&n| is_prime(n)).unwrap_or(1)
}

impl FromStr for Steps {
    type Err = String;

    /// `all`, a number, `sample:N` or `sample:N:SEED`.
    fn from_str(text: &str) -> Result<Steps, String> {
        let wrong = || format!("'{text}' says no steps: expected all, a number, sample:N or sample:N:SEED");
        let count = |text: &str| text.parse().ok().filter(|&count: &u32| count > 0).ok_or_else(wrong);
        match text.split(':').collect::<Vec<_>>()[..] {
            ["all"] => Ok(Steps::All),
            ["sample", number] => Ok(Steps::Sample { count: count(number)?, seed: 1 }),
            ["sample", number, seed] => {
                Ok(Steps::Sample { count: count(number)?, seed: seed.parse().map_err(|_| wrong())? })
            }
            [number] => Ok(Steps::Some(count(number)?)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Steps::All => f.write_str("all"),
            Steps::Some(count) => count.fmt(f),
            Steps::Sample { count, seed } => write!(f, "sample:{count}:{seed}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_distinct_steps_of_the_schedule() {
        for steps in [Steps::Some(17), Steps::Sample { count: 17, seed: 3 }] {
            let chosen = steps.choose(8191);
            assert_eq!(chosen.len(), 17);
            assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]) && chosen[16] < 8191);
        }
        assert_eq!(Steps::Some(9).choose(5), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn steps_are_read_and_written() {
        for text in ["all", "17", "sample:17:5"] {
            assert_eq!(text.parse::<Steps>().unwrap().to_string(), text);
        }
        assert!("0".parse::<Steps>().is_err() && "sample".parse::<Steps>().is_err());
    }
}
