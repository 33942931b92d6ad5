//! Axes: where a value lies, where the marks are, and how numbers are written.

/// How values are spread over an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    /// From 0, evenly.
    Linear,
    /// By orders of magnitude.
    Logarithmic,
}

/// What the numbers of an axis are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Bytes, in powers of 1024.
    Bytes,
    /// Numbers with a unit behind them.
    Number(&'static str),
}

impl Unit {
    /// A value as people write it.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Unit::Bytes => bytes_text(value),
            Unit::Number("") => number_text(value),
            Unit::Number(unit) => format!("{} {unit}", number_text(value)),
        }
    }

    fn base(self) -> f64 {
        match self {
            Unit::Bytes => 4.0,
            Unit::Number(_) => 10.0,
        }
    }
}

/// An axis from the values that it must show.
#[derive(Debug)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    pub(super) marks: Vec<f64>,
}

impl Axis {
    pub(super) fn new(scale: Scale, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, 0f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            low = low.min(value);
            high = high.max(value);
        }
        if high == 0.0 {
            (low, high) = (1.0, 1.0);
        }
        match scale {
            Scale::Linear => Axis::linear(unit, high),
            Scale::Logarithmic => Axis::logarithmic(unit, low, high),
        }
    }

    fn linear(unit: Unit, high: f64) -> Axis {
        let step = match unit {
            Unit::Bytes => 2f64.powf((high / 6.0).log2().ceil()),
            Unit::Number(_) => {
                let decade = 10f64.powf((high / 6.0).log10().floor());
                let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| high / (f * decade) <= 6.0);
                factor.unwrap_or(10.0) * decade
            }
        };
        let count = (high / step).ceil().max(1.0);
        let marks = (0..=count as u32).map(|index| index as f64 * step).collect();
        Axis { scale: Scale::Linear, low: 0.0, high: count * step, marks }
    }

    fn logarithmic(unit: Unit, low: f64, high: f64) -> Axis {
        let base = unit.base();
        let first = (low.ln() / base.ln() - 0.02).floor() as i32;
        let last = ((high.ln() / base.ln() + 0.02).ceil() as i32).max(first + 1);
        let stride = ((last - first) as f64 / 9.0).ceil().max(1.0) as usize;
        let marks = (first..=last).step_by(stride).map(|power| base.powi(power)).collect();
        Axis { scale: Scale::Logarithmic, low: base.powi(first), high: base.powi(last), marks }
    }

    /// Where a value lies, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic if value <= 0.0 => 0.0,
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        place.clamp(0.0, 1.0)
    }
}

/// Bytes as people write them: `96 KiB`.
pub(crate) fn bytes_text(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut index = 0;
    while value.abs() >= 1024.0 && index + 1 < units.len() {
        value /= 1024.0;
        index += 1;
    }
    format!("{} {}", number_text(value), units[index])
}

/// Three digits that matter, and no zeroes behind the point.
fn number_text(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v => (2.0 - v.log10().floor()).min(9.0) as usize,
    };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    grouped(&text)
}

/// Commas between thousands.
fn grouped(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let digits: Vec<char> = whole.chars().collect();
    let mut grouped = String::new();
    for (index, digit) in digits.iter().enumerate() {
        if index > 0 && digits[index - 1].is_ascii_digit() && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(*digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        let texts = [(0.0, "0"), (0.0123, "0.0123"), (1.5, "1.5"), (12.34, "12.3"), (1234567.0, "1,234,567")];
        for (value, text) in texts {
            assert_eq!(Unit::Number("").text(value), text);
        }
        let texts = [(0.0, "0 B"), (512.0, "512 B"), (98304.0, "96 KiB"), (2202009.6, "2.1 MiB")];
        for (value, text) in texts {
            assert_eq!(Unit::Bytes.text(value), text);
        }
    }

    #[test]
    fn every_value_lies_on_its_axis_in_order() {
        let values = [0.012, 0.2, 3.0, 900.0];
        for scale in [Scale::Linear, Scale::Logarithmic] {
            for unit in [Unit::Bytes, Unit::Number("µs")] {
                let axis = Axis::new(scale, unit, values.iter().copied());
                assert!((2..=10).contains(&axis.marks.len()), "{axis:?}");
                let places: Vec<f64> = values.iter().map(|&value| axis.place(value)).collect();
                assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
                assert!(places.iter().all(|place| (0.0..=1.0).contains(place)), "{places:?}");
            }
        }
        assert!(!Axis::new(Scale::Linear, Unit::Bytes, [].into_iter()).marks.is_empty());
    }
}
