//! How much fits into the memory of this machine: what does not is refused before it is begun.

use std::sync::OnceLock;

/// About what a node takes, its router, its interfaces and its rank included.
pub(crate) const NODE_BYTES: u64 = 2048;
/// About what a message takes that is not complete.
pub(crate) const MESSAGE_BYTES: u64 = 320;

/// Bytes that are free when it is asked for the first time; very many where the system does not tell.
pub(crate) fn available_bytes() -> u64 {
    static AVAILABLE: OnceLock<u64> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kibibytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kibibytes.map_or(u64::MAX, |kibibytes| kibibytes * 1024)
    })
}

/// Refuses what takes more than there is: `what` takes so many bytes.
pub(crate) fn check(what: &str, bytes: u64) -> Result<(), String> {
    let available = available_bytes();
    if bytes <= available {
        return Ok(());
    }
    let gibibytes = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    Err(format!(
        "{what} take about {:.0} GiB of memory, and {:.1} GiB are free",
        gibibytes(bytes),
        gibibytes(available)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(check("5 nodes", 5 * NODE_BYTES), Ok(()));
        if available_bytes() < u64::MAX {
            assert!(check("many nodes", u64::MAX)
                .unwrap_err()
                .starts_with("many nodes take about 17179869184 GiB"));
        }
    }
}
