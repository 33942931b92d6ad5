//! Medians and quartiles.

/// Samples of one contender for one metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Samples(Vec<f64>);

impl Samples {
    pub(super) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The median; `None` without samples.
    pub(super) fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// The distance between the quartiles, in per cent of the median.
    pub(super) fn spread(&self) -> Option<f64> {
        let (low, middle, high) = (self.quantile(0.25)?, self.median()?, self.quantile(0.75)?);
        (middle != 0.0).then(|| (high - low) / middle.abs() * 100.0)
    }

    /// How many times as much as others it is, as the median of what it is in each round, in which all had the same machine; of the medians, if some rounds are missing.
    pub(super) fn times(&self, others: &Samples) -> Option<f64> {
        let ratio = |above: f64, below: f64| (below != 0.0).then_some(above / below);
        match self.0.len() == others.0.len() {
            true => {
                // A round in which both are nothing says nothing; beside nothing, everything is endlessly more.
                let rounds =
                    self.0.iter().zip(&others.0).filter(|(one, other)| **one != 0.0 || **other != 0.0);
                let times = median(rounds.map(|(one, other)| ratio(*one, *other).unwrap_or(f64::INFINITY)));
                times.filter(|times| times.is_finite())
            }
            false => ratio(self.median()?, others.median()?),
        }
    }

    /// The quantile, between two samples if need be.
    fn quantile(&self, part: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = part * sorted.len().checked_sub(1)? as f64;
        let (below, above) = (at.floor() as usize, at.ceil() as usize);
        Some(sorted[below] + (sorted[above] - sorted[below]) * (at - at.floor()))
    }
}

/// The median of some values.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Samples(values.into_iter().collect()).median()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle_and_the_spread_is_relative() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
        assert_eq!(Samples(vec![100.0; 4]).spread(), Some(0.0));
        assert_eq!(Samples(vec![90.0, 100.0, 110.0]).spread(), Some(10.0));
    }

    #[test]
    fn a_machine_that_becomes_slow_in_the_middle_of_a_round_does_not_make_one_of_two_equals_slower() {
        let [one, other] = [vec![7.0, 7.0, 12.0, 12.0, 12.0], vec![7.0, 7.0, 7.0, 12.0, 12.0]].map(Samples);
        assert_eq!((one.times(&other), other.times(&one)), (Some(1.0), Some(1.0)));
        assert_eq!((one.median(), other.median()), (Some(12.0), Some(7.0)));
        assert_eq!(one.times(&Samples(vec![6.0])), Some(2.0));
        assert_eq!((one.times(&Samples::default()), Samples::default().times(&one)), (None, None));
        assert_eq!(Samples(vec![1.0]).times(&Samples(vec![0.0])), None);
        // One round of nothing hides nothing.
        let [one, other] = [vec![4.0, 0.0, 6.0, 4.0], vec![2.0, 0.0, 0.0, 2.0]].map(Samples);
        assert_eq!(one.times(&other), Some(2.0));
    }
}
