//! How much CPU time a simulation takes, which other work on the machine does not change.

use std::time::Instant;

/// Counts the CPU time of the thread that made it; where the system does not tell, the time of day.
pub(crate) struct CpuClock {
    cpu_ns: Option<u64>,
    wall: Instant,
}

impl CpuClock {
    /// Begins to count.
    pub(crate) fn start() -> CpuClock {
        CpuClock { cpu_ns: thread_cpu_ns(), wall: Instant::now() }
    }

    /// Seconds since the start. Asked on the same thread.
    pub(crate) fn seconds(&self) -> f64 {
        match (self.cpu_ns, thread_cpu_ns()) {
            (Some(start), Some(now)) => now.saturating_sub(start) as f64 / 1e9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

/// The first number of the scheduler's account of this thread.
fn thread_cpu_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let clock = CpuClock::start();
        let mut sum = 0u64;
        while clock.wall.elapsed().as_millis() < 20 {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        assert!(clock.seconds() > 0.0, "{sum}");
    }
}
