//! Simulated time and bandwidth. Both are integers, so that a result does not depend on the order of additions, on the compiler or on the
//! machine: time counts picoseconds (64 bits hold 213 days), bandwidth counts bytes a second.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

/// A moment of the simulation, or the time between two of them, in picoseconds.
///
/// ```
/// use kumiki_sim::Time;
/// let hop: Time = "100ns".parse().unwrap();
/// assert_eq!(hop * 3, Time::from_ps(300_000));
/// assert_eq!((hop * 3).to_string(), "300 ns");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of a simulation; no time at all.
    pub const ZERO: Time = Time(0);
    /// Later than everything.
    pub const MAX: Time = Time(u64::MAX);

    /// So many picoseconds.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// So many nanoseconds.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * 1_000)
    }

    /// So many microseconds.
    pub const fn from_us(us: u64) -> Time {
        Time(us * 1_000_000)
    }

    /// The nearest picosecond to a number of seconds; negative and undefined numbers give zero, huge ones the latest time.
    pub fn from_seconds(seconds: f64) -> Time {
        Time((seconds * 1e12).round() as u64)
    }

    /// In picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// In nanoseconds, for people.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// In microseconds, for people.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In seconds, for people.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The time from `earlier` to this one, zero when `earlier` is later.
    pub const fn since(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, times: u64) -> Time {
        Time(self.0 * times)
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(all: I) -> Time {
        all.fold(Time::ZERO, Add::add)
    }
}

impl fmt::Display for Time {
    /// In the unit that leaves one to three digits before the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ps", self.0),
            1_000..1_000_000 => (ps / 1e3, "ns"),
            1_000_000..1_000_000_000 => (ps / 1e6, "µs"),
            1_000_000_000..1_000_000_000_000 => (ps / 1e9, "ms"),
            _ => (ps / 1e12, "s"),
        };
        let text = format!("{value:.3}");
        write!(f, "{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for Time {
    type Err = String;

    /// A number and a unit: `100ns`, `1.5us`, `2 ms`, `250ps`, `1s`; a bare `0` needs no unit.
    fn from_str(text: &str) -> Result<Time, String> {
        let (number, unit) = split_unit(text)?;
        let scale = match unit {
            "ps" => 1e-12,
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "" if number == 0.0 => 1.0,
            _ => return Err(format!("'{text}' is no time: expected a number and ps, ns, us, ms or s")),
        };
        Ok(Time::from_seconds(number * scale))
    }
}

/// Bytes a second.
///
/// ```
/// use kumiki_sim::{Bandwidth, Time};
/// let link: Bandwidth = "5GB/s".parse().unwrap();
/// assert_eq!(link.time_of(2048), Time::from_ps(409_600));
/// assert_eq!("100Gbit/s".parse::<Bandwidth>().unwrap().to_string(), "12.5 GB/s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// So many bytes a second; zero would never end and becomes one.
    pub const fn from_bytes_per_second(bytes: u64) -> Bandwidth {
        Bandwidth(if bytes == 0 { 1 } else { bytes })
    }

    /// In bytes a second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// How long so many bytes take, to the nearest picosecond.
    pub fn time_of(self, bytes: u64) -> Time {
        let ps = match bytes.checked_mul(1_000_000_000_000) {
            Some(scaled) => (scaled + self.0 / 2) / self.0,
            None => {
                let ps =
                    (u128::from(bytes) * 1_000_000_000_000 + u128::from(self.0 / 2)) / u128::from(self.0);
                u64::try_from(ps).unwrap_or(u64::MAX)
            }
        };
        Time(ps)
    }

    /// This bandwidth times a factor.
    pub fn scaled(self, factor: f64) -> Bandwidth {
        Bandwidth::from_bytes_per_second((self.0 as f64 * factor).round() as u64)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000_000 => (bytes / 1e3, "kB/s"),
            1_000_000..1_000_000_000 => (bytes / 1e6, "MB/s"),
            _ => (bytes / 1e9, "GB/s"),
        };
        let text = format!("{value:.3}");
        write!(f, "{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for Bandwidth {
    type Err = String;

    /// A number and a unit: `5GB/s`, `800MB/s`, `100Gbit/s`, `1GiB/s`; the `/s` may be left out.
    fn from_str(text: &str) -> Result<Bandwidth, String> {
        let (number, unit) = split_unit(text)?;
        let scale = match unit.trim_end_matches("/s") {
            "B" => 1.0,
            "kB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "TB" => 1e12,
            "MiB" => 1_048_576.0,
            "GiB" => 1_073_741_824.0,
            "Mbit" => 1e6 / 8.0,
            "Gbit" => 1e9 / 8.0,
            "Tbit" => 1e12 / 8.0,
            _ => return Err(format!("'{text}' is no bandwidth: expected a number and B/s, kB/s, MB/s, GB/s, MiB/s, GiB/s, Mbit/s or Gbit/s")),
        };
        let bytes = number * scale;
        if bytes < 1.0 {
            return Err(format!("'{text}' is less than one byte a second"));
        }
        Ok(Bandwidth(bytes.round() as u64))
    }
}

/// A number that is not negative, and what follows it.
fn split_unit(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let number = text[..end].replace('_', "");
    let number: f64 = number.parse().map_err(|_| format!("'{text}' does not begin with a number"))?;
    Ok((number, text[end..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_its_exact_time() {
        let link = Bandwidth::from_bytes_per_second(5_000_000_000);
        assert_eq!(link.time_of(65_536), Time::from_ps(13_107_200));
        assert_eq!(link.time_of(1 << 40), Time::from_ps((1 << 40) * 200));
        assert_eq!(link.time_of(u64::MAX), Time::MAX);
    }

    #[test]
    fn times_and_bandwidths_are_read_and_written() {
        assert_eq!("1.5us".parse(), Ok(Time::from_ns(1_500)));
        assert_eq!("0".parse(), Ok(Time::ZERO));
        assert_eq!(Time::from_ns(1_500).to_string(), "1.5 µs");
        assert_eq!("12.5 GB/s".parse::<Bandwidth>(), "100Gbit/s".parse());
        assert!("5".parse::<Time>().unwrap_err().contains("expected a number and ps"));
        assert!("fast".parse::<Bandwidth>().is_err());
    }
}
