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
}
