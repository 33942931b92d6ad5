//! How to wait for a transport that has nothing to sleep on: by short naps, between which it is polled.

use kumiki_net::contract::Sleeper;
use kumiki_net::os::futex;
use kumiki_net::Result;
use std::sync::atomic::{AtomicU32, Ordering};

/// How long a nap is. What comes waits so long at most; and so often a rank that only waits is awake for a moment.
const NAP_US: u64 = 100;

/// Sleeps for a nap, whatever it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Naps(AtomicU32);

impl Sleeper for Naps {
    fn sleep(&self, timeout_ms: i32) -> Result<()> {
        if self.0.swap(0, Ordering::SeqCst) == 0 && timeout_ms > 0 {
            futex::wait_us(&self.0, 0, NAP_US);
            self.0.store(0, Ordering::SeqCst);
        }
        Ok(())
    }

    fn wake(&self) {
        self.0.store(1, Ordering::SeqCst);
        futex::wake_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nap_ends_by_itself_or_was_ended_before() {
        let naps = Naps::default();
        // It would end in a week otherwise.
        naps.sleep(i32::MAX).unwrap();
        naps.wake();
        naps.sleep(i32::MAX).unwrap();
        assert_eq!(naps.0.load(Ordering::SeqCst), 0);
    }
}
